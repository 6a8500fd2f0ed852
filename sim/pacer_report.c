/* pacer_report.c: what `hedge-sim pacer` prints: a table per model, policies as rows; with several
 * sets of dampers a table of their effect; the list of models and policies. At most 80 columns. */
#include "sim/machine.h"
#include "sim/pacer.h"
#include "sim/size.h"
#include "sim/stats.h"
#include "sim/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *pacer_number(double v, int decimals, char *buffer)
{
    if (isnan(v))
        return "-";
    snprintf(buffer, 32, "%.*f", decimals, fabs(v) < 0.5 * pow(10, -decimals) ? 0 : v);
    return buffer;
}

const char *pacer_percent(double v, int decimals, char *buffer)
{
    return pacer_number(100 * v, decimals, buffer);
}

const char *pacer_percent_pm(const struct pacer_estimate *e, char *buffer)
{
    const char *mean = pacer_percent(e->mean, 2, buffer);
    size_t length = strlen(mean);
    if (!isnan(e->mean) && !isnan(e->low))
        snprintf(buffer + length, 32 - length, " ±%.2f", 50 * (e->high - e->low));
    return mean;
}

/* Pads by columns: the sign in a value is two bytes and one column. */
static void print_padded(FILE *out, const char *text, int columns)
{
    int wide = (int)strlen(text) - (strstr(text, "±") != NULL);
    fprintf(out, "%*s%s", columns > wide ? columns - wide : 0, "", text);
}

static void print_row(FILE *out, const char *name, const struct pacer_estimate *f)
{
    char text[32];
    fprintf(out, "%-16.16s", name);
    fprintf(out, "%6s", pacer_percent(f[PACER_LATE_SHARE].mean, 1, text));
    fprintf(out, "%6s", pacer_percent(f[PACER_ASSIST_CYCLES].mean, 1, text));
    print_padded(out, pacer_percent_pm(&f[PACER_ASSIST_SHARE], text), 12);
    double over = f[PACER_OVERSHOOT_P99].mean;
    fprintf(out, "%5s", pacer_percent(over, over < 0.9995 ? 1 : 0, text));
    fprintf(out, "%6s", pacer_number(f[PACER_PEAK_OVER_GOAL].mean, 2, text));
    print_padded(out, pacer_percent_pm(&f[PACER_EXTRA_SHARE], text), 12);
    fprintf(out, "%6s", pacer_percent(f[PACER_EXTRA_HEAP].mean, 1, text));
    fprintf(out, "%5s", pacer_percent(f[PACER_GC_CPU_SHARE].mean, 1, text));
    fprintf(out, "%5s\n", pacer_number(f[PACER_RELEASE].mean, 1, text));
}

static void print_heading(FILE *out, const char *first)
{
    fprintf(out, "%-16s  late  with  assist, %% over-  peak more cycles  heap   GC  let\n", first);
    fprintf(out, "%-16s     %%  ass.   of GC CPU shoot /goal    per GiB    +%%  CPU   go\n", "");
}

static void print_header(FILE *out, const struct pacer_options *opt, int seeds)
{
    char a[32];
    fprintf(out, "hedge-sim pacer, commit %.50s\n", sim_commit());
    fprintf(out, "%s cycles, GOGC %d, seeds from %llu on: %d", text_count(opt->cycles, a),
            opt->gogc, (unsigned long long)opt->seed, opt->seeds);
    if (seeds < opt->seeds)
        fprintf(out, " (%d of them whole)", seeds);
    fprintf(out, "; means, ± 95 %% interval");
    if (opt->seeds < SIM_FEWEST_FOR_INTERVAL)
        fprintf(out, " from %d seeds on", SIM_FEWEST_FOR_INTERVAL);
    fprintf(out, "\n");
    if (opt->dampings == 1 && strcmp(opt->damping[0].name, "all") != 0)
        fprintf(out, "dampers on: %s\n", opt->damping[0].name);
}

char *pacer_trace_text(const struct pacer_options *opt)
{
    char *line = NULL;
    size_t length;
    const struct pacer_trace *t = &opt->trace;
    double times = (double)(opt->cycles + PACER_WARMUP) / (double)t->cycles;
    char scan[32];
    FILE *text = open_memstream(&line, &length);
    if (text == NULL)
        return NULL;
    fprintf(text,
            "%.200s, process %s: %zu of its %zu cycles have a ratio, scan work and a live heap. ",
            opt->trace_file, t->process, t->cycles, t->recorded);
    if (t->assumed > 0)
        fprintf(text,
                "For %zu of them the scan work is assumed (%s), and sizes are rounded to MB: their "
                "ratios may be off several times. ",
                t->assumed, sim_size_text(opt->how.assume_scan, scan));
    if (t->broken > 0)
        fprintf(text, "%zu broken line%s of the file %s passed over. ", t->broken,
                t->broken == 1 ? "" : "s", t->broken == 1 ? "was" : "were");
    if (times > 1)
        fprintf(text, "A run plays them %.3g times over. ", times);
    fprintf(text, "Each seed begins at another cycle");
    if ((size_t)opt->seeds > t->cycles)
        fprintf(text, ", as far as there are cycles (runs repeat from the %zuth seed on)",
                t->cycles + 1);
    fprintf(text, "; the intervals are over these beginnings alone.");
    fclose(text);
    return line;
}

static void report_trace(FILE *out, const struct pacer_options *opt)
{
    char *line = pacer_trace_text(opt);
    if (line != NULL)
        text_wrap(out, 0, line);
    free(line);
}

