/* test_fault_net.c: descriptors while system calls fail: traffic that is interrupted and cut short
 * arrives whole; each call that fails is an error of the call behind it, and no number stays open;
 * errors of one connection are of that one alone. */
#include "base/rand.h"
#include "tests/fault/fault.h"
#include "tests/support/test.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(fault_net, .timeout = 100);

#define SEC (1000 * FAULT_MS)

static hg_waitgroup group;

static int run(int procs, int (*first)(void *), void *arg)
{
    hg_options o = fault_options(procs);
    return hg_run(first, arg, &o);
}

static hg_fd *listen_on_loopback(char address[HG_ADDRESS_ROOM])
{
    hg_fd *l;
    MUST(hg_listen("127.0.0.1:0", 0, &l) == 0, "listen");
    MUST(hg_fd_local_address(l, address, HG_ADDRESS_ROOM) > 0, "address");
    return l;
}

/* ---- traffic ---- */

static void echo(void *arg)
{
    hg_fd *f = *(hg_fd **)arg;
    unsigned char buf[1000];
    ssize_t n;
    while ((n = hg_fd_read(f, buf, sizeof buf, hg_in(30 * SEC))) > 0)
        MUST(hg_fd_write_all(f, buf, (size_t)n, hg_in(30 * SEC)) == 0, "echo: write");
    MUST(n == 0, "echo: read: %d", (int)n);
    MUST(hg_fd_close(f) == 0, "close");
    hg_waitgroup_done(&group);
}

/* A task of its own for each direction, so that long messages do not fill both buffers. */
struct stream {
    hg_fd *f;
    uint64_t seed;
    int messages;
};
static size_t message(struct hg_rand *r, unsigned char *to, size_t most)
{
    size_t n = 1 + hg_rand_below(r, (uint32_t)most);
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)hg_rand_next(r);
    return n;
}
static void talk(void *arg)
{
    struct stream *s = arg;
    struct hg_rand r = {s->seed};
    unsigned char *buf = hg_alloc(8192, HG_LEAF);
    for (int i = 0; i < s->messages; i++) {
        size_t n = message(&r, buf, 8192), half = n / 2;
        struct iovec iov[] = {{buf, half}, {buf + half, n - half}};
        MUST(hg_fd_writev_all(s->f, iov, 2, hg_in(30 * SEC)) == 0, "talk");
    }
    MUST(hg_fd_shutdown(s->f, SHUT_WR) == 0, "shutdown");
    hg_waitgroup_done(&group);
}
static void listen_to(void *arg)
{
    struct stream *s = arg;
    struct hg_rand r = {s->seed};
    unsigned char *expected = hg_alloc(8192, HG_LEAF), *buf = hg_alloc(8192, HG_LEAF);
    for (int i = 0; i < s->messages; i++) {
        size_t n = message(&r, expected, 8192);
        MUST(hg_fd_read_full(s->f, buf, n, hg_in(30 * SEC)) == (ssize_t)n, "read_full");
        MUST(memcmp(buf, expected, n) == 0, "message %d is damaged", i);
    }
    MUST(hg_fd_read(s->f, buf, 1, hg_in(30 * SEC)) == 0, "more than was sent");
    MUST(hg_fd_close(s->f) == 0, "close");
    hg_waitgroup_done(&group);
}

enum { CONNECTIONS = 8 };
static int traffic(void *arg)
{
    uint64_t seed = *(uint64_t *)arg;
    char address[HG_ADDRESS_ROOM];
    hg_fd *l = listen_on_loopback(address);
    hg_waitgroup_add(&group, 3 * CONNECTIONS);
    for (int i = 0; i < CONNECTIONS; i++) {
        hg_fd *server;
        struct stream s = {NULL, seed + (uint64_t)i, 20};
        MUST(hg_dial(address, hg_in(30 * SEC), &s.f) == 0, "dial");
        MUST(hg_fd_accept(l, hg_in(30 * SEC), &server) == 0, "accept");
        MUST(hg_go_copy(echo, &server, sizeof server) == 0, "hg_go");
        MUST(hg_go_copy(talk, &s, sizeof s) == 0, "hg_go");
        MUST(hg_go_copy(listen_to, &s, sizeof s) == 0, "hg_go");
    }
    MUST(hg_waitgroup_wait(&group, hg_in(60 * SEC)) == 0, "some connection hangs");
    MUST(hg_fd_close(l) == 0, "close");
    return FAULT_DONE;
}

