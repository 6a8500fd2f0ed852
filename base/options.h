/* options.h: the runtime's side of the options of <hedge/runtime.h>: ranges, and the hook that
 * checks a policy's name. */
#ifndef HG_BASE_OPTIONS_H
#define HG_BASE_OPTIONS_H
#include <stddef.h>

#define HG_PACER_STANDARD "max:5"

enum {
    HG_PROCS_MAX = 1024,
    HG_BLOCKING_THREADS = 64,
    HG_BLOCKING_THREADS_MAX = 1024,
    HG_STACK_MIN_BYTES = 16 << 10,
    HG_STACK_MAX_BYTES = 8 << 20,
};

/* Sets the function that decides whether HEDGE_PACER names a policy: 0, or not 0 with "expected
 * ..." in `why`. The pacer lies above this layer, so the runtime registers it, before main (a
 * constructor). Without one any name passes. */
void hg__options_set_pacer_check(int (*check)(const char *name, char *why, unsigned room));

#endif
