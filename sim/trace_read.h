/* trace_read.h: recorded gctrace and gcpacertrace output as series of cycles, for `replay`, for
 * `pacer --model replay --trace FILE` and for `scale --trace FILE`.
 *
 * Lines understood (Go 1.18 to 1.25 and hedge), after any prefix that a log puts before them:
 *
 *   gc N @Ts P%: a+b+c ms clock, a+x/y/z+c ms cpu, h->h->h MB, g MB goal, [s MB stacks, r MB
 *     globals,] p P [(forced)]
 *   pacer: u% CPU (g exp.) for a+b+c B work (w B exp.) in h B -> h B (∆goal d, cons/mark e)
 *   pacer: u% CPU (g exp.) for a+b+c B work (w B est.) in h B -> h B (cons/mark m, est. e; ...)
 *
 * The first form gives times, and sizes rounded to MB; the second is Go's and gives scan work and
 * exact sizes; the third is hedge's and gives the measured ratio as well. A cycle's two lines are
 * joined by its sizes, so that lines of several processes may alternate.
 *
 * What a log's prefix names (a journal's unit[pid], kubectl's [pod/...], compose's "name |") is one
 * process each; a number that falls back is its next start. Without names, lines belong together by
 * their running numbers.
 *
 * Invariants
 *   1. Sizes are bytes, times nanoseconds, cycles in the order of the log; what a line did not say
 *      is NaN.
 *   2. cons_mark is known (not NaN) only if source says from what. It never comes from gctrace
 *      alone unless the caller assumes the scan work (sim_trace_assume): what is live is not what
 *      was scanned, and MB hide what was allocated while marking.
 */
#ifndef HG_SIM_TRACE_READ_H
#define HG_SIM_TRACE_READ_H
#include "pacer/pacer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum sim_trace_source {
    SIM_TRACE_NONE,    /* no ratio */
    SIM_TRACE_PRINTED, /* hedge's line says what was measured */
    SIM_TRACE_TIMES,   /* bytes of the pacer's line, CPU times of the gctrace line */
    SIM_TRACE_SHARE,  /* the pacer's line alone: idle marking is not in it, so c is a lower bound */
    SIM_TRACE_ASSUMED /* gctrace alone, with scan work that the user has given */
};

struct sim_trace_cycle {
    uint64_t number; /* 0: no gctrace line */
    double at_s;     /* start, since the process began */
    double wall_ns;  /* marking, while the program runs */
    double quiet_ns; /* before it: stopped (Go), handshakes and roots (hedge) */
    double assist_ns, background_ns, idle_ns; /* GC CPU */
    double gc_share;                          /* of all CPU since the start, 0..1 */
    double procs;
    double heap_start, heap_end; /* exact with a pacer's line, else rounded to MB */
    double live, goal, stack, globals;
    double scan_heap, scan_stack, scan_globals;
    double utilization; /* CPU share of marking and assist that the pacer's line gives, 0..1 */
    double cons_mark;   /* measured */
    double estimate;    /* that the recorded program had used */
    enum sim_trace_source source;
    bool forced;
};

struct sim_trace_process {
    char *name; /* "api[4711]", "pod/api-1/main", "#1" where the log names none */
    struct sim_trace_cycle *cycle;
    size_t cycles, room;
    size_t missing; /* numbers that were passed over */
    uint64_t last_number;
    double last_at_s;
    size_t group; /* of the reader: processes whose lines have one name */
};

struct sim_trace_group; /* of the reader */

struct sim_trace {
    struct sim_trace_process *process;
    size_t processes;
    size_t lines;       /* read */
    size_t gc_lines;    /* understood, of either kind */
    size_t pacer_lines; /*   */
    size_t other_lines; /* of the pacer, which say nothing about a finished cycle */
    size_t skipped;     /* anything else */
    size_t broken;      /* skipped as well: began like one of ours and went on otherwise */
    struct sim_trace_group *group;
    size_t groups;
};

/* Starts empty. */
void sim_trace_init(struct sim_trace *t);
void sim_trace_free(struct sim_trace *t);

/* Adds a file's lines; name is for messages. lenient: lines that are broken are counted and passed
 * over. 0, or -1: `why` names file and line and says what was expected. */
int sim_trace_read(struct sim_trace *t, FILE *in, const char *name, bool lenient, char *why,
                   size_t room);
/* The same for a file by its path; "-" is standard input. */
int sim_trace_read_path(struct sim_trace *t, const char *path, bool lenient, char *why,
                        size_t room);
/* When all files are read: joins what is left and works the ratios out. 0, or -1: nothing in them
 * was a trace, and `why` says so. */
int sim_trace_finish(struct sim_trace *t, char *why, size_t room);

/* The process that `wanted` names: its whole name, its pid, or a part of its name that no other one
 * has; wanted NULL: the only one. Returns NULL for none or several, and `why` lists them. */
const struct sim_trace_process *sim_trace_find(const struct sim_trace *t, const char *wanted,
                                               char *why, size_t room);

/* Works out a cycle's ratio from its lines, if they give one (trace_ratio.c). */
void sim_trace_ratio(struct sim_trace_cycle *c);
/* Gives every cycle without scan work that much of it, and the ratio that follows. */
void sim_trace_assume(struct sim_trace *t, double scan_bytes);

/* Scan work of all kinds; NaN where the log does not say. */
double sim_trace_work(const struct sim_trace_cycle *c);
/* Can policies be fed with it? It has a ratio and was not forced. */
bool sim_trace_usable(const struct sim_trace_cycle *c);
/* The cycle as a pacer would have measured it, with that ratio; false: it is not usable. */
bool sim_trace_measure(const struct sim_trace_cycle *c, struct hg_pacer_cycle *out);
/* GOGC as goals and live heaps show it, the median; NaN: they do not. */
double sim_trace_gogc(const struct sim_trace_process *p);

/* ---- one line (trace_line.c) ---- */

enum sim_trace_kind {
    SIM_TRACE_FOREIGN, /* no line of ours */
    SIM_TRACE_GC,
    SIM_TRACE_PACER,
    SIM_TRACE_OTHER, /* a known line about something else */
    SIM_TRACE_BROKEN /* begins like one of ours */
};

struct sim_trace_line {
    struct sim_trace_cycle cycle; /* what this line says */
    char name[128];               /* that its prefix gives, "" where it gives none */
    char expected[48];            /* broken: what should have come */
    size_t column;                /* broken: where, from 1 */
};

/* Takes a line apart; text has no newline. */
enum sim_trace_kind sim_trace_parse(const char *text, struct sim_trace_line *out);

#endif
