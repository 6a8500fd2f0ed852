/* roots.c: global roots, and the table of everything that may hold a reference.
 *
 * Root kinds. What is not in this table may hold no reference.
 *
 *   task stack, control block (argument, handle)
 *     scanned  by its proc's SCAN; its taker at switch-in; a worker in MARK
 *     store    plain while it runs, by its own task
 *     leave    dropped when the task ends; the argument was shaded
 *   scheduler stack
 *     scanned  not: no slow path holds the only reference to an object across a poll; of user code
 *              timers' callbacks run on it, without a safepoint from beginning to end
 *     store    plain
 *     leave    rewound at every switch
 *   wait record (element)
 *     scanned  with the stack it lies on; the element is the waiter's
 *     store    a hand-over shades each word it moves
 *     leave    off the queue before the waiter runs on
 *   new task's arguments
 *     scanned  with its stack; shaded at birth
 *     store    plain
 *     leave    with the stack
 *   armed timer (sched/timer.c): no root. The heap that holds it has a weak reference to it; its
 *     argument is shaded when it fires
 *   global root
 *     scanned  by the driver, after the second NOP; one added meanwhile is shaded
 *     store    hg_ref_store
 *     leave    shaded when removed while a cycle marks
 *   pool caches (sync/objpool.c)
 *     scanned  by the driver with the global roots, so before any mutator's SCAN
 *     store    a put shades the object in ROOTS, then stores
 *     leave    a get shades the object, then takes it out; in OFF, before a cycle, the driver drops
 *              the victim generation; a pool that is freed while a cycle marks shades what it holds
 *
 * Attached host threads, cleanup and finalizer queues, value stacks and coroutines join it with the
 * embedding interface.
 *
 * Lock ROOTS guards the array and the sink: the pseudo-mutator whose buffer takes what the driver,
 * or a thread that is no mutator, greys. Such a thread answers no handshake: so it reads the phase,
 * shades and publishes under ROOTS, and the driver steps to WEAK and to OFF under ROOTS.
 */
#include "runtime/gc/gc.h"
#include <errno.h>
#include <string.h>

int hg__roots_init(struct hg_gc *g)
{
    struct hg_world *w = g->world;
    hg__lock_init(&g->roots.lock, HG_RANK_ROOTS);
    g->sink = hg__meta_alloc(w->meta, sizeof *g->sink);
    if (g->sink == NULL)
        return -ENOMEM;
    g->sink->world = w;
    g->sink->grey = hg__grey_try_empty(w);
    if (g->sink->grey == NULL) {
        hg__meta_free(w->meta, g->sink, sizeof *g->sink);
        return -ENOMEM;
    }
    return 0;
}

void hg__roots_fini(struct hg_gc *g)
{
    hg__grey_give(g->world, g->sink->grey);
    hg__meta_free(g->world->meta, g->sink, sizeof *g->sink);
    hg__meta_free(g->world->meta, g->roots.root, g->roots.room * sizeof *g->roots.root);
}

static void shade_root_locked(struct hg_gc *g, const struct hg_root *r)
{
    HG_ASSERT_HELD(&g->roots.lock);
    hg__scan_words(g->sink, r->slot, r->slot + r->words * sizeof(uintptr_t));
    hg__grey_publish(g->sink);
}

/* Words of a holder; *arg: the bytes so far. */
struct shading {
    struct hg_gc *g;
    int64_t bytes;
};
static void shade_held(void *arg, uintptr_t lo, uintptr_t hi, const char *what)
{
    struct shading *s = arg;
    (void)what;
    HG_ASSERT_HELD(&s->g->roots.lock);
    s->bytes += (int64_t)hg__scan_words(s->g->sink, lo, hi);
}

void hg__roots_scan(struct hg_gc *g)
{
    struct shading s = {g, 0};
    hg__lock(&g->roots.lock);
    for (size_t i = 0; i < g->roots.n; i++)
        shade_root_locked(g, &g->roots.root[i]);
    for (struct hg_root_holder *h = g->roots.holders; h != NULL; h = h->next)
        h->each(h, shade_held, &s);
    hg__grey_publish(g->sink);
    g->scanned_roots = hg_load_rlx(&g->roots.bytes) + s.bytes;
    hg__unlock(&g->roots.lock);
}

/* ---- holders ---- */

/* A new one is empty: nothing to shade. */
void hg__root_hold(struct hg_gc *g, struct hg_root_holder *h)
{
    hg__lock(&g->roots.lock);
    h->next = g->roots.holders;
    g->roots.holders = h;
    hg__unlock(&g->roots.lock);
}

