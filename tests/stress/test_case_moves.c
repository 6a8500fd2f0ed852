/* test_case_moves.c: references that move while the collector marks, and references that are
 * nowhere but in registers or on one stack: cases G01, G02, G03.
 *
 * Every object carries its own number and its complement; swept memory is poisoned, and each
 * cycle's marking is verified by a second trace (options check and poison). So an object that was
 * freed too early is found by the verifier and by its reader.
 */
#include "tests/stress/test_case.h"
#include <errno.h>
#include <unistd.h>

#if defined(__GNUC__) && !defined(__clang__)
#define OPTIMISED __attribute__((noinline, optimize("O3", "omit-frame-pointer")))
#else
#define OPTIMISED __attribute__((noinline))
#endif

struct item {
    uint64_t number, complement;
};

static struct item *item_new(uint64_t number)
{
    struct item *it = hg_alloc(sizeof *it, HG_LEAF);
    it->number = number;
    it->complement = ~number;
    return it;
}

static void item_check(const struct item *it, const char *where)
{
    MUST(it == NULL || it->number == ~it->complement, "%s: object %p was freed while reachable",
         where, (const void *)it);
}

static hg_options checked(int procs, int stress)
{
    hg_options o = case_options(procs);
    o.check = true;
    o.poison = true;
    o.stress = stress;
    o.min_heap_bytes = CASE_MIB;
    return o;
}

static uint64_t cycles_now(void)
{
    hg_cycle last;
    return hg_stats_cycles(hg_current(), &last, 1) == 1 ? last.number : 0;
}

/* Fewer than n cycles have ended, and there is time for more. A busy machine may take it all. */
static bool more_cycles(uint64_t n, int64_t until) { return cycles_now() < n && hg_now() < until; }

/* ---- G01: moves by bulk copies, exchanges, compare-and-swap and struct assignment only ---- */

#define WIDTH 256u

struct pair { /* typed: both words are references */
    struct item *a, *b;
};
static const uint32_t pair_fields[] = {0, 8};
static const hg_layout pair_layout = HG_TYPED("pair", pair_fields);

struct moves {
    uint64_t seed, steps;
    int64_t until;
    struct item **shared; /* REFS, WIDTH */
    struct pair *pairs[2];
    hg_waitgroup done;
};

/* Opens a gap at the start of the array, as a dequeue's shift does, and closes it again with what
 * fell out at the end. */
static void shift(struct item **array, uint32_t n)
{
    struct item *last = __atomic_load_n(&array[n - 1], __ATOMIC_ACQUIRE);
    hg_refs_copy(array + 1, array, n - 1);
    item_check(last, "shift");
    hg_ref_store(&array[0], last);
}

static void exchange(struct item **x, struct item **y)
{
    struct item *old = hg_ref_swap(x, __atomic_load_n(y, __ATOMIC_ACQUIRE));
    item_check(old, "exchange");
    hg_ref_store(y, old);
}

static void move_once(struct hg_rand *r, struct moves *m, struct item **own)
{
    struct item **x = &m->shared[hg_rand_below(r, WIDTH)];
    struct item **y = &own[hg_rand_below(r, WIDTH)];
    uint32_t n = 1 + hg_rand_below(r, WIDTH / 2);
    struct item *old = __atomic_load_n(x, __ATOMIC_ACQUIRE);
    item_check(old, "load");
    switch (hg_rand_below(r, 8)) {
    case 0: /* out of the shared array; what lay there is overwritten at once */
        hg_refs_copy(own + hg_rand_below(r, WIDTH - n), m->shared + hg_rand_below(r, WIDTH - n), n);
        hg_ref_store(x, NULL);
        break;
    case 1: /* overlapping */
        hg_refs_copy(own + hg_rand_below(r, WIDTH - n), own + hg_rand_below(r, WIDTH - n), n);
        break;
    case 2:
        shift(own, n + 1);
        break;
    case 3:
        exchange(x, y);
        break;
    case 4:
        if (hg_ref_cas(x, old, __atomic_load_n(y, __ATOMIC_ACQUIRE)))
            hg_ref_store(y, old);
        break;
    case 5:
        hg_ref_store(&m->pairs[0]->a, old);
        hg_object_copy(m->pairs[1], m->pairs[0]);
        hg_ref_store(&m->pairs[0]->a, NULL);
        item_check(__atomic_load_n(&m->pairs[1]->a, __ATOMIC_ACQUIRE), "pair");
        break;
    case 6:
        hg_ref_store(x, NULL);
        break;
    default:
        hg_ref_store(y, item_new(hg_rand_next(r)));
        break;
    }
}

static void mover(void *arg)
{
    struct moves *m = arg;
    struct hg_rand r = {m->seed ^ hg_task_id() * UINT64_C(0x9e3779b97f4a7c15)};
    struct item **own = hg_alloc(WIDTH * sizeof *own, HG_REFS);
    for (uint64_t i = 0; i < m->steps || i % 64 != 0 || more_cycles(20, m->until); i++) {
        move_once(&r, m, own);
        if (i % 64 == 0) {
            hg_collect_start(hg_current()); /* marks nearly all the time */
            hg_yield();
        }
    }
    for (uint32_t i = 0; i < WIDTH; i++)
        item_check(own[i], "own");
    hg_waitgroup_done(&m->done);
}

