/* trace_options.c: --pid, --lenient, --assume (trace_options.h). */
#include "sim/trace_options.h"
#include "sim/size.h"
#include <math.h>
#include <string.h>

#define MOST_SCAN INT64_C(1000000000000000)

enum { KEY_PID = 0x6000, KEY_ASSUME, KEY_LENIENT };

static const struct argp_option options[] = {
    {"pid", KEY_PID, "NAME", 0,
     "Only this process of the trace: a pid, its name as it is listed, or a part of it", 1},
    {"assume", KEY_ASSUME, "scan=BYTES", 0,
     "A what-if for logs without gcpacertrace: each cycle scanned so much (KiB, MiB, GiB, TiB may "
     "follow)",
     1},
    {"lenient", KEY_LENIENT, NULL, 0,
     "Count broken lines of the trace instead of ending with an error", 1},
    {0}};

static double parse_assume(struct argp_state *state, const char *text)
{
    int64_t bytes = strncmp(text, "scan=", 5) == 0 ? sim_size_within(text + 5, 1, MOST_SCAN) : -1;
    if (bytes < 0)
        argp_error(state,
                   "--assume: expected scan=BYTES, from 1 to 1e15, as scan=200MiB, not \"%s\"",
                   text);
    return (double)bytes;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct sim_trace_how *how = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        *how = (struct sim_trace_how){.assume_scan = NAN};
        return 0;
    case KEY_PID:
        how->pid = arg;
        return 0;
    case KEY_ASSUME:
        how->assume_scan = parse_assume(state, arg);
        return 0;
    case KEY_LENIENT:
        how->lenient = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp sim_trace_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

const char *sim_trace_how_given(const struct sim_trace_how *how)
{
    return how->pid != NULL           ? "pid"
           : !isnan(how->assume_scan) ? "assume"
           : how->lenient             ? "lenient"
                                      : NULL;
}
