/* kv_load.c: the client and server tasks of a connection.
 *
 * A client sleeps until its next arrival is due, makes a request, sends it to its server over one
 * unbuffered channel and waits for the response on another (with --net: over a TCP connection).
 * When it is late it does not skip: it issues at once, and the latency counts from the intended
 * start. Under each of the two tasks lie `depth` frames of 16 references, as a real server's call
 * chain would; with stack noise some of them only while it waits for a request, as many as the time
 * gives (kv_stack_frames).
 *
 * What measuring costs a request: three readings of the clock, four of a task's counters (a copy of
 * six words), one atomic addition to a histogram, one to a counter, one comparison with the
 * threshold of the slow ones. None of it allocates from the heap, and all of it comes after the
 * request's own end.
 */
#include "sim/kv_live.h"
#include "sim/kv_net.h"
#include "sim/memory.h"
#include <errno.h>
#include <math.h>
#include <string.h>

#define FRAME_REFS 16

/* What a task of a connection is started with, copied onto its stack. */
struct conn_task {
    struct kv_live *live;
    hg_chan *requests, *responses;
    hg_fd *end;         /* --net: in place of the channels, this task's end */
    struct kv_node *up; /* what the frames' references point to */
    int id;
};

struct kv_live *kv_live_new(const struct kv_options *opt, uint64_t seed)
{
    struct kv_live *live = aligned_alloc(128, sizeof *live);
    size_t conns_bytes = (size_t)opt->conns * sizeof(struct kv_conn);
    struct kv_conn *conn = aligned_alloc(128, conns_bytes);
    if (live == NULL || conn == NULL) {
        fprintf(stderr, "hedge-sim: no memory for the books of %d connections\n", opt->conns);
        abort();
    }
    memset(live, 0, sizeof *live);
    memset(conn, 0, conns_bytes);
    live->opt = opt;
    live->seed = seed;
    live->conn = conn;
    /* Room for everything above p99, by half as much again, within reason. */
    double expected = opt->rate * opt->duration_s * 0.015 / KV_MEASURE_SHARDS;
    size_t room = expected < 256 ? 256 : expected > 8192 ? 8192 : (size_t)expected;
    for (int i = 0; i < KV_MEASURE_SHARDS; i++)
        kv_slowest_init(&live->measure[i].slowest, room);
    return live;
}

void kv_live_free(struct kv_live *live)
{
    for (int i = 0; i < KV_MEASURE_SHARDS; i++)
        kv_slowest_free(&live->measure[i].slowest);
    free(live->conn);
    free(live);
}

/* ---- frames ---- */

/* Makes the compiler believe that the frame's references are read and changed here: they stay in
 * memory. */
static inline void frame_used(struct kv_node **frame)
{
    __asm__ volatile("" : : "r"(frame) : "memory");
}

typedef void body(void *arg);

/* Calls f(arg) under `depth` frames of references. Returns one of them, so that the call is not the
 * frame's last act. */
__attribute__((noinline)) static struct kv_node *under_frames(int depth, body *f, void *arg,
                                                              struct kv_node *up)
{
    struct kv_node *frame[FRAME_REFS];
    if (depth == 0) {
        f(arg);
        return up;
    }
    for (int i = 0; i < FRAME_REFS; i++)
        frame[i] = up;
    frame_used(frame);
    struct kv_node *r = under_frames(depth - 1, f, arg, frame[depth % FRAME_REFS]);
    frame[(depth + 1) % FRAME_REFS] = r;
    frame_used(frame);
    return frame[frame[depth % FRAME_REFS]->a % FRAME_REFS];
}

int kv_stack_frames_least(const struct kv_options *opt)
{
    return (int)lround(opt->depth * (1 - opt->stack_noise));
}

int kv_stack_frames_most(const struct kv_options *opt)
{
    return (int)lround(opt->depth * (1 + opt->stack_noise));
}

