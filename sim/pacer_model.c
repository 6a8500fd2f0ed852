/* pacer_model.c: noise models: what the load of each cycle is.
 *
 * All are variations of one base: 256 MiB live and 4 MiB of stacks, all scanned, allocation of 0.1
 * bytes per CPU-ns of a mutator, marking of 1 byte per CPU-ns. With GOGC=100 the runway is then
 * three tenths of the way from live heap to goal, which is where the trigger's bounds are, and a
 * mistake of ten per cent moves a cycle's end by three per cent of that way.
 *
 * Noise is on the ratio of allocation to marking, drawn anew for each cycle, as a worker that is
 * descheduled, a burst, or other objects to scan make it. Before the trigger there is a quarter of
 * it: a calm is several times as long as a marking, and averages. Where a model changes the load
 * for good (step, ramp, idle), the change happens at a random place of the calm, and is there to be
 * seen from then on.
 *
 * Random numbers are drawn in the same order whatever the policy does.
 */
#include "sim/pacer.h"
#include <math.h>
#include <string.h>

#define MIB        1048576.0
#define BASE_RATE  0.1
#define BASE_LIVE  (256 * MIB)
#define BASE_STACK (4 * MIB)

/* Uniform in [0, 1). */
static double uniform(struct pacer_source *s)
{
    return (double)(sim_rng_next(&s->rng) >> 11) * 0x1p-53;
}

/* Uniform in [1 - width, 1 + width). */
static double about_one(struct pacer_source *s, double width)
{
    return 1 + width * (2 * uniform(s) - 1);
}

static void base(struct pacer_load *out)
{
    *out = (struct pacer_load){.calm_before = BASE_RATE,
                               .calm_after = BASE_RATE,
                               .change_at = 1,
                               .rate = BASE_RATE,
                               .speed = 1,
                               .live = BASE_LIVE,
                               .stack = BASE_STACK,
                               .scan = 1,
                               .demand = 1,
                               .level = BASE_RATE};
}

/* The allocation rate becomes `to` times the base somewhere in this calm; it was `from` times. */
static void change(struct pacer_source *s, struct pacer_load *out, double from, double to)
{
    out->calm_before = BASE_RATE * from;
    out->calm_after = out->rate = out->level = BASE_RATE * to;
    out->change_at = uniform(s);
}

/* Uniform noise: all of it on the ratio while marking, a quarter before. */
static void noise(struct pacer_source *s, struct pacer_load *out, double width)
{
    double calm = about_one(s, width / 4);

    out->rate *= about_one(s, width);
    out->calm_before *= calm;
    out->calm_after *= calm;
}

static void next_constant(struct pacer_source *s, struct pacer_load *out)
{
    (void)s;
    base(out);
}

static void next_low(struct pacer_source *s, struct pacer_load *out)
{
    base(out);
    noise(s, out, 0.1);
}

static void next_uniform(struct pacer_source *s, struct pacer_load *out)
{
    base(out);
    noise(s, out, 0.5);
}

/* Uniform noise of 50 % for 20 cycles, as while a program starts, then of 5 % for 60. */
static void next_settling(struct pacer_source *s, struct pacer_load *out)
{
    base(out);
    noise(s, out, s->cycle % 80 < 20 ? 0.5 : 0.05);
}

/* A twentieth of the cycles has 1.5 times the ratio or more, with a Pareto tail of exponent 2:
 * twice as high for a quarter of them. At most 8 times. */
static void next_tail(struct pacer_source *s, struct pacer_load *out)
{
    double hit = uniform(s), size = uniform(s);

    base(out);
    noise(s, out, 0.1);
    if (hit < 0.05)
        out->rate *= fmin(1.5 / sqrt(1 - size), 8);
}

/* Four times the load for 25 cycles, then back for 25. The load's level: s->state, 0 at first. */
static void next_step(struct pacer_source *s, struct pacer_load *out)
{
    double from = s->state == 0 ? 0.3 : s->state, to = (s->cycle / 25) % 2 == 1 ? 1.2 : 0.3;

    base(out);
    change(s, out, from, to);
    out->fell = to < from;
    s->state = to;
    noise(s, out, 0.1);
}

/* From 0.3 times to 1.2 times the base and back, 40 cycles each way. */
static void next_ramp(struct pacer_source *s, struct pacer_load *out)
{
    int at = (int)(s->cycle % 80), up = at < 40 ? at : 80 - at;
    double from = s->state == 0 ? 0.3 : s->state, to = 0.3 + 0.9 * up / 40;

    base(out);
    change(s, out, from, to);
    s->state = to;
    noise(s, out, 0.1);
}

