/* net.c: what descriptors cost, beside a bare epoll loop that does the same work.
 *
 *   roundtrip  two tasks send a message there and back over one connection, in one process; beside
 *              it one thread that does both ends in one loop: elapsed time per round trip. Over
 *              a Unix socket pair and over loopback TCP, on one proc and on all.
 *   server     the echoing end alone; the other one is a thread with blocking calls, which sleeps
 *              while it waits, as a client elsewhere would
 *   connect    connections per second: dial, accept, a byte there and back, close at both ends
 *   busy       tasks that yield and are always ready keep all procs busy, each computing for a
 *              while between two yields. A thread sends the time: how late a task that waits for it
 *              reads it
 *
 * The first three alternate between tasks and the bare loop, round by round, and print the ratio of
 * each pair. The loop uses the same system calls as the library: edge triggered, a read first, and
 * epoll_wait when there is nothing.
 */
#include "bench/bench.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { ROUNDTRIP, SERVER, CONNECT, BUSY, KINDS };
enum { MESSAGE_MAX = 65536 };

static unsigned kinds = (1u << KINDS) - 1;
static int64_t rounds = 5, trips = 50000, connections = 5000, message = 64, procs;
static struct bench_list work_us = {3, {0, 20, 100}};

static const struct bench_option options[] = {
    {"only", BENCH_WORDS, &kinds, 0, 0, "roundtrip server connect busy", "measurements"},
    {"rounds", BENCH_NUMBER, &rounds, 1, BENCH_ROUNDS_MAX, NULL, "rounds of each"},
    {"trips", BENCH_NUMBER, &trips, 1, INT64_C(1) << 40, NULL, "round trips in a round"},
    {"connections", BENCH_NUMBER, &connections, 1, 1 << 20, NULL, "connections in a round"},
    {"message", BENCH_NUMBER, &message, 1, MESSAGE_MAX, NULL, "bytes of a message"},
    {"work", BENCH_LIST, &work_us, 0, 100000, NULL, "us of work between two yields of busy tasks"},
    BENCH_OPTION_PROCS(procs),
    {0}};

static void check(bool good, const char *what)
{
    if (!good)
        bench_fail("%s: %s", what, strerror(errno));
}

/* ---- sockets without the library ---- */

static int listen_plain(struct sockaddr_in *at)
{
    socklen_t length = sizeof *at;
    int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    check(l >= 0 && bind(l, (struct sockaddr *)(void *)at, sizeof *at) == 0 &&
              listen(l, SOMAXCONN) == 0 &&
              getsockname(l, (struct sockaddr *)(void *)at, &length) == 0,
          "a listening socket");
    return l;
}

static int connect_plain(const struct sockaddr_in *at)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
              connect(fd, (const struct sockaddr *)(const void *)at, sizeof *at) == 0,
          "a connection");
    return fd;
}

static void connected(int end[2], bool tcp)
{
    struct sockaddr_in at;
    if (!tcp) {
        check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, end) == 0, "a socket pair");
        return;
    }
    int l = listen_plain(&at), on = 1;
    end[0] = connect_plain(&at);
    end[1] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
    check(end[1] >= 0 && setsockopt(end[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0,
          "a connection");
    close(l);
}

/* ---- the bare loop ---- */

struct bare {
    int poller;
    char *buffer;
};

static void bare_open(struct bare *b)
{
    b->poller = epoll_create1(EPOLL_CLOEXEC);
    b->buffer = malloc(MESSAGE_MAX);
    check(b->poller >= 0 && b->buffer != NULL, "epoll");
}
static void bare_close(struct bare *b)
{
    close(b->poller);
    free(b->buffer);
}
static void bare_add(struct bare *b, int fd)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.fd = fd};
    check(epoll_ctl(b->poller, EPOLL_CTL_ADD, fd, &e) == 0, "epoll");
}
static void bare_send(struct bare *b, int fd)
{
    for (int64_t n = 0; n < message;) {
        ssize_t put = send(fd, b->buffer, (size_t)(message - n), MSG_DONTWAIT | MSG_NOSIGNAL);
        check(put > 0, "send"); /* a message fits the socket's buffer */
        n += put;
    }
}
/* Reads one message, or false: there is not all of it yet (*have of it), or the end. */
static bool bare_receive(struct bare *b, int fd, int64_t *have, bool *end)
{
    while (*have < message) {
        ssize_t got = recv(fd, b->buffer, (size_t)(message - *have), MSG_DONTWAIT);
        *end = got == 0;
        if (got <= 0)
            return false;
        *have += got;
    }
    *have = 0;
    return true;
}

