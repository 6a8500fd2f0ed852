/* limit_live.c: one run: opens the runtime, runs the program, samples, makes figures.
 *
 *   build    what is alive all the time; with a limit below it the limiter works already here
 *   measure  from `begin` to `end`: a look every TICK_NS, counters at both ends
 *   end      the tasks stop
 *
 * What the limit covers is summed up from the runtime's own counters: heap pages in use or free and
 * not given back, its own data, stacks. Shares of CPU time are of what the procs could have had
 * (procs x time) and of what the process used. On a machine that is busy with other things these
 * differ (LIMIT_CPU_USED), and the second is the one that the limiter bounds.
 *
 * Scenario `hard` has a second runtime in the process, opened before and closed after.
 */
#include "sim/limit_program.h"
#include "sim/memory.h"
#include "sim/sim.h"
#include <errno.h>
#include <string.h>
#include <time.h>

#define TICK_NS   INT64_C(20000000)
#define SECOND_NS INT64_C(1000000000)
#define KEPT      256 /* cycles that hg_stats_cycles remembers */
#define AFTER     0.6 /* of the run: LIMIT_AFTER_OPS counts from there */

struct sample {
    int64_t at, gc_ns, sweep_ns, cpu_ns, alloc, ops, covered;
};

struct run {
    struct limit_live *live;
    struct limit_shared *shared;
    struct sample *sample;
    int samples, room;
    hg_stats from, to;
    double overhead; /* the least that was seen, bytes */
    bool interrupted;
};

static int64_t count(const _Atomic int64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static int64_t process_cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * SECOND_NS + t.tv_nsec;
}

static int64_t gc_cpu(const hg_stats *st)
{
    return st->background_ns + st->idle_ns + st->assist_ns + st->scan_ns;
}

/* ---- looks ---- */

/* Bytes beside live heap and stacks. Garbage that is not swept yet counts here as well, hence the
 * least is taken. */
static void note_overhead(struct run *r, const hg_stats *st)
{
    double used = (double)st->heap_mapped_bytes - (double)st->heap_free_bytes;
    double waste = fmax(used - (double)st->heap_live_bytes, 0) + (double)st->meta_bytes;
    r->overhead = r->samples == 0 ? waste : fmin(r->overhead, waste);
}

static void look(struct run *r, hg_stats *st)
{
    st->size = sizeof *st;
    hg_stats_read(r->live->rt, st);
    note_overhead(r, st);
    struct sample s = {.at = hg_now(),
                       .gc_ns = gc_cpu(st),
                       .sweep_ns = st->sweep_ns,
                       .alloc = (int64_t)st->alloc_bytes,
                       .cpu_ns = process_cpu(),
                       .ops = limit_program_ops(r->live),
                       .covered =
                           (int64_t)(st->heap_mapped_bytes + st->meta_bytes + st->stack_bytes)};
    atomic_store_explicit(&r->shared->operations, s.ops, memory_order_relaxed);
    if (r->samples == r->room) {
        r->room = 2 * r->room + 256;
        r->sample = sim_grow(r->sample, (size_t)r->room, sizeof *r->sample);
    }
    r->sample[r->samples++] = s;
}

static void measure(struct run *r)
{
    struct limit_live *l = r->live;
    hg_stats st;
    look(r, &r->from);
    while (hg_now() < l->end && !r->interrupted) {
        hg_sleep(TICK_NS);
        look(r, &st);
        r->interrupted = sim_interrupts(NULL) > 0;
    }
    look(r, &r->to);
}

/* Allocation of mutators in what CPU time they had. */
struct rate {
    double bytes, ns;
};

static void add_rate(struct rate *r, const struct sample *a, const struct sample *b)
{
    r->bytes += (double)(b->alloc - a->alloc);
    r->ns += (double)(b->cpu_ns - a->cpu_ns) - (double)(b->gc_ns - a->gc_ns) -
             (double)(b->sweep_ns - a->sweep_ns);
}

/* Whether all of the time from a to b, or nothing of it, is in one of n cycles: 1 or 0; else -1. */
static int in_cycle(const struct sample *a, const struct sample *b, const hg_cycle *cycle, int n)
{
    int in = 0;
    for (int i = 0; i < n && in == 0; i++) {
        if (cycle[i].start_ns <= a->at && b->at <= cycle[i].end_ns)
            in = 1;
        else if (cycle[i].start_ns < b->at && a->at < cycle[i].end_ns)
            in = -1;
    }
    return in;
}

/* While a cycle runs a program is slower: its caches lose what marking reads, and stores tell the
 * collector. Where no look fell into a cycle, both rates are the one of all the run. */
