/* joined.c: documents to rows (joined.h).
 *
 *   point   given with a document by a sweep, else those params of the documents that differ
 *           between them; a run that was joined before has a "point" of its own over that
 *   label   a text that a run's row is found by: its point, then its own texts
 *   group   rows with the same labels: repetitions, and seeds
 */
#include "sim/joined.h"
#include "sim/memory.h"
#include "sim/stats.h"
#include <errno.h>
#include <math.h>
#include <string.h>

/* Numbers that count runs and measure nothing. */
static bool counts_runs(const char *name)
{
    return strcmp(name, "repetition") == 0 || strcmp(name, "seed") == 0 ||
           strcmp(name, "seeds") == 0;
}

void sim_joined_init(struct sim_joined *j) { memset(j, 0, sizeof *j); }

static char *copy_text(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = sim_alloc(n, 1);
    memcpy(copy, text, n);
    return copy;
}

static void free_names(char **name, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(name[i]);
    free(name);
}

void sim_joined_free(struct sim_joined *j)
{
    for (size_t i = 0; i < j->rows; i++) {
        free_names(j->row[i].label, j->labels);
        free(j->row[i].figure);
    }
    for (size_t i = 0; i < j->groups; i++) {
        free(j->group[i].figure); /* its labels are its first row's */
        free(j->group[i].low);
        free(j->group[i].high);
    }
    for (size_t i = 0; i < j->documents; i++) {
        json_decref(j->document[i]);
        json_decref(j->point[i]);
    }
    free_names(j->label, j->labels);
    free_names(j->figure, j->figures);
    free(j->unit);
    free(j->row);
    free(j->group);
    free(j->document);
    free(j->point);
    free(j->first);
    sim_joined_init(j);
}

/* ---- documents ---- */

/* What is wrong with a document, or NULL. */
static const char *fault_of(const json_t *d)
{
    const json_t *runs = json_object_get(d, "runs"), *program = json_object_get(d, "program");
    if (!json_is_object(d) || !json_is_string(program) ||
        strncmp(json_string_value(program), "hedge-sim ", 10) != 0)
        return "results of hedge-sim: an object whose \"program\" begins with \"hedge-sim \"";
    if (!json_is_array(runs))
        return "results of hedge-sim: an object with a list of \"runs\"";
    for (size_t i = 0; i < json_array_size(runs); i++)
        if (!json_is_object(json_array_get(runs, i)))
            return "results of hedge-sim: \"runs\" that are all objects";
    return NULL;
}

/* Loads and checks one. NULL: `why` says what was expected. */
static json_t *load(const struct sim_joined *j, const char *path, char *why, size_t room)
{
    json_error_t error;
    FILE *in = fopen(path, "re");
    if (in == NULL) {
        snprintf(why, room, "%s: cannot be opened: %s", path, strerror(errno));
        return NULL;
    }
    json_t *d = json_loadf(in, JSON_REJECT_DUPLICATES, &error);
    fclose(in);
    if (d == NULL) {
        snprintf(why, room, "%s: line %d, column %d: expected JSON: %s", path, error.line,
                 error.column, error.text);
        return NULL;
    }
    const char *fault = fault_of(d);
    const char *program = json_string_value(json_object_get(d, "program"));
    if (fault != NULL)
        snprintf(why, room, "%s: expected %s", path, fault);
    else if (j->program[0] != 0 && strcmp(j->program, program) != 0)
        snprintf(why, room, "%s: expected results of %s, as in %s, not of %.60s", path, j->program,
                 j->first, program);
    else
        return d;
    json_decref(d);
    return NULL;
}

