/* timer.h: the parts of `hedge-sim timer` and the data between them.
 *
 *   timer.c        command line, the comparison, its targets
 *   timer_live.c   the run: tasks that use timers, in two styles
 *
 * This is CockroachDB before and after its pull request 119901.
 */
#ifndef HG_SIM_TIMER_H
#define HG_SIM_TIMER_H
#include "sim/trial.h"

enum timer_style { TIMER_POOLED, TIMER_STACK, TIMER_STYLES };
extern const char *const timer_style_name[TIMER_STYLES];

struct timer_options {
    int tasks, procs;
    int64_t uses; /* of each task */
    double after_us;
};

struct timer_way {
    const struct timer_options *opt;
    enum timer_style style;
};
trial_fn timer_run; /* arg: a struct timer_way */

#endif
