/* pacer_limit.c: the memory limit in the closed loop: what it covers, and the limiter's windows.
 *
 * Memory, as the runtime tells its pacer (runtime/gc/pace.c):
 *   mapped    heap pages in use, or free and not given back: as large as the heap has been, less
 *             what is above KEEP_GOAL of the goal or KEEP_LIMIT of the limit, which is given back
 *             RELEASE bytes per ns
 *   overhead  stacks, and `overhead` for metadata and spans that are not full
 *
 * The limiter is told of every WINDOW_NS of time, as the runtime's monitor does; what it answers
 * holds until the next window: no assist, no wait at the hard limit, no new cycle. A step of the
 * loop may be longer than a window: the time in it is spread evenly, and each window is told. So it
 * holds only from the next step on; a step is a sixty-fourth of a cycle.
 *
 * With a hard limit the heap may grow up to the limit less overhead (pacer_limit_room). The loop
 * does the rest: whoever is refused waits for a cycle, and that for the limiter.
 *
 * The same windows give the share of GC in the worst second. limit_passed is counted where the
 * runtime calls it: above the limit, and again after a sixteenth below.
 */
#include "sim/pacer.h"
#include <math.h>
#include <string.h>

#define WINDOW_NS  1e7
#define KEEP_GOAL  1.1
#define KEEP_LIMIT 0.95
#define RELEASE    (40 * 1048576.0 / 1e9) /* 4 MiB each 100 ms */
#define TOLD_AGAIN (15.0 / 16)
#define ALLOCATION 1024.0

void pacer_limit_init(struct pacer_limit *l, const struct hg_pacer_config *c)
{
    memset(l, 0, sizeof *l);
    if (c->memory_limit != INT64_MAX)
        l->limit = (double)c->memory_limit;
}

static void cover(struct pacer_limit *l, double bytes)
{
    l->peak = fmax(l->peak, bytes);
    if (bytes > l->limit && !l->above) {
        l->above = true;
        l->passed++;
    } else if (bytes <= l->limit * TOLD_AGAIN) {
        l->above = false;
    }
}

struct hg_pacer_memory pacer_limit_heap(struct pacer_loop *loop, double heap, double stack)
{
    struct pacer_limit *l = &loop->limit;

    if (l->limit <= 0)
        return (struct hg_pacer_memory){0};
    l->mapped = fmax(l->mapped, heap);
    cover(l, l->mapped + l->overhead + stack);
    return (struct hg_pacer_memory){.mapped = (int64_t)l->mapped,
                                    .overhead = (int64_t)(l->overhead + stack)};
}

double pacer_limit_room(const struct pacer_loop *loop, double heap, double stack)
{
    const struct pacer_limit *l = &loop->limit;
    double room = l->limit - l->overhead - stack - heap;

    if (!l->hard)
        return (double)INFINITY;
    return room < ALLOCATION ? 0 : room;
}

/* Gives back what is free above what is kept, as fast as the runtime does. */
static void give_back(struct pacer_loop *loop, double ns)
{
    struct pacer_limit *l = &loop->limit;
    double keep = fmin(KEEP_GOAL * (double)loop->pacer.plan.goal, KEEP_LIMIT * l->limit);

    keep = fmax(keep, loop->heap);
    if (l->mapped > keep)
        l->mapped = fmax(keep, l->mapped - RELEASE * ns);
}

/* A window is over, with so much CPU time of GC. */
static void end_window(struct pacer_loop *loop, double gc_ns)
{
    struct pacer_limit *l = &loop->limit;
    double cpu = WINDOW_NS * loop->procs, *oldest = &l->second[l->windows % PACER_WINDOWS];

    l->on = hg__pacer_limiter_update(&loop->pacer, (int64_t)cpu, (int64_t)gc_ns);
    l->second_gc += gc_ns - *oldest;
    *oldest = gc_ns;
    l->windows++;
    if (l->windows >= PACER_WINDOWS)
        l->worst = fmax(l->worst, l->second_gc);
    give_back(loop, WINDOW_NS);
}

void pacer_limit_time(struct pacer_loop *loop, double cpu_ns, double gc_ns)
{
    struct pacer_limit *l = &loop->limit;
    double gc_part = cpu_ns > 0 ? gc_ns / cpu_ns : 0;

    if (l->limit <= 0)
        return;
    while (l->window + cpu_ns >= WINDOW_NS * loop->procs) {
        double part = WINDOW_NS * loop->procs - l->window;

        end_window(loop, l->window_gc + part * gc_part);
        cpu_ns -= part;
        l->window = l->window_gc = 0;
    }
    l->window += cpu_ns;
    l->window_gc += cpu_ns * gc_part;
}

double pacer_limit_wait(struct pacer_loop *loop)
{
    double waited = 0;

    while (loop->limit.on) {
        double left = WINDOW_NS * loop->procs - loop->limit.window;

        pacer_limit_time(loop, left, 0);
        waited += left;
    }
    return waited;
}

double pacer_limit_forget(struct pacer_loop *loop)
{
    struct pacer_limit *l = &loop->limit;

    l->peak = l->worst = l->second_gc = 0;
    l->windows = l->passed = 0;
    memset(l->second, 0, sizeof l->second);
    return (double)loop->pacer.limiter.limited_ns;
}

double pacer_limit_worst_second(const struct pacer_loop *loop)
{
    const struct pacer_limit *l = &loop->limit;

    if (l->windows < PACER_WINDOWS)
        return (double)NAN;
    return l->worst / (WINDOW_NS * loop->procs * PACER_WINDOWS);
}
