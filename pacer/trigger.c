/* trigger.c: when the next cycle starts.
 *
 *   runway   c_hat * W * (1 - u) / u  +  alloc_rate * H
 *   trigger  goal - runway, within bounds
 *
 * The first term is what the mutators allocate while background marking, with its share u of CPU
 * time, does all of W; the second is what they allocate while nothing is marked at all: the
 * handshakes and the root scan before MARK, and the rounds after the last grey object. H is the
 * largest of those times in the policy's window. It is a hedge by itself, because a handshake lasts
 * as long as its slowest mutator.
 *
 * Bounds, from the live heap L upwards, with D = goal - L:
 *   - an eighth of D, or 512 KiB, is always left before a trigger: cycles are never back to back;
 *   - the runway is at most 0.3 D, unless measurements ask for more: what the last cycle alone
 *     would have needed, twice the median of the last five, or what the allocation rate before the
 *     trigger asks for (where a policy looks ahead). So a policy hedges as it likes where
 *     c is really high (one or two procs, where 0.3 D would put assist into every cycle), and a
 *     single outlier kept by a maximum costs one early cycle, not five;
 *   - the runway is at least D / 20 or 64 KiB: a little early is cheap, late is not;
 *   - without any measurement the runway is 0.3 D.
 */
#include "pacer/internal.h"
#include "pacer/policy.h"

#define BACK_SHARE  8 /* D / 8 before a trigger */
#define BACK_LEAST  (512 * HG__PACER_KIB)
#define SLACK_SHARE 20 /* D / 20 between trigger and goal */
#define SLACK_LEAST (64 * HG__PACER_KIB)
#define EARLY_SHARE 0.3

/* Bytes allocated while W is marked at ratio c, and for quiet_ns without marking. */
static double runway_of(const struct hg_pacer *p, double c, int64_t quiet_ns)
{
    double u = HG_PACER_U;

    return c * (double)p->plan.work * (1 - u) / u + p->alloc_rate * (double)quiet_ns;
}

/* H: the longest quiet time of the policy's window. */
static int64_t longest_quiet(const struct hg_pacer *p)
{
    int64_t longest = 0;

    for (int i = 0; i < hg__policy_window(&p->config.policy); i++)
        longest = hg__pacer_larger(longest, p->quiet_window[i]);
    return longest;
}

/* The runway beyond which measurements do not back a policy's estimate. */
static double runway_backed(const struct hg_pacer *p, double distance)
{
    double most = EARLY_SHARE * distance;
    double last = runway_of(p, p->plan.measured, p->last.quiet_ns);
    double usual = 2 * runway_of(p, hg__pacer_median_ratio(p), p->last.quiet_ns);

    double ahead = runway_of(p, hg__pacer_calm_ratio(p), p->last.quiet_ns);

    if (last > most)
        most = last;
    if (ahead > most)
        most = ahead;
    return usual > most ? usual : most;
}

static int64_t runway(const struct hg_pacer *p, int64_t distance)
{
    double d = (double)distance, wanted;

    if (p->window_len == 0)
        return hg__pacer_count(EARLY_SHARE * d);
    wanted = runway_of(p, p->plan.cons_mark, longest_quiet(p));
    return hg__pacer_count(hg__pacer_clamp(wanted, 0, runway_backed(p, d)));
}

/* Distances are at least 1 MiB (goal.c), so that an eighth, 512 KiB and 64 KiB all fit below half
 * of it. */
static int64_t trigger(int64_t live, int64_t goal, int64_t wanted)
{
    int64_t distance = goal - live;
    int64_t half = distance / 2;
    int64_t back = hg__pacer_smaller(hg__pacer_larger(distance / BACK_SHARE, BACK_LEAST), half);
    int64_t slack = hg__pacer_smaller(hg__pacer_larger(distance / SLACK_SHARE, SLACK_LEAST), half);
    int64_t run = hg__pacer_larger(wanted, slack);

    return run > distance - back ? live + back : goal - run;
}

void hg__pacer_plan(struct hg_pacer *p, const struct hg_pacer_memory *mem)
{
    static const struct hg_pacer_memory none;
    struct hg_pacer_plan *plan = &p->plan;
    const struct hg_pacer_cycle *last = &p->last;

    if (!mem)
        mem = &none;
    plan->work = hg__pacer_scanned(last);
    plan->u = HG_PACER_U;
    plan->goal = hg__pacer_goal(p, mem, &plan->limited);
    plan->hard = hg__pacer_hard(p, mem, plan->goal);
    plan->hard_by_goal = hg__pacer_hard_by_goal(plan->goal);
    if (plan->goal == HG_PACER_NO_GOAL) {
        plan->trigger = HG_PACER_NO_GOAL;
        plan->runway = 0;
        return;
    }
    plan->runway = runway(p, plan->goal - last->marked);
    plan->trigger = trigger(last->marked, plan->goal, plan->runway);
}
