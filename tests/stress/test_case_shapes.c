/* test_case_shapes.c: heaps of unusual shape: deep, one huge array, all live, all dead, absurd
 * sizes: cases G04, G06, G08, G11, G12, G13.
 *
 * The lengths are those of the reports, scaled so that a test takes a second or two.
 */
#include "tests/stress/test_case.h"
#include <unistd.h>

TestSuite(case_shapes, .timeout = 60);

/* ---- G04: a long list, and a comb ---- */

struct link {
    struct link *next, *tooth;
};
static const uint32_t link_fields[] = {0, 8};
static const hg_layout link_layout = HG_TYPED("link", link_fields);

static struct link *list_new(uint64_t n)
{
    struct link *head = NULL;
    for (uint64_t i = 0; i < n; i++) {
        struct link *l = hg_alloc(sizeof *l, &link_layout);
        l->next = head;
        head = l;
    }
    return head;
}

static struct link *comb_new(uint64_t teeth, uint64_t length)
{
    struct link *spine = NULL;
    for (uint64_t i = 0; i < teeth; i++) {
        struct link *l = list_new(1);
        l->next = spine;
        l->tooth = list_new(length);
        spine = l;
    }
    return spine;
}

/* CPU time of the marking of a forced cycle, the least of three. */
static int64_t mark_cpu(void)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        hg_cycle c;
        hg_collect(hg_current());
        MUST(hg_stats_cycles(hg_current(), &c, 1) == 1, "no cycle");
        int64_t cpu = c.assist_ns + c.background_ns + c.idle_ns;
        least = cpu < least ? cpu : least;
    }
    return least;
}

static int deep_main(void *arg)
{
    uint64_t n = test_scaled(2000000);
    (void)arg;
    struct link *list = list_new(n / 4);
    int64_t quarter = mark_cpu();
    hg_keep_alive(list);
    uint64_t meta = case_stats().meta_bytes;
    list = NULL;
    hg_keep_alive(list);
    list = list_new(n);
    int64_t whole = mark_cpu();
    hg_stats st = case_stats();
    MUST(st.heap_marked_bytes >= n * sizeof *list, "%lu bytes marked of a list of %lu nodes",
         (unsigned long)st.heap_marked_bytes, (unsigned long)n);
    BOUND(whole < 12 * quarter + 5 * CASE_MS, "4 times the list: %ld ns, before %ld", (long)whole,
          (long)quarter);
    uint64_t length = 0;
    for (struct link *l = list; l != NULL; l = l->next)
        length++;
    MUST(length == n, "%lu nodes of %lu are left", (unsigned long)length, (unsigned long)n);
    list = comb_new(n / 10, 9);
    mark_cpu();
    st = case_stats();
    MUST(st.heap_marked_bytes >= n * sizeof *list, "%lu bytes of the comb were marked",
         (unsigned long)st.heap_marked_bytes);
    MUST(st.meta_bytes < meta + n * sizeof *list / 4, "the queue has kept %lu bytes",
         (unsigned long)(st.meta_bytes - meta));
    hg_keep_alive(list);
    return CASE_DONE;
}

Test(case_shapes, g04_deep_structures)
{
    for (int procs = 1; procs <= 2; procs++) {
        hg_options o = case_options(procs);
        case_run(deep_main, NULL, &o);
    }
}

/* ---- G06: slices that each return a fresh object ---- */

static int slice(void *arg)
{
    hg_chan *to = *(hg_chan **)arg;
    void *fresh = hg_alloc(1024, HG_LEAF);
    return hg_chan_send(to, &fresh, HG_FOREVER);
}

static void run_slices(hg_chan *c, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        hg_task_attr attr = {.size = sizeof attr, .copy_bytes = sizeof c};
        hg_task *t;
        void *got = NULL;
        int result = -1;
        MUST(hg_go_with(&attr, slice, &c, &t) == 0, "hg_go_with");
        MUST(hg_chan_recv(c, &got, HG_FOREVER) == 0 && hg_size_of(got) >= 1024, "no object");
        MUST(hg_join(t, HG_FOREVER, &result) == 0 && result == 0, "hg_join");
    }
    hg_collect(hg_current());
    hg_collect(hg_current());
}

