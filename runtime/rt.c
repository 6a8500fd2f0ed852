/* rt.c: opening, running and closing a runtime; the wiring of its layers.
 *
 * mut and sched reach the collector only through the hooks that are set here, before the first
 * mutator exists. Opening goes upwards (metadata, heap, layouts, world, scheduler, collector, then
 * threads) and closing downwards; one ladder undoes what an opening that fails has done.
 */
#include "runtime/rt.h"
#include "base/options.h"
#include "base/os_fault.h"
#include "runtime/net/blocking.h"
#include "runtime/sync/objpool.h"
#include <errno.h>
#include <string.h>

/* Handshakes aside, what a task's safepoint may be asked for. On the scheduler stack. */
static void attention(struct hg_mutator *m, uint32_t reasons)
{
    if (reasons & HG_ATTENTION_SLICE) {
        hg_and_sc(&m->attention, ~HG_ATTENTION_SLICE);
        hg__gc_attention_slice(m);
    }
    if (reasons & HG_ATTENTION_YIELD)
        hg__yield_from_scheduler(hg__proc_of(m)); /* clears the bit */
}

static void late(struct hg_mutator *m, int64_t ns)
{
    struct hg_gc *g = hg__gc_of(m->world);
    if (!g->trace_gc)
        return;
    struct hg_tcb *t = hg__proc_of(m)->current; /* a racy look for a report; control blocks are
                                                 * never freed */
    hg__warn("a handshake has waited %ld ms for proc %u: task %lu%s%s does not reach a safepoint",
             (long)(ns / 1000000), m->id, t != NULL ? (unsigned long)t->id : 0,
             t != NULL && t->name[0] ? " " : "", t != NULL ? t->name : "");
}

static void wire(hg_runtime *rt)
{
    rt->world.hooks = (struct hg_hooks){
        .scan = hg__scan_mutator,
        .allocated = hg__gc_allocated,
        .refuse = hg__gc_refuse,
        .no_memory = hg__gc_no_memory,
        .attention = attention,
        .late = late,
    };
    rt->sched.hooks = (struct hg_sched_hooks){
        .switch_in = hg__scan_switch_in,
        .background = hg__gc_background,
        .tick = hg__pace_tick,
        .tick_arg = &rt->gc,
        .net_poll = hg__net_poll,
        .net_kick = hg__net_kick,
        .net = &rt->net,
    };
    hg__net_init(&rt->net, &rt->sched);
    rt->world.collector = &rt->gc;
    rt->gc.world = &rt->world;
    rt->gc.sched = &rt->sched;
}

static int reject(const char *what, const char *expected)
{
    hg__warn("option %s is out of range: expected %s", what, expected);
    return -EINVAL;
}

static int pacer_name_check(const char *name, char *why, unsigned room)
{
    struct hg_policy_spec spec;
    return hg__policy_parse(name, &spec, why, room);
}

/* base/options.c reads HEDGE_PACER and knows no policies; a host may read the environment before it
 * opens a runtime. */
__attribute__((constructor)) static void register_pacer_check(void)
{
    hg__options_set_pacer_check(pacer_name_check);
}

static int check_options(const hg_options *o, struct hg_policy_spec *policy)
{
    char why[200];
    if (o->procs < -1 || o->procs == 0 || o->procs > 1024)
        return reject("procs", "-1 or 1 to 1024");
    if (o->gc_percent < -1)
        return reject("gc_percent", "-1 (off) or 0 and more");
    if (o->memory_limit < 0)
        return reject("memory_limit", "0 or more bytes");
    if (o->stack_bytes > 8 * HG_MIB)
        return reject("stack_bytes", "at most 8 MiB");
    if (o->hugepages < HG_HUGEPAGES_AUTO || o->hugepages > HG_HUGEPAGES_NEVER)
        return reject("hugepages", "HG_HUGEPAGES_AUTO, _ALWAYS or _NEVER");
    if (o->blocking_threads < 0 || o->blocking_threads > HG_BLOCKING_THREADS_MAX)
        return reject("blocking_threads", "1 to 1024, or 0 (64)");
    if (o->os_faults < 0)
        return reject("os_faults", "0 or more");
    if (o->stress < 0)
        return reject("stress", "0 or more");
    if (hg__policy_parse(o->pacer != NULL ? o->pacer : "max:5", policy, why, sizeof why) != 0)
        return reject("pacer", why);
    return 0;
}

