/* test_net_stress.c: descriptors under load: streams in every chunking, with collections; storms of
 * connects and of closes; as many connections as the system allows. */
#include "base/rand.h"
#include "tests/support/test.h"
#include "tests/unit/test_net.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>

TestSuite(net_stress, .timeout = 300);

static int on_procs[] = {1, 2, 4};
#define MS INT64_C(1000000)

/* ---- streams in every chunking ---- */

struct stream {
    hg_fd *from, *to;
    size_t total;
    uint64_t seed;
    hg_waitgroup *g;
};
static unsigned char byte_at(uint64_t seed, size_t i)
{
    return (unsigned char)((i * 2654435761u + seed) >> 13);
}
/* A chunk: mostly small, sometimes larger than the socket's buffer. */
static size_t chunk(struct hg_rand *r, size_t left)
{
    static const uint32_t most[] = {2, 100, 5000, 300000};
    size_t n = 1 + hg_rand_below(r, most[hg_rand_below(r, 4)]);
    return n < left ? n : left;
}
static int send_chunk(struct hg_rand *r, hg_fd *f, unsigned char *bytes, size_t n)
{
    if (hg_rand_below(r, 2) == 0)
        return hg_fd_write_all(f, bytes, n, HG_FOREVER);
    struct iovec iov[20];
    int count = 0;
    for (size_t at = 0; count < 20; count++) {
        size_t part = count == 19 ? n - at : hg_rand_below(r, (uint32_t)(n - at) + 1);
        iov[count] = (struct iovec){bytes + at, part};
        at += part;
    }
    int error = hg_fd_writev_all(f, iov, count, HG_FOREVER);
    for (int i = 0; i < count; i++)
        CHECK(iov[i].iov_len == 0);
    return error;
}
static void sends(void *arg)
{
    struct stream *s = arg;
    struct hg_rand r = {s->seed};
    for (size_t at = 0; at < s->total;) {
        size_t n = chunk(&r, s->total - at);
        unsigned char *bytes = hg_alloc(n, HG_LEAF); /* while cycles mark */
        for (size_t i = 0; i < n; i++)
            bytes[i] = byte_at(s->seed, at + i);
        CHECK(send_chunk(&r, s->from, bytes, n) == 0);
        at += n;
    }
    CHECK(hg_fd_close(s->from) == 0);
    hg_waitgroup_done(s->g);
}
static void receives(void *arg)
{
    struct stream *s = arg;
    struct hg_rand r = {s->seed + 1};
    size_t at = 0;
    for (;;) {
        size_t n = chunk(&r, 400000);
        unsigned char *bytes = hg_alloc(n, HG_LEAF);
        ssize_t got;
        if (hg_rand_below(&r, 4) == 0)
            got = hg_fd_read_full(s->to, bytes, n, HG_FOREVER);
        else
            do {
                int64_t until = hg_rand_below(&r, 3) != 0 ? HG_FOREVER : hg_in(20000);
                got = hg_fd_read(s->to, bytes, n, until);
            } while (got == -ETIMEDOUT);
        CHECK(got >= 0);
        for (ssize_t i = 0; i < got; i++)
            CHECK(bytes[i] == byte_at(s->seed, at + (size_t)i));
        at += (size_t)got;
        if (got == 0)
            break;
    }
    CHECK(at == s->total);
    CHECK(hg_fd_close(s->to) == 0);
    hg_waitgroup_done(s->g);
}
static void make_stream(struct stream *s, int kind)
{
    struct pair p;
    int n[2], small = 4096;
    if (kind == 0) {
        CHECK(pipe2(n, O_CLOEXEC) == 0);
        CHECK(hg_fd_open(n[1], &p.a) == 0 && hg_fd_open(n[0], &p.b) == 0);
    } else {
        p = kind == 1 ? new_pair(SOCK_STREAM) : new_tcp_pair();
    }
    if (kind == 3) /* partial writes */
        CHECK(setsockopt(hg_fd_number(p.a), SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
    s->from = p.a;
    s->to = p.b;
}
static int streams(void *arg)
{
    enum { KINDS = 4 };
    struct stream s[KINDS];
    hg_waitgroup g = {{0}};
    hg_waitgroup_add(&g, 2 * KINDS);
    for (int i = 0; i < KINDS; i++) {
        s[i] = (struct stream){.total = test_scaled(3000000), .seed = *(uint64_t *)arg, .g = &g};
        make_stream(&s[i], i);
        go(sends, &s[i]);
        go(receives, &s[i]);
    }
    CHECK(hg_waitgroup_wait(&g, HG_FOREVER) == 0);
    CHECK(net_waits() == 0);
    return 0;
}
ParameterizedTestParameters(net_stress, streams) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, net_stress, streams)
{
    uint64_t seed = test_seed("net_stress.streams");
    cr_assert_eq(run_collecting(*procs, streams, &seed), 0);
}

/* ---- a storm of connects ---- */

struct storm {
    hg_fd *l;
    char address[HG_ADDRESS_ROOM];
    int clients;
    hg_waitgroup g;
    _Atomic int served;
};
static void serve_one(void *arg)
{
    uint64_t id;
    CHECK(hg_fd_read_full(arg, &id, sizeof id, HG_FOREVER) == sizeof id);
    CHECK(hg_fd_write_all(arg, &id, sizeof id, HG_FOREVER) == 0);
    CHECK(hg_fd_read(arg, &id, sizeof id, HG_FOREVER) == 0);
    CHECK(hg_fd_close(arg) == 0);
}
static void serve_storm(void *arg)
{
    struct storm *s = arg;
    for (int i = 0; i < s->clients; i++) {
        hg_fd *f;
        CHECK(hg_fd_accept(s->l, HG_FOREVER, &f) == 0);
        go(serve_one, f);
    }
    hg_waitgroup_done(&s->g);
}
static void connect_one(void *arg)
{
    struct storm *s = arg;
    uint64_t id = hg_task_id(), answer;
    hg_fd *f;
    CHECK(hg_dial(s->address, HG_FOREVER, &f) == 0);
    CHECK(hg_fd_write_all(f, &id, sizeof id, HG_FOREVER) == 0);
    CHECK(hg_fd_read_full(f, &answer, sizeof answer, HG_FOREVER) == sizeof answer);
    CHECK(answer == id);
    CHECK(hg_fd_close(f) == 0);
    hg_add_rlx(&s->served, 1);
    hg_waitgroup_done(&s->g);
}
static int storm(void *arg)
{
    struct storm s = {.clients = (int)test_scaled(4000)};
    CHECK(hg_listen(arg, 0, &s.l) == 0);
    CHECK(hg_fd_local_address(s.l, s.address, sizeof s.address) > 0);
    hg_waitgroup_add(&s.g, s.clients + 1);
    for (int i = 0; i < s.clients; i++)
        go(connect_one, &s);
    go(serve_storm, &s);
    CHECK(hg_waitgroup_wait(&s.g, HG_FOREVER) == 0);
    CHECK(s.served == s.clients);
    CHECK(hg_fd_close(s.l) == 0);
    return 0;
}
static void raise_limit(rlim_t wanted)
{
    struct rlimit l;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &l), 0);
    if (l.rlim_max < wanted) {
        struct rlimit more = {wanted, wanted};
        if (setrlimit(RLIMIT_NOFILE, &more) == 0)
            return;
    }
    l.rlim_cur = l.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &l), 0);
}
ParameterizedTestParameters(net_stress, storm_tcp) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, net_stress, storm_tcp)
{
    raise_limit(10000);
    cr_assert_eq(run_on(*procs, storm, (void *)(uintptr_t) "127.0.0.1:0"), 0);
}
Test(net_stress, storm_unix)
{
    char name[64];
    snprintf(name, sizeof name, "unix:@hedge-test-storm-%d", (int)getpid());
    raise_limit(10000);
    cr_assert_eq(run_on(2, storm, name), 0);
}

