/* scale_calibrate.c: measures this machine with short live runs, each a child process, and makes a
 * profile of it (scale_machine.c). Under 30 s in all.
 *
 *   few, many   kv on one proc, 4,000 arrivals every 40 ms: CPU time of a request with few and with
 *               many connections. In bursts, as a proc that waits for a near timer spins, and its
 *               CPU time would say nothing; in long ones, as a sleep leaves cold
 *               caches behind
 *   large       the same with larger values: what an allocated byte costs
 *   fresh       without a collector: what memory costs that was never used before
 *   busy        60,000 arrivals a second, one by one: marking between requests, scans of stacks at
 *               switch-in
 *   all         that on each CPU at once: what marking costs while the others mark too
 *   alone       on one task, in this process: how often and for how long a busy CPU is stopped; how
 *               the work of requests varies; how late sleeps end; sweeping with nobody running
 */
#include "sim/kv_child.h"
#include "sim/kv_store.h"
#include "sim/memory.h"
#include "sim/outfile.h"
#include "sim/scale.h"
#include "sim/sim.h"
#include "sim/stats.h"
#include <errno.h>
#include <hedge/hedge.h>
#include <math.h>
#include <string.h>

#define MANY_CONNS   10000
#define RATE         100e3 /* arrivals per second */
#define BUSY_RATE    60e3  /* not in bursts */
#define BURST_US     40e3
#define PROCS_MOST   8
#define ALONE        100000 /* requests */
#define ALONE_CYCLES 6
#define WORK_MOST    5                   /* medians: above that it is a pause that takes the time */
#define SLEEP_NS     INT64_C(200000000)  /* for each length of sleep */
#define PAUSES_NS    INT64_C(1500000000) /* of reading the clock */
#define PAUSE_LEAST  INT64_C(1500)       /* two readings take 30 ns */

/* Columns of kv's table of cycles. */
enum { SCANNED_HEAP = 10, SCANNED_STACK = 11, BACKGROUND_NS = 14, IDLE_NS = 15 };

struct measured {
    const char *name;
    struct kv_options opt;
    struct kv_result r;
};

static const double *m_of(const struct measured *x) { return x->r.metric; }

/* Runs one; false: it failed, or was interrupted. */
static bool run(struct measured *x, bool off)
{
    char why[240];
    struct kv_policy policy = {"max:5", off};
    if (off)
        snprintf(policy.name, sizeof policy.name, "off");
    printf("%-8s", x->name);
    fflush(stdout);
    if (kv_child(&x->opt, &policy, 1, NULL, NULL, &x->r, why, sizeof why) != KV_CHILD_RESULT) {
        printf("failed: %s\n", why);
        return false;
    }
    printf("%10.0f op/s, %.2f CPUs, others %.2f\n", m_of(x)[KV_ACHIEVED_RATE], m_of(x)[KV_OWN_CPU],
           m_of(x)[KV_FOREIGN_CPU]);
    fflush(stdout);
    return true;
}

/* kv's own load on one proc. */
static struct kv_options load_of(const struct scale_options *opt, int conns, bool bursts,
                                 double seconds)
{
    struct kv_options o = opt->load;
    o.conns = conns;
    o.rate = bursts ? RATE : BUSY_RATE;
    o.procs = 1;
    o.duration_s = seconds;
    o.warmup_s = bursts ? 0.3 : 0.6;
    o.burst_us = bursts ? BURST_US : 0;
    o.gogc = 100;
    o.cycles = "kept"; /* the table, in the result; a child writes no files */
    return o;
}

/* CPU ns of a request, without the collector's work. */
static double request_ns(const struct measured *x)
{
    const double *m = m_of(x);
    double gc =
        m[KV_ASSIST_CPU] + m[KV_BACKGROUND_CPU] + m[KV_IDLE_CPU] + m[KV_SWEEP_CPU] + m[KV_SCAN_CPU];
    return (m[KV_OWN_CPU] * m[KV_SECONDS] * 1e9 - gc) / m[KV_OPS];
}

/* CPU ns of marking in a cycle, whoever did it. */
static double cycle_ns(const struct measured *x)
{
    const double *m = m_of(x);
    double all = m[KV_ASSIST_CPU] + m[KV_BACKGROUND_CPU] + m[KV_IDLE_CPU] + m[KV_SCAN_CPU];
    return all / fmax(1, m[KV_CYCLES]);
}

