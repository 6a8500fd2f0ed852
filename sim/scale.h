/* scale.h: the parts of `hedge-sim scale`, a discrete-event simulation of kv's load in virtual
 * time, and the data that goes between them.
 *
 *   scale_options.c    the command line: kv's load and measuring options, and its own
 *   scale_trace.c      the program from a recorded trace (scale_trace.h)
 *   scale_machine.c    what things cost on a machine: the built-in one, and JSON profiles
 *   scale_profile.c    how a collector behaves: hedge's and Go's constants
 *   scale_compare.c    `hedge-sim scale`: all runs, the report, the files
 *   scale_run.c        one run: the loop over events (scale_world.h: its state)
 *   scale_calibrate.c  measures this machine; scale_check.c: predicted against live runs
 *
 * A run fills a struct kv_result, so that reports, checks, CSV and JSON are kv's own. What a
 * simulation does not have (CPU time of other processes, resident memory) is NaN there.
 */
#ifndef HG_SIM_SCALE_H
#define HG_SIM_SCALE_H
#include "sim/kv.h"

/* ---- machines (scale_machine.c) ---- */

/* Of a distribution: scale_quantile_at. */
#define SCALE_QUANTILES 9
extern const double scale_quantile_at[SCALE_QUANTILES];
#define SCALE_SLEEPS 5 /* lengths of sleep, rising: scale_sleep_ns */
extern const int64_t scale_sleep_ns[SCALE_SLEEPS];

/* What things cost, in ns of one CPU unless said otherwise. See docs/design/scale.md for how each
 * is measured. */
struct scale_machine {
    char name[96];
    double fixed_ns;        /* a request of few connections, beside what its allocations cost */
    double cold_ns;         /* more of it for each tenfold of connections above SCALE_FEW_CONNS */
    double byte_ns;         /* per byte that it allocates, filling it included */
    double fresh_ns;        /* per byte of memory that was never used before */
    double mark_rate;       /* bytes of scan work per ns, between requests */
    double stack_ns;        /* the scan of a parked task's stack by a worker, which prefetches */
    double switch_in_ns;    /* by the proc that is about to run the task */
    double stack_bytes;     /* of it, kv's at a depth of 8 */
    double sweep_ns;        /* per byte of heap at the end of a cycle */
    double handshake_ns;    /* a callback of a proc */
    double alloc_factor;    /* bytes that the heap gives per byte asked for */
    double conn_scan_bytes; /* scan work that hangs off each connection */
    double remote_factor;   /* time of an access to another socket's memory over one to its own */
    double crowd_factor;    /* time of marking while all CPUs do so over one that is alone */
    double pauses_per_s;    /* how often the kernel or the host stops a CPU that is busy */
    double work[SCALE_QUANTILES];  /* a request's own work over its mean, pauses left out */
    double pause[SCALE_QUANTILES]; /* how long such a pause is */
    /* How late a proc runs that slept for so long: the longer, the deeper its CPU slept. */
    double wake[SCALE_SLEEPS][SCALE_QUANTILES];
};
#define SCALE_FEW_CONNS 512

void scale_machine_builtin(struct scale_machine *m);
/* Reads a profile. 0, or -1: `why` says what is wrong and where. */
int scale_machine_read(const char *path, struct scale_machine *m, char *why, size_t room);
/* Writes one on `out`. 0 or -1. */
int scale_machine_write(FILE *out, const struct scale_machine *m);
/* Is every figure in its range? 0, or -1: `why` names one that is not. */
int scale_machine_check(const struct scale_machine *m, char *why, size_t room);

/* ---- collectors (scale_profile.c) ---- */