/* ---- a storm of closes ---- */

/* Pairs that all tasks share, each with messages of its own number. Tasks read, write, wait and
 * close at random; who closes one puts a new one into its place, which most likely gets the same
 * slots and descriptor numbers. Nobody may ever see a message of another pair. */
enum { PLACES = 6 };
struct place {
    hg_fd *a, *b;
    uint64_t number;
};
struct closes {
    struct place **places; /* a heap array of references to places, which never change */
    _Atomic uint64_t numbers, ok, canceled;
    uint64_t rounds, seed;
    hg_waitgroup g;
};
static const uint32_t place_fields[] = {offsetof(struct place, a), offsetof(struct place, b)};
static const hg_layout place_layout = HG_TYPED("place", place_fields);

static struct place *new_place(struct closes *c)
{
    struct pair p = new_pair(SOCK_SEQPACKET);
    struct place *n = hg_alloc(sizeof *n, &place_layout);
    n->a = p.a;
    n->b = p.b;
    n->number = hg_add_rlx(&c->numbers, 1u);
    return n;
}
static bool expected(ssize_t r)
{
    return r == -EBADF || r == -EBUSY || r == -ETIMEDOUT || r == -EAGAIN || r == -EPIPE || r == 0 ||
           r == -ECONNRESET;
}
static void act(struct closes *c, struct hg_rand *r)
{
    uint32_t at = hg_rand_below(r, PLACES);
    struct place *p = hg_load_acq((struct place * _Atomic *)&c->places[at]);
    hg_fd *f = hg_rand_below(r, 2) == 0 ? p->a : p->b;
    uint64_t number = p->number, got = 0;
    int64_t until = hg_rand_below(r, 3) == 0 ? HG_NOW : hg_in(hg_rand_below(r, 200000));
    ssize_t n;
    switch (hg_rand_below(r, 8)) {
    case 0:
        (void)hg_fd_close(f);
        (void)hg_fd_close(f == p->a ? p->b : p->a);
        hg_ref_store(&c->places[at], new_place(c));
        return;
    case 1:
        n = hg_fd_wait(f, hg_rand_below(r, 2) == 0 ? POLLIN : POLLIN | POLLOUT, until);
        CHECK(n > 0 || expected(n));
        return;
    case 2:
    case 3:
    case 4:
        n = hg_fd_read(f, &got, sizeof got, until);
        CHECK(n == sizeof got ? got == number : expected(n));
        break;
    default:
        n = hg_fd_write_all(f, &number, sizeof number, until);
        CHECK(expected(n));
    }
    hg_add_rlx(n == sizeof got || n == 0 ? &c->ok : &c->canceled, 1u);
}
static void acts(void *arg)
{
    struct closes *c = arg;
    struct hg_rand r = {c->seed + hg_task_id() * 7919};
    for (uint64_t i = 0; i < c->rounds; i++)
        act(c, &r);
    hg_waitgroup_done(&c->g);
}
static int closes(void *arg)
{
    enum { TASKS = 24 };
    struct closes c = {.rounds = test_scaled(8000), .seed = *(uint64_t *)arg};
    c.places = hg_alloc(PLACES * sizeof *c.places, HG_REFS);
    for (int i = 0; i < PLACES; i++)
        hg_ref_store(&c.places[i], new_place(&c));
    hg_waitgroup_add(&c.g, TASKS);
    for (int i = 0; i < TASKS; i++)
        go(acts, &c);
    CHECK(hg_waitgroup_wait(&c.g, HG_FOREVER) == 0);
    CHECK(net_waits() == 0);
    CHECK(c.ok > 0 && c.canceled > 0 && c.numbers > PLACES);
    for (int i = 0; i < PLACES; i++) {
        (void)hg_fd_close(c.places[i]->a);
        (void)hg_fd_close(c.places[i]->b);
    }
    /* Two tasks may have replaced one place at once: one of the new ones is forgotten, and closed
     * with the runtime. All others are gone. */
    return 0;
}
ParameterizedTestParameters(net_stress, closes) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, net_stress, closes)
{
    uint64_t seed = test_seed("net_stress.closes");
    raise_limit(20000);
    cr_assert_eq(run_on(*procs, closes, &seed), 0);
}
Test(net_stress, closes_collecting)
{
    uint64_t seed = test_seed("net_stress.closes_collecting");
    raise_limit(20000);
    cr_assert_eq(run_collecting(2, closes, &seed), 0);
}

