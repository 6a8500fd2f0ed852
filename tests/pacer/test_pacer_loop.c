/* test_pacer_loop.c: the closed loop: a small heap in virtual time, driven by the pacer.
 *
 * The heap is three numbers: live bytes, an allocation rate per mutator CPU-ns and a marking speed
 * per GC CPU-ns. A cycle runs in steps of virtual time: quiet (handshakes), then marking, with the
 * share and the assist ratio that hg__pacer_revise gives; each step's debt is paid by the mutators'
 * own time once the starting credit is used up. At its end the cycle is measured as the runtime
 * does and given to hg__pacer_cycle_end.
 *
 * The tests assert what is known of the policies under load: an average sits on the edge, the
 * maximum of two is too noisy, the maximum of five hedges and takes five cycles to let go.
 */
#include <criterion/criterion.h>

#include "pacer/pacer.h"
#include "tests/pacer/seed.h"

#define STEP_NS 200000.0
#define MIB     (1024.0 * 1024.0)

struct loop {
    struct hg_pacer pacer;
    int procs;
    double live;       /* bytes that survive each cycle, all of them scanned */
    double alloc_rate; /* bytes per mutator CPU-ns */
    double mark_speed; /* bytes per GC CPU-ns */
    double quiet_ns;   /* before MARK */
    double demand;     /* share of a proc's time that the mutators want, 0..1 */
    bool assist_on, limiter_on;
    double cpu_ns, gc_cpu_ns, held_ns; /* with the limiter: all CPU time, GC's, and held back */
};

/* What one cycle came to. */
struct outcome {
    struct hg_pacer_plan plan; /* that it ran under */
    double peak;               /* heap at its end, bytes */
    double assist_ns, gc_ns, wall_ns;
    double max_ratio, min_u;
};

/* 2 procs, 256 MiB live, GOGC=100, a cons/mark ratio of 0.1: the runway is 0.3 of goal - live. */
static struct loop loop_make(const char *policy)
{
    struct loop l = {.procs = 2,
                     .live = 256 * MIB,
                     .alloc_rate = 0.1,
                     .mark_speed = 1.0,
                     .quiet_ns = 100000,
                     .demand = 1,
                     .assist_on = true};
    struct hg_pacer_config c = {.gc_percent = 100, .memory_limit = INT64_MAX};
    char why[200];

    cr_assert_eq(hg__policy_parse(policy, &c.policy, why, sizeof why), 0, "%s", why);
    hg__pacer_init(&l.pacer, &c);
    return l;
}

/* The state of a running cycle. */
struct run {
    double heap, allocated, scanned, debt, credit;
    double assist_ns, background_ns, idle_ns, mutator_ns, mark_ns;
};

static struct hg_pacer_progress progress(const struct loop *l, const struct run *r,
                                         double quiet_alloc)
{
    double cpu = r->mark_ns * l->procs;

    return (struct hg_pacer_progress){
        .heap_live = (int64_t)r->heap,
        .scanned = (int64_t)r->scanned,
        .assist_ns = (int64_t)r->assist_ns,
        .background_ns = (int64_t)r->background_ns,
        .idle_ns = (int64_t)r->idle_ns,
        .scannable_at_trigger = 2 * (int64_t)l->live,
        .elapsed_ns = (int64_t)r->mark_ns,
        .alloc_since_mark = (int64_t)(r->allocated - quiet_alloc),
        .procs = l->procs,
        .busy = cpu > 0 ? (r->mutator_ns - l->quiet_ns * l->procs * l->demand) / cpu : 0,
    };
}

static void step(const struct loop *l, struct run *r, struct hg_pacer_assist a, double rate)
{
    double cpu = STEP_NS * l->procs, background = cpu * a.u;
    double wanted = cpu * l->demand, rest = cpu - background;
    double busy = wanted < rest ? wanted : rest, idle = rest - busy;
    double assist = 0, paid;

    paid = r->debt < r->credit ? r->debt : r->credit;
    r->credit -= paid;
    r->debt -= paid;
    assist = r->debt / l->mark_speed;
    if (assist > busy)
        assist = busy;
    r->debt -= assist * l->mark_speed;
    r->assist_ns += assist;
    r->background_ns += background;
    r->idle_ns += idle;
    r->mutator_ns += busy - assist;
    r->scanned += (background + idle + assist) * l->mark_speed;
    r->heap += (busy - assist) * rate;
    r->allocated += (busy - assist) * rate;
    r->debt += (busy - assist) * rate * a.ratio;
    r->mark_ns += STEP_NS;
}

