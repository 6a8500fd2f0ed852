/* test_case_trace.c: the lines of gctrace and gcpacertrace, read by a strict reader: case L06.
 *
 * The reader takes the documented form, field by field, to the end of the line; a field that is
 * missing, misspelt or new fails it. The main task of a child process provokes cycles of known
 * kinds; its standard error is read here.
 */
#include "tests/stress/test_case.h"
#include <ctype.h>
#include <string.h>
#include <unistd.h>

TestSuite(case_trace, .timeout = 60);

/* Matches text against a pattern: `#` stands for digits, with a point among them or not (tools for
 * these lines know no exponents there), `~` for a number with a sign and an exponent, everything
 * else for itself. The numbers go to out. Returns what follows the
 * match, or NULL. */
static const char *match(const char *text, const char *pattern, double *out)
{
    for (; *pattern != '\0'; pattern++) {
        if (*pattern != '#' && *pattern != '~') {
            if (*text++ != *pattern)
                return NULL;
            continue;
        }
        char *end;
        if (!isdigit((unsigned char)*text) && !(*pattern == '~' && strchr("+-", *text) != NULL))
            return NULL;
        *out++ = strtod(text, &end);
        if (end == text || (*pattern == '#' && text + strspn(text, "0123456789.") != end))
            return NULL;
        text = end;
    }
    return text;
}

static const char cycle_line[] =
    "gc # @#s #%: #+#+# ms clock, #+#/#/#+# ms cpu, #->#-># MB, # MB goal, # MB stacks, "
    "# MB globals, # P";
enum { NUMBER, AT, SHARE, LIVE_AT_END = 12, LIVE, GOAL, STACKS, GLOBALS, PROCS };

static const char pacer_line[] =
    "pacer: #% CPU (# exp.) for #+#+# B work (# B est.) in # B -> # B (cons/mark ~, est. ~; next "
    "~, trigger # B, goal # B, u #)";
enum { STACK = 3 };

/* Reads one line into out[32]: 'g' a cycle, 'f' a forced one, 'p' the pacer's. Fails the test for
 * anything else. */
static char read_line(const char *line, double *out)
{
    const char *rest = match(line, cycle_line, out);
    if (rest != NULL && *rest == '\0')
        return 'g';
    if (rest != NULL && strcmp(rest, " (forced)") == 0)
        return 'f';
    rest = match(line, pacer_line, out);
    cr_assert(rest != NULL && *rest == '\0', "not a line of ours: \"%s\"", line);
    return 'p';
}

/* Cycles by need, a forced one, cycles by need again; a stack of 3 MB in all of them. */
static int three_kinds(void *arg)
{
    volatile uint64_t stack[3 * CASE_MIB / 8];
    (void)arg;
    for (size_t i = 0; i < sizeof stack / sizeof *stack; i++)
        stack[i] = i;
    for (int part = 0; part < 2; part++) {
        uint64_t before = case_stats().cycles;
        while (case_stats().cycles < before + 3)
            for (int i = 0; i < 1000; i++)
                hg_keep_alive(hg_alloc(1024, HG_LEAF));
        if (part == 0)
            hg_collect(hg_current());
    }
    return stack[7] == 7 ? CASE_DONE : 0;
}

static int with_a_deep_stack(void *arg)
{
    hg_task_attr attr = {.size = sizeof attr, .stack_bytes = 8 * CASE_MIB};
    hg_task *t;
    int result = 0;
    MUST(hg_go_with(&attr, three_kinds, arg, &t) == 0, "hg_go_with");
    MUST(hg_join(t, HG_FOREVER, &result) == 0, "hg_join");
    return result;
}

static void traced_child(void *arg)
{
    (void)arg;
    char why[200];
    hg_options o = case_options(2);
    setenv("GODEBUG", "gctrace=1,gcpacertrace=1,madvdontneed=1", 1);
    if (hg_options_env(&o, why, sizeof why) != 0 ||
        hg_run(with_a_deep_stack, NULL, &o) != CASE_DONE)
        _exit(1);
}

/* What is printed late, by a machine that stalls, is no line of a cycle: left out. */
static bool is_report(const char *line) { return strstr(line, "a handshake has waited") != NULL; }

