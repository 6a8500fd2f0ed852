/* test_net.c: descriptors as programs use them: connections, bytes, addresses, errors. */
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

TestSuite(net, .timeout = 60);

static int on_procs[] = {1, 2, 4};

/* ---- echo over every kind of address ---- */

struct echo {
    const char *address;
    hg_fd *listener;
    hg_waitgroup g;
};

static void echo_one(void *arg)
{
    hg_fd *f = arg;
    char buf[1000];
    ssize_t n;
    while ((n = hg_fd_read(f, buf, sizeof buf, HG_FOREVER)) > 0)
        CHECK(hg_fd_write_all(f, buf, (size_t)n, HG_FOREVER) == 0);
    CHECK(n == 0);
    CHECK(hg_fd_close(f) == 0);
}

static void serve(void *arg)
{
    struct echo *e = arg;
    hg_fd *f;
    int r;
    while ((r = hg_fd_accept(e->listener, HG_FOREVER, &f)) == 0)
        go(echo_one, f);
    CHECK(r == -EBADF); /* closed at the end of the test */
    hg_waitgroup_done(&e->g);
}

/* Sends `total` bytes from one task and reads them back in another. */
struct transfer {
    hg_fd *f;
    size_t total;
    hg_waitgroup *g;
};
static unsigned char byte_at(size_t i) { return (unsigned char)(i * 31 + i / 251); }
static void send_all(void *arg)
{
    struct transfer *t = arg;
    unsigned char buf[777];
    for (size_t at = 0; at < t->total;) {
        size_t n = t->total - at < sizeof buf ? t->total - at : sizeof buf;
        for (size_t i = 0; i < n; i++)
            buf[i] = byte_at(at + i);
        CHECK(hg_fd_write_all(t->f, buf, n, HG_FOREVER) == 0);
        at += n;
    }
    CHECK(hg_fd_shutdown(t->f, SHUT_WR) == 0);
    hg_waitgroup_done(t->g);
}
static void client(void *arg)
{
    struct echo *e = arg;
    unsigned char buf[5000];
    char text[HG_ADDRESS_ROOM];
    hg_fd *f;
    CHECK(hg_fd_local_address(e->listener, text, sizeof text) > 0);
    CHECK(hg_dial(text, HG_FOREVER, &f) == 0);
    hg_waitgroup sent = {{0}};
    struct transfer t = {f, 200000, &sent};
    hg_waitgroup_add(&sent, 1);
    go(send_all, &t);
    for (size_t at = 0; at < t.total;) {
        size_t want = t.total - at < sizeof buf ? t.total - at : sizeof buf;
        CHECK(hg_fd_read_full(f, buf, want, HG_FOREVER) == (ssize_t)want);
        for (size_t i = 0; i < want; i++)
            CHECK(buf[i] == byte_at(at + i));
        at += want;
    }
    CHECK(hg_fd_read(f, buf, sizeof buf, HG_FOREVER) == 0);
    CHECK(hg_waitgroup_wait(&sent, HG_FOREVER) == 0);
    CHECK(hg_fd_close(f) == 0);
    CHECK(hg_fd_close(f) == -EBADF);
    hg_waitgroup_done(&e->g);
}
static int echo(void *arg)
{
    enum { CLIENTS = 8 };
    struct echo e = {.address = arg};
    CHECK(hg_listen(e.address, 0, &e.listener) == 0);
    hg_waitgroup_add(&e.g, CLIENTS);
    hg_waitgroup server = {{0}};
    struct echo s = e;
    s.g = server;
    hg_waitgroup_add(&s.g, 1);
    go(serve, &s);
    for (int i = 0; i < CLIENTS; i++)
        go(client, &e);
    CHECK(hg_waitgroup_wait(&e.g, HG_FOREVER) == 0);
    CHECK(hg_fd_close(e.listener) == 0);
    CHECK(hg_waitgroup_wait(&s.g, HG_FOREVER) == 0);
    return 0;
}
ParameterizedTestParameters(net, echo_tcp) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, net, echo_tcp)
{
    cr_assert_eq(run_on(*procs, echo, (void *)(uintptr_t) "127.0.0.1:0"), 0);
}
ParameterizedTestParameters(net, echo_unix) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, net, echo_unix)
{
    char name[64];
    snprintf(name, sizeof name, "unix:@hedge-test-net-%d", (int)getpid());
    cr_assert_eq(run_on(*procs, echo, name), 0);
}
