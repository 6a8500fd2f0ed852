/* sweep_options.c: the options of a sweep, its axes, its points, its jobs as lines (sweep.h). */
#include "sim/memory.h"
#include "sim/sweep.h"
#include <errno.h>
#include <math.h>
#include <string.h>

enum { KEY_SWEEP = 0x5000, KEY_WANT, KEY_EMIT_JOBS };

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "Many points:", 8},
    {"sweep", KEY_SWEEP, "PARAM=...", 0,
     "Run for each value of an option: a:b:step or v1,v2,...; repeated: for all combinations", 8},
    {"want", KEY_WANT, "EXPR", 0,
     "Of the points of a sweep, the one with the least memory for which it holds, as 'p99<=5ms'",
     8},
    {"emit-jobs", KEY_EMIT_JOBS, NULL, 0,
     "Print the command of each point instead of running it (see hedge-sim merge)", 8},
    {0}};

static char *copy_of(const char *text, size_t n)
{
    char *copy = sim_alloc(n + 1, 1);
    memcpy(copy, text, n);
    return copy;
}

static void add_value(struct sim_axis *a, char *value)
{
    a->value = sim_grow(a->value, a->n + 1, sizeof *a->value);
    a->value[a->n++] = value;
}

static void free_axis(struct sim_axis *a)
{
    for (size_t i = 0; i < a->n; i++)
        free(a->value[i]);
    free(a->value);
    free(a->name);
    memset(a, 0, sizeof *a);
}

static int parse_range(const char *text, struct sim_axis *out, char *why, size_t room)
{
    double v[3];
    const char *at = text;
    char *end;
    for (int i = 0; i < 3; i++) {
        v[i] = strtod(at, &end);
        if (end == at || *end != (i < 2 ? ':' : 0) || !isfinite(v[i])) {
            snprintf(why, room, "expected from:to:step, three numbers, not \"%.60s\"", text);
            return -1;
        }
        at = end + 1;
    }
    double steps = floor((v[1] - v[0]) / v[2] + 1e-9);
    if (v[2] == 0 || !(steps >= 0) || steps >= SIM_SWEEP_POINTS) {
        snprintf(why, room,
                 "expected a step that leads from %g to %g in 1 to %d values, not \"%.60s\"", v[0],
                 v[1], SIM_SWEEP_POINTS, text);
        return -1;
    }
    for (int i = 0; i <= (int)steps; i++) {
        char value[40];
        snprintf(value, sizeof value, "%.12g", v[0] + i * v[2]);
        add_value(out, copy_of(value, strlen(value)));
    }
    return 0;
}

static int parse_list(const char *text, struct sim_axis *out, char *why, size_t room)
{
    for (const char *at = text;; at++) {
        size_t n = strcspn(at, ",");
        if (n == 0) {
            snprintf(why, room, "expected values with commas between, not \"%.60s\"", text);
            return -1;
        }
        add_value(out, copy_of(at, n));
        at += n;
        if (*at == 0)
            return 0;
    }
}

/* A range is two colons between numbers; a policy such as "max:5" has one, and "quantile:8:0.9"
 * begins with none. */
static bool is_range(const char *text)
{
    const char *first = strchr(text, ':');
    return first != NULL && strchr(first + 1, ':') != NULL &&
           strchr("+-.0123456789", *text) != NULL;
}

int sim_axis_parse(const char *text, struct sim_axis *out, char *why, size_t room)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");
    memset(out, 0, sizeof *out);
    if (n == 0 || text[0] == '-' || text[n] != '=') {
        snprintf(why, room,
                 "expected an option's name, =, and a:b:step or v1,v2,..., as gogc=100,200, not "
                 "\"%.60s\"",
                 text);
        return -1;
    }
    out->name = copy_of(text, n);
    const char *values = text + n + 1;
    int err =
        is_range(values) ? parse_range(values, out, why, room) : parse_list(values, out, why, room);
    if (err != 0)
        free_axis(out);
    return err;
}

/* Leaves the option that was just parsed out for the children: one word, or two. */
static void leave_out(struct sim_sweep *s, struct argp_state *state, const char *value)
{
    if (s->left_out == NULL) {
        s->left_out = sim_alloc((size_t)state->argc + 1, sizeof *s->left_out);
        s->argc = state->argc;
    }
    s->left_out[state->next - 1] = true;
    if (value != NULL && value == state->argv[state->next - 1])
        s->left_out[state->next - 2] = true;
}

