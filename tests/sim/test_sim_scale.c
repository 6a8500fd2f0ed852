/* test_sim_scale.c: the simulation of `hedge-sim scale`: its books balance whatever the parameters,
 * same seed same figures, a queue whose waits are known from theory, the bounds that each collector
 * promises, the published findings, speed and size. */
#include "sim/rng.h"
#include "sim/scale.h"
#include "sim/sim.h"
#include "tests/support/test.h"
#include <argp.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define ARGS_MAX 40

/* The options of a command line. */
static struct scale_options options_of(const char *line)
{
    static char text[512];
    struct scale_options o;
    char *argv[ARGS_MAX] = {(char *)"hedge-sim scale"};
    int argc = 1;
    snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " "))
        argv[argc++] = word;
    scale_options_parse(&o, argc, argv);
    return o;
}

static struct kv_result run_of(const struct scale_options *o, int policy, struct scale_books *books)
{
    struct kv_result r;
    scale_run(o, &o->load.policy[policy], 1, NULL, &r, books);
    return r;
}

/* The p99 in ms under the first policy. */
static double p99_of(const char *line)
{
    struct scale_options o = options_of(line);
    struct kv_result r = run_of(&o, 0, NULL);
    return r.metric[KV_P99] / 1e6;
}

static void check_books(const struct scale_books *b, const char *line)
{
    cr_assert_gt(b->arrivals, 0, "%s", line);
    cr_assert_eq(b->arrivals, b->ended + b->given_up, "%s: %llu arrivals, %llu ended, %llu not",
                 line, (unsigned long long)b->arrivals, (unsigned long long)b->ended,
                 (unsigned long long)b->given_up);
    cr_assert_eq(b->allocated, b->freed + b->live, "%s: %lld allocated, %lld freed, %lld live",
                 line, (long long)b->allocated, (long long)b->freed, (long long)b->live);
    cr_assert(!b->time_went_back, "%s: time went back", line);
}

/* Loads from idle to hopelessly late, on 1 to 64 CPUs, of all collectors. */
Test(sim_scale, books_balance)
{
    static const char *const profiles[] = {"hedge", "go1.19", "go1.23"};
    struct sim_rng rng = {test_seed("sim_scale/books_balance")};
    for (int i = 0; i < 30; i++) {
        char line[400];
        int vcpus = 1 + (int)sim_rng_below(&rng, 64), conns = 1 + (int)sim_rng_below(&rng, 3000);
        double service = 5 + sim_rng_exp(&rng) * 50;
        double rate = ceil(vcpus * 1e6 / service * (0.1 + sim_rng_below(&rng, 12) / 10.0));
        snprintf(line, sizeof line,
                 "--profile %s --vcpus %d --conns %d --rate %g --service %.3f --request-bytes %u "
                 "--live-heap %uM --gogc %u --duration 0.3 --warmup 0.1 --noise %u --burst %u "
                 "--policy max:5,off %s %s",
                 profiles[i % 3], vcpus, conns, rate, service, sim_rng_below(&rng, 60000),
                 1 + sim_rng_below(&rng, 100), 10 + sim_rng_below(&rng, 200),
                 sim_rng_below(&rng, 95), sim_rng_below(&rng, 2) * 500,
                 sim_rng_below(&rng, 2) ? "--network" : "",
                 sim_rng_below(&rng, 4) ? "" : "--no-assist");
        struct scale_options o = options_of(line);
        for (int policy = 0; policy < 2; policy++) {
            struct scale_books books;
            run_of(&o, policy, &books);
            check_books(&books, line);
        }
    }
}

Test(sim_scale, same_seed_same_figures)
{
    struct scale_options o =
        options_of("--vcpus 8 --conns 500 --rate 200000 --duration 0.5 --warmup 0.2 --noise 30 "
                   "--live-heap 20M --policy max:5");
    struct kv_result a = run_of(&o, 0, NULL), b = run_of(&o, 0, NULL);
    cr_assert_gt(a.metric[KV_CYCLES], 3);
    cr_assert_eq(memcmp(a.metric, b.metric, sizeof a.metric), 0);
    o.load.seed++;
    b = run_of(&o, 0, NULL);
    cr_assert_neq(memcmp(a.metric, b.metric, sizeof a.metric), 0);
}

