/* region.c: blocking regions: a task blocks its OS thread in the kernel, and its proc goes to other
 * tasks.
 *
 * hg_block_enter saves the registers that the caller's frames may have left references in to the
 * control block. Then the mutator is BLOCKED. What the collector looks at: these registers, and the
 * stack from the pointer up that was saved on the way. That is a little below the caller's frame,
 * so it includes words that the region's own calls overwrite meanwhile; they hold no reference that
 * is not also in the registers or above, as the region does not touch the heap. The thread goes on
 * in the task's own code, without being a mutator: a call into the runtime finds no current
 * mutator, and says so.
 *
 * If the region is short its thread takes the mutator back in hg_block_leave. If the monitor was
 * faster (hg__region_hand_on), the proc runs on another thread; this one has only the task. It
 * leaves the task's stack, queues the task, and joins the idle threads. The task is then run like
 * any other, with the scan at switch-in that this takes.
 *
 * Races on a proc in a region: thread (BLOCKED to RUNNING), driver (BLOCKED to TAKEN and back,
 * under MUTATORS), monitor (tick + 1, under MUTATORS and SCHED). MUTATORS, so that the driver never
 * finds a handed-on mutator that still names the task's stack as its own. SCHED, so that the proc
 * cannot leave its region and go idle (which takes SCHED) between the look at `region` and the
 * swap: an idle proc is BLOCKED too, but not to be handed on.
 *
 * Races on the task's state: thread (REGION to RUNNING) and hg__sched_stop (REGION to FREE: given
 * up), by compare-and-swap. A marker that claims the stack at the moment when it is left reads
 * either stack pointer: what lies between the two holds no other reference, either.
 */
#include "runtime/sched/internal.h"

#include <string.h>
#include <unistd.h>

/* The task whose region this thread is in; no other state leads there, as the thread runs no proc
 * meanwhile. */
static _Thread_local struct hg_tcb *region_task __attribute__((tls_model("initial-exec")));

/* Not inlined, like hg__self: no address of a thread-local is kept over a switch to another
 * thread. */
__attribute__((noinline)) static struct hg_tcb *exchange_region(struct hg_tcb *t)
{
    struct hg_tcb *old = region_task;
    region_task = t;
    __asm__ volatile("" ::: "memory");
    return old;
}

/* ---- entering ---- */

/* On the scheduler stack: BLOCKED from the middle of this on. */
static void *enter_on_scheduler(void *m, void *unused)
{
    struct hg_proc *p = hg__proc_of(m);
    struct hg_tcb *t = p->current;
    (void)unused;
    if (p->sched->check) /* the collector cannot do it, as it does for stacks that nobody runs on */
        hg__stack_clear(t, t->stack.sp);
    hg_add_acqrel(&p->sched->regions, 1u);
    t->thread = p->thread;
    t->proc = p;
    hg_store_rel(&t->state, HG_TASK_REGION);
    hg_store_rel(&p->region, t);
    hg__tell(p); /* H1 in ready.c */
    /* Tasks in the ring would wait for the monitor to look this way. */
    if (!hg__runq_empty(p))
        hg__monitor_poke(p->sched, HG_MONITOR_NAPS);
    t->region_word = hg__mutator_block(m);
    return NULL;
}

/* From hg_block_enter below, on the task's stack. */
__attribute__((used, visibility("hidden"))) void hg__region_enter(const uintptr_t *regs)
{
    struct hg_mutator *m = hg__task_mutator();
    HG_CHECK(m != NULL, "hg_block_enter: not on a task, or in a blocking region already");
    hg_safepoint();
    m = hg__self();
    struct hg_tcb *t = hg__proc_of(m)->current;
    memcpy(t->region_regs, regs, sizeof t->region_regs);
    hg__on_scheduler(m, enter_on_scheduler, NULL);
    hg__self_set(NULL);
    exchange_region(t);
}

/* hg_block_enter: hands over its caller's callee-saved registers as they are. In assembly, since a
 * C function may have put them elsewhere by the time it could look. */
#if defined(__x86_64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".globl hg_block_enter\n"
        ".type hg_block_enter, @function\n"
        "hg_block_enter:\n"
        "    .cfi_startproc\n"
        "    subq $56, %rsp\n"
        "    .cfi_adjust_cfa_offset 56\n"
        "    movq %rbx, (%rsp)\n"
        "    movq %rbp, 8(%rsp)\n"
        "    movq %r12, 16(%rsp)\n"
        "    movq %r13, 24(%rsp)\n"
        "    movq %r14, 32(%rsp)\n"
        "    movq %r15, 40(%rsp)\n"
        "    movq %rsp, %rdi\n"
        "    call hg__region_enter\n"
        "    addq $56, %rsp\n"
        "    .cfi_adjust_cfa_offset -56\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size hg_block_enter, . - hg_block_enter\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".globl hg_block_enter\n"
        ".type hg_block_enter, %function\n"
        "hg_block_enter:\n"
        "    .cfi_startproc\n"
        "    stp x29, x30, [sp, #-160]!\n"
        "    .cfi_def_cfa_offset 160\n"
        "    .cfi_offset 29, -160\n"
        "    .cfi_offset 30, -152\n"
        "    mov x29, sp\n"
        "    stp x19, x20, [sp, #16]\n"
        "    stp x21, x22, [sp, #32]\n"
        "    stp x23, x24, [sp, #48]\n"
        "    stp x25, x26, [sp, #64]\n"
        "    stp x27, x28, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x0, sp\n"
        "    bl hg__region_enter\n"
        "    ldp x29, x30, [sp], #160\n"
        "    .cfi_restore 30\n"
        "    .cfi_restore 29\n"
        "    .cfi_def_cfa_offset 0\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size hg_block_enter, . - hg_block_enter\n");