static double column_mean(const struct kv_table *t, int column)
{
    double sum = 0;
    for (size_t i = 0; i < t->rows; i++)
        sum += t->cell[i * t->columns + (size_t)column];
    return sum / fmax(1, (double)t->rows);
}

static double idle_and_slices(const struct measured *x)
{
    return column_mean(&x->r.cycles, BACKGROUND_NS) + column_mean(&x->r.cycles, IDLE_NS);
}

/* Nearly nothing but the heap is marked in `few`; what `many` takes beyond its own heap is due to
 * its stacks. In `busy` most stacks are scanned by those who run them, and the rest of the marking
 * is cut to pieces by requests, and finds its caches cold: that rate is the one that counts. */
static void marking(struct scale_machine *m, const struct measured *few,
                    const struct measured *many, const struct measured *busy)
{
    double stacks = 2 * MANY_CONNS;
    double heap = column_mean(&few->r.cycles, SCANNED_HEAP), undisturbed = heap;
    double more = column_mean(&many->r.cycles, SCANNED_HEAP) - heap;
    m->conn_scan_bytes = fmax(0, more / (MANY_CONNS - SCALE_FEW_CONNS));
    m->stack_bytes = column_mean(&many->r.cycles, SCANNED_STACK) / stacks;
    undisturbed /= fmax(1, idle_and_slices(few));
    double stacks_ns = idle_and_slices(many) - (heap + more) / undisturbed;
    m->stack_ns = fmax(100, stacks_ns / stacks);
    m->switch_in_ns = m_of(busy)[KV_HOLD_P50];
    double by_runners = m_of(busy)[KV_SCAN_CPU] / fmax(1, m_of(busy)[KV_CYCLES]) / m->switch_in_ns;
    double by_workers = fmax(0, stacks - by_runners) * m->stack_ns;
    m->mark_rate =
        column_mean(&busy->r.cycles, SCANNED_HEAP) / fmax(1, idle_and_slices(busy) - by_workers);
}

static void requests(struct scale_machine *m, const struct measured *few,
                     const struct measured *many, const struct measured *large,
                     const struct measured *fresh)
{
    double base = request_ns(few), asked = kv_garbage_per_op(&few->opt);
    double bytes = m_of(few)[KV_BYTES_PER_OP], more = m_of(large)[KV_BYTES_PER_OP] - bytes;
    m->alloc_factor = fmax(1, bytes / asked);
    m->byte_ns = fmax(0, (request_ns(large) - base) / more);
    m->fixed_ns = fmax(1, base - m->byte_ns * bytes);
    m->cold_ns = fmax(0, (request_ns(many) - base) / log10((double)MANY_CONNS / SCALE_FEW_CONNS));
    m->fresh_ns = fmax(0, (request_ns(fresh) - base) / bytes);
}

/* Bursts tell what parts a request's cost has, but not how much there is of it when requests come
 * one by one: queues are longer, and what a proc has just used is in its caches or not. So the
 * parts are scaled alike, until the simulation of `busy` has the median latency that was measured:
 * that of three runs, as it moves with the machine's moments. */
static void fit_service(const struct scale_options *opt, struct scale_machine *m,
                        const struct measured *busy, double p50)
{
    struct scale_options here = *opt;
    struct kv_policy policy = {"max:5", false};
    double low = 0.2, high = 3;
    here.load = busy->opt;
    for (int i = 0; i < 12; i++) {
        struct kv_result r;
        double scale = (low + high) / 2;
        here.machine = *m;
        here.machine.fixed_ns *= scale;
        here.machine.cold_ns *= scale;
        scale_run(&here, &policy, 1, NULL, &r, NULL);
        *(r.metric[KV_P50] > p50 ? &high : &low) = scale;
        kv_result_free(&r);
    }
    m->fixed_ns *= low;
    m->cold_ns *= low;
    printf("%-8sa request costs %.2f of its CPU time in bursts\n", "fit", low);
}

/* ---- requests alone ---- */

struct alone {
    const struct kv_options *opt;
    struct scale_machine *m;
    struct kv_store *store;
    hg_histogram pause, work, late, all_late;
    int64_t work_most; /* a request that took longer was interrupted */
    int err;
};

static void quantiles_of(const hg_histogram *h, double *q)
{
    for (int i = 0; i < SCALE_QUANTILES; i++)
        q[i] = (double)hg_histogram_quantile(h, scale_quantile_at[i]);
}

