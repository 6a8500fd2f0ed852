/* test_net_fault.c: what goes wrong: descriptors that run out, peers that vanish, pipes that break,
 * addresses that are taken, signals, and kinds of files that never have to be waited for. */
#include "tests/support/test.h"
#include "tests/unit/test_net.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>

TestSuite(net_fault, .timeout = 60);

#define MS INT64_C(1000000)

/* ---- what cannot be waited for ---- */

static int kinds_of_files(void *arg)
{
    hg_fd *f = NULL;
    char path[] = "/tmp/hedge-test-net-XXXXXX";
    int file = mkstemp(path), null = open("/dev/null", O_RDWR), dir = open("/", O_RDONLY);
    (void)arg;
    CHECK(file >= 0 && null >= 0 && dir >= 0 && unlink(path) == 0);
    int which[] = {file, null, dir};
    for (int i = 0; i < 3; i++) {
        int before = fcntl(which[i], F_GETFL);
        CHECK(hg_fd_open(which[i], &f) == -EPERM);
        CHECK(fcntl(which[i], F_GETFL) == before); /* as it was, and the caller's */
        CHECK(close(which[i]) == 0);
    }
    CHECK(hg_fd_open(file, &f) == -EBADF);
    CHECK(hg_fd_open(-1, &f) == -EBADF);
    CHECK(f == NULL);
    CHECK(hg_fd_close(NULL) == -EBADF && hg_fd_number(NULL) == -EBADF);
    CHECK(hg_fd_read(NULL, path, 1, HG_FOREVER) == -EBADF);
    CHECK(hg_fd_write_all(NULL, path, 1, HG_FOREVER) == -EBADF);
    CHECK(hg_fd_wait(NULL, POLLIN, HG_FOREVER) == -EBADF);
    CHECK(hg_fd_accept(NULL, HG_FOREVER, &f) == -EBADF);
    return 0;
}
Test(net_fault, kinds_of_files) { cr_assert_eq(run_on(1, kinds_of_files, NULL), 0); }

/* ---- pipes ---- */

static struct pair new_pipe(void)
{
    int n[2];
    struct pair p;
    CHECK(pipe2(n, O_CLOEXEC) == 0);
    CHECK(hg_fd_open(n[0], &p.a) == 0);
    CHECK(hg_fd_open(n[1], &p.b) == 0);
    return p;
}
static void write_then_close(void *arg)
{
    struct pair *p = arg;
    static char bytes[300000];
    memset(bytes, 'p', sizeof bytes);
    CHECK(hg_fd_write_all(p->b, bytes, sizeof bytes, HG_FOREVER) == 0);
    CHECK(hg_fd_close(p->b) == 0);
}
static int pipes(void *arg)
{
    struct pair p = new_pipe();
    static char bytes[400000];
    (void)arg;
    go(write_then_close, &p);
    CHECK(hg_fd_read_full(p.a, bytes, sizeof bytes, HG_FOREVER) == 300000); /* and then the end */
    CHECK(bytes[0] == 'p' && bytes[299999] == 'p');
    CHECK(hg_fd_read(p.a, bytes, 1, HG_FOREVER) == 0);
    CHECK(hg_fd_shutdown(p.a, SHUT_RD) == -ENOTSOCK);
    CHECK(hg_fd_close(p.a) == 0);
    return 0;
}
Test(net_fault, pipes) { cr_assert_eq(run_on(2, pipes, NULL), 0); }

/* EPIPE is an error and no signal, whatever the thread and its mask; and a signal that others have
 * raised is left to them. */
