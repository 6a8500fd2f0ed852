/* report.c: what the scheduler says about its tasks: the dump, the deadlock report, the stack
 * overflow reporter.
 *
 * The dump reads control blocks beside their owners: they are never freed while the scheduler
 * lives, so it is safe, and what it says of a task that moves on meanwhile may be out of date or
 * mixed.
 *
 * The deadlock report must never be wrong. It is made under SCHED with every proc in the idle list:
 * nobody runs a task, steals, or fires a timer then, and nobody can be woken, as that takes SCHED
 * too. What could still make a task ready is looked for one by one: a queue, an armed timer, a
 * blocking region (counted until its task is in the queue), the collector and the pool for blocking
 * calls (outside_waits). A count that comes down after its task has run, and parked again, is the
 * last that stood against a report: so who lowers one to 0 looks as well (hg__outside_end). Only
 * hg_run programs ask for it: with other threads in the process, a post may come at any time.
 *
 * The overflow reporter is a handler for SIGSEGV and SIGBUS on an alternate stack, since the task's
 * own has no room left. A fault at the running task's guard, or between the guard and where a frame
 * of up to 1 MiB would have ended, is an overflow; every other one is handed to the handler that
 * was there before.
 */
#include "runtime/sched/internal.h"

#include <errno.h>
#include <signal.h>

/* ---- the dump ---- */

static const char *describe(const struct hg_tcb *t)
{
    switch (hg_load_acq(&t->state)) {
    case HG_TASK_RUNNABLE:
        return "runnable";
    case HG_TASK_RUNNING:
        return "running";
    case HG_TASK_WAITING:
        return t->why;
    case HG_TASK_REGION:
        return "in a blocking region";
    default:
        return NULL;
    }
}

/* At most `most` living tasks, a line each. */
static void list_tasks(struct hg_sched *s, uint64_t most)
{
    uint32_t n = hg_load_acq(&s->registered);
    uint64_t listed = 0;
    for (uint32_t i = 0; i < n && listed < most; i++) {
        const struct hg_tcb *t = hg__task_at(s, i);
        const char *what = describe(t);
        if (what == NULL)
            continue;
        hg__warn("task %lu%s%.31s: %s", (unsigned long)t->id, t->name[0] != 0 ? " " : "", t->name,
                 what);
        listed++;
    }
    uint64_t living = hg__sched_tasks(s);
    if (living > listed)
        hg__warn("and %lu more", (unsigned long)(living - listed));
}

void hg__task_dump(struct hg_sched *s)
{
    hg__warn("%lu tasks", (unsigned long)hg__sched_tasks(s));
    list_tasks(s, UINT64_MAX);
}

/* ---- deadlock ---- */

#define DEADLOCK_LISTED 100

static bool nothing_can_wake_locked(struct hg_sched *s)
{
    HG_ASSERT_HELD(&s->lock);
    if (hg_load_rlx(&s->idle_count) != (uint32_t)s->nprocs || s->global_head != NULL)
        return false;
    /* Before outside_waits (acquire): a task that is being posted, and is counted here, was counted
     * there first, and stays so until it is in the queue, for which the lock is needed. */
    if (hg__sched_tasks(s) == 0)
        return false;
    /* Acquire: a task that has left its region was queued before the count went down, and a queued
     * one is seen here. */
    if (hg_load_acq(&s->regions) != 0 || hg_load_acq(&s->outside_waits) != 0 ||
        hg_load_rlx(&s->stopping) != 0)
        return false;
    if (hg__net_waits(s) != 0) /* exact: each proc listed itself as idle after its last count */
        return false;
    for (int i = 0; i < s->nprocs; i++) {
        const struct hg_proc *p = s->procs[i];
        if (!hg__runq_empty(p) || hg_load_rlx(&p->timers.next) != INT64_MAX)
            return false;
    }
    return true;
}

void hg__deadlock_check(struct hg_sched *s)
{
    hg__lock(&s->lock);
    bool dead = nothing_can_wake_locked(s);
    hg__unlock(&s->lock);
    if (!dead)
        return;
    list_tasks(s, DEADLOCK_LISTED);
    hg__fatal("all tasks are asleep - deadlock");
}

void hg__outside_end(struct hg_sched *s, _Atomic uint32_t *count)
{
    /* seq_cst: a proc that goes idle lists itself and then looks at the counts, with such a fence
     * between; this lowers the count and then looks for idle procs. One of the two sees the
     * other. */
    if (hg_sub_sc(count, 1u) == 1 && hg_load_acq(&s->deadlock_report) != 0 &&
        hg_load_sc(&s->idle_count) == (uint32_t)s->nprocs)
        hg__deadlock_check(s);
}

/* ---- stack overflow ---- */

#define ALT_STACK_BYTES ((size_t)64 << 10)
#define LARGE_FRAME     ((uintptr_t)1 << 20)

static _Atomic uint32_t installed; /* process-wide, like the handlers; set once */
static struct sigaction before_segv, before_bus;

/* The running task of this thread, if `at` is where its stack would have grown to. */
static const struct hg_tcb *overflowed(uintptr_t at)
{
    const struct hg_mutator *m = hg__tls_mutator;
    const struct hg_tcb *t = m != NULL ? ((const struct hg_proc *)(const void *)m)->current : NULL;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0); /* on the alternate stack: no task's */
    if (t == NULL || (here >= t->stack.lo && here < t->stack.hi))
        return NULL;
    return at < t->stack.lo && t->stack.lo - at <= LARGE_FRAME ? t : NULL;
}

/* As if this handler had not been there. */
static void pass_on(const struct sigaction *before, int signal, siginfo_t *info, void *context)
{
    if (before->sa_flags & SA_SIGINFO) {
        before->sa_sigaction(signal, info, context);
    } else if (before->sa_handler == SIG_DFL || before->sa_handler == SIG_IGN) {
        sigaction(signal, before, NULL); /* the instruction faults again, and then as before */
    } else {
        before->sa_handler(signal);
    }
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    const struct hg_tcb *t = overflowed((uintptr_t)info->si_addr);
    if (t != NULL)
        hg__fatal("stack overflow in task %lu%s%.31s: its stack has %lu KiB", (unsigned long)t->id,
                  t->name[0] != 0 ? " " : "", t->name, (unsigned long)(hg__stack_bytes(t) >> 10));
    pass_on(signal == SIGSEGV ? &before_segv : &before_bus, signal, info, context);
}

int hg__stack_report_install(void)
{
    if (hg_xchg_acqrel(&installed, 1u) != 0)
        return 0;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGSEGV, &action, &before_segv) != 0 ||
        sigaction(SIGBUS, &action, &before_bus) != 0)
        return -errno;
    return 0;
}

void hg__stack_report_thread(struct hg_thread *th)
{
    if (hg_load_acq(&installed) == 0)
        return;
    th->alt_stack = hg__os_map(ALT_STACK_BYTES, hg__os_page_size());
    if (th->alt_stack == NULL)
        return; /* an overflow kills the process without a word */
    stack_t stack = {.ss_sp = th->alt_stack, .ss_size = ALT_STACK_BYTES};
    sigaltstack(&stack, NULL);
}

void hg__stack_report_thread_end(struct hg_thread *th)
{
    if (th->alt_stack == NULL)
        return;
    stack_t off = {.ss_flags = SS_DISABLE};
    sigaltstack(&off, NULL);
    hg__os_unmap(th->alt_stack, ALT_STACK_BYTES);
}
