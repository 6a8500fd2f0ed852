/* seed.h: randomness for the pacer's tests.
 *
 * A randomised test asks for its generator once. The seed is HEDGE_TEST_SEED when that is set, else
 * the clock; it is printed either way, so that a failure can be run again.
 */
#ifndef HG_TESTS_PACER_SEED_H
#define HG_TESTS_PACER_SEED_H
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/rand.h"

static inline struct hg_rand test_rand(const char *test)
{
    const char *given = getenv("HEDGE_TEST_SEED");
    uint64_t seed;
    struct timespec now;

    if (given && *given) {
        seed = strtoull(given, NULL, 0);
    } else {
        clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec;
    }
    fprintf(stderr, "%s: HEDGE_TEST_SEED=%llu\n", test, (unsigned long long)seed);
    return (struct hg_rand){.state = seed};
}

/* Uniform in [0, 1). */
static inline double test_uniform(struct hg_rand *r)
{
    return (double)(hg_rand_next(r) >> 11) * 0x1p-53;
}

/* A count of any size from 0 to 2^bits - 1, small ones as likely as large ones. */
static inline int64_t test_count(struct hg_rand *r, uint32_t bits)
{
    uint64_t mask = (UINT64_C(1) << hg_rand_below(r, bits + 1)) - 1;

    return (int64_t)(hg_rand_next(r) & mask);
}

/* The same, and now and then a value that no caller should give. */
static inline int64_t test_wild(struct hg_rand *r, uint32_t bits)
{
    static const int64_t wild[] = {0, 1, -1, INT64_MIN, INT64_MAX, INT64_MAX - 1};

    if (hg_rand_below(r, 8) == 0)
        return wild[hg_rand_below(r, sizeof wild / sizeof wild[0])];
    return test_count(r, bits);
}

#endif
