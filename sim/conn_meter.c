/* conn_meter.c: the metrics of a connection (conn.h).
 *
 * per-read   what the connector did: a context with the connection's tags and a box with the value
 *            are made on the heap, and a task is started that records the value under the tags. The
 *            reader does not wait for it
 * go-copy    the same task, with both in its arguments, which lie on its stack
 * batched    what the connector does now: hg_counter_add; a task exports what has been added since
 *            the last time, every few seconds and at the end
 */
#include "sim/conn.h"
#include <errno.h>
#include <string.h>

const char *const conn_metrics_name[CONN_METRICS] = {
    [CONN_PER_READ] = "per-read",
    [CONN_COPY] = "go-copy",
    [CONN_BATCHED] = "batched",
};

static void add(_Atomic int64_t *to, int64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static int64_t load(const _Atomic int64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

/* ---- a task per read ---- */

/* The tags under which a value is recorded. */
struct tags {
    struct conn_meter *meter; /* no heap object */
    int conn, direction;
};

struct box {
    int64_t value;
};

/* What the recording task is given. */
struct measurement {
    struct tags *tags;
    struct box *box;
};
static const uint32_t measurement_fields[] = {offsetof(struct measurement, tags),
                                              offsetof(struct measurement, box)};
static const hg_layout measurement_layout = HG_TYPED("measurement", measurement_fields);

static void record(const struct tags *tags, int64_t value)
{
    add(&tags->meter->view[tags->direction], value);
    add(&tags->meter->records, 1);
}

static void record_boxed(void *arg)
{
    const struct measurement *m = arg;
    record(m->tags, m->box->value);
}

static int start_boxed(const struct tags *tags, int64_t value)
{
    struct measurement *m = hg_alloc(sizeof *m, &measurement_layout);
    m->tags = hg_alloc(sizeof *m->tags, HG_LEAF);
    *m->tags = *tags;
    m->box = hg_alloc(sizeof *m->box, HG_LEAF);
    m->box->value = value;
    return hg_go(record_boxed, m);
}

struct copied {
    struct tags tags;
    struct box box;
};

static void record_copied(void *arg)
{
    const struct copied *c = arg;
    record(&c->tags, c->box.value);
}

/* ---- batched ---- */

static void export_now(struct conn_meter *m)
{
    hg_counter *const counter[2] = {m->read, m->written};
    for (int d = 0; d < 2; d++) {
        int64_t now = hg_counter_read(counter[d]);
        add(&m->view[d], now - m->exported_before[d]);
        m->exported_before[d] = now;
    }
    add(&m->flushes, 1);
}

static void exporter(void *arg)
{
    struct conn_meter *m = arg;
    int64_t every = (int64_t)(m->way->opt->flush_s * 1e9);
    while (hg_chan_recv(m->stop, NULL, hg_in(every)) == -ETIMEDOUT)
        export_now(m);
    export_now(m);
    hg_waitgroup_done(&m->exporter);
}

/* ---- the three ways ---- */

int conn_meter_start(struct conn_meter *m)
{
    hg_chan *stop;
    if (m->way->metrics != CONN_BATCHED)
        return 0;
    int err = hg_counter_new(hg_current(), "/conn/read:bytes", &m->read);
    if (err == 0)
        err = hg_counter_new(hg_current(), "/conn/written:bytes", &m->written);
    if (err == 0)
        err = hg_root_add(hg_current(), &m->stop, 1, HG_REFS);
    if (err == 0)
        err = hg_chan_new(0, 0, HG_LEAF, &stop);
    if (err == 0) {
        hg_ref_store(&m->stop, stop);
        hg_waitgroup_add(&m->exporter, 1);
        err = hg_go(exporter, m);
    }
    return err;
}

int conn_meter_stop(struct conn_meter *m)
{
    if (m->way->metrics == CONN_BATCHED) {
        hg_chan_close(m->stop);
        hg_waitgroup_wait(&m->exporter, HG_FOREVER);
        hg_root_remove(hg_current(), &m->stop);
        hg_counter_free(m->read);
        hg_counter_free(m->written);
    }
    while (load(&m->records) < load(&m->started))
        hg_yield();
    return atomic_load(&m->failed) == 0 ? 0 : -EAGAIN;
}

void conn_meter_note(struct conn_meter *m, int conn, int direction, int64_t bytes)
{
    struct tags tags = {m, conn, direction};
    if (m->way->metrics == CONN_BATCHED) {
        hg_counter_add(direction == CONN_READ ? m->read : m->written, bytes);
        return;
    }
    struct copied c = {tags, {bytes}};
    int err = m->way->metrics == CONN_COPY ? hg_go_copy(record_copied, &c, sizeof c)
                                           : start_boxed(&tags, bytes);
    if (err == 0)
        add(&m->started, 1);
    else
        atomic_store(&m->failed, 1);
}
