/* runq.c: where runnable tasks wait: a ring and a runnext slot per proc, and the global queue.
 *
 * Ring: tail - head tasks, entry i at ring[i % HG_RUNQ]. Only the owner pushes (at the tail); the
 * owner and thieves take from the head. head and tail only grow, and wrap around together.
 *   R1  tail is written by the owner alone, after the entry (release); thieves load it (acquire)
 *       before the entry
 *   R2  head moves by compare-and-swap (acq_rel): who moves it from h to h + n owns entries
 *       h..h+n-1, which it has read before. The owner overwrites an entry only after it has seen
 *       head (acquire) pass it, so after it was read. Where there is one proc only, it moves its
 *       head by a store, as a locked instruction costs more than all the rest
 * runnext holds the task made ready last on this proc: it runs next and inherits the time slice, so
 * that two tasks that hand over to each other stay on one proc and cannot hold the others back for
 * longer than a slice. Only the owner fills it; it is emptied by exchanges, as thieves take it too,
 * but only when there is nothing else and the owner had time to run it.
 *
 * The global queue is a list under SCHED. It takes what a full ring spills, tasks made ready by
 * threads that are no proc, and tasks whose slice was over; everyone looks at it when out of work,
 * and first every HG_GLOBAL_ROUNDS rounds.
 */
#include "runtime/sched/internal.h"

/* The ring is full: its older half and t go to the global queue. False: a thief was faster, there
 * is room now. */
static bool spill(struct hg_proc *p, struct hg_tcb *t, uint32_t head)
{
    struct hg_tcb *taken[HG_RUNQ / 2 + 1];
    for (uint32_t i = 0; i < HG_RUNQ / 2; i++)
        taken[i] = hg_load_rlx(&p->ring[(head + i) % HG_RUNQ]);
    if (!hg_cas_acqrel(&p->head, &head, head + HG_RUNQ / 2))
        return false;
    taken[HG_RUNQ / 2] = t;
    for (uint32_t i = 0; i < HG_RUNQ / 2; i++)
        taken[i]->next = taken[i + 1];
    hg__global_put(p->sched, taken[0], t, HG_RUNQ / 2 + 1);
    return true;
}

void hg__runq_put_full(struct hg_proc *p, struct hg_tcb *t)
{
    for (;;) {
        uint32_t head = hg_load_acq(&p->head), tail = hg_load_rlx(&p->tail);
        if (tail - head < HG_RUNQ) {
            hg__ring_push(p, t, tail);
            return;
        }
        if (spill(p, t, head))
            return;
    }
}

/* With a seed: turns the ring by up to three places, so that any of the first four may come
 * first. */
struct hg_tcb *hg__ring_get_any(struct hg_proc *p)
{
    struct hg_tcb *t = hg__ring_get(p);
    for (uint32_t turns = hg_rand_below(&p->rand, 4); t != NULL && turns > 0; turns--) {
        hg__runq_put(p, t, false);
        t = hg__ring_get(p);
    }
    return t;
}

#define GRACE_SPINS 60 /* about 3 us: the owner was about to run it itself in most cases */

struct hg_tcb *hg__runnext_lingers(const struct hg_proc *p)
{
    struct hg_tcb *t = hg_load_rlx(&p->runnext);
    for (int i = 0; t != NULL && i < GRACE_SPINS; i++) {
        hg_cpu_relax();
        if (hg_load_rlx(&p->runnext) != t)
            return NULL;
    }
    return t;
}

static struct hg_tcb *steal_next(struct hg_proc *victim)
{
    struct hg_tcb *t = hg__runnext_lingers(victim);
    /* It may have been run and set again meanwhile; then it is as good. */
    return t != NULL && hg_cas_acqrel(&victim->runnext, &t, NULL) ? t : NULL;
}

struct hg_tcb *hg__runq_steal(struct hg_proc *p, struct hg_proc *victim, bool next_too)
{
    uint32_t tail = hg_load_rlx(&p->tail);
    for (;;) {
        uint32_t from = hg_load_acq(&victim->head);
        uint32_t n = hg_load_acq(&victim->tail) - from;
        n -= n / 2;
        if (n == 0)
            return next_too ? steal_next(victim) : NULL;
        if (n > HG_RUNQ / 2)
            continue; /* head moved between the two loads */
        struct hg_tcb *first = hg_load_rlx(&victim->ring[from % HG_RUNQ]);
        for (uint32_t i = 1; i < n; i++) {
            struct hg_tcb *t = hg_load_rlx(&victim->ring[(from + i) % HG_RUNQ]);
            hg_store_rlx(&p->ring[(tail + i - 1) % HG_RUNQ], t);
        }
        if (!hg_cas_acqrel(&victim->head, &from, from + n))
            continue;
        hg_own_add(&p->steals, n);
        hg_store_rel(&p->tail, tail + n - 1);
        return first;
    }
}

void hg__global_put(struct hg_sched *s, struct hg_tcb *first, struct hg_tcb *last, uint32_t n)
{
    last->next = NULL;
    hg__lock(&s->lock);
    if (s->global_tail != NULL)
        s->global_tail->next = first;
    else
        s->global_head = first;
    s->global_tail = last;
    hg_store_rel(&s->global_count, hg_load_rlx(&s->global_count) + n);
    hg__unlock(&s->lock);
}

static struct hg_tcb *global_pop_locked(struct hg_sched *s)
{
    struct hg_tcb *t = s->global_head;
    if (t == NULL)
        return NULL;
    s->global_head = t->next;
    if (s->global_head == NULL)
        s->global_tail = NULL;
    hg_store_rel(&s->global_count, hg_load_rlx(&s->global_count) - 1);
    return t;
}

struct hg_tcb *hg__global_get(struct hg_proc *p, bool batch)
{
    struct hg_sched *s = p->sched;
    hg__lock(&s->lock);
    uint32_t share = batch ? hg_load_rlx(&s->global_count) / (uint32_t)s->nprocs : 0;
    struct hg_tcb *t = global_pop_locked(s);
    for (uint32_t i = 1; i < share && i < HG_RUNQ / 2; i++)
        hg__runq_put(p, global_pop_locked(s), false);
    hg__unlock(&s->lock);
    if (share > 1)
        hg__wake_for_work(s); /* who looked meanwhile may have seen some of them in neither place */
    return t;
}
