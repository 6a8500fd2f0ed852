/* test_mut.c: mutators, handshakes and the barrier, driven step by step on one thread.
 *
 * The mutators here are BLOCKED between the steps, so the driver answers for them inside
 * hg__handshake, and a test says exactly what happens in which order. The phase word is set by
 * hand, as the driver would.
 */
#include "runtime/mut/mut.h"
#include "tests/support/test.h"
#include <criterion/criterion.h>
#include <string.h>

#define MUTATORS 3

static struct hg_meta *meta;
static struct hg_heap *heap;
static struct hg_world world;
static struct hg_mutator *mut[MUTATORS];
static struct hg_stack stacks[MUTATORS];
static unsigned scans, scanned_own;

static void count_scan(struct hg_mutator *m, bool own)
{
    (void)m;
    scans++;
    scanned_own += own;
}
static void none_allocated(struct hg_mutator *m, size_t bytes)
{
    (void)m;
    (void)bytes;
}
static bool never_refuse(struct hg_mutator *m, size_t size)
{
    (void)m;
    (void)size;
    return false;
}
static bool no_memory(struct hg_mutator *m, size_t size, unsigned *tries, bool may_fail)
{
    (void)m;
    (void)size;
    (void)tries;
    return !may_fail;
}
static void no_attention(struct hg_mutator *m, uint32_t reasons)
{
    (void)m;
    (void)reasons;
}
static void not_late(struct hg_mutator *m, int64_t ns)
{
    (void)m;
    (void)ns;
}

static char sched_stack[64 << 10] __attribute__((aligned(16)));

static void set_up(void)
{
    struct hg_heap_config config = {.reserve_bytes = (size_t)256 << 20,
                                    .hugepages = HG_HUGEPAGES_NEVER};
    meta = hg__meta_open();
    cr_assert_eq(hg__heap_open(&heap, meta, &config), 0);
    memset(&world, 0, sizeof world);
    cr_assert_eq(hg__world_init(&world, heap, hg__layouts_open(meta), meta), 0);
    world.hooks = (struct hg_hooks){.scan = count_scan,
                                    .allocated = none_allocated,
                                    .refuse = never_refuse,
                                    .no_memory = no_memory,
                                    .attention = no_attention,
                                    .late = not_late};
    scans = scanned_own = 0;
    for (int i = 0; i < MUTATORS; i++) {
        mut[i] = hg__meta_alloc(meta, sizeof *mut[i]);
        cr_assert_eq(hg__mutator_init(mut[i], &world), 0);
        mut[i]->sched_sp = (uintptr_t)sched_stack + sizeof sched_stack - 256;
        mut[i]->sched_stack_lo = sched_stack;
        mut[i]->sched_stack_bytes = sizeof sched_stack;
        mut[i]->stack = &stacks[i];
    }
}

static void tear_down(void)
{
    hg__self_set(NULL);
    hg_i_marking = 0;
    for (int i = 0; i < MUTATORS; i++)
        if (mut[i] != NULL)
            hg__mutator_fini(mut[i]);
    hg__world_fini(&world);
    hg__heap_close(heap);
    hg__meta_close(meta);
}

TestSuite(mut, .init = set_up, .fini = tear_down, .timeout = 20);

static void phase(enum hg_phase p)
{
    hg_store_sc(&world.phase, (uint32_t)p);
    hg_i_marking = p != HG_PHASE_OFF;
}

/* An object of 64 bytes made by mutator i. */
static uintptr_t *make(int i, const hg_layout *layout)
{
    hg__self_set(mut[i]);
    uintptr_t *p = hg_alloc(64, layout);
    cr_assert_not_null(p);
    return p;
}

static bool marked(const void *p) { return hg__is_marked(heap, (uintptr_t)p); }

/* The whole cycle's handshakes up to black. */
static void to_black(void)
{
    phase(HG_PHASE_ROOTS);
    hg__handshake(&world, HG_REQ_NOP);
    hg__handshake(&world, HG_REQ_NOP);
    hg__handshake(&world, HG_REQ_SCAN);
    phase(HG_PHASE_MARK);
}

static void to_off(void)
{
    phase(HG_PHASE_OFF);
    hg__handshake(&world, HG_REQ_NOP);
    hg__handshake(&world, HG_REQ_RESET);
}

