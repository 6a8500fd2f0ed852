/* kv_run.c: one measured run in this process.
 *
 *   build    the store, then a full collection, so that every policy starts from the same heap
 *   connect  with --net: all connections
 *   start    all tasks; arrivals begin a moment later, when they are there
 *   warm-up  the load runs, nothing is recorded
 *   measure  from `begin` to `end`: counters are read at both ends, looks are taken every 100 ms
 *   drain    until every request that was to start before `end` is done, or given up 10 s later
 *   after    a last collection finishes the cycle that ran at the end, so that it can be blamed
 *
 * The main task only sleeps, looks and notes; figures are made from its notes when the runtime is
 * gone (kv_result.c). An interrupt moves `end` to now. The runtime is opened with the environment's
 * options under those of the command line.
 */
#include "sim/kv_net.h"
#include "sim/kv_result.h"
#include "sim/sim.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct run {
    const struct kv_options *opt;
    const struct kv_policy *policy;
    struct kv_live *live;
    struct kv_samples *samples;
    int say; /* progress lines go there; -1: nowhere */
    int64_t said_at;
    uint64_t said_done;
    bool interrupted;
    char why[160];
};

static int stop_asked(void) { return sim_interrupts(NULL) > 0; }

/* At most one line a second; a full pipe loses it. */
static void say(struct run *r, const char *phase, int64_t since)
{
    int64_t now = hg_now();
    if (r->say < 0 || now - r->said_at < 10 * KV_TICK_NS)
        return;
    struct kv_progress p = {"", (double)(now - since) / 1e9, 0, 0};
    snprintf(p.phase, sizeof p.phase, "%s", phase);
    hg_stats st = {.size = sizeof st};
    hg_stats_read(r->live->rt, &st);
    uint64_t done = kv_done(r->live);
    p.cycles = (double)st.cycles;
    p.rate = (double)(done - r->said_done) * 1e9 / (double)(now - r->said_at);
    r->said_at = now;
    r->said_done = done;
    char *line = kv_json_progress(&p);
    ssize_t written = write(r->say, line, strlen(line));
    (void)written;
    free(line);
}

static int fail(struct run *r, int err, const char *what)
{
    snprintf(r->why, sizeof r->why, "%s: %s", what, strerror(-err));
    return err;
}

static int build(struct run *r)
{
    struct kv_live *live = r->live;
    int err = hg_root_add(live->rt, &live->store, 1, HG_REFS);
    if (err != 0)
        return fail(r, err, "the store's root");
    err = kv_store_build(&live->store, r->opt->keys, r->opt->value_bytes, stop_asked);
    if (err == 0)
        hg_collect(live->rt);
    return err;
}

static int start_load(struct run *r)
{
    struct kv_live *live = r->live;
    hg_fd **ends = NULL;
    if (r->opt->net) {
        ends = hg_alloc(2 * (size_t)r->opt->conns * sizeof *ends, HG_REFS);
        int err = kv_net_connect(ends, r->opt, stop_asked);
        if (err != 0)
            return fail(r, err, "connecting over 127.0.0.1");
    }
    /* Half a second, and 10 us for each connection's tasks: they should be there when their first
     * arrival is due. */
    live->start = hg_in(INT64_C(500000000) + (int64_t)r->opt->conns * 10000);
    live->begin = live->start + (int64_t)(r->opt->warmup_s * 1e9);
    atomic_store_explicit(&live->end, live->begin + (int64_t)(r->opt->duration_s * 1e9),
                          memory_order_relaxed);
    for (int i = 0; i < r->opt->conns; i++) {
        int err = kv_conn_start(live, i, ends != NULL ? &ends[2 * (size_t)i] : NULL);
        if (err != 0) {
            char what[64];
            snprintf(what, sizeof what, "starting the tasks of connection %d", i);
            return fail(r, err, what);
        }
    }
    return 0;
}

/* Sleeps to the next tick, at most until t. False: interrupted. */
static bool sleep_tick(int64_t t)
{
    int64_t tick = hg_in(KV_TICK_NS);
    hg_sleep_until(tick < t ? tick : t);
    return !stop_asked();
}

