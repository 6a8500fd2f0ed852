/* kv_report.c: what a comparison prints. Figures are rows and policies are columns, so that
 * everything fits 80 columns; more than PER_BLOCK policies make further blocks below. Output only:
 * every number comes from kv_summary.c. */
#include "sim/kv.h"
#include "sim/memory.h"
#include "sim/stats.h"
#include "sim/text.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

#define LABEL     19
#define COLUMN    15
#define HALF      7  /* a column of the blame table: two to a policy */
#define PER_BLOCK 4  /* LABEL + PER_BLOCK * COLUMN < 80 */
#define WARNINGS  12 /* lines about single runs; more are counted */

/* ---- header ---- */

/* "8", or "4 to 12". */
static char *depth_text(const struct kv_options *opt, char *buffer)
{
    int least = kv_stack_frames_least(opt), most = kv_stack_frames_most(opt);
    snprintf(buffer, 32, least < most ? "%d to %d" : "%d", least, most);
    return buffer;
}

void kv_report_header(FILE *out, const struct kv_options *opt, const struct sim_machine *m,
                      const char *skipped)
{
    char a[32], b[32], c[32], text[32];
    fprintf(out, "hedge-sim kv, commit %.50s\n", sim_commit());
    fprintf(out, "machine   %d CPUs, %.1f GiB, %.50s\n", m->cpus,
            (double)m->memory_bytes / 1073741824.0, m->kernel);
    fprintf(out, "          %.48s, governor %.15s\n", m->cpu[0] != 0 ? m->cpu : "CPU unknown",
            m->governor);
    fprintf(out, "load      %s connections, %s tasks, %s op/s Poisson", text_count(opt->conns, a),
            text_count(2.0 * opt->conns, b), text_count(opt->rate, c));
    if (opt->net)
        fprintf(out, ",\n          over TCP on 127.0.0.1");
    if (opt->burst_us > 0)
        fprintf(out, ",\n          put off to multiples of %g us", opt->burst_us);
    fprintf(out, "\n          %d %% reads; %d garbage nodes", opt->read_percent,
            opt->garbage_nodes);
    if (opt->garbage_bytes > 0)
        fprintf(out, " and %s bytes,\n          ", text_count(opt->garbage_bytes, a));
    fprintf(out, "%s%s of garbage per operation\n", opt->garbage_bytes > 0 ? "" : ", ",
            text_bytes(kv_garbage_per_op(opt), text));
    fprintf(out, "store     %s keys of %s bytes, %d nodes each\n", text_count(opt->keys, a),
            text_count(opt->value_bytes, b), KV_ENTRY_NODES);
    fprintf(out, "runtime   GOGC %s, procs %s; tasks park %s frames deep\n",
            opt->gogc < 0 ? "off" : text_count(opt->gogc, a),
            opt->procs < 0 ? "all" : text_count(opt->procs, b), depth_text(opt, c));
    if (opt->limit != INT64_MAX)
        fprintf(out, "          memory limit %s\n", text_bytes((double)opt->limit, a));
    int runs = opt->policies * opt->repetitions;
    double each = opt->warmup_s + opt->duration_s + 2;
    fprintf(out, "policies ");
    for (int i = 0; i < opt->policies; i++)
        fprintf(out, "%s %s", i == 0 ? "" : i % 5 == 0 ? ",\n         " : ",", opt->policy[i].name);
    fprintf(out, "\nruns      %d of each, %g s after %g s of warm-up\n", opt->repetitions,
            opt->duration_s, opt->warmup_s);
    fprintf(out, "          seed %llu; about %s in all\n", (unsigned long long)opt->seed,
            text_duration(runs * each, text));
    if (opt->policies > 1 && opt->repetitions < SIM_FEWEST_FOR_INTERVAL)
        fprintf(out, "          (fewer than %d give no 95 %% interval)\n", SIM_FEWEST_FOR_INTERVAL);
    if (skipped[0] != 0) {
        fprintf(out, "note      ");
        text_wrap(out, 10, skipped);
    }
    kv_report_runs_heading(out);
}

void kv_report_runs_heading(FILE *out)
{
    fprintf(out, "\n%-14s rep. %9s %9s %9s %9s %9s %7s\n", "latency, ms", "p50", "p99", "p99.9",
            "max", "op/s", "cycles");
}

/* p99.9 of one run, or that it rests on too few cycles. */
static const char *p999_text(bool gc, double cycles, double ns, char *buffer)
{
    if (gc && cycles < KV_FEWEST_CYCLES)
        return "too few";
    return text_ms(ns, buffer);
}

