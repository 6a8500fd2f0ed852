/* limit_report.c: what `hedge-sim limit` prints: two rows a scenario, without a limit and with it,
 * and the prediction below; then what the limit did, and warnings. At most 80 columns. A predicted
 * program has its CPUs to itself: both its shares of GC are one, but at a hard limit, where it
 * sleeps. */
#include "sim/limit.h"
#include "sim/machine.h"
#include "sim/size.h"
#include "sim/text.h"
#include <string.h>

#define BUSY 0.9 /* of procs x time: a process that got less was kept from its CPUs */

/* v with so many decimals and what follows it, or "-". */
static const char *number(double v, int decimals, const char *unit, char *buffer)
{
    if (isnan(v))
        return "-";
    snprintf(buffer, 32, "%.*f%s", decimals, v, unit);
    return buffer;
}

static const char *percent(double v, char *buffer) { return number(100 * v, 1, "", buffer); }

void limit_report_header(FILE *out, const struct limit_options *opt)
{
    struct sim_machine m;
    char a[32];
    sim_machine_read(&m);
    fprintf(out, "hedge-sim limit, commit %.50s\n", sim_commit());
    fprintf(out, "machine   %d CPUs, %.1f GiB, %.50s\n", m.cpus,
            (double)m.memory_bytes / 1073741824.0, m.kernel);
    fprintf(out, "runtime   limit %s, GOGC 100, %s procs, policy %s; %g s each run\n\n",
            sim_size_text((double)opt->limit, a),
            opt->procs < 0 ? "all" : number(opt->procs, 0, "", (char[32]){0}), opt->policy,
            opt->duration_s);
    fprintf(out, "%-6s %-9s %5s %5s %7s %8s %7s %7s %7s %7s\n", "", "limit", "GC", "of", "worst",
            "limiter", "cycles", "op/s of", "pro-", "peak");
    fprintf(out, "%-6s %-9s %5s %5s %7s %8s %7s %7s %7s %7s\n", "", "", "CPU %", "used", "second",
            "on, %", "", "CPU", "gress %", "/limit");
}

static void report_run(FILE *out, const char *name, const struct limit_result *r, const char *limit)
{
    const double *f = r->figure;
    char text[32];
    if (!r->done)
        return;
    fprintf(out, "%-6s %-9s", name, limit);
    fprintf(out, " %5s", percent(f[LIMIT_GC_SHARE], text));
    fprintf(out, " %5s", percent(f[LIMIT_GC_USED], text));
    fprintf(out, " %7s", percent(f[LIMIT_GC_WORST], text));
    fprintf(out, " %8s", percent(f[LIMIT_LIMITER_SHARE], text));
    fprintf(out, " %7s", text_count(f[LIMIT_CYCLES], text));
    fprintf(out, " %7s", text_short(f[LIMIT_OPS_PER_CPU], text));
    fprintf(out, " %7s", percent(f[LIMIT_PROGRESS], text));
    fprintf(out, " %7s%s\n", number(f[LIMIT_PEAK_OVER], 2, "", text), r->interrupted ? " *" : "");
}

void limit_report_pair(FILE *out, const struct limit_options *opt, const struct limit_pair *p)
{
    const double *f = p->limited.figure;
    char text[32];
    report_run(out, p->scenario->name, &p->free, "off");
    report_run(out, p->free.done ? "" : p->scenario->name, &p->limited,
               sim_size_text((double)opt->limit, text));
    if (p->limited.done && !isnan(f[LIMIT_PREDICTED_GC])) {
        fprintf(out, "%-6s %-9s", "", "predicted");
        double used = p->scenario->hard ? (double)NAN : f[LIMIT_PREDICTED_GC];
        fprintf(out, " %5s", percent(f[LIMIT_PREDICTED_GC], text));
        fprintf(out, " %5s", percent(used, text));
        fprintf(out, " %7s", percent(f[LIMIT_PREDICTED_WORST], text));
        fprintf(out, " %8s", percent(f[LIMIT_PREDICTED_LIMITER], text));
        fprintf(out, " %7s %7s", "", "");
        fprintf(out, " %7s", percent(f[LIMIT_PREDICTED_PROGRESS], text));
        fprintf(out, " %7s\n", number(f[LIMIT_PREDICTED_PEAK], 2, "", text));
    }
    fflush(out);
}

/* ---- what the limit did ---- */

static void report_effect(FILE *out, const struct limit_pair *p)
{
    const double *f = p->limited.figure;
    char a[32], b[32], c[32];
    if (!p->limited.done)
        return;
    fprintf(out, "%-6s limit_passed called %.0f time%s; limiter on for %s ms\n", p->scenario->name,
            f[LIMIT_PASSED], f[LIMIT_PASSED] == 1 ? "" : "s", text_ms(f[LIMIT_LIMITER_NS], a));
    if (p->scenario->leak > 0 && !p->scenario->hard && p->free.done)
        fprintf(out, "       past the limit: %s operations per CPU second, without it %s\n",
                text_count(f[LIMIT_AFTER_OPS], a), text_count(p->free.figure[LIMIT_AFTER_OPS], b));
    if (p->scenario->hard) {
        fprintf(out,
                "       NULL from hg_try_alloc: %s; calls of out_of_memory: %.0f; cache let go of: "
                "%.0f\n",
                text_count(f[LIMIT_REFUSED], a), f[LIMIT_NO_MEMORY], f[LIMIT_LET_GO]);
        fprintf(out, "       the other runtime: %s operations, longest wait %s ms",
                text_count(f[LIMIT_OTHER_OPS], a), text_ms(f[LIMIT_OTHER_WAIT_NS], b));
        if (p->free.done)
            fprintf(out, " (no limit: %s, %s ms)", text_count(p->free.figure[LIMIT_OTHER_OPS], a),
                    text_ms(p->free.figure[LIMIT_OTHER_WAIT_NS], c));
        fputc('\n', out);
    }
}

/* At a hard limit tasks sleep: what such a run used says nothing about the machine. */
static void warn_busy(FILE *out, const struct limit_options *opt, const struct limit_pair *pairs)
{
    double least = 1;
    for (int i = 0; i < opt->scenarios; i++) {
        const struct limit_result *r[] = {&pairs[i].free, &pairs[i].limited};
        for (int k = 0; k < (opt->scenario[i]->hard ? 1 : 2); k++)
            if (r[k]->done)
                least = fmin(least, r[k]->figure[LIMIT_CPU_USED]);
    }
    if (least < BUSY)
        fprintf(
            out,
            "warning   the machine was busy: a run got %.0f %% of its procs' time. The limiter\n"
            "          goes by what it got: \"of used\" is the share to compare.\n",
            100 * least);
}

void limit_report_end(FILE *out, const struct limit_options *opt, const struct limit_pair *pairs)
{
    fprintf(out, "\n");
    for (int i = 0; i < opt->scenarios; i++)
        report_effect(out, &pairs[i]);
    fputs("\nGC CPU: of procs x time, and of the CPU time that the process used; worst: the\n"
          "first in its worst second; progress: operations per second of CPU time, of those\n"
          "without a limit; peak: the most that the limit covers (heap pages, stacks, the\n"
          "runtime's own data).\n",
          out);
    warn_busy(out, opt, pairs);
}
