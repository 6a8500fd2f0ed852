/* stacks.c: scanning stacks: each once a cycle, by whoever claims it first.
 *
 * A stack's scan word is (cycle, state). Claimants:
 *   SCAN callback   the stack that the mutator runs, on its own or by the driver for a BLOCKED one
 *   switch-in       a black proc that took the task from a queue and polled (S4 in sched.h)
 *   worker          in MARK, when every mutator is black: one pass over the registry of tasks
 * A claim covers at most HG_SCAN_CHUNK bytes for a worker; what is left keeps its place in scan_at
 * (PARTLY) and is taken up by the next claimant. A taker finishes up to HG_SCAN_WHOLE bytes, or
 * requeues the task. SCAN of a deeper stack leaves it unscanned and asks for the task to be put
 * back in a queue, so no callback is long.
 *
 * Why a pass over the registry is enough: from the end of the SCAN handshake on all mutators are
 * black, so births are born scanned, and a task runs only after its switch-in scan. An entry that
 * is CLAIMED when the pass comes by is being scanned by a taker or a worker; `deep` counts what
 * such a pass left behind, and the pass is armed again for it.
 *
 * From sp to hi everything counts: hi lies past the control block, whose argument and handle are
 * roots.
 */
#include "runtime/gc/gc.h"
#include "runtime/mut/sanitize.h"
#include <string.h>

#define UNDISTURBED_NS INT64_C(10000)

/* Marks and greys what one ambiguous word points into. */
static inline void scan_word(struct hg_mutator *m, uintptr_t w)
{
    if (hg__heap_has(m->world->heap, w))
        hg__shade(m, w);
}

#if HG_ASAN
/* With use-after-return checking, locals live in a fake frame that only a word on the stack points
 * to. */
static HG_SCANS void scan_fake_frame(struct hg_mutator *m, void *fake, uintptr_t w)
{
    void *lo, *hi;
    if (fake == NULL || __asan_addr_is_in_fake_stack(fake, (void *)w, &lo, &hi) == NULL)
        return;
    for (uintptr_t *p = lo; p < (uintptr_t *)hi; p++)
        scan_word(m, *p);
}
#endif

static HG_SCANS size_t scan_words_of(struct hg_mutator *m, uintptr_t lo, uintptr_t hi, void *fake)
{
    uintptr_t last = 0;
    for (uintptr_t p = lo; p < hi; p += sizeof(uintptr_t)) {
        uintptr_t w = __atomic_load_n((const uintptr_t *)p, __ATOMIC_RELAXED);
#if HG_ASAN
        scan_fake_frame(m, fake, w);
#endif
        if (w == last)
            continue; /* frames repeat the same reference */
        last = w;
        scan_word(m, w);
    }
    (void)fake;
    return hi - lo;
}

size_t hg__scan_words(struct hg_mutator *m, uintptr_t lo, uintptr_t hi)
{
    return scan_words_of(m, lo, hi, NULL);
}

static void count_stack_bytes(struct hg_mutator *m, size_t bytes)
{
    hg_own_add(&m->stats.scanned_stack, (int64_t)bytes);
}

static void check_bounds(const struct hg_stack *s)
{
    HG_CHECK(
        s->sp >= s->lo && s->sp <= s->hi,
        "a stack pointer (0x%lx) outside of its stack [0x%lx, 0x%lx): was it switched by hand?",
        (unsigned long)s->sp, (unsigned long)s->lo, (unsigned long)s->hi);
}

/* Claims s for this cycle. False: it is done, or another has it. */
static bool claim(struct hg_stack *s, uint32_t cycle)
{
    uint32_t seen = hg_load_acq(&s->scan);
    for (;;) {
        if (seen == cycle * 4 + HG_SCAN_DONE || seen == cycle * 4 + HG_SCAN_CLAIMED)
            return false;
        bool partly = seen == cycle * 4 + HG_SCAN_PARTLY;
        if (hg_cas_acqrel(&s->scan, &seen, cycle * 4 + HG_SCAN_CLAIMED)) {
            if (!partly)
                s->scan_at = s->sp & ~(uintptr_t)(sizeof(uintptr_t) - 1);
            return true;
        }
    }
}

/* Scans at most `most` bytes of a claimed stack and ends the claim. Returns the bytes scanned.
 * frozen: nobody runs on it (below the sp of a task in a blocking region its thread goes on). */
static size_t scan_claimed(struct hg_gc *g, struct hg_mutator *m, struct hg_stack *s,
                           uint32_t cycle, size_t most, bool frozen)
{
    check_bounds(s);
    if (g->check && frozen && s->scan_at <= s->sp)
        hg__gc_check_clear(s);
    size_t left = s->hi - s->scan_at;
    size_t now = hg_min_size(left, most);
    scan_words_of(m, s->scan_at, s->scan_at + now, s->sanitizer);
    s->scan_at += now;
    count_stack_bytes(m, now);
    /* Release: what was greyed, and scan_at, before the next claimant or taker sees the word. */
    hg_store_rel(&s->scan, cycle * 4 + (now == left ? HG_SCAN_DONE : HG_SCAN_PARTLY));
    return now;
}

