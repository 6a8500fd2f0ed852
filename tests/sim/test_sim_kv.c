/* test_sim_kv.c: `hedge-sim kv` without a runtime: from runs that are made up here to summary,
 * checks, text, JSON and files. (The load is in test_sim_kv_load.c.)
 */
#include "sim/kv.h"
#include "sim/kv_live.h"
#include "sim/outfile.h"
#include "sim/stats.h"
#include "sim/text.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REPETITIONS 6

static struct kv_result made[4 * REPETITIONS];
static struct kv_runs runs;
static struct kv_options opt;
static const struct sim_machine machine = {.cpus = 2,
                                           .cpu =
                                               "a CPU with a name that is long, and longer still",
                                           .kernel = "Linux 6.18.44-some-long-suffix x86_64",
                                           .governor = "performance",
                                           .memory_bytes = 1ull << 34};

/* One run; p99 in ms. Every figure gets a value, so that one that is lost on a way is noticed. */
static struct kv_result run(const char *policy, int repetition, double p99)
{
    struct kv_result r;
    memset(&r, 0, sizeof r);
    snprintf(r.policy, sizeof r.policy, "%s", policy);
    r.gc = strcmp(policy, "off") != 0;
    r.repetition = repetition;
    for (int m = 0; m < KV_METRICS; m++)
        r.metric[m] = kv_metric_info[m].whole ? 1000 + m : m + 0.5;
    r.metric[KV_P50] = 0.5e6;
    r.metric[KV_P99] = p99 * 1e6;
    r.metric[KV_P999] = p99 * 2e6;
    r.metric[KV_MAX] = p99 * 4e6;
    r.metric[KV_CYCLES] = r.gc ? 46 : 0;
    r.metric[KV_WANTED_RATE] = 100000;
    r.metric[KV_SECONDS] = 30;
    r.metric[KV_OPS] = 3000000;
    r.metric[KV_ACHIEVED_RATE] = 100000;
    r.metric[KV_P99_LOW] = p99 * 0.9e6;
    r.metric[KV_P99_HIGH] = p99 * 1.1e6;
    r.metric[KV_DROPPED] = r.metric[KV_STEAL_SHARE] = r.metric[KV_FOREIGN_CPU] = 0;
    r.blame[1] =
        (struct kv_blame){.requests = 20000, .ns = {1, 2, 3, 4, 5, 6, 7, 8}, .behind_ns = 9};
    r.blame[0] = (struct kv_blame){.requests = 10000, .ns = {7, 6, 5, 4, 3, 2, 1}};
    return r;
}

/* mean:2 is twice the floor, pi is hardly different, max:5 is worse now and better then. */
static void setup(void)
{
    static const char *const policy[] = {"mean:2", "pi", "max:5", "off"};
    memset(&opt, 0, sizeof opt);
    memset(&runs, 0, sizeof runs);
    runs.run = made;
    for (int rep = 1; rep <= REPETITIONS; rep++) {
        double floor = 2 + 0.1 * rep;
        double p99[] = {2 * floor, floor * 1.5, floor * (rep % 2 ? 1.2 : 0.9), floor};
        for (int i = 0; i < 4; i++)
            made[runs.n++] = run(policy[i], rep, p99[i]);
    }
    opt = (struct kv_options){.program = "hedge-sim kv",
                              .conns = 10000,
                              .rate = 100000,
                              .read_percent = 95,
                              .keys = 200000,
                              .value_bytes = 1024,
                              .garbage_nodes = 12,
                              .depth = 8,
                              .gogc = 100,
                              .procs = -1,
                              .duration_s = 30,
                              .warmup_s = 5,
                              .repetitions = REPETITIONS,
                              .seed = 42,
                              .policies = 4};
    for (int i = 0; i < 4; i++)
        snprintf(opt.policy[i].name, sizeof opt.policy[i].name, "%s", policy[i]);
    opt.policy[3].off = true;
}

