/* options.c: the defaults of hg_options, and the environment over them.
 *
 * Structure: options.def lists every variable once; the table below is made from it and serves
 * reading, messages and hg_options_each alike. A parser gets the value and the options and either
 * changes its fields, or changes nothing and returns false. So a bad variable is left out and the
 * others hold.
 *
 * Syntax is Go's: an integer is an optional '-' and decimal digits; a size is digits with nothing
 * or one of B, KiB, MiB, GiB, TiB behind; nothing is trimmed, nothing wraps, and an empty value is
 * an unset one.
 *
 * Versions: the caller's hg_options may be older (shorter) or newer (longer) than ours; `size` says
 * so. All work is done on a whole copy, of which only what both know is copied back.
 *
 * Ownership: `pacer` is left pointing into the environment, or at a constant. Programs that run
 * set-uid have no environment here (secure_getenv).
 */
#include "base/options.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/format.h"

#include <errno.h>
#include <hedge/runtime.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Written by hg__options_set_pacer_check, before main; read by any thread. The function is all
 * there is to publish. */
static int (*_Atomic pacer_check)(const char *name, char *why, unsigned room);

void hg__options_set_pacer_check(int (*check)(const char *name, char *why, unsigned room))
{
    hg_store_rlx(&pacer_check, check);
}

/* ---- values ---- */

/* Reads decimal digits at *at and moves it behind them. False: there are none, or the number is
 * above `most`. */
static bool read_digits(const char **at, uint64_t most, uint64_t *out)
{
    const char *p = *at;
    uint64_t v = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
            return false;
    }
    if (p == *at || v > most)
        return false;
    *at = p;
    *out = v;
    return true;
}

/* A whole value that is an integer of 32 bits, as Go reads GOGC and GOMAXPROCS. */
static bool read_int(const char *value, int *out)
{
    bool negative = *value == '-';
    uint64_t v;
    value += negative;
    if (!read_digits(&value, (uint64_t)INT_MAX + negative, &v) || *value != '\0')
        return false;
    *out = (int)(negative ? -(int64_t)v : (int64_t)v);
    return true;
}

