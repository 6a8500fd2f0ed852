/* test_base_fatal.c: last words and warnings: their texts, the hooks, small stacks; and the
 * formatter under them. */
#include "base/assert.h"
#include "base/bits.h"
#include "base/format.h"
#include "base/os.h"
#include "base/rand.h"
#include "tests/support/test.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <hedge/core.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(fatal, .timeout = 60);

/* ---- formatter ---- */

#define SAME(...)                                                                 \
    do {                                                                          \
        char ours[200], theirs[200];                                              \
        size_t n = hg__format(ours, sizeof ours, __VA_ARGS__);                    \
        snprintf(theirs, sizeof theirs, __VA_ARGS__);                             \
        cr_assert_str_eq(ours, theirs, "\"%s\" instead of \"%s\"", ours, theirs); \
        cr_assert_eq(n, strlen(theirs));                                          \
    } while (0)

Test(fatal, format_agrees_with_printf)
{
    SAME("plain");
    SAME("%d %i %u", -5, INT_MIN, UINT_MAX);
    SAME("%ld %lu %lld %llu", LONG_MIN, ULONG_MAX, LLONG_MIN, ULLONG_MAX);
    SAME("%hhd %hhu %hd %hu", (signed char)-1, (unsigned char)255, (short)-1,
         (unsigned short)65535);
    SAME("%zu %jd %td", SIZE_MAX, INTMAX_MIN, PTRDIFF_MIN);
    SAME("%" PRId64 " %" PRIu64 " %" PRIx64, INT64_MIN, UINT64_MAX, UINT64_C(0xdeadbeef));
    SAME("%x %X %08x %8x| %-8x|", 0xabcu, 0xabcu, 0xabcu, 0xabcu, 0xabcu);
    SAME("%p", (void *)0x1234);
    SAME("%5d|%-5d|%05d|%.3d|%.0d", 42, 42, -42, 7, 0);
    SAME("%s|%10s|%-10s|%.2s|%.*s|%*s", "text", "text", "text", "text", 3, "text", 6, "text");
    SAME("%-*s|%*d", -7, "text", -4, 1);
    SAME("%c|%3c|%%", 'x', 'y');
    SAME("%f %.0f %.1f %.3f %9.2f|", 1.5, 2.25, -0.04, 1234567.8906, 3.14159);
    SAME("%.2f %.1f", 0.0, -1e12);
}

Test(fatal, format_of_random_numbers)
{
    struct hg_rand r = {test_seed("fatal format_of_random_numbers")};
    for (int i = 0; i < 100000; i++) {
        uint64_t v = hg_rand_next(&r) >> hg_rand_below(&r, 64);
        int width = (int)hg_rand_below(&r, 30), precision = (int)hg_rand_below(&r, 22);
        SAME("%*.*" PRIu64 "|%0*" PRId64 "|%-*" PRIx64 "|", width, precision, v, width, (int64_t)v,
             width, v);
    }
}

Test(fatal, format_cuts_what_does_not_fit)
{
    char small[8];
    cr_assert_eq(hg__format(small, sizeof small, "%s", "1234567"), 7);
    cr_assert_str_eq(small, "1234567");
    cr_assert_eq(hg__format(small, sizeof small, "%s", "12345678"), 7);
    cr_assert_str_eq(small, "1234...");
    cr_assert_eq(hg__format(small, sizeof small, "%100000d", 1), 7);
    cr_assert_str_eq(small, "    ...");
}

/* Formats that the compiler's own check would refuse, so they come as variables. */
static const char *volatile odd_formats[] = {"%y %d", "50% of", "%",  "%-",
                                             "%l",    "%.",     "%n", "%5.3a"};
static const char *volatile no_text;

__attribute__((format(printf, 3, 0))) static size_t call_vformat(char *buf, size_t room,
                                                                 const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t n = hg__vformat(buf, room, format, args);
    va_end(args);
    return n;
}

Test(fatal, format_prints_what_it_does_not_know_as_it_stands)
{
    char text[64];
    cr_assert_eq(hg__format(text, sizeof text, "%s", no_text), 6);
    cr_assert_str_eq(text, "(null)");
    for (size_t i = 0; i < HG_COUNT_OF(odd_formats); i++) {
        call_vformat(text, sizeof text, odd_formats[i], 1, 2);
        cr_assert_str_eq(text, odd_formats[i]);
    }
}

