/* sched.h: tasks on procs on OS threads.
 *
 *   task    a green thread: a stack with its control block (struct hg_tcb) at the top. Never moves,
 *           is recycled.
 *   proc    the right to run tasks; a mutator; owns a run queue and a timer heap. GOMAXPROCS of
 *   them. thread  an OS thread. Runs a proc's loop on its own pthread stack, the scheduler stack;
 *   without a
 *           proc it sleeps.
 *
 * A switch: the task calls hg__on_scheduler(m, fn, arg); fn puts the task where it belongs (a wait
 * queue, a run queue) on the scheduler stack, when its registers are already saved, and ends in
 * hg__schedule, which resumes another task.
 *
 * Central invariants:
 *   S1  a task is in at most one place: running on a proc, in one run queue, waiting, in a blocking
 *       region, or dead
 *   S2  a park is won by exactly one waker (hg__park_claim), and the winner makes the task ready
 *       once
 *   S3  nothing that could wake a task is published before its registers are saved: wait records
 *       are enqueued under the lock that the park's commit function lets go on the scheduler stack;
 *       timers are armed there as well
 *   S4  a proc polls after it has taken a task from a queue and before it runs it; a black proc
 *       then scans the task's stack unless it was scanned in this cycle (hook switch_in)
 *
 * docs/design/scheduler.md describes the module as a whole.
 */
#ifndef HG_RUNTIME_SCHED_SCHED_H
#define HG_RUNTIME_SCHED_SCHED_H
#include "base/list.h"
#include "base/rand.h"
#include "runtime/mut/mut.h"
#include <errno.h>
#include <hedge/task.h>

/* ---- tasks ---- */

enum hg_task_state {
    HG_TASK_FREE,     /* in a pool; owner: the pool */
    HG_TASK_RUNNABLE, /* in a run queue; owner: whoever takes it from there */
    HG_TASK_RUNNING,  /* owner: its proc */
    HG_TASK_WAITING,  /* parked; owner: whoever wins its park */
    HG_TASK_REGION    /* in a blocking region; owner: its thread */
};

/* Why a park ended; the waker that wins gives it. */
enum hg_wake { HG_WAKE_NONE, HG_WAKE_VALUE, HG_WAKE_CLOSED, HG_WAKE_TIMEOUT, HG_WAKE_CANCEL };

/* Why a task's cancellation and its ambient deadline do not count now. */
#define HG_MASK_SHIELD 1u /* hg_shield */
#define HG_MASK_CALL   2u /* the call under way cannot be ended early */

/* A timer: lives in its owner's memory. While it is armed, the heap that holds it owns it (TIMERS
 * lock of the proc that it is armed on). All zero bytes: not armed. */
struct hg_timer_node {
    /* Under no lock, on a scheduler stack; must not block. NULL: the deadline of a task's park
     * (struct hg_tcb.timer). */
    void (*fire)(struct hg_timer_node *t, int64_t now);
    /* The proc whose heap holds it; NULL: not armed. Writers: under that heap's lock. */
    struct hg_proc *_Atomic home;
    uint32_t index; /* in the heap; that lock */
    /* Index + 1 of the proc that ran `fire` last, if `callback`; 0: none has. Writer: that proc,
     * before home becomes NULL. Reader: who finds home NULL (acquire). */
    _Atomic uint16_t fired_by;
    bool callback; /* it begins a struct hg_timer_callback. Constant while armed */
};

/* A program's timer that calls a function: T5 in timer.c. */
struct hg_timer_callback {
    struct hg_timer_node node; /* first */
    /* The task on whose stack it lies, if that task has armed it; else NULL. While it is armed it
     * counts in its stack_timers. Under the lock of the heap that it is in or comes into. */
    struct hg_tcb *owner;
};

struct hg_proc;
struct hg_thread;      /* internal.h */
struct hg_group_state; /* internal.h: what the words of an hg_group hold */
struct hg_blocking;    /* net/blocking.c */
struct hg_slab;        /* stack.c */
struct hg_sched;

/* Callee-saved registers that hg_block_enter keeps, as they may be the only holders of
 * references. */
