/* stats.c: reading the counters: sums over procs, without stopping anyone. A sum may be a moment
 * old. */
#include "runtime/rt.h"
#include <string.h>

static void sum_mutators(hg_runtime *rt, hg_stats *st)
{
    struct hg_world *w = &rt->world;
    hg__lock(&w->lock);
    for (struct hg_list *l = w->mutators.next; l != &w->mutators; l = l->next) {
        struct hg_mut_stats *s = &hg_container_of(l, struct hg_mutator, link)->stats;
        st->alloc_bytes += hg_load_rlx(&s->alloc_bytes);
        st->alloc_objects += hg_load_rlx(&s->alloc_slots);
        st->background_ns += hg_load_rlx(&s->background_ns);
        st->idle_ns += hg_load_rlx(&s->idle_ns);
        st->assist_ns += hg_load_rlx(&s->assist_ns);
        st->sweep_ns += hg_load_rlx(&s->sweep_ns);
        st->scan_ns += hg_load_rlx(&s->scan_ns);
        st->assists += hg_load_rlx(&s->assists);
        st->assist_waits += hg_load_rlx(&s->assist_waits);
        int64_t longest = hg_load_rlx(&s->longest_assist_ns);
        if (longest > st->longest_assist_ns)
            st->longest_assist_ns = longest;
    }
    hg__unlock(&w->lock);
}

static void sum_procs(hg_runtime *rt, hg_stats *st)
{
    for (int i = 0; i < rt->sched.nprocs; i++) {
        struct hg_proc *p = rt->sched.procs[i];
        st->tasks_started += hg_load_rlx(&p->started);
        st->switches += hg_load_rlx(&p->switches);
        st->steals += hg_load_rlx(&p->steals);
    }
}

static void read_cycles(struct hg_gc *g, hg_stats *st)
{
    hg__lock(&g->pacer_lock);
    st->heap_marked_bytes = (uint64_t)g->pacer.last.marked;
    st->cycles = g->cycle_count;
    st->forced_cycles = g->forced_count;
    st->overshoot_cycles = g->overshoot_count;
    st->worst_over_goal = g->worst_over_goal;
    st->mark_wall_ns = g->mark_wall;
    st->cycle_wall_ns = g->cycle_wall;
    st->heap_peak_bytes = (uint64_t)g->peak;
    st->limiter_ns = g->limiter_ns;
    hg__unlock(&g->pacer_lock);
}

void hg_stats_read(hg_runtime *rt, hg_stats *out)
{
    hg_stats st;
    struct hg_gc *g = &rt->gc;
    struct hg_heap *h = rt->world.heap;
    memset(&st, 0, sizeof st);
    size_t size = out->size < sizeof st ? out->size : sizeof st;
    st.size = size;
    sum_mutators(rt, &st);
    sum_procs(rt, &st);
    read_cycles(g, &st);
    int64_t live = hg_load_rlx(&g->heap_live);
    st.heap_live_bytes = live > 0 ? (uint64_t)live : 0;
    st.heap_goal_bytes = (uint64_t)hg_load_rlx(&g->goal);
    st.heap_trigger_bytes = (uint64_t)hg_load_rlx(&g->trigger);
    st.heap_mapped_bytes = (uint64_t)hg_load_rlx(&h->mapped_bytes);
    st.heap_free_bytes = (uint64_t)hg_load_rlx(&h->free_bytes);
    st.meta_bytes = hg__meta_bytes(rt->world.meta);
    st.stack_bytes = (uint64_t)hg_load_rlx(&rt->sched.stack_bytes_used);
    st.handshakes = hg_load_rlx(&rt->world.handshake_count);
    st.tasks_now = hg__sched_tasks(&rt->sched);
    st.timers_now = hg__timers_armed(&rt->sched);
    st.procs = rt->sched.nprocs;
    memcpy(out, &st, size);
}

static const hg_histogram *histogram_of(const struct hg_mutator *m, enum hg_histogram_id which)
{
    switch (which) {
    case HG_HIST_HOLD:
        return m->stats.hold;
    case HG_HIST_ASSIST:
        return m->stats.assist;
    case HG_HIST_RUNQ:
        return m->stats.runq;
    case HG_HIST_HANDSHAKE:
    case HG_HIST_COUNT:
        break;
    }
    return NULL;
}

void hg_stats_histogram(hg_runtime *rt, enum hg_histogram_id which, hg_histogram *out)
{
    struct hg_world *w = &rt->world;
    hg_histogram_reset(out);
    hg__lock(&w->lock);
    if (which == HG_HIST_HANDSHAKE)
        hg_histogram_merge(out, w->handshakes);
    else
        for (struct hg_list *l = w->mutators.next; l != &w->mutators; l = l->next) {
            const hg_histogram *h =
                histogram_of(hg_container_of(l, struct hg_mutator, link), which);
            if (h != NULL)
                hg_histogram_merge(out, h);
        }
    hg__unlock(&w->lock);
}

int hg_stats_cycles(hg_runtime *rt, hg_cycle *out, int n)
{
    struct hg_gc *g = &rt->gc;
    hg__lock(&g->pacer_lock);
    uint64_t have = g->cycle_count < HG_CYCLES_KEPT ? g->cycle_count : HG_CYCLES_KEPT;
    int give = n < 0 ? 0 : (uint64_t)n < have ? n : (int)have;
    for (int i = 0; i < give; i++)
        out[i] = g->cycles[(g->cycle_count - 1 - (uint64_t)i) % HG_CYCLES_KEPT];
    hg__unlock(&g->pacer_lock);
    return give;
}
