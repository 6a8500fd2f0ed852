/* test_timer_heap.c: timers in the collected heap: dropped ones (T04), those that are due while
 * marking, and what their arguments keep alive. */
#include "base/rand.h"
#include "tests/support/test.h"
#include "tests/unit/test_timer.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

TestSuite(timer_heap, .timeout = 60);

static int on_procs[] = {1, 2, 4};

static uint64_t live_bytes(void)
{
    hg_stats st = {.size = sizeof st};
    hg_stats_read(hg_current(), &st);
    return st.heap_marked_bytes;
}

struct owner {
    struct owner *next;
    hg_timer t;
    void *what;
    _Atomic int fired;
};
static const uint32_t owner_fields[] = {offsetof(struct owner, next), offsetof(struct owner, what),
                                        HG_TIMER_ARG(offsetof(struct owner, t))};
static const hg_layout owner_layout = HG_TYPED("owner", owner_fields);
static _Atomic int fired;

static void fire_owner(hg_timer *t, void *arg)
{
    struct owner *o = arg;
    CHECK(&o->t == t);
    CHECK(o->what == NULL || *(uint64_t *)o->what == 77);
    hg_add_acqrel(&o->fired, 1);
    hg_add_acqrel(&fired, 1);
}
static struct owner *new_owner(int64_t when)
{
    struct owner *o = hg_alloc(sizeof *o, &owner_layout);
    hg_timer_init(&o->t, fire_owner, o);
    CHECK(hg_timer_reset(&o->t, when) == 0);
    return o;
}

/* T04: some are kept, one in a thousand; the others are dropped in between. */
static __attribute__((noinline)) struct owner *drop_many(int n)
{
    struct owner *kept = NULL;
    for (int i = 0; i < n; i++) {
        struct owner *o = new_owner(hg_in(3600 * S + (int64_t)i * 7919 % 1000003));
        if (i % 1000 == 0) {
            o->next = kept;
            kept = o;
        }
    }
    return kept;
}
/* Moves what is in the heap while it is walked. */
static void churn(void *over)
{
    struct hg_rand rand = {hg_task_id()};
    hg_timer t[64];
    for (int i = 0; i < 64; i++)
        hg_timer_init(&t[i], count, over);
    while (hg_load_acq((_Atomic int *)over) == 0) {
        hg_timer_reset(&t[hg_rand_below(&rand, 64)],
                       hg_in(3600 * S + hg_rand_below(&rand, 1000003)));
        hg_timer_stop(&t[hg_rand_below(&rand, 64)]);
        hg_yield();
    }
    for (int i = 0; i < 64; i++)
        hg_timer_stop(&t[i]);
    hg_add_acqrel((_Atomic int *)over, 1);
}
static int forgotten(void *arg)
{
    int n = (int)test_scaled(400000);
    static _Atomic int over;
    (void)arg;
    hg_collect(hg_current());
    uint64_t before = timers_now(), bytes = live_bytes();
    go(churn, &over);
    struct owner *kept = drop_many(n);
    CHECK(timers_now() - before >= (uint64_t)n / 1000);
    for (int i = 0; i < 3; i++)
        hg_collect(hg_current());
    hg_add_acqrel(&over, 1);
    wait_for(&over, 2);
    uint64_t left = timers_now() - before, want = ((uint64_t)n + 999) / 1000;
    CHECK(left >= want && left < want + 100);
    CHECK(live_bytes() < bytes + 200 * want + 100000);
    int in_list = 0;
    for (struct owner *o = kept; o != NULL; o = o->next, in_list++)
        CHECK(hg_timer_stop(&o->t));
    CHECK((uint64_t)in_list == want);
    CHECK(hg_load_acq(&fired) == 0);
    return 0;
}
ParameterizedTestParameters(timer_heap, forgotten) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, timer_heap, forgotten)
{
    cr_assert_eq(run_on(*procs, forgotten, NULL), 0);
}

/* Dropped and kept ones that are due soon, with cycles all the time: kept ones fire once, dropped
 * ones fire or do not, and none that fires has lost what it holds. */
static struct owner *new_due(struct hg_rand *rand)
{
    struct owner *o = new_owner(hg_in(hg_rand_below(rand, 400000)));
    uint64_t *what = hg_alloc(sizeof *what, HG_LEAF);
    *what = 77;
    hg_ref_store(&o->what, what);
    return o;
}
static int due_while_collecting(void *arg)
{
    struct hg_rand rand = {*(uint64_t *)arg};
    for (int round = 0; round < (int)test_scaled(40); round++) {
        struct owner *kept = NULL;
        for (int i = 0; i < 64; i++) {
            struct owner *o = new_due(&rand);
            hg_ref_store(&o->next, kept);
            kept = o;
            for (uint32_t k = hg_rand_below(&rand, 4); k > 0; k--)
                (void)new_due(&rand);
        }
        hg_sleep(hg_rand_below(&rand, 300000));
        for (struct owner *o = kept; o != NULL; o = o->next) {
            for (int64_t until = hg_in(20 * S); hg_timer_when(&o->t) != HG_FOREVER; hg_sleep(20000))
                CHECK(hg_now() < until);
            CHECK(!hg_timer_stop(&o->t) && hg_load_acq(&o->fired) == 1);
        }
    }
    return 0;
}
Test(timer_heap, due_while_collecting)
{
    uint64_t seed = test_seed("due_while_collecting");
    for (int procs = 1; procs <= 4; procs *= 2)
        cr_assert_eq(run_collecting(procs, due_while_collecting, &seed), 0);
}

/* An argument that nothing but the timer's own object holds, through its layout. */
static _Atomic(void *) got;
static void take_argument(hg_timer *t, void *arg)
{
    (void)t;
    CHECK(*(uint64_t *)arg == 99);
    hg_store_rel(&got, arg);
}
static int argument_lives(void *arg)
{
    (void)arg;
    for (int i = 0; i < 50; i++) {
        struct owner *o = hg_alloc(sizeof *o, &owner_layout);
        uint64_t *a = hg_alloc(sizeof *a, HG_LEAF);
        *a = 99;
        hg_timer_init(&o->t, take_argument, a);
        a = NULL;
        hg_store_rlx(&got, NULL);
        CHECK(hg_timer_reset(&o->t, hg_in(300000)) == 0);
        while (hg_load_acq(&got) == NULL)
            hg_collect(hg_current());
        hg_keep_alive(o);
    }
    return 0;
}
Test(timer_heap, its_argument_lives) { cr_assert_eq(run_collecting(2, argument_lives, NULL), 0); }
