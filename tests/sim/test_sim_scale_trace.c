/* test_sim_scale_trace.c: `scale --trace`: what a trace's cycles say about a program, checked on
 * lines made from known figures, and that options win over it.
 */
#include "sim/scale_trace.h"
#include "sim/sim.h"
#include "tests/support/test.h"
#include <argp.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIB  1048576.0
#define DATA HEDGE_TEST_DATA "/"

/* A service with 100 MiB live, 25 of them scanned, 5 MiB of stacks; 50 MiB a second; GC CPU of 60
 * ms a cycle, so 0.5 MiB of scan work a ms; GOGC 100. `swing` moves every second cycle's allocation
 * while marking: its ratio is 1 + swing times the others'. */
static void write_service(FILE *out, double swing, int cycles)
{
    for (int i = 1; i <= cycles; i++) {
        double grown = 10 * (i % 2 == 1 ? 1 : 1 + swing), from = 200 - grown;
        fprintf(out,
                "pacer: 25%% CPU (25 exp.) for %.0f+%.0f+%.0f B work (0 B exp.) in %.0f B -> %.0f "
                "B (\xe2\x88\x86goal 0, cons/mark +1.0e-001)\n",
                24 * MIB, 5 * MIB, 1 * MIB, from * MIB, (from + grown) * MIB);
        fprintf(out,
                "gc %d @%.3fs 2%%: 0.1+30+0.1 ms clock, 0.4+5/30/25+0.4 ms cpu, %.0f->%.0f->100 "
                "MB, 206 MB goal, 5 MB stacks, 1 MB globals, 4 P\n",
                i, 2.0 * i - grown / 50, from, from + grown);
    }
}

static struct scale_recorded recorded_of(double swing, int cycles)
{
    struct sim_trace t;
    struct scale_recorded rec;
    char *text, why[400];
    size_t size;
    FILE *out = open_memstream(&text, &size);
    write_service(out, swing, cycles);
    fclose(out);
    FILE *in = fmemopen(text, size, "r");
    sim_trace_init(&t);
    cr_assert_eq(sim_trace_read(&t, in, "log", false, why, sizeof why), 0, "%s", why);
    cr_assert_eq(sim_trace_finish(&t, why, sizeof why), 0, "%s", why);
    cr_assert_eq(t.processes, 1);
    scale_trace_figures(&t.process[0], &rec);
    fclose(in);
    free(text);
    sim_trace_free(&t);
    return rec;
}

static void check_near(const char *what, double got, double expected, double tolerance)
{
    cr_assert_float_eq(got, expected, tolerance * fabs(expected) + 1e-12, "%s: %g, expected %g",
                       what, got, expected);
}

/* At which the profile's collector marks while all procs do. */
static double collector_rate(const struct scale_options *o)
{
    return o->machine.mark_rate * o->profile->mark_factor / scale_crowd_factor(o);
}

Test(sim_scale_trace, known_figures)
{
    struct scale_recorded r = recorded_of(0, 40);
    cr_assert_eq(r.cycles, 40);
    cr_assert_eq(r.counted, 40);
    cr_assert(!r.hedge);
    check_near("procs", r.procs, 4, 0);
    check_near("live", r.live, 100 * MIB, 0.01);
    check_near("scan share", r.scan_share, 0.25, 0.01);
    check_near("stack", r.stack, 5 * MIB, 1e-6);
    check_near("mark rate", r.mark_rate, 30 * MIB / 60e6, 1e-6);
    check_near("allocation", r.alloc_rate, 50 * MIB, 0.01);
    check_near("GOGC", r.gogc, 100, 0.02);
    check_near("spread", r.ratio_spread, 0, 0);
    cr_assert(isnan(r.ns_per_byte));
}

/* Ratios of 1 and 1.5 by turns: 0.5 from tenth to tenth, over a median of 1.25. */
Test(sim_scale_trace, noise_from_the_spread)
{
    struct scale_recorded r = recorded_of(0.5, 40);
    check_near("spread", r.ratio_spread, 0.5 / (1.6 * 1.25), 0.01);
    r = recorded_of(0.5, 6);
    cr_assert(isnan(r.ratio_spread), "6 cycles give %g", r.ratio_spread);
}

