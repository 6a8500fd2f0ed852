/* trace_line.c: one line of gctrace or gcpacertrace (trace_read.h gives the forms).
 *
 * A log may put anything before a line; so the beginning of one of ours is looked for at every
 * place that follows a blank or nothing. From there on each field must come as the form says, and
 * the first that does not is remembered for the message. What follows the last field is not looked
 * at: hedge and later versions append fields, and a log may append its own.
 *
 * Sources of the forms: the documentation of Go's runtime package (GODEBUG) for gctrace; the text
 * that Go 1.18 and later print for gcpacertrace; runtime/trace/gctrace.c for ours.
 */
#include "sim/trace_read.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIB  1048576.0
#define MOST 1e18 /* a larger number in a line is no measurement */

/* Reads forward through a line; once something did not come as expected it stands still. */
struct cursor {
    const char *at;
    bool bad;
    char expected[48];
};

static void refuse(struct cursor *c, const char *expected)
{
    if (!c->bad)
        snprintf(c->expected, sizeof c->expected, "%s", expected);
    c->bad = true;
}

static bool comes(const struct cursor *c, const char *text)
{
    return !c->bad && strncmp(c->at, text, strlen(text)) == 0;
}

static void literal(struct cursor *c, const char *text)
{
    char expected[48];
    if (comes(c, text)) {
        c->at += strlen(text);
        return;
    }
    snprintf(expected, sizeof expected, "\"%s\"", text);
    refuse(c, expected);
}

/* A decimal number; Go prints estimates that went wrong as NaN and Inf, which are NaN here. */
static double any_number(struct cursor *c, const char *what)
{
    char *end;
    if (c->bad)
        return NAN;
    const char *digits = c->at + strspn(c->at, "+-");
    if (strncmp(digits, "NaN", 3) == 0 || strncmp(digits, "Inf", 3) == 0) {
        c->at = digits + 3;
        return NAN;
    }
    if (!isdigit((unsigned char)*digits) || digits - c->at > 1 ||
        strspn(digits, "0123456789.eE+-") < 1 || digits[1] == 'x' || digits[1] == 'X') {
        refuse(c, what);
        return NAN;
    }
    double v = strtod(c->at, &end);
    if (!(fabs(v) <= MOST))
        refuse(c, "a number below 1e18");
    c->at = end;
    return v;
}

static double number(struct cursor *c, const char *what)
{
    const char *at = c->at;
    double v = any_number(c, what);
    if (!c->bad && !(v >= 0)) {
        c->at = at;
        refuse(c, what);
    }
    return v;
}

static double ms(struct cursor *c, const char *what) { return number(c, what) * 1e6; }

static double mib(struct cursor *c, const char *what) { return number(c, what) * MIB; }

static void cpu_times(struct cursor *c, struct sim_trace_cycle *out)
{
    number(c, "CPU ms before marking");
    literal(c, "+");
    out->assist_ns = ms(c, "CPU ms of assist");
    literal(c, "/");
    out->background_ns = ms(c, "CPU ms of background marking");
    literal(c, "/");
    out->idle_ns = ms(c, "CPU ms of idle marking");
    literal(c, "+");
    number(c, "CPU ms after marking");
    literal(c, " ms cpu, ");
}

static void heap_sizes(struct cursor *c, struct sim_trace_cycle *out)
{
    out->heap_start = mib(c, "heap at the start, MB");
    literal(c, "->");
    out->heap_end = mib(c, "heap at the end, MB");
    literal(c, "->");
    out->live = mib(c, "live heap, MB");
    literal(c, " MB, ");
    double goal = mib(c, "goal, MB");
    out->goal = goal > 0 ? goal : (double)NAN; /* hedge prints 0 for none */
    literal(c, " MB goal, ");
}

