/* thread.c: the OS threads of a scheduler: start, what a thread does without a proc, the end of
 * all.
 *
 * A thread's own stack is the scheduler stack of the proc that it runs. Its first function calls
 * down to an address a little below its own frame (sched_sp), where everything else takes place and
 * which every slow path starts from; resuming exit_sp returns into that first function, whatever is
 * on the stack below, and ends the thread.
 *
 *     thread_main's frame | saved by hg__ctx_call | (gap) sched_sp | hg__schedule, slow paths ...
 *
 * A proc has a thread at all times. A thread loses its proc when the monitor hands it on while a
 * task of it is in a blocking region; when the region is left it queues the task and joins the idle
 * threads, where the monitor takes threads from.
 *
 * Stopping. `stopping` is set, everyone is woken or asked to yield, and each thread ends where it
 * comes between two tasks. A thread in a blocking region is given up: its task is marked, and if it
 * ever comes back it sleeps for good. Then (and if a task reaches no safepoint for a second) the
 * scheduler's memory is left in place.
 */
#include "runtime/sched/internal.h"

#include <errno.h>

#define SCHED_GAP        ((uintptr_t)4096)
#define IDLE_THREADS_MAX 16 /* beyond these a thread without a proc ends */
#define THREADS_DEFAULT  1000
#define STOP_NS          INT64_C(1000000000)

/* ---- a thread's life ---- */

/* Takes over th->proc, which is BLOCKED and nobody's. */
_Noreturn static void run_proc(struct hg_thread *th)
{
    struct hg_proc *p = th->proc;
    struct hg_mutator *m = &p->mut;
    uint32_t word = hg_load_sc(&m->state); /* TAKEN, perhaps; the tick is what counts */
    HG_CHECK(hg__mutator_unblock(m, (word & ~0xffu) | HG_MUT_BLOCKED),
             "a proc was handed on twice");
    m->sched_sp = th->sched_sp;
    m->sched_stack_lo = th->stack_lo;
    m->sched_stack_bytes = th->stack_bytes;
    m->sched_fiber = th->sched_fiber;
    hg__self_set(m);
    hg__schedule(p);
}

_Noreturn void hg__thread_exit(struct hg_thread *th)
{
#if HG_TSAN
    __tsan_switch_to_fiber(th->fiber, 0);
    if (th->sched_fiber != th->fiber)
        __tsan_destroy_fiber(th->sched_fiber);
#endif
    hg__ctx_resume(th->exit_sp, NULL);
}

static void unlink_thread_locked(struct hg_thread *th)
{
    struct hg_thread **at = &th->sched->threads;
    while (*at != th)
        at = &(*at)->all_next;
    *at = th->all_next;
    th->sched->thread_count--;
}

_Noreturn void hg__thread_idle(struct hg_thread *th)
{
    struct hg_sched *s = th->sched;
    hg__self_set(NULL);
    th->proc = NULL;
    hg__lock(&s->lock);
    bool stop = hg_load_rlx(&s->stopping) != 0;
    bool retire = !stop && s->idle_thread_count >= IDLE_THREADS_MAX;
    if (retire) {
        unlink_thread_locked(th);
        th->next = s->retired_threads;
        s->retired_threads = th;
    } else if (!stop) {
        hg_store_rlx(&th->wake, 0u);
        th->next = s->idle_threads;
        s->idle_threads = th;
        s->idle_thread_count++;
    }
    hg__unlock(&s->lock);
    if (stop || retire)
        hg__thread_exit(th);
    while (hg_load_acq(&th->wake) == 0)
        hg__os_wait(&th->wake, 0, INT64_MAX);
    if (th->proc == NULL)
        hg__thread_exit(th);
    run_proc(th);
}

static void *thread_begin(void *arg, void *unused)
{
    struct hg_thread *th = arg;
    (void)unused;
    if (th->proc != NULL)
        run_proc(th);
    hg__thread_idle(th);
}

static void find_stack(struct hg_thread *th)
{
    pthread_attr_t attr;
    th->sched_sp = ((uintptr_t)__builtin_frame_address(0) - SCHED_GAP) & ~(uintptr_t)15;
    HG_CHECK(pthread_getattr_np(pthread_self(), &attr) == 0 &&
                 pthread_attr_getstack(&attr, &th->stack_lo, &th->stack_bytes) == 0,
             "the bounds of a thread's stack are not known");
    pthread_attr_destroy(&attr);
#if HG_TSAN
    th->fiber = th->sched_fiber = __tsan_get_current_fiber();
#endif
}

static void *thread_main(void *arg)
{
    struct hg_thread *th = arg;
    struct hg_sched *s = th->sched;
    hg__os_timer_slack();
    find_stack(th);
    hg__stack_report_thread(th);
    hg__ctx_call(&th->exit_sp, th->sched_sp, thread_begin, th, NULL);
    hg__stack_report_thread_end(th);
    if (hg_sub_acqrel(&s->live_threads, 1u) == 1)
        hg__os_wake(&s->live_threads, 1);
    return NULL;
}

void hg__threads_reap(struct hg_sched *s)
{
    hg__lock(&s->lock);
    struct hg_thread *th = s->retired_threads;
    s->retired_threads = NULL;
    hg__unlock(&s->lock);
    while (th != NULL) {
        struct hg_thread *next = th->next;
        hg__os_thread_join(th->handle);
        hg__meta_free(s->world->meta, th, sizeof *th);
        th = next;
    }
}