/* One CPU that is never stopped, a service that never varies, wake-ups that take no time: M/D/1. In
 * it a share of 1 - rho finds nobody and does not wait; the mean wait is rho / (2 (1 - rho))
 * services. */
Test(sim_scale, waits_as_theory_says)
{
    for (int load = 2; load <= 8; load += 3) {
        struct scale_options o =
            options_of("--vcpus 1 --conns 100000 --service 100 --duration 40 --policy off");
        double rho = load / 10.0;
        o.load.rate = rho * 1e4;
        o.machine.fresh_ns = o.machine.pauses_per_s = 0;
        for (int i = 0; i < SCALE_QUANTILES; i++)
            o.machine.work[i] = 1;
        memset(o.machine.wake, 0, sizeof o.machine.wake);
        struct kv_result r = run_of(&o, 0, NULL);
        double p50 = r.metric[KV_P50] / 1e5; /* in services */
        /* Erlang's series for the wait of M/D/1: P(wait <= x) for x below one service is
         * (1 - rho) e^(rho x). */
        double wait = rho < 0.5 ? 0 : log(0.5 / (1 - rho)) / rho;
        if (wait < 1)
            cr_assert_float_eq(p50, 1 + wait, 0.03, "rho %g: p50 %g, expected %g", rho, p50,
                               1 + wait);
        else
            cr_assert_gt(p50, 2, "rho %g: p50 %g", rho, p50);
    }
}

/* No piece of the collector's work that holds a task is longer than hedge promises. */
Test(sim_scale, hedge_holds_are_bounded)
{
    struct scale_options o =
        options_of("--vcpus 2 --conns 5000 --rate 170000 --duration 4 --warmup 1 --policy max:5");
    struct kv_result r = run_of(&o, 0, NULL);
    cr_assert_gt(r.metric[KV_CYCLES], 3);
    cr_assert_leq(r.metric[KV_HOLD_MAX], 51000 * 1.01, "hold %g ns", r.metric[KV_HOLD_MAX]);
    cr_assert_leq(r.metric[KV_LONGEST_ASSIST], 51000 * 1.01);
    cr_assert_lt(r.metric[KV_PEAK_OVER_GOAL], 1.1);
}

/* Go's assists buy 64 KiB at once, and p99 falls when they are turned off. */
Test(sim_scale, go_assists_are_long)
{
    const char *line = "--profile go1.19 --vcpus 2 --conns 5000 --rate 100000 --duration 4 "
                       "--warmup 1 --policy mean:2";
    struct scale_options o = options_of(line);
    struct kv_result with = run_of(&o, 0, NULL);
    double piece = 65536 / (o.machine.mark_rate * o.profile->mark_factor);
    cr_assert_geq(with.metric[KV_LONGEST_ASSIST], 0.98 * piece);
    cr_assert_gt(with.metric[KV_ASSIST_SHARE], 0.3);
    o.assist = false;
    struct kv_result without = run_of(&o, 0, NULL);
    cr_assert_eq(without.metric[KV_ASSISTS], 0);
    cr_assert_gt(with.metric[KV_P99], 2 * without.metric[KV_P99]);
}

/* An assist that took the last work and still has to wait must not keep marking from its end: every
 * task would wait for it. Allocation here is far beyond what marking can follow. */
Test(sim_scale, go_assists_that_wait_do_not_stop_the_cycle)
{
    struct scale_options o =
        options_of("--profile go1.23 --vcpus 8 --conns 2000 --rate 4000 --service 350 "
                   "--request-bytes 669000 --live-heap 29M --scan-share 7 --noise 72 "
                   "--duration 2 --warmup 1 --policy max:5");
    o.machine.mark_rate = 0.115;
    struct kv_result r = run_of(&o, 0, NULL);
    cr_assert_gt(r.metric[KV_CYCLES], 20);
    cr_assert_gt(r.metric[KV_ACHIEVED_RATE], 3500);
}

