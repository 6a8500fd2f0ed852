/* policy_adaptive.c: placeholder header, rewritten once the method is settled. */
#include <math.h>

#include "pacer/internal.h"
#include "pacer/policy.h"

#define RATIO_LEAST   1e-6
#define MEMORY        8
#define JUMP_LEAST    0.35
#define JUMP_SPREADS  4.0
#define SPREAD_LEAST  0.02
#define QUANTILE      0.92
#define ERRORS        24

static double spread(const struct hg_pacer_adaptive *a)
{
    double size[HG_PACER_WINDOW];

    for (int i = 0; i < a->errors; i++)
        size[i] = fabs(a->error[i]);
    return fmax(1.48 * hg__window_quantile(size, a->errors, 0.5), SPREAD_LEAST);
}

static void push_error(struct hg_pacer_adaptive *a, double e)
{
    int n = a->errors < ERRORS ? a->errors : ERRORS - 1;

    for (int i = n; i > 0; i--)
        a->error[i] = a->error[i - 1];
    a->error[0] = e;
    a->errors = n + (a->errors < ERRORS);
}

static void learn(struct hg_pacer *p, int age)
{
    struct hg_pacer_adaptive *a = &p->adaptive;
    double x = log(fmax(p->window[age], RATIO_LEAST)), e, jump;

    if (a->count == 0) {
        a->level = x;
        a->count = 1;
        return;
    }
    e = x - a->level;
    jump = fmax(JUMP_LEAST, JUMP_SPREADS * spread(a));
    if (fabs(e) > jump) {
        if (a->suspect * e > 0) {
            double before = log(fmax(p->window[age + 1], RATIO_LEAST));

            a->level = (x + before) / 2;
            a->count = 2;
            a->suspect = 0;
        } else {
            a->suspect = e;
            if (e > 0)
                push_error(a, e);
        }
        return;
    }
    a->suspect = 0;
    a->count++;
    a->level += e / (a->count < MEMORY ? a->count : MEMORY);
    push_error(a, e);
}

static double estimate(const struct hg_pacer *p)
{
    const struct hg_pacer_adaptive *a = &p->adaptive;
    double hedge = hg__window_quantile(a->error, a->errors, QUANTILE);
    double top = a->level + fmax(hedge, 0);

    if (a->suspect > 0)
        top = fmax(top, a->level + a->suspect);
    return exp(top);
}

const struct hg_policy hg__policy_adaptive = {
    .name = "adaptive",
    .help = "our own: forecast plus the errors that forecasts have had, with a change detector",
    .window = 5,
    .looks_ahead = true,
    .learn = learn,
    .estimate = estimate,
};