void hg__scan_mutator(struct hg_mutator *m, bool own)
{
    struct hg_gc *g = hg__gc_of(m->world);
    uint32_t cycle = hg_load_rlx(&m->world->cycle);
    struct hg_stack *s = m->stack;
    /* A cycle's accounts begin here: what an earlier one earned pays for nothing in this one, or
     * procs that were idle for long would gather so much that their tasks never assisted again. */
    m->debt = m->credit = 0;
    if (s == NULL)
        return;
    if (s->hi - s->sp > HG_SCAN_WHOLE) {
        hg_store_rel(&s->scan, cycle * 4); /* not scanned, whatever its word said */
        if (own) /* back to a queue, unscanned: it is scanned in chunks before it runs on */
            hg_or_sc(&m->attention, HG_ATTENTION_YIELD);
        return;
    }
    /* Whatever its word says: a proc before its own SCAN never counts a stack as scanned. Nobody
     * else can hold the claim of a stack that runs, or is frozen in a region before MARK. */
    hg_store_rlx(&s->scan, cycle * 4 + HG_SCAN_CLAIMED);
    s->scan_at = s->sp & ~(uintptr_t)(sizeof(uintptr_t) - 1);
    scan_claimed(g, m, s, cycle, HG_SCAN_WHOLE, own);
}

bool hg__scan_switch_in(struct hg_mutator *m, struct hg_tcb *t)
{
    struct hg_gc *g = hg__gc_of(m->world);
    struct hg_stack *s = &t->stack;
    uint32_t cycle = hg_load_rlx(&m->world->cycle);
    if (hg_load_acq(&s->scan) == cycle * 4 + HG_SCAN_DONE || !hg__shades(hg__phase(m->world)))
        return true;
    int64_t start = hg__os_now(), cpu = hg__os_thread_cpu();
    if (!claim(s, cycle))
        return hg_load_acq(&s->scan) == cycle * 4 + HG_SCAN_DONE;
    bool whole = s->hi - s->scan_at <= HG_SCAN_WHOLE;
    scan_claimed(g, m, s, cycle, whole ? HG_SCAN_WHOLE : HG_SCAN_CHUNK, true);
    /* CPU time; where nothing can have come between, the cheaper clock says the same. */
    int64_t took = hg__os_now() - start;
    if (took > UNDISTURBED_NS)
        took = hg__os_thread_cpu() - cpu;
    hg__hold(m, took);
    t->stack.times.hold_ns += took;
    hg_own_add(&m->stats.scan_ns, took);
    /* Paid out of the proc's share: the next slice is due later by as much as this would have
     * bought. */
    hg_own_add(&m->next_slice_at, 3 * took);
    return whole;
}

void hg__stacks_begin(struct hg_gc *g)
{
    hg_store_rlx(&g->deep, 0u);
    hg_store_rlx(&g->scans_done, 0u);
    hg_store_rlx(&g->scan_cursor, 0u);
    hg_store_sc(&g->scan_end, hg_load_acq(&g->sched->registered));
}

bool hg__stacks_left(const struct hg_gc *g)
{
    return hg_load_sc(&g->scan_cursor) < hg_load_sc(&g->scan_end);
}

/* One entry of the registry. Returns bytes scanned; *again: it is not done, another pass must look.
 * The look at the word comes last, and only DONE lets the entry go: a taker may claim what this
 * call has left at once, and leave some of it in its turn (tests/model, PARTLY_ONLY). */
static size_t scan_entry(struct hg_gc *g, struct hg_mutator *m, struct hg_tcb *t, uint32_t cycle,
                         bool *again)
{
    struct hg_stack *s = &t->stack;
    uint32_t state = hg_load_acq(&t->state);
    size_t n = 0;
    if (state == HG_TASK_FREE)
        return 0;
    if (claim(s, cycle))
        n = scan_claimed(g, m, s, cycle, HG_SCAN_CHUNK,
                         state == HG_TASK_RUNNABLE || state == HG_TASK_WAITING);
    if (hg_load_acq(&s->scan) != cycle * 4 + HG_SCAN_DONE)
        *again = true;
    return n;
}

#define BATCH 8u /* registry entries taken at once; some 15 us */

int64_t hg__scan_stacks(struct hg_gc *g, struct hg_mutator *m, enum hg_work_kind kind,
                        int64_t until)
{
    int64_t bytes = 0, look_at = 0, now;
    uint32_t cycle = hg_load_rlx(&g->world->cycle);
    while (hg__stacks_left(g)) {
        uint32_t end = hg_load_sc(&g->scan_end);
        uint32_t at = hg_add_sc(&g->scan_cursor, BATCH);
        if (at >= end)
            break;
        uint32_t stop = end - at < BATCH ? end : at + BATCH;
        bool again = false;
        for (uint32_t i = at; i < stop; i++) {
            if (i + 4 < stop)
                __builtin_prefetch(hg__task_at(g->sched, i + 4));
            bytes += (int64_t)scan_entry(g, m, hg__task_at(g->sched, i), cycle, &again);
        }
        if (again)
            hg_store_sc(&g->deep, 1u);
        if (hg_add_sc(&g->scans_done, stop - at) + (stop - at) == end &&
            hg_xchg_sc(&g->deep, 0u) != 0) {
            hg_store_sc(&g->scans_done, 0u); /* the pass is over, and left something: once more */
            hg_store_sc(&g->scan_cursor, 0u);
        }
        now = hg__os_now();
        if (now >= until || hg__worker_wanted(m, kind, now, &look_at))
            break;
    }
    return bytes;
}