void kv_report_run(FILE *out, const struct kv_options *opt, const struct kv_result *r)
{
    char p50[32], p99[32], p999[32], max[32], rate[32];
    const double *m = r->metric;
    fprintf(out, "%-14s %2d/%-2d %8s %9s %9s %9s %9s %7.0f%s\n", r->policy, r->repetition,
            opt->repetitions, text_ms(m[KV_P50], p50), text_ms(m[KV_P99], p99),
            p999_text(r->gc, m[KV_CYCLES], m[KV_P999], p999), text_ms(m[KV_MAX], max),
            text_count(m[KV_ACHIEVED_RATE], rate), m[KV_CYCLES], r->interrupted ? " *" : "");
    fflush(out);
}

/* ---- table ---- */

enum unit { UNIT_MS, UNIT_US, UNIT_COUNT, UNIT_PERCENT, UNIT_MIB, UNIT_RATIO };

struct line {
    const char *label;
    enum kv_metric metric;
    enum unit unit;
    bool largest; /* of all repetitions, instead of their median */
    bool gc_only; /* means nothing for the floor */
};

static const struct line lines[] = {
    {"latency, ms     p50", KV_P50, UNIT_MS, false, false},
    {"                p90", KV_P90, UNIT_MS, false, false},
    {"                p99", KV_P99, UNIT_MS, false, false},
    {"              p99.9", KV_P999, UNIT_MS, false, false},
    {"                max", KV_MAX, UNIT_MS, true, false},
    {"achieved, op/s", KV_ACHIEVED_RATE, UNIT_COUNT, false, false},
    {"collections", KV_CYCLES, UNIT_COUNT, false, true},
    {"GC CPU, % of procs", KV_GC_CPU_SHARE, UNIT_PERCENT, false, true},
    {"assist, % of GC CPU", KV_ASSIST_SHARE, UNIT_PERCENT, false, true},
    {"longest assist, us", KV_LONGEST_ASSIST, UNIT_US, true, true},
    {"hold, us        p50", KV_HOLD_P50, UNIT_US, false, true},
    {"                p99", KV_HOLD_P99, UNIT_US, false, true},
    {"              p99.9", KV_HOLD_P999, UNIT_US, false, true},
    {"                max", KV_HOLD_MAX, UNIT_US, true, true},
    {"live heap, MiB", KV_LIVE_HEAP, UNIT_MIB, false, false},
    {"peak heap, MiB", KV_PEAK_HEAP, UNIT_MIB, true, false},
    {"peak heap over goal", KV_PEAK_OVER_GOAL, UNIT_RATIO, true, true},
};

static const char *value_text(double v, enum unit unit, char *buffer)
{
    if (isnan(v))
        return "-";
    switch (unit) {
    case UNIT_MS:
        return text_ms(v, buffer);
    case UNIT_US:
        snprintf(buffer, 32, v < 99950 ? "%.1f" : "%.0f", v / 1e3);
        break;
    case UNIT_COUNT:
        return text_count(v, buffer);
    case UNIT_PERCENT:
        snprintf(buffer, 32, "%.2f", 100 * v);
        break;
    case UNIT_MIB:
        snprintf(buffer, 32, "%.1f", v / 1048576.0);
        break;
    case UNIT_RATIO:
        snprintf(buffer, 32, "%.3f", v);
        break;
    }
    return buffer;
}

static const char *cell_text(const struct kv_policy_summary *p, const struct line *l, char *buffer)
{
    if (l->gc_only && !p->gc)
        return "-";
    if (l->metric == KV_P999 && p->few_cycles)
        return "too few cycles";
    return value_text(l->largest ? p->most[l->metric] : p->median[l->metric], l->unit, buffer);
}

/* "2.31..2.55", or "-" */
static const char *range_text(double low, double high, char *buffer)
{
    char a[32], b[32];
    if (isnan(low) || isnan(high))
        return "-";
    snprintf(buffer, 64, "%s..%s", text_ms(low, a), text_ms(high, b));
    return buffer;
}

static void table_block(FILE *out, const struct kv_policy_summary *p, int n, bool repeated)
{
    char buffer[64];
    fprintf(out, "\n%-*s", LABEL, repeated ? "median; max: most" : "");
    for (int i = 0; i < n; i++)
        fprintf(out, "%*.13s", COLUMN, p[i].policy);
    fputc('\n', out);
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
        fprintf(out, "%-*s", LABEL, lines[k].label);
        for (int i = 0; i < n; i++)
            fprintf(out, "%*s", COLUMN, cell_text(&p[i], &lines[k], buffer));
        fputc('\n', out);
        if (lines[k].metric != KV_P99)
            continue;
        fprintf(out, "%-*s", LABEL, "   p99 within a run");
        for (int i = 0; i < n; i++)
            fprintf(out, "%*s", COLUMN, range_text(p[i].p99_low, p[i].p99_high, buffer));
        fputc('\n', out);
        if (!repeated)
            continue;
        fprintf(out, "%-*s", LABEL, "    p99 of all runs");
        for (int i = 0; i < n; i++)
            fprintf(out, "%*s", COLUMN, range_text(p[i].least[KV_P99], p[i].most[KV_P99], buffer));
        fputc('\n', out);
    }
}

