/* test_fault_memory.c: a running program whose calls to the system fail: heap growth, stacks,
 * threads, memory that cannot be given back, sleeps that are interrupted. */
#include "base/rand.h"
#include "tests/fault/fault.h"
#include "tests/support/test.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

TestSuite(fault_memory, .timeout = 100);

static hg_waitgroup group;

/* ---- the heap cannot grow ---- */

static _Atomic int asked;
static bool memory_comes_back(void *user, size_t wanted)
{
    (void)user;
    MUST(wanted == (1u << 20), "%zu bytes wanted", wanted);
    if (hg_add_acqrel(&asked, 1) == 2)
        hg__os_fault_clear();
    return true;
}
static void **hold_new(size_t n)
{
    void **all = hg_alloc(n * sizeof *all, HG_REFS);
    for (size_t i = 0; i < n; i++) {
        all[i] = hg_alloc(64, HG_LEAF);
        *(size_t *)all[i] = i;
    }
    return all;
}
static int grow_later(void *arg)
{
    void **all = hold_new(1000);
    (void)arg;
    fault_nth(HG_OS_BIT(COMMIT), 1, UINT64_MAX);
    MUST(hg_try_alloc(64u << 20, HG_LEAF) == NULL, "64 MiB without memory");
    for (int i = 0; hg_load_acq(&asked) == 0; i++) {
        MUST(i < 10000, "a heap that grows without memory");
        hg_ref_store(&all[i % 1000], hg_alloc(1u << 20, HG_LEAF));
        *(size_t *)all[i % 1000] = (size_t)i % 1000;
    }
    for (size_t i = 0; i < 1000; i++)
        MUST(*(size_t *)all[i] == i, "object %zu is damaged", i);
    MUST(hg_try_alloc(64u << 20, HG_LEAF) != NULL, "64 MiB with memory");
    return FAULT_DONE;
}
Test(fault_memory, a_heap_that_cannot_grow_asks_the_hook)
{
    hg_options o = fault_options(2);
    o.out_of_memory = memory_comes_back;
    cr_assert_eq(hg_run(grow_later, NULL, &o), FAULT_DONE);
    cr_assert_eq(hg_load_acq(&asked), 3);
}

static int grow_for_ever(void *arg)
{
    void **all = hg_alloc(100000 * sizeof *all, HG_REFS);
    (void)arg;
    fault_nth(HG_OS_BIT(COMMIT), 1, UINT64_MAX);
    for (int i = 0; i < 100000; i++)
        hg_ref_store(&all[i], hg_alloc(1u << 20, HG_LEAF));
    return 0;
}
static void run_until_full(void *arg)
{
    hg_options o = fault_options(2);
    (void)arg;
    _exit(hg_run(grow_for_ever, NULL, &o));
}
Test(fault_memory, without_a_hook_it_says_so_and_ends)
{
    struct test_child c;
    test_child_run(&c, 20, run_until_full, NULL);
    cr_assert_eq(c.signal, SIGABRT, "%s", c.text);
    cr_assert(strstr(c.text, "out of memory") != NULL, "%s", c.text);
}

/* ---- stacks ---- */

static void nothing(void *arg)
{
    (void)arg;
    hg_waitgroup_done(&group);
}
static _Atomic int let_end;
static void stay(void *arg)
{
    (void)arg;
    while (hg_load_acq(&let_end) == 0)
        hg_sleep(FAULT_MS);
    hg_waitgroup_done(&group);
}
static int no_stacks(void *arg)
{
    int started = 0, r;
    (void)arg;
    fault_nth(HG_OS_BIT(MAP) | HG_OS_BIT(RESERVE) | HG_OS_BIT(COMMIT) | HG_OS_BIT(GUARD), 1,
              UINT64_MAX);
    hg_waitgroup_add(&group, 1 << 20);
    while ((r = hg_go(stay, NULL)) == 0 && started < 1 << 20)
        started++;
    MUST(r == -EAGAIN, "hg_go without a stack: %d after %d", r, started);
    hg__os_fault_clear();
    for (int i = 0; i < 1000; i++)
        MUST(hg_go(nothing, NULL) == 0, "hg_go with stacks");
    hg_store_rel(&let_end, 1);
    hg_waitgroup_add(&group, started + 1000 - (1 << 20));
    hg_waitgroup_wait(&group, HG_FOREVER);
    return FAULT_DONE;
}
Test(fault_memory, no_stack_is_an_error_of_one_call)
{
    hg_options o = fault_options(2);
    cr_assert_eq(hg_run(no_stacks, NULL, &o), FAULT_DONE);
}

/* ---- threads ---- */

static int answer(void *arg)
{
    usleep(2000);
    return *(int *)arg;
}
static void call_anyway(void *arg)
{
    int n = (int)(intptr_t)arg, r;
    MUST((r = hg_blocking(answer, &n)) == n, "a call with one thread: %d", r);
    hg_waitgroup_done(&group);
}
static void drop_none(void *arg) { MUST(arg == NULL, "dropped"); }
static int no_threads(void *arg)
{
    int n = 5;
    (void)arg;
    fault_nth(HG_OS_BIT(THREAD), 1, UINT64_MAX);
    for (int i = 0; i < 3; i++) {
        MUST(hg_blocking(answer, &n) == -EAGAIN, "a call without a thread");
        MUST(hg_blocking_copy(answer, &n, sizeof n, drop_none, HG_FOREVER, NULL) == -EAGAIN,
             "a copied call without a thread");
    }
    hg__os_fault_clear();
    MUST(hg_blocking(answer, &n) == 5, "a call with a thread");
    /* One there is: calls wait for it. */
    fault_nth(HG_OS_BIT(THREAD), 1, UINT64_MAX);
    hg_waitgroup_add(&group, 20);
    for (intptr_t i = 1; i <= 20; i++)
        MUST(hg_go(call_anyway, (void *)i) == 0, "hg_go");
    hg_waitgroup_wait(&group, HG_FOREVER);
    MUST(hg__os_fault_hit(0) > 0, "no thread was wanted");
    hg__os_fault_clear();
    return FAULT_DONE;
}
Test(fault_memory, blocking_calls_without_threads)
{
    for (int procs = 1; procs <= 2; procs++) {
        hg_options o = fault_options(procs);
        cr_assert_eq(hg_run(no_threads, NULL, &o), FAULT_DONE);
    }
}

