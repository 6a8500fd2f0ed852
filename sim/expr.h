/* expr.h: the checks of --fail-if: arithmetic and comparisons over named figures.
 *
 *   or      := and { '||' and }
 *   and     := compare { '&&' compare }
 *   compare := sum [ ('<' | '<=' | '>' | '>=' | '==' | '!=') sum ]
 *   sum     := product { ('+' | '-') product }
 *   product := unary { ('*' | '/') unary }
 *   unary   := '-' unary | '(' or ')' | number [unit] | [policy '.'] figure
 *   unit    := ns | us | ms | s | KiB | MiB | GiB | %
 *
 * Times count in ns, sizes in bytes, % is 1/100.
 *
 * Examples: p99 > 1.5*off.p99      p99 > 5ms && assist_share > 1%      peak_over_goal > 1.05
 * Comparisons give 1 or 0. A comparison with NaN (a figure that is not known) gives NaN, and so
 * does whatever is made of it, unless the other side of && or || decides alone.
 */
#ifndef HG_SIM_EXPR_H
#define HG_SIM_EXPR_H
#include <stddef.h>

/* Gives a figure's value: 0 and *out (NaN: not known), or -1: there is no such figure or policy,
 * and `why` (of `room` bytes) says so. policy: empty when the name had none. */
typedef int sim_lookup(void *arg, const char *policy, const char *figure, double *out, char *why,
                       size_t room);

/* Evaluates text. 0 and *out, or -1: `why` says what is wrong and where. */
int sim_expr(const char *text, sim_lookup *lookup, void *arg, double *out, char *why, size_t room);

#endif
