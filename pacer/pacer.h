/* pacer.h: when the next cycle starts, what share of CPU time marking gets, and what an allocation
 * owes.
 *
 * Pure: no clock, thread, atomic, allocation or global. The caller (runtime or simulator)
 * serialises all calls on one struct hg_pacer and passes measurements in; decisions come back by
 * value. Bytes and nanoseconds throughout.
 *
 * Invariants (property-tested over the whole input range):
 *   P1  marked <= trigger <= goal after every hg__pacer_plan, all finite
 *   P2  goal is monotone in gc_percent and in marked
 *   P3  the assist ratio is finite, not negative, and 0 while background work alone finishes before
 *       the goal
 *
 * Quantities (docs/design/pacer.md):  goal = L + (L + S + R) * gc_percent / 100, at least the
 * minimum heap, lowered by the memory limit;  runway = c_hat * W * (1 - u) / u  +  alloc_rate * H;
 * trigger = goal - runway, within [L + 0.7 (goal - L), goal - slack] unless the measured runway
 * needs more. Counts above 2^60 are taken for 2^60, negative ones and NaN for 0.
 */
#ifndef HG_PACER_PACER_H
#define HG_PACER_PACER_H
#include <stdbool.h>
#include <stdint.h>

#define HG_PACER_WINDOW  32   /* the longest N of a policy */
#define HG_PACER_U       0.25 /* share of CPU time for background marking */
#define HG_PACER_NO_GOAL INT64_MAX

#define HG_POLICY_PARAMS 2 /* the most parameters of a policy */

enum hg_policy_kind {
    HG_POLICY_MEAN,
    HG_POLICY_PI,
    HG_POLICY_MAX,
    HG_POLICY_EWMA,
    HG_POLICY_QUANTILE,
    HG_POLICY_DIRECTOR,
    HG_POLICY_IHOP,
    HG_POLICY_ADAPTIVE,
    HG_POLICY_KINDS
};

/* A policy by name and parameters: "mean:2", "pi", "quantile:8:0.9". What the parameters of a kind
 * are, their ranges and what stands for one that is left out: a table in the policy's file. */
struct hg_policy_spec {
    enum hg_policy_kind kind;
    double param[HG_POLICY_PARAMS]; /* in the order of the name; 0 where the policy takes none */
};

/* Parses a policy's name. 0, or -1: `why` (of `room` bytes, 200 are enough) then says what was
 * expected. */
int hg__policy_parse(const char *name, struct hg_policy_spec *out, char *why, unsigned room);
/* Writes the canonical name ("max:5") into buf. */
void hg__policy_name(const struct hg_policy_spec *spec, char *buf, unsigned room);
/* What hg__policy_parse accepts, for messages and --help. */
const char *hg__policy_choices(void);
/* A kind with its standard parameters. */
struct hg_policy_spec hg__policy_standard(enum hg_policy_kind kind);
/* One line about a kind, for --list; NULL: there is no such kind. */
const char *hg__policy_help(enum hg_policy_kind kind);

/* Which dampers within a cycle are left out (docs/design/pacer.md). For studies in the simulator:
 * the runtime leaves all of them in. */
struct hg_pacer_study {
    bool no_deadband; /* debt is charged from the start for all work that is left */
    bool no_credit;   /* a cycle starts with no credit */
    bool no_landing;  /* the aim stays the goal, up to its end */
};

struct hg_pacer_config {
    int gc_percent;       /* -1: off */
    int64_t memory_limit; /* INT64_MAX: none */
    int64_t min_heap;     /* 0: 4 MiB x gc_percent / 100 */
    int cpus;             /* that the procs share, if there are more procs; 0: one for each */
    struct hg_policy_spec policy;
    struct hg_pacer_study study; /* all false: every damper is on */
};

/* What one cycle measured, given at its end (after marking). */
struct hg_pacer_cycle {
    int64_t heap_at_start, heap_at_end; /* allocated or marked, at ROOTS and after MARK */
    int64_t marked;                     /* L: bytes found live, with what was allocated black */
    int64_t scanned_heap, scanned_stack, scanned_roots; /* scan work done, bytes */
    int64_t stack_bytes, root_bytes;                    /* S and R now */
    int64_t alloc_bytes;                       /* allocated from ROOTS to the end of marking */
    int64_t assist_ns, background_ns, idle_ns; /* GC CPU */
    int64_t mark_wall_ns;                      /* MARK to the end of marking */
    int64_t cycle_wall_ns;                     /* ROOTS to the end of marking */
    int64_t quiet_ns;   /* of cycle_wall_ns: before MARK, and handshakes after the
                         * last grey object */
    int64_t mutator_ns; /* CPU the procs had for mutators: procs x wall - all GC CPU
                         * - idle time */
    int procs;
    bool forced; /* asked for; its ratio is still measured */
};

/* Memory that the limit covers beside the heap; sampled by the caller whenever it plans or revises.
 */
struct hg_pacer_memory {
    int64_t mapped;   /* heap pages in use or free, not given back */
    int64_t overhead; /* stacks, metadata, external bytes, free pages that cannot be used */
};

struct hg_pacer_plan {
    int64_t goal;         /* HG_PACER_NO_GOAL: no goal (GOGC=off, no limit) */
    int64_t trigger;      /* start a cycle when heap_live reaches it; HG_PACER_NO_GOAL likewise */
    int64_t hard;         /* tasks may be made to wait above it */
    int64_t hard_by_goal; /* what it would be without a memory limit */
    int64_t runway;
    double u;         /* background share for the next cycle, at most HG_PACER_U */
    double cons_mark; /* the estimate used */
    double measured;  /* what the last cycle measured */
    int64_t work;     /* W: expected scan work */
    bool limited;     /* the memory limit lowered the goal */
};

