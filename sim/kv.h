/* kv.h: the parts of `hedge-sim kv`, the live key-value latency workload, and the data that goes
 * between them.
 *
 *   kv_options.c   the command line
 *   kv_compare.c   the parent: a child process per policy and repetition, interleaved
 *   kv_child.c     starting, hearing and ending one child
 *   kv_run.c       the child: one measured run in this process (kv_live.h: its live state)
 *   kv_result.c    what a run leaves behind, from its counters; kv_json.c: as JSON
 *   kv_summary.c   medians, comparisons, checks over all runs
 *   kv_report.c    as text; kv_files.c: as files; kv_html.c: as a page
 *
 * A run's figures are an array indexed by enum kv_metric; one table (kv_metric.c) gives each its
 * name in JSON, in CSV and in --fail-if, so that none of these can lack a figure that another one
 * has.
 */
#ifndef HG_SIM_KV_H
#define HG_SIM_KV_H
#include "sim/machine.h"
#include "sim/sweep.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct argp;
struct argp_state;

#define KV_ENTRY_NODES   4 /* pointerful nodes of 48 bytes that hang off each entry of the store */
#define KV_POLICIES_MAX  12
#define KV_CHECKS_MAX    16
#define KV_PARAMS_MAX    16
#define KV_NOTES_MAX     12
#define KV_FEWEST_CYCLES 30 /* below, a run's p99.9 rests on too few cycles to be printed */

/* ---- options (kv_options.c) ---- */

struct kv_policy {
    char name[24]; /* canonical: "max:5"; "off" is the floor: the same load without a collector */
    bool off;
};

/* A parameter that kv itself does not have, for the JSON of a program built on its load. */
struct kv_param {
    const char *name, *text; /* text NULL: the number */
    double number;
};

/* Where a quantity of a program that was recorded elsewhere comes from. */
struct kv_note {
    const char *source, *text; /* source: "from it", "assumed", "given" */
};

struct kv_options {
    const char *program; /* "hedge-sim kv": who ran, for the JSON and messages */
    const char *about;   /* the program, on the page; NULL: kv's store */
    struct kv_param more[KV_PARAMS_MAX];
    int mores;
    const char
        *recorded; /* what the program was recorded as, for JSON and page; NULL: it was not */
    struct kv_note note[KV_NOTES_MAX];
    int notes;
    int conns;   /* each is a client task, a server task, two channels */
    double rate; /* arrivals per second, all connections together */
    int read_percent;
    int keys;
    int value_bytes;
    int garbage_nodes; /* small nodes that each request allocates */
    int garbage_bytes; /* and one buffer without references, beside them */
    int depth;         /* stack frames of 16 pointers under each parked task */
    /* By what share of it that varies, 0..1 (kv_stack_frames). */
    double stack_noise;
    bool net;        /* connections are TCP over the loopback, not channels */
    double burst_us; /* arrivals are put off to the next multiple; 0: they come as they come */
    int gogc;        /* -1: off */
    bool gogc_given; /* on the command line */
    int64_t limit;   /* memory, bytes; INT64_MAX: none */
    int procs;       /* -1: as the runtime chooses */
    double duration_s, warmup_s;
    int repetitions;
    uint64_t seed;
    struct kv_policy policy[KV_POLICIES_MAX];
    int policies;
    /* File names, hgrm: a folder; NULL: not wanted. */
    const char *json, *csv, *slowest, *series, *cycles, *hgrm, *report;
    const char *fail_if[KV_CHECKS_MAX];
    int checks;
    struct sim_sweep sweep; /* asked for: this is not one comparison but many */
};

/* The parts of the command line that other programs with the same load share, as children of their
 * own parsers; each takes a struct kv_options as its input: the load; policies and measuring. */
extern const struct argp kv_argp_load, kv_argp_measure;
/* Sets what kv's command line starts from: the defaults, GOGC and GOMAXPROCS. */
void kv_options_init(struct kv_options *opt, const char *program);
/* After all options: settles policies (those of `list` where none was named), repetitions and
 * checks, or ends the process. */
void kv_options_finish(struct argp_state *state, struct kv_options *opt, const char *list);
/* Fills opt from the command line and, for what it leaves open, the environment (GOGC, GOMAXPROCS).
 * Ends the process with status 2 and a message that names the option where a value is wrong, with 0
 * after --help. */
void kv_options_parse(struct kv_options *opt, int argc, char **argv);
/* Frames under a task that begins to wait so many ns after the load's start. They vary as stacks of
 * the pacer's model of that name do, where the size of all together is drawn anew for each cycle:
 * so all tasks share one factor, uniform from 1 - stack_noise to 1 + stack_noise, another one in
 * each KV_STACK_NOISE_NS. With factors of their own the sum over thousands of tasks would hardly
 * vary. Pure: a function of options, seed and time. */