Test(mut, a_handshake_answers_once_for_each)
{
    hg__handshake(&world, HG_REQ_SCAN);
    cr_assert_eq(scans, MUTATORS);
    cr_assert_eq(scanned_own, 0u, "BLOCKED mutators are answered for by the driver");
    for (int i = 0; i < MUTATORS; i++) {
        cr_assert(mut[i]->black);
        cr_assert_eq(hg_load_rlx(&mut[i]->attention), 0u);
        cr_assert_eq(hg_load_rlx(&mut[i]->stamp), hg_load_rlx(&world.epoch));
        cr_assert_eq(hg_load_rlx(&mut[i]->state), HG_MUT_BLOCKED);
    }
}

Test(mut, off_shades_nothing)
{
    uintptr_t *holder = make(0, HG_REFS), *old = make(0, HG_LEAF), *new = make(0, HG_LEAF);
    hg_ref_store(&holder[0], old);
    hg_ref_store(&holder[0], new);
    cr_assert_eq(holder[0], (uintptr_t) new);
    cr_assert_not(marked(old));
    cr_assert_not(marked(new));
}

Test(mut, roots_shades_old_and_new)
{
    uintptr_t *holder = make(0, HG_REFS), *old = make(0, HG_LEAF), *new = make(0, HG_LEAF);
    hg_ref_store(&holder[0], old);
    phase(HG_PHASE_ROOTS);
    hg_ref_store(&holder[0], new);
    cr_assert(marked(old));
    cr_assert(marked(new));
    cr_assert_not(marked(holder));
}

Test(mut, mark_shades_the_old_only)
{
    uintptr_t *holder = make(0, HG_REFS), *old = make(0, HG_REFS), *new = make(0, HG_REFS);
    hg_ref_store(&holder[0], old);
    to_black();
    hg__self_set(mut[0]);
    hg_ref_store(&holder[0], new);
    cr_assert(marked(old));
    cr_assert_not(marked(new));
    cr_assert_eq(mut[0]->grey->n, 1u, "an object with references is grey");
    cr_assert_eq(mut[0]->grey->entry[0], (uintptr_t)old);
    hg_ref_store(&holder[0], old);
    hg_ref_store(&holder[0], NULL);
    cr_assert_eq(mut[0]->grey->n, 2u, "each once");
}

Test(mut, every_way_to_overwrite_shades)
{
    uintptr_t *h = make(0, HG_REFS), *o[5];
    for (int i = 0; i < 5; i++) {
        o[i] = make(0, HG_LEAF);
        h[i] = (uintptr_t)o[i];
    }
    uintptr_t *source = make(0, HG_REFS);
    to_black();
    hg__self_set(mut[0]);
    cr_assert(hg_ref_cas(&h[0], o[0], NULL));
    cr_assert(marked(o[0]));
    cr_assert_eq(hg_ref_swap(&h[1], NULL), o[1]);
    cr_assert(marked(o[1]));
    hg_refs_copy(&h[2], &source[0], 1);
    cr_assert(marked(o[2]));
    uintptr_t value = 0;
    hg__store_value(mut[0], &h[3], &value, sizeof value, true);
    cr_assert(marked(o[3]));
    hg_object_copy(h, source);
    cr_assert(marked(o[4]));
    for (int i = 0; i < 5; i++)
        cr_assert_eq(h[i], 0u);
}

Test(mut, copies_may_overlap_both_ways)
{
    uint64_t seed = test_seed("copies_may_overlap_both_ways");
    struct hg_rand {
        uint64_t s;
    } r = {seed};
    hg__self_set(mut[0]);
    enum { N = 1000 };
    uintptr_t *a = hg_alloc(N * sizeof *a, HG_REFS), shadow[N];
    for (int round = 0; round < 200; round++) {
        phase(round % 2 ? HG_PHASE_MARK : HG_PHASE_OFF);
        for (size_t i = 0; i < N; i++)
            shadow[i] = a[i] = (i + 1) << 1;
        r.s = r.s * 6364136223846793005u + 1442695040888963407u;
        size_t n = (r.s >> 33) % N, from = (r.s >> 13) % (N - n), to = (r.s >> 3) % (N - n);
        hg_refs_copy(a + to, a + from, n);
        memmove(shadow + to, shadow + from, n * sizeof *shadow);
        cr_assert_eq(memcmp(a, shadow, sizeof shadow), 0, "n %zu from %zu to %zu", n, from, to);
    }
    phase(HG_PHASE_OFF);
}

