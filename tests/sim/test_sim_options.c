/* test_sim_options.c: the command line of `hedge-sim kv`: defaults, and a message with status 2 for
 * every kind of wrong value. Parsing ends the process, so it runs in a child. */
#include "sim/kv.h"
#include "sim/sim.h"
#include "tests/support/test.h"
#include <argp.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARGS_MAX 16

/* What the child is to parse; it prints what it got on standard error. */
struct line {
    const char *arg[ARGS_MAX];
};

static void parse_and_print(void *arg)
{
    struct line *line = arg;
    char *argv[ARGS_MAX + 2] = {(char *)"hedge-sim kv"};
    struct kv_options o;
    int argc = 1;
    for (int i = 0; i < ARGS_MAX && line->arg[i] != NULL; i++)
        argv[argc++] = (char *)(uintptr_t)line->arg[i];
    argp_err_exit_status = SIM_USAGE;
    kv_options_parse(&o, argc, argv);
    fprintf(stderr, "conns=%d rate=%g read=%d keys=%d value=%d nodes=%d depth=%d burst=%g\n",
            o.conns, o.rate, o.read_percent, o.keys, o.value_bytes, o.garbage_nodes, o.depth,
            o.burst_us);
    fprintf(stderr, "gogc=%d procs=%d duration=%g warmup=%g repetitions=%d seed=%llu checks=%d\n",
            o.gogc, o.procs, o.duration_s, o.warmup_s, o.repetitions, (unsigned long long)o.seed,
            o.checks);
    fprintf(stderr, "garbage=%d noise=%g\n", o.garbage_bytes, o.stack_noise);
    fprintf(stderr, "limit=%lld points=%zu\n", (long long)o.limit,
            sim_sweep_asked(&o.sweep) ? sim_sweep_points(&o.sweep) : 0);
    fprintf(stderr, "policies=");
    for (int i = 0; i < o.policies; i++)
        fprintf(stderr, "%s%s", o.policy[i].name, o.policy[i].off ? "!" : ";");
    fflush(stderr);
}

static struct test_child child;

static const char *parsed(struct line line)
{
    test_child_run(&child, 20, parse_and_print, &line);
    cr_assert_eq(child.exit_code, 0, "%s", child.text);
    return child.text;
}

static void clear_environment(void)
{
    unsetenv("GOGC");
    unsetenv("HEDGE_GOGC");
    unsetenv("GOMEMLIMIT");
    unsetenv("HEDGE_GOMEMLIMIT");
    unsetenv("GOMAXPROCS");
    unsetenv("HEDGE_GOMAXPROCS");
}

Test(sim_options, defaults, .init = clear_environment)
{
    const char *text = parsed((struct line){{NULL}});
    cr_assert_not_null(strstr(text, "conns=10000 rate=100000 read=95 keys=200000 value=1024 "
                                    "nodes=12 depth=8 burst=0"),
                       "%s", text);
    cr_assert_not_null(
        strstr(text, "gogc=100 procs=-1 duration=30 warmup=5 repetitions=6 seed=42 checks=0"), "%s",
        text);
    cr_assert_not_null(strstr(text, "garbage=0 noise=0\n"), "%s", text);
    cr_assert_not_null(strstr(text, "policies=mean:2;pi;max:5;off!"), "%s", text);
}

Test(sim_options, all_of_them, .init = clear_environment)
{
    const char *text =
        parsed((struct line){{"--conns", "512", "--rate=60000.5", "--read-percent", "0", "--keys=1",
                              "--value-bytes=8", "--garbage-nodes=0", "--depth=0", "--burst=12.5",
                              "--gogc=300", "--procs=3", "--duration=0.5", "--warmup=0"}});
    cr_assert_not_null(
        strstr(text, "conns=512 rate=60000.5 read=0 keys=1 value=8 nodes=0 depth=0 burst=12.5"),
        "%s", text);
    cr_assert_not_null(strstr(text, "gogc=300 procs=3 duration=0.5 warmup=0"), "%s", text);
    text = parsed((struct line){{"--garbage-bytes=67108864", "--stack-noise", "12.5"}});
    cr_assert_not_null(strstr(text, "garbage=67108864 noise=0.125\n"), "%s", text);
    text = parsed((struct line){{"--stack-noise=1", "--sweep=depth=100,200"}});
    cr_assert_not_null(strstr(text, "noise=0.01\n"), "each point looks for itself: %s", text);
    text = parsed((struct line){{"--policy=max,off,mean:9", "--seed=18446744073709551615",
                                 "--fail-if=p99>max:5.p99", "--fail-if", "p50 > 1ms"}});
    cr_assert_not_null(strstr(text, "policies=max:5;off!mean:9;"), "%s", text);
    cr_assert_not_null(strstr(text, "seed=18446744073709551615 checks=2"), "%s", text);
}

Test(sim_options, consequences, .init = clear_environment)
{
    cr_assert_not_null(strstr(parsed((struct line){{"--policy=pi"}}), "repetitions=1 "));
    cr_assert_not_null(strstr(parsed((struct line){{"--gogc=off"}}), "policies=off!"));
    setenv("GOGC", "250", 1);
    setenv("GOMAXPROCS", "7", 1);
    const char *text = parsed((struct line){{NULL}});
    cr_assert_not_null(strstr(text, "gogc=250 procs=7"), "the environment: %s", text);
    text = parsed((struct line){{"--gogc=50", "--procs=1"}});
    cr_assert_not_null(strstr(text, "gogc=50 procs=1"), "options win: %s", text);
    setenv("GOGC", "many", 1);
    text = parsed((struct line){{NULL}});
    cr_assert_not_null(strstr(text, "gogc=100"), "a bad value is reported, and ignored: %s", text);
    cr_assert_not_null(strstr(text, "GOGC"), "%s", text);
}

