/* test_blocking.c: the pool for blocking calls: where a call runs, places and their order, giving
 * up, who frees what, threads that retire, misuse. Its ends are in test_blocking_end.c. */
#include "runtime/rt.h"
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

TestSuite(blocking, .timeout = 60);

#define MS INT64_C(1000000)

static int run_with(int procs, int threads, int (*first)(void *), void *arg)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = procs;
    o.blocking_threads = threads;
    return hg_run(first, arg, &o);
}

/* A place where calls wait until a test lets them go on. */
struct gate {
    _Atomic int inside, open;
};
static void pass(struct gate *g)
{
    hg_add_acqrel(&g->inside, 1);
    while (hg_load_acq(&g->open) == 0)
        usleep(200);
}
static int pass_gate(void *arg)
{
    pass(arg);
    return 0;
}
static void wait_inside(struct gate *g, int n)
{
    while (hg_load_acq(&g->inside) < n)
        hg_sleep(MS / 5);
}

/* ---- where a call runs ---- */

struct seen {
    pthread_t thread;
    uint64_t task;
    sigset_t mask;
};
static int look_around(void *arg)
{
    struct seen *s = arg;
    s->thread = pthread_self();
    s->task = hg_task_id();
    pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
    return 42;
}
static int where(void *arg)
{
    struct seen s = {0};
    (void)arg;
    CHECK(hg_blocking(look_around, &s) == 42);
    CHECK(!pthread_equal(s.thread, pthread_self()));
    CHECK(s.task == 0);
    for (int signal = 1; signal < 32; signal++) {
        bool fault = signal == SIGSEGV || signal == SIGBUS || signal == SIGILL ||
                     signal == SIGFPE || signal == SIGTRAP || signal == SIGSYS || signal == SIGABRT;
        if (signal != SIGKILL && signal != SIGSTOP)
            CHECK(sigismember(&s.mask, signal) == !fault);
    }
    return 0;
}
Test(blocking, runs_on_a_thread_of_its_own_without_signals)
{
    for (int procs = 1; procs <= 4; procs *= 2)
        cr_assert_eq(run_with(procs, 4, where, NULL), 0);
}

static void opens(void *gate) { hg_store_rel(&((struct gate *)gate)->open, 1); }
static int others_run(void *arg)
{
    static struct gate g;
    (void)arg;
    go(opens, &g); /* needs the only proc, which the call would keep */
    CHECK(hg_blocking(pass_gate, &g) == 0);
    return 0;
}
Test(blocking, others_run_meanwhile) { cr_assert_eq(run_with(1, 1, others_run, NULL), 0); }

/* A buffer in the heap that only the waiting frame holds. */
struct fill {
    unsigned char *to;
    size_t n;
};
static int fill_slowly(void *arg)
{
    struct fill *f = arg;
    for (size_t i = 0; i < f->n; i++) {
        f->to[i] = (unsigned char)i;
        if (i % 16 == 0)
            usleep(100);
    }
    return 0;
}
static _Atomic int filled;
static void fill_one(void *arg)
{
    struct fill f = {hg_alloc(256, HG_LEAF), 256};
    (void)arg;
    CHECK(hg_blocking(fill_slowly, &f) == 0);
    for (size_t i = 0; i < f.n; i++)
        CHECK(f.to[i] == (unsigned char)i);
    hg_add_acqrel(&filled, 1);
}
static int fill_while_collecting(void *arg)
{
    (void)arg;
    for (int i = 0; i < 32; i++)
        go(fill_one, NULL);
    while (hg_load_acq(&filled) < 32) {
        for (int i = 0; i < 50; i++)
            hg_keep_alive(hg_alloc(256, HG_LEAF));
        hg_collect(hg_current());
    }
    return 0;
}
Test(blocking, what_the_waiting_frame_holds_stays_alive)
{
    cr_assert_eq(run_collecting(2, fill_while_collecting, NULL), 0);
}

/* ---- places ---- */

