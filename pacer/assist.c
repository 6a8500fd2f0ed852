/* assist.c: within a cycle: how much background marking, and what an allocation owes.
 *
 *   left       goal - heap_live
 *   needed     bytes that will be allocated until background marking alone, at the full share,
 *              has done work_left
 *   landing    max(left + tolerance, (hard - heap_live) / 4, a little)
 *   ratio      0 while needed <= landing, else work_left * (1 - landing / needed) / landing,
 *              at most RATIO_MAX
 *   u          the full share, less when needed is well below left, never below U_LEAST
 *
 * `ratio` is the work that background marking will not have done when `landing` bytes are
 * allocated, over these bytes.
 *
 * Why it is shaped so:
 *   - The dead band: an allocation owes nothing as long as background work is enough. Both are
 *     compared at the full share, whatever share runs now: raising u is cheap and comes first,
 *     assist comes last.
 *   - The soft landing: aiming at the goal to the end would divide by nothing at the goal. Near it
 *     the aim moves on to a quarter of the way from here to the hard limit, and stays a quarter of
 *     what is left, so that the ratio grows smoothly with the heap and the work shrinks faster than
 *     the way.
 *   - The cap bounds the debt of one allocation. Beyond the hard limit tasks may be made to wait;
 *     that, and not the ratio, is the last brake.
 *
 * A cycle that is ahead runs at a lower share, so that tasks wait less behind slices of marking.
 * Not below a tenth: while a cycle lasts stores run the barrier, and what is allocated is kept
 * until the next one; at a tenth it lasts two and a half times as long as at a quarter, and that is
 * enough.
 *
 * Early in a cycle there is nothing to measure. Then `needed` comes from the cons/mark ratios of
 * the last cycles: their mean for the ratio (a hedge must not be charged to tasks), the policy's
 * estimate for u (while in doubt, the full share). The cycle's own measurement takes over in
 * proportion, fully once an eighth of the work is done.
 *
 * For studies each damper can be left out (struct hg_pacer_study). Without the dead band the ratio
 * is work_left / landing from the start, as in a pacer that knows no other brake than credit.
 */
#include "pacer/internal.h"

#define RATIO_MAX      64.0
#define U_LEAST        0.10
#define RESERVE_SHARE  4 /* a lowered share still ends a quarter of the way before the goal */
#define TRUST_SHARE    8 /* W / 8 scanned: the measurement is trusted fully */
#define TRUST_LEAST    (64 * HG__PACER_KIB)
#define LEAST_GC_NS    INT64_C(20000)
#define LEAST_WALL_NS  INT64_C(20000)
#define REST_SHARE     32 /* work_left is at least W / 32: an end is not known beforehand */
#define LANDING_PARTS  4  /* near the goal: a quarter of the way to the hard limit */
#define TOLERANCE_GOAL 64
#define TOLERANCE_HARD 8
#define CREDIT_SHARE   16
#define CREDIT_LEAST   (64 * HG__PACER_KIB)
#define CREDIT_MOST    (16 * HG__PACER_MIB)

/* Counts are cleaned, procs is at least 1, busy is a share. */
static struct hg_pacer_progress clean_progress(const struct hg_pacer_progress *now)
{
    struct hg_pacer_progress out = *now;
    int64_t *counts[] = {
        &out.heap_live,  &out.scanned,          &out.grey_bytes,
        &out.assist_ns,  &out.background_ns,    &out.idle_ns,
        &out.elapsed_ns, &out.alloc_since_mark, &out.scannable_at_trigger,
    };

    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++)
        *counts[i] = hg__pacer_clean(*counts[i]);
    if (out.procs < 1)
        out.procs = 1;
    out.busy = hg__pacer_clamp(out.busy, 0, 1);
    return out;
}

/* W - done while that lasts. Past W the expectation was wrong by an excess; expect as much again
 * (the work of a heap that has grown tenfold is then seen within a factor of two all the time, and
 * a cycle that is 1 % over expects 1 %). Never less than what is known to be grey, never more than
 * was scannable when the cycle began. */
static int64_t work_left(const struct hg_pacer *p, const struct hg_pacer_progress *now)
{
    int64_t work = p->plan.work, done = now->scanned;
    int64_t left = done < work ? work - done : done - work;

    left = hg__pacer_larger(left, work / REST_SHARE);
    if (now->scannable_at_trigger > 0)
        left = hg__pacer_smaller(left, hg__pacer_clean(now->scannable_at_trigger - done));
    return hg__pacer_larger(left, now->grey_bytes);
}

/* Bytes allocated until background marking at the full share has done `work`, as this cycle has
 * measured it so far; and in *trust how far to believe it, 0..1. */
