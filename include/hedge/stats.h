/* stats.h: what a runtime has done. Counters are kept per proc and summed on reading; reading stops
 * nobody. */
#ifndef HEDGE_STATS_H
#define HEDGE_STATS_H
#include <hedge/histogram.h>
#include <hedge/runtime.h>

HG_BEGIN_DECLS

/* All since the runtime was opened, unless it says "now". GC times are CPU time unless they say
 * otherwise. */
typedef struct hg_stats {
    size_t size; /* sizeof(hg_stats), set by the caller */
    /* heap */
    uint64_t heap_live_bytes;         /* now: marked by the last cycle plus allocated since */
    uint64_t heap_marked_bytes;       /* live after the last cycle */
    uint64_t heap_goal_bytes;         /* now */
    uint64_t heap_trigger_bytes;      /* now */
    uint64_t heap_peak_bytes;         /* largest heap_live_bytes at the end of a cycle's marking */
    uint64_t heap_mapped_bytes;       /* now: spans in use and free pages not given back */
    uint64_t heap_free_bytes;         /* now: free pages not given back */
    uint64_t meta_bytes, stack_bytes; /* now */
    uint64_t alloc_bytes, alloc_objects;
    /* cycles */
    uint64_t cycles, forced_cycles;
    uint64_t overshoot_cycles; /* cycles that ended above their goal */
    double worst_over_goal;    /* largest (heap at the end of marking) / goal */
    int64_t mark_wall_ns, cycle_wall_ns;
    /* CPU: marking by kind; sweeping; switch-in scans */
    int64_t background_ns, idle_ns, assist_ns, sweep_ns, scan_ns;
    uint64_t assists, assist_waits;
    int64_t longest_assist_ns;
    uint64_t handshakes;
    /* scheduler */
    uint64_t tasks_started, tasks_now, switches, steals;
    int procs;
    int64_t limiter_ns;  /* time for which the limiter held the collector back */
    uint64_t timers_now; /* armed now, deadlines of waiting tasks included */
    uintptr_t spare[15];
} hg_stats;

/* any: sums the counters. `st->size` must be set. */
HG_API void hg_stats_read(hg_runtime *rt, hg_stats *st);

enum hg_histogram_id {
    /* CPU ns for which the collector held a mutator in one piece: callback, switch-in scan, marking
     * slice between two tasks, assist, sweeping by an allocation */
    HG_HIST_HOLD,
    HG_HIST_HANDSHAKE, /* wall ns from a handshake's request to its last answer */
    HG_HIST_ASSIST,    /* CPU ns of an assist */
    HG_HIST_RUNQ,      /* ns a runnable task waited (only with options.track_waits) */
    HG_HIST_COUNT
};
/* any: copies (sums over procs) one histogram into *out. */
HG_API void hg_stats_histogram(hg_runtime *rt, enum hg_histogram_id which, hg_histogram *out);

/* One finished cycle. Times are CLOCK_MONOTONIC or CPU ns. */
typedef struct hg_cycle {
    uint64_t number;
    int64_t start_ns, mark_ns, end_ns, swept_ns; /* ROOTS, MARK, OFF, all swept (0: not yet) */
    uint64_t heap_at_start, heap_at_end, heap_marked, goal, trigger;
    uint64_t scanned_heap, scanned_stack, scanned_roots;
    int64_t assist_ns, background_ns, idle_ns;
    /* Time in which a mutator had left a request unanswered for more than 1 ms: then no task waits
     * for marking, and the heap may pass its hard limit. */
    int64_t late_ns;
    bool forced;
} hg_cycle;
/* any: the last finished cycles, newest first, at most n (and at most 256). Returns how many. */
HG_API int hg_stats_cycles(hg_runtime *rt, hg_cycle *out, int n);

HG_END_DECLS
#endif
