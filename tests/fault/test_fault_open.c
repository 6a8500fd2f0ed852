/* test_fault_open.c: opening a runtime while the n-th call for memory, threads or mappings fails,
 * for every n: it is an error, and nothing is left of it. */
#include "tests/fault/fault.h"

#include <criterion/criterion.h>
#include <errno.h>

TestSuite(fault_open, .timeout = 100);

#define MEMORY \
    (HG_OS_BIT(META) | HG_OS_BIT(RESERVE) | HG_OS_BIT(MAP) | HG_OS_BIT(COMMIT) | HG_OS_BIT(GUARD))

/* Opens with the n-th of `calls` failing, and `count` in all from there on. True: it was met. */
static bool open_once(uint64_t calls, uint64_t n, uint64_t count, int expected)
{
    hg_options o = fault_options(3);
    hg_runtime *rt = NULL;
    fault_nth(calls, n, count);
    int r = hg_runtime_open(&o, &rt);
    bool met = hg__os_fault_hit(0) != 0;
    hg__os_fault_clear();
    if (r == 0) { /* a failure that it could do without */
        cr_assert_not_null(rt);
        cr_assert_eq(hg_runtime_close(rt), 0);
    } else {
        cr_assert(met, "an error (%d) without a fault", r);
        cr_assert_null(rt);
        cr_assert(r == expected, "call %d failed: %d in place of %d", (int)n, r, expected);
    }
    return met;
}

/* All n until there are no more calls. Returns how many there were. */
static int open_with_each(uint64_t calls, uint64_t count, int expected)
{
    int n = 1;
    struct fault_held before = fault_held_now();
    while (open_once(calls, (uint64_t)n, count, expected)) {
        struct fault_held now = fault_held_now();
        cr_assert_eq(now.descriptors, before.descriptors, "call %d: descriptors", n);
        cr_assert_eq(now.threads, before.threads, "call %d: threads", n);
        /* A reservation of the heap's would be gigabytes. Arenas of jemalloc's leave 2 MiB of
         * address space each. */
        cr_assert_lt(now.address_bytes, before.address_bytes + (size_t)n * (8u << 20) + (64u << 20),
                     "call %d: address space", n);
        n++;
        cr_assert_lt(n, 1000);
    }
    return n - 1;
}

Test(fault_open, each_call_for_memory)
{
    cr_assert_gt(open_with_each(MEMORY, 1, -ENOMEM), 15, "too few calls were met");
}

Test(fault_open, each_call_for_memory_and_all_after_it)
{
    cr_assert_gt(open_with_each(MEMORY, UINT64_MAX, -ENOMEM), 15, "too few calls were met");
}

Test(fault_open, each_thread)
{
    cr_assert_eq(open_with_each(HG_OS_BIT(THREAD), 1, -EAGAIN), 5); /* driver, monitor, procs */
    cr_assert_eq(open_with_each(HG_OS_BIT(THREAD), UINT64_MAX, -EAGAIN), 5);
}

/* hg_run's answer is the error, too. */
static int never(void *arg)
{
    (void)arg;
    return FAULT_DONE;
}
Test(fault_open, a_program_that_cannot_begin)
{
    hg_options o = fault_options(2);
    fault_nth(HG_OS_BIT(THREAD), 1, 1);
    cr_assert_eq(hg_run(never, NULL, &o), -EAGAIN);
    hg__os_fault_clear();
    /* The stack of the first task. */
    fault_nth(HG_OS_BIT(MAP) | HG_OS_BIT(RESERVE) | HG_OS_BIT(COMMIT), 1, UINT64_MAX);
    cr_assert_lt(hg_run(never, NULL, &o), 0);
    hg__os_fault_clear();
    cr_assert_eq(hg_run(never, NULL, &o), FAULT_DONE);
}
