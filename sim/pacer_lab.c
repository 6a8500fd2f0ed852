/* pacer_lab.c: `hedge-sim pacer`: all runs, spread over processes, then the report and the files.
 *
 * A run is a pure function, so how runs are spread over processes changes nothing in what comes
 * out. The parent maps one shared table before it forks; each process takes the next run off a
 * common counter and writes the run's figures into its row. Runs go seed by seed: after an
 * interrupt every policy has about as many.
 *
 * Shared: `next` and `done` are counters (relaxed: they carry no data); a row has one writer, and
 * the parent reads it after that process has ended.
 */
#include "sim/machine.h"
#include "sim/memory.h"
#include "sim/outfile.h"
#include "sim/pacer.h"
#include "sim/sim.h"
#include "sim/text.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct shared {
    _Atomic int64_t next, done;
    double row[][PACER_MEASURED];
};

struct lab {
    struct pacer_options opt;
    struct pacer_policy policy[PACER_POLICIES_MAX + 1]; /* the edge policy too */
    int policies, edge;                                 /* edge: its place */
    int64_t runs;
    size_t bytes;
    struct shared *shared;
    bool failed;
};

/* ---- which run is which ---- */

struct place {
    int seed, model, damping, policy;
};

static struct place place_of(const struct lab *lab, int64_t run)
{
    struct place p;
    p.policy = (int)(run % lab->policies);
    run /= lab->policies;
    p.damping = (int)(run % lab->opt.dampings);
    run /= lab->opt.dampings;
    p.model = (int)(run % lab->opt.models);
    p.seed = (int)(run / lab->opt.models);
    return p;
}

static int64_t run_at(const struct lab *lab, struct place p)
{
    int64_t at = (int64_t)p.seed * lab->opt.models + p.model;
    return (at * lab->opt.dampings + p.damping) * lab->policies + p.policy;
}

/* The policies asked for, and the edge policy behind them where it is not among them. */
static void set_policies(struct lab *lab)
{
    lab->policies = lab->opt.policies;
    memcpy(lab->policy, lab->opt.policy, (size_t)lab->policies * sizeof *lab->policy);
    for (lab->edge = 0; lab->edge < lab->policies; lab->edge++)
        if (strcmp(lab->policy[lab->edge].name, PACER_EDGE) == 0)
            return;
    struct pacer_policy *edge = &lab->policy[lab->policies++];
    char why[200];
    snprintf(edge->name, sizeof edge->name, "%s", PACER_EDGE);
    if (hg__policy_parse(PACER_EDGE, &edge->spec, why, sizeof why) != 0)
        lab->failed = true;
}

static bool open_table(struct lab *lab)
{
    const struct pacer_options *o = &lab->opt;
    lab->runs = (int64_t)o->seeds * o->models * o->dampings * lab->policies;
    lab->bytes = sizeof *lab->shared + (size_t)lab->runs * sizeof lab->shared->row[0];
    lab->shared = mmap(NULL, lab->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lab->shared == MAP_FAILED) {
        fprintf(stderr, "hedge-sim pacer: no memory for %zu bytes of results\n", lab->bytes);
        return false;
    }
    for (int64_t i = 0; i < lab->runs; i++)
        for (int f = 0; f < PACER_MEASURED; f++)
            lab->shared->row[i][f] = NAN;
    return true;
}

/* ---- processes ---- */

static void make_run(const struct lab *lab, int64_t run)
{
    struct place at = place_of(lab, run);
    const struct pacer_model *model = lab->opt.model[at.model];
    struct hg_pacer_config c = pacer_config(&lab->opt, &lab->policy[at.policy].spec,
                                            &lab->opt.damping[at.damping].study, model);
    struct pacer_source source;
    uint64_t seed = lab->opt.seed + (uint64_t)at.seed;
    if (model == &pacer_model_replay)
        pacer_trace_source(&source, &lab->opt.trace, seed);
    else
        pacer_source_init(&source, model, seed);
    if (c.memory_limit != INT64_MAX)
        source.limit = (double)c.memory_limit;
    pacer_run(&c, &source, lab->opt.cycles, lab->shared->row[run]);
}

/* Until all runs are taken or an interrupt comes. */
static void work(struct lab *lab)
{
    while (sim_interrupts(NULL) == 0) {
        int64_t run = atomic_fetch_add_explicit(&lab->shared->next, 1, memory_order_relaxed);
        if (run >= lab->runs)
            return;
        make_run(lab, run);
        atomic_fetch_add_explicit(&lab->shared->done, 1, memory_order_relaxed);
    }
}

static pid_t start_worker(struct lab *lab)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        work(lab);
    _exit(SIM_OK);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void draw_progress(const struct lab *lab, double elapsed_s)
{
    double done = (double)atomic_load_explicit(&lab->shared->done, memory_order_relaxed);
    double left = done > 0 ? elapsed_s * ((double)lab->runs / done - 1) : 0;
    char a[32], b[32], c[32];
    fprintf(stderr, "\r%s of %s runs; about %s left\033[K", text_count(done, a),
            text_count((double)lab->runs, b), text_duration(left, c));
}