int sim_joined_add(struct sim_joined *j, const char *path, json_t *point, char *why, size_t room)
{
    json_t *d = load(j, path, why, room);
    if (d == NULL) {
        json_decref(point);
        return -1;
    }
    if (j->documents == 0) {
        snprintf(j->program, sizeof j->program, "%s",
                 json_string_value(json_object_get(d, "program")));
        j->first = copy_text(path);
    }
    j->document = sim_grow(j->document, j->documents + 1, sizeof(json_t *));
    j->point = sim_grow(j->point, j->documents + 1, sizeof(json_t *));
    j->document[j->documents] = d;
    j->point[j->documents++] = point;
    return 0;
}

/* ---- points ---- */

/* A value of params as text, for the caller to free. */
static char *value_text(const json_t *v)
{
    char *text = json_is_string(v)
                     ? copy_text(json_string_value(v))
                     : json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(12));
    return text != NULL ? text : copy_text("");
}

/* Does a param that differs between documents tell points apart? How often something was run does
 * not, nor does a list: what was compared within one document is in its runs. */
static bool differs(const struct sim_joined *j, const char *key, const json_t *value)
{
    static const char *const count[] = {"repetitions", "seed", "seeds"};
    for (size_t i = 0; i < sizeof count / sizeof *count; i++)
        if (strcmp(key, count[i]) == 0)
            return false;
    if (json_is_array(value) || json_is_object(value))
        return false;
    const json_t *first = json_object_get(json_object_get(j->document[0], "params"), key);
    for (size_t i = 1; i < j->documents; i++)
        if (!json_equal(first, json_object_get(json_object_get(j->document[i], "params"), key)))
            return true;
    return false;
}

/* Adds to a document's point what of its params differs from other documents. */
static void point_from_params(const struct sim_joined *j, size_t i, json_t *point)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(j->document[i], "params"), key, value)
    {
        if (!differs(j, key, value))
            continue;
        char *text = value_text(value);
        json_object_set_new(point, key, json_string(text));
        free(text);
    }
}

static json_t *point_of(const struct sim_joined *j, size_t i)
{
    json_t *point = json_object();
    if (j->point[i] != NULL)
        json_object_update(point, j->point[i]);
    else
        point_from_params(j, i, point);
    return point;
}

/* ---- columns ---- */

static size_t find(char *const *name, size_t n, const char *wanted)
{
    size_t i = 0;
    while (i < n && strcmp(name[i], wanted) != 0)
        i++;
    return i;
}

static size_t add_name(char ***name, size_t *n, const char *text)
{
    size_t i = find(*name, *n, text);
    if (i == *n) {
        *name = sim_grow(*name, *n + 1, sizeof **name);
        (*name)[(*n)++] = copy_text(text);
    }
    return i;
}

/* Takes the unit off a key's end. */
static enum sim_unit strip(const char *key, char *out, size_t room)
{
    static const struct {
        const char *end;
        enum sim_unit unit;
        bool keep;
    } ends[] = {{"_ns", SIM_UNIT_NS, false},
                {"_bytes", SIM_UNIT_BYTES, false},
                {"_share", SIM_UNIT_SHARE, true}};
    size_t n = strlen(key);
    snprintf(out, room, "%s", key);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t e = strlen(ends[i].end);
        if (n <= e || strcmp(key + n - e, ends[i].end) != 0)
            continue;
        if (!ends[i].keep && n - e < room)
            out[n - e] = 0;
        return ends[i].unit;
    }
    return SIM_UNIT_PLAIN;
}

static void set_figure(struct sim_joined *j, struct sim_row *r, const char *name,
                       enum sim_unit unit, const json_t *value)
{
    size_t before = j->figures, i = add_name(&j->figure, &j->figures, name);
    if (i == before) {
        j->unit = sim_grow(j->unit, j->figures, sizeof *j->unit);
        j->unit[i] = unit;
    }
    size_t had = r->runs; /* while a row is laid out: its figures so far */
    if (had < j->figures) {
        r->figure = sim_grow(r->figure, j->figures, sizeof *r->figure);
        for (size_t k = had; k < j->figures; k++)
            r->figure[k] = NAN;
        r->runs = j->figures;
    }
    r->figure[i] = json_number_value(value);
}

