/* limit.h: the parts of `hedge-sim limit` and the data between them.
 *
 *   limit_options.c   command line
 *   limit_compare.c   the command: all runs, then report, files, checks
 *   limit_child.c     one run in a process of its own
 *   limit_live.c      the run: opens runtimes, samples, makes figures
 *   limit_program.c   the program that runs: its tasks, what is alive, what leaks
 *   limit_predict.c   the same scenario in virtual time, from what the run without a limit measured
 *   limit_report.c    what is printed
 *   limit_files.c     JSON and CSV
 *   limit_check.c     the checks of --fail-if
 *
 * A scenario is run twice: without a limit and with it. Everything else is the same: the program,
 * its live heap, its leak.
 */
#ifndef HG_SIM_LIMIT_H
#define HG_SIM_LIMIT_H
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- scenarios (limit_program.c) ---- */

enum limit_kind { LIMIT_BELOW, LIMIT_NEAR, LIMIT_LEAK, LIMIT_HARD, LIMIT_KINDS };

/* Sizes are shares of the limit. */
struct limit_scenario {
    const char *name, *help;
    double live;       /* alive all the time */
    double leak;       /* what the leak, or the cache of `hard`, would come to */
    double leak_until; /* share of the run after which it is all there (then it stays) */
    bool hard;         /* the limit is a hard one; what leaks is a cache that is let go of */
};
extern const struct limit_scenario limit_scenarios[LIMIT_KINDS];
/* What is alive at this share of a run without a limit, over the limit. Not for `hard`. */
double limit_alive(const struct limit_scenario *s, double at);

/* ---- command line (limit_options.c) ---- */

#define LIMIT_CHECKS_MAX 16
/* `hard`: how long the cache's task goes without after a refusal. */
#define LIMIT_REFUSED_NS INT64_C(100000000)

struct limit_options {
    const struct limit_scenario *scenario[LIMIT_KINDS];
    int scenarios;
    int64_t limit;
    int procs; /* -1: as the runtime decides */
    double duration_s;
    char policy[32]; /* canonical name */
    const char *json, *csv;
    const char *fail_if[LIMIT_CHECKS_MAX];
    int checks;
};

/* Parses the command line, or prints what is wrong and ends the process with status 2. */
void limit_options_parse(struct limit_options *opt, int argc, char **argv);

/* ---- figures of a run ---- */

enum limit_figure {
    LIMIT_SECONDS,       /* measured */
    LIMIT_GC_SHARE,      /* GC CPU time over procs x time */
    LIMIT_GC_WORST,      /* the same in the worst second; NaN: the run was shorter */
    LIMIT_GC_USED,       /* GC CPU time over the CPU time that the process used */
    LIMIT_CPU_USED,      /* that, over procs x time: below 1 the machine was busy */
    LIMIT_CYCLES,        /* collections */
    LIMIT_OPS,           /* of the program */
    LIMIT_OPS_PER_CPU,   /* per second of the process's CPU time */
    LIMIT_PROGRESS,      /* that, over the run without a limit */
    LIMIT_LIMITER_NS,    /* how long the limiter held GC back */
    LIMIT_LIMITER_SHARE, /* of the time */
    LIMIT_PEAK,          /* bytes: the most that the limit covers */
    LIMIT_PEAK_OVER,     /* that, over the limit */
    LIMIT_PASSED,        /* calls of limit_passed since the runtime was opened */
    LIMIT_AFTER_OPS,     /* per second of CPU time: once the leak is all there, or 0.6 of the run */
    LIMIT_REFUSED,       /* hg_try_alloc gave NULL */
    LIMIT_NO_MEMORY,     /* calls of out_of_memory */
    LIMIT_LET_GO,        /* times the cache was let go of */
    LIMIT_OTHER_OPS,     /* of the other runtime in the process */
    LIMIT_OTHER_WAIT_NS, /* the longest time without one */
    /* What virtual time predicts from the run without a limit; NaN: no prediction. */
    LIMIT_PREDICTED_GC,
    LIMIT_PREDICTED_WORST,
    LIMIT_PREDICTED_PROGRESS,
    LIMIT_PREDICTED_LIMITER,
    LIMIT_PREDICTED_PEAK,
    LIMIT_FIGURES
};
extern const char *const limit_figure_name[LIMIT_FIGURES];

/* What virtual time needs to know of a program; measured without a limit. NaN: not known, as no
 * cycle ran. */
struct limit_program {
    int procs;
    double calm_rate,
        rate;        /* bytes allocated per CPU-ns of the mutators: between cycles; in them */
    double scan;     /* share of what is live that is scanned: the rest holds no references */
    double speed;    /* bytes scanned per CPU-ns of GC */
    double sweep;    /* CPU-ns of sweeping per byte of heap at the end of a cycle */
    double late_ns;  /* from the trigger to a cycle's start, and from there to marking: in both */
    double quiet_ns; /* threads of the runtime wait for a CPU */
    double stack;    /* bytes of stacks that are scanned */
    double overhead; /* bytes that the limit covers beside live heap and stacks */
};

struct limit_result {
    bool limited, done, interrupted;
    double figure[LIMIT_FIGURES];
    struct limit_program program;
};

/* A run's results and progress, in memory that parent and child share. The child writes the atomic
 * fields while it runs (relaxed: they are for a progress line) and the others before it ends, which
 * the parent waits for. */
struct limit_shared {
    _Atomic int64_t began_at, operations; /* CLOCK_MONOTONIC ns, 0: not yet */
    struct limit_result result;
    char error[160];
};

/* One run, in this process (limit_live.c). 0, or -1: shared->error says why. */
int limit_run(const struct limit_options *opt, const struct limit_scenario *s, bool limited,
              struct limit_shared *shared);

enum limit_end { LIMIT_END_RESULT, LIMIT_END_STOPPED, LIMIT_END_FAILED };
/* The same in a process of its own (limit_child.c). While it runs, told(arg, shared) is called
 * twenty times a second. */
enum limit_end limit_child(const struct limit_options *opt, const struct limit_scenario *s,
                           bool limited, void (*told)(void *arg, const struct limit_shared *shared),
                           void *arg, struct limit_result *out, char *why, size_t room);

/* Fills in the LIMIT_PREDICTED_* of a run with a limit (limit_predict.c). Pure. */
void limit_predict(const struct limit_options *opt, const struct limit_scenario *s,
                   const struct limit_program *p, struct limit_result *out);

/* ---- reports (limit_report.c, limit_files.c) ---- */

/* The runs of one scenario: without a limit and with it; those not `done` were not made. */
struct limit_pair {
    const struct limit_scenario *scenario;
    struct limit_result free, limited;
};

void limit_report_header(FILE *out, const struct limit_options *opt);
void limit_report_pair(FILE *out, const struct limit_options *opt, const struct limit_pair *p);
void limit_report_end(FILE *out, const struct limit_options *opt, const struct limit_pair *pairs);

/* ---- checks (limit_check.c) ---- */

/* Is text an expression over the figures? 0, or -1: `why` says what is wrong. */
int limit_check_syntax(const char *text, char *why, size_t room);
/* Returns how many scenarios fail a check, each told on `out`. */
int limit_check(const struct limit_options *opt, const struct limit_pair *pairs, const char *text,
                FILE *out);
/* Writes --json and --csv; returns how many files failed, each of which was told on stderr. */
int limit_files_write(const struct limit_options *opt, const struct limit_pair *pairs);

#endif
