/* pacer.h: the parts of `hedge-sim pacer` and the data between them.
 *
 *   pacer_options.c  command line
 *   pacer_lab.c      the command: all runs, spread over processes
 *   pacer_model.c    noise models: what the load of each cycle is
 *   pacer_trace.c    model replay: the loads of a recorded trace
 *   pacer_loop.c     the closed loop: one cycle of a program in virtual time, with the real pacer
 *   pacer_limit.c    its memory limit: what the limit covers, the limiter's windows
 *   pacer_limit_model.c  models of programs with a memory limit
 *   pacer_run.c      one run: thousands of cycles of one policy under one model, and its figures
 *   pacer_summary.c  from runs to means, intervals, and differences paired by seed
 *   pacer_report.c   what is printed
 *   pacer_files.c    JSON and CSV
 *   pacer_html.c     the page
 *
 * A run is a pure function of (policy, dampers, model, seed, cycles, GOGC, memory limit): same
 * input, same bytes. The load that a model gives is a function of (model, seed, limit) alone, so
 * all policies meet the same.
 */
#ifndef HG_SIM_PACER_H
#define HG_SIM_PACER_H
#include "pacer/pacer.h"
#include "sim/rng.h"
#include "sim/sweep.h"
#include "sim/trace_options.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PACER_EDGE "mean:2" /* what extra cycles are counted against */

/* ---- loads (pacer_model.c) ---- */

/* The program during one cycle and the calm before it. Rates are bytes per CPU-ns of one proc. */
struct pacer_load {
    double calm_before, calm_after; /* allocation rate before the trigger: at first, then */
    double change_at;               /* where it changes: share of the way from live to goal */
    double rate, speed;             /* while marking: allocation and marking */
    double sweep;                   /* CPU-ns of sweeping per byte of heap: no GC to the limiter */
    double live, stack;             /* bytes that are reachable, if the heap has so many; stacks */
    double scan;                    /* share of what is live that is scanned, 0..1 */
    double demand;                  /* share of CPU time that the mutators want, 0..1 */
    double late_ns;                 /* from the trigger to the cycle's start: the driver's thread */
    double quiet_ns;                /* from there to marking: handshakes; 0: 100 us */
    double wobble;                  /* noise within the cycle: deviation of the rate's logarithm */
    uint64_t wobble_seed;
    double level; /* rate / speed without the noise: what a policy would know if it knew all */
    bool fell;    /* `level` has just fallen, for good */
};

/* Where loads come from: a noise model with its own random numbers, or anything else with a next(),
 * such as a recorded trace. */
struct pacer_source {
    void (*next)(struct pacer_source *s, struct pacer_load *out);
    const void *data; /* model replay: its struct pacer_trace */
    double limit;     /* the memory limit, for models whose live heap is made for one */
    struct sim_rng rng;
    int64_t cycle; /* loads given so far */
    double state;  /* of the model */
    int left;      /* likewise: cycles until it changes */
};

struct pacer_model {
    const char *name, *help;
    void (*next)(struct pacer_source *s, struct pacer_load *out);
    int64_t min_heap; /* that the program sets; 0: none */
};
extern const struct pacer_model pacer_models[]; /* of noise */
extern const int pacer_model_count;
/* Models of programs with a memory limit (pacer_limit_model.c). */
extern const struct pacer_model pacer_limit_models[];
extern const int pacer_limit_model_count;
/* The memory limit of one of these, unless another is asked for; 0: it is a model of noise. */
int64_t pacer_model_limit(const struct pacer_model *m);
extern const struct pacer_model pacer_model_replay; /* not among these: it needs a trace */
/* Of any kind; NULL: there is none of this name. */
const struct pacer_model *pacer_model_find(const char *name);
/* m: one of pacer_models. */
void pacer_source_init(struct pacer_source *s, const struct pacer_model *m, uint64_t seed);

/* A recorded process as loads, one after the other (pacer_trace.c). */
struct pacer_trace {
    char *process; /* its name in the trace */
    struct pacer_load *load;
    size_t cycles, recorded; /* that are loads; that the trace has */
    size_t assumed;          /* of the loads: their scan work was (--assume) */
    size_t broken;           /* lines of the file that were passed over (--lenient) */
};
/* As `replay` would; without a pid: the only process. 0, or -1: `why` says what was expected. */
int pacer_trace_read(struct pacer_trace *t, const char *path, const struct sim_trace_how *how,
                     char *why, size_t room);