/* Stacks and globals came with Go 1.18: before, the number of procs follows the goal. */
static void last_fields(struct cursor *c, struct sim_trace_cycle *out)
{
    double v = number(c, "MB stacks or number of procs");
    if (comes(c, " MB stacks, ")) {
        out->stack = v * MIB;
        literal(c, " MB stacks, ");
        out->globals = mib(c, "globals, MB");
        literal(c, " MB globals, ");
        v = number(c, "number of procs");
    }
    literal(c, " P");
    if (!c->bad && (isalnum((unsigned char)*c->at) || v < 1))
        refuse(c, v < 1 ? "at least one proc" : "the end of the line");
    out->procs = v;
    out->forced = !c->bad && strstr(c->at, "(forced)") != NULL;
}

static void parse_gc(struct cursor *c, struct sim_trace_cycle *out)
{
    literal(c, "gc ");
    double n = number(c, "number of the cycle");
    literal(c, " @");
    out->at_s = number(c, "seconds since the start");
    literal(c, "s ");
    out->gc_share = number(c, "% of CPU time") / 100;
    literal(c, "%: ");
    out->quiet_ns = ms(c, "ms before marking");
    literal(c, "+");
    out->wall_ns = ms(c, "ms of marking");
    literal(c, "+");
    number(c, "ms after marking");
    literal(c, " ms clock, ");
    cpu_times(c, out);
    heap_sizes(c, out);
    last_fields(c, out);
    if (!c->bad && n < 1)
        refuse(c, "cycles counted from 1");
    out->number = c->bad ? 0 : (uint64_t)n;
}

static void go_estimate(struct cursor *c, struct sim_trace_cycle *out)
{
    /* Two characters look alike and both have been seen: U+2206 and U+0394. */
    literal(c, comes(c, "\xce\x94goal ") ? "\xce\x94goal " : "\xe2\x88\x86goal ");
    any_number(c, "bytes off the goal");
    literal(c, ", cons/mark ");
    out->estimate = any_number(c, "cons/mark");
    literal(c, ")");
}

static void hedge_estimate(struct cursor *c, struct sim_trace_cycle *out)
{
    literal(c, "cons/mark ");
    out->cons_mark = number(c, "cons/mark");
    literal(c, ", est. ");
    out->estimate = number(c, "estimate of cons/mark");
    literal(c, "; next ");
    number(c, "estimate for the next cycle");
    literal(c, ", trigger ");
    number(c, "trigger, bytes");
    literal(c, " B, goal ");
    any_number(c, "goal, bytes"); /* the largest int64 without GOGC */
    literal(c, " B, u ");
    number(c, "background share");
    literal(c, ")");
    out->source = SIM_TRACE_PRINTED;
}

static void parse_pacer(struct cursor *c, struct sim_trace_cycle *out)
{
    literal(c, "pacer: ");
    out->utilization = number(c, "% of CPU") / 100;
    literal(c, "% CPU (");
    number(c, "expected % of CPU");
    literal(c, " exp.) for ");
    out->scan_heap = number(c, "heap scan work, bytes");
    literal(c, "+");
    out->scan_stack = number(c, "stack scan work, bytes");
    literal(c, "+");
    out->scan_globals = number(c, "globals' scan work, bytes");
    literal(c, " B work (");
    number(c, "expected scan work, bytes");
    bool hedge = comes(c, " B est.) in ");
    literal(c, hedge ? " B est.) in " : " B exp.) in ");
    out->heap_start = number(c, "heap at the start, bytes");
    literal(c, " B -> ");
    out->heap_end = number(c, "heap at the end, bytes");
    literal(c, " B (");
    if (hedge)
        hedge_estimate(c, out);
    else
        go_estimate(c, out);
}

/* ---- the beginning, and what the prefix names ---- */

static size_t digits(const char *s) { return strspn(s, "0123456789"); }

