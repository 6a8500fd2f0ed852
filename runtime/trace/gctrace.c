/* gctrace.c: one line per cycle, in the form that Go's documentation gives for GODEBUG=gctrace=1
 * and gcpacertrace=1.
 *
 *   gc # @#s #%: #+#+# ms clock, #+#/#/#+# ms cpu, #->#-># MB, # MB goal, # MB stacks, # MB
 *   globals, # P (forced)
 *
 * clock: ROOTS (handshakes and roots), marking, and 0: nothing stops after it. cpu: the first is
 * elapsed time as well; marking is split in assist / background / idle. #%: share of all CPU time
 * since the start that the collector used in its cycles.
 */
#include "base/assert.h"
#include "runtime/trace/trace.h"
#include <stdio.h>

struct text {
    char s[16];
};

/* Milliseconds with about three digits and never an exponent, which readers of these lines do not
 * expect. */
static struct text ms(int64_t ns)
{
    struct text t;
    double v = (double)ns / 1e6;
    snprintf(t.s, sizeof t.s, "%.*f", v >= 100 ? 0 : v >= 10 ? 1 : v >= 1 ? 2 : 3, v);
    return t;
}

static unsigned long mib(uint64_t bytes) { return (unsigned long)((bytes + (1u << 19)) >> 20); }

void hg__trace_cycle(const struct hg_cycle *c, int64_t opened_at, int64_t gc_cpu, int procs)
{
    char line[400];
    int64_t since = c->end_ns - opened_at;
    int share = since > 0 ? (int)(100.0 * (double)gc_cpu / ((double)since * procs)) : 0;
    int64_t roots = c->mark_ns - c->start_ns, mark = c->end_ns - c->mark_ns;
    snprintf(line, sizeof line,
             "gc %lu @%.3fs %d%%: %s+%s+0 ms clock, %s+%s/%s/%s+0 ms cpu, %lu->%lu->%lu MB, "
             "%lu MB goal, %lu MB stacks, %lu MB globals, %d P%s",
             (unsigned long)c->number, (double)(c->start_ns - opened_at) / 1e9, share, ms(roots).s,
             ms(mark).s, ms(roots).s, ms(c->assist_ns).s, ms(c->background_ns).s, ms(c->idle_ns).s,
             mib(c->heap_at_start), mib(c->heap_at_end), mib(c->heap_marked),
             mib(c->goal == (uint64_t)INT64_MAX ? 0 : c->goal), mib(c->scanned_stack),
             mib(c->scanned_roots), procs, c->forced ? " (forced)" : "");
    hg__log_line(line);
}

void hg__trace_pacer(const struct hg_pacer_cycle *c, const struct hg_pacer_plan *next,
                     double expected_cons_mark, int64_t expected_work)
{
    char line[400];
    int64_t gc = c->assist_ns + c->background_ns + c->idle_ns;
    double there = (double)c->cycle_wall_ns * c->procs;
    snprintf(line, sizeof line,
             "pacer: %d%% CPU (%d exp.) for %ld+%ld+%ld B work (%ld B est.) in %ld B -> %ld B "
             "(cons/mark %+.3e, est. %+.3e; next %+.3e, trigger %ld B, goal %ld B, u %.3f)",
             there > 0 ? (int)(100 * (double)gc / there) : 0, (int)(100 * next->u),
             (long)c->scanned_heap, (long)c->scanned_stack, (long)c->scanned_roots,
             (long)expected_work, (long)c->heap_at_start, (long)c->heap_at_end, next->measured,
             expected_cons_mark, next->cons_mark, (long)next->trigger, (long)next->goal, next->u);
    hg__log_line(line);
}
