/* limit_compare.c: `hedge-sim limit`: all runs, then the report, the files and the checks.
 *
 * Each scenario runs without a limit first, then with it; from the first run and nothing else the
 * second one is predicted. What was done is reported, also when an interrupt or a failed run ends
 * it early.
 */
#include "sim/limit.h"
#include "sim/machine.h"
#include "sim/sim.h"
#include "sim/text.h"
#include <string.h>
#include <time.h>
#include <unistd.h>

struct comparison {
    struct limit_options opt;
    struct limit_pair pair[LIMIT_KINDS];
    int started; /* runs, the running one included */
    bool terminal, failed;
    const char *scenario; /* the running one */
    bool limited;
};

/* ---- progress ---- */

static double seconds_since(int64_t then_ns)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return then_ns == 0 ? 0 : (double)t.tv_sec + (double)t.tv_nsec / 1e9 - (double)then_ns / 1e9;
}

static void draw_progress(void *arg, const struct limit_shared *shared)
{
    struct comparison *c = arg;
    char left[32], line[160], ops[32];
    int64_t began = atomic_load_explicit(&shared->began_at, memory_order_relaxed);
    double done = seconds_since(began);
    double to_do = (2 * c->opt.scenarios - c->started + 1) * (c->opt.duration_s + 1) - done;
    snprintf(
        line, sizeof line, "%d/%d %s, %s: %.0f s, %s operations; about %s left", c->started,
        2 * c->opt.scenarios, c->scenario, c->limited ? "with the limit" : "no limit", done,
        text_count((double)atomic_load_explicit(&shared->operations, memory_order_relaxed), ops),
        text_duration(to_do > 0 ? to_do : 0, left));
    fprintf(stderr, "\r%.79s\033[K", line);
}

/* ---- runs ---- */

/* One run. False: no more runs. */
static bool make_run(struct comparison *c, const struct limit_scenario *s, bool limited,
                     struct limit_result *out)
{
    char why[200] = "";
    c->started++;
    c->scenario = s->name;
    c->limited = limited;
    enum limit_end end = limit_child(&c->opt, s, limited, c->terminal ? draw_progress : NULL, c,
                                     out, why, sizeof why);
    if (c->terminal)
        fputs("\r\033[K", stderr);
    if (end == LIMIT_END_FAILED) {
        fprintf(stderr, "hedge-sim limit: %s, %s failed: %s\n", s->name,
                limited ? "with the limit" : "no limit", why);
        c->failed = true;
    }
    return end == LIMIT_END_RESULT && sim_interrupts(NULL) == 0;
}

static void finish_pair(const struct limit_options *opt, struct limit_pair *p)
{
    double *f = p->limited.figure;
    if (!p->free.done || !p->limited.done)
        return;
    f[LIMIT_PROGRESS] = f[LIMIT_OPS_PER_CPU] / p->free.figure[LIMIT_OPS_PER_CPU];
    limit_predict(opt, p->scenario, &p->free.program, &p->limited);
}

static void make_runs(struct comparison *c)
{
    bool more = true;
    for (int i = 0; i < c->opt.scenarios && more; i++) {
        struct limit_pair *p = &c->pair[i];
        p->scenario = c->opt.scenario[i];
        more = make_run(c, p->scenario, false, &p->free) &&
               make_run(c, p->scenario, true, &p->limited);
        finish_pair(&c->opt, p);
        limit_report_pair(stdout, &c->opt, p);
    }
}

/* A run without a limit needs about twice what is alive at its end, and the one with it not
 * more. */
static bool fits(const struct limit_options *opt)
{
    struct sim_machine m;
    double most = 0;
    char a[32], b[32];
    sim_machine_read(&m);
    for (int i = 0; i < opt->scenarios; i++)
        most = fmax(most, opt->scenario[i]->live + opt->scenario[i]->leak);
    most *= 2.5 * (double)opt->limit;
    if (most <= 0.85 * (double)m.available_bytes)
        return true;
    fprintf(stderr, "hedge-sim limit: --limit: the programs would need %s, and %s are free\n",
            text_bytes(most, a), text_bytes((double)m.available_bytes, b));
    return false;
}

int sim_limit(int argc, char **argv)
{
    struct comparison c;
    int signal = 0, failed_checks = 0;
    memset(&c, 0, sizeof c);
    limit_options_parse(&c.opt, argc, argv);
    if (!fits(&c.opt))
        return SIM_FAILED;
    c.terminal = isatty(STDERR_FILENO) && 2 * c.opt.scenarios * c.opt.duration_s > 2;
    sim_interrupts_catch();
    limit_report_header(stdout, &c.opt);
    make_runs(&c);
    limit_report_end(stdout, &c.opt, c.pair);
    c.failed |= limit_files_write(&c.opt, c.pair) > 0;
    for (int i = 0; i < c.opt.checks; i++)
        failed_checks += limit_check(&c.opt, c.pair, c.opt.fail_if[i], stdout);
    fflush(stdout);
    if (sim_interrupts(&signal) > 0)
        return SIM_SIGNAL + signal;
    return c.failed ? SIM_FAILED : failed_checks > 0 ? SIM_CHECK : SIM_OK;
}
