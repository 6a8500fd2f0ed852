/* test_sim_sweep.c: axes and points of a sweep, words for a shell, and results that are joined. */
#include "sim/joined.h"
#include "sim/report.h"
#include "sim/sweep.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char why[400], folder[64];
static char path[3][128];

/* ---- axes ---- */

static void check_axis(const char *text, const char *name, size_t n, const char *first,
                       const char *last)
{
    struct sim_sweep s = {.axes = 1};
    cr_assert_eq(sim_axis_parse(text, &s.axis[0], why, sizeof why), 0, "%s: %s", text, why);
    cr_assert_str_eq(s.axis[0].name, name);
    cr_assert_eq(s.axis[0].n, n, "%s: %zu values", text, s.axis[0].n);
    cr_assert_str_eq(s.axis[0].value[0], first);
    cr_assert_str_eq(s.axis[0].value[n - 1], last);
    sim_sweep_free(&s);
}

Test(sim_sweep, axes)
{
    check_axis("gogc=50:200:50", "gogc", 4, "50", "200");
    check_axis("gogc=50:199:50", "gogc", 3, "50", "150");
    check_axis("u=0.1:0.5:0.1", "u", 5, "0.1", "0.5");
    check_axis("x=3:1:-1", "x", 3, "3", "1");
    check_axis("x=-1:1:1", "x", 3, "-1", "1");
    check_axis("rate=1e5", "rate", 1, "1e5", "1e5");
    check_axis("policy=max:5,mean:2,quantile:8:0.9", "policy", 3, "max:5", "quantile:8:0.9");
    check_axis("policy=quantile:8:0.9", "policy", 1, "quantile:8:0.9", "quantile:8:0.9");
    check_axis("limit=256MiB,off", "limit", 2, "256MiB", "off");
}

Test(sim_sweep, axes_that_are_none)
{
    static const char *const bad[] = {
        "",         "gogc",       "=1,2",       "gogc=",      "gogc=1,,2",   "gogc=1,",
        "--gogc=1", "gogc=1:2:0", "gogc=2:1:1", "gogc=1:2:x", "x=1:1e9:0.1", "x=1:2:3:4",
        "Gogc=1",   "x=1:nan:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sim_axis a;
        why[0] = 0;
        cr_assert_eq(sim_axis_parse(bad[i], &a, why, sizeof why), -1, "\"%s\"", bad[i]);
        cr_assert_eq(strncmp(why, "expected", 8), 0, "\"%s\": %s", bad[i], why);
    }
}

Test(sim_sweep, points_are_all_combinations)
{
    struct sim_sweep s = {.axes = 2};
    sim_axis_parse("gogc=50,100,200", &s.axis[0], why, sizeof why);
    sim_axis_parse("rate=1,2", &s.axis[1], why, sizeof why);
    static const char *const expected[][2] = {{"50", "1"},  {"50", "2"},  {"100", "1"},
                                              {"100", "2"}, {"200", "1"}, {"200", "2"}};
    cr_assert_eq(sim_sweep_points(&s), 6);
    for (size_t p = 0; p < 6; p++)
        for (size_t a = 0; a < 2; a++)
            cr_assert_str_eq(sim_sweep_value(&s, p, a), expected[p][a]);
    sim_sweep_free(&s);
    cr_assert_not(sim_sweep_asked(&s));
}

/* What is quoted, a shell gives back as it was. */
Test(sim_sweep, shells_read_words_back)
{
    static const char *const word[] = {"plain",     "",           "two words", "it's",
                                       "$HOME `x`", "a\"b\\c",    "p99<=5ms",  "*.c",
                                       "max:5,pi",  "\n newline", "-n",        "a''b"};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
        char *command, back[200] = "";
        size_t length;
        FILE *out = open_memstream(&command, &length);
        fputs("printf %s ", out);
        sim_shell_quote(out, word[i]);
        fclose(out);
        FILE *shell = popen(command, "r");
        cr_assert_not_null(shell);
        back[fread(back, 1, sizeof back - 1, shell)] = 0;
        if (strcmp(word[i], "-n") != 0) /* printf's own option */
            cr_assert_eq(pclose(shell), 0);
        else
            pclose(shell);
        cr_assert_str_eq(back, word[i]);
        free(command);
    }
}

/* ---- joined results ---- */

