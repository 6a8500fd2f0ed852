/* policy.c: the table of policies, and their names.
 *
 * A name is the policy's, then, for those that take a window, a colon and the window: "mean:2",
 * "max:5", "pi". Without the number the policy's default is meant. To add a policy: a file
 * policy_NAME.c, a kind in pacer.h, a line here.
 */
#include <stdio.h>
#include <string.h>

#include "pacer/internal.h"
#include "pacer/policy.h"

static const struct hg_policy *const policies[HG_POLICY_KINDS] = {
    [HG_POLICY_MEAN] = &hg__policy_mean,
    [HG_POLICY_PI] = &hg__policy_pi,
    [HG_POLICY_MAX] = &hg__policy_max,
};

const struct hg_policy *hg__policy_of(enum hg_policy_kind kind)
{
    return (unsigned)kind < HG_POLICY_KINDS ? policies[kind] : NULL;
}

const char *hg__policy_choices(void) { return "mean:N, pi or max:N, with N from 1 to 32"; }
_Static_assert(HG_PACER_WINDOW == 32, "hg__policy_choices names the longest window");

/* A decimal number of 1..HG_PACER_WINDOW and nothing else, or 0. */
static int parse_n(const char *s)
{
    int n = 0;

    for (; *s; s++) {
        if (*s < '0' || *s > '9')
            return 0;
        n = n * 10 + (*s - '0');
        if (n > HG_PACER_WINDOW)
            return 0;
    }
    return n;
}

static int refuse(char *why, unsigned room, const char *expected)
{
    if (why && room > 0)
        snprintf(why, room, "expected %s", expected);
    return -1;
}

int hg__policy_parse(const char *name, struct hg_policy_spec *out, char *why, unsigned room)
{
    const char *colon = name ? strchr(name, ':') : NULL;
    size_t length = colon ? (size_t)(colon - name) : name ? strlen(name) : 0;

    for (int k = 0; k < HG_POLICY_KINDS; k++) {
        const struct hg_policy *policy = policies[k];
        int n = policy->default_n;

        if (strlen(policy->name) != length || strncmp(policy->name, name ? name : "", length) != 0)
            continue;
        if (colon && !policy->takes_n)
            return refuse(why, room, "pi without a number");
        if (colon)
            n = parse_n(colon + 1);
        if (n == 0)
            return refuse(why, room, "a whole number from 1 to 32 after the colon");
        *out = (struct hg_policy_spec){.kind = (enum hg_policy_kind)k, .n = n};
        return 0;
    }
    return refuse(why, room, hg__policy_choices());
}

void hg__policy_name(const struct hg_policy_spec *spec, char *buf, unsigned room)
{
    const struct hg_policy *policy = hg__policy_of(spec->kind);

    if (room == 0)
        return;
    if (policy && policy->takes_n)
        snprintf(buf, room, "%s:%d", policy->name, spec->n);
    else
        snprintf(buf, room, "%s", policy ? policy->name : "?");
}