#define TRANSFERS                                                              \
    (HG_OS_BIT(READ) | HG_OS_BIT(WRITEV) | HG_OS_BIT(RECV) | HG_OS_BIT(SEND) | \
     HG_OS_BIT(RECVMSG) | HG_OS_BIT(SENDMSG))

Test(fault_net, traffic_that_is_interrupted_and_cut_short_arrives_whole)
{
    uint64_t seed = test_seed("fault_net");
    for (int procs = 1; procs <= 4; procs *= 2) {
        hg__os_fault_add(&(struct hg_os_fault){
            .calls = TRANSFERS | HG_OS_BIT(ACCEPT), .error = EINTR, .one_in = 3, .seed = seed});
        hg__os_fault_add(&(struct hg_os_fault){.calls = HG_OS_BIT(POLLER_WAIT) | HG_OS_BIT(WAIT),
                                               .error = EINTR,
                                               .one_in = 2,
                                               .seed = seed + 1});
        hg__os_fault_add(
            &(struct hg_os_fault){.calls = TRANSFERS, .at_most = 3, .one_in = 4, .seed = seed + 2});
        hg__os_fault_add(
            &(struct hg_os_fault){.calls = TRANSFERS, .at_most = 700, .one_in = 2, .seed = seed});
        int r = run(procs, traffic, &seed);
        uint64_t interrupted = hg__os_fault_hit(0), waits = hg__os_fault_hit(1);
        uint64_t cut = hg__os_fault_hit(2) + hg__os_fault_hit(3);
        hg__os_fault_clear();
        cr_assert_eq(r, FAULT_DONE);
        cr_assert(interrupted > 100 && waits > 0 && cut > 100, "too few faults were met");
    }
}

/* The same by the switch that programs have. */
Test(fault_net, osfault_is_felt_and_harmless)
{
    uint64_t seed = test_seed("fault_net_osfault");
    hg_options o = fault_options(2);
    cr_assert_eq(setenv("HEDGEDEBUG", "osfault=1", 1), 0);
    cr_assert_eq(hg_options_env(&o, NULL, 0), 0);
    o.procs = 2;
    cr_assert_eq(hg_run(traffic, &seed, &o), FAULT_DONE);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_gt(hg__os_fault_hit(i), 20, "rule %u", i);
    hg__os_fault_clear();
    o.os_faults = -1;
    hg_runtime *rt = NULL;
    cr_assert_eq(hg_runtime_open(&o, &rt), -EINVAL);
}

/* A pipe is not a socket: read and writev. */
static int through_pipe(void *arg)
{
    uint64_t seed = *(uint64_t *)arg;
    int ends[2];
    hg_fd *from, *to;
    struct hg_rand r = {seed}, again = {seed};
    unsigned char sent[3000], got[3000];
    MUST(pipe(ends) == 0, "pipe");
    MUST(hg_fd_open(ends[0], &from) == 0 && hg_fd_open(ends[1], &to) == 0, "open");
    for (int i = 0; i < 50; i++) {
        size_t n = message(&r, sent, sizeof sent);
        MUST(hg_fd_write_all(to, sent, n, hg_in(30 * SEC)) == 0, "write");
        MUST(message(&again, sent, sizeof sent) == n, "seed");
        MUST(hg_fd_read_full(from, got, n, hg_in(30 * SEC)) == (ssize_t)n, "read");
        MUST(memcmp(sent, got, n) == 0, "message %d is damaged", i);
    }
    MUST(hg_fd_close(to) == 0, "close");
    MUST(hg_fd_read(from, got, 1, hg_in(30 * SEC)) == 0, "the end");
    MUST(hg_fd_close(from) == 0, "close");
    return FAULT_DONE;
}
Test(fault_net, pipes_too)
{
    uint64_t seed = test_seed("fault_net_pipe");
    hg__os_fault_add(
        &(struct hg_os_fault){.calls = TRANSFERS, .error = EINTR, .one_in = 3, .seed = seed});
    hg__os_fault_add(
        &(struct hg_os_fault){.calls = TRANSFERS, .at_most = 11, .one_in = 2, .seed = seed + 1});
    cr_assert_eq(run(1, through_pipe, &seed), FAULT_DONE);
    cr_assert(hg__os_fault_hit(0) > 20 && hg__os_fault_hit(1) > 20);
    hg__os_fault_clear();
}

