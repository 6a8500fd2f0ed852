/* counter.c: counters and gauges with a cell per proc.
 *
 * A block holds the cells of LANES counters: a row per proc, one cache line wide, and a row that
 * all other threads share. So a proc's additions stay in its own lines, and a counter takes eight
 * bytes per proc and not a line.
 *
 * Invariants
 *   C1  a row's cells are written by the proc they belong to, without read-modify-write
 *       (hg_own_add). There is no safepoint between finding the row and the store, so the task
 *       cannot have moved to another proc; and while the driver answers for a proc, or a thread is
 *       in a blocking region, it has no current mutator and uses the shared row
 *   C2  value = sum of all rows, modulo 2^64. Each addition touches one cell once: a sum that is
 *       read meanwhile has it or not
 *   C3  a gauge is set by adding what is missing to the shared row, under the lock: sets come one
 *       after the other; an addition that the sum has not seen counts as after it
 *
 * Order: relaxed. A counter guards no other memory; a cell is 8 bytes and aligned, so it is never
 * seen half written, on machines of 32 bits too.
 *
 * Rejected: a line per proc for each counter (a thousand counters on 64 procs: 4 MB); one shared
 * atomic word (bench/micro/counter.c); adding to a random cell, which still needs an atomic
 * addition.
 */
#include "runtime/sync/counter.h"
#include "base/assert.h"
#include <errno.h>
#include <string.h>

#define LANES 8u /* counters in a block: cells in a line */
#define NAME  64u

struct hg_counter_block {
    struct hg_counter_block *next; /* COUNTERS */
    uint32_t used;                 /* bit i: lane i is taken; COUNTERS */
    /* Row r at LANES * r: procs of them, then the shared one. C1. */
    _Alignas(64) _Atomic uint64_t cell[];
};
_Static_assert(_Alignof(_Atomic uint64_t) == 8, "a cell must not lie across two lines");
_Static_assert(offsetof(struct hg_counter_block, cell) % 64 == 0, "a row is a line");
_Static_assert(LANES * sizeof(_Atomic uint64_t) == 64, "a row is a line");

struct hg_counter {
    struct hg_counters *all; /* constant, as all that follows but for next */
    struct hg_world *world;
    _Atomic uint64_t *cell; /* of proc 0; the next proc's is LANES further */
    struct hg_counter_block *block;
    uint32_t procs;
    hg_metric_kind kind;
    struct hg_counter *next; /* COUNTERS */
    char name[NAME];
};

struct hg_gauge {
    struct hg_counter level;
};

hg_gauge *hg__gauge_of(struct hg_counter *c) { return (hg_gauge *)(void *)c; }

/* ---- adding, reading ---- */

void hg_counter_add(hg_counter *c, int64_t n)
{
    struct hg_mutator *m = hg__tls_mutator; /* C1: nothing here switches */
    if (hg_likely(m != NULL && m->world == c->world)) {
        HG_ASSERT(m->id < c->procs);
        hg_own_add(c->cell + LANES * m->id, (uint64_t)n);
    } else {
        hg_add_rlx(c->cell + LANES * c->procs, (uint64_t)n);
    }
}

int64_t hg_counter_read(const hg_counter *c)
{
    uint64_t sum = 0;
    for (uint32_t r = 0; r <= c->procs; r++)
        sum += hg_load_rlx(c->cell + LANES * r);
    return (int64_t)sum;
}

void hg_gauge_add(hg_gauge *g, int64_t n) { hg_counter_add(&g->level, n); }

int64_t hg_gauge_read(const hg_gauge *g) { return hg_counter_read(&g->level); }

void hg_gauge_set(hg_gauge *g, int64_t value)
{
    struct hg_counter *c = &g->level;
    hg__lock(&c->all->lock);
    uint64_t missing = (uint64_t)value - (uint64_t)hg_counter_read(c);
    hg_add_rlx(c->cell + LANES * c->procs, missing); /* C3 */
    hg__unlock(&c->all->lock);
}

/* ---- life ---- */

void hg__counters_init(struct hg_counters *c, struct hg_world *w, int procs)
{
    c->world = w;
    c->procs = (uint32_t)procs;
    hg__lock_init(&c->lock, HG_RANK_COUNTERS);
}

static bool name_is_valid(const char *name)
{
    size_t n = strnlen(name, NAME);
    if (n == 0 || n == NAME)
        return false;
    for (size_t i = 0; i < n; i++)
        if (name[i] <= ' ' || name[i] > '~')
            return false;
    return true;
}

