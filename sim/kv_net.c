/* kv_net.c: the messages of `hedge-sim kv --net`, and its connections (kv_net.h).
 *
 * A message is a head of fixed size, then key and value as they lie in the heap: no copy is made to
 * send them (writev). The reader takes head and what follows out of one read where it can, and
 * allocates what a decoder would: on the server the request anew, on the client the response. So a
 * message costs each side one system call while the peer is prompt, and one more to find out that
 * it has to wait.
 *
 * Clients and servers are tasks of one process. A second process for the clients would have procs
 * of its own: on a machine with as many CPUs as the server has procs the kernel would run one
 * process's threads or the other's, in slices of milliseconds, and that is what would be measured.
 * In one process both sides share the procs as they do over channels, the two loads differ in what
 * carries the messages alone, and one clock tells where a request's time went.
 *
 * Ownership: hg_fds are heap objects; the ends of a connection are its two tasks', and are closed
 * when a task has ended, at the latest with the runtime.
 */
#include "sim/kv_net.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define SPARE_DESCRIPTORS 64u /* of the program itself, and listening */
/* An address and port of the server's takes at most as many connections as the client's side has
 * ephemeral ports: 28,232 by default. */
#define PER_LISTENER 16384
#define CONNECT_NS   INT64_C(10000000000)
#define AHEAD_MOST   ((size_t)16384)

struct request_head {
    uint64_t key, seq;
    uint32_t key_bytes, value_bytes; /* what follows; a value of 0: a read */
};
struct response_head {
    uint64_t seq, version;
    uint32_t wire_bytes; /* what follows */
    uint32_t spare;
};

/* ---- connections ---- */

int kv_net_descriptors(const struct kv_options *opt, char *why, size_t room)
{
    struct rlimit limit, wanted;
    rlim_t needs = 2 * (rlim_t)opt->conns + SPARE_DESCRIPTORS + (rlim_t)opt->conns / PER_LISTENER;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needs)
        return 0;
    wanted = limit;
    wanted.rlim_cur = needs;
    if (limit.rlim_max < needs)
        wanted.rlim_max = needs; /* for those who may */
    if (setrlimit(RLIMIT_NOFILE, &wanted) == 0)
        return 0;
    long fit = ((long)limit.rlim_max - (long)SPARE_DESCRIPTORS - 1) / 2;
    snprintf(why, room,
             "%d connections need %llu descriptors, and this process may open %llu: raise the hard "
             "limit (ulimit -Hn), or --conns %ld",
             opt->conns, (unsigned long long)needs, (unsigned long long)limit.rlim_max,
             fit > 0 ? fit : 1);
    return -1;
}

static int listen_anew(hg_fd **listener, char address[HG_ADDRESS_ROOM])
{
    if (*listener != NULL)
        hg_fd_close(*listener);
    int err = hg_listen("127.0.0.1:0", 0, listener);
    if (err == 0)
        err = hg_fd_local_address(*listener, address, HG_ADDRESS_ROOM);
    return err < 0 ? err : 0;
}

int kv_net_connect(hg_fd **ends, const struct kv_options *opt, int (*stop)(void))
{
    hg_fd *listener = NULL, *end;
    char address[HG_ADDRESS_ROOM];
    int err = 0;
    for (int i = 0; i < opt->conns && err == 0; i++) {
        if (i % PER_LISTENER == 0)
            err = listen_anew(&listener, address);
        if (err == 0 && (err = hg_dial(address, hg_in(CONNECT_NS), &end)) == 0) {
            hg_ref_store(&ends[2 * i], end);
            /* Nobody else dials: this is the other end of it. */
            err = hg_fd_accept(listener, hg_in(CONNECT_NS), &end);
        }
        if (err == 0)
            hg_ref_store(&ends[2 * i + 1], end);
        if (err == 0 && i % 64 == 0 && stop())
            err = -EINTR;
    }
    if (listener != NULL)
        hg_fd_close(listener);
    return err;
}

/* ---- bytes ---- */