/* A region without a thread to hand its proc to keeps it, and all goes on afterwards. */
static void block(void *arg)
{
    (void)arg;
    hg_block_enter();
    usleep(15000);
    hg_block_leave();
    hg_waitgroup_done(&group);
}
static int regions(void *arg)
{
    (void)arg;
    fault_nth(HG_OS_BIT(THREAD), 1, UINT64_MAX);
    hg_waitgroup_add(&group, 8);
    for (int i = 0; i < 8; i++)
        MUST(hg_go(block, NULL) == 0, "hg_go");
    hg_waitgroup_wait(&group, HG_FOREVER);
    MUST(hg__os_fault_hit(0) > 0, "no thread was wanted");
    hg__os_fault_clear();
    return FAULT_DONE;
}
Test(fault_memory, blocking_regions_without_threads)
{
    hg_options o = fault_options(2);
    cr_assert_eq(hg_run(regions, NULL, &o), FAULT_DONE);
}

/* ---- what goes on regardless ---- */

struct node {
    struct node *next;
    uint64_t number;
};
static const uint32_t node_fields[] = {offsetof(struct node, next)};
static const hg_layout node_layout = HG_TYPED("node", node_fields);

static void count_list(void *arg)
{
    hg_chan *c = *(hg_chan **)arg;
    struct node *list = NULL;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < 3000; i++) {
        struct node *n = hg_alloc(sizeof *n, &node_layout);
        MUST(n->next == NULL && n->number == 0, "memory that is not zero");
        n->number = i;
        n->next = list;
        list = n;
        if (i % 500 == 0)
            hg_sleep(FAULT_MS / 20);
        if (i % 1000 == 0) { /* large objects come and go, their memory with them */
            uint64_t *big = hg_alloc(3u << 20, HG_LEAF);
            MUST(big[0] == 0 && big[(3u << 20) / 8 - 1] == 0, "memory that is not zero");
            memset(big, 0xff, 3u << 20);
        }
    }
    for (struct node *n = list; n != NULL; n = n->next)
        sum += n->number;
    MUST(hg_chan_send(c, &sum, HG_FOREVER) == 0, "send");
}
static int lists(void *arg)
{
    int n = 30;
    hg_chan *c;
    (void)arg;
    int r = hg_chan_new(8, 0, HG_LEAF, &c);
    for (int i = 0; i < n && r == 0; i++)
        r = hg_go_copy(count_list, &c, sizeof c);
    if (r != 0)
        return r;
    for (int i = 0; i < n; i++) {
        uint64_t sum = 0;
        MUST(hg_chan_recv(c, &sum, hg_in(60000 * FAULT_MS)) == 0, "recv");
        MUST(sum == UINT64_C(3000) * 2999 / 2, "a wrong sum");
        if (i % 10 == 0) {
            hg_collect(hg_current());
            hg_release_memory(hg_current());
        }
    }
    return FAULT_DONE;
}

static void run_lists(uint64_t calls, uint32_t one_in, uint64_t seed)
{
    for (int procs = 1; procs <= 4; procs *= 2) {
        hg_options o = fault_options(procs);
        o.stress = 200;
        fault_one_in(calls, one_in, seed);
        int r = hg_run(lists, NULL, &o);
        uint64_t met = hg__os_fault_met(0), hit = hg__os_fault_hit(0);
        hg__os_fault_clear();
        cr_assert_eq(r, FAULT_DONE);
        cr_assert(hit > 0, "%d of %d calls", (int)hit, (int)met);
    }
}
Test(fault_memory, memory_that_cannot_be_given_back)
{
    run_lists(HG_OS_BIT(DISCARD), 2, test_seed("fault_discard"));
}
Test(fault_memory, sleeps_that_are_interrupted)
{
    run_lists(HG_OS_BIT(WAIT), 2, test_seed("fault_wait"));
}

/* Memory for the runtime's own data runs out at some point: the program goes on without, or ends
 * saying so. */
static void run_short_of_metadata(void *seed)
{
    struct hg_rand rand = {*(uint64_t *)seed};
    hg_options o = fault_options(2);
    o.stress = 50;
    uint64_t nth = 20 + hg_rand_below(&rand, 200);
    fault_nth(HG_OS_BIT(META) | HG_OS_BIT(MAP), nth, UINT64_MAX);
    int r = hg_run(lists, NULL, &o);
    _exit(r == FAULT_DONE || r == -ENOMEM || r == -EAGAIN ? 0 : 1);
}
Test(fault_memory, no_metadata_is_said_or_borne)
{
    uint64_t seed = test_seed("fault_metadata");
    for (int i = 0; i < 12; i++, seed++) {
        struct test_child c;
        test_child_run(&c, 30, run_short_of_metadata, &seed);
        bool said = c.signal == SIGABRT && strstr(c.text, "out of memory") != NULL;
        cr_assert(c.exit_code == 0 || said, "exit %d, signal %d: %s", c.exit_code, c.signal,
                  c.text);
    }
}