/* ---- as many as there may be ---- */

#define MANY     20000
#define HEADROOM 100
#define AT_ONCE  500
struct many {
    hg_fd *l;
    int n;
    hg_waitgroup g; /* descriptors that are not closed yet */
};
struct echo_one {
    hg_fd *f;
    hg_waitgroup *g;
};
static void echo_many(void *arg)
{
    struct echo_one *e = arg;
    char byte;
    while (hg_fd_read(e->f, &byte, 1, HG_FOREVER) == 1)
        CHECK(hg_fd_write_all(e->f, &byte, 1, HG_FOREVER) == 0);
    CHECK(hg_fd_close(e->f) == 0);
    hg_waitgroup_done(e->g);
}
/* The other side: a process without a runtime. All connect, and only then is each used twice. */
static void connect_many(const char *name, int n)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int *fd = malloc((size_t)n * sizeof *fd);
    char byte;
    alarm(120);
    strcpy(un.sun_path + 1, name);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    for (int i = 0; i < n; i++) {
        fd[i] = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(fd[i] >= 0);
        CHECK(connect(fd[i], (struct sockaddr *)(void *)&un, length) == 0);
    }
    for (int round = 0; round < 2; round++)
        for (int at = 0; at < n; at += AT_ONCE) {
            for (int i = at; i < at + AT_ONCE && i < n; i++)
                CHECK(write(fd[i], "m", 1) == 1);
            for (int i = at; i < at + AT_ONCE && i < n; i++)
                CHECK(read(fd[i], &byte, 1) == 1 && byte == 'm');
        }
    _exit(0);
}
static int many(void *arg)
{
    struct many *m = arg;
    char name[64], address[80];
    int status;
    snprintf(name, sizeof name, "hedge-test-many-%d", (int)getpid());
    snprintf(address, sizeof address, "unix:@%s", name);
    CHECK(hg_listen(address, 0, &m->l) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        connect_many(name, m->n);
    for (int i = 0; i < m->n; i++) {
        struct echo_one e = {.g = &m->g};
        CHECK(hg_fd_accept(m->l, HG_FOREVER, &e.f) == 0);
        hg_waitgroup_add(&m->g, 1);
        CHECK(hg_go_copy(echo_many, &e, sizeof e) == 0);
    }
    until_waits(m->n); /* all are open, and nobody is left out */
    hg_block_enter();
    pid_t ended = waitpid(child, &status, 0);
    hg_block_leave();
    CHECK(ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(hg_waitgroup_wait(&m->g, HG_FOREVER) == 0);
    CHECK(net_waits() == 0 && hg_fd_close(m->l) == 0);
    CHECK(hg_load_acq(&hg__task_self()->sched->net_fds) == 0);
    return 0;
}
Test(net_stress, many_connections)
{
    struct rlimit l;
    struct many m = {.n = (int)test_scaled(MANY)};
    raise_limit((rlim_t)m.n + HEADROOM);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &l), 0);
    if (l.rlim_cur < (rlim_t)m.n + HEADROOM) {
        m.n = (int)l.rlim_cur - HEADROOM;
        fprintf(stderr, "RLIMIT_NOFILE is %ld and cannot be raised: %d connections\n",
                (long)l.rlim_cur, m.n);
    }
    cr_assert_eq(run_on(2, many, &m), 0);
}
