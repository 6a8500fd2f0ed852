/* timer_live.c: one run of `hedge-sim timer`: tasks that use timers again and again (timer.h).
 *
 * A use: the timer is set for an hour, moved to `after`, waited for, and stopped.
 *
 *   pooled   what CockroachDB's timeutil.Timer did: the outer struct comes from a pool, so it lies
 *            on the heap; each use makes an inner timer with a channel to which its firing is sent.
 *            A flag says whether the channel was read, so that a value left in it is not taken for
 *            a later firing
 *   stack    the timer is a variable of the task that uses it
 */
#include "sim/hist.h"
#include "sim/memory.h"
#include "sim/timer.h"
#include <errno.h>
#include <string.h>

#define HOUR INT64_C(3600000000000)

const char *const timer_style_name[TIMER_STYLES] = {
    [TIMER_POOLED] = "pooled",
    [TIMER_STACK] = "stack",
};

struct live {
    struct trial *trial;
    const struct timer_way *way;
    hg_objpool *pool;
    hg_histogram *late;
    hg_waitgroup done;
    _Atomic int64_t used;
    _Atomic int failed;
};

/* ---- pooled ---- */

struct inner {
    hg_chan *fired; /* room for one time */
    hg_timer timer; /* its argument is `fired` */
};
static const uint32_t inner_fields[] = {offsetof(struct inner, fired),
                                        HG_TIMER_ARG(offsetof(struct inner, timer))};
static const hg_layout inner_layout = HG_TYPED("inner timer", inner_fields);

struct outer {
    struct inner *inner;
    bool read; /* what the inner timer sent has been received */
};
static const uint32_t outer_fields[] = {offsetof(struct outer, inner)};
static const hg_layout outer_layout = HG_TYPED("outer timer", outer_fields);

static void *make_outer(void *arg)
{
    (void)arg;
    return hg_alloc(sizeof(struct outer), &outer_layout);
}

static void fire(hg_timer *t, void *fired)
{
    int64_t now = hg_now();
    (void)t;
    (void)hg_chan_send(fired, &now, HG_NOW);
}

static int pooled_reset(struct outer *o, int64_t when)
{
    if (o->inner == NULL) {
        struct inner *in = hg_alloc(sizeof *in, &inner_layout);
        hg_chan *fired;
        int err = hg_chan_new(sizeof(int64_t), 1, HG_LEAF, &fired);
        if (err != 0)
            return err;
        in->fired = fired;
        hg_timer_init(&in->timer, fire, fired);
        hg_ref_store(&o->inner, in);
    } else if (hg_timer_reset(&o->inner->timer, HG_FOREVER) == 0 && !o->read) {
        hg_chan_recv(o->inner->fired, NULL, HG_NOW);
    }
    o->read = false;
    int was = hg_timer_reset(&o->inner->timer, when);
    return was < 0 ? was : 0;
}

static void pooled_stop(hg_objpool *pool, struct outer *o)
{
    hg_timer_stop(&o->inner->timer);
    hg_ref_store(&o->inner, NULL);
    hg_objpool_put(pool, o);
}

static int use_pooled(struct live *l, int64_t *when)
{
    struct outer *o = hg_objpool_get(l->pool);
    int64_t fired = 0;
    int err = pooled_reset(o, hg_in(HOUR));
    if (err != 0)
        return err;
    *when = hg_in((int64_t)(l->way->opt->after_us * 1e3));
    err = pooled_reset(o, *when);
    if (err == 0)
        err = hg_chan_recv(o->inner->fired, &fired, HG_FOREVER);
    o->read = true;
    pooled_stop(l->pool, o);
    return err == 0 && fired < *when ? -EILSEQ : err;
}

/* ---- stack ---- */

static int use_stack(struct live *l, int64_t *when)
{
    hg_timer t = {{0}};
    int was = hg_timer_reset(&t, hg_in(HOUR));
    if (was < 0)
        return was;
    *when = hg_in((int64_t)(l->way->opt->after_us * 1e3));
    was = hg_timer_reset(&t, *when);
    int err = was != 1 ? -EILSEQ : hg_timer_wait(&t, HG_FOREVER);
    hg_timer_stop(&t);
    return err;
}

/* ---- the run ---- */

static void use(void *arg)
{
    struct live *l = *(struct live **)arg;
    int64_t n = 0;
    for (; n < l->way->opt->uses && !trial_stopped(); n++) {
        int64_t began = hg_now(), when = 0;
        int err = l->way->style == TIMER_POOLED ? use_pooled(l, &when) : use_stack(l, &when);
        int64_t now = hg_now();
        if (err != 0 || now < when) {
            atomic_store(&l->failed, 1);
            break;
        }
        sim_hist_add_shared(l->late, now - when);
        trial_add(l->trial, now - began);
    }
    atomic_fetch_add(&l->used, n);
    hg_waitgroup_done(&l->done);
}

static int main_task(void *arg)
{
    struct live *l = arg;
    hg_objpool_attr a = {.size = sizeof a, .make = make_outer};
    int err = hg_objpool_new(hg_current(), &a, &l->pool);
    if (err != 0)
        return err;
    trial_begin(l->trial);
    for (int i = 0; i < l->way->opt->tasks && err == 0; i++) {
        hg_waitgroup_add(&l->done, 1);
        err = hg_go_copy(use, &l, sizeof l);
        if (err != 0)
            hg_waitgroup_done(&l->done);
    }
    hg_waitgroup_wait(&l->done, HG_FOREVER);
    hg_histogram *late = sim_alloc(1, sizeof *late);
    sim_hist_collect(late, l->late);
    l->trial->extra = (double)hg_histogram_quantile(late, 0.5);
    free(late);
    trial_end(l->trial, atomic_load(&l->used));
    if (err == 0 && atomic_load(&l->failed) != 0) {
        snprintf(l->trial->shared->error, sizeof l->trial->shared->error,
                 "a timer fired early, or not at all");
        err = 1;
    }
    return err;
}

int timer_run(struct trial *t, const void *arg)
{
    struct live l = {.trial = t, .way = arg, .late = sim_alloc(1, sizeof(hg_histogram))};
    int err = trial_run(t, l.way->opt->procs, main_task, &l);
    free(l.late);
    return err;
}
