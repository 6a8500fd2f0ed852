/* test_net_wait.c: waiting for descriptors: deadlines, close, cancellation, who may wait, and that
 * nothing is left behind. */
#include "tests/support/test.h"
#include "tests/unit/test_net.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <fcntl.h>
#include <poll.h>

TestSuite(net_wait, .timeout = 60);

static int on_procs[] = {1, 2, 4};
#define MS INT64_C(1000000)

/* A task in a call, and what it returned. */
struct call {
    hg_fd *f;
    int64_t deadline;
    ssize_t result;
    hg_waitgroup *g;
    _Atomic int64_t at; /* when it came back */
};
static void reads(void *arg)
{
    struct call *c = arg;
    char byte;
    c->result = hg_fd_read(c->f, &byte, 1, c->deadline);
    hg_store_rel(&c->at, hg_now());
    hg_waitgroup_done(c->g);
}
static void writes_much(void *arg)
{
    struct call *c = arg;
    static char zeroes[1 << 20];
    c->result = hg_fd_write_all(c->f, zeroes, sizeof zeroes, c->deadline);
    hg_store_rel(&c->at, hg_now());
    hg_waitgroup_done(c->g);
}
static void start(struct call *c, hg_fd *f, int64_t deadline, hg_waitgroup *g, void (*fn)(void *))
{
    *c = (struct call){.f = f, .deadline = deadline, .g = g};
    hg_waitgroup_add(g, 1);
    go(fn, c);
}

/* ---- who may wait ---- */

/* N04: a reader and a writer wait on one descriptor; further ones are busy, and nobody is
 * disturbed. */
static int one_of_each(void *arg)
{
    struct pair p = new_pair(SOCK_STREAM);
    hg_waitgroup g = {{0}};
    struct call reader, writer;
    char byte = 'x';
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    (void)arg;
    start(&reader, p.a, HG_FOREVER, &g, reads);
    start(&writer, p.a, HG_FOREVER, &g, writes_much);
    until_waits(2);
    CHECK(hg_fd_read(p.a, &byte, 1, HG_FOREVER) == -EBUSY);
    CHECK(hg_fd_read_full(p.a, &byte, 1, HG_FOREVER) == -EBUSY);
    CHECK(hg_fd_recvmsg(p.a, &msg, 0, HG_FOREVER) == -EBUSY);
    CHECK(hg_fd_wait(p.a, POLLIN, HG_FOREVER) == -EBUSY);
    CHECK(hg_fd_read(p.a, &byte, 1, HG_NOW) == -EAGAIN);
    CHECK(hg_fd_write_all(p.a, &byte, 1, HG_FOREVER) == -EBUSY);
    CHECK(hg_fd_sendmsg(p.a, &msg, 0, HG_FOREVER) == -EBUSY);
    CHECK(hg_fd_wait(p.a, POLLOUT, HG_FOREVER) == -EBUSY);
    CHECK(hg_fd_wait(p.a, POLLIN | POLLOUT, HG_FOREVER) == -EBUSY);
    CHECK(net_waits() == 2);
    byte = 'y';
    CHECK(hg_fd_write_all(p.b, &byte, 1, HG_FOREVER) == 0);
    static char sink[1 << 20];
    CHECK(hg_fd_read_full(p.b, sink, sizeof sink, HG_FOREVER) == sizeof sink);
    CHECK(hg_waitgroup_wait(&g, HG_FOREVER) == 0);
    CHECK(reader.result == 1 && writer.result == 0);
    CHECK(hg_fd_write_all(p.a, &byte, 1, HG_FOREVER) == 0);
    CHECK(net_waits() == 0);
    close_pair(&p);
    return 0;
}
ParameterizedTestParameters(net_wait, one_of_each) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, net_wait, one_of_each)
{
    cr_assert_eq(run_on(*procs, one_of_each, NULL), 0);
}

/* A writer that has written a part has the stream to itself also while it does not wait: what two
 * write never mixes. Both retry while the other is at it. */