static void add_axis(struct sim_sweep *s, struct argp_state *state, const char *option,
                     const char *text)
{
    char why[240];
    struct sim_axis a;
    if (sim_axis_parse(text, &a, why, sizeof why) != 0)
        argp_error(state, "--%s: %s", option, why);
    for (size_t i = 0; i < s->axes; i++)
        if (strcmp(s->axis[i].name, a.name) == 0)
            argp_error(state, "--%s: expected each option once, not %s twice", option, a.name);
    if (s->axes == SIM_SWEEP_AXES)
        argp_error(state, "--%s: expected at most %d options", option, SIM_SWEEP_AXES);
    s->axis[s->axes++] = a;
    if (sim_sweep_points(s) > SIM_SWEEP_POINTS)
        argp_error(state, "--%s: expected at most %d points", option, SIM_SWEEP_POINTS);
}

void sim_sweep_output(struct sim_sweep *s, struct argp_state *state, const char *option,
                      const char *path)
{
    const char **slot = strcmp(option, "json") == 0  ? &s->json
                        : strcmp(option, "csv") == 0 ? &s->csv
                                                     : &s->report;
    *slot = path;
    leave_out(s, state, path);
}

void sim_sweep_refuse(struct sim_sweep *s, const char *option) { s->refused = option; }

bool sim_sweep_list(struct sim_sweep *s, struct argp_state *state, const char *option,
                    const char *value)
{
    char text[400];
    if (strchr(value, ',') == NULL)
        return false;
    if (snprintf(text, sizeof text, "%s=%s", option, value) >= (int)sizeof text)
        argp_error(state, "--%s: the list is too long", option);
    add_axis(s, state, option, text);
    leave_out(s, state, value);
    return true;
}

static void finish(struct argp_state *state, const struct sim_sweep *s)
{
    if (s->axes > 0 && s->refused != NULL)
        argp_error(state, "--%s: expected without a sweep: each point would replace it",
                   s->refused);
    if (s->axes == 0 && s->emit_jobs)
        argp_error(state, "--emit-jobs: expected with a sweep, as --sweep rate=10000:50000:10000");
    if (s->axes == 0 && s->want != NULL)
        argp_error(state, "--want: expected with a sweep, as --sweep gogc=50,100,200,400");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct sim_sweep *s = state->input;
    switch (key) {
    case KEY_SWEEP:
        add_axis(s, state, "sweep", arg);
        leave_out(s, state, arg);
        return 0;
    case KEY_WANT:
        s->want = arg;
        leave_out(s, state, arg);
        return 0;
    case KEY_EMIT_JOBS:
        s->emit_jobs = true;
        leave_out(s, state, NULL);
        return 0;
    case ARGP_KEY_END:
        finish(state, s);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp sim_sweep_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

void sim_sweep_free(struct sim_sweep *s)
{
    for (size_t i = 0; i < s->axes; i++)
        free_axis(&s->axis[i]);
    free(s->left_out);
    memset(s, 0, sizeof *s);
}

bool sim_sweep_asked(const struct sim_sweep *s) { return s->axes > 0; }

bool sim_sweep_has(const struct sim_sweep *s, const char *option)
{
    for (size_t i = 0; i < s->axes; i++)
        if (strcmp(s->axis[i].name, option) == 0)
            return true;
    return false;
}

size_t sim_sweep_points(const struct sim_sweep *s)
{
    size_t n = 1;
    for (size_t i = 0; i < s->axes && n <= SIM_SWEEP_POINTS; i++)
        n *= s->axis[i].n;
    return n;
}

const char *sim_sweep_value(const struct sim_sweep *s, size_t point, size_t axis)
{
    for (size_t i = s->axes - 1; i > axis; i--)
        point /= s->axis[i].n;
    return s->axis[axis].value[point % s->axis[axis].n];
}

void sim_shell_quote(FILE *out, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "%+,-./:=@_";
    if (*text != 0 && strspn(text, plain) == strlen(text)) {
        fputs(text, out);
        return;
    }
    fputc('\'', out);
    for (; *text != 0; text++)
        fputs(*text == '\'' ? "'\\''" : (char[2]){*text, 0}, out);
    fputc('\'', out);
}
