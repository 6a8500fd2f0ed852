/* barrier.c: what a store does while a cycle marks.
 *
 * While the phase is not OFF, a store into a reachable object first shades the old value of the
 * slot (deletion barrier: the snapshot's references stay protected), in ROOTS also the new one
 * (insertion barrier: this mutator, or the one it hands the object to, may not have had its SCAN).
 * Then it stores with release. Shading comes before the store, so one clean round ends marking
 * (tests/model: XCHG shows why the other order needs two). In WEAK everything reachable is marked
 * and there is nothing to shade. What an ambiguous word (padding, a conservative slot) greys after
 * the last clean round is reachable by nobody; it is taken back at OFF, or its mark would survive
 * without its children's.
 *
 * There is no safepoint between reading the phase and the old value, and the store. Nothing here
 * waits; nothing here needs more than a few hundred bytes of stack, or it goes to the scheduler
 * stack (grey.c).
 */
#include "runtime/mut/mut.h"
#include "runtime/mut/sanitize.h"
#include <string.h>

uint32_t hg_i_marking;

void hg__shade(struct hg_mutator *m, uintptr_t ref)
{
    struct hg_heap *h = m->world->heap;
    struct hg_object o = hg__find(h, ref);
    if (o.base == 0 || hg__is_marked(h, o.base))
        return;
    if (!hg__slot_allocated(hg__span_of(h, o.base), o.index) || !hg__set_mark(h, o.base))
        return;
    m->dirty = true;
    if (hg__desc_kind(o.desc) == HG_SPAN_LEAF)
        hg_own_add(&m->stats.marked_bytes, (int64_t)hg__object_size(h, &o));
    else
        hg__grey_push(m, o.base);
}

bool hg__is_unmarked(const struct hg_world *w, uintptr_t word)
{
    struct hg_object o = hg__find(w->heap, word);
    return o.base == 0 || !hg__is_marked(w->heap, o.base);
}

static struct hg_mutator *mutator_for(const char *what)
{
    struct hg_mutator *m = hg__self();
    HG_CHECK(m != NULL,
             "%s: called outside of a task, or inside a blocking region, while the collector marks",
             what);
    return m;
}

static inline uintptr_t load_slot(const void *slot)
{
    return __atomic_load_n((const uintptr_t *)slot, __ATOMIC_RELAXED);
}

/* The barrier of one slot that is about to become `ref`. */
static inline void before_store(struct hg_mutator *m, enum hg_phase phase, const void *slot,
                                uintptr_t ref)
{
    if (!hg__shades(phase))
        return;
    hg__shade(m, load_slot(slot));
    if (phase == HG_PHASE_ROOTS)
        hg__shade(m, ref);
}

void hg_i_store(void *slot, void *ref)
{
    struct hg_mutator *m = mutator_for("hg_ref_store");
    before_store(m, hg__phase(m->world), slot, (uintptr_t)ref);
    __atomic_store_n((void **)slot, ref, __ATOMIC_RELEASE);
}

static inline bool some_runtime_marks(void)
{
    return __atomic_load_n(&hg_i_marking, __ATOMIC_RELAXED) != 0;
}

bool hg_ref_cas(void *slot, void *expected, void *desired)
{
    if (some_runtime_marks()) {
        struct hg_mutator *m = mutator_for("hg_ref_cas");
        enum hg_phase phase = hg__phase(m->world);
        if (hg__shades(phase))
            hg__shade(m, (uintptr_t)expected); /* what the slot holds if the swap succeeds */
        if (phase == HG_PHASE_ROOTS)
            hg__shade(m, (uintptr_t)desired);
    }
    return __atomic_compare_exchange_n((void **)slot, &expected, desired, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

void *hg_ref_swap(void *slot, void *ref)
{
    if (!some_runtime_marks())
        return __atomic_exchange_n((void **)slot, ref, __ATOMIC_ACQ_REL);
    void *old = __atomic_load_n((void **)slot, __ATOMIC_ACQUIRE);
    while (!hg_ref_cas(slot, old, ref)) /* shades before it swaps */
        old = __atomic_load_n((void **)slot, __ATOMIC_ACQUIRE);
    return old;
}

void hg_shade(const void *ref)
{
    if (!some_runtime_marks())
        return;
    struct hg_mutator *m = mutator_for("hg_shade");
    if (hg__shades(hg__phase(m->world)))
        hg__shade(m, (uintptr_t)ref);
}

void hg__shade_words(struct hg_mutator *m, const void *words, size_t n)
{
    if (!some_runtime_marks() || !hg__shades(hg__phase(m->world)))
        return;
    for (size_t i = 0; i < n; i++)
        hg__shade(m, load_slot((const uintptr_t *)words + i));
}

#define HG_COPY_CHUNK 64 /* words between two safepoints of a bulk copy */

/* Barrier for a chunk of n slots, then the copy; no safepoint in it. down: from the last word to
 * the first. */
static void copy_chunk(uintptr_t *dst, const uintptr_t *src, size_t n, bool down)
{
    if (some_runtime_marks()) {
        struct hg_mutator *m = mutator_for("hg_refs_copy");
        enum hg_phase phase = hg__phase(m->world);
        for (size_t i = 0; i < n; i++)
            before_store(m, phase, dst + i, load_slot(src + i));
    }
    __atomic_thread_fence(
        __ATOMIC_RELEASE); /* what the references point to, before the references */
    for (size_t i = 0; i < n; i++) {
        size_t k = down ? n - 1 - i : i;
        __atomic_store_n(dst + k, load_slot(src + k), __ATOMIC_RELAXED);
    }
}

void hg_refs_copy(void *dst, const void *src, size_t n)
{
    uintptr_t *d = dst;
    const uintptr_t *s = src;
    bool down = d > s && d < s + n;
    for (size_t done = 0; done < n;) {
        size_t chunk = n - done < HG_COPY_CHUNK ? n - done : HG_COPY_CHUNK;
        size_t at = down ? n - done - chunk : done;
        copy_chunk(d + at, s + at, chunk, down);
        done += chunk;
        if (done < n)
            hg_safepoint();
    }
}

void hg_object_copy(void *dst, const void *src)
{
    size_t to = hg_size_of(dst), from = hg_size_of(src);
    HG_CHECK(to != 0 && from != 0, "hg_object_copy: %p or %p is no object of this runtime's heap",
             dst, src);
    hg_refs_copy(dst, src, (to < from ? to : from) / sizeof(uintptr_t));
}

void hg__store_value(struct hg_mutator *m, void *dst, const void *src, size_t bytes, bool refs)
{
    if (!refs) {
        memcpy(dst, src, bytes);
        return;
    }
    enum hg_phase phase = some_runtime_marks() ? hg__phase(m->world) : HG_PHASE_OFF;
    uintptr_t *d = dst;
    const uintptr_t *s = src;
    for (size_t i = 0; i < bytes / sizeof *d; i++) {
        before_store(m, phase, d + i, s[i]);
        __atomic_store_n(d + i, s[i], __ATOMIC_RELEASE);
    }
}