static void know_rates(const struct run *r, const hg_cycle *cycle, int n, struct limit_program *p)
{
    struct rate calm = {0, 0}, marking = {0, 0}, all = {0, 0};
    for (int i = 1; i < r->samples; i++) {
        int in = in_cycle(&r->sample[i - 1], &r->sample[i], cycle, n);
        if (in >= 0)
            add_rate(in == 1 ? &marking : &calm, &r->sample[i - 1], &r->sample[i]);
        add_rate(&all, &r->sample[i - 1], &r->sample[i]);
    }
    p->calm_rate = calm.ns > 0 ? calm.bytes / calm.ns : all.bytes / all.ns;
    p->rate = marking.ns > 0 ? marking.bytes / marking.ns : all.bytes / all.ns;
}

/* Sums over the cycles of a run. */
struct cycle_sums {
    int n;
    double scanned, heap, stack, gc_ns; /* bytes scanned: all, of the heap, of stacks */
    double live;                        /* bytes found live, without what was allocated meanwhile */
    double at_end, late, quiet_ns;      /* late: bytes allocated between trigger and start */
};

static struct cycle_sums add_up(const struct run *r, const hg_cycle *cycle, int n)
{
    struct cycle_sums s = {0};
    for (; s.n < n && cycle[s.n].start_ns >= r->live->begin; s.n++) {
        const hg_cycle *c = &cycle[s.n];
        s.scanned += (double)(c->scanned_heap + c->scanned_stack + c->scanned_roots);
        s.heap += (double)c->scanned_heap;
        s.stack += (double)c->scanned_stack;
        s.gc_ns += (double)(c->background_ns + c->idle_ns + c->assist_ns);
        s.live += (double)c->heap_marked - ((double)c->heap_at_end - (double)c->heap_at_start);
        s.at_end += (double)c->heap_at_end;
        s.late += fmax((double)c->heap_at_start - (double)c->trigger, 0);
        s.quiet_ns += (double)(c->mark_ns - c->start_ns);
    }
    return s;
}

/* What virtual time needs to know (struct limit_program). Without a cycle: not known. */
static void know_program(const struct run *r, struct limit_program *p)
{
    hg_cycle *cycle = sim_alloc(KEPT, sizeof *cycle);
    int n = hg_stats_cycles(r->live->rt, cycle, KEPT);
    struct cycle_sums s = add_up(r, cycle, n);
    p->procs = r->to.procs;
    p->overhead = r->overhead;
    know_rates(r, cycle, n, p);
    p->scan = fmin(s.heap / s.live, 1);
    p->speed = s.scanned / s.gc_ns;
    p->sweep = (double)(r->to.sweep_ns - r->from.sweep_ns) / s.at_end;
    p->late_ns = s.late / (s.n * p->calm_rate * p->procs);
    p->quiet_ns = s.quiet_ns / s.n;
    p->stack = s.stack / s.n;
    free(cycle);
}

static int main_task(void *arg)
{
    struct run *r = arg;
    struct limit_live *l = r->live;
    hg_stats st = {.size = sizeof st};
    l->rt = hg_current();
    hg_stats_read(l->rt, &st);
    l->workers = st.procs;
    int err = limit_program_build(l);
    l->begin = hg_now();
    l->end = l->begin + (int64_t)(l->opt->duration_s * 1e9);
    if (err == 0)
        err = limit_program_start(l);
    if (err == 0) {
        atomic_store_explicit(&r->shared->began_at, l->begin, memory_order_relaxed);
        measure(r);
        know_program(r, &r->shared->result.program);
    }
    atomic_store_explicit(&l->stop, true, memory_order_relaxed);
    hg_waitgroup_wait(&l->done, HG_FOREVER);
    hg_root_remove(l->rt, &l->cache);
    hg_root_remove(l->rt, &l->alive);
    return err;
}

/* ---- figures ---- */

/* Largest share of GC in a window of a second; NaN: there was none. */
static double worst_second(const struct run *r)
{
    double worst = NAN;
    for (int from = 0, to = 0; to < r->samples; to++) {
        while (r->sample[to].at - r->sample[from + 1].at >= SECOND_NS)
            from++;
        double ns = (double)(r->sample[to].at - r->sample[from].at) * r->to.procs;
        if (r->sample[to].at - r->sample[from].at < SECOND_NS)
            continue;
        double share = (double)(r->sample[to].gc_ns - r->sample[from].gc_ns) / ns;
        worst = fmax(worst, share);
    }
    return worst;
}

static double ops_per_cpu(const struct sample *a, const struct sample *b)
{
    return (double)(b->ops - a->ops) * 1e9 / (double)(b->cpu_ns - a->cpu_ns);
}

