/* test_case_limit.c: the memory limit in a running program, soft and hard: case P09.
 *
 * Shares of CPU time are of what the process used or of what the machine had, whichever makes the
 * bound safe on a busy machine.
 */
#include "tests/stress/test_case.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

TestSuite(case_limit, .timeout = 60);

/* ---- P09: live data above the memory limit ---- */

static void count_passed(void *user, int64_t bytes)
{
    struct {
        uint32_t calls;
        int64_t bytes;
    } *told = user;
    __atomic_fetch_add(&told->calls, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&told->bytes, bytes, __ATOMIC_RELAXED);
}

static struct {
    uint32_t calls;
    int64_t bytes;
} told;

static int64_t limit_of_test(void) { return (int64_t)(64 * CASE_MIB); }

/* Allocates for 4 seconds; returns GC's share of the CPU time that the procs could have had, which
 * is what the limiter bounds. */
static double churn_share(uint64_t *allocated)
{
    hg_stats before = case_stats();
    int64_t there = -hg_now() * before.procs;
    for (int64_t until = hg_in(4 * CASE_SEC); hg_now() < until;)
        for (int i = 0; i < 1000; i++)
            hg_keep_alive(hg_alloc(256, HG_REFS));
    there += hg_now() * before.procs;
    hg_stats after = case_stats();
    *allocated = after.alloc_bytes - before.alloc_bytes;
    return (double)(case_gc_cpu(&after) - case_gc_cpu(&before)) / (double)there;
}

static int above_limit_main(void *arg)
{
    uint64_t allocated;
    (void)arg;
    void **all = case_live_new((size_t)limit_of_test() / 5 * 6); /* 120 % of the limit */
    double share = churn_share(&allocated);
    hg_keep_alive(all);
    fprintf(stderr, "  GC share %.2f, %lu MB allocated, told %u times\n", share,
            (unsigned long)(allocated >> 20), told.calls);
    MUST(share < 0.55, "GC took %.0f %% of CPU time", 100 * share);
    MUST(allocated > 20 * CASE_MIB, "no progress: %lu bytes", (unsigned long)allocated);
    MUST(told.calls == 1, "the callback was raised %u times", told.calls);
    MUST(told.bytes > limit_of_test(), "raised at %ld bytes", (long)told.bytes);
    return CASE_DONE;
}

Test(case_limit, p09_live_data_above_the_soft_limit)
{
    for (int procs = 1; procs <= 2; procs++) {
        memset(&told, 0, sizeof told);
        hg_options o = case_options(procs);
        o.memory_limit = limit_of_test();
        o.limit_passed = count_passed;
        o.user = &told;
        case_run(above_limit_main, NULL, &o);
    }
}

/* Objects of 4 KiB into all[0..n-1] until there is no room. Returns how many there are. */
static size_t fill_up(void **all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *p = hg_try_alloc(4096, HG_LEAF);
        if (p == NULL)
            return i;
        hg_ref_store(&all[i], p);
    }
    return n;
}

static int hard_limit_main(void *arg)
{
    size_t n = 2 * (size_t)limit_of_test() / 4096;
    (void)arg;
    void **all = hg_alloc(n * sizeof *all, HG_REFS);
    for (int round = 0; round < 3; round++) {
        size_t kept = fill_up(all, n);
        MUST(kept < n, "twice the limit is live, and no end");
        MUST(kept * 4096 > (size_t)limit_of_test() / 4, "NULL at %zu bytes (round %d)", kept * 4096,
             round);
        for (size_t i = 0; i < kept; i++)
            hg_ref_store(&all[i], NULL); /* there is room again */
        for (int i = 0; i < 10000; i++)
            MUST(hg_try_alloc(4096, HG_LEAF) != NULL, "NULL with nothing live (%d, round %d)", i,
                 round);
    }
    hg_stats before = case_stats();
    MUST(hg_try_alloc((size_t)limit_of_test() + 1, HG_LEAF) == NULL, "more than the limit");
    MUST(case_stats().forced_cycles == before.forced_cycles, "collected for what never fits");
    return CASE_DONE;
}

Test(case_limit, p09_hard_limit_gives_null)
{
    hg_options o = case_options(1);
    o.memory_limit = limit_of_test();
    o.hard_limit = true;
    case_run(hard_limit_main, NULL, &o);
}

/* The hook lets go of everything: one call is enough for the allocation to go on, since what was
 * let go of is collected before the hook is asked again. */
static struct {
    void **all; /* NULL: let go of */
    size_t n;
    uint32_t calls;
} hoard;

