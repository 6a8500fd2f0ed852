/* scale_world.h: the state of one simulated run, and what its parts ask of each other.
 *
 *   scale_table.c  what times are drawn from
 *   scale_run.c    the loop: takes the earliest event; arrivals; results
 *   scale_heap.c   procs ordered by their next event
 *   scale_sched.c  rounds of a proc, run queues, stealing, going idle and waking
 *   scale_task.c   the stages of a request, what an allocation sets off
 *   scale_work.c   hedge's slices, idle marking, assists, sweeping
 *   scale_go.c     Go's workers and assists
 *   scale_cycle.c  the driver: handshakes and phases
 *   scale_pace.c   between the counters here and the pacer, as runtime/gc/pace.c does it
 *
 * Time. Each proc has a clock, `at`: the end of what it does now. What it does is decided at its
 * beginning and takes effect at its end, when its event comes up. Events are taken in the order of
 * their times, ties by kind and number, so that a run is the same each time.
 *
 * Invariants
 *   1. A connection's request is in one place: in a list of due ones, with a task in a queue or on
 *      a proc, parked at an assist or the hard limit; or the connection rests.
 *   2. A task is in at most one list (task.next) and never in a list and on a proc.
 *   3. heap_live counts what procs have told; each keeps less than GROWTH_STEP to itself.
 *   4. Marking is complete when nothing is left in the pool (work_left, stacks) and nobody works on
 *      something taken from it (working).
 *
 * Published methods: independent Poisson processes of N connections are one of N times the rate,
 * each arrival at a connection drawn uniformly (superposition), so no timer per connection is kept.
 */
#ifndef HG_SIM_SCALE_WORLD_H
#define HG_SIM_SCALE_WORLD_H
#include "pacer/pacer.h"
#include "sim/hist.h"
#include "sim/scale.h"
#include "sim/scale_load.h"
#include "sim/scale_table.h"

#define SCALE_RING        256u              /* of a proc's run queue, as in both runtimes */
#define SCALE_NEVER       INT64_MAX         /* no event */
#define SCALE_TICK_NS     INT64_C(1000000)  /* the monitor's */
#define SCALE_TURN_NS     INT64_C(10000000) /* a task that ran so long makes room */
#define SCALE_GROWTH_STEP INT64_C(16384)    /* a proc tells heap_live in such steps */
#define SCALE_AHEAD       64u               /* arrivals drawn ahead */

enum scale_state {
    SCALE_ASLEEP, /* at == NEVER, in the idle list */
    SCALE_SPINS,  /* likewise, but awake: its next timer is near */
    SCALE_WAKES,  /* on the way to its loop */
    SCALE_RUNS,   /* a stage of a task */
    SCALE_SLICE,  /* works for the collector between two tasks */
    SCALE_IDLE_MARKS,
    SCALE_ASSISTS /* for a task that has to wait after it */
};

struct scale_proc {
    int64_t at;     /* next event */
    uint32_t place; /* in the heap of events */
    uint8_t state;
    bool seeks;    /* woken for work, which it has not found yet */
    uint32_t task; /* that runs */
    uint32_t runnext;
    uint32_t head, tail;   /* of ring */
    struct scale_list due; /* connections whose timers are due here */
    int64_t due_since;
    int64_t began;       /* what it does now */
    int64_t turn_at;     /* the running turn's beginning, for time slices */
    int64_t poll_gap;    /* between two safepoints of what it runs */
    int64_t delay;       /* holds that others put on it meanwhile */
    int64_t until_pause; /* of the time in which it runs tasks */
    int64_t next_slice_at;
    int64_t credit, debt, pending;
    int64_t heap_taken, stacks_taken;   /* scan work that it is at, taken from the pool: bytes */
    int64_t worker_ns;                  /* Go: fractional worker's, this cycle */
    bool dedicated;                     /* Go: its worker stays */
    int64_t worker_since, worker_until; /* Go: of the worker that runs here */
    uint32_t rounds;
    uint32_t idle_next, idle_prev;
    uint32_t ring[SCALE_RING];
};