int kv_stack_frames(const struct kv_options *opt, uint64_t seed, int64_t ns)
{
    if (opt->stack_noise == 0)
        return opt->depth;
    uint64_t period = ns > 0 ? (uint64_t)(ns / KV_STACK_NOISE_NS) : 0;
    struct sim_rng rng = {seed};
    rng.state = sim_rng_next(&rng) ^ period; /* seeds that follow each other share no period */
    double uniform = (double)(sim_rng_next(&rng) >> 11) * 0x1p-53;
    return (int)lround(opt->depth * (1 + opt->stack_noise * (2 * uniform - 1)));
}

/* Waits, by f(arg), under as many frames as there are to be now. The fewest that there can be lie
 * under the task's loop, which stays where it is. */
static void wait_under_frames(const struct conn_task *t, body *f, void *arg)
{
    const struct kv_options *opt = t->live->opt;
    int more =
        kv_stack_frames(opt, t->live->seed, hg_now() - t->live->start) - kv_stack_frames_least(opt);
    under_frames(more, f, arg, t->up);
}

/* ---- the server ---- */

/* A connection that fails ends the run, with the first error. */
static void note_broken(struct kv_live *live, int err)
{
    int none = 0;
    atomic_compare_exchange_strong(&live->broken, &none, err);
}

struct receive {
    struct kv_live *live;
    hg_chan *from;
    struct kv_wire wire;
    struct kv_request *request;
    int err;
};

static void receive(void *arg)
{
    struct receive *r = arg;
    if (r->from != NULL)
        r->err = hg_chan_recv(r->from, &r->request, HG_FOREVER);
    else
        r->err = kv_wire_recv_request(&r->wire, r->live->store, &r->request);
}

static void wait_for_request(const struct conn_task *t, struct receive *r)
{
    r->request = NULL;
    if (t->live->opt->stack_noise > 0)
        wait_under_frames(t, receive, r);
    else
        receive(r);
}

static void server_loop(void *arg)
{
    const struct conn_task *t = arg;
    struct receive r = {.live = t->live, .from = t->requests};
    struct kv_conn *conn = &t->live->conn[t->id];
    hg_task_times idle, now;
    if (t->end != NULL)
        r.wire = kv_wire_new(t->end, t->live->opt->value_bytes);
    for (;;) {
        hg_task_times_read(&idle);
        wait_for_request(t, &r);
        if (r.err != 0)
            break;
        int64_t lock_ns = 0;
        struct kv_response *response = kv_store_serve(t->live->store, r.request, &lock_ns);
        hg_task_times_read(&now);
        conn->server = kv_times_between(&idle, &now);
        conn->lock_ns = lock_ns;
        if (t->end != NULL)
            r.err = kv_wire_send_response(&r.wire, response);
        else
            r.err = hg_chan_send(t->responses, &response, HG_FOREVER);
        if (r.err != 0)
            break;
    }
    if (t->end != NULL && r.err != -EPIPE)
        note_broken(t->live, r.err);
}

/* ---- the client ---- */

struct client {
    const struct conn_task *task;
    struct kv_live *live;
    struct kv_conn *conn;
    struct kv_measure *measure;
    hg_chan *requests, *responses;
    struct kv_wire wire; /* --net: in place of the channels */
    struct kv_arrivals arrivals;
    struct kv_slow now; /* the request in hand; seq and conn go on */
    struct kv_busy busy;
    hg_task_times at_free; /* counters when the last one had ended */
    uint64_t sum;          /* of bytes read */
};

static void record(struct client *c)
{
    struct kv_slow *s = &c->now;
    int64_t latency = s->end - s->intended,
            end_of_run = atomic_load_explicit(&c->live->end, memory_order_relaxed);
    if (s->end >= c->live->begin && s->end < end_of_run)
        atomic_fetch_add_explicit(&c->measure->done, 1, memory_order_relaxed);
    if (s->intended < c->live->begin)
        return;
    sim_hist_add_shared(&c->measure->latency, latency);
    if (kv_slowest_wants(&c->measure->slowest, latency)) {
        hg_mutex_lock(&c->measure->slowest_lock);
        kv_slowest_add(&c->measure->slowest, s);
        hg_mutex_unlock(&c->measure->slowest_lock);
    }
}