Test(sim_kv, summary, .init = setup)
{
    struct kv_summary s;
    kv_summarise(&runs, &s);
    cr_assert_eq(s.policies, 4);
    cr_assert_str_eq(s.policy[0].policy, "mean:2");
    cr_assert_eq(s.reference, 3, "the floor");
    cr_assert_float_eq(s.policy[3].median[KV_P99], 2.35e6, 1);
    cr_assert_float_eq(s.policy[3].least[KV_P99], 2.1e6, 1);
    cr_assert_float_eq(s.policy[3].most[KV_P99], 2.6e6, 1);
    cr_assert_eq(s.policy[0].runs, REPETITIONS);
    cr_assert_eq(s.policy[0].blame[1].requests, 6 * 20000);
    cr_assert_eq(s.policy[0].blame[1].behind_ns, 6 * 9);
    cr_assert_eq(s.policy[0].blame[0].ns[0], 6 * 7);
    cr_assert_not(s.policy[0].few_cycles);
    cr_assert_not(s.policy[3].few_cycles, "the floor has no cycles, and needs none");
    double a[24], b[24];
    cr_assert_eq(kv_pairs(&runs, "pi", "off", KV_P99, a, b), REPETITIONS);
    for (int i = 0; i < REPETITIONS; i++)
        cr_assert_float_eq(a[i] / b[i], 1.5, 1e-9, "paired by repetition");
}

Test(sim_kv, summary_of_part, .init = setup)
{
    struct kv_summary s;
    runs.n = 6; /* stopped in the second repetition, before the second pair of pi's */
    runs.run[0].metric[KV_CYCLES] = runs.run[4].metric[KV_CYCLES] = 29;
    kv_summarise(&runs, &s);
    cr_assert_eq(s.policy[0].runs, 2);
    cr_assert_eq(s.policy[2].runs, 1);
    cr_assert(s.policy[0].few_cycles);
    double a[24], b[24];
    cr_assert_eq(kv_pairs(&runs, "mean:2", "off", KV_P99, a, b), 1, "one has no partner");
    runs.n = 3;
    kv_summarise(&runs, &s);
    cr_assert_eq(s.reference, 0, "no floor: the first");
    runs.n = 1;
    kv_summarise(&runs, &s);
    cr_assert_eq(s.reference, -1, "nothing to compare with");
    runs.n = 0;
    kv_summarise(&runs, &s);
    cr_assert_eq(s.policies, 0);
}

/* The whole report, for the caller to free; at most 80 columns. */
static char *report(void)
{
    char *text;
    size_t length;
    struct kv_summary s;
    FILE *out = open_memstream(&text, &length);
    kv_summarise(&runs, &s);
    kv_report_header(out, &opt, &machine, runs.skipped);
    for (int i = 0; i < runs.n; i++)
        kv_report_run(out, &opt, &runs.run[i]);
    kv_report_table(out, &s);
    kv_report_comparison(out, &runs, &s);
    kv_report_blame(out, &s);
    kv_report_warnings(out, &opt, &runs);
    fclose(out);
    const char *line = text;
    while (*line != 0) {
        size_t n = strcspn(line, "\n");
        cr_assert_leq(n, 80, "\"%.*s\" has %zu columns", (int)n, line, n);
        line += n + (line[n] == '\n');
    }
    return text;
}

/* Does some line of the text hold all three? */
static bool has_line(const char *text, const char *a, const char *b, const char *c)
{
    bool found = false;
    char *copy = strdup(text), *rest = copy, *line;
    while ((line = strsep(&rest, "\n")) != NULL)
        found |= strstr(line, a) != NULL && strstr(line, b) != NULL && strstr(line, c) != NULL;
    free(copy);
    return found;
}

