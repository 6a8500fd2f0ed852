/* main.c: hedge-sim: picks the subcommand. The table below is the only list of them: --help prints
 * it. */
#include "sim/machine.h"
#include "sim/sim.h"
#include <argp.h>
#include <hedge/core.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct sim_command commands[] = {
    {"kv", "a live key-value load on tasks: latency under pacing policies", sim_kv},
    {"pacer", "the pacer in virtual time: policies under models of noise", sim_pacer},
    {"serve", "a server that speaks the Redis protocol, its data on the heap", sim_serve},
    {"limit", "live programs that meet their memory limit, against none", sim_limit},
    {"scale", "kv's load in virtual time: machines that are not here", sim_scale},
    {"replay", "recorded gctrace and gcpacertrace lines, fed to pacing policies", sim_replay},
    {"merge", "joins results that were made apart", sim_merge},
    {"compress", "compressed messages: codec state made anew, and reused", sim_compress},
    {"conn", "counted reads and writes: a task for each, and counters", sim_conn},
    {"timer", "timers from a pool, and on the stack", sim_timer},
    {"env", "every environment variable, its value and meaning", sim_env},
};
#define COMMANDS (sizeof commands / sizeof *commands)

struct choice {
    const struct sim_command *command;
    int argc;
    char **argv; /* the command's own, its name first */
};

static void print_version(FILE *out, struct argp_state *state)
{
    (void)state;
    fprintf(out, "hedge-sim %s (commit %s)\n", hg_version(), sim_commit());
}

/* The list of commands, for the end of --help. argp frees it. */
static char *help_text(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)(uintptr_t)text;
    char *list = NULL;
    size_t length;
    FILE *out = open_memstream(&list, &length);
    if (out == NULL)
        return NULL;
    fprintf(out, "Commands (hedge-sim COMMAND --help tells more):\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
    fclose(out);
    return list;
}

static void choose(struct argp_state *state, const char *name, struct choice *c)
{
    char names[80] = "";
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            c->command = &commands[i];
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", commands[i].name);
    }
    if (c->command == NULL)
        argp_error(state, "expected a command (%s), not \"%s\"", names, name);
    c->argc = state->argc - state->next + 1;
    c->argv = &state->argv[state->next - 1];
    state->next = state->argc;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case ARGP_KEY_ARG:
        choose(state, arg, state->input);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "expected a command");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        NULL,
        parse,
        "COMMAND [OPTION...]",
        "Workloads and simulations on hedge, a garbage-collected runtime for C.\v",
        NULL,
        help_text,
        NULL};
    struct choice c = {NULL, 0, NULL};
    char name[64];
    argp_err_exit_status = SIM_USAGE;
    argp_program_version_hook = print_version;
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &c);
    snprintf(name, sizeof name, "hedge-sim %s", c.command->name);
    c.argv[0] = name;
    return c.command->run(c.argc, c.argv);
}
