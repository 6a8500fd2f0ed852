/* test_sim_trace.c: recorded traces: single lines, whole files, and what is left of a file that was
 * cut off anywhere.
 */
#include "sim/trace_read.h"
#include "tests/support/test.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GO_GC                                                                                     \
    "gc 7 @1.500s 12%: 0.046+6.1+0.24 ms clock, 0.092+0.84/0.12/0.13+0.48 ms cpu, 4->7->5 MB, 6 " \
    "MB goal, 1 MB stacks, 2 MB globals, 2 P"
#define GO_PACER                                                                              \
    "pacer: 31% CPU (25 exp.) for 747880+3872+203440 B work (203440 B exp.) in 4297696 B -> " \
    "7528448 B (\xe2\x88\x86goal -3334144, cons/mark -1.5e-001)"
#define HEDGE_PACER                                                                                \
    "pacer: 16% CPU (25 exp.) for 884832+848+8 B work (0 B est.) in 3638224 B -> 4417856 B "       \
    "(cons/mark +4.760e-01, est. +2.5e-01; next +4.760e-01, trigger 7195127 B, goal 8568504 B, u " \
    "0.250)"
#define MIB 1048576.0

static struct sim_trace_line line;
static char why[400];

static struct sim_trace trace_of(const char *text, bool lenient, int expected)
{
    struct sim_trace t;
    FILE *in = text[0] != 0 ? fmemopen((char *)(uintptr_t)text, strlen(text), "r")
                            : fopen("/dev/null", "r");
    sim_trace_init(&t);
    why[0] = 0;
    cr_assert_not_null(in);
    int err = sim_trace_read(&t, in, "log", lenient, why, sizeof why);
    fclose(in);
    if (err == 0)
        err = sim_trace_finish(&t, why, sizeof why);
    cr_assert_eq(err, expected, "%s", why);
    return t;
}

static struct sim_trace recorded(const char *name)
{
    struct sim_trace t;
    char path[400];
    snprintf(path, sizeof path, "%s/%s", HEDGE_TEST_DATA, name);
    sim_trace_init(&t);
    cr_assert_eq(sim_trace_read_path(&t, path, false, why, sizeof why), 0, "%s", why);
    cr_assert_eq(sim_trace_finish(&t, why, sizeof why), 0, "%s", why);
    return t;
}

/* ---- lines ---- */

Test(sim_trace, gctrace_line)
{
    cr_assert_eq(sim_trace_parse(GO_GC, &line), SIM_TRACE_GC);
    const struct sim_trace_cycle *c = &line.cycle;
    cr_assert_eq(c->number, 7);
    cr_assert_float_eq(c->at_s, 1.5, 1e-12);
    cr_assert_float_eq(c->gc_share, 0.12, 1e-12);
    cr_assert_float_eq(c->quiet_ns, 46000, 1e-3);
    cr_assert_float_eq(c->wall_ns, 6.1e6, 1e-3);
    cr_assert_float_eq(c->assist_ns, 0.84e6, 1e-3);
    cr_assert_float_eq(c->background_ns, 0.12e6, 1e-3);
    cr_assert_float_eq(c->idle_ns, 0.13e6, 1e-3);
    cr_assert_float_eq(c->heap_start, 4 * MIB, 1e-3);
    cr_assert_float_eq(c->heap_end, 7 * MIB, 1e-3);
    cr_assert_float_eq(c->live, 5 * MIB, 1e-3);
    cr_assert_float_eq(c->goal, 6 * MIB, 1e-3);
    cr_assert_float_eq(c->stack, MIB, 1e-3);
    cr_assert_float_eq(c->globals, 2 * MIB, 1e-3);
    cr_assert_float_eq(c->procs, 2, 0);
    cr_assert(!c->forced && isnan(sim_trace_work(c)) && c->source == SIM_TRACE_NONE);
    /* Before Go 1.18 there were no stacks and globals; a forced cycle says so at its end. */
    cr_assert_eq(sim_trace_parse("gc 1 @0s 0%: 0+0+0 ms clock, 0+0/0/0+0 ms cpu, 1->1->1 MB, 4 MB "
                                 "goal, 16 P (forced)",
                                 &line),
                 SIM_TRACE_GC);
    cr_assert(isnan(line.cycle.stack) && line.cycle.procs == 16 && line.cycle.forced);
}