struct scale_profile {
    const char *name, *policies; /* policies: those compared where none is named */
    bool go;                     /* workers, assists and pauses as Go has them */
    /* hedge */
    int64_t slice_ns, idle_slice_ns, idle_look_ns, assist_ns, wait_ns;
    /* Go */
    double mark_factor;                 /* its rate of marking over hedge's, on one machine */
    double share;                       /* of procs, for workers */
    double trigger_least, trigger_most; /* of the way from the marked heap to the goal */
    int64_t quantum_ns, pause_ns, timer_grain_ns;
    int64_t least_assist, drain_check; /* bytes of scan work */
};
/* The profile of that name, or NULL. */
const struct scale_profile *scale_profile_find(const char *name);
const char *scale_profile_choices(void);

/* ---- options (scale_options.c) ---- */

/* Where a quantity of a program from a trace comes from. */
struct scale_note {
    const char *source; /* "from it", "assumed", "given" */
    char text[80];
};
#define SCALE_NOTES_MAX KV_NOTES_MAX

struct scale_options {
    struct kv_options load; /* procs: the simulated machine's */
    struct scale_machine machine;
    const struct scale_profile *profile;
    const char *machine_file; /* NULL: built in */
    double service_us;        /* CPU of a request; NaN: as the machine says */
    double request_bytes;     /* allocated by a request; NaN: as kv's parameters give */
    double live_heap;         /* bytes; NaN: kv's store */
    double scan_share;        /* of it that is scan work; NaN: as in kv's store */
    double mark_rate;         /* bytes per second by a CPU of this collector; NaN: the machine's */
    double stack_bytes;       /* of a task, to scan; NaN: the machine's */
    int sockets;              /* the CPUs lie on, each with its part of the memory */
    double noise;             /* marking is faster or slower by up to this share in each cycle */
    double noise_asked;       /* NaN: not asked for */
    bool network;             /* arrivals come from the network, and not from timers */
    bool assist;              /* allocations assist */
    bool calibrate, check, benchmark;
    const char *calibrate_file;
    const char *trace, *pid; /* NULL: none */
    double trace_rate;       /* at which it was recorded; 0: the load's */
    int trace_conns;         /* likewise */
    char about[120];         /* the program, for the page */
    char recorded[120];      /* what it is; with the notes, for the report */
    struct scale_note note[SCALE_NOTES_MAX];
    int notes;
};
void scale_options_parse(struct scale_options *opt, int argc, char **argv);
/* Sets how fast the profile's collector marks, in bytes per ns; what follows from it moves
 * along. */
void scale_set_mark_rate(struct scale_options *opt, double rate);
/* Sets what a stack has to scan; longer ones take longer. After the rate. */
void scale_set_stack(struct scale_options *opt, double bytes);
/* What a request costs and allocates, as the options and the machine give it. */
double scale_service_ns(const struct scale_options *opt);
double scale_request_bytes(const struct scale_options *opt);
double scale_live_heap(const struct scale_options *opt);
double scale_scan_bytes(const struct scale_options *opt); /* of it */
/* By what everything is slower that waits for memory, as some of it is at another socket. */
double scale_memory_factor(const struct scale_options *opt);
/* By what marking is slower, as all procs mark at once: idle ones do. */
double scale_crowd_factor(const struct scale_options *opt);

/* ---- one run (scale_run.c) ---- */

/* Counts that hold for every run; the tests check them. */
struct scale_books {
    uint64_t arrivals, ended, given_up; /* all that were to start before the end */
    int64_t allocated, freed, live;     /* bytes: allocated == freed + live */
    uint64_t requests, events;          /* all requests simulated */
    bool time_went_back;
};

/* Runs the load once and fills *r; books may be NULL. stop (may be NULL) is asked now and then
 * whether to end early. */
void scale_run(const struct scale_options *opt, const struct kv_policy *policy, int repetition,
               int (*stop)(void), struct kv_result *r, struct scale_books *books);

/* ---- calibration and check ---- */

/* Both measure this machine with live runs, and print what they do on standard output. Return an
 * exit status. */
int scale_calibrate(const struct scale_options *opt);
int scale_check(const struct scale_options *opt);

#endif
