/* monitor.c: the monitor thread: sees to it that nothing waits for a task or a call that does not
 * give way.
 *
 * Every millisecond while anything runs, or every 20 us while a task is in a blocking region that
 * still has its proc:
 *   1. a proc that has run one time slice for 10 ms is asked to yield at its next safepoint
 *   2. a proc whose task is in a blocking region is handed on to another thread: after 20 us if
 *      there is work for it, else after 10 ms, as its timers need somebody
 *   3. where timers of a busy proc are late and another proc is idle, that one is woken to run them
 *   4. where a task that was handed over lingers and a proc is idle, that one is woken (ready.c)
 *   5. where nobody has looked at descriptors for a tick, somebody is told to (poll.c)
 *   6. the collector's tick
 * While all procs are idle it slows down to 10 ms, and after 50 ms of that it sleeps until a proc
 * leaves the idle list.
 *
 * It runs no task, is no mutator, and what it reads of procs is a hint, but for the swaps in
 * region.c.
 */
#include "runtime/sched/internal.h"

#include <errno.h>

#define TICK_NS      INT64_C(1000000)
#define SLOW_TICK_NS INT64_C(10000000)
#define SLOW_ROUNDS  5 /* all idle for so many rounds: sleep */
/* After it was woken it naps so often before it slows down again: what comes every few microseconds
 * does not wake it each time. */
#define AWAKE_ROUNDS   4
#define REGION_TICK_NS INT64_C(20000)
#define REGION_ROUNDS  50 /* so many looks; then every millisecond until something happens */
#define HAND_ON_NS     INT64_C(20000)
#define HAND_ON_ANYWAY INT64_C(10000000)
#define LATE_NS        INT64_C(100000)

/* What the monitor remembers of a proc. */
struct seen {
    uint32_t tick;
    int64_t tick_at; /* when the tick was seen first */
    struct hg_tcb *region;
    uint64_t region_switches;
    int64_t region_at;
};

static void check_slice(struct hg_proc *p, struct seen *k, int64_t now)
{
    uint32_t tick = hg_load_rlx(&p->tick);
    if (tick != k->tick || hg_load_rlx(&p->idle) != 0) {
        k->tick = tick;
        k->tick_at = now;
    } else if (now - k->tick_at >= HG_SLICE_TICKS_NS) {
        k->tick_at = now;
        hg_or_sc(&p->mut.attention, HG_ATTENTION_YIELD);
    }
}

static bool work_for(struct hg_proc *p, int64_t now)
{
    return !hg__runq_empty(p) || hg_load_rlx(&p->sched->global_count) != 0 ||
           hg_load_rlx(&p->timers.next) <= now || hg__poll_forsaken(p->sched);
}

/* A thread that can take a proc over goes to the idle threads by itself. */
static void provide_thread(struct hg_sched *s)
{
    hg__lock(&s->lock);
    bool need = s->idle_threads == NULL && s->thread_count < s->max_threads;
    hg__unlock(&s->lock);
    hg__threads_reap(s);
    if (need)
        (void)hg__thread_new(s, NULL); /* without one the region keeps its proc */
}

/* True: p's task is in a region that has not been handed on. *done: one was. */
static bool check_region(struct hg_proc *p, struct seen *k, int64_t now, bool *done)
{
    struct hg_tcb *t = hg_load_acq(&p->region);
    if (t == NULL) {
        k->region = NULL;
        return false;
    }
    uint64_t switches = hg_load_rlx(&p->switches);
    if (k->region != t || k->region_switches != switches) {
        k->region = t;
        k->region_switches = switches;
        k->region_at = now;
        return true;
    }
    if (now - k->region_at < (work_for(p, now) ? HAND_ON_NS : HAND_ON_ANYWAY))
        return true;
    if (hg__region_hand_on(p)) {
        *done = true;
        return false;
    }
    provide_thread(p->sched);
    return true;
}