void pacer_trace_free(struct pacer_trace *t);
/* The trace again and again, from a cycle on that the seed gives. */
void pacer_trace_source(struct pacer_source *s, const struct pacer_trace *t, uint64_t seed);

/* ---- the closed loop (pacer_loop.c) ---- */

#define PACER_PROCS   4   /* of the loop, unless it is told otherwise */
#define PACER_WINDOWS 100 /* of the limiter in a second */

/* What one cycle came to. */
struct pacer_cycle {
    struct hg_pacer_plan plan; /* that it began with */
    double heap_at_end, live;  /* live: what was found live, stacks included */
    double allocated;          /* from the end of the last cycle to the end of this one */
    double assist_ns, gc_ns, wait_ns;
    double cpu_ns;    /* procs x wall time, the calm included */
    double asleep_ns; /* of it: nobody had anything to do, as all waited at the hard limit */
    bool full;        /* the hard limit leaves no room after it */
};

/* The memory limit in the loop (pacer_limit.c). */
struct pacer_limit {
    double limit;                 /* 0: none; then nothing below is used */
    bool hard;                    /* allocations past it are refused */
    double overhead;              /* bytes that it covers beside the heap, apart from stacks */
    double mapped;                /* heap pages in use or free, not given back */
    double peak;                  /* the most that it has covered */
    double window, window_gc;     /* CPU-ns since the limiter was last told */
    double second[PACER_WINDOWS]; /* GC CPU-ns of the last windows, a ring */
    double second_gc, worst;      /* their sum; the largest there has been */
    int64_t windows;
    int passed;     /* times the limit was passed: calls of limit_passed */
    bool above, on; /* it was passed, and not left far again; the limiter holds GC back */
};

struct pacer_loop {
    struct hg_pacer pacer;
    double heap;    /* after the last cycle */
    double unswept; /* CPU-ns of sweeping that it left */
    int procs;
    struct pacer_limit limit;
};

/* A caller may change procs and the limit's parameters before the first cycle. */
void pacer_loop_init(struct pacer_loop *l, const struct hg_pacer_config *c);
struct pacer_cycle pacer_loop_cycle(struct pacer_loop *l, const struct pacer_load *load);

/* ---- its memory limit (pacer_limit.c); nothing without one ---- */

void pacer_limit_init(struct pacer_limit *l, const struct hg_pacer_config *c);
/* The heap has this size now, with stacks of so many bytes beside it. Returns what the pacer is
 * told of it. */
struct hg_pacer_memory pacer_limit_heap(struct pacer_loop *l, double heap, double stack);
/* Bytes that may be allocated before an allocation is refused, with this heap; infinite without a
 * hard limit, 0 if it is less than an allocation takes. */
double pacer_limit_room(const struct pacer_loop *l, double heap, double stack);
/* All procs' CPU time has passed, some of it in the collector. */
void pacer_limit_time(struct pacer_loop *l, double cpu_ns, double gc_ns);
/* Time passes until the limiter lets a cycle begin; nothing runs. Returns CPU time of all procs. */
double pacer_limit_wait(struct pacer_loop *l);
/* Measuring begins: forgets the worst so far, and how often the limit was passed. Returns how long
 * the limiter has been on, in ns. */
double pacer_limit_forget(struct pacer_loop *l);
/* Largest share of CPU time that GC had in a second; NaN: no second has passed. */
double pacer_limit_worst_second(const struct pacer_loop *l);

/* ---- runs (pacer_run.c) ---- */

enum pacer_figure {
    PACER_LATE_SHARE,     /* of cycles that end above their goal */
    PACER_ASSIST_CYCLES,  /* of cycles with assist */
    PACER_ASSIST_SHARE,   /* of GC CPU time */
    PACER_OVERSHOOT_P99,  /* of heap over goal less 1, not below 0 */
    PACER_PEAK_OVER_GOAL, /* largest heap over goal */
    PACER_CYCLES_PER_GIB, /* allocated */
    PACER_HEAP_OVER_LIVE, /* mean heap at the end of a cycle over mean live heap and stacks */
    PACER_GC_CPU_SHARE,   /* of CPU time */
    PACER_WAIT_SHARE,     /* of mutators' CPU time: waiting at the hard limit */
    PACER_RELEASE,        /* cycles that began too early after the load fell; NaN: it never did */
    PACER_GC_WORST,       /* GC_CPU_SHARE in the worst second; this and the next: NaN, no limit */
    PACER_LIMITER_SHARE,  /* of time: the limiter holds GC back */
    PACER_OVER_LIMIT,     /* the most that the limit covered, over the limit */
    PACER_LIMIT_PASSED,   /* calls of limit_passed per 100 cycles */
    PACER_EXTRA_CYCLES,   /* CYCLES_PER_GIB less the edge policy's (pacer_summary.c) */
    PACER_EXTRA_SHARE,    /* the same, as a share of the edge policy's */
    PACER_EXTRA_HEAP,     /* HEAP_OVER_LIVE over the edge policy's, less 1 */
    PACER_FIGURES
};
#define PACER_MEASURED PACER_EXTRA_CYCLES /* the figures of a run; the others need a pair */