#if defined(__x86_64__)
#define HG_REGION_REGS 6
#else
#define HG_REGION_REGS 20
#endif

/* The order of fields is by cache line: the first two lines are all that a switch touches. */
struct hg_tcb {
    struct hg_stack stack;  /* first */
    _Atomic uint16_t state; /* enum hg_task_state; writer: the owner */
    /* Most units of 4 KiB that were in use at a switch since the last trim. Writers: owner,
     * trimmer. */
    _Atomic uint16_t pages;
    uint8_t timed; /* the park under way has armed `timer`; owner */
    /* How it hands over (ready.c, H3): hand-overs that others are told of yet; how often it was
     * late, or HG_HAND_OVER_UNKNOWN; hand-overs until one is timed. Owner. */
    uint8_t eager, late, untimed;
    struct hg_tcb *next; /* link of the one queue that holds it */
    /* The park under way: ticket * 8 + enum hg_wake; a waker wins by cas from (ticket, NONE). Never
     * reset: tickets of an earlier task in this control block must not match. */
    _Atomic uint64_t wait;
    void
        *wait_winner; /* the wait record whose waker won; written by the winner before it readies */

    struct hg_timer_node timer; /* deadline of the park, or the sleep */
    const char *why;            /* where it waits, for reports; static string */
    int64_t since;              /* runnable since (track_waits); owner */
    /* REGION: the proc it came from. RUNNABLE (track_waits): who made it ready, or NULL. */
    struct hg_proc *proc;
    int64_t proc_mark_ns; /* that proc's marking time when it became runnable (blame) */

    struct hg_sched *sched;
    int (*fn)(void *); /* one of these two; the other is NULL */
    void (*body)(void *);
    void *arg;    /* a root: the control block is scanned with the stack */
    void *handle; /* heap object to publish the result in, or NULL; a root */
    uint64_t id;
    /* Program's timers on this stack that are armed. Writers: under the lock of the heap that holds
     * one; reader: the exit. */
    _Atomic uint32_t stack_timers;

    /* Ambient (cancel.c). Waits end at `deadline` at the latest, unless `mask` is set; owner. */
    int64_t deadline;
    /* Sticky. Writers: who cancels it (seq_cst, Note [CANCEL]), its birth; readers: owner. */
    _Atomic uint32_t canceled;
    _Atomic uint32_t mask;         /* HG_MASK_ bits; writer: owner; readers: who cancels it */
    struct hg_group_state *group;  /* it is a member of, or NULL; constant */
    struct hg_list group_link;     /* GROUP */
    struct hg_group_state *groups; /* it owns, by next_owned; CANCEL, only itself adds */
    struct hg_defer_node *defers;  /* newest first; owner */
    int result;                    /* of a task that ends; owner */
    bool watched;                  /* has a handle or a group: C1 in cancel.c; constant */
    bool told;                     /* its group's cancellation has reached it; GROUP */

    struct hg_tcb *gc_next; /* waiting for a cycle; the collector's (COLLECT) */
    uint64_t gc_wanted;     /* number of that cycle */

    uint64_t gc_ticket;                    /* of the park that waits for it */
    uint64_t trim_seen;                    /* `wait` when the trimmer came by last; the driver's */
    uint32_t slot;                         /* index in the registry; constant */
    uint32_t stack_class;                  /* index of its pool; constant */
    struct hg_thread *thread;              /* REGION: the thread inside */
    uint32_t region_word;                  /* REGION: the state word that its proc was left with */
    uintptr_t region_regs[HG_REGION_REGS]; /* REGION: roots; else 0 */
    char name[32];
};

/* ---- procs ---- */

/* Ring of a proc. What does not fit goes to the global queue, half of the ring at once. */
#define HG_RUNQ 256