enum scale_phase { SCALE_OFF, SCALE_ROOTS, SCALE_MARK };
enum scale_step { /* of the driver: what it does when its event comes */
                  SCALE_RESTS,
                  SCALE_BEGIN,
                  SCALE_NOP1,
                  SCALE_NOP2,
                  SCALE_SCANNED,
                  SCALE_MARKS,
                  SCALE_QUIET,
                  SCALE_FLUSHED,
                  SCALE_OFFED,
                  SCALE_RESET
};

/* Sums from the run's beginning; differences of two tell about a stretch. */
struct scale_sums {
    int64_t alloc, work, background, idle, assist, sweep, scan;
    int64_t scanned_heap, scanned_stack;
};

struct scale_world {
    const struct scale_options *opt;
    const struct scale_profile *profile;
    bool gc;
    int64_t now;
    struct sim_rng rng, arrivals_rng;
    /* The load. */
    struct scale_conn *conn;
    struct scale_task *task;
    struct scale_pending *pending;
    uint32_t pending_free, pending_room;
    struct scale_arrival ahead[SCALE_AHEAD];
    uint32_t ahead_first;
    double ahead_at, gap, burst;
    double stage_ns[SCALE_STAGES];
    int64_t stage_bytes[SCALE_STAGES];
    struct scale_table work_table, pause_table, wake_table[SCALE_SLEEPS];
    double pause_gap;   /* mean busy time between two pauses, ns; 0: there are none */
    double fresh_ns;    /* more per request without a collector */
    int64_t begin, end; /* measuring */
    /* Procs. */
    int procs;
    struct scale_proc *proc;
    uint32_t *heap; /* procs by `at` */
    uint32_t idle_first, idles, seekers, spinners;
    struct scale_list global, network, queue, waits; /* queue: Go's assist queue */
    uint32_t in_rings;                               /* tasks in rings, and due on busy procs */
    int64_t *wait_until;                             /* by task; NULL until somebody waits */
    /* The collector. */
    enum scale_phase phase;
    enum scale_step step;
    int64_t driver_at, tick_at;
    uint32_t cycle;
    bool triggered;
    int64_t heap_live, goal, trigger, hard, hard_by_goal;
    double assist_ratio, u, rate; /* rate: bytes per ns in this cycle */
    int64_t credit;               /* the cycle's; Go: background credit */
    int64_t work_left, unswept_ns;
    double stack_ns, switch_in_ns; /* of a scan */
    double sweep_per_byte;         /* ns per byte of heap */
    uint32_t stack_cursor, tasks;
    int working; /* procs with work taken from the pool */
    int dedicated_wanted;
    double fraction;             /* Go: of each proc's time for a fractional worker */
    int64_t scan_heap, overhead; /* overhead: what a memory limit covers beside objects */
    struct hg_pacer pacer;
    bool limited; /* the limiter holds the collector back */
    int64_t limiter_at, limiter_gc;
    struct scale_sums sums, at_start;
    int64_t alloc_at_scan, start_ns, mark_ns, heap_at_start, swept_heap;
    double cycle_goal;
    int64_t scannable;
    /* What is kept for the results. */
    hg_histogram latency, hold, assist, handshake, runq, block_start, scratch;
    struct sim_blocks blocks;
    struct kv_table rows; /* of cycles, for the page */
    uint64_t done, cycles, assists, overshoots;
    int64_t live_marked, peak;
    double over_goal;
    bool measuring;
    struct scale_sums from;
    uint64_t outstanding; /* measured requests that have not ended */
    struct scale_books books;
};

/* ---- small things ---- */