Test(sim_trace, pacer_lines)
{
    cr_assert_eq(sim_trace_parse(GO_PACER, &line), SIM_TRACE_PACER);
    cr_assert_float_eq(line.cycle.scan_heap, 747880, 0);
    cr_assert_float_eq(line.cycle.scan_stack, 3872, 0);
    cr_assert_float_eq(line.cycle.scan_globals, 203440, 0);
    cr_assert_float_eq(line.cycle.heap_start, 4297696, 0);
    cr_assert_float_eq(line.cycle.heap_end, 7528448, 0);
    cr_assert_float_eq(line.cycle.estimate, -0.15, 1e-12);
    cr_assert(isnan(line.cycle.cons_mark), "Go prints no measurement");
    cr_assert_eq(sim_trace_parse(HEDGE_PACER, &line), SIM_TRACE_PACER);
    cr_assert_float_eq(line.cycle.cons_mark, 0.476, 1e-12);
    cr_assert_float_eq(line.cycle.estimate, 0.25, 1e-12);
    cr_assert_eq(line.cycle.source, SIM_TRACE_PRINTED);
    static const char *const other[] = {
        "pacer: assist ratio=+2.9e+000 (scan 0 MB in 4->4 MB) workers=0++2.5e-001",
        "pacer: sweep done at heap size 2MB; allocated 1MB during sweep; swept 588 pages at 0"};
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(sim_trace_parse(other[i], &line), SIM_TRACE_OTHER, "%s", other[i]);
}

Test(sim_trace, estimates_that_are_no_numbers)
{
    static const char form[] = "pacer: 1%% CPU (25 exp.) for 1+2+3 B work (4 B exp.) in 5 B -> 6 B "
                               "(\xce\x94goal 7, cons/mark %s)%s";
    char text[300];
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, form, (const char *[]){"NaN", "+Inf", "-Inf"}[i],
                 i == 1 ? "[controller reset]" : "");
        cr_assert_eq(sim_trace_parse(text, &line), SIM_TRACE_PACER, "%s", text);
        cr_assert(isnan(line.cycle.estimate));
    }
}

Test(sim_trace, names_in_prefixes)
{
    static const struct {
        const char *prefix, *name;
    } made[] = {{"", ""},
                {"2026-11-03T10:12:00.100Z ", ""},
                {"Nov 03 10:12:01 web-3 api[4711]: ", "api[4711]"},
                {"api[4711]: ", "api[4711]"},
                {"[pod/api-7c9d/main] ", "pod/api-7c9d/main"},
                {"[pod/api-7c9d/main] 2026-11-03T10:12:00Z ", "pod/api-7c9d/main"},
                {"web_1  | ", "web_1"},
                {"web_1  |", "web_1"}};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        char text[500];
        snprintf(text, sizeof text, "%s%s", made[i].prefix, GO_GC);
        cr_assert_eq(sim_trace_parse(text, &line), SIM_TRACE_GC, "%s", text);
        cr_assert_str_eq(line.name, made[i].name);
    }
}

