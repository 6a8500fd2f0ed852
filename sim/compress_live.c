/* compress_live.c: one run of `hedge-sim compress`: tasks that send messages and tasks that receive
 * them (compress.h).
 *
 * Each connection has a sender and a receiver. The sender takes the next document, compresses it
 * into a buffer behind a header, sends that, and waits for one byte of answer; the receiver reads,
 * expands into a document of its own, compares it with what was sent, and answers. The time of a
 * message is from the sender's start to the answer.
 *
 * With reuse off encoder, decoder, and the buffers for what goes over the wire are new objects for
 * each message; with reuse on they come from object pools. The document that the receiver makes is
 * new in both ways: it belongs to whoever asked for it.
 *
 * Documents to send are made once, in C memory: arrays of records with field names, as a document
 * database sends them; they hold no references.
 */
#include "sim/compress.h"
#include "sim/memory.h"
#include "sim/rng.h"
#include "sim/stream.h"
#include <errno.h>
#include <string.h>

#define DOCUMENTS 16
#define SEED      20

struct header {
    uint32_t wire_bytes, raw_bytes;
    uint32_t document;
};

struct live {
    struct trial *trial;
    const struct compress_way *way;
    size_t raw_bytes, bound;
    unsigned char *document[DOCUMENTS]; /* C memory; constant */
    hg_objpool *encoders, *decoders, *buffers;
    hg_waitgroup done;
    _Atomic int64_t next, sent; /* next: the message that is sent next; sent: answered */
    _Atomic int64_t wire;       /* bytes of all compressed documents */
    _Atomic int failed;
};

/* ---- documents ---- */

/* The values of a record, each drawn from so many. */
enum { CUSTOMER, STATUS, CITY, AMOUNT, CENTS, ITEMS, DAY, HOUR, MINUTE, VALUES };
static const uint32_t range[VALUES] = {9000, 3, 6, 500, 100, 9, 28, 24, 60};

static size_t put_record(char *to, size_t room, const uint32_t *v, unsigned number)
{
    static const char *const city[] = {"Lisbon", "Osaka", "Quito", "Tunis", "Riga", "Perth"};
    static const char *const status[] = {"active", "closed", "pending"};
    int n = snprintf(to, room,
                     "{\"_id\":\"65a1f0c31b2c3d4e%08x\",\"customer\":%u,\"status\":\"%s\","
                     "\"city\":\"%s\",\"amount\":%u.%02u,\"items\":%u,"
                     "\"created\":\"2024-01-%02uT%02u:%02u:00Z\",\"note\":null},",
                     number, 1000 + v[CUSTOMER], status[v[STATUS]], city[v[CITY]], v[AMOUNT],
                     v[CENTS], 1 + v[ITEMS], 1 + v[DAY], v[HOUR], v[MINUTE]);
    return (size_t)n < room ? (size_t)n : room;
}

/* Records with ids in sequence. Of the values of each, `vary` per cent are drawn anew; the others
 * are as in the record before, as in an answer that is sorted. */
static unsigned char *make_document(size_t bytes, double vary, unsigned which)
{
    struct sim_rng r = {SEED + which};
    char *d = sim_alloc(bytes + 1, 1);
    uint32_t v[VALUES] = {0};
    unsigned number = which * 100000;
    for (size_t n = 0; n < bytes; number++) {
        for (int k = 0; k < VALUES; k++)
            if (n == 0 || sim_rng_below(&r, 10000) < 100 * vary)
                v[k] = sim_rng_below(&r, range[k]);
        n += put_record(d + n, bytes + 1 - n, v, number);
    }
    return (unsigned char *)d;
}

/* ---- what a message needs ---- */

static void *make_encoder(void *arg)
{
    const struct live *l = arg;
    return codec_encoder(l->way->codec, l->way->opt->level);
}

static void *make_decoder(void *arg)
{
    const struct live *l = arg;
    return codec_decoder(l->way->codec);
}

static void *make_buffer(void *arg)
{
    const struct live *l = arg;
    return hg_alloc(l->bound, HG_LEAF);
}

static hg_objpool *new_pool(struct live *l, void *(*make)(void *))
{
    hg_objpool_attr a = {.size = sizeof a,
                         .max_object_bytes = (size_t)1 << 20,
                         .budget_bytes = (size_t)64 << 20,
                         .make = make,
                         .arg = l};
    hg_objpool *p;
    return hg_objpool_new(hg_current(), &a, &p) == 0 ? p : NULL;
}

static void *take(struct live *l, hg_objpool *p, void *(*make)(void *))
{
    return l->way->reuse ? hg_objpool_get(p) : make(l);
}

static void give(struct live *l, hg_objpool *p, void *object)
{
    if (l->way->reuse)
        hg_objpool_put(p, object);
}

/* ---- the two ends ---- */

struct end {
    struct live *live;
    hg_fd *fd;
};

