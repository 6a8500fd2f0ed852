/* test_sim_hist.c: sums and differences of histograms, blocks, the bootstrap, the percentile
 * file. */
#include "sim/hist.h"
#include "sim/rng.h"
#include "tests/support/test.h"
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>

static hg_histogram a, b, c;

static void setup(void)
{
    hg_histogram_reset(&a);
    hg_histogram_reset(&b);
    hg_histogram_reset(&c);
}

#define WRITERS 4
#define VALUES  50000

static void *write_values(void *arg)
{
    int64_t first = (int64_t)(intptr_t)arg;
    for (int64_t i = 0; i < VALUES; i++)
        sim_hist_add_shared(&a, first + i * WRITERS);
    return NULL;
}

Test(sim_hist, many_writers_lose_nothing, .init = setup)
{
    pthread_t t[WRITERS];
    for (intptr_t i = 0; i < WRITERS; i++)
        cr_assert_eq(pthread_create(&t[i], NULL, write_values, (void *)i), 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(t[i], NULL);
    sim_hist_collect(&b, &a);
    for (int64_t v = 0; v < WRITERS * VALUES; v++)
        hg_histogram_add(&c, v);
    cr_assert_eq(b.total, c.total);
    cr_assert_eq(b.max, c.max);
    cr_assert_arr_eq(b.count, c.count, sizeof b.count);
    sim_hist_collect(&b, &a);
    cr_assert_eq(b.total, 2 * c.total, "collect adds");
}

Test(sim_hist, delta, .init = setup)
{
    hg_histogram_add(&a, 100);
    hg_histogram_add(&a, 5000000);
    b = a;
    hg_histogram_add(&b, 200);
    hg_histogram_add(&b, 70000);
    sim_hist_delta(&c, &b, &a);
    cr_assert_eq(c.total, 2);
    cr_assert_eq(hg_histogram_quantile(&c, 0.5), 200);
    cr_assert_geq(c.max, 70000, "the older, larger maximum is not its own");
    cr_assert_leq((double)c.max, 70000 * 1.01);
    hg_histogram_add(&b, 9000000);
    sim_hist_delta(&c, &b, &a);
    cr_assert_eq(c.max, 9000000, "a new maximum is exact");
    sim_hist_delta(&a, &b, &a);
    cr_assert_arr_eq(a.count, c.count, sizeof a.count, "in place");
    sim_hist_delta(&c, &b, &b);
    cr_assert(c.total == 0 && c.max == 0);
}

Test(sim_hist, bootstrap_of_equal_blocks_is_a_point, .init = setup)
{
    struct sim_blocks blocks = {0};
    static const double q[] = {0.5, 0.99};
    double low[2], high[2];
    sim_bootstrap(&blocks, q, 2, low, high, 1);
    cr_assert(isnan(low[0]) && isnan(high[1]), "no blocks, no interval");
    for (int i = 1; i <= 100; i++)
        hg_histogram_add(&a, i);
    for (int i = 0; i < 40; i++)
        sim_blocks_add(&blocks, &a);
    sim_bootstrap(&blocks, q, 2, low, high, 1);
    cr_assert(low[0] == 50 && high[0] == 50 && low[1] == 99 && high[1] == 99);
    sim_blocks_free(&blocks);
    cr_assert_eq(blocks.n, 0);
}

/* Blocks of unlike heights, as cycles are: the 95 % interval must hold the true quantile in most
 * experiments. The percentile bootstrap covers a little less than 95 % with so few blocks. */
Test(sim_hist, bootstrap_covers, .init = setup)
{
    enum { TRIALS = 60, BLOCKS = 40, PER_BLOCK = 400 };
    static const double q[] = {0.9};
    struct sim_rng rng = {test_seed("sim_hist/bootstrap_covers")};
    /* A value is uniform in 0..1 ms plus its block's own 0..1 ms: P(x > t) = (2 - t)^2 / 2. */
    double low, high, truth = 1e6 * (2 - sqrt(0.2));
    int covered = 0;
    for (int t = 0; t < TRIALS; t++) {
        struct sim_blocks blocks = {0};
        for (int k = 0; k < BLOCKS; k++) {
            hg_histogram_reset(&a);
            uint32_t shift = sim_rng_below(&rng, 1000000);
            for (int i = 0; i < PER_BLOCK; i++)
                hg_histogram_add(&a, shift + sim_rng_below(&rng, 1000000));
            sim_blocks_add(&blocks, &a);
        }
        sim_bootstrap(&blocks, q, 1, &low, &high, sim_rng_next(&rng));
        covered += low <= truth * 1.01 && high >= truth;
        cr_assert_lt(low, high);
        sim_blocks_free(&blocks);
    }
    cr_assert_geq(covered, TRIALS * 8 / 10, "%d of %d", covered, TRIALS);
}

Test(sim_hist, bootstrap_of_many_blocks, .init = setup)
{
    struct sim_blocks blocks = {0};
    static const double q[] = {0.5};
    double low, high, again_low, again_high;
    for (int k = 0; k < 3000; k++) {
        hg_histogram_reset(&a);
        if (k % 3 != 0) /* and some are empty */
            hg_histogram_add(&a, 1000 + k % 100);
        sim_blocks_add(&blocks, &a);
    }
    sim_bootstrap(&blocks, q, 1, &low, &high, 7);
    cr_assert(low >= 1000 && low <= high && high < 1110, "%g %g", low, high);
    sim_bootstrap(&blocks, q, 1, &again_low, &again_high, 7);
    cr_assert(low == again_low && high == again_high, "same seed, same interval");
    sim_blocks_free(&blocks);
}

/* The file is read back: percentiles rise, counts rise to the total, and each value is the
 * histogram's own quantile. */
Test(sim_hist, hgrm, .init = setup)
{
    for (int i = 1; i <= 100000; i++)
        hg_histogram_add(&a, i * INT64_C(1000));
    FILE *f = tmpfile();
    char line[200];
    int rows = 0;
    double value, percentile, last = -1;
    unsigned long long count, total = 0;
    sim_hist_write_hgrm(f, &a, 1e6);
    rewind(f);
    cr_assert_not_null(fgets(line, sizeof line, f));
    cr_assert_str_eq(line, "       Value     Percentile TotalCount 1/(1-Percentile)\n");
    while (fgets(line, sizeof line, f) != NULL && line[0] != '#') {
        if (sscanf(line, "%lf %lf %llu", &value, &percentile, &count) != 3)
            continue;
        cr_assert_gt(percentile, last);
        cr_assert_geq(count, total);
        cr_assert_float_eq(value, (double)hg_histogram_quantile(&a, percentile) / 1e6, 0.0006);
        last = percentile;
        total = count;
        rows++;
    }
    cr_assert_eq(total, 100000);
    cr_assert_eq(last, 1.0);
    cr_assert_float_eq(value, 100.0, 1e-9, "the maximum is exact");
    cr_assert_gt(rows, 25, "five to a halving, until one bucket holds the rest: %d", rows);
    cr_assert_not_null(strstr(line, "Mean"), "%s", line);
    fclose(f);
}

Test(sim_hist, hgrm_of_nothing, .init = setup)
{
    FILE *f = tmpfile();
    sim_hist_write_hgrm(f, &a, 1e6);
    cr_assert_gt(ftell(f), 0);
    fclose(f);
}