/* The last AFTER of the run. */
static double ops_after(const struct run *r)
{
    const struct sample *last = &r->sample[r->samples - 1];
    int i = 0;
    while (i + 2 < r->samples && (double)(r->sample[i].at - r->sample[0].at) <
                                     AFTER * (double)(last->at - r->sample[0].at))
        i++;
    return ops_per_cpu(&r->sample[i], last);
}

static double peak(const struct run *r)
{
    int64_t most = 0;
    for (int i = 0; i < r->samples; i++)
        most = r->sample[i].covered > most ? r->sample[i].covered : most;
    return (double)most;
}

static void make_figures(const struct run *r, double *f)
{
    const struct limit_live *l = r->live;
    const struct sample *a = &r->sample[0], *b = &r->sample[r->samples - 1];
    double wall = (double)(b->at - a->at), there = wall * r->to.procs;
    double gc = (double)(b->gc_ns - a->gc_ns), cpu = (double)(b->cpu_ns - a->cpu_ns);
    for (int i = 0; i < LIMIT_FIGURES; i++)
        f[i] = NAN;
    f[LIMIT_SECONDS] = wall / 1e9;
    f[LIMIT_GC_SHARE] = gc / there;
    f[LIMIT_GC_WORST] = worst_second(r);
    f[LIMIT_GC_USED] = gc / cpu;
    f[LIMIT_CPU_USED] = cpu / there;
    f[LIMIT_CYCLES] = (double)(r->to.cycles - r->from.cycles);
    f[LIMIT_OPS] = (double)(b->ops - a->ops);
    f[LIMIT_OPS_PER_CPU] = ops_per_cpu(a, b);
    f[LIMIT_AFTER_OPS] = ops_after(r);
    f[LIMIT_LIMITER_NS] = (double)(r->to.limiter_ns - r->from.limiter_ns);
    f[LIMIT_LIMITER_SHARE] = f[LIMIT_LIMITER_NS] / wall;
    f[LIMIT_PEAK] = peak(r);
    f[LIMIT_PEAK_OVER] = f[LIMIT_PEAK] / (double)l->opt->limit;
    f[LIMIT_PASSED] = (double)count(&l->passed);
    f[LIMIT_REFUSED] = (double)count(&l->refused);
    f[LIMIT_NO_MEMORY] = (double)count(&l->no_memory);
    f[LIMIT_LET_GO] = (double)count(&l->let_go);
    if (l->scenario->hard) {
        f[LIMIT_OTHER_OPS] = (double)count(&l->other_ops);
        f[LIMIT_OTHER_WAIT_NS] = (double)count(&l->other_wait_ns);
    }
}

/* ---- runtimes ---- */

static void open_options(hg_options *o, struct limit_live *l, bool limited)
{
    const struct limit_options *opt = l->opt;
    hg_options_init(o, sizeof *o);
    o->procs = opt->procs;
    o->pacer = opt->policy;
    if (limited) {
        o->memory_limit = opt->limit;
        o->hard_limit = l->scenario->hard;
    }
    o->limit_passed = limit_on_passed;
    o->out_of_memory = limit_on_no_memory;
    o->user = l;
}

static int open_other(struct limit_live *l, hg_runtime **other)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = 1;
    o.reserve_bytes = (size_t)1 << 30;
    int err = hg_runtime_open(&o, other);
    return err != 0 ? err : hg_post(*other, limit_other_task, l);
}

/* The task in it has been told to stop. */
static int close_other(struct limit_live *l, hg_runtime *other)
{
    int err;
    atomic_store_explicit(&l->stop, true, memory_order_relaxed);
    while ((err = hg_runtime_close(other)) == -EBUSY)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return err;
}

int limit_run(const struct limit_options *opt, const struct limit_scenario *s, bool limited,
              struct limit_shared *shared)
{
    struct limit_live *l = aligned_alloc(64, sizeof *l);
    struct run r = {.live = l, .shared = shared};
    hg_runtime *other = NULL;
    hg_options o;
    int err = l == NULL ? -ENOMEM : 0;
    if (err == 0) {
        memset(l, 0, sizeof *l);
        l->opt = opt;
        l->scenario = s;
        open_options(&o, l, limited);
        if (s->hard)
            err = open_other(l, &other);
    }
    if (err == 0)
        err = hg_run(main_task, &r, &o);
    if (other != NULL) {
        int closed = close_other(l, other);
        err = err != 0 ? err : closed;
    }
    if (err == 0) {
        make_figures(&r, shared->result.figure);
        shared->result.limited = limited;
        shared->result.interrupted = r.interrupted;
        shared->result.done = true;
    } else {
        snprintf(shared->error, sizeof shared->error, "%s", strerror(-err));
    }
    free(r.sample);
    free(l);
    return err == 0 ? 0 : -1;
}