/* Lists make a sweep of all combinations; the last limit counts. */
Test(sim_options, lists_and_limits, .init = clear_environment)
{
    static const struct {
        const char *arg[3], *expected;
    } made[] = {{{"--limit=512MiB"}, "limit=536870912 points=0"},
                {{"--limit=1.5GiB", "--limit", "off"}, "limit=9223372036854775807 points=0"},
                {{"--gogc=50,100,off"}, "points=3"},
                {{"--gogc", "50,100", "--limit=1MiB,off"}, "points=4"},
                {{"--sweep=rate=10:50:10", "--gogc=50,100"}, "points=10"}};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        const char *text = parsed((struct line){{made[i].arg[0], made[i].arg[1], made[i].arg[2]}});
        cr_assert_not_null(strstr(text, made[i].expected), "%s: %s", made[i].arg[0], text);
    }
    setenv("GOMEMLIMIT", "64MiB", 1);
    cr_assert_not_null(strstr(parsed((struct line){{NULL}}), "limit=67108864"));
}

Test(sim_options, wrong_values, .init = clear_environment)
{
    static const struct {
        const char *arg[2], *option, *expected;
    } bad[] = {
        {{"--conns=0"}, "--conns", "from 1 to 10000000"},
        {{"--conns=ten"}, "--conns", "a whole number"},
        {{"--conns=1.5"}, "--conns", "a whole number"},
        {{"--conns="}, "--conns", "a whole number"},
        {{"--conns=nan"}, "--conns", "a whole number"},
        {{"--rate=-1"}, "--rate", "from 0.001"},
        {{"--rate=0x10"}, "--rate", "a number"},
        {{"--rate=1e999"}, "--rate", "a number"},
        {{"--read-percent=101"}, "--read-percent", "from 0 to 100"},
        {{"--value-bytes=7"}, "--value-bytes", "from 8"},
        {{"--garbage-bytes=-1"}, "--garbage-bytes", "from 0 to 67108864"},
        {{"--garbage-bytes=67108865"}, "--garbage-bytes", "from 0 to 67108864"},
        {{"--garbage-bytes=1KiB"}, "--garbage-bytes", "a whole number"},
        {{"--stack-noise=-1"}, "--stack-noise", "from 0 to 100"},
        {{"--stack-noise=101"}, "--stack-noise", "from 0 to 100"},
        {{"--stack-noise=half"}, "--stack-noise", "a number"},
        {{"--stack-noise=50", "--depth=0"}, "--stack-noise", "less than half a frame"},
        {{"--stack-noise=5"}, "--stack-noise", "5 % of --depth 8"},
        {{"--gogc=-1"}, "--gogc", "from 0"},
        {{"--procs=0"}, "--procs", "from 1"},
        {{"--duration=0"}, "--duration", "from 0.1"},
        {{"--repetitions=0"}, "--repetitions", "from 1"},
        {{"--seed=-1"}, "--seed", "a whole number"},
        {{"--seed=18446744073709551616"}, "--seed", "a whole number"},
        {{"--policy=max:0"}, "--policy", "expected"},
        {{"--policy=fast"}, "--policy", "expected"},
        {{"--policy="}, "--policy", "expected"},
        {{"--policy=max:5,max"}, "--policy", "once"},
        {{"--json=/nowhere/at/all.json"}, "--json", "a file that can be written"},
        {{"--csv=/"}, "--csv", "a file that can be written"},
        {{"--hgrm=/dev/null"}, "--hgrm", "a folder"},
        {{"--fail-if=p99 >"}, "--fail-if", "expected"},
        {{"--fail-if=p98 > 1"}, "--fail-if", "no figure"},
        {{"--fail-if=max:7.p99 > 1"}, "--fail-if", "max:7"},
        {{"--policy=pi", "--fail-if=p99>off.p99"}, "--fail-if", "off"},
        {{"--limit=1.5XB"}, "--limit", "bytes from 1"},
        {{"--limit=-1"}, "--limit", "bytes from 1"},
        {{"--limit=0"}, "--limit", "bytes from 1"},
        {{"--limit=1e9"}, "--limit", "bytes from 1"},
        {{"--limit=1048577TiB"}, "--limit", "bytes from 1"},
        {{"--gogc=50,,100"}, "--gogc", "values with commas between"},
        {{"--gogc=50,100", "--sweep=gogc=1,2"}, "--sweep", "each option once"},
        {{"--sweep=rate=5:1:1"}, "--sweep", "a step that leads from 5 to 1"},
        {{"--sweep=rate"}, "--sweep", "an option's name"},
        {{"--sweep=rate=1,2", "--hgrm=."}, "--hgrm", "without a sweep"},
        {{"--want=p99<1ms"}, "--want", "with a sweep"},
        {{"--emit-jobs"}, "--emit-jobs", "with a sweep"},
        {{"--conns"}, "--conns", "requires an argument"},
        {{"--frob"}, "--frob", "unrecognized"},
        {{"extra"}, "extra", "options only"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct line line = {{bad[i].arg[0], bad[i].arg[1]}};
        test_child_run(&child, 20, parse_and_print, &line);
        cr_assert_eq(child.exit_code, SIM_USAGE, "%s: status %d, %s", bad[i].arg[0],
                     child.exit_code, child.text);
        cr_assert_not_null(strstr(child.text, bad[i].option), "%s: %s", bad[i].arg[0], child.text);
        cr_assert_not_null(strstr(child.text, bad[i].expected), "%s: %s", bad[i].arg[0],
                           child.text);
    }
}