static int take_options(const hg_options *opt, hg_options *out)
{
    hg_options_init(out, sizeof *out);
    if (opt == NULL)
        return 0;
    if (opt->size < offsetof(hg_options, spare) || opt->size > sizeof *out)
        return reject("size", "sizeof(hg_options), as hg_options_init sets it");
    memcpy(out, opt, opt->size);
    return 0;
}

static int configure_gc(hg_runtime *rt, const struct hg_policy_spec *policy)
{
    struct hg_gc *g = &rt->gc;
    const hg_options *o = &rt->options;
    g->check = o->check;
    g->hard_limit = o->hard_limit;
    g->trace_gc = o->trace_gc;
    g->trace_pacer = o->trace_pacer;
    g->stress = o->stress;
    g->user = o->user;
    g->limit_passed = o->limit_passed;
    g->out_of_memory = o->out_of_memory;
    hg_store_rlx(&g->assist_on, o->assist ? 1u : 0u);
    struct hg_pacer_config c = {.gc_percent = o->gc_percent,
                                .memory_limit = o->memory_limit,
                                .min_heap = (int64_t)o->min_heap_bytes,
                                .cpus = g->cpus,
                                .policy = *policy};
    return hg__pace_init(g, &c);
}

static void close_memory(hg_runtime *rt)
{
    hg__world_fini(&rt->world);
    hg__layouts_close(rt->world.layouts);
    hg__heap_close(rt->world.heap);
}

/* Opens the layers below the collector's thread. */
static int open_layers(hg_runtime *rt, struct hg_meta *meta, const struct hg_policy_spec *policy)
{
    const hg_options *o = &rt->options;
    struct hg_heap_config hc = {
        .reserve_bytes = o->reserve_bytes, .hugepages = o->hugepages, .poison = o->poison};
    struct hg_heap *heap;
    int err = hg__heap_open(&heap, meta, &hc);
    if (err != 0)
        return err;
    struct hg_layouts *layouts = hg__layouts_open(meta);
    if (layouts == NULL) {
        hg__heap_close(heap);
        return -ENOMEM;
    }
    err = hg__world_init(&rt->world, heap, layouts, meta);
    int cpus = hg__os_cpus(), procs = o->procs == -1 ? cpus : o->procs;
    size_t stack = o->stack_bytes == 0 ? 64 * HG_KIB : hg_max_size(o->stack_bytes, 16 * HG_KIB);
    if (err == 0)
        err = hg__sched_init(&rt->sched, &rt->world, procs, stack, o->sched_seed);
    if (err != 0) {
        close_memory(rt);
        return err;
    }
    hg__counters_init(&rt->counters, &rt->world, procs);
    rt->sched.track_waits = o->track_waits;
    rt->sched.check = o->check;
    rt->sched.blocking_idle_ns = HG_BLOCKING_IDLE_NS;
    rt->sched.blocking_threads =
        o->blocking_threads != 0 ? o->blocking_threads : HG_BLOCKING_THREADS;
    rt->gc.cpus = cpus < procs ? cpus : procs;
    err = configure_gc(rt, policy);
    if (err != 0) {
        hg__sched_fini(&rt->sched);
        close_memory(rt);
    }
    return err;
}

int hg_runtime_open(const hg_options *opt, hg_runtime **out)
{
    struct hg_policy_spec policy;
    hg_options options;
    int err = take_options(opt, &options);
    if (err == 0)
        err = check_options(&options, &policy);
    if (err != 0)
        return err;
    if (options.fatal != NULL)
        hg__fatal_hook(options.fatal, options.user);
    if (options.log != NULL)
        hg__log_hook(options.log, options.user);
    if (options.os_faults > 0)
        hg__os_fault_shake((uint32_t)options.os_faults, options.sched_seed);
    struct hg_meta *meta = hg__meta_open();
    hg_runtime *rt = meta != NULL ? hg__meta_alloc(meta, sizeof *rt) : NULL;
    err = -ENOMEM;
    if (rt == NULL)
        goto fail;
    rt->options = options;
    wire(rt);
    err = open_layers(rt, meta, &policy);
    if (err != 0)
        goto fail;
    err = hg__gc_start(&rt->gc);
    if (err != 0)
        goto fail_layers;
    err = hg__sched_start(&rt->sched);
    if (err != 0)
        goto fail_driver;
    *out = rt;
    return 0;
fail_driver:
    hg__gc_stop(&rt->gc);
    hg__roots_fini(&rt->gc);
fail_layers:
    hg__sched_fini(&rt->sched);
    close_memory(rt);
fail:
    if (meta != NULL)
        hg__meta_close(meta);
    return err;
}

