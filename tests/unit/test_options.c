/* test_options.c: the environment table: every documented good and bad value, and what is said
 * about the bad ones. */
#include "base/bits.h"
#include "base/options.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <hedge/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every variable of the table, so that a test starts from none whatever the caller's environment
 * is. */
static const char *const names[] = {
    "GOGC",
    "HEDGE_GOGC",
    "GOMEMLIMIT",
    "HEDGE_GOMEMLIMIT",
    "GOMAXPROCS",
    "HEDGE_GOMAXPROCS",
    "HEDGE_PACER",
    "HEDGE_ASSIST",
    "HEDGE_MIN_HEAP",
    "HEDGE_HARD_LIMIT",
    "HEDGE_STACK",
    "HEDGE_BLOCKING_THREADS",
    "HEDGE_HUGEPAGES",
    "HEDGE_SCHED_SEED",
    "GODEBUG",
    "HEDGEDEBUG",
};

static void clear_environment(void)
{
    for (size_t i = 0; i < HG_COUNT_OF(names); i++)
        unsetenv(names[i]);
    hg__options_set_pacer_check(NULL);
}

TestSuite(options, .init = clear_environment, .timeout = 60);

static hg_options opt;
static char why[1024];

static int read_environment(void)
{
    hg_options_init(&opt, sizeof opt);
    memset(why, 'x', sizeof why);
    return hg_options_env(&opt, why, sizeof why);
}

/* Reads with one variable set; it is unset again. */
static int read_with(const char *name, const char *value)
{
    setenv(name, value, 1);
    int r = read_environment();
    unsetenv(name);
    return r;
}

#define GOOD(name, value, field, wanted)                                                         \
    do {                                                                                         \
        cr_assert_eq(read_with(name, value), 0, "%s=%s: %s", name, value, why);                  \
        cr_assert(opt.field == (wanted), "%s=%s gives %lld", name, value, (long long)opt.field); \
        cr_assert_str_empty(why);                                                                \
    } while (0)

/* A bad value: reported by name with what was expected, and the default holds. */
static void bad(const char *name, const char *value, const char *expected)
{
    hg_options standard;
    char begin[160];
    hg_options_init(&standard, sizeof standard);
    cr_assert_eq(read_with(name, value), -EINVAL, "%s=%s", name, value);
    cr_assert_arr_eq(&opt, &standard, sizeof opt, "%s=%s changes an option", name, value);
    snprintf(begin, sizeof begin, "%s=\"", name);
    cr_assert_eq(strncmp(why, begin, strlen(begin)), 0, "%s", why);
    cr_assert(strstr(why, "expected") != NULL && strstr(why, expected) != NULL, "%s=%s: %s", name,
              value, why);
}

Test(options, defaults)
{
    cr_assert_eq(read_environment(), 0);
    cr_assert_str_empty(why);
    cr_assert_eq(opt.size, sizeof opt);
    cr_assert_eq(opt.procs, -1);
    cr_assert_eq(opt.gc_percent, 100);
    cr_assert_eq(opt.memory_limit, INT64_MAX);
    cr_assert_eq(opt.min_heap_bytes, 0);
    cr_assert_str_eq(opt.pacer, "max:5");
    cr_assert(opt.assist);
    cr_assert_not(opt.hard_limit || opt.trace_gc || opt.trace_pacer || opt.check || opt.poison ||
                  opt.track_waits);
    cr_assert_eq(opt.hugepages, HG_HUGEPAGES_AUTO);
    cr_assert(opt.reserve_bytes == 0 && opt.stack_bytes == 0 && opt.sched_seed == 0 &&
              opt.stress == 0);
    cr_assert(opt.log == NULL && opt.fatal == NULL && opt.limit_passed == NULL &&
              opt.out_of_memory == NULL);
}

Test(options, empty_is_unset)
{
    hg_options standard;
    hg_options_init(&standard, sizeof standard);
    for (size_t i = 0; i < HG_COUNT_OF(names); i++) {
        cr_assert_eq(read_with(names[i], ""), 0, "%s", names[i]);
        cr_assert_arr_eq(&opt, &standard, sizeof opt);
    }
}

