/* task.h: tasks (green threads). Tasks run on procs, move between OS threads, and are roots until
 * they end.
 *
 * Thread-local variables must not be cached over a call marked W or S: the task may go on on
 * another thread.
 */
#ifndef HEDGE_TASK_H
#define HEDGE_TASK_H
#include <hedge/group.h>
#include <hedge/heap.h>

HG_BEGIN_DECLS

typedef struct hg_task hg_task; /* a handle: a heap object, nothing to free */

typedef struct hg_task_attr {
    size_t size;        /* sizeof(hg_task_attr) */
    const char *name;   /* copied, up to 31 characters; NULL: none */
    size_t stack_bytes; /* 0: the runtime's default; else rounded up, 16 KiB to 8 MiB */
    size_t copy_bytes;  /* not 0: `arg` points to this many bytes (at most 1,024), copied onto the
                         * new stack */
    hg_group *group;    /* it becomes a member (group.h), which may wait, and fail like
                         * hg_group_go; NULL: of none */
} hg_task_attr;

/* A task inherits its creator's ambient deadline; its cancellation only through a group. */

/* Starts fn(arg) as a detached task. No heap allocation. -EAGAIN: no stack; -EPERM: not on a
 * task. */
HG_API HG_MUST int hg_go(void (*fn)(void *), void *arg);
/* The same with `bytes` (at most 1,024) bytes of args copied onto the new stack; fn gets their
 * address there. */
HG_API HG_MUST int hg_go_copy(void (*fn)(void *), const void *args, size_t bytes);
/* S: with attributes (NULL: none) and a handle to join (out NULL: detached). The handle is a heap
 * object. W if attr->group is set. */
HG_API HG_MUST int hg_go_with(const hg_task_attr *attr, int (*fn)(void *), void *arg,
                              hg_task **out);
/* S W: waits until t ends; *result (may be NULL) is what its function returned. Any number of tasks
 * may join. -ETIMEDOUT, -ECANCELED, -EAGAIN; -EDEADLK: t is the caller. */
HG_API int hg_join(hg_task *t, int64_t deadline, int *result);

/* Ends the calling task from any depth of calls: runs what is deferred, newest first, and leaves
 * its frames as they are. hg_join gets `result`. Fatal outside of tasks. */
HG_API void hg_task_exit(int result) __attribute__((noreturn));

/* Something to be done when a frame is left; lies in that frame. */
typedef struct hg_defer_node {
    uintptr_t w[3];
} hg_defer_node;
/* Defers fn(arg) until hg_defer_run(d), which must come before d goes away, or hg_task_exit.
 * A deferred function runs shielded, and may wait. Its argument may be a reference if d lies in
 * a frame. A task that returns from its function with something deferred runs that too if it lies
 * elsewhere; what lies in its frames is gone by then, which is fatal where it is noticed. */
HG_API void hg_defer(hg_defer_node *d, void (*fn)(void *), void *arg);
/* S W: runs what d defers, and removes it. Fatal: d is not the newest that is deferred. */
HG_API void hg_defer_run(hg_defer_node *d);

/* ---- cancellation ----
 *
 * A task is cancelled for good, by hg_cancel, with its group, or when its runtime shuts down. From
 * then on every call marked W that would have to wait returns -ECANCELED instead, also one that
 * waits at that moment. What can be done without waiting is still done. hg_mutex_lock, hg_collect
 * and hg_yield have no error to return and are not ended. */

/* any: cancels t, and the groups that it has started members of. Nothing if t has ended. */
HG_API void hg_cancel(hg_task *t);
/* Whether the calling task is cancelled and not shielded, for loops that compute. */
HG_API bool hg_cancelled(void);
/* For cleanup: while shielded, neither cancellation nor the ambient deadline ends the calling
 * task's waits; explicit deadlines do. Returns what it was, to be set again: it does not nest by
 * itself. */
HG_API bool hg_shield(bool on);

/* Ambient deadline: all waits of the calling task end at it at the latest, with -ETIMEDOUT, and
 * those of tasks that it starts from now on. The earlier of this one and the one that holds counts.
 * Returns the latter, for hg_deadline_pop. Outside of tasks nothing happens. */
HG_API int64_t hg_deadline_push(int64_t deadline);
HG_API void hg_deadline_pop(int64_t saved);

/* S W: lets other tasks run. */
HG_API void hg_yield(void);
/* S W: sleeps for ns nanoseconds (0 or less: a yield). 0; -ECANCELED; -ETIMEDOUT: the ambient
 * deadline came first. */
HG_API int hg_sleep(int64_t ns);
/* S W: sleeps until a time on CLOCK_MONOTONIC. The same results. */
HG_API int hg_sleep_until(int64_t deadline);

/* S W: for loops that neither allocate nor wait: about every 10 us of work. */
HG_API void hg_safepoint(void);

/* S: around a call that may block the OS thread for long. Inside, no heap access and no other hg_
 * call. Keep the region to one call of a function: the caller's frame is scanned as it was on
 * entry, so no reference may move in it. The proc goes to other tasks after about 20 us. */
HG_API void hg_block_enter(void);
/* S W */
HG_API void hg_block_leave(void);

/* Id of the calling task (from 1; never reused); 0 outside of tasks. */
HG_API uint64_t hg_task_id(void);
/* Bounds of the calling task's stack. -EPERM: not on a task. */
HG_API int hg_stack_bounds(void **lo, void **hi);

/* Where a task's time went since it began, in nanoseconds (elapsed time of its proc). */
typedef struct hg_task_times {
    int64_t runq_ns;   /* runnable, waiting for a proc (only with options.track_waits) */
    int64_t mark_ns;   /* of its waits for a proc: marking slices that the proc ran meanwhile */
    int64_t slice_ns;  /* marking slices at this task's own safepoints */
    int64_t assist_ns; /* mark assist */
    int64_t sweep_ns;  /* sweeping done by its allocations */
    int64_t hold_ns;   /* handshake callbacks and scans of its own stack */
} hg_task_times;
/* The calling task's times; all 0 outside of tasks. */
HG_API void hg_task_times_read(hg_task_times *out);

HG_END_DECLS
#endif