/* ---- each call fails once ---- */

#define ALL_CALLS                                                                               \
    (TRANSFERS | HG_OS_BIT(SOCKET) | HG_OS_BIT(BIND) | HG_OS_BIT(LISTEN) | HG_OS_BIT(CONNECT) | \
     HG_OS_BIT(ACCEPT) | HG_OS_BIT(POLLER_ADD) | HG_OS_BIT(POLLER_OPEN))

/* One connection, one message each way, both ends in this task. The first error, everything being
 * closed again. */
static int exchange(const char *listen_address)
{
    char address[HG_ADDRESS_ROOM];
    unsigned char buf[4] = "abc";
    hg_fd *l = NULL, *client = NULL, *server = NULL;
    ssize_t n = 0;
    int r = hg_listen(listen_address, 0, &l);
    if (r == 0 && (r = hg_fd_local_address(l, address, sizeof address)) > 0)
        r = hg_dial(address, hg_in(5 * SEC), &client);
    if (r == 0)
        r = hg_fd_accept(l, hg_in(5 * SEC), &server);
    if (r == 0)
        r = hg_fd_write_all(client, buf, sizeof buf, hg_in(5 * SEC));
    if (r == 0 && (n = hg_fd_read(server, buf, sizeof buf, hg_in(5 * SEC))) <= 0)
        r = (int)n;
    if (r == 0) {
        struct iovec iov[] = {{buf, 1}, {buf + 1, 3}};
        r = hg_fd_writev_all(server, iov, 2, hg_in(5 * SEC));
    }
    if (r == 0 && (n = hg_fd_read_full(client, buf, sizeof buf, hg_in(5 * SEC))) <= 0)
        r = (int)n;
    MUST(r != 0 || (n == 4 && memcmp(buf, "abc", 4) == 0), "a damaged message");
    if (server != NULL)
        (void)hg_fd_close(server);
    if (client != NULL)
        (void)hg_fd_close(client);
    if (l != NULL)
        (void)hg_fd_close(l);
    return r;
}

/* With one address, each n in turn. The poller's own two descriptors stay once there are
 * any. */
static int each_call_fails(void *arg)
{
    const char *address = arg;
    int before = fault_entries("/proc/self/fd"), errors = 0;
    for (uint64_t n = 1;; n++) {
        hg__os_fault_add(
            &(struct hg_os_fault){.calls = ALL_CALLS, .error = EOVERFLOW, .nth = n, .count = 1});
        int r = exchange(address);
        bool met = hg__os_fault_hit(0) != 0;
        hg__os_fault_clear();
        int held = fault_entries("/proc/self/fd") - before;
        MUST(held == 0 || held == 2, "call %d: %d descriptors stay open", (int)n, held);
        if (!met) {
            MUST(r == 0, "without a fault: %d", r);
            break;
        }
        MUST(r == 0 || r == -EOVERFLOW, "call %d failed with %d in place of %d", (int)n, r,
             -EOVERFLOW);
        errors += r != 0;
    }
    MUST(errors >= 12, "only %d calls failed", errors);
    MUST(exchange(address) == 0, "afterwards");
    return FAULT_DONE;
}
Test(fault_net, each_call_is_an_error_of_its_own_and_leaves_nothing)
{
    static const char *const addresses[] = {"127.0.0.1:0", "unix:@hedge-fault-test"};
    int before = fault_entries("/proc/self/fd");
    for (size_t i = 0; i < 2; i++) {
        char address[64];
        snprintf(address, sizeof address, i == 0 ? "%s" : "%s-%d", addresses[i], (int)getpid());
        cr_assert_eq(run(2, each_call_fails, address), FAULT_DONE);
        cr_assert_eq(fault_entries("/proc/self/fd"), before);
    }
}