static struct gate door;
static _Atomic int now_inside, most_inside, order_next, order[64];
static int note_order(void *arg)
{
    int n = hg_add_acqrel(&now_inside, 1) + 1, most = hg_load_acq(&most_inside);
    while (n > most && !hg_cas_acqrel(&most_inside, &most, n))
        continue;
    hg_store_rlx(&order[hg_add_acqrel(&order_next, 1)], (int)(intptr_t)arg);
    usleep(300);
    hg_sub_acqrel(&now_inside, 1);
    return 0;
}
static _Atomic int turn, ended;
static void call_in_order(void *arg)
{
    hg_add_acqrel(&turn, 1); /* the next one starts only when this one has parked: one proc */
    CHECK(hg_blocking(note_order, arg) == 0);
    hg_add_acqrel(&ended, 1);
}
static void hold_door(void *arg)
{
    (void)arg;
    CHECK(hg_blocking(pass_gate, &door) == 0);
}
static int first_come(void *arg)
{
    (void)arg;
    go(hold_door, NULL);
    wait_inside(&door, 1);
    for (int i = 0; i < 64; i++) {
        go(call_in_order, (void *)(intptr_t)i);
        yield_until(&turn, i + 1);
    }
    hg_store_rel(&door.open, 1);
    yield_until(&ended, 64);
    for (int i = 0; i < 64; i++)
        CHECK(hg_load_rlx(&order[i]) == i);
    CHECK(hg_load_acq(&most_inside) == 1);
    return 0;
}
Test(blocking, first_come_first_served) { cr_assert_eq(run_with(1, 1, first_come, NULL), 0); }

static void call_any(void *arg)
{
    CHECK(hg_blocking(note_order, arg) == 0);
    hg_add_acqrel(&ended, 1);
}
static int all_places(void *arg)
{
    (void)arg;
    for (int i = 0; i < 64; i++)
        go(call_any, NULL);
    yield_until(&ended, 64);
    CHECK(hg_load_acq(&most_inside) <= 5);
    return 0;
}
Test(blocking, never_more_threads_than_the_bound)
{
    cr_assert_eq(run_with(2, 5, all_places, NULL), 0);
}

/* All places are taken at once by calls that wait for each other. */
static struct gate meeting;
static int meet(void *arg)
{
    (void)arg;
    if (hg_add_acqrel(&meeting.inside, 1) + 1 == 5)
        hg_store_rel(&meeting.open, 1);
    while (hg_load_acq(&meeting.open) == 0)
        usleep(100);
    return 0;
}
static void call_meet(void *arg)
{
    (void)arg;
    CHECK(hg_blocking(meet, NULL) == 0);
    hg_add_acqrel(&ended, 1);
}
static int five_meet(void *arg)
{
    (void)arg;
    for (int i = 0; i < 5; i++)
        go(call_meet, NULL);
    yield_until(&ended, 5);
    return 0;
}
Test(blocking, as_many_at_once_as_the_bound) { cr_assert_eq(run_with(1, 5, five_meet, NULL), 0); }

static int say_where(void *arg)
{
    *(pthread_t *)arg = pthread_self();
    return 0;
}
static int used_again(void *arg)
{
    pthread_t a, b;
    (void)arg;
    for (int i = 0; i < 20; i++) {
        CHECK(hg_blocking(say_where, &a) == 0);
        hg_sleep(MS); /* it is idle by now, or soon: then the next call would need another one */
        CHECK(hg_blocking(say_where, &b) == 0);
        CHECK(pthread_equal(a, b));
    }
    return 0;
}
Test(blocking, an_idle_thread_is_used_again) { cr_assert_eq(run_with(1, 1, used_again, NULL), 0); }

static int count_threads(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}
static int retires(void *arg)
{
    pthread_t where;
    (void)arg;
    hg_current()->sched.blocking_idle_ns = 5 * MS; /* before the pool is made */
    int before = count_threads();
    for (int round = 0; round < 20; round++) {
        CHECK(hg_blocking(say_where, &where) == 0);
        hg_sleep(4 * MS + round * MS / 10); /* about when it gives up waiting */
    }
    while (count_threads() > before)
        hg_sleep(MS);
    CHECK(hg_blocking(say_where, &where) == 0);
    return 0;
}
Test(blocking, idle_threads_retire_and_others_come)
{
    cr_assert_eq(run_with(1, 4, retires, NULL), 0);
}

/* ---- copies, and giving up ---- */

struct sum {
    int a, b, sum;
    char text[100];
};
static _Atomic int drops, calls;
static int add(void *arg)
{
    struct sum *s = arg;
    s->sum = s->a + s->b;
    strcpy(s->text, "added");
    return 7;
}
static void count_drop(void *arg)
{
    (void)arg;
    hg_add_acqrel(&drops, 1);
}
static int copies(void *arg)
{
    struct sum s = {.a = 20, .b = 22};
    int result = 0;
    (void)arg;
    CHECK(hg_blocking_copy(add, &s, sizeof s, count_drop, HG_FOREVER, &result) == 0);
    CHECK(result == 7 && s.sum == 42 && strcmp(s.text, "added") == 0);
    s.a = 1;
    CHECK(hg_blocking_copy(add, &s, sizeof s, NULL, hg_in(20000 * MS), NULL) == 0);
    CHECK(s.sum == 23);
    CHECK(hg_blocking_copy(pass_gate, NULL, 0, NULL, HG_NOW, &result) == -EAGAIN);
    CHECK(hg_blocking_copy(add, &s, 65537, count_drop, HG_FOREVER, &result) == -EINVAL);
    CHECK(hg_load_acq(&drops) == 0);
    return 0;
}
Test(blocking, arguments_are_copied_in_and_out) { cr_assert_eq(run_with(2, 2, copies, NULL), 0); }

