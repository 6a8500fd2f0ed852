/* test_alloc_model.c: random work of several simulated mutators through many cycles, against a
 * shadow table of what must be allocated.
 *
 * A mutator allocates, fills each object with a pattern of its own, checks patterns, sweeps, gives
 * its cache back early, and answers the driver's requests when it gets to it. The driver walks
 * cycles as the collector does: SCAN (stash, black; the mutator names the objects it keeps), marks
 * the kept ones beside the mutators, opens a generation, RESET (release, white), sweeps, and now
 * and then holds all mutators and compares the heap with their shadow tables and its own equations.
 *
 * What is found wrong: a slot given out twice or swept while kept (pattern), a stray mark (a white
 * object that is marked when it is born), a black object without a mark, an object that lives on, a
 * counter that drifts.
 *
 * Both tests run the same steps: one in one thread, in a random order that the seed repeats; one
 * with a thread per mutator.
 */
#include "tests/unit/test_alloc.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { MUTATORS = 4, OBJECTS = 6000, LAYOUT_ID = 1234 };
enum request { NONE, SCAN, RESET, PAUSE };

struct object {
    uintptr_t p;
    size_t size;
    uint64_t pattern;
};

struct world;

/* Owner: its thread; `answered` hands the tables over to the driver while it is held. */
struct mutator {
    struct world *world;
    struct hg_cache cache;
    struct hg_rand rand;
    bool black;
    uint32_t gen;
    uint64_t serial;
    struct object object[OBJECTS]; /* the shadow table */
    size_t n, kept;                /* objects 0..kept-1 are to be marked by the driver */
    struct hg_span *pending;       /* a large object that is not published yet */
    size_t pending_size;
    _Atomic uint32_t answered; /* the last order answered (release) */
};

enum phase { IDLE, SCANNING, MARKING, RESETTING, SWEEPING, HOLDING };

struct world {
    struct test_heap t;
    struct mutator *mutator[MUTATORS];
    _Atomic uint32_t order; /* number * 4 + request; writer: the driver (release) */
    struct hg_rand rand;    /* the driver's */
    enum phase phase;
    unsigned cycle, cycles;
    size_t mark_mutator, mark_object;
    _Atomic bool stop;
};

/* ---- mutators ---- */

static void fill(const struct object *o)
{
    for (size_t i = 0; i < o->size / 8; i++)
        ((uint64_t *)o->p)[i] = o->pattern + i;
}

static void check_pattern(const struct object *o)
{
    for (size_t i = 0; i < o->size / 8; i++)
        HG_CHECK(((uint64_t *)o->p)[i] == o->pattern + i,
                 "object %p of %zu bytes: word %zu is not its own", (void *)o->p, o->size, i);
}

static void add_object(struct mutator *m, uintptr_t p, size_t size)
{
    struct hg_heap *h = m->world->t.heap;
    struct object *o = &m->object[m->n++];
    *o = (struct object){p, size, (m->serial++ << 20) ^ (uint64_t)(uintptr_t)m};
    HG_CHECK(p % HG_GRAIN == 0, "object %p is not aligned", (void *)p);
    HG_CHECK(hg__is_marked(h, p) == m->black, "object %p is born with a wrong mark", (void *)p);
    struct hg_object found = hg__find(h, p + size - 1);
    HG_CHECK(found.base == p && hg__object_size(h, &found) >= size,
             "object %p of %zu bytes is not found by its last", (void *)p, size);
    HG_CHECK(hg__slot_allocated(hg__span_of(h, p), found.index), "object %p is not allocated",
             (void *)p);
    HG_CHECK(hg__desc_kind(found.desc) != HG_SPAN_DESCRIBED ||
                 hg__object_layout(&found) == LAYOUT_ID,
             "object %p: another layout", (void *)p);
    fill(o);
}

/* Small sizes most; a multiple of 8, for the pattern. */
static size_t random_size(struct hg_rand *r)
{
    uint32_t words = (uint32_t)1 << (2 + hg_rand_below(r, 11)); /* 4 .. 4096 */
    return 8 * (1 + (size_t)hg_rand_below(r, words));
}

static void allocate(struct mutator *m)
{
    size_t size = random_size(&m->rand);
    enum hg_span_kind kind = (enum hg_span_kind)hg_rand_below(&m->rand, HG_SPAN_KINDS);
    for (uint32_t n = 1 + hg_rand_below(&m->rand, 80); n > 0 && m->n < OBJECTS; n--) {
        uintptr_t p =
            test_alloc_slot(&m->cache, test_class(size, kind), m->black, m->gen, LAYOUT_ID);
        HG_CHECK(p != 0, "out of memory");
        add_object(m, p, size);
    }
}

