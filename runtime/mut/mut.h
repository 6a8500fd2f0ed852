/* mut.h: mutators: who may touch the heap, in which phase, colour and generation; how they are held
 * for a moment (handshake); what a store and an allocation do. The lowest layer of the runtime that
 * knows phases.
 *
 * The central invariant (docs/design/collector.md has the argument, tests/model the model):
 *   From a mutator's SCAN to its RESET ("black") every object it allocates is marked, every
 *   reference on the stack it runs is to an object that is marked or protected by the snapshot, and
 *   every store shades the old value.
 *
 * A mutator is RUNNING (may touch the heap, answers requests at its safepoints) or BLOCKED (its
 * stack is frozen and its registers spilled: the driver answers for it). The phase word changes
 * only between handshakes, by the driver, but for a weak read's step back to MARK.
 *
 * Layers: mut knows stacks and mutators, not tasks, procs or cycles; those reach it through
 * hg_hooks.
 */
#ifndef HG_RUNTIME_MUT_MUT_H
#define HG_RUNTIME_MUT_MUT_H
#include "alloc/alloc.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/os.h"
#include "runtime/mut/sanitize.h"
#include <hedge/histogram.h>
#include <hedge/task.h>

/* ---- phases and requests ---- */

enum hg_phase { HG_PHASE_OFF, HG_PHASE_ROOTS, HG_PHASE_MARK, HG_PHASE_WEAK_PENDING, HG_PHASE_WEAK };

/* Handshake callbacks. OFF: nobody shades any more; what was greyed after the last FLUSH is taken
 * back. HOLD is the verifier's: the mutator stays at its safepoint until it is let go. */
enum hg_request { HG_REQ_NOP, HG_REQ_SCAN, HG_REQ_FLUSH, HG_REQ_OFF, HG_REQ_RESET, HG_REQ_HOLD };

/* Reasons in a mutator's attention word. Each raiser sets and clears only its own bit. */
#define HG_ATTENTION_HANDSHAKE 1u /* driver raises; whoever answers clears */
/* monitor, or a SCAN that met a deep stack, raises; the proc clears */
#define HG_ATTENTION_YIELD 2u
#define HG_ATTENTION_SLICE 4u /* monitor raises: background work is overdue; the proc clears */

/* States of a mutator, in the low byte of its state word; above it the tick (decisions on handing
 * on: sched/proc.c). */
#define HG_MUT_RUNNING 0u /* owner: its OS thread */
/* owner: nobody; its thread may take it back, the driver may take it, the monitor hand it on */
#define HG_MUT_BLOCKED     1u
#define HG_MUT_TAKEN       2u /* owner: the driver, for one callback */
#define HG_MUT_STATE(word) ((word)&0xffu)
#define HG_MUT_TICK        0x100u

/* ---- stacks ---- */

/* A stack that may hold references: a task's. sp is valid while nobody runs on it: everything from
 * sp to hi is scanned.
 *
 * scan: cycle * 4 + state. A stack is scanned once a cycle, by whoever claims it: a worker, its
 * taker at switch-in, or the SCAN callback of the mutator that runs it. While claimed nobody may
 * run on it. */
#define HG_SCAN_CLAIMED 1u
#define HG_SCAN_DONE    2u
#define HG_SCAN_PARTLY  3u /* [scan_at, hi) is left; may be claimed again */
struct hg_stack {
    uintptr_t sp;     /* owner: the mutator that switches away; readers: who claimed the scan */
    uintptr_t lo, hi; /* constant while the stack is in use; hi: past the control block */
    _Atomic uint32_t scan; /* writers: who claims (cas acq_rel) and ends a scan (release) */
    uintptr_t scan_at;     /* the claimer's */
    hg_task_times times;   /* writer: the mutator that runs it, or that takes it from a queue */
    void *sanitizer;       /* AddressSanitizer's fake stack while switched out; ThreadSanitizer's
                            * fiber */
};

/* ---- grey objects ---- */

#define HG_GREY_ENTRIES 510
/* A buffer of grey references. An entry is an object's start, or the start of a chunk of a large
 * object. */
struct hg_grey {
    struct hg_grey *next;
    uint32_t n;
    uint32_t spare;
    uintptr_t entry[HG_GREY_ENTRIES];
};

