/* pacer_trace.c: model replay: the loads of a recorded trace (trace_read.h).
 *
 * A recorded cycle becomes a load if it was not forced and the log gives its ratio, its scan work
 * and its live heap:
 *
 *   rate / speed   the recorded cons/mark; speed = scan work / GC CPU time, or 1 byte per ns where
 *                  the log has no times
 *   live, scan     the live heap, and the share of it that was scanned: if the heap of the loop is
 *                  smaller than the recorded one, so is the work
 *   stack          stacks and globals: both are scanned, and both are in the goal
 *   demand         what marking left of the CPUs, if there was idle marking; else all of them
 *   calm           a log does not say how fast a program allocated before a trigger: as fast as in
 *                  the cycle before, so that a policy that watches the calm learns nothing from it
 *
 * Seed s begins at load s mod n and goes round, so that neighbouring seeds begin at different ones.
 */
#include "sim/memory.h"
#include "sim/pacer.h"
#include "sim/trace_read.h"
#include <math.h>
#include <string.h>

#define LEAST_DEMAND 0.02

static void next_recorded(struct pacer_source *s, struct pacer_load *out)
{
    const struct pacer_trace *t = s->data;
    *out = t->load[((uint64_t)s->state + (uint64_t)s->cycle) % t->cycles];
}

const struct pacer_model pacer_model_replay = {"replay", "a recorded trace", next_recorded, 0};

void pacer_trace_source(struct pacer_source *s, const struct pacer_trace *t, uint64_t seed)
{
    *s = (struct pacer_source){
        .next = next_recorded, .data = t, .state = (double)(seed % t->cycles)};
}

static double gc_ns(const struct sim_trace_cycle *c)
{
    return c->assist_ns + c->background_ns + c->idle_ns;
}

static double demand(const struct sim_trace_cycle *c)
{
    double there = c->procs * c->wall_ns;
    if (!(there > 0) || !(c->idle_ns > 0))
        return 1;
    return fmin(fmax(1 - (c->background_ns + c->idle_ns) / there, LEAST_DEMAND), 1);
}

static bool load_of(const struct sim_trace_cycle *c, struct pacer_load *out)
{
    double work = sim_trace_work(c);
    if (!sim_trace_usable(c) || !(c->cons_mark > 0) || !(work > 0) || !isfinite(c->live))
        return false;
    double speed = gc_ns(c) > 0 ? work / gc_ns(c) : 1;
    double live = fmax(c->live, c->scan_heap); /* live heaps are rounded down to MB */
    *out = (struct pacer_load){.change_at = 1,
                               .rate = c->cons_mark * speed,
                               .speed = speed,
                               .live = live,
                               .scan = live > 0 ? c->scan_heap / live : 0,
                               .stack = c->scan_stack + c->scan_globals,
                               .demand = demand(c),
                               .level = c->cons_mark};
    return true;
}

static int make_loads(struct pacer_trace *t, const struct sim_trace_process *p, const char *path,
                      char *why, size_t room)
{
    t->recorded = p->cycles;
    t->load = sim_alloc(p->cycles, sizeof *t->load);
    for (size_t i = 0; i < p->cycles; i++) {
        if (!load_of(&p->cycle[i], &t->load[t->cycles]))
            continue;
        t->cycles++;
        t->assumed += p->cycle[i].source == SIM_TRACE_ASSUMED;
    }
    if (t->cycles == 0) {
        snprintf(why, room,
                 "%.120s: expected cycles with a ratio, scan work and a live heap, and %.80s has "
                 "none in %zu: record with GODEBUG=gctrace=1,gcpacertrace=1, or give --assume "
                 "scan=BYTES for a what-if",
                 path, p->name, p->cycles);
        return -1;
    }
    for (size_t i = 0; i < t->cycles; i++) {
        double before = t->load[(i + t->cycles - 1) % t->cycles].rate;
        t->load[i].calm_before = t->load[i].calm_after = before;
    }
    t->process = sim_alloc(strlen(p->name) + 1, 1);
    strcpy(t->process, p->name);
    return 0;
}

int pacer_trace_read(struct pacer_trace *t, const char *path, const struct sim_trace_how *how,
                     char *why, size_t room)
{
    char names[240] = "";
    struct sim_trace trace;
    const struct sim_trace_process *p = NULL;
    memset(t, 0, sizeof *t);
    sim_trace_init(&trace);
    if (sim_trace_read_path(&trace, path, how->lenient, why, room) == 0 &&
        sim_trace_finish(&trace, why, room) == 0) {
        if (!isnan(how->assume_scan))
            sim_trace_assume(&trace, how->assume_scan);
        t->broken = trace.broken;
        p = sim_trace_find(&trace, how->pid, names, sizeof names);
        if (p == NULL)
            snprintf(why, room, "%.100s: with --pid NAME: %s", path, names);
    }
    int err = p != NULL ? make_loads(t, p, path, why, room) : -1;
    sim_trace_free(&trace);
    if (err != 0)
        pacer_trace_free(t);
    return err;
}

void pacer_trace_free(struct pacer_trace *t)
{
    free(t->process);
    free(t->load);
    memset(t, 0, sizeof *t);
}