static bool send_message(struct live *l, hg_fd *fd, unsigned which)
{
    char answer;
    void *encoder = take(l, l->encoders, make_encoder);
    char *wire = take(l, l->buffers, make_buffer);
    size_t n =
        codec_compress(l->way->codec, encoder, wire, l->bound, l->document[which], l->raw_bytes);
    give(l, l->encoders, encoder);
    atomic_fetch_add_explicit(&l->wire, (int64_t)n, memory_order_relaxed);
    struct header h = {(uint32_t)n, (uint32_t)l->raw_bytes, which};
    bool fine = n > 0 && stream_write(fd, &h, sizeof h, wire, n);
    give(l, l->buffers, wire);
    return fine && stream_read(fd, &answer, 1) && answer == 1;
}

static bool receive_message(struct live *l, hg_fd *fd)
{
    struct header h;
    if (!stream_read(fd, &h, sizeof h))
        return false;
    void *wire = take(l, l->buffers, make_buffer);
    bool fine =
        h.wire_bytes <= l->bound && h.document < DOCUMENTS && stream_read(fd, wire, h.wire_bytes);
    if (fine) {
        void *document = hg_alloc(h.raw_bytes, HG_LEAF);
        void *decoder = take(l, l->decoders, make_decoder);
        fine = codec_expand(l->way->codec, decoder, document, h.raw_bytes, wire, h.wire_bytes) &&
               memcmp(document, l->document[h.document], l->raw_bytes) == 0;
        give(l, l->decoders, decoder);
    }
    give(l, l->buffers, wire);
    char answer = fine;
    return stream_write(fd, &answer, 1, NULL, 0) && fine;
}

static void sender(void *arg)
{
    struct end *e = arg;
    struct live *l = e->live;
    int64_t messages = l->way->opt->messages;
    for (;;) {
        int64_t i = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed), began = hg_now();
        if (i >= messages || trial_stopped())
            break;
        if (!send_message(l, e->fd, (unsigned)(i % DOCUMENTS))) {
            atomic_store_explicit(&l->failed, 1, memory_order_relaxed);
            break;
        }
        trial_add(l->trial, hg_now() - began);
        atomic_fetch_add_explicit(&l->sent, 1, memory_order_relaxed);
    }
    hg_fd_close(e->fd);
    hg_waitgroup_done(&l->done);
}

static void receiver(void *arg)
{
    struct end *e = arg;
    while (receive_message(e->live, e->fd)) {}
    hg_fd_close(e->fd);
    hg_waitgroup_done(&e->live->done);
}

/* ---- the run ---- */

static int start(struct live *l, hg_fd **fd)
{
    for (int i = 0; i < l->way->opt->conns; i++) {
        struct end a = {l, fd[2 * i]}, b = {l, fd[2 * i + 1]};
        hg_waitgroup_add(&l->done, 2);
        int err = hg_go_copy(receiver, &b, sizeof b);
        if (err == 0)
            err = hg_go_copy(sender, &a, sizeof a);
        if (err != 0)
            return err;
    }
    return 0;
}

static int main_task(void *arg)
{
    struct live *l = arg;
    l->encoders = new_pool(l, make_encoder);
    l->decoders = new_pool(l, make_decoder);
    l->buffers = new_pool(l, make_buffer);
    if (l->encoders == NULL || l->decoders == NULL || l->buffers == NULL)
        return -ENOMEM;
    int err;
    hg_fd **fd = stream_pairs(l->way->opt->conns, &err);
    if (err != 0)
        return err;
    trial_begin(l->trial);
    err = start(l, fd);
    if (err != 0)
        return err;
    hg_waitgroup_wait(&l->done, HG_FOREVER);
    int64_t sent = atomic_load_explicit(&l->sent, memory_order_relaxed);
    l->trial->extra = (double)atomic_load_explicit(&l->wire, memory_order_relaxed) / (double)sent;
    trial_end(l->trial, sent);
    if (atomic_load_explicit(&l->failed, memory_order_relaxed) != 0) {
        snprintf(l->trial->shared->error, sizeof l->trial->shared->error,
                 "a message came back wrong, or not at all");
        return 1;
    }
    return 0;
}

int compress_run(struct trial *t, const void *arg)
{
    struct live *l = sim_alloc(1, sizeof *l);
    l->trial = t;
    l->way = arg;
    l->raw_bytes = (size_t)l->way->opt->message_bytes;
    l->bound = codec_bound(l->way->codec, l->raw_bytes);
    for (unsigned i = 0; i < DOCUMENTS; i++)
        l->document[i] = make_document(l->raw_bytes, l->way->opt->vary, i);
    int err = trial_run(t, l->way->opt->procs, main_task, l);
    for (unsigned i = 0; i < DOCUMENTS; i++)
        free(l->document[i]);
    free(l);
    return err;
}