Test(case_trace, l06_lines_are_what_is_documented)
{
    struct test_child child;
    double v[32], last = 0, last_at = 0, stack_of_pacer = 0;
    unsigned forced = 0, natural = 0, pacer = 0, deep = 0;
    test_child_run(&child, 20, traced_child, NULL);
    cr_assert_eq(child.exit_code, 0, "%s", child.text);
    for (char *at = child.text, *line; (line = strsep(&at, "\n")) != NULL && at != NULL;) {
        if (is_report(line))
            continue;
        char kind = read_line(line, v);
        if (kind == 'p') {
            pacer++;
            stack_of_pacer = v[STACK];
            continue;
        }
        forced += kind == 'f';
        natural += kind == 'g';
        cr_assert_eq(v[NUMBER], last + 1, "cycle %g after %g", v[NUMBER], last);
        cr_assert_geq(v[AT], last_at);
        cr_assert_leq(v[SHARE], 100);
        cr_assert_leq(v[LIVE], v[LIVE_AT_END]);
        cr_assert_eq(v[PROCS], 2);
        /* Lines come in pairs: the pacer's, then the cycle's. The stack is the same. */
        cr_assert_eq(v[STACKS], (double)((long)(stack_of_pacer + (1 << 19)) >> 20),
                     "%g MB stacks; the pacer used %g bytes", v[STACKS], stack_of_pacer);
        deep += v[STACKS] >= 3;
        last = v[NUMBER];
        last_at = v[AT];
    }
    cr_assert_eq(forced, 1, "%u cycles were called forced", forced);
    cr_assert_geq(natural, 5);
    cr_assert_geq(pacer, forced + natural);
    cr_assert_gt(deep, 0, "the deep stack is in no line");
}

/* ---- a cycle that lasts for more than a second ---- */

static int busy_second(void *arg)
{
    uint32_t *begun = arg;
    __atomic_store_n(begun, 1, __ATOMIC_RELEASE);
    for (int64_t until = hg_in(1200 * CASE_MS); hg_now() < until;)
        continue;
    return 0;
}

static int long_cycle(void *arg)
{
    hg_task *t;
    uint32_t begun = 0;
    (void)arg;
    MUST(hg_go_with(NULL, busy_second, &begun, &t) == 0, "hg_go_with");
    while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) == 0)
        hg_sleep(CASE_MS);
    hg_collect(hg_current());
    MUST(hg_join(t, HG_FOREVER, NULL) == 0, "hg_join");
    return CASE_DONE;
}

static void long_child(void *arg)
{
    (void)arg;
    hg_options o = case_options(2);
    o.trace_gc = true;
    if (hg_run(long_cycle, NULL, &o) != CASE_DONE)
        _exit(1);
}

Test(case_trace, l06_long_times_have_no_exponent)
{
    struct test_child child;
    double v[32] = {0};
    test_child_run(&child, 20, long_child, NULL);
    cr_assert_eq(child.exit_code, 0, "%s", child.text);
    char *line = strstr(child.text, "gc 1 ");
    cr_assert_not_null(line, "%s", child.text);
    line[strcspn(line, "\n")] = '\0';
    cr_assert_eq(read_line(line, v), 'f', "%s", line);
    cr_assert_gt(v[3] + v[4], 1000, "the cycle was short: %s", line);
}

/* ---- a figure that the lines share with hg_stats_cycles ---- */

static void forced_child(void *arg)
{
    (void)arg;
    hg_options o = case_options(1);
    hg_runtime *rt;
    hg_cycle c[8];
    o.trace_gc = true;
    if (hg_runtime_open(&o, &rt) != 0)
        _exit(1);
    for (int i = 0; i < 5; i++)
        hg_collect(rt);
    int n = hg_stats_cycles(rt, c, 8);
    for (int i = 0; i < n; i++)
        if (!c[i].forced || c[i].number != (uint64_t)(n - i))
            _exit(2);
    if (n < 5 || hg_runtime_close(rt) != 0)
        _exit(3);
}

Test(case_trace, l06_forced_cycles_only_are_called_so)
{
    struct test_child child;
    double v[32];
    unsigned forced = 0;
    test_child_run(&child, 20, forced_child, NULL);
    cr_assert_eq(child.exit_code, 0, "%d: %s", child.exit_code, child.text);
    for (char *at = child.text, *line; (line = strsep(&at, "\n")) != NULL && at != NULL;) {
        if (is_report(line))
            continue;
        cr_assert_eq(read_line(line, v), 'f', "%s", line);
        forced++;
    }
    cr_assert_eq(forced, 5);
}