/* The shared queue (mut/grey.c). */
struct hg_grey_queue {
    struct hg_lock lock; /* GREY: guards full and empty */
    struct hg_grey *full, *empty;
    _Atomic uint32_t full_count; /* writers: under lock; readers: anyone, a hint */
    _Atomic uint32_t workers;    /* threads that hold work taken from here, or scan a stack;
                                  * seq_cst */
    _Atomic uint64_t activity;   /* bumped by every take, publication and stack claim; seq_cst:
                                  * see gc/term.c */
};

/* ---- mutators ---- */

struct hg_layout_cache {
    const hg_layout *layout;
    uint16_t id;
};
#define HG_LAYOUT_CACHE 64

struct hg_world;

struct hg_mutator {
    /* First: hg_safepoint_in reads it. Writers: raisers (or, seq_cst) and whoever answers (and);
     * reader: the owner. */
    _Atomic uint32_t attention;
    uint32_t id;
    /* Writers: owner (leaves and enters BLOCKED), driver (takes), monitor (hands on);
     * compare-and-swap, seq_cst. */
    _Atomic uint32_t state;
    _Atomic uint32_t state_waiters; /* the owner sleeps on `state` while it is TAKEN */
    _Atomic uint32_t stamp;         /* epoch of the last request answered; writer: who answers;
                                     * reader: driver */

    /* The owner's, or the driver's while TAKEN. */
    bool black;   /* past SCAN, before RESET */
    bool dirty;   /* shaded something since the last FLUSH */
    uint32_t gen; /* sweep generation it allocates in; set by RESET */
    struct hg_world *world;
    struct hg_stack *stack; /* what it runs; NULL: the scheduler stack only, no reference
                             * anywhere */
    uintptr_t sched_sp;     /* top of its thread's scheduler stack: slow paths begin here */
    struct hg_grey *grey;   /* its grey objects, not yet published; never NULL once marking began */
    struct hg_cache cache;
    struct hg_layout_cache layouts[HG_LAYOUT_CACHE];
    bool kept;           /* HOLD: the driver keeps it TAKEN; MUTATORS */
    struct hg_list link; /* world->mutators; MUTATORS */

    /* The collector's accounts for this mutator (gc/). Owner writes; sums read relaxed. */
    int64_t pending_alloc; /* bytes allocated and not yet told to the collector */
    /* Of this cycle, from SCAN on: scan bytes owed, and those that background work here has done
     * ahead of debt. */
    int64_t debt, credit;
    _Atomic int64_t next_slice_at; /* when background work is due here; writer: owner; reader:
                                    * monitor */
    double sweep_owed;             /* pages to sweep for what was allocated */
    int32_t stress_left;
    void *sched_stack_lo; /* bounds of the scheduler stack, for sanitizers */
    size_t sched_stack_bytes;
    void *sched_fiber; /* ThreadSanitizer's, of the thread */

    /* Statistics. Writer: the owner, or the driver while TAKEN; readers sum them without stopping
     * anyone. */
    struct hg_mut_stats {
        _Atomic uint64_t alloc_bytes, alloc_slots;
        _Atomic int64_t background_ns, idle_ns, assist_ns, sweep_ns, scan_ns;
        _Atomic uint64_t assists, assist_waits;
        _Atomic int64_t longest_assist_ns;
        _Atomic int64_t scanned_heap, scanned_stack, marked_bytes; /* of all cycles */
        hg_histogram *hold, *assist, *runq;
    } stats;
};

/* How upper layers are reached. All cold; set before the first mutator exists; never NULL. */
struct hg_hooks {
    /* SCAN: scans the stack that m runs, and opens its accounts of the cycle. `own`: m itself
     * calls, on its scheduler stack, else the driver for a BLOCKED m. */
    void (*scan)(struct hg_mutator *m, bool own);
    /* An allocation slow path is about to hand out `bytes` more; on the scheduler stack. May start
     * a cycle, mark, sweep. May park the task: then it does not return, and the task's allocation
     * begins again. */
    void (*allocated)(struct hg_mutator *m, size_t bytes);
    /* Called after `allocated`: whether the hard limit forbids the heap `size` bytes more. */
    bool (*refuse)(struct hg_mutator *m, size_t size);
    /* No memory for `size` bytes; on the task's own stack. False: give up; else it has made room,
     * perhaps after parking the task until a cycle has ended, and the allocation begins again.
     * *tries: 0 the first time in an allocation, then the hook's own. */
    bool (*no_memory)(struct hg_mutator *m, size_t size, unsigned *tries, bool may_fail);
    /* Attention reasons other than handshakes, at a safepoint of a task, on the scheduler stack. */
    void (*attention)(struct hg_mutator *m, uint32_t reasons);
    /* m has kept a handshake waiting for `ns`; from the driver, which holds no lock. For
     * reports. */
    void (*late)(struct hg_mutator *m, int64_t ns);
};