static struct scale_options options_of(const char *line)
{
    static char text[600];
    struct scale_options o;
    char *argv[40] = {(char *)"hedge-sim scale"};
    int argc = 1;
    snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " "))
        argv[argc++] = word;
    scale_options_parse(&o, argc, argv);
    return o;
}

/* hedge's trace says what CPU time requests take; its rate of marking is the machine's own. */
Test(sim_scale_trace, hedge_program)
{
    struct scale_options o = options_of("--trace " DATA "hedge.log --trace-rate 20000 "
                                        "--conns 500");
    cr_assert(o.live_heap > 25e6 && o.live_heap < 32e6, "%g", o.live_heap);
    cr_assert(o.service_us > 5 && o.service_us < 40, "%g us", o.service_us);
    cr_assert(o.machine.mark_rate > 0.3 && o.machine.mark_rate < 1.5, "%g", o.machine.mark_rate);
    cr_assert(o.noise > 0);
    cr_assert(o.load.gogc > 90 && o.load.gogc < 110, "GOGC %d", o.load.gogc);
    double once = o.request_bytes;
    o = options_of("--trace " DATA "hedge.log --trace-rate 10000 --conns 500 --rate 77");
    check_near("half the rate", o.request_bytes, 2 * once, 1e-9);
}

/* Go marks at a known share of the machine's rate, so that both collectors' runs are told. */
Test(sim_scale_trace, go_program)
{
    struct scale_recorded rec;
    char why[400];
    cr_assert_eq(scale_trace_read(DATA "go1.19.log", NULL, &rec, why, sizeof why), 0, "%s", why);
    struct scale_options o = options_of("--trace " DATA "go1.19.log --service 300 --profile "
                                        "go1.19");
    check_near("Go's rate", collector_rate(&o), rec.mark_rate, 1e-9);
    cr_assert_eq(o.service_us, 300);
    check_near("bytes", o.request_bytes, rec.alloc_rate / o.load.rate, 1e-9);
}

Test(sim_scale_trace, options_win)
{
    struct scale_options o =
        options_of("--live-heap 300M --trace " DATA "go1.19.log --service 7 --request-bytes 50 "
                   "--scan-share 12 --noise 3 --gogc 250 --mark-rate 200M --stack-bytes 3000 "
                   "--profile go1.23");
    check_near("live", o.live_heap, 300 * MIB, 1e-9);
    check_near("bytes", o.request_bytes, 50, 0);
    check_near("share", o.scan_share, 0.12, 1e-9);
    check_near("noise", o.noise, 0.03, 1e-9);
    cr_assert_eq(o.load.gogc, 250);
    cr_assert_eq(o.service_us, 7);
    cr_assert_eq(o.machine.stack_bytes, 3000);
    check_near("rate", collector_rate(&o), 0.2 * MIB / 1e6, 1e-9);
}

/* Without the pacer's lines nobody knows what was scanned, and the notes say so. */
Test(sim_scale_trace, assumptions_are_named)
{
    struct scale_options o = options_of("--trace " DATA "gctrace-only.log --service 100");
    int found = 0;
    cr_assert(isnan(o.scan_share));
    for (int i = 0; i < o.notes; i++)
        found += strcmp(o.note[i].source, "assumed") == 0;
    cr_assert_geq(found, 4, "%d notes of %d", found, o.notes);
}

static void parse_only(void *line)
{
    argp_err_exit_status = SIM_USAGE;
    options_of(line);
}

Test(sim_scale_trace, wrong_options)
{
    static const char *const wrong[][2] = {
        {"--trace /nonexistent/file", "/nonexistent/file: cannot be opened"},
        {"--trace " DATA "README.md --service 1", "lines 1 to"},
        {"--trace " DATA "go1.19.log", "--service"},
        {"--trace " DATA "journald.log --service 1", "api[4711], cache[812]"},
        {"--trace " DATA "journald.log --pid web --service 1", "web"},
        {"--pid 3", "--pid: expected with --trace"},
        {"--trace-rate 3", "--trace-rate: expected with --trace"},
        {"--trace - --gogc 50,100", "without a sweep"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct test_child child;
        test_child_run(&child, 20, parse_only, (void *)(uintptr_t)wrong[i][0]);
        cr_assert_eq(child.exit_code, SIM_USAGE, "%s: status %d", wrong[i][0], child.exit_code);
        cr_assert_not_null(strstr(child.text, wrong[i][1]), "%s: %s", wrong[i][0], child.text);
    }
}