struct kv_wire kv_wire_new(hg_fd *fd, int value_bytes)
{
    size_t room = (size_t)value_bytes + KV_KEY_BYTES + 64;
    room = room < AHEAD_MOST ? room : AHEAD_MOST;
    return (struct kv_wire){fd, hg_alloc(room, HG_LEAF), 0, 0, room};
}

/* What was read ahead, at most n bytes of it. Returns how many. */
static size_t take_ahead(struct kv_wire *w, void *to, size_t n)
{
    size_t have = w->to - w->from < n ? w->to - w->from : n;
    memcpy(to, w->ahead + w->from, have);
    w->from += have;
    return have;
}

/* n bytes: of a short piece as much is read ahead as there is room for; a longer one is read to
 * where it belongs. */
static int take(struct kv_wire *w, void *to, size_t n)
{
    size_t have = take_ahead(w, to, n);
    while (have < n) {
        ssize_t got;
        if (n - have >= w->room) {
            got = hg_fd_read_full(w->fd, (uint8_t *)to + have, n - have, HG_FOREVER);
            if (got > 0)
                have += (size_t)got;
            if (got >= 0 && have < n)
                return -EPIPE;
        } else {
            got = hg_fd_read(w->fd, w->ahead, w->room, HG_FOREVER);
            w->from = 0;
            w->to = got > 0 ? (size_t)got : 0;
            if (got == 0)
                return -EPIPE;
            have += take_ahead(w, (uint8_t *)to + have, n - have);
        }
        if (got < 0)
            return (int)got;
    }
    return 0;
}

/* ---- messages ---- */

int kv_wire_send_request(struct kv_wire *w, const struct kv_request *r)
{
    struct request_head head = {r->key, r->seq, (uint32_t)r->key_bytes.length,
                                (uint32_t)r->value.length};
    struct iovec iov[] = {{&head, sizeof head},
                          {r->key_bytes.data, r->key_bytes.length},
                          {r->value.data, r->value.length}};
    return hg_fd_writev_all(w->fd, iov, r->value.length > 0 ? 3 : 2, HG_FOREVER);
}

int kv_wire_recv_request(struct kv_wire *w, const struct kv_store *s, struct kv_request **out)
{
    struct request_head head;
    int err = take(w, &head, sizeof head);
    if (err != 0)
        return err;
    if (head.key >= s->keys || head.key_bytes != KV_KEY_BYTES ||
        (head.value_bytes != 0 && head.value_bytes != (uint32_t)s->value_bytes))
        return -EBADMSG;
    struct kv_request *r = kv_request_new(head.key, head.seq, 0, (int)head.value_bytes);
    err = take(w, r->key_bytes.data, head.key_bytes);
    if (err == 0 && head.value_bytes != 0)
        err = take(w, r->value.data, head.value_bytes);
    *out = r;
    return err;
}

int kv_wire_send_response(struct kv_wire *w, const struct kv_response *r)
{
    struct response_head head = {r->seq, r->version, (uint32_t)r->wire.length, 0};
    struct iovec iov[] = {{&head, sizeof head}, {r->wire.data, r->wire.length}};
    return hg_fd_writev_all(w->fd, iov, 2, HG_FOREVER);
}

int kv_wire_recv_response(struct kv_wire *w, const struct kv_store *s, struct kv_request *r,
                          struct kv_response **out)
{
    struct response_head head;
    int err = take(w, &head, sizeof head);
    if (err != 0)
        return err;
    size_t expected = KV_KEY_BYTES + (r->write ? 0 : (size_t)s->value_bytes);
    if (head.wire_bytes != expected)
        return -EBADMSG;
    struct kv_response *resp = kv_response_new(r, head.seq, expected);
    resp->version = head.version;
    *out = resp;
    return take(w, resp->wire.data, expected);
}

double kv_net_garbage_per_op(const struct kv_options *opt)
{
    double value = opt->value_bytes, reads = opt->read_percent / 100.0;
    /* The server's request with its key, the client's response with what it carries. */
    return 80 + 32 + 48 + KV_KEY_BYTES + reads * value + (1 - reads) * value;
}