/* Where a running cycle stands. */
struct hg_pacer_progress {
    int64_t heap_live;  /* now */
    int64_t scanned;    /* scan work done this cycle, all kinds */
    int64_t grey_bytes; /* known to be grey, an underestimate; 0 when unknown */
    int64_t assist_ns, background_ns, idle_ns; /* GC CPU so far that did `scanned` */
    int64_t scannable_at_trigger; /* scannable heap + stacks + roots when the cycle began: the most
                                   * that can be work; 0 when unknown */
    int64_t elapsed_ns;           /* wall time since MARK */
    int64_t alloc_since_mark;
    int procs;
    double busy; /* share of proc time that mutators used since MARK, 0..1 */
};

struct hg_pacer_assist {
    double ratio; /* scan bytes owed per allocated byte; 0: no debt is charged */
    double u;     /* background share from now on, lower when ahead of schedule */
    int64_t work_left;
};

/* The GC CPU limiter: a leaky bucket that holds GC at half of CPU time near the memory limit
 * (pacer/limit.c). */
struct hg_pacer_limiter {
    int64_t fill_ns, capacity_ns;
    int64_t limited_ns; /* how long it has been on */
    bool on;
};

/* The allocation rate between two cycles, in bytes per mutator CPU-ns (pacer/calm.c). Rates are 0
 * while nothing was measured. */
struct hg_pacer_calm {
    double rate;                     /* now, before the next trigger */
    int64_t alloc_bytes, mutator_ns; /* up to where the last part ended */
    int parts;                       /* measured since the last cycle's end */
    double window[HG_PACER_WINDOW];  /* before the last cycles' triggers, newest first */
};

#define HG_ADAPTIVE_ERRORS 8

/* What policy adaptive has learnt (pacer/policy_adaptive.c). */
struct hg_pacer_adaptive {
    double level;    /* logarithm of the ratio that is expected */
    int count;       /* ratios behind it; 0: none yet */
    double suspect;  /* the newest error, if it may be a change of level; else 0 */
    bool calm_known; /* calm_level: logarithm of the usual rate before the trigger */
    double calm_level;
    double calm_spread;               /* how far it has moved without a meaning */
    double reserve;                   /* the largest error upwards, slowly forgotten */
    double error[HG_ADAPTIVE_ERRORS]; /* sizes of the forecasts' errors, newest first */
    int errors;
};

/* All state; fields are the module's own. Copyable. */
struct hg_pacer {
    struct hg_pacer_config config;
    struct hg_pacer_plan plan;
    struct hg_pacer_cycle last;
    struct hg_pacer_limiter limiter;
    double window[HG_PACER_WINDOW]; /* measured cons/mark, newest first */
    int window_len;
    /* Beside each ratio: bytes allocated per wall-ns of its cycle, and the time in ns that its
     * marking takes at the full share. */
    double rate_window[HG_PACER_WINDOW], mark_window[HG_PACER_WINDOW];
    struct hg_pacer_calm calm;
    double pi_integral, pi_output; /* policy pi */
    struct hg_pacer_adaptive adaptive;
    int64_t quiet_window[HG_PACER_WINDOW]; /* quiet_ns of the last cycles, newest first */
    double alloc_rate;                     /* bytes per ns of wall time, last cycle's marking */
    int64_t cycles;
};

/* Starts from a configuration (values out of range are clamped). The first plan is that of an empty
 * heap. */
void hg__pacer_init(struct hg_pacer *p, const struct hg_pacer_config *c);
/* A cycle has ended: takes its measurements in, then plans. */
void hg__pacer_cycle_end(struct hg_pacer *p, const struct hg_pacer_cycle *m,
                         const struct hg_pacer_memory *mem);
/* Plans again from the last measurements: after a change of configuration, and when memory beside
 * the heap moved. */
void hg__pacer_plan(struct hg_pacer *p, const struct hg_pacer_memory *mem);
/* Between cycles: bytes that were allocated, and CPU time of mutators, since the last cycle's end.
 * Plans again, and returns true, when that changes a trigger: policies that look ahead only. Call
 * it as often as convenient. */
bool hg__pacer_observe(struct hg_pacer *p, int64_t alloc_bytes, int64_t mutator_ns,
                       const struct hg_pacer_memory *mem);
/* Whether hg__pacer_observe does anything. */
bool hg__pacer_looks_ahead(const struct hg_pacer *p);
/* New configuration; takes effect at once: call hg__pacer_plan next. A new policy starts as if it
 * had been in use for all of the window. */
void hg__pacer_configure(struct hg_pacer *p, const struct hg_pacer_config *c);
/* Within a cycle: what is owed now. `assist_on` false: ratio is 0. */
struct hg_pacer_assist hg__pacer_revise(const struct hg_pacer *p,
                                        const struct hg_pacer_progress *now, bool assist_on);
/* Credit, in scan bytes, that a cycle starts with (the hedge). */
int64_t hg__pacer_starting_credit(const struct hg_pacer *p);
/* Tells the limiter of a window of time: CPU that was there for mutators and GC (CPUs of the procs
 * x wall, or what a busy machine left of it) and CPU that GC used.
 * Returns whether GC must be held back now: no assist, and cycles no more often than half of CPU
 * time allows. */
bool hg__pacer_limiter_update(struct hg_pacer *p, int64_t available_ns, int64_t gc_ns);

#endif
