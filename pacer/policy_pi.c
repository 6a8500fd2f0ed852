/* policy_pi.c: a PI controller that steers the estimate towards the measured ratio.
 *
 *   error     measured - estimate
 *   estimate  KP * error + integral            (within 0 .. MOST)
 *   integral  += KP / TI * error               (one period is one cycle)
 *
 * The integral carries the level and the proportional term follows quickly: the closed loop's poles
 * are at 0.87 and -0.77, stable, a step is followed within about eight cycles. With noise the
 * estimate swings about the mean, so like an average it sits on the edge. Kept to compare with.
 *
 * Against windup the integral stands still while the output is clamped and the error would push it
 * further out; it is itself held in the output's range. The first measurement is taken over as it
 * is: a start from 0 would give the first cycles of every program assist.
 *
 * pi_output < 0: nothing was measured yet.
 */
#include "pacer/internal.h"
#include "pacer/policy.h"

#define KP   0.9
#define TI   4.0
#define MOST HG__PACER_CONS_MARK_MAX

static void learn(struct hg_pacer *p, int age)
{
    double measured = p->window[age], error, wanted, output;

    if (p->pi_output < 0) {
        p->pi_integral = p->pi_output = measured;
        return;
    }
    error = measured - p->pi_output;
    wanted = KP * error + p->pi_integral;
    output = hg__pacer_clamp(wanted, 0, MOST);
    if (wanted == output || (wanted < output) == (error > 0))
        p->pi_integral = hg__pacer_clamp(p->pi_integral + KP / TI * error, 0, MOST);
    p->pi_output = output;
}

static double estimate(const struct hg_pacer *p) { return p->pi_output; }

const struct hg_policy hg__policy_pi = {
    .name = "pi",
    .help = "a PI controller (kp 0.9, ti 4 cycles); on the edge, for comparison",
    .window = 5,
    .learn = learn,
    .estimate = estimate,
};
