/* test_sched_task.c: starting tasks in every way, their arguments, names and stacks, ids, joining,
 * and what each call says outside of tasks. */
#include "runtime/rt.h"
#include "runtime/sched/internal.h"
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

TestSuite(sched_task, .timeout = 60);

static void on_each(int (*first)(void *))
{
    for (int procs = 1; procs <= 4; procs *= 2)
        cr_assert_eq(run_on(procs, first, NULL), 0, "on %d procs", procs);
}

/* ---- outside ---- */

static void nothing(void *arg) { (void)arg; }
static int zero(void *arg)
{
    (void)arg;
    return 0;
}

Test(sched_task, outside_of_tasks)
{
    void *lo, *hi;
    hg_task_times times;
    memset(&times, 1, sizeof times);
    cr_assert_eq(hg_go(nothing, NULL), -EPERM);
    cr_assert_eq(hg_go_copy(nothing, &lo, sizeof lo), -EPERM);
    cr_assert_eq(hg_go_with(NULL, zero, NULL, NULL), -EPERM);
    cr_assert_eq(hg_join(NULL, HG_NOW, NULL), -EPERM);
    cr_assert_eq(hg_stack_bounds(&lo, &hi), -EPERM);
    cr_assert_eq(hg_task_id(), 0);
    hg_task_times_read(&times);
    cr_assert_eq(times.runq_ns, 0);
    hg_safepoint();
}

static void yield_outside(void *arg)
{
    (void)arg;
    hg_yield();
}
static void sleep_outside(void *arg)
{
    (void)arg;
    hg_sleep(1);
}
Test(sched_task, waiting_outside_of_tasks_is_fatal)
{
    struct test_child c;
    test_child_run(&c, 10, yield_outside, NULL);
    cr_assert(c.signal != 0 && strstr(c.text, "hg_yield: not on a task") != NULL);
    test_child_run(&c, 10, sleep_outside, NULL);
    cr_assert(c.signal != 0 && strstr(c.text, "hg_sleep: not on a task") != NULL);
}

/* ---- arguments ---- */

static _Atomic int count;
static void add(void *arg) { hg_add_acqrel((_Atomic int *)arg, 1); }

struct triple {
    uint64_t a, b;
    char text[13];
};
static void check_triple(void *arg)
{
    struct triple *t = arg;
    void *lo, *hi;
    CHECK(hg_stack_bounds(&lo, &hi) == 0);
    CHECK((void *)t > lo && (void *)(t + 1) <= hi && (uintptr_t)t % 16 == 0);
    CHECK(t->a == 1 && t->b == UINT64_MAX && strcmp(t->text, "twelve chars") == 0);
    hg_yield();
    CHECK(t->a == 1 && t->b == UINT64_MAX);
    hg_add_acqrel(&count, 1);
}
static void check_large(void *arg)
{
    const unsigned char *bytes = arg;
    for (int i = 0; i < 1024; i++)
        CHECK(bytes[i] == (unsigned char)(i * 7));
    hg_add_acqrel(&count, 1);
}

static int arguments(void *arg)
{
    unsigned char large[1025];
    struct triple t = {1, UINT64_MAX, "twelve chars"};
    (void)arg;
    hg_store_rlx(&count, 0);
    for (int i = 0; i < 1025; i++)
        large[i] = (unsigned char)(i * 7);
    for (int i = 0; i < 100; i++)
        go(add, &count);
    yield_until(&count, 100);
    for (int i = 0; i < 100; i++)
        CHECK(hg_go_copy(check_triple, &t, sizeof t) == 0);
    t = (struct triple){0};
    yield_until(&count, 200);
    CHECK(hg_go_copy(check_large, large, 1024) == 0);
    CHECK(hg_go_copy(nothing, large, 1025) == -EINVAL);
    yield_until(&count, 201);
    CHECK(hg_go_copy(nothing, NULL, 0) == 0);
    return 0;
}
Test(sched_task, arguments_arrive) { on_each(arguments); }

/* ---- attributes ---- */