Test(options, gogc)
{
    static const char *const forms[] = {"GOGC", "HEDGE_GOGC"};
    for (size_t i = 0; i < HG_COUNT_OF(forms); i++) {
        GOOD(forms[i], "off", gc_percent, -1);
        GOOD(forms[i], "0", gc_percent, 0);
        GOOD(forms[i], "50", gc_percent, 50);
        GOOD(forms[i], "0100", gc_percent, 100);
        GOOD(forms[i], "2147483647", gc_percent, 2147483647);
        GOOD(forms[i], "-1", gc_percent, -1);
        GOOD(forms[i], "-50", gc_percent, -1);
        GOOD(forms[i], "-2147483648", gc_percent, -1);
        static const char *const wrong[] = {
            "OFF", "on",         "100%",        "+5", " 5",   "5 ",
            "1e3", "2147483648", "-2147483649", "-",  "0x10", "123456789012345678901234567890"};
        for (size_t k = 0; k < HG_COUNT_OF(wrong); k++)
            bad(forms[i], wrong[k], "an integer, or off");
    }
}

Test(options, gomemlimit)
{
    static const char *const forms[] = {"GOMEMLIMIT", "HEDGE_GOMEMLIMIT"};
    for (size_t i = 0; i < HG_COUNT_OF(forms); i++) {
        GOOD(forms[i], "off", memory_limit, INT64_MAX);
        GOOD(forms[i], "0", memory_limit, 0);
        GOOD(forms[i], "1000", memory_limit, 1000);
        GOOD(forms[i], "1000B", memory_limit, 1000);
        GOOD(forms[i], "3KiB", memory_limit, 3 << 10);
        GOOD(forms[i], "16MiB", memory_limit, 16 << 20);
        GOOD(forms[i], "2GiB", memory_limit, INT64_C(2) << 30);
        GOOD(forms[i], "1TiB", memory_limit, INT64_C(1) << 40);
        GOOD(forms[i], "9223372036854775807", memory_limit, INT64_MAX);
        GOOD(forms[i], "8388607TiB", memory_limit, INT64_C(8388607) << 40);
        static const char *const wrong[] = {"1G",
                                            "16MB",
                                            "-1",
                                            " 5MiB",
                                            "5 MiB",
                                            "5MiB ",
                                            "MiB",
                                            "B",
                                            "1.5GiB",
                                            "+1",
                                            "1mib",
                                            "1KiBB",
                                            "9223372036854775808",
                                            "8388608TiB",
                                            "99999999999TiB",
                                            "123456789012345678901234567890",
                                            "unlimited",
                                            "OFF",
                                            "1PiB"};
        for (size_t k = 0; k < HG_COUNT_OF(wrong); k++)
            bad(forms[i], wrong[k], "a size such as 512MiB (B, KiB, MiB, GiB, TiB), or off");
    }
}

Test(options, gomaxprocs)
{
    static const char *const forms[] = {"GOMAXPROCS", "HEDGE_GOMAXPROCS"};
    for (size_t i = 0; i < HG_COUNT_OF(forms); i++) {
        GOOD(forms[i], "1", procs, 1);
        GOOD(forms[i], "64", procs, 64);
        GOOD(forms[i], "1024", procs, 1024);
        static const char *const wrong[] = {
            "0", "-1", "1025", "two", "2.5", "4 ", "123456789012345678901234567890"};
        for (size_t k = 0; k < HG_COUNT_OF(wrong); k++)
            bad(forms[i], wrong[k], "a number from 1 to 1024");
    }
}

Test(options, switches)
{
    GOOD("HEDGE_ASSIST", "off", assist, false);
    GOOD("HEDGE_ASSIST", "0", assist, false);
    GOOD("HEDGE_ASSIST", "on", assist, true);
    GOOD("HEDGE_ASSIST", "1", assist, true);
    GOOD("HEDGE_HARD_LIMIT", "on", hard_limit, true);
    GOOD("HEDGE_HARD_LIMIT", "1", hard_limit, true);
    GOOD("HEDGE_HARD_LIMIT", "off", hard_limit, false);
    static const char *const wrong[] = {"yes", "On", "true", "2", " on", "00"};
    for (size_t k = 0; k < HG_COUNT_OF(wrong); k++) {
        bad("HEDGE_ASSIST", wrong[k], "on or off");
        bad("HEDGE_HARD_LIMIT", wrong[k], "on or off");
    }
}

