/* policy_adaptive.c: our own policy: a forecast, and as much on top as forecasts have been wrong.
 *
 * Everything is in logarithms, since noise on a rate is a factor. docs/design/adaptive.md has the
 * reasons, where each number comes from, and what was measured.
 *
 *   forecast   level, raised by what the rate before the trigger shows
 *   error      log(measured) - forecast; the sizes of the newest ERRORS are kept
 *   reserve    max(error, KEEP * reserve): a maximum that forgets by half in 34 cycles
 *   hedge      min(reserve, SETTLED * largest of the kept sizes); over a forecast that was raised
 *              only what is left of it, or SETTLED * usual error where that is more
 *   estimate   max(exp(forecast), exp(forecast + hedge) - ALLOWANCE * tolerance)
 *
 * where the tolerance is what a cycle may pass its goal by before a task owes anything for it
 * (assist.c): within it nobody notices that a cycle is late, and there is nothing to hedge against.
 *
 * The reserve varies less than a maximum of five that lies as high, and so is late less often for
 * the same average. The bound gives it back when noise ends: eight cycles after a program has
 * started the hedge is at most one and a half times what they show.
 *
 * Level. The mean of the ratios since the last change of level, with at most MEMORY of them behind
 * it. What remains of a trend is a steady error of one sign, and so becomes part of the hedge.
 *
 * Change of level. An error is suspect if it is larger than JUMP_SPREADS usual errors and
 * JUMP_LEAST (a factor of two). One suspect says nothing yet: if it was upwards the next cycle
 * expects as much again (and not that much on top as well: it counts as an error only from the
 * cycle after), if it was downwards nothing changes. A second one in the same direction is the new
 * level, at the higher of the two. So a step down is followed after two cycles, and errors about
 * the old level say nothing of the new one.
 *
 * Before the trigger. The allocation rate between cycles (calm.c) is compared with what it was
 * before the cycles behind the level. If it has risen by more than it does without a meaning, and
 * by more than CALM_JUMP, the forecast rises by as much, at once: a step up between two cycles
 * makes none of them late. A fall moves no forecast: where it means nothing, the cycle would be
 * late. The next ratio judges: if it has moved likewise, up or down, it is the new level without
 * waiting for a second one; else the size of the move is remembered as meaningless for some time.
 */
#include <math.h>

#include "pacer/internal.h"
#include "pacer/policy.h"

#define RATIO_LEAST  1e-6 /* the logarithm of less is not worth telling apart */
#define MEMORY       6
#define ERRORS       HG_ADAPTIVE_ERRORS
#define KEEP         0.98
#define SETTLED      1.5  /* times the largest kept error: more is no hedge any more */
#define ALLOWANCE    0.75 /* the rest of the tolerance is for noise within a cycle */
#define JUMP_LEAST   0.7
#define JUMP_SPREADS 4.0
#define MEDIAN_SIGMA 1.4826 /* standard deviations in the median size of normal errors */
#define CALM_JUMP    0.25
#define CALM_MARGIN  1.5  /* times the largest move without a meaning, */
#define CALM_KEEP    0.97 /* which is forgotten by half in 23 cycles */

static double logarithm(double v) { return log(fmax(v, RATIO_LEAST)); }

/* A standard deviation of the errors, as their median has it: outliers among them do not count. */
static double usual_error(const struct hg_pacer_adaptive *a)
{
    return MEDIAN_SIGMA * hg__window_quantile(a->error, a->errors, 0.5);
}

/* How large an error is that no noise explains. */
static double jump(const struct hg_pacer_adaptive *a)
{
    return fmax(JUMP_LEAST, JUMP_SPREADS * usual_error(a));
}

static void push_error(struct hg_pacer_adaptive *a, double e)
{
    if (a->errors < ERRORS)
        a->errors++;
    for (int i = a->errors - 1; i > 0; i--)
        a->error[i] = a->error[i - 1];
    a->error[0] = fabs(e);
    a->reserve = fmax(a->reserve, e);
}

/* How far a rate before the trigger has moved: not at all, unless it is far. */
static double shift(const struct hg_pacer_adaptive *a, double rate)
{
    double moved;

    if (rate <= 0 || !a->calm_known)
        return 0;
    moved = logarithm(rate) - a->calm_level;
    return fabs(moved) > fmax(CALM_JUMP, CALM_MARGIN * a->calm_spread) ? moved : 0;
}

static int memory(const struct hg_pacer_adaptive *a)
{
    return a->count < MEMORY ? a->count : MEMORY;
}

static void begin_calm_level(struct hg_pacer_adaptive *a, double rate)
{
    a->calm_known = rate > 0;
    a->calm_level = a->calm_known ? logarithm(rate) : 0;
}

/* A new level: from `count` ratios, with this rate before the trigger. */
static void begin_level(struct hg_pacer_adaptive *a, double level, int count, double rate)
{
    a->level = level;
    a->count = count;
    a->suspect = 0;
    a->errors = 0;
    begin_calm_level(a, rate);
}

/* One more ratio of the same level. */
static void follow(struct hg_pacer_adaptive *a, double e, double rate)
{
    double moved;

    a->suspect = 0;
    a->count++;
    a->level += e / memory(a);
    push_error(a, e);
    if (rate <= 0)
        return;
    if (!a->calm_known) {
        begin_calm_level(a, rate);
        return;
    }
    moved = logarithm(rate) - a->calm_level;
    a->calm_spread = fmax(a->calm_spread * CALM_KEEP, fabs(moved));
    a->calm_level += moved / memory(a);
}

static void learn(struct hg_pacer *p, int age)
{
    struct hg_pacer_adaptive *a = &p->adaptive;
    double x = logarithm(p->window[age]), rate = p->calm.window[age];
    double e = x - a->level, moved = shift(a, rate), most = jump(a);

    if (a->suspect > 0) /* after `most`: a suspect makes no other look usual */
        push_error(a, a->suspect);
    a->reserve *= KEEP;
    if (a->count == 0) {
        begin_level(a, x, 1, rate);
    } else if (moved != 0 && fabs(e - moved) < fabs(e)) {
        begin_level(a, x, 1, rate);
        push_error(a, e - moved);
    } else if (fabs(e) <= most) {
        follow(a, e, rate);
    } else if (a->suspect * e > 0) {
        begin_level(a, fmax(x, logarithm(p->window[age + 1])), 2, rate);
    } else {
        a->suspect = e;
    }
}

static double estimate(const struct hg_pacer *p)
{
    const struct hg_pacer_adaptive *a = &p->adaptive;
    double settled = SETTLED * hg__window_quantile(a->error, a->errors, 1);
    double hedge = fmin(a->reserve, settled), raised = fmax(a->suspect, 0), forecast;
    double tolerance = ALLOWANCE * (double)hg__pacer_tolerance(p);

    if (p->calm.parts > 0)
        raised = fmax(raised, shift(a, p->calm.rate));
    if (raised > 0)
        hedge = fmax(hedge - raised, fmin(hedge, SETTLED * usual_error(a)));
    forecast = a->level + raised;
    return fmax(exp(forecast), exp(forecast + hedge) - hg__policy_ratio_of_runway(p, tolerance));
}

const struct hg_policy hg__policy_adaptive = {
    .name = "adaptive",
    .help = "a forecast, and on top what forecasts were wrong by; sees steps before the trigger",
    .window = 5,
    .looks_ahead = true,
    .learn = learn,
    .estimate = estimate,
};
