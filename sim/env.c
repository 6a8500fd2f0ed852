/* env.c: `hedge-sim env`: every environment variable that the runtime reads, its value and meaning,
 * from the library's own table. */
#include "sim/sim.h"
#include "sim/text.h"
#include <argp.h>
#include <hedge/runtime.h>
#include <stdio.h>

static void print_variable(void *arg, const char *name, const char *help, const char *standard,
                           const char *value, bool valid)
{
    (void)arg;
    if (value == NULL && standard[0] == 0)
        printf("%s is not set\n", name);
    else if (value == NULL)
        printf("%s is not set (%s)\n", name, standard);
    else
        printf("%s=%s%s\n", name, value, valid ? "" : "   <- not valid: the default holds");
    fputs("    ", stdout);
    text_wrap(stdout, 4, help);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    argp_error(state, "expected no argument, not \"%s\"", arg);
    return 0;
}

int sim_env(int argc, char **argv)
{
    static const struct argp argp = {
        NULL,
        parse,
        NULL,
        "Prints every environment variable that hedge reads, its value and meaning. In "
        "parentheses: what holds while it is not set.",
        NULL,
        NULL,
        NULL};
    argp_parse(&argp, argc, argv, 0, NULL, NULL);
    hg_options_each(print_variable, NULL);
    return SIM_OK;
}
