/* test_case_stacks.c: deep stacks, many stacks, tasks that do not come by: cases G07, G10, S03,
 * S04.
 *
 * Where a bound is on what the collector takes of a task in one piece, it is on CPU time
 * (HG_HIST_HOLD). In those tests each proc always has a task to run, so that slices of idle procs
 * are not counted among the holds.
 */
#include "tests/stress/test_case.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(case_stacks, .timeout = 60);

/* ---- G07: 5 MB of references on one stack ---- */

#define DEEP_WORDS ((size_t)5 * 1000 * 1000 / 8)

static int deep_frame(void *arg)
{
    hg_waitgroup *done = arg;
    uint64_t *held[DEEP_WORDS];
    for (size_t i = 0; i < DEEP_WORDS; i++) {
        held[i] = i % 16 == 0 ? hg_alloc(16, HG_LEAF) : held[i - 1];
        if (i % 16 == 0)
            held[i][0] = i;
        if (i % 1024 == 0)
            hg_yield();
    }
    while (!case_stopping()) {
        hg_keep_alive(hg_alloc(64, HG_REFS));
        hg_yield();
    }
    for (size_t i = 0; i < DEEP_WORDS; i++)
        MUST(held[i][0] == i / 16 * 16, "an object deep in a stack was freed");
    hg_waitgroup_done(done);
    return 0;
}

static void yielder(void *arg)
{
    hg_waitgroup *done = arg;
    while (!case_stopping()) {
        hg_keep_alive(hg_alloc(64, HG_REFS));
        hg_yield();
    }
    hg_waitgroup_done(done);
}

static int deep_main(void *arg)
{
    hg_waitgroup done = {{0}};
    hg_task_attr attr = {.size = sizeof attr, .name = "deep", .stack_bytes = 8 * CASE_MIB};
    (void)arg;
    hg_waitgroup_add(&done, 101);
    MUST(hg_go_with(&attr, deep_frame, &done, NULL) == 0, "hg_go_with");
    for (int i = 0; i < 100; i++)
        case_go(yielder, &done);
    uint64_t before = case_stats().cycles, n = 0;
    bool whole = false;
    for (int64_t until = hg_in(4 * CASE_SEC); n < 20 && hg_now() < until; n++) {
        hg_cycle c;
        hg_collect(hg_current());
        MUST(hg_stats_cycles(hg_current(), &c, 1) == 1, "no cycle");
        whole |= c.scanned_stack >= DEEP_WORDS * 8;
    }
    uint64_t cycles = case_stats().cycles - before;
    case_stop_and_wait(&done);
    MUST(whole, "the deep stack was never scanned");
    /* Read in one piece it takes several ms, once a cycle. */
    hg_histogram *hold = case_histogram(HG_HIST_HOLD);
    BOUND(case_count_above(hold, CASE_MS) * 4 < cycles, "%lu holds above 1 ms in %lu cycles",
          (unsigned long)case_count_above(hold, CASE_MS), (unsigned long)cycles);
    free(hold);
    return CASE_DONE;
}

Test(case_stacks, g07_a_deep_stack_is_scanned_in_pieces)
{
    hg_options o = case_options(2);
    case_run(deep_main, NULL, &o);
}

/* The same over and over, on more procs than there are processors, so that one loses its processor
 * at every step of it: procs that take the task scan pieces beside workers that make passes, and no
 * cycle may end before they have come to the end of the stack. */
#define PIECES_WORDS ((size_t)400 * 1000 / 8)

static int in_pieces_frame(void *arg)
{
    hg_waitgroup *done = arg;
    uint64_t *held[PIECES_WORDS];
    for (size_t i = 0; i < PIECES_WORDS; i++)
        held[i] = i % 64 == 0 ? hg_alloc(16, HG_LEAF) : held[i - 1];
    while (!case_stopping()) {
        uint64_t *volatile *oldest = &held[PIECES_WORDS - 1];
        MUST((*oldest)[0] == 0, "an object deep in a stack was freed");
        hg_yield();
    }
    hg_waitgroup_done(done);
    return 0;
}

static int in_pieces_main(void *arg)
{
    hg_waitgroup done = {{0}};
    hg_task_attr attr = {.size = sizeof attr, .name = "in pieces", .stack_bytes = CASE_MIB};
    (void)arg;
    hg_waitgroup_add(&done, 1);
    MUST(hg_go_with(&attr, in_pieces_frame, &done, NULL) == 0, "hg_go_with");
    for (uint64_t i = 0, n = test_scaled(2000); i < n; i++) {
        hg_cycle c;
        hg_collect(hg_current());
        MUST(hg_stats_cycles(hg_current(), &c, 1) == 1, "no cycle");
        MUST(i < 5 || c.scanned_stack >= PIECES_WORDS * 8,
             "cycle %lu ended with %lu bytes of stacks scanned of %lu", (unsigned long)c.number,
             (unsigned long)c.scanned_stack, (unsigned long)(PIECES_WORDS * 8));
    }
    case_stop_and_wait(&done);
    return CASE_DONE;
}

