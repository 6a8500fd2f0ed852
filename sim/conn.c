/* conn.c: `hedge-sim conn`: the command line, the rows, the targets (conn.h). */
#include "sim/conn.h"
#include "sim/memory.h"
#include "sim/option.h"
#include "sim/sim.h"
#include "sim/text.h"
#include <math.h>
#include <string.h>

enum { KEY_METRICS = 0x100, KEY_CONNS, KEY_REQUESTS, KEY_FLUSH, KEY_PROCS };

static const struct argp_option options[] = {
    {"metrics", KEY_METRICS, "LIST", 0, "per-read, go-copy, batched, or all (all)", 1},
    {"conns", KEY_CONNS, "N", 0, "Connections (64)", 1},
    {"requests", KEY_REQUESTS, "N", 0, "Requests of each (10000)", 1},
    {"flush", KEY_FLUSH, "S", 0, "batched: seconds between two exports (5)", 1},
    {"procs", KEY_PROCS, "N", 0, "Tasks that run at once (the CPUs)", 1},
    TRIAL_OPTIONS,
    {0}};

static const char before[] =
    "Asks for rows over real sockets while every read and write is counted, in three ways, and "
    "compares allocations, CPU time and collections."
    "\vThis is the Cloud SQL connector for Go before and after its pull request 983 (64 connections "
    "with 10,000 requests each: 25.5 and 7.2 million allocations). The ways:\n"
    "  per-read  each read and write starts a task that records a metric; its\n"
    "            arguments are three heap objects\n"
    "  go-copy   the same, the arguments copied onto the task's stack\n"
    "  batched   each adds to a counter; a task exports them every few seconds\n\n"
    "A request is one write and two reads (a header, a row of 24 to 4,096 bytes). In all ways the "
    "row becomes two heap objects.\n\n"
    "Examples:\n"
    "  hedge-sim conn\n"
    "  hedge-sim conn --metrics per-read,batched --conns 1000 --requests 500\n"
    "  hedge-sim conn --check --json conn.json\n\n" TRIAL_STATUS;

struct command {
    struct conn_options opt;
    struct conn_way way[CONN_METRICS];
    bool metrics[CONN_METRICS], check;
    struct trial_table table;
};

/* ---- command line ---- */

static void parse_metrics(struct argp_state *state, struct command *c, const char *list)
{
    char *copy = sim_alloc(strlen(list) + 1, 1), *rest = copy, *name;
    strcpy(copy, list);
    while ((name = strsep(&rest, ",")) != NULL) {
        bool all = strcmp(name, "all") == 0, known = all;
        for (int k = 0; k < CONN_METRICS; k++) {
            bool this = strcmp(name, conn_metrics_name[k]) == 0;
            c->metrics[k] |= this || all;
            known |= this;
        }
        if (!known)
            argp_error(state, "--metrics: expected per-read, go-copy, batched, or all, not \"%s\"",
                       name);
    }
    free(copy);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct command *c = state->input;
    switch (key) {
    case KEY_METRICS:
        parse_metrics(state, c, arg);
        return 0;
    case KEY_CONNS:
        c->opt.conns = (int)sim_option_number(state, "conns", arg, 1, 10000, true);
        return 0;
    case KEY_REQUESTS:
        c->opt.requests = (int64_t)sim_option_number(state, "requests", arg, 1, 1e9, true);
        return 0;
    case KEY_FLUSH:
        c->opt.flush_s = sim_option_number(state, "flush", arg, 0.001, 1e6, false);
        return 0;
    case KEY_PROCS:
        c->opt.procs = (int)sim_option_number(state, "procs", arg, 1, 1024, true);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "expected options only, not \"%s\"", arg);
        return 0;
    case ARGP_KEY_END:
        if (!c->metrics[CONN_PER_READ] && !c->metrics[CONN_COPY] && !c->metrics[CONN_BATCHED])
            parse_metrics(state, c, "all");
        return 0;
    default:
        return trial_option(&c->table, &c->check, key, arg, state) ? 0 : ARGP_ERR_UNKNOWN;
    }
}

/* ---- the comparison ---- */

static double of(const struct trial_table *t, enum conn_metrics way, enum trial_figure f)
{
    return trial_median(t, trial_row_find(t, conn_metrics_name[way], ""), f);
}

static void report_tasks(const struct trial_table *t)
{
    for (int k = 0; k < CONN_METRICS; k++) {
        double tasks = of(t, (enum conn_metrics)k, TRIAL_TASKS);
        if (!isnan(tasks))
            printf("tasks     %s: %.2f started per request; GC %.1f %% of CPU time\n",
                   conn_metrics_name[k], tasks, 100 * of(t, (enum conn_metrics)k, TRIAL_GC_SHARE));
    }
}

static int report_targets(const struct trial_table *t)
{
    putchar('\n');
    report_tasks(t);
    return trial_target("allocations, batched over per-read",
                        of(t, CONN_BATCHED, TRIAL_ALLOCS) / of(t, CONN_PER_READ, TRIAL_ALLOCS),
                        0.29, true, false) +
           trial_target("CPU time, batched over per-read",
                        of(t, CONN_BATCHED, TRIAL_CPU_NS) / of(t, CONN_PER_READ, TRIAL_CPU_NS),
                        0.999, true, false) +
           trial_target("allocations of go-copy above batched",
                        of(t, CONN_COPY, TRIAL_ALLOCS) - of(t, CONN_BATCHED, TRIAL_ALLOCS), 0.01,
                        true, false);
}

int sim_conn(int argc, char **argv)
{
    static const struct argp argp = {options, parse_option, NULL, before, NULL, NULL, NULL};
    static struct command c = {.opt = {.conns = 64, .requests = 10000, .procs = -1, .flush_s = 5},
                               .table = {.program = "hedge-sim conn",
                                         .label = {"metrics", ""},
                                         .unit = "request",
                                         .fn = conn_run,
                                         .repetitions = 3}};
    char a[32], b[32];
    argp_parse(&argp, argc, argv, 0, NULL, &c);
    for (int k = 0; k < CONN_METRICS; k++) {
        c.way[k] = (struct conn_way){&c.opt, (enum conn_metrics)k};
        if (c.metrics[k])
            trial_row_add(&c.table, conn_metrics_name[k], "", &c.way[k]);
    }
    c.table.operations = (double)c.opt.conns * (double)c.opt.requests;
    c.table.seconds = c.table.operations * 1e-4 + c.opt.flush_s;
    c.table.params = json_pack("{s:i, s:I, s:f, s:i, s:i}", "conns", c.opt.conns, "requests",
                               (json_int_t)c.opt.requests, "flush_s", c.opt.flush_s, "procs",
                               c.opt.procs, "repetitions", c.table.repetitions);
    sim_interrupts_catch();
    trial_header(&c.table);
    printf("load      %s connections, %s requests each, loopback TCP, rows of 24 to 4,096 B\n",
           text_count(c.opt.conns, a), text_count((double)c.opt.requests, b));
    bool done = trial_runs(&c.table);
    return trial_finish(&c.table, done, c.check, report_targets(&c.table));
}
