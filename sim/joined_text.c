/* joined_text.c: joined results as one table, and the answer to --want. */
#include "sim/expr.h"
#include "sim/joined.h"
#include "sim/stats.h"
#include "sim/text.h"
#include <math.h>
#include <string.h>

#define WIDTH    79
#define CELL     13
#define SHORTEST 5  /* of the ways to write an interval's end */
#define LABEL    20 /* the longest label that is printed whole; of others, such as paths, the end */

/* The figures of kv, scale and pacer that answer most questions; others are in JSON and CSV. */
static const char *const telling[] = {
    "p50",
    "p99",
    "p999",
    "late_cycles_share",
    "assist_cycles_share",
    "assist_share",
    "extra_cycles_share",
    "max_rss",
    "gc_cpu_share",
    "peak_heap",
    "overshoot_p99",
    "heap_over_live",
    "peak_over_goal",
    "cycles_to_release",
    "cycles",
    "achieved_rate",
};

size_t sim_joined_shown(const struct sim_joined *j, size_t *show, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i < sizeof telling / sizeof *telling && n < most; i++) {
        size_t f = sim_joined_figure(j, telling[i]);
        if (f < j->figures)
            show[n++] = f;
    }
    for (size_t f = 0; n == 0 && f < j->figures && f < most; f++)
        show[f] = f;
    if (n == 0)
        n = j->figures < most ? j->figures : most;
    return n;
}

const char *sim_joined_text(double v, enum sim_unit unit, char *buffer)
{
    if (isnan(v))
        return "-";
    switch (unit) {
    case SIM_UNIT_NS:
        return text_ms(v, buffer);
    case SIM_UNIT_BYTES:
        snprintf(buffer, 32, "%.1f", v / 1048576);
        break;
    case SIM_UNIT_SHARE:
        snprintf(buffer, 32, "%.2f", fabs(v) < 0.00005 ? 0 : 100 * v);
        break;
    case SIM_UNIT_PLAIN:
        snprintf(buffer, 32, fabs(v) >= 1000 ? "%.0f" : "%.4g", v);
        break;
    }
    return buffer;
}

/* ---- intervals ---- */

/* In the unit in which it is printed. */
static double in_unit(double v, enum sim_unit unit)
{
    static const double of[] = {[SIM_UNIT_PLAIN] = 1,
                                [SIM_UNIT_NS] = 1e6,
                                [SIM_UNIT_BYTES] = 1048576,
                                [SIM_UNIT_SHARE] = 0.01};
    return v / of[unit];
}

/* Text k of v, the later ones shorter; each of two ends is written with the same k. */
static const char *shorter(double v, enum sim_unit unit, int k, char *buffer)
{
    double u = in_unit(v, unit);
    if (k == 0)
        return sim_joined_text(v, unit, buffer);
    if (k == SHORTEST)
        return text_short(u, buffer);
    int decimals = fabs(u) < 1000 ? SHORTEST - 1 - k : 0;
    snprintf(buffer, 32, "%.*f", decimals, fabs(u) < 0.5 * pow(10, -decimals) ? 0 : u);
    return buffer;
}

const char *sim_joined_interval(const struct sim_row *group, size_t figure, enum sim_unit unit,
                                char *buffer)
{
    char low[32], high[32];
    if (isnan(group->figure[figure]))
        return "";
    if (isnan(group->low[figure]) || isnan(group->high[figure]))
        return "too few";
    for (int k = 0; k <= SHORTEST; k++) {
        shorter(group->low[figure], unit, k, low);
        shorter(group->high[figure], unit, k, high);
        if (strlen(low) + strlen(high) + 2 < CELL)
            break;
    }
    snprintf(buffer, 32, "%.14s..%.14s", low, high);
    return buffer;
}

bool sim_joined_has_interval(const struct sim_joined *j, const size_t *figure, size_t n)
{
    for (size_t g = 0; g < j->groups; g++)
        for (size_t k = 0; k < n; k++)
            if (!isnan(j->group[g].low[figure[k]]))
                return true;
    return false;
}

const char *sim_joined_legend(const struct sim_joined *j, bool intervals, char *buffer, size_t room)
{
    size_t most = 0;
    for (size_t g = 0; g < j->groups; g++)
        most = j->group[g].runs > most ? j->group[g].runs : most;
    buffer[0] = 0;
    if (intervals && most == 1)
        snprintf(buffer, room, "below each figure its 95 %% interval over seeds");
    else if (intervals)
        snprintf(buffer, room, "medians of up to %zu runs, below them their 95 %% intervals", most);
    else if (most > 1)
        snprintf(buffer, room, "medians of up to %zu runs; 95 %% intervals need %d or more", most,
                 SIM_FEWEST_FOR_INTERVAL);
    else if (most == 1)
        snprintf(buffer, room, "single runs; 95 %% intervals need %d or more",
                 SIM_FEWEST_FOR_INTERVAL);
    return buffer;
}