static int check_named(void *arg)
{
    const struct hg_tcb *t = hg__task_self();
    CHECK(strcmp(t->name, "0123456789012345678901234567890") == 0);
    CHECK(*(int *)arg == 42);
    return 7;
}
static int check_stack(void *arg)
{
    void *lo, *hi;
    size_t wanted = (size_t)arg;
    CHECK(hg_stack_bounds(&lo, &hi) == 0);
    size_t got = (size_t)((char *)hi - (char *)lo);
    CHECK(got <= wanted && got + 2048 > wanted);
    CHECK((void *)&lo > lo && (void *)&lo < hi);
    /* All of it can be used. */
    volatile char *deep = (char *)lo + 64;
    *deep = 1;
    return (int)(wanted >> 10);
}
static int check_unnamed(void *arg)
{
    (void)arg;
    CHECK(hg__task_self()->name[0] == 0);
    return 0;
}

static int attributes(void *arg)
{
    hg_task *h;
    int r, forty_two = 42;
    hg_task_attr a = {.size = sizeof a,
                      .name = "0123456789012345678901234567890123456789",
                      .copy_bytes = sizeof forty_two};
    (void)arg;
    CHECK(hg_go_with(&a, check_named, &forty_two, &h) == 0);
    CHECK(hg_join(h, HG_FOREVER, &r) == 0 && r == 7);
    CHECK(hg_go_with(NULL, check_unnamed, NULL, &h) == 0);
    CHECK(hg_join(h, HG_FOREVER, NULL) == 0);
    static const size_t sizes[][2] = {{1, 16384},         {16384, 16384},    {16385, 32768},
                                      {65536, 65536},     {0, 65536},        {100000, 131072},
                                      {1 << 20, 1 << 20}, {8 << 20, 8 << 20}};
    for (unsigned i = 0; i < HG_COUNT_OF(sizes); i++) {
        hg_task_attr s = {.size = sizeof s, .stack_bytes = sizes[i][0]};
        CHECK(hg_go_with(&s, check_stack, (void *)sizes[i][1], &h) == 0);
        CHECK(hg_join(h, HG_FOREVER, &r) == 0 && (size_t)r == sizes[i][1] >> 10);
    }
    hg_task_attr bad = {.size = sizeof bad, .stack_bytes = (8 << 20) + 1};
    CHECK(hg_go_with(&bad, zero, NULL, &h) == -EINVAL);
    bad = (hg_task_attr){.size = sizeof bad, .copy_bytes = 1025};
    CHECK(hg_go_with(&bad, zero, NULL, &h) == -EINVAL);
    bad = (hg_task_attr){.size = sizeof bad - 1};
    CHECK(hg_go_with(&bad, zero, NULL, &h) == -EINVAL);
    return 0;
}
Test(sched_task, attributes) { on_each(attributes); }

/* ---- ids ---- */

#define IDS 3000
static _Atomic uint8_t id_seen[4 * IDS * 4];
static void note_id(void *arg)
{
    uint64_t id = hg_task_id();
    (void)arg;
    CHECK(id != 0 && id < HG_COUNT_OF(id_seen));
    CHECK(hg_add_acqrel(&id_seen[id], 1) == 0);
    hg_add_acqrel(&count, 1);
}
static int ids(void *arg)
{
    (void)arg;
    hg_store_rlx(&count, 0);
    memset(id_seen, 0, sizeof id_seen);
    CHECK(hg_task_id() == 1);
    for (int i = 0; i < IDS; i++) {
        go(note_id, NULL);
        if (i % 100 == 0)
            hg_yield();
    }
    yield_until(&count, IDS);
    return 0;
}
Test(sched_task, ids_are_unique) { on_each(ids); }

/* ---- join ---- */

static int after_ms(void *arg)
{
    hg_sleep((int64_t)(intptr_t)arg * 1000000);
    return (int)(intptr_t)arg;
}
static int join_self(void *arg)
{
    hg_task **h = arg;
    return hg_join(*h, HG_FOREVER, NULL) == -EDEADLK ? 1 : 0;
}
static int join_it(void *arg)
{
    int r = 0;
    CHECK(hg_join(*(hg_task **)arg, HG_FOREVER, &r) == 0);
    return r;
}

