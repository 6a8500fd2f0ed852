/* measure.c: what a cycle has measured, and the pacer's state from one cycle to the next.
 *
 *   c = (alloc_bytes / mutator_ns) / (scanned / (assist_ns + background_ns + idle_ns))
 *
 * Idle marking is GC time and not mutator time: the mutators may take those CPUs back at any
 * moment, so that work done there must not make the mutators look slower than they are. Time in
 * which a proc did nothing at all is neither.
 *
 * A cycle too short to divide by (a few microseconds of marking or mutators, or a few KiB of work)
 * gives no ratio: it would sit in a maximum's window for N cycles. Its sizes are facts all the same
 * and are taken in. A forced cycle is measured like any other; its ratio does not depend on why it
 * began.
 *
 * Windows hold the newest first. The policy learns of each new ratio once; it is asked for its
 * estimate then, when a configuration changes it, and, if it looks ahead, as the calm goes on.
 */
#include <string.h>

#include "pacer/internal.h"
#include "pacer/policy.h"

#define LEAST_CPU_NS  INT64_C(20000)
#define LEAST_WALL_NS INT64_C(1000)
#define LEAST_SCANNED (16 * HG__PACER_KIB)
#define RATE_MAX      1024.0 /* bytes per ns: an allocation rate no machine has */

static struct hg_pacer_config clean_config(const struct hg_pacer_config *c)
{
    struct hg_pacer_config out = *c;

    if (out.gc_percent < 0)
        out.gc_percent = -1;
    if (out.memory_limit != INT64_MAX)
        out.memory_limit = hg__pacer_clean(out.memory_limit);
    out.min_heap = hg__pacer_clean(out.min_heap);
    hg__policy_clean(&out.policy);
    return out;
}

static struct hg_pacer_cycle clean_cycle(const struct hg_pacer_cycle *m)
{
    struct hg_pacer_cycle out = *m;
    int64_t *counts[] = {
        &out.heap_at_start, &out.heap_at_end,   &out.marked,        &out.scanned_heap,
        &out.scanned_stack, &out.scanned_roots, &out.stack_bytes,   &out.root_bytes,
        &out.alloc_bytes,   &out.assist_ns,     &out.background_ns, &out.idle_ns,
        &out.mark_wall_ns,  &out.cycle_wall_ns, &out.quiet_ns,      &out.mutator_ns,
    };

    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++)
        *counts[i] = hg__pacer_clean(*counts[i]);
    if (out.procs < 1)
        out.procs = 1;
    return out;
}

/* The ratio of a clean cycle, or -1: not enough data to tell. */
static double cons_mark(const struct hg_pacer_cycle *m)
{
    int64_t scanned = hg__pacer_scanned(m);
    int64_t gc_ns = hg__pacer_add(hg__pacer_add(m->assist_ns, m->background_ns), m->idle_ns);
    double made, marked;

    if (scanned < LEAST_SCANNED || gc_ns < LEAST_CPU_NS || m->mutator_ns < LEAST_CPU_NS)
        return -1;
    made = (double)m->alloc_bytes / (double)m->mutator_ns;
    marked = (double)scanned / (double)gc_ns;
    return hg__pacer_clamp(made / marked, 0, HG__PACER_CONS_MARK_MAX);
}

static void estimate(struct hg_pacer *p)
{
    double c = hg__policy_of(p->config.policy.kind)->estimate(p);

    p->plan.cons_mark = hg__pacer_clamp(c, 0, HG__PACER_CONS_MARK_MAX);
}

static void learn(struct hg_pacer *p, int age)
{
    const struct hg_policy *policy = hg__policy_of(p->config.policy.kind);

    if (policy->learn)
        policy->learn(p, age);
}

static void forget_policy_state(struct hg_pacer *p)
{
    p->pi_integral = 0;
    p->pi_output = -1;
    p->adaptive = (struct hg_pacer_adaptive){0};
}

void hg__pacer_init(struct hg_pacer *p, const struct hg_pacer_config *c)
{
    *p = (struct hg_pacer){.config = clean_config(c), .last = {.procs = 1}};
    forget_policy_state(p);
    hg__pacer_limiter_init(&p->limiter);
    hg__pacer_plan(p, 0);
}