static void finish(struct loop *l, const struct run *r, double start)
{
    double all = l->quiet_ns + r->mark_ns;
    struct hg_pacer_cycle m = {
        .heap_at_start = (int64_t)start,
        .heap_at_end = (int64_t)r->heap,
        .marked = (int64_t)l->live,
        .scanned_heap = (int64_t)l->live,
        .alloc_bytes = (int64_t)r->allocated,
        .assist_ns = (int64_t)r->assist_ns,
        .background_ns = (int64_t)r->background_ns,
        .idle_ns = (int64_t)r->idle_ns,
        .mark_wall_ns = (int64_t)r->mark_ns,
        .cycle_wall_ns = (int64_t)all,
        .quiet_ns = (int64_t)l->quiet_ns,
        .mutator_ns = (int64_t)r->mutator_ns,
        .procs = l->procs,
    };
    struct hg_pacer_memory mem = {.mapped = (int64_t)r->heap};

    hg__pacer_cycle_end(&l->pacer, &m, &mem);
}

/* Tells the limiter of a window. True: GC must hold back. */
static bool limiter(struct loop *l, double cpu, double gc)
{
    l->cpu_ns += cpu;
    l->gc_cpu_ns += gc;
    if (!l->limiter_on)
        return false;
    return hg__pacer_limiter_update(&l->pacer, (int64_t)cpu, (int64_t)gc);
}

static double gc_time(const struct run *r) { return r->assist_ns + r->background_ns + r->idle_ns; }

/* Runs one cycle whose allocation rate is alloc_rate * noise, begun `late` bytes after its
 * trigger. */
static struct outcome loop_run(struct loop *l, double noise, double late)
{
    double rate = l->alloc_rate * noise, start = (double)l->pacer.plan.trigger + late;
    double quiet_cpu = l->quiet_ns * l->procs * l->demand, quiet_alloc = quiet_cpu * rate;
    struct run r = {.heap = start + quiet_alloc,
                    .allocated = quiet_alloc,
                    .mutator_ns = quiet_cpu,
                    .credit = (double)hg__pacer_starting_credit(&l->pacer)};
    struct outcome out = {.plan = l->pacer.plan, .min_u = 1};
    bool held = false;

    while (r.scanned < l->live) {
        struct hg_pacer_progress now = progress(l, &r, quiet_alloc);
        struct hg_pacer_assist a = hg__pacer_revise(&l->pacer, &now, l->assist_on && !held);
        double before = gc_time(&r);

        cr_assert(a.u > 0 && a.u <= HG_PACER_U, "u %g", a.u);
        out.max_ratio = a.ratio > out.max_ratio ? a.ratio : out.max_ratio;
        out.min_u = a.u < out.min_u ? a.u : out.min_u;
        step(l, &r, a, rate);
        held = limiter(l, STEP_NS * l->procs, gc_time(&r) - before);
    }
    out.peak = r.heap;
    out.assist_ns = r.assist_ns;
    out.gc_ns = gc_time(&r);
    out.wall_ns = l->quiet_ns + r.mark_ns;
    finish(l, &r, start);
    return out;
}

/* Totals of many cycles under uniform noise of +-width on the allocation rate. */
struct totals {
    double late_share, assist_cycles, assist_share, worst_over;
};

static struct totals noisy(const char *policy, double width, struct hg_rand r, int cycles)
{
    struct loop l = loop_make(policy);
    struct totals t = {0};
    double assist = 0, gc = 0;

    for (int i = -20; i < cycles; i++) {
        struct outcome o = loop_run(&l, 1 + width * (2 * test_uniform(&r) - 1), 0);
        double over = o.peak / (double)o.plan.goal - 1;

        if (i < 0)
            continue;
        t.late_share += (over > 0) / (double)cycles;
        t.assist_cycles += (o.assist_ns > 0) / (double)cycles;
        t.worst_over = over > t.worst_over ? over : t.worst_over;
        assist += o.assist_ns;
        gc += o.gc_ns;
    }
    t.assist_share = assist / gc;
    return t;
}