/* One per runtime: what all its mutators share. Part of struct hg_runtime. */
struct hg_world {
    struct hg_heap *heap;
    struct hg_layouts *layouts;
    struct hg_meta *meta;
    struct hg_hooks hooks;
    void *collector; /* the upper layer's, for its hooks; constant */

    struct hg_lock lock; /* MUTATORS: list, count, births, deaths, and the request while
                          * it is made */
    struct hg_list mutators;
    uint32_t count;
    uint32_t next_id;

    _Atomic uint32_t phase;      /* enum hg_phase. Writer: driver; weak reads step back to MARK
                                  * (cas) */
    _Atomic uint32_t cycle;      /* number of the cycle, bumped at ROOTS; scan words compare with
                                  * it */
    _Atomic uint32_t request;    /* enum hg_request; writer: driver, before epoch */
    _Atomic uint32_t epoch;      /* writer: driver (seq_cst); readers: safepoints */
    _Atomic uint32_t unanswered; /* mutators that have not answered; the driver sleeps on it */
    _Atomic uint32_t dirty;      /* in a FLUSH: an answer was dirty */
    _Atomic uint32_t hold;       /* HOLD: its epoch until the mutators may go on, else 0; they
                                  * sleep on it */
    bool black_between;          /* past a SCAN request, before RESET: colour of births; MUTATORS */
    /* Sweep generation of births, and after RESET. Written under MUTATORS by the driver before the
     * epoch, read by who answers it. */
    uint32_t birth_gen;
    _Atomic uint32_t given_up; /* the runtime closes: nobody waits for an answer any more */
    _Atomic int64_t asked_at;  /* when the handshake that is under way began; 0: none */

    struct hg_grey_queue grey;
    hg_histogram *handshakes; /* driver writes */
    int64_t late_ns; /* driver only: of all handshakes, what they took beyond HG_LAGGARD_NS */
    _Atomic uint64_t handshake_count;
};

/* ---- the current mutator ---- */

/* The only thread-local of the library: set by the thread that runs the mutator. Read through
 * hg__self wherever a switch of stacks may lie between two reads: compilers cache the address of
 * thread-locals over calls. */
extern _Thread_local struct hg_mutator *hg__tls_mutator __attribute__((tls_model("initial-exec")));
struct hg_mutator *hg__self(void); /* noinline; NULL outside of mutators */
void hg__self_set(struct hg_mutator *m);

/* ---- context switch (ctx_*.S, ctx.c) ---- */

typedef void *(*hg_ctx_fn)(void *a, void *b);
/* Spills callee-saved registers onto the current stack, stores the stack pointer to *sp, switches
 * to `to` and calls fn(a, b) there. If fn returns, so does this, with its value, and the old stack
 * goes on. If fn never returns, whoever calls hg__ctx_resume(*sp, value) makes this return `value`,
 * perhaps on another OS thread. */
void *hg__ctx_call(uintptr_t *sp, uintptr_t to, hg_ctx_fn fn, void *a, void *b);
_Noreturn void hg__ctx_resume(uintptr_t sp, void *value);
/* Lays out a fresh stack below `top` so that resuming its sp calls entry(arg) with a terminated
 * frame chain. Returns the sp. entry must not return. */
uintptr_t hg__ctx_init(uintptr_t top, void (*entry)(void *), void *arg);

/* Runs fn(m, b) on m's scheduler stack on behalf of the running task (the sanitizers are told).
 * Requires m == hg__self(). fn may park the task: then it does not return here and hg__resume makes
 * the call return. After it the current mutator may be another one. */
