/* lock.h: the one mutual exclusion lock of the library: three-state futex mutex with a bounded spin
 * (Drepper, "Futexes are tricky", mutex 3), and ranks.
 *
 * Rules: (1) ranks come from lockrank.def and are checked in debug builds; (2) a lock is never held
 * across a heap allocation or while another task runs: the one exception is parking, where the lock
 * is let go by the park's commit function on the scheduler stack, on the same OS thread; (3) a lock
 * guards the fields that say so in their comment. Critical sections are short and never wait, so a
 * lock may be taken from a task without being a safepoint.
 */
#ifndef HG_BASE_LOCK_H
#define HG_BASE_LOCK_H
#include "base/assert.h"
#include "base/atomic.h"
#include <stdbool.h>
#include <stdint.h>

enum hg_lock_rank {
    HG_RANK_NONE,
#define LOCK_RANK(name, many) HG_RANK_##name,
#include "base/lockrank.def"
#undef LOCK_RANK
    HG_RANK_COUNT
};

struct hg_lock {
    _Atomic uint32_t word; /* 0 free, 1 held, 2 held and perhaps waited for */
    uint32_t rank;
};

static inline void hg__lock_init(struct hg_lock *l, enum hg_lock_rank rank)
{
    hg_store_rlx(&l->word, 0u);
    l->rank = (uint32_t)rank;
}

void hg__lock_slow(struct hg_lock *l);
void hg__unlock_slow(struct hg_lock *l);

#if defined(HG_DEBUG)
/* The ranks held by this OS thread. A lock may be let go on another stack of the same thread, never
 * by another thread. */
void hg__lock_note_taken(struct hg_lock *l);
void hg__lock_note_freed(struct hg_lock *l);
bool hg__lock_held(const struct hg_lock *l);
#else
static inline void hg__lock_note_taken(struct hg_lock *l) { (void)l; }
static inline void hg__lock_note_freed(struct hg_lock *l) { (void)l; }
#endif
#define HG_ASSERT_HELD(l) HG_ASSERT(hg_load_rlx(&(l)->word) != 0)

static inline void hg__lock(struct hg_lock *l)
{
    uint32_t free_word = 0;
    if (hg_unlikely(!hg_cas_acqrel(&l->word, &free_word, 1u)))
        hg__lock_slow(l);
    hg__lock_note_taken(l);
}
static inline bool hg__trylock(struct hg_lock *l)
{
    uint32_t free_word = 0;
    if (hg_load_rlx(&l->word) != 0 || !hg_cas_acqrel(&l->word, &free_word, 1u))
        return false;
    hg__lock_note_taken(l);
    return true;
}
static inline void hg__unlock(struct hg_lock *l)
{
    hg__lock_note_freed(l);
    if (hg_unlikely(hg_xchg_acqrel(&l->word, 0u) == 2u))
        hg__unlock_slow(l);
}

#endif