static int moves_main(void *arg)
{
    struct moves m = *(struct moves *)arg;
    m.until = hg_in(5 * CASE_SEC);
    enum { MOVERS = 4 };
    m.shared = hg_alloc(WIDTH * sizeof *m.shared, HG_REFS);
    m.pairs[0] = hg_alloc(sizeof(struct pair), &pair_layout);
    m.pairs[1] = hg_alloc(sizeof(struct pair), &pair_layout);
    hg_waitgroup_add(&m.done, MOVERS);
    for (int i = 0; i < MOVERS; i++)
        case_go(mover, &m);
    hg_waitgroup_wait(&m.done, HG_FOREVER);
    for (uint32_t i = 0; i < WIDTH; i++)
        item_check(m.shared[i], "shared");
    MUST(cycles_now() >= 5, "only %lu cycles ran", (unsigned long)cycles_now());
    return CASE_DONE;
}

static void g01(int procs)
{
    struct moves m = {.seed = test_seed("case_moves/g01"), .steps = test_scaled(250000)};
    hg_options o = checked(procs, 0);
    case_run(moves_main, &m, &o);
}

TestSuite(case_moves, .timeout = 60);

Test(case_moves, g01_copies_need_their_barrier) { g01(1); }
Test(case_moves, g01_copies_need_their_barrier_two_procs) { g01(2); }

/* ---- G02: six locals over an allocation, in whatever registers the compiler likes ---- */

/* Overwrites what calls that have returned left below the caller's frame. */
static __attribute__((noinline)) void wipe_dead_stack(void)
{
    volatile char dead[4096];
    for (size_t i = 0; i < sizeof dead; i++)
        dead[i] = 0;
}

/* 2 KiB objects: every few of them take the slow path, where a stress cycle begins. */
static inline __attribute__((always_inline)) void churn(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        hg_keep_alive(hg_alloc(2048, HG_LEAF));
}

/* Until a whole cycle, from its beginning to the end of its marking, has run. Inlined, so that it
 * is hg_alloc that finds the caller's registers as the caller uses them. */
static inline __attribute__((always_inline)) void churn_over_a_cycle(void)
{
    for (uint64_t after = cycles_now() + 2; cycles_now() < after;)
        churn(8);
}

static OPTIMISED uint64_t six_locals(uint64_t n)
{
    struct item *a = item_new(n), *b = item_new(n + 1), *c = item_new(n + 2);
    struct item *d = item_new(n + 3), *e = item_new(n + 4), *f = item_new(n + 5);
    wipe_dead_stack();
    churn_over_a_cycle();
    MUST(a->number == n && b->number == n + 1 && c->number == n + 2 && d->number == n + 3 &&
             e->number == n + 4 && f->number == n + 5,
         "an object that only a register held was freed (round %lu)", (unsigned long)n);
    churn_over_a_cycle();
    return a->complement + b->complement + c->complement + d->complement + e->complement +
           f->complement;
}

/* The loop needs only addresses inside the arrays: no register holds a start. */
static OPTIMISED uint64_t inner_addresses(uint64_t n)
{
    uint64_t *p = hg_alloc(32 * sizeof *p, HG_LEAF), *q = hg_alloc(32 * sizeof *q, HG_LEAF);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < 32; i++)
        p[i] = q[i] = n + i;
    p += 3;
    q += 7;
    __asm__ volatile("" : "+r"(p), "+r"(q)); /* their origin is forgotten */
    wipe_dead_stack();
    for (uint64_t i = 0; i < 16; i++) {
        if (i % 8 == 0)
            churn_over_a_cycle();
        sum += *p++ - n - 3 + (*q++ - n - 7);
    }
    return sum;
}

static OPTIMISED uint64_t nested(uint64_t n, unsigned depth)
{
    struct item *a = item_new(n), *b = item_new(n + 1);
    uint64_t below = depth > 0 ? nested(n + 2, depth - 1) : six_locals(n);
    MUST(a->number == n && b->number == n + 1, "an object in a frame was freed");
    return below + a->number;
}

static int locals_main(void *arg)
{
    uint64_t rounds = *(uint64_t *)arg, done = 0;
    for (int64_t until = hg_in(3 * CASE_SEC); done < rounds && hg_now() < until; done++) {
        uint64_t n = done * 16;
        MUST(six_locals(n) == 0 - 6 * n - 21, "six_locals: a wrong sum");
        MUST(inner_addresses(n) == 240, "inner_addresses: an array was freed");
        nested(n, 20);
    }
    MUST(done > 0, "no round ran");
    return CASE_DONE;
}

static void g02(int procs)
{
    uint64_t rounds = test_scaled(50);
    hg_options o = checked(procs, 1);
    case_run(locals_main, &rounds, &o);
}

