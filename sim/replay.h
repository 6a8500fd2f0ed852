/* replay.h: the parts of `hedge-sim replay`, which reads recorded traces, sums them up, and asks
 * each policy what it would have expected.
 *
 *   replay_options.c  the command line
 *   replay_judge.c    policies over a process's cycles, by the pacer itself
 *   replay_text.c     what is printed
 *   replay_files.c    JSON and CSV; replay_report.c: the page
 *   replay.c          the order of it all
 */
#ifndef HG_SIM_REPLAY_H
#define HG_SIM_REPLAY_H
#include "sim/trace_options.h"
#include "sim/trace_read.h"

#define REPLAY_POLICIES_MAX 16

struct replay_policy {
    char name[32];
    struct hg_policy_spec spec;
};

struct replay_options {
    const char *const *file;
    int files;
    struct replay_policy policy[REPLAY_POLICIES_MAX];
    int policies;
    struct sim_trace_how how;        /* of the trace; without pid: all processes */
    int gogc;                        /* -1: as the trace shows it */
    const char *json, *csv, *report; /* NULL: not wanted */
};

void replay_options_parse(struct replay_options *opt, int argc, char **argv);

/* A policy over the usable cycles of a process. Shares are of `judged`; NaN without any. */
struct replay_verdict {
    const char *policy; /* "(recorded)": the estimates that the program itself had used */
    size_t judged;      /* all but the first: before it there is no estimate */
    double late_share;  /* the estimate was below what was then measured */
    double short_share; /* the runway planned by it was shorter than what marking took */
    double short_worst; /* the largest (needed / planned) - 1 */
    double early;       /* median of estimate / measured */
    double unused;      /* mean of what of the runway was not needed, over goal - live heap */
    double *estimate;   /* for each cycle of the process; NaN: none */
};

struct replay_result {
    const struct sim_trace_process *process;
    size_t usable, forced, paced; /* cycles; paced: with a pacer's line */
    double gogc;                  /* that plans were made with; NaN: unknown, taken for 100 */
    struct replay_verdict verdict[REPLAY_POLICIES_MAX + 1]; /* the last: recorded */
    int verdicts;
};

/* replay_judge.c */
void replay_judge(const struct replay_options *opt, const struct sim_trace_process *p,
                  struct replay_result *r);
void replay_result_free(struct replay_result *r);

/* Quantile q of a figure of the cycles that were not forced; NaN where none has it. */
double replay_quantile(const struct sim_trace_process *p,
                       double (*figure)(const struct sim_trace_cycle *), double q);

struct replay {
    struct replay_options opt;
    struct sim_trace trace;
    struct replay_result *result;
    size_t results;
};

/* Figures of a cycle that summaries and files name. */
struct replay_figure {
    const char *name; /* in JSON and CSV */
    double (*of)(const struct sim_trace_cycle *);
};
#define REPLAY_FIGURES 15
extern const struct replay_figure replay_figure[REPLAY_FIGURES];
const char *replay_source_text(enum sim_trace_source s);

void replay_print(FILE *out, const struct replay *r);
/* --json and --csv; returns how many failed, each of which was said on standard error. */
int replay_write_files(const struct replay *r);
/* 0, or -1: `why` says what went wrong. */
int replay_write_report(const struct replay *r, char *why, size_t room);

#endif
