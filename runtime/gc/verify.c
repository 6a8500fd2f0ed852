/* verify.c: HEDGEDEBUG=gccheck=1: is everything that can be reached marked?
 *
 * In WEAK, when marking is said to be complete, all mutators are held (the only stop of the world
 * there is) and a second trace, with bits and a queue of its own, walks from all roots over all
 * objects. The first object that it reaches and that is not marked is fatal, with the path from the
 * root to it.
 *
 * Stack words are ambiguous. A word that its frame has never written may still show a reference
 * that was dead before the cycle; so in this mode the unused part of a stack is cleared when the
 * stack is scanned (hg__gc_check_clear), and what the verifier then finds there was stored after
 * the scan, by a black mutator.
 */
#include "runtime/gc/gc.h"
#include "runtime/mut/sanitize.h"
#include <stdio.h>
#include <string.h>

struct visit {
    uintptr_t obj;
    size_t parent; /* index in the queue; NO_PARENT: a root */
    const char *root;
};
#define NO_PARENT SIZE_MAX

struct check {
    struct hg_gc *g;
    struct hg_heap *heap;
    uint64_t *seen; /* one bit per HG_GRAIN bytes of heap */
    size_t seen_bytes;
    struct visit *queue;
    size_t n, room, at;
    const char *root; /* what is being looked at */
};

static void explain(struct check *c, uintptr_t obj, size_t parent, const struct hg_object *o)
{
    char path[600];
    int n = 0;
    for (size_t i = parent; i != NO_PARENT && n < (int)sizeof path - 40; i = c->queue[i].parent)
        n += snprintf(path + n, sizeof path - (size_t)n, " <- 0x%lx%s%s",
                      (unsigned long)c->queue[i].obj, c->queue[i].parent == NO_PARENT ? " <- " : "",
                      c->queue[i].parent == NO_PARENT ? c->queue[i].root : "");
    hg__fatal(
        "gccheck: cycle %u: object 0x%lx (size class %u, kind %u, slot %u) is reachable and not "
        "marked: %s%s",
        hg_load_rlx(&c->g->world->cycle), (unsigned long)obj, hg__desc_class(o->desc),
        (unsigned)hg__desc_kind(o->desc), o->index, parent == NO_PARENT ? c->root : "",
        n > 0 ? path : "");
}

static void enqueue(struct check *c, uintptr_t obj, size_t parent)
{
    if (c->n == c->room) {
        size_t room = c->room == 0 ? 4096 : 2 * c->room;
        struct visit *bigger = hg__meta_alloc(c->g->world->meta, room * sizeof *bigger);
        HG_CHECK(bigger != NULL, "gccheck: out of memory for %zu objects", room);
        if (c->n != 0)
            memcpy(bigger, c->queue, c->n * sizeof *bigger);
        hg__meta_free(c->g->world->meta, c->queue, c->room * sizeof *bigger);
        c->queue = bigger;
        c->room = room;
    }
    c->queue[c->n++] = (struct visit){obj, parent, c->root};
}

static void reached(struct check *c, const struct hg_object *o, size_t parent, bool ambiguous)
{
    size_t bit = (o->base - c->heap->base) / HG_GRAIN;
    uint64_t mask = (uint64_t)1 << (bit & 63);
    if (c->seen[bit / 64] & mask)
        return;
    bool allocated = hg__slot_allocated(hg__span_of(c->heap, o->base), o->index);
    if (!allocated && ambiguous)
        return;
    if (!allocated || !hg__is_marked(c->heap, o->base))
        explain(c, o->base, parent, o);
    c->seen[bit / 64] |= mask;
    if (hg__desc_kind(o->desc) != HG_SPAN_LEAF)
        enqueue(c, o->base, parent);
}

static void from_object(struct hg_tracer *t, const struct hg_object *o, bool ambiguous)
{
    struct check *c = t->instead_arg;
    reached(c, o, c->at, ambiguous);
}

static HG_SCANS void from_words(void *arg, uintptr_t lo, uintptr_t hi, const char *what)
{
    struct check *c = arg;
    c->root = what;
    for (uintptr_t p = lo & ~(uintptr_t)7; p < hi; p += sizeof(uintptr_t)) {
        struct hg_object o =
            hg__find(c->heap, __atomic_load_n((const uintptr_t *)p, __ATOMIC_RELAXED));
        if (o.base != 0)
            reached(c, &o, NO_PARENT, true);
    }
}

/* A small number of 1, 2 or 4 bytes, stored on a stack over a part of an old reference: such a word
 * proves nothing. */
static bool partly_overwritten(uintptr_t w)
{
    return (w & 0xffff) < 256 || (w & 0xffffffff) < 65536;
}

static HG_SCANS void from_stack(struct check *c, const struct hg_stack *s)
{
    c->root = "a task's stack";
    for (uintptr_t p = s->sp & ~(uintptr_t)7; p < s->hi; p += sizeof(uintptr_t)) {
        uintptr_t w = __atomic_load_n((const uintptr_t *)p, __ATOMIC_RELAXED);
        struct hg_object o = hg__find(c->heap, w);
        if (o.base != 0 && (hg__is_marked(c->heap, o.base) || !partly_overwritten(w)))
            reached(c, &o, NO_PARENT, true);
    }
}

static void from_stacks(struct check *c)
{
    struct hg_sched *s = c->g->sched;
    uint32_t n = hg_load_acq(&s->registered);
    for (uint32_t i = 0; i < n; i++) {
        struct hg_tcb *t = hg__task_at(s, i);
        if (hg_load_acq(&t->state) != HG_TASK_FREE)
            from_stack(c, &t->stack);
    }
}

void hg__gc_check(struct hg_gc *g)
{
    struct check c = {
        .g = g, .heap = g->world->heap, .seen_bytes = g->world->heap->size / (HG_GRAIN * 8)};
    c.seen = hg__os_map(c.seen_bytes, hg__os_page_size());
    HG_CHECK(c.seen != NULL, "gccheck: no address space for %zu bytes of bits", c.seen_bytes);
    struct hg_tracer t;
    hg__tracer_init(&t, g, NULL);
    t.instead = from_object;
    t.instead_arg = &c;
    hg__roots_each(g, from_words, &c);
    from_stacks(&c);
    for (c.at = 0; c.at < c.n; c.at++) {
        struct hg_object o = hg__find(c.heap, c.queue[c.at].obj);
        hg__trace_object(&t, &o);
    }
    hg__meta_free(g->world->meta, c.queue, c.room * sizeof *c.queue);
    hg__os_unmap(c.seen, c.seen_bytes);
}

HG_SCANS void hg__gc_check_clear(struct hg_stack *s)
{
    /* The ABI's red zone below sp is not in use: sp was saved inside a call. The pages that were
     * touched are near. */
    size_t page = hg__os_page_size();
    uintptr_t down_to = hg_round_down(s->sp, page);
    for (uintptr_t p = down_to; p < s->sp; p += sizeof(uintptr_t))
        *(volatile uintptr_t *)p = 0;
    if (down_to > s->lo)
        hg__os_discard((void *)hg_round_up(s->lo, page), down_to - hg_round_up(s->lo, page));
}