/* A figure, or two that are an interval. */
static void add_value(struct sim_joined *j, struct sim_row *r, const char *group, const char *key,
                      const json_t *value)
{
    char stem[80], prefix[80] = "", name[200];
    enum sim_unit unit = strip(key, stem, sizeof stem);
    if (group != NULL) {
        enum sim_unit of_group = strip(group, prefix, sizeof prefix);
        unit = unit == SIM_UNIT_PLAIN ? of_group : unit;
    }
    bool bare = prefix[0] == 0 || strcmp(prefix, "latency") == 0;
    snprintf(name, sizeof name, "%s%s%s", bare ? "" : prefix, bare ? "" : "_", stem);
    if (json_is_number(value)) {
        set_figure(j, r, name, unit, value);
        return;
    }
    size_t n = strlen(name);
    for (size_t i = 0; i < 2 && json_array_size(value) == 2; i++) {
        snprintf(name + n, sizeof name - n, i == 0 ? "_low" : "_high");
        if (json_is_number(json_array_get(value, i)))
            set_figure(j, r, name, unit, json_array_get(value, i));
    }
}

static void set_label(struct sim_joined *j, struct sim_row *r, const char *name, const char *text)
{
    size_t i = find(j->label, j->labels, name);
    if (i == j->labels)
        return;
    free(r->label[i]);
    r->label[i] = copy_text(text);
}

static void lay_out(struct sim_joined *j, struct sim_row *r, json_t *run, json_t *point)
{
    const char *key, *inner;
    json_t *value, *v;
    r->label = sim_alloc(j->labels, sizeof *r->label);
    for (size_t i = 0; i < j->labels; i++)
        r->label[i] = copy_text("");
    json_object_foreach(point, key, value) set_label(j, r, key, json_string_value(value));
    json_object_foreach(run, key, value)
    {
        if (strcmp(key, "point") == 0) {
            json_object_foreach(value, inner, v)
            {
                if (json_is_string(v))
                    set_label(j, r, inner, json_string_value(v));
            }
        } else if (json_is_string(value)) {
            set_label(j, r, key, json_string_value(value));
        } else if (json_is_object(value)) {
            json_object_foreach(value, inner, v) add_value(j, r, key, inner, v);
        } else {
            add_value(j, r, NULL, key, value);
        }
    }
}

/* Labels come before rows: a document further on may bring a new one. */
static void collect_labels(struct sim_joined *j, json_t *const *point, bool params)
{
    const char *key;
    json_t *value;
    for (size_t i = 0; i < j->documents; i++) {
        json_t *runs = json_object_get(j->document[i], "runs");
        if (params) {
            json_object_foreach(point[i], key, value) add_name(&j->label, &j->labels, key);
        }
        for (size_t k = 0; k < json_array_size(runs); k++) {
            json_t *run = json_array_get(runs, k);
            if (params) {
                json_object_foreach(json_object_get(run, "point"), key, value)
                {
                    add_name(&j->label, &j->labels, key);
                }
                continue;
            }
            json_object_foreach(run, key, value)
            {
                if (json_is_string(value) && strcmp(key, "gc") != 0)
                    add_name(&j->label, &j->labels, key);
            }
        }
    }
    if (params)
        j->params = j->labels;
}

/* ---- groups ---- */

static bool same_labels(const struct sim_joined *j, const struct sim_row *a,
                        const struct sim_row *b)
{
    for (size_t i = 0; i < j->labels; i++)
        if (strcmp(a->label[i], b->label[i]) != 0)
            return false;
    return true;
}

/* Where a run that has intervals of its own keeps that of each figure: two numbers of figures for
 * each, `figures` where there are none. */
static size_t *find_ends(const struct sim_joined *j)
{
    size_t *end = sim_alloc(2 * j->figures, sizeof *end);
    for (size_t f = 0; f < j->figures; f++) {
        for (size_t i = 0; i < 2; i++) {
            char name[240];
            snprintf(name, sizeof name, "ci95_%s_%s", j->figure[f], i == 0 ? "low" : "high");
            end[2 * f + i] = find(j->figure, j->figures, name);
        }
    }
    return end;
}

