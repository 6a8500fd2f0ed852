/* scale_calibrate.c: measures this machine with short live runs, each a child process, and makes a
 * profile of it (scale_machine.c). Under 30 s in all.
 *
 *   few, many   kv on one proc, 500 arrivals every 10 ms: CPU time of a request with few and with
 *               many connections; the rate of marking, the scan of a stack, sweeping. In bursts, as
 *               a proc that waits for a near timer spins, and its CPU time would say nothing
 *   large       the same with larger values: what an allocated byte costs
 *   fresh       without a collector: what memory costs that was never used before
 *   rare        a request every 200 us: how late a sleeping proc runs
 *   alone       requests one after the other on one task: how their work varies; handshakes
 *
 * Two equations give the rate of marking and the scan of a stack: in `few` there is little but heap
 * to mark, in `many` there are twenty times as many stacks.
 */
#include "sim/kv_child.h"
#include "sim/kv_store.h"
#include "sim/memory.h"
#include "sim/outfile.h"
#include "sim/scale.h"
#include "sim/sim.h"
#include <hedge/hedge.h>
#include <math.h>
#include <string.h>

#define MANY_CONNS   10000
#define OFTEN        50e3 /* arrivals per second */
#define RARELY       5000
#define BURST_US     10e3
#define ALONE        100000 /* requests */
#define ALONE_CYCLES 12

/* Columns of kv's table of cycles. */
enum { HEAP_AT_END = 6, SCANNED_HEAP = 10, SCANNED_STACK, SCANNED_ROOTS, ASSIST_NS, BACKGROUND_NS };

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
    printf("%10.0f op/s, %.2f CPUs, others %.2f\n", m_of(x)[KV_ACHIEVED_RATE],
           m_of(x)[KV_OWN_CPU], m_of(x)[KV_FOREIGN_CPU]);
    fflush(stdout);
    return true;
}

/* kv's own load on one proc. */
static struct kv_options load_of(const struct scale_options *opt, int conns, double rate,
                                 double seconds)
{
    struct kv_options o = opt->load;
    o.conns = conns;
    o.rate = rate;
    o.procs = 1;
    o.duration_s = seconds;
    o.warmup_s = 0.5;
    o.burst_us = rate > RARELY ? BURST_US : 0;
    o.gogc = 100;
    o.cycles = o.hgrm = "kept"; /* the tables, in the result; a child writes no files */
    return o;
}

/* CPU ns of a request, without the collector's work. */
static double request_ns(const struct measured *x)
{
    const double *m = m_of(x);
    double gc = m[KV_ASSIST_CPU] + m[KV_BACKGROUND_CPU] + m[KV_IDLE_CPU] + m[KV_SWEEP_CPU] +
                m[KV_SCAN_CPU];
    return (m[KV_OWN_CPU] * m[KV_SECONDS] * 1e9 - gc) / m[KV_OPS];
}

static double column_sum(const struct kv_table *t, int column)
{
    double sum = 0;
    for (size_t i = 0; i < t->rows; i++)
        sum += t->cell[i * t->columns + (size_t)column];
    return sum;
}

/* ns of marking in all cycles of a run's table. */
static double marking_ns(const struct measured *x)
{
    const struct kv_table *t = &x->r.cycles;
    double scans = m_of(x)[KV_SCAN_CPU] / fmax(1, m_of(x)[KV_CYCLES]) * (double)t->rows;
    return column_sum(t, ASSIST_NS) + column_sum(t, BACKGROUND_NS) +
           column_sum(t, BACKGROUND_NS + 1) + scans;
}