static void write_file(int i, const char *text)
{
    FILE *out = fopen(path[i], "w");
    cr_assert_not_null(out);
    fputs(text, out);
    cr_assert_eq(fclose(out), 0);
}

static void setup(void)
{
    snprintf(folder, sizeof folder, "sweep-test-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    for (int i = 0; i < 3; i++)
        snprintf(path[i], sizeof path[i], "%s/%d.json", folder, i);
}

static void teardown(void)
{
    for (int i = 0; i < 3; i++)
        unlink(path[i]);
    cr_assert_eq(rmdir(folder), 0, "no temporary file is left");
}

/* kv's form, with the figures that a test asks for; p99 in ms, rss in MiB. */
static void write_kv(int i, int gogc, double p99, double rss)
{
    char text[3000];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "{\"program\": \"hedge-sim kv\", \"params\": {\"gogc\": %d, "
                                "\"conns\": 10, \"seed\": %d, \"policies\": [\"x\"]}, \"runs\": [",
                                gogc, i);
    for (int k = 0; k < 4; k++)
        n += (size_t)snprintf(
            text + n, sizeof text - n,
            "%s{\"policy\": \"%s\", \"gc\": \"on\", \"repetition\": %d, \"latency_ns\": {\"p50\": "
            "100000, \"p99\": %.0f}, \"hold_ns\": {\"p99\": 7}, \"max_rss_bytes\": %.0f, "
            "\"assist_share\": 0.25, \"seen\": null, \"ci95\": {\"assist_share\": [0.2, 0.3]}}",
            k > 0 ? "," : "", k % 2 ? "off" : "max:5", k / 2 + 1, p99 * 1e6 * (k % 2 ? 0.5 : 1 + k),
            rss * 1048576);
    snprintf(text + n, sizeof text - n, "]}");
    write_file(i, text);
}

static void join(struct sim_joined *j, int files)
{
    sim_joined_init(j);
    for (int i = 0; i < files; i++)
        cr_assert_eq(sim_joined_add(j, path[i], NULL, why, sizeof why), 0, "%s", why);
    sim_joined_finish(j);
}

Test(sim_joined, points_labels_and_medians, .init = setup, .fini = teardown)
{
    struct sim_joined j;
    write_kv(0, 50, 8, 100);
    write_kv(1, 100, 4, 150);
    write_kv(2, 200, 2, 250);
    join(&j, 3);
    cr_assert_eq(j.params, 1, "gogc; a seed and lists are no points");
    cr_assert_str_eq(j.label[0], "gogc");
    cr_assert_str_eq(j.label[1], "policy");
    cr_assert_eq(j.labels, 2);
    cr_assert_eq(j.rows, 12);
    cr_assert_eq(j.groups, 6, "repetitions are medians");
    size_t p99 = sim_joined_figure(&j, "p99"), hold = sim_joined_figure(&j, "hold_p99");
    size_t low = sim_joined_figure(&j, "ci95_assist_share_low");
    cr_assert(p99 < j.figures && hold < j.figures && low < j.figures);
    cr_assert_eq(j.unit[p99], SIM_UNIT_NS);
    cr_assert_eq(j.unit[sim_joined_figure(&j, "max_rss")], SIM_UNIT_BYTES);
    cr_assert_eq(j.unit[low], SIM_UNIT_SHARE);
    cr_assert_float_eq(j.group[0].figure[p99], (8 + 24) / 2 * 1e6, 1);
    cr_assert_float_eq(j.group[1].figure[p99], 4e6, 1);
    cr_assert_eq(j.group[0].runs, 2);
    cr_assert_eq(sim_joined_figure(&j, "p98"), j.figures);
    sim_joined_free(&j);
}

static char *answer(const struct sim_joined *j, const char *expression, int expected)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    cr_assert_eq(sim_joined_want(out, j, expression), expected, "%s", expression);
    fclose(out);
    return text;
}

