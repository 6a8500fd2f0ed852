/* handshake.c: the driver asks every mutator to do one small thing, one at a time, and sleeps until
 * all have.
 *
 * How a request is made and answered:
 *   1. Under MUTATORS the driver stores the request, then the number of mutators (unanswered), then
 *      the new epoch. RESET opens the new sweep generation before the epoch, so whoever answers it
 *      finds it open. A mutator that has not answered yet goes on in its own generation, as black
 *      as before: the allocator takes the generation from the mutator, never from the heap
 *      (alloc/central.c), so a slow path needs no look at it.
 *   2. It raises HG_ATTENTION_HANDSHAKE in each attention word, then looks at each state once: a
 *      BLOCKED mutator is taken and answered for. A RUNNING one answers at its next safepoint, or
 *      when it blocks (it looks again after storing BLOCKED). So looking once is enough, and the
 *      driver never spins (tests/model/collector-handshake.pml).
 *   3. An answer: run the callback unless the stamp is this epoch's already, stamp, clear the bit,
 *      count down. The last one wakes the driver.
 * A callback runs exactly once per mutator and request, never while the mutator touches the heap.
 *
 * Orders: request and unanswered are published by the epoch's store (seq_cst); attention bits are
 * raised after it, so whoever sees its bit sees the request. Answers are acq_rel on `unanswered`:
 * the driver sees all that callbacks wrote.
 */
#include "runtime/mut/mut.h"

static void answer_flush(struct hg_mutator *m)
{
    struct hg_world *w = m->world;
    if (m->dirty || m->grey->n != 0)
        hg_store_rlx(&w->dirty, 1u); /* published with the answer */
    m->dirty = false;
    hg__grey_publish(m);
}

static void answer_reset(struct hg_mutator *m)
{
    hg__cache_release(&m->cache, m->black);
    hg__alloc_account(m);
    m->black = false;
    m->gen = m->world->birth_gen;
}

static void run_callback(struct hg_mutator *m, enum hg_request request, bool own)
{
    switch (request) {
    case HG_REQ_NOP:
    case HG_REQ_HOLD:
        break;
    case HG_REQ_SCAN:
        m->world->hooks.scan(m, own);
        hg__cache_stash(&m->cache);
        m->black = true;
        break;
    case HG_REQ_FLUSH:
        answer_flush(m);
        break;
    case HG_REQ_OFF:
        hg__grey_take_back(m);
        m->dirty = false;
        break;
    case HG_REQ_RESET:
        answer_reset(m);
        break;
    }
}

static void answer(struct hg_mutator *m, uint32_t epoch, bool own)
{
    struct hg_world *w = m->world;
    enum hg_request request = (enum hg_request)hg_load_rlx(&w->request);
    int64_t start = own ? hg__os_thread_cpu() : 0;
    run_callback(m, request, own);
    hg_store_rel(&m->stamp, epoch);
    hg_and_sc(&m->attention, ~HG_ATTENTION_HANDSHAKE);
    if (own) { /* nobody is held where the driver answers for a BLOCKED one */
        int64_t held = hg__os_thread_cpu() - start;
        hg__hold(m, held);
        if (m->stack != NULL)
            m->stack->times.hold_ns += held;
    }
    if (hg_sub_acqrel(&w->unanswered, 1u) == 1)
        hg__os_wake(&w->unanswered, 1);
}

void hg__poll_slow(struct hg_mutator *m)
{
    struct hg_world *w = m->world;
    for (;;) {
        uint32_t epoch = hg_load_sc(&w->epoch);
        if (hg_load_rlx(&m->stamp) != epoch) {
            answer(m, epoch, true);
            /* HOLD; not the next one, which must be answered first. */
            while (hg_load_acq(&w->hold) == epoch)
                hg__os_wait(&w->hold, epoch, INT64_MAX);
        }
        /* The next request's epoch may be there already, and its bit be raised at any moment.
         * Clearing may hit that bit: hence the look at the epoch after it (seq_cst, against epoch
         * then bit). A request that is answered here before its bit is raised leaves the bit
         * behind: then the next poll finds nothing to do and clears it. */
        hg_and_sc(&m->attention, ~HG_ATTENTION_HANDSHAKE);
        if (hg_load_sc(&w->epoch) == epoch)
            return;
    }
}

static void *safepoint_on_scheduler(void *a, void *b)
{
    struct hg_mutator *m = a;
    (void)b;
    hg__poll(m);
    uint32_t reasons = hg_load_rlx(&m->attention) & ~HG_ATTENTION_HANDSHAKE;
    if (reasons != 0)
        m->world->hooks.attention(m, reasons);
    return NULL;
}

void hg__safepoint_slow(struct hg_mutator *m) { hg__on_scheduler(m, safepoint_on_scheduler, NULL); }

void hg_safepoint(void)
{
    struct hg_mutator *m = hg__self();
    if (m != NULL && m->stack != NULL && hg_unlikely(hg_load_rlx(&m->attention) != 0))
        hg__safepoint_slow(m);
}

