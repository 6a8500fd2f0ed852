/* replay_options.c: the command line of `hedge-sim replay`. */
#include "sim/option.h"
#include "sim/replay.h"
#include "sim/sim.h"
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_POLICY = 0x100, KEY_GOGC, KEY_JSON, KEY_CSV, KEY_REPORT };

static const struct argp_option options[] = {
    {"policy", KEY_POLICY, "LIST", 0, "Policies to ask (mean:2,pi,max:2,max:5)", 1},
    {"gogc", KEY_GOGC, "N", 0, "GOGC of the recorded program (as goals and live heaps show it)", 1},
    {"json", KEY_JSON, "FILE", 0, "Summary, policies and all cycles", 2},
    {"csv", KEY_CSV, "FILE", 0, "One line a cycle, with each policy's estimate", 2},
    {"report", KEY_REPORT, "FILE.html", 0, "One page with plots (needs gnuplot)", 2},
    {0}};

static const char before[] =
    "Reads recorded gctrace and gcpacertrace output, Go's or hedge's, and says what each pacing "
    "policy would have expected."
    "\vRecord with GODEBUG=gctrace=1,gcpacertrace=1 and keep standard error; prefixes of "
    "journald, kubectl and docker compose may stay. Policies are fed from gcpacertrace lines "
    "alone: without them (gctrace=1 only) cycles are summed up and plotted, and --assume is "
    "needed for a what-if.\n\n"
    "Examples:\n"
    "  hedge-sim replay service.log\n"
    "  journalctl -u api -o short | hedge-sim replay --pid 4711 -\n"
    "  hedge-sim replay --policy mean:2,max:5 --report trace.html service.log\n"
    "  hedge-sim replay --assume scan=200MiB gctrace-only.log\n\n"
    "Exit status: 0; 2: wrong usage, or a file that is no trace or a broken one; 3: a file could "
    "not be written.";

static void add_policy(struct argp_state *state, struct replay_options *o, const char *name)
{
    char why[240] = "";
    struct replay_policy p = {.name = ""};
    if (hg__policy_parse(name, &p.spec, why, sizeof why) != 0)
        argp_error(state, "--policy: \"%s\": %s", name, why);
    hg__policy_name(&p.spec, p.name, sizeof p.name);
    for (int i = 0; i < o->policies; i++)
        if (strcmp(o->policy[i].name, p.name) == 0)
            argp_error(state, "--policy: expected each policy once, not %s twice", p.name);
    if (o->policies == REPLAY_POLICIES_MAX)
        argp_error(state, "--policy: expected at most %d policies", REPLAY_POLICIES_MAX);
    o->policy[o->policies++] = p;
}

static void parse_policies(struct argp_state *state, struct replay_options *o, const char *list)
{
    char *copy = strdup(list), *rest = copy, *name;
    if (copy == NULL)
        argp_failure(state, SIM_FAILED, ENOMEM, "--policy");
    o->policies = 0;
    while ((name = strsep(&rest, ",")) != NULL)
        add_policy(state, o, name);
    free(copy);
}

static int parse_gogc(struct argp_state *state, const char *text)
{
    char *end;
    long v = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != 0 || v < 1 || v > 1000000)
        argp_error(state, "--gogc: expected a whole number from 1 to 1000000, not \"%s\"", text);
    return (int)v;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct replay_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->how;
        return 0;
    case KEY_POLICY:
        parse_policies(state, o, arg);
        return 0;
    case KEY_GOGC:
        o->gogc = parse_gogc(state, arg);
        return 0;
    case KEY_JSON:
        o->json = sim_option_file(state, "json", arg);
        return 0;
    case KEY_CSV:
        o->csv = sim_option_file(state, "csv", arg);
        return 0;
    case KEY_REPORT:
        o->report = sim_option_report(state, arg);
        return 0;
    case ARGP_KEY_ARGS:
        o->file = (const char *const *)&state->argv[state->next];
        o->files = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "expected a recorded trace, FILE or - for standard input");
        return 0;
    case ARGP_KEY_END:
        if (o->policies == 0)
            parse_policies(state, o, "mean:2,pi,max:2,max:5");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void replay_options_parse(struct replay_options *opt, int argc, char **argv)
{
    static const struct argp_child children[] = {{&sim_trace_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {options, parse, "FILE...", before, children, NULL, NULL};
    *opt = (struct replay_options){.gogc = -1};
    argp_parse(&argp, argc, argv, 0, NULL, opt);
}
