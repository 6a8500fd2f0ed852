/* test_sim_expr.c: the checks of --fail-if: values, units, precedence, figures that are not known,
 * and what is said about text that is no expression. */
#include "sim/expr.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* p99 is 30 ms, off.p99 20 ms, max:5.p99 25 ms, lost is not known; anything else does not exist. */
static int lookup(void *arg, const char *policy, const char *figure, double *out, char *why,
                  size_t room)
{
    (void)arg;
    if (strcmp(figure, "lost") == 0)
        *out = NAN;
    else if (strcmp(figure, "p99") != 0) {
        snprintf(why, room, "no figure %s", figure);
        return -1;
    } else if (policy[0] == 0)
        *out = 30e6;
    else if (strcmp(policy, "off") == 0)
        *out = 20e6;
    else if (strcmp(policy, "max:5") == 0)
        *out = 25e6;
    else {
        snprintf(why, room, "no policy %s", policy);
        return -1;
    }
    return 0;
}

static double value(const char *text)
{
    char why[200] = "";
    double v = -12345;
    cr_assert_eq(sim_expr(text, lookup, NULL, &v, why, sizeof why), 0, "%s: %s", text, why);
    return v;
}

Test(sim_expr, arithmetic)
{
    cr_assert_eq(value("1 + 2*3"), 7);
    cr_assert_eq(value("(1 + 2)*3"), 9);
    cr_assert_eq(value("7 - 2 - 1"), 4, "from the left");
    cr_assert_eq(value("8/4/2"), 1);
    cr_assert_eq(value("-2*-3"), 6);
    cr_assert_eq(value("1.5e3"), 1500);
    cr_assert_eq(value("5ms"), 5e6);
    cr_assert_eq(value("5 "), 5);
    cr_assert_eq(value("2us + 3ns"), 2003);
    cr_assert_eq(value("1GiB"), 1073741824.0);
    cr_assert_float_eq(value("2.5%"), 0.025, 1e-12);
    cr_assert_eq(value("1s"), 1e9);
}

Test(sim_expr, figures)
{
    cr_assert_eq(value("p99"), 30e6);
    cr_assert_eq(value("off.p99"), 20e6);
    cr_assert_eq(value("max:5.p99"), 25e6);
    cr_assert_eq(value("p99 > 1.5*off.p99"), 0, "30 is not above 30");
    cr_assert_eq(value("p99 >= 1.5*off.p99"), 1);
    cr_assert_eq(value("p99>1.4*off.p99"), 1);
    cr_assert_eq(value("p99 - off.p99 <= 10ms"), 1);
    cr_assert_eq(value("p99 == 30ms"), 1);
    cr_assert_eq(value("p99 != 30ms"), 0);
    cr_assert_eq(value("p99 < 5ms"), 0);
}

Test(sim_expr, logic)
{
    cr_assert_eq(value("1 > 2 || 2 > 1"), 1);
    cr_assert_eq(value("1 > 2 && 2 > 1 || 1"), 1, "and binds before or");
    cr_assert_eq(value("1 || 1 > 2 && 0"), 1);
    cr_assert_eq(value("0 || 0"), 0);
}

Test(sim_expr, what_is_not_known)
{
    cr_assert(isnan(value("lost > 1")));
    cr_assert(isnan(value("lost")));
    cr_assert(isnan(value("lost != lost")));
    cr_assert(isnan(value("lost > 1 && 1")));
    cr_assert(isnan(value("0 || lost > 1")));
    cr_assert_eq(value("lost > 1 && 0"), 0, "the other side decides alone");
    cr_assert_eq(value("1 || lost > 1"), 1);
}

Test(sim_expr, errors)
{
    static const struct {
        const char *text, *said;
    } bad[] = {{"", "a number or the name"},
               {"p99 >", "column 6"},
               {"1 2", "an operator"},
               {"(1", "\")\""},
               {"5min", "a unit"},
               {"p98", "no figure p98"},
               {"mean:2.p99", "no policy"},
               {"off.", "after the policy"},
               {"p99 > 1 )", "an operator"},
               {"* 2", "a number or the name"},
               {"1 + p98 + p97", "figure p98"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char why[200] = "";
        double v = 1;
        cr_assert_eq(sim_expr(bad[i].text, lookup, NULL, &v, why, sizeof why), -1, "%s",
                     bad[i].text);
        cr_assert_not_null(strstr(why, bad[i].said), "\"%s\": %s", bad[i].text, why);
        cr_assert_eq(v, 1, "nothing is written");
    }
}

/* Nesting must end in a message, not in a stack overflow. */
Test(sim_expr, depth)
{
    static char text[200001];
    char why[200];
    double v;
    memset(text, '(', 100000);
    memset(text + 100000, '-', 100000);
    cr_assert_eq(sim_expr(text, lookup, NULL, &v, why, sizeof why), -1);
    cr_assert_not_null(strstr(why, "less nesting"), "%s", why);
    cr_assert_eq(value("((((((((((1))))))))))"), 1);
}