struct block {
    hg_fd *f;
    unsigned char byte;
    hg_waitgroup *g;
};
#define BLOCK  ((size_t)300000)
#define BLOCKS 8
static void write_blocks(void *arg)
{
    struct block *b = arg;
    unsigned char *bytes = malloc(BLOCK);
    memset(bytes, b->byte, BLOCK);
    for (int i = 0; i < BLOCKS; i++) {
        int r;
        while ((r = hg_fd_write_all(b->f, bytes, BLOCK, HG_FOREVER)) == -EBUSY)
            hg_yield();
        CHECK(r == 0);
    }
    free(bytes);
    hg_waitgroup_done(b->g);
}
static int blocks_stay_whole(void *arg)
{
    enum { WRITERS = 3 };
    struct pair p = new_pair(SOCK_STREAM);
    hg_waitgroup g = {{0}};
    struct block b[WRITERS];
    (void)arg;
    hg_waitgroup_add(&g, WRITERS);
    for (int i = 0; i < WRITERS; i++) {
        b[i] = (struct block){p.a, (unsigned char)('a' + i), &g};
        go(write_blocks, &b[i]);
    }
    unsigned char *bytes = malloc(BLOCK);
    for (int i = 0; i < WRITERS * BLOCKS; i++) {
        CHECK(hg_fd_read_full(p.b, bytes, BLOCK, HG_FOREVER) == (ssize_t)BLOCK);
        for (size_t k = 1; k < BLOCK; k++)
            CHECK(bytes[k] == bytes[0]);
    }
    free(bytes);
    CHECK(hg_waitgroup_wait(&g, HG_FOREVER) == 0);
    close_pair(&p);
    return 0;
}
ParameterizedTestParameters(net_wait, blocks_stay_whole)
{
    return cr_make_param_array(int, on_procs, 3);
}
ParameterizedTest(int *procs, net_wait, blocks_stay_whole)
{
    cr_assert_eq(run_on(*procs, blocks_stay_whole, NULL), 0);
}

/* ---- how a wait ends ---- */

/* N07: each gets the error of what ended its wait, soon. */
static int each_its_own_error(void *arg)
{
    struct pair closed = new_pair(SOCK_STREAM), late = new_pair(SOCK_STREAM),
                full = new_pair(SOCK_STREAM);
    hg_waitgroup g = {{0}};
    struct call by_close, by_time, writer_by_close, writer_by_time;
    char byte;
    (void)arg;
    start(&by_close, closed.a, HG_FOREVER, &g, reads);
    start(&writer_by_close, closed.a, hg_in(60000 * MS), &g, writes_much);
    until_waits(2);
    int64_t at = hg_now();
    CHECK(hg_fd_close(closed.a) == 0);
    CHECK(hg_waitgroup_wait(&g, HG_FOREVER) == 0);
    CHECK(by_close.result == -EBADF && writer_by_close.result == -EBADF);
    int64_t until = hg_in(20 * MS);
    start(&by_time, late.a, until, &g, reads);
    start(&writer_by_time, full.a, until, &g, writes_much);
    CHECK(hg_waitgroup_wait(&g, HG_FOREVER) == 0);
    CHECK(by_time.result == -ETIMEDOUT && writer_by_time.result == -ETIMEDOUT);
    CHECK(by_time.at >= until && writer_by_time.at >= until);
    /* 10 ms on an idle machine; others may run here too. */
    CHECK(by_close.at - at < 2000 * MS && by_time.at - until < 2000 * MS);
    /* Times that have passed; what needs no waiting is done all the same. */
    CHECK(hg_fd_read(late.a, &byte, 1, 1) == -ETIMEDOUT);
    CHECK(hg_fd_read(late.a, &byte, 1, hg_in(-5)) == -ETIMEDOUT);
    CHECK(hg_fd_read(late.a, &byte, 1, HG_NOW) == -EAGAIN);
    CHECK(hg_fd_write_all(late.b, "z", 1, HG_NOW) == 0);
    CHECK(hg_fd_read(late.a, &byte, 1, 1) == 1 && byte == 'z');
    /* Of the closed one nothing works any more, and its number is free. */
    CHECK(hg_fd_read(closed.a, &byte, 1, HG_FOREVER) == -EBADF);
    CHECK(hg_fd_write_all(closed.a, &byte, 1, HG_NOW) == -EBADF);
    CHECK(hg_fd_wait(closed.a, POLLIN, HG_NOW) == -EBADF);
    CHECK(hg_fd_shutdown(closed.a, SHUT_WR) == -EBADF);
    CHECK(hg_fd_number(closed.a) == -EBADF);
    CHECK(hg_fd_close(closed.a) == -EBADF);
    CHECK(net_waits() == 0);
    CHECK(hg_fd_close(closed.b) == 0);
    close_pair(&late);
    close_pair(&full);
    return 0;
}
ParameterizedTestParameters(net_wait, each_its_own_error)
{
    return cr_make_param_array(int, on_procs, 3);
}
ParameterizedTest(int *procs, net_wait, each_its_own_error)
{
    cr_assert_eq(run_on(*procs, each_its_own_error, NULL), 0);
}

