/* replay_judge.c: what each policy would have expected of a recorded process.
 *
 * The pacer itself is fed with the cycles, one after the other, each with the ratio that was
 * measured; before a cycle its plan is looked at:
 *
 *   late    its estimate of c is below the one that the cycle then measures
 *   short   goal - trigger, its runway with all the bounds of pacer/trigger.c, is shorter than
 *           c W (1 - u) / u, what the program allocates while a quarter of the CPUs marks W
 *
 * This is a what-if with the recorded c and W: another trigger would have moved both a little, so
 * the figures compare policies and do not foretell a program. Forced cycles are left out: nobody
 * expects them.
 */
#include "sim/memory.h"
#include "sim/replay.h"
#include "sim/stats.h"
#include <math.h>
#include <string.h>

static double mark_ms(const struct sim_trace_cycle *c) { return c->wall_ns / 1e6; }
static double quiet_ms(const struct sim_trace_cycle *c) { return c->quiet_ns / 1e6; }
static double assist_ms(const struct sim_trace_cycle *c) { return c->assist_ns / 1e6; }
static double background_ms(const struct sim_trace_cycle *c) { return c->background_ns / 1e6; }
static double idle_ms(const struct sim_trace_cycle *c) { return c->idle_ns / 1e6; }
static double heap_start(const struct sim_trace_cycle *c) { return c->heap_start; }
static double heap_end(const struct sim_trace_cycle *c) { return c->heap_end; }
static double live(const struct sim_trace_cycle *c) { return c->live; }
static double goal(const struct sim_trace_cycle *c) { return c->goal; }
static double scan_heap(const struct sim_trace_cycle *c) { return c->scan_heap; }
static double scan_stack(const struct sim_trace_cycle *c) { return c->scan_stack; }
static double scan_globals(const struct sim_trace_cycle *c) { return c->scan_globals; }
static double procs(const struct sim_trace_cycle *c) { return c->procs; }
static double cons_mark(const struct sim_trace_cycle *c) { return c->cons_mark; }
static double estimate(const struct sim_trace_cycle *c) { return c->estimate; }

const struct replay_figure replay_figure[REPLAY_FIGURES] = {
    {"quiet_ms", quiet_ms},
    {"mark_ms", mark_ms},
    {"assist_ms", assist_ms},
    {"background_ms", background_ms},
    {"idle_ms", idle_ms},
    {"heap_at_start", heap_start},
    {"heap_at_end", heap_end},
    {"live", live},
    {"goal", goal},
    {"scanned_heap", scan_heap},
    {"scanned_stack", scan_stack},
    {"scanned_globals", scan_globals},
    {"procs", procs},
    {"cons_mark", cons_mark},
    {"recorded_estimate", estimate},
};

