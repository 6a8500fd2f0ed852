/* test_sim_report.c: pages: well formed, whole in themselves, whatever text goes in.
 *
 * `check_page` is a small XML parser of its own: tags that match, attributes that are quoted,
 * identifiers that are one element's, references that are known, no request.
 */
#include "sim/joined.h"
#include "sim/kv.h"
#include "sim/replay.h"
#include "sim/report.h"
#include <criterion/criterion.h>
#include <hedge/histogram.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOSTILE "<script>alert('1')</script> & \"quoted\" \x01 \xff \xed\xa0\x80 %d $x `y` \xc3\xa9"

static char folder[64], path[128], why[400];

static void setup(void)
{
    snprintf(folder, sizeof folder, "report-test-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/page.html", folder);
}

static void teardown(void)
{
    unlink(path);
    cr_assert_eq(rmdir(folder), 0, "only the page was there, no temporary file");
}

/* Skips the test's plots where gnuplot is not installed; the test with no gnuplot runs anyway. */
static bool can_draw(void)
{
    if (sim_report_possible(why, sizeof why) == 0)
        return true;
    fprintf(stderr, "skipped: %s\n", why);
    return false;
}

static char *page(size_t *length)
{
    FILE *in = fopen(path, "r");
    cr_assert_not_null(in);
    char *text = calloc(1, 4 << 20);
    *length = fread(text, 1, (4 << 20) - 1, in);
    fclose(in);
    return text;
}

/* ---- a check of XML ---- */

struct open_tags {
    char name[64][32];
    int n;
};

static const char *skip_attributes(const char *at, char ids[][64], int *nids)
{
    while (*at != '>' && *at != '/') {
        at += strspn(at, " \t\r\n");
        if (*at == '>' || *at == '/')
            break;
        size_t n = strcspn(at, "= >");
        const char *equals = at + n + strspn(at + n, " ");
        cr_assert(n > 0 && *equals == '=', "attribute at \"%.40s\"", at);
        bool id = n == 2 && strncmp(at, "id", 2) == 0;
        equals += 1 + strspn(equals + 1, " ");
        char quote = *equals;
        cr_assert(quote == '"' || quote == '\'', "quote at \"%.40s\"", at);
        const char *value = equals + 1, *end = strchr(value, quote);
        cr_assert_not_null(end);
        cr_assert_null(memchr(value, '<', (size_t)(end - value)));
        if (id) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)(end - value), value);
            for (int i = 0; i < *nids; i++)
                cr_assert_str_neq(ids[i], name, "an identifier is one element's");
            strcpy(ids[(*nids)++], name);
            cr_assert_lt(*nids, 2000);
        }
        at = end + 1;
    }
    return at;
}

static const char *check_tag(const char *at, struct open_tags *open, char ids[][64], int *nids)
{
    bool closing = at[1] == '/';
    const char *name = at + 1 + closing;
    size_t n = strcspn(name, " \t\r\n/>");
    cr_assert(n > 0 && n < 32, "a tag at \"%.40s\"", at);
    if (closing) {
        cr_assert_gt(open->n, 0);
        const char *expected = open->name[--open->n];
        cr_assert(strlen(expected) == n && strncmp(expected, name, n) == 0, "</%.*s> closes <%s>",
                  (int)n, name, expected);
        return name + n + 1;
    }
    const char *end = skip_attributes(name + n, ids, nids);
    if (*end != '/') {
        cr_assert_lt(open->n, 64);
        snprintf(open->name[open->n++], 32, "%.*s", (int)n, name);
    }
    cr_assert_neq(strncmp(name, "script", n), 0, "no script");
    return strchr(end, '>') + 1;
}

static void check_text(const char *at)
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;", "&#"};
    bool good = *at != '&';
    for (size_t i = 0; i < 6; i++)
        good |= strncmp(at, known[i], strlen(known[i])) == 0;
    cr_assert(good, "a reference at \"%.20s\"", at);
    cr_assert((unsigned char)*at >= 0x20 || strchr("\n\r\t", *at) != NULL, "a control character");
}

