/* goal.c: how large the heap may become before the next cycle should have ended.
 *
 *   by GOGC    max(L + (L + S + R) * gc_percent / 100, minimum heap)
 *   by limit   limit - overhead - overage - headroom, but at least L + L/32
 *   goal       the smaller of the two, and at least L + 1 MiB
 *
 * Stacks and roots stand in the goal because marking must scan them like the heap: with a tiny heap
 * and large stacks a goal of the heap alone gives cycles back to back.
 *
 * `overage` is what is mapped above the limit now. The goal is counted in bytes of objects and the
 * limit in pages, and spans are never quite full; so when the pages have passed the limit, the goal
 * gives way by as much. `headroom` keeps the two apart from the start and leaves room for the heap
 * that a late cycle needs.
 *
 * The two lower bounds are what keeps cycles apart when GOGC is 0 or the limit lies below the live
 * heap: a goal at or below L would ask for cycles without a pause. The program is then over its
 * limit, and the limiter (limit.c) is what holds it at a bearable speed.
 *
 * Monotone in gc_percent and in L: each bound is, and minimum and maximum keep it so (P2).
 */
#include "pacer/internal.h"

#define MIN_HEAP       (4 * HG__PACER_MIB) /* at gc_percent 100 */
#define MIN_DISTANCE   (1 * HG__PACER_MIB) /* goal - L, at least */
#define HARD_DISTANCE  (64 * HG__PACER_MIB)
#define HEADROOM_SHARE 32 /* 1/32 of the limit is left free */

/* v * percent / 100, rounded down, clean. Exact, by parts: v = 100 q + r. */
static int64_t scale(int64_t v, int percent)
{
    int64_t whole;

    if (__builtin_mul_overflow(v / 100, (int64_t)percent, &whole))
        return HG__PACER_MAX;
    return hg__pacer_add(hg__pacer_clean(whole), v % 100 * percent / 100);
}

static int64_t goal_by_percent(const struct hg_pacer *p)
{
    const struct hg_pacer_config *c = &p->config;
    int64_t live = p->last.marked;
    int64_t work = hg__pacer_add(hg__pacer_add(live, p->last.stack_bytes), p->last.root_bytes);
    int64_t least = c->min_heap > 0 ? c->min_heap : scale(MIN_HEAP, c->gc_percent);

    return hg__pacer_larger(hg__pacer_add(live, scale(work, c->gc_percent)), least);
}

/* What the limit leaves for the heap's pages. */
static int64_t room_by_limit(const struct hg_pacer *p, const struct hg_pacer_memory *mem)
{
    return hg__pacer_clean(p->config.memory_limit - hg__pacer_clean(mem->overhead));
}

static int64_t goal_by_limit(const struct hg_pacer *p, const struct hg_pacer_memory *mem)
{
    int64_t limit = p->config.memory_limit, live = p->last.marked;
    int64_t used = hg__pacer_add(hg__pacer_clean(mem->mapped), hg__pacer_clean(mem->overhead));
    int64_t overage = used > limit ? used - limit : 0;
    int64_t least = hg__pacer_smaller(HG__PACER_MIB, limit / 4);
    int64_t headroom = hg__pacer_larger(limit / HEADROOM_SHARE, least);
    int64_t goal = room_by_limit(p, mem) - hg__pacer_add(overage, headroom);

    return hg__pacer_larger(goal, hg__pacer_add(live, live / HEADROOM_SHARE));
}

int64_t hg__pacer_goal(const struct hg_pacer *p, const struct hg_pacer_memory *mem, bool *limited)
{
    const struct hg_pacer_config *c = &p->config;
    int64_t goal = c->gc_percent < 0 ? HG_PACER_NO_GOAL : goal_by_percent(p);

    *limited = false;
    if (c->memory_limit != INT64_MAX) {
        int64_t by_limit = goal_by_limit(p, mem);

        *limited = by_limit < goal;
        goal = hg__pacer_smaller(goal, by_limit);
    }
    if (goal == HG_PACER_NO_GOAL)
        return goal;
    return hg__pacer_larger(goal, p->last.marked + MIN_DISTANCE);
}

int64_t hg__pacer_hard_by_goal(int64_t goal)
{
    if (goal == HG_PACER_NO_GOAL)
        return goal;
    return goal + hg__pacer_larger(goal / 10, HARD_DISTANCE);
}

/* A tenth or 64 MiB above the goal, whichever is more; with a limit, no further than the limit, as
 * long as that leaves a thirty-second and 1 MiB to land in: a hard limit right at the goal would be
 * the cliff that assist.c avoids. */
int64_t hg__pacer_hard(const struct hg_pacer *p, const struct hg_pacer_memory *mem, int64_t goal)
{
    int64_t hard = hg__pacer_hard_by_goal(goal), landing;

    if (goal == HG_PACER_NO_GOAL || p->config.memory_limit == INT64_MAX)
        return hard;
    landing = goal + goal / HEADROOM_SHARE + MIN_DISTANCE;
    return hg__pacer_smaller(hard, hg__pacer_larger(landing, room_by_limit(p, mem)));
}
