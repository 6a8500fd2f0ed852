/* test_base_lock.c: the lock under contention, and the ranks of debug builds. */
#include "base/bits.h"
#include "base/lock.h"
#include "base/os.h"
#include "tests/support/test.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

TestSuite(lock, .timeout = 60);

Test(lock, states_of_the_word)
{
    struct hg_lock l;
    hg__lock_init(&l, HG_RANK_META);
    cr_assert_eq(hg_load_rlx(&l.word), 0);
    hg__lock(&l);
    cr_assert_eq(hg_load_rlx(&l.word), 1);
    hg__unlock(&l);
    cr_assert_eq(hg_load_rlx(&l.word), 0);
    cr_assert(hg__trylock(&l));
    cr_assert_eq(hg_load_rlx(&l.word), 1);
    hg__unlock(&l);
}

struct shared {
    struct hg_lock lock;
    uint64_t rounds;
    volatile uint64_t a, b; /* guarded by the lock; equal outside of it */
    _Atomic uint32_t torn;  /* how often they were found unequal */
};

static void *contend(void *arg)
{
    struct shared *s = arg;
    for (uint64_t i = 0; i < s->rounds; i++) {
        if (i % 8 == 0 && hg__trylock(&s->lock)) {
            hg_add_rlx(&s->torn, s->a != s->b ? 1u : 0u);
            hg__unlock(&s->lock);
        }
        hg__lock(&s->lock);
        hg_add_rlx(&s->torn, s->a != s->b ? 1u : 0u);
        s->a++;
        if (i % 64 == 0) /* now and then the holder loses its CPU, so that others come to sleep */
            sched_yield();
        s->b++;
        hg__unlock(&s->lock);
    }
    return NULL;
}

Test(lock, excludes_under_contention)
{
    enum { THREADS = 6 };
    static struct shared s;
    pthread_t threads[THREADS];
    s.rounds = test_scaled(40000);
    hg__lock_init(&s.lock, HG_RANK_META);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(hg__os_thread(&threads[i], "contend", 0, contend, &s), 0);
    for (int i = 0; i < THREADS; i++)
        hg__os_thread_join(threads[i]);
    cr_assert_eq(hg_load_rlx(&s.torn), 0);
    cr_assert_eq(s.a, THREADS * s.rounds);
    cr_assert_eq(s.b, THREADS * s.rounds);
    cr_assert_eq(hg_load_rlx(&s.lock.word), 0);
}

struct handover {
    struct hg_lock lock;
    _Atomic uint32_t got;
};

static void *take_once(void *arg)
{
    struct handover *h = arg;
    hg__lock(&h->lock);
    hg_store_rel(&h->got, 1u);
    hg__unlock(&h->lock);
    return NULL;
}

Test(lock, trylock_fails_and_a_sleeper_is_woken)
{
    static struct handover h;
    pthread_t t;
    hg__lock_init(&h.lock, HG_RANK_META);
    hg__lock(&h.lock);
    cr_assert_eq(hg__os_thread(&t, "sleeper", 0, take_once, &h), 0);
    while (hg_load_acq(&h.lock.word) != 2) /* it is about to sleep, or sleeps */
        sched_yield();
    cr_assert_not(hg__trylock(&h.lock));
    cr_assert_eq(hg_load_acq(&h.got), 0);
    hg__unlock(&h.lock);
    hg__os_thread_join(t);
    cr_assert_eq(hg_load_acq(&h.got), 1);
}

#if defined(HG_DEBUG)

enum { FIRST, SECOND, LOCKS };
static struct hg_lock pair[LOCKS];

static void take_both(void *arg)
{
    const int *order = arg;
    hg__lock(&pair[order[0]]);
    hg__lock(&pair[order[1]]);
    hg__unlock(&pair[order[0]]); /* not the order of taking: allowed */
    hg__unlock(&pair[order[1]]);
}