/* A request is an address in anything but a namespace's name. */
static void check_requests(const char *text)
{
    for (const char *at = text; (at = strstr(at, "http")) != NULL; at++)
        cr_assert(strncmp(at - 7, "xmlns=\"", 7) == 0 ||
                      strncmp(at - 13, "xmlns:xlink=\"", 13) == 0,
                  "a request: \"%.60s\"", at - 13);
    static const char *const never[] = {" src=", "@import", "url(http",
                                        "<link", "<iframe", "//cdn"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        cr_assert_null(strstr(text, never[i]), "%s", never[i]);
}

static void check_page(const char *text)
{
    static char ids[2000][64];
    int nids = 0;
    struct open_tags open = {.n = 0};
    const char *at = text;
    cr_assert_eq(strncmp(at, "<!DOCTYPE html>", 15), 0);
    at += 15;
    while (*at != 0) {
        if (strncmp(at, "<!--", 4) == 0) {
            at = strstr(at, "-->") + 3;
        } else if (strncmp(at, "<![CDATA[", 9) == 0) {
            at = strstr(at, "]]>") + 3;
        } else if (*at == '<') {
            at = check_tag(at, &open, ids, &nids);
        } else {
            check_text(at++);
        }
    }
    cr_assert_eq(open.n, 0, "<%s> is not closed", open.n > 0 ? open.name[open.n - 1] : "");
    cr_assert_not_null(strstr(text, "name=\"viewport\" content=\"width=device-width"));
    check_requests(text);
}

/* ---- pages ---- */

static void add_plot(struct sim_report *r, const char *title, size_t n)
{
    static double x[1000], y[1000];
    for (size_t i = 0; i < n; i++) {
        x[i] = (double)i;
        y[i] = i % 50 == 7 ? (double)NAN : i == 3 ? (double)INFINITY : sin((double)i / 20) + 2;
    }
    struct sim_series s[] = {{HOSTILE, x, y, n, SIM_PLOT_LINES},
                             {"it's; plot 'x' \\", x, y, n / 2, SIM_PLOT_STEPS},
                             {"none", x, y, 0, SIM_PLOT_POINTS}};
    struct sim_tick tick[] = {{0, "0 %"}, {500, "it's 50 %"}};
    struct sim_plot p = {.title = title,
                         .x_label = HOSTILE,
                         .y_label = "100 % \n!date",
                         .series = s,
                         .n = 3,
                         .x_tick = tick,
                         .x_ticks = 2,
                         .log_y = true};
    sim_report_plot(r, &p);
}

Test(sim_report, text_is_text, .init = setup, .fini = teardown)
{
    const char *cells[] = {"policy", HOSTILE, "max:5", "12.5", "</table>", ""};
    struct sim_report *r = sim_report_begin(HOSTILE, HOSTILE);
    sim_report_heading(r, HOSTILE);
    sim_report_textf(r, "%s and %d", HOSTILE, 5);
    sim_report_table(r, HOSTILE, 2, 3, cells);
    cr_assert_eq(sim_report_end(r, path, why, sizeof why), 0, "%s", why);
    size_t length;
    char *text = page(&length);
    cr_assert_eq(strlen(text), length, "no zero byte");
    check_page(text);
    cr_assert_null(strstr(text, "<script"));
    cr_assert_not_null(strstr(text, "&lt;script&gt;alert"));
    cr_assert_not_null(strstr(text, "\xef\xbf\xbd"), "what is no character shows as one");
    cr_assert_not_null(strstr(text, "\xc3\xa9"), "what is one stays");
    free(text);
}

Test(sim_report, plots, .init = setup, .fini = teardown)
{
    if (!can_draw())
        return;
    struct sim_report *r = sim_report_begin("plots", "");
    add_plot(r, HOSTILE, 1000);
    add_plot(r, "a second one", 100);
    add_plot(r, "nothing", 0);
    double x[] = {0, 1}, y[] = {5, 7};
    struct sim_tick tick[] = {{0, "mean:2"}, {1, "max:5"}};
    struct sim_series bars[] = {{"a", x, y, 2, SIM_PLOT_BARS}, {"b", x, y, 2, SIM_PLOT_BARS}};
    struct sim_plot p = {.title = "bars",
                         .x_label = "",
                         .y_label = "",
                         .series = bars,
                         .n = 2,
                         .x_tick = tick,
                         .x_ticks = 2,
                         .from_zero = true};
    sim_report_plot(r, &p);
    p = (struct sim_plot){.title = "predicted",
                          .x_label = "",
                          .y_label = "",
                          .series = bars,
                          .n = 1,
                          .diagonal = true,
                          .log_x = true,
                          .log_y = true};
    bars[0].style = SIM_PLOT_POINTS;
    sim_report_plot(r, &p);
    cr_assert_eq(sim_report_end(r, path, why, sizeof why), 0, "%s", why);
    size_t length, plots = 0;
    char *text = page(&length);
    check_page(text);
    for (const char *at = text; (at = strstr(at, "<svg")) != NULL; at++)
        plots++;
    cr_assert_eq(plots, 4);
    cr_assert_not_null(strstr(text, "nothing: nothing to draw"));
    cr_assert(length > 20000 && length < 400000, "%zu bytes", length);
    cr_assert_null(strstr(text, "\n!date"), "gnuplot ran no command of a label");
    free(text);
}

/* The page of one plot of three points, with or without intervals at them. */
static char *page_with_ends(const struct sim_ends *ends)
{
    static const double x[] = {1, 2, 3}, y[] = {5, 7, 6};
    struct sim_report *r = sim_report_begin("intervals", "");
    struct sim_series s = {"a", x, y, 3, SIM_PLOT_BOTH};
    struct sim_plot p = {.title = "intervals",
                         .x_label = "",
                         .y_label = "",
                         .series = &s,
                         .n = 1,
                         .ends = ends,
                         .from_zero = true};
    size_t length;
    sim_report_plot(r, &p);
    cr_assert_eq(sim_report_end(r, path, why, sizeof why), 0, "%s", why);
    char *text = page(&length);
    check_page(text);
    return text;
}

/* Each interval is drawn, and one that is not known is not. */
Test(sim_report, intervals, .init = setup, .fini = teardown)
{
    static const double low[] = {4, NAN, 5}, high[] = {6, NAN, 7}, none[] = {NAN, NAN, NAN};
    if (!can_draw())
        return;
    char *two = page_with_ends(&(struct sim_ends){low, high});
    char *no_ends = page_with_ends(NULL);
    char *unknown = page_with_ends(&(struct sim_ends){none, none});
    cr_assert_str_eq(no_ends, unknown);
    cr_assert_gt(strlen(two), strlen(no_ends));
    /* A bar and the short lines at its ends are one path with three moves. */
    size_t moves[2] = {0, 0};
    for (int i = 0; i < 2; i++)
        for (const char *at = i == 0 ? two : no_ends; (at = strstr(at, "M")) != NULL; at++)
            moves[i] += at[1] >= '0' && at[1] <= '9';
    cr_assert_eq(moves[0] - moves[1], 6, "%zu and %zu", moves[0], moves[1]);
    free(two);
    free(no_ends);
    free(unknown);
}

/* A recorded trace's page: all of its sections, and of a size that a mail can carry. */
Test(sim_report, replay, .init = setup, .fini = teardown)
{
    static struct replay replay;
    static struct replay_result result[3];
    if (!can_draw())
        return;
    char log[400];
    snprintf(log, sizeof log, "%s/journald.log", HEDGE_TEST_DATA);
    replay.opt = (struct replay_options){
        .files = 1, .how.assume_scan = NAN, .gogc = -1, .report = path, .policies = 1};
    hg__policy_parse("max:5", &replay.opt.policy[0].spec, why, sizeof why);
    snprintf(replay.opt.policy[0].name, sizeof replay.opt.policy[0].name, "max:5");
    cr_assert_eq(sim_trace_read_path(&replay.trace, log, false, why, sizeof why), 0);
    cr_assert_eq(sim_trace_finish(&replay.trace, why, sizeof why), 0);
    replay.result = result;
    replay.results = 3;
    for (size_t i = 0; i < 3; i++)
        replay_judge(&replay.opt, &replay.trace.process[i], &result[i]);
    cr_assert_eq(replay_write_report(&replay, why, sizeof why), 0, "%s", why);
    size_t length;
    char *text = page(&length);
    check_page(text);
    cr_assert(length > 50000 && length < 1500000, "%zu bytes", length);
    static const char *const part[] = {"Process api[4711]", "Process cache[812]", "Heap and goal",
                                       "cons/mark: measured", "Cycles that would have been late"};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        cr_assert_not_null(strstr(text, part[i]), "%s", part[i]);
    free(text);
    for (size_t i = 0; i < 3; i++)
        replay_result_free(&result[i]);
    sim_trace_free(&replay.trace);
}

/* ---- kv's page, and that of joined results ---- */

static struct kv_result made_run(const char *policy, int repetition)
{
    struct kv_result r;
    memset(&r, 0, sizeof r);
    snprintf(r.policy, sizeof r.policy, "%s", policy);
    r.gc = strcmp(policy, "off") != 0;
    r.repetition = repetition;
    for (int m = 0; m < KV_METRICS; m++)
        r.metric[m] = 1000 * (m + repetition);
    r.blame[1] = (struct kv_blame){.requests = 10, .ns = {1, 2, 3, 4, 5, 6, 7, 8}};
    for (int i = 0; i < 300; i++) {
        double bucket[KV_HIST_COLUMNS] = {(double)hg_histogram_bucket(1000 * (i + 1)), 300 - i};
        double row[KV_SERIES_COLUMNS] = {i / 10.0, 1e4,
                                         5e5,      1e6,
                                         2e6,      1e8 + 1e6 * (i % 20),
                                         2e8,      r.gc ? 1.5e8 : (double)INT64_MAX,
                                         3e8,      0};
        kv_table_row(&r.histogram, KV_HIST_COLUMNS, bucket);
        kv_table_row(&r.series, KV_SERIES_COLUMNS, row);
    }
    return r;
}

Test(sim_report, kv, .init = setup, .fini = teardown)
{
    static const char *const policy[] = {"mean:2", "max:5", "off"};
    struct kv_result run[6];
    struct kv_runs runs = {run, 6, "the floor was left out once: 5 < 6 & more"};
    struct sim_machine machine = {.cpus = 2, .cpu = "a <CPU>", .kernel = "Linux"};
    static struct kv_options opt;
    if (!can_draw())
        return;
    opt = (struct kv_options){.program = "hedge-sim kv",
                              .conns = 10,
                              .rate = 1000,
                              .keys = 5,
                              .report = path,
                              .repetitions = 2,
                              .policies = 3};
    for (int i = 0; i < 6; i++)
        run[i] = made_run(policy[i % 3], i / 3 + 1);
    cr_assert_eq(kv_html_write(&opt, &machine, &runs, why, sizeof why), 0, "%s", why);
    size_t length, plots = 0;
    char *text = page(&length);
    check_page(text);
    for (const char *at = text; (at = strstr(at, "<figure>")) != NULL; at++)
        plots++;
    cr_assert_eq(plots, 5, "latency, two heaps, assist, blame: %zu", plots);
    static const char *const part[] = {"5 &lt; 6 &amp; more",
                                       "a &lt;CPU&gt;",
                                       "99.9",
                                       "Heap, trigger and goal: max:5",
                                       "run-queue wait",
                                       "p99 of max:5 is",
                                       "<h1>hedge-sim kv"};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        cr_assert_not_null(strstr(text, part[i]), "%s", part[i]);
    free(text);
    for (int i = 0; i < 6; i++)
        kv_result_free(&run[i]);
}

Test(sim_report, joined, .init = setup, .fini = teardown)
{
    struct sim_joined j;
    char json[128];
    if (!can_draw())
        return;
    sim_joined_init(&j);
    for (int i = 0; i < 4; i++) {
        snprintf(json, sizeof json, "%s/in.json", folder);
        FILE *out = fopen(json, "w");
        fprintf(out,
                "{\"program\": \"hedge-sim scale\", \"params\": {\"vcpus\": \"%s\"}, \"runs\": ["
                "{\"policy\": \"max:5\", \"latency_ns\": {\"p50\": %d, \"p99\": 1e7}},"
                "{\"policy\": \"<pi>\", \"latency_ns\": {\"p50\": 5, \"p99\": null}}]}",
                (const char *[]){"30", "60", "2", "16"}[i], i * 1000);
        fclose(out);
        cr_assert_eq(sim_joined_add(&j, json, NULL, why, sizeof why), 0, "%s", why);
        unlink(json);
    }
    sim_joined_finish(&j);
    cr_assert_eq(sim_joined_write_report(&j, path, why, sizeof why), 0, "%s", why);
    sim_joined_free(&j);
    size_t length;
    char *text = page(&length);
    check_page(text);
    cr_assert_not_null(strstr(text, "Over vcpus"));
    cr_assert_not_null(strstr(text, "&lt;pi&gt;"));
    cr_assert_not_null(strstr(text, "p99, ms"));
    free(text);
}

/* Without gnuplot there is a message before the run, and one after it; the page that was there
 * stays. */
Test(sim_report, no_gnuplot, .init = setup, .fini = teardown)
{
    struct sim_report *r = sim_report_begin("first", "");
    cr_assert_eq(sim_report_end(r, path, why, sizeof why), 0);
    setenv("PATH", folder, 1);
    cr_assert_eq(sim_report_possible(why, sizeof why), -1);
    cr_assert_not_null(strstr(why, "gnuplot-nox"), "%s", why);
    r = sim_report_begin("second", "");
    add_plot(r, "plot", 10);
    why[0] = 0;
    cr_assert_eq(sim_report_end(r, path, why, sizeof why), -1);
    cr_assert_not_null(strstr(why, "gnuplot-nox"), "%s", why);
    size_t length;
    char *text = page(&length);
    cr_assert_not_null(strstr(text, "first"));
    cr_assert_null(strstr(text, "second"));
    free(text);
}

Test(sim_report, a_place_that_is_none, .init = setup)
{
    char nowhere[160];
    struct sim_report *r = sim_report_begin("page", "");
    snprintf(nowhere, sizeof nowhere, "%s/none/page.html", folder);
    cr_assert_eq(sim_report_end(r, nowhere, why, sizeof why), -1);
    cr_assert_str_eq(why, "No such file or directory");
    rmdir(folder);
}
