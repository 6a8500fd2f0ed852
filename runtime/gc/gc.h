/* gc.h: the collector's own state: the cycle driver, marking, pacing, roots, verification. Above
 * mut and sched; below rt.
 *
 * Who does what:
 *   driver    one thread per runtime: walks the phases (cycle.c), sleeps in between
 *   procs     mark and sweep in slices between tasks, and as long as they are idle; assist (work.c)
 *   monitor   revises the pace every millisecond while marking (pace.c)
 */
#ifndef HG_RUNTIME_GC_GC_H
#define HG_RUNTIME_GC_GC_H
#include "pacer/pacer.h"
#include "runtime/mut/mut.h"
#include "runtime/sched/sched.h"
#include <hedge/stats.h>

#define HG_SLICE_NS      INT64_C(50000)    /* longest background slice between two tasks */
#define HG_IDLE_SLICE_NS INT64_C(200000)   /* longest slice of a proc that has no task */
#define HG_IDLE_LOOK_NS  INT64_C(20000)    /* in it, time between two looks at other procs' tasks */
#define HG_ASSIST_NS     INT64_C(50000)    /* longest assist */
#define HG_SCAN_CHUNK    4096u             /* bytes of stack per claim */
#define HG_SCAN_WHOLE    16384u            /* deeper stacks are never scanned in one go */
#define HG_CHUNK_BYTES   ((size_t)8 << 10) /* of a large object */
#define HG_CYCLES_KEPT   256
#define HG_LIMITER_NS    INT64_C(10000000) /* a window of the limiter, at least */

/* Global roots (roots.c). */
struct hg_root {
    uintptr_t slot;
    size_t words;
};
/* Memory of the runtime's own that holds references and comes and goes: the caches of a pool
 * (sync/objpool.c). Lives in its owner's memory. Its functions are called by the driver (`each`
 * also by whoever takes the holder out), under ROOTS; they may take locks of rank POOL. */
struct hg_root_holder {
    struct hg_root_holder *next; /* ROOTS */
    /* Before a cycle, in OFF, when nothing is marked: what it drops now needs no barrier. */
    void (*turn)(struct hg_root_holder *h);
    /* Calls fn for each range of words that may be references, and keeps them from changing but by
     * barriered stores of single words meanwhile. */
    void (*each)(struct hg_root_holder *h,
                 void (*fn)(void *arg, uintptr_t lo, uintptr_t hi, const char *what), void *arg);
};
struct hg_roots {
    struct hg_lock lock; /* ROOTS: all below, and gc->sink */
    struct hg_root *root;
    size_t n, room;
    _Atomic int64_t bytes;
    struct hg_root_holder *holders;
};

/* What the driver is asked to do. */
struct hg_collect_queue {
    struct hg_lock lock;    /* COLLECT */
    uint64_t wanted;        /* cycles that must have begun after a request: number of the
                             * last one wanted */
    uint64_t deferred;      /* the same for refused allocations: the limiter may hold it back */
    struct hg_tcb *waiters; /* by gc_next; each has gc_wanted */
};

struct hg_gc {
    struct hg_world *world;
    struct hg_sched *sched;
    pthread_t driver;
    _Atomic uint32_t driver_wake; /* bumped by whoever has something for the driver; it sleeps on
                                   * it */
    _Atomic uint32_t stopping;
    _Atomic uint32_t triggered; /* heap_live passed the trigger; writers: slow paths; the driver
                                 * clears */
    struct hg_collect_queue collect;
    _Atomic uint64_t finished; /* number of the last cycle that is marked and swept; outside
                                * waiters sleep below */
    _Atomic uint32_t finished_word;
    struct hg_mutator *sink; /* no real mutator: greys what the driver and foreign threads
                              * find; ROOTS */
    struct hg_roots roots;
    bool forced;               /* of the running cycle; driver */
    _Atomic uint32_t periodic; /* likewise; readers: procs, a hint */

    /* Stack scanning in MARK: workers go through the registry once. Writers: workers (acq_rel). */
    _Atomic uint32_t scan_cursor, scan_end;
    _Atomic uint32_t deep; /* stacks of which a claim left something: another pass is needed */
    _Atomic uint32_t
        scans_done; /* registry entries dealt with; == scan_end: the pass is complete */

    /* Pace (pace.c). */
    struct hg_lock pacer_lock; /* PACER */
    struct hg_pacer pacer;
    _Atomic int64_t heap_live; /* marked by the last cycle, allocated since, external; writers:
                                * anyone (add) */
    _Atomic int64_t external;
    _Atomic int64_t trigger, goal, hard, hard_by_goal;
    _Atomic uint64_t assist_ratio; /* scan bytes per allocated byte, times 65536; 0: none */
    _Atomic uint32_t share;        /* background share, times 65536 */
    _Atomic int64_t credit;        /* scan bytes: the hedge a cycle starts with */
    _Atomic uint32_t assist_on;
    _Atomic uint32_t limited; /* the limiter holds GC back; writers: under PACER; slow paths read it
                               * as a hint, the driver before it waits for driver_wake */
    _Atomic uint32_t limit_told;
    _Atomic int64_t last_end; /* when the last cycle ended; the periodic one counts from here */

