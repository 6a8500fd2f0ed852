/* ctx.c: switching between a task's stack and the scheduler stack, with what the sanitizers must be
 * told.
 *
 * A slow path always begins at the top of its thread's scheduler stack, so nothing is kept there
 * between two calls: a task that is suspended has left it, and hg__schedule starts afresh.
 * AddressSanitizer learns of each switch through its fiber calls (the scheduler stack's fake frames
 * are dropped when it is left, as they are never returned to); ThreadSanitizer has a fiber per
 * task, made when the task first runs.
 */
#include "runtime/mut/mut.h"
#include "runtime/mut/sanitize.h"

extern void hg__ctx_entry(void);

uintptr_t hg__ctx_init(uintptr_t top, void (*entry)(void *), void *arg)
{
#if defined(__x86_64__)
    uintptr_t *frame = (uintptr_t *)((top & ~(uintptr_t)15) - 64);
    uint32_t mxcsr;
    uint16_t x87;
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(x87));
    frame[0] = mxcsr | (uintptr_t)x87 << 32;
    frame[1] = frame[2] = frame[5] = frame[6] = 0; /* r15, r14, rbx, rbp */
    frame[3] = (uintptr_t)entry;                   /* r13 */
    frame[4] = (uintptr_t)arg;                     /* r12 */
    frame[7] = (uintptr_t)hg__ctx_entry;
#elif defined(__aarch64__)
    uintptr_t *frame = (uintptr_t *)((top & ~(uintptr_t)15) - 176);
    for (unsigned i = 0; i < 22; i++)
        frame[i] = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(frame[0]));
    frame[10] = (uintptr_t)arg;   /* x19 */
    frame[11] = (uintptr_t)entry; /* x20 */
    frame[21] = (uintptr_t)hg__ctx_entry;
#else
#error "no context switch for this processor"
#endif
    return (uintptr_t)frame;
}

#if HG_ASAN || HG_TSAN

struct switched {
    struct hg_mutator *m;
    hg_ctx_fn fn;
    void *b;
};

/* On the scheduler stack, for one call. If fn returns, the task goes on where it was.
 * ThreadSanitizer must not see this function itself: it would be entered on one fiber and left on
 * the other. */
__attribute__((no_sanitize("thread"))) static void *call_annotated(void *arg, void *unused)
{
    struct switched call = *(struct switched *)arg;
    struct hg_stack *s = call.m->stack;
    (void)unused;
    hg__san_finish(NULL, NULL, NULL);
    void *value = call.fn(call.m, call.b);
    hg__san_start(NULL, s->lo, s->hi - s->lo, s->sanitizer);
    return value;
}

void *hg__on_scheduler_told(struct hg_mutator *m, hg_ctx_fn fn, void *b)
{
    struct hg_stack *s = m->stack;
    struct switched call = {m, fn, b};
    hg__san_start(&s->sanitizer, (uintptr_t)m->sched_stack_lo, m->sched_stack_bytes,
                  m->sched_fiber);
    void *value = hg__ctx_call(&s->sp, m->sched_sp, call_annotated, &call, NULL);
    hg__switch_done(hg__self(), s);
    return value;
}

_Noreturn void hg__resume_told(struct hg_mutator *m, struct hg_stack *s, void *value)
{
    (void)m;
#if HG_TSAN
    if (s->sanitizer == NULL)
        s->sanitizer = __tsan_create_fiber(0);
#endif
    hg__san_start(NULL, s->lo, s->hi - s->lo, s->sanitizer);
    hg__ctx_resume(s->sp, value);
}

void hg__switch_done(struct hg_mutator *m, struct hg_stack *s)
{
    (void)m;
    hg__san_finish(s->sanitizer, NULL, NULL);
}

#else

void hg__switch_done(struct hg_mutator *m, struct hg_stack *s)
{
    (void)m;
    (void)s;
}

#endif