void kv_report_table(FILE *out, const struct kv_summary *s)
{
    bool repeated = false;
    for (int i = 0; i < s->policies; i++)
        repeated |= s->policy[i].runs > 1;
    for (int i = 0; i < s->policies; i += PER_BLOCK)
        table_block(out, &s->policy[i], s->policies - i < PER_BLOCK ? s->policies - i : PER_BLOCK,
                    repeated);
}

/* ---- comparison ---- */

static void compare_line(FILE *out, const struct kv_runs *runs, const struct kv_policy_summary *p,
                         const struct kv_policy_summary *ref, enum kv_metric m, const char *label)
{
    double *a = sim_alloc((size_t)runs->n, sizeof *a), *b = sim_alloc((size_t)runs->n, sizeof *b);
    struct sim_ratio r = sim_compare(a, b, kv_pairs(runs, p->policy, ref->policy, m, a, b));
    free(a);
    free(b);
    char interval[32] = "-", above[32] = "-", ratio[32] = "-";
    if (!isnan(r.low))
        snprintf(interval, sizeof interval, "%.3g .. %.3g", r.low, r.high);
    if (r.pairs > 0) {
        snprintf(above, sizeof above, "%+.3f", r.above / 1e6);
        snprintf(ratio, sizeof ratio, "%.3g", r.ratio);
    }
    if (m == KV_P999 && (p->few_cycles || ref->few_cycles))
        fprintf(out, "%-14s %-6s too few cycles\n", p->policy, label);
    else
        fprintf(out, "%-14s %-6s %7s %16s %10s   %s\n", p->policy, label, ratio, interval, above,
                sim_verdict_text(r.verdict));
}

void kv_report_comparison(FILE *out, const struct kv_runs *runs, const struct kv_summary *s)
{
    if (s->reference < 0)
        return;
    const struct kv_policy_summary *ref = &s->policy[s->reference];
    fprintf(out, "\nAgainst %s%s, ratios paired by repetition:\n", ref->policy,
            ref->gc ? " (no floor ran)" : " (the floor)");
    fprintf(out, "%-14s %-6s %7s %16s %10s   %s\n", "", "", "ratio", "95 % interval", "above, ms",
            "verdict");
    for (int i = 0; i < s->policies; i++) {
        if (i == s->reference)
            continue;
        compare_line(out, runs, &s->policy[i], ref, KV_P50, "p50");
        compare_line(out, runs, &s->policy[i], ref, KV_P99, "p99");
        compare_line(out, runs, &s->policy[i], ref, KV_P999, "p99.9");
    }
    if (ref->runs < SIM_FEWEST_FOR_INTERVAL)
        fprintf(out, "too few: fewer than %d repetitions give no 95 %% interval.\n",
                SIM_FEWEST_FOR_INTERVAL);
}

/* ---- blame ---- */

static double total_ns(const struct kv_blame blame[2])
{
    double sum = 0;
    for (int in = 0; in < 2; in++)
        for (int k = 0; k < KV_PARTS; k++)
            sum += blame[in].ns[k];
    return sum;
}

static double mean_ms(const struct kv_blame *b)
{
    double sum = 0;
    for (int k = 0; k < KV_PARTS; k++)
        sum += b->ns[k];
    return b->requests > 0 ? sum / b->requests / 1e6 : 0;
}

/* One line of shares of the policies' whole slow time, inside and outside of cycles: a part's, or
 * (KV_PARTS) of what was spent behind earlier requests, which is in the parts as well. */
static void blame_line(FILE *out, const char *label, const struct kv_policy_summary *p, int n,
                       int part)
{
    fprintf(out, "\n%-*s", LABEL, label);
    for (int i = 0; i < n; i++) {
        double all = total_ns(p[i].blame);
        for (int in = 1; in >= 0; in--) {
            const struct kv_blame *b = &p[i].blame[in];
            double ns = part < KV_PARTS ? b->ns[part] : b->behind_ns;
            fprintf(out, "%*.1f", HALF, all > 0 ? 100 * ns / all : 0.0);
        }
    }
}