int hg__thread_new(struct hg_sched *s, struct hg_proc *p)
{
    struct hg_thread *th = hg__meta_alloc(s->world->meta, sizeof *th);
    if (th == NULL)
        return -ENOMEM;
    th->sched = s;
    th->proc = p;
    if (p != NULL)
        p->thread = th;
    hg__lock(&s->lock);
    th->all_next = s->threads;
    s->threads = th;
    s->thread_count++;
    hg__unlock(&s->lock);
    hg_add_acqrel(&s->live_threads, 1u);
    int error = hg__os_thread(&th->handle, "hedge-proc", HG_PROC_STACK_BYTES, thread_main, th);
    if (error == 0)
        return 0;
    hg_sub_acqrel(&s->live_threads, 1u);
    hg__lock(&s->lock);
    unlink_thread_locked(th);
    hg__unlock(&s->lock);
    hg__meta_free(s->world->meta, th, sizeof *th);
    return error;
}

/* ---- start ---- */

static struct hg_proc *new_proc(struct hg_sched *s, unsigned index)
{
    struct hg_meta *meta = s->world->meta;
    struct hg_proc *p = hg__meta_alloc(meta, sizeof *p);
    if (p == NULL)
        return NULL;
    p->sched = s;
    p->index = index;
    hg__timers_init(&p->timers);
    uint64_t seed = s->seed != 0 ? s->seed : (uint64_t)hg__os_now();
    p->rand.state = seed + index * UINT64_C(0x632be59bd9b4e019);
    p->until_look = p->look_span = HG_GLOBAL_ROUNDS;
    if (hg__mutator_init(&p->mut, s->world) != 0) {
        hg__meta_free(meta, p, sizeof *p);
        return NULL;
    }
    return p;
}

int hg__sched_init(struct hg_sched *s, struct hg_world *w, int procs, size_t stack_bytes,
                   uint64_t seed)
{
    s->world = w;
    s->seed = seed;
    s->max_threads = procs + THREADS_DEFAULT;
    hg__lock_init(&s->lock, HG_RANK_SCHED);
    hg__lock_init(&s->cancel_lock, HG_RANK_CANCEL);
    hg_list_init(&s->cancelling);
    hg__stacks_init(s, stack_bytes);
    s->procs = hg__meta_alloc(w->meta, (size_t)procs * sizeof(struct hg_proc *));
    if (s->procs == NULL)
        return -ENOMEM;
    for (; s->nprocs < procs; s->nprocs++) {
        s->procs[s->nprocs] = new_proc(s, (unsigned)s->nprocs);
        if (s->procs[s->nprocs] == NULL) {
            hg__sched_fini(s);
            return -ENOMEM;
        }
    }
    return 0;
}

int hg__sched_start(struct hg_sched *s)
{
    int error = hg__monitor_start(s);
    if (error != 0)
        return error;
    for (int i = 0; i < s->nprocs && error == 0; i++)
        error = hg__thread_new(s, s->procs[i]);
    if (error != 0)
        hg__sched_stop(s);
    return error;
}

/* ---- stop ---- */

static void give_up_regions(struct hg_sched *s)
{
    if (hg_load_acq(&s->regions) == 0)
        return;
    uint32_t n = hg_load_acq(&s->registered);
    for (uint32_t i = 0; i < n; i++) {
        if (!hg__region_abandon(hg__task_at(s, i)))
            continue;
        s->left_behind = true;
        hg_sub_acqrel(&s->live_threads, 1u);
    }
}

static void wake_everyone(struct hg_sched *s)
{
    for (int i = 0; i < s->nprocs; i++)
        hg_or_sc(&s->procs[i]->mut.attention, HG_ATTENTION_YIELD);
    hg__sched_wake(s, s->nprocs);
    hg__lock(&s->lock);
    for (struct hg_thread *th; (th = s->idle_threads) != NULL;) {
        s->idle_threads = th->next;
        s->idle_thread_count--;
        hg_store_rel(&th->wake, 1u); /* with no proc: it ends */
        hg__os_wake(&th->wake, 1);
    }
    hg__unlock(&s->lock);
}

bool hg__sched_stop(struct hg_sched *s)
{
    hg_store_sc(&s->stopping, 1u);
    hg__monitor_poke(s, HG_MONITOR_NAPS);
    hg__os_thread_join(s->monitor);
    int64_t end = hg__os_now() + STOP_NS;
    for (;;) {
        wake_everyone(s);
        give_up_regions(s);
        uint32_t live = hg_load_acq(&s->live_threads);
        int64_t now = hg__os_now();
        if (live == 0 || now >= end)
            break;
        hg__os_wait(&s->live_threads, live, now + 1000000);
    }
    if (hg_load_acq(&s->live_threads) != 0)
        s->left_behind = true;
    if (s->left_behind)
        return false;
    hg__threads_reap(s);
    for (struct hg_thread *th = s->threads; th != NULL; th = th->all_next)
        hg__os_thread_join(th->handle);
    return true;
}

void hg__sched_fini(struct hg_sched *s)
{
    struct hg_meta *meta = s->world->meta;
    if (s->left_behind)
        return;
    hg__monitor_fini(s);
    for (struct hg_thread *th; (th = s->threads) != NULL;) {
        s->threads = th->all_next;
        hg__meta_free(meta, th, sizeof *th);
    }
    for (int i = 0; i < s->nprocs; i++) {
        struct hg_proc *p = s->procs[i];
        hg__mutator_fini(&p->mut);
        hg__timers_fini(&p->timers, meta);
        hg__meta_free(meta, p, sizeof *p);
    }
    hg__stacks_fini(s);
    hg__meta_free(meta, s->procs, (size_t)s->nprocs * sizeof *s->procs);
}
