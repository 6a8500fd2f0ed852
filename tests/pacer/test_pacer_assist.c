/* test_pacer_assist.c: within a cycle: work left, dead band, soft landing, share, starting credit;
 * and P3 over the whole range of inputs.
 */
#include <criterion/criterion.h>
#include <math.h>

#include "pacer/pacer.h"
#include "tests/pacer/seed.h"

#define KIB (INT64_C(1) << 10)
#define MIB (INT64_C(1) << 20)
#define MS  INT64_C(1000000)

/* 1 GiB live and scanned at 1 MiB a GC-ms, ratio c: goal 2 GiB, hard limit 2.2 GiB. */
static struct hg_pacer pacer(double c)
{
    struct hg_pacer_config config = {.gc_percent = 100,
                                     .memory_limit = INT64_MAX,
                                     .policy = {.kind = HG_POLICY_MAX, .param = {5}}};
    struct hg_pacer_memory mem = {0};
    struct hg_pacer_cycle m = {.marked = 1024 * MIB,
                               .scanned_heap = 1024 * MIB,
                               .alloc_bytes = (int64_t)(c * 1024 * MIB),
                               .background_ns = 1024 * MS,
                               .mutator_ns = 1024 * MS,
                               .cycle_wall_ns = 1024 * MS,
                               .procs = 2};
    struct hg_pacer p;

    hg__pacer_init(&p, &config);
    hg__pacer_cycle_end(&p, &m, &mem);
    return p;
}

/* Half of the work done by two procs at a share of 0.25; allocation `rate` in bytes per wall-ns. */
static struct hg_pacer_progress halfway(const struct hg_pacer *p, int64_t left, double rate)
{
    return (struct hg_pacer_progress){.heap_live = p->plan.goal - left,
                                      .scanned = 512 * MIB,
                                      .background_ns = 512 * MS,
                                      .scannable_at_trigger = 2000 * MIB,
                                      .elapsed_ns = 1024 * MS,
                                      .alloc_since_mark = (int64_t)(rate * 1024 * MS),
                                      .procs = 2,
                                      .busy = 0.75};
}

Test(pacer_assist, work_left)
{
    struct hg_pacer p = pacer(0.1);
    struct hg_pacer_progress now = {.heap_live = 1900 * MIB,
                                    .scanned = 1000 * MIB,
                                    .scannable_at_trigger = 1500 * MIB,
                                    .procs = 2};

    cr_expect_eq(hg__pacer_revise(&p, &now, true).work_left, 32 * MIB, "a thirty-second at least");
    now.scanned = 600 * MIB;
    cr_expect_eq(hg__pacer_revise(&p, &now, true).work_left, 424 * MIB, "W - done");
    now.grey_bytes = 800 * MIB;
    cr_expect_eq(hg__pacer_revise(&p, &now, true).work_left, 800 * MIB, "what is grey is there");
    now.grey_bytes = 0;
    now.scanned = 1124 * MIB;
    cr_expect_eq(hg__pacer_revise(&p, &now, true).work_left, 100 * MIB, "as much over again");
    now.scanned = 1400 * MIB;
    cr_expect_eq(hg__pacer_revise(&p, &now, true).work_left, 100 * MIB, "no more than scannable");
    now.scanned = 1600 * MIB;
    cr_expect_eq(hg__pacer_revise(&p, &now, true).work_left, 0);
}

Test(pacer_assist, nothing_is_owed_while_background_work_is_enough)
{
    struct hg_pacer p = pacer(0.1);
    /* 512 MiB left at 0.5 MiB/ms: 1024 ms; at 100 KiB/ms 100 MiB are allocated meanwhile. */
    double rate = 102400.0 / 1e6;
    struct hg_pacer_progress now = halfway(&p, 101 * MIB, rate);

    cr_expect_eq(hg__pacer_revise(&p, &now, true).ratio, 0);
    now = halfway(&p, 50 * MIB, rate);
    cr_expect_gt(hg__pacer_revise(&p, &now, true).ratio, 0);
    cr_expect_eq(hg__pacer_revise(&p, &now, false).ratio, 0, "assist is off");
}

Test(pacer_assist, ratio_is_what_background_work_leaves_over_the_bytes_left)
{
    struct hg_pacer p = pacer(0.1);
    double rate = 1024000.0 / 1e6; /* needs 1000 MiB */
    struct hg_pacer_assist a;
    struct hg_pacer_progress now = halfway(&p, 400 * MIB, rate);
    double tolerance = (double)(p.plan.hard - p.plan.goal) / 8, land = 400.0 * MIB + tolerance;

    a = hg__pacer_revise(&p, &now, true);
    cr_expect_float_eq(a.ratio, 512.0 * MIB * (1 - land / (1000.0 * MIB)) / land, 1e-3);
    cr_expect_eq(a.u, HG_PACER_U);
    /* Background work for `land` bytes and the debts of these bytes are the work left. */
    cr_expect_float_eq(a.ratio * land + 0.512 * land, 512.0 * MIB, 2.0 * MIB);
}

