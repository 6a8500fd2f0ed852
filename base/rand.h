/* rand.h: a small generator (splitmix64, Steele, Lea and Flood 2014) for scheduling choices and
 * randomised tests. Same seed, same sequence. Not for secrets. One owner at a time. */
#ifndef HG_BASE_RAND_H
#define HG_BASE_RAND_H
#include <stdint.h>

struct hg_rand {
    uint64_t state;
};

static inline uint64_t hg_rand_next(struct hg_rand *r)
{
    uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* A number in 0..n-1; n > 0. */
static inline uint32_t hg_rand_below(struct hg_rand *r, uint32_t n)
{
    return (uint32_t)(((hg_rand_next(r) >> 32) * (uint64_t)n) >> 32);
}

#endif