/* The key is kept beside the node, so that comparing reads no memory but the heap's. */
struct hg_timer_entry {
    int64_t when;
    struct hg_timer_node *node;
};
/* Timers of one proc: see timerheap.c for the structure, timer.c for its use. */
#define HG_TIMER_SEGMENTS 22
struct hg_timers {
    struct hg_lock lock;  /* TIMERS; guards all but next */
    uint32_t n, room;     /* entries: in use, and that there is memory for */
    uint32_t segments;    /* that are there */
    uint32_t collectable; /* entries whose node lies in the collected heap */
    bool settled;         /* they are alive; false while a cycle is under way */
    uint32_t weak_at;     /* a walk for dead ones has looked at all from here on; 0: none walks */
    bool weak_again;      /* a dead one has passed it */
    struct hg_world *weak_world; /* of the walk */
    struct hg_timer_entry *segment[HG_TIMER_SEGMENTS];
    /* When the first is due, or INT64_MAX. Writer: under lock; readers: anyone, a hint. */
    _Atomic int64_t next;
};

struct hg_proc {
    struct hg_mutator mut; /* first: hg__self() is the current proc's mutator */
    struct hg_sched *sched;
    struct hg_thread *thread; /* who runs it; owner of the proc */
    struct hg_tcb *current;   /* owner; NULL: on the scheduler stack */
    struct hg_tcb *yielded;   /* owner: goes to the ring once due timers have run */
    /* The task of this proc that is in a blocking region: the monitor may then hand the proc on.
     * Writers: owner, and who hands it on. */
    _Atomic(struct hg_tcb *) region;
    _Atomic(struct hg_tcb *) runnext;
    /* What is in runnext was handed over, and nobody was told. Writer: owner, true before it fills
     * runnext (release); readers: who looks for work, after runnext (acquire). Notes [WAKE], and H1
     * in ready.c. */
    _Atomic bool untold;
    int64_t handed_at;           /* when that was, if it is timed, else 0; owner */
    uint32_t newborns_eager;     /* births that begin eager: H4 in ready.c; owner */
    _Atomic uint32_t head, tail; /* head: owner and thieves (cas acq_rel); tail: owner (release) */
    _Atomic(struct hg_tcb *) ring[HG_RUNQ];
    struct hg_timers timers;
    uint32_t index; /* in sched->procs; constant */
    /* How sleeps end before a timer is due (wake.c): by how much, as learned; until when time was
     * counted; what may be spun away. Owner. */
    struct {
        int64_t late, seen, credit;
    } early;
    /* The program's timer whose callback runs here, or NULL. Writer: owner, under the heap's lock
     * that it took the timer out of, and after the callback (release); readers: who stops it. */
    struct hg_timer_node *_Atomic firing;
    int64_t fire_again;        /* when the callback wants it to fire again, or HG_FOREVER; owner */
    struct hg_tcb *free_tasks; /* pool of default stacks; owner */
    uint32_t free_count;
    /* Rounds until this proc looks around (proc.c): left, and how many it was to be; since the
     * global queue came first; owner */
    uint32_t until_look, look_span, since_global;
    _Atomic uint32_t tick; /* bumped when a time slice begins; writer: owner; reader: monitor */
    bool spinning;         /* counted in sched->spinning; owner, or its waker while it is idle */
    bool must_spin;        /* it saw work elsewhere: it may spin beyond the limit; owner */
    _Atomic uint32_t idle; /* 1: in the idle list; writers: under SCHED */
    _Atomic uint32_t wake; /* its thread sleeps on this; enum hg_proc_wake in wake.c */
    struct hg_proc *idle_next; /* SCHED */
    struct hg_rand rand;       /* owner */
    uint64_t id_next, id_end;  /* ids of tasks not used yet; owner */
    /* Last reading of the clock for timers; rounds without one since, how many may be; owner */
    int64_t clock;
    uint32_t clock_rounds, clock_skip;
    /* Tasks that began to wait for a descriptor here, less those that went on here: over all procs
     * the number that wait. Writer: owner. */
    _Atomic int64_t net_waits;
    int64_t polled_at; /* its last poll made a task ready to run here; 0: judged (poll.c); owner */
    int64_t looked_at; /* when it last looked whether to poll; owner */
    _Atomic uint64_t switches, steals, started, ended; /* writer: owner */
    _Atomic int64_t marked_ns; /* marking slices run here, in all; writer: owner (gc); blame */
};