Test(pacer_loop, constant_load_needs_no_assist)
{
    static const char *const policies[] = {"mean:2", "pi", "max:5"};

    for (unsigned k = 0; k < sizeof policies / sizeof policies[0]; k++) {
        struct loop l = loop_make(policies[k]);

        loop_run(&l, 1, 0); /* an unmeasured heap of 256 MiB behind a goal of 4 MiB */
        for (int i = 0; i < 20; i++) {
            struct outcome o = loop_run(&l, 1, 0);

            cr_expect_eq(o.assist_ns, 0, "%s, cycle %d", policies[k], i);
            cr_expect_leq(o.peak, 1.01 * (double)o.plan.goal);
            cr_expect_geq(o.peak, 0.97 * (double)o.plan.goal, "nor does it start far too early");
        }
    }
}

Test(pacer_loop, averages_sit_on_the_edge_and_a_maximum_of_five_hedges)
{
    struct hg_rand r = test_rand("averages_sit_on_the_edge");
    struct totals mean = noisy("mean:2", 0.5, r, 1000), pi = noisy("pi", 0.5, r, 1000);
    struct totals two = noisy("max:2", 0.5, r, 1000), five = noisy("max:5", 0.5, r, 1000);

    cr_expect(mean.late_share > 0.40 && mean.late_share < 0.60, "mean:2 late %g", mean.late_share);
    cr_expect(pi.late_share > 0.40 && pi.late_share < 0.60, "pi late %g", pi.late_share);
    cr_expect(mean.assist_cycles > 0.25 && mean.assist_cycles < 0.55, "mean:2 assist in %g",
              mean.assist_cycles);
    cr_expect_gt(pi.assist_cycles, 0.25);
    cr_expect_lt(five.assist_cycles, 0.5 * two.assist_cycles, "max:5 %g, max:2 %g",
                 five.assist_cycles, two.assist_cycles);
    cr_expect_lt(five.assist_share, 0.4 * two.assist_share, "max:5 %g, max:2 %g", five.assist_share,
                 two.assist_share);
    cr_expect_lt(two.assist_share, mean.assist_share);
    cr_expect_lt(five.assist_share, 0.01, "max:5 %g", five.assist_share);
    cr_expect_lt(five.worst_over, 0.05, "max:5 lands at %g over the goal", five.worst_over);
}

Test(pacer_loop, moderate_noise_needs_no_assist_with_a_maximum_of_five)
{
    struct totals five = noisy("max:5", 0.2, test_rand("moderate_noise"), 1000);

    cr_expect_lt(five.assist_share, 0.002, "%g", five.assist_share);
    cr_expect_lt(five.assist_cycles, 0.05, "%g", five.assist_cycles);
}

/* Cycles after a step down by four until the runway has come down to 1.5 times its new level. */
static int cycles_to_let_go(const char *policy)
{
    struct loop l = loop_make(policy);
    int cycles = 0;

    for (int i = 0; i < 20; i++)
        loop_run(&l, 1, 0);
    while (cycles < 50 && l.pacer.plan.cons_mark > 1.5 * 0.25 * l.alloc_rate / l.mark_speed) {
        loop_run(&l, 0.25, 0);
        cycles++;
    }
    return cycles;
}

Test(pacer_loop, a_maximum_lets_go_after_its_window)
{
    cr_expect_eq(cycles_to_let_go("max:5"), 5);
    cr_expect_eq(cycles_to_let_go("max:2"), 2);
    cr_expect_leq(cycles_to_let_go("mean:2"), 2);
}

Test(pacer_loop, a_step_up_costs_one_cycle)
{
    struct loop l = loop_make("max:5");
    struct outcome o;

    for (int i = 0; i < 10; i++)
        loop_run(&l, 0.5, 0);
    o = loop_run(&l, 2, 0);
    cr_expect_gt(o.assist_ns, 0, "nobody could know");
    cr_expect_leq(o.peak, (double)o.plan.hard);
    o = loop_run(&l, 2, 0);
    cr_expect_eq(o.assist_ns, 0);
    cr_expect_leq(o.peak, 1.01 * (double)o.plan.goal);
}

Test(pacer_loop, idle_and_back)
{
    struct loop l = loop_make("max:5");
    struct outcome o;

    for (int i = 0; i < 10; i++)
        loop_run(&l, 1, 0);
    l.demand = 0.02; /* the same program, nearly idle: idle procs mark */
    for (int i = 0; i < 10; i++) {
        o = loop_run(&l, 1, 0);
        cr_expect_eq(o.assist_ns, 0);
        cr_expect_leq(o.peak, (double)o.plan.goal);
    }
    cr_expect_eq(o.min_u, 0.10, "and the workers take it easy");
    l.demand = 1;
    for (int i = 0; i < 3; i++) {
        o = loop_run(&l, 1, 0);
        cr_expect_eq(o.assist_ns, 0, "the ratio does not depend on how busy the procs were");
        cr_expect_leq(o.peak, 1.02 * (double)o.plan.goal);
    }
}