Test(sim_kv, report, .init = setup)
{
    char *text = report();
    cr_assert(has_line(text, "mean:2", "p99 ", "different"), "%s", text);
    cr_assert(has_line(text, "pi ", "1.5 .. 1.5", "different"), "%s", text);
    cr_assert(has_line(text, "max:5", "p99 ", "no difference shown"), "%s", text);
    cr_assert(has_line(text, "max:5", "p99.9", "no difference shown"), "%s", text);
    cr_assert(has_line(text, "10,000 connections", "20,000 tasks", "100,000 op/s"), "%s", text);
    cr_assert(has_line(text, "mean:2, pi, max:5, off", "policies", ""), "%s", text);
    cr_assert(has_line(text, "collections", "46", "-"), "%s", text);
    cr_assert(has_line(text, "p99 of all runs", "4.200..5.200", "2.100..2.600"), "%s", text);
    cr_assert(!has_line(text, "warning", "", ""), "%s", text);
    free(text);
}

Test(sim_kv, report_says_what_is_too_few, .init = setup)
{
    runs.n = 20;
    for (int i = 0; i < runs.n; i++)
        if (strcmp(made[i].policy, "pi") == 0)
            made[i].metric[KV_CYCLES] = 29;
    char *text = report();
    cr_assert(has_line(text, "mean:2", "p99 ", "too few"), "%s", text);
    cr_assert(has_line(text, "fewer than 6", "95 %", ""), "%s", text);
    cr_assert(has_line(text, "pi ", "p99.9", "too few cycles"), "%s", text);
    cr_assert(has_line(text, "p99.9", "too few cycles", ""), "%s", text);
    cr_assert(has_line(text, "20 of 24 runs", "", ""), "%s", text);
    free(text);
    snprintf(runs.skipped, sizeof runs.skipped, "%s",
             "the floor (off) is left out: without a collector it fills about 464 GB, 21 GB are "
             "free for it");
    text = report();
    cr_assert(has_line(text, "note", "the floor (off) is left out", ""), "%s", text);
    free(text);
}

Test(sim_kv, report_of_extremes, .init = setup)
{
    runs.n = 0;
    free(report());
    setup();
    opt.burst_us = 123456.789;
    opt.rate = opt.keys = opt.conns = 10000000;
    opt.seed = UINT64_MAX;
    opt.repetitions = 1000;
    for (int i = 0; i < runs.n; i++)
        for (int m = 0; m < KV_METRICS; m++)
            made[i].metric[m] = i % 2 ? 1e11 : (double)NAN;
    for (int i = 1; i < runs.n; i += 2) {
        made[i].metric[KV_ACHIEVED_RATE] = 1e7;
        made[i].metric[KV_CYCLES] = 1e5;
        made[i].metric[KV_GC_CPU_SHARE] = made[i].metric[KV_ASSIST_SHARE] = 1;
        made[i].metric[KV_STEAL_SHARE] = 1;
        made[i].metric[KV_PEAK_OVER_GOAL] = 1e9;
    }
    free(report());
    for (int i = 0; i < 4; i++)
        snprintf(opt.policy[i].name, sizeof opt.policy[i].name, "max:%d", 29 + i);
    opt.policies = KV_POLICIES_MAX;
    for (int i = 4; i < KV_POLICIES_MAX; i++)
        snprintf(opt.policy[i].name, sizeof opt.policy[i].name, "mean:%d", 20 + i);
    for (int i = 0; i < KV_POLICIES_MAX; i++)
        made[i] = run(opt.policy[i].name, 1, 1e5);
    runs.n = KV_POLICIES_MAX;
    char *text = report();
    cr_assert(has_line(text, "mean:31", "", ""), "the last block");
    free(text);
}

