/* merge.c: `hedge-sim merge`: joins the results of runs that were made apart, as by the jobs that
 * --emit-jobs prints. */
#include "sim/joined.h"
#include "sim/option.h"
#include "sim/report.h"
#include "sim/sim.h"
#include <argp.h>
#include <string.h>

struct merge_options {
    char *const *file;
    int files;
    const char *json, *csv, *report, *want;
};

enum { KEY_JSON = 0x100, KEY_CSV, KEY_REPORT, KEY_WANT };

static const struct argp_option options[] = {
    {"json", KEY_JSON, "FILE", 0, "All runs, each with its point", 1},
    {"csv", KEY_CSV, "FILE", 0, "All runs, one line each", 1},
    {"report", KEY_REPORT, "FILE.html", 0, "One page with plots (needs gnuplot)", 1},
    {"want", KEY_WANT, "EXPR", 0, "The point with the least memory for which it holds", 1},
    {0}};

static const char before[] =
    "Joins the JSON results of kv, pacer or scale, of one program at a time, and prints one table."
    "\vThe params in which the files differ tell the points apart.\n\n"
    "Examples:\n"
    "  hedge-sim merge kv-*.json\n"
    "  hedge-sim merge --report sweep.html --csv sweep.csv kv-*.json\n"
    "  hedge-sim merge --want 'p99<=5ms' kv-*.json\n\n"
    "Exit status: 0; 1: nothing meets --want; 2: wrong usage, a file that is broken or of another "
    "program; 3: a file could not be written.";

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct merge_options *o = state->input;
    switch (key) {
    case KEY_JSON:
        o->json = sim_option_file(state, "json", arg);
        return 0;
    case KEY_CSV:
        o->csv = sim_option_file(state, "csv", arg);
        return 0;
    case KEY_REPORT:
        o->report = sim_option_report(state, arg);
        return 0;
    case KEY_WANT:
        o->want = arg;
        return 0;
    case ARGP_KEY_ARGS:
        o->file = &state->argv[state->next];
        o->files = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "expected files that were written with --json");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int sim_merge(int argc, char **argv)
{
    static const struct argp argp = {options, parse, "FILE...", before, NULL, NULL, NULL};
    struct merge_options o = {.files = 0};
    struct sim_joined j;
    char why[400];
    int status = SIM_OK;
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    sim_joined_init(&j);
    for (int i = 0; i < o.files && status == SIM_OK; i++) {
        if (sim_joined_add(&j, o.file[i], NULL, why, sizeof why) == 0)
            continue;
        fprintf(stderr, "hedge-sim merge: %s\n", why);
        status = SIM_USAGE;
    }
    if (status == SIM_OK) {
        sim_joined_finish(&j);
        sim_joined_print(stdout, &j);
        int wanted = o.want != NULL ? sim_joined_want(stdout, &j, o.want) : 0;
        status = wanted < 0 ? SIM_USAGE : wanted > 0 ? SIM_CHECK : SIM_OK;
        fflush(stdout);
        if (sim_joined_write(&j, argv[0], o.json, o.csv, o.report) > 0)
            status = SIM_FAILED;
    }
    sim_joined_free(&j);
    return status;
}