Test(sim_joined, want_is_the_least_memory, .init = setup, .fini = teardown)
{
    struct sim_joined j;
    write_kv(0, 50, 8, 100);
    write_kv(1, 100, 4, 150);
    write_kv(2, 200, 2, 250);
    join(&j, 3);
    char *text = answer(&j, "p99 <= 10ms", 0); /* medians 16, 8, 4 */
    cr_assert_not_null(strstr(text, "holds at 2 of 3"), "%s", text);
    cr_assert_not_null(strstr(text, "gogc 100, policy max:5"), "the floor is no answer: %s", text);
    free(text);
    text = answer(&j, "p99 <= 5*off.p99", 0);
    cr_assert_not_null(strstr(text, "gogc 50, policy max:5"), "%s", text);
    free(text);
    text = answer(&j, "p99 <= 1ms", 1);
    cr_assert_not_null(strstr(text, "holds at 0 of 3"), "%s", text);
    free(text);
    free(answer(&j, "p98 <= 1ms", -1));
    free(answer(&j, "p99 <=", -1));
    sim_joined_free(&j);
}

/* A result that was joined is joined again without losing its points. */
Test(sim_joined, joined_again, .init = setup, .fini = teardown)
{
    struct sim_joined j;
    write_kv(0, 50, 8, 100);
    write_kv(1, 100, 4, 150);
    join(&j, 2);
    cr_assert_eq(sim_joined_write_json(&j, path[0]), 0);
    sim_joined_free(&j);
    write_kv(1, 200, 2, 250);
    join(&j, 2);
    cr_assert_eq(j.groups, 6);
    cr_assert_str_eq(j.label[0], "gogc");
    cr_assert_str_eq(j.group[0].label[0], "50");
    cr_assert_str_eq(j.group[2].label[0], "100");
    cr_assert_str_eq(j.group[4].label[0], "200");
    sim_joined_free(&j);
}

Test(sim_joined, csv_has_all, .init = setup, .fini = teardown)
{
    struct sim_joined j;
    char row[2000], csv[128];
    write_kv(0, 50, 8, 100);
    write_kv(1, 100, 4, 150);
    join(&j, 2);
    snprintf(csv, sizeof csv, "%s/2.json", folder);
    cr_assert_eq(sim_joined_write_csv(&j, csv), 0);
    FILE *in = fopen(csv, "r");
    cr_assert_not_null(fgets(row, sizeof row, in));
    cr_assert_str_eq(row, "gogc,policy,repetition,p50,p99,hold_p99,max_rss,assist_share,"
                          "ci95_assist_share_low,ci95_assist_share_high\n");
    cr_assert_not_null(fgets(row, sizeof row, in));
    cr_assert_str_eq(row, "50,max:5,1,100000,8000000,7,104857600,0.25,0.2,0.3\n");
    fclose(in);
    sim_joined_free(&j);
}

/* ---- intervals ---- */

/* kv's form: n repetitions, the first at gogc 50, with a p99 of 1 to n ms, and their number of a
 * figure that one repetition alone has. */
static void write_repetitions(int i, int gogc, int n)
{
    char text[3000];
    size_t at = (size_t)snprintf(text, sizeof text,
                                 "{\"program\": \"hedge-sim kv\", \"params\": {\"gogc\": %d}, "
                                 "\"runs\": [",
                                 gogc);
    for (int k = 1; k <= n; k++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "%s{\"policy\": \"max:5\", \"repetition\": %d, \"latency_ns\": "
                               "{\"p50\": %s, \"p99\": %d}}",
                               k > 1 ? "," : "", k, k == 1 ? "500000" : "null", k * 1000000);
    snprintf(text + at, sizeof text - at, "]}");
    write_file(i, text);
}

static char *printed(const struct sim_joined *j)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    sim_joined_print(out, j);
    fclose(out);
    for (const char *line = text; *line != 0; line += strcspn(line, "\n") + 1)
        cr_assert(strcspn(line, "\n") <= 80, "wider than 80 columns:\n%s", text);
    return text;
}

/* Six give the widest interval there is; of nine it is the second from each end; five are too
 * few. */