Test(sim_kv, warnings, .init = setup)
{
    made[0].metric[KV_OPS] = 2960000; /* 98.7 % of what was wanted, in a long run */
    made[0].metric[KV_ACHIEVED_RATE] = 2960000 / 30.0;
    made[1].metric[KV_STEAL_SHARE] = 0.05;
    made[2].metric[KV_FOREIGN_CPU] = 0.5;
    made[3].metric[KV_P99] *= 0.5;
    made[4].interrupted = true;
    made[5].metric[KV_DROPPED] = 3;
    made[6].metric[KV_WANTED_RATE] = 10; /* 96.7 % of 300 arrivals is chance */
    made[6].metric[KV_OPS] = 290;
    char *text = report();
    cr_assert(has_line(text, "mean:2, repetition 1", "saturated", "98.7 %"), "%s", text);
    cr_assert(has_line(text, "pi, repetition 1", "disturbed", "5.0 % of CPU time stolen"));
    cr_assert(has_line(text, "max:5, repetition 1", "disturbed", "0.50 CPUs"), "%s", text);
    cr_assert(has_line(text, "floor's own p99 moved", "1.050", "2.600"), "%s", text);
    cr_assert(has_line(text, "mean:2, repetition 2", "stopped early", ""), "%s", text);
    cr_assert(has_line(text, "pi, repetition 2", "3 requests given up", ""), "%s", text);
    cr_assert(!has_line(text, "max:5, repetition 2", "saturated", ""), "%s", text);
    free(text);
    for (int i = 0; i < runs.n; i++)
        made[i].metric[KV_DROPPED] = 1;
    text = report();
    cr_assert(has_line(text, "more about single runs", "", ""), "a bound on such lines: %s", text);
    free(text);
}

/* ---- checks ---- */

static int failed_checks(const char *expression, char **said)
{
    size_t length;
    struct kv_summary s;
    kv_summarise(&runs, &s);
    FILE *out = open_memstream(said, &length);
    int failed = kv_check(&s, expression, out);
    fclose(out);
    return failed;
}

Test(sim_kv, checks, .init = setup)
{
    char *said;
    cr_assert_eq(failed_checks("p99 > 1.6*off.p99", &said), 1, "%s", said);
    cr_assert(has_line(said, "failed", "mean:2", "p99 > 1.6*off.p99"), "%s", said);
    cr_assert_eq(failed_checks("p99 > 3*off.p99", &said), 0);
    cr_assert_str_eq(said, "");
    cr_assert_eq(failed_checks("p99 > 0", &said), 3, "never the floor against itself");
    for (int i = 3; i < runs.n; i += 4)
        made[i] = run("pi", 100 + i, 1);
    cr_assert_eq(failed_checks("p99 > 9*off.p99", &said), 3, "what cannot be told has failed");
    cr_assert(has_line(said, "cannot be told", "", ""), "%s", said);
    runs.n = 0;
    cr_assert_eq(failed_checks("p99 > 5ms", &said), 1, "nothing was measured");
}

Test(sim_kv, check_syntax, .init = setup)
{
    char why[1024];
    cr_assert_eq(kv_check_syntax(&opt, "p99 > 1.5*off.p99 && max:5.hold_p999 < 1ms", why, 1024), 0);
    cr_assert_eq(kv_check_syntax(&opt, "p99 > 1.5*max:7.p99", why, sizeof why), -1);
    cr_assert_not_null(strstr(why, "max:7"), "%s", why);
    cr_assert_eq(kv_check_syntax(&opt, "p97 > 1", why, sizeof why), -1);
    cr_assert_not_null(strstr(why, "max_rss"), "all figures are listed: %s", why);
    cr_assert_eq(kv_check_syntax(&opt, "p99 >", why, sizeof why), -1);
}

/* ---- JSON ---- */

Test(sim_kv, a_result_survives_the_pipe, .init = setup)
{
    struct kv_result in = run("max:5", 3, 161.5), out;
    struct kv_progress p;
    char error[64];
    in.interrupted = true;
    in.metric[KV_P999_LOW] = NAN;
    double row[KV_SERIES_COLUMNS] = {0.1, 1e5, NAN, 3};
    kv_table_row(&in.series, KV_SERIES_COLUMNS, row);
    kv_table_row(&in.series, KV_SERIES_COLUMNS, row);
    char *line = kv_json_result(&in);
    cr_assert_eq(strchr(line, '\n'), line + strlen(line) - 1, "one line");
    cr_assert_eq(kv_json_parse(line, &p, &out, error, sizeof error), KV_MESSAGE_RESULT);
    cr_assert_str_eq(out.policy, "max:5");
    cr_assert(out.gc && out.interrupted && out.repetition == 3);
    for (int m = 0; m < KV_METRICS; m++)
        cr_assert((isnan(in.metric[m]) && isnan(out.metric[m])) || in.metric[m] == out.metric[m],
                  "%s", kv_metric_info[m].name);
    cr_assert_arr_eq(in.blame, out.blame, sizeof in.blame);
    cr_assert_eq(out.series.rows, 2);
    cr_assert(out.series.cell[KV_SERIES_COLUMNS] == 0.1 && isnan(out.series.cell[2]));
    cr_assert_eq(out.cycles.rows, 0);
    kv_result_free(&in);
    kv_result_free(&out);
    free(line);
}