/* Bursts of 1 to 3 cycles with 2.5 times the load, a new one after 5 to 20 cycles. */
static void next_bursts(struct pacer_source *s, struct pacer_load *out)
{
    double from = s->state == 0 ? 0.5 : s->state, to = from, length = uniform(s);

    base(out);
    if (s->left == 0 && s->cycle > 0)
        to = from > 1 ? 0.5 : 1.25;
    if (s->left == 0)
        s->left = to > 1 ? 1 + (int)(3 * length) : 5 + (int)(16 * length);
    s->left--;
    change(s, out, from, to);
    s->state = to;
    noise(s, out, 0.1);
}

/* Busy for 40 cycles, then idle for 20: a fiftieth of the CPU time is wanted, and by work that
 * allocates a quarter as fast. */
static void next_idle(struct pacer_source *s, struct pacer_load *out)
{
    double from = s->state == 0 ? 1 : s->state, to = s->cycle % 60 >= 40 ? 0.25 : 1;

    base(out);
    change(s, out, from, to);
    out->fell = to < from;
    s->state = to;
    if (to < 1)
        out->demand = 0.02;
    noise(s, out, 0.1);
}

/* The live heap grows by 2 % a cycle from 64 MiB to 1 GiB, and is let go of. */
static void next_growing(struct pacer_source *s, struct pacer_load *out)
{
    base(out);
    noise(s, out, 0.1);
    out->live = 64 * MIB * pow(1.02, (double)(s->cycle % 140));
}

/* 1 MiB live for 100 cycles, then 512 MiB for 20. With a minimum heap: else the heap could not hold
 * so much by the time of the next trigger, and would double from cycle to cycle instead. */
static void next_jump(struct pacer_source *s, struct pacer_load *out)
{
    base(out);
    noise(s, out, 0.1);
    out->live = s->cycle % 120 < 100 ? MIB : 512 * MIB;
}

/* Stacks of 0 to 128 MiB, another size in each cycle. */
static void next_stacks(struct pacer_source *s, struct pacer_load *out)
{
    base(out);
    noise(s, out, 0.1);
    out->stack = 128 * MIB * uniform(s);
}

/* Before the trigger the program allocates half to twice as fast as while marking, another factor
 * in each cycle; and before a tenth of the cycles a quarter as fast. None of it says anything. */
static void next_decoy(struct pacer_source *s, struct pacer_load *out)
{
    double lull = uniform(s) < 0.1 ? 0.25 : exp2(2 * uniform(s) - 1);

    base(out);
    noise(s, out, 0.1);
    out->calm_before = out->calm_after = BASE_RATE * lull;
}

static void next_within(struct pacer_source *s, struct pacer_load *out)
{
    base(out);
    out->wobble = 0.6;
    out->wobble_seed = sim_rng_next(&s->rng);
}

const struct pacer_model pacer_models[] = {
    {"constant", "no noise", next_constant, 0},
    {"low", "uniform noise of 10 % on the ratio", next_low, 0},
    {"uniform", "uniform noise of 50 % on the ratio", next_uniform, 0},
    {"settling", "uniform noise of 50 % for 20 cycles, then of 5 % for 60", next_settling, 0},
    {"tail", "uniform 10 %, and 1.5 to 8 times the ratio in a cycle of 20", next_tail, 0},
    {"step", "the load goes up by four, and 25 cycles later down", next_step, 0},
    {"ramp", "the load rises by four over 40 cycles, and falls", next_ramp, 0},
    {"bursts", "1 to 3 cycles with 2.5 times the load, every 5 to 20", next_bursts, 0},
    {"idle", "busy for 40 cycles, then idle for 20", next_idle, 0},
    {"growing", "the live heap grows by 2 % a cycle, 64 MiB to 1 GiB", next_growing, 0},
    {"jump", "live heap from 1 to 512 MiB and back; minimum heap 600 MiB", next_jump, 600 << 20},
    {"stacks", "0 to 128 MiB of stacks beside 256 MiB of heap", next_stacks, 0},
    {"decoy", "before the trigger 0.25 to 2 times the load, without meaning", next_decoy, 0},
    {"within", "the allocation rate varies within each cycle", next_within, 0},
};
const int pacer_model_count = sizeof pacer_models / sizeof *pacer_models;

const struct pacer_model *pacer_model_find(const char *name)
{
    for (int i = 0; i < pacer_model_count; i++)
        if (strcmp(pacer_models[i].name, name) == 0)
            return &pacer_models[i];
    for (int i = 0; i < pacer_limit_model_count; i++)
        if (strcmp(pacer_limit_models[i].name, name) == 0)
            return &pacer_limit_models[i];
    return strcmp(name, pacer_model_replay.name) == 0 ? &pacer_model_replay : NULL;
}

void pacer_source_init(struct pacer_source *s, const struct pacer_model *m, uint64_t seed)
{
    int64_t limit = pacer_model_limit(m);
    uint64_t at = (uint64_t)(limit > 0 ? 100 + (m - pacer_limit_models) : m - pacer_models);

    *s = (struct pacer_source){.next = m->next, .rng = {seed}, .limit = (double)limit};
    s->rng.state = sim_rng_next(&s->rng) ^ at << 32;
}