/* Waits for all workers; passes an interrupt on to them. */
static void wait_for(struct lab *lab, const pid_t *worker, int workers)
{
    bool terminal = isatty(STDERR_FILENO), drawn = false;
    double start_s = now_s();
    int passed = 0, running = workers;
    while (running > 0) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid > 0) {
            running--;
            lab->failed |= !WIFEXITED(status) || WEXITSTATUS(status) != SIM_OK;
            continue;
        }
        if (pid < 0 && errno != EINTR)
            break;
        for (int i = 0; passed < sim_interrupts(NULL) && i < workers; i++)
            kill(worker[i], SIGINT);
        passed = sim_interrupts(NULL);
        if (terminal && now_s() - start_s > 2) {
            draw_progress(lab, now_s() - start_s);
            drawn = true;
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    if (drawn)
        fputs("\r\033[K", stderr);
    if (lab->failed)
        fprintf(stderr, "hedge-sim pacer: a process died; its runs are missing\n");
}

/* With one job all runs are made in this process. */
static void make_runs(struct lab *lab)
{
    int jobs = lab->opt.jobs, started = 0;
    pid_t *worker = sim_alloc((size_t)jobs, sizeof *worker);
    fflush(NULL);
    while (started < jobs && (worker[started] = start_worker(lab)) > 0)
        started++;
    if (started == 0)
        work(lab);
    else
        wait_for(lab, worker, started);
    free(worker);
}

/* ---- results ---- */

static struct pacer_summary *summarise(const struct lab *lab)
{
    const struct pacer_options *o = &lab->opt;
    int cells = o->models * o->dampings * o->policies;
    struct pacer_summary *all = sim_alloc((size_t)cells, sizeof *all), *out = all;
    const double **run = sim_alloc((size_t)o->seeds, sizeof *run);
    const double **edge = sim_alloc((size_t)o->seeds, sizeof *edge);
    for (int i = 0; i < cells; i++, out++) {
        int policy = i % o->policies, damping = i / o->policies % o->dampings;
        int model = i / o->policies / o->dampings;
        *out = (struct pacer_summary){.model = o->model[model],
                                      .damping = &o->damping[damping],
                                      .policy = o->policy[policy].name};
        for (int s = 0; s < o->seeds; s++) {
            run[s] = lab->shared->row[run_at(lab, (struct place){s, model, damping, policy})];
            edge[s] = lab->shared->row[run_at(lab, (struct place){s, model, damping, lab->edge})];
        }
        pacer_summarise(out, run, edge, o->seeds);
    }
    free(run);
    free(edge);
    return all;
}

/* Points run at once, so each has one process; --jobs says how many points. Jobs that are printed
 * for other machines keep the --jobs they were given. */
static int sweep(struct pacer_options *opt, int argc, char **argv)
{
    int words = argc, status;
    char **word = sim_alloc((size_t)argc + 3, sizeof *word);
    memcpy(word, argv, (size_t)argc * sizeof *word);
    if (!opt->sweep.emit_jobs) {
        word[words++] = (char *)(uintptr_t) "--jobs";
        word[words++] = (char *)(uintptr_t) "1";
    }
    status = sim_sweep_run(&opt->sweep, words, word, opt->jobs);
    free(word);
    return status;
}

/* Returns how many files failed, each of which was told on stderr. */
static int write_files(const struct pacer_options *opt, const struct pacer_summary *summary)
{
    char why[400];
    int failed = pacer_files_write(opt, summary);
    if (opt->report != NULL && pacer_html_write(opt, summary, why, sizeof why) != 0)
        failed += sim_outfile_complain("hedge-sim pacer", "report", opt->report, why);
    return failed;
}

static int compare(struct lab *lab)
{
    int signal = 0;
    if (lab->opt.jobs == 0) {
        struct sim_machine machine;
        sim_machine_read(&machine);
        lab->opt.jobs = machine.cpus > 0 ? machine.cpus : 1;
    }
    set_policies(lab);
    if (!open_table(lab))
        return SIM_FAILED;
    sim_interrupts_catch();
    make_runs(lab);
    struct pacer_summary *summary = summarise(lab);
    pacer_report(stdout, &lab->opt, summary);
    fflush(stdout);
    lab->failed |= write_files(&lab->opt, summary) > 0;
    free(summary);
    munmap(lab->shared, lab->bytes);
    if (sim_interrupts(&signal) > 0)
        return SIM_SIGNAL + signal;
    return lab->failed ? SIM_FAILED : SIM_OK;
}

int sim_pacer(int argc, char **argv)
{
    struct lab lab = {.failed = false};
    int status = SIM_OK;
    pacer_options_parse(&lab.opt, argc, argv);
    if (sim_sweep_asked(&lab.opt.sweep))
        status = sweep(&lab.opt, argc, argv);
    else if (lab.opt.list)
        pacer_report_list(stdout);
    else
        status = compare(&lab);
    pacer_options_free(&lab.opt);
    return status;
}