static int slices_main(void *arg)
{
    hg_chan *c;
    (void)arg;
    MUST(hg_chan_new(sizeof(void *), 1, HG_REFS, &c) == 0, "hg_chan_new");
    run_slices(c, 1000);
    hg_stats before = case_stats();
    run_slices(c, test_scaled(100000));
    hg_stats after = case_stats();
    MUST(after.heap_marked_bytes <= before.heap_marked_bytes + 65536,
         "live bytes went from %lu to %lu", (unsigned long)before.heap_marked_bytes,
         (unsigned long)after.heap_marked_bytes);
    MUST(after.stack_bytes <= before.stack_bytes + CASE_MIB, "stacks: from %lu to %lu bytes",
         (unsigned long)before.stack_bytes, (unsigned long)after.stack_bytes);
    MUST(after.meta_bytes <= before.meta_bytes + CASE_MIB, "metadata: from %lu to %lu bytes",
         (unsigned long)before.meta_bytes, (unsigned long)after.meta_bytes);
    MUST(after.tasks_now == 1, "%lu tasks are left", (unsigned long)after.tasks_now);
    return CASE_DONE;
}

Test(case_shapes, g06_slices_leave_no_roots)
{
    hg_options o = case_options(2);
    case_run(slices_main, NULL, &o);
}

/* ---- G08: one huge reference array while many tasks allocate ---- */

static struct {
    uint32_t stop;
    uint64_t chunks, widest;
    uint64_t by_thread[64]; /* chunks traced by the threads, in the order they came */
} seen;
static uint32_t threads_seen;
static __thread uint32_t my_number;

/* The array's layout names its references itself, so the test sees who scans which part. */
static void trace_array(hg_tracer *t, const void *obj, size_t from, size_t to)
{
    const uintptr_t *word = obj;
    if (my_number == 0)
        my_number = 1 + __atomic_fetch_add(&threads_seen, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&seen.by_thread[my_number % 64], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&seen.chunks, 1, __ATOMIC_RELAXED);
    if (to - from > __atomic_load_n(&seen.widest, __ATOMIC_RELAXED))
        __atomic_store_n(&seen.widest, to - from, __ATOMIC_RELAXED);
    for (size_t i = from / 8; i < to / 8; i++)
        hg_trace_ref(t, (const void *)__atomic_load_n(word + i, __ATOMIC_RELAXED));
}
static const hg_layout array_layout = HG_TRACED("array", trace_array);

static uint64_t allocs, slow_allocs;

/* What the collector has taken of the calling task's time at its own safepoints. */
static int64_t taken(void)
{
    hg_task_times t;
    hg_task_times_read(&t);
    return t.slice_ns + t.assist_ns + t.sweep_ns + t.hold_ns;
}

static void allocator(void *arg)
{
    hg_waitgroup *done = arg;
    while (!__atomic_load_n(&seen.stop, __ATOMIC_ACQUIRE)) {
        int64_t before = taken();
        hg_keep_alive(hg_alloc(1024, HG_LEAF));
        __atomic_fetch_add(&allocs, 1, __ATOMIC_RELAXED);
        if (taken() - before > CASE_MS)
            __atomic_fetch_add(&slow_allocs, 1, __ATOMIC_RELAXED);
        hg_sleep(CASE_MS);
    }
    hg_waitgroup_done(done);
}

static void fill(void **array, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i % 8 == 0)
            array[i] = hg_alloc(16, HG_LEAF);
        else
            array[i] = array[i - 1];
    }
}