    /* Of the running cycle: sums at its start. Writer: driver under PACER; readers: under PACER. */
    struct hg_gc_sums {
        int64_t alloc, background, idle, assist, sweep, scan, scanned_heap, scanned_stack, marked,
            process_cpu;
    } at_start;
    struct hg_gc_sums at_end; /* of the last cycle */
    bool calm;                /* none has begun since; PACER */
    int64_t late_at_start;
    int64_t alloc_at_scan;
    struct hg_cycle now;
    int64_t scanned_roots;
    int64_t scannable_at_trigger;

    /* The limiter's window. PACER. Writers: the monitor, and the driver while it holds a cycle
     * back; no other readers but of limiter_ns (stats). */
    struct hg_gc_window {
        int64_t began, gc, cpu; /* clock and sums at its start */
        int64_t seen, idle_ns;  /* until when idle procs were counted; idle procs x time */
    } window;
    bool holding; /* what the limiter said last; `limited` says it to those without the lock */
    int64_t limiter_ns; /* for how long it has held the collector back */

    /* History; PACER. */
    struct hg_cycle *cycles; /* ring of HG_CYCLES_KEPT */
    uint64_t cycle_count, forced_count, overshoot_count;
    double worst_over_goal;
    int64_t peak, mark_wall, cycle_wall, gc_cpu;

    /* Configuration. */
    bool check, hard_limit, trace_gc, trace_pacer;
    int stress;
    int cpus; /* that the procs share: at most as many as there are procs */
    void *user;
    void (*limit_passed)(void *user, int64_t bytes);
    bool (*out_of_memory)(void *user, size_t wanted);
    int64_t opened_at;
};

/* ---- life (cycle.c) ---- */
int hg__gc_start(struct hg_gc *g);
void hg__gc_stop(struct hg_gc *g);
void hg__gc_wake_driver(struct hg_gc *g);
static inline struct hg_gc *hg__gc_of(const struct hg_world *w) { return w->collector; }

/* Requests a cycle that begins after now; returns its number at least. */
uint64_t hg__gc_request(struct hg_gc *g);
/* The same for an allocation that was refused: the cycle begins once the limiter lets it. */
uint64_t hg__gc_request_deferred(struct hg_gc *g);
/* Waits until `number` is finished: parks a task, blocks a foreign thread. */
void hg__gc_wait(struct hg_gc *g, uint64_t number);

/* ---- marking (mark.c, stacks.c) ---- */

#define HG_MARK_RING  64u
#define HG_MARK_DELAY 16u
/* One slice of tracing; the public hg_tracer of trace callbacks. Owner: the worker.
 *
 * The first fields are the heap's, copied for the slice. That the reservation's used part may grow
 * meanwhile is harmless: while marking everything there was allocated by black mutators, and is
 * marked. */
struct hg_tracer {
    uintptr_t base;
    size_t size, low_end, high_start, high_bytes;
    _Atomic uint64_t *desc, *marks;
    _Atomic uint8_t *codes;
    unsigned delay_at;
    uintptr_t delay[HG_MARK_DELAY]; /* objects whose mark words are on their way: start | DELAY
                                     * flags; 0: empty */
    struct hg_mutator *m;
    struct hg_heap *heap;
    const struct hg_layout_info *layouts;
    struct hg_grey_object {
        uintptr_t at;            /* where to begin: the object's start, or a chunk of it */
        uint64_t refs;           /* bit i: word i is a reference; 0: find out by desc */
        uint64_t desc;           /* of the page of `at` */
        uint32_t index;          /* DESCRIBED in a mixed span: the slot */
        uint32_t size;           /* of a small object's slot */
    } ring[HG_MARK_RING];        /* objects whose lines are on their way */
    unsigned head, count, ready; /* entries from head on; of them looked up */
    int64_t look_at;             /* idle: when to look at other procs next */
    int64_t bytes;               /* scanned in this slice */
    int64_t leafs;               /* bytes of leaf objects that were marked */
    /* The verifier's: is given each reference instead of its being marked. */
    void (*instead)(struct hg_tracer *t, const struct hg_object *o, bool ambiguous);
    void *instead_arg;
};
void hg__tracer_init(struct hg_tracer *t, struct hg_gc *g, struct hg_mutator *m);
/* Gives every reference of an object to the tracer. */
void hg__trace_object(struct hg_tracer *t, const struct hg_object *o);