/* The buffer of --garbage-bytes, filled; NULL: there is none. */
static uint8_t *garbage_new(const struct kv_options *opt, uint64_t seq)
{
    if (opt->garbage_bytes == 0)
        return NULL;
    uint8_t *garbage = hg_alloc((size_t)opt->garbage_bytes, HG_LEAF);
    memset(garbage, (int)(seq & 255), (size_t)opt->garbage_bytes);
    return garbage;
}

/* Sends a request and waits for the response. False: the server is gone. */
static bool call(struct client *c, struct kv_request *request, struct kv_response **response)
{
    if (c->requests != NULL)
        return hg_chan_send(c->requests, &request, HG_FOREVER) == 0 &&
               hg_chan_recv(c->responses, response, HG_FOREVER) == 0;
    int err = kv_wire_send_request(&c->wire, request);
    if (err == 0)
        err = kv_wire_recv_response(&c->wire, c->live->store, request, response);
    if (err != 0)
        note_broken(c->live, err);
    return err == 0;
}

/* One request, from making it to its end. False: the server is gone. */
static bool exchange(struct client *c)
{
    const struct kv_options *opt = c->live->opt;
    struct kv_store *store = c->live->store;
    struct kv_slow *s = &c->now;
    hg_task_times at_issue, at_end;
    hg_task_times_read(&at_issue);
    s->waiting = kv_times_between(&c->at_free, &at_issue);
    s->seq++;
    uint64_t key = sim_rng_next(&c->arrivals.rng) % (uint64_t)opt->keys;
    bool write = (int)(sim_rng_next(&c->arrivals.rng) % 100) >= opt->read_percent;
    s->write = write;
    struct kv_request *request =
        kv_request_new(key, s->seq, opt->garbage_nodes, write ? opt->value_bytes : 0);
    uint8_t *garbage = garbage_new(opt, s->seq);
    struct kv_response *response = NULL;
    if (!call(c, request, &response))
        return false;
    int byte = kv_response_check(store, request, response);
    if (byte < 0)
        atomic_fetch_add_explicit(&c->live->wrong, 1, memory_order_relaxed);
    else
        c->sum += (uint64_t)byte;
    if (garbage != NULL)
        c->sum += garbage[s->seq % (uint64_t)opt->garbage_bytes];
    s->end = hg_now();
    hg_task_times_read(&at_end);
    s->client = kv_times_between(&at_issue, &at_end);
    s->server = c->conn->server;
    s->lock_ns = c->conn->lock_ns;
    c->at_free = at_end;
    return true;
}

/* Counts all arrivals from the one in hand to the end of the run as late as they are now: they are
 * lower bounds of what their latency would have been, where leaving them out would flatter a run
 * that fell behind. */
static void give_up(struct client *c, int64_t now, int64_t end_of_run)
{
    int64_t intended;
    while ((intended = c->live->start + kv_arrivals_at(&c->arrivals)) < end_of_run) {
        if (intended >= c->live->begin) {
            sim_hist_add_shared(&c->measure->latency, now - intended);
            atomic_fetch_add_explicit(&c->measure->given_up, 1, memory_order_relaxed);
        }
        kv_arrivals_next(&c->arrivals);
    }
}

/* Before the next request, which is to start at `intended`: is it behind the one in c->now, and
 * what was that one's time spent on? */
static void look_back(struct client *c, int64_t intended)
{
    if (intended < c->now.end)
        kv_busy_add(&c->busy, &c->now, c->now.earlier);
    else
        memset(&c->busy, 0, sizeof c->busy);
    c->now.free_at = c->now.end;
    c->now.intended = intended;
}

static void sleep_until(void *arg) { hg_sleep_until(*(const int64_t *)arg); }

static void wait_for_arrival(struct client *c, int64_t *intended)
{
    if (c->live->opt->stack_noise > 0)
        wait_under_frames(c->task, sleep_until, intended);
    else
        sleep_until(intended);
}