Test(options, sizes)
{
    GOOD("HEDGE_MIN_HEAP", "0", min_heap_bytes, 0u);
    GOOD("HEDGE_MIN_HEAP", "64MiB", min_heap_bytes, 64 * HG_MIB);
    bad("HEDGE_MIN_HEAP", "64M", "a size such as 64MiB");
    bad("HEDGE_MIN_HEAP", "off", "a size such as 64MiB");
    bad("HEDGE_MIN_HEAP", "-1", "a size such as 64MiB");
    GOOD("HEDGE_STACK", "16KiB", stack_bytes, 16 * HG_KIB);
    GOOD("HEDGE_STACK", "100000", stack_bytes, 100000u);
    GOOD("HEDGE_STACK", "8MiB", stack_bytes, 8 * HG_MIB);
    static const char *const wrong[] = {"0",    "16383", "8388609",
                                        "9MiB", "64K",   "123456789012345678901234567890"};
    for (size_t k = 0; k < HG_COUNT_OF(wrong); k++)
        bad("HEDGE_STACK", wrong[k], "a size from 16KiB to 8MiB");
}

Test(options, words_and_seed)
{
    GOOD("HEDGE_BLOCKING_THREADS", "1", blocking_threads, 1);
    GOOD("HEDGE_BLOCKING_THREADS", "1024", blocking_threads, 1024);
    bad("HEDGE_BLOCKING_THREADS", "0", "1 to 1024");
    bad("HEDGE_BLOCKING_THREADS", "1025", "1 to 1024");
    bad("HEDGE_BLOCKING_THREADS", "many", "1 to 1024");
    GOOD("HEDGE_HUGEPAGES", "auto", hugepages, HG_HUGEPAGES_AUTO);
    GOOD("HEDGE_HUGEPAGES", "always", hugepages, HG_HUGEPAGES_ALWAYS);
    GOOD("HEDGE_HUGEPAGES", "never", hugepages, HG_HUGEPAGES_NEVER);
    bad("HEDGE_HUGEPAGES", "off", "auto, always or never");
    bad("HEDGE_HUGEPAGES", "Always", "auto, always or never");
    GOOD("HEDGE_SCHED_SEED", "0", sched_seed, 0u);
    GOOD("HEDGE_SCHED_SEED", "18446744073709551615", sched_seed, UINT64_MAX);
    static const char *const wrong[] = {"18446744073709551616", "-1", "0x1", "7 ",
                                        "123456789012345678901234567890"};
    for (size_t k = 0; k < HG_COUNT_OF(wrong); k++)
        bad("HEDGE_SCHED_SEED", wrong[k], "a number from 0 to 2^64-1");
}

static int only_pi(const char *name, char *text, unsigned room)
{
    if (strcmp(name, "pi") == 0)
        return 0;
    snprintf(text, room, "expected pi");
    return -1;
}

Test(options, pacer)
{
    cr_assert_eq(read_with("HEDGE_PACER", "whatever"), 0); /* nobody to ask */
    hg__options_set_pacer_check(only_pi);
    setenv("HEDGE_PACER", "pi", 1);
    cr_assert_eq(read_environment(), 0);
    cr_assert_str_eq(opt.pacer, "pi");
    unsetenv("HEDGE_PACER");
    bad("HEDGE_PACER", "pie", "\"pie\": expected pi");
}