static inline void *hg__on_scheduler(struct hg_mutator *m, hg_ctx_fn fn, void *b);
/* From the scheduler stack: runs a suspended stack. m->stack is set. Does not return. */
_Noreturn static inline void hg__resume(struct hg_mutator *m, struct hg_stack *s, void *value);
/* On a fresh or resumed stack under AddressSanitizer: ends the switch. Called by hg__on_scheduler
 * and entry functions. */
void hg__switch_done(struct hg_mutator *m, struct hg_stack *s);

/* Under a sanitizer, which must be told. */
void *hg__on_scheduler_told(struct hg_mutator *m, hg_ctx_fn fn, void *b);
_Noreturn void hg__resume_told(struct hg_mutator *m, struct hg_stack *s, void *value);

/* Inline, as they are part of every switch. */
static inline void *hg__on_scheduler(struct hg_mutator *m, hg_ctx_fn fn, void *b)
{
#if HG_ASAN || HG_TSAN
    return hg__on_scheduler_told(m, fn, b);
#else
    return hg__ctx_call(&m->stack->sp, m->sched_sp, fn, m, b);
#endif
}
_Noreturn static inline void hg__resume(struct hg_mutator *m, struct hg_stack *s, void *value)
{
#if HG_ASAN || HG_TSAN
    hg__resume_told(m, s, value);
#else
    (void)m;
    hg__ctx_resume(s->sp, value);
#endif
}

/* fn(m, b) on a stack with room for what C libraries need: the scheduler's when m, the current
 * mutator, runs a task; else the one we are on. fn does not park the task, so m is still current
 * afterwards. */
static inline void *hg__on_deep_stack(struct hg_mutator *m, hg_ctx_fn fn, void *b)
{
    return m != NULL && m->stack != NULL ? hg__on_scheduler(m, fn, b) : fn(m, b);
}

/* ---- life of mutators (mutator.c) ---- */

/* 0 or -ENOMEM: hg__world_fini is called either way. */
int hg__world_init(struct hg_world *w, struct hg_heap *heap, struct hg_layouts *layouts,
                   struct hg_meta *meta);
void hg__world_fini(struct hg_world *w);
/* A new mutator, BLOCKED, born as if it had answered the request of now. -ENOMEM. */
int hg__mutator_init(struct hg_mutator *m, struct hg_world *w);
/* Gives back spans and grey objects, leaves the list. Requires: the driver has ended, so nothing is
 * asked. */
void hg__mutator_fini(struct hg_mutator *m);

/* RUNNING to BLOCKED: afterwards m's stack and registers are frozen (sp saved by the caller). Looks
 * at the attention word again afterwards, and answers a request that was raised meanwhile itself.
 * Returns the state word. */
uint32_t hg__mutator_block(struct hg_mutator *m);
/* BLOCKED to RUNNING, waiting while the driver has it. `word`: what hg__mutator_block returned.
 * False: it was handed on (its tick has moved) and is no longer the caller's. True: RUNNING, and
 * the caller polls next. */
bool hg__mutator_unblock(struct hg_mutator *m, uint32_t word);
/* Monitor: hands a BLOCKED mutator on: tick + 1. False: it left BLOCKED, or is taken. */
bool hg__mutator_hand_on(struct hg_mutator *m, uint32_t word);

/* ---- handshake (handshake.c) ---- */

/* A handshake that has taken this long waits for a laggard. */
#define HG_LAGGARD_NS INT64_C(1000000)

/* Driver only: every mutator runs the callback once; the driver runs it for those that are BLOCKED,
 * and sleeps until the last of the others has answered. False: it was given up. RESET opens the new
 * sweep generation before anyone is asked. HOLD returns with every mutator held. */
bool hg__handshake(struct hg_world *w, enum hg_request request);
/* Any thread, when the runtime closes: handshakes are given up from now on. One that waits returns
 * false, and so does every later one, at once. */
void hg__handshake_give_up(struct hg_world *w);
/* Driver only, after HOLD: lets them go. */
void hg__handshake_release(struct hg_world *w);
/* Answers outstanding requests. On the scheduler stack (or any stack that is not a task's), m
 * RUNNING and current. */
