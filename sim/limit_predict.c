/* limit_predict.c: a scenario in virtual time.
 *
 * The closed loop of `hedge-sim pacer` runs with the real goal and limiter, as many procs, and what
 * the run without a limit measured of the program: how fast it allocates, marking scans and
 * sweeping sweeps, its stacks, the runtime's overhead. It sees nothing of the run with a limit. The
 * live heap follows the scenario by virtual time. Progress is what the program allocates per CPU
 * time used, against the same without a limit: it allocates as much in each operation.
 *
 * Scenario `hard` is played as limit_program.c plays it: a cache grows with time; refused, that is
 * when two collections in a row have left no room, it stays as it is for LIMIT_REFUSED_NS; at the
 * next refusal the hook lets go of it, and it grows anew.
 */
#include "sim/limit.h"
#include "sim/pacer.h"
#include <string.h>

#define FILL_CYCLES 200 /* at most, until the live heap is there */
#define TRIES       2   /* collections before an allocation fails */

struct outcome {
    double gc, worst, limiter; /* shares of CPU time */
    double made;               /* by operations: bytes allocated per CPU-ns that was used */
    double peak;               /* over the limit */
};

/* A scenario that is being played. Times are CPU time of all procs. */
struct play {
    const struct limit_options *opt;
    const struct limit_scenario *s;
    double all, now; /* how long it lasts; the time */
    /* The cache of `hard`. */
    double from;       /* when it began to grow */
    double most;       /* bytes it may come to; infinite: it was not refused */
    double insists_at; /* when it will go without no longer */
    bool insists;      /* it does not */
    int full;          /* collections in a row that left no room */
};

static struct pacer_load load_of(const struct limit_program *p, double live)
{
    return (struct pacer_load){.calm_before = p->calm_rate,
                               .calm_after = p->calm_rate,
                               .change_at = 1,
                               .rate = p->rate,
                               .speed = p->speed,
                               .sweep = p->sweep,
                               .late_ns = p->late_ns,
                               .quiet_ns = p->quiet_ns,
                               .live = live,
                               .stack = p->stack,
                               .scan = p->scan,
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

/* Bytes that are alive now. */
static double alive(const struct play *p)
{
    double limit = (double)p->opt->limit, grown = (p->now - p->from) / (p->s->leak_until * p->all);
    if (!p->s->hard)
        return limit * limit_alive(p->s, p->now / p->all);
    return limit * p->s->live + fmin(limit * p->s->leak * fmin(grown, 1), p->most);
}

static void let_go(struct play *p)
{
    p->from = p->now;
    p->most = (double)INFINITY;
    p->insists = false;
}

/* A collection has ended. In `hard`: at its full size the program lets go of the cache by itself;
 * with a limit it does not come to that. */
static void after_collection(struct play *p, const struct pacer_cycle *c)
{
    double limit = (double)p->opt->limit;
    if (!p->s->hard)
        return;
    p->full = c->full ? p->full + 1 : 0;
    if (p->now - p->from >= p->s->leak_until * p->all && !isfinite(p->most)) {
        let_go(p);
    } else if (p->full >= TRIES && !isfinite(p->most)) {
        p->most = fmax(c->live - limit * p->s->live, 0);
        p->insists_at = p->now + LIMIT_REFUSED_NS * p->all / (p->opt->duration_s * 1e9);
    } else if (isfinite(p->most) && !p->insists && p->now >= p->insists_at) {
        p->insists = true;
        p->full = 0; /* what it waits for begins after now */
    } else if (p->full >= TRIES && p->insists) {
        let_go(p);
    }
}

static void begin(struct pacer_loop *l, struct pacer_load *load, const struct play *play,
                  const struct limit_program *p, int64_t limit)
{
    struct hg_pacer_config c = config_of(play->opt, limit);
    *load = load_of(p, alive(play));
    pacer_loop_init(l, &c);
    l->procs = p->procs;
    l->limit.overhead = p->overhead;
    l->limit.hard = play->s->hard && limit != INT64_MAX;
    for (int i = 0; i < FILL_CYCLES && l->heap < load->live; i++)
        pacer_loop_cycle(l, load);
}

/* Plays the scenario for the run's duration. limit: INT64_MAX: none. */
static struct outcome outcome_of(const struct limit_options *opt, const struct limit_scenario *s,
                                 const struct limit_program *p, int64_t limit)
{
    struct play play = {.opt = opt, .s = s, .all = opt->duration_s * 1e9 * p->procs};
    double used = 0, gc = 0, made = 0, limited, before;
    struct pacer_loop l;
    struct pacer_load load;
    play.most = (double)INFINITY;
    begin(&l, &load, &play, p, limit);
    limited = pacer_limit_forget(&l);
    before = load.live;
    while (play.now < play.all) {
        load.live = alive(&play);
        struct pacer_cycle done = pacer_loop_cycle(&l, &load);
        play.now += done.cpu_ns;
        used += done.cpu_ns - done.asleep_ns;
        gc += done.gc_ns;
        made += done.allocated - fmax(load.live - before, 0); /* what leaks is no operation */
        before = load.live;
        after_collection(&play, &done);
    }
    limited = ((double)l.pacer.limiter.limited_ns - limited) * p->procs;
    return (struct outcome){.gc = gc / play.now,
                            .worst =
                                limit != INT64_MAX ? pacer_limit_worst_second(&l) : (double)NAN,
                            .made = made / used,
                            .limiter = limited / play.now,
                            .peak = l.limit.peak / (double)opt->limit};
}

void limit_predict(const struct limit_options *opt, const struct limit_scenario *s,
                   const struct limit_program *p, struct limit_result *out)
{
    if (!(p->calm_rate > 0) || !(p->rate > 0) || !(p->speed > 0) || !(p->scan > 0) ||
        !(p->stack >= 0))
        return;
    struct outcome with = outcome_of(opt, s, p, opt->limit);
    struct outcome without = outcome_of(opt, s, p, INT64_MAX);
    out->figure[LIMIT_PREDICTED_GC] = with.gc;
    out->figure[LIMIT_PREDICTED_WORST] = with.worst;
    out->figure[LIMIT_PREDICTED_PROGRESS] = with.made / without.made;
    out->figure[LIMIT_PREDICTED_LIMITER] = with.limiter;
    out->figure[LIMIT_PREDICTED_PEAK] = with.peak;
}
