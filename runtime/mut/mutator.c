/* mutator.c: birth and death of mutators, and the ways between RUNNING and BLOCKED.
 *
 * The state word is (tick, state). Three parties race on it by compare-and-swap:
 *   the owner    RUNNING -> BLOCKED -> RUNNING            (hg__mutator_block, _unblock)
 *   the driver   BLOCKED -> TAKEN -> BLOCKED              (handshake.c), under MUTATORS
 *   the monitor  (t, BLOCKED) -> (t + 1, BLOCKED)         (hg__mutator_hand_on)
 * An owner that comes back to another tick has lost the mutator. All swaps are seq_cst: a mutator
 * that stores BLOCKED then reads its attention word must not miss a request whose maker read its
 * state as RUNNING (the store and the load of two threads to two words, in opposite order;
 * decisions on the sleeping driver in docs/design/collector.md).
 */
#include "runtime/mut/mut.h"
#include <errno.h>

_Thread_local struct hg_mutator *hg__tls_mutator __attribute__((tls_model("initial-exec")));

__attribute__((noinline)) struct hg_mutator *hg__self(void)
{
    __asm__ volatile("" ::: "memory"); /* never merged with another call */
    return hg__tls_mutator;
}

__attribute__((noinline)) void hg__self_set(struct hg_mutator *m) { hg__tls_mutator = m; }

int hg__world_init(struct hg_world *w, struct hg_heap *heap, struct hg_layouts *layouts,
                   struct hg_meta *meta)
{
    w->heap = heap;
    w->layouts = layouts;
    w->meta = meta;
    hg__lock_init(&w->lock, HG_RANK_MUTATORS);
    hg_list_init(&w->mutators);
    hg__grey_init(&w->grey);
    w->birth_gen = hg_load_rlx(&heap->gen);
    w->handshakes = hg__meta_alloc(meta, sizeof *w->handshakes);
    return w->handshakes != NULL ? 0 : -ENOMEM;
}

void hg__world_fini(struct hg_world *w)
{
    HG_ASSERT(hg_list_empty(&w->mutators));
    hg__grey_fini(w);
    hg__meta_free(w->meta, w->handshakes, sizeof *w->handshakes);
}

static int alloc_histograms(struct hg_mutator *m, struct hg_meta *meta)
{
    m->stats.hold = hg__meta_alloc(meta, sizeof(hg_histogram));
    m->stats.assist = hg__meta_alloc(meta, sizeof(hg_histogram));
    m->stats.runq = hg__meta_alloc(meta, sizeof(hg_histogram));
    return m->stats.hold != NULL && m->stats.assist != NULL && m->stats.runq != NULL ? 0 : -ENOMEM;
}

static void free_histograms(struct hg_mutator *m, struct hg_meta *meta)
{
    hg__meta_free(meta, m->stats.hold, sizeof(hg_histogram));
    hg__meta_free(meta, m->stats.assist, sizeof(hg_histogram));
    hg__meta_free(meta, m->stats.runq, sizeof(hg_histogram));
}

int hg__mutator_init(struct hg_mutator *m, struct hg_world *w)
{
    m->world = w;
    hg__cache_init(&m->cache, w->heap);
    m->grey = hg__grey_try_empty(w);
    if (alloc_histograms(m, w->meta) != 0 || m->grey == NULL) {
        free_histograms(m, w->meta);
        if (m->grey != NULL)
            hg__grey_give(w, m->grey);
        return -ENOMEM;
    }
    hg__lock(&w->lock);
    m->id = w->next_id++;
    /* As if it had answered the last request, whose callbacks may still be under way elsewhere. Its
     * colour is that of a mutator past it: black from SCAN to before RESET. */
    hg_store_rlx(&m->stamp, hg_load_rlx(&w->epoch));
    m->black = w->black_between;
    m->gen = w->birth_gen;
    hg_store_sc(&m->state, HG_MUT_BLOCKED);
    hg_list_push_back(&w->mutators, &m->link);
    w->count++;
    hg__unlock(&w->lock);
    return 0;
}

void hg__mutator_fini(struct hg_mutator *m)
{
    struct hg_world *w = m->world;
    hg__lock(&w->lock);
    hg__cache_release(&m->cache, m->black);
    hg__alloc_account(m);
    hg__grey_publish(m);
    hg__grey_give(w, m->grey);
    m->grey = NULL;
    hg_list_remove(&m->link);
    w->count--;
    hg__unlock(&w->lock);
    free_histograms(m, w->meta);
}

uint32_t hg__mutator_block(struct hg_mutator *m)
{
    uint32_t running = hg_load_rlx(&m->state);
    HG_ASSERT(HG_MUT_STATE(running) == HG_MUT_RUNNING);
    uint32_t blocked = running - HG_MUT_RUNNING + HG_MUT_BLOCKED;
    for (;;) {
        hg__poll(m);
        hg_store_sc(&m->state, blocked);
        /* seq_cst: the request's maker raises the attention word, then reads the state. One of us
         * sees the other. */
        if (!(hg_load_sc(&m->attention) & HG_ATTENTION_HANDSHAKE))
            return blocked;
        uint32_t expected = blocked;
        if (!hg_cas_sc(&m->state, &expected, running))
            return blocked; /* the driver has taken it and answers for it */
    }
}

bool hg__mutator_unblock(struct hg_mutator *m, uint32_t word)
{
    uint32_t tick = word & ~0xffu;
    for (unsigned spins = 0;; spins++) {
        uint32_t seen = word;
        if (hg_cas_sc(&m->state, &seen, tick | HG_MUT_RUNNING))
            return true;
        if ((seen & ~0xffu) != tick)
            return false;
        if (spins < 100) {
            hg_cpu_relax(); /* a callback is short */
            continue;
        }
        /* seq_cst pairing with the driver's store of BLOCKED and load of state_waiters. */
        hg_add_sc(&m->state_waiters, 1u);
        hg__os_wait(&m->state, tick | HG_MUT_TAKEN, INT64_MAX);
        hg_sub_sc(&m->state_waiters, 1u);
    }
}

bool hg__mutator_hand_on(struct hg_mutator *m, uint32_t word)
{
    HG_ASSERT(HG_MUT_STATE(word) == HG_MUT_BLOCKED);
    return hg_cas_sc(&m->state, &word, word + HG_MUT_TICK);
}