/* ---- the table ---- */

static const char *unit_text(enum sim_unit unit)
{
    static const char *const text[] = {[SIM_UNIT_PLAIN] = "",
                                       [SIM_UNIT_NS] = "ms",
                                       [SIM_UNIT_BYTES] = "MiB",
                                       [SIM_UNIT_SHARE] = "%"};
    return text[unit];
}

/* Has a label one value in all groups? Then it is said once, above the table. */
static bool is_same(const struct sim_joined *j, size_t label)
{
    for (size_t g = 1; g < j->groups; g++)
        if (strcmp(j->group[g].label[label], j->group[0].label[label]) != 0)
            return false;
    return j->groups > 0;
}

static int width_of(const struct sim_joined *j, size_t label)
{
    size_t widest = strlen(j->label[label]);
    for (size_t g = 0; g < j->groups; g++) {
        size_t n = strlen(j->group[g].label[label]);
        widest = n > widest ? n : widest;
    }
    return (int)(widest < LABEL ? widest : LABEL);
}

static void print_label(FILE *out, const struct sim_joined *j, size_t label, const char *text)
{
    size_t n = strlen(text);
    if (n > LABEL)
        fprintf(out, "..%s ", text + n - (LABEL - 2));
    else
        fprintf(out, "%-*s ", width_of(j, label), text);
}

/* Where a name that is too wide for its column is broken in two: at an underscore if one lies well,
 * else where the column ends. */
static size_t break_of(const char *name)
{
    size_t n = strlen(name), at = CELL - 1;
    if (n < CELL)
        return 0;
    while (at > 0 && (name[at] != '_' || n - at - 1 >= CELL))
        at--;
    return at > 0 ? at : CELL - 1;
}

/* Line 0 and 1: the name; 2: its unit. */
static void print_name(FILE *out, const char *name, enum sim_unit unit, int line)
{
    size_t at = break_of(name);
    if (line == 2)
        fprintf(out, " %*s", CELL - 1, unit_text(unit));
    else if (line == 0)
        fprintf(out, " %*.*s", CELL - 1, (int)at, name);
    else
        fprintf(out, " %*.*s", CELL - 1, CELL - 1, name + at + (at > 0 && name[at] == '_'));
}

static void print_head(FILE *out, const struct sim_joined *j, const size_t *show, size_t n)
{
    int line = 1; /* a first line only if a name needs it */
    for (size_t k = 0; k < n; k++)
        if (break_of(j->figure[show[k]]) > 0)
            line = 0;
    for (; line < 3; line++) {
        for (size_t i = 0; i < j->labels; i++)
            if (!is_same(j, i))
                print_label(out, j, i, line == 1 ? j->label[i] : "");
        for (size_t k = 0; k < n; k++)
            print_name(out, j->figure[show[k]], j->unit[show[k]], line);
        fputc('\n', out);
    }
}

static void print_group(FILE *out, const struct sim_joined *j, const struct sim_row *group,
                        const size_t *show, size_t n, bool intervals)
{
    char buffer[32];
    for (int line = 0; line < (intervals ? 2 : 1); line++) {
        for (size_t i = 0; i < j->labels; i++)
            if (!is_same(j, i))
                print_label(out, j, i, line == 0 ? group->label[i] : "");
        for (size_t k = 0; k < n; k++) {
            enum sim_unit unit = j->unit[show[k]];
            fprintf(out, " %*s", CELL - 1,
                    line == 0 ? sim_joined_text(group->figure[show[k]], unit, buffer)
                              : sim_joined_interval(group, show[k], unit, buffer));
        }
        fputc('\n', out);
    }
}

void sim_joined_print(FILE *out, const struct sim_joined *j)
{
    size_t show[8], most;
    char legend[80];
    int used = 0;
    fprintf(out, "%s: %zu run%s of %zu result%s%s\n", j->program, j->rows, j->rows == 1 ? "" : "s",
            j->documents, j->documents == 1 ? "" : "s",
            j->interrupted ? "; not all points were made" : "");
    for (size_t i = 0; i < j->labels; i++) {
        if (is_same(j, i))
            fprintf(out, "%s %.60s everywhere\n", j->label[i], j->group[0].label[i]);
        else
            used += width_of(j, i) + 1;
    }
    if (j->groups == 0)
        return;
    most = used + CELL < WIDTH ? (size_t)((WIDTH - used) / CELL) : 1;
    size_t n = sim_joined_shown(j, show, most < 8 ? most : 8);
    bool intervals = sim_joined_has_interval(j, show, n);
    fputc('\n', out);
    print_head(out, j, show, n);
    for (size_t g = 0; g < j->groups; g++)
        print_group(out, j, &j->group[g], show, n, intervals);
    if (sim_joined_legend(j, intervals, legend, sizeof legend)[0] != 0)
        fprintf(out, "(%s)\n", legend);
}

