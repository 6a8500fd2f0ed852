/* policy.c: the table of policies, and their names.
 *
 * A name is the policy's, then a colon and a number for each parameter: "mean:2", "quantile:8:0.9",
 * "pi". Parameters left out at the end have their standard values. Numbers are decimal, with at
 * most four decimals, and are read and written here: what the C library does with a comma depends
 * on the host program's locale. To add a policy: a file policy_NAME.c, a kind in pacer.h, a line
 * here and in hg__policy_choices.
 */
#include <stdio.h>
#include <string.h>

#include "pacer/internal.h"
#include "pacer/policy.h"

#define DECIMALS      4
#define DECIMAL_UNITS 10000 /* 10 to the power of DECIMALS */
#define DIGITS_MOST   9     /* of a number, all together */

static const struct hg_policy *const policies[HG_POLICY_KINDS] = {
    [HG_POLICY_MEAN] = &hg__policy_mean,         [HG_POLICY_PI] = &hg__policy_pi,
    [HG_POLICY_MAX] = &hg__policy_max,           [HG_POLICY_EWMA] = &hg__policy_ewma,
    [HG_POLICY_QUANTILE] = &hg__policy_quantile, [HG_POLICY_DIRECTOR] = &hg__policy_director,
    [HG_POLICY_IHOP] = &hg__policy_ihop,         [HG_POLICY_ADAPTIVE] = &hg__policy_adaptive,
};

const struct hg_policy *hg__policy_of(enum hg_policy_kind kind)
{
    return (unsigned)kind < HG_POLICY_KINDS ? policies[kind] : NULL;
}

const char *hg__policy_choices(void)
{
    return "mean:N, pi, max:N, ewma:K, quantile:N:Q, director:F, ihop or adaptive, with N from 1 "
           "to 32, K from 0 to 10, Q from 0 to 1 and F from 1 to 10";
}
_Static_assert(HG_PACER_WINDOW == 32, "hg__policy_choices names the longest window");

const char *hg__policy_help(enum hg_policy_kind kind)
{
    const struct hg_policy *policy = hg__policy_of(kind);

    return policy ? policy->help : NULL;
}

/* ---- specifications ---- */

struct hg_policy_spec hg__policy_standard(enum hg_policy_kind kind)
{
    struct hg_policy_spec spec = {.kind = kind};
    const struct hg_policy *policy = hg__policy_of(kind);

    for (int i = 0; policy && i < policy->params; i++)
        spec.param[i] = policy->param[i].standard;
    return spec;
}

void hg__policy_clean(struct hg_policy_spec *spec)
{
    const struct hg_policy *policy = hg__policy_of(spec->kind);

    if (!policy) {
        *spec = (struct hg_policy_spec){.kind = HG_POLICY_MAX};
        policy = hg__policy_of(HG_POLICY_MAX);
    }
    for (int i = 0; i < HG_POLICY_PARAMS; i++) {
        const struct hg_policy_param *range = &policy->param[i];
        double v = spec->param[i];

        if (i >= policy->params)
            v = 0;
        else if (v == 0 && range->low > 0)
            v = range->standard;
        else
            v = hg__pacer_clamp(v, range->low, range->high);
        spec->param[i] = range->whole ? (double)(int)v : v;
    }
}

bool hg__policy_same(const struct hg_policy_spec *a, const struct hg_policy_spec *b)
{
    for (int i = 0; i < HG_POLICY_PARAMS; i++) {
        if (a->param[i] != b->param[i])
            return false;
    }
    return a->kind == b->kind;
}

int hg__policy_window(const struct hg_policy_spec *spec)
{
    int window = hg__policy_of(spec->kind)->window;

    return window > 0 ? window : (int)spec->param[0];
}

int hg__policy_len(const struct hg_pacer *p)
{
    int n = (int)p->config.policy.param[0];

    return p->window_len < n ? p->window_len : n;
}

/* ---- names ---- */