void hg__root_unhold(struct hg_gc *g, struct hg_root_holder *h)
{
    struct shading s = {g, 0};
    hg__lock(&g->roots.lock);
    struct hg_root_holder **link = &g->roots.holders;
    while (*link != h)
        link = &(*link)->next;
    *link = h->next;
    if (hg__shades(hg__phase(g->world))) {
        h->each(h, shade_held, &s);
        hg__grey_publish(g->sink);
    }
    hg__unlock(&g->roots.lock);
}

void hg__roots_turn(struct hg_gc *g)
{
    hg__lock(&g->roots.lock);
    for (struct hg_root_holder *h = g->roots.holders; h != NULL; h = h->next)
        h->turn(h);
    hg__unlock(&g->roots.lock);
}

void hg__roots_each(struct hg_gc *g,
                    void (*fn)(void *arg, uintptr_t lo, uintptr_t hi, const char *what), void *arg)
{
    hg__lock(&g->roots.lock);
    for (size_t i = 0; i < g->roots.n; i++)
        fn(arg, g->roots.root[i].slot,
           g->roots.root[i].slot + g->roots.root[i].words * sizeof(uintptr_t), "global root");
    for (struct hg_root_holder *h = g->roots.holders; h != NULL; h = h->next)
        h->each(h, fn, arg);
    hg__unlock(&g->roots.lock);
}

static bool grow_locked(struct hg_gc *g)
{
    struct hg_roots *r = &g->roots;
    size_t room = r->room == 0 ? 64 : 2 * r->room;
    struct hg_root *bigger = hg__meta_alloc(g->world->meta, room * sizeof *bigger);
    if (bigger == NULL)
        return false;
    if (r->n != 0)
        memcpy(bigger, r->root, r->n * sizeof *bigger);
    hg__meta_free(g->world->meta, r->root, r->room * sizeof *bigger);
    r->root = bigger;
    r->room = room;
    return true;
}

/* Index of the first root whose slot is not below `slot`; the array is sorted. */
static size_t lower_bound(const struct hg_roots *r, uintptr_t slot)
{
    size_t lo = 0, hi = r->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (r->root[mid].slot < slot)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int add_locked(struct hg_gc *g, uintptr_t slot, size_t n)
{
    struct hg_roots *r = &g->roots;
    size_t at = lower_bound(r, slot);
    if (at < r->n && r->root[at].slot == slot)
        return -EEXIST;
    if (r->n == r->room && !grow_locked(g))
        return -ENOMEM;
    memmove(r->root + at + 1, r->root + at, (r->n - at) * sizeof *r->root);
    r->root[at] = (struct hg_root){slot, n};
    r->n++;
    hg_add_rlx(&r->bytes, (int64_t)(n * sizeof(uintptr_t)));
    return 0;
}

int hg__root_add(struct hg_gc *g, void *slot, size_t n)
{
    struct hg_roots *r = &g->roots;
    if (slot == NULL || (uintptr_t)slot % sizeof(uintptr_t) != 0 || n == 0 ||
        n > PTRDIFF_MAX / sizeof(uintptr_t))
        return -EINVAL;
    hg__lock(&r->lock);
    int err = add_locked(g, (uintptr_t)slot, n);
    /* The driver may have scanned the others already. In MARK and before completion this is work
     * like any other. */
    if (err == 0 && hg__shades(hg__phase(g->world)))
        shade_root_locked(g, &r->root[lower_bound(r, (uintptr_t)slot)]);
    hg__unlock(&r->lock);
    return err;
}

int hg__root_remove(struct hg_gc *g, void *slot)
{
    struct hg_roots *r = &g->roots;
    hg__lock(&r->lock);
    size_t at = lower_bound(r, (uintptr_t)slot);
    if (at == r->n || r->root[at].slot != (uintptr_t)slot) {
        hg__unlock(&r->lock);
        return -ENOENT;
    }
    if (hg__shades(hg__phase(g->world)))
        shade_root_locked(g, &r->root[at]); /* a deletion of all that it holds */
    hg_sub_rlx(&r->bytes, (int64_t)(r->root[at].words * sizeof(uintptr_t)));
    memmove(r->root + at, r->root + at + 1, (r->n - at - 1) * sizeof *r->root);
    r->n--;
    hg__unlock(&r->lock);
    return 0;
}