static void marking(struct scale_machine *m, const struct measured *few,
                    const struct measured *many)
{
    const struct kv_table *a = &few->r.cycles, *b = &many->r.cycles;
    double heap_a = column_sum(a, SCANNED_HEAP), heap_b = column_sum(b, SCANNED_HEAP);
    double stacks_b = (double)b->rows * 2 * MANY_CONNS;
    m->stack_bytes = column_sum(b, SCANNED_STACK) / stacks_b;
    double stacks_a = column_sum(a, SCANNED_STACK) / m->stack_bytes;
    double determinant = heap_a * stacks_b - heap_b * stacks_a;
    double ns_per_byte =
        (marking_ns(few) * stacks_b - marking_ns(many) * stacks_a) / determinant;
    m->mark_rate = 1 / ns_per_byte;
    m->stack_ns = (heap_a * marking_ns(many) - heap_b * marking_ns(few)) / determinant;
    m->sweep_ns = m_of(few)[KV_SWEEP_CPU] / fmax(1, m_of(few)[KV_CYCLES]) * (double)a->rows /
                  column_sum(a, HEAP_AT_END);
    double more = heap_b / (double)b->rows - heap_a / (double)a->rows;
    m->conn_scan_bytes = fmax(0, more / (MANY_CONNS - SCALE_FEW_CONNS));
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

/* The quantiles of a run's latency, less the work. */
static void lateness(struct scale_machine *m, const struct measured *rare, double work)
{
    static hg_histogram h;
    const struct kv_table *t = &rare->r.histogram;
    memset(&h, 0, sizeof h);
    for (size_t i = 0; i < t->rows; i++) {
        unsigned bucket = (unsigned)t->cell[i * KV_HIST_COLUMNS];
        h.count[bucket] = (uint64_t)t->cell[i * KV_HIST_COLUMNS + 1];
        h.total += h.count[bucket];
    }
    h.max = (int64_t)m_of(rare)[KV_MAX];
    for (int i = 0; i < SCALE_QUANTILES; i++)
        m->wake[i] = fmax(0, (double)hg_histogram_quantile(&h, scale_quantile_at[i]) - work);
}

/* ---- requests alone ---- */

struct alone {
    const struct kv_options *opt;
    struct kv_store *store;
    hg_histogram work, handshake;
    int err;
};

static void one_request(struct alone *a, uint64_t seq)
{
    int64_t lock_ns = 0, from = hg_now();
    struct kv_request *request =
        kv_request_new(seq * 7919 % (uint64_t)a->opt->keys, seq, a->opt->garbage_nodes, 0);
    struct kv_response *response = kv_store_serve(a->store, request, &lock_ns);
    if (kv_response_check(a->store, request, response) < 0)
        a->err = -1;
    hg_histogram_add(&a->work, hg_now() - from);
}

static int alone_task(void *arg)
{
    struct alone *a = arg;
    int err = hg_root_add(hg_current(), &a->store, 1, HG_REFS);
    if (err == 0)
        err = kv_store_build(&a->store, a->opt->keys, a->opt->value_bytes, NULL);
    if (err != 0)
        return err;
    for (int i = 0; i < ALONE_CYCLES; i++)
        hg_collect(hg_current());
    hg_stats_histogram(hg_current(), HG_HIST_HANDSHAKE, &a->handshake);
    /* Once for memory that is not fresh, and once more: this time it counts. */
    for (int pass = 0; pass < 2; pass++) {
        hg_collect(hg_current());
        hg_histogram_reset(&a->work);
        for (uint64_t seq = 1; seq <= ALONE; seq++)
            one_request(a, seq);
    }
    return a->err;
}

static int measure_alone(struct scale_machine *m, const struct kv_options *load)
{
    static struct alone a;
    hg_options o;
    double sum = 0;
    memset(&a, 0, sizeof a);
    a.opt = load;
    hg_options_init(&o, sizeof o);
    o.procs = 1;
    o.gc_percent = 1000; /* no cycle meanwhile */
    printf("%-8s", "alone");
    fflush(stdout);
    int err = hg_run(alone_task, &a, &o);
    if (err != 0)
        return err;
    for (unsigned i = 0; i < HG_HISTOGRAM_BUCKETS; i++)
        sum += (double)a.work.count[i] * (double)hg_histogram_bucket_high(i);
    double mean = sum / (double)a.work.total;
    for (int i = 0; i < SCALE_QUANTILES; i++)
        m->work[i] = (double)hg_histogram_quantile(&a.work, scale_quantile_at[i]) / mean;
    m->handshake_ns = (double)hg_histogram_quantile(&a.handshake, 0.5);
    printf("%10.0f ns a request, %.0f ns a handshake\n", mean, m->handshake_ns);
    return 0;
}

/* ---- all of it ---- */

enum { FEW, MANY, LARGE, FRESH, RARE, RUNS };

static int measure(const struct scale_options *opt, struct scale_machine *m)
{
    struct measured x[RUNS] = {
        [FEW] = {.name = "few", .opt = load_of(opt, SCALE_FEW_CONNS, OFTEN, 3)},
        [MANY] = {.name = "many", .opt = load_of(opt, MANY_CONNS, OFTEN, 3)},
        [LARGE] = {.name = "large", .opt = load_of(opt, SCALE_FEW_CONNS, OFTEN, 2)},
        [FRESH] = {.name = "fresh", .opt = load_of(opt, SCALE_FEW_CONNS, OFTEN, 1)},
        [RARE] = {.name = "rare", .opt = load_of(opt, 64, RARELY, 3)},
    };
    x[LARGE].opt.value_bytes *= 4;
    x[LARGE].opt.keys = x[LARGE].opt.keys / 4 + 1; /* a store of the same size */
    int n = 0;
    while (n < RUNS && run(&x[n], n == FRESH || n == RARE))
        n++;
    int err = n < RUNS ? -1 : measure_alone(m, &x[FEW].opt);
    if (err == 0) {
        requests(m, &x[FEW], &x[MANY], &x[LARGE], &x[FRESH]);
        marking(m, &x[FEW], &x[MANY]);
        lateness(m, &x[RARE], request_ns(&x[FEW]));
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
    printf("measures %s, about 25 s\n", m.name);
    if (measure(opt, &m) != 0)
        return sim_interrupts(&signal) > 0 ? SIM_SIGNAL + signal : SIM_FAILED;
    if (scale_machine_check(&m, why, sizeof why) != 0) {
        fprintf(stderr, "hedge-sim scale: --calibrate: the machine was too disturbed: %s\n", why);
        return SIM_FAILED;
    }
    int err = sim_outfile_open(&f, opt->calibrate_file);
    if (err == 0)
        err = scale_machine_write(f.file, &m) == 0 ? sim_outfile_commit(&f)
                                                   : sim_outfile_discard(&f);
    if (err != 0) {
        fprintf(stderr, "hedge-sim scale: --calibrate: cannot write \"%s\": %s\n",
                opt->calibrate_file, strerror(-err));
        return SIM_FAILED;
    }
    scale_machine_write(stdout, &m);
    return SIM_OK;
}
