/* limit_check.c: the checks of --fail-if: figures of a run with a limit by their names, those of
 * the run without one behind "off.". Each check is made for every scenario that ran. */
#include "sim/expr.h"
#include "sim/limit.h"
#include <string.h>

static int lookup(void *arg, const char *policy, const char *figure, double *out, char *why,
                  size_t room)
{
    const struct limit_pair *p = arg; /* NULL: only the names are checked */
    bool off = strcmp(policy, "off") == 0;
    if (policy[0] != 0 && !off) {
        snprintf(why, room, "expected off.%s or %s, not %s.%s", figure, figure, policy, figure);
        return -1;
    }
    for (int f = 0; f < LIMIT_FIGURES; f++) {
        if (strcmp(limit_figure_name[f], figure) != 0)
            continue;
        *out = p == NULL ? 1 : off ? p->free.figure[f] : p->limited.figure[f];
        return 0;
    }
    int n = snprintf(why, room, "there is no figure \"%s\"; expected one of", figure);
    for (int f = 0; f < LIMIT_FIGURES && n > 0 && (size_t)n < room; f++)
        n += snprintf(why + n, room - (size_t)n, " %s", limit_figure_name[f]);
    return -1;
}

int limit_check_syntax(const char *text, char *why, size_t room)
{
    double ignored;
    return sim_expr(text, lookup, NULL, &ignored, why, room);
}

int limit_check(const struct limit_options *opt, const struct limit_pair *pairs, const char *text,
                FILE *out)
{
    int failed = 0, checked = 0;
    for (int i = 0; i < opt->scenarios; i++) {
        struct limit_pair p = pairs[i];
        char why[160];
        double v = NAN;
        if (!p.limited.done)
            continue;
        checked++;
        if (sim_expr(text, lookup, &p, &v, why, sizeof why) == 0 && v == 0)
            continue;
        failed++;
        fprintf(out, "check failed for %s: %s%s\n", p.scenario->name, text,
                isnan(v) ? " cannot be told (a figure is missing)" : "");
    }
    if (checked == 0) {
        fprintf(out, "check failed: %s: nothing was measured\n", text);
        failed++;
    }
    return failed;
}