static void check_timers(struct hg_proc *p, int64_t now)
{
    if (hg_load_rlx(&p->idle) == 0 && hg_load_rlx(&p->timers.next) < now - LATE_NS)
        hg__wake_for_work(p->sched);
}

/* H2 in ready.c. */
static void check_hand_overs(struct hg_sched *s)
{
    for (int i = 0; i < s->nprocs && hg_load_rlx(&s->idle_count) != 0; i++)
        if (hg_load_rlx(&s->procs[i]->untold) && hg__runnext_lingers(s->procs[i]) != NULL)
            hg__wake_for_work(s);
}

/* Whether every proc is idle and the collector wants nothing of them. */
static bool all_idle(struct hg_sched *s)
{
    return hg_load_sc(&s->idle_count) == (uint32_t)s->nprocs && hg_load_sc(&s->background) == 0;
}

/* True: somebody woke it. */
static bool sleep_for(struct hg_sched *s, enum hg_monitor_sleep how, int64_t deadline)
{
    hg_store_sc(&s->monitor_wake, (uint32_t)how);
    /* seq_cst against whoever changes these and then looks at monitor_wake. */
    if (hg_load_sc(&s->stopping) == 0 && (how < HG_MONITOR_DOZES || all_idle(s)))
        hg__os_wait(&s->monitor_wake, (uint32_t)how, deadline);
    return hg_xchg_sc(&s->monitor_wake, (uint32_t)HG_MONITOR_AWAKE) != (uint32_t)how;
}

static void look(struct hg_sched *s, struct seen *seen, int64_t now, bool *regions, bool *handed_on)
{
    *regions = *handed_on = false;
    for (int i = 0; i < s->nprocs; i++) {
        check_slice(s->procs[i], &seen[i], now);
        *regions |= check_region(s->procs[i], &seen[i], now, handed_on);
        check_timers(s->procs[i], now);
    }
}

static void *monitor_main(void *sched)
{
    struct hg_sched *s = sched;
    struct seen *seen = s->monitor_seen;
    int idle_rounds = 0, region_rounds = 0;
    int64_t ticked = 0;
    uint32_t polls = 0;
    hg__os_timer_slack();
    while (hg_load_acq(&s->stopping) == 0) {
        int64_t now = hg__os_now();
        bool regions, handed_on, woken = false;
        hg_store_rlx(&s->coarse_now, now);
        look(s, seen, now, &regions, &handed_on);
        if (now - ticked >= TICK_NS / 2) {
            check_hand_overs(s);
            hg__poll_check(s, &polls);
            s->hooks.tick(s->hooks.tick_arg, now);
            ticked = now;
        }
        region_rounds = handed_on || !regions ? 0 : region_rounds + 1;
        idle_rounds = all_idle(s) ? idle_rounds + 1 : 0;
        if (regions && region_rounds < REGION_ROUNDS)
            sleep_for(s, HG_MONITOR_AWAKE, now + REGION_TICK_NS);
        else if (idle_rounds > SLOW_ROUNDS)
            woken = sleep_for(s, HG_MONITOR_SLEEPS, INT64_MAX);
        else if (idle_rounds > 0)
            woken = sleep_for(s, HG_MONITOR_DOZES, now + SLOW_TICK_NS);
        else
            woken = sleep_for(s, HG_MONITOR_NAPS, now + TICK_NS);
        if (woken) {
            region_rounds = 0;
            idle_rounds = -AWAKE_ROUNDS;
        }
    }
    return NULL;
}

int hg__monitor_start(struct hg_sched *s)
{
    s->monitor_seen = hg__meta_alloc(s->world->meta, (size_t)s->nprocs * sizeof(struct seen));
    if (s->monitor_seen == NULL)
        return -ENOMEM;
    return hg__os_thread(&s->monitor, "hedge-monitor", 0, monitor_main, s);
}

void hg__monitor_fini(struct hg_sched *s)
{
    hg__meta_free(s->world->meta, s->monitor_seen, (size_t)s->nprocs * sizeof(struct seen));
}
