/* test_ctx.c: the context switch: registers, floating point modes, values, migration between
 * stacks. */
#include "runtime/mut/mut.h"
#include <criterion/criterion.h>
#include <fenv.h>
#include <string.h>

static char here_stack[64 << 10] __attribute__((aligned(16)));
static char task_stack[64 << 10] __attribute__((aligned(16)));
static uintptr_t task_sp, main_sp;

static uintptr_t top(char *stack, size_t bytes)
{
    return ((uintptr_t)stack + bytes - 64) & ~(uintptr_t)15;
}

static void *add_one(void *a, void *b)
{
    cr_assert((char *)&a > here_stack && (char *)&a < here_stack + sizeof here_stack,
              "not on the other stack");
    return (void *)((uintptr_t)a + (uintptr_t)b);
}

Test(ctx, a_call_that_returns)
{
    uintptr_t sp = 0;
    void *v = hg__ctx_call(&sp, top(here_stack, sizeof here_stack), add_one, (void *)40, (void *)2);
    cr_assert_eq((uintptr_t)v, 42u);
    cr_assert_neq(sp, 0u);
}

/* The task: gets a value at each resume, gives back what it has summed. */
static void *to_main(void *a, void *b)
{
    (void)a;
    hg__ctx_resume(main_sp, b);
}

static void body(void *arg)
{
    uintptr_t sum = (uintptr_t)arg;
    double x = 1.5;
    for (;;) {
        void *got =
            hg__ctx_call(&task_sp, top(here_stack, sizeof here_stack), to_main, NULL, (void *)sum);
        sum += (uintptr_t)got;
        x *= 2;
        if (x > 1e300)
            x = 1.5;
    }
}

static void *to_task(void *a, void *b)
{
    (void)a;
    hg__ctx_resume(task_sp, b);
}

static uintptr_t resume_task(uintptr_t value)
{
    return (uintptr_t)hg__ctx_call(&main_sp, top(here_stack, sizeof here_stack), to_task, NULL,
                                   (void *)value);
}

Test(ctx, values_go_both_ways_and_registers_survive)
{
    task_sp = hg__ctx_init(top(task_stack, sizeof task_stack), body, (void *)1000);
    uintptr_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, sum = resume_task(0);
    cr_assert_eq(sum, 1000u);
    for (uintptr_t i = 1; i < 100000; i++) {
        sum += i;
        cr_assert_eq(resume_task(i), sum);
        a += b, b += c, c += d, d += e, e += f, f += i;
    }
    cr_assert_neq(a + b + c + d + e + f, 0u);
}

Test(ctx, the_rounding_mode_belongs_to_the_stack)
{
    task_sp = hg__ctx_init(top(task_stack, sizeof task_stack), body, NULL);
    resume_task(0);
    fesetround(FE_UPWARD);
    resume_task(1);
    cr_assert_eq(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    resume_task(1);
    cr_assert_eq(fegetround(), FE_TONEAREST);
}