static void blame_block(FILE *out, const struct kv_policy_summary *p, int n)
{
    char a[32];
    fprintf(out, "%-*s", LABEL, "");
    for (int i = 0; i < n; i++)
        fprintf(out, "%*.13s", 2 * HALF, p[i].policy);
    fprintf(out, "\n%-*s", LABEL, "cycles:");
    for (int i = 0; i < n; i++)
        fprintf(out, "%*s%*s", HALF, "in", HALF, "out");
    for (int k = 0; k < KV_PARTS; k++)
        blame_line(out, kv_part_text[k], p, n, k);
    blame_line(out, "(behind earlier)", p, n, KV_PARTS);
    fprintf(out, "\n%-*s", LABEL, "requests");
    for (int i = 0; i < n; i++)
        for (int in = 1; in >= 0; in--)
            fprintf(out, "%*s", HALF, text_short(p[i].blame[in].requests, a));
    fprintf(out, "\n%-*s", LABEL, "their mean, ms");
    for (int i = 0; i < n; i++)
        for (int in = 1; in >= 0; in--)
            fprintf(out, "%*s", HALF, text_ms(mean_ms(&p[i].blame[in]) * 1e6, a));
    fputc('\n', out);
}

void kv_report_blame(FILE *out, const struct kv_summary *s)
{
    fprintf(out,
            "\nWhere requests above p99 spent their time, %%, inside and outside of cycles:\n");
    for (int i = 0; i < s->policies; i += PER_BLOCK)
        blame_block(out, &s->policy[i], s->policies - i < PER_BLOCK ? s->policies - i : PER_BLOCK);
}

/* ---- warnings ---- */

/* Is the achieved rate below 99 % of the wanted one, beyond what chance explains in so many Poisson
 * arrivals? */
static bool is_saturated(const double *m)
{
    double wanted = m[KV_WANTED_RATE] * m[KV_SECONDS];
    return m[KV_OPS] < 0.99 * wanted && m[KV_OPS] + 3 * sqrt(wanted) < wanted;
}

/* One warning about a run, unless there were enough of them; counts all. */
__attribute__((format(printf, 4, 5))) static void
warn_run(FILE *out, int *warned, const struct kv_result *r, const char *format, ...)
{
    if (++*warned > WARNINGS)
        return;
    va_list args;
    va_start(args, format);
    fprintf(out, "warning: %s, repetition %d: ", r->policy, r->repetition);
    vfprintf(out, format, args);
    fputc('\n', out);
    va_end(args);
}

static void warn_of_run(FILE *out, int *warned, const struct kv_result *r)
{
    const double *m = r->metric;
    if (is_saturated(m))
        warn_run(out, warned, r, "client saturated, %.1f %% of the wanted rate",
                 100 * m[KV_ACHIEVED_RATE] / m[KV_WANTED_RATE]);
    if (m[KV_DROPPED] > 0)
        warn_run(out, warned, r, "%.0f requests given up 10 s after the end", m[KV_DROPPED]);
    if (m[KV_STEAL_SHARE] > 0.01)
        warn_run(out, warned, r, "machine disturbed, %.1f %% of CPU time stolen",
                 100 * m[KV_STEAL_SHARE]);
    if (m[KV_FOREIGN_CPU] > 0.08)
        warn_run(out, warned, r, "machine disturbed, others used %.2f CPUs", m[KV_FOREIGN_CPU]);
    if (r->interrupted)
        warn_run(out, warned, r, "stopped early, after %.1f s", m[KV_SECONDS]);
}

static void warn_floor(FILE *out, const struct kv_policy_summary *floor)
{
    double least = floor->least[KV_P99], most = floor->most[KV_P99];
    char a[32], b[32];
    if (most > 1.5 * least && most > least + 3e5)
        fprintf(out, "warning: machine disturbed, the floor's own p99 moved from %s to %s ms\n",
                text_ms(least, a), text_ms(most, b));
}

void kv_report_warnings(FILE *out, const struct kv_options *opt, const struct kv_runs *runs)
{
    char *text;
    size_t length;
    FILE *buffer = open_memstream(&text, &length);
    if (buffer == NULL)
        return;
    struct kv_summary s;
    kv_summarise(runs, &s);
    int warned = 0;
    for (int i = 0; i < runs->n; i++)
        warn_of_run(buffer, &warned, &runs->run[i]);
    if (warned > WARNINGS)
        fprintf(buffer, "warning: and %d more about single runs\n", warned - WARNINGS);
    for (int i = 0; i < s.policies; i++)
        if (!s.policy[i].gc)
            warn_floor(buffer, &s.policy[i]);
    if (runs->n < opt->policies * opt->repetitions)
        fprintf(buffer, "note: %d of %d runs were made\n", runs->n,
                opt->policies * opt->repetitions);
    fclose(buffer);
    if (length > 0)
        fprintf(out, "\n%s", text);
    free(text);
}