/* ---- memory limits ---- */

#define LIMITED                                                                       \
    "--vcpus 8 --conns 1000 --rate 100000 --live-heap 60M --duration 2 --warmup 0.5 " \
    "--gogc 400 --seed 3 "

static struct kv_result limited(const char *more)
{
    char line[400];
    snprintf(line, sizeof line, LIMITED "%s", more);
    struct scale_options o = options_of(line);
    struct scale_books books;
    struct kv_result r = run_of(&o, 0, &books);
    check_books(&books, line);
    return r;
}

/* The limit holds, at the price of more collections; one that is far away changes nothing. */
Test(sim_scale, memory_limit_holds)
{
    static const char *const policy[] = {"--policy max:5 ", "--policy max:5 --profile go1.23 ",
                                         "--policy pi --no-assist "};
    const double stacks = 2000 * 4096.0, limit = 150 * 1048576.0;
    for (int i = 0; i < 3; i++) {
        char with[120], far[120];
        snprintf(with, sizeof with, "%s--limit 150MiB", policy[i]);
        snprintf(far, sizeof far, "%s--limit 100GiB", policy[i]);
        struct kv_result none = limited(policy[i]), low = limited(with), high = limited(far);
        cr_assert_gt(none.metric[KV_PEAK_HEAP] + stacks, 1.3 * limit, "%s", policy[i]);
        cr_assert_leq(low.metric[KV_PEAK_HEAP] + stacks, limit, "%s: peak %g", policy[i],
                      low.metric[KV_PEAK_HEAP]);
        cr_assert_gt(low.metric[KV_CYCLES], 1.5 * none.metric[KV_CYCLES], "%s", policy[i]);
        cr_assert_eq(memcmp(none.metric, high.metric, sizeof none.metric), 0, "%s", policy[i]);
    }
}

/* Below the live heap the limit cannot hold; the limiter leaves the program half of the CPU
 * time. */
Test(sim_scale, limiter_keeps_the_program_going)
{
    static const char *const profile[] = {"hedge", "go1.23"};
    for (int i = 0; i < 2; i++) {
        char more[120];
        snprintf(more, sizeof more, "--policy max:5 --profile %s --limit 20MiB", profile[i]);
        struct kv_result r = limited(more);
        cr_assert_gt(r.metric[KV_CYCLES], 10, "%s", profile[i]);
        cr_assert_gt(r.metric[KV_ACHIEVED_RATE], 99000, "%s: %g", profile[i],
                     r.metric[KV_ACHIEVED_RATE]);
    }
    struct kv_result r = limited("--policy max:5 --limit 20MiB");
    double share = r.metric[KV_GC_CPU_SHARE];
    cr_assert(share > 0.3 && share < 0.55, "%g of CPU time", share);
}

/* ---- what was published (docs/design/scale.md has the parameters and the table) ---- */

#define DATABASE                                                                       \
    "--network --service 700 --request-bytes 20000 --live-heap 1300M --scan-share 60 " \
    "--duration 6 --warmup 2 "

static double database_p99(const char *more)
{
    char line[400];
    snprintf(line, sizeof line, DATABASE "%s", more);
    return p99_of(line);
}

/* Within a factor of three of what was published: the database's own figures (its CPU time and
 * bytes per request) were not, and the tail depends on them. */
static void check_published(const char *what, double p99, double published)
{
    cr_assert(p99 > published / 3 && p99 < published * 3, "%s: p99 %g ms, published %g", what, p99,
              published);
}