Test(case_stacks, g07_no_cycle_ends_before_a_deep_stack_is_scanned)
{
    hg_options o = case_options(6);
    o.poison = true;
    case_run(in_pieces_main, NULL, &o);
}

/* ---- G10: holds do not grow with the number of parked tasks ---- */

struct crowd {
    uint64_t tasks;
    int64_t p999;
};

static void parked(void *arg) { hg_chan_recv(*(hg_chan **)arg, NULL, HG_FOREVER); }

static int crowd_main(void *arg)
{
    struct crowd *crowd = arg;
    hg_waitgroup done = {{0}};
    hg_chan *gate;
    MUST(hg_chan_new(0, 0, HG_LEAF, &gate) == 0, "hg_chan_new");
    for (uint64_t i = 0; i < crowd->tasks; i++) {
        MUST(hg_go_copy(parked, &gate, sizeof gate) == 0, "no stack for task %lu",
             (unsigned long)i);
        if (i % 256 == 0)
            hg_yield();
    }
    hg_waitgroup_add(&done, 8);
    for (int i = 0; i < 8; i++)
        case_go(yielder, &done);
    for (int i = 0; i < 10; i++)
        hg_collect(hg_current());
    case_stop_and_wait(&done);
    hg_histogram *hold = case_histogram(HG_HIST_HOLD);
    MUST(hold->total > 20, "only %lu holds", (unsigned long)hold->total);
    crowd->p999 = hg_histogram_quantile(hold, 0.999);
    free(hold);
    hg_chan_close(gate);
    return CASE_DONE;
}

/* The tail of some hundred holds is whatever else the machine did then; what comes of the number of
 * tasks is there each time. So the least of three runs counts. */
static int64_t crowd_hold(uint64_t tasks)
{
    int64_t least = INT64_MAX;
    for (int run = 0; run < 3; run++) {
        struct crowd crowd = {.tasks = tasks};
        hg_options o = case_options(2);
        o.stack_bytes = 16384;
        case_run(crowd_main, &crowd, &o);
        least = crowd.p999 < least ? crowd.p999 : least;
    }
    return least;
}

Test(case_stacks, g10_holds_do_not_grow_with_tasks)
{
    uint64_t tasks = test_scaled(30000);
    int64_t few = crowd_hold(1000), many = crowd_hold(tasks);
    cr_assert(many < 2 * few || many < 200000,
              "p99.9 of holds: %ld ns with 1000 parked tasks, %ld with %lu", (long)few, (long)many,
              (unsigned long)tasks);
}

/* ---- an idle proc that scans stacks sees that a task wants to run ---- */

#define WAKES   500
#define WAKE_NS INT64_C(400000)

static void collector(void *arg)
{
    while (!case_stopping())
        hg_collect(hg_current());
    hg_waitgroup_done(arg);
}

/* Collections follow each other, and consist of the scan of stacks: the proc is idle for as long as
 * this task sleeps. The median lateness, as the machine's own stalls are in the tail. */
static int sleeper_main(void *arg)
{
    uint64_t tasks = *(uint64_t *)arg;
    hg_waitgroup done = {{0}};
    hg_histogram *late = calloc(1, sizeof *late);
    hg_chan *gate;
    MUST(late != NULL && hg_chan_new(0, 0, HG_LEAF, &gate) == 0, "no memory");
    for (uint64_t i = 0; i < tasks; i++)
        MUST(hg_go_copy(parked, &gate, sizeof gate) == 0, "no stack for task %lu",
             (unsigned long)i);
    hg_waitgroup_add(&done, 1);
    case_go(collector, &done);
    for (int i = 0; i < WAKES; i++) {
        int64_t until = hg_in(WAKE_NS);
        hg_sleep_until(until);
        hg_histogram_add(late, hg_now() - until);
    }
    case_stop_and_wait(&done);
    BOUND(hg_histogram_quantile(late, 0.5) < 60000, "half of the wakes are later than %ld ns",
          (long)hg_histogram_quantile(late, 0.5));
    free(late);
    hg_chan_close(gate);
    return CASE_DONE;
}

Test(case_stacks, an_idle_proc_that_scans_stacks_leaves_off_for_a_task)
{
    uint64_t tasks = test_scaled(50000);
    hg_options o = case_options(1);
    o.stack_bytes = 16384;
    case_run(sleeper_main, &tasks, &o);
}

/* ---- S03: a loop with safepoints, and one without ---- */