Test(mut, white_before_scan_black_after_white_after_reset)
{
    cr_assert_not(marked(make(0, HG_LEAF)));
    phase(HG_PHASE_ROOTS);
    hg__handshake(&world, HG_REQ_NOP);
    cr_assert_not(marked(make(0, HG_LEAF)),
                  "white until its own SCAN, whatever the phase word says");
    hg__handshake(&world, HG_REQ_SCAN);
    phase(HG_PHASE_MARK);
    cr_assert(marked(make(0, HG_LEAF)));
    cr_assert(marked(make(1, HG_REFS)));
    phase(HG_PHASE_OFF);
    hg__handshake(&world, HG_REQ_NOP);
    cr_assert(marked(make(0, HG_LEAF)), "black until RESET, not until OFF");
    uintptr_t *last = make(0, HG_LEAF);
    hg__handshake(&world, HG_REQ_RESET);
    uintptr_t *fresh = make(0, HG_LEAF);
    cr_assert_neq(fresh, last);
    cr_assert_not(marked(fresh));
}

Test(mut, a_large_object_has_its_makers_colour)
{
    hg__self_set(mut[0]);
    cr_assert_not(marked(hg_alloc(1 << 20, HG_REFS)));
    to_black();
    hg__self_set(mut[0]);
    cr_assert(marked(hg_alloc(1 << 20, HG_REFS)));
    to_off();
    hg__self_set(mut[0]);
    cr_assert_not(marked(hg_alloc(1 << 20, HG_REFS)));
}

Test(mut, reset_leaves_no_mark_on_unused_slots)
{
    uintptr_t *keep[40];
    to_black();
    for (int i = 0; i < 40; i++)
        keep[i] = make(i % 2, i % 3 ? HG_LEAF : HG_REFS);
    to_off();
    while (!hg__sweep_done(heap))
        hg__sweep_some(heap, 1000);
    for (int i = 0; i < 40; i++)
        cr_assert_eq(hg_size_of(keep[i]), 64u, "what was allocated black lives");
    /* The next cycle marks nothing: then nothing may be left, and no mark bit either. */
    phase(HG_PHASE_MARK);
    to_off();
    while (!hg__sweep_done(heap))
        hg__sweep_some(heap, 1000);
    hg__self_set(mut[0]);
    for (int i = 0; i < 40; i++)
        cr_assert_eq(hg_size_of(keep[i]), 0u);
    for (size_t i = 0; i < (hg_load_rlx(&heap->low_end) >> 10); i++)
        cr_assert_eq(hg_load_rlx(&heap->marks[i]), 0u);
}

Test(mut, births_have_the_colour_of_the_last_request)
{
    struct hg_mutator *born = hg__meta_alloc(meta, sizeof *born);
    hg__handshake(&world, HG_REQ_NOP);
    cr_assert_eq(hg__mutator_init(born, &world), 0);
    cr_assert_not(born->black);
    hg__mutator_fini(born);
    to_black();
    hg__handshake(&world, HG_REQ_FLUSH);
    memset(born, 0, sizeof *born);
    cr_assert_eq(hg__mutator_init(born, &world), 0);
    cr_assert(born->black, "black from SCAN to RESET, also after a FLUSH");
    hg__mutator_fini(born);
    to_off();
    memset(born, 0, sizeof *born);
    cr_assert_eq(hg__mutator_init(born, &world), 0);
    cr_assert_not(born->black);
    cr_assert_eq(born->gen, mut[0]->gen);
    hg__mutator_fini(born);
}

Test(mut, flush_says_who_shaded)
{
    uintptr_t *holder = make(0, HG_REFS), *old = make(0, HG_REFS);
    hg_ref_store(&holder[0], old);
    to_black();
    hg_store_rlx(&world.dirty, 0u);
    hg__handshake(&world, HG_REQ_FLUSH);
    cr_assert_eq(hg_load_rlx(&world.dirty), 0u);
    hg__self_set(mut[0]);
    hg_ref_store(&holder[0], NULL);
    hg__handshake(&world, HG_REQ_FLUSH);
    cr_assert_eq(hg_load_rlx(&world.dirty), 1u);
    cr_assert_eq(hg_load_rlx(&world.grey.full_count), 1u, "the buffer was published");
    hg_store_rlx(&world.dirty, 0u);
    hg__handshake(&world, HG_REQ_FLUSH);
    cr_assert_eq(hg_load_rlx(&world.dirty), 0u);
}

