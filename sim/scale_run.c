/* scale_run.c: one simulated run: arrivals, the loop over events, and the run's figures.
 *
 * As in kv, a run warms up, measures from `begin` to `end`, and then drains: no more arrivals,
 * until every request that was to start in between has ended, or is given up 10 s later and counted
 * as that late.
 */
#include "sim/memory.h"
#include "sim/scale_world.h"
#include <math.h>
#include <string.h>

#define DRAIN_NS   INT64_C(10000000000)
#define ASK_EVENTS 65536u /* between two looks whether to stop */

/* ---- arrivals ---- */

static void draw_arrival(struct scale_world *w, struct scale_arrival *a)
{
    w->ahead_at += sim_rng_exp(&w->arrivals_rng) * w->gap;
    double at = w->burst > 0 ? ceil(w->ahead_at / w->burst) * w->burst : w->ahead_at;
    a->at = at < 9e18 ? (int64_t)at : SCALE_NEVER;
    a->conn = sim_rng_below(&w->arrivals_rng, (uint32_t)w->opt->load.conns);
    /* It will be looked at soon, and lies anywhere in memory. */
    __builtin_prefetch(&w->conn[a->conn]);
    __builtin_prefetch(&w->task[2 * a->conn]);
}

static void put_off(struct scale_world *w, struct scale_conn *c, int64_t intended)
{
    if (w->pending_free == SCALE_NONE) {
        uint32_t room = w->pending_room > 0 ? 2 * w->pending_room : 1024;
        w->pending = sim_grow(w->pending, room, sizeof *w->pending);
        for (uint32_t i = room; i-- > w->pending_room;) {
            w->pending[i].next = w->pending_free;
            w->pending_free = i;
        }
        w->pending_room = room;
    }
    uint32_t i = w->pending_free;
    w->pending_free = w->pending[i].next;
    w->pending[i] = (struct scale_pending){intended, SCALE_NONE};
    if (c->first == SCALE_NONE)
        c->first = i;
    else
        w->pending[c->last].next = i;
    c->last = i;
}

static void arrive(struct scale_world *w)
{
    struct scale_arrival *a = &w->ahead[w->ahead_first];
    uint32_t number = a->conn;
    struct scale_conn *c = &w->conn[number];
    w->now = a->at;
    w->books.arrivals++;
    w->outstanding += w->now >= w->begin;
    draw_arrival(w, a);
    w->ahead_first = (w->ahead_first + 1) % SCALE_AHEAD;
    if (c->busy) {
        put_off(w, c, w->now);
        return;
    }
    c->busy = true;
    c->intended = w->now;
    scale_due(w, number);
}

/* ---- beginning and end ---- */

/* How a request's time and bytes divide over its stages: bytes as kv's objects do, time by bytes as
 * far as it is due to them, and by thirds. */
static void divide_request(struct scale_world *w)
{
    const struct kv_options *o = &w->opt->load;
    double value = o->value_bytes, reads = o->read_percent / 100.0;
    double asked[3] = {80 + 32 + 48.0 * o->garbage_nodes + o->garbage_bytes + (1 - reads) * value,
                       48 + reads * (2 * value + 40) + (1 - reads) * (value + 48 + 64),
                       reads * value};
    double all = asked[0] + asked[1] + asked[2], bytes = scale_request_bytes(w->opt);
    double mean = scale_table_mean(&w->work_table);
    double service = scale_service_ns(w->opt) / (mean > 0 ? mean : 1);
    double by_bytes = isnan(w->opt->service_us)
                          ? fmin(1, w->opt->machine.byte_ns * bytes / scale_service_ns(w->opt))
                          : 0;
    if (!w->gc)
        service += w->opt->machine.fresh_ns * bytes;
    for (int s = SCALE_MAKE; s <= SCALE_READ; s++) {
        double share = asked[s] / all;
        w->stage_bytes[s] = (int64_t)(bytes * share);
        w->stage_ns[s] = service * (by_bytes * share + (1 - by_bytes) / 3);
        w->stage_bytes[SCALE_WHOLE] += w->stage_bytes[s];
        w->stage_ns[SCALE_WHOLE] += w->stage_ns[s];
    }
}

