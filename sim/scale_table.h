/* scale_table.h: a distribution as a table by 1024ths of probability, so that a draw is one look.
 * The last of them, over which service times and wake-ups rise most, is divided by 64 again.
 *
 * Between two quantiles that are known the logarithm is taken to rise evenly, as it does in such
 * tails: drawn evenly, a tail that rises 16 times within a thousandth would have eight times the
 * median's weight in it.
 */
#ifndef HG_SIM_SCALE_TABLE_H
#define HG_SIM_SCALE_TABLE_H
#include "sim/rng.h"

#define SCALE_CELLS      1024
#define SCALE_TAIL_CELLS 64

struct scale_table {
    double at[SCALE_CELLS + 1], tail[SCALE_TAIL_CELLS + 1];
};

/* From quantiles at scale_quantile_at, which never fall. */
void scale_table_fill(struct scale_table *t, const double *quantile);
/* The mean of what is drawn. */
double scale_table_mean(const struct scale_table *t);

static inline double scale_table_draw(const struct scale_table *t, struct sim_rng *rng)
{
    uint64_t r = sim_rng_next(rng), i = r >> 54;
    const double *at = &t->at[i];
    if (i == SCALE_CELLS - 1) {
        at = &t->tail[(r >> 48) & (SCALE_TAIL_CELLS - 1)];
        r <<= 6; /* bits that have chosen the cell say no more */
    }
    double part = (double)((r >> 22) & 0xffffffff) / 4294967296.0;
    return at[0] + part * (at[1] - at[0]);
}

#endif