/* Both ends in one thread. */
static void bare_roundtrips(const int end[2])
{
    struct bare b;
    int64_t have[2] = {0, 0};
    bool ended;
    bare_open(&b);
    bare_add(&b, end[0]);
    bare_add(&b, end[1]);
    bare_send(&b, end[0]);
    for (int64_t done = 0; done < trips;) {
        struct epoll_event e[64];
        int n = epoll_wait(b.poller, e, 64, -1);
        for (int i = 0; i < n; i++) {
            int who = e[i].data.fd == end[1];
            while (bare_receive(&b, end[who], &have[who], &ended)) {
                if (who == 1 || ++done < trips)
                    bare_send(&b, end[who]);
            }
        }
    }
    bare_close(&b);
}

static void bare_server(const int end[2])
{
    struct bare b;
    int64_t have = 0;
    bool ended = false;
    bare_open(&b);
    bare_add(&b, end[1]);
    while (!ended) {
        struct epoll_event e[64];
        while (bare_receive(&b, end[1], &have, &ended))
            bare_send(&b, end[1]);
        if (!ended)
            (void)epoll_wait(b.poller, e, 64, -1);
    }
    bare_close(&b);
}

/* Connects, accepts, and closes in turn. */
static void bare_connections(void)
{
    struct bare b;
    struct sockaddr_in at;
    int l = listen_plain(&at);
    bare_open(&b);
    bare_add(&b, l);
    for (int64_t i = 0; i < connections; i++) {
        int there = connect_plain(&at), here = accept4(l, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        check(here >= 0, "accept");
        bare_add(&b, there);
        bare_add(&b, here);
        check(send(there, "c", 1, MSG_NOSIGNAL) == 1 && recv(here, b.buffer, 1, 0) == 1 &&
                  send(here, "c", 1, MSG_NOSIGNAL) == 1 && recv(there, b.buffer, 1, 0) == 1,
              "a byte");
        check(epoll_ctl(b.poller, EPOLL_CTL_DEL, there, NULL) == 0 && close(there) == 0 &&
                  epoll_ctl(b.poller, EPOLL_CTL_DEL, here, NULL) == 0 && close(here) == 0,
              "close");
    }
    close(l);
    bare_close(&b);
}

/* ---- the same with tasks ---- */

static char *message_memory(void) { return hg_alloc((size_t)message, HG_LEAF); }

static void echo_task(void *arg)
{
    char *buffer = message_memory();
    ssize_t n;
    while ((n = hg_fd_read_full(arg, buffer, (size_t)message, HG_FOREVER)) == message)
        bench_check(hg_fd_write_all(arg, buffer, (size_t)message, HG_FOREVER), "write");
    check(n == 0, "read");
}

static int task_roundtrips(void *arg)
{
    const int *end = arg;
    char *buffer = message_memory();
    hg_fd *there, *here;
    bench_check(hg_fd_open(end[0], &there), "a descriptor");
    bench_check(hg_fd_open(end[1], &here), "a descriptor");
    bench_check(hg_go(echo_task, here), "a task");
    for (int64_t i = 0; i < trips; i++) {
        bench_check(hg_fd_write_all(there, buffer, (size_t)message, HG_FOREVER), "write");
        check(hg_fd_read_full(there, buffer, (size_t)message, HG_FOREVER) == message, "read");
    }
    return 0;
}

static int task_server(void *arg)
{
    hg_fd *f;
    bench_check(hg_fd_open(((const int *)arg)[1], &f), "a descriptor");
    echo_task(f);
    return 0;
}

static void accept_task(void *arg)
{
    for (int64_t i = 0; i < connections; i++) {
        hg_fd *f;
        char byte;
        bench_check(hg_fd_accept(arg, HG_FOREVER, &f), "accept");
        check(hg_fd_read(f, &byte, 1, HG_FOREVER) == 1, "read");
        bench_check(hg_fd_write_all(f, &byte, 1, HG_FOREVER), "write");
        bench_check(hg_fd_close(f), "close");
    }
}
static int task_connections(void *arg)
{
    char address[HG_ADDRESS_ROOM], byte;
    hg_fd *l, *f;
    (void)arg;
    bench_check(hg_listen("127.0.0.1:0", 0, &l), "listen");
    check(hg_fd_local_address(l, address, sizeof address) > 0, "an address");
    bench_check(hg_go(accept_task, l), "a task");
    for (int64_t i = 0; i < connections; i++) {
        bench_check(hg_dial(address, HG_FOREVER, &f), "dial");
        bench_check(hg_fd_write_all(f, "c", 1, HG_FOREVER), "write");
        check(hg_fd_read(f, &byte, 1, HG_FOREVER) == 1, "read");
        bench_check(hg_fd_close(f), "close");
    }
    return 0;
}

/* ---- pairs of rounds ---- */

static void *client_thread(void *arg)
{
    int fd = *(int *)arg;
    char *buffer = calloc(1, (size_t)message);
    check(buffer != NULL, "memory");
    for (int64_t i = 0; i < trips; i++) {
        check(send(fd, buffer, (size_t)message, MSG_NOSIGNAL) == message, "send");
        check(recv(fd, buffer, (size_t)message, MSG_WAITALL) == message, "recv");
    }
    shutdown(fd, SHUT_WR);
    free(buffer);
    return NULL;
}

struct pair {
    int kind;
    bool tcp;
    int procs;
};

/* One round with tasks, or of the bare loop; its elapsed time. */
static int64_t one_round(const struct pair *p, bool tasks)
{
    static int (*const with_tasks[])(void *) = {task_roundtrips, task_server, task_connections};
    int end[2] = {-1, -1};
    pthread_t client;
    hg_options opt;
    if (p->kind != CONNECT)
        connected(end, p->tcp);
    int64_t from = hg_now();
    if (p->kind == SERVER)
        check(pthread_create(&client, NULL, client_thread, &end[0]) == 0, "a thread");
    if (tasks) {
        bench_options(&opt, p->procs);
        bench_run(with_tasks[p->kind], end, &opt);
    } else if (p->kind == ROUNDTRIP) {
        bare_roundtrips(end);
    } else if (p->kind == SERVER) {
        bare_server(end);
    } else {
        bare_connections();
    }
    if (p->kind == SERVER)
        pthread_join(client, NULL);
    int64_t took = hg_now() - from;
    if (p->kind == SERVER)
        close(end[0]);
    if (!tasks && p->kind != CONNECT) {
        close(end[1]);
        if (p->kind == ROUNDTRIP)
            close(end[0]);
    }
    return took;
}

static void run_pairs(void *arg)
{
    static const char *const names[] = {"round trip", "server", "connections"};
    const struct pair *p = arg;
    struct bench_samples with = {0}, without = {0}, ratio = {0};
    char title[64];
    bool rate = p->kind == CONNECT;
    (void)one_round(p, true); /* to warm up */
    (void)one_round(p, false);
    for (int64_t i = 0; i < rounds; i++) {
        double n = rate ? 1e6 / (double)connections : (double)trips * 1e3;
        double a = (double)one_round(p, true) / n, b = (double)one_round(p, false) / n;
        bench_add(&with, rate ? 1e9 / a / 1e3 : a);
        bench_add(&without, rate ? 1e9 / b / 1e3 : b);
        bench_add(&ratio, a / b);
    }
    snprintf(title, sizeof title, "%s, %s, %s", names[p->kind], p->tcp ? "TCP" : "Unix",
             p->procs == 1 ? "1 proc" : "all procs");
    const char *unit = rate ? "k/s" : "us";
    bench_figure(&with, unit, "%s", title);
    bench_figure(&without, unit, "%s, bare", title);
    bench_figure(&ratio, "times", "%s, time", title);
}

/* ---- busy procs ---- */

struct busy {
    _Atomic bool stop; /* written by the main task once, read by the busy ones */
    int64_t work_ns;
    int end[2];
    hg_waitgroup done;
    hg_histogram late;
};

static void busy_task(void *arg)
{
    struct busy *b = arg;
    while (!atomic_load_explicit(&b->stop, memory_order_relaxed)) {
        if (b->work_ns > 0)
            for (int64_t end = hg_in(b->work_ns); hg_now() < end;)
                ;
        hg_yield();
    }
    hg_waitgroup_done(&b->done);
}

static void *send_times(void *arg)
{
    struct busy *b = arg;
    for (int i = 0; i < 2000; i++) {
        usleep(500);
        int64_t now = hg_now();
        check(send(b->end[0], &now, sizeof now, MSG_NOSIGNAL) == sizeof now, "send");
    }
    shutdown(b->end[0], SHUT_WR);
    return NULL;
}

static int read_times(void *arg)
{
    struct busy *b = arg;
    hg_stats st = {.size = sizeof st};
    int64_t sent;
    pthread_t sender;
    hg_fd *f;
    hg_stats_read(hg_current(), &st);
    bench_check(hg_fd_open(b->end[1], &f), "a descriptor");
    hg_waitgroup_add(&b->done, st.procs);
    for (int i = 0; i < st.procs; i++)
        bench_check(hg_go(busy_task, b), "a task");
    check(pthread_create(&sender, NULL, send_times, b) == 0, "a thread");
    while (hg_fd_read_full(f, &sent, sizeof sent, HG_FOREVER) == sizeof sent)
        hg_histogram_add(&b->late, hg_now() - sent);
    atomic_store_explicit(&b->stop, true, memory_order_relaxed);
    hg_waitgroup_wait(&b->done, HG_FOREVER);
    pthread_join(sender, NULL);
    return 0;
}

static void run_busy(void *arg)
{
    static struct busy b;
    hg_options opt;
    char title[64];
    b.work_ns = *(const int64_t *)arg * 1000;
    connected(b.end, false);
    bench_options(&opt, procs);
    bench_run(read_times, &b, &opt);
    snprintf(title, sizeof title, "busy procs, %ld us of work, late", (long)b.work_ns / 1000);
    bench_percentiles(&b.late, title);
}

int main(int argc, char **argv)
{
    bench_begin(
        argc, argv,
        "Cost of descriptors: round trips, an echo server, connections, each beside a bare\n"
        "epoll loop; and how soon busy procs see that a descriptor is ready.",
        options);
    for (int kind = ROUNDTRIP; kind <= CONNECT; kind++)
        for (int tcp = kind == CONNECT; tcp < 2 && (kinds >> kind & 1u); tcp++)
            for (int all = 0; all < 2; all++) {
                struct pair p = {kind, tcp != 0, all ? (int)procs : 1};
                bench_isolated(run_pairs, &p);
            }
    for (int i = 0; i < work_us.n && (kinds >> BUSY & 1u); i++)
        bench_isolated(run_busy, &work_us.v[i]);
    return bench_end();
}