/* ---- warnings ---- */

static void warn_twice(void *arg)
{
    (void)arg;
    errno = EDOM;
    hg__warn("GOGC=%d is %s", 7, "odd");
    hg__warn("%0600d", 1);
    HG_CHECK(errno == EDOM, "errno is %d", errno);
}

Test(fatal, a_warning_is_a_line_on_standard_error)
{
    struct test_child c;
    test_child_run(&c, 10, warn_twice, NULL);
    cr_assert_eq(c.exit_code, 0, "%s", c.text);
    cr_assert_eq(strncmp(c.text, "hedge: GOGC=7 is odd\nhedge: 000", 31), 0, "%s", c.text);
    size_t n = strlen(c.text);
    cr_assert(n > 500 && n < 540 && strcmp(c.text + n - 4, "...\n") == 0, "%s", c.text);
}

struct heard {
    int level, times;
    char text[600];
};

static void hear_log(void *user, int level, const char *text)
{
    struct heard *h = user;
    h->level = level;
    h->times++;
    snprintf(h->text, sizeof h->text, "%s", text);
}

Test(fatal, the_log_hook_gets_warnings)
{
    struct heard h = {0};
    hg__log_hook(hear_log, &h);
    hg__warn("one %d", 1);
    hg__log_hook(NULL, NULL);
    cr_assert_eq(h.times, 1);
    cr_assert_eq(h.level, 4);
    cr_assert_str_eq(h.text, "hedge: one 1");
}

/* Each hook checks that it came with its own argument. */
static _Atomic uint32_t mixed, calls, stop;
static int ones, twos;

static void hear_one(void *user, int level, const char *text)
{
    (void)level, (void)text;
    hg_add_rlx(&mixed, user != &ones ? 1u : 0u);
    hg_add_rlx(&calls, 1u);
}

static void hear_two(void *user, int level, const char *text)
{
    (void)level, (void)text;
    hg_add_rlx(&mixed, user != &twos ? 1u : 0u);
    hg_add_rlx(&calls, 1u);
}

static void *change_hooks(void *arg)
{
    (void)arg;
    while (!hg_load_rlx(&stop)) {
        hg__log_hook(hear_one, &ones);
        hg__log_hook(hear_two, &twos);
    }
    return NULL;
}

static void warn_while_hooks_change(void *arg)
{
    (void)arg;
    pthread_t t;
    hg__log_hook(hear_one, &ones);
    HG_CHECK(hg__os_thread(&t, "hooks", 0, change_hooks, NULL) == 0, "no thread");
    for (int i = 0; i < 100000; i++)
        hg__warn("x");
    hg_store_rlx(&stop, 1u);
    hg__os_thread_join(t);
    hg__log_hook(NULL, NULL);
    HG_CHECK(hg_load_rlx(&calls) > 1000, "only %u calls reached a hook", hg_load_rlx(&calls));
    HG_CHECK(hg_load_rlx(&mixed) == 0, "%u calls came with the other's argument",
             hg_load_rlx(&mixed));
}

/* Warnings that find a hook half set go to standard error, so this runs in a child. */
Test(fatal, a_hook_never_gets_anothers_argument)
{
    static struct test_child c;
    test_child_run(&c, 50, warn_while_hooks_change, NULL);
    cr_assert_eq(c.exit_code, 0, "%s", c.text);
}

/* ---- fatal ---- */

static void check_seven(void *arg)
{
    const int *v = arg;
    HG_CHECK(*v == 7, "wanted 7, found %d", *v);
}

Test(fatal, a_check_that_fails_ends_the_process)
{
    struct test_child c;
    int v = 7;
    test_child_run(&c, 10, check_seven, &v);
    cr_assert_eq(c.exit_code, 0);
    v = 8;
    test_child_run(&c, 10, check_seven, &v);
    cr_assert_eq(c.signal, SIGABRT);
    cr_assert_str_eq(c.text, "hedge: wanted 7, found 8\n");
}

static int evaluated;

