/* test_sched_runq.c: the ring of a proc, its runnext slot, stealing, and the global queue, without
 * a running scheduler: every task comes out exactly once, and in the order that was promised. */
#include "runtime/sched/internal.h"
#include "tests/support/test.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(sched_runq, .timeout = 60);

#define PROCS 4

static struct hg_sched sched;
static struct hg_proc *procs[PROCS];
static struct hg_tcb *tasks;

static void make(uint32_t ntasks)
{
    sched = (struct hg_sched){.nprocs = PROCS, .procs = procs};
    hg__lock_init(&sched.lock, HG_RANK_SCHED);
    for (int i = 0; i < PROCS; i++) {
        procs[i] = calloc(1, sizeof *procs[i]);
        procs[i]->sched = &sched;
    }
    tasks = calloc(ntasks, sizeof *tasks);
    for (uint32_t i = 0; i < ntasks; i++)
        tasks[i].slot = i;
}

static uint32_t get(struct hg_proc *p)
{
    bool inherit;
    struct hg_tcb *t = hg__runq_get(p, &inherit);
    return t != NULL ? t->slot : UINT32_MAX;
}

Test(sched_runq, first_in_first_out)
{
    make(10);
    cr_assert_eq(get(procs[0]), UINT32_MAX);
    cr_assert(hg__runq_empty(procs[0]));
    for (uint32_t i = 0; i < 10; i++)
        hg__runq_put(procs[0], &tasks[i], false);
    cr_assert_not(hg__runq_empty(procs[0]));
    for (uint32_t i = 0; i < 10; i++)
        cr_assert_eq(get(procs[0]), i);
    cr_assert_eq(get(procs[0]), UINT32_MAX);
}

Test(sched_runq, runnext_first_and_displaced_to_the_end)
{
    bool inherit = false;
    make(4);
    hg__runq_put(procs[0], &tasks[0], false);
    hg__runq_put(procs[0], &tasks[1], true);
    hg__runq_put(procs[0], &tasks[2], true);
    hg__runq_put(procs[0], &tasks[3], false);
    cr_assert_eq(hg__runq_get(procs[0], &inherit), &tasks[2]);
    cr_assert(inherit);
    cr_assert_eq(hg__runq_get(procs[0], &inherit), &tasks[0]);
    cr_assert_not(inherit);
    cr_assert_eq(get(procs[0]), 1);
    cr_assert_eq(get(procs[0]), 3);
}

Test(sched_runq, a_full_ring_spills_its_older_half)
{
    make(HG_RUNQ + 1);
    for (uint32_t i = 0; i <= HG_RUNQ; i++)
        hg__runq_put(procs[0], &tasks[i], false);
    cr_assert_eq(hg_load_rlx(&sched.global_count), HG_RUNQ / 2 + 1);
    for (uint32_t i = HG_RUNQ / 2; i < HG_RUNQ; i++)
        cr_assert_eq(get(procs[0]), i);
    for (uint32_t i = 0; i < HG_RUNQ / 2; i++)
        cr_assert_eq(hg__global_get(procs[0], false), &tasks[i]);
    cr_assert_eq(hg__global_get(procs[0], false), &tasks[HG_RUNQ]);
    cr_assert_null(hg__global_get(procs[0], false));
    cr_assert_null(sched.global_tail);
}

Test(sched_runq, thieves_take_the_older_half)
{
    make(7);
    for (uint32_t i = 0; i < 7; i++)
        hg__runq_put(procs[0], &tasks[i], false);
    cr_assert_eq(hg__runq_steal(procs[1], procs[0], false), &tasks[0]);
    for (uint32_t i = 1; i < 4; i++)
        cr_assert_eq(get(procs[1]), i);
    cr_assert_eq(get(procs[1]), UINT32_MAX);
    for (uint32_t i = 4; i < 7; i++)
        cr_assert_eq(get(procs[0]), i);
    cr_assert_null(hg__runq_steal(procs[1], procs[0], true));
}

Test(sched_runq, runnext_is_stolen_only_when_asked_for)
{
    make(1);
    hg__runq_put(procs[0], &tasks[0], true);
    cr_assert_null(hg__runq_steal(procs[1], procs[0], false));
    cr_assert_eq(hg__runq_steal(procs[1], procs[0], true), &tasks[0]);
    cr_assert(hg__runq_empty(procs[0]));
}

Test(sched_runq, the_global_queue_is_shared_out)
{
    make(16);
    for (uint32_t i = 0; i < 16; i++)
        hg__global_put(&sched, &tasks[i], &tasks[i], 1);
    cr_assert_eq(hg__global_get(procs[0], true), &tasks[0]);
    cr_assert_eq(hg_load_rlx(&sched.global_count), 16 - 16 / PROCS);
    for (uint32_t i = 1; i < 16 / PROCS; i++)
        cr_assert_eq(get(procs[0]), i);
    cr_assert_eq(get(procs[0]), UINT32_MAX);
    cr_assert_eq(hg__global_get(procs[1], false), &tasks[4]);
    cr_assert_eq(hg__global_get(procs[1], false), &tasks[5]);
}

/* ---- owner against thieves ---- */

#define STORM 200000u
static _Atomic uint32_t taken[STORM];
static _Atomic uint32_t all_put;

static void take(struct hg_tcb *t)
{
    if (t != NULL)
        hg_add_rlx(&taken[t->slot], 1u);
}

static void *thief(void *arg)
{
    struct hg_proc *p = arg;
    bool inherit;
    for (bool last = false;;) {
        struct hg_tcb *t = hg__runq_get(p, &inherit);
        if (t == NULL)
            t = hg__runq_steal(p, procs[0], true);
        if (t == NULL)
            t = hg__global_get(p, true);
        take(t);
        if (t == NULL && last)
            return NULL;
        last = t == NULL && hg_load_acq(&all_put) != 0;
    }
}

Test(sched_runq, every_task_is_taken_once)
{
    struct hg_rand r = {test_seed("every_task_is_taken_once")};
    uint32_t n = (uint32_t)test_scaled(STORM);
    bool inherit;
    pthread_t th[PROCS - 1];
    make(n);
    for (int i = 1; i < PROCS; i++)
        cr_assert_eq(pthread_create(&th[i - 1], NULL, thief, procs[i]), 0);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t what = hg_rand_below(&r, 8);
        hg__runq_put(procs[0], &tasks[i], what == 0);
        if (what > 4)
            take(hg__runq_get(procs[0], &inherit));
    }
    for (struct hg_tcb *t; (t = hg__runq_get(procs[0], &inherit)) != NULL;)
        take(t);
    hg_store_rel(&all_put, 1u);
    for (int i = 1; i < PROCS; i++)
        pthread_join(th[i - 1], NULL);
    for (struct hg_tcb *t; (t = hg__global_get(procs[0], false)) != NULL;)
        take(t);
    for (uint32_t i = 0; i < n; i++)
        cr_assert_eq(hg_load_rlx(&taken[i]), 1, "task %u was taken %u times", i,
                     hg_load_rlx(&taken[i]));
}