Test(sim_joined, intervals_of_medians, .init = setup, .fini = teardown)
{
    struct sim_joined j;
    write_repetitions(0, 50, 6);
    write_repetitions(1, 100, 5);
    write_repetitions(2, 200, 9);
    join(&j, 3);
    size_t p50 = sim_joined_figure(&j, "p50"), p99 = sim_joined_figure(&j, "p99");
    cr_assert_eq(j.groups, 3);
    cr_assert_float_eq(j.group[0].figure[p99], 3.5e6, 1);
    cr_assert_float_eq(j.group[0].low[p99], 1e6, 1);
    cr_assert_float_eq(j.group[0].high[p99], 6e6, 1);
    cr_assert(isnan(j.group[1].low[p99]) && isnan(j.group[1].high[p99]), "five are too few");
    cr_assert_float_eq(j.group[2].low[p99], 2e6, 1);
    cr_assert_float_eq(j.group[2].high[p99], 8e6, 1);
    cr_assert(isnan(j.group[0].low[p50]), "one of six has it");
    cr_assert(isnan(j.group[0].low[sim_joined_figure(&j, "repetition")]));
    char *text = printed(&j);
    static const char *const part[] = {"1.000..6.000\n", "2.000..8.000\n", "too few\n",
                                       "(medians of up to 9 runs, below them their 95 %"};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        cr_assert_not_null(strstr(text, part[i]), "%s in\n%s", part[i], text);
    free(text);
    sim_joined_free(&j);
}

/* Where no point has enough runs there are no lines for intervals, and a line says why. */
Test(sim_joined, too_few_everywhere, .init = setup, .fini = teardown)
{
    struct sim_joined j;
    write_repetitions(0, 50, 5);
    write_repetitions(1, 100, 1);
    join(&j, 2);
    char *text = printed(&j);
    cr_assert_not_null(strstr(text, "(medians of up to 5 runs; 95 % intervals need 6 or more)"));
    cr_assert_null(strstr(text, "too few"), "%s", text);
    cr_assert_null(strstr(text, ".."), "%s", text);
    free(text);
    sim_joined_free(&j);
    write_repetitions(0, 50, 1);
    join(&j, 2);
    text = printed(&j);
    cr_assert_not_null(strstr(text, "(single runs; 95 % intervals need 6 or more)"));
    free(text);
    sim_joined_free(&j);
}

/* A run over many seeds brings its intervals; two such runs at one point have none together. */
Test(sim_joined, intervals_that_runs_bring, .init = setup, .fini = teardown)
{
    static const char form[] =
        "{\"program\": \"hedge-sim pacer\", \"params\": {\"gogc\": %d, \"seed\": %d}, \"runs\": "
        "[{\"policy\": \"max:5\", \"model\": \"uniform\", \"assist_share\": 0.0123, "
        "\"overshoot_p99\": 1.5, \"ci95\": {\"assist_share\": [0.0121, 0.0125], "
        "\"overshoot_p99\": [null, null]}}]}";
    struct sim_joined j;
    char text[600];
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, form, i < 2 ? 50 : 100, i);
        write_file(i, text);
    }
    join(&j, 3);
    size_t share = sim_joined_figure(&j, "assist_share");
    cr_assert_eq(j.groups, 2);
    cr_assert(isnan(j.group[0].low[share]), "a median of two");
    cr_assert_float_eq(j.group[1].low[share], 0.0121, 1e-9);
    cr_assert_float_eq(j.group[1].high[share], 0.0125, 1e-9);
    cr_assert(isnan(j.group[1].low[sim_joined_figure(&j, "overshoot_p99")]));
    char *all = printed(&j);
    cr_assert_not_null(strstr(all, "1.21..1.25"), "%s", all);
    cr_assert_not_null(strstr(all, "too few"), "%s", all);
    free(all);
    sim_joined_free(&j);
}

/* However large, small or negative the ends are, the text fits its column and keeps their order. */
Test(sim_joined, intervals_fit_a_column)
{
    static const double end[] = {-250,    -5.25, -0.001, 0,      0.0004, 0.5,      3.25,
                                 1013.37, 87654, 123456, 999999, 4.2e6,  8.123e13, 9e14};
    static const double unit[] = {1, 1e6, 1048576, 0.01};
    size_t n = sizeof end / sizeof *end;
    for (size_t u = 0; u < 4; u++) {
        for (size_t a = 0; a < n; a++) {
            for (size_t b = a; b < n; b++) {
                double figure = 0, low = end[a] * unit[u], high = end[b] * unit[u];
                struct sim_row g = {.figure = &figure, .low = &low, .high = &high};
                char buffer[32];
                const char *text = sim_joined_interval(&g, 0, (enum sim_unit)u, buffer);
                cr_assert(strlen(text) <= 12, "%g to %g: %s", end[a], end[b], text);
                cr_assert_not_null(strstr(text, ".."), "%s", text);
                cr_assert_eq(strncmp(text, "-0.00", 5) != 0 || end[a] < -0.0001, true, "%s", text);
            }
        }
    }
}