struct pacer_figure_info {
    const char *key; /* in JSON and CSV */
};
extern const struct pacer_figure_info pacer_figure_info[PACER_FIGURES];

#define PACER_WARMUP 20 /* cycles at a run's start that no figure counts */

void pacer_run(const struct hg_pacer_config *c, struct pacer_source *source, int cycles,
               double figure[PACER_MEASURED]);

/* ---- command line (pacer_options.c) ---- */

#define PACER_POLICIES_MAX 32
#define PACER_MODELS_MAX   32
#define PACER_DAMPINGS_MAX 8 /* all sets of three dampers */

struct pacer_policy {
    char name[32]; /* canonical */
    struct hg_policy_spec spec;
};

struct pacer_damping {
    char name[32]; /* "all", "none", "deadband+credit" */
    struct hg_pacer_study study;
};

struct pacer_options {
    struct pacer_policy policy[PACER_POLICIES_MAX];
    int policies;
    const struct pacer_model *model[PACER_MODELS_MAX];
    int models;
    struct pacer_damping damping[PACER_DAMPINGS_MAX];
    int dampings;
    uint64_t seed;
    int seeds, cycles, gogc, jobs;
    int64_t limit; /* memory limit; 0: the model's own */
    bool list;
    const char *trace_file;   /* model replay's; NULL: not given */
    struct sim_trace_how how; /* it is read */
    struct pacer_trace trace;
    const char *json, *csv, *report;
    struct sim_sweep sweep; /* asked for: this is not one comparison but many */
};

/* Parses the command line, or prints what is wrong and ends the process with status 2. */
void pacer_options_parse(struct pacer_options *opt, int argc, char **argv);
void pacer_options_free(struct pacer_options *opt);
/* The pacer's configuration for one policy and set of dampers. */
struct hg_pacer_config pacer_config(const struct pacer_options *opt,
                                    const struct hg_policy_spec *policy,
                                    const struct hg_pacer_study *study,
                                    const struct pacer_model *model);

/* ---- results (pacer_summary.c) ---- */

struct pacer_estimate {
    double mean, low, high; /* 95 % interval; NaN: not known, or too few seeds */
};

/* One policy under one model with one set of dampers, over all seeds. */
struct pacer_summary {
    const struct pacer_model *model;
    const struct pacer_damping *damping;
    const char *policy;
    int seeds; /* that were run: fewer after an interrupt */
    struct pacer_estimate figure[PACER_FIGURES];
};

/* Runs by seed: run[s] is PACER_MEASURED figures, all NaN where it was not made. */
void pacer_summarise(struct pacer_summary *out, const double *const *run, const double *const *edge,
                     int seeds);

/* summary: models x dampings x policies, in that order of nesting. */
void pacer_report(FILE *out, const struct pacer_options *opt, const struct pacer_summary *summary);
void pacer_report_list(FILE *out);
/* Seeds of which all runs were made. */
int pacer_whole_seeds(const struct pacer_options *opt, const struct pacer_summary *summary);
/* What model replay played, and how often: a short trace says little, however long it is repeated.
 * For the caller to free; NULL: no memory. */
char *pacer_trace_text(const struct pacer_options *opt);
/* v with so many decimals, or "-"; never "-0.0". buffer: 32 bytes; that, or a constant, is
 * returned. pm: mean and half of the interval, "1.23 ±0.05". */
const char *pacer_number(double v, int decimals, char *buffer);
const char *pacer_percent(double v, int decimals, char *buffer);
const char *pacer_percent_pm(const struct pacer_estimate *e, char *buffer);
/* Writes --json and --csv; returns how many files failed, each of which was told on stderr. */
int pacer_files_write(const struct pacer_options *opt, const struct pacer_summary *summary);
/* Writes --report. 0, or -1: `why` says what went wrong. */
int pacer_html_write(const struct pacer_options *opt, const struct pacer_summary *summary,
                     char *why, size_t room);

#endif