const char *replay_source_text(enum sim_trace_source s)
{
    switch (s) {
    case SIM_TRACE_PRINTED:
        return "printed";
    case SIM_TRACE_TIMES:
        return "bytes and times";
    case SIM_TRACE_SHARE:
        return "utilization";
    case SIM_TRACE_ASSUMED:
        return "assumed scan work";
    case SIM_TRACE_NONE:
        break;
    }
    return "none";
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double replay_quantile(const struct sim_trace_process *p,
                       double (*figure)(const struct sim_trace_cycle *), double q)
{
    double *v = sim_alloc(p->cycles, sizeof *v), result = NAN;
    size_t n = 0;
    for (size_t i = 0; i < p->cycles; i++)
        if (!p->cycle[i].forced && isfinite(figure(&p->cycle[i])))
            v[n++] = figure(&p->cycle[i]);
    qsort(v, n, sizeof *v, by_value);
    if (n > 0)
        result = v[(size_t)((double)(n - 1) * q + 0.5)];
    free(v);
    return result;
}

/* Sums over the judged cycles. */
struct tally {
    size_t judged, late, planned, missed;
    double worst, unused;
    double *ratio; /* estimate / measured */
    size_t ratios;
};

static void judge_estimate(struct tally *t, const struct sim_trace_cycle *c, double expected)
{
    t->judged++;
    t->late += expected < c->cons_mark;
    if (c->cons_mark > 0)
        t->ratio[t->ratios++] = expected / c->cons_mark;
}

/* Runways mean something where the live heap is known: their bounds hang on it. */
static void judge_runway(struct tally *t, const struct sim_trace_cycle *c,
                         const struct hg_pacer *pacer)
{
    double needed = c->cons_mark * sim_trace_work(c) * (1 - HG_PACER_U) / HG_PACER_U;
    double planned = (double)(pacer->plan.goal - pacer->plan.trigger);
    double distance = (double)(pacer->plan.goal - pacer->last.marked);
    if (isnan(c->live) || distance <= 0)
        return;
    t->planned++;
    if (needed > planned) {
        t->missed++;
        t->worst = fmax(t->worst, planned > 0 ? needed / planned - 1 : INFINITY);
    } else {
        t->unused += (planned - needed) / distance;
    }
}

static void settle(struct replay_verdict *v, struct tally *t)
{
    v->judged = t->judged;
    v->late_share = t->judged > 0 ? (double)t->late / (double)t->judged : NAN;
    v->short_share = t->planned > 0 ? (double)t->missed / (double)t->planned : NAN;
    v->short_worst = t->planned > 0 ? t->worst : NAN;
    v->unused = t->planned > 0 ? t->unused / (double)t->planned : NAN;
    v->early = sim_median(t->ratio, t->ratios);
    free(t->ratio);
}

static void judge_policy(struct replay_verdict *v, const struct sim_trace_process *p,
                         const struct replay_policy *policy, int gogc)
{
    struct hg_pacer_config config = {
        .gc_percent = gogc, .memory_limit = INT64_MAX, .policy = policy->spec};
    struct tally t = {.ratio = sim_alloc(p->cycles, sizeof(double))};
    struct hg_pacer pacer;
    struct hg_pacer_cycle measured;
    struct hg_pacer_memory memory = {0, 0};
    hg__pacer_init(&pacer, &config);
    v->policy = policy->name;
    for (size_t i = 0; i < p->cycles; i++) {
        const struct sim_trace_cycle *c = &p->cycle[i];
        v->estimate[i] = NAN;
        if (!sim_trace_measure(c, &measured))
            continue;
        if (pacer.cycles > 0) {
            v->estimate[i] = pacer.plan.cons_mark;
            judge_estimate(&t, c, pacer.plan.cons_mark);
            judge_runway(&t, c, &pacer);
        }
        hg__pacer_cycle_end(&pacer, &measured, &memory);
    }
    settle(v, &t);
}

/* What the recorded program itself had expected; its first cycle had nothing to go by. */
static void judge_recorded(struct replay_verdict *v, const struct sim_trace_process *p)
{
    struct tally t = {.ratio = sim_alloc(p->cycles, sizeof(double))};
    bool first = true;
    v->policy = "(recorded)";
    for (size_t i = 0; i < p->cycles; i++) {
        const struct sim_trace_cycle *c = &p->cycle[i];
        v->estimate[i] = NAN;
        if (!sim_trace_usable(c))
            continue;
        if (!first && isfinite(c->estimate)) {
            v->estimate[i] = c->estimate;
            judge_estimate(&t, c, c->estimate);
        }
        first = false;
    }
    settle(v, &t);
}

void replay_judge(const struct replay_options *opt, const struct sim_trace_process *p,
                  struct replay_result *r)
{
    memset(r, 0, sizeof *r);
    r->process = p;
    for (size_t i = 0; i < p->cycles; i++) {
        r->usable += sim_trace_usable(&p->cycle[i]);
        r->forced += p->cycle[i].forced;
        r->paced +=
            isfinite(sim_trace_work(&p->cycle[i])) && p->cycle[i].source != SIM_TRACE_ASSUMED;
    }
    r->gogc = opt->gogc > 0 ? opt->gogc : sim_trace_gogc(p);
    if (r->usable < 2)
        return;
    int gogc = isfinite(r->gogc) && r->gogc >= 1 && r->gogc < 1e6 ? (int)lround(r->gogc) : 100;
    for (int i = 0; i <= opt->policies; i++) {
        struct replay_verdict *v = &r->verdict[r->verdicts++];
        v->estimate = sim_alloc(p->cycles, sizeof *v->estimate);
        if (i < opt->policies)
            judge_policy(v, p, &opt->policy[i], gogc);
        else
            judge_recorded(v, p);
    }
}

void replay_result_free(struct replay_result *r)
{
    for (int i = 0; i < r->verdicts; i++)
        free(r->verdict[i].estimate);
}
