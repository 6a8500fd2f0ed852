/* replay_text.c: what `hedge-sim replay` prints: what was read, each process summed up, and the
 * policies. At most 80 columns. */
#include "sim/memory.h"
#include "sim/replay.h"
#include "sim/text.h"
#include <math.h>
#include <string.h>

static double figure_at(const struct sim_trace_process *p, const char *name, double q)
{
    for (int i = 0; i < REPLAY_FIGURES; i++)
        if (strcmp(replay_figure[i].name, name) == 0)
            return replay_quantile(p, replay_figure[i].of, q);
    return NAN;
}

static const char *short_number(double v, const char *format, double unit, char *buffer)
{
    if (isnan(v))
        return "-";
    snprintf(buffer, 32, format, v / unit);
    return buffer;
}

static void print_input(FILE *out, const struct replay *r)
{
    const struct sim_trace *t = &r->trace;
    fprintf(out, "read      %zu lines of %d file%s: %zu of gctrace, %zu of gcpacertrace\n",
            t->lines, r->opt.files, r->opt.files == 1 ? "" : "s", t->gc_lines, t->pacer_lines);
    fprintf(out, "          skipped %zu", t->skipped);
    if (t->broken > 0)
        fprintf(out, " (%zu of them broken lines of a trace)", t->broken);
    if (t->other_lines > 0)
        fprintf(out, "; %zu of the pacer about something else", t->other_lines);
    fprintf(out, "\nprocesses %zu", t->processes);
    for (size_t i = 0; i < t->processes && i < 8; i++)
        fprintf(out, "%s %.48s (%zu cycles)",
                i % 2 == 0 && i > 0 ? ",\n         "
                : i > 0             ? ","
                                    : ":",
                t->process[i].name, t->process[i].cycles);
    fprintf(out, "%s\n", t->processes > 8 ? ", ..." : "");
}

static void print_row(FILE *out, const struct sim_trace_process *p, const char *label,
                      const char *name, const char *format, double unit)
{
    char a[32], b[32], c[32], d[32];
    fprintf(out, "%-25s %12s %12s %12s %12s\n", label,
            short_number(figure_at(p, name, 0.1), format, unit, a),
            short_number(figure_at(p, name, 0.5), format, unit, b),
            short_number(figure_at(p, name, 0.9), format, unit, c),
            short_number(figure_at(p, name, 1), format, unit, d));
}

static double assist_share(const struct sim_trace_process *p)
{
    double assist = 0, all = 0;
    for (size_t i = 0; i < p->cycles; i++) {
        const struct sim_trace_cycle *c = &p->cycle[i];
        double sum = c->assist_ns + c->background_ns + c->idle_ns;
        if (c->forced || isnan(sum))
            continue;
        assist += c->assist_ns;
        all += sum;
    }
    return all > 0 ? 100 * assist / all : NAN;
}

/* The source that most ratios of a process have. */
static enum sim_trace_source main_source(const struct sim_trace_process *p)
{
    size_t n[SIM_TRACE_ASSUMED + 1] = {0};
    enum sim_trace_source best = SIM_TRACE_NONE;
    for (size_t i = 0; i < p->cycles; i++)
        n[p->cycle[i].source]++;
    for (int s = SIM_TRACE_PRINTED; s <= SIM_TRACE_ASSUMED; s++)
        if (n[s] > 0 && (best == SIM_TRACE_NONE || n[s] > n[best]))
            best = (enum sim_trace_source)s;
    return best;
}

static void print_cycles(FILE *out, const struct replay_result *r)
{
    const struct sim_trace_process *p = r->process;
    char a[32], b[32];
    fprintf(out, "\n%s: %zu cycles", p->name, p->cycles);
    if (r->forced > 0)
        fprintf(out, ", %zu of them forced and left out below", r->forced);
    if (p->missing > 0)
        fprintf(out, "; %zu are not in the log", p->missing);
    fprintf(out, "\n%-25s %12s %12s %12s %12s\n", "", "p10", "median", "p90", "max");
    print_row(out, p, "live heap, MiB", "live", "%.1f", 1048576);
    print_row(out, p, "heap at the end, MiB", "heap_at_end", "%.1f", 1048576);
    print_row(out, p, "goal, MiB", "goal", "%.1f", 1048576);
    print_row(out, p, "scanned heap, MiB", "scanned_heap", "%.2f", 1048576);
    print_row(out, p, "scanned stacks, KiB", "scanned_stack", "%.1f", 1024);
    print_row(out, p, "marking, ms", "mark_ms", "%.2f", 1);
    print_row(out, p, "assist, CPU ms", "assist_ms", "%.2f", 1);
    print_row(out, p, "cons/mark", "cons_mark", "%.3f", 1);
    fprintf(out, "assist is %s %% of GC CPU; GOGC about %s; cons/mark from: %s\n",
            short_number(assist_share(p), "%.1f", 1, a), short_number(r->gogc, "%.0f", 1, b),
            replay_source_text(main_source(p)));
}

static void print_verdicts(FILE *out, const struct replay_result *r)
{
    char a[32], b[32], c[32], d[32], e[32];
    if (r->verdicts == 0) {
        fputs("policies  ", out);
        text_wrap(out, 10,
                  r->paced > 0
                      ? "too few cycles with a pacer's line to compare policies"
                      : "not asked: the log has no gcpacertrace lines, and live heaps are not scan "
                        "work. Record with GODEBUG=gctrace=1,gcpacertrace=1, or give --assume "
                        "scan=BYTES for a what-if.");
        return;
    }
    fprintf(out, "\n%-16s %7s %8s %9s %11s %11s %10s\n", "policy", "cycles", "late, %", "short, %",
            "worst by, %", "est./meas.", "unused, %");
    for (int i = 0; i < r->verdicts; i++) {
        const struct replay_verdict *v = &r->verdict[i];
        if (v->judged > 0)
            fprintf(out, "%-16.16s %7zu %8s %9s %11s %11s %10s\n", v->policy, v->judged,
                    short_number(v->late_share, "%.1f", 0.01, a),
                    short_number(v->short_share, "%.1f", 0.01, b),
                    short_number(v->short_worst, "%.0f", 0.01, c),
                    short_number(v->early, "%.2f", 1, d), short_number(v->unused, "%.1f", 0.01, e));
    }
}

void replay_print(FILE *out, const struct replay *r)
{
    bool verdicts = false, assumed = false;
    print_input(out, r);
    for (size_t i = 0; i < r->results; i++) {
        print_cycles(out, &r->result[i]);
        print_verdicts(out, &r->result[i]);
        verdicts |= r->result[i].verdicts > 0;
        assumed |= main_source(r->result[i].process) == SIM_TRACE_ASSUMED;
    }
    if (verdicts) {
        fputc('\n', out);
        text_wrap(
            out, 0,
            "late: the estimate was below what the cycle then measured. short: so was the "
            "runway planned with it; marking would have needed assist. unused: of the runway, "
            "over goal - live heap. A what-if with recorded ratios: it compares policies.");
    }
    if (assumed)
        text_wrap(out, 0,
                  "note: scan work was assumed, and sizes are rounded to MB: these ratios may be "
                  "off several times.");
}