static void make_procs(struct scale_world *w)
{
    w->proc = sim_alloc((size_t)w->procs, sizeof *w->proc);
    w->idle_first = SCALE_NONE;
    for (int i = w->procs - 1; i >= 0; i--) {
        struct scale_proc *p = &w->proc[i];
        p->runnext = SCALE_NONE;
        p->state = SCALE_WAKES; /* to its first round, which finds nothing */
    }
    scale_heap_init(w);
}

static void make_load(struct scale_world *w, uint64_t seed)
{
    const struct kv_options *o = &w->opt->load;
    w->tasks = 2 * (uint32_t)o->conns;
    w->conn = sim_alloc((size_t)o->conns, sizeof *w->conn);
    w->task = sim_alloc(w->tasks, sizeof *w->task);
    for (int i = 0; i < o->conns; i++) {
        w->conn[i].first = SCALE_NONE;
        w->conn[i].home = (uint16_t)(i % w->procs);
    }
    w->pending_free = SCALE_NONE;
    w->gap = 1e9 / o->rate;
    w->burst = o->burst_us * 1e3;
    w->arrivals_rng.state = seed;
    w->rng.state = ~seed;
    for (uint32_t i = 0; i < SCALE_AHEAD; i++)
        draw_arrival(w, &w->ahead[i]);
}

static struct scale_world *world_new(const struct scale_options *opt,
                                     const struct kv_policy *policy, uint64_t seed)
{
    struct scale_world *w = sim_alloc(1, sizeof *w);
    w->opt = opt;
    w->profile = opt->profile;
    w->gc = !policy->off;
    w->procs = opt->load.procs;
    w->begin = (int64_t)(opt->load.warmup_s * 1e9);
    w->end = w->begin + (int64_t)(opt->load.duration_s * 1e9);
    scale_table_fill(&w->work_table, opt->machine.work);
    scale_table_fill(&w->pause_table, opt->machine.pause);
    if (opt->machine.pauses_per_s > 0)
        w->pause_gap = 1e9 / opt->machine.pauses_per_s;
    for (int i = 0; i < SCALE_SLEEPS; i++)
        scale_table_fill(&w->wake_table[i], opt->machine.wake[i]);
    divide_request(w);
    make_procs(w);
    make_load(w, seed);
    w->scan_heap = (int64_t)scale_scan_bytes(opt);
    double slower = scale_memory_factor(opt) * scale_crowd_factor(opt);
    w->stack_ns = opt->machine.stack_ns * slower;
    w->switch_in_ns = opt->machine.switch_in_ns * slower;
    w->sweep_per_byte = opt->machine.sweep_ns;
    w->heap_live = w->live_marked = (int64_t)scale_live_heap(opt);
    w->driver_at = SCALE_NEVER;
    w->tick_at = SCALE_TICK_NS;
    scale_pace_init(w, policy->off ? NULL : policy->name);
    return w;
}

static void world_free(struct scale_world *w)
{
    sim_blocks_free(&w->blocks);
    kv_table_free(&w->rows);
    free(w->conn);
    free(w->task);
    free(w->pending);
    free(w->wait_until);
    free(w->proc);
    free(w->heap);
    free(w);
}

/* ---- the loop ---- */

static void tick(struct scale_world *w)
{
    w->tick_at += SCALE_TICK_NS;
    scale_monitor(w);
    if (w->gc)
        scale_pace_tick(w);
    if (!w->measuring && w->now >= w->begin && w->now < w->end) {
        w->measuring = true;
        w->from = w->sums;
        w->block_start = w->latency;
        w->peak = w->heap_live;
    } else if (w->measuring && w->now >= w->end) {
        w->measuring = false;
    }
}

static int64_t next_wait(const struct scale_world *w)
{
    return w->waits.n > 0 ? w->wait_until[w->waits.first] : SCALE_NEVER;
}