static void *write_to_broken(void *f)
{
    sigset_t pipe_only, pending;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    pthread_sigmask(SIG_UNBLOCK, &pipe_only, NULL);
    CHECK(hg_fd_write_all(f, "x", 1, HG_NOW) == -EPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only, NULL);
    CHECK(hg_fd_write_all(f, "x", 1, HG_NOW) == -EPIPE);
    sigpending(&pending);
    CHECK(!sigismember(&pending, SIGPIPE));
    CHECK(pthread_kill(pthread_self(), SIGPIPE) == 0);
    CHECK(hg_fd_write_all(f, "x", 1, HG_NOW) == -EPIPE);
    sigpending(&pending);
    CHECK(sigismember(&pending, SIGPIPE));
    int taken;
    CHECK(sigwait(&pipe_only, &taken) == 0);
    return NULL;
}
static int broken(void *arg)
{
    struct pair pairs[] = {new_pipe(), new_pair(SOCK_STREAM), new_tcp_pair()};
    struct iovec iov[2] = {{(void *)(uintptr_t) "ab", 2}, {(void *)(uintptr_t) "cd", 2}};
    (void)arg;
    for (int i = 0; i < 3; i++) {
        hg_fd *f = pairs[i].b;
        pthread_t thread;
        int r;
        CHECK(hg_fd_close(pairs[i].a) == 0);
        while ((r = hg_fd_write_all(f, "x", 1, HG_FOREVER)) == 0)
            ; /* TCP learns of it with the answer to the first one */
        CHECK(r == -EPIPE || (i == 2 && r == -ECONNRESET));
        CHECK(hg_fd_writev_all(f, iov, 2, HG_FOREVER) == -EPIPE);
        CHECK(iov[0].iov_len == 2 && iov[1].iov_len == 2);
        CHECK(pthread_create(&thread, NULL, write_to_broken, f) == 0);
        hg_block_enter();
        pthread_join(thread, NULL);
        hg_block_leave();
        CHECK(hg_fd_close(f) == 0);
    }
    return 0;
}
Test(net_fault, broken) { cr_assert_eq(run_on(2, broken, NULL), 0); }

/* ---- peers ---- */