/* Reads "12", "0.25" up to `end` or a colon; NULL: that is no such number. */
static const char *read_number(const char *s, const struct hg_policy_param *range, double *out)
{
    int64_t units = 0, scale = 1;
    int digits = 0;
    bool point = false;

    for (; *s && *s != ':'; s++) {
        if (*s == '.' && !point && digits > 0 && !range->whole) {
            point = true;
            continue;
        }
        if (*s < '0' || *s > '9' || digits == DIGITS_MOST || scale == DECIMAL_UNITS)
            return NULL;
        units = units * 10 + (*s - '0');
        scale = point ? scale * 10 : scale;
        digits++;
    }
    *out = (double)units / (double)scale;
    return digits > 0 && s[-1] != '.' && *out >= range->low && *out <= range->high ? s : NULL;
}

/* Writes v, of at most four decimals, without zeroes at its end. */
static void write_number(double v, char *buf, unsigned room)
{
    int64_t units = (int64_t)(v * DECIMAL_UNITS + 0.5), rest = units % DECIMAL_UNITS;
    int length = snprintf(buf, room, "%lld.%0*lld", (long long)(units / DECIMAL_UNITS), DECIMALS,
                          (long long)rest);

    while (buf[length - 1] == '0')
        buf[--length] = 0;
    if (buf[length - 1] == '.')
        buf[--length] = 0;
}

static int refuse(char *why, unsigned room, const char *expected)
{
    if (why && room > 0)
        snprintf(why, room, "expected %s", expected);
    return -1;
}

/* "expected a number from 0 to 10 as K of ewma:K", in general terms. */
static int refuse_number(char *why, unsigned room, const struct hg_policy *policy, int i)
{
    static const char *const place[HG_POLICY_PARAMS] = {"first", "second"};
    const struct hg_policy_param *range = &policy->param[i];
    char text[120], low[24], high[24];

    write_number(range->low, low, sizeof low);
    write_number(range->high, high, sizeof high);
    snprintf(text, sizeof text, "a %s from %s to %s after the %s colon of %s",
             range->whole ? "whole number" : "number", low, high, place[i], policy->name);
    return refuse(why, room, text);
}

static int parse_params(const struct hg_policy *policy, const char *rest, double *param, char *why,
                        unsigned room)
{
    for (int i = 0; *rest; i++) {
        if (i == policy->params && i == 0) {
            char text[60];

            snprintf(text, sizeof text, "%s without a number", policy->name);
            return refuse(why, room, text);
        }
        if (i == policy->params)
            return refuse(why, room, hg__policy_choices());
        rest = read_number(rest + 1, &policy->param[i], &param[i]);
        if (!rest)
            return refuse_number(why, room, policy, i);
    }
    return 0;
}

int hg__policy_parse(const char *name, struct hg_policy_spec *out, char *why, unsigned room)
{
    size_t length = name ? strcspn(name, ":") : 0;

    for (int k = 0; k < HG_POLICY_KINDS; k++) {
        const struct hg_policy *policy = policies[k];
        struct hg_policy_spec spec = hg__policy_standard((enum hg_policy_kind)k);

        if (length != strlen(policy->name) || strncmp(policy->name, name ? name : "", length) != 0)
            continue;
        if (parse_params(policy, name + length, spec.param, why, room) != 0)
            return -1;
        *out = spec;
        return 0;
    }
    return refuse(why, room, hg__policy_choices());
}

void hg__policy_name(const struct hg_policy_spec *spec, char *buf, unsigned room)
{
    const struct hg_policy *policy = hg__policy_of(spec->kind);
    char text[80];
    size_t length;

    if (room == 0)
        return;
    length = (size_t)snprintf(text, sizeof text, "%s", policy ? policy->name : "?");
    for (int i = 0; policy && i < policy->params; i++) {
        char number[24];

        write_number(spec->param[i], number, sizeof number);
        length += (size_t)snprintf(text + length, sizeof text - length, ":%s", number);
    }
    snprintf(buf, room, "%s", text);
}