/* JSON has what the table has; the figures that are ends of intervals are not figures there. */
Test(sim_joined, json_has_medians, .init = setup, .fini = teardown)
{
    struct sim_joined j;
    double low, high, median;
    int runs;
    const char *gogc, *policy;
    write_repetitions(0, 50, 6);
    write_repetitions(1, 100, 5);
    join(&j, 2);
    cr_assert_eq(sim_joined_write_json(&j, path[2]), 0);
    sim_joined_free(&j);
    json_t *d = json_load_file(path[2], 0, NULL), *groups = json_object_get(d, "medians");
    cr_assert_eq(json_array_size(groups), 2);
    cr_assert_eq(json_unpack(json_array_get(groups, 0),
                             "{s:{s:s, s:s}, s:i, s:{s:F}, s:{s:[F, F]}}", "at", "gogc", &gogc,
                             "policy", &policy, "runs", &runs, "median", "p99", &median, "ci95",
                             "p99", &low, &high),
                 0);
    cr_assert_str_eq(gogc, "50");
    cr_assert_str_eq(policy, "max:5");
    cr_assert_eq(runs, 6);
    cr_assert(median == 3.5e6 && low == 1e6 && high == 6e6, "%g: %g, %g", median, low, high);
    cr_assert_eq(json_object_size(json_object_get(json_array_get(groups, 1), "ci95")), 0);
    json_decref(d);
}

/* ---- recorded programs ---- */

/* scale's form: at one rate, with notes that rest on it and notes that do not. notes NULL: not
 * recorded. */
static void write_recorded(int i, int rate, const char *notes)
{
    char text[1000], recorded[700] = "";
    if (notes != NULL)
        snprintf(recorded, sizeof recorded,
                 ", \"recorded\": {\"text\": \"api: 8 of 9\", \"notes\": [%s]}", notes);
    snprintf(
        text, sizeof text,
        "{\"program\": \"hedge-sim scale\", \"params\": {\"rate\": %d}, \"runs\": [{\"policy\": "
        "\"pi\", \"latency_ns\": {\"p99\": 5}}]%s}",
        rate, recorded);
    write_file(i, text);
}

#define NOTE(source, text) "{\"source\": \"" source "\", \"text\": \"" text "\"}"
static const char live[] = NOTE("from it", "9 MB of <live> heap") "," NOTE("assumed", "4 KB each");
static const char other[] = NOTE("from it", "9 MB of <live> heap") "," NOTE("assumed", "8 KB each");

static char *page_of_notes(const struct sim_joined *j)
{
    static char page[20000];
    char file[128];
    struct sim_report *r = sim_report_begin("notes", "");
    sim_joined_report_notes(r, j);
    snprintf(file, sizeof file, "%s/page", folder);
    cr_assert_eq(sim_report_end(r, file, why, sizeof why), 0, "%s", why);
    FILE *in = fopen(file, "r");
    page[fread(page, 1, sizeof page - 1, in)] = 0;
    fclose(in);
    unlink(file);
    return page;
}

/* What all points share is told once, what rests on a swept option with the first point that has
 * it; a joined file keeps what all share. */
Test(sim_joined, notes_of_recorded_programs, .init = setup, .fini = teardown)
{
    struct sim_joined j;
    write_recorded(0, 1000, live);
    write_recorded(1, 2000, other);
    write_recorded(2, 3000, other);
    join(&j, 3);
    json_t *recorded = sim_joined_recorded(&j), *notes = json_object_get(recorded, "notes");
    cr_assert_eq(json_array_size(notes), 1);
    cr_assert_str_eq(json_string_value(json_object_get(json_array_get(notes, 0), "text")),
                     "9 MB of <live> heap");
    cr_assert_str_eq(json_string_value(json_object_get(recorded, "text")), "api: 8 of 9");
    json_decref(recorded);
    const char *page = page_of_notes(&j);
    static const char *const part[] = {
        "api: 8 of 9", "<td>from it</td><td>9 MB of &lt;live&gt; heap</td><td>everywhere</td>",
        "<td>4 KB each</td><td>rate 1000</td>", "<td>8 KB each</td><td>rate 2000 and 1 more</td>"};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        cr_assert_not_null(strstr(page, part[i]), "%s in\n%s", part[i], page);
    cr_assert_null(strstr(page, "rate 3000"), "each note once: %s", page);
    cr_assert_eq(sim_joined_write_json(&j, path[0]), 0);
    sim_joined_free(&j);
    join(&j, 1);
    recorded = sim_joined_recorded(&j);
    cr_assert_eq(json_array_size(json_object_get(recorded, "notes")), 1);
    json_decref(recorded);
    sim_joined_free(&j);
}