static int huge_main(void *arg)
{
    const hg_layout *layout = arg;
    size_t bytes = (size_t)test_scaled(64) * CASE_MIB, n = bytes / sizeof(void *);
    hg_waitgroup done = {{0}};
    void **array = hg_alloc(bytes, layout);
    fill(array, n);
    hg_waitgroup_add(&done, 100);
    for (int i = 0; i < 100; i++)
        case_go(allocator, &done);
    for (int i = 0; i < 8; i++)
        hg_collect(hg_current());
    __atomic_store_n(&seen.stop, 1, __ATOMIC_RELEASE);
    hg_waitgroup_wait(&done, HG_FOREVER);
    MUST(allocs > 100, "only %lu allocations", (unsigned long)allocs);
    MUST(slow_allocs * 100 <= allocs, "the collector took above 1 ms of %lu of %lu allocations",
         (unsigned long)slow_allocs, (unsigned long)allocs);
    hg_histogram *hold = case_histogram(HG_HIST_HOLD);
    BOUND(hg_histogram_quantile(hold, 0.99) < CASE_MS / 2, "holds of %ld ns of CPU time at p99",
          (long)hg_histogram_quantile(hold, 0.99));
    free(hold);
    MUST(hg_size_of(array[n - 1]) >= 16, "the array's last object was freed");
    MUST(case_stats().heap_marked_bytes >= bytes, "the array was not marked");
    return CASE_DONE;
}

Test(case_shapes, g08_a_huge_array_blocks_nobody)
{
    hg_options o = case_options(2);
    case_run(huge_main, (void *)(uintptr_t)HG_REFS, &o);
}

Test(case_shapes, g08_a_huge_array_is_shared)
{
    hg_options o = case_options(2);
    case_run(huge_main, (void *)(uintptr_t)&array_layout, &o);
    unsigned workers = 0;
    for (int i = 0; i < 64; i++)
        workers += seen.by_thread[i] > 0;
    cr_assert_geq(workers, 2, "one thread scanned all %lu chunks", (unsigned long)seen.chunks);
    cr_assert_leq(seen.widest, 256 * 1024, "a chunk of %lu bytes", (unsigned long)seen.widest);
}

/* ---- G11: what was built in a deep call chain goes after the return ----
 *
 * Each frame's objects are linked. Frames are not linked to each other, so that one word which
 * happens to lie in a later frame keeps 128 KiB and not all. */

static __attribute__((noinline)) uint64_t build_deep(unsigned depth)
{
    struct link *mine[8], *above = NULL;
    uint64_t sum = 0;
    for (int i = 0; i < 8; i++) {
        mine[i] = hg_alloc(16384, &link_layout);
        mine[i]->next = above;
        above = mine[i];
    }
    if (depth > 0)
        sum = build_deep(depth - 1);
    for (int i = 0; i < 8; i++)
        sum += mine[i]->next != NULL;
    return sum;
}

static __attribute__((noinline)) void collect_twice(void)
{
    hg_collect(hg_current());
    hg_collect(hg_current());
}

static int dead_stack_main(void *arg)
{
    unsigned depth = (unsigned)test_scaled(800);
    (void)arg;
    MUST(build_deep(depth) == (depth + 1) * 7, "the graph is not whole");
    uint64_t built = (uint64_t)(depth + 1) * 8 * 16384;
    collect_twice();
    MUST(case_stats().heap_marked_bytes <= built / 20, "%lu of %lu bytes stay alive",
         (unsigned long)case_stats().heap_marked_bytes, (unsigned long)built);
    return CASE_DONE;
}

Test(case_shapes, g11_dead_frames_pin_nothing)
{
    hg_options o = case_options(1);
    o.stack_bytes = CASE_MIB;
    case_run(dead_stack_main, NULL, &o);
}

/* ---- G12: absurd sizes ---- */

static int absurd_main(void *arg)
{
    static const size_t sizes[] = {SIZE_MAX,         SIZE_MAX - 8,    SIZE_MAX - 4095,
                                   SIZE_MAX / 2 + 1, (size_t)1 << 47, (size_t)64 << 30,
                                   (size_t)4 << 30,  (size_t)1 << 30, ((size_t)1 << 63) - 1};
    const bool limited = arg != NULL;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t before = case_clock(CLOCK_PROCESS_CPUTIME_ID);
        void *p = hg_try_alloc(sizes[i], HG_LEAF);
        int64_t took = case_clock(CLOCK_PROCESS_CPUTIME_ID) - before;
        BOUND(took < 100 * CASE_MS, "hg_try_alloc(%zu) took %ld ns", sizes[i], (long)took);
        MUST(p == NULL || (!limited && sizes[i] <= (size_t)4 << 30), "%zu bytes: %p", sizes[i], p);
        MUST(p == NULL || hg_size_of(p) >= sizes[i], "%zu bytes: smaller", sizes[i]);
        p = hg_try_alloc(100, HG_REFS); /* everything stays usable */
        MUST(p != NULL, "no 100 bytes after %zu", sizes[i]);
    }
    return CASE_DONE;
}

