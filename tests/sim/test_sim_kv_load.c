/* test_sim_kv_load.c: the load of `hedge-sim kv`: arrivals, bursts, garbage, stack noise. */
#include "sim/kv.h"
#include "sim/kv_live.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static struct kv_options opt;

static void setup(void)
{
    opt = (struct kv_options){.conns = 10000,
                              .rate = 100000,
                              .read_percent = 95,
                              .keys = 200000,
                              .value_bytes = 1024,
                              .garbage_nodes = 12,
                              .depth = 8,
                              .gogc = 100,
                              .duration_s = 30,
                              .warmup_s = 5};
}

/* ---- arrivals and garbage ---- */

/* The arrivals of all connections together come at the asked rate, and each connection's are
 * exponential: variance of a gap = mean^2. */
Test(sim_kv_load, arrivals, .init = setup)
{
    enum { CONNS = 50, GAPS = 2000 };
    double sum = 0, squares = 0;
    opt.conns = CONNS;
    opt.rate = 1000;
    for (int id = 0; id < CONNS; id++) {
        struct kv_arrivals a;
        int64_t last = 0;
        kv_arrivals_init(&a, &opt, id, 42);
        for (int i = 0; i < GAPS; i++) {
            int64_t at = kv_arrivals_at(&a);
            cr_assert_geq(at, last);
            sum += (double)(at - last);
            squares += (double)(at - last) * (double)(at - last);
            last = at;
            kv_arrivals_next(&a);
        }
    }
    double n = CONNS * GAPS, mean = sum / n, variance = squares / n - mean * mean;
    cr_assert_float_eq(mean, 50e6, 50e6 * 0.02, "%g", mean);
    cr_assert_float_eq(variance, mean * mean, mean * mean * 0.06, "%g", variance);
}

Test(sim_kv_load, bursts, .init = setup)
{
    struct kv_arrivals burst, plain;
    kv_arrivals_init(&plain, &opt, 7, 1);
    opt.burst_us = 1000;
    kv_arrivals_init(&burst, &opt, 7, 1);
    for (int i = 0; i < 1000; i++) {
        int64_t at = kv_arrivals_at(&burst), wanted = kv_arrivals_at(&plain);
        cr_assert_eq(at % 1000000, 0);
        cr_assert(at >= wanted && at - wanted <= 1000000, "put off, by less than a burst");
        kv_arrivals_next(&burst);
        kv_arrivals_next(&plain);
    }
}

Test(sim_kv_load, garbage, .init = setup)
{
    /* 80 + 32 + 12 * 48 + 48; a read 1024 + 1064 + 1024, a write 1024 + 1024 + 48 + 64. */
    cr_assert_float_eq(kv_garbage_per_op(&opt), 736 + 0.95 * 3112 + 0.05 * 2160, 1e-6);
    cr_assert_gt(kv_floor_bytes(&opt), 100000.0 * 35 * kv_garbage_per_op(&opt));
}

/* ---- stack noise ---- */

Test(sim_kv_load, stacks_without_noise_have_one_depth)
{
    struct kv_options o = {.depth = 8};
    for (int64_t ns = -KV_STACK_NOISE_NS; ns < 20 * KV_STACK_NOISE_NS; ns += KV_STACK_NOISE_NS / 3)
        cr_assert_eq(kv_stack_frames(&o, 42, ns), 8);
    cr_assert(kv_stack_frames_least(&o) == 8 && kv_stack_frames_most(&o) == 8);
}

/* One number of frames for all of a period, another for the next; uniform; and seeds differ. */
Test(sim_kv_load, stack_noise_is_uniform_by_period)
{
    struct kv_options o = {.depth = 10, .stack_noise = 0.5};
    int count[16] = {0}, same_as_next = 0, same_as_other = 0;
    const int periods = 20000;
    cr_assert(kv_stack_frames_least(&o) == 5 && kv_stack_frames_most(&o) == 15);
    for (int64_t p = 0; p < periods; p++) {
        int64_t begin = p * KV_STACK_NOISE_NS;
        int frames = kv_stack_frames(&o, 42, begin);
        cr_assert_eq(kv_stack_frames(&o, 42, begin + KV_STACK_NOISE_NS - 1), frames);
        cr_assert(frames >= 5 && frames <= 15, "%d", frames);
        count[frames]++;
        same_as_next += kv_stack_frames(&o, 42, begin + KV_STACK_NOISE_NS) == frames;
        same_as_other += kv_stack_frames(&o, 43, begin) == frames;
    }
    /* Eleven numbers, of which the first and the last have half a share: 0.095 are alike by chance.
     * Five standard deviations are 210 of 2000 and less elsewhere. */
    for (int f = 5; f <= 15; f++) {
        int expected = f == 5 || f == 15 ? periods / 20 : periods / 10;
        cr_expect(abs(count[f] - expected) < 215, "%d frames: %d of %d", f, count[f], periods);
    }
    cr_expect(abs(same_as_next - 1900) < 215, "%d", same_as_next);
    cr_expect(abs(same_as_other - 1900) < 215, "%d", same_as_other);
    cr_expect_eq(kv_stack_frames(&o, 42, -1), kv_stack_frames(&o, 42, 0), "before the load starts");
}

/* All of it: from no frame to twice the depth, as the stacks of pacer's model are from nothing to
 * twice their mean. */
Test(sim_kv_load, stack_noise_of_all)
{
    struct kv_options o = {.depth = 8, .stack_noise = 1};
    int least = 100, most = 0;
    double sum = 0;
    for (int p = 0; p < 5000; p++) {
        int frames = kv_stack_frames(&o, 7, p * KV_STACK_NOISE_NS);
        least = frames < least ? frames : least;
        most = frames > most ? frames : most;
        sum += frames;
    }
    cr_expect(least == 0 && most == 16, "%d to %d", least, most);
    cr_expect_float_eq(sum / 5000, 8, 0.35, "five standard deviations; %g", sum / 5000);
}

Test(sim_kv_load, garbage_of_an_operation)
{
    struct kv_options o = {.value_bytes = 1000, .read_percent = 100, .garbage_nodes = 10};
    double before = kv_garbage_per_op(&o);
    cr_assert_float_eq(before, 80 + 32 + 480 + 48 + 3 * 1000 + 40, 1e-9);
    o.garbage_bytes = 5000;
    cr_assert_float_eq(kv_garbage_per_op(&o) - before, 5000, 1e-9);
}