/* What a call owns: a gate to wait at, and what fn made. */
struct given {
    struct gate *gate;
    char *made;
};
static int make_late(void *arg)
{
    struct given *g = arg;
    hg_add_acqrel(&calls, 1);
    pass(g->gate);
    g->made = strdup("made");
    return 0;
}
static void free_made(void *arg)
{
    struct given *g = arg;
    free(g->made);
    memset(g, 0xee, sizeof *g);
    hg_add_acqrel(&drops, 1);
}
static struct gate late;
static int give_up(void *arg)
{
    struct given g = {&late, NULL};
    (void)arg;
    int64_t start = hg_now();
    /* Running. */
    CHECK(hg_blocking_copy(make_late, &g, sizeof g, free_made, hg_in(50 * MS), NULL) == -ETIMEDOUT);
    CHECK(hg_now() - start >= 50 * MS && g.gate == &late && g.made == NULL);
    CHECK(hg_load_acq(&calls) == 1 && hg_load_acq(&drops) == 0);
    /* In the queue: the only place is taken. */
    CHECK(hg_blocking_copy(make_late, &g, sizeof g, free_made, hg_in(5 * MS), NULL) == -ETIMEDOUT);
    CHECK(hg_load_acq(&calls) == 1 && hg_load_acq(&drops) == 1);
    /* Before it began to wait. */
    CHECK(hg_blocking_copy(make_late, &g, sizeof g, free_made, hg_now(), NULL) == -ETIMEDOUT);
    CHECK(hg_load_acq(&calls) == 1 && hg_load_acq(&drops) == 2);
    hg_store_rel(&late.open, 1);
    /* The place is free again when the first call has ended and dropped. */
    CHECK(hg_blocking_copy(make_late, &g, sizeof g, free_made, hg_in(20000 * MS), NULL) == 0);
    CHECK(hg_load_acq(&calls) == 2 && hg_load_acq(&drops) == 3);
    CHECK(strcmp(g.made, "made") == 0);
    free(g.made);
    return 0;
}
Test(blocking, who_gives_up_leaves_the_rest_to_the_pool)
{
    for (int procs = 1; procs <= 2; procs++) {
        hg_store_rlx(&late.open, 0);
        hg_store_rlx(&drops, 0);
        hg_store_rlx(&calls, 0);
        cr_assert_eq(run_with(procs, 1, give_up, NULL), 0);
    }
}

/* ---- cancellation, and the ambient deadline ---- */

struct canceled {
    struct gate *gate;
    _Atomic int began, got; /* what the call returned; 1: nothing yet */
    bool copy;
};
static int pass_and_answer(void *arg)
{
    pass(*(struct gate **)arg);
    return 5;
}
static int call_until_canceled(void *arg)
{
    struct canceled *c = arg;
    hg_store_rel(&c->began, 1);
    if (c->copy)
        hg_store_rel(&c->got, hg_blocking_copy(pass_and_answer, &c->gate, sizeof c->gate,
                                               count_drop, HG_FOREVER, NULL));
    else
        hg_store_rel(&c->got, hg_blocking(pass_and_answer, &c->gate));
    /* It is for good. */
    CHECK(hg_blocking(pass_and_answer, &c->gate) == -ECANCELED);
    CHECK(hg_blocking_copy(pass_and_answer, &c->gate, sizeof c->gate, count_drop, HG_FOREVER,
                           NULL) == -ECANCELED);
    hg_add_acqrel(&ended, 1);
    return 0;
}
static int cancels(void *arg)
{
    static struct gate g;
    hg_task *task[4];
    static struct canceled c[4]; /* running on a stack, with a copy; the same in the queue */
    (void)arg;
    hg_store_rlx(&g.open, 0);
    hg_store_rlx(&g.inside, 0);
    for (int i = 0; i < 4; i++) {
        hg_store_rlx(&c[i].began, 0);
        hg_store_rlx(&c[i].got, 1);
        c[i].gate = &g;
        c[i].copy = i % 2 != 0;
        CHECK(hg_go_with(NULL, call_until_canceled, &c[i], &task[i]) == 0);
        if (i < 2)
            wait_inside(&g, i + 1);
    }
    for (int i = 0; i < 4; i++) {
        yield_until(&c[i].began, 1);
        hg_cancel(task[i]);
    }
    yield_until(&c[1].got, -ECANCELED);
    yield_until(&c[2].got, -ECANCELED);
    yield_until(&c[3].got, -ECANCELED);
    hg_sleep(5 * MS);
    CHECK(hg_load_acq(&c[0].got) == 1); /* its argument is on its stack */
    CHECK(hg_load_acq(&g.inside) == 2);
    hg_store_rel(&g.open, 1);
    yield_until(&c[0].got, 5);
    yield_until(&ended, 4);
    while (hg_load_acq(&drops) < 6) /* the running copy's by its thread; one of each second call */
        hg_sleep(MS / 5);
    hg_sleep(MS);
    CHECK(hg_load_acq(&drops) == 6 && hg_load_acq(&g.inside) == 2);
    return 0;
}
Test(blocking, cancellation)
{
    for (int procs = 1; procs <= 2; procs++) {
        hg_store_rlx(&drops, 0);
        hg_store_rlx(&ended, 0);
        cr_assert_eq(run_with(procs, 2, cancels, NULL), 0);
    }
}

