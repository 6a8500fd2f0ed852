/* options.c: a benchmark's command line, read against its table (bench.h).
 *
 * The table is the only place that knows an option: it is parsed, described by --help, and printed
 * with its value when the program begins, from the same entry. Nothing is measured before the whole
 * command line has been found good.
 */
#include "bench/bench.h"
#include "bench/common/machine.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_USAGE 2

static const char *program = "bench";

static const char *program_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

_Noreturn static void usage_error(const struct bench_option *o, const char *expected,
                                  const char *text)
{
    fprintf(stderr, "%s: --%s: expected %s, not \"%s\"\nTry \"%s --help\".\n", program, o->name,
            expected, text, program);
    exit(STATUS_USAGE);
}

void bench_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

/* ---- values ---- */

static int64_t parse_number(const struct bench_option *o, const char *text, const char *whole)
{
    char *end, expected[100];
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end != 0 || errno != 0 || v < o->low || v > o->high) {
        snprintf(expected, sizeof expected, "%s from %lld to %lld",
                 o->kind == BENCH_LIST ? "whole numbers, comma between," : "a whole number",
                 (long long)o->low, (long long)o->high);
        usage_error(o, expected, whole);
    }
    return v;
}

static void parse_list(const struct bench_option *o, char *copy, const char *whole)
{
    struct bench_list *list = o->value;
    char *item;
    list->n = 0;
    while ((item = strsep(&copy, ",")) != NULL) {
        if (list->n == BENCH_LIST_MAX)
            usage_error(o, "at most 8 numbers", whole);
        list->v[list->n++] = parse_number(o, item, whole);
    }
}

/* Length of word i of a table entry and where it begins; 0: there is none. */
static size_t word_at(const char *words, unsigned i, const char **at)
{
    for (; i > 0 && *words != 0; i--) {
        words += strcspn(words, " ");
        words += strspn(words, " ");
    }
    *at = words;
    return strcspn(words, " ");
}

static void parse_words(const struct bench_option *o, char *copy, const char *whole)
{
    unsigned set = 0;
    char *item, expected[200];
    const char *at;
    size_t length;
    while ((item = strsep(&copy, ",")) != NULL) {
        unsigned found = 0;
        for (unsigned i = 0; (length = word_at(o->words, i, &at)) > 0; i++)
            if (strcmp(item, "all") == 0 ||
                (strlen(item) == length && strncmp(item, at, length) == 0))
                found |= 1u << i;
        if (found == 0) {
            snprintf(expected, sizeof expected, "all or some of: %s", o->words);
            usage_error(o, expected, whole);
        }
        set |= found;
    }
    *(unsigned *)o->value = set;
}

static void parse_value(const struct bench_option *o, const char *text)
{
    char *copy = strdup(text);
    if (copy == NULL)
        bench_fail("no memory");
    switch (o->kind) {
    case BENCH_NUMBER:
        *(int64_t *)o->value = parse_number(o, text, text);
        break;
    case BENCH_LIST:
        parse_list(o, copy, text);
        break;
    case BENCH_WORDS:
        parse_words(o, copy, text);
        break;
    }
    free(copy);
}

/* The value as it can be given on the command line. */
static const char *value_text(const struct bench_option *o, char *buffer, size_t room)
{
    size_t used = 0, length;
    const char *at;
    buffer[0] = 0;
    if (o->kind == BENCH_NUMBER) {
        snprintf(buffer, room, "%lld", (long long)*(int64_t *)o->value);
    } else if (o->kind == BENCH_LIST) {
        const struct bench_list *list = o->value;
        for (int i = 0; i < list->n && used < room; i++)
            used += (size_t)snprintf(buffer + used, room - used, "%s%lld", i > 0 ? "," : "",
                                     (long long)list->v[i]);
    } else {
        for (unsigned i = 0; (length = word_at(o->words, i, &at)) > 0 && used < room; i++)
            if ((*(unsigned *)o->value >> i & 1) != 0)
                used += (size_t)snprintf(buffer + used, room - used, "%s%.*s", used > 0 ? "," : "",
                                         (int)length, at);
    }
    return buffer;
}

/* ---- the command line ---- */

_Noreturn static void help(const char *about, const struct bench_option *table)
{
    char text[200];
    printf("usage: %s [OPTION VALUE]... [VALUE]...\n\n%s\n\n"
           "Options; values without a name are taken for them in this order:\n",
           program, about);
    for (const struct bench_option *o = table; o->name != NULL; o++) {
        printf("  --%-14s %s", o->name, o->help);
        if (o->kind == BENCH_WORDS)
            printf(": all, or some of %s", o->words);
        printf("\n  %-16s (%s)\n", "", value_text(o, text, sizeof text));
    }
    printf("\nThe environment (GOGC, GODEBUG=gctrace=1, HEDGE_...) holds where the measurement\n"
           "itself does not decide. A run counts only on a quiet machine; bench/compare waits\n"
           "for one and runs others' programs in turn with these.\n");
    exit(0);
}

static const struct bench_option *find(const struct bench_option *table, const char *name,
                                       size_t length)
{
    for (const struct bench_option *o = table; o->name != NULL; o++)
        if (strlen(o->name) == length && strncmp(o->name, name, length) == 0)
            return o;
    return NULL;
}

static void parse(int argc, char **argv, const char *about, const struct bench_option *table)
{
    const struct bench_option *next = table;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0)
            help(about, table);
        const struct bench_option *o = next;
        const char *value = argv[i];
        if (strncmp(argv[i], "--", 2) == 0) {
            size_t length = strcspn(argv[i] + 2, "=");
            o = find(table, argv[i] + 2, length);
            value = argv[i][2 + length] == '=' ? argv[i] + 3 + length : argv[++i];
            if (o == NULL || value == NULL) {
                fprintf(stderr, "%s: %s\nTry \"%s --help\".\n", program,
                        o == NULL ? "no such option" : "the last option has no value", program);
                exit(STATUS_USAGE);
            }
        } else if (o->name == NULL) {
            fprintf(stderr, "%s: expected no further value, not \"%s\"\n", program, value);
            exit(STATUS_USAGE);
        } else {
            next++;
        }
        parse_value(o, value);
    }
}

void bench_begin(int argc, char **argv, const char *about, const struct bench_option *table)
{
    char text[200];
    program = program_name(argv[0]);
    parse(argc, argv, about, table);
    printf("%s, hedge %s, commit %s\n", program, hg_version(), bench_commit());
    bench_machine_print(stdout);
    const char *label = "options";
    for (const struct bench_option *o = table; o->name != NULL; o++) {
        printf("%-9s %s %s\n", label, o->name, value_text(o, text, sizeof text));
        label = "";
    }
    printf("\n");
    fflush(stdout);
    bench_machine_start();
}

int bench_end(void)
{
    bench_machine_report(stdout);
    return 0;
}
