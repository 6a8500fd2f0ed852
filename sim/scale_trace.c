/* scale_trace.c: what a recorded trace says about a program, and a simulated program from it
 * (scale_trace.h).
 *
 * Figures are medians over the cycles that count: those that nobody forced, with a live heap from
 * half to twice the median one, so that a service's start is left out. Bytes allocated are summed
 * from one cycle's start to the next one's: what the heap grew by while the first marked, and from
 * its live heap to the next start. Both are of cycles with running numbers.
 *
 * The rate of marking is that of the collector which was recorded. A machine's rate is hedge's, of
 * which other collectors have a known share (scale_profile.c), so the trace of one collector tells
 * what another one would do on that machine; slices and the scan of long stacks follow in
 * proportion.
 *
 * The CPU time of requests is in hedge's lines, which print a ratio over the CPU time that the
 * program had. Go's have nothing but how long procs were there, busy or not.
 */
#include "sim/scale_trace.h"
#include "sim/memory.h"
#include "sim/sim.h"
#include "sim/stats.h"
#include "sim/text.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

#define LEAST_STACK 64 /* bytes: below, there cannot have been so many tasks */
#define MOST_NOISE  0.95

/* ---- what the cycles say ---- */

static double gc_ns(const struct sim_trace_cycle *c)
{
    return c->assist_ns + c->background_ns + c->idle_ns;
}

static double live_of(const struct sim_trace_cycle *c) { return c->forced ? (double)NAN : c->live; }
static double stack_of(const struct sim_trace_cycle *c) { return c->scan_stack; }
static double procs_of(const struct sim_trace_cycle *c) { return c->procs; }

static double share_of(const struct sim_trace_cycle *c)
{
    double scanned = c->scan_heap + c->scan_globals;
    return c->live > 0 && scanned >= 0 ? fmin(1, scanned / c->live) : (double)NAN;
}

static double rate_of(const struct sim_trace_cycle *c)
{
    return gc_ns(c) > 0 ? sim_trace_work(c) / gc_ns(c) : (double)NAN;
}

static bool counts(const struct sim_trace_cycle *c, double live)
{
    return !c->forced && c->live >= live / 2 && c->live <= live * 2;
}

/* Of one figure over the cycles that count: how many, in order, NaNs left out. */
static size_t collect(const struct sim_trace_process *p, double live,
                      double (*figure)(const struct sim_trace_cycle *), double *into)
{
    size_t n = 0;
    for (size_t i = 0; i < p->cycles; i++) {
        double v = figure(&p->cycle[i]);
        if ((isnan(live) || counts(&p->cycle[i], live)) && isfinite(v))
            into[n++] = v;
    }
    return n;
}

static double median_of(const struct sim_trace_process *p, double live,
                        double (*figure)(const struct sim_trace_cycle *))
{
    double *v = sim_alloc(p->cycles, sizeof *v);
    double median = sim_median(v, collect(p, live, figure, v));
    free(v);
    return median;
}