/* N07: a task that is cancelled while it waits, and what it waited for is as good as before. */
static int is_read(void *f)
{
    char byte;
    return (int)hg_fd_read(f, &byte, 1, HG_FOREVER);
}
static int is_accepted(void *l)
{
    hg_fd *f;
    return hg_fd_accept(l, HG_FOREVER, &f);
}
static int is_waited_for(void *f) { return hg_fd_wait(f, POLLIN | POLLOUT, HG_FOREVER); }
static int cancelled(void *arg)
{
    static int (*const fn[])(void *) = {is_read, is_accepted, is_waited_for};
    struct pair p = new_pair(SOCK_STREAM);
    static char zeroes[1 << 20];
    hg_fd *l;
    char byte;
    (void)arg;
    CHECK(hg_listen("127.0.0.1:0", 0, &l) == 0);
    CHECK(hg_fd_write_all(p.a, zeroes, sizeof zeroes, HG_NOW) == -EAGAIN); /* it is full */
    for (int i = 0; i < 3; i++) {
        hg_task *t;
        int result = 0;
        CHECK(hg_go_with(NULL, fn[i], fn[i] == is_accepted ? l : p.a, &t) == 0);
        until_waits(1);
        hg_cancel(t);
        CHECK(hg_join(t, HG_FOREVER, &result) == 0 && result == -ECANCELED);
        CHECK(net_waits() == 0);
    }
    /* An ambient deadline ends a wait that has none, and a later one. */
    int64_t until = hg_in(2 * MS), before = hg_deadline_push(until);
    CHECK(hg_fd_read(p.a, &byte, 1, HG_FOREVER) == -ETIMEDOUT && hg_now() >= until);
    CHECK(hg_fd_accept(l, hg_in(60000 * MS), &p.b) == -ETIMEDOUT);
    hg_deadline_pop(before);
    CHECK(hg_fd_read(p.b, &byte, 1, HG_FOREVER) == 1 && byte == 0);
    CHECK(hg_fd_write_all(p.b, "c", 1, HG_FOREVER) == 0);
    CHECK(hg_fd_read(p.a, &byte, 1, HG_FOREVER) == 1 && byte == 'c');
    close_pair(&p);
    CHECK(hg_fd_close(l) == 0);
    return 0;
}
ParameterizedTestParameters(net_wait, cancelled) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, net_wait, cancelled)
{
    cr_assert_eq(run_on(*procs, cancelled, NULL), 0);
}

/* A thread that the runtime does not know closes what a task waits for. */
static void *closer(void *f) { return (void *)(intptr_t)hg_fd_close(f); }
static int closed_from_outside(void *arg)
{
    struct pair p = new_pair(SOCK_STREAM);
    hg_waitgroup g = {{0}};
    struct call c;
    pthread_t thread;
    void *result;
    (void)arg;
    start(&c, p.a, HG_FOREVER, &g, reads);
    until_waits(1);
    CHECK(pthread_create(&thread, NULL, closer, p.a) == 0);
    CHECK(hg_waitgroup_wait(&g, HG_FOREVER) == 0);
    CHECK(c.result == -EBADF);
    CHECK(pthread_join(thread, &result) == 0 && result == NULL);
    CHECK(hg_fd_close(p.b) == 0);
    return 0;
}
Test(net_wait, closed_from_outside) { cr_assert_eq(run_on(2, closed_from_outside, NULL), 0); }