static enum sim_trace_kind kind_at(const char *s)
{
    if (strncmp(s, "gc ", 3) == 0 && digits(s + 3) > 0 &&
        strncmp(s + 3 + digits(s + 3), " @", 2) == 0)
        return SIM_TRACE_GC;
    if (strncmp(s, "pacer: ", 7) != 0)
        return SIM_TRACE_FOREIGN;
    if (digits(s + 7) > 0 && s[7 + digits(s + 7)] == '%')
        return SIM_TRACE_PACER;
    if (strncmp(s + 7, "assist ratio=", 13) == 0 || strncmp(s + 7, "sweep done at ", 14) == 0 ||
        strncmp(s + 7, "H_m_prev=", 9) == 0)
        return SIM_TRACE_OTHER;
    return SIM_TRACE_FOREIGN;
}

static enum sim_trace_kind find_begin(const char *text, const char **begin)
{
    for (const char *s = text; *s != 0; s++) {
        bool starts = s == text || s[-1] == ' ' || s[-1] == '\t' || s[-1] == '|';
        enum sim_trace_kind kind = starts ? kind_at(s) : SIM_TRACE_FOREIGN;
        if (kind != SIM_TRACE_FOREIGN) {
            *begin = s;
            return kind;
        }
    }
    return SIM_TRACE_FOREIGN;
}

static void set_name(char *name, size_t room, const char *from, size_t n)
{
    snprintf(name, room, "%.*s", (int)(n < room ? n : room - 1), from);
}

/* "host unit[pid]:" and "unit[pid]:" -> unit[pid]; "[pod/...] ..." -> pod/...; "name | " -> name;
 * anything else (a time) names nothing. */
static void name_of(const char *text, size_t n, char *name, size_t room)
{
    name[0] = 0;
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    const char *end = memchr(text, ']', n), *bar = memchr(text, '|', n);
    if (n > 2 && text[n - 1] == ':' && text[n - 2] == ']') {
        size_t from = n - 1;
        while (from > 0 && text[from - 1] != ' ' && text[from - 1] != '\t')
            from--;
        set_name(name, room, text + from, n - 1 - from);
    } else if (n > 1 && text[0] == '[' && end != NULL) {
        set_name(name, room, text + 1, (size_t)(end - text) - 1);
    } else if (bar != NULL) {
        size_t length = (size_t)(bar - text);
        while (length > 0 && text[length - 1] == ' ')
            length--;
        set_name(name, room, text, length);
    }
}

static void clear(struct sim_trace_cycle *c)
{
    *c = (struct sim_trace_cycle){.at_s = NAN,
                                  .wall_ns = NAN,
                                  .quiet_ns = NAN,
                                  .assist_ns = NAN,
                                  .background_ns = NAN,
                                  .idle_ns = NAN,
                                  .gc_share = NAN,
                                  .procs = NAN,
                                  .heap_start = NAN,
                                  .heap_end = NAN,
                                  .live = NAN,
                                  .goal = NAN,
                                  .stack = NAN,
                                  .globals = NAN,
                                  .scan_heap = NAN,
                                  .scan_stack = NAN,
                                  .scan_globals = NAN,
                                  .utilization = NAN,
                                  .cons_mark = NAN,
                                  .estimate = NAN};
}

enum sim_trace_kind sim_trace_parse(const char *text, struct sim_trace_line *out)
{
    const char *begin = text;
    enum sim_trace_kind kind = find_begin(text, &begin);
    out->name[0] = out->expected[0] = 0;
    out->column = 0;
    clear(&out->cycle);
    if (kind == SIM_TRACE_FOREIGN || kind == SIM_TRACE_OTHER)
        return kind;
    struct cursor c = {.at = begin};
    name_of(text, (size_t)(begin - text), out->name, sizeof out->name);
    if (kind == SIM_TRACE_GC)
        parse_gc(&c, &out->cycle);
    else
        parse_pacer(&c, &out->cycle);
    if (!c.bad)
        return kind;
    snprintf(out->expected, sizeof out->expected, "%s", c.expected);
    out->column = (size_t)(c.at - text) + 1;
    return SIM_TRACE_BROKEN;
}