static void client_requests(struct client *c)
{
    struct kv_slow *s = &c->now;
    hg_task_times_read(&c->at_free);
    for (;;) {
        look_back(c, c->live->start + kv_arrivals_at(&c->arrivals));
        atomic_store_explicit(&c->conn->next, s->intended, memory_order_release);
        if (s->intended >= atomic_load_explicit(&c->live->end, memory_order_relaxed))
            return;
        s->issued = hg_now();
        if (s->issued < s->intended) {
            wait_for_arrival(c, &s->intended);
            s->issued = hg_now();
        }
        int64_t end_of_run = atomic_load_explicit(&c->live->end, memory_order_relaxed);
        if (s->intended >= end_of_run)
            return; /* interrupted while it slept */
        if (s->issued > end_of_run + KV_DRAIN_NS) {
            give_up(c, s->issued, end_of_run);
            return;
        }
        if (!exchange(c))
            return;
        record(c);
        kv_arrivals_next(&c->arrivals);
    }
}

static void client_loop(void *arg)
{
    const struct conn_task *t = arg;
    struct client c = {.task = t,
                       .live = t->live,
                       .conn = &t->live->conn[t->id],
                       .measure = &t->live->measure[t->id % KV_MEASURE_SHARDS],
                       .requests = t->requests,
                       .responses = t->responses};
    if (t->end != NULL)
        c.wire = kv_wire_new(t->end, t->live->opt->value_bytes);
    c.now.conn = (uint32_t)t->id;
    kv_arrivals_init(&c.arrivals, t->live->opt, t->id, t->live->seed);
    client_requests(&c);
    atomic_fetch_add_explicit(&t->live->sink, c.sum, memory_order_relaxed);
    atomic_store_explicit(&c.conn->next, INT64_MAX, memory_order_release);
}

/* ---- starting, and what is still out ---- */

static void client_task(void *arg)
{
    const struct conn_task *t = arg;
    under_frames(kv_stack_frames_least(t->live->opt), client_loop, arg, t->up);
    if (t->end != NULL)
        hg_fd_close(t->end);
    else
        hg_chan_close(t->requests);
}

static void server_task(void *arg)
{
    const struct conn_task *t = arg;
    under_frames(kv_stack_frames_least(t->live->opt), server_loop, arg, t->up);
    if (t->end != NULL)
        hg_fd_close(t->end);
}

int kv_conn_start(struct kv_live *live, int id, hg_fd *const ends[2])
{
    struct conn_task t = {.live = live, .id = id};
    int err;
    if (live->opt->net)
        t.end = ends[1];
    else if ((err = hg_chan_new(sizeof(void *), 0, HG_REFS, &t.requests)) != 0 ||
             (err = hg_chan_new(sizeof(void *), 0, HG_REFS, &t.responses)) != 0)
        return err;
    t.up = kv_node_new();
    t.up->a = (uint64_t)id;
    if ((err = hg_go_copy(server_task, &t, sizeof t)) != 0)
        return err;
    if (live->opt->net)
        t.end = ends[0];
    t.up = kv_node_new();
    t.up->a = (uint64_t)id;
    return hg_go_copy(client_task, &t, sizeof t);
}

int kv_conns_pending(struct kv_live *live, int64_t t)
{
    int pending = 0;
    for (int i = 0; i < live->opt->conns; i++) {
        pending += atomic_load_explicit(&live->conn[i].next, memory_order_acquire) < t;
        if (i % 512 == 511)
            hg_yield(); /* each is a cache line of its own: tens of microseconds */
    }
    return pending;
}

uint64_t kv_conns_abandon(struct kv_live *live, int64_t end, int64_t now)
{
    uint64_t abandoned = 0;
    for (int i = 0; i < live->opt->conns; i++) {
        int64_t next = atomic_load_explicit(&live->conn[i].next, memory_order_acquire);
        if (next < live->begin || next >= end)
            continue;
        struct kv_measure *m = &live->measure[i % KV_MEASURE_SHARDS];
        sim_hist_add_shared(&m->latency, now - next);
        atomic_fetch_add_explicit(&m->given_up, 1, memory_order_relaxed);
        abandoned++;
    }
    return abandoned;
}