/* A stale handle stays one when its slot and its number have a new owner. */
static int stale_handles(void *arg)
{
    (void)arg;
    for (int i = 0; i < 200; i++) {
        struct pair p = new_pair(SOCK_STREAM), old = p;
        close_pair(&p);
        p = new_pair(SOCK_STREAM); /* the same slots and numbers, most likely */
        char byte;
        CHECK(hg_fd_write_all(p.a, "1", 1, HG_FOREVER) == 0);
        CHECK(hg_fd_read(old.a, &byte, 1, HG_FOREVER) == -EBADF);
        CHECK(hg_fd_read(old.b, &byte, 1, HG_FOREVER) == -EBADF);
        CHECK(hg_fd_close(old.b) == -EBADF);
        CHECK(hg_fd_read(p.b, &byte, 1, HG_FOREVER) == 1);
        close_pair(&p);
    }
    return 0;
}
Test(net_wait, stale_handles) { cr_assert_eq(run_on(1, stale_handles, NULL), 0); }

/* ---- N02: waits that end in every way, at random, and the count comes back to 0 ---- */

struct load {
    hg_waitgroup g;
    uint64_t rounds;
    uint64_t seed;
    _Atomic uint64_t ended[4]; /* ready, timed out, closed, at once */
};
static void fed(void *arg)
{
    struct call *c = arg;
    char byte;
    for (;;) {
        ssize_t n = hg_fd_read(c->f, &byte, 1, HG_FOREVER);
        if (n != 1)
            break;
        if (byte == 'c') {
            CHECK(hg_fd_close(c->f) == 0);
            break;
        }
        if (byte == 'w' && hg_fd_write_all(c->f, "w", 1, HG_FOREVER) != 0)
            break;
    }
    (void)hg_fd_close(c->f);
    hg_waitgroup_done(c->g);
}
/* One pair: this task waits, its partner ends the waits. */
static void one_pair(struct load *l, struct hg_rand *r)
{
    struct pair p = new_pair(SOCK_STREAM);
    struct call c = {.f = p.b};
    hg_waitgroup g = {{0}};
    uint64_t ended[4] = {0};
    char byte;
    c.g = &g;
    hg_waitgroup_add(&g, 1);
    go(fed, &c);
    uint32_t rounds = 1 + hg_rand_below(r, 64);
    for (uint32_t i = 0; i < rounds; i++) {
        switch (hg_rand_below(r, 3)) {
        case 0:
            CHECK(hg_fd_write_all(p.a, "w", 1, HG_FOREVER) == 0);
            CHECK(hg_fd_read(p.a, &byte, 1, HG_FOREVER) == 1);
            ended[0]++;
            break;
        case 1:
            CHECK(hg_fd_read(p.a, &byte, 1, hg_in(hg_rand_below(r, 3) * 1000)) == -ETIMEDOUT);
            ended[1]++;
            break;
        default:
            CHECK(hg_fd_read(p.a, &byte, 1, HG_NOW) == -EAGAIN);
            ended[3]++;
        }
    }
    if (hg_rand_below(r, 2) == 0) { /* the partner waits, and its descriptor is closed here */
        CHECK(hg_fd_close(p.b) == 0);
    } else {
        CHECK(hg_fd_write_all(p.a, "c", 1, HG_FOREVER) == 0);
        CHECK(hg_fd_read(p.a, &byte, 1, HG_FOREVER) == 0);
    }
    ended[2]++;
    CHECK(hg_fd_close(p.a) == 0);
    CHECK(hg_waitgroup_wait(&g, HG_FOREVER) == 0);
    for (int i = 0; i < 4; i++)
        hg_add_rlx(&l->ended[i], ended[i]);
}
static void random_waits(void *arg)
{
    struct load *l = arg;
    struct hg_rand r = {l->seed + hg_task_id()};
    for (uint64_t i = 0; i < l->rounds; i++)
        one_pair(l, &r);
    hg_waitgroup_done(&l->g);
}
static int count_returns(void *arg)
{
    enum { TASKS = 16 };
    struct load l = {.rounds = test_scaled(60), .seed = *(uint64_t *)arg};
    hg_waitgroup_add(&l.g, TASKS);
    for (int i = 0; i < TASKS; i++)
        go(random_waits, &l);
    CHECK(hg_waitgroup_wait(&l.g, HG_FOREVER) == 0);
    CHECK(net_waits() == 0);
    CHECK(hg_load_rlx(&hg__task_self()->sched->net_fds) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(l.ended[i] > 0);
    return 0;
}
ParameterizedTestParameters(net_wait, count_returns)
{
    return cr_make_param_array(int, on_procs, 3);
}
ParameterizedTest(int *procs, net_wait, count_returns)
{
    uint64_t seed = test_seed("net_wait.count_returns");
    cr_assert_eq(run_on(*procs, count_returns, &seed), 0);
}

/* ---- hg_fd_wait ---- */

static void write_later(void *arg)
{
    hg_sleep(2 * MS);
    CHECK(write(*(int *)arg, "x", 1) == 1);
}
/* Another library's socket: neither changed nor closed, and its bytes are left alone. */
static int borrowed(void *arg)
{
    int n[2];
    hg_fd *f, *again;
    char byte;
    (void)arg;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, n) == 0);
    CHECK(hg_fd_borrow(n[0], &f) == 0);
    CHECK(hg_fd_number(f) == n[0]);
    CHECK(hg_fd_borrow(n[0], &again) == -EEXIST);
    CHECK(hg_fd_open(n[0], &again) == -EEXIST);
    CHECK((fcntl(n[0], F_GETFL) & O_NONBLOCK) == 0);
    CHECK(hg_fd_wait(f, POLLIN | POLLOUT, HG_FOREVER) == POLLOUT);
    CHECK(hg_fd_wait(f, POLLIN, HG_NOW) == -EAGAIN);
    CHECK(hg_fd_wait(f, POLLIN, hg_in(MS)) == -ETIMEDOUT);
    CHECK(hg_fd_wait(f, 0, HG_NOW) == -EINVAL);
    CHECK(hg_fd_wait(f, POLLNVAL, HG_NOW) == -EINVAL);
    for (int i = 0; i < 3; i++) {
        go(write_later, &n[1]);
        CHECK(hg_fd_wait(f, POLLIN, HG_FOREVER) == POLLIN);
        CHECK(hg_fd_wait(f, POLLIN, HG_NOW) == POLLIN); /* a state, not an edge */
        CHECK(read(n[0], &byte, 1) == 1 && byte == 'x');
    }
    CHECK(hg_fd_read(f, &byte, 1, HG_NOW) == -EINVAL);
    CHECK(hg_fd_write_all(f, &byte, 1, HG_NOW) == -EINVAL);
    CHECK(hg_fd_shutdown(f, SHUT_WR) == -EINVAL);
    CHECK(close(n[1]) == 0);
    CHECK(hg_fd_wait(f, POLLIN, HG_FOREVER) == (POLLIN | POLLHUP));
    CHECK(hg_fd_close(f) == 0);
    CHECK(read(n[0], &byte, 1) == 0); /* still ours */
    CHECK(close(n[0]) == 0);
    return 0;
}
ParameterizedTestParameters(net_wait, borrowed) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, net_wait, borrowed)
{
    cr_assert_eq(run_on(*procs, borrowed, NULL), 0);
}