static bool let_go(void *user, size_t wanted)
{
    (void)user;
    (void)wanted;
    hoard.calls++;
    MUST(hoard.all != NULL, "asked again before anything was collected");
    /* A frame may still show the array, whose contents must go all the same. */
    for (size_t i = 0; i < hoard.n; i++)
        hg_ref_store(&hoard.all[i], NULL);
    hg_ref_store(&hoard.all, NULL);
    return true;
}

static int hook_main(void *arg)
{
    size_t n = hoard.n = 2 * (size_t)limit_of_test() / 4096;
    (void)arg;
    MUST(hg_root_add(hg_current(), &hoard.all, 1, HG_REFS) == 0, "hg_root_add");
    for (uint32_t round = 1; round <= 3; round++) {
        hg_ref_store(&hoard.all, hg_alloc(n * sizeof *hoard.all, HG_REFS));
        for (size_t i = 0; i < n && hoard.all != NULL; i++) {
            void *p = hg_alloc(4096, HG_LEAF);
            if (hoard.all != NULL)
                hg_ref_store(&hoard.all[i], p);
        }
        MUST(hoard.calls == round, "%u calls in %u rounds", hoard.calls, round);
    }
    MUST(hg_root_remove(hg_current(), &hoard.all) == 0, "hg_root_remove");
    return CASE_DONE;
}

Test(case_limit, p09_out_of_memory_hook_lets_go)
{
    memset(&hoard, 0, sizeof hoard);
    hg_options o = case_options(1);
    o.memory_limit = limit_of_test();
    o.hard_limit = true;
    o.out_of_memory = let_go;
    case_run(hook_main, NULL, &o);
}

/* A half of small objects that lie scattered is let go of: no span becomes empty, and there is room
 * for as many in them all the same. */
static int scattered_main(void *arg)
{
    enum { SIZE = 256 };
    size_t n = 2 * (size_t)limit_of_test() / SIZE, kept = 0, again = 0;
    (void)arg;
    void **all = hg_alloc(n * sizeof *all, HG_REFS);
    for (void *p; kept < n && (p = hg_try_alloc(SIZE, HG_LEAF)) != NULL; kept++)
        hg_ref_store(&all[kept], p);
    MUST(kept < n, "twice the limit is live, and no end");
    for (size_t i = 0; i < kept; i += 2)
        hg_ref_store(&all[i], NULL);
    for (void *p; again < kept && (p = hg_try_alloc(SIZE, HG_LEAF)) != NULL; again++)
        hg_ref_store(&all[2 * again % kept], p);
    MUST(again >= kept / 2 - kept / 20, "room for %zu, after half of %zu were let go of", again,
         kept);
    return CASE_DONE;
}

Test(case_limit, p09_hard_limit_uses_the_room_there_is)
{
    hg_options o = case_options(1);
    o.memory_limit = limit_of_test();
    o.hard_limit = true;
    case_run(scattered_main, NULL, &o);
}

/* Everybody asks again and again at the hard limit: GC is held at half of CPU time there too, and
 * yet what a cycle would have freed is never refused. */
struct askers {
    hg_waitgroup done;
    uint64_t refused, given;
};

static void ask_again(void *arg)
{
    struct askers *a = arg;
    while (!case_stopping()) {
        void *p = hg_try_alloc(1024, HG_REFS);
        __atomic_fetch_add(p != NULL ? &a->given : &a->refused, 1, __ATOMIC_RELAXED);
    }
    hg_waitgroup_done(&a->done);
}

static size_t fill_with_refs(void **all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *p = hg_try_alloc(1024, HG_REFS);
        if (p == NULL)
            return i;
        hg_ref_store(&all[i], p);
    }
    return n;
}

/* GC's share of what the procs could have had, in 3 seconds of asking. */
static double asking_share(struct askers *a)
{
    hg_stats before = case_stats();
    int64_t start = hg_now();
    hg_waitgroup_add(&a->done, 2 * before.procs);
    for (int i = 0; i < 2 * before.procs; i++)
        case_go(ask_again, a);
    hg_sleep(3 * CASE_SEC);
    hg_stats after = case_stats();
    int64_t there = (hg_now() - start) * before.procs;
    case_stop_and_wait(&a->done);
    return (double)(case_gc_cpu(&after) - case_gc_cpu(&before)) / (double)there;
}

/* Objects that are let go of, and asked for, at a time. The difference is for the runtime itself:
 * the limit counts its metadata and stacks, and they grow by tens of KiB while everybody asks. */
