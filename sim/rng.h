/* rng.h: the random numbers of the loads: splitmix64 (Steele, Lea and Flood 2014) and exponential
 * gaps from it. Same seed, same sequence, on every machine with an IEEE log(). One owner at a
 * time. */
#ifndef HG_SIM_RNG_H
#define HG_SIM_RNG_H
#include <math.h>
#include <stdint.h>

struct sim_rng {
    uint64_t state;
};

static inline uint64_t sim_rng_next(struct sim_rng *r)
{
    uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Exponentially distributed with mean 1: the gaps between Poisson arrivals. Never infinite. */
static inline double sim_rng_exp(struct sim_rng *r)
{
    return -log(((double)(sim_rng_next(r) >> 11) + 1.0) / 9007199254740992.0);
}

/* A number in 0..n-1; n > 0 and far below 2^32. */
static inline uint32_t sim_rng_below(struct sim_rng *r, uint32_t n)
{
    return (uint32_t)(((sim_rng_next(r) >> 32) * (uint64_t)n) >> 32);
}

#endif
