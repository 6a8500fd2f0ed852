/* trial_measure.c: what a run does besides its load: counters before and after, latencies, figures
 * (trial.h). In the child. */
#include "sim/hist.h"
#include "sim/memory.h"
#include "sim/sim.h"
#include "sim/trial.h"
#include <math.h>
#include <string.h>
#include <time.h>

static int64_t process_cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t gc_cpu(const hg_stats *st)
{
    return st->background_ns + st->idle_ns + st->assist_ns + st->sweep_ns + st->scan_ns;
}

void trial_begin(struct trial *t)
{
    hg_collect(hg_current());
    memset(t->latency, 0, sizeof *t->latency);
    t->from.size = sizeof t->from;
    hg_stats_read(hg_current(), &t->from);
    t->cpu = process_cpu();
    t->began_at = hg_now();
}

void trial_end(struct trial *t, int64_t operations)
{
    double n = (double)operations, wall = (double)(hg_now() - t->began_at);
    double cpu = (double)(process_cpu() - t->cpu);
    double *f = t->shared->result.figure;
    hg_stats to = {.size = sizeof to};
    hg_stats_read(hg_current(), &to);
    hg_histogram *all = sim_alloc(1, sizeof *all);
    sim_hist_collect(all, t->latency);
    f[TRIAL_SECONDS] = wall / 1e9;
    f[TRIAL_OPS] = n;
    f[TRIAL_NS] = wall / n;
    f[TRIAL_CPU_NS] = cpu / n;
    f[TRIAL_ALLOCS] = (double)(to.alloc_objects - t->from.alloc_objects) / n;
    f[TRIAL_BYTES] = (double)(to.alloc_bytes - t->from.alloc_bytes) / n;
    f[TRIAL_CYCLES] = (double)(to.cycles - t->from.cycles);
    f[TRIAL_GC_SHARE] = (double)(gc_cpu(&to) - gc_cpu(&t->from)) / cpu;
    f[TRIAL_P50] = (double)hg_histogram_quantile(all, 0.5);
    f[TRIAL_P99] = (double)hg_histogram_quantile(all, 0.99);
    f[TRIAL_P999] = (double)hg_histogram_quantile(all, 0.999);
    f[TRIAL_MAX] = (double)all->max;
    f[TRIAL_TASKS] = (double)(to.tasks_started - t->from.tasks_started) / n;
    f[TRIAL_EXTRA] = t->extra;
    for (int i = 0; operations == 0 && i < TRIAL_FIGURES; i++)
        f[i] = NAN;
    free(all);
    t->shared->result.interrupted = trial_stopped();
    t->shared->result.done = operations > 0;
}

void trial_add(struct trial *t, int64_t ns)
{
    sim_hist_add_shared(t->latency, ns);
    atomic_fetch_add_explicit(&t->shared->operations, 1, memory_order_relaxed);
}

bool trial_stopped(void) { return sim_interrupts(NULL) > 0; }

int trial_run(struct trial *t, int procs, int (*main_task)(void *), void *arg)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = procs;
    int err = hg_run(main_task, arg, &o);
    if (err != 0 && t->shared->error[0] == 0)
        snprintf(t->shared->error, sizeof t->shared->error, "%s",
                 err < 0 ? strerror(-err) : "its load failed");
    return err == 0 ? 0 : -1;
}