Test(options, godebug_is_read_as_go_does)
{
    GOOD("GODEBUG", "gctrace=1", trace_gc, true);
    GOOD("GODEBUG", "gctrace=2", trace_gc, true);
    GOOD("GODEBUG", "gctrace=0", trace_gc, false);
    GOOD("GODEBUG", "gctrace=-1", trace_gc, false);
    GOOD("GODEBUG", "madvdontneed=1,gcpacertrace=1,http2client=0", trace_pacer, true);
    GOOD("GODEBUG", "netdns", trace_gc, false);
    GOOD("GODEBUG", ",,gctrace=1,", trace_gc, true);
    GOOD("GODEBUG", "gctrace=0,gctrace=1", trace_gc, true);
    GOOD("GODEBUG", "gccheck=1", check, false); /* not a key of Go's, so unknown there */
    GOOD("GODEBUG", "xgctrace=1,gctracex=1,gctrac=1", trace_gc, false);
    bad("GODEBUG", "gctrace=yes", "gctrace=N with an integer N");
    bad("GODEBUG", "gctrace", "gctrace=N with an integer N");
    bad("GODEBUG", "gctrace=", "gctrace=N with an integer N");
    bad("GODEBUG", "gcpacertrace=1,gctrace=123456789012345678901234567890",
        "gctrace=N with an integer N");
}

Test(options, hedgedebug)
{
    GOOD("HEDGEDEBUG", "gctrace=1", trace_gc, true);
    GOOD("HEDGEDEBUG", "gcpacertrace=1", trace_pacer, true);
    GOOD("HEDGEDEBUG", "gccheck=1", check, true);
    GOOD("HEDGEDEBUG", "gcstress=17", stress, 17);
    GOOD("HEDGEDEBUG", "gcstress=-3", stress, 0);
    GOOD("HEDGEDEBUG", "gcpoison=1", poison, true);
    GOOD("HEDGEDEBUG", "osfault=20", os_faults, 20);
    GOOD("HEDGEDEBUG", "trackwaits=1", track_waits, true);
    GOOD("HEDGEDEBUG", "gccheck=1,gcstress=5,gcpoison=1,gctrace=1", stress, 5);
    cr_assert(opt.check && opt.poison && opt.trace_gc);
    bad("HEDGEDEBUG", "gcchek=1", "a known key in place of \"gcchek\"");
    bad("HEDGEDEBUG", "gccheck=1,gc", "a known key in place of \"gc\"");
    bad("HEDGEDEBUG", "gccheck=1,gcstress=many", "gcstress=N with an integer N");
    bad("HEDGEDEBUG", "=1", "a known key in place of \"\"");
    bad("HEDGEDEBUG", " gccheck=1", "a known key");
}

Test(options, hedge_forms_win)
{
    setenv("GOGC", "50", 1);
    setenv("HEDGE_GOGC", "200", 1);
    setenv("GOMEMLIMIT", "1GiB", 1);
    setenv("HEDGE_GOMEMLIMIT", "off", 1);
    setenv("GOMAXPROCS", "3", 1);
    setenv("HEDGE_GOMAXPROCS", "5", 1);
    setenv("GODEBUG", "gctrace=1,gcpacertrace=1", 1);
    setenv("HEDGEDEBUG", "gctrace=0", 1);
    cr_assert_eq(read_environment(), 0, "%s", why);
    cr_assert_eq(opt.gc_percent, 200);
    cr_assert_eq(opt.memory_limit, INT64_MAX);
    cr_assert_eq(opt.procs, 5);
    cr_assert(!opt.trace_gc && opt.trace_pacer);
    setenv("HEDGE_GOGC", "lots", 1); /* a bad one is left out, and Go's holds */
    cr_assert_eq(read_environment(), -EINVAL);
    cr_assert_eq(opt.gc_percent, 50);
}

Test(options, every_bad_variable_is_named_and_the_others_hold)
{
    setenv("GOGC", "x", 1);
    setenv("GOMEMLIMIT", "1G", 1);
    setenv("GOMAXPROCS", "2", 1);
    setenv("HEDGEDEBUG", "nope=1", 1);
    cr_assert_eq(read_environment(), -EINVAL);
    cr_assert_eq(opt.procs, 2);
    cr_assert_str_eq(
        why, "GOGC=\"x\": expected an integer, or off; "
             "GOMEMLIMIT=\"1G\": expected a size such as 512MiB (B, KiB, MiB, GiB, TiB), or off; "
             "HEDGEDEBUG=\"nope=1\": expected a known key in place of \"nope\"");
    /* a short buffer gets the beginning, terminated */
    for (size_t room = 0; room <= strlen(why) + 1; room++) {
        char part[512];
        memset(part, '#', sizeof part);
        cr_assert_eq(hg_options_env(&opt, part, room), -EINVAL);
        cr_assert_eq(part[room], '#');
        if (room > 0) {
            cr_assert_eq(strnlen(part, sizeof part), room - 1);
            cr_assert_eq(strncmp(part, why, room - 1), 0);
        }
    }
    cr_assert_eq(hg_options_env(&opt, NULL, 100), -EINVAL);
}