static int ambient(void *arg)
{
    static struct gate g;
    int64_t start = hg_now();
    struct gate *gate = &g;
    (void)arg;
    int64_t before = hg_deadline_push(hg_in(20 * MS));
    CHECK(hg_blocking_copy(pass_and_answer, &gate, sizeof gate, count_drop, HG_FOREVER, NULL) ==
          -ETIMEDOUT);
    CHECK(hg_now() - start >= 20 * MS);
    CHECK(hg_blocking(pass_and_answer, &gate) == -ETIMEDOUT);
    hg_deadline_pop(before);
    hg_store_rel(&g.open, 1);
    CHECK(hg_blocking(pass_and_answer, &gate) == 5);
    return 0;
}
Test(blocking, the_ambient_deadline_counts) { cr_assert_eq(run_with(1, 1, ambient, NULL), 0); }

/* ---- reports, misuse ---- */

static int sleep_a_while(void *arg)
{
    (void)arg;
    usleep(20000);
    return 3;
}
static int all_wait(void *arg)
{
    (void)arg;
    return hg_blocking(sleep_a_while, NULL) == 3 ? 0 : 1;
}
Test(blocking, a_call_is_no_deadlock)
{
    for (int procs = 1; procs <= 2; procs++)
        cr_assert_eq(run_with(procs, 1, all_wait, NULL), 0);
}

static int deadlock_afterwards(void *arg)
{
    hg_chan *c = new_chan(8, 0, HG_LEAF);
    struct given g = {&late, NULL};
    (void)arg;
    CHECK(hg_blocking(sleep_a_while, NULL) == 3);
    hg_store_rel(&late.open, 1);
    (void)!hg_blocking_copy(make_late, &g, sizeof g, free_made, hg_in(MS), NULL);
    int64_t v;
    return hg_chan_recv(c, &v, HG_FOREVER);
}
static void run_deadlock(void *arg)
{
    (void)arg;
    _exit(run_with(2, 1, deadlock_afterwards, NULL));
}
Test(blocking, a_deadlock_after_it_is_reported)
{
    for (int i = 0; i < 5; i++) {
        struct test_child c;
        test_child_run(&c, 10, run_deadlock, NULL);
        cr_assert(strstr(c.text, "deadlock") != NULL, "%s", c.text);
    }
}

Test(blocking, only_tasks_may_call)
{
    int v = 0;
    cr_assert_eq(hg_blocking(look_around, &v), -EPERM);
    cr_assert_eq(hg_blocking_copy(look_around, &v, sizeof v, count_drop, HG_FOREVER, NULL), -EPERM);
    cr_assert_eq(hg_load_acq(&drops), 0);
}

Test(blocking, the_bound_is_checked)
{
    hg_runtime *rt = NULL;
    hg_options o;
    hg_options_init(&o, sizeof o);
    cr_assert_eq(o.blocking_threads, 64);
    o.blocking_threads = -1;
    cr_assert_eq(hg_runtime_open(&o, &rt), -EINVAL);
    o.blocking_threads = 1025;
    cr_assert_eq(hg_runtime_open(&o, &rt), -EINVAL);
}