static int joining(void *arg)
{
    hg_task *h, *slow, *joiners[50];
    int r = 0;
    (void)arg;
    CHECK(hg_go_with(NULL, after_ms, (void *)0, &h) == 0);
    CHECK(hg_join(h, HG_FOREVER, &r) == 0 && r == 0);
    CHECK(hg_join(h, HG_NOW, &r) == 0); /* again */
    CHECK(hg_go_with(NULL, join_self, &h, &h) == 0);
    CHECK(hg_join(h, HG_FOREVER, &r) == 0 && r == 1);
    CHECK(hg_go_with(NULL, after_ms, (void *)30, &slow) == 0);
    CHECK(hg_join(slow, HG_NOW, &r) == -EAGAIN);
    CHECK(hg_join(slow, hg_in(1000000), &r) == -ETIMEDOUT);
    for (int i = 0; i < 50; i++)
        CHECK(hg_go_with(NULL, join_it, &slow, &joiners[i]) == 0);
    CHECK(hg_join(slow, hg_in(2000000), NULL) == -ETIMEDOUT); /* leaves the middle of the waiters */
    for (int i = 0; i < 50; i++)
        CHECK(hg_join(joiners[i], HG_FOREVER, &r) == 0 && r == 30);
    CHECK(hg_join(slow, HG_NOW, &r) == 0 && r == 30);
    return 0;
}
Test(sched_task, joining) { on_each(joining); }

/* Handles and arguments are kept by tasks alone, while every allocation collects. */
struct node {
    HG_REF(struct node *) next;
    uint64_t value;
};
static const uint32_t node_fields[] = {offsetof(struct node, next)};
static const hg_layout node_layout = HG_TYPED("node", node_fields);

static struct node *chain(uint64_t value)
{
    struct node *n = NULL;
    for (int i = 0; i < 5; i++) {
        struct node *more = hg_alloc(sizeof *more, &node_layout);
        hg_init(more->next, n);
        more->value = value;
        n = more;
    }
    return n;
}
static int sum(void *arg)
{
    int s = 0;
    hg_sleep(100000);
    for (int i = 0; i < 50; i++)
        hg_keep_alive(hg_alloc(4096, HG_LEAF));
    for (struct node *n = arg; n != NULL; n = hg_get(n->next))
        s += (int)n->value;
    return s;
}
static int sum_copied(void *arg) { return sum(*(struct node **)arg); }

static int collecting(void *arg)
{
    (void)arg;
    hg_task_attr a = {.size = sizeof a, .copy_bytes = sizeof(void *)};
    for (int i = 1; i < 40; i++) {
        hg_task *one, *two;
        int r;
        struct node *n = chain((uint64_t)i);
        CHECK(hg_go_with(NULL, sum, n, &one) == 0);
        n = chain((uint64_t)i + 1);
        CHECK(hg_go_with(&a, sum_copied, &n, &two) == 0);
        n = NULL;
        CHECK(hg_join(one, HG_FOREVER, &r) == 0 && r == 5 * i);
        if (i % 8 == 0)
            hg_collect(hg_current());
        CHECK(hg_join(two, HG_FOREVER, &r) == 0 && r == 5 * (i + 1));
    }
    hg_stats st = {.size = sizeof st};
    hg_stats_read(hg_current(), &st);
    CHECK(st.cycles > 0);
    return 0;
}
Test(sched_task, arguments_survive_collections)
{
    for (int procs = 1; procs <= 4; procs *= 2)
        cr_assert_eq(run_collecting(procs, collecting, NULL), 0);
}

/* ---- counts ---- */

static int counts(void *arg)
{
    hg_stats st = {.size = sizeof st};
    (void)arg;
    hg_store_rlx(&count, 0);
    for (int i = 0; i < 500; i++)
        go(add, &count);
    yield_until(&count, 500);
    /* The last ones may still be on their way out. */
    for (int64_t until = hg_in(INT64_C(2000000000)); hg_now() < until; hg_yield()) {
        hg_stats_read(hg_current(), &st);
        if (st.tasks_now == 1)
            break;
    }
    CHECK(st.tasks_now == 1 && st.switches >= 500);
    return 0;
}
Test(sched_task, living_tasks_are_counted) { on_each(counts); }

/* ---- waits in the run queue ---- */

static int tracked(void *arg)
{
    hg_task_times times;
    (void)arg;
    hg_store_rlx(&count, 0);
    go(add, &count);
    hg_yield();
    yield_until(&count, 1);
    hg_task_times_read(&times);
    CHECK(times.runq_ns > 0 && times.runq_ns < INT64_C(10000000000));
    CHECK(times.mark_ns >= 0 && times.mark_ns <= times.runq_ns);
    return 0;
}
Test(sched_task, waits_are_tracked)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = 2;
    o.track_waits = true;
    cr_assert_eq(hg_run(tracked, NULL, &o), 0);
}