static double needed_by_measurement(const struct hg_pacer *p, const struct hg_pacer_progress *now,
                                    double work, double *trust)
{
    int64_t gc_ns = hg__pacer_add(hg__pacer_add(now->background_ns, now->idle_ns), now->assist_ns);
    double enough = (double)hg__pacer_larger(p->plan.work / TRUST_SHARE, TRUST_LEAST);
    double speed, made;

    *trust = 0;
    if (gc_ns < LEAST_GC_NS || now->elapsed_ns < LEAST_WALL_NS || now->scanned == 0)
        return 0;
    *trust = hg__pacer_clamp((double)now->scanned / enough, 0, 1);
    speed = (double)now->scanned / (double)gc_ns;
    made = (double)now->alloc_since_mark / (double)now->elapsed_ns;
    /* Mutators that had more than the full share leaves them (u was lowered) will have less. */
    if (now->busy > 1 - HG_PACER_U)
        made *= (1 - HG_PACER_U) / now->busy;
    return work * made / (speed * now->procs * HG_PACER_U);
}

/* The same from a cons/mark ratio, with mutators that take all that the full share leaves. */
static double needed_by_ratio(double c, double work)
{
    return c * work * (1 - HG_PACER_U) / HG_PACER_U;
}

/* The full share, or the lower one that is done when a quarter of the way from trigger to goal is
 * left. That quarter is fixed for the cycle: a share of what is left at each moment would move the
 * end on and on, up to the goal. */
static double share(const struct hg_pacer_plan *plan, double needed, int64_t heap_live)
{
    int64_t room = plan->goal - (plan->goal - plan->trigger) / RESERVE_SHARE - heap_live;

    if (room <= 0)
        return HG_PACER_U;
    return hg__pacer_clamp(HG_PACER_U * needed / (double)room, U_LEAST, HG_PACER_U);
}

int64_t hg__pacer_tolerance(const struct hg_pacer *p)
{
    int64_t goal = p->plan.goal, zone = p->plan.hard - goal;

    if (p->config.study.no_landing || goal == HG_PACER_NO_GOAL)
        return 0;
    return hg__pacer_smaller(goal / TOLERANCE_GOAL, zone / TOLERANCE_HARD);
}

/* The bytes within which work should be done; see above. Without a soft landing: up to the goal.
 * Positive. */
static double landing(const struct hg_pacer *p, int64_t heap_live)
{
    const struct hg_pacer_plan *plan = &p->plan;
    int64_t zone = plan->hard - plan->goal;
    int64_t by_goal = plan->goal - heap_live + hg__pacer_tolerance(p);
    int64_t aim = hg__pacer_larger(by_goal, (plan->hard - heap_live) / LANDING_PARTS);

    if (p->config.study.no_landing)
        return (double)hg__pacer_larger(by_goal, 1);
    return (double)hg__pacer_larger(aim, zone / 64 + 1);
}

struct hg_pacer_assist hg__pacer_revise(const struct hg_pacer *p,
                                        const struct hg_pacer_progress *now, bool assist_on)
{
    const struct hg_pacer_plan *plan = &p->plan;
    struct hg_pacer_progress n = clean_progress(now);
    struct hg_pacer_assist out = {.ratio = 0, .u = HG_PACER_U, .work_left = work_left(p, &n)};
    double work = (double)out.work_left, trust, measured, hedged, needed, land;

    if (plan->goal == HG_PACER_NO_GOAL)
        return out; /* somebody asked for this cycle and may be waiting for it */
    measured = needed_by_measurement(p, &n, work, &trust);
    hedged = trust * measured + (1 - trust) * needed_by_ratio(plan->cons_mark, work);
    if (p->window_len > 0 || trust >= 1)
        out.u = share(plan, hedged, n.heap_live);
    if (!assist_on)
        return out;
    needed = trust * measured + (1 - trust) * needed_by_ratio(hg__pacer_mean_ratio(p), work);
    land = landing(p, n.heap_live);
    if (p->config.study.no_deadband)
        out.ratio = hg__pacer_clamp(work / land, 0, RATIO_MAX);
    else if (needed > land)
        out.ratio = hg__pacer_clamp(work * (1 - land / needed) / land, 0, RATIO_MAX);
    return out;
}

/* A sixteenth of the work, given away: at the start of a cycle the workers have earned nothing yet,
 * and the tasks that happen to allocate first would pay for all. It costs at most a sixteenth of
 * the runway. */
int64_t hg__pacer_starting_credit(const struct hg_pacer *p)
{
    int64_t credit = p->plan.work / CREDIT_SHARE;

    if (p->config.study.no_credit)
        return 0;
    return hg__pacer_smaller(hg__pacer_larger(credit, CREDIT_LEAST), CREDIT_MOST);
}