/* Takes the earliest event, ties in the order of these lines. */
static void step(struct scale_world *w)
{
    struct scale_proc *p = &w->proc[w->heap[0]];
    const struct scale_arrival *a = &w->ahead[w->ahead_first];
    int64_t arrival = a->at < w->end ? a->at : SCALE_NEVER;
    int64_t other = w->driver_at < w->tick_at ? w->driver_at : w->tick_at;
    int64_t wait = next_wait(w), before = w->now;
    if (wait < other)
        other = wait;
    if (arrival <= p->at && arrival <= other) {
        arrive(w);
    } else if (other <= p->at) {
        w->now = other;
        if (w->driver_at == other)
            scale_driver_event(w);
        else if (w->tick_at == other)
            tick(w);
        else
            scale_waits_over(w);
    } else {
        w->now = p->at;
        scale_proc_event(w, p);
    }
    w->books.events++;
    w->books.time_went_back |= w->now < before;
}

/* Requests that never ended count as late as they are now. */
static void give_up(struct scale_world *w)
{
    for (int i = 0; i < w->opt->load.conns; i++) {
        const struct scale_conn *c = &w->conn[i];
        if (!c->busy)
            continue;
        uint32_t at = c->first;
        for (int64_t intended = c->intended;; at = w->pending[at].next) {
            w->books.given_up++;
            if (intended >= w->begin)
                hg_histogram_add(&w->latency, w->now - intended);
            if (at == SCALE_NONE)
                break;
            intended = w->pending[at].intended;
        }
    }
}

/* ---- figures ---- */

static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

static void latency_figures(struct kv_result *r, const struct scale_world *w, uint64_t seed)
{
    static const double q[] = {0.99, 0.999};
    double low[2], high[2], *m = r->metric;
    m[KV_P50] = (double)hg_histogram_quantile(&w->latency, 0.5);
    m[KV_P90] = (double)hg_histogram_quantile(&w->latency, 0.9);
    m[KV_P99] = (double)hg_histogram_quantile(&w->latency, 0.99);
    m[KV_P999] = (double)hg_histogram_quantile(&w->latency, 0.999);
    m[KV_MAX] = (double)w->latency.max;
    if (w->blocks.n < 10)
        return;
    sim_bootstrap(&w->blocks, q, 2, low, high, seed);
    m[KV_P99_LOW] = low[0];
    m[KV_P99_HIGH] = high[0];
    if (w->blocks.n < KV_FEWEST_CYCLES)
        return;
    m[KV_P999_LOW] = low[1];
    m[KV_P999_HIGH] = high[1];
}

static void collector_figures(struct kv_result *r, const struct scale_world *w,
                              const struct scale_sums *to, double wall)
{
    const struct scale_sums *from = &w->from;
    double *m = r->metric;
    m[KV_CYCLES] = (double)w->cycles;
    m[KV_ASSISTS] = (double)w->assists;
    m[KV_OVERSHOOT_CYCLES] = (double)w->overshoots;
    m[KV_LIVE_HEAP] = (double)w->live_marked;
    m[KV_PEAK_HEAP] = (double)w->peak;
    m[KV_PEAK_OVER_GOAL] = w->over_goal;
    m[KV_ASSIST_CPU] = (double)(to->assist - from->assist);
    m[KV_BACKGROUND_CPU] = (double)(to->background - from->background);
    m[KV_IDLE_CPU] = (double)(to->idle - from->idle);
    m[KV_SWEEP_CPU] = (double)(to->sweep - from->sweep);
    m[KV_SCAN_CPU] = (double)(to->scan - from->scan);
    double marking = m[KV_ASSIST_CPU] + m[KV_BACKGROUND_CPU] + m[KV_IDLE_CPU];
    m[KV_ASSIST_SHARE] = ratio(m[KV_ASSIST_CPU], marking);
    m[KV_GC_CPU_SHARE] = ratio(marking + m[KV_SWEEP_CPU] + m[KV_SCAN_CPU], w->procs * wall);
}