/* ---- --want ---- */

struct asked {
    const struct sim_joined *j;
    const struct sim_row *group;
};

/* The group at the same point that has another policy. */
static const struct sim_row *beside(const struct asked *a, const char *policy)
{
    size_t p = 0;
    while (p < a->j->labels && strcmp(a->j->label[p], "policy") != 0)
        p++;
    for (size_t g = 0; g < a->j->groups && p < a->j->labels; g++) {
        bool same = strcmp(a->j->group[g].label[p], policy) == 0;
        for (size_t i = 0; i < a->j->labels && same; i++)
            same = i == p || strcmp(a->j->group[g].label[i], a->group->label[i]) == 0;
        if (same)
            return &a->j->group[g];
    }
    return NULL;
}

static int lookup(void *arg, const char *policy, const char *figure, double *out, char *why,
                  size_t room)
{
    const struct asked *a = arg;
    const struct sim_row *row = policy[0] == 0 ? a->group : beside(a, policy);
    size_t f = sim_joined_figure(a->j, figure);
    if (f == a->j->figures) {
        snprintf(why, room, "there is no figure \"%s\" in these results", figure);
        return -1;
    }
    *out = row != NULL ? row->figure[f] : NAN;
    return 0;
}

/* What stands for a point's memory: the whole process where it is known, else the heap, which pacer
 * gives as a multiple of what lives. */
static size_t memory_figure(const struct sim_joined *j)
{
    static const char *const name[] = {"max_rss", "peak_memory", "peak_heap", "heap_over_live"};
    size_t f = j->figures;
    for (size_t i = 0; i < sizeof name / sizeof *name && f == j->figures; i++)
        f = sim_joined_figure(j, name[i]);
    return f;
}

/* The floor is what others are compared with; nobody runs without a collector. */
static bool is_floor(const struct sim_joined *j, const struct sim_row *group)
{
    for (size_t i = j->params; i < j->labels; i++)
        if (strcmp(j->label[i], "policy") == 0)
            return strcmp(group->label[i], "off") == 0;
    return false;
}

/* Behind a line that has `column` columns already. */
static void print_labels(FILE *out, const struct sim_joined *j, const struct sim_row *row,
                         size_t column)
{
    for (size_t i = 0; i < j->labels; i++) {
        const char *end = i + 1 < j->labels ? "," : "";
        size_t n = strlen(j->label[i]) + strlen(row->label[i]) + strlen(end) + 2;
        bool fits = column + n <= WIDTH;
        fprintf(out, "%s%s %s%s", fits ? " " : "\n  ", j->label[i], row->label[i], end);
        column = fits ? column + n : n + 1;
    }
    fputc('\n', out);
}

int sim_joined_want(FILE *out, const struct sim_joined *j, const char *expression)
{
    char why[400], buffer[32];
    const struct sim_row *best = NULL;
    size_t meet = 0, asked = 0, memory = memory_figure(j);
    if (memory == j->figures) {
        fprintf(stderr, "%s: --want: these results have no figure of memory\n", j->program);
        return -1;
    }
    for (size_t g = 0; g < j->groups; g++) {
        struct asked a = {j, &j->group[g]};
        double v;
        if (is_floor(j, &j->group[g]))
            continue;
        asked++;
        if (sim_expr(expression, lookup, &a, &v, why, sizeof why) != 0) {
            fprintf(stderr, "%s: --want: \"%s\": %s\n", j->program, expression, why);
            return -1;
        }
        if (isnan(v) || v == 0 || isnan(j->group[g].figure[memory]))
            continue;
        meet++;
        if (best == NULL || j->group[g].figure[memory] < best->figure[memory])
            best = &j->group[g];
    }
    fprintf(out, "\n%s holds at %zu of %zu points", expression, meet, asked);
    if (best == NULL) {
        fprintf(out, ".\n");
        return 1;
    }
    const char *unit = unit_text(j->unit[memory]);
    int column = fprintf(out, ";\nwith the least memory (%s %s%s%s) at", j->figure[memory],
                         sim_joined_text(best->figure[memory], j->unit[memory], buffer),
                         unit[0] != 0 ? " " : "", unit);
    print_labels(out, j, best, column > 2 ? (size_t)column - 2 : 0);
    return 0;
}