Test(sim_kv, other_messages)
{
    struct kv_result r;
    struct kv_progress in = {"measure", 1.5, 99999, 12}, out;
    char error[64] = "";
    char *line = kv_json_progress(&in);
    cr_assert_eq(kv_json_parse(line, &out, &r, error, sizeof error), KV_MESSAGE_PROGRESS);
    cr_assert_str_eq(out.phase, "measure");
    cr_assert(out.done_s == 1.5 && out.rate == 99999 && out.cycles == 12);
    free(line);
    line = kv_json_error("no \"stack\"\nfor task 5");
    cr_assert_eq(kv_json_parse(line, &out, &r, error, sizeof error), KV_MESSAGE_ERROR);
    cr_assert_str_eq(error, "no \"stack\"\nfor task 5");
    free(line);
    static const char *const bad[] = {
        "", "{", "[]", "{}", "{\"run\": {}}", "{\"progress\": 3}", "Killed"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert_eq(kv_json_parse(bad[i], &out, &r, error, sizeof error), KV_MESSAGE_BAD, "%s",
                     bad[i]);
}

/* The form that other tools read: names and types. */
Test(sim_kv, document, .init = setup)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    cr_assert_eq(kv_json_document(out, &opt, &machine, &runs), 0);
    fclose(out);
    json_t *j = json_loads(text, 0, NULL), *list;
    const char *program, *commit, *kernel, *policy, *gc;
    int cpus, conns, rate, repetition, ops, p50, p90, p99, p999, max, cycles, assists, longest;
    int h50, h99, h999, hmax, live, peak;
    double wanted, achieved, gc_cpu, assist, over;
    cr_assert_eq(json_unpack(j, "{s:s, s:s, s:{s:i, s:s}, s:{s:i, s:i}, s:o}", "program", &program,
                             "commit", &commit, "machine", "cpus", &cpus, "kernel", &kernel,
                             "params", "conns", &conns, "rate", &rate, "runs", &list),
                 0, "%s", text);
    cr_assert_str_eq(program, "hedge-sim kv");
    cr_assert(cpus == 2 && conns == 10000 && rate == 100000);
    cr_assert_eq(json_array_size(list), 24);
    cr_assert_eq(
        json_unpack(json_array_get(list, 3),
                    "{s:s, s:s, s:i, s:i, s:f, s:f, s:{s:i, s:i, s:i, s:i, s:i}, s:i, s:f, s:f, "
                    "s:i, s:i, s:{s:i, s:i, s:i, s:i}, s:i, s:i, s:f}",
                    "policy", &policy, "gc", &gc, "repetition", &repetition, "ops", &ops,
                    "wanted_rate", &wanted, "achieved_rate", &achieved, "latency_ns", "p50", &p50,
                    "p90", &p90, "p99", &p99, "p999", &p999, "max", &max, "cycles", &cycles,
                    "gc_cpu_share", &gc_cpu, "assist_share", &assist, "assists", &assists,
                    "longest_assist_ns", &longest, "hold_ns", "p50", &h50, "p99", &h99, "p999",
                    &h999, "max", &hmax, "live_heap_bytes", &live, "peak_heap_bytes", &peak,
                    "peak_over_goal", &over),
        0, "%s", text);
    cr_assert_str_eq(policy, "off");
    cr_assert_str_eq(gc, "off");
    cr_assert(repetition == 1 && ops == 3000000 && p99 == 2100000 && max == 8400000);
    json_decref(j);
    free(text);
}

/* ---- files ---- */

