/* test_sim_replay.c: policies over recorded cycles, and what replay writes. */
#include "sim/replay.h"
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct replay replay;
static struct replay_result result[4];

static void load(const char *name, double assume)
{
    static char path[400];
    static const char *file = path;
    char why[400];
    memset(&replay, 0, sizeof replay);
    snprintf(path, sizeof path, "%s/%s", HEDGE_TEST_DATA, name);
    replay.opt =
        (struct replay_options){.file = &file, .files = 1, .how.assume_scan = assume, .gogc = -1};
    static const char *const policy[] = {"mean:2", "pi", "max:2", "max:5"};
    for (int i = 0; i < 4; i++) {
        struct replay_policy *p = &replay.opt.policy[replay.opt.policies++];
        cr_assert_eq(hg__policy_parse(policy[i], &p->spec, why, sizeof why), 0);
        snprintf(p->name, sizeof p->name, "%s", policy[i]);
    }
    sim_trace_init(&replay.trace);
    cr_assert_eq(sim_trace_read_path(&replay.trace, path, false, why, sizeof why), 0, "%s", why);
    cr_assert_eq(sim_trace_finish(&replay.trace, why, sizeof why), 0, "%s", why);
    if (!isnan(assume))
        sim_trace_assume(&replay.trace, assume);
    replay.result = result;
    replay.results = replay.trace.processes;
    cr_assert_leq(replay.results, 4);
    for (size_t i = 0; i < replay.results; i++)
        replay_judge(&replay.opt, &replay.trace.process[i], &result[i]);
}

static void unload(void)
{
    for (size_t i = 0; i < replay.results; i++)
        replay_result_free(&result[i]);
    sim_trace_free(&replay.trace);
}

static const struct replay_verdict *verdict(const struct replay_result *r, const char *policy)
{
    for (int i = 0; i < r->verdicts; i++)
        if (strcmp(r->verdict[i].policy, policy) == 0)
            return &r->verdict[i];
    cr_assert_fail("no %s", policy);
    return NULL;
}

/* The estimates that a program printed are those that its policy gives here from what it measured:
 * hedge ran max:5 (but for the window that a forced cycle is in), and so would Go 1.23 have. */
static void check_recorded(const char *name, double within, size_t forced_at_start)
{
    load(name, NAN);
    const struct replay_verdict *max = verdict(&result[0], "max:5");
    const struct replay_verdict *own = verdict(&result[0], "(recorded)");
    size_t compared = 0;
    for (size_t i = forced_at_start + 5; i < result[0].process->cycles; i++) {
        if (isnan(max->estimate[i]) || isnan(own->estimate[i]))
            continue;
        cr_assert_float_eq(max->estimate[i], own->estimate[i], within * own->estimate[i],
                           "%s, cycle %zu: %g, recorded %g", name, i + 1, max->estimate[i],
                           own->estimate[i]);
        compared++;
    }
    cr_assert_geq(compared, 15);
    cr_assert_float_eq(max->late_share, own->late_share, 0.1);
    unload();
}

Test(sim_replay, estimates_are_the_recorded_ones)
{
    check_recorded("hedge.log", 2e-3, 1);
    check_recorded("kubectl-max5.log", 1e-4, 0);
}

/* The finding that the project rests on, in a recorded program: an average is too low for about
 * half of all cycles, the maximum of five for fewer. */
Test(sim_replay, averages_sit_on_the_edge)
{
    load("go1.19.log", NAN);
    const struct replay_verdict *mean = verdict(&result[0], "mean:2");
    const struct replay_verdict *max2 = verdict(&result[0], "max:2");
    const struct replay_verdict *max5 = verdict(&result[0], "max:5");
    cr_assert_eq(mean->judged, 36);
    cr_assert(mean->late_share > 0.35 && mean->late_share < 0.65, "%g", mean->late_share);
    cr_assert_lt(max2->late_share, mean->late_share);
    cr_assert_lt(max5->late_share, max2->late_share);
    cr_assert_gt(max5->early, max2->early);
    unload();
}

/* A runway ends at the live heap. Where the program allocates more than that while a quarter of the
 * CPUs marks, every policy is short; where it does not, who expects more is short less often, and
 * pays with runway that is not used. */
Test(sim_replay, runways)
{
    load("go1.19.log", NAN);
    cr_assert_float_eq(verdict(&result[0], "max:5")->short_share, 1, 0);
    unload();
    load("hedge.log", NAN);
    const struct replay_verdict *mean = verdict(&result[0], "mean:2");
    const struct replay_verdict *max = verdict(&result[0], "max:5");
    cr_assert(mean->short_share > 0.4 && mean->short_share < 0.8, "%g", mean->short_share);
    cr_assert_lt(max->short_share, mean->short_share);
    cr_assert_gt(max->unused, mean->unused);
    cr_assert_lt(max->unused, 0.3);
    unload();
}

Test(sim_replay, gctrace_alone_needs_an_assumption)
{
    load("gctrace-only.log", NAN);
    cr_assert_eq(result[0].verdicts, 0);
    cr_assert_eq(result[0].usable, 0);
    unload();
    load("gctrace-only.log", 2e6);
    cr_assert_eq(result[0].verdicts, 5);
    cr_assert_eq(result[0].paced, 0);
    cr_assert_gt(verdict(&result[0], "max:5")->judged, 10);
    cr_assert_eq(verdict(&result[0], "(recorded)")->judged, 0);
    unload();
}

Test(sim_replay, text_fits_80_columns)
{
    static const char *const name[] = {"go1.19.log", "journald.log", "gctrace-only.log",
                                       "kubectl-max5.log"};
    for (size_t i = 0; i < 4; i++) {
        char *text, *rest, *line;
        size_t length;
        FILE *out = open_memstream(&text, &length);
        load(name[i], i == 2 ? 1e6 : NAN);
        replay_print(out, &replay);
        fclose(out);
        unload();
        rest = text;
        while ((line = strsep(&rest, "\n")) != NULL)
            cr_assert_leq(strlen(line), 80, "%s: \"%s\"", name[i], line);
        free(text);
    }
}

Test(sim_replay, json_and_csv)
{
    char folder[] = "replay-test-XXXXXX", json[64], csv[64], row[2000];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(json, sizeof json, "%s/a.json", folder);
    snprintf(csv, sizeof csv, "%s/a.csv", folder);
    load("journald.log", NAN);
    replay.opt.json = json;
    replay.opt.csv = csv;
    cr_assert_eq(replay_write_files(&replay), 0);
    json_t *d = json_load_file(json, 0, NULL);
    cr_assert_str_eq(json_string_value(json_object_get(d, "program")), "hedge-sim replay");
    cr_assert_eq(json_array_size(json_object_get(d, "processes")), 3);
    cr_assert_eq(json_array_size(json_object_get(d, "runs")), 15);
    json_t *lines = json_object_get(d, "lines");
    cr_assert_eq(json_integer_value(json_object_get(lines, "skipped")), 4);
    json_decref(d);
    FILE *in = fopen(csv, "r");
    size_t rows = 0, commas = 0;
    while (fgets(row, sizeof row, in) != NULL) {
        size_t n = 0;
        for (const char *c = row; *c != 0; c++)
            n += *c == ',';
        cr_assert(rows == 0 || n == commas, "%s", row);
        commas = n;
        rows++;
    }
    fclose(in);
    cr_assert_eq(rows, 1 + 12 + 12 + 3);
    unload();
    unlink(json);
    unlink(csv);
    rmdir(folder);
}
