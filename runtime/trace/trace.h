/* trace.h: the lines of gctrace and gcpacertrace. Format: Go's documented fields, so that tools for
 * them parse ours; extra fields come at the end. One write per line, to standard error or the log
 * hook. */
#ifndef HG_RUNTIME_TRACE_TRACE_H
#define HG_RUNTIME_TRACE_TRACE_H
#include "pacer/pacer.h"
#include <hedge/stats.h>

/* gc_cpu: all GC CPU time since the runtime was opened, this cycle's included. */
void hg__trace_cycle(const struct hg_cycle *c, int64_t opened_at, int64_t gc_cpu, int procs);
void hg__trace_pacer(const struct hg_pacer_cycle *c, const struct hg_pacer_plan *next,
                     double expected_cons_mark, int64_t expected_work);

#endif
