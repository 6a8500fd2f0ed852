/* objpool.c: pools of heap objects: a cache per proc, a victim generation, two bounds.
 *
 *   cache   of one proc: one object in `fast`; then a stack, `now`; and the victims, `old`
 *   turn    before each collection, by the driver: what is in `old` is dropped, `now` and `fast`
 *           become `old`
 *
 * A get looks at the own fast slot, the own stack, the fast slots and stacks of the others, then
 * the own victims and those of the others; then it calls make. Victims come last, so that under a
 * load that needs fewer objects than there are some of them stay behind and go (after Go's
 * sync.Pool, which has private, shared and victim in this order; its shared lists are lock-free
 * queues).
 *
 * Invariants
 *   P1  only a cache's owner, the proc it belongs to, makes `fast` non-zero, and only from zero.
 *       Anyone may take what is there, by compare-and-swap. So `fast_bytes`, the owner's own note,
 *       is the size of what is in `fast` whenever the owner takes it from there.
 *   P2  left + sum of room + sum of the sizes of all cached objects = budget. `room` is what a proc
 *       has drawn from `left` ahead of use, at most 2 * chunk at the end of a call; who takes an
 *       object out of a foreign cache, and the driver, give to `left`.
 *   P3  an object is in the pool at most once, or two users would get it: the caller's promise,
 *       audited in hostile builds for the putting proc's own cache.
 *
 * Why references here are safe under the on-the-fly collector. The caches lie outside of the heap;
 * their words are roots like global ones (the table in gc/roots.c), with these rules:
 *   R1  A put and a get have no safepoint between their look at the phase and their access to the
 *       slot. So one that saw OFF is over when its proc answers the first NOP of the next cycle.
 *   R2  The driver greys every slot after the second NOP and before SCAN, each cache under its
 *       lock. A get that saw OFF took its object before that: the object is on a stack that is not
 *       scanned yet. A put that saw OFF stored it before that: the driver sees it.
 *   R3  A put from ROOTS on shades the object before it stores it. In ROOTS that is needed, as the
 *       putting mutator may be white and forget the object before its SCAN, with the driver's look
 *       at the slot over. Later its mutator is black, and the object is marked, or the snapshot's:
 *       then shading finds the mark set, or sets it early.
 *   R4  A get from ROOTS on shades the object before it takes it out: it may have been put by a
 *       mutator whose stack is not scanned, and goes to a stack that is (a value that moves between
 *       stacks outside of the heap), and the slot forgets it (a deletion).
 *   R5  Objects are dropped in OFF, before the cycle's first handshake: nothing is marked, there is
 *       no snapshot, and a get that races with the turn has the object or has it not, by the lock
 *       or the swap. From there on the dropped object is garbage like any other.
 * Shading comes before the change of the slot, so one clean round ends marking as for any store
 * (mut/barrier.c).
 *
 * Locks: a cache's, of rank POOL, guards its two stacks; nobody holds two. The driver takes it
 * under ROOTS. No heap allocation under it; growing a stack takes META.
 *
 * Order: `fast` is stored with release and taken with acq_rel: who gets an object sees what its
 * last user wrote. The stacks are ordered by the lock. The owner's counters are its own
 * (hg_own_add).
 *
 * Rejected: scanning the caches in the SCAN callback of their procs, which would hold mutators for
 * a time that grows with the pools and protect nothing more; a handshake for the turn, for the same
 * reason; linking cached objects through their own memory, which belongs to the user and may be a
 * leaf's; one budget counter for all procs, whose cache line would be in every put and get.
 */
#include "runtime/sync/objpool.h"
#include "runtime/sync/wait.h"
#include <errno.h>
#include <string.h>

#define STACK_ROOM 32u /* words of a stack's first array */

struct stack {
    uintptr_t *word; /* references */
    uint32_t n, room;
    size_t bytes; /* sizes of those n objects */
};

struct cache {
    _Alignas(64) _Atomic uintptr_t fast; /* P1 */
    _Atomic size_t fast_bytes;           /* writer: owner; readers: it, and statistics */
    int64_t room;                        /* owner; P2 */
    /* Writer: the owner (hg_own_add); readers: hg_objpool_stats_read. */
    _Atomic uint64_t gets, misses, steals, victims, made, puts, too_large, over_budget;