/* How late one runs that is woken after a sleep of so long. */
static inline int64_t scale_wake_ns(struct scale_world *w, int64_t slept)
{
    int i = 0;
    while (i + 1 < SCALE_SLEEPS && slept > (scale_sleep_ns[i] + scale_sleep_ns[i + 1]) / 2)
        i++;
    return (int64_t)scale_table_draw(&w->wake_table[i], &w->rng);
}
static inline uint32_t scale_number(const struct scale_world *w, const struct scale_proc *p)
{
    return (uint32_t)(p - w->proc);
}
void scale_list_push_task(struct scale_world *w, struct scale_list *l, uint32_t t);
uint32_t scale_list_pop_task(struct scale_world *w, struct scale_list *l);

/* ---- scale_heap.c ---- */
void scale_heap_init(struct scale_world *w);
/* p->at has changed. */
void scale_heap_moved(struct scale_world *w, struct scale_proc *p);

/* ---- scale_sched.c ---- */
void scale_proc_event(struct scale_world *w, struct scale_proc *p);
/* A request of conn c is due now: its client is woken. */
void scale_due(struct scale_world *w, uint32_t c);
/* A task becomes ready on p (not NULL) or everywhere. */
void scale_ready(struct scale_world *w, struct scale_proc *p, uint32_t t);
/* There is work that an idle proc could do: wakes one, if none seeks already. */
void scale_wake_one(struct scale_world *w);
void scale_wake_all(struct scale_world *w);
bool scale_has_work(const struct scale_world *w, const struct scale_proc *p);
bool scale_work_anywhere(const struct scale_world *w);
/* The monitor's look at timers that no busy proc gets to. */
void scale_monitor(struct scale_world *w);
void scale_hold(struct scale_world *w, int64_t ns);

/* ---- scale_task.c ---- */
/* Runs the task's next stage from w->now. False: it is parked, and p goes on with another. */
bool scale_task_start(struct scale_world *w, struct scale_proc *p, uint32_t t);
void scale_task_end(struct scale_world *w, struct scale_proc *p);

/* ---- scale_work.c ---- */
/* Scan work from the pool, at a rate, that takes at most `ns`, at most `bytes` of it; its time, 0:
 * there is none. p is at it until scale_work_done. */
int64_t scale_work_take(struct scale_world *w, struct scale_proc *p, double rate, int64_t ns,
                        int64_t bytes);
int64_t scale_work_done(struct scale_world *w, struct scale_proc *p);
bool scale_work_there(const struct scale_world *w);
/* Background work between two tasks; its time, 0: none is due. */
int64_t scale_background(struct scale_world *w, struct scale_proc *p, bool idle);
void scale_scan_task(struct scale_world *w, struct scale_proc *p, uint32_t t, int64_t *ns);
/* What the allocation of `bytes` costs p's running task beside itself; -1: it has to wait. */
int64_t scale_allocated(struct scale_world *w, struct scale_proc *p, uint32_t t, int64_t bytes,
                        int64_t length);
void scale_waits_over(struct scale_world *w);
void scale_sweep(struct scale_world *w, int64_t ns);

/* ---- scale_go.c ---- */
int64_t scale_go_worker(struct scale_world *w, struct scale_proc *p, bool idle);
int64_t scale_go_assist(struct scale_world *w, struct scale_proc *p, uint32_t t, int64_t bytes);
void scale_go_credit(struct scale_world *w, struct scale_proc *p, int64_t bytes);
void scale_go_mark_begins(struct scale_world *w);
void scale_go_mark_ends(struct scale_world *w);
int64_t scale_go_trigger(const struct scale_world *w, const struct hg_pacer_plan *plan);

/* ---- scale_cycle.c ---- */
void scale_driver_event(struct scale_world *w);
void scale_grew(struct scale_world *w, int64_t bytes);
/* Marking or sweeping may be complete. */
void scale_look_quiet(struct scale_world *w);

/* ---- scale_pace.c ---- */
void scale_pace_init(struct scale_world *w, const char *policy);
void scale_pace_start(struct scale_world *w);
void scale_pace_scanned(struct scale_world *w);
void scale_pace_end(struct scale_world *w);
/* Now and then: the limiter, and what a running cycle owes. */
void scale_pace_tick(struct scale_world *w);

#endif