int kv_stack_frames(const struct kv_options *opt, uint64_t seed, int64_t ns);
#define KV_STACK_NOISE_NS INT64_C(500000000)
/* The fewest and the most. */
int kv_stack_frames_least(const struct kv_options *opt);
int kv_stack_frames_most(const struct kv_options *opt);
/* Bytes of garbage that one operation leaves, on average, as the program asks for them. */
double kv_garbage_per_op(const struct kv_options *opt);
/* Bytes that a run without a collector fills, roughly: the store, the stacks, the garbage of its
 * whole time. */
double kv_floor_bytes(const struct kv_options *opt);

/* ---- figures of a run (kv_metric.c) ---- */

enum kv_metric {
    KV_OPS, /* finished while measuring */
    KV_WANTED_RATE,
    KV_ACHIEVED_RATE,
    KV_P50, /* latency, ns from the intended start */
    KV_P90,
    KV_P99,
    KV_P999,
    KV_MAX,
    KV_CYCLES,
    KV_GC_CPU_SHARE, /* GC CPU time over procs times wall time */
    KV_ASSIST_SHARE, /* assist over assist + background + idle */
    KV_ASSISTS,
    KV_LONGEST_ASSIST, /* CPU ns */
    KV_HOLD_P50,       /* CPU ns for which the collector held a mutator in one piece */
    KV_HOLD_P99,
    KV_HOLD_P999,
    KV_HOLD_MAX,
    KV_LIVE_HEAP, /* marked by the last cycle */
    KV_PEAK_HEAP,
    KV_PEAK_OVER_GOAL, /* largest heap at the end of a cycle's marking over its goal */
    /* From here on: beyond the stable form of the JSON; tools must not need them. */
    KV_OVERSHOOT_CYCLES, /* that ended above their goal */
    KV_DROPPED,          /* arrivals given up 10 s after the end; counted as that late */
    KV_P99_LOW,          /* 95 % intervals within the run, by bootstrap over cycles */
    KV_P99_HIGH,
    KV_P999_LOW,
    KV_P999_HIGH,
    KV_HANDSHAKE_P50, /* wall ns */
    KV_HANDSHAKE_P99,
    KV_HANDSHAKE_MAX,
    KV_RUNQ_P50, /* ns that a runnable task waited for a proc */
    KV_RUNQ_P99,
    KV_RUNQ_MAX,
    KV_ASSIST_CPU, /* GC CPU ns by kind */
    KV_BACKGROUND_CPU,
    KV_IDLE_CPU,
    KV_SWEEP_CPU,
    KV_SCAN_CPU,
    KV_BYTES_PER_OP,
    KV_PROCS,
    KV_SECONDS,     /* measured */
    KV_OWN_CPU,     /* CPUs that this process used */
    KV_FOREIGN_CPU, /* CPUs that other processes used */
    KV_STEAL_SHARE, /* of CPU time, taken by the hypervisor */
    KV_MAX_RSS,
    KV_METRICS
};

struct kv_metric_info {
    const char *group; /* JSON object that it lies in, NULL: the run itself */
    const char *key;   /* JSON key in there */
    const char *name;  /* in --fail-if and CSV */
    bool whole;        /* printed as an integer */
};
extern const struct kv_metric_info kv_metric_info[KV_METRICS];
/* The figure of that name, or KV_METRICS. */
enum kv_metric kv_metric_find(const char *name);

/* ---- where the time of slow requests went ---- */

enum kv_part {
    KV_PART_TIMER, /* the client's timer fired late */
    KV_PART_RUNQ,  /* client or server waited for a proc, but for the marking it did meanwhile */
    KV_PART_MARK,  /* marking slices: its proc's between tasks, and at its own safepoints */
    KV_PART_ASSIST,
    KV_PART_LOCK,  /* the shard's lock was held by another request */
    KV_PART_SWEEP, /* sweeping for its own allocations */
    KV_PART_HOLD,  /* handshake callbacks and scans of its own stack */
    KV_PART_WORK,  /* the rest: its own work, a proc's thread that the kernel did not run */
    KV_PARTS
};
extern const char *const kv_part_key[KV_PARTS];  /* in JSON and CSV */
extern const char *const kv_part_text[KV_PARTS]; /* in the report */

struct kv_blame {
    double requests;     /* those in the sums */
    double ns[KV_PARTS]; /* sums of their time, by what it went to */
    double behind_ns;    /* of all that: while their connection was busy with earlier requests */
};

/* ---- what a run leaves behind ---- */

/* Rows of numbers, for the files that want more than totals. */
struct kv_table {
    size_t columns, rows, room;
    double *cell;
};
void kv_table_row(struct kv_table *t, size_t columns, const double *row);
void kv_table_free(struct kv_table *t);

/* Columns of the tables: their names, in order (kv_files.c). */
#define KV_SERIES_COLUMNS  10
#define KV_CYCLE_COLUMNS   17
#define KV_SLOWEST_COLUMNS (7 + KV_PARTS)
#define KV_HIST_COLUMNS    2 /* bucket, count */