static void report_model(FILE *out, const struct pacer_options *opt,
                         const struct pacer_summary *summary)
{
    fprintf(out, "\n%s: %s\n", summary->model->name, summary->model->help);
    if (summary->model == &pacer_model_replay)
        report_trace(out, opt);
    for (int d = 0; d < opt->dampings; d++) {
        print_heading(out, opt->dampings > 1 ? opt->damping[d].name : "policy");
        for (int i = 0; i < opt->policies; i++, summary++)
            print_row(out, summary->policy, summary->figure);
    }
}

/* ---- memory limit ---- */

/* What the limit did, model by model; nothing where there is none. */
static void report_limits(FILE *out, const struct pacer_options *opt,
                          const struct pacer_summary *summary)
{
    int n = opt->models * opt->dampings * opt->policies;
    bool headed = false;
    for (int i = 0; i < n; i++) {
        const struct pacer_estimate *f = summary[i].figure;
        char text[32];
        if (isnan(f[PACER_OVER_LIMIT].mean))
            continue;
        if (!headed) {
            fprintf(out, "\n%-13s %-16s %7s %7s %7s %7s %7s %7s\n", "memory limit", "policy", "GC",
                    "worst", "limiter", "waits", "peak", "passed");
            fprintf(out, "%-13s %-16s %7s %7s %7s %7s %7s %7s\n", "model", "", "CPU %", "second",
                    "on, %", "%", "/limit", "/100 c.");
        }
        headed = true;
        fprintf(out, "%-13s %-16.16s", summary[i].model->name, summary[i].policy);
        fprintf(out, " %7s", pacer_percent(f[PACER_GC_CPU_SHARE].mean, 1, text));
        fprintf(out, " %7s", pacer_percent(f[PACER_GC_WORST].mean, 1, text));
        fprintf(out, " %7s", pacer_percent(f[PACER_LIMITER_SHARE].mean, 1, text));
        fprintf(out, " %7s", pacer_percent(f[PACER_WAIT_SHARE].mean, 1, text));
        fprintf(out, " %7s", pacer_number(f[PACER_OVER_LIMIT].mean, 2, text));
        fprintf(out, " %7s\n", pacer_number(f[PACER_LIMIT_PASSED].mean, 1, text));
    }
}

/* ---- dampers ---- */

/* Assist share and overshoot of every set of dampers, policy by policy. */
static void report_dampings(FILE *out, const struct pacer_options *opt,
                            const struct pacer_summary *summary)
{
    char text[32];
    fprintf(out, "\neffect of the dampers\n%-10s %-16s %-17s %6s %13s %6s %6s\n", "model", "policy",
            "dampers on", "assist", "assist, %", "over-", "waits");
    fprintf(out, "%-10s %-16s %-17s %6s %13s %6s %6s\n", "", "", "", "cycles", "of GC CPU", "shoot",
            "%");
    for (int m = 0; m < opt->models; m++)
        for (int p = 0; p < opt->policies; p++)
            for (int d = 0; d < opt->dampings; d++) {
                const struct pacer_summary *s =
                    &summary[(m * opt->dampings + d) * opt->policies + p];
                fprintf(out, "%-10s %-16.16s %-17s", d > 0 ? "" : s->model->name,
                        d > 0 ? "" : s->policy, s->damping->name);
                fprintf(out, " %6s", pacer_percent(s->figure[PACER_ASSIST_CYCLES].mean, 1, text));
                print_padded(out, pacer_percent_pm(&s->figure[PACER_ASSIST_SHARE], text), 14);
                fprintf(out, " %6s", pacer_percent(s->figure[PACER_OVERSHOOT_P99].mean, 1, text));
                fprintf(out, " %6s\n", pacer_percent(s->figure[PACER_WAIT_SHARE].mean, 2, text));
            }
}

static void print_legend(FILE *out)
{
    fputs("\nlate: cycles that end above their goal; with ass.: cycles with assist; overshoot\n"
          "of the goal, 99th percentile; peak: largest heap over goal; cycles per GiB of\n"
          "allocation, and heap at their end: % more than " PACER_EDGE
          "; let go: cycles that\nbegin too early after the load fell.\n",
          out);
}

int pacer_whole_seeds(const struct pacer_options *opt, const struct pacer_summary *summary)
{
    int whole = opt->seeds;
    for (int i = 0; i < opt->models * opt->dampings * opt->policies; i++)
        whole = summary[i].seeds < whole ? summary[i].seeds : whole;
    return whole;
}

void pacer_report(FILE *out, const struct pacer_options *opt, const struct pacer_summary *summary)
{
    int per_model = opt->dampings * opt->policies;
    print_header(out, opt, pacer_whole_seeds(opt, summary));
    for (int m = 0; m < opt->models; m++)
        report_model(out, opt, &summary[m * per_model]);
    report_limits(out, opt, summary);
    if (opt->dampings > 1)
        report_dampings(out, opt, summary);
    print_legend(out);
}

void pacer_report_list(FILE *out)
{
    fprintf(out, "models\n");
    for (int i = 0; i < pacer_model_count; i++)
        fprintf(out, "  %-10s %s\n", pacer_models[i].name, pacer_models[i].help);
    fprintf(out, "models with a memory limit\n");
    for (int i = 0; i < pacer_limit_model_count; i++)
        fprintf(out, "  %-12s %s\n", pacer_limit_models[i].name, pacer_limit_models[i].help);
    fprintf(out, "  %-12s %s (--trace; not part of all)\n", pacer_model_replay.name,
            pacer_model_replay.help);
    fprintf(out, "policies\n");
    for (int k = 0; k < HG_POLICY_KINDS; k++) {
        struct hg_policy_spec spec = hg__policy_standard((enum hg_policy_kind)k);
        char name[32];
        hg__policy_name(&spec, name, sizeof name);
        fprintf(out, "  %-15s ", name);
        text_wrap(out, 18, hg__policy_help(spec.kind));
    }
}