/* ---- outside of tasks ---- */

static void *from_a_thread(void *arg)
{
    struct pair *p = arg;
    char byte;
    hg_fd *f;
    CHECK(hg_fd_read(p->a, &byte, 1, HG_NOW) == -EAGAIN);
    CHECK(hg_fd_read(p->a, &byte, 1, HG_FOREVER) == -EPERM);
    CHECK(hg_fd_write_all(p->b, "t", 1, HG_FOREVER) == 0);
    CHECK(hg_fd_read(p->a, &byte, 1, HG_FOREVER) == 1 && byte == 't');
    CHECK(hg_listen("127.0.0.1:0", 0, &f) == -EPERM);
    CHECK(hg_dial("127.0.0.1:1", HG_NOW, &f) == -EPERM);
    CHECK(hg_fd_open(0, &f) == -EPERM);
    CHECK(hg_fd_accept(p->a, HG_NOW, &f) == -EPERM);
    return NULL;
}
static int a_thread_need_not_wait(void *arg)
{
    struct pair p = new_pair(SOCK_STREAM);
    pthread_t thread;
    (void)arg;
    CHECK(pthread_create(&thread, NULL, from_a_thread, &p) == 0);
    hg_block_enter();
    int error = pthread_join(thread, NULL);
    hg_block_leave();
    CHECK(error == 0);
    close_pair(&p);
    return 0;
}
Test(net_wait, a_thread_need_not_wait) { cr_assert_eq(run_on(1, a_thread_need_not_wait, NULL), 0); }