/* Whatever tasks still exist. The driver goes first: handshakes need procs that answer. */
static void close_now(hg_runtime *rt)
{
    struct hg_meta *meta = rt->world.meta;
    hg__gc_stop(&rt->gc);
    bool clean = hg__sched_stop(&rt->sched);
    if (!hg__blocking_stop(&rt->sched, clean) || !clean)
        return; /* a thread still uses a task's stack: its memory stays */
    hg__net_fini(&rt->net);
    hg__sched_fini(&rt->sched);
    hg__roots_fini(&rt->gc);
    close_memory(rt);
    hg__meta_close(meta); /* with rt itself */
}

int hg_runtime_close(hg_runtime *rt)
{
    if (hg__sched_tasks(&rt->sched) != 0)
        return -EBUSY;
    close_now(rt);
    return 0;
}

/* ---- shutdown ---- */

#define SHUTDOWN_LOOK_NS   INT64_C(1000000)
#define SHUTDOWN_PAUSE_MAX INT64_C(16000000)

/* A little time; from a task, a wait like every other. */
static int pause_shutdown(hg_runtime *rt, const struct hg_tcb *self, int64_t until)
{
    if (self != NULL)
        return hg_sleep_until(until);
    hg__os_wait(&rt->shutdown_word, 0, until);
    return 0;
}

/* Cancels and looks, again and again: see C2 and Note [CANCEL] in sched/cancel.c. The pauses become
 * longer, as each look is at every task. */
static int shut_down(hg_runtime *rt, const struct hg_tcb *self, int64_t deadline)
{
    int64_t pause = SHUTDOWN_LOOK_NS;
    uint64_t left = self != NULL ? 1 : 0;
    for (;;) {
        hg__cancel_all(&rt->sched);
        if (self != NULL)
            hg_yield(); /* those that only have to end do so at once */
        if (hg__sched_tasks(&rt->sched) <= left)
            return 0;
        int64_t now = hg__os_now();
        if (now >= deadline)
            return deadline == HG_NOW ? -EAGAIN : -ETIMEDOUT;
        int r = pause_shutdown(rt, self, deadline - now < pause ? deadline : now + pause);
        if (r != 0)
            return r;
        if (pause < SHUTDOWN_PAUSE_MAX)
            pause *= 2;
    }
}

int hg_runtime_shutdown(hg_runtime *rt, int64_t deadline)
{
    struct hg_tcb *self = hg__task_self();
    if (self == NULL || self->sched != &rt->sched)
        return shut_down(rt, NULL, deadline);
    struct hg_tcb *nobody = NULL;
    bool survives = hg_cas_acqrel(&rt->sched.survivor, &nobody, self);
    int r = shut_down(rt, self, deadline);
    if (survives)
        hg_store_rel(&rt->sched.survivor, NULL);
    return r;
}

int hg_post(hg_runtime *rt, void (*fn)(void *), void *arg)
{
    return hg__task_post(&rt->sched, fn, arg);
}

hg_runtime *hg_current(void)
{
    struct hg_tcb *t = hg__task_self();
    return t != NULL ? hg_container_of(t->sched, hg_runtime, sched) : NULL;
}

/* However the first task ends: deferred. */
static void main_ended(void *arg)
{
    hg_runtime *rt = arg;
    rt->main_result = hg__task_self()->result;
    hg_store_rel(&rt->sched.deadlock_report, 0u); /* tasks that still wait are ended, as they are */
    hg_store_sc(&rt->main_done, 1u);
    hg_add_acqrel(&rt->sched.bell, 1u);
    hg__os_wake(&rt->sched.bell, 1);
}

static void run_main(void *arg)
{
    hg_runtime *rt = arg;
    hg_defer_node ended;
    hg_defer(&ended, main_ended, rt);
    hg__task_self()->result = rt->main_task(rt->main_arg);
    hg_defer_run(&ended);
}

/* The thread of hg_run: until the first task has ended, it blocks the signals that tasks wait for
 * (signal.c). */
