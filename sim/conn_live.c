/* conn_live.c: one run of `hedge-sim conn`: clients that ask for a row, servers that give it, over
 * loopback TCP (conn.h).
 *
 * The clients' connections are the instrumented ones. A request is one write and two reads: the
 * row's header, and the row into an object of its size. The servers stand for the database: they
 * allocate nothing and are not metered. A row has 24 to 4,096 bytes, uniform in the logarithm.
 */
#include "sim/conn.h"
#include "sim/memory.h"
#include "sim/rng.h"
#include "sim/stream.h"
#include <errno.h>
#include <math.h>
#include <string.h>

#define ROW_LEAST 24
#define ROW_MOST  4096
#define PHASES    16 /* rows that differ from each other */
#define QUERY     64 /* bytes of a request */
#define SEED      983

struct live {
    struct trial *trial;
    const struct conn_way *way;
    struct conn_meter meter;
    hg_waitgroup done;
    char row[ROW_MOST + PHASES]; /* what rows are made of; constant */
    _Atomic int64_t answered, bytes[2];
    _Atomic int failed;
};

/* What a client makes of an answer. */
struct row {
    char *text;
    uint32_t bytes, number;
};
static const uint32_t row_fields[] = {offsetof(struct row, text)};
static const hg_layout row_layout = HG_TYPED("row", row_fields);

struct query {
    uint32_t bytes, number; /* of the row */
    char sql[QUERY - 8];
};

struct answer {
    uint32_t bytes, number;
};

struct end {
    struct live *live;
    hg_fd *fd;
    int conn;
};

/* ---- the metered connection ---- */

static bool metered_read(struct end *e, void *buf, size_t n)
{
    if (!stream_read(e->fd, buf, n))
        return false;
    conn_meter_note(&e->live->meter, e->conn, CONN_READ, (int64_t)n);
    return true;
}

static bool metered_write(struct end *e, const void *buf, size_t n)
{
    if (!stream_write(e->fd, buf, n, NULL, 0))
        return false;
    conn_meter_note(&e->live->meter, e->conn, CONN_WRITTEN, (int64_t)n);
    return true;
}

/* ---- the two ends ---- */

/* One request; NULL: failed. */
static struct row *ask(struct end *e, const struct query *q)
{
    struct answer a;
    if (!metered_write(e, q, sizeof *q) || !metered_read(e, &a, sizeof a) || a.bytes != q->bytes)
        return NULL;
    struct row *row = hg_alloc(sizeof *row, &row_layout);
    row->bytes = a.bytes;
    row->number = a.number;
    row->text = hg_alloc(a.bytes, HG_LEAF);
    if (!metered_read(e, row->text, a.bytes))
        return NULL;
    bool right = row->number == q->number &&
                 memcmp(row->text, e->live->row + row->number % PHASES, row->bytes) == 0;
    return right ? row : NULL;
}

static void client(void *arg)
{
    struct end *e = arg;
    struct live *l = e->live;
    struct sim_rng r = {SEED + (uint64_t)e->conn};
    struct query q = {.sql = "select text from notes where id = $1"};
    int64_t n = 0, read = 0;
    for (; n < l->way->opt->requests && !trial_stopped(); n++) {
        double share = (double)sim_rng_below(&r, 65536) / 65536;
        q.bytes = (uint32_t)(ROW_LEAST * pow((double)ROW_MOST / ROW_LEAST, share));
        q.number = (uint32_t)n;
        int64_t began = hg_now();
        if (ask(e, &q) == NULL) {
            atomic_store(&l->failed, 1);
            break;
        }
        read += (int64_t)(q.bytes + sizeof(struct answer));
        trial_add(l->trial, hg_now() - began);
    }
    atomic_fetch_add(&l->answered, n);
    atomic_fetch_add(&l->bytes[CONN_READ], read);
    atomic_fetch_add(&l->bytes[CONN_WRITTEN], n * QUERY);
    hg_fd_close(e->fd);
    hg_waitgroup_done(&l->done);
}

static void server(void *arg)
{
    struct end *e = arg;
    struct query q;
    while (stream_read(e->fd, &q, sizeof q)) {
        struct answer a = {q.bytes, q.number};
        if (q.bytes == 0 || q.bytes > ROW_MOST ||
            !stream_write(e->fd, &a, sizeof a, e->live->row + q.number % PHASES, q.bytes))
            break;
    }
    hg_fd_close(e->fd);
    hg_waitgroup_done(&e->live->done);
}

/* ---- the run ---- */

static int start(struct live *l, hg_fd **fd)
{
    for (int i = 0; i < l->way->opt->conns; i++) {
        struct end a = {l, fd[2 * i], i}, b = {l, fd[2 * i + 1], i};
        hg_waitgroup_add(&l->done, 2);
        int err = hg_go_copy(server, &b, sizeof b);
        if (err == 0)
            err = hg_go_copy(client, &a, sizeof a);
        if (err != 0)
            return err;
    }
    return 0;
}

static int fail(struct live *l, const char *what)
{
    snprintf(l->trial->shared->error, sizeof l->trial->shared->error, "%s", what);
    return 1;
}

static int main_task(void *arg)
{
    struct live *l = arg;
    int err;
    hg_fd **fd = stream_pairs(l->way->opt->conns, &err);
    if (err == 0)
        err = conn_meter_start(&l->meter);
    if (err != 0)
        return err;
    trial_begin(l->trial);
    err = start(l, fd);
    if (err != 0)
        return err;
    hg_waitgroup_wait(&l->done, HG_FOREVER);
    err = conn_meter_stop(&l->meter);
    trial_end(l->trial, atomic_load(&l->answered));
    if (err != 0)
        return fail(l, "no stack for a task that records a metric");
    if (atomic_load(&l->failed) != 0)
        return fail(l, "a row came back wrong, or not at all");
    for (int d = 0; d < 2; d++)
        if (atomic_load(&l->meter.view[d]) != atomic_load(&l->bytes[d]))
            return fail(l, "the metrics are wrong");
    return 0;
}

int conn_run(struct trial *t, const void *arg)
{
    struct live *l = sim_alloc(1, sizeof *l);
    l->trial = t;
    l->way = arg;
    l->meter.way = arg;
    for (int i = 0; i < ROW_MOST + PHASES; i++)
        l->row[i] = (char)('a' + i % 26);
    int err = trial_run(t, l->way->opt->procs, main_task, l);
    free(l);
    return err;
}