/* A whole value that is a size of at most INT64_MAX bytes, as Go reads GOMEMLIMIT. */
static bool read_size(const char *value, int64_t *out)
{
    static const struct {
        char name[4];
        unsigned shift;
    } units[] = {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
    uint64_t v;
    if (!read_digits(&value, INT64_MAX, &v))
        return false;
    for (size_t i = 0; i < HG_COUNT_OF(units); i++) {
        if (strcmp(value, units[i].name) == 0) {
            *out = (int64_t)(v << units[i].shift);
            return v <= (uint64_t)INT64_MAX >> units[i].shift;
        }
    }
    return false;
}

static bool read_switch(const char *value, bool *out)
{
    bool on = strcmp(value, "on") == 0 || strcmp(value, "1") == 0;
    bool off = strcmp(value, "off") == 0 || strcmp(value, "0") == 0;
    if (on || off)
        *out = on;
    return on || off;
}

/* ---- one parser per kind of variable: false and nothing changed when the value is bad. `why` (of
 * `room` bytes) may then be set to "expected ...", where that says more than the table's text; it
 * stays as it was otherwise ---- */

#define PARSER(name) \
    static bool parse_##name(const char *value, hg_options *o, char *why, unsigned room)
#define PARSER_WITHOUT_WHY() ((void)why, (void)room)

PARSER(gc_percent)
{
    PARSER_WITHOUT_WHY();
    int percent = -1;
    if (strcmp(value, "off") != 0 && !read_int(value, &percent))
        return false;
    o->gc_percent = percent < 0 ? -1 : percent;
    return true;
}

PARSER(memory_limit)
{
    PARSER_WITHOUT_WHY();
    int64_t limit = INT64_MAX;
    if (strcmp(value, "off") != 0 && !read_size(value, &limit))
        return false;
    o->memory_limit = limit;
    return true;
}

PARSER(procs)
{
    PARSER_WITHOUT_WHY();
    int procs;
    if (!read_int(value, &procs) || procs < 1 || procs > HG_PROCS_MAX)
        return false;
    o->procs = procs;
    return true;
}

PARSER(pacer)
{
    int (*check)(const char *, char *, unsigned) = hg_load_rlx(&pacer_check);
    if (check != NULL && check(value, why, room) != 0)
        return false;
    o->pacer = value;
    return true;
}

PARSER(assist)
{
    PARSER_WITHOUT_WHY();
    return read_switch(value, &o->assist);
}

PARSER(hard_limit)
{
    PARSER_WITHOUT_WHY();
    return read_switch(value, &o->hard_limit);
}

PARSER(min_heap)
{
    PARSER_WITHOUT_WHY();
    int64_t bytes;
    if (!read_size(value, &bytes))
        return false;
    o->min_heap_bytes = (size_t)bytes;
    return true;
}

PARSER(stack)
{
    PARSER_WITHOUT_WHY();
    int64_t bytes;
    if (!read_size(value, &bytes) || bytes < HG_STACK_MIN_BYTES || bytes > HG_STACK_MAX_BYTES)
        return false;
    o->stack_bytes = (size_t)bytes;
    return true;
}

PARSER(blocking_threads)
{
    PARSER_WITHOUT_WHY();
    int threads;
    if (!read_int(value, &threads) || threads < 1 || threads > HG_BLOCKING_THREADS_MAX)
        return false;
    o->blocking_threads = threads;
    return true;
}

PARSER(hugepages)
{
    PARSER_WITHOUT_WHY();
    static const char *const words[] = {[HG_HUGEPAGES_AUTO] = "auto",
                                        [HG_HUGEPAGES_ALWAYS] = "always",
                                        [HG_HUGEPAGES_NEVER] = "never"};
    for (int i = 0; i < (int)HG_COUNT_OF(words); i++) {
        if (strcmp(value, words[i]) == 0) {
            o->hugepages = i;
            return true;
        }
    }
    return false;
}

PARSER(sched_seed)
{
    PARSER_WITHOUT_WHY();
    uint64_t seed;
    if (!read_digits(&value, UINT64_MAX, &seed) || *value != '\0')
        return false;
    o->sched_seed = seed;
    return true;
}

/* ---- key=N lists ---- */

static void set_bool(void *field, int v) { *(bool *)field = v > 0; }
static void set_int(void *field, int v) { *(int *)field = v > 0 ? v : 0; }

static const struct debug_key {
    const char *name;
    bool of_go;
    void (*set)(void *field, int v);
    size_t offset; /* of the field in hg_options */
} debug_keys[] = {
#define OPTION(name, parse, standard, expected, help)
#define DEBUG_KEY(name, of_go, type, field) {#name, of_go, set_##type, offsetof(hg_options, field)},
#include "base/options.def"
};

static const struct debug_key *find_key(const char *name, size_t n)
{
    for (size_t i = 0; i < HG_COUNT_OF(debug_keys); i++)
        if (strncmp(debug_keys[i].name, name, n) == 0 && debug_keys[i].name[n] == '\0')
            return &debug_keys[i];
    return NULL;
}

/* One element of a list, n characters. Other keys of Go's are ignored in GODEBUG, as Go ignores
 * what it does not know; HEDGEDEBUG is ours alone, so a key that is unknown there is a mistake. */
static bool parse_element(const char *text, size_t n, bool go, hg_options *o, char *why,
                          unsigned room)
{
    const char *equals = memchr(text, '=', n);
    size_t name_n = equals != NULL ? (size_t)(equals - text) : n;
    const struct debug_key *key = find_key(text, name_n);
    if (key == NULL || (go && !key->of_go)) {
        if (!go)
            hg__format(why, room, "expected a known key in place of \"%.*s\"",
                       (int)hg_min_size(name_n, 40), text);
        return go;
    }
    char number[16] = "";
    if (equals != NULL && n - name_n - 1 < sizeof number)
        memcpy(number, equals + 1, n - name_n - 1);
    int v;
    if (!read_int(number, &v)) {
        hg__format(why, room, "expected %s=N with an integer N", key->name);
        return false;
    }
    key->set((char *)o + key->offset, v);
    return true;
}

/* All elements or none: a list with a bad one is left out as a whole. */
static bool parse_list(const char *value, bool go, hg_options *o, char *why, unsigned room)
{
    hg_options changed = *o;
    for (const char *p = value;; p++) {
        size_t n = strcspn(p, ",");
        if (n > 0 && !parse_element(p, n, go, &changed, why, room))
            return false;
        p += n;
        if (*p == '\0')
            break;
    }
    *o = changed;
    return true;
}

PARSER(godebug) { return parse_list(value, true, o, why, room); }

PARSER(hedgedebug) { return parse_list(value, false, o, why, room); }

/* ---- the table ---- */

#define EXPECT_PERCENT "an integer, or off"
#define EXPECT_LIMIT   "a size such as 512MiB (B, KiB, MiB, GiB, TiB), or off"
#define EXPECT_PROCS   "a number from 1 to 1024"
#define EXPECT_THREADS "a number from 1 to 1024"
#define EXPECT_SWITCH  "on or off"
#define EXPECT_SIZE    "a size such as 64MiB (B, KiB, MiB, GiB, TiB)"
#define EXPECT_KEYS    "key=N, comma-separated"
_Static_assert(HG_PROCS_MAX == 1024, "EXPECT_PROCS names the limit");
_Static_assert(HG_BLOCKING_THREADS_MAX == 1024, "EXPECT_THREADS names the limit");

static const struct variable {
    const char *name, *standard, *expected, *help;
    bool (*parse)(const char *value, hg_options *o, char *why, unsigned room);
} variables[] = {
#define OPTION(name, parse, standard, expected, help) \
    {#name, standard, expected, help, parse_##parse},
#define DEBUG_KEY(name, of_go, type, field)
#include "base/options.def"
};

/* ---- the public functions ---- */

static hg_options standard_options(void)
{
    return (hg_options){
        .size = sizeof(hg_options),
        .procs = -1,
        .gc_percent = 100,
        .memory_limit = INT64_MAX,
        .pacer = HG_PACER_STANDARD,
        .assist = true,
        .hugepages = HG_HUGEPAGES_AUTO,
        .blocking_threads = HG_BLOCKING_THREADS,
    };
}

HG_API void hg_options_init(hg_options *opt, size_t size)
{
    hg_options made = standard_options();
    made.size = size;
    memset(opt, 0, size);
    memcpy(opt, &made, hg_min_size(size, sizeof made));
}

/* Appends to the text of *n characters in why[room], as far as it fits. */
static void append(char *why, size_t room, size_t *n, const char *text)
{
    if (why == NULL || room == 0)
        return;
    size_t fits = hg_min_size(strlen(text), room - 1 - *n);
    memcpy(why + *n, text, fits);
    *n += fits;
    why[*n] = '\0';
}

/* A value as it may be shown: 40 characters at most, those that a terminal would act upon
 * replaced. */
static void show_value(char out[48], const char *value)
{
    hg__format(out, 44, "%s", value);
    for (char *p = out; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
}

HG_API int hg_options_env(hg_options *opt, char *why, size_t room)
{
    hg_options all = standard_options();
    size_t known = hg_min_size(opt->size, sizeof all), n = 0;
    int result = 0;
    memcpy(&all, opt, known);
    append(why, room, &n, "");
    for (size_t i = 0; i < HG_COUNT_OF(variables); i++) {
        const struct variable *v = &variables[i];
        const char *value = secure_getenv(v->name);
        char better[160] = "", shown[48], text[320];
        if (value == NULL || *value == '\0' || v->parse(value, &all, better, sizeof better))
            continue;
        show_value(shown, value);
        hg__format(text, sizeof text, "%s%s=\"%s\": %s%s", n > 0 ? "; " : "", v->name, shown,
                   better[0] != '\0' ? "" : "expected ", better[0] != '\0' ? better : v->expected);
        append(why, room, &n, text);
        result = -EINVAL;
    }
    memcpy(opt, &all, known);
    return result;
}

HG_API void hg_options_each(void (*fn)(void *arg, const char *name, const char *help,
                                       const char *standard, const char *value, bool valid),
                            void *arg)
{
    for (size_t i = 0; i < HG_COUNT_OF(variables); i++) {
        const struct variable *v = &variables[i];
        const char *value = secure_getenv(v->name);
        hg_options scratch = standard_options();
        char why[160];
        bool valid = value == NULL || *value == '\0' || v->parse(value, &scratch, why, sizeof why);
        fn(arg, v->name, v->help, v->standard, value, valid);
    }
}