void hg__poll_slow(struct hg_mutator *m);
static inline void hg__poll(struct hg_mutator *m)
{
    if (hg_unlikely(hg_load_acq(&m->attention) & HG_ATTENTION_HANDSHAKE))
        hg__poll_slow(m);
}
/* After taking a task from a queue. A request's attention bits are raised one after the other, so
 * the bit alone may be late: whoever queued the task may have answered a request, and counted the
 * task as scanned, whose bit is not up here yet. Its epoch is visible, by the acquire of the
 * taking; so the epoch decides (tests/model, POLL_BIT). */
static inline __attribute__((always_inline)) void hg__poll_taken(struct hg_mutator *m)
{
    if (hg_unlikely(hg_load_acq(&m->world->epoch) != hg_load_rlx(&m->stamp)))
        hg__poll_slow(m);
}
/* A safepoint on a task's stack: goes to the scheduler stack when anything asks for attention. */
void hg__safepoint_slow(struct hg_mutator *m);

/* ---- grey objects (grey.c) ---- */

void hg__grey_init(struct hg_grey_queue *q);
void hg__grey_push_slow(struct hg_mutator *m, uintptr_t entry); /* any stack */
static inline void hg__grey_push(struct hg_mutator *m, uintptr_t entry)
{
    struct hg_grey *g = m->grey;
    if (hg_likely(g->n < HG_GREY_ENTRIES))
        g->entry[g->n++] = entry;
    else
        hg__grey_push_slow(m, entry);
}
/* Publishes m's buffer if it holds anything. Not on a task's stack. True: it did. */
bool hg__grey_publish(struct hg_mutator *m);
/* OFF: empties m's buffer, and the shared queue, and unmarks what was in them: greyed after the
 * last FLUSH, so by an ambiguous word, and reachable by nobody. */
void hg__grey_take_back(struct hg_mutator *m);
void hg__grey_take_back_shared(struct hg_world *w);
/* A full buffer from the shared queue, or NULL. The caller is counted in `workers` and has bumped
 * activity. */
struct hg_grey *hg__grey_take(struct hg_world *w);
struct hg_grey *hg__grey_empty(struct hg_world *w); /* an empty buffer; fatal when out of memory */
struct hg_grey *hg__grey_try_empty(struct hg_world *w); /* NULL when out of memory */
/* back: full if it holds anything, else empty */
void hg__grey_give(struct hg_world *w, struct hg_grey *g);
/* Frees empty buffers beyond a few; all buffers. */
void hg__grey_trim(struct hg_world *w);
void hg__grey_fini(struct hg_world *w);

/* ---- barrier (barrier.c) ---- */

/* Marks and greys what `ref` points into, if that is an allocated object: for words that may be
 * anything. m is the current mutator, or taken by the driver. */
void hg__shade(struct hg_mutator *m, uintptr_t ref);
/* Whether what `word` points into is not marked. Once every mutator has answered OFF, and until one
 * answers RESET: whether it is dead. */
bool hg__is_unmarked(const struct hg_world *w, uintptr_t word);
/* Shades each of n words: a value that moves between stacks. Nothing in OFF. No safepoint. */
void hg__shade_words(struct hg_mutator *m, const void *words, size_t n);
/* Barriered copy of a value of `bytes` bytes into memory outside of the caller's own stack: word by
 * word. `refs`: the value may hold references, and bytes is a multiple of 8. */
void hg__store_value(struct hg_mutator *m, void *dst, const void *src, size_t bytes, bool refs);
static inline enum hg_phase hg__phase(const struct hg_world *w)
{
    return (enum hg_phase)hg_load_acq(&w->phase);
}
/* Whether stores and hand-overs shade: from ROOTS to WEAK_PENDING. In WEAK everything reachable is
 * marked. */
static inline bool hg__shades(enum hg_phase phase)
{
    return phase != HG_PHASE_OFF && phase != HG_PHASE_WEAK;
}

/* ---- allocation (alloc.c) ---- */

/* hg_alloc for the runtime's own heap objects (channels, handles), on a task. NULL only when
 * may_fail. */
void *hg__alloc(struct hg_mutator *m, size_t size, const hg_layout *layout, bool may_fail);
/* Tells the statistics what the cache has handed out since the last call; returns the bytes. */
int64_t hg__alloc_account(struct hg_mutator *m);

/* Adds to a hold statistic: the collector held m for `ns` in one piece. */
static inline void hg__hold(struct hg_mutator *m, int64_t ns)
{
    hg_histogram_add(m->stats.hold, ns);
}

#endif
