/* pacer_run.c: one run: many cycles of one policy under one source of loads, and its figures.
 *
 * Letting go is counted where the load has fallen for good: the cycles that begin with an estimate
 * of more than RELEASED times what is now right, until one does not or the load changes again.
 */
#include "sim/memory.h"
#include "sim/pacer.h"
#include <math.h>

#define GIB      1073741824.0
#define RELEASED 1.5

const struct pacer_figure_info pacer_figure_info[PACER_FIGURES] = {
    [PACER_LATE_SHARE] = {"late_cycles_share"},
    [PACER_ASSIST_CYCLES] = {"assist_cycles_share"},
    [PACER_ASSIST_SHARE] = {"assist_share"},
    [PACER_OVERSHOOT_P99] = {"overshoot_p99"},
    [PACER_PEAK_OVER_GOAL] = {"peak_over_goal"},
    [PACER_CYCLES_PER_GIB] = {"cycles_per_gib"},
    [PACER_HEAP_OVER_LIVE] = {"heap_over_live"},
    [PACER_GC_CPU_SHARE] = {"gc_cpu_share"},
    [PACER_WAIT_SHARE] = {"wait_share"},
    [PACER_RELEASE] = {"cycles_to_release"},
    [PACER_GC_WORST] = {"gc_cpu_share_worst_second"},
    [PACER_LIMITER_SHARE] = {"limiter_share"},
    [PACER_OVER_LIMIT] = {"peak_over_limit"},
    [PACER_LIMIT_PASSED] = {"limit_passed_per_100_cycles"},
    [PACER_EXTRA_CYCLES] = {"extra_cycles_per_gib"},
    [PACER_EXTRA_SHARE] = {"extra_cycles_share"},
    [PACER_EXTRA_HEAP] = {"extra_heap_share"},
};

struct totals {
    double late, with_assist, assist_ns, gc_ns, wait_ns, cpu_ns, allocated, peak, heap, live;
    int held, falls; /* cycles that began too early after the load fell, and how often it did */
    bool holds;
};

static void count(struct totals *t, const struct pacer_cycle *c, double over)
{
    t->late += c->heap_at_end > (double)c->plan.goal;
    t->with_assist += c->assist_ns > 0;
    t->assist_ns += c->assist_ns;
    t->gc_ns += c->gc_ns;
    t->wait_ns += c->wait_ns;
    t->cpu_ns += c->cpu_ns;
    t->allocated += c->allocated;
    t->heap += c->heap_at_end;
    t->live += c->live;
    t->peak = fmax(t->peak, over);
}

static void count_release(struct totals *t, const struct pacer_load *load,
                          const struct pacer_cycle *c)
{
    if (load->fell) {
        t->falls++;
        t->holds = true;
    }
    t->holds = t->holds && c->plan.cons_mark > RELEASED * load->level;
    t->held += t->holds;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The value that a hundredth of n is above. */
static double p99(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[(int)ceil(0.99 * n) - 1];
}

/* limited: how long the limiter had been on before the first cycle that counts. */
static void measure_limit(const struct pacer_loop *l, double limited, const struct totals *t,
                          int cycles, double figure[PACER_MEASURED])
{
    const struct pacer_limit *m = &l->limit;

    for (int f = PACER_GC_WORST; f <= PACER_LIMIT_PASSED; f++)
        figure[f] = (double)NAN;
    if (m->limit <= 0)
        return;
    figure[PACER_GC_WORST] = pacer_limit_worst_second(l);
    figure[PACER_LIMITER_SHARE] =
        ((double)l->pacer.limiter.limited_ns - limited) * l->procs / t->cpu_ns;
    figure[PACER_OVER_LIMIT] = m->peak / m->limit;
    figure[PACER_LIMIT_PASSED] = 100.0 * m->passed / cycles;
}

void pacer_run(const struct hg_pacer_config *c, struct pacer_source *source, int cycles,
               double figure[PACER_MEASURED])
{
    double *over = sim_alloc((size_t)cycles, sizeof *over);
    struct totals t = {0};
    struct pacer_loop l;
    double limited = 0;

    pacer_loop_init(&l, c);
    for (int i = -PACER_WARMUP; i < cycles; i++) {
        if (i == 0)
            limited = pacer_limit_forget(&l);
        struct pacer_load load;
        struct pacer_cycle done;

        source->next(source, &load);
        source->cycle++;
        done = pacer_loop_cycle(&l, &load);
        if (i < 0)
            continue;
        over[i] = done.heap_at_end / (double)done.plan.goal;
        count(&t, &done, over[i]);
        count_release(&t, &load, &done);
    }
    figure[PACER_LATE_SHARE] = t.late / cycles;
    figure[PACER_ASSIST_CYCLES] = t.with_assist / cycles;
    figure[PACER_ASSIST_SHARE] = t.assist_ns / t.gc_ns;
    figure[PACER_OVERSHOOT_P99] = fmax(p99(over, cycles) - 1, 0);
    figure[PACER_PEAK_OVER_GOAL] = t.peak;
    figure[PACER_CYCLES_PER_GIB] = cycles / (t.allocated / GIB);
    figure[PACER_HEAP_OVER_LIVE] = t.heap / t.live;
    figure[PACER_GC_CPU_SHARE] = t.gc_ns / t.cpu_ns;
    figure[PACER_WAIT_SHARE] = t.wait_ns / (t.cpu_ns - t.gc_ns);
    figure[PACER_RELEASE] = t.falls > 0 ? (double)t.held / t.falls : (double)NAN;
    measure_limit(&l, limited, &t, cycles, figure);
    free(over);
}