/* A large object is made in one step and published in a later one, perhaps of another generation.
 * */
static void allocate_large(struct mutator *m)
{
    struct hg_heap *h = m->world->t.heap;
    if (m->pending == NULL) {
        enum hg_span_kind kind = (enum hg_span_kind)hg_rand_below(&m->rand, HG_SPAN_KINDS);
        m->pending_size = hg_round_up(HG_SMALL_MAX + 1 + hg_rand_below(&m->rand, 300000), 8);
        m->pending = hg__large_alloc(h, m->pending_size, kind, LAYOUT_ID, m->gen);
        HG_CHECK(m->pending != NULL, "out of memory");
        if (m->pending->needs_zero)
            memset((void *)m->pending->start, 0, m->pending->bytes);
        for (size_t i = 0; i < m->pending->bytes / 8; i++)
            HG_CHECK(((uint64_t *)m->pending->start)[i] == 0, "fresh pages are not zero");
        HG_CHECK(hg__find(h, m->pending->start).base == 0, "an unpublished object is visible");
    } else if (m->n < OBJECTS) {
        m->pending->gen = m->gen;
        hg__large_publish(h, m->pending, m->black);
        uintptr_t p = m->pending->start;
        m->pending = NULL;
        add_object(m, p, m->pending_size);
    }
}

/* SCAN: forgets a random part of its objects; the rest is what the driver marks. */
static void scan(struct mutator *m)
{
    uint32_t share = hg_rand_below(&m->rand, 101);
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++)
        if (hg_rand_below(&m->rand, 100) < share)
            m->object[n++] = m->object[i];
    m->n = m->kept = n;
    hg__cache_stash(&m->cache);
    m->black = true;
}

static void answer(struct mutator *m, uint32_t order)
{
    if (order % 4 == SCAN) {
        scan(m);
    } else if (order % 4 == RESET) {
        hg__cache_release(&m->cache, m->black);
        m->black = false;
        m->gen = test_gen(m->world->t.heap);
    }
    hg_store_rel(&m->answered, order);
}

/* One step of a mutator; false: it is held. */
static bool mutator_step(struct mutator *m)
{
    struct world *w = m->world;
    uint32_t order = hg_load_acq(&w->order), what = hg_rand_below(&m->rand, 100);
    if (hg_load_rlx(&m->answered) != order && what % 2 == 0)
        answer(m, order); /* or it goes on for a while as it was */
    if (hg_load_rlx(&m->answered) == order && order % 4 == PAUSE)
        return false;
    if (what < 80)
        allocate(m);
    else if (what < 84)
        allocate_large(m);
    else if (what < 94 && m->n > 0)
        check_pattern(&m->object[hg_rand_below(&m->rand, (uint32_t)m->n)]);
    else if (what < 97)
        hg__sweep_some(w->t.heap, 1 + hg_rand_below(&m->rand, 40));
    else if (what < 98)
        hg__cache_release(&m->cache, m->black);
    return true;
}

/* ---- the driver ---- */

static void ask(struct world *w, enum request request, enum phase phase)
{
    hg_store_rel(&w->order, (hg_load_rlx(&w->order) / 4 + 1) * 4 + (uint32_t)request);
    w->phase = phase;
}