Test(pacer_assist, early_the_expectation_counts_and_not_the_hedge)
{
    struct hg_pacer p = pacer(0.05);
    struct hg_pacer_progress now = {.heap_live = p.plan.trigger, .procs = 2};

    p.plan.cons_mark = 0.5; /* what a policy with a large hedge would say */
    cr_expect_eq(hg__pacer_revise(&p, &now, true).ratio, 0);
    cr_expect_eq(hg__pacer_revise(&p, &now, true).u, HG_PACER_U, "but it keeps the share up");
    now.heap_live = p.plan.goal - 10 * MIB; /* the cycle began late: 150 MiB are needed */
    cr_expect_gt(hg__pacer_revise(&p, &now, true).ratio, 0);
}

Test(pacer_assist, an_unmeasured_heap_owes_nothing_at_the_start)
{
    struct hg_pacer_config config = {.gc_percent = 100, .memory_limit = INT64_MAX};
    struct hg_pacer p;
    struct hg_pacer_progress now = {.procs = 2};
    struct hg_pacer_assist a;

    hg__pacer_init(&p, &config);
    now.heap_live = p.plan.trigger;
    a = hg__pacer_revise(&p, &now, true);
    cr_expect_eq(a.ratio, 0);
    cr_expect_eq(a.u, HG_PACER_U);
}

Test(pacer_assist, landing_is_soft)
{
    struct hg_pacer p = pacer(0.1);
    struct hg_pacer_progress now;
    double before = 0, step = 0;

    for (int64_t left = 300 * MIB; left > -220 * MIB; left -= MIB) {
        double ratio;

        now = halfway(&p, left, 1.024);
        ratio = hg__pacer_revise(&p, &now, true).ratio;
        cr_assert_geq(ratio, before, "the ratio grows with the heap");
        if (left < 299 * MIB && p.plan.hard - now.heap_live > 8 * MIB)
            step = fmax(step, ratio / before);
        before = ratio;
    }
    cr_expect_lt(step, 1.2, "no cliff: largest step for 1 MiB is %g", step);
    cr_expect_leq(before, 64.0);
}

Test(pacer_assist, the_cap_bounds_the_debt)
{
    struct hg_pacer p = pacer(0.1);
    struct hg_pacer_progress now = halfway(&p, 0, 1024);

    now.heap_live = p.plan.hard + 100 * MIB;
    now.grey_bytes = INT64_C(1) << 40;
    cr_expect_eq(hg__pacer_revise(&p, &now, true).ratio, 64.0);
}

Test(pacer_assist, share_is_lower_when_ahead)
{
    struct hg_pacer p = pacer(0.1);
    double rate = 102400.0 / 1e6; /* needs 100 MiB */
    struct hg_pacer_progress now = halfway(&p, 100 * MIB, rate);
    double reserve = (double)(p.plan.goal - p.plan.trigger) / 4;
    double u;

    cr_expect_eq(hg__pacer_revise(&p, &now, true).u, HG_PACER_U);
    now = halfway(&p, 260 * MIB, rate);
    u = hg__pacer_revise(&p, &now, true).u;
    cr_expect_float_eq(u, 0.25 * 100 * MIB / (260 * MIB - reserve), 1e-3);
    cr_expect_eq(hg__pacer_revise(&p, &now, false).u, u);
    now = halfway(&p, 900 * MIB, rate);
    cr_expect_eq(hg__pacer_revise(&p, &now, true).u, 0.10, "cycles do not drag on");
    now = halfway(&p, -1 * MIB, rate);
    cr_expect_eq(hg__pacer_revise(&p, &now, true).u, HG_PACER_U);
}

Test(pacer_assist, busy_mutators_slow_down_when_the_share_goes_up)
{
    struct hg_pacer p = pacer(0.1);
    struct hg_pacer_progress now = halfway(&p, 300 * MIB, 0.5);
    double full, lowered;

    full = hg__pacer_revise(&p, &now, true).ratio;
    now.busy = 0.90; /* they ran beside a share of 0.10 */
    lowered = hg__pacer_revise(&p, &now, true).ratio;
    cr_expect_gt(full, lowered);
    now.busy = 0.3; /* idle procs: the rate is not taken for more than it is */
    cr_expect_eq(hg__pacer_revise(&p, &now, true).ratio, full);
}