static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[8][128];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static void setup_folder(void)
{
    setup();
    snprintf(folder, sizeof folder, "/tmp/hedge-test-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

/* Lines of a file, and the columns of its last one; the file goes. */
static int lines_of(const char *path, int *columns)
{
    char line[2000];
    int n = 0;
    FILE *f = fopen(path, "r");
    cr_assert_not_null(f, "%s", path);
    for (; fgets(line, sizeof line, f) != NULL; n++) {
        *columns = 1;
        for (const char *c = line; *c != 0; c++)
            *columns += *c == ',';
    }
    fclose(f);
    unlink(path);
    return n;
}

Test(sim_kv, files, .init = setup_folder)
{
    double row[32] = {1, 2, 3};
    int columns;
    for (int i = 0; i < 3; i++) {
        kv_table_row(&made[0].series, KV_SERIES_COLUMNS, row);
        kv_table_row(&made[1].cycles, KV_CYCLE_COLUMNS, row);
        kv_table_row(&made[2].slowest, KV_SLOWEST_COLUMNS, row);
    }
    runs.n = 3;
    opt.json = in_folder("a.json");
    opt.csv = in_folder("a.csv");
    opt.series = in_folder("series.csv");
    opt.cycles = in_folder("cycles.csv");
    opt.slowest = in_folder("slowest.csv");
    opt.hgrm = folder;
    cr_assert_eq(kv_files_write(&opt, &machine, &runs), 0);
    cr_assert_gt(lines_of(opt.json, &columns), 20);
    cr_assert_eq(lines_of(opt.csv, &columns), 1 + 3);
    cr_assert_eq(columns, 3 + KV_METRICS);
    cr_assert_eq(lines_of(opt.series, &columns), 1 + 3);
    cr_assert_eq(columns, 2 + KV_SERIES_COLUMNS);
    cr_assert_eq(lines_of(opt.cycles, &columns), 1 + 3);
    cr_assert_eq(columns, 2 + KV_CYCLE_COLUMNS);
    cr_assert_eq(lines_of(opt.slowest, &columns), 1 + 3);
    cr_assert_eq(columns, 3 + KV_SLOWEST_COLUMNS);
    cr_assert_gt(lines_of(in_folder("max-5.1.hgrm"), &columns), 3);
    unlink(in_folder("mean-2.1.hgrm"));
    unlink(in_folder("pi.1.hgrm"));
    cr_assert_eq(rmdir(folder), 0, "nothing else was left");
}

Test(sim_kv, a_file_appears_whole_or_not_at_all, .init = setup_folder)
{
    const char *path = in_folder("file"), *missing = in_folder("none/file");
    int columns;
    struct sim_outfile f;
    cr_assert_eq(sim_outfile_check(path), 0);
    cr_assert_eq(sim_outfile_check(missing), -ENOENT);
    cr_assert_eq(sim_outfile_check(folder), -EISDIR);
    cr_assert_eq(sim_outfile_check(""), -EINVAL);
    cr_assert_eq(sim_outfile_check("/dev/null"), 0);
    cr_assert_eq(sim_outfile_open(&f, path), 0);
    fprintf(f.file, "one\n");
    cr_assert_neq(access(path, F_OK), 0, "not before it is whole");
    cr_assert_eq(sim_outfile_commit(&f), 0);
    cr_assert_eq(sim_outfile_open(&f, path), 0);
    fprintf(f.file, "one\ntwo\n");
    cr_assert_eq(sim_outfile_discard(&f), -EIO);
    cr_assert_eq(lines_of(path, &columns), 1, "the old one is as it was");
    cr_assert_eq(sim_outfile_open(&f, missing), -ENOENT);
    cr_assert_eq(sim_outfile_open(&f, "/dev/full"), 0);
    fprintf(f.file, "a");
    cr_assert_eq(sim_outfile_commit(&f), -ENOSPC);
    cr_assert_eq(rmdir(folder), 0, "no temporary file is left");
}

/* Writes the number of bytes that data says; 13 is bad luck. */
static int write_bytes(FILE *out, const void *data)
{
    int n = *(const int *)data;
    for (int i = 0; i < n; i++)
        fputc('\n', out);
    return n == 13 ? -1 : 0;
}

static int put_and_hear(const char *path, int n, char *said, size_t room)
{
    FILE *to = tmpfile();
    cr_assert_not_null(to);
    int kept = dup(STDERR_FILENO);
    fflush(stderr);
    dup2(fileno(to), STDERR_FILENO);
    int failed = sim_outfile_put("hedge-sim x", "csv", path, write_bytes, &n);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(to);
    said[fread(said, 1, room - 1, to)] = 0;
    fclose(to);
    return failed;
}

Test(sim_kv, files_that_options_ask_for, .init = setup_folder)
{
    const char *path = in_folder("file"), *missing = in_folder("none/file");
    char said[600], expected[600];
    int columns;
    cr_assert_eq(put_and_hear(NULL, 5, said, sizeof said), 0, "not asked for");
    cr_assert_str_eq(said, "");
    cr_assert_eq(put_and_hear(path, 5, said, sizeof said), 0);
    cr_assert_str_eq(said, "");
    cr_assert_eq(put_and_hear(path, 13, said, sizeof said), 1, "its writer gave up");
    snprintf(expected, sizeof expected, "hedge-sim x: --csv: cannot write \"%s\": %s\n", path,
             strerror(EIO));
    cr_assert_str_eq(said, expected);
    cr_assert_eq(lines_of(path, &columns), 5, "the old one is as it was");
    cr_assert_eq(put_and_hear(missing, 5, said, sizeof said), 1);
    cr_assert_not_null(strstr(said, "none/file\": No such file"), "%s", said);
    cr_assert_eq(put_and_hear("/dev/full", 5, said, sizeof said), 1);
    cr_assert_not_null(strstr(said, "No space left"), "%s", said);
    unlink(path);
    cr_assert_eq(rmdir(folder), 0, "no temporary file is left");
}

/* ---- names and text ---- */

Test(sim_kv, every_figure_has_its_own_names)
{
    for (int m = 0; m < KV_METRICS; m++) {
        cr_assert_not_null(kv_metric_info[m].name);
        cr_assert_eq((int)kv_metric_find(kv_metric_info[m].name), m, "%s twice",
                     kv_metric_info[m].name);
    }
    cr_assert_eq(kv_metric_find("p98"), KV_METRICS);
    for (int p = 0; p < KV_PARTS; p++)
        cr_assert(kv_part_key[p] != NULL && kv_part_text[p] != NULL, "part %d", p);
}

Test(sim_kv, wrapped_text)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    fputs("ab ", out);
    text_wrap(out, 3, "one  two\nthree");
    text_wrap(out, 0, "");
    text_wrap(out, 70, "eight ten eleven");
    fclose(out);
    char expected[200];
    snprintf(expected, sizeof expected, "ab one two three\n\neight ten\n%70seleven\n", "");
    cr_assert_str_eq(text, expected);
    free(text);
}

Test(sim_kv, numbers_for_people)
{
    char b[32];
    cr_assert_str_eq(text_count(1234567, b), "1,234,567");
    cr_assert_str_eq(text_count(999.6, b), "1,000");
    cr_assert_str_eq(text_count(-1234, b), "-1,234");
    cr_assert_str_eq(text_count(0, b), "0");
    cr_assert_str_eq(text_short(999, b), "999");
    cr_assert_str_eq(text_short(30123, b), "30.1k");
    cr_assert_str_eq(text_short(999960, b), "1.0M");
    cr_assert_str_eq(text_ms(512345, b), "0.512");
    cr_assert_str_eq(text_ms(23456789, b), "23.46");
    cr_assert_str_eq(text_ms(161500000, b), "161.5");
    cr_assert_str_eq(text_ms(NAN, b), "-");
    cr_assert_str_eq(text_bytes(3900, b), "3.9 KB");
    cr_assert_str_eq(text_duration(90, b), "90 s");
    cr_assert_str_eq(text_duration(840, b), "14 min");
}