static void histogram_figures(struct kv_result *r, const struct scale_world *w)
{
    double *m = r->metric;
    m[KV_HOLD_P50] = (double)hg_histogram_quantile(&w->hold, 0.5);
    m[KV_HOLD_P99] = (double)hg_histogram_quantile(&w->hold, 0.99);
    m[KV_HOLD_P999] = (double)hg_histogram_quantile(&w->hold, 0.999);
    m[KV_HOLD_MAX] = (double)w->hold.max;
    m[KV_LONGEST_ASSIST] = (double)w->assist.max;
    m[KV_HANDSHAKE_P50] = (double)hg_histogram_quantile(&w->handshake, 0.5);
    m[KV_HANDSHAKE_P99] = (double)hg_histogram_quantile(&w->handshake, 0.99);
    m[KV_HANDSHAKE_MAX] = (double)w->handshake.max;
}

/* What the page draws. */
static void tables(struct kv_result *r, struct scale_world *w)
{
    if (w->opt->load.report == NULL)
        return;
    for (unsigned i = 0; i < HG_HISTOGRAM_BUCKETS; i++) {
        double row[KV_HIST_COLUMNS] = {i, (double)w->latency.count[i]};
        if (row[1] > 0)
            kv_table_row(&r->histogram, KV_HIST_COLUMNS, row);
    }
    r->cycles = w->rows;
    memset(&w->rows, 0, sizeof w->rows);
}

static void make_result(struct kv_result *r, const struct scale_world *w,
                        const struct scale_sums *to, int64_t end, uint64_t seed)
{
    double *m = r->metric, wall = (double)(end - w->begin);
    for (int i = 0; i < KV_METRICS; i++)
        m[i] = NAN;
    for (int in = 0; in < 2; in++) { /* where slow requests' time went is not kept */
        r->blame[in].requests = r->blame[in].behind_ns = NAN;
        for (int part = 0; part < KV_PARTS; part++)
            r->blame[in].ns[part] = NAN;
    }
    m[KV_OPS] = (double)w->done;
    m[KV_WANTED_RATE] = w->opt->load.rate;
    m[KV_SECONDS] = wall / 1e9;
    m[KV_ACHIEVED_RATE] = ratio(m[KV_OPS], m[KV_SECONDS]);
    m[KV_DROPPED] = (double)w->books.given_up;
    m[KV_PROCS] = w->procs;
    m[KV_BYTES_PER_OP] = ratio((double)(to->alloc - w->from.alloc), m[KV_OPS]);
    m[KV_OWN_CPU] = ratio((double)(to->work - w->from.work), wall);
    latency_figures(r, w, seed);
    collector_figures(r, w, to, wall);
    histogram_figures(r, w);
}

void scale_run(const struct scale_options *opt, const struct kv_policy *policy, int repetition,
               int (*stop)(void), struct kv_result *r, struct scale_books *books)
{
    uint64_t seed = opt->load.seed + (uint64_t)repetition - 1;
    struct scale_world *w = world_new(opt, policy, seed);
    struct scale_sums to;
    int64_t started = w->heap_live;
    memset(r, 0, sizeof *r);
    memcpy(r->policy, policy->name, sizeof r->policy);
    r->gc = !policy->off;
    r->repetition = repetition;
    while (w->now < w->end) {
        step(w);
        if (w->books.events % ASK_EVENTS == 0 && stop != NULL && stop()) {
            r->interrupted = true;
            w->end = w->now > w->begin ? w->now : w->begin;
        }
    }
    to = w->sums;
    while (w->outstanding > 0 && w->now < w->end + DRAIN_NS &&
           (w->books.events % ASK_EVENTS != 0 || stop == NULL || !stop()))
        step(w);
    give_up(w);
    make_result(r, w, &to, w->end, seed);
    tables(r, w);
    w->books.allocated = w->sums.alloc;
    w->books.live = w->heap_live - started;
    for (int i = 0; i < w->procs; i++)
        w->books.live += w->proc[i].pending;
    if (books != NULL)
        *books = w->books;
    world_free(w);
}
