/* scale_compare.c: `hedge-sim scale`: all runs of a comparison, one after the other in this process
 * (they do not disturb each other), then kv's report, files and checks. What was done is reported,
 * also when an interrupt ends it early. */
#include "sim/memory.h"
#include "sim/scale.h"
#include "sim/scale_trace.h"
#include "sim/sim.h"
#include "sim/text.h"
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct comparison {
    struct scale_options opt;
    struct kv_runs runs;
    double seconds; /* elapsed */
    uint64_t requests;
};

static int stop_asked(void) { return sim_interrupts(NULL) > 0; }

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void header(FILE *out, const struct scale_options *o)
{
    const struct kv_options *load = &o->load;
    char a[32], b[32], c[32];
    fprintf(out, "hedge-sim scale, commit %.50s\n", sim_commit());
    fprintf(out, "machine   %d CPUs, each of: %.54s\n", load->procs, o->machine.name);
    fprintf(out, "collector %s, GOGC %s%s%s\n", o->profile->name,
            load->gogc < 0 ? "off" : text_count(load->gogc, a), o->assist ? "" : ", no assist",
            o->noise > 0 ? ", noise on marking" : "");
    if (load->limit != INT64_MAX)
        fprintf(out, "          memory limit %s\n", text_bytes((double)load->limit, a));
    fprintf(out, "load      %s connections, %s tasks, %s op/s Poisson, from %s\n",
            text_count(load->conns, a), text_count(2.0 * load->conns, b), text_count(load->rate, c),
            o->network ? "the network" : "timers");
    fprintf(out, "request   %.1f us of CPU time, allocates %s; %.1f %% of the CPUs' time\n",
            scale_service_ns(o) / 1e3, text_bytes(scale_request_bytes(o), a),
            100 * load->rate * scale_service_ns(o) / 1e9 / load->procs);
    fprintf(out, "heap      %s live, %s of it to scan\n", text_bytes(scale_live_heap(o), a),
            text_bytes(scale_scan_bytes(o), b));
    if (o->trace != NULL)
        scale_trace_print(out, o);
    fprintf(out, "runs      %d of each, %g s after %g s of warm-up, seed %llu\n", load->repetitions,
            load->duration_s, load->warmup_s, (unsigned long long)load->seed);
    kv_report_runs_heading(out);
}

static void progress(const struct comparison *c, const char *policy)
{
    int runs = c->opt.load.policies * c->opt.load.repetitions;
    if (isatty(STDERR_FILENO) && c->seconds > 1)
        fprintf(stderr, "\r%d/%d %s; about %.0f s left\033[K", c->runs.n + 1, runs, policy,
                c->seconds / c->runs.n * (runs - c->runs.n));
}

/* False: no more runs. */
static bool make_run(struct comparison *c, const struct kv_policy *policy, int repetition)
{
    struct scale_books books;
    struct kv_result *r = &c->runs.run[c->runs.n];
    double before = now_s();
    progress(c, policy->name);
    scale_run(&c->opt, policy, repetition, stop_asked, r, &books);
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    c->seconds += now_s() - before;
    c->requests += books.requests;
    if (r->interrupted && r->metric[KV_OPS] == 0)
        return false;
    c->runs.n++;
    kv_report_run(stdout, &c->opt.load, r);
    return !stop_asked();
}

static void make_runs(struct comparison *c)
{
    for (int repetition = 1; repetition <= c->opt.load.repetitions; repetition++)
        for (int i = 0; i < c->opt.load.policies; i++)
            if (!make_run(c, &c->opt.load.policy[i], repetition))
                return;
}

static int report(struct comparison *c)
{
    struct kv_summary s;
    struct sim_machine m;
    int signal = 0, failed_checks = 0, failed_files = 0;
    memset(&m, 0, sizeof m);
    m.cpus = c->opt.load.procs;
    snprintf(m.kernel, sizeof m.kernel, "simulated");
    snprintf(m.cpu, sizeof m.cpu, "%.79s", c->opt.machine.name);
    snprintf(m.governor, sizeof m.governor, "none");
    kv_summarise(&c->runs, &s);
    if (c->runs.n > 0) {
        kv_report_table(stdout, &s);
        kv_report_comparison(stdout, &c->runs, &s);
    }
    kv_report_warnings(stdout, &c->opt.load, &c->runs);
    if (c->opt.benchmark)
        printf("\nbenchmark: %.0f requests in %.2f s: %.0f requests/s\n", (double)c->requests,
               c->seconds, (double)c->requests / c->seconds);
    failed_files = kv_files_write(&c->opt.load, &m, &c->runs);
    for (int i = 0; i < c->opt.load.checks; i++)
        failed_checks += kv_check(&s, c->opt.load.fail_if[i], stdout);
    fflush(stdout);
    if (sim_interrupts(&signal) > 0)
        return SIM_SIGNAL + signal;
    return failed_files > 0 ? SIM_FAILED : failed_checks > 0 ? SIM_CHECK : SIM_OK;
}

int sim_scale(int argc, char **argv)
{
    struct comparison c;
    memset(&c, 0, sizeof c);
    scale_options_parse(&c.opt, argc, argv);
    struct sim_sweep *sweep = &c.opt.load.sweep;
    if (sim_sweep_asked(sweep)) {
        if (c.opt.trace != NULL && !sweep->emit_jobs) {
            scale_trace_print(stdout, &c.opt);
            fputc('\n', stdout);
        }
        int swept = sim_sweep_run(sweep, argc, argv, 0);
        sim_sweep_free(sweep);
        return swept;
    }
    sim_interrupts_catch();
    if (c.opt.calibrate)
        return scale_calibrate(&c.opt);
    if (c.opt.check)
        return scale_check(&c.opt);
    int runs = c.opt.load.policies * c.opt.load.repetitions;
    c.runs.run = sim_alloc((size_t)runs, sizeof *c.runs.run);
    header(stdout, &c.opt);
    make_runs(&c);
    int status = report(&c);
    for (int i = 0; i < c.runs.n; i++)
        kv_result_free(&c.runs.run[i]);
    free(c.runs.run);
    sim_sweep_free(sweep);
    return status;
}