Test(options, hostile_values_are_shown_short_and_harmless)
{
    static char huge[100000];
    memset(huge, '9', sizeof huge - 1);
    for (size_t i = 0; i < HG_COUNT_OF(names); i++) {
        if (strcmp(names[i], "HEDGE_PACER") == 0 || strcmp(names[i], "GODEBUG") == 0)
            continue; /* any word passes there */
        cr_assert_eq(read_with(names[i], huge), -EINVAL, "%s", names[i]);
        cr_assert(strlen(why) < 260 && strstr(why, "999...\"") != NULL, "%s", why);
    }
    cr_assert_eq(read_with("GOGC", "\x1b[2J\n\x7f"), -EINVAL);
    cr_assert(strstr(why, "\"?[2J??\"") != NULL, "%s", why);
}

Test(options, code_wins_where_the_environment_says_nothing)
{
    setenv("GOGC", "70", 1);
    hg_options_init(&opt, sizeof opt);
    opt.gc_percent = 30;
    opt.procs = 7;
    opt.pacer = "mean:2";
    cr_assert_eq(hg_options_env(&opt, NULL, 0), 0);
    cr_assert_eq(opt.gc_percent, 70);
    cr_assert_eq(opt.procs, 7);
    cr_assert_str_eq(opt.pacer, "mean:2");
}

Test(options, shorter_and_longer_structs)
{
    struct {
        hg_options o;
        unsigned char more[64];
    } s;
    size_t shorter = offsetof(hg_options, memory_limit);
    setenv("GOGC", "70", 1);
    setenv("GOMEMLIMIT", "1GiB", 1);
    memset(&s, 0xab, sizeof s);
    hg_options_init(&s.o, shorter);
    cr_assert_eq(hg_options_env(&s.o, NULL, 0), 0);
    cr_assert_eq(s.o.size, shorter);
    cr_assert_eq(s.o.gc_percent, 70);
    for (size_t i = shorter; i < sizeof s; i++)
        cr_assert_eq(((unsigned char *)&s)[i], 0xab, "byte %zu", i);
    hg_options_init(&s.o, sizeof s);
    cr_assert_eq(hg_options_env(&s.o, NULL, 0), 0);
    cr_assert_eq(s.o.size, sizeof s);
    cr_assert_eq(s.o.memory_limit, (int64_t)HG_GIB);
    for (size_t i = 0; i < sizeof s.more; i++)
        cr_assert_eq(s.more[i], 0); /* what a newer caller knows is zero */
}

struct seen {
    size_t n, set, invalid;
};

static void look(void *arg, const char *name, const char *help, const char *standard,
                 const char *value, bool valid)
{
    struct seen *s = arg;
    cr_assert_lt(s->n, HG_COUNT_OF(names));
    cr_assert_str_eq(name, names[s->n]); /* this test's list is complete and in the table's order */
    cr_assert_str_not_empty(help);
    cr_assert_not_null(standard);
    s->n++;
    s->set += value != NULL;
    s->invalid += !valid;
    if (strcmp(name, "GOGC") == 0)
        cr_assert(value != NULL && strcmp(value, "70") == 0 && valid);
    if (strcmp(name, "HEDGE_STACK") == 0)
        cr_assert(value != NULL && strcmp(value, "tiny") == 0 && !valid);
}

Test(options, each_lists_the_whole_table)
{
    struct seen s = {0};
    setenv("GOGC", "70", 1);
    setenv("HEDGE_STACK", "tiny", 1);
    hg_options_each(look, &s);
    cr_assert_eq(s.n, HG_COUNT_OF(names));
    cr_assert_eq(s.set, 2);
    cr_assert_eq(s.invalid, 1);
}