enum { LET_GO = 256, ASKED = 32 };

static int asking_main(void *arg)
{
    struct askers a = {0};
    size_t n = 2 * (size_t)limit_of_test() / 1024;
    (void)arg;
    void **all = hg_alloc(n * sizeof *all, HG_REFS);
    size_t kept = fill_with_refs(all, n);
    MUST(kept < n, "twice the limit is live, and no end");
    double share = asking_share(&a);
    fprintf(stderr, "  GC share %.2f, refused %lu times, given %lu times\n", share,
            (unsigned long)a.refused, (unsigned long)a.given);
    MUST(share < 0.55, "GC took %.0f %% of CPU time", 100 * share);
    MUST(a.refused > 10, "refused only %lu times", (unsigned long)a.refused);
    int64_t limiter = case_stats().limiter_ns;
    for (size_t i = 0; i + LET_GO <= kept && i < LET_GO * 5; i += LET_GO) {
        for (size_t k = i; k < i + LET_GO; k++)
            hg_ref_store(&all[k], NULL);
        for (size_t k = i; k < i + ASKED; k++) {
            void *p = hg_try_alloc(1024, HG_REFS);
            MUST(p != NULL, "refused, though a cycle frees %d (round %zu)", LET_GO, i / LET_GO);
            hg_ref_store(&all[k], p);
        }
        fill_with_refs(all + i + ASKED, LET_GO); /* until the next one is refused, or nearly */
    }
    MUST(case_stats().limiter_ns > limiter, "the limiter had no part in it");
    return CASE_DONE;
}

Test(case_limit, p09_asking_again_at_the_hard_limit)
{
    for (int procs = 1; procs <= 2; procs++) {
        hg_options o = case_options(procs);
        o.memory_limit = limit_of_test();
        o.hard_limit = true;
        case_run(asking_main, NULL, &o);
    }
}

/* Three procs for each CPU: the process gets at most a third of what its procs could use, so GC
 * cannot come to half of that. It is held at half of what there is all the same. Counted from when
 * the limiter has come on, so that no burst is in it. */
static void churn(void *arg)
{
    hg_waitgroup *done = arg;
    while (!case_stopping())
        hg_keep_alive(hg_alloc(256, HG_REFS));
    hg_waitgroup_done(done);
}

static void wait_for_limiter(int64_t most)
{
    hg_stats st = case_stats();
    for (int64_t until = hg_in(most); st.limiter_ns == 0 && hg_now() < until;) {
        hg_sleep(10 * CASE_MS);
        st = case_stats();
    }
    MUST(st.limiter_ns > 0, "GC took %ld of %ld ms of CPU time, and was never held back",
         (long)(case_gc_cpu(&st) / CASE_MS),
         (long)(case_clock(CLOCK_PROCESS_CPUTIME_ID) / CASE_MS));
}

static int few_cpus_main(void *arg)
{
    hg_waitgroup done = {{0}};
    (void)arg;
    void **all = case_live_new((size_t)limit_of_test() / 5 * 6);
    hg_stats before = case_stats();
    hg_waitgroup_add(&done, before.procs);
    for (int i = 0; i < before.procs; i++)
        case_go(churn, &done);
    wait_for_limiter(20 * CASE_SEC);
    before = case_stats();
    int64_t used = -case_clock(CLOCK_PROCESS_CPUTIME_ID);
    hg_sleep(3 * CASE_SEC);
    hg_stats after = case_stats();
    used += case_clock(CLOCK_PROCESS_CPUTIME_ID);
    int64_t gc = case_gc_cpu(&after) - case_gc_cpu(&before);
    case_stop_and_wait(&done);
    hg_keep_alive(all);
    fprintf(stderr, "  GC had %ld of %ld ms, of %ld ms on %ld CPUs\n", (long)(gc / CASE_MS),
            (long)(used / CASE_MS), 3000 * sysconf(_SC_NPROCESSORS_ONLN),
            sysconf(_SC_NPROCESSORS_ONLN));
    MUST((double)gc <= 0.52 * (double)used, "GC took %ld of %ld ms of CPU time",
         (long)(gc / CASE_MS), (long)(used / CASE_MS));
    return CASE_DONE;
}

Test(case_limit, p09_half_of_what_a_busy_machine_gives)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (cpus > 8)
        cr_skip_test("more than 8 CPUs: GC may keep up without the limiter");
    hg_options o = case_options(3 * (int)cpus);
    o.memory_limit = limit_of_test();
    case_run(few_cpus_main, NULL, &o);
}
