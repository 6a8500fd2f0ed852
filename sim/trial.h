/* trial.h: what the commands share that run one load in several ways and compare them: `timer`,
 * `compress`, `conn`.
 *
 *   trial_measure.c   in the run: counters at its start and end, latencies, figures
 *   trial_child.c     one run in a process of its own
 *   trial_table.c     all runs, interleaved; the table of medians
 *   trial_files.c     JSON and CSV; names of the figures
 *
 * A command has a table of rows, one for each way, and a function that runs the load in one way.
 * Each row is run --repetitions times, one row after the other, so that what disturbs the machine
 * for a while disturbs all rows. Reported are medians.
 */
#ifndef HG_SIM_TRIAL_H
#define HG_SIM_TRIAL_H
#include <argp.h>
#include <hedge/hedge.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>

enum trial_figure {
    TRIAL_SECONDS,  /* measured */
    TRIAL_OPS,      /* in them */
    TRIAL_NS,       /* elapsed ns per operation: seconds over operations */
    TRIAL_CPU_NS,   /* CPU ns of the process per operation, the collector's included */
    TRIAL_ALLOCS,   /* heap objects allocated per operation */
    TRIAL_BYTES,    /* heap bytes allocated per operation */
    TRIAL_CYCLES,   /* collections */
    TRIAL_GC_SHARE, /* of that CPU time */
    TRIAL_P50,      /* ns of single operations */
    TRIAL_P99,
    TRIAL_P999,
    TRIAL_MAX,
    TRIAL_TASKS, /* tasks started per operation */
    TRIAL_EXTRA, /* the command's own; trial_table.extra is its name */
    TRIAL_FIGURES
};
extern const char *const trial_figure_name[TRIAL_FIGURES];

struct trial_result {
    bool done, interrupted;
    double figure[TRIAL_FIGURES];
};

/* In memory that parent and child share. The child writes the atomic field while it runs (relaxed:
 * it is for a progress line) and the others before it ends, which the parent waits for. */
struct trial_shared {
    _Atomic int64_t operations;
    struct trial_result result;
    char error[160];
};

/* ---- in the run (trial_measure.c) ---- */

struct trial {
    struct trial_shared *shared;
    hg_histogram *latency; /* shared by tasks: trial_add */
    hg_stats from;
    int64_t began_at, cpu;
    double extra; /* becomes TRIAL_EXTRA */
};

/* On a task, when the load is ready to run: collects, so that all ways begin with the same heap,
 * and looks at the counters. */
void trial_begin(struct trial *t);
/* On a task, when it has ended: makes the figures. */
void trial_end(struct trial *t, int64_t operations);
/* Any task: an operation has taken ns. */
void trial_add(struct trial *t, int64_t ns);
/* Any task: whether to stop early, as the user interrupts. */
bool trial_stopped(void);

/* Runs the load of one row: opens a runtime and calls the three above. 0, or -1: shared->error says
 * why. arg is the row's. */
typedef int trial_fn(struct trial *t, const void *arg);

/* hg_run with `procs` (-1: as the runtime decides) and no environment. An error is put into
 * shared->error; returns 0 or -1. */
int trial_run(struct trial *t, int procs, int (*main_task)(void *), void *arg);

/* ---- one run in a process of its own (trial_child.c) ---- */

enum trial_ending { TRIAL_RESULT, TRIAL_STOPPED, TRIAL_FAILED };
/* seconds: how long a run should take at most; one that takes two minutes more is aborted. told
 * (may be NULL) is called twenty times a second. */
enum trial_ending trial_child(trial_fn *fn, const void *arg, double seconds,
                              void (*told)(void *arg, int64_t operations), void *told_arg,
                              struct trial_result *out, char *why, size_t room);

/* ---- all runs (trial_table.c, trial_files.c) ---- */

#define TRIAL_ROWS_MAX        16
#define TRIAL_REPETITIONS_MAX 20

struct trial_row {
    const char *label[2]; /* what is different in this way; [1] may be "" */
    const void *arg;
    struct trial_result run[TRIAL_REPETITIONS_MAX]; /* those that are done, from the first on */
    int runs;
};

struct trial_table {
    const char *program;  /* "hedge-sim timer" */
    const char *label[2]; /* what the labels are: "codec", "reuse"; [1] may be "" */
    const char *unit;     /* what an operation is: "message" */
    const char *extra;    /* name of TRIAL_EXTRA in files; NULL: there is none */
    trial_fn *fn;
    struct trial_row row[TRIAL_ROWS_MAX];
    int rows, repetitions;
    double operations; /* of a run, for the progress line */
    double seconds;    /* that a run may take at most */
    const char *json, *csv;
    json_t *params; /* for the file; the table's */
};

/* The options that these commands share, for argp. A command's own keys lie below. */
enum { TRIAL_KEY_REPETITIONS = 0x200, TRIAL_KEY_CHECK, TRIAL_KEY_JSON, TRIAL_KEY_CSV };
#define TRIAL_OPTIONS                                                                       \
    {                                                                                       \
        "repetitions",                                                                      \
        TRIAL_KEY_REPETITIONS,                                                              \
        "N",                                                                                \
        0,                                                                                  \
        "Runs of each way; medians are reported (3)",                                       \
        8},                                                                                 \
        {"check", TRIAL_KEY_CHECK, NULL, 0, "Exit with status 1 if a target is missed", 8}, \
        {NULL, 0, NULL, 0, "Files (each appears whole, by rename):", 9},                    \
        {"json", TRIAL_KEY_JSON, "FILE", 0, "All figures of all runs", 9},                  \
    {                                                                                       \
        "csv", TRIAL_KEY_CSV, "FILE", 0, "The same, one line per run", 9                    \
    }
/* Takes one of them. false: it is none. *check: --check was given. */
bool trial_option(struct trial_table *t, bool *check, int key, const char *arg,
                  struct argp_state *state);
/* How their --help ends. */
#define TRIAL_STATUS                                                                              \
    "Exit status: 0; 1: a target is missed (--check); 2: wrong usage; 3: a run or a file failed;" \
    " 130: Ctrl-C (what was measured until then is reported)."

/* Appends a row. */
void trial_row_add(struct trial_table *t, const char *first, const char *second, const void *arg);

/* Prints program, commit and machine. */
void trial_header(const struct trial_table *t);
/* Makes all runs, prints the table. False: a run failed, which was said on stderr. */
bool trial_runs(struct trial_table *t);
/* Median over a row's runs; NaN: there is none, or the row is none of the table's. */
double trial_median(const struct trial_table *t, int row, enum trial_figure f);
/* Index of the row with these labels, or -1. */
int trial_row_find(const struct trial_table *t, const char *first, const char *second);
/* Prints "target  TEXT: what was measured, met or missed" unless value is NaN. at_most: whether the
 * value may not be above the bound, or not below. percent: how the two are shown. Returns 1 if it
 * is missed, else 0. */
int trial_target(const char *text, double value, double bound, bool at_most, bool percent);
/* Writes the files, frees what the table holds, and gives the exit status. */
int trial_finish(struct trial_table *t, bool runs_done, bool check, int missed);

/* Writes --json and --csv; returns how many failed, each of which was told on stderr. */
int trial_files_write(const struct trial_table *t);

#endif