void hg__pacer_configure(struct hg_pacer *p, const struct hg_pacer_config *c)
{
    struct hg_policy_spec old = p->config.policy;

    p->config = clean_config(c);
    if (hg__policy_same(&old, &p->config.policy))
        return;
    forget_policy_state(p);
    for (int age = p->window_len - 1; age >= 0; age--)
        learn(p, age);
    if (p->window_len > 0)
        estimate(p);
}

static void push(double *window, double v)
{
    memmove(window + 1, window, (HG_PACER_WINDOW - 1) * sizeof *window);
    window[0] = v;
}

/* One ratio, and what stands beside it. */
static void push_sample(struct hg_pacer *p, double c)
{
    const struct hg_pacer_cycle *m = &p->last;
    int64_t gc_ns = hg__pacer_add(hg__pacer_add(m->assist_ns, m->background_ns), m->idle_ns);

    push(p->window, c);
    push(p->rate_window, p->alloc_rate);
    push(p->mark_window, (double)gc_ns / ((double)m->procs * HG_PACER_U));
    push(p->calm.window, p->calm.parts > 0 ? p->calm.rate : 0);
    if (p->window_len < HG_PACER_WINDOW)
        p->window_len++;
}

static void push_quiet(struct hg_pacer *p, int64_t ns)
{
    memmove(p->quiet_window + 1, p->quiet_window, (HG_PACER_WINDOW - 1) * sizeof ns);
    p->quiet_window[0] = ns;
}

bool hg__pacer_looks_ahead(const struct hg_pacer *p)
{
    return hg__policy_of(p->config.policy.kind)->looks_ahead && p->window_len > 0;
}

bool hg__pacer_observe(struct hg_pacer *p, int64_t alloc_bytes, int64_t mutator_ns,
                       const struct hg_pacer_memory *mem)
{
    int64_t before = p->plan.trigger;

    if (!hg__pacer_looks_ahead(p) || !hg__pacer_calm_observe(p, alloc_bytes, mutator_ns))
        return false;
    estimate(p);
    hg__pacer_plan(p, mem);
    return p->plan.trigger != before;
}

void hg__pacer_cycle_end(struct hg_pacer *p, const struct hg_pacer_cycle *m,
                         const struct hg_pacer_memory *mem)
{
    const struct hg_pacer_cycle *last = &p->last;
    double c;

    p->last = clean_cycle(m);
    p->cycles++;
    hg__pacer_limiter_size(&p->limiter, hg__pacer_cpus(p));
    push_quiet(p, last->quiet_ns);
    if (last->cycle_wall_ns >= LEAST_WALL_NS) {
        double rate = (double)last->alloc_bytes / (double)last->cycle_wall_ns;

        p->alloc_rate = hg__pacer_clamp(rate, 0, RATE_MAX);
    }
    c = cons_mark(last);
    if (c >= 0) {
        p->plan.measured = c;
        push_sample(p, c);
        learn(p, 0);
    }
    hg__pacer_calm_begin(p);
    if (p->window_len > 0)
        estimate(p);
    hg__pacer_plan(p, mem);
}

double hg__pacer_mean_ratio(const struct hg_pacer *p)
{
    int n = p->window_len < HG__PACER_EXPECT_N ? p->window_len : HG__PACER_EXPECT_N;
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += p->window[i];
    return n > 0 ? sum / n : 0;
}

double hg__pacer_median_ratio(const struct hg_pacer *p)
{
    int n = p->window_len < HG__PACER_EXPECT_N ? p->window_len : HG__PACER_EXPECT_N;
    double sorted[HG__PACER_EXPECT_N] = {0};

    for (int i = 0; i < n; i++) {
        int j = i;

        for (; j > 0 && sorted[j - 1] > p->window[i]; j--)
            sorted[j] = sorted[j - 1];
        sorted[j] = p->window[i];
    }
    return sorted[n / 2 < n ? n / 2 : 0];
}