/* 1 MiB to 512 MiB after a long calm: the overshoot stays within the hard limit, where the ratio
 * alone, without anybody waiting, can do that; and the next cycle is right. */
Test(pacer_loop, a_jump_of_the_live_heap)
{
    struct loop l = loop_make("max:5");
    struct outcome o;

    l.live = MIB;
    for (int i = 0; i < 10; i++)
        loop_run(&l, 1, 0);
    l.live = 512 * MIB;
    o = loop_run(&l, 1, 0);
    cr_expect_gt(o.assist_ns, 0);
    cr_expect_leq(o.max_ratio, 64.0);
    cr_expect_leq(o.peak, (double)o.plan.hard, "peak %g MiB", o.peak / MIB);
    o = loop_run(&l, 1, 0);
    cr_expect_eq(o.assist_ns, 0);
    cr_expect_leq(o.peak, 1.02 * (double)o.plan.goal);
}

Test(pacer_loop, a_cycle_that_begins_late_stays_near_its_goal)
{
    struct loop l = loop_make("max:5");
    struct outcome o;

    for (int i = 0; i < 10; i++)
        loop_run(&l, 1, 0);
    o = loop_run(&l, 1, 0.9 * (double)(l.pacer.plan.goal - l.pacer.plan.trigger));
    cr_expect_gt(o.assist_ns, 0);
    cr_expect_leq(o.peak, 1.10 * (double)o.plan.goal, "%g", o.peak / (double)o.plan.goal);
    l.assist_on = false;
    o = loop_run(&l, 1, 0.9 * (double)(l.pacer.plan.goal - l.pacer.plan.trigger));
    cr_expect_eq(o.assist_ns, 0, "assist is off");
}

/* 100 KiB live and 0.2 bytes a proc-ns (200 MB/s a proc): the minimum heap keeps GC CPU low. */
Test(pacer_loop, a_tiny_heap_is_not_collected_all_the_time)
{
    struct loop l = loop_make("max:5");
    double gc = 0, busy = 0;

    l.live = 100 * 1024;
    l.alloc_rate = 0.2;
    for (int i = 0; i < 50; i++) {
        double room = (double)l.pacer.plan.trigger - l.live;
        struct outcome o = loop_run(&l, 1, 0);

        gc += o.gc_ns;
        busy += room / l.alloc_rate + o.wall_ns * l.procs;
    }
    cr_expect_lt(gc, 0.1 * busy, "%g", gc / busy);
}

/* The calm before a trigger, and then for as long as the limiter says so: no cycle is started. */
static void calm(struct loop *l)
{
    double room = (double)l->pacer.plan.trigger - l->live;
    bool held;

    cr_assert_gt(room, 0, "cycles are not back to back");
    held = limiter(l, room / l->alloc_rate, 0);
    for (; held; held = limiter(l, 1e7 * l->procs, 0))
        l->held_ns += 1e7;
}

/* Live heap at 120 % of the limit, allocation flat out: assist and cycles end to end would take
 * nearly all of the CPU. */
Test(pacer_loop, a_limit_below_the_live_heap_leaves_half_of_the_cpu)
{
    struct loop l = loop_make("max:5");
    struct hg_pacer_config c = l.pacer.config;

    l.alloc_rate = 2;
    loop_run(&l, 1, 0);
    c.memory_limit = (int64_t)(l.live / 1.2);
    hg__pacer_configure(&l.pacer, &c);
    hg__pacer_plan(&l.pacer, NULL);
    l.cpu_ns = l.gc_cpu_ns = 0;
    for (int i = 0; i < 20; i++) {
        calm(&l);
        loop_run(&l, 1, 0);
    }
    cr_expect_gt(l.gc_cpu_ns, 0.6 * l.cpu_ns, "without the limiter: %g", l.gc_cpu_ns / l.cpu_ns);
    l.limiter_on = true;
    l.cpu_ns = l.gc_cpu_ns = 0;
    while (l.cpu_ns < 5e9 * l.procs) {
        calm(&l);
        loop_run(&l, 1, 0);
    }
    cr_expect_gt(l.held_ns, 0);
    cr_expect_leq(l.gc_cpu_ns, 0.5 * l.cpu_ns, "GC took %g", l.gc_cpu_ns / l.cpu_ns);
}
