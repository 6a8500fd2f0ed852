/* trace_options.h: how a recorded trace is to be read, as options that several commands have alike:
 * --pid, --lenient and --assume. */
#ifndef HG_SIM_TRACE_OPTIONS_H
#define HG_SIM_TRACE_OPTIONS_H
#include <argp.h>
#include <stdbool.h>

struct sim_trace_how {
    const char *pid;    /* of its processes; NULL: not given */
    double assume_scan; /* bytes of scan work where a cycle's lines do not say; NaN: none */
    bool lenient;       /* broken lines are counted, and no error */
};

/* A child of a command's parser; its input: a struct sim_trace_how *, which it sets to nothing
 * given at first. */
extern const struct argp sim_trace_argp;
/* The first of these options that was given, without its dashes; NULL: none. */
const char *sim_trace_how_given(const struct sim_trace_how *how);

#endif