/* 30 CPUs, 30,000 requests a second, Go 1.19. */
Test(sim_scale, published_30_cpus)
{
    double many = database_p99("--profile go1.19 --vcpus 30 --conns 10000 --rate 30000");
    double bare =
        database_p99("--profile go1.19 --vcpus 30 --conns 10000 --rate 30000 --no-assist");
    double rare = database_p99("--profile go1.19 --vcpus 30 --conns 10000 --rate 30000 "
                               "--gogc 300");
    double ours = database_p99("--profile hedge --vcpus 30 --conns 10000 --rate 30000 "
                               "--policy max:5");
    check_published("512 connections",
                    database_p99("--profile go1.19 --vcpus 30 --conns 512 --rate 30000"), 2.0);
    check_published("10,000 connections", many, 28.3);
    check_published("10,000 connections, no assist", bare, 3.9);
    check_published("10,000 connections, GOGC 300", rare, 18.8);
    cr_assert_gt(many, 4 * bare);
    cr_assert_gt(many, 4 * ours, "hedge: p99 %g ms", ours);
}

/* 60 CPUs on two sockets. */
Test(sim_scale, published_60_cpus)
{
    double many =
        database_p99("--profile go1.19 --vcpus 60 --sockets 2 --conns 20000 --rate 50000");
    double ours = database_p99("--profile hedge --vcpus 60 --sockets 2 --conns 20000 "
                               "--rate 50000 --policy max:5");
    check_published(
        "512 connections",
        database_p99("--profile go1.19 --vcpus 60 --sockets 2 --conns 512 --rate 30000"), 3.1);
    check_published("20,000 connections", many, 67.1);
    cr_assert_gt(many, 3 * ours, "hedge: p99 %g ms", ours);
}

/* Go 1.19 and 1.23 under the same load on the 2 CPUs of the built-in machine: of its marking 71 %
 * is assist, a cycle ends far below its goal, p99 140 to 161 ms. */
Test(sim_scale, measured_go_on_2_cpus)
{
    struct scale_options o = options_of("--profile go1.19 --vcpus 2 --conns 10000 --rate 100000 "
                                        "--service 9 --policy mean:2");
    struct kv_result r = run_of(&o, 0, NULL);
    const double *m = r.metric;
    cr_assert(m[KV_ASSIST_SHARE] > 0.6 && m[KV_ASSIST_SHARE] < 0.8, "%g", m[KV_ASSIST_SHARE]);
    cr_assert(m[KV_CYCLES] > 46 / 3.0 * 0.75 && m[KV_CYCLES] < 46 / 3.0 * 1.33, "%g", m[KV_CYCLES]);
    cr_assert(m[KV_GC_CPU_SHARE] > 0.14 && m[KV_GC_CPU_SHARE] < 0.24, "%g", m[KV_GC_CPU_SHARE]);
    cr_assert(m[KV_P99] > 140.5e6 / 1.3 && m[KV_P99] < 140.5e6 * 1.3, "%g", m[KV_P99]);
    cr_assert_lt(m[KV_PEAK_OVER_GOAL], 0.95);
}

/* ---- speed and size ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(HG_DEBUG)
#define LEAST_SPEED 1e5
#else
#define LEAST_SPEED 1e6
#endif

Test(sim_scale, a_million_requests_a_second)
{
    struct scale_options o = options_of("--vcpus 30 --conns 10000 --rate 1000000 --duration 2 "
                                        "--warmup 0.5 --service 10 --policy max:5");
    struct scale_books books;
    clock_t from = clock();
    struct kv_result r = run_of(&o, 0, &books);
    double seconds = (double)(clock() - from) / CLOCKS_PER_SEC;
    cr_assert_gt(r.metric[KV_CYCLES], 3);
    cr_assert_gt((double)books.requests / seconds, LEAST_SPEED, "%.0f requests in %.2f s of CPU",
                 (double)books.requests, seconds);
}

Test(sim_scale, a_million_connections_fit)
{
    struct scale_options o = options_of("--vcpus 60 --conns 1000000 --rate 500000 --duration 1 "
                                        "--warmup 0 --live-heap 300M --policy max:5");
    struct scale_books books;
    struct rusage u;
    run_of(&o, 0, &books);
    check_books(&books, "a million connections");
    getrusage(RUSAGE_SELF, &u);
    cr_assert_lt(u.ru_maxrss, 1L << 20, "%ld KiB", u.ru_maxrss); /* 1 GiB, of 8 allowed */
}