static int warm_up(struct run *r)
{
    struct kv_live *live = r->live;
    while (hg_now() < live->begin) {
        if (!sleep_tick(live->begin))
            return -EINTR;
        int broken = atomic_load_explicit(&live->broken, memory_order_relaxed);
        if (broken != 0)
            return fail(r, broken, "a connection");
        kv_samples_cycles(r->samples, live->rt);
        say(r, "warm-up", live->start);
    }
    return 0;
}

static void measure(struct run *r)
{
    struct kv_live *live = r->live;
    struct kv_samples *s = r->samples;
    kv_snapshot_take(&s->from, live->rt);
    kv_samples_begin(s, live);
    int64_t end = atomic_load_explicit(&live->end, memory_order_relaxed);
    while (hg_now() < end) {
        if (!sleep_tick(end)) {
            r->interrupted = true;
            end = hg_now();
            atomic_store_explicit(&live->end, end, memory_order_relaxed);
        }
        bool rows = r->opt->series != NULL || r->opt->report != NULL;
        kv_samples_tick(s, live, r->policy->off, rows);
        say(r, "measure", live->begin);
    }
    kv_snapshot_take(&s->to, live->rt);
}

/* Waits until nothing that was to start before the end is still out. */
static void drain(struct run *r)
{
    struct kv_live *live = r->live;
    int64_t end = atomic_load_explicit(&live->end, memory_order_relaxed);
    int64_t last =
        end + KV_DRAIN_NS + KV_DRAIN_NS / 5; /* clients give up by themselves before this */
    while (kv_conns_pending(live, end) > 0) {
        hg_sleep(KV_TICK_NS / 10);
        say(r, "drain", end);
        if (hg_now() >= last) {
            kv_conns_abandon(live, end, hg_now());
            break;
        }
    }
    if (!r->policy->off)
        hg_collect(live->rt);
    kv_samples_cycles(r->samples, live->rt);
}

static int main_task(void *arg)
{
    struct run *r = arg;
    r->live->rt = hg_current();
    r->said_at = hg_now();
    int err = build(r);
    if (err == 0)
        err = start_load(r);
    if (err == 0)
        err = warm_up(r);
    if (err != 0)
        return err;
    measure(r);
    drain(r);
    err = atomic_load_explicit(&r->live->broken, memory_order_relaxed);
    return err == 0 ? 0 : fail(r, err, "a connection");
}

static void open_options(hg_options *o, const struct kv_options *opt,
                         const struct kv_policy *policy)
{
    hg_options_init(o, sizeof *o);
    hg_options_env(o, NULL, 0); /* what is wrong there the parent has said */
    o->procs = opt->procs;
    o->gc_percent = policy->off ? -1 : opt->gogc;
    o->memory_limit = policy->off ? INT64_MAX : opt->limit;
    if (!policy->off)
        o->pacer = policy->name;
    o->track_waits = true;
    size_t stack = 24576 + (size_t)kv_stack_frames_most(opt) * 256;
    size_t standard = o->stack_bytes > 0 ? o->stack_bytes : 65536;
    o->stack_bytes = stack > standard ? stack : standard;
}

int kv_run(const struct kv_options *opt, const struct kv_policy *policy, int repetition, int say_to,
           struct kv_result *result, char *why, size_t room)
{
    struct run r = {.opt = opt, .policy = policy, .say = say_to};
    hg_options o;
    open_options(&o, opt, policy);
    r.live = kv_live_new(opt, opt->seed + (uint64_t)repetition - 1);
    r.samples = kv_samples_new();
    int err = hg_run(main_task, &r, &o);
    if (err == 0 && atomic_load_explicit(&r.live->wrong, memory_order_relaxed) > 0) {
        err = -EBADMSG;
        snprintf(r.why, sizeof r.why, "%llu responses were not the answer to their request",
                 (unsigned long long)atomic_load_explicit(&r.live->wrong, memory_order_relaxed));
    }
    if (err == 0)
        kv_result_make(result, opt, policy, repetition, r.interrupted, r.live, r.samples);
    else if (err == -EINTR)
        snprintf(why, room, "interrupted before it measured anything");
    else
        snprintf(why, room, "%s", r.why[0] != 0 ? r.why : strerror(-err));
    kv_samples_free(r.samples);
    kv_live_free(r.live);
    return err == 0 ? 0 : -1;
}
