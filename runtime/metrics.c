/* metrics.c: all figures of a runtime under names: its own statistics (stats.c), then the counters
 * and gauges of the program (sync/counter.c). The names follow Go's runtime/metrics where there is
 * such a figure in Go: a path, a colon, the unit. */
#include "runtime/rt.h"
#include <errno.h>
#include <string.h>

/* A field of hg_stats; all but `procs` have 8 bytes. */
struct own {
    const char *name, *help;
    hg_metric_kind kind;
    size_t at;
};
/* clang-format off */
#define COUNTER(name, field, help) { name, help, HG_METRIC_COUNTER, offsetof(hg_stats, field) }
#define GAUGE(name, field, help)   { name, help, HG_METRIC_GAUGE, offsetof(hg_stats, field) }
/* clang-format on */

static const struct own table[] = {
    COUNTER("/gc/cycles/total:gc-cycles", cycles, "finished cycles"),
    COUNTER("/gc/cycles/forced:gc-cycles", forced_cycles, "of them, asked for by the program"),
    COUNTER("/gc/cycles/overshoot:gc-cycles", overshoot_cycles, "of them, ended above their goal"),
    COUNTER("/gc/heap/allocs:bytes", alloc_bytes, "allocated on the heap"),
    COUNTER("/gc/heap/allocs:objects", alloc_objects, "objects allocated on the heap"),
    GAUGE("/gc/heap/live:bytes", heap_marked_bytes, "live after the last cycle"),
    GAUGE("/gc/heap/now:bytes", heap_live_bytes, "that, and what was allocated since"),
    GAUGE("/gc/heap/goal:bytes", heap_goal_bytes, "heap that the running or next cycle aims at"),
    GAUGE("/gc/heap/trigger:bytes", heap_trigger_bytes, "heap at which the next cycle begins"),
    GAUGE("/gc/heap/peak:bytes", heap_peak_bytes, "largest heap at the end of a cycle"),
    COUNTER("/gc/cpu/background:nanoseconds", background_ns, "marking by procs between tasks"),
    COUNTER("/gc/cpu/idle:nanoseconds", idle_ns, "marking by procs without a task"),
    COUNTER("/gc/cpu/assist:nanoseconds", assist_ns, "marking by tasks that allocate"),
    COUNTER("/gc/cpu/sweep:nanoseconds", sweep_ns, "sweeping"),
    COUNTER("/gc/cpu/scan:nanoseconds", scan_ns, "scanning stacks before their tasks run"),
    COUNTER("/gc/assists:assists", assists, "times that a task was made to mark"),
    COUNTER("/gc/limiter:nanoseconds", limiter_ns, "time for which the limiter held GC back"),
    COUNTER("/gc/handshakes:handshakes", handshakes, "requests that all mutators answered"),
    GAUGE("/memory/heap/mapped:bytes", heap_mapped_bytes, "heap pages not given back"),
    GAUGE("/memory/heap/free:bytes", heap_free_bytes, "of them, free"),
    GAUGE("/memory/metadata:bytes", meta_bytes, "the runtime's own data"),
    GAUGE("/memory/stacks:bytes", stack_bytes, "stacks of tasks"),
    COUNTER("/sched/tasks/started:tasks", tasks_started, "tasks started"),
    GAUGE("/sched/tasks/now:tasks", tasks_now, "tasks that exist"),
    COUNTER("/sched/switches:switches", switches, "times that a proc took up a task"),
    COUNTER("/sched/steals:tasks", steals, "tasks taken from another proc"),
    GAUGE("/sched/procs:procs", procs, "tasks that run at once"),
};
#define OWN (sizeof table / sizeof *table)

static hg_metric own_metric(const hg_stats *st, const struct own *o)
{
    hg_metric m = {o->name, o->help, o->kind, 0};
    if (o->at == offsetof(hg_stats, procs))
        m.value = st->procs;
    else
        memcpy(&m.value, (const char *)st + o->at, sizeof m.value);
    return m;
}

/* ---- counters and gauges of programs ---- */

static bool name_is_own(const char *name)
{
    static const char *const prefix[] = {"/gc/", "/memory/", "/sched/"};
    for (unsigned i = 0; i < HG_COUNT_OF(prefix); i++)
        if (strncmp(name, prefix[i], strlen(prefix[i])) == 0)
            return true;
    return false;
}

int hg_counter_new(hg_runtime *rt, const char *name, hg_counter **out)
{
    if (name_is_own(name))
        return -EINVAL;
    return hg__counter_new(&rt->counters, name, HG_METRIC_COUNTER, out);
}

int hg_gauge_new(hg_runtime *rt, const char *name, hg_gauge **out)
{
    hg_counter *level;
    if (name_is_own(name))
        return -EINVAL;
    int err = hg__counter_new(&rt->counters, name, HG_METRIC_GAUGE, &level);
    if (err == 0)
        *out = hg__gauge_of(level);
    return err;
}

/* ---- all of them ---- */

struct each {
    void (*fn)(void *arg, const hg_metric *m);
    void *arg;
};

static bool tell(void *arg, const hg_metric *m)
{
    struct each *e = arg;
    e->fn(e->arg, m);
    return true;
}

void hg_metrics_each(hg_runtime *rt, void (*fn)(void *arg, const hg_metric *m), void *arg)
{
    struct each e = {fn, arg};
    hg_stats st = {.size = sizeof st};
    hg_stats_read(rt, &st);
    for (size_t i = 0; i < OWN; i++) {
        hg_metric m = own_metric(&st, &table[i]);
        fn(arg, &m);
    }
    hg__counters_each(&rt->counters, tell, &e);
}

struct wanted {
    const char *name;
    hg_metric *out;
    bool found;
};

static bool is_wanted(void *arg, const hg_metric *m)
{
    struct wanted *w = arg;
    if (strcmp(m->name, w->name) != 0)
        return true;
    *w->out = *m;
    w->out->name = w->name;
    w->found = true;
    return false;
}

int hg_metric_read(hg_runtime *rt, const char *name, hg_metric *out)
{
    struct wanted w = {name, out, false};
    for (size_t i = 0; i < OWN; i++) {
        if (strcmp(table[i].name, name) != 0)
            continue;
        hg_stats st = {.size = sizeof st};
        hg_stats_read(rt, &st);
        *out = own_metric(&st, &table[i]);
        out->name = name;
        return 0;
    }
    hg__counters_each(&rt->counters, is_wanted, &w);
    return w.found ? 0 : -ENOENT;
}