/* How the collector is reached; set by rt before procs start; never NULL. On the scheduler stack,
 * mutator RUNNING. */
struct hg_sched_hooks {
    /* A black mutator took `t` from a queue (after its poll) and is about to run it: scans its
     * stack if it was not in this cycle. False: it cannot be run now (claimed by another, or too
     * deep to finish at once): requeue it. */
    bool (*switch_in)(struct hg_mutator *m, struct hg_tcb *t);
    /* Between two tasks: background marking or sweeping that is due (idle false), or any that there
     * is (idle true: until hg__proc_has_work, or soon after hg__work_anywhere). True: it did some.
     * Called only while `background` is not 0. */
    bool (*background)(struct hg_mutator *m, bool idle);
    /* Every few ms from the monitor, on its own thread. */
    void (*tick)(void *arg, int64_t now);
    void *tick_arg;
    /* Descriptors (net/); called only while net_fds is not 0. The tasks whose descriptors have
     * become ready, their parks won, as a chain by `next`; NULL: none. until HG_NOW: looks; else m
     * is BLOCKED and its thread sleeps until there are some, until then, or until net_kick. */
    struct hg_tcb *(*net_poll)(void *net, struct hg_mutator *m, int64_t until);
    void (*net_kick)(void *net); /* any thread: ends the sleep in net_poll, or the next one */
    void *net;
};

/* Stacks of one size: class 0 is the default size, class i is 16 KiB << (i - 1). STACKS. */
#define HG_STACK_CLASSES 11
struct hg_stack_class {
    size_t bytes;        /* constant */
    struct hg_tcb *free; /* by next */
    struct hg_tcb *deep; /* likewise: dead ones with pages that a trim should give back first */
    uintptr_t at, end;   /* what is not carved yet of the newest slab */
};

struct hg_sched {
    struct hg_world *world;
    struct hg_sched_hooks hooks;
    /* Not 0: the collector has work for procs. Writer: driver (seq_cst); readers: procs. */
    _Atomic uint32_t background;
    struct hg_proc **procs; /* constant after start */
    int nprocs;
    int max_threads;    /* with so many, blocking regions keep their procs; set before start */
    size_t stack_bytes; /* default stack of a task */
    uint64_t seed;      /* HEDGE_SCHED_SEED; 0: off */
    bool track_waits;
    bool check;                       /* gccheck; set before start */
    bool left_behind;                 /* hg__sched_stop gave threads up; writer: it */
    _Atomic uint32_t deadlock_report; /* not 0: nothing outside can wake a task (hg_run) */

    struct hg_lock cancel_lock;        /* CANCEL: owners of groups */
    struct hg_list cancelling;         /* groups with members that are still to be told; CANCEL */
    _Atomic uint32_t shutdown;         /* tasks are born cancelled; never taken back */
    _Atomic(struct hg_tcb *) survivor; /* the task that shuts down, which is not cancelled */
    /* hg_run's thread sleeps on `bell` (writers: who wants it to look; 0 without hg_run: nobody
     * does). It blocks the signals of `wanted`, bit s - 1 for signal s, and says so in
     * `blocked`. */
    bool hosted;
    _Atomic uint32_t bell;
    _Atomic uint64_t signals_wanted, signals_blocked;

