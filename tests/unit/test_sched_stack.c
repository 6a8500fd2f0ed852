/* test_sched_stack.c: the memory of tasks: what a parked one costs, mappings, reuse, guards, and
 * giving deep pages back while tasks wait and run. */
#include "runtime/mut/sanitize.h"
#include "runtime/rt.h"
#include "runtime/sched/internal.h"
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

TestSuite(sched_stack, .timeout = 120);

static size_t resident_bytes(void)
{
    long total = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f != NULL && fscanf(f, "%ld %ld", &total, &resident) == 2);
    fclose(f);
    return (size_t)resident * (size_t)sysconf(_SC_PAGESIZE);
}

static int mappings(void)
{
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    CHECK(f != NULL);
    for (int c; (c = getc(f)) != EOF;)
        n += c == '\n';
    fclose(f);
    return n;
}

/* ---- parked tasks ---- */

static _Atomic int parked;
static void park_on(void *arg)
{
    int v;
    hg_add_acqrel(&parked, 1);
    CHECK(hg_chan_recv(arg, &v, HG_FOREVER) == -EPIPE);
    hg_sub_acqrel(&parked, 1);
}

static int cost(void *arg)
{
    int n = (int)test_scaled(40000), maps = mappings();
    hg_chan *c = new_chan(sizeof(int), 0, HG_LEAF);
    (void)arg;
    for (int i = 0; i < 100; i++) /* what is needed once */
        go(park_on, c);
    yield_until(&parked, 100);
    size_t before = resident_bytes();
    for (int i = 0; i < n; i++) {
        go(park_on, c);
        if (i % 64 == 0)
            hg_yield();
    }
    yield_until(&parked, n + 100);
    size_t each = (resident_bytes() - before) / (size_t)n;
#if !HG_ASAN
    CHECK(each <= 4710); /* 4.6 KiB */
#endif
    CHECK(each >= 4096 || HG_ASAN);
    CHECK(mappings() - maps < n / 16 + 50);
    CHECK(hg_chan_close(c) == 0);
    yield_until(&parked, 0);
    /* Again, on the same stacks. */
    uint32_t made = hg_load_acq(&hg_current()->sched.registered);
    c = new_chan(sizeof(int), 0, HG_LEAF);
    for (int i = 0; i < n; i++)
        go(park_on, c);
    yield_until(&parked, n);
    CHECK(hg_load_acq(&hg_current()->sched.registered) < made + 200);
    CHECK(hg_chan_close(c) == 0);
    yield_until(&parked, 0);
    return 0;
}
Test(sched_stack, a_parked_task_costs_a_page) { cr_assert_eq(run_on(2, cost, NULL), 0); }

/* ---- layout ---- */

static int layout(void *arg)
{
    struct hg_sched *s = &hg_current()->sched;
    hg_chan *c = new_chan(sizeof(int), 0, HG_LEAF);
    size_t page = hg__os_page_size();
    (void)arg;
    for (int i = 0; i < 200; i++)
        go(park_on, c);
    yield_until(&parked, 200);
    for (uint32_t i = 0; i < hg_load_acq(&s->registered); i++) {
        const struct hg_tcb *t = hg__task_at(s, i);
        CHECK(t->slot == i && t->sched == s);
        CHECK(t->stack.lo % page == 0 && (uintptr_t)t % 64 == 0 &&
              t->stack.hi == (uintptr_t)(t + 1));
        CHECK(t->stack.hi - t->stack.lo <= hg__stack_bytes(t));
        CHECK(t->stack.hi - t->stack.lo > hg__stack_bytes(t) - 1100);
        if (hg_load_acq(&t->state) == HG_TASK_WAITING)
            CHECK(t->stack.sp > t->stack.lo && t->stack.sp < (uintptr_t)t);
        for (uint32_t j = 0; j < i; j++)
            CHECK(hg__task_at(s, j)->stack.lo > t->stack.hi ||
                  hg__task_at(s, j)->stack.hi < t->stack.lo - page + 1);
    }
    int64_t scannable = hg__stack_scannable(s);
    CHECK(scannable > 200 * 300 && scannable < 201 * 8192);
    CHECK(hg_chan_close(c) == 0);
    yield_until(&parked, 0);
    return 0;
}
Test(sched_stack, layout) { cr_assert_eq(run_on(2, layout, NULL), 0); }

/* ---- trimming ---- */

#define DEEP 10 /* pages */