Test(pacer_assist, assist_is_not_taken_for_background_speed)
{
    struct hg_pacer p = pacer(0.1);
    struct hg_pacer_progress now = halfway(&p, 100 * MIB, 0.5);
    double without = hg__pacer_revise(&p, &now, true).ratio;

    now.assist_ns = now.background_ns / 2; /* a third of the scanning was not background work */
    cr_expect_gt(hg__pacer_revise(&p, &now, true).ratio, without);
}

Test(pacer_assist, no_goal_no_debt)
{
    struct hg_pacer p = pacer(0.1);
    struct hg_pacer_config off = p.config;
    struct hg_pacer_memory mem = {0};
    struct hg_pacer_progress now = halfway(&p, 0, 10);

    off.gc_percent = -1;
    hg__pacer_configure(&p, &off);
    hg__pacer_plan(&p, &mem);
    cr_expect_eq(hg__pacer_revise(&p, &now, true).ratio, 0);
    cr_expect_eq(hg__pacer_revise(&p, &now, true).u, HG_PACER_U);
}

Test(pacer_assist, starting_credit)
{
    struct hg_pacer p = pacer(0.1);

    p.plan.work = 160 * MIB;
    cr_expect_eq(hg__pacer_starting_credit(&p), 10 * MIB);
    p.plan.work = 0;
    cr_expect_eq(hg__pacer_starting_credit(&p), 64 * KIB);
    p.plan.work = INT64_C(1) << 60;
    cr_expect_eq(hg__pacer_starting_credit(&p), 16 * MIB);
}

static struct hg_pacer_progress random_progress(struct hg_rand *r)
{
    static const double busy[] = {0, 0.5, 1, -3, 7, NAN, INFINITY, -INFINITY};

    return (struct hg_pacer_progress){
        .heap_live = test_wild(r, 41),
        .scanned = test_wild(r, 41),
        .grey_bytes = test_wild(r, 36),
        .assist_ns = test_wild(r, 40),
        .background_ns = test_wild(r, 40),
        .idle_ns = test_wild(r, 40),
        .scannable_at_trigger = test_wild(r, 41),
        .elapsed_ns = test_wild(r, 40),
        .alloc_since_mark = test_wild(r, 41),
        .procs = (int)hg_rand_below(r, 260) - 2,
        .busy = busy[hg_rand_below(r, sizeof busy / sizeof busy[0])],
    };
}

/* Whether the counts are in the range that is believed, and enough to be trusted fully. */
static bool measured(const struct hg_pacer_progress *now)
{
    const int64_t counts[] = {now->heap_live,       now->scanned, now->assist_ns,
                              now->background_ns,   now->idle_ns, now->elapsed_ns,
                              now->alloc_since_mark};

    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        if (counts[i] < 0 || counts[i] > INT64_C(1) << 60)
            return false;
    }
    return now->background_ns >= MS && now->elapsed_ns >= MS && now->scanned >= 128 * MIB &&
           now->procs >= 1 && now->busy <= 0.75;
}

/* P3. When the measurement is trusted fully, the test works out on its own whether background work
 * is enough. */
Test(pacer_property, p3_ratio)
{
    struct hg_rand r = test_rand("p3_ratio");
    int owed = 0, enough = 0;

    for (int i = 0; i < 100000; i++) {
        struct hg_pacer p = pacer(ldexp(test_uniform(&r), (int)hg_rand_below(&r, 24) - 12));
        struct hg_pacer_progress now = random_progress(&r);
        struct hg_pacer_assist a;
        double gc, needed;

        if (hg_rand_below(&r, 2)) /* near the goal, where it matters */
            now = halfway(&p, 800 * MIB - test_count(&r, 30), 4 * test_uniform(&r));
        a = hg__pacer_revise(&p, &now, true);
        cr_assert(isfinite(a.ratio) && a.ratio >= 0 && a.ratio <= 64, "%g", a.ratio);
        cr_assert(a.u > 0 && a.u <= HG_PACER_U, "%g", a.u);
        cr_assert_geq(a.work_left, 0);
        owed += a.ratio > 0;
        gc = (double)now.background_ns + (double)now.idle_ns + (double)now.assist_ns;
        if (!measured(&now))
            continue;
        needed = (double)a.work_left * ((double)now.alloc_since_mark / (double)now.elapsed_ns) /
                 ((double)now.scanned / gc * now.procs * HG_PACER_U);
        if (needed < (double)p.plan.goal - (double)now.heap_live) {
            cr_assert_eq(a.ratio, 0, "%g: needed %g", a.ratio, needed);
            enough++;
        }
    }
    cr_expect_gt(owed, 1000);
    cr_expect_gt(enough, 1000);
}