static void polite_loop(void *arg)
{
    volatile uint64_t x = 0;
    while (!case_stopping()) {
        for (int i = 0; i < 10000; i++)
            x++;
        hg_safepoint();
    }
    hg_waitgroup_done(arg);
}

static int polite_main(void *arg)
{
    hg_waitgroup done = {{0}};
    (void)arg;
    int64_t stall = case_stall();
    hg_waitgroup_add(&done, 1);
    case_go(polite_loop, &done);
    for (int i = 0; i < 100; i++)
        hg_collect(hg_current());
    case_stop_and_wait(&done);
    int64_t later = case_stall();
    stall = later > stall ? later : stall;
    hg_histogram *h = case_histogram(HG_HIST_HANDSHAKE);
    int64_t p99 = hg_histogram_quantile(h, 0.99);
    MUST(h->total >= 500, "only %lu handshakes", (unsigned long)h->total);
    free(h);
    BOUND(p99 < CASE_MS + 4 * stall, "handshakes: p99 %ld ns; the machine stalls for %ld",
          (long)p99, (long)stall);
    return CASE_DONE;
}

Test(case_stacks, s03_a_loop_with_safepoints)
{
    hg_options o = case_options(2);
    case_run(polite_main, NULL, &o);
}

static int rude_loop(void *arg)
{
    volatile uint64_t x = 0;
    for (int64_t until = hg_in(300 * CASE_MS); hg_now() < until;)
        x++;
    hg_waitgroup_done(arg);
    return 0;
}

static int rude_main(void *arg)
{
    hg_waitgroup done = {{0}};
    hg_task_attr attr = {.size = sizeof attr, .name = "rude"};
    (void)arg;
    hg_waitgroup_add(&done, 1);
    MUST(hg_go_with(&attr, rude_loop, &done, NULL) == 0, "hg_go_with");
    hg_sleep(20 * CASE_MS);
    for (int i = 0; i < 3; i++)
        hg_collect(hg_current());
    hg_waitgroup_wait(&done, HG_FOREVER);
    return CASE_DONE;
}

static void rude_child(void *arg)
{
    (void)arg;
    hg_options o = case_options(2);
    o.trace_gc = true;
    if (hg_run(rude_main, NULL, &o) != CASE_DONE)
        _exit(1);
}

Test(case_stacks, s03_a_loop_without_safepoints_is_named)
{
    struct test_child child;
    test_child_run(&child, 20, rude_child, NULL);
    cr_assert_eq(child.signal, 0);
    cr_assert_eq(child.exit_code, 0);
    const char *report = strstr(child.text, "does not reach a safepoint");
    cr_assert_not_null(report, "nobody was named: %s", child.text);
    const char *name = strstr(child.text, " rude ");
    cr_assert(name != NULL && name < report, "%s", child.text);
}

/* ---- S04: cycles while tasks go in and out of blocking regions ---- */

struct region_job {
    uint64_t seed;
    hg_waitgroup *done;
};

static void region_user(void *arg)
{
    struct region_job job = *(struct region_job *)arg;
    struct hg_rand r = {job.seed ^ hg_task_id()};
    uint64_t *held[8] = {NULL};
    for (uint64_t n = 1; !case_stopping(); n++) {
        uint64_t **slot = &held[hg_rand_below(&r, 8)];
        *slot = hg_alloc(2048, HG_LEAF); /* the way out of the region leads to the heap at once */
        (*slot)[0] = n;
        (*slot)[255] = ~n;
        hg_block_enter();
        usleep(hg_rand_below(&r, 200));
        hg_block_leave();
        for (int i = 0; i < 8; i++)
            MUST(held[i] == NULL || held[i][0] == ~held[i][255],
                 "an object of a task in a blocking region was freed");
    }
    hg_waitgroup_done(job.done);
}

static int regions_main(void *arg)
{
    hg_waitgroup done = {{0}};
    struct region_job job = {*(uint64_t *)arg, &done};
    hg_waitgroup_add(&done, 12);
    for (int i = 0; i < 12; i++)
        MUST(hg_go_copy(region_user, &job, sizeof job) == 0, "hg_go_copy");
    uint64_t before = case_stats().cycles;
    for (int64_t until = hg_in(1500 * CASE_MS); hg_now() < until;)
        hg_collect(hg_current());
    MUST(case_stats().cycles > before + 5, "only %lu cycles",
         (unsigned long)(case_stats().cycles - before));
    case_stop_and_wait(&done);
    return CASE_DONE;
}

Test(case_stacks, s04_cycles_beside_blocking_regions)
{
    uint64_t seed = test_seed("case_stacks/s04");
    for (int procs = 1; procs <= 2; procs++) {
        hg_options o = case_options(procs);
        o.check = true;
        o.poison = true;
        case_run(regions_main, &seed, &o);
    }
}
