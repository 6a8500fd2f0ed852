/* scale_profile.c: the constants of each collector. hedge's are those of runtime/gc/gc.h and
 * work.c; Go's are those of its runtime's sources, except for its rate of marking and the length of
 * a pause, which were measured (docs/design/scale.md says where each comes from). */
#include "sim/scale.h"
#include <string.h>

#define US INT64_C(1000)
#define MS INT64_C(1000000)

/* What both versions of Go have in common. */
#define GO_CONSTANTS                                                                            \
    .go = true, .mark_factor = 0.51, .share = 0.25, .trigger_least = 0.7, .trigger_most = 0.95, \
    .slice_ns = 100 * US, .idle_look_ns = 100 * US, .quantum_ns = 10 * MS, .pause_ns = 80 * US, \
    .timer_grain_ns = 1 * MS, .least_assist = 64 << 10, .drain_check = 100000

static const struct scale_profile profiles[] = {
    {.name = "hedge",
     .policies = "mean:2,pi,max:5,off",
     .mark_factor = 1,
     .slice_ns = 50 * US,
     .idle_slice_ns = 200 * US,
     .idle_look_ns = 20 * US,
     .assist_ns = 50 * US,
     .wait_ns = 1 * MS},
    {.name = "go1.19", .policies = "mean:2,off", GO_CONSTANTS},
    {.name = "go1.23", .policies = "max:5,off", GO_CONSTANTS},
};

const struct scale_profile *scale_profile_find(const char *name)
{
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++)
        if (strcmp(profiles[i].name, name) == 0)
            return &profiles[i];
    return NULL;
}

const char *scale_profile_choices(void) { return "hedge, go1.19 or go1.23"; }
