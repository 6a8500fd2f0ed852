/* lock.c: the slow paths of lock.h, and the check of ranks in debug builds.
 *
 * The word has three states (Drepper, "Futexes are tricky", mutex 3): 0 free, 1 held, 2 held and
 * perhaps waited for.
 *
 * Invariants:
 *   1. A thread sleeps only after it has seen or made the word 2, so the unlock that follows finds
 *      2 and wakes.
 *   2. Who got the lock after sleeping leaves it at 2, as it cannot know whether others sleep: one
 *      wake too many at worst, never one too few.
 * A short spin comes first, since critical sections here are shorter than a sleep and a wake; it
 * stays short, as the holder may have lost its CPU.
 *
 * Ordering: every change of the word is acquire-release, so that what the holder wrote is seen by
 * the next one. The sleep and the wake order nothing.
 *
 * Ranks (debug builds): each OS thread keeps the list of the locks that it holds, in no particular
 * order, as a lock may be let go before one that was taken after it. It belongs to the thread and
 * not to the task: parking lets its lock go on the scheduler stack of the same thread. The
 * functions here are not inlined into callers, so that no caller keeps the address of a
 * thread-local over a switch to another thread.
 */
#include "base/lock.h"

#include "base/bits.h"
#include "base/os.h"

enum { SPINS = 40 };

#if defined(HG_DEBUG)

enum { HELD_NEAR = 32, HELD_MAX = 2048 };

/* What this OS thread holds: lock[0..n-1], in `near` while that is enough. A select may hold a
 * thousand channels; the list then moves to pages of its own, once, and stays there: a library that
 * is loaded late gets little thread-local memory. */
static _Thread_local struct {
    unsigned n, room;
    const struct hg_lock **lock;
    const struct hg_lock *near[HELD_NEAR];
} held;

static void held_push(const struct hg_lock *l)
{
    if (held.lock == NULL) {
        held.lock = held.near;
        held.room = HELD_NEAR;
    }
    if (held.n == HELD_NEAR && held.room == HELD_NEAR) {
        const struct hg_lock **far = hg__os_map(HELD_MAX * sizeof *far, hg__os_page_size());
        HG_CHECK(far != NULL, "no memory for the list of held locks");
        for (unsigned i = 0; i < held.n; i++)
            far[i] = held.near[i];
        held.lock = far;
        held.room = HELD_MAX;
    }
    HG_CHECK(held.n < held.room, "one thread holds %u locks", held.n);
    held.lock[held.n++] = l;
}

static const struct {
    const char *name;
    bool many;
} ranks[HG_RANK_COUNT] = {
    [HG_RANK_NONE] = {"NONE", false},
#define LOCK_RANK(name, many) [HG_RANK_##name] = {#name, many},
#include "base/lockrank.def"
#undef LOCK_RANK
};

/* Whether this thread may take l while it holds h. */
static bool order_allows(const struct hg_lock *h, const struct hg_lock *l)
{
    if (h->rank == l->rank)
        return ranks[l->rank].many && (uintptr_t)h < (uintptr_t)l;
    return h->rank < l->rank;
}

/* Fatal when l must not be taken now. The word may already be ours (after) or not yet (before
 * sleeping on it). */
static void check_order(const struct hg_lock *l)
{
    HG_CHECK(l->rank < HG_RANK_COUNT, "lock %p has no rank: %u", (const void *)l, l->rank);
    for (unsigned i = 0; i < held.n; i++) {
        const struct hg_lock *h = held.lock[i];
        HG_CHECK(order_allows(h, l), "lock order: %s (%p) taken while %s (%p) is held",
                 ranks[l->rank].name, (const void *)l, ranks[h->rank].name, (const void *)h);
    }
}

void hg__lock_note_taken(struct hg_lock *l)
{
    check_order(l);
    held_push(l);
}

void hg__lock_note_freed(struct hg_lock *l)
{
    for (unsigned i = held.n; i-- > 0;) {
        if (held.lock[i] == l) {
            held.lock[i] = held.lock[--held.n];
            return;
        }
    }
    hg__fatal("lock %s (%p) let go by a thread that does not hold it",
              l->rank < HG_RANK_COUNT ? ranks[l->rank].name : "?", (void *)l);
}

bool hg__lock_held(const struct hg_lock *l)
{
    for (unsigned i = 0; i < held.n; i++)
        if (held.lock[i] == l)
            return true;
    return false;
}

#else

static void check_order(const struct hg_lock *l) { (void)l; }

#endif

void hg__lock_slow(struct hg_lock *l)
{
    /* Before sleeping: a deadlock that the order would have shown is reported, not slept in. */
    check_order(l);
    for (int i = 0; i < SPINS; i++) {
        uint32_t free_word = 0;
        if (hg_load_rlx(&l->word) == 0 && hg_cas_acqrel(&l->word, &free_word, 1u))
            return;
        hg_cpu_relax();
    }
    while (hg_xchg_acqrel(&l->word, 2u) != 0)
        (void)hg__os_wait(&l->word, 2u, INT64_MAX);
}

void hg__unlock_slow(struct hg_lock *l) { hg__os_wake(&l->word, 1); }