static void reset_it(void *arg)
{
    struct linger now = {.l_onoff = 1};
    hg_fd *f = arg;
    CHECK(setsockopt(hg_fd_number(f), SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
    CHECK(hg_fd_close(f) == 0);
}
static int resets(void *arg)
{
    (void)arg;
    for (int i = 0; i < 50; i++) {
        struct pair p = new_tcp_pair();
        char byte;
        go(reset_it, p.b);
        if (i % 2 != 0)
            while (hg_fd_number(p.b) >= 0)
                hg_yield(); /* it comes before the call */
        CHECK(hg_fd_read(p.a, &byte, 1, HG_FOREVER) == -ECONNRESET);
        CHECK(hg_fd_read(p.a, &byte, 1, HG_FOREVER) == 0);
        CHECK(hg_fd_write_all(p.a, &byte, 1, HG_FOREVER) == -EPIPE);
        CHECK(hg_fd_wait(p.a, POLLIN, HG_FOREVER) & POLLHUP);
        CHECK(hg_fd_close(p.a) == 0);
    }
    return 0;
}
Test(net_fault, resets) { cr_assert_eq(run_on(2, resets, NULL), 0); }

/* One direction ended: the other one goes on. */
static int half_closed(void *arg)
{
    struct pair p = new_tcp_pair();
    char byte;
    (void)arg;
    CHECK(hg_fd_shutdown(p.a, SHUT_WR) == 0);
    CHECK(hg_fd_wait(p.b, POLLRDHUP, HG_FOREVER) & POLLRDHUP);
    CHECK(hg_fd_read(p.b, &byte, 1, HG_FOREVER) == 0);
    CHECK(hg_fd_read_full(p.b, &byte, 1, HG_FOREVER) == 0);
    CHECK(hg_fd_write_all(p.a, "x", 1, HG_FOREVER) == -EPIPE);
    for (int i = 0; i < 1000; i++) {
        CHECK(hg_fd_write_all(p.b, "y", 1, HG_FOREVER) == 0);
        CHECK(hg_fd_read(p.a, &byte, 1, HG_FOREVER) == 1 && byte == 'y');
    }
    CHECK(hg_fd_shutdown(p.b, SHUT_RDWR) == 0);
    CHECK(hg_fd_read(p.a, &byte, 1, HG_FOREVER) == 0);
    CHECK(hg_fd_shutdown(p.a, 17) == -EINVAL);
    close_pair(&p);
    return 0;
}
Test(net_fault, half_closed) { cr_assert_eq(run_on(2, half_closed, NULL), 0); }

/* ---- descriptors run out ---- */

struct out {
    hg_fd *l;
    int spare[64];
    int n;
    hg_waitgroup g;
    int result;
    int64_t took;
    hg_fd *got;
};
static void take_all(struct out *o)
{
    while (o->n < 64 && (o->spare[o->n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        o->n++;
    CHECK(o->n < 64 && errno == EMFILE);
}
static void accept_one(void *arg)
{
    struct out *o = arg;
    int64_t from = hg_now();
    o->result = hg_fd_accept(o->l, HG_FOREVER, &o->got);
    o->took = hg_now() - from;
    hg_waitgroup_done(&o->g);
}
static int runs_out(void *arg)
{
    struct out o = {.n = 0};
    char text[HG_ADDRESS_ROOM], byte;
    struct rlimit few;
    hg_fd *f, *g;
    (void)arg;
    CHECK(hg_listen("127.0.0.1:0", 0, &o.l) == 0);
    CHECK(hg_fd_local_address(o.l, text, sizeof text) > 0);
    CHECK(hg_dial(text, HG_FOREVER, &f) == 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &few) == 0);
    few.rlim_cur = (rlim_t)hg_fd_number(f) + 20;
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    take_all(&o);
    /* Without a pause where none is allowed; else with one. */
    CHECK(hg_fd_accept(o.l, HG_NOW, &o.got) == -EMFILE);
    hg_waitgroup_add(&o.g, 1);
    accept_one(&o);
    CHECK(o.result == -EMFILE && o.took >= HG_ACCEPT_PAUSE_NS);
    CHECK(hg_dial(text, HG_FOREVER, &g) == -EMFILE);
    CHECK(hg_listen("127.0.0.1:0", 0, &g) == -EMFILE);
    /* Nothing is lost: one that becomes free in the pause is used. */
    hg_waitgroup_add(&o.g, 1);
    go(accept_one, &o);
    hg_sleep(HG_ACCEPT_PAUSE_NS / 4);
    CHECK(close(o.spare[--o.n]) == 0);
    CHECK(hg_waitgroup_wait(&o.g, HG_FOREVER) == 0);
    CHECK(o.result == 0);
    CHECK(hg_fd_write_all(f, "q", 1, HG_FOREVER) == 0);
    CHECK(hg_fd_read(o.got, &byte, 1, HG_FOREVER) == 1 && byte == 'q');
    while (o.n > 0)
        CHECK(close(o.spare[--o.n]) == 0);
    CHECK(hg_fd_close(f) == 0 && hg_fd_close(o.got) == 0 && hg_fd_close(o.l) == 0);
    return 0;
}
Test(net_fault, descriptors_run_out) { cr_assert_eq(run_on(2, runs_out, NULL), 0); }

/* The first descriptor of a program finds no number left for the poller itself. */
static int no_poller(void *arg)
{
    struct rlimit limit;
    int n[2];
    hg_fd *f;
    (void)arg;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, n) == 0);
    for (rlim_t least = (rlim_t)n[1] + 1; least < (rlim_t)n[1] + 3; least++) {
        struct rlimit few = {least, limit.rlim_max};
        CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0); /* none left; one, and it takes two */
        CHECK(hg_fd_open(n[0], &f) == -EMFILE);
    }
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(hg_fd_open(n[0], &f) == 0);
    CHECK(hg_fd_close(f) == 0 && close(n[1]) == 0);
    return 0;
}
Test(net_fault, no_number_for_the_poller) { cr_assert_eq(run_on(1, no_poller, NULL), 0); }

/* ---- addresses ---- */

static int addresses(void *arg)
{
    hg_fd *l, *f;
    char text[HG_ADDRESS_ROOM], path[64];
    struct stat st;
    (void)arg;
    CHECK(hg_listen("127.0.0.1:0", 0, &l) == 0);
    CHECK(hg_fd_local_address(l, text, sizeof text) > 0);
    CHECK(hg_listen(text, 0, &f) == -EADDRINUSE);
    CHECK(hg_listen("127.0.0.1:0", -1, &f) == -EINVAL);
    CHECK(hg_listen("no address", 0, &f) == -EINVAL);
    CHECK(hg_listen("192.0.2.1:80", 0, &f) == -EADDRNOTAVAIL);
    CHECK(hg_fd_close(l) == 0);
    CHECK(hg_dial(text, HG_FOREVER, &f) == -ECONNREFUSED);
    CHECK(hg_dial("no address", HG_FOREVER, &f) == -EINVAL);
    snprintf(path, sizeof path, "unix:/tmp/hedge-test-net-%d", (int)getpid());
    CHECK(hg_dial(path, HG_FOREVER, &f) == -ENOENT);
    CHECK(hg_listen(path, 0, &l) == 0);
    CHECK(stat(path + 5, &st) == 0 && S_ISSOCK(st.st_mode));
    CHECK(hg_listen(path, 0, &f) == -EADDRINUSE);
    CHECK(hg_fd_local_address(l, text, sizeof text) == (int)strlen(path) && !strcmp(text, path));
    CHECK(hg_dial(path, HG_FOREVER, &f) == 0);
    CHECK(hg_fd_peer_address(f, text, sizeof text) > 0 && !strcmp(text, path));
    CHECK(hg_fd_local_address(f, text, sizeof text) == 5 && !strcmp(text, "unix:"));
    CHECK(hg_fd_close(f) == 0 && hg_fd_close(l) == 0);
    CHECK(stat(path + 5, &st) != 0 && errno == ENOENT); /* removed with its listener */
    CHECK(hg_listen(path, 0, &l) == 0 && hg_fd_close(l) == 0);
    return 0;
}
Test(net_fault, addresses) { cr_assert_eq(run_on(1, addresses, NULL), 0); }

/* Every family that this machine has, and both for ":0". */
static int families(void *arg)
{
    static const char *const listen_at[] = {"127.0.0.1:0", "[::1]:0", ":0", ":0"};
    static const char *const dial_at[] = {"127.0.0.1", "[::1]", "", "[::1]"};
    (void)arg;
    for (int i = 0; i < 4; i++) {
        hg_fd *l, *f, *g;
        char text[HG_ADDRESS_ROOM], dial[HG_ADDRESS_ROOM];
        int r = hg_listen(listen_at[i], 5, &l);
        if (r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL) {
            fprintf(stderr, "no IPv6 here\n");
            continue;
        }
        CHECK(r == 0);
        CHECK(hg_fd_local_address(l, text, sizeof text) > 0);
        snprintf(dial, sizeof dial, "%s%s", dial_at[i], strrchr(text, ':'));
        CHECK(hg_dial(dial, HG_FOREVER, &f) == 0);
        CHECK(hg_fd_accept(l, HG_FOREVER, &g) == 0);
        int on = 0;
        socklen_t n = sizeof on;
        CHECK(getsockopt(hg_fd_number(f), IPPROTO_TCP, TCP_NODELAY, &on, &n) == 0 && on);
        CHECK(getsockopt(hg_fd_number(g), IPPROTO_TCP, TCP_NODELAY, &on, &n) == 0 && on);
        CHECK(hg_fd_close(f) == 0 && hg_fd_close(g) == 0 && hg_fd_close(l) == 0);
    }
    return 0;
}
Test(net_fault, families) { cr_assert_eq(run_on(1, families, NULL), 0); }

/* A listener that accepts nothing: TCP drops the request, a Unix socket refuses it for now. Both
 * wait until the deadline, and for the listener's next accept. */
static void accept_later(void *arg)
{
    hg_fd *f;
    hg_sleep(20 * MS);
    CHECK(hg_fd_accept(arg, HG_FOREVER, &f) == 0);
    CHECK(hg_fd_close(f) == 0);
}
static int full_backlog(void *arg)
{
    enum { MOST = 64 };
    hg_fd *l, *f[MOST];
    char text[HG_ADDRESS_ROOM];
    int n = 0, r = 0;
    CHECK(hg_listen(arg, 1, &l) == 0);
    CHECK(hg_fd_local_address(l, text, sizeof text) > 0);
    while (n < MOST && (r = hg_dial(text, hg_in(100 * MS), &f[n])) == 0)
        n++;
    CHECK(n < MOST && r == -ETIMEDOUT);
    if (strncmp(text, "unix", 4) == 0)
        CHECK(hg_dial(text, HG_NOW, &f[n]) == -EAGAIN);
    go(accept_later, l);
    CHECK(hg_dial(text, hg_in(30000 * MS), &f[n]) == 0);
    while (n >= 0)
        CHECK(hg_fd_close(f[n--]) == 0);
    CHECK(hg_fd_close(l) == 0);
    return 0;
}
Test(net_fault, full_backlog_tcp)
{
    cr_assert_eq(run_on(1, full_backlog, (void *)(uintptr_t) "127.0.0.1:0"), 0);
}
Test(net_fault, full_backlog_unix)
{
    char name[64];
    snprintf(name, sizeof name, "unix:@hedge-test-backlog-%d", (int)getpid());
    cr_assert_eq(run_on(1, full_backlog, name), 0);
}

/* ---- N06: signals ---- */

static void nothing(int signal) { (void)signal; }
struct signals {
    pthread_t threads[2];
    _Atomic int places, known;
    _Atomic int stop;
    _Atomic int sent;
};
static void *shoot(void *arg)
{
    struct signals *s = arg;
    while (!hg_load_acq(&s->stop)) {
        for (int i = 0; i < 2; i++)
            CHECK(pthread_kill(s->threads[i], SIGUSR1) == 0);
        hg_add_rlx(&s->sent, 1);
        usleep(500);
    }
    return NULL;
}
/* One on each proc: lets the signal through on its thread. */
static void let_through(void *arg)
{
    struct signals *s = arg;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    s->threads[hg_add_rlx(&s->places, 1)] = pthread_self();
    hg_add_acqrel(&s->known, 1);
    while (hg_load_acq(&s->known) < 2)
        ; /* it keeps its proc until the other one is on the other */
}
static void echo_back(void *arg)
{
    char buf[64];
    ssize_t n;
    while ((n = hg_fd_read(arg, buf, sizeof buf, HG_FOREVER)) > 0)
        CHECK(hg_fd_write_all(arg, buf, (size_t)n, HG_FOREVER) == 0);
    CHECK(n == 0 && hg_fd_close(arg) == 0);
}
static int interrupted(void *arg)
{
    struct signals s = {.known = 0};
    struct pair p[] = {new_tcp_pair(), new_pair(SOCK_STREAM)};
    pthread_t shooter;
    char byte;
    (void)arg;
    go(let_through, &s);
    go(let_through, &s);
    yield_until(&s.known, 2);
    CHECK(pthread_create(&shooter, NULL, shoot, &s) == 0);
    for (int i = 0; i < 2; i++)
        go(echo_back, p[i].b);
    int64_t end = hg_in((int64_t)test_scaled(1000) * MS);
    int rounds = 0;
    while (hg_now() < end || hg_load_rlx(&s.sent) < 100) {
        for (int i = 0; i < 2; i++) {
            CHECK(hg_fd_write_all(p[i].a, "s", 1, HG_FOREVER) == 0);
            CHECK(hg_fd_read(p[i].a, &byte, 1, HG_FOREVER) == 1 && byte == 's');
        }
        if (rounds++ % 64 == 0) {
            int64_t until = hg_in(2 * MS);
            CHECK(hg_fd_read(p[0].a, &byte, 1, until) == -ETIMEDOUT);
            CHECK(hg_now() >= until);
            until = hg_in(MS);
            CHECK(hg_sleep_until(until) == 0 && hg_now() >= until);
        }
    }
    hg_store_rel(&s.stop, 1);
    pthread_join(shooter, NULL);
    for (int i = 0; i < 2; i++)
        CHECK(hg_fd_close(p[i].a) == 0);
    return 0;
}
Test(net_fault, interrupted)
{
    struct sigaction action = {.sa_handler = nothing}; /* no SA_RESTART */
    cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
    cr_assert_eq(run_on(2, interrupted, NULL), 0);
}
