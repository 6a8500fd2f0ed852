/* limit_predict.c: a scenario in virtual time.
 *
 * The closed loop of `hedge-sim pacer` runs with the real goal and limiter and with what the run
 * without a limit measured of the program: how fast it allocates and marking scans, its stacks, the
 * runtime's overhead. It sees nothing of the run with a limit. The live heap follows the scenario
 * by virtual time. Progress is the share of CPU time that the program keeps, against the same
 * without a limit.
 *
 * Hard limits are not predicted: refusals, and the collections that each of them asks for, are not
 * in the loop.
 */
#include "sim/limit.h"
#include "sim/pacer.h"
#include <string.h>

#define FILL_CYCLES 200 /* at most, until the live heap is there */

struct outcome {
    double gc, worst, running, limiter; /* shares of CPU time; running: the program */
    double peak;                        /* over the limit */
};

static struct pacer_load load_of(const struct limit_program *p, double live)
{
    return (struct pacer_load){.calm_before = p->rate,
                               .calm_after = p->rate,
                               .change_at = 1,
                               .rate = p->rate,
                               .speed = p->speed,
                               .live = live,
                               .stack = p->stack,
                               .scan = 1,
                               .demand = 1,
                               .level = p->rate / p->speed};
}

static struct hg_pacer_config config_of(const struct limit_options *opt, int64_t limit)
{
    struct hg_pacer_config c = {.gc_percent = 100, .memory_limit = limit};
    char why[200];
    if (hg__policy_parse(opt->policy, &c.policy, why, sizeof why) != 0) /* it was checked */
        c.policy = hg__policy_standard(HG_POLICY_MAX);
    return c;
}

/* Runs the scenario for the run's duration. limit: INT64_MAX: none. */
static struct outcome outcome_of(const struct limit_options *opt, const struct limit_scenario *s,
                                 const struct limit_program *p, int64_t limit)
{
    struct hg_pacer_config c = config_of(opt, limit);
    double all = opt->duration_s * 1e9 * PACER_PROCS, cpu = 0, gc = 0, limited;
    struct pacer_load load = load_of(p, s->live * (double)opt->limit);
    struct pacer_loop l;
    pacer_loop_init(&l, &c);
    l.limit.overhead = p->overhead;
    for (int i = 0; i < FILL_CYCLES && l.heap < load.live; i++)
        pacer_loop_cycle(&l, &load);
    limited = pacer_limit_forget(&l);
    while (cpu < all) {
        load.live = limit_alive(s, cpu / all) * (double)opt->limit;
        struct pacer_cycle done = pacer_loop_cycle(&l, &load);
        cpu += done.cpu_ns;
        gc += done.gc_ns;
    }
    limited = ((double)l.pacer.limiter.limited_ns - limited) * PACER_PROCS;
    /* A task that waits leaves its CPU to marking: that time is in gc already. */
    return (struct outcome){.gc = gc / cpu,
                            .worst = limit != INT64_MAX ? pacer_limit_worst_second(&l.limit)
                                                        : (double)NAN,
                            .running = 1 - gc / cpu,
                            .limiter = limited / cpu,
                            .peak = l.limit.peak / (double)opt->limit};
}

void limit_predict(const struct limit_options *opt, const struct limit_scenario *s,
                   const struct limit_program *p, struct limit_result *out)
{
    if (s->hard || !(p->rate > 0) || !(p->speed > 0) || !(p->stack >= 0))
        return;
    struct outcome with = outcome_of(opt, s, p, opt->limit);
    struct outcome without = outcome_of(opt, s, p, INT64_MAX);
    out->figure[LIMIT_PREDICTED_GC] = with.gc;
    out->figure[LIMIT_PREDICTED_WORST] = with.worst;
    out->figure[LIMIT_PREDICTED_PROGRESS] = with.running / without.running;
    out->figure[LIMIT_PREDICTED_LIMITER] = with.limiter;
    out->figure[LIMIT_PREDICTED_PEAK] = with.peak;
}