struct kv_result {
    char policy[24];
    bool gc;                   /* false: the floor */
    int repetition;            /* from 1 */
    bool interrupted;          /* measured for less than was asked for */
    double metric[KV_METRICS]; /* NaN: not known */
    struct kv_blame blame[2];  /* of requests above p99: [0] outside, [1] inside of a cycle */
    struct kv_table series, cycles, slowest, histogram; /* empty unless a file was asked for */
};
void kv_result_free(struct kv_result *r);

/* ---- one run, in this process (kv_run.c) ---- */

/* Runs the load once and fills *r. say: where progress lines (kv_json_progress) go, -1: nowhere. 0,
 * or -1: `why` says what went wrong. Starts threads: the process must not fork afterwards. */
int kv_run(const struct kv_options *opt, const struct kv_policy *policy, int repetition, int say,
           struct kv_result *r, char *why, size_t room);

/* ---- all runs, in the parent ---- */

struct kv_runs {
    struct kv_result *run; /* in the order in which they were made */
    int n;
    char skipped[200]; /* why the floor did not run; "" where it ran or was not asked for */
};

/* One policy over its repetitions. */
struct kv_policy_summary {
    const char *policy;
    bool gc;
    int runs;
    double median[KV_METRICS], least[KV_METRICS], most[KV_METRICS];
    double p99_low, p99_high; /* bootstrap interval of its run with the median p99 */
    bool few_cycles;          /* its p99.9 is not printed */
    struct kv_blame blame[2]; /* summed */
};

struct kv_summary {
    struct kv_policy_summary policy[KV_POLICIES_MAX];
    int policies;
    /* What the others are compared with: the floor, else the first; -1: nothing to compare. */
    int reference;
};

void kv_summarise(const struct kv_runs *runs, struct kv_summary *s);
/* Pairs by repetition: fills a[] (the policy) and b[] (the reference), each of runs->n; returns how
 * many pairs. */
size_t kv_pairs(const struct kv_runs *runs, const char *policy, const char *reference,
                enum kv_metric m, double *a, double *b);
/* Evaluates one --fail-if expression for every policy but the floor (for the floor when it is
 * alone). Returns how many failed or could not be told, each said on `out`. */
int kv_check(const struct kv_summary *s, const char *expression, FILE *out);
/* Is the expression well formed, and are its names known? 0, or -1: `why` says what is wrong. */
int kv_check_syntax(const struct kv_options *opt, const char *expression, char *why, size_t room);

/* ---- text (kv_report.c): at most 80 columns ---- */

/* skipped: as in struct kv_runs. */
void kv_report_header(FILE *out, const struct kv_options *opt, const struct sim_machine *m,
                      const char *skipped);
/* Above the lines of kv_report_run. */
void kv_report_runs_heading(FILE *out);
void kv_report_run(FILE *out, const struct kv_options *opt, const struct kv_result *r);
void kv_report_table(FILE *out, const struct kv_summary *s);
void kv_report_comparison(FILE *out, const struct kv_runs *runs, const struct kv_summary *s);
void kv_report_blame(FILE *out, const struct kv_summary *s);
void kv_report_warnings(FILE *out, const struct kv_options *opt, const struct kv_runs *runs);

/* ---- JSON (kv_json.c); strings are for the caller to free ---- */

struct kv_progress {
    char phase[16]; /* "warm-up", "measure", "drain" */
    double done_s;  /* of the phase */
    double rate;    /* operations per second lately */
    double cycles;  /* since the run began */
};
char *kv_json_progress(const struct kv_progress *p);
char *kv_json_result(const struct kv_result *r);
char *kv_json_error(const char *text);
enum kv_message { KV_MESSAGE_BAD, KV_MESSAGE_PROGRESS, KV_MESSAGE_RESULT, KV_MESSAGE_ERROR };
/* Takes a line that a child has sent apart. Only what its kind says is filled. */
enum kv_message kv_json_parse(const char *line, struct kv_progress *p, struct kv_result *r,
                              char *error, size_t room);
/* The document of --json on `out`. 0 or -1. */
int kv_json_document(FILE *out, const struct kv_options *opt, const struct sim_machine *m,
                     const struct kv_runs *runs);

/* ---- files (kv_files.c) ---- */

/* Writes all files that the options ask for. Each that failed is said on standard error; returns
 * how many. */
int kv_files_write(const struct kv_options *opt, const struct sim_machine *m,
                   const struct kv_runs *runs);
/* Writes the page that --report asks for (kv_html.c). 0, or -1: `why` says what went wrong. */
int kv_html_write(const struct kv_options *opt, const struct sim_machine *m,
                  const struct kv_runs *runs, char *why, size_t room);
/* The name of a run's .hgrm file in its folder: "max-5.1.hgrm". */
void kv_hgrm_name(const struct kv_result *r, char *buffer, size_t room);

#endif