static bool all_answered(const struct world *w)
{
    for (int i = 0; i < MUTATORS; i++)
        if (hg_load_acq(&w->mutator[i]->answered) != hg_load_rlx(&w->order))
            return false;
    return true;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

struct found {
    uintptr_t *p;
    size_t n, max;
};

static void note_object(void *arg, uintptr_t p, const struct hg_span *s)
{
    struct found *f = arg;
    (void)s;
    HG_CHECK(f->n < f->max, "the heap has more objects than %zu", f->max);
    f->p[f->n++] = p;
}

/* All mutators are held, white, and everything is swept: what is allocated is what they know. */
static void compare(struct world *w)
{
    struct hg_heap *h = w->t.heap;
    struct found f = {NULL, 0, 0};
    size_t n = 0;
    for (int i = 0; i < MUTATORS; i++)
        f.max += w->mutator[i]->n;
    uintptr_t *known = malloc((f.max + 1) * sizeof *known);
    f.p = malloc((f.max + 1) * sizeof *f.p);
    for (int i = 0; i < MUTATORS; i++)
        for (size_t k = 0; k < w->mutator[i]->n; k++) {
            check_pattern(&w->mutator[i]->object[k]);
            known[n++] = w->mutator[i]->object[k].p;
        }
    hg__heap_verify(h);
    hg__heap_each(h, note_object, &f);
    HG_CHECK(f.n == n, "%zu objects are allocated, %zu known", f.n, n);
    qsort(known, n, sizeof *known, by_address); /* the walk goes by address already */
    for (size_t i = 0; i < n; i++)
        HG_CHECK(known[i] == f.p[i], "object %zu differs", i);
    HG_CHECK(test_marks(h) == 0, "marks are left after the sweep");
    free(known);
    free(f.p);
}

static void mark_some(struct world *w)
{
    for (unsigned n = 0; n < 200; n++) {
        struct mutator *m = w->mutator[w->mark_mutator];
        if (w->mark_object < m->kept) {
            hg__set_mark(w->t.heap, m->object[w->mark_object++].p);
        } else if (w->mark_mutator + 1 < MUTATORS) {
            w->mark_mutator++;
            w->mark_object = 0;
        } else {
            test_next_generation(w->t.heap);
            ask(w, RESET, RESETTING);
            return;
        }
    }
}

/* One step of the driver; false: all cycles are done. */
static bool driver_step(struct world *w)
{
    struct hg_heap *h = w->t.heap;
    if (!all_answered(w))
        return true;
    switch (w->phase) {
    case IDLE:
        w->mark_mutator = w->mark_object = 0;
        if (hg_rand_below(&w->rand, 50) == 0)
            ask(w, SCAN, SCANNING);
        break;
    case SCANNING:
        w->phase = MARKING;
        break;
    case MARKING:
        mark_some(w);
        break;
    case RESETTING:
        w->phase = SWEEPING;
        break;
    case SWEEPING:
        hg__sweep_some(h, hg_rand_below(&w->rand, 30));
        if (hg_rand_below(&w->rand, 20) == 0)
            hg__scavenge(h, hg_rand_below(&w->rand, 1 << 22));
        if (hg__sweep_done(h))
            ask(w, PAUSE, HOLDING);
        break;
    case HOLDING:
        compare(w);
        if (++w->cycle == w->cycles)
            return false;
        ask(w, NONE, IDLE);
        break;
    }
    return true;
}

/* ---- the two tests ---- */

static struct world *open_world(const char *test, unsigned cycles)
{
    struct world *w = calloc(1, sizeof *w);
    uint64_t seed = test_seed(test);
    w->rand.state = seed;
    w->t = test_heap_open((size_t)4 << 30, hg_rand_below(&w->rand, 2) == 0);
    w->cycles = cycles;
    for (int i = 0; i < MUTATORS; i++) {
        struct mutator *m = w->mutator[i] = aligned_alloc(64, hg_round_up(sizeof *m, 64));
        memset(m, 0, sizeof *m);
        m->world = w;
        m->rand.state = seed + 1 + (uint64_t)i;
        m->gen = test_gen(w->t.heap);
        hg__cache_init(&m->cache, w->t.heap);
    }
    return w;
}

static void close_world(struct world *w)
{
    for (int i = 0; i < MUTATORS; i++)
        free(w->mutator[i]);
    test_heap_close(&w->t);
    free(w);
}

TestSuite(alloc_model, .timeout = 110);

Test(alloc_model, one_thread_in_random_order)
{
    struct world *w = open_world("one_thread_in_random_order", (unsigned)test_scaled(50));
    struct hg_rand order = {w->rand.state + 99};
    do {
        for (uint32_t n = hg_rand_below(&order, 6); n > 0; n--)
            mutator_step(w->mutator[hg_rand_below(&order, MUTATORS)]);
    } while (driver_step(w));
    close_world(w);
}

static void *mutator_thread(void *arg)
{
    struct mutator *m = arg;
    while (!hg_load_acq(&m->world->stop))
        if (!mutator_step(m))
            sched_yield();
    return NULL;
}

Test(alloc_model, a_thread_for_each_mutator)
{
    struct world *w = open_world("a_thread_for_each_mutator", (unsigned)test_scaled(40));
    pthread_t t[MUTATORS];
    for (int i = 0; i < MUTATORS; i++)
        cr_assert_eq(pthread_create(&t[i], NULL, mutator_thread, w->mutator[i]), 0);
    while (driver_step(w))
        if (!all_answered(w))
            sched_yield();
    hg_store_rel(&w->stop, true);
    for (int i = 0; i < MUTATORS; i++)
        pthread_join(t[i], NULL);
    close_world(w);
}