/* Called by assertions alone, which a release build leaves out. */
__attribute__((unused)) static bool count_and_pass(void)
{
    evaluated++;
    return true;
}

static void assert_false(void *arg)
{
    (void)arg;
    HG_ASSERT(evaluated > 100);
}

Test(fatal, assertions_follow_the_level)
{
    struct test_child c;
    HG_ASSERT(count_and_pass());
    HG_AUDIT(count_and_pass());
    test_child_run(&c, 10, assert_false, NULL);
#if defined(HG_HOSTILE)
    cr_assert_eq(evaluated, 2);
#elif defined(HG_DEBUG)
    cr_assert_eq(evaluated, 1);
#else
    cr_assert_eq(evaluated, 0);
#endif
#if defined(HG_DEBUG)
    cr_assert_eq(c.signal, SIGABRT);
    cr_assert(strstr(c.text, "test_base_fatal.c") != NULL &&
                  strstr(c.text, "evaluated > 100") != NULL,
              "%s", c.text);
#else
    cr_assert_eq(c.exit_code, 0);
#endif
}

static void say_last_words(void *user, const char *text)
{
    dprintf(STDERR_FILENO, "[%s|%s]", (const char *)user, text);
}

static void die_with_hook(void *arg)
{
    (void)arg;
    hg__fatal_hook(say_last_words, "me");
    hg__fatal("broken: %s", "it");
}

static void say_and_fail(void *user, const char *text)
{
    (void)user, (void)text;
    hg__fatal("the hook fails too");
}

static void die_in_hook(void *arg)
{
    (void)arg;
    hg__fatal_hook(say_and_fail, NULL);
    hg__fatal("first");
}

Test(fatal, the_hook_gets_the_last_words)
{
    struct test_child c;
    test_child_run(&c, 10, die_with_hook, NULL);
    cr_assert_eq(c.signal, SIGABRT);
    cr_assert_str_eq(c.text, "[me|hedge: broken: it]");
    test_child_run(&c, 10, die_in_hook, NULL);
    cr_assert_eq(c.signal, SIGABRT);
    cr_assert_str_eq(c.text, "hedge: the hook fails too\n");
}

/* their frames are several times as large */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

static void die_of_overflow(int number)
{
    (void)number;
    hg__fatal("overflow: %s %zu %.1f", "task", (size_t)65536, 1.5);
}

/* Fails on a signal stack that ends in a guard 2 KiB below where the handler begins. */
static void die_on_small_stack(void *arg)
{
    (void)arg;
    size_t page = hg__os_page_size(), least = hg_round_up((size_t)SIGSTKSZ, page);
    char *stack = hg__os_map(least + page, page);
    HG_CHECK(hg__os_guard(stack, page) > 0, "no guard");
    stack_t alt = {.ss_sp = stack + page, .ss_size = (size_t)MINSIGSTKSZ + 2048};
    HG_CHECK(sigaltstack(&alt, NULL) == 0, "sigaltstack: %d", errno);
    struct sigaction on = {.sa_handler = die_of_overflow, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &on, NULL);
    raise(SIGUSR1);
}

Test(fatal, two_kilobytes_of_stack_are_enough)
{
    struct test_child c;
    test_child_run(&c, 10, die_on_small_stack, NULL);
    cr_assert_eq(c.signal, SIGABRT, "signal %d", c.signal);
    cr_assert_str_eq(c.text, "hedge: overflow: task 65536 1.5\n");
}

#endif

/* ---- core.h ---- */

Test(fatal, time_and_version)
{
    int64_t now = hg_now();
    cr_assert_gt(now, 0);
    cr_assert_geq(hg_in(1000000000), now + 1000000000);
    cr_assert_eq(hg_in(INT64_MAX), HG_FOREVER);
    cr_assert_eq(hg_in(HG_FOREVER - 1), HG_FOREVER);
    int64_t past = hg_in(0);
    cr_assert(past != HG_NOW && past <= hg_now());
    past = hg_in(INT64_MIN);
    cr_assert(past != HG_NOW && past <= hg_now());
    int major, minor, patch, end = 0;
    cr_assert_eq(sscanf(hg_version(), "%d.%d.%d%n", &major, &minor, &patch, &end), 3);
    cr_assert_eq(hg_version()[end], '\0');
}
