/* expr.c: a recursive-descent evaluator for --fail-if (expr.h). It evaluates while it parses;
 * checking an expression is evaluating it with a lookup that knows the names. Nesting is bounded,
 * so that no input can overflow the stack. */
#include "sim/expr.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST        64
#define NAME_MAX_BYTES 48

struct parser {
    const char *text, *at;
    sim_lookup *lookup;
    void *arg;
    char *why;
    size_t room;
    int depth;
    int failed; /* the first error is the one reported; then everything returns at once */
};

static double parse_or(struct parser *p);

static double fail(struct parser *p, const char *expected)
{
    if (!p->failed)
        snprintf(p->why, p->room, "at \"%.20s\" (column %d): expected %s", p->at,
                 (int)(p->at - p->text) + 1, expected);
    p->failed = 1;
    return NAN;
}

/* Takes `token` if it comes next. */
static int take(struct parser *p, const char *token)
{
    p->at += strspn(p->at, " \t");
    size_t n = strlen(token);
    if (p->failed || strncmp(p->at, token, n) != 0)
        return 0;
    p->at += n;
    return 1;
}

static double parse_number(struct parser *p)
{
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"ns", 1},      {"us", 1e3},        {"ms", 1e6},           {"s", 1e9},
                 {"KiB", 1024.}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"%", 0.01}};
    char *end;
    double v = strtod(p->at, &end);
    if (*end == '%') {
        p->at = end + 1;
        return v * 0.01;
    }
    size_t letters = 0;
    while (isalnum((unsigned char)end[letters]))
        letters++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (letters > 0 && strlen(units[i].name) == letters &&
            strncmp(end, units[i].name, letters) == 0) {
            p->at = end + letters;
            return v * units[i].factor;
        }
    }
    p->at = end;
    return letters > 0 ? fail(p, "a unit: ns, us, ms, s, KiB, MiB, GiB or %") : v;
}

/* Reads letters, digits, '_' and ':' into name. */
static int take_name(struct parser *p, char *name)
{
    size_t n = 0;
    while (isalnum((unsigned char)p->at[n]) || p->at[n] == '_' || p->at[n] == ':')
        n++;
    if (n == 0 || n >= NAME_MAX_BYTES)
        return 0;
    memcpy(name, p->at, n);
    name[n] = 0;
    p->at += n;
    return 1;
}

static double parse_figure(struct parser *p)
{
    char policy[NAME_MAX_BYTES] = "", figure[NAME_MAX_BYTES];
    if (!take_name(p, figure))
        return fail(p, "a number or the name of a figure");
    if (*p->at == '.') {
        p->at++;
        memcpy(policy, figure, sizeof policy);
        if (!take_name(p, figure))
            return fail(p, "the name of a figure after the policy");
    }
    double v = NAN;
    if (!p->failed && p->lookup(p->arg, policy, figure, &v, p->why, p->room) != 0)
        p->failed = 1;
    return v;
}

static double parse_unary(struct parser *p)
{
    double v;
    if (p->failed)
        return NAN;
    if (++p->depth > DEEPEST)
        v = fail(p, "less nesting");
    else if (take(p, "-"))
        v = -parse_unary(p);
    else if (take(p, "(")) {
        v = parse_or(p);
        if (!take(p, ")"))
            fail(p, "\")\"");
    } else if (isdigit((unsigned char)*p->at))
        v = parse_number(p);
    else
        v = parse_figure(p);
    p->depth--;
    return v;
}

static double parse_product(struct parser *p)
{
    double v = parse_unary(p);
    for (;;) {
        if (take(p, "*"))
            v *= parse_unary(p);
        else if (take(p, "/"))
            v /= parse_unary(p);
        else
            return v;
    }
}

static double parse_sum(struct parser *p)
{
    double v = parse_product(p);
    for (;;) {
        if (take(p, "+"))
            v += parse_product(p);
        else if (take(p, "-"))
            v -= parse_product(p);
        else
            return v;
    }
}

static double truth(double a, double b, int holds)
{
    return isnan(a) || isnan(b) ? (double)NAN : (double)holds;
}

static double parse_compare(struct parser *p)
{
    double a = parse_sum(p), b;
    if (take(p, "<="))
        return b = parse_sum(p), truth(a, b, a <= b);
    if (take(p, ">="))
        return b = parse_sum(p), truth(a, b, a >= b);
    if (take(p, "=="))
        return b = parse_sum(p), truth(a, b, a == b);
    if (take(p, "!="))
        return b = parse_sum(p), truth(a, b, a != b);
    if (take(p, "<"))
        return b = parse_sum(p), truth(a, b, a < b);
    if (take(p, ">"))
        return b = parse_sum(p), truth(a, b, a > b);
    return a;
}

static double parse_and(struct parser *p)
{
    double a = parse_compare(p);
    while (take(p, "&&")) {
        double b = parse_compare(p);
        a = a == 0 || b == 0 ? 0 : truth(a, b, 1);
    }
    return a;
}

static double parse_or(struct parser *p)
{
    double a = parse_and(p);
    while (take(p, "||")) {
        double b = parse_and(p);
        int either = (!isnan(a) && a != 0) || (!isnan(b) && b != 0);
        a = either ? 1 : truth(a, b, 0);
    }
    return a;
}

int sim_expr(const char *text, sim_lookup *lookup, void *arg, double *out, char *why, size_t room)
{
    struct parser p = {text, text, lookup, arg, why, room, 0, 0};
    double v = parse_or(&p);
    if (!p.failed && p.at[strspn(p.at, " \t")] != 0)
        fail(&p, "an operator or the end");
    if (p.failed)
        return -1;
    *out = v;
    return 0;
}