    _Alignas(64) struct hg_lock lock; /* POOL */
    struct stack now, old;            /* lock */
    /* Objects in the two stacks. Writers: under the lock; readers: anyone, a hint. */
    _Atomic uint32_t held;
};

struct hg_objpool {
    struct hg_root_holder holder; /* first */
    struct hg_gc *gc;
    size_t max_object_bytes, budget_bytes; /* constant */
    int64_t chunk;                         /* constant: how much `room` is drawn at once */
    void *(*make)(void *arg);
    void *arg;
    uint32_t procs;
    /* P2. Writers: anyone (add, cas). Relaxed: it guards no other memory. */
    _Alignas(64) _Atomic int64_t left;
    _Atomic uint64_t expired; /* writer: driver */
    struct cache cache[];
};

static inline struct hg_heap *heap_of(const hg_objpool *p) { return p->gc->world->heap; }

static size_t size_of(const hg_objpool *p, uintptr_t obj)
{
    struct hg_object o = hg__find(heap_of(p), obj);
    return hg__object_size(heap_of(p), &o);
}

static inline struct cache *cache_of(hg_objpool *p, const struct hg_mutator *m, const char *what)
{
    HG_CHECK(m != NULL && m->stack != NULL, "%s: called outside of a task", what);
    HG_CHECK(m->world == p->gc->world, "%s: the pool belongs to another runtime", what);
    return &p->cache[m->id];
}

/* ---- budget (P2) ---- */

static void give(hg_objpool *p, int64_t bytes) { hg_add_rlx(&p->left, bytes); }

/* The owner of c has bytes more that it does not use. */
static inline void credit(hg_objpool *p, struct cache *c, size_t bytes)
{
    c->room += (int64_t)bytes;
    if (hg_unlikely(c->room > 2 * p->chunk)) {
        give(p, c->room - p->chunk);
        c->room = p->chunk;
    }
}

/* Draws what is missing for `bytes`, and up to a chunk. */
static __attribute__((noinline)) bool draw(hg_objpool *p, struct cache *c, int64_t bytes)
{
    int64_t missing = bytes - c->room, left = hg_load_rlx(&p->left), take;
    do {
        if (left < missing)
            return false;
        take = missing > p->chunk ? missing : p->chunk;
        take = take < left ? take : left;
    } while (!hg_cas_rlx(&p->left, &left, left - take));
    c->room += take;
    return true;
}

static inline bool charge(hg_objpool *p, struct cache *c, size_t bytes)
{
    if (hg_unlikely(c->room < (int64_t)bytes) && !draw(p, c, (int64_t)bytes))
        return false;
    c->room -= (int64_t)bytes;
    return true;
}

/* ---- slots ---- */

/* An object moves between a slot and a stack (R3, R4). */
static inline void shade(struct hg_mutator *m, uintptr_t obj)
{
    if (hg_unlikely(__atomic_load_n(&hg_i_marking, __ATOMIC_RELAXED) != 0))
        hg__shade_words(m, &obj, 1);
}

/* R4: m takes what is in c's fast slot; 0: nothing. */
static inline uintptr_t take_fast(struct hg_mutator *m, struct cache *c)
{
    uintptr_t obj = hg_load_acq(&c->fast);
    while (obj != 0) {
        shade(m, obj);
        if (hg_cas_acqrel(&c->fast, &obj, (uintptr_t)0))
            break;
    }
    return obj;
}

static uintptr_t pop_locked(hg_objpool *p, struct hg_mutator *m, struct cache *c, struct stack *s)
{
    HG_ASSERT_HELD(&c->lock);
    if (s->n == 0)
        return 0;
    uintptr_t obj = s->word[s->n - 1];
    shade(m, obj); /* R4 */
    s->n--;
    s->bytes -= size_of(p, obj);
    hg_own_add(&c->held, UINT32_MAX); /* by the lock */
    return obj;
}

static uintptr_t pop(hg_objpool *p, struct hg_mutator *m, struct cache *c, bool victim)
{
    if (hg_load_rlx(&c->held) == 0)
        return 0;
    hg__lock(&c->lock);
    uintptr_t obj = pop_locked(p, m, c, victim ? &c->old : &c->now);
    hg__unlock(&c->lock);
    return obj;
}

