/* kv_compare.c: `hedge-sim kv`: all runs of a comparison, then the report, the files and the
 * checks.
 *
 * Runs are interleaved: repetition 1 of every policy, then repetition 2 of every policy, and so on,
 * so that what drifts on the machine meets all policies alike and a repetition's runs can be
 * paired. Repetition r of every policy sees the same arrivals and keys.
 *
 * What was done is reported, also when an interrupt or a failed run ends it early.
 */
#include "sim/kv_child.h"
#include "sim/kv_net.h"
#include "sim/memory.h"
#include "sim/sim.h"
#include "sim/text.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

struct comparison {
    struct kv_options opt;
    struct sim_machine machine;
    struct kv_runs runs;
    int started;        /* runs, the running one included */
    bool terminal;      /* draw a progress line */
    bool failed;        /* a run died or could not be made */
    const char *policy; /* of the running one */
};

/* ---- the floor needs memory ---- */

static void drop_policy(struct kv_options *opt, int at)
{
    opt->policies--;
    for (int i = at; i < opt->policies; i++)
        opt->policy[i] = opt->policy[i + 1];
}

/* Without a collector nothing is given back: takes the floor out where that does not fit. */
static void drop_floor_if_too_big(struct comparison *c)
{
    double needs = kv_floor_bytes(&c->opt), has = 0.85 * (double)c->machine.available_bytes;
    char a[32], b[32], hint[80] = "";
    if (needs <= has)
        return;
    for (int i = 0; i < c->opt.policies; i++) {
        if (!c->opt.policy[i].off)
            continue;
        drop_policy(&c->opt, i);
        double per_second = 1.15 * c->opt.rate * kv_garbage_per_op(&c->opt);
        double fits = floor(c->opt.duration_s - (needs - has) / per_second);
        if (fits >= 1)
            snprintf(hint, sizeof hint, "; --duration %.0f fits", fits);
        snprintf(c->runs.skipped, sizeof c->runs.skipped,
                 "the floor (off) is left out: without a collector it fills about %s, %s are free "
                 "for it%s",
                 text_bytes(needs, a), text_bytes(has, b), hint);
    }
}

/* ---- progress ---- */

static double seconds_each(const struct kv_options *opt)
{
    return opt->warmup_s + opt->duration_s + 2;
}

static void clear_line(const struct comparison *c)
{
    if (c->terminal)
        fputs("\r\033[K", stderr);
}

static void draw_progress(void *arg, const struct kv_progress *p)
{
    struct comparison *c = arg;
    char rate[32] = "", left[32], count[32], line[160];
    int runs = c->opt.policies * c->opt.repetitions;
    bool measuring = strcmp(p->phase, "measure") == 0;
    double done = measuring ? c->opt.warmup_s + p->done_s : p->done_s;
    double seconds = (runs - c->started + 1) * seconds_each(&c->opt) - done;
    if (measuring)
        snprintf(rate, sizeof rate, ", %.15s op/s", text_count(p->rate, count));
    snprintf(line, sizeof line, "%d/%d %s: %s %.0f s%s, %.0f cycles; about %s left", c->started,
             runs, c->policy, p->phase, p->done_s, rate, p->cycles,
             text_duration(seconds > 0 ? seconds : 0, left));
    fprintf(stderr, "\r%.79s\033[K", line);
}

/* ---- runs ---- */

/* One run. False: no more runs. */
static bool make_run(struct comparison *c, const struct kv_policy *policy, int repetition)
{
    char why[240];
    struct kv_result *r = &c->runs.run[c->runs.n];
    c->started++;
    c->policy = policy->name;
    enum kv_child_end end = kv_child(&c->opt, policy, repetition,
                                     c->terminal ? draw_progress : NULL, c, r, why, sizeof why);
    clear_line(c);
    if (end == KV_CHILD_FAILED) {
        fprintf(stderr, "hedge-sim kv: %s, repetition %d failed: %s\n", policy->name, repetition,
                why);
        c->failed = true;
    }
    if (end != KV_CHILD_RESULT)
        return false;
    c->runs.n++;
    kv_report_run(stdout, &c->opt, r);
    return sim_interrupts(NULL) == 0;
}

static void make_runs(struct comparison *c)
{
    for (int repetition = 1; repetition <= c->opt.repetitions; repetition++)
        for (int i = 0; i < c->opt.policies; i++)
            if (!make_run(c, &c->opt.policy[i], repetition))
                return;
}

/* Prints everything; returns the exit status. */
static int report(struct comparison *c)
{
    struct kv_summary s;
    int signal = 0, failed_checks = 0;
    kv_summarise(&c->runs, &s);
    if (c->runs.n > 0) {
        kv_report_table(stdout, &s);
        kv_report_comparison(stdout, &c->runs, &s);
        kv_report_blame(stdout, &s);
    }
    kv_report_warnings(stdout, &c->opt, &c->runs);
    if (kv_files_write(&c->opt, &c->machine, &c->runs) > 0)
        c->failed = true;
    for (int i = 0; i < c->opt.checks; i++)
        failed_checks += kv_check(&s, c->opt.fail_if[i], stdout);
    fflush(stdout);
    if (sim_interrupts(&signal) > 0)
        return SIM_SIGNAL + signal;
    return c->failed ? SIM_FAILED : failed_checks > 0 ? SIM_CHECK : SIM_OK;
}

int sim_kv(int argc, char **argv)
{
    struct comparison c;
    memset(&c, 0, sizeof c);
    kv_options_parse(&c.opt, argc, argv);
    if (sim_sweep_asked(&c.opt.sweep)) {
        int swept = sim_sweep_run(&c.opt.sweep, argc, argv, 1); /* live: one at a time */
        sim_sweep_free(&c.opt.sweep);
        return swept;
    }
    char why[240];
    if (c.opt.net && kv_net_descriptors(&c.opt, why, sizeof why) != 0) {
        fprintf(stderr, "hedge-sim kv: --net: %s\n", why);
        return SIM_FAILED;
    }
    sim_machine_read(&c.machine);
    drop_floor_if_too_big(&c);
    if (c.opt.policies == 0) {
        fprintf(stderr, "hedge-sim kv: nothing is left to run\n");
        return SIM_FAILED;
    }
    int runs = c.opt.policies * c.opt.repetitions;
    c.runs.run = sim_alloc((size_t)runs, sizeof *c.runs.run);
    c.terminal = isatty(STDERR_FILENO) && runs * seconds_each(&c.opt) > 2;
    sim_interrupts_catch();
    kv_report_header(stdout, &c.opt, &c.machine, c.runs.skipped);
    make_runs(&c);
    int status = report(&c);
    for (int i = 0; i < c.runs.n; i++)
        kv_result_free(&c.runs.run[i]);
    free(c.runs.run);
    sim_sweep_free(&c.opt.sweep);
    return status;
}
