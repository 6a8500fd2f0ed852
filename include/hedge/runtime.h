/* runtime.h: a runtime (one heap, its procs, its collector): opening, running, tuning, closing. */
#ifndef HEDGE_RUNTIME_H
#define HEDGE_RUNTIME_H
#include <hedge/core.h>

HG_BEGIN_DECLS

typedef struct hg_runtime hg_runtime;

/* How a runtime is opened. Fill with hg_options_init, then change what you need: options set in
 * code win over the environment. */
typedef struct hg_options {
    size_t size;           /* of this struct as the caller knows it; set by hg_options_init */
    int procs;             /* how many tasks run at once; -1: GOMAXPROCS, or the CPUs this
                            * process may use */
    size_t reserve_bytes;  /* address space for the heap; 0: 256 GiB, less where that does not
                            * fit */
    size_t stack_bytes;    /* stack of a task; 0: 64 KiB; rounded up to pages, 16 KiB to 8 MiB */
    int gc_percent;        /* GOGC: heap growth in per cent before the next cycle ends; -1: off */
    int64_t memory_limit;  /* GOMEMLIMIT: soft limit in bytes on all the runtime holds;
                            * INT64_MAX: none */
    bool hard_limit;       /* past the memory limit allocation fails instead. It fails only after
                            * two collections, and these wait until GC is within half of CPU time:
                            * who asks again and again waits, and does not have GC take it all */
    size_t min_heap_bytes; /* the heap goal is never below this; 0: 4 MiB x GOGC/100 */
    const char *pacer;     /* policy: "max:5" (default), "adaptive", "mean:2", ... */
    bool assist;           /* tasks that allocate may be made to mark (default true) */
    bool trace_gc;         /* GODEBUG=gctrace=1: one line per cycle on standard error */
    bool trace_pacer;      /* GODEBUG=gcpacertrace=1 */
    int hugepages;         /* HG_HUGEPAGES_AUTO, _ALWAYS, _NEVER */
    uint64_t sched_seed;   /* not 0: scheduling choices are pseudo-random from this seed (tests) */
    bool check;            /* HEDGEDEBUG=gccheck=1: every cycle's marking is verified by a second
                            * trace */
    int stress;            /* HEDGEDEBUG=gcstress=N: a cycle every N allocations' slow paths; 0:
                            * off */
    bool poison;           /* HEDGEDEBUG=gcpoison=1: swept memory is filled with a pattern */
    bool track_waits;      /* measure each task's wait in run queues (hg_task_times); costs about
                            * 20 ns a wake-up */
    void *user;            /* first argument of the hooks */
    void (*log)(void *user, int level, const char *text); /* NULL: standard error */
    void (*fatal)(void *user, const char *text);          /* last words before abort() */
    /* the memory limit is passed; may only set flags */
    void (*limit_passed)(void *user, int64_t bytes);
    /* on the task that allocates; true: collect and try again; false: fatal */
    bool (*out_of_memory)(void *user, size_t wanted);
    int os_faults; /* HEDGEDEBUG=osfault=N: one in N reads, writes and waits of the process is
                    * interrupted or cut short, as the kernel may at any time; 0: off */
    int blocking_threads; /* most threads for blocking calls (blocking.h); 0: 64; at most 1024 */
    uintptr_t spare[7];
} hg_options;

enum { HG_HUGEPAGES_AUTO, HG_HUGEPAGES_ALWAYS, HG_HUGEPAGES_NEVER };

/* any: the defaults, without the environment. `size` is sizeof(hg_options). */
HG_API void hg_options_init(hg_options *opt, size_t size);
/* any: lays the environment (GOGC, GOMEMLIMIT, GOMAXPROCS, GODEBUG, HEDGE_*, HEDGEDEBUG) over
 * `opt`. A bad variable is left out, the others hold: -EINVAL then, and `why` (of `room` bytes, may
 * be NULL) names each bad variable and what was expected. */
HG_API int hg_options_env(hg_options *opt, char *why, size_t room);
/* any: calls fn for each variable of the environment table: its name, what it means, its default,
 * the value that is set or NULL, and whether that value is valid. */
HG_API void hg_options_each(void (*fn)(void *arg, const char *name, const char *help,
                                       const char *standard, const char *value, bool valid),
                            void *arg);

/* any: opens a runtime: reserves its heap, starts its threads. opt NULL: the defaults. -EINVAL: an
 * option is out of range (the log hook says which); -ENOMEM; -EAGAIN: no thread. */
HG_API HG_MUST int hg_runtime_open(const hg_options *opt, hg_runtime **out);
/* any: starts a detached task from outside. -EAGAIN: no stack for it. fn's argument is not scanned
 * until the task runs: it must not be the only reference to a heap object. */
HG_API int hg_post(hg_runtime *rt, void (*fn)(void *), void *arg);
/* any, S W from a task: cancels every task (task.h), now and whenever one is started from here on,
 * and waits until all have ended, or `deadline`: -ETIMEDOUT (HG_NOW: -EAGAIN), and they go on
 * ending; it may be called again. After 0, and if no other thread posts, hg_runtime_close succeeds.
 * A task of rt that calls it is not cancelled itself, and it is the others that end; of several
 * such tasks one goes on and the others get -ECANCELED. */
HG_API int hg_runtime_shutdown(hg_runtime *rt, int64_t deadline);
/* any but a task of rt: -EBUSY and nothing changed while tasks exist; else stops its threads, frees
 * its memory. No other thread may use rt meanwhile, also not hg_post. */
HG_API HG_MUST int hg_runtime_close(hg_runtime *rt);

/* any thread that is not in a runtime: a whole program on tasks: opens a runtime (opt NULL: the
 * defaults and the environment; a bad variable is reported once on standard error and the default
 * holds), runs main_task(arg) as its first task, and returns its result (or hg_task_exit's). Tasks
 * that still exist then are ended where they wait, as in Go. A negative errno if the runtime could
 * not be opened. */
HG_API int hg_run(int (*main_task)(void *), void *arg, const hg_options *opt);

/* The runtime of the calling task; NULL outside of tasks. */
HG_API hg_runtime *hg_current(void);

/* ---- collector ---- */

/* S W, any: a full cycle that begins after the call; returns when marking is done and the heap is
 * swept. Several callers share a cycle. From a thread outside the runtime it blocks the thread. */
HG_API void hg_collect(hg_runtime *rt);
/* any: asks for a cycle and returns at once. */
HG_API void hg_collect_start(hg_runtime *rt);

/* any, effective in the running cycle: GOGC; -1 is off. Returns the old value; -EINVAL (nothing
 * changed) below -1. */
HG_API int hg_set_gc_percent(hg_runtime *rt, int percent);
/* any: GOMEMLIMIT in bytes; INT64_MAX: none. Returns the old value; -EINVAL (nothing changed) below
 * 0. */
HG_API int64_t hg_set_memory_limit(hg_runtime *rt, int64_t bytes);
/* any: mark assist on or off. Off: the goal may be passed up to the memory limit; the overshoot is
 * counted. */
HG_API void hg_set_assist(hg_runtime *rt, bool on);
/* any: pacing policy by name ("max:5"); from the next cycle on. -EINVAL: no such policy. */
HG_API HG_MUST int hg_set_pacer(hg_runtime *rt, const char *policy);
/* any: gives free memory back to the kernel now. Returns the bytes given back. */
HG_API size_t hg_release_memory(hg_runtime *rt);
/* any: memory outside the heap that heap objects hold (negative: it was freed); it counts in the
 * pacer and the limit. */
HG_API void hg_external_bytes(hg_runtime *rt, int64_t delta);

HG_END_DECLS
#endif