Test(mut, a_leaf_that_is_shaded_also_makes_a_round_dirty)
{
    uintptr_t *holder = make(0, HG_REFS), *old = make(0, HG_LEAF);
    hg_ref_store(&holder[0], old);
    to_black();
    hg__self_set(mut[0]);
    hg_ref_store(&holder[0], NULL);
    hg_store_rlx(&world.dirty, 0u);
    hg__handshake(&world, HG_REQ_FLUSH);
    cr_assert_eq(hg_load_rlx(&world.dirty), 1u);
}

Test(mut, a_full_grey_buffer_is_published)
{
    enum { N = 3 * HG_GREY_ENTRIES };
    hg__self_set(mut[0]);
    uintptr_t *holder = hg_alloc(N * sizeof *holder, HG_REFS);
    for (size_t i = 0; i < N; i++)
        hg_ref_store(&holder[i], hg_alloc(16, HG_REFS));
    to_black();
    hg__self_set(mut[0]);
    for (size_t i = 0; i < N; i++)
        hg_ref_store(&holder[i], NULL);
    hg__handshake(&world, HG_REQ_FLUSH);
    size_t grey = 0;
    hg_add_sc(&world.grey.workers, 1u);
    for (struct hg_grey *g; (g = hg__grey_take(&world)) != NULL;) {
        grey += g->n;
        g->n = 0;
        hg__grey_give(&world, g);
    }
    hg_sub_sc(&world.grey.workers, 1u);
    cr_assert_eq(grey, (size_t)N);
}

Test(mut, handed_on_means_lost)
{
    hg_store_sc(&mut[0]->state, HG_MUT_RUNNING);
    uint32_t word = hg__mutator_block(mut[0]);
    cr_assert(hg__mutator_unblock(mut[0], word));
    word = hg__mutator_block(mut[0]);
    cr_assert(hg__mutator_hand_on(mut[0], word));
    cr_assert_not(hg__mutator_hand_on(mut[0], word), "only once");
    cr_assert_not(hg__mutator_unblock(mut[0], word), "its tick is gone");
    uint32_t now = hg_load_rlx(&mut[0]->state);
    cr_assert(hg__mutator_unblock(mut[0], now));
    hg__mutator_block(mut[0]);
}

Test(mut, blocking_answers_a_request_that_came_meanwhile)
{
    /* As if the driver had looked when it was still RUNNING: request, epoch and bit are there,
     * nobody answers. */
    hg_store_sc(&mut[0]->state, HG_MUT_RUNNING);
    hg_store_sc(&world.request, (uint32_t)HG_REQ_FLUSH);
    hg_store_sc(&world.unanswered, 1u);
    hg_add_sc(&world.epoch, 1u);
    hg_or_sc(&mut[0]->attention, HG_ATTENTION_HANDSHAKE);
    for (int i = 1; i < MUTATORS; i++)
        hg_store_sc(&mut[i]->stamp, hg_load_rlx(&world.epoch));
    hg__mutator_block(mut[0]);
    cr_assert_eq(hg_load_rlx(&world.unanswered), 0u);
    cr_assert_eq(hg_load_rlx(&mut[0]->stamp), hg_load_rlx(&world.epoch));
}

Test(mut, ambiguous_words_shade_only_what_is_allocated)
{
    uintptr_t *p = make(0, HG_LEAF);
    phase(HG_PHASE_MARK);
    uintptr_t free_slot = (uintptr_t)p + 64; /* the next slot of the word in use: not handed out */
    hg__shade(mut[0], free_slot);
    hg__shade(mut[0], 1);
    hg__shade(mut[0], heap->base + heap->size - 8);
    hg__shade(mut[0], (uintptr_t)&world);
    cr_assert_not(hg__is_marked(heap, free_slot));
    hg__shade(mut[0], (uintptr_t)p + 63);
    cr_assert(marked(p), "interior words count");
    phase(HG_PHASE_OFF);
}