/* Programs that were not recorded have no section, and one that was beside them hides nothing. */
Test(sim_joined, notes_of_some, .init = setup, .fini = teardown)
{
    struct sim_joined j;
    write_recorded(0, 1000, NULL);
    join(&j, 1);
    cr_assert_null(sim_joined_recorded(&j));
    cr_assert_null(strstr(page_of_notes(&j), "recorded"));
    sim_joined_free(&j);
    write_recorded(1, 2000, live);
    write_recorded(2, 3000, "5, [], {\"source\": 7}");
    join(&j, 3);
    const char *page = page_of_notes(&j);
    cr_assert_not_null(strstr(page, "<td>4 KB each</td><td>rate 2000</td>"), "%s", page);
    cr_assert_null(strstr(page, "everywhere"));
    sim_joined_free(&j);
}

/* One subject for each way in which a file can be no result. */
Test(sim_joined, files_that_are_refused, .init = setup, .fini = teardown)
{
    static const struct {
        const char *text, *expected;
    } bad[] = {
        {"", "expected JSON"},
        {"{\"program\": \"hedge-sim kv\", \"runs\": [", "line 1, column 37: expected JSON"},
        {"[]", "expected results of hedge-sim"},
        {"{\"program\": \"other\", \"runs\": []}", "begins with \"hedge-sim \""},
        {"{\"program\": 5, \"runs\": []}", "begins with \"hedge-sim \""},
        {"{\"program\": \"hedge-sim kv\"}", "list of \"runs\""},
        {"{\"program\": \"hedge-sim kv\", \"runs\": [1]}", "all objects"},
        {"{\"program\": \"hedge-sim pacer\", \"runs\": []}", "expected results of hedge-sim kv"}};
    struct sim_joined j;
    sim_joined_init(&j);
    write_kv(0, 50, 8, 100);
    cr_assert_eq(sim_joined_add(&j, path[0], NULL, why, sizeof why), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(1, bad[i].text);
        cr_assert_eq(sim_joined_add(&j, path[1], NULL, why, sizeof why), -1, "%s", bad[i].text);
        cr_assert_eq(strncmp(why, path[1], strlen(path[1])), 0, "the file's name: %s", why);
        cr_assert_not_null(strstr(why, bad[i].expected), "%s: %s", bad[i].text, why);
    }
    cr_assert_eq(sim_joined_add(&j, path[2], NULL, why, sizeof why), -1);
    cr_assert_not_null(strstr(why, "cannot be opened"));
    sim_joined_free(&j);
}

/* pacer's and scale's forms: other labels, other figures, runs that lack some. */
Test(sim_joined, programs_that_are_not_kv, .init = setup, .fini = teardown)
{
    struct sim_joined j;
    char *text;
    size_t length;
    write_file(0, "{\"program\": \"hedge-sim pacer\", \"params\": {\"cycles\": 5}, \"runs\": ["
                  "{\"policy\": \"max:5\", \"model\": \"uniform\", \"assist_cycles_share\": 0.1,"
                  " \"extra_cycles_per_gib\": 1.5, \"cycles_to_release\": 5},"
                  "{\"policy\": \"pi\", \"model\": \"idle\", \"assist_cycles_share\": 0.5,"
                  " \"overshoot_p99\": 1.25, \"cycles_to_release\": null}]}");
    join(&j, 1);
    cr_assert_eq(j.params, 0);
    cr_assert_eq(j.groups, 2);
    cr_assert(isnan(j.group[0].figure[sim_joined_figure(&j, "overshoot_p99")]));
    FILE *out = open_memstream(&text, &length);
    sim_joined_print(out, &j);
    fclose(out);
    static const char *const part[] = {"uniform", "assist", "cycles_share", "50.00", "1.25", "-"};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        cr_assert_not_null(strstr(text, part[i]), "%s in\n%s", part[i], text);
    free(text);
    sim_joined_free(&j);
}