/* Reads the clock and does nothing else: where it jumps, the thread was stopped. */
static void pauses_alone(struct alone *a)
{
    int64_t begin = hg_now(), last = begin, now;
    do {
        now = hg_now();
        if (now - last >= PAUSE_LEAST)
            hg_histogram_add(&a->pause, now - last);
        last = now;
    } while (now - begin < PAUSES_NS);
    a->m->pauses_per_s = (double)a->pause.total * 1e9 / (double)PAUSES_NS;
    quantiles_of(&a->pause, a->m->pause);
}

static void one_request(struct alone *a, uint64_t seq)
{
    int64_t lock_ns = 0, from = hg_now();
    struct kv_request *request =
        kv_request_new(seq * 7919 % (uint64_t)a->opt->keys, seq, a->opt->garbage_nodes, 0);
    struct kv_response *response = kv_store_serve(a->store, request, &lock_ns);
    if (kv_response_check(a->store, request, response) < 0)
        a->err = -1;
    int64_t took = hg_now() - from;
    if (took < a->work_most)
        hg_histogram_add(&a->work, took);
}

static void work_alone(struct alone *a)
{
    double sum = 0;
    /* Once for memory that is not fresh, and to know the median; and once more: this time it
     * counts. */
    a->work_most = INT64_MAX;
    for (int pass = 0; pass < 2; pass++) {
        hg_collect(hg_current());
        hg_histogram_reset(&a->work);
        for (uint64_t seq = 1; seq <= ALONE; seq++)
            one_request(a, seq);
        a->work_most = WORK_MOST * hg_histogram_quantile(&a->work, 0.5);
    }
    for (unsigned i = 0; i < HG_HISTOGRAM_BUCKETS; i++)
        sum += (double)a->work.count[i] * (double)hg_histogram_bucket_high(i);
    double mean = sum / (double)a->work.total;
    quantiles_of(&a->work, a->m->work);
    for (int i = 0; i < SCALE_QUANTILES; i++)
        a->m->work[i] /= mean;
}

/* The largest hundredth is taken from all lengths together: it does not depend on them, and of long
 * sleeps there are not many. */
static void sleep_alone(struct alone *a)
{
    double all[SCALE_QUANTILES];
    for (int i = 0; i < SCALE_SLEEPS; i++) {
        hg_histogram_reset(&a->late);
        for (int64_t slept = 0; slept < SLEEP_NS; slept += scale_sleep_ns[i]) {
            int64_t until = hg_in(scale_sleep_ns[i]);
            hg_sleep_until(until);
            int64_t late = hg_now() - until;
            hg_histogram_add(&a->late, late);
            hg_histogram_add(&a->all_late, late);
        }
        quantiles_of(&a->late, a->m->wake[i]);
    }
    quantiles_of(&a->all_late, all);
    for (int i = 0; i < SCALE_SLEEPS; i++)
        for (int k = 0; k < SCALE_QUANTILES; k++)
            if (scale_quantile_at[k] > 0.99)
                a->m->wake[i][k] = fmax(all[k], a->m->wake[i][k - 1]);
}

/* Collects a few times with nobody running; ns of sweeping of each. */
static double collect_alone(void)
{
    hg_stats from = {.size = sizeof from}, to = {.size = sizeof to};
    hg_collect(hg_current());
    hg_stats_read(hg_current(), &from);
    for (int i = 0; i < ALONE_CYCLES; i++)
        hg_collect(hg_current());
    hg_stats_read(hg_current(), &to);
    return (double)(to.sweep_ns - from.sweep_ns) / ALONE_CYCLES;
}

static int sweep_alone(struct scale_machine *m)
{
    static hg_histogram handshake;
    hg_cycle last;
    double sweep_ns = collect_alone();
    if (hg_stats_cycles(hg_current(), &last, 1) != 1)
        return -ENODATA;
    m->sweep_ns = sweep_ns / (double)last.heap_at_end;
    hg_stats_histogram(hg_current(), HG_HIST_HANDSHAKE, &handshake);
    m->handshake_ns = (double)hg_histogram_quantile(&handshake, 0.5);
    return 0;
}

static int alone_task(void *arg)
{
    struct alone *a = arg;
    int err = hg_root_add(hg_current(), &a->store, 1, HG_REFS);
    if (err == 0)
        err = kv_store_build(&a->store, a->opt->keys, a->opt->value_bytes, NULL);
    if (err != 0)
        return err;
    pauses_alone(a);
    work_alone(a);
    sleep_alone(a);
    err = sweep_alone(a->m);
    return err != 0 ? err : a->err;
}

