/* scale_trace.h: `scale --trace FILE`: from a recorded trace of a service (trace_read.h) to the
 * simulated program.
 *
 *   struct scale_recorded rec;
 *   if (scale_trace_read(path, pid, &rec, why, sizeof why) == 0)
 *       scale_trace_apply(opt, &rec);
 *
 * Invariant: what an option gave is never touched; every quantity that is touched, or could not be,
 * leaves a line in opt->notes that says so.
 */
#ifndef HG_SIM_SCALE_TRACE_H
#define HG_SIM_SCALE_TRACE_H
#include "sim/scale.h"
#include "sim/trace_read.h"

/* What a process's cycles say. Bytes, ns; NaN: they do not say it. */
struct scale_recorded {
    char process[64];
    size_t cycles, counted; /* counted: not forced, and with a live heap near the median */
    bool hedge;             /* else Go's */
    double procs, live, gogc;
    double scan_share;   /* of the live heap: heap and globals */
    double stack;        /* scanned in a cycle, all together */
    double mark_rate;    /* bytes of scan work per ns of the collector's CPU time */
    double alloc_rate;   /* bytes per second */
    double ns_per_byte;  /* of the program's CPU time, per byte allocated; hedge's traces only */
    double ratio_spread; /* of cons/mark: half of the width of a uniform distribution, over the
                          * median */
};

/* From one process. */
void scale_trace_figures(const struct sim_trace_process *p, struct scale_recorded *rec);
/* The process that pid names, NULL: the only one. 0, or -1: `why` names file and line. */
int scale_trace_read(const char *path, const char *pid, struct scale_recorded *rec, char *why,
                     size_t room);
/* Sets what no option gave, and the notes. */
void scale_trace_apply(struct scale_options *opt, const struct scale_recorded *rec);
/* The notes as lines of the report's header. */
void scale_trace_print(FILE *out, const struct scale_options *opt);

#endif