/* Answers for m if it is BLOCKED. HOLD keeps it TAKEN. */
static void answer_for_blocked(struct hg_mutator *m, uint32_t epoch, bool keep)
{
    uint32_t word = hg_load_sc(&m->state);
    while (HG_MUT_STATE(word) == HG_MUT_BLOCKED) {
        uint32_t taken = word - HG_MUT_BLOCKED + HG_MUT_TAKEN;
        if (!hg_cas_sc(&m->state, &word, taken))
            continue; /* it left, or was handed on: look again */
        if (hg_load_acq(&m->stamp) != epoch)
            answer(m, epoch, false);
        m->kept = keep;
        if (keep)
            return;
        hg_store_sc(&m->state, word);
        if (hg_load_sc(&m->state_waiters) != 0)
            hg__os_wake(&m->state, 1);
        return;
    }
}

static void ask(struct hg_world *w, enum hg_request request)
{
    hg__lock(&w->lock);
    hg_store_rlx(&w->request, (uint32_t)request);
    if (request == HG_REQ_RESET)
        w->birth_gen++;
    w->black_between = request == HG_REQ_SCAN || (w->black_between && request != HG_REQ_RESET);
    if (request == HG_REQ_RESET)
        hg__sweep_open(w->heap);
    hg_store_rlx(&w->unanswered, w->count);
    uint32_t epoch = hg_load_rlx(&w->epoch) + 1;
    if (request == HG_REQ_HOLD)
        hg_store_rlx(&w->hold, epoch);
    hg_store_sc(&w->epoch, epoch);
    for (struct hg_list *l = w->mutators.next; l != &w->mutators; l = l->next)
        hg_or_sc(&hg_container_of(l, struct hg_mutator, link)->attention, HG_ATTENTION_HANDSHAKE);
    for (struct hg_list *l = w->mutators.next; l != &w->mutators; l = l->next)
        answer_for_blocked(hg_container_of(l, struct hg_mutator, link), epoch,
                           request == HG_REQ_HOLD);
    hg__unlock(&w->lock);
}

/* Names the mutators that have not answered after `ns`. */
static void report_late(struct hg_world *w, int64_t ns)
{
    struct hg_mutator *late[8];
    unsigned n = 0;
    hg__lock(&w->lock);
    uint32_t epoch = hg_load_rlx(&w->epoch);
    for (struct hg_list *l = w->mutators.next; l != &w->mutators; l = l->next) {
        struct hg_mutator *m = hg_container_of(l, struct hg_mutator, link);
        if (hg_load_acq(&m->stamp) != epoch && n < HG_COUNT_OF(late))
            late[n++] = m;
    }
    hg__unlock(&w->lock);
    for (unsigned i = 0; i < n; i++)
        w->hooks.late(late[i], ns);
}

#define HG_LATE_NS INT64_C(10000000)

void hg__handshake_give_up(struct hg_world *w)
{
    hg_store_sc(&w->given_up, 1u);
    hg_add_sc(&w->unanswered, 1u); /* changes what the driver may be about to sleep on */
    hg__os_wake(&w->unanswered, INT32_MAX);
}

bool hg__handshake(struct hg_world *w, enum hg_request request)
{
    int64_t start = hg__os_now(), report_at = start + HG_LATE_NS;
    if (hg_load_sc(&w->given_up) != 0)
        return false;
    hg_store_rel(&w->asked_at, start);
    ask(w, request);
    for (uint32_t left; (left = hg_load_acq(&w->unanswered)) != 0;) {
        if (hg_load_sc(&w->given_up) != 0) {
            if (request == HG_REQ_HOLD)
                hg__handshake_release(w);
            return false;
        }
        if (hg__os_wait(&w->unanswered, left, report_at) != 0 && hg_load_acq(&w->unanswered) != 0) {
            report_late(w, hg__os_now() - start);
            report_at = INT64_MAX; /* once a handshake */
        }
    }
    hg_store_rel(&w->asked_at, 0);
    int64_t took = hg__os_now() - start;
    hg_histogram_add(w->handshakes, took);
    if (took > HG_LAGGARD_NS)
        w->late_ns += took - HG_LAGGARD_NS;
    hg_add_rlx(&w->handshake_count, 1u);
    return true;
}

void hg__handshake_release(struct hg_world *w)
{
    hg__lock(&w->lock);
    for (struct hg_list *l = w->mutators.next; l != &w->mutators; l = l->next) {
        struct hg_mutator *m = hg_container_of(l, struct hg_mutator, link);
        if (!m->kept)
            continue;
        m->kept = false;
        hg_store_sc(&m->state, hg_load_rlx(&m->state) - HG_MUT_TAKEN + HG_MUT_BLOCKED);
        if (hg_load_sc(&m->state_waiters) != 0)
            hg__os_wake(&m->state, 1);
    }
    hg_store_sc(&w->hold, 0u);
    hg__unlock(&w->lock);
    hg__os_wake(&w->hold, INT32_MAX);
}