static bool grow_locked(hg_objpool *p, struct cache *c, struct stack *s)
{
    struct hg_meta *meta = p->gc->world->meta;
    uint32_t room = s->room == 0 ? STACK_ROOM : 2 * s->room;
    uintptr_t *bigger = hg__meta_alloc(meta, room * sizeof *bigger);
    HG_ASSERT_HELD(&c->lock);
    if (bigger == NULL)
        return false;
    if (s->n != 0)
        memcpy(bigger, s->word, s->n * sizeof *bigger);
    hg__meta_free(meta, s->word, s->room * sizeof *bigger);
    s->word = bigger;
    s->room = room;
    return true;
}

static void push_locked(struct cache *c, struct stack *s, uintptr_t obj, size_t bytes)
{
    HG_ASSERT_HELD(&c->lock);
    HG_ASSERT(s->n < s->room);
    s->word[s->n++] = obj;
    s->bytes += bytes;
    hg_own_add(&c->held, 1u); /* by the lock */
}

struct push {
    hg_objpool *p;
    struct cache *c;
    uintptr_t obj;
    size_t bytes;
    bool done;
};

/* A hg_ctx_fn: growing asks for memory, which a task's stack may have no room for. */
static void *push_growing(void *m, void *arg)
{
    struct push *x = arg;
    hg__lock(&x->c->lock);
    x->done = x->c->now.n < x->c->now.room || grow_locked(x->p, x->c, &x->c->now);
    if (x->done) {
        shade(m, x->obj); /* R3 */
        push_locked(x->c, &x->c->now, x->obj, x->bytes);
    }
    hg__unlock(&x->c->lock);
    return NULL;
}

/* On the owner's stack of objects. False: no memory. */
static bool push(hg_objpool *p, struct hg_mutator *m, struct cache *c, uintptr_t obj, size_t bytes)
{
    struct push x = {p, c, obj, bytes, false};
    hg__lock(&c->lock);
    if (c->now.n < c->now.room) {
        shade(m, obj); /* R3 */
        push_locked(c, &c->now, obj, bytes);
        x.done = true;
    }
    hg__unlock(&c->lock);
    if (!x.done)
        hg__on_deep_stack(m, push_growing, &x);
    return x.done;
}

/* ---- get ---- */

/* From the caches of other procs; what it takes is no longer theirs to count. */
static uintptr_t steal(hg_objpool *p, struct hg_mutator *m, bool victim)
{
    for (uint32_t i = 1; i < p->procs; i++) {
        struct cache *c = &p->cache[(m->id + i) % p->procs];
        uintptr_t obj = victim ? 0 : take_fast(m, c);
        if (obj == 0)
            obj = pop(p, m, c, victim);
        if (obj != 0) {
            give(p, (int64_t)size_of(p, obj));
            hg_own_add(&p->cache[m->id].steals, 1u);
            return obj;
        }
    }
    return 0;
}

static __attribute__((noinline)) uintptr_t get_slow(hg_objpool *p, struct hg_mutator *m,
                                                    struct cache *c)
{
    for (int victim = 0; victim < 2; victim++) {
        uintptr_t obj = pop(p, m, c, victim);
        if (obj != 0)
            credit(p, c, size_of(p, obj));
        else
            obj = steal(p, m, victim);
        if (obj != 0) {
            hg_own_add(&c->victims, (unsigned)victim);
            return obj;
        }
    }
    hg_own_add(&c->misses, 1u);
    if (p->make != NULL)
        hg_own_add(&c->made, 1u);
    return 0;
}

void *hg_objpool_get(hg_objpool *p)
{
    struct hg_mutator *m = hg__sync_enter();
    struct cache *c = cache_of(p, m, "hg_objpool_get");
    hg_own_add(&c->gets, 1u);
    uintptr_t obj = take_fast(m, c);
    if (hg_likely(obj != 0)) {
        credit(p, c, hg_load_rlx(&c->fast_bytes));
        return (void *)obj;
    }
    obj = get_slow(p, m, c);
    if (obj != 0 || p->make == NULL)
        return (void *)obj;
    return p->make(p->arg);
}

/* ---- put ---- */