Test(case_shapes, g12_absurd_sizes)
{
    hg_options o = case_options(1);
    case_run(absurd_main, NULL, &o);
}

Test(case_shapes, g12_absurd_sizes_below_a_limit)
{
    static char limited;
    hg_options o = case_options(1);
    o.memory_limit = (int64_t)(256 * CASE_MIB);
    o.hard_limit = true;
    case_run(absurd_main, &limited, &o);
}

/* Old contents of a very large object are never read, and what is never touched again costs no
 * memory: not even for being cleared. */
static uint64_t resident_bytes(void)
{
    uint64_t pages = 0, unused;
    FILE *f = fopen("/proc/self/statm", "r");
    MUST(f != NULL && fscanf(f, "%lu %lu", &unused, &pages) == 2, "no /proc/self/statm");
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int reuse_main(void *arg)
{
    const size_t bytes = 256 * CASE_MIB;
    (void)arg;
    for (int i = 0; i < 6; i++) {
        uint64_t *p = hg_alloc(bytes, HG_LEAF);
        for (size_t at = 0; at < bytes / sizeof *p; at += 3 * CASE_MIB / sizeof *p) {
            MUST(p[at] == 0, "round %d: old contents at %zu", i, at);
            p[at] = at + 1;
        }
        p = NULL;
        hg_keep_alive(p);
        hg_collect(hg_current());
        hg_collect(hg_current());
    }
    uint64_t resident = resident_bytes();
    BOUND(resident < bytes, "%lu bytes resident, for one word in 3 MiB", (unsigned long)resident);
    return CASE_DONE;
}

Test(case_shapes, g12_huge_objects_that_are_not_used_cost_no_memory)
{
    hg_options o = case_options(1);
    o.reserve_bytes = (size_t)1 << 30; /* so that the same addresses come again */
    case_run(reuse_main, NULL, &o);
}

/* ---- G13: no garbage: nobody sweeps the whole heap in one allocation ---- */

/* One proc and one task: the thread, and with it its clock, is the same before and after. */
static void measure_allocs(hg_histogram *h, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        size_t size = (size_t)16 << i % 12;
        pid_t thread = gettid();
        int64_t before = case_clock(CLOCK_THREAD_CPUTIME_ID);
        hg_keep_alive(hg_alloc(size, i % 2 ? HG_LEAF : HG_REFS));
        int64_t took = case_clock(CLOCK_THREAD_CPUTIME_ID) - before;
        if (gettid() == thread)
            hg_histogram_add(h, took);
    }
}

static int full_main(void *arg)
{
    hg_histogram *h = arg;
    size_t n = (size_t)test_scaled(128) * CASE_MIB / 128;
    void **all = hg_alloc(n * sizeof *all, HG_REFS);
    for (size_t i = 0; i < n; i++)
        hg_ref_store(&all[i], hg_alloc((size_t)16 << i % 4, HG_LEAF)); /* 30 bytes on average */
    for (int round = 0; round < 4; round++) {
        hg_collect(hg_current()); /* swept: what is measured is the next, unforced cycles' sweep */
        uint64_t cycles = case_stats().cycles;
        for (int64_t until = hg_in(CASE_SEC); case_stats().cycles == cycles && hg_now() < until;)
            measure_allocs(h, 500);
        measure_allocs(h, 500);
    }
    hg_keep_alive(all);
    return CASE_DONE;
}

Test(case_shapes, g13_no_allocation_sweeps_all)
{
    hg_options o = case_options(1);
    hg_histogram *h = calloc(1, sizeof *h);
    cr_assert_not_null(h);
    case_run(full_main, h, &o);
    cr_assert_lt(hg_histogram_quantile(h, 0.999), 500000, "p99.9 of an allocation: %ld ns",
                 (long)hg_histogram_quantile(h, 0.999));
    cr_assert_lt(h->max, 5 * CASE_MS, "the longest allocation: %ld ns", (long)h->max);
    free(h);
}