/* The same for the runtime's memory. */
static int each_allocation_fails(void *arg)
{
    int before = fault_entries("/proc/self/fd");
    (void)arg;
    for (uint64_t n = 1, met = 1; met != 0; n++) {
        fault_nth(HG_OS_BIT(META), n, 1);
        int r = exchange("127.0.0.1:0");
        met = hg__os_fault_hit(0);
        hg__os_fault_clear();
        int held = fault_entries("/proc/self/fd") - before;
        MUST(held == 0 || held == 2, "allocation %d: %d descriptors stay open", (int)n, held);
        MUST(r == 0 || (met != 0 && r == -ENOMEM), "allocation %d: %d", (int)n, r);
    }
    return FAULT_DONE;
}
Test(fault_net, no_memory_is_an_error_and_leaves_nothing)
{
    cr_assert_eq(run(1, each_allocation_fails, NULL), FAULT_DONE);
}

/* ---- out of descriptors ---- */

static int out_of_descriptors(void *arg)
{
    char address[HG_ADDRESS_ROOM], byte = 0;
    hg_fd *client, *server = NULL, *none = NULL;
    (void)arg;
    hg_fd *l = listen_on_loopback(address);
    MUST(hg_dial(address, hg_in(5 * SEC), &client) == 0, "dial");
    fault_nth(HG_OS_BIT(ACCEPT) | HG_OS_BIT(SOCKET), 1, UINT64_MAX);
    for (int i = 0; i < 2; i++) {
        int64_t start = hg_now();
        MUST(hg_fd_accept(l, hg_in(5 * SEC), &server) == -EMFILE, "accept");
        MUST(hg_now() - start >= HG_ACCEPT_PAUSE_NS, "a loop over accept would spin");
    }
    MUST(hg_dial(address, hg_in(5 * SEC), &none) == -EMFILE, "dial");
    hg__os_fault_clear();
    /* The connection that could not be accepted is there yet. */
    MUST(hg_fd_accept(l, hg_in(5 * SEC), &server) == 0, "accept");
    MUST(hg_fd_write_all(client, "x", 1, hg_in(5 * SEC)) == 0, "write");
    MUST(hg_fd_read(server, &byte, 1, hg_in(5 * SEC)) == 1 && byte == 'x', "read");
    /* Out of descriptors for the length of the pause only: nobody notices. */
    MUST(hg_dial(address, hg_in(5 * SEC), &none) == 0, "dial");
    fault_nth(HG_OS_BIT(ACCEPT), 1, 1);
    hg_fd *second;
    MUST(hg_fd_accept(l, hg_in(5 * SEC), &second) == 0, "accept after a pause");
    return FAULT_DONE;
}
Test(fault_net, accept_pauses_when_descriptors_run_out)
{
    for (int procs = 1; procs <= 2; procs++)
        cr_assert_eq(run(procs, out_of_descriptors, NULL), FAULT_DONE);
    hg__os_fault_clear();
}

/* ---- one connection is reset ---- */

static int one_is_reset(void *arg)
{
    char address[HG_ADDRESS_ROOM], byte = 0;
    hg_fd *client[2], *server[2];
    (void)arg;
    hg_fd *l = listen_on_loopback(address);
    for (int i = 0; i < 2; i++) {
        MUST(hg_dial(address, hg_in(5 * SEC), &client[i]) == 0, "dial");
        MUST(hg_fd_accept(l, hg_in(5 * SEC), &server[i]) == 0, "accept");
    }
    fault_nth(HG_OS_BIT(SEND), 1, 1);
    MUST(hg_fd_write_all(client[0], "x", 1, hg_in(5 * SEC)) == -ECONNRESET, "write");
    MUST(hg_fd_write_all(client[1], "y", 1, hg_in(5 * SEC)) == 0, "write");
    hg__os_fault_clear();
    fault_nth(HG_OS_BIT(RECV), 1, 1);
    MUST(hg_fd_read(server[0], &byte, 1, hg_in(5 * SEC)) == -ECONNRESET, "read");
    MUST(hg_fd_read(server[1], &byte, 1, hg_in(5 * SEC)) == 1 && byte == 'y', "read");
    hg__os_fault_clear();
    for (int i = 0; i < 2; i++)
        MUST(hg_fd_close(client[i]) == 0 && hg_fd_close(server[i]) == 0, "close");
    return FAULT_DONE;
}
Test(fault_net, a_reset_is_an_error_of_one_connection)
{
    cr_assert_eq(run(2, one_is_reset, NULL), FAULT_DONE);
}
