/* pacer_options.c: the command line of `hedge-sim pacer`.
 *
 * Every wrong value ends the process with status 2 and one message that names the option, the
 * value, and what is possible, before anything is simulated.
 */
#include "sim/memory.h"
#include "sim/option.h"
#include "sim/pacer.h"
#include "sim/sim.h"
#include "sim/size.h"
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_MODEL = 0x100,
    KEY_TRACE,
    KEY_POLICY,
    KEY_DAMPING,
    KEY_GOGC,
    KEY_LIMIT,
    KEY_SEED,
    KEY_SEEDS,
    KEY_CYCLES,
    KEY_JOBS,
    KEY_JSON,
    KEY_CSV,
    KEY_REPORT,
    KEY_LIST
};

#define STANDARD_POLICIES "mean:2,pi,max:2,max:5,ewma:2,quantile:8:0.9,director,ihop,adaptive"

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "What is simulated:", 1},
    {"model", KEY_MODEL, "LIST", 0,
     "Models: of noise, or all of these; with a memory limit: limit-below, limit-near, limit-leak; "
     "replay, with --trace (all)",
     1},
    {"trace", KEY_TRACE, "FILE", 0,
     "Recorded gctrace and gcpacertrace lines, for model replay; - is standard input", 1},
    {"policy", KEY_POLICY, "LIST", 0, "Policies (one of each kind, and max:2)", 1},
    {"damping", KEY_DAMPING, "LIST", 0,
     "Sets of dampers that are on within a cycle: all, none, some of deadband, credit and landing "
     "joined by +; each: all, all but one, none (all)",
     1},
    {"gogc", KEY_GOGC, "N", 0, "Heap growth in per cent between cycles (100)", 1},
    {"limit", KEY_LIMIT, "SIZE", 0,
     "Memory limit: 64MiB, 1.5GiB, ... (256MiB with the models limit-*, else none)", 1},
    {"cycles", KEY_CYCLES, "N", 0, "Cycles of a run (1000)", 1},
    {"seed", KEY_SEED, "N", 0, "Of the first run (42)", 1},
    {"seeds", KEY_SEEDS, "N", 0, "Runs of each kind, with seeds from N of --seed on (100)", 1},
    {"jobs", KEY_JOBS, "N", 0, "Processes (one per CPU)", 1},
    {"list", KEY_LIST, NULL, 0, "Print the models and policies, and end", 1},
    {NULL, 0, NULL, 0, "Files (each appears whole, by rename):", 2},
    {"json", KEY_JSON, "FILE", 0, "All figures with their intervals", 2},
    {"csv", KEY_CSV, "FILE", 0, "The same, one line per model, dampers and policy", 2},
    {"report", KEY_REPORT, "FILE.html", 0, "One page with plots (needs gnuplot)", 2},
    {0}};

static const char before[] =
    "Simulates the pacer in a closed loop over thousands of collections under noise, policies side "
    "by side."
    "\vThe pacer is the real one, of the runtime; the program is a model in virtual time. All "
    "policies meet the same loads. Figures are means over seeds with 95 % intervals; cycles per "
    "GiB are compared with " PACER_EDGE ", which sits on the edge, seed by seed.\n\n"
    "Examples:\n"
    "  hedge-sim pacer\n"
    "  hedge-sim pacer --model uniform,idle --policy mean:2,max:5,adaptive\n"
    "  hedge-sim pacer --model uniform --policy mean:2,max:5 --damping each\n"
    "  hedge-sim pacer --gogc 300 --seeds 20 --json pacer.json --report pacer.html\n"
    "  hedge-sim pacer --model limit-below,limit-leak --policy max:5 --limit 1GiB\n"
    "  hedge-sim pacer --sweep gogc=50:400:50 --model uniform --policy mean:2,max:5,adaptive\n"
    "  hedge-sim pacer --model replay --trace service.log --gogc 200\n"
    "  hedge-sim pacer --list\n\n"
    "Exit status: 0; 1: no point meets --want; 2: wrong usage; 3: a process or a file failed; "
    "130: Ctrl-C (what was simulated until then is reported).";

/* ---- values ---- */

static uint64_t whole(struct argp_state *state, const char *option, const char *text, uint64_t low,
                      uint64_t high)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != 0 || errno != 0 || v < low || v > high)
        argp_error(state, "--%s: expected a whole number from %llu to %llu, not \"%s\"", option,
                   (unsigned long long)low, (unsigned long long)high, text);
    return v;
}