static double ratio_of(const struct sim_trace_cycle *c)
{
    return sim_trace_usable(c) && c->cons_mark > 0 ? c->cons_mark : (double)NAN;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Four fifths of a uniform distribution lie between its tenths. */
static double spread_of(const struct sim_trace_process *p, double live)
{
    double *v = sim_alloc(p->cycles, sizeof *v), spread = NAN;
    size_t n = collect(p, live, ratio_of, v);
    if (n >= 10) {
        qsort(v, n, sizeof *v, by_size);
        spread = (v[n - 1 - n / 10] - v[n / 10]) / (2 * 0.8 * sim_median(v, n));
    }
    free(v);
    return spread;
}

static double alloc_rate_of(const struct sim_trace_process *p, double live)
{
    double bytes = 0, seconds = 0;
    for (size_t i = 1; i < p->cycles; i++) {
        const struct sim_trace_cycle *before = &p->cycle[i - 1], *c = &p->cycle[i];
        double grown = c->heap_start - before->live + before->heap_end - before->heap_start;
        double passed = c->at_s - before->at_s;
        if (c->number != before->number + 1 || !counts(before, live) || !counts(c, live) ||
            !isfinite(grown) || !(passed > 0))
            continue;
        bytes += grown;
        seconds += passed;
    }
    return seconds > 0 && bytes > 0 ? bytes / seconds : (double)NAN;
}

static double ns_per_byte_of(const struct sim_trace_process *p, double live)
{
    double bytes = 0, ns = 0;
    for (size_t i = 0; i < p->cycles; i++) {
        const struct sim_trace_cycle *c = &p->cycle[i];
        double allocated = c->heap_end - c->heap_start;
        double took = allocated * gc_ns(c) / (c->cons_mark * sim_trace_work(c));
        if (c->source != SIM_TRACE_PRINTED || !counts(c, live) || !(took > 0) || !isfinite(took))
            continue;
        bytes += allocated;
        ns += took;
    }
    return bytes > 0 ? ns / bytes : (double)NAN;
}

void scale_trace_figures(const struct sim_trace_process *p, struct scale_recorded *rec)
{
    double live = median_of(p, NAN, live_of);
    memset(rec, 0, sizeof *rec);
    snprintf(rec->process, sizeof rec->process, "%.63s", p->name);
    rec->cycles = p->cycles;
    for (size_t i = 0; i < p->cycles; i++) {
        rec->counted += counts(&p->cycle[i], live);
        rec->hedge |= p->cycle[i].source == SIM_TRACE_PRINTED;
    }
    rec->live = live;
    rec->procs = median_of(p, live, procs_of);
    rec->gogc = sim_trace_gogc(p);
    rec->scan_share = median_of(p, live, share_of);
    rec->stack = median_of(p, live, stack_of);
    rec->mark_rate = median_of(p, live, rate_of);
    rec->alloc_rate = alloc_rate_of(p, live);
    rec->ns_per_byte = ns_per_byte_of(p, live);
    rec->ratio_spread = spread_of(p, live);
}

static int figures_of(const struct sim_trace *t, const char *path, const char *pid,
                      struct scale_recorded *rec, char *why, size_t room)
{
    char reason[300] = "";
    const struct sim_trace_process *p = sim_trace_find(t, pid, reason, sizeof reason);
    if (p == NULL) {
        snprintf(why, room, "%s: --pid%s%.60s: %s", path, pid != NULL ? " " : "",
                 pid != NULL ? pid : "", reason);
        return -1;
    }
    scale_trace_figures(p, rec);
    if (rec->live > 0 && rec->alloc_rate > 0)
        return 0;
    snprintf(why, room,
             "%s: %.60s: expected lines of gctrace about two cycles in a row at least: live heap "
             "and rate of allocation come from them",
             path, p->name);
    return -1;
}

int scale_trace_read(const char *path, const char *pid, struct scale_recorded *rec, char *why,
                     size_t room)
{
    struct sim_trace t;
    char reason[300];
    sim_trace_init(&t);
    int err = sim_trace_read_path(&t, path, false, why, room);
    if (err == 0 && sim_trace_finish(&t, reason, sizeof reason) != 0) {
        snprintf(why, room, "%s: %s", path, reason);
        err = -1;
    }
    if (err == 0)
        err = figures_of(&t, path, pid, rec, why, room);
    sim_trace_free(&t);
    return err;
}

/* ---- the simulated program ---- */

__attribute__((format(printf, 3, 4))) static void note(struct scale_options *opt,
                                                       const char *source, const char *format, ...)
{
    struct scale_note *n = &opt->note[opt->notes++];
    va_list args;
    va_start(args, format);
    n->source = source;
    vsnprintf(n->text, sizeof n->text, format, args);
    va_end(args);
}

static const char taken[] = "from it", assumed[] = "assumed";

/* Was it given, by the option itself or for each point of a sweep? Then a note says so. */
static bool given(struct scale_options *opt, bool there, const char *option)
{
    if (!there && !sim_sweep_has(&opt->load.sweep, option))
        return false;
    note(opt, "given", "--%s", option);
    return true;
}

static void apply_heap(struct scale_options *opt, const struct scale_recorded *rec)
{
    char a[32];
    if (!given(opt, !isnan(opt->live_heap), "live-heap")) {
        opt->live_heap = rec->live;
        note(opt, taken, "%s of live heap", text_bytes(rec->live, a));
    }
    if (given(opt, !isnan(opt->scan_share), "scan-share"))
        return;
    if (rec->scan_share >= 0) {
        opt->scan_share = rec->scan_share;
        note(opt, taken, "%.1f %% of it is scanned", 100 * rec->scan_share);
    } else {
        note(opt, assumed, "as much of it is scanned as of kv's store (no pacer lines)");
    }
}

/* The rate of marking, and what follows from it. */
static void apply_rate(struct scale_options *opt, const struct scale_recorded *rec)
{
    char a[32];
    double factor = rec->hedge ? 1 : scale_profile_find("go1.23")->mark_factor;
    if (given(opt, !isnan(opt->mark_rate), "mark-rate"))
        return;
    if (!(rec->mark_rate > 0)) {
        note(opt, assumed, "marking is as fast as on the machine above");
        return;
    }
    scale_set_mark_rate(opt, rec->mark_rate * opt->profile->mark_factor / factor);
    note(opt, taken, "%s scanned per second of the collector's CPU time",
         text_bytes(rec->mark_rate * 1e9, a));
    if (rec->hedge == opt->profile->go)
        note(opt, assumed, "%s marks %.2g times as fast", opt->profile->name,
             opt->profile->mark_factor / factor);
}

static void apply_stacks(struct scale_options *opt, const struct scale_recorded *rec)
{
    int conns = opt->trace_conns > 0 ? opt->trace_conns : opt->load.conns;
    double each = rec->stack / (2.0 * conns);
    if (given(opt, !isnan(opt->stack_bytes), "stack-bytes"))
        return;
    if (!(each >= LEAST_STACK)) {
        note(opt, assumed, "stacks of %.0f bytes%s", opt->machine.stack_bytes,
             isnan(each) ? "" : " (recorded with too few tasks to tell)");
        return;
    }
    scale_set_stack(opt, each);
    note(opt, taken, "stacks of %.0f bytes, two tasks for each of %d connections", each, conns);
}

static void apply_requests(struct scale_options *opt, const struct scale_recorded *rec)
{
    double rate = opt->trace_rate > 0 ? opt->trace_rate : opt->load.rate;
    char a[32], b[32];
    if (!given(opt, !isnan(opt->request_bytes), "request-bytes")) {
        opt->request_bytes = rec->alloc_rate / rate;
        note(opt, taken, "%s allocated per request: %s/s", text_bytes(opt->request_bytes, a),
             text_bytes(rec->alloc_rate, b));
        note(opt, opt->trace_rate > 0 ? "given" : assumed, "recorded at %s requests/s",
             text_count(rate, a));
    }
    if (given(opt, !isnan(opt->service_us), "service"))
        return;
    if (rec->ns_per_byte > 0) {
        opt->service_us = opt->request_bytes * rec->ns_per_byte / 1e3;
        note(opt, taken, "%.4g us of CPU time per request", opt->service_us);
    }
}

static void apply_pacing(struct scale_options *opt, const struct scale_recorded *rec)
{
    if (!given(opt, opt->load.gogc_given, "gogc")) {
        if (rec->gogc >= 1) {
            opt->load.gogc = (int)fmin(round(rec->gogc), 1e6);
            note(opt, taken, "GOGC %d", opt->load.gogc);
        } else {
            note(opt, assumed, "GOGC %d", opt->load.gogc);
        }
    }
    if (given(opt, !isnan(opt->noise_asked), "noise"))
        return;
    if (rec->ratio_spread >= 0) {
        opt->noise = fmin(rec->ratio_spread, MOST_NOISE);
        note(opt, taken, "noise of %.0f %% on marking: the spread of cons/mark", 100 * opt->noise);
    } else {
        note(opt, assumed, "no noise on marking (too few cycles with a ratio)");
    }
}

void scale_trace_apply(struct scale_options *opt, const struct scale_recorded *rec)
{
    opt->notes = 0;
    snprintf(opt->recorded, sizeof opt->recorded, "%.40s: %zu of %zu cycles count, %s, %.0f procs",
             rec->process, rec->counted, rec->cycles, rec->hedge ? "hedge" : "Go", rec->procs);
    apply_heap(opt, rec);
    apply_rate(opt, rec);
    apply_stacks(opt, rec);
    apply_requests(opt, rec);
    apply_pacing(opt, rec);
}

void scale_trace_print(FILE *out, const struct scale_options *opt)
{
    fprintf(out, "trace     %.70s\n", opt->recorded);
    for (int i = 0; i < opt->notes; i++)
        fprintf(out, "  %-8s%.69s\n", opt->note[i].source, opt->note[i].text);
}
