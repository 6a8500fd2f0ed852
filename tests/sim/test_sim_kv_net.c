/* test_sim_kv_net.c: the messages of `hedge-sim kv --net`: they arrive as they were sent, whatever
 * their size and however the bytes come in; what is no message of the load's is refused; and all
 * connections are made, each end with its own other end. */
#include "sim/kv_net.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(sim_kv_net, .timeout = 60);

#define MUST(c, ...) ((c) ? (void)0 : (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), abort()))

enum { KEYS = 100 };

static struct kv_store *store; /* a global root; of the running test */

static void pair(hg_fd *ends[2])
{
    int number[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, number) == 0, "socketpair");
    MUST(hg_fd_open(number[0], &ends[0]) == 0 && hg_fd_open(number[1], &ends[1]) == 0, "open");
}

static void build(int value_bytes)
{
    store = NULL;
    MUST(hg_root_add(hg_current(), &store, 1, HG_REFS) == 0, "root");
    MUST(kv_store_build(&store, KEYS, value_bytes, NULL) == 0, "build");
}

/* ---- round trips ---- */

struct serving {
    hg_fd *end;
    int value_bytes, requests;
};
static void serve(void *arg)
{
    struct serving *s = arg;
    struct kv_wire w = kv_wire_new(s->end, s->value_bytes);
    for (int i = 0; i < s->requests; i++) {
        struct kv_request *r;
        int64_t lock_ns = 0;
        MUST(kv_wire_recv_request(&w, store, &r) == 0, "request %d", i);
        MUST(r->key == (uint64_t)i % KEYS && r->seq == (uint64_t)i, "another request");
        MUST(r->write == (i % 3 == 0), "read and write are mixed up");
        MUST(kv_wire_send_response(&w, kv_store_serve(store, r, &lock_ns)) == 0, "response");
    }
    hg_fd_close(s->end);
}

static int round_trips(void *arg)
{
    int value_bytes = *(int *)arg, n = 60;
    hg_fd *ends[2];
    struct kv_request *request[60];
    build(value_bytes);
    pair(ends);
    struct serving s = {ends[1], value_bytes, n};
    MUST(hg_go_copy(serve, &s, sizeof s) == 0, "hg_go");
    struct kv_wire w = kv_wire_new(ends[0], value_bytes);
    for (int i = 0, answered = 0; i < n; i++) {
        request[i] =
            kv_request_new((uint64_t)i % KEYS, (uint64_t)i, 3, i % 3 == 0 ? value_bytes : 0);
        MUST(kv_wire_send_request(&w, request[i]) == 0, "send");
        /* Several under way, where they fit into the sockets' buffers. */
        for (; value_bytes > 4096 ? answered <= i : i % 4 == 3 && answered <= i; answered++) {
            struct kv_response *resp;
            MUST(kv_wire_recv_response(&w, store, request[answered], &resp) == 0, "response");
            MUST(kv_response_check(store, request[answered], resp) >= 0, "a wrong answer");
            MUST(resp->version == (answered % 3 == 0 ? 1u : 0u), "version"); /* each key once */
        }
    }
    struct kv_response *resp;
    MUST(kv_wire_recv_response(&w, store, request[0], &resp) == -EPIPE, "the end");
    hg_root_remove(hg_current(), &store);
    return 7;
}
Test(sim_kv_net, messages_arrive_as_they_were_sent)
{
    for (int procs = 1; procs <= 2; procs++) {
        static int sizes[] = {8, 1024, 16384, 200000};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            hg_options o;
            hg_options_init(&o, sizeof o);
            o.procs = procs;
            o.stress = 20;
            cr_assert_eq(hg_run(round_trips, &sizes[i], &o), 7, "%d bytes", sizes[i]);
        }
    }
}

/* ---- what is no message ---- */

static int recv_from(const void *bytes, size_t n)
{
    hg_fd *ends[2];
    struct kv_request *r;
    pair(ends);
    MUST(hg_fd_write_all(ends[0], bytes, n, HG_FOREVER) == 0, "write");
    MUST(hg_fd_close(ends[0]) == 0, "close");
    struct kv_wire w = kv_wire_new(ends[1], 1024);
    int err = kv_wire_recv_request(&w, store, &r);
    hg_fd_close(ends[1]);
    return err;
}
static int bad_messages(void *arg)
{
    /* key, sequence, bytes of key and of value */
    struct {
        uint64_t key, seq;
        uint32_t key_bytes, value_bytes;
        uint8_t rest[2000];
    } m = {5, 1, KV_KEY_BYTES, 0, {0}};
    (void)arg;
    build(1024);
    MUST(recv_from(&m, 24 + KV_KEY_BYTES) == 0, "a good one");
    MUST(recv_from(&m, 24 + KV_KEY_BYTES - 1) == -EPIPE, "cut in its key");
    MUST(recv_from(&m, 10) == -EPIPE, "cut in its head");
    MUST(recv_from(&m, 0) == -EPIPE, "none");
    m.key = KEYS;
    MUST(recv_from(&m, 24 + KV_KEY_BYTES) == -EBADMSG, "a key that is not there");
    m.key = 5;
    m.key_bytes = UINT32_MAX;
    MUST(recv_from(&m, sizeof m) == -EBADMSG, "a long key");
    m.key_bytes = KV_KEY_BYTES;
    m.value_bytes = UINT32_MAX;
    MUST(recv_from(&m, sizeof m) == -EBADMSG, "a long value");
    m.value_bytes = 1024;
    MUST(recv_from(&m, 24 + KV_KEY_BYTES + 1024) == 0, "a good write");
    MUST(recv_from(&m, 24 + KV_KEY_BYTES + 1000) == -EPIPE, "cut in its value");
    hg_root_remove(hg_current(), &store);
    return 7;
}
Test(sim_kv_net, what_is_no_message_is_refused)
{
    cr_assert_eq(hg_run(bad_messages, NULL, NULL), 7);
}

/* ---- connections ---- */

static int never(void) { return 0; }
static int always(void) { return 1; }
static int connections(void *arg)
{
    struct kv_options opt = {.conns = 200, .net = true};
    hg_fd **ends = hg_alloc(400 * sizeof *ends, HG_REFS);
    (void)arg;
    MUST(kv_net_connect(ends, &opt, always) == -EINTR, "interrupted");
    MUST(kv_net_connect(ends, &opt, never) == 0, "connect");
    for (int i = 0; i < 200; i++)
        MUST(hg_fd_write_all(ends[2 * i], &i, sizeof i, HG_FOREVER) == 0, "write");
    for (int i = 199; i >= 0; i--) {
        int got = -1;
        MUST(hg_fd_read_full(ends[2 * i + 1], &got, sizeof got, HG_FOREVER) == sizeof got, "read");
        MUST(got == i, "connection %d ends at %d", i, got);
    }
    return 7;
}
Test(sim_kv_net, each_end_has_its_own_other_end)
{
    struct kv_options opt = {.conns = 200};
    char why[200];
    cr_assert_eq(kv_net_descriptors(&opt, why, sizeof why), 0, "%s", why);
    cr_assert_eq(hg_run(connections, NULL, NULL), 7);
}