static size_t block_bytes(const struct hg_counters *c)
{
    return sizeof(struct hg_counter_block) + (c->procs + 1) * LANES * sizeof(_Atomic uint64_t);
}

/* Takes a lane of a block, a new one where all are full. False: no memory. */
static bool take_lane_locked(struct hg_counters *all, struct hg_counter *c)
{
    struct hg_counter_block *b = all->blocks;
    while (b != NULL && b->used == (1u << LANES) - 1)
        b = b->next;
    if (b == NULL) {
        b = hg__meta_alloc(all->world->meta, block_bytes(all));
        if (b == NULL)
            return false;
        b->next = all->blocks;
        all->blocks = b;
    }
    unsigned lane = (unsigned)__builtin_ctz(~b->used);
    b->used |= 1u << lane;
    c->block = b;
    c->cell = b->cell + lane;
    return true;
}

static bool is_taken_locked(const struct hg_counters *all, const char *name)
{
    for (const struct hg_counter *c = all->first; c != NULL; c = c->next)
        if (strcmp(c->name, name) == 0)
            return true;
    return false;
}

struct making {
    struct hg_counters *all;
    const char *name;
    hg_metric_kind kind;
    struct hg_counter *c;
    int err;
};

static int enter_locked(struct hg_counters *all, struct hg_counter *c)
{
    HG_ASSERT_HELD(&all->lock);
    if (is_taken_locked(all, c->name))
        return -EEXIST;
    if (!take_lane_locked(all, c))
        return -ENOMEM;
    if (all->last != NULL)
        all->last->next = c;
    else
        all->first = c;
    all->last = c;
    return 0;
}

/* A hg_ctx_fn. */
static void *make_counter(void *m, void *arg)
{
    struct making *x = arg;
    struct hg_meta *meta = x->all->world->meta;
    struct hg_counter *c = hg__meta_alloc(meta, sizeof(struct hg_gauge));
    (void)m;
    x->err = -ENOMEM;
    if (c == NULL)
        return NULL;
    c->all = x->all;
    c->world = x->all->world;
    c->procs = x->all->procs;
    c->kind = x->kind;
    memcpy(c->name, x->name, strlen(x->name) + 1);
    hg__lock(&x->all->lock);
    x->err = enter_locked(x->all, c);
    hg__unlock(&x->all->lock);
    if (x->err != 0)
        hg__meta_free(meta, c, sizeof(struct hg_gauge));
    x->c = c;
    return NULL;
}

int hg__counter_new(struct hg_counters *all, const char *name, hg_metric_kind kind,
                    struct hg_counter **out)
{
    if (!name_is_valid(name))
        return -EINVAL;
    struct making x = {all, name, kind, NULL, 0};
    hg__on_deep_stack(hg__self(), make_counter, &x);
    if (x.err == 0)
        *out = x.c;
    return x.err;
}

/* A hg_ctx_fn. The lane begins at 0 for the next counter. */
static void *free_counter(void *m, void *arg)
{
    struct hg_counter *c = arg, *before = NULL;
    struct hg_counters *all = c->all;
    (void)m;
    hg__lock(&all->lock);
    for (struct hg_counter *k = all->first; k != c; k = k->next)
        before = k;
    if (before != NULL)
        before->next = c->next;
    else
        all->first = c->next;
    if (all->last == c)
        all->last = before;
    for (uint32_t r = 0; r <= c->procs; r++)
        hg_store_rlx(c->cell + LANES * r, UINT64_C(0));
    c->block->used &= ~(1u << (unsigned)(c->cell - c->block->cell));
    hg__unlock(&all->lock);
    hg__meta_free(all->world->meta, c, sizeof(struct hg_gauge));
    return NULL;
}

void hg_counter_free(hg_counter *c)
{
    if (c != NULL)
        hg__on_deep_stack(hg__self(), free_counter, c);
}

void hg_gauge_free(hg_gauge *g) { hg_counter_free(g != NULL ? &g->level : NULL); }

/* ---- all of them ---- */

void hg__counters_each(struct hg_counters *all, bool (*fn)(void *arg, const hg_metric *m),
                       void *arg)
{
    bool more = true;
    hg__lock(&all->lock);
    for (struct hg_counter *c = all->first; c != NULL && more; c = c->next) {
        hg_metric m = {c->name, NULL, c->kind, hg_counter_read(c)};
        more = fn(arg, &m);
    }
    hg__unlock(&all->lock);
}