static void wait_for_main(hg_runtime *rt)
{
    struct hg_sched *s = &rt->sched;
    sigset_t before;
    hg__os_signals_block(0, &before);
    for (;;) {
        uint32_t seen = hg_load_acq(&s->bell);
        uint64_t wanted = hg_load_acq(&s->signals_wanted);
        if (wanted != hg_load_rlx(&s->signals_blocked)) {
            hg__os_signals_block(wanted, NULL);
            hg_store_rel(&s->signals_blocked, wanted);
        }
        if (hg_load_acq(&rt->main_done) != 0)
            break;
        hg__os_wait(&s->bell, seen, INT64_MAX);
    }
    hg__os_signals_restore(&before);
}

int hg_run(int (*main_task)(void *), void *arg, const hg_options *opt)
{
    hg_options own;
    if (opt == NULL) {
        char why[1000];
        hg_options_init(&own, sizeof own);
        if (hg_options_env(&own, why, sizeof why) != 0)
            hg__warn("%s", why);
        opt = &own;
    }
    hg_runtime *rt;
    hg__stack_report_install(); /* first: threads that start now get their alternate stacks */
    int err = hg_runtime_open(opt, &rt);
    if (err != 0)
        return err;
    rt->main_task = main_task;
    rt->main_arg = arg;
    hg_store_rel(&rt->sched.deadlock_report,
                 1u); /* there are no tasks yet, so no proc looks at it */
    rt->sched.hosted = true;
    err = hg_post(rt, run_main, rt);
    if (err == 0) {
        wait_for_main(rt);
        err = rt->main_result;
    }
    close_now(rt);
    return err;
}

/* ---- the collector's levers ---- */

void hg_collect(hg_runtime *rt) { hg__gc_wait(&rt->gc, hg__gc_request(&rt->gc)); }

void hg_collect_start(hg_runtime *rt) { hg__gc_request(&rt->gc); }

/* Changes the pacer's configuration and plans anew, also in a running cycle. */
static struct hg_pacer_config
configure(hg_runtime *rt, void (*change)(struct hg_pacer_config *, const void *), const void *value)
{
    struct hg_gc *g = &rt->gc;
    hg__lock(&g->pacer_lock);
    struct hg_pacer_config old = g->pacer.config, changed = old;
    change(&changed, value);
    hg__pacer_configure(&g->pacer, &changed);
    hg__unlock(&g->pacer_lock);
    hg__pace_replan(g);
    return old;
}

static void change_percent(struct hg_pacer_config *c, const void *value)
{
    c->gc_percent = *(const int *)value;
}
static void change_limit(struct hg_pacer_config *c, const void *value)
{
    c->memory_limit = *(const int64_t *)value;
}
static void change_policy(struct hg_pacer_config *c, const void *value)
{
    c->policy = *(const struct hg_policy_spec *)value;
}

int hg_set_gc_percent(hg_runtime *rt, int percent)
{
    return percent < -1 ? -EINVAL : configure(rt, change_percent, &percent).gc_percent;
}

int64_t hg_set_memory_limit(hg_runtime *rt, int64_t bytes)
{
    return bytes < 0 ? -EINVAL : configure(rt, change_limit, &bytes).memory_limit;
}

int hg_set_pacer(hg_runtime *rt, const char *policy)
{
    struct hg_policy_spec spec;
    char why[200];
    if (hg__policy_parse(policy, &spec, why, sizeof why) != 0)
        return -EINVAL;
    configure(rt, change_policy, &spec);
    return 0;
}

void hg_set_assist(hg_runtime *rt, bool on) { hg_store_rlx(&rt->gc.assist_on, on ? 1u : 0u); }

size_t hg_release_memory(hg_runtime *rt) { return hg__scavenge(rt->world.heap, SIZE_MAX); }

void hg_external_bytes(hg_runtime *rt, int64_t delta)
{
    hg_add_rlx(&rt->gc.external, delta);
    hg__pace_grew(&rt->gc, delta);
}

int hg_root_add(hg_runtime *rt, void *slot, size_t n, const hg_layout *layout)
{
    if (layout != HG_REFS && layout != HG_CONSERVATIVE)
        return -EINVAL;
    return hg__root_add(&rt->gc, slot, n);
}

int hg_objpool_new(hg_runtime *rt, const hg_objpool_attr *attr, hg_objpool **out)
{
    return hg__objpool_new(&rt->gc, attr, out);
}

int hg_root_remove(hg_runtime *rt, void *slot) { return hg__root_remove(&rt->gc, slot); }