/* ---- machines and options ---- */

Test(sim_scale, machine_file)
{
    struct scale_machine m, back;
    char path[] = "test_sim_scale.XXXXXX", why[160];
    int fd = mkstemp(path);
    FILE *out = fdopen(fd, "w");
    cr_assert_not_null(out);
    scale_machine_builtin(&m);
    cr_assert_eq(scale_machine_check(&m, why, sizeof why), 0, "%s", why);
    cr_assert_eq(scale_machine_write(out, &m), 0);
    fclose(out);
    cr_assert_eq(scale_machine_read(path, &back, why, sizeof why), 0, "%s", why);
    cr_assert_eq(memcmp(&m, &back, sizeof m), 0);
    cr_assert_eq(truncate(path, 100), 0);
    cr_assert_eq(scale_machine_read(path, &back, why, sizeof why), -1);
    cr_assert_not_null(strstr(why, "line "), "%s", why);
    m.mark_rate = 0;
    cr_assert_eq(scale_machine_check(&m, why, sizeof why), -1);
    cr_assert_not_null(strstr(why, "mark_rate"), "%s", why);
    unlink(path);
}

/* kv's load options mean the same here: garbage bytes are a request's, and deeper stacks have more
 * to scan, unless it is said how much. */
Test(sim_scale, loads_are_those_of_kv)
{
    struct scale_options plain = options_of("--vcpus 2"),
                         bytes = options_of("--vcpus 2 --garbage-bytes 10000"),
                         deep = options_of("--vcpus 2 --depth 58"),
                         flat = options_of("--vcpus 2 --depth 0"),
                         said = options_of("--vcpus 2 --depth 58 --stack-bytes 3000");
    double more = scale_request_bytes(&bytes) - scale_request_bytes(&plain);
    cr_expect_float_eq(more, 10000 * plain.machine.alloc_factor, 1e-6);
    cr_expect_gt(scale_service_ns(&bytes), scale_service_ns(&plain));
    cr_expect_float_eq(deep.machine.stack_bytes - plain.machine.stack_bytes, 50 * 160, 1e-9);
    cr_expect_gt(deep.machine.stack_ns, plain.machine.stack_ns);
    cr_expect_lt(flat.machine.stack_bytes, plain.machine.stack_bytes);
    cr_expect_eq(said.machine.stack_bytes, 3000);
}

static void parse_only(void *line)
{
    argp_err_exit_status = SIM_USAGE;
    options_of(line);
}

Test(sim_scale, wrong_options)
{
    static const char *const wrong[][2] = {
        {"--stack-noise 50", "--stack-noise: expected with kv, not here"},
        {"--calibrate a.json --garbage-bytes 5", "--garbage-bytes: expected without --calibrate"},
        {"--calibrate a.json --depth 9", "--depth: expected 8 with --calibrate"},
        {"--profile java", "hedge, go1.19 or go1.23"},
        {"--vcpus 0", "from 1 to 1024"},
        {"--policy best", "mean"},
        {"--live-heap 3X", "--live-heap"},
        {"--noise 200", "from 0 to 95"},
        {"--machine /nonexistent/file", "--calibrate"},
        {"--sockets 1.5", "whole number"},
        {"--service 0", "from 0.01"},
        {"now", "options only"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct test_child child;
        test_child_run(&child, 20, parse_only, (void *)(uintptr_t)wrong[i][0]);
        cr_assert_eq(child.exit_code, SIM_USAGE, "%s: status %d", wrong[i][0], child.exit_code);
        cr_assert_not_null(strstr(child.text, wrong[i][1]), "%s: %s", wrong[i][0], child.text);
    }
}
