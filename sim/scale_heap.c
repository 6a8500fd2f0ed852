/* scale_heap.c: procs ordered by the time of their next event: a binary heap of their numbers.
 * Procs of the same time come in the order of their numbers, so that a run does not depend on how
 * the heap got to be as it is. */
#include "sim/memory.h"
#include "sim/scale_world.h"

static bool before(const struct scale_world *w, uint32_t a, uint32_t b)
{
    int64_t x = w->proc[a].at, y = w->proc[b].at;
    return x != y ? x < y : a < b;
}

static void put(struct scale_world *w, uint32_t place, uint32_t p)
{
    w->heap[place] = p;
    w->proc[p].place = place;
}

static void up(struct scale_world *w, uint32_t place, uint32_t p)
{
    while (place > 0) {
        uint32_t above = (place - 1) / 2;
        if (!before(w, p, w->heap[above]))
            break;
        put(w, place, w->heap[above]);
        place = above;
    }
    put(w, place, p);
}

static void down(struct scale_world *w, uint32_t place, uint32_t p)
{
    uint32_t n = (uint32_t)w->procs;
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child >= n)
            break;
        if (child + 1 < n && before(w, w->heap[child + 1], w->heap[child]))
            child++;
        if (!before(w, w->heap[child], p))
            break;
        put(w, place, w->heap[child]);
        place = child;
    }
    put(w, place, p);
}

void scale_heap_init(struct scale_world *w)
{
    w->heap = sim_alloc((size_t)w->procs, sizeof *w->heap);
    for (uint32_t i = 0; i < (uint32_t)w->procs; i++)
        put(w, i, i);
}

void scale_heap_moved(struct scale_world *w, struct scale_proc *p)
{
    uint32_t number = scale_number(w, p);
    up(w, p->place, number);
    down(w, p->place, number);
}