/* Calls add for each part of a list. */
static void each_of(struct argp_state *state, struct pacer_options *o, const char *list,
                    void (*add)(struct argp_state *, struct pacer_options *, const char *))
{
    char *copy = sim_alloc(strlen(list) + 1, 1), *rest = copy, *name;
    strcpy(copy, list);
    while ((name = strsep(&rest, ",")) != NULL)
        add(state, o, name);
    free(copy);
}

static void add_model(struct argp_state *state, struct pacer_options *o, const char *name)
{
    const struct pacer_model *m = pacer_model_find(name);
    char names[300] = "";
    for (int i = 0; m == NULL && i < pacer_model_count; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s, ", pacer_models[i].name);
    for (int i = 0; m == NULL && i < pacer_limit_model_count; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s, ",
                 pacer_limit_models[i].name);
    if (m == NULL)
        argp_error(state, "--model: expected %s%s, or all, not \"%s\"", names,
                   pacer_model_replay.name, name);
    for (int i = 0; i < o->models; i++)
        if (o->model[i] == m)
            argp_error(state, "--model: expected each model once, not %s twice", name);
    o->model[o->models++] = m; /* there are fewer models than places */
}

static void parse_models(struct argp_state *state, struct pacer_options *o, const char *list)
{
    o->models = 0;
    if (strcmp(list, "all") != 0) {
        each_of(state, o, list, add_model);
        return;
    }
    for (int i = 0; i < pacer_model_count; i++)
        o->model[o->models++] = &pacer_models[i];
}

static void add_policy(struct argp_state *state, struct pacer_options *o, const char *name)
{
    struct pacer_policy p;
    char why[200];
    if (hg__policy_parse(name, &p.spec, why, sizeof why) != 0)
        argp_error(state, "--policy: \"%s\": %s", name, why);
    hg__policy_name(&p.spec, p.name, sizeof p.name);
    for (int i = 0; i < o->policies; i++)
        if (strcmp(o->policy[i].name, p.name) == 0)
            argp_error(state, "--policy: expected each policy once, not %s twice", p.name);
    if (o->policies == PACER_POLICIES_MAX)
        argp_error(state, "--policy: expected at most %d policies", PACER_POLICIES_MAX);
    o->policy[o->policies++] = p;
}

/* ---- dampers ---- */

static void name_damping(struct pacer_damping *d)
{
    const struct {
        bool on;
        const char *name;
    } damper[] = {{!d->study.no_deadband, "deadband"},
                  {!d->study.no_credit, "credit"},
                  {!d->study.no_landing, "landing"}};
    int on = 0;
    d->name[0] = 0;
    for (size_t i = 0; i < sizeof damper / sizeof *damper; i++) {
        if (!damper[i].on)
            continue;
        size_t used = strlen(d->name);
        snprintf(d->name + used, sizeof d->name - used, "%s%s", on++ > 0 ? "+" : "",
                 damper[i].name);
    }
    if (on == 0 || on == 3)
        snprintf(d->name, sizeof d->name, "%s", on == 0 ? "none" : "all");
}

static void add_damping_set(struct argp_state *state, struct pacer_options *o,
                            struct hg_pacer_study study)
{
    struct pacer_damping d = {.study = study};
    name_damping(&d);
    for (int i = 0; i < o->dampings; i++)
        if (strcmp(o->damping[i].name, d.name) == 0)
            argp_error(state, "--damping: expected each set once, not %s twice", d.name);
    o->damping[o->dampings++] = d;
}

static void add_damping(struct argp_state *state, struct pacer_options *o, const char *name)
{
    struct hg_pacer_study none = {true, true, true}, set = none;
    if (strcmp(name, "all") == 0)
        set = (struct hg_pacer_study){0};
    else if (strcmp(name, "none") != 0) {
        char copy[64], *rest = copy, *part;
        snprintf(copy, sizeof copy, "%s", name);
        while ((part = strsep(&rest, "+")) != NULL) {
            bool *off = strcmp(part, "deadband") == 0  ? &set.no_deadband
                        : strcmp(part, "credit") == 0  ? &set.no_credit
                        : strcmp(part, "landing") == 0 ? &set.no_landing
                                                       : NULL;
            if (off == NULL) {
                argp_error(state,
                           "--damping: expected all, none, each, or some of deadband, credit and "
                           "landing joined by +, not \"%s\"",
                           name);
                return;
            }
            *off = false;
        }
    }
    add_damping_set(state, o, set);
}

static void parse_dampings(struct argp_state *state, struct pacer_options *o, const char *list)
{
    o->dampings = 0;
    if (strcmp(list, "each") == 0)
        list = "all,credit+landing,deadband+landing,deadband+credit,none";
    each_of(state, o, list, add_damping);
}

/* ---- traces ---- */

/* A trace and the model that plays it belong together. In a sweep either may be what is swept, so
 * there each point looks for itself, before it simulates. */
static void finish_trace(struct argp_state *state, struct pacer_options *o)
{
    char why[400];
    bool wanted = false;
    for (int i = 0; i < o->models; i++)
        wanted |= o->model[i] == &pacer_model_replay;
    if (sim_sweep_asked(&o->sweep)) {
        if (o->trace_file != NULL && strcmp(o->trace_file, "-") == 0)
            argp_error(state, "--trace: expected a file's name with a sweep, not standard input: "
                              "each point reads it");
        return;
    }
    if (wanted && o->trace_file == NULL)
        argp_error(state, "--model: expected --trace FILE with replay, a recorded trace to play");
    const char *given = o->trace_file != NULL ? "trace" : sim_trace_how_given(&o->how);
    if (!wanted && given != NULL)
        argp_error(state, "--%s: expected with --model replay, which plays a recorded trace",
                   given);
    if (wanted && pacer_trace_read(&o->trace, o->trace_file, &o->how, why, sizeof why) != 0)
        argp_error(state, "--trace: %s", why);
}

/* ---- all together ---- */

static void finish(struct argp_state *state, struct pacer_options *o)
{
    if (o->models == 0)
        parse_models(state, o, "all");
    if (o->policies == 0)
        each_of(state, o, STANDARD_POLICIES, add_policy);
    if (o->dampings == 0)
        parse_dampings(state, o, "all");
    finish_trace(state, o);
}

static error_t parse_number_or_file(int key, char *arg, struct argp_state *state)
{
    struct pacer_options *o = state->input;
    switch (key) {
    case KEY_GOGC:
        o->gogc = (int)whole(state, "gogc", arg, 1, 100000);
        return 0;
    case KEY_LIMIT:
        o->limit = sim_size_option(state, "limit", arg);
        return 0;
    case KEY_CYCLES:
        o->cycles = (int)whole(state, "cycles", arg, 1, 10000000);
        return 0;
    case KEY_SEED:
        o->seed = whole(state, "seed", arg, 0, UINT64_MAX);
        return 0;
    case KEY_SEEDS:
        o->seeds = (int)whole(state, "seeds", arg, 1, 100000);
        return 0;
    case KEY_JOBS:
        o->jobs = (int)whole(state, "jobs", arg, 1, 1024);
        return 0;
    case KEY_JSON:
        o->json = sim_option_file(state, "json", arg);
        sim_sweep_output(&o->sweep, state, "json", arg);
        return 0;
    case KEY_CSV:
        o->csv = sim_option_file(state, "csv", arg);
        sim_sweep_output(&o->sweep, state, "csv", arg);
        return 0;
    case KEY_REPORT:
        o->report = sim_option_report(state, arg);
        sim_sweep_output(&o->sweep, state, "report", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct pacer_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->sweep;
        state->child_inputs[1] = &o->how;
        return 0;
    case KEY_MODEL:
        parse_models(state, o, arg);
        return 0;
    case KEY_TRACE:
        o->trace_file = arg;
        return 0;
    case KEY_POLICY:
        o->policies = 0;
        each_of(state, o, arg, add_policy);
        return 0;
    case KEY_DAMPING:
        parse_dampings(state, o, arg);
        return 0;
    case KEY_LIST:
        o->list = true;
        sim_sweep_refuse(&o->sweep, "list");
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "expected options only, not \"%s\"", arg);
        return 0;
    case ARGP_KEY_END:
        finish(state, o);
        return 0;
    default:
        return parse_number_or_file(key, arg, state);
    }
}

void pacer_options_parse(struct pacer_options *opt, int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&sim_sweep_argp, 0, NULL, 0}, {&sim_trace_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {options, parse_option, NULL, before, children, NULL, NULL};
    *opt = (struct pacer_options){.seed = 42, .seeds = 100, .cycles = 1000, .gogc = 100};
    argp_parse(&argp, argc, argv, 0, NULL, opt);
}

void pacer_options_free(struct pacer_options *opt)
{
    pacer_trace_free(&opt->trace);
    sim_sweep_free(&opt->sweep);
}

struct hg_pacer_config pacer_config(const struct pacer_options *opt,
                                    const struct hg_policy_spec *policy,
                                    const struct hg_pacer_study *study,
                                    const struct pacer_model *model)
{
    int64_t limit = opt->limit > 0 ? opt->limit : pacer_model_limit(model);
    return (struct hg_pacer_config){.gc_percent = opt->gogc,
                                    .memory_limit = limit > 0 ? limit : INT64_MAX,
                                    .min_heap = model->min_heap,
                                    .policy = *policy,
                                    .study = *study};
}