static int measure_alone(struct scale_machine *m, const struct kv_options *load)
{
    static struct alone a;
    hg_options o;
    memset(&a, 0, sizeof a);
    a.opt = load;
    a.m = m;
    hg_options_init(&o, sizeof o);
    o.procs = 1;
    o.gc_percent = 1000; /* no cycle but those asked for */
    printf("%-8s", "alone");
    fflush(stdout);
    int err = hg_run(alone_task, &a, &o);
    if (err != 0)
        printf("failed: %s\n", strerror(-err));
    else
        printf("%10.0f ns a request, sleeps of 60 us late by %.0f ns\n",
               (double)hg_histogram_quantile(&a.work, 0.5), m->wake[1][3]);
    return err;
}

/* ---- all of it ---- */

enum { BUSY1, FEW, MANY, BUSY, LARGE, FRESH, ALL, BUSY3, RUNS };

static int measure(const struct scale_options *opt, struct scale_machine *m)
{
    struct sim_machine here;
    struct measured x[RUNS] = {
        [FEW] = {.name = "few", .opt = load_of(opt, SCALE_FEW_CONNS, true, 2)},
        [MANY] = {.name = "many", .opt = load_of(opt, MANY_CONNS, true, 2)},
        [LARGE] = {.name = "large", .opt = load_of(opt, SCALE_FEW_CONNS, true, 1.5)},
        [FRESH] = {.name = "fresh", .opt = load_of(opt, SCALE_FEW_CONNS, true, 1)},
        [BUSY1] = {.name = "busy", .opt = load_of(opt, MANY_CONNS, false, 1)},
        [BUSY] = {.name = "busy", .opt = load_of(opt, MANY_CONNS, false, 3)},
        [BUSY3] = {.name = "busy", .opt = load_of(opt, MANY_CONNS, false, 1)},
        [ALL] = {.name = "all", .opt = load_of(opt, MANY_CONNS, false, 3)},
    };
    sim_machine_read(&here);
    x[ALL].opt.procs = here.cpus < PROCS_MOST ? here.cpus : PROCS_MOST;
    x[ALL].opt.rate *= x[ALL].opt.procs;
    x[LARGE].opt.value_bytes *= 4;
    x[LARGE].opt.keys = x[LARGE].opt.keys / 4 + 1; /* a store of the same size */
    int n = 0;
    while (n < RUNS && run(&x[n], n == FRESH))
        n++;
    int err = n < RUNS ? -1 : measure_alone(m, &x[FEW].opt);
    if (err == 0) {
        requests(m, &x[FEW], &x[MANY], &x[LARGE], &x[FRESH]);
        marking(m, &x[FEW], &x[MANY], &x[BUSY]);
        double p50[3] = {m_of(&x[BUSY1])[KV_P50], m_of(&x[BUSY])[KV_P50], m_of(&x[BUSY3])[KV_P50]};
        fit_service(opt, m, &x[BUSY], sim_median(p50, 3));
        if (x[ALL].opt.procs > 1)
            m->crowd_factor = fmax(1, cycle_ns(&x[ALL]) / cycle_ns(&x[BUSY]));
    }
    for (int i = 0; i < n; i++)
        kv_result_free(&x[i].r);
    return err;
}

int scale_calibrate(const struct scale_options *opt)
{
    struct scale_machine m = opt->machine;
    struct sim_machine here;
    struct sim_outfile f;
    char why[160];
    int signal = 0;
    sim_machine_read(&here);
    snprintf(m.name, sizeof m.name, "%.40s, %.50s", here.cpu[0] != 0 ? here.cpu : "unknown CPU",
             here.kernel);
    printf("measures %s, about 27 s\n", m.name);
    if (measure(opt, &m) != 0)
        return sim_interrupts(&signal) > 0 ? SIM_SIGNAL + signal : SIM_FAILED;
    if (scale_machine_check(&m, why, sizeof why) != 0) {
        fprintf(stderr, "hedge-sim scale: --calibrate: the machine was too disturbed: %s\n", why);
        return SIM_FAILED;
    }
    int err = sim_outfile_open(&f, opt->calibrate_file);
    if (err == 0)
        err =
            scale_machine_write(f.file, &m) == 0 ? sim_outfile_commit(&f) : sim_outfile_discard(&f);
    if (err != 0) {
        fprintf(stderr, "hedge-sim scale: --calibrate: cannot write \"%s\": %s\n",
                opt->calibrate_file, strerror(-err));
        return SIM_FAILED;
    }
    scale_machine_write(stdout, &m);
    return SIM_OK;
}
