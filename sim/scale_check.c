/* scale_check.c: predicted latency beside that of live kv runs, at 1 and 2 procs and three loads.
 *
 * The live run and the simulation have the same parameters; the loads are shares of what the
 * machine's profile says a proc can serve. A live run on a disturbed machine proves nothing: how
 * busy others were is printed beside it.
 */
#include "sim/kv_child.h"
#include "sim/memory.h"
#include "sim/scale.h"
#include "sim/sim.h"
#include "sim/text.h"
#include <math.h>
#include <string.h>

#define LIVE_SECONDS 4
#define LOADS        3
#define TOLERANCE    0.25

static const double load_at[LOADS] = {0.3, 0.5, 0.7};

struct checked {
    int procs;
    double rate;
    struct kv_result live, predicted;
};

static int stop_asked(void) { return sim_interrupts(NULL) > 0; }

static bool run_both(const struct scale_options *opt, struct checked *c)
{
    char why[240];
    struct scale_options here = *opt;
    struct kv_policy policy = {"max:5", false};
    here.load.procs = c->procs;
    here.load.rate = c->rate;
    here.load.duration_s = LIVE_SECONDS;
    here.load.warmup_s = 1;
    if (kv_child(&here.load, &policy, 1, NULL, NULL, &c->live, why, sizeof why) !=
        KV_CHILD_RESULT) {
        fprintf(stderr, "hedge-sim scale: --check: the live run failed: %s\n", why);
        return false;
    }
    scale_run(&here, &policy, 1, stop_asked, &c->predicted, NULL);
    return !c->predicted.interrupted;
}

/* Prints one quantile of both; returns whether they agree. */
static bool print_pair(const struct checked *c, enum kv_metric m)
{
    char a[32], b[32];
    double predicted = c->predicted.metric[m], live = c->live.metric[m];
    printf(" %8s %8s %5.2f", text_ms(predicted, a), text_ms(live, b), predicted / live);
    return fabs(predicted / live - 1) <= TOLERANCE;
}

static int print_line(const struct checked *c)
{
    char count[32];
    int agree = 0;
    printf("%5d %8s", c->procs, text_count(c->rate, count));
    agree += print_pair(c, KV_P50);
    agree += print_pair(c, KV_P99);
    print_pair(c, KV_P999);
    printf(
        "\n%8s cycles %.0f live %.0f; GC CPU %.1f live %.1f %%; others %.2f CPUs, stolen %.1f %%\n",
        "", c->predicted.metric[KV_CYCLES], c->live.metric[KV_CYCLES],
        100 * c->predicted.metric[KV_GC_CPU_SHARE], 100 * c->live.metric[KV_GC_CPU_SHARE],
        c->live.metric[KV_FOREIGN_CPU], 100 * c->live.metric[KV_STEAL_SHARE]);
    fflush(stdout);
    return agree;
}

int scale_check(const struct scale_options *opt)
{
    int agree = 0, done = 0, signal = 0;
    bool failed = false;
    printf("machine   %.69s\n", opt->machine.name);
    printf("latency, ms: predicted, live, their ratio; %d connections, policy max:5\n\n",
           opt->load.conns);
    printf("%5s %8s %17s %5s %17s %5s %17s %5s\n", "procs", "op/s", "p50", "", "p99", "", "p99.9",
           "");
    for (int procs = 1; procs <= 2 && !failed; procs++)
        for (int i = 0; i < LOADS && !failed && !stop_asked(); i++) {
            struct checked c = {.procs = procs};
            c.rate = round(load_at[i] * procs * 1e6 / scale_service_ns(opt)) * 1e3;
            failed = !run_both(opt, &c);
            if (!failed) {
                agree += print_line(&c);
                done++;
            }
            kv_result_free(&c.live);
            kv_result_free(&c.predicted);
        }
    printf("\n%d of %d p50 and p99 are within %.0f %%\n", agree, 2 * done, 100 * TOLERANCE);
    if (sim_interrupts(&signal) > 0)
        return SIM_SIGNAL + signal;
    return failed ? SIM_FAILED : SIM_OK;
}