static int64_t deep_pages(const struct hg_tcb *t)
{
    unsigned char there[16] = {0};
    size_t page = hg__os_page_size(), n = 0;
    size_t pages = (t->stack.hi - t->stack.lo) / page;
    CHECK(mincore((void *)t->stack.lo, pages * page, there) == 0);
    for (size_t i = 0; i < pages; i++)
        n += there[i] & 1;
    return (int64_t)n;
}

static __attribute__((noinline)) void dig(int n)
{
    volatile char room[4096];
    for (size_t i = 0; i < sizeof room; i += 512)
        room[i] = 1;
    if (n > 0)
        dig(n - 1);
    else
        hg_yield(); /* where the depth is noted */
    room[1] = room[2];
}

struct digger {
    _Atomic int stage, go_on;
};
static void digger(void *arg)
{
    struct digger *d = arg;
    volatile unsigned char kept[2000];
    for (unsigned i = 0; i < sizeof kept; i++)
        kept[i] = (unsigned char)(i * 13);
    dig(DEEP);
    hg_store_rel(&d->stage, (int)hg__task_self()->slot + 1);
    while (hg_load_acq(&d->go_on) == 0)
        hg_sleep(50000000);
    for (unsigned i = 0; i < sizeof kept; i++)
        CHECK(kept[i] == (unsigned char)(i * 13));
    dig(DEEP);
    hg_store_rel(&d->stage, 0);
}

static void open_2(hg_runtime **rt)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = 2;
    o.gc_percent = -1;
    cr_assert_eq(hg_runtime_open(&o, rt), 0);
}

/* The driver sleeps: nothing is allocated, and no cycle has been. So the test may act as the
 * driver. */
Test(sched_stack, waiting_stacks_are_trimmed)
{
    hg_runtime *rt;
    struct digger d = {0};
    open_2(&rt);
    cr_assert_eq(hg_post(rt, digger, &d), 0);
    while (hg_load_acq(&d.stage) == 0)
        usleep(1000);
    usleep(10000);
    const struct hg_tcb *t = hg__task_at(&rt->sched, (uint32_t)hg_load_acq(&d.stage) - 1);
    int64_t counted = hg_load_rlx(&rt->sched.stack_bytes_used);
    cr_assert_geq(deep_pages(t), DEEP);
    int trimmed = 0;
    for (int i = 0; i < 1000 && trimmed == 0; i++) {
        trimmed = hg__stack_trim(&rt->sched, 100);
        usleep(100);
    }
    cr_assert_eq(trimmed, 1);
    cr_assert_leq(deep_pages(t), 2);
    cr_assert_leq(hg_load_rlx(&rt->sched.stack_bytes_used), counted - (int64_t)(DEEP - 2) * 4096);
    cr_assert_eq(hg__stack_trim(&rt->sched, 100), 0);
    hg_store_rel(&d.go_on, 1);
    while (hg_load_acq(&d.stage) != 0)
        usleep(1000);
    while (hg__sched_tasks(&rt->sched) != 0)
        usleep(1000);
    /* The dead one was deep again. */
    cr_assert_eq(hg__stack_trim(&rt->sched, 100), 1);
    cr_assert_leq(deep_pages(t), 2);
    cr_assert_eq(hg_runtime_close(rt), 0);
}

/* Tasks that go deep and sleep in turns, while the trimmer is at work all the time. */
static _Atomic int churning;
static void short_and_deep(void *arg)
{
    (void)arg;
    dig(DEEP);
}
static void churn(void *arg)
{
    uint64_t mine = (uint64_t)(uintptr_t)arg;
    volatile uint64_t kept[64];
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < 64; i++)
            kept[i] = mine * 64 + (uint64_t)i;
        dig((int)(mine + (uint64_t)round) % 8);
        hg_sleep(100000 + (int64_t)(mine % 7) * 100000);
        for (int i = 0; i < 64; i++)
            CHECK(kept[i] == mine * 64 + (uint64_t)i);
        if (round % 8 == 0)
            CHECK(hg_go(short_and_deep, NULL) == 0);
    }
    hg_sub_acqrel(&churning, 1);
}
Test(sched_stack, trimming_beside_running_tasks)
{
    hg_runtime *rt;
    int trimmed = 0;
    open_2(&rt);
    hg_store_rlx(&churning, 60);
    for (uintptr_t i = 0; i < 60; i++)
        cr_assert_eq(hg_post(rt, churn, (void *)i), 0);
    while (hg_load_acq(&churning) > 0) {
        trimmed += hg__stack_trim(&rt->sched, 100);
        usleep(200);
    }
    cr_assert_gt(trimmed, 0);
    while (hg__sched_tasks(&rt->sched) != 0)
        usleep(1000);
    cr_assert_eq(hg_runtime_close(rt), 0);
}