    struct hg_lock lock; /* SCHED: global queue, idle lists, threads */
    struct hg_tcb *global_head, *global_tail;
    struct hg_proc *idle_procs;
    struct hg_thread *idle_threads, *threads;
    struct hg_thread *retired_threads; /* not in `threads` any more; to be joined */
    int thread_count, idle_thread_count;
    _Atomic uint32_t global_count; /* writers: under lock; readers: hint */
    _Atomic uint32_t stopping;     /* writer: hg__sched_stop */
    _Atomic uint32_t live_threads; /* of procs and regions; hg__sched_stop sleeps on it */
    _Atomic uint32_t regions;      /* tasks in blocking regions */
    /* Tasks that something outside the scheduler will wake (the collector), or is posting; and
     * cancellations under way. */
    _Atomic uint32_t outside_waits;
    /* Writers: procs, idle_count under lock. Read by every hg__ready. See Note [WAKE] in wake.c. */
    _Alignas(64) _Atomic uint32_t idle_count;
    _Atomic uint32_t spinning;
    /* Descriptors: poll.c says who looks at them, and when. */
    _Atomic uint32_t net_fds;  /* open ones. Writers: net (seq_cst); readers: acquire */
    _Atomic uint32_t poller;   /* 1: an idle proc sleeps on them, or is about to. Writers: it */
    _Atomic uint32_t poll_due; /* 1: it is long ago. Writers: monitor (1), who takes it (0) */
    _Atomic uint32_t polls;    /* how often they were looked at; writers: who does */
    /* So many pollers more get a successor at once; how often it was late lately. Writers: procs
     * that ask; two at once may count as one. */
    _Atomic uint32_t eager_polls, late_polls;
    _Atomic int64_t polled_at; /* when a busy proc looked last; writers: they */

    _Alignas(64) struct hg_lock stacks_lock; /* STACKS: slabs, registry, global pools */
    /* registry[i >> 12][i & 4095]: all control blocks, never freed before fini. */
    struct hg_tcb **registry[256];
    _Atomic uint32_t registered; /* how many; release after the entry is written */
    struct hg_stack_class classes[HG_STACK_CLASSES];
    struct hg_slab *slabs;
    uint32_t trim_at; /* registry cursor of hg__stack_trim; driver */
    _Atomic uint64_t next_id;
    _Atomic uint64_t posted; /* tasks started from outside */
    /* Bytes of stacks, in units of 4 KiB, that were seen in use and not trimmed since. */
    _Atomic int64_t stack_bytes_used;
    /* The pool for blocking calls (net/blocking.c): made by the first one (cas), else NULL. */
    struct hg_blocking *_Atomic blocking;
    int blocking_threads;     /* most threads of it; set before start */
    int64_t blocking_idle_ns; /* how long they wait for work; set before start */
    pthread_t monitor;
    void *monitor_seen;            /* what it remembers of procs; its own */
    _Atomic int64_t coarse_now;    /* when the monitor looked last; writer: it; readers: procs */
    _Atomic uint32_t monitor_wake; /* the monitor sleeps on this; enum hg_monitor_sleep */
};

/* ---- start, stop (thread.c) ---- */

/* Prepares; then start creates the threads. 0 or -errno. */
int hg__sched_init(struct hg_sched *s, struct hg_world *w, int procs, size_t stack_bytes,
                   uint64_t seed);
int hg__sched_start(struct hg_sched *s);
/* Stops all procs where they are between two tasks, ends the threads. Tasks that remain are dropped
 * where they wait. Caller: not a task. False: threads had to be given up (in a blocking region, or
 * in a task that reaches no safepoint for a second): the runtime's memory must stay, and
 * hg__sched_fini leaves it. */
bool hg__sched_stop(struct hg_sched *s);
void hg__sched_fini(struct hg_sched *s);
/* Living tasks; exact when none starts or ends meanwhile, else never too few of those that live
 * throughout. */
uint64_t hg__sched_tasks(const struct hg_sched *s);

/* ---- running tasks (proc.c, ready.c) ---- */

/* The proc's loop, from its start: finds a task and runs it. On the scheduler stack; does not
 * return. */
_Noreturn void hg__schedule(struct hg_proc *p);
/* Makes a task that the caller has won ready on the current proc (next: run it next), or on the
 * global queue when the caller is no proc. Wakes an idle proc if there is one to be had. Any
 * thread. */
void hg__ready(struct hg_tcb *t, bool next);
/* Likewise, to run next, by a task that is expected to park soon and knows of nobody who could not
 * wait until then: idle procs are told only if it does not (ready.c). */
void hg__hand_over(struct hg_tcb *t);
/* Whether a task is waiting to be run here, a timer is due, or the global queue holds something:
 * cheap, for work loops. */
