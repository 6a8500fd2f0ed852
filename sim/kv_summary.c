/* kv_summary.c: from runs to policies: medians over repetitions, pairs for the comparison, checks.
 * Pure. */
#include "sim/expr.h"
#include "sim/kv.h"
#include "sim/memory.h"
#include "sim/stats.h"
#include <math.h>
#include <string.h>

static int index_of(const struct kv_summary *s, const char *policy)
{
    for (int i = 0; i < s->policies; i++)
        if (strcmp(s->policy[i].policy, policy) == 0)
            return i;
    return -1;
}

/* The values of one figure in all runs of a policy; returns how many. */
static size_t values_of(const struct kv_runs *runs, const char *policy, enum kv_metric m,
                        double *out)
{
    size_t n = 0;
    for (int i = 0; i < runs->n; i++)
        if (strcmp(runs->run[i].policy, policy) == 0)
            out[n++] = runs->run[i].metric[m];
    return n;
}

/* The bootstrap interval of the run whose p99 is nearest to the median. */
static void typical_interval(const struct kv_runs *runs, struct kv_policy_summary *p)
{
    double nearest = INFINITY;
    for (int i = 0; i < runs->n; i++) {
        const struct kv_result *r = &runs->run[i];
        double off = fabs(r->metric[KV_P99] - p->median[KV_P99]);
        if (strcmp(r->policy, p->policy) != 0 || !(off < nearest))
            continue;
        nearest = off;
        p->p99_low = r->metric[KV_P99_LOW];
        p->p99_high = r->metric[KV_P99_HIGH];
    }
}

static void summarise_policy(const struct kv_runs *runs, struct kv_policy_summary *p)
{
    double *v = sim_alloc((size_t)runs->n, sizeof *v);
    for (int m = 0; m < KV_METRICS; m++) {
        size_t n = values_of(runs, p->policy, (enum kv_metric)m, v);
        p->runs = (int)n;
        p->median[m] = sim_median(v, n);
        p->least[m] = p->most[m] = NAN;
        for (size_t i = 0; i < n; i++) {
            p->least[m] = fmin(p->least[m], v[i]); /* NaN gives way */
            p->most[m] = fmax(p->most[m], v[i]);
        }
    }
    free(v);
    p->few_cycles = p->gc && p->median[KV_CYCLES] < KV_FEWEST_CYCLES;
    p->p99_low = p->p99_high = NAN;
    typical_interval(runs, p);
}

static void add_blame(struct kv_policy_summary *p, const struct kv_result *r)
{
    for (int in = 0; in < 2; in++) {
        p->blame[in].requests += r->blame[in].requests;
        p->blame[in].behind_ns += r->blame[in].behind_ns;
        for (int k = 0; k < KV_PARTS; k++)
            p->blame[in].ns[k] += r->blame[in].ns[k];
    }
}

void kv_summarise(const struct kv_runs *runs, struct kv_summary *s)
{
    memset(s, 0, sizeof *s);
    s->reference = -1;
    for (int i = 0; i < runs->n; i++) {
        const struct kv_result *r = &runs->run[i];
        int k = index_of(s, r->policy);
        if (k < 0 && s->policies < KV_POLICIES_MAX) {
            k = s->policies++;
            s->policy[k].policy = r->policy;
            s->policy[k].gc = r->gc;
        }
        if (k >= 0)
            add_blame(&s->policy[k], r);
    }
    for (int i = 0; i < s->policies; i++) {
        summarise_policy(runs, &s->policy[i]);
        if (!s->policy[i].gc)
            s->reference = i;
    }
    if (s->policies < 2)
        s->reference = -1;
    else if (s->reference < 0)
        s->reference = 0;
}

static const struct kv_result *find_run(const struct kv_runs *runs, const char *policy,
                                        int repetition)
{
    for (int i = 0; i < runs->n; i++)
        if (runs->run[i].repetition == repetition && strcmp(runs->run[i].policy, policy) == 0)
            return &runs->run[i];
    return NULL;
}

size_t kv_pairs(const struct kv_runs *runs, const char *policy, const char *reference,
                enum kv_metric m, double *a, double *b)
{
    size_t n = 0;
    for (int i = 0; i < runs->n; i++) {
        const struct kv_result *r = &runs->run[i], *other;
        if (strcmp(r->policy, policy) != 0 ||
            (other = find_run(runs, reference, r->repetition)) == NULL)
            continue;
        a[n] = r->metric[m];
        b[n++] = other->metric[m];
    }
    return n;
}

/* ---- checks ---- */

struct check {
    const struct kv_summary *summary;
    int of; /* the policy that unqualified names mean */
};

static int unknown_figure(const char *figure, char *why, size_t room)
{
    int n = snprintf(why, room, "there is no figure \"%s\"; expected one of", figure);
    for (int m = 0; m < KV_METRICS && n > 0 && (size_t)n < room; m++)
        n += snprintf(why + n, room - (size_t)n, " %s", kv_metric_info[m].name);
    return -1;
}

static int lookup_median(void *arg, const char *policy, const char *figure, double *out, char *why,
                         size_t room)
{
    const struct check *c = arg;
    enum kv_metric m = kv_metric_find(figure);
    if (m == KV_METRICS)
        return unknown_figure(figure, why, room);
    int k = policy[0] != 0 ? index_of(c->summary, policy) : c->of;
    *out = k >= 0 ? c->summary->policy[k].median[m] : (double)NAN;
    return 0;
}

static int lookup_name(void *arg, const char *policy, const char *figure, double *out, char *why,
                       size_t room)
{
    const struct kv_options *opt = arg;
    if (kv_metric_find(figure) == KV_METRICS)
        return unknown_figure(figure, why, room);
    *out = 1;
    for (int i = 0; i < opt->policies; i++)
        if (policy[0] == 0 || strcmp(opt->policy[i].name, policy) == 0)
            return 0;
    snprintf(why, room, "policy \"%s\" is not among those that run", policy);
    return -1;
}

int kv_check_syntax(const struct kv_options *opt, const char *expression, char *why, size_t room)
{
    double ignored;
    return sim_expr(expression, lookup_name, (void *)(uintptr_t)opt, &ignored, why, room);
}

int kv_check(const struct kv_summary *s, const char *expression, FILE *out)
{
    int failed = 0, checked = 0;
    for (int i = 0; i < s->policies; i++) {
        struct check c = {s, i};
        char why[160];
        double v = NAN;
        if (!s->policy[i].gc && s->policies > 1)
            continue;
        checked++;
        if (sim_expr(expression, lookup_median, &c, &v, why, sizeof why) == 0 && v == 0)
            continue;
        failed++;
        fprintf(out, "check failed for %s: %s%s\n", s->policy[i].policy, expression,
                isnan(v) ? " cannot be told (a figure is missing)" : "");
    }
    if (checked == 0) {
        fprintf(out, "check failed: %s: nothing was measured\n", expression);
        failed++;
    }
    return failed;
}