static void run_pair(struct test_child *c, enum hg_lock_rank first, enum hg_lock_rank second, int a,
                     int b)
{
    int order[] = {a, b};
    hg__lock_init(&pair[FIRST], first);
    hg__lock_init(&pair[SECOND], second);
    test_child_run(c, 10, take_both, order);
}

Test(lock, ranks_that_rise_are_allowed)
{
    struct test_child c;
    run_pair(&c, HG_RANK_COLLECT, HG_RANK_META, FIRST, SECOND);
    cr_assert_eq(c.exit_code, 0, "%s", c.text);
}

Test(lock, a_lower_rank_is_fatal_and_both_are_named)
{
    struct test_child c;
    run_pair(&c, HG_RANK_PAGES, HG_RANK_CENTRAL, FIRST, SECOND);
    cr_assert_eq(c.signal, SIGABRT);
    cr_assert(strstr(c.text, "CENTRAL") != NULL && strstr(c.text, "PAGES") != NULL, "%s", c.text);
}

Test(lock, the_same_rank_is_fatal)
{
    struct test_child c;
    run_pair(&c, HG_RANK_SCHED, HG_RANK_SCHED, FIRST, SECOND);
    cr_assert_eq(c.signal, SIGABRT);
}

Test(lock, the_same_lock_twice_is_fatal_and_does_not_hang)
{
    struct test_child c;
    run_pair(&c, HG_RANK_META, HG_RANK_META, FIRST, FIRST);
    cr_assert_eq(c.signal, SIGABRT);
    cr_assert(strstr(c.text, "META") != NULL, "%s", c.text);
}

Test(lock, ranks_with_many_locks_go_by_address)
{
    struct test_child c;
    run_pair(&c, HG_RANK_CHAN, HG_RANK_CHAN, FIRST, SECOND);
    cr_assert_eq(c.exit_code, 0, "%s", c.text);
    run_pair(&c, HG_RANK_CHAN, HG_RANK_CHAN, SECOND, FIRST);
    cr_assert_eq(c.signal, SIGABRT);
    run_pair(&c, HG_RANK_TIMERS, HG_RANK_TIMERS, FIRST, SECOND);
    cr_assert_eq(c.exit_code, 0, "%s", c.text);
}

Test(lock, a_thousand_locks_of_one_rank_at_once)
{
    enum { MANY = 1100 };
    static struct hg_lock locks[MANY];
    for (int i = 0; i < MANY; i++) {
        hg__lock_init(&locks[i], HG_RANK_CHAN);
        hg__lock(&locks[i]);
    }
    for (int i = 0; i < MANY; i++)
        cr_assert(hg__lock_held(&locks[i]));
    for (int i = 0; i < MANY; i++)
        hg__unlock(&locks[i * 7 % MANY]);
    for (int i = 0; i < MANY; i++)
        cr_assert_not(hg__lock_held(&locks[i]));
}

Test(lock, held_is_known_per_thread)
{
    struct hg_lock l;
    hg__lock_init(&l, HG_RANK_META);
    cr_assert_not(hg__lock_held(&l));
    hg__lock(&l);
    cr_assert(hg__lock_held(&l));
    hg__unlock(&l);
    cr_assert_not(hg__lock_held(&l));
}

static void *unlock_it(void *arg)
{
    hg__unlock(arg);
    return NULL;
}

static void unlock_elsewhere(void *arg)
{
    pthread_t t;
    hg__lock_init(arg, HG_RANK_META);
    hg__lock(arg);
    if (hg__os_thread(&t, "thief", 0, unlock_it, arg) == 0)
        hg__os_thread_join(t);
}

Test(lock, another_threads_unlock_is_fatal)
{
    struct test_child c;
    test_child_run(&c, 10, unlock_elsewhere, &pair[FIRST]);
    cr_assert_eq(c.signal, SIGABRT);
    cr_assert(strstr(c.text, "META") != NULL, "%s", c.text);
}

#endif
