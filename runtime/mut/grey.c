/* grey.c: grey objects on their way from who shades to who traces.
 *
 * A mutator fills a buffer of its own; full ones go to the shared queue, as do partly filled ones
 * when a FLUSH asks. The queue never overflows: buffers come from the runtime's own memory and are
 * recycled. One lock guards the two lists; it is taken once per 510 objects.
 *
 * Note [QUIET]. Termination (gc/term.c) must not miss work on its way. `workers` counts threads
 * that hold work taken from the queue or scan a stack: a worker counts itself, bumps `activity`,
 * and only then takes; it publishes what it has left before it counts itself out. Every publication
 * bumps `activity` before the buffer is in the list. So a watcher that reads activity, sees workers
 * == 0 and no full buffer, and later reads the same activity, knows that no work moved in between.
 * All seq_cst: these are stores and loads of different words in opposite orders.
 */
#include "runtime/mut/mut.h"

#define HG_GREY_KEEP 64 /* empty buffers kept between cycles */

void hg__grey_init(struct hg_grey_queue *q) { hg__lock_init(&q->lock, HG_RANK_GREY); }

struct hg_grey *hg__grey_try_empty(struct hg_world *w)
{
    struct hg_grey_queue *q = &w->grey;
    hg__lock(&q->lock);
    struct hg_grey *g = q->empty;
    if (g != NULL)
        q->empty = g->next;
    hg__unlock(&q->lock);
    if (g == NULL)
        g = hg__meta_alloc(w->meta, sizeof *g);
    if (g != NULL) {
        g->next = NULL;
        g->n = 0;
    }
    return g;
}

struct hg_grey *hg__grey_empty(struct hg_world *w)
{
    struct hg_grey *g = hg__grey_try_empty(w);
    HG_CHECK(g != NULL, "out of memory for a buffer of grey objects (%zu bytes)", sizeof *g);
    return g;
}

void hg__grey_give(struct hg_world *w, struct hg_grey *g)
{
    struct hg_grey_queue *q = &w->grey;
    bool full = g->n != 0;
    if (full)
        hg_add_sc(&q->activity, 1u); /* Note [QUIET] */
    hg__lock(&q->lock);
    struct hg_grey **list = full ? &q->full : &q->empty;
    g->next = *list;
    *list = g;
    if (full)
        hg_add_sc(&q->full_count, 1u);
    hg__unlock(&q->lock);
}

struct hg_grey *hg__grey_take(struct hg_world *w)
{
    struct hg_grey_queue *q = &w->grey;
    HG_ASSERT(hg_load_rlx(&q->workers) != 0);
    if (hg_load_sc(&q->full_count) == 0)
        return NULL;
    hg__lock(&q->lock);
    struct hg_grey *g = q->full;
    if (g != NULL) {
        q->full = g->next;
        hg_sub_sc(&q->full_count, 1u);
    }
    hg__unlock(&q->lock);
    return g;
}

bool hg__grey_publish(struct hg_mutator *m)
{
    if (m->grey->n == 0)
        return false;
    struct hg_grey *full = m->grey;
    m->grey = hg__grey_empty(m->world);
    hg__grey_give(m->world, full);
    return true;
}

static void unmark(struct hg_heap *h, struct hg_grey *g)
{
    while (g->n != 0) {
        uintptr_t obj = g->entry[--g->n];
        hg_and_rlx(hg__mark_word(h, obj), ~hg__mark_bit(h, obj));
    }
}

void hg__grey_take_back(struct hg_mutator *m) { unmark(m->world->heap, m->grey); }

void hg__grey_take_back_shared(struct hg_world *w)
{
    struct hg_grey_queue *q = &w->grey;
    hg__lock(&q->lock);
    while (q->full != NULL) {
        struct hg_grey *g = q->full;
        q->full = g->next;
        hg_sub_sc(&q->full_count, 1u);
        unmark(w->heap, g);
        g->next = q->empty;
        q->empty = g;
    }
    hg__unlock(&q->lock);
}

static void *publish_and_push(void *a, void *b)
{
    struct hg_mutator *m = a;
    hg__grey_publish(m);
    m->grey->entry[m->grey->n++] = *(uintptr_t *)b;
    return NULL;
}

void hg__grey_push_slow(struct hg_mutator *m, uintptr_t entry)
{
    /* A task's stack has no room for the memory allocator below: go to the scheduler stack, unless
     * we are there. */
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    struct hg_stack *s = m->stack;
    if (s != NULL && here >= s->lo && here < s->hi && m == hg__self())
        hg__on_scheduler(m, publish_and_push, &entry);
    else
        publish_and_push(m, &entry);
}

static void free_list(struct hg_world *w, struct hg_grey *g)
{
    while (g != NULL) {
        struct hg_grey *next = g->next;
        hg__meta_free(w->meta, g, sizeof *g);
        g = next;
    }
}

void hg__grey_trim(struct hg_world *w)
{
    struct hg_grey_queue *q = &w->grey;
    hg__lock(&q->lock);
    struct hg_grey **link = &q->empty;
    for (unsigned n = 0; n < HG_GREY_KEEP && *link != NULL; n++)
        link = &(*link)->next;
    struct hg_grey *surplus = *link;
    *link = NULL;
    hg__unlock(&q->lock);
    free_list(w, surplus);
}

void hg__grey_fini(struct hg_world *w)
{
    free_list(w, w->grey.empty);
    free_list(w, w->grey.full);
    w->grey.empty = w->grey.full = NULL;
}