Test(sim_trace, lines_of_others)
{
    static const char *const text[] = {"",
                                       "gc",
                                       "gc 12",
                                       "the gc 12 was long",
                                       "magc 1 @0.1s",
                                       "pacer: ready",
                                       "level=info msg=\"pacer\"",
                                       "gc pause 3 @ noon"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        cr_assert_eq(sim_trace_parse(text[i], &line), SIM_TRACE_FOREIGN, "%s", text[i]);
}

/* A line that ends too early is broken wherever it ends, and the message points there; but what
 * follows the last field may be missing. */
Test(sim_trace, cut_lines)
{
    static const char *const whole[] = {GO_GC, GO_PACER, HEDGE_PACER};
    static const size_t begins[] = {6, 9, 9}; /* "gc 7 @", "pacer: 31%": known from here on */
    for (size_t k = 0; k < 3; k++) {
        char text[500];
        for (size_t n = begins[k] + 1; n < strlen(whole[k]); n++) {
            snprintf(text, sizeof text, "%.*s", (int)n, whole[k]);
            cr_assert_eq(sim_trace_parse(text, &line), SIM_TRACE_BROKEN, "%s", text);
            cr_assert(line.expected[0] != 0 && line.column <= n + 1, "%s: %zu", text, line.column);
        }
    }
}

Test(sim_trace, numbers_out_of_range)
{
    static const char *const text[] = {
        "gc 1 @0s 0%: 0+-1+0 ms clock, 0+0/0/0+0 ms cpu, 1->1->1 MB, 4 MB goal, 1 P",
        "gc 1 @0s 0%: 0+1e300+0 ms clock, 0+0/0/0+0 ms cpu, 1->1->1 MB, 4 MB goal, 1 P",
        "gc 1 @0s 0%: 0+0x1+0 ms clock, 0+0/0/0+0 ms cpu, 1->1->1 MB, 4 MB goal, 1 P",
        "gc 0 @0s 0%: 0+1+0 ms clock, 0+0/0/0+0 ms cpu, 1->1->1 MB, 4 MB goal, 1 P",
        "gc 1 @0s 0%: 0+1+0 ms clock, 0+0/0/0+0 ms cpu, 1->1->1 MB, 4 MB goal, 0 P",
        "gc 1 @0s 0%: 0+1+0 ms clock, 0+0/0/0+0 ms cpu, 1->1->1 MB, 4 MB goal, 1 Pony"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        cr_assert_eq(sim_trace_parse(text[i], &line), SIM_TRACE_BROKEN, "%s", text[i]);
}

/* ---- files ---- */

Test(sim_trace, go_file)
{
    struct sim_trace t = recorded("go1.19.log");
    cr_assert_eq(t.processes, 1);
    cr_assert_eq(t.gc_lines, 38);
    cr_assert_eq(t.pacer_lines, 37);
    cr_assert_eq(t.skipped, 0);
    const struct sim_trace_process *p = &t.process[0];
    cr_assert_eq(p->cycles, 38);
    cr_assert_str_eq(p->name, "#1");
    for (size_t i = 0; i + 1 < p->cycles; i++) {
        cr_assert_eq(p->cycle[i].number, i + 1);
        cr_assert_eq(p->cycle[i].source, SIM_TRACE_TIMES);
        cr_assert_gt(p->cycle[i].cons_mark, 0);
        cr_assert_leq(fabs(p->cycle[i].heap_end - p->cycle[i].goal), 8 * MIB);
    }
    cr_assert(p->cycle[37].forced && !sim_trace_usable(&p->cycle[37]));
    /* gc 36 by hand: (63761368 - 53860465) B over (2 x 28 - 27 - 17) ms, against 2156400 B over
     * 44 ms. */
    cr_assert_float_eq(p->cycle[35].cons_mark, 9900903.0 * 44 / (12 * 2156400.0), 1e-6);
    cr_assert_float_eq(sim_trace_gogc(p), 100, 5);
    cr_assert_eq(sim_trace_find(&t, NULL, why, sizeof why), p);
    cr_assert_eq(sim_trace_find(&t, "1", why, sizeof why), p);
    sim_trace_free(&t);
}

/* What hedge printed as measured is what the pacer finds in the cycle that is made from its
 * line. */
Test(sim_trace, hedge_file)
{
    struct sim_trace t = recorded("hedge.log");
    struct hg_pacer_config config = {.gc_percent = 100, .memory_limit = INT64_MAX};
    struct hg_pacer_memory memory = {0, 0};
    struct hg_pacer pacer;
    size_t usable = 0;
    cr_assert_eq(t.processes, 1);
    cr_assert_eq(t.process[0].cycles, 30);
    hg__pacer_init(&pacer, &config);
    for (size_t i = 0; i < t.process[0].cycles; i++) {
        const struct sim_trace_cycle *c = &t.process[0].cycle[i];
        struct hg_pacer_cycle m;
        cr_assert_eq(c->source, SIM_TRACE_PRINTED);
        if (!sim_trace_measure(c, &m))
            continue;
        hg__pacer_cycle_end(&pacer, &m, &memory);
        cr_assert_float_eq(pacer.plan.measured, c->cons_mark, 1e-3 * c->cons_mark + 1e-9);
        usable++;
    }
    cr_assert_eq(usable, 28);
    sim_trace_free(&t);
}

Test(sim_trace, processes_are_told_apart)
{
    struct sim_trace t = recorded("journald.log");
    const struct sim_trace_process *p;
    cr_assert_eq(t.processes, 3);
    cr_assert_eq(t.skipped, 4);
    cr_assert_not_null(p = sim_trace_find(&t, "4711", why, sizeof why));
    cr_assert_str_eq(p->name, "api[4711]");
    cr_assert_eq(p->cycles, 12);
    for (size_t i = 0; i < p->cycles; i++)
        cr_assert_eq(p->cycle[i].source, SIM_TRACE_TIMES);
    cr_assert_not_null(p = sim_trace_find(&t, "cache", why, sizeof why));
    cr_assert_eq(p->cycles, 12);
    cr_assert_null(sim_trace_find(&t, "api", why, sizeof why), "there are two");
    cr_assert_not_null(strstr(why, "api[5120]"));
    cr_assert_null(sim_trace_find(&t, "99", why, sizeof why));
    cr_assert_null(sim_trace_find(&t, NULL, why, sizeof why), "there are three");
    sim_trace_free(&t);
}

/* Two logs without names, line by line from one and the other. */
Test(sim_trace, processes_without_names)
{
    char text[20000], row[400];
    text[0] = 0;
    for (int i = 1; i <= 20; i++) {
        for (int who = 0; who < 2; who++) {
            int mb = who == 0 ? 10 : 100;
            if (who == 1 && i == 7)
                continue; /* lost */
            snprintf(row, sizeof row,
                     "pacer: 31%% CPU (25 exp.) for 1000000+1+1 B work (2 B exp.) in %d B -> %d B "
                     "(\xe2\x88\x86goal 1, cons/mark +1.0e+000)\n",
                     mb << 20, (mb + 1) << 20);
            strcat(text, row);
        }
        for (int who = 0; who < 2; who++) {
            int number = who == 0 ? i : 500 + i, mb = who == 0 ? 10 : 100;
            if (who == 1 && i == 7)
                continue;
            snprintf(row, sizeof row,
                     "gc %d @%d.%ds 1%%: 0.1+5+0.1 ms clock, 0.2+1/2/0+0.2 ms cpu, %d->%d->%d MB, "
                     "20 MB goal, 2 P\n",
                     number, i, who, mb, mb + 1, mb / 2);
            strcat(text, row);
        }
    }
    struct sim_trace t = trace_of(text, false, 0);
    cr_assert_eq(t.processes, 2);
    cr_assert_eq(t.process[0].cycles, 20);
    cr_assert_eq(t.process[1].cycles, 19);
    cr_assert_eq(t.process[1].missing, 1);
    for (size_t i = 0; i < 19; i++) {
        cr_assert_eq(t.process[0].cycle[i].source, SIM_TRACE_TIMES);
        cr_assert_float_eq(t.process[1].cycle[i].heap_start, 100 * MIB, 0);
    }
    sim_trace_free(&t);
}

Test(sim_trace, a_number_that_falls_back_is_a_new_start)
{
    char text[2000], row[400];
    text[0] = 0;
    for (int i = 0; i < 6; i++) {
        snprintf(row, sizeof row,
                 "web_1 | gc %d @%d.0s 1%%: 0.1+5+0.1 ms clock, 0.2+1/2/0+0.2 ms cpu, 3->4->2 MB, "
                 "4 MB goal, 2 P\n",
                 i % 3 + 1, i % 3 + 1);
        strcat(text, row);
    }
    struct sim_trace t = trace_of(text, false, 0);
    cr_assert_eq(t.processes, 2);
    cr_assert_str_eq(t.process[0].name, "web_1");
    cr_assert_str_eq(t.process[1].name, "web_1 #2");
    sim_trace_free(&t);
}

/* Without times a ratio is a bound, without the pacer's line there is none. */
Test(sim_trace, what_a_ratio_is_from)
{
    struct sim_trace t = trace_of(GO_PACER "\n", false, 0);
    cr_assert_eq(t.process[0].cycle[0].source, SIM_TRACE_SHARE);
    cr_assert_float_eq(t.process[0].cycle[0].cons_mark, 3230752 * 0.31 / (0.69 * 955192), 1e-6);
    sim_trace_free(&t);
    t = recorded("gctrace-only.log");
    for (size_t i = 0; i < t.process[0].cycles; i++)
        cr_assert_not(sim_trace_usable(&t.process[0].cycle[i]));
    sim_trace_assume(&t, 2 * MIB);
    for (size_t i = 0; i < t.process[0].cycles; i++)
        cr_assert_eq(t.process[0].cycle[i].source, SIM_TRACE_ASSUMED);
    sim_trace_free(&t);
}

Test(sim_trace, foreign_and_broken_files)
{
    struct sim_trace t = trace_of("hello\nworld\n", false, -1);
    cr_assert_not_null(strstr(why, "lines 1 to 2: expected"), "%s", why);
    sim_trace_free(&t);
    t = trace_of("", false, -1);
    cr_assert_not_null(strstr(why, "line 1: expected"), "%s", why);
    sim_trace_free(&t);
    t = trace_of("hello\n" GO_GC "\ngc 8 @2s 1%: 0.1+oh", false, -1);
    cr_assert_str_eq(why, "log: line 3, column 18: expected ms of marking; the file ends there (is "
                          "it truncated?)");
    sim_trace_free(&t);
    t = trace_of("hello\n" GO_GC "\ngc 8 @2s 1%: 0.1+oh\n", true, 0);
    cr_assert_eq(t.broken, 1);
    cr_assert_eq(t.skipped, 2);
    sim_trace_free(&t);
}

/* ---- robustness ---- */

static char *contents(const char *name, size_t *length)
{
    char path[400], *text = calloc(1, 65536);
    snprintf(path, sizeof path, "%s/%s", HEDGE_TEST_DATA, name);
    FILE *in = fopen(path, "r");
    cr_assert_not_null(in, "%s", path);
    *length = fread(text, 1, 65535, in);
    fclose(in);
    return text;
}

static void read_bytes(const char *text, size_t n, bool lenient)
{
    struct sim_trace t;
    FILE *in = fmemopen((char *)(uintptr_t)text, n, "r");
    sim_trace_init(&t);
    cr_assert_not_null(in);
    why[0] = 0;
    int err = sim_trace_read(&t, in, "log", lenient, why, sizeof why);
    fclose(in);
    if (err == 0)
        err = sim_trace_finish(&t, why, sizeof why);
    cr_assert_eq(err != 0, why[0] != 0, "an error has its message: \"%s\"", why);
    for (size_t i = 0; i < t.processes; i++)
        sim_trace_gogc(&t.process[i]);
    sim_trace_free(&t);
}

Test(sim_trace, files_cut_at_every_byte)
{
    static const char *const name[] = {"go1.19.log", "hedge.log", "journald.log",
                                       "kubectl-max5.log", "gctrace-only.log"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        size_t length;
        char *text = contents(name[i], &length);
        for (size_t n = 1; n <= length; n++)
            read_bytes(text, n, n % 2 == 0);
        free(text);
    }
}

Test(sim_trace, files_with_random_bytes)
{
    uint64_t seed = test_seed("sim_trace, files_with_random_bytes");
    size_t length;
    char *text = contents("journald.log", &length);
    for (int round = 0; round < 400; round++) {
        for (int k = 0; k < 3; k++) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            text[(seed >> 16) % length] = (char)(seed >> 56);
        }
        read_bytes(text, length, true);
    }
    free(text);
}