#endif

/* ---- leaving ---- */

/* On the thread's scheduler stack, without a proc: the task's registers are saved, others may have
 * it. */
static void *queue_and_idle(void *a, void *b)
{
    struct hg_thread *th = a;
    struct hg_tcb *t = b;
    struct hg_sched *s = th->sched;
#if HG_ASAN || HG_TSAN
    hg__san_finish(NULL, NULL, NULL);
#endif
    if (s->track_waits)
        hg__track_ready(t, NULL);
    hg_store_rel(&t->state, HG_TASK_RUNNABLE);
    hg__global_put(s, t, t, 1);
    hg__wake_for_work(s);
    hg__outside_end(s, &s->regions); /* after it is queued: see hg__deadlock_check */
    hg__thread_idle(th);
}

static void leave_without_proc(struct hg_tcb *t)
{
    struct hg_thread *th = t->thread;
#if HG_ASAN || HG_TSAN
    hg__san_start(&t->stack.sanitizer, (uintptr_t)th->stack_lo, th->stack_bytes, th->sched_fiber);
#endif
    hg__ctx_call(&t->stack.sp, th->sched_sp, queue_and_idle, th, t);
    hg__switch_done(hg__self(), &t->stack);
}

static void *yield_unscanned(void *m, void *b)
{
    (void)b;
    hg__yield_from_scheduler(hg__proc_of(m));
}

/* The mutator is taken back. A SCAN that came meanwhile may have left a deep stack for later: then
 * it is scanned as at any switch-in. */
static void leave_with_proc(struct hg_mutator *m, struct hg_tcb *t)
{
    struct hg_proc *p = hg__proc_of(m);
    hg_store_rel(&p->region, NULL);
    hg__self_set(m);
    hg_sub_acqrel(&p->sched->regions, 1u);
    if (m->black && hg_load_acq(&t->stack.scan) != hg_load_rlx(&m->world->cycle) * 4 + HG_SCAN_DONE)
        hg__on_scheduler(m, yield_unscanned, NULL);
    hg_safepoint();
}

HG_API void hg_block_leave(void)
{
    struct hg_tcb *t = exchange_region(NULL);
    HG_CHECK(t != NULL, "hg_block_leave: not in a blocking region");
    uint16_t inside = HG_TASK_REGION;
    if (!hg_cas_acqrel(&t->state, &inside, HG_TASK_RUNNING)) {
        for (;;) /* given up by hg__sched_stop: nothing is left to go back to */
            pause();
    }
    struct hg_mutator *m = &t->proc->mut;
    if (hg__mutator_unblock(m, t->region_word))
        leave_with_proc(m, t);
    else
        leave_without_proc(t);
    memset(t->region_regs, 0, sizeof t->region_regs);
}

/* ---- the monitor and the end ---- */

bool hg__region_hand_on(struct hg_proc *p)
{
    struct hg_sched *s = p->sched;
    struct hg_mutator *m = &p->mut;
    struct hg_thread *th = NULL;
    hg__lock(&s->world->lock);
    hg__lock(&s->lock);
    uint32_t word = hg_load_sc(&m->state);
    if (s->idle_threads != NULL && hg_load_acq(&p->region) != NULL &&
        HG_MUT_STATE(word) == HG_MUT_BLOCKED && hg__mutator_hand_on(m, word)) {
        th = s->idle_threads;
        s->idle_threads = th->next;
        s->idle_thread_count--;
        hg_store_rel(&p->region, NULL);
        p->current = NULL;
        m->stack = NULL;
        p->thread = th;
        th->proc = p;
        hg_store_rel(&th->wake, 1u);
    }
    hg__unlock(&s->lock);
    hg__unlock(&s->world->lock);
    if (th != NULL)
        hg__os_wake(&th->wake, 1);
    return th != NULL;
}

bool hg__region_abandon(struct hg_tcb *t)
{
    uint16_t inside = HG_TASK_REGION;
    if (!hg_cas_acqrel(&t->state, &inside, HG_TASK_FREE))
        return false;
    hg_sub_acqrel(&t->sched->regions, 1u);
    return true;
}