Test(case_moves, g02_references_in_registers) { g02(1); }
Test(case_moves, g02_references_in_registers_two_procs) { g02(2); }

/* ---- G03: the only reference is on a parked stack, or in a root on the native stack ---- */

enum { IN_RECEIVE, IN_SLEEP, IN_MUTEX, IN_GROUP, IN_SELECT, IN_REGION, PLACES };

struct places {
    hg_chan *never;
    hg_mutex mutex;
    hg_waitgroup released, done;
    int64_t until;
};
struct place {
    struct places *all;
    int kind;
    unsigned depth;
};

static void wait_there(struct places *all, int kind)
{
    hg_case one = {.chan = all->never};
    switch (kind) {
    case IN_RECEIVE:
        hg_chan_recv(all->never, NULL, HG_FOREVER);
        break;
    case IN_SLEEP:
        hg_sleep_until(all->until);
        break;
    case IN_MUTEX:
        hg_mutex_lock(&all->mutex);
        hg_mutex_unlock(&all->mutex);
        break;
    case IN_GROUP:
        hg_waitgroup_wait(&all->released, HG_FOREVER);
        break;
    case IN_SELECT:
        hg_select(&one, 1, HG_FOREVER);
        break;
    default:
        hg_block_enter();
        usleep(300000);
        hg_block_leave();
        break;
    }
}

static __attribute__((noinline)) void hold(struct places *all, int kind, unsigned depth)
{
    struct item *mine = item_new(depth);
    if (depth > 0)
        hold(all, kind, depth - 1);
    else
        wait_there(all, kind);
    MUST(mine->number == depth && mine->complement == ~(uint64_t)depth,
         "an object on the stack of a parked task (kind %d, depth %u) was freed", kind, depth);
}

static int holder(void *arg)
{
    const struct place *p = arg; /* the copy on this task's stack */
    hold(p->all, p->kind, p->depth);
    hg_waitgroup_done(&p->all->done);
    return 0;
}

static int places_main(void *arg)
{
    struct places all = {.until = hg_in(300 * CASE_MS)};
    (void)arg;
    MUST(hg_chan_new(0, 0, HG_LEAF, &all.never) == 0, "hg_chan_new");
    hg_waitgroup_add(&all.released, 1);
    hg_mutex_lock(&all.mutex);
    for (int kind = 0; kind < PLACES; kind++)
        for (unsigned depth = 0; depth < 400; depth += 57) {
            struct place p = {&all, kind, depth};
            hg_waitgroup_add(&all.done, 1);
            hg_task_attr attr = {
                .size = sizeof attr, .stack_bytes = 512 << 10, .copy_bytes = sizeof p};
            MUST(hg_go_with(&attr, holder, &p, NULL) == 0, "hg_go_with");
        }
    hg_sleep(20 * CASE_MS);
    for (int i = 0; i < 10; i++) {
        hg_collect(hg_current());
        churn(500); /* takes the memory of what was freed */
    }
    hg_chan_close(all.never);
    hg_mutex_unlock(&all.mutex);
    hg_waitgroup_done(&all.released);
    hg_waitgroup_wait(&all.done, HG_FOREVER);
    return CASE_DONE;
}

Test(case_moves, g03_references_on_parked_stacks)
{
    for (int procs = 1; procs <= 2; procs++) {
        hg_options o = checked(procs, 0);
        case_run(places_main, NULL, &o);
    }
}

static void fill_root(void *slot) { hg_ref_store(slot, item_new(41)); }

/* The stack of the thread that opened the runtime is no root, but what it registers is one. */
Test(case_moves, g03_root_on_the_native_stack)
{
    struct item *slot = NULL;
    hg_runtime *rt;
    hg_options o = checked(2, 0);
    cr_assert_eq(hg_runtime_open(&o, &rt), 0);
    cr_assert_eq(hg_root_add(rt, &slot, 1, HG_REFS), 0);
    cr_assert_eq(hg_post(rt, fill_root, &slot), 0);
    while (__atomic_load_n(&slot, __ATOMIC_ACQUIRE) == NULL)
        usleep(1000);
    for (int i = 0; i < 5; i++)
        hg_collect(rt);
    cr_assert_eq(slot->number, 41);
    cr_assert_eq(slot->complement, ~UINT64_C(41));
    hg_stats st = {.size = sizeof st};
    hg_stats_read(rt, &st);
    cr_assert_geq(st.heap_marked_bytes, sizeof *slot);
    cr_assert_eq(hg_root_remove(rt, &slot), 0);
    cr_assert_eq(hg_root_remove(rt, &slot), -ENOENT);
    hg_collect(rt);
    hg_stats_read(rt, &st);
    cr_assert_eq(st.heap_marked_bytes, 0, "%lu bytes stay alive without a root",
                 (unsigned long)st.heap_marked_bytes);
    while (hg_runtime_close(rt) == -EBUSY)
        usleep(1000);
}