/* P3, as far as c goes. */
static __attribute__((unused)) bool holds(struct cache *c, uintptr_t obj)
{
    bool found = hg_load_rlx(&c->fast) == obj;
    hg__lock(&c->lock);
    for (uint32_t i = 0; i < c->now.n && !found; i++)
        found = c->now.word[i] == obj;
    for (uint32_t i = 0; i < c->old.n && !found; i++)
        found = c->old.word[i] == obj;
    hg__unlock(&c->lock);
    return found;
}

void hg_objpool_put(hg_objpool *p, void *object)
{
    struct hg_mutator *m = hg__tls_mutator; /* nothing here switches to another proc */
    uintptr_t obj = (uintptr_t)object;
    struct cache *c = cache_of(p, m, "hg_objpool_put");
    if (obj == 0)
        return;
    struct hg_object o = hg__find(heap_of(p), obj);
    HG_CHECK(o.base == obj, "hg_objpool_put: %p is not the start of an object of this heap",
             object);
    HG_AUDIT(!holds(c, obj));
    size_t bytes = hg__object_size(heap_of(p), &o);
    hg_own_add(&c->puts, 1u);
    if (bytes > p->max_object_bytes) {
        hg_own_add(&c->too_large, 1u);
    } else if (!charge(p, c, bytes)) {
        hg_own_add(&c->over_budget, 1u);
    } else if (hg_likely(hg_load_rlx(&c->fast) == 0)) {
        hg_store_rlx(&c->fast_bytes, bytes);
        shade(m, obj); /* R3 */
        hg_store_rel(&c->fast, obj);
    } else if (!push(p, m, c, obj, bytes)) {
        credit(p, c, bytes);
        hg_own_add(&c->over_budget, 1u);
    }
}

/* ---- what the collector calls (gc.h, hg_root_holder) ---- */

static void turn_cache(hg_objpool *p, struct cache *c)
{
    hg__lock(&c->lock);
    struct stack old = c->old;
    hg_add_rlx(&p->expired, old.n);
    give(p, (int64_t)old.bytes);
    c->old = c->now;
    if (old.n == 0) { /* or an array that a burst has grown would stay */
        hg__meta_free(p->gc->world->meta, old.word, old.room * sizeof *old.word);
        old = (struct stack){NULL, 0, 0, 0};
    }
    old.n = 0;
    old.bytes = 0;
    c->now = old;
    uintptr_t obj = hg_xchg_acqrel(&c->fast, (uintptr_t)0);
    hg_store_rlx(&c->held, c->old.n);
    if (obj != 0) {
        size_t bytes = size_of(p, obj);
        if (c->old.n < c->old.room || grow_locked(p, c, &c->old)) {
            push_locked(c, &c->old, obj, bytes);
        } else {
            hg_add_rlx(&p->expired, 1u);
            give(p, (int64_t)bytes);
        }
    }
    hg__unlock(&c->lock);
}

static void turn(struct hg_root_holder *h) /* R5 */
{
    hg_objpool *p = (hg_objpool *)(void *)h;
    for (uint32_t i = 0; i < p->procs; i++)
        turn_cache(p, &p->cache[i]);
}

static void each_of_stack(const struct stack *s,
                          void (*fn)(void *arg, uintptr_t lo, uintptr_t hi, const char *what),
                          void *arg)
{
    if (s->n != 0)
        fn(arg, (uintptr_t)s->word, (uintptr_t)(s->word + s->n), "an object pool");
}

static void each(struct hg_root_holder *h,
                 void (*fn)(void *arg, uintptr_t lo, uintptr_t hi, const char *what), void *arg)
{
    hg_objpool *p = (hg_objpool *)(void *)h;
    for (uint32_t i = 0; i < p->procs; i++) {
        struct cache *c = &p->cache[i];
        hg__lock(&c->lock); /* R2 */
        fn(arg, (uintptr_t)&c->fast, (uintptr_t)(&c->fast + 1), "an object pool");
        each_of_stack(&c->now, fn, arg);
        each_of_stack(&c->old, fn, arg);
        hg__unlock(&c->lock);
    }
}

/* ---- life ---- */

static size_t pool_bytes(uint32_t procs)
{
    return sizeof(hg_objpool) + procs * sizeof(struct cache);
}

struct making {
    struct hg_gc *g;
    const hg_objpool_attr *attr;
    hg_objpool *p;
};