bool hg__proc_has_work(struct hg_proc *p);
/* Whether any proc has something that another could take. Reads every proc's queues. */
bool hg__work_anywhere(struct hg_sched *s);
/* Wakes idle procs, at most n. */
void hg__sched_wake(struct hg_sched *s, int n);
/* Tasks that wait for descriptors; exact while all procs are idle, else a hint. */
int64_t hg__net_waits(const struct hg_sched *s);
static inline struct hg_proc *hg__proc_of(struct hg_mutator *m)
{
    return (struct hg_proc *)(void *)m;
}

/* ---- parking (park.c) ---- */

/* Begins a park of the calling task: a fresh ticket that wakers must claim. It must end in a
 * hg__park, as who cancels the task may win the park from here on. */
uint64_t hg__park_begin(struct hg_tcb *t);
/* Tries to win a park for `why`. True: exactly this caller; it may write what the waiter reads,
 * then hg__ready(t). */
bool hg__park_claim(struct hg_tcb *t, uint64_t ticket, enum hg_wake why);
/* Suspends the calling task until its park is won. On the scheduler stack: arms the deadline timer
 * (unless HG_FOREVER), then calls commit(arg), which lets the locks go. Returns why it was woken.
 * After it the task may be on another thread. where: static text for reports. The timer is stopped
 * on return. */
enum hg_wake hg__park(struct hg_tcb *t, uint64_t ticket, int64_t deadline, void (*commit)(void *),
                      void *arg, const char *where);
/* Before the park of a call that may wait, when it has found that it has to: -ECANCELED if t, the
 * calling task, is cancelled; else 0, and *deadline is lowered to t's ambient deadline. Neither
 * counts while t is shielded. */
static inline int hg__wait_enter(const struct hg_tcb *t, int64_t *deadline)
{
    if (hg_unlikely(hg_load_rlx(&t->mask) != 0))
        return 0;
    if (hg_unlikely(hg_load_acq(&t->canceled) != 0))
        return -ECANCELED;
    if (hg_unlikely(t->deadline < *deadline))
        *deadline = t->deadline;
    return 0;
}
/* What a waiting call returns when its park ended for `why`. After TIMEOUT and CANCEL it takes its
 * wait records out itself. */
static inline int hg__wait_error(enum hg_wake why)
{
    switch (why) {
    case HG_WAKE_VALUE:
        return 0;
    case HG_WAKE_CLOSED:
        return -EPIPE;
    case HG_WAKE_TIMEOUT:
        return -ETIMEDOUT;
    case HG_WAKE_CANCEL:
        return -ECANCELED;
    default:
        hg__fatal("a park ended for no reason (%d)", (int)why);
    }
}
/* The calling task's waits are not ended early until hg__unmask gets what this returns: for calls
 * that have no way to say that they did not wait to the end. */
static inline uint32_t hg__mask(struct hg_tcb *t)
{
    uint32_t was = hg_load_rlx(&t->mask);
    hg_store_rlx(&t->mask, was | HG_MASK_CALL);
    return was;
}
static inline void hg__unmask(struct hg_tcb *t, uint32_t was) { hg_store_rlx(&t->mask, was); }
/* From the scheduler stack, for slow paths of the running task: it becomes ready or waiting,
 * another one runs. The call that brought the task here (hg__on_scheduler) returns NULL when it is
 * resumed. */
_Noreturn void hg__yield_from_scheduler(struct hg_proc *p);
_Noreturn void hg__park_from_scheduler(struct hg_proc *p, uint64_t ticket, int64_t deadline,
                                       const char *where);

/* ---- tasks (task.c, stack.c) ---- */

/* The running task of the calling thread; NULL outside of tasks. */
struct hg_tcb *hg__task_self(void);
/* What a task is born with. Zero: detached, with the default stack. */
struct hg_birth {
    int (*fn)(void *);
    void *arg;
    size_t copy_bytes;            /* not 0: of what arg points to */
    const char *name;             /* or NULL */
    uint32_t pool;                /* class of its stack */
    hg_task **handle;             /* where its handle goes, or NULL */
    struct hg_group_state *group; /* in which it has a place, or NULL */
};
/* S: a new task of the calling one. 0, -EPERM, -EINVAL, -EAGAIN. */
int hg__task_spawn(const struct hg_birth *b);
/* A new runnable detached task from outside any task. 0 or -EAGAIN. */
int hg__task_post(struct hg_sched *s, void (*fn)(void *), void *arg);
/* Registry: the i-th control block ever made (i < registered), whatever its state now. */
static inline struct hg_tcb *hg__task_at(struct hg_sched *s, uint32_t i)
{
    return s->registry[i >> 12][i & 4095];
}
/* What a scan of all stacks would read, for the pacer: from sp to hi, estimated from a sample.
 * Driver or monitor. */
