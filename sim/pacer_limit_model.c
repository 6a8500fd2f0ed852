/* pacer_limit_model.c: models of programs with a memory limit: above it, near it, and a leak
 * towards it and past it.
 *
 * Live heaps are shares of the limit, whatever that is. The rest is the base of the noise models
 * (pacer_model.c), with 10 % of noise and smaller stacks.
 */
#include "sim/pacer.h"

#define MIB         1048576.0
#define LIMIT       (INT64_C(256) << 20)
#define RATE        0.1
#define STACK       (1 * MIB)
#define NOISE       0.1
#define BELOW       1.25
#define NEAR        0.9
#define LEAK_FROM   0.4
#define LEAK_TO     1.3
#define LEAK_CYCLES 150 /* to get there */
#define LEAK_PERIOD 200 /* then it stays, and begins again */

static double about_one(struct pacer_source *s)
{
    double uniform = (double)(sim_rng_next(&s->rng) >> 11) * 0x1p-53;

    return 1 + NOISE * (2 * uniform - 1);
}

static void program(struct pacer_source *s, struct pacer_load *out, double live)
{
    *out = (struct pacer_load){.calm_before = RATE,
                               .calm_after = RATE,
                               .change_at = 1,
                               .rate = RATE * about_one(s),
                               .speed = 1,
                               .live = live * s->limit,
                               .stack = STACK,
                               .scan = 1,
                               .demand = 1,
                               .level = RATE};
}

static void next_below(struct pacer_source *s, struct pacer_load *out) { program(s, out, BELOW); }

static void next_near(struct pacer_source *s, struct pacer_load *out) { program(s, out, NEAR); }

static void next_leak(struct pacer_source *s, struct pacer_load *out)
{
    double way = (double)(s->cycle % LEAK_PERIOD) / LEAK_CYCLES;

    program(s, out, LEAK_FROM + (LEAK_TO - LEAK_FROM) * (way < 1 ? way : 1));
}

const struct pacer_model pacer_limit_models[] = {
    {"limit-below", "the live heap is 1.25 times the memory limit", next_below, 0},
    {"limit-near", "the live heap is 0.9 times the memory limit", next_near, 0},
    {"limit-leak", "a leak, from 0.4 to 1.3 times the memory limit", next_leak, 0},
};
const int pacer_limit_model_count = sizeof pacer_limit_models / sizeof *pacer_limit_models;

int64_t pacer_model_limit(const struct pacer_model *m)
{
    for (int i = 0; i < pacer_limit_model_count; i++)
        if (m == &pacer_limit_models[i])
            return LIMIT;
    return 0;
}