/* A hg_ctx_fn. */
static void *make_pool(void *m, void *arg)
{
    struct making *x = arg;
    const hg_objpool_attr *a = x->attr;
    uint32_t procs = (uint32_t)x->g->sched->nprocs;
    hg_objpool *p = hg__meta_alloc(x->g->world->meta, pool_bytes(procs));
    (void)m;
    if (p == NULL)
        return NULL;
    p->holder = (struct hg_root_holder){.turn = turn, .each = each};
    p->gc = x->g;
    p->max_object_bytes = a->max_object_bytes != 0 ? a->max_object_bytes : (size_t)64 << 10;
    p->budget_bytes = a->budget_bytes != 0 ? a->budget_bytes : (size_t)16 << 20;
    if (p->budget_bytes > PTRDIFF_MAX)
        p->budget_bytes = PTRDIFF_MAX;
    p->chunk = (int64_t)(p->budget_bytes / (8 * (size_t)procs));
    p->make = a->make;
    p->arg = a->arg;
    p->procs = procs;
    hg_store_rlx(&p->left, (int64_t)p->budget_bytes);
    for (uint32_t i = 0; i < procs; i++)
        hg__lock_init(&p->cache[i].lock, HG_RANK_POOL);
    hg__root_hold(x->g, &p->holder);
    x->p = p;
    return NULL;
}

int hg__objpool_new(struct hg_gc *g, const hg_objpool_attr *attr, hg_objpool **out)
{
    hg_objpool_attr a = {.size = sizeof a};
    if (attr != NULL) {
        if (attr->size < offsetof(hg_objpool_attr, spare) || attr->size > sizeof a)
            return -EINVAL;
        memcpy(&a, attr, attr->size);
    }
    struct making x = {g, &a, NULL};
    hg__on_deep_stack(hg__self(), make_pool, &x);
    if (x.p == NULL)
        return -ENOMEM;
    *out = x.p;
    return 0;
}

static void *free_pool(void *m, void *arg)
{
    hg_objpool *p = arg;
    struct hg_meta *meta = p->gc->world->meta;
    (void)m;
    hg__root_unhold(p->gc, &p->holder);
    for (uint32_t i = 0; i < p->procs; i++) {
        struct cache *c = &p->cache[i];
        hg__meta_free(meta, c->now.word, c->now.room * sizeof *c->now.word);
        hg__meta_free(meta, c->old.word, c->old.room * sizeof *c->old.word);
    }
    hg__meta_free(meta, p, pool_bytes(p->procs));
    return NULL;
}

void hg_objpool_free(hg_objpool *p)
{
    if (p != NULL)
        hg__on_deep_stack(hg__self(), free_pool, p);
}

/* ---- statistics ---- */

static void add_contents(struct cache *c, hg_objpool_stats *st)
{
    hg__lock(&c->lock);
    st->objects += c->now.n + c->old.n;
    st->bytes += c->now.bytes + c->old.bytes;
    hg__unlock(&c->lock);
    if (hg_load_acq(&c->fast) != 0) { /* acquire: the size that was noted before */
        st->objects++;
        st->bytes += hg_load_rlx(&c->fast_bytes);
    }
}

void hg_objpool_stats_read(hg_objpool *p, hg_objpool_stats *out)
{
    hg_objpool_stats st;
    uint64_t misses = 0;
    memset(&st, 0, sizeof st);
    size_t size = out->size < sizeof st ? out->size : sizeof st;
    st.size = size;
    for (uint32_t i = 0; i < p->procs; i++) {
        struct cache *c = &p->cache[i];
        misses += hg_load_rlx(&c->misses);
        st.gets += hg_load_rlx(&c->gets);
        st.steals += hg_load_rlx(&c->steals);
        st.victims += hg_load_rlx(&c->victims);
        st.made += hg_load_rlx(&c->made);
        st.puts += hg_load_rlx(&c->puts);
        st.too_large += hg_load_rlx(&c->too_large);
        st.over_budget += hg_load_rlx(&c->over_budget);
        add_contents(c, &st);
    }
    st.hits = st.gets > misses ? st.gets - misses : 0;
    st.expired = hg_load_rlx(&p->expired);
    memcpy(out, &st, size);
}