int64_t hg__stack_scannable(struct hg_sched *s);
/* Gives deep pages of pooled and parked stacks back, at most `n` stacks. Returns how many. Driver
 * only, while the phase is OFF: it makes handshakes. */
int hg__stack_trim(struct hg_sched *s, int n);

/* ---- cancellation (cancel.c) ---- */

/* Cancels every task there is but s->survivor, and from now on those to come. Any thread. A task
 * that is neither `watched` nor parked now may park without having seen it, so this is repeated
 * until all have ended. */
void hg__cancel_all(struct hg_sched *s);

/* ---- timers (timer.c) ---- */

/* t is not armed, and no other call arms or stops it meanwhile. On a scheduler stack or a thread's
 * own. */
void hg__timer_arm(struct hg_proc *p, struct hg_timer_node *t, int64_t when);
/* The same for a timer that others may arm and stop at this moment, armed or not, from any stack of
 * p, which is current: the earlier time no longer holds. 1: it was armed, and will not fire at the
 * earlier time; 0: it was not; -EBUSY: its callback runs, and nothing was done but (*was) to take
 * it out of a heap; -EAGAIN: the same, as p has no memory for it yet: hg__timers_grow. */
int hg__timer_set(struct hg_proc *p, struct hg_timer_node *t, int64_t when, bool *was);
/* Memory for more timers on p, if there is none left. On a scheduler stack. False: out of
 * memory. */
bool hg__timers_grow(struct hg_proc *p);
/* True: it was armed and will not fire; false: it fired, is firing, or was not armed. */
bool hg__timer_stop(struct hg_timer_node *t);
/* When it is due; HG_FOREVER: it is not armed. Any thread. */
int64_t hg__timer_when(const struct hg_timer_node *t);
/* Whether the callback of t, which is not armed, runs on a proc of s; never if that is `but`. */
bool hg__timer_is_firing(const struct hg_sched *s, const struct hg_timer_node *t,
                         const struct hg_proc *but);
/* Fires what is due on p, a bounded number (also called by thieves for another proc's heap);
 * returns when the next is due. The caller is a proc on its scheduler stack. */
int64_t hg__timers_run(struct hg_proc *p, int64_t now);
/* Driver. Before ROOTS: which timers' objects are alive is not certain any more. After OFF, before
 * RESET: takes timers that lie in dead objects out of the heaps, and gives memory of heaps back
 * that they do not need. */
void hg__timers_unsettle(struct hg_sched *s);
void hg__timers_forget_dead(struct hg_sched *s);
/* Timers that are armed now, deadlines of waiting tasks included. Any thread. */
uint64_t hg__timers_armed(struct hg_sched *s);
void hg__timers_init(struct hg_timers *h);
void hg__timers_fini(struct hg_timers *h, struct hg_meta *meta);

/* ---- reports (report.c) ---- */

/* A task that was waited for from outside the scheduler is in a queue by now: lowers its count
 * (s->outside_waits, s->regions), and reports a deadlock if nothing else stands against one. Any
 * thread; on a task's stack there is none, as its proc is not idle. */
void hg__outside_end(struct hg_sched *s, _Atomic uint32_t *count);

/* Every task, its state and where it waits, to standard error or the log hook (any thread; racy but
 * safe). */
void hg__task_dump(struct hg_sched *s);
/* Installs the reporter of stack overflows for the whole process: threads of schedulers that start
 * later get alternate signal stacks. Faults that are none go to the handler that was there before.
 * 0 or -errno. */
int hg__stack_report_install(void);

#endif