enum hg_work_kind { HG_WORK_SLICE, HG_WORK_IDLE, HG_WORK_ASSIST };
/* Marks until `until` (CLOCK_MONOTONIC), or `bytes` of scan work are done, or nothing is left to
 * see; in IDLE also until the proc has a task to run. On the scheduler stack. Returns the scan work
 * done in bytes, at least 1 if there was any. */
int64_t hg__mark_some(struct hg_gc *g, struct hg_mutator *m, enum hg_work_kind kind, int64_t until,
                      int64_t bytes);
/* Whether m sees marking work: its own buffer, the shared queue, unscanned stacks. */
bool hg__mark_available(struct hg_gc *g, const struct hg_mutator *m);
/* Greys what the words of [lo, hi) may point to. Returns bytes looked at. */
size_t hg__scan_words(struct hg_mutator *m, uintptr_t lo, uintptr_t hi);

/* Scans stacks of the registry until time is up or the worker is wanted elsewhere; returns bytes
 * scanned. The caller is a counted worker. */
int64_t hg__scan_stacks(struct hg_gc *g, struct hg_mutator *m, enum hg_work_kind kind,
                        int64_t until);
bool hg__stacks_left(const struct hg_gc *g);
/* Hooks of mut and sched: SCAN of m's own stacks; a task's at switch-in. */
void hg__scan_mutator(struct hg_mutator *m, bool own);
bool hg__scan_switch_in(struct hg_mutator *m, struct hg_tcb *t);
/* Driver, before MARK: arms the pass over the registry. */
void hg__stacks_begin(struct hg_gc *g);

/* ---- work of procs (work.c), termination (term.c) ---- */
bool hg__gc_background(struct hg_mutator *m, bool idle); /* hook of sched */
/* Whether m's proc, idle until now, has a task to run. *look_at: when to look at other procs
 * next. */
bool hg__idle_over(struct hg_mutator *m, int64_t now, int64_t *look_at);
/* Whether a worker has to leave off before its time: for a handshake, or (IDLE) for a task. */
bool hg__worker_wanted(struct hg_mutator *m, enum hg_work_kind kind, int64_t now, int64_t *look_at);
/* a slice at the running task's safepoint */
void hg__gc_attention_slice(struct hg_mutator *m);
void hg__gc_allocated(struct hg_mutator *m, size_t bytes); /* hook of mut */
bool hg__gc_refuse(struct hg_mutator *m, size_t size);     /* hook of mut */
/* hook of mut */
bool hg__gc_no_memory(struct hg_mutator *m, size_t size, unsigned *tries, bool may_fail);
/* Driver: marks until no grey object exists and WEAK is reached. */
void hg__gc_terminate(struct hg_gc *g);

/* ---- pace (pace.c) ---- */
int hg__pace_init(struct hg_gc *g, const struct hg_pacer_config *c); /* 0 or -ENOMEM */
void hg__pace_cycle_start(struct hg_gc *g);
void hg__pace_scanned(struct hg_gc *g);    /* SCAN is over: MARK begins */
void hg__pace_cycle_end(struct hg_gc *g);  /* marking is over */
void hg__pace_tick(void *gc, int64_t now); /* hook of sched: monitor */
/* The limiter: looks which procs are idle, and ends its window if that has been long enough. sums:
 * taken after now. */
void hg__pace_limiter(struct hg_gc *g, const struct hg_gc_sums *sums, int64_t now);
void hg__pace_replan(struct hg_gc *g);
void hg__gc_sums(struct hg_gc *g, struct hg_gc_sums *out);
/* Adds to heap_live and starts a cycle at the trigger. */
void hg__pace_grew(struct hg_gc *g, int64_t bytes);

/* ---- roots (roots.c), verifier (verify.c) ---- */
int hg__roots_init(struct hg_gc *g); /* 0 or -ENOMEM, and nothing is left of it */
int hg__root_add(struct hg_gc *g, void *slot, size_t n);
int hg__root_remove(struct hg_gc *g, void *slot);
void hg__roots_scan(struct hg_gc *g);
void hg__roots_each(struct hg_gc *g,
                    void (*fn)(void *arg, uintptr_t lo, uintptr_t hi, const char *what), void *arg);
void hg__roots_fini(struct hg_gc *g);
/* Any thread: h is scanned from now on; no longer, and all that it holds is deleted. */
void hg__root_hold(struct hg_gc *g, struct hg_root_holder *h);
void hg__root_unhold(struct hg_gc *g, struct hg_root_holder *h);
/* Driver, before a cycle: every holder's turn. */
void hg__roots_turn(struct hg_gc *g);
/* Driver, in WEAK, mutators held: fatal unless everything reachable is marked. */
void hg__gc_check(struct hg_gc *g);
/* gccheck: makes the unused part of a suspended stack read as zero, so that words that were never
 * written after its scan do not look like references to the verifier. */
void hg__gc_check_clear(struct hg_stack *s);

#endif