/* The interval of figure f of a group of the rows whose n values are given. */
static void set_interval(const struct sim_joined *j, struct sim_row *g, size_t f,
                         const size_t *member, const double *values, size_t n, const size_t *end)
{
    const double *own = j->row[member[0]].figure;
    g->low[f] = g->high[f] = NAN;
    if (n == 1 && end[2 * f] < j->figures && end[2 * f + 1] < j->figures) {
        g->low[f] = own[end[2 * f]];
        g->high[f] = own[end[2 * f + 1]];
    } else {
        sim_median_interval(values, n, &g->low[f], &g->high[f]);
    }
}

/* Makes group g of the n rows member[]. end: as from find_ends. */
static void make_group(struct sim_joined *j, struct sim_row *g, const size_t *member, size_t n,
                       const size_t *end)
{
    double *values = sim_alloc(n, sizeof *values);
    g->label = j->row[member[0]].label;
    g->figure = sim_alloc(j->figures, sizeof *g->figure);
    g->low = sim_alloc(j->figures, sizeof *g->low);
    g->high = sim_alloc(j->figures, sizeof *g->high);
    g->runs = n;
    for (size_t f = 0; f < j->figures; f++) {
        for (size_t i = 0; i < n; i++)
            values[i] = counts_runs(j->figure[f]) ? NAN : j->row[member[i]].figure[f];
        g->figure[f] = sim_median(values, n);
        set_interval(j, g, f, member, values, n, end);
    }
    free(values);
}

static void make_groups(struct sim_joined *j)
{
    size_t *member = sim_alloc(j->rows, sizeof *member), *end = find_ends(j);
    bool *taken = sim_alloc(j->rows, sizeof *taken);
    j->group = sim_alloc(j->rows, sizeof *j->group);
    for (size_t i = 0; i < j->rows; i++) {
        size_t n = 0;
        if (taken[i])
            continue;
        for (size_t k = i; k < j->rows; k++) {
            if (taken[k] || !same_labels(j, &j->row[i], &j->row[k]))
                continue;
            taken[k] = true;
            member[n++] = k;
        }
        make_group(j, &j->group[j->groups++], member, n, end);
    }
    free(member);
    free(end);
    free(taken);
}

/* Rows made before the last figure was seen get their missing ones. */
static void even_out(struct sim_joined *j)
{
    for (size_t i = 0; i < j->rows; i++) {
        struct sim_row *r = &j->row[i];
        r->figure = sim_grow(r->figure, j->figures, sizeof *r->figure);
        for (size_t k = r->runs; k < j->figures; k++)
            r->figure[k] = NAN;
        r->runs = 1;
    }
}

void sim_joined_finish(struct sim_joined *j)
{
    json_t **point = sim_alloc(j->documents, sizeof *point);
    for (size_t i = 0; i < j->documents; i++) {
        point[i] = point_of(j, i);
        j->rows += json_array_size(json_object_get(j->document[i], "runs"));
    }
    collect_labels(j, point, true);
    collect_labels(j, point, false);
    j->row = sim_alloc(j->rows, sizeof *j->row);
    size_t row = 0;
    for (size_t i = 0; i < j->documents; i++) {
        json_t *runs = json_object_get(j->document[i], "runs");
        for (size_t k = 0; k < json_array_size(runs); k++)
            lay_out(j, &j->row[row++], json_array_get(runs, k), point[i]);
    }
    even_out(j);
    make_groups(j);
    for (size_t i = 0; i < j->documents; i++) {
        json_decref(j->point[i]);
        j->point[i] = point[i];
    }
    free(point);
}

size_t sim_joined_figure(const struct sim_joined *j, const char *name)
{
    return find(j->figure, j->figures, name);
}
