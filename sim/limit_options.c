/* limit_options.c: the command line of `hedge-sim limit`.
 *
 * Every wrong value ends the process with status 2 and one message that names the option, the
 * value, and what is possible, before anything is measured. The environment has no say: a scenario
 * is what its name says.
 */
#include "pacer/pacer.h"
#include "sim/limit.h"
#include "sim/memory.h"
#include "sim/option.h"
#include "sim/size.h"
#include <argp.h>
#include <string.h>

enum {
    KEY_SCENARIO = 0x100,
    KEY_LIMIT,
    KEY_PROCS,
    KEY_DURATION,
    KEY_POLICY,
    KEY_FAIL_IF,
    KEY_JSON,
    KEY_CSV
};

static const struct argp_option options[] = {
    {"scenario", KEY_SCENARIO, "LIST", 0, "below, near, leak, hard, or all (all)", 1},
    {"limit", KEY_LIMIT, "SIZE", 0, "The memory limit: 64MiB, 1.5GiB, ... (64MiB)", 1},
    {"procs", KEY_PROCS, "N", 0, "Tasks that run at once (the CPUs)", 1},
    {"duration", KEY_DURATION, "S", 0, "Seconds measured in each run (5)", 1},
    {"policy", KEY_POLICY, "NAME", 0, "Pacing policy (max:5)", 1},
    {"fail-if", KEY_FAIL_IF, "EXPR", 0,
     "Exit with status 1 if it holds for a scenario; may be repeated", 1},
    {NULL, 0, NULL, 0, "Files (each appears whole, by rename):", 2},
    {"json", KEY_JSON, "FILE", 0, "All figures of all runs", 2},
    {"csv", KEY_CSV, "FILE", 0, "The same, one line per run", 2},
    {0}};

static const char before[] =
    "Runs programs that meet their memory limit, live, each against the same program without one, "
    "and compares with what the simulated pacer predicts."
    "\vScenarios, with live data in shares of the limit:\n"
    "  below   1.25 are alive: GC is held at half of CPU time, the program goes on\n"
    "  near    0.85 are alive: little is left to allocate between collections\n"
    "  leak    0.4, growing to 1.3: limit_passed is called, the program goes on\n"
    "  hard    0.4, and a cache that would grow to 1.2, under a hard limit:\n"
    "          hg_try_alloc gives NULL, out_of_memory lets the cache go; another\n"
    "          runtime in the process goes on\n\n"
    "Examples:\n"
    "  hedge-sim limit\n"
    "  hedge-sim limit --scenario below,leak --limit 256MiB --duration 20\n"
    "  hedge-sim limit --procs 1 --policy adaptive --json limit.json\n"
    "  hedge-sim limit --fail-if 'gc_cpu_share > 55%' --fail-if 'progress < 10%'\n\n"
    "Checks use the figures' names in the CSV, of the runs with a limit; off.FIGURE is that of the "
    "run without one. Times are in ns, sizes in bytes; units ns us ms s KiB MiB GiB % may follow a "
    "number.\n\n"
    "Exit status: 0; 1: a check of --fail-if failed; 2: wrong usage; 3: a run or a file failed; "
    "130: Ctrl-C (what was measured until then is reported).";

/* ---- values ---- */

static void add_scenario(struct argp_state *state, struct limit_options *o, const char *name)
{
    const struct limit_scenario *s = NULL;
    for (int k = 0; k < LIMIT_KINDS; k++)
        if (strcmp(limit_scenarios[k].name, name) == 0)
            s = &limit_scenarios[k];
    if (s == NULL)
        argp_error(state, "--scenario: expected below, near, leak, hard, or all, not \"%s\"", name);
    for (int i = 0; i < o->scenarios; i++)
        if (o->scenario[i] == s)
            argp_error(state, "--scenario: expected each scenario once, not %s twice", name);
    o->scenario[o->scenarios++] = s;
}

static void parse_scenarios(struct argp_state *state, struct limit_options *o, const char *list)
{
    char *copy = sim_alloc(strlen(list) + 1, 1), *rest = copy, *name;
    strcpy(copy, list);
    o->scenarios = 0;
    if (strcmp(list, "all") == 0)
        for (int k = 0; k < LIMIT_KINDS; k++)
            o->scenario[o->scenarios++] = &limit_scenarios[k];
    else
        while ((name = strsep(&rest, ",")) != NULL)
            add_scenario(state, o, name);
    free(copy);
}

static void parse_policy(struct argp_state *state, struct limit_options *o, const char *name)
{
    struct hg_policy_spec spec;
    char why[200] = "";
    if (hg__policy_parse(name, &spec, why, sizeof why) != 0)
        argp_error(state, "--policy: \"%s\": %s", name, why);
    hg__policy_name(&spec, o->policy, sizeof o->policy);
}

static void add_check(struct argp_state *state, struct limit_options *o, const char *text)
{
    char why[1024] = "";
    if (o->checks == LIMIT_CHECKS_MAX)
        argp_error(state, "--fail-if: expected at most %d checks", LIMIT_CHECKS_MAX);
    if (limit_check_syntax(text, why, sizeof why) != 0)
        argp_error(state, "--fail-if: \"%s\": %s", text, why);
    o->fail_if[o->checks++] = text;
}

/* ---- all together ---- */

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct limit_options *o = state->input;
    switch (key) {
    case KEY_SCENARIO:
        parse_scenarios(state, o, arg);
        return 0;
    case KEY_LIMIT:
        o->limit = sim_size_option(state, "limit", arg);
        return 0;
    case KEY_PROCS:
        o->procs = (int)sim_option_number(state, "procs", arg, 1, 1024, true);
        return 0;
    case KEY_DURATION:
        o->duration_s = sim_option_number(state, "duration", arg, 0.1, 1e5, false);
        return 0;
    case KEY_POLICY:
        parse_policy(state, o, arg);
        return 0;
    case KEY_FAIL_IF:
        add_check(state, o, arg);
        return 0;
    case KEY_JSON:
        o->json = sim_option_file(state, "json", arg);
        return 0;
    case KEY_CSV:
        o->csv = sim_option_file(state, "csv", arg);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "expected options only, not \"%s\"", arg);
        return 0;
    case ARGP_KEY_END:
        if (o->scenarios == 0)
            parse_scenarios(state, o, "all");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void limit_options_parse(struct limit_options *opt, int argc, char **argv)
{
    static const struct argp argp = {options, parse_option, NULL, before, NULL, NULL, NULL};
    *opt = (struct limit_options){.limit = INT64_C(64) << 20, .procs = -1, .duration_s = 5};
    snprintf(opt->policy, sizeof opt->policy, "max:5");
    argp_parse(&argp, argc, argv, 0, NULL, opt);
}
