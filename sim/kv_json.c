/* kv_json.c: a run as JSON: the lines that a child sends its parent, and the document that --json
 * writes.
 *
 * Both use one form of a run, driven by the table of figures, so what a child measured is what the
 * document says. A figure that is not known (NaN) is null. Tables (series, cycles, slowest,
 * histogram) go only from child to parent, which writes them as files of their own.
 *
 * Lines: {"progress": {...}}, {"run": {...}, "tables": {...}}, {"error": "..."}; one JSON text
 * each, no newline within.
 */
#include "sim/kv.h"
#include "sim/memory.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

static json_t *number(double v, bool whole)
{
    if (isnan(v) || isinf(v))
        return json_null();
    return whole && fabs(v) < 9e15 ? json_integer((json_int_t)llround(v)) : json_real(v);
}

static double number_of(const json_t *j)
{
    return json_is_number(j) ? json_number_value(j) : (double)NAN;
}

/* The object `group` within `run`, made if it is not there; group NULL: run itself. */
static json_t *group_of(json_t *run, const char *group)
{
    if (group == NULL)
        return run;
    json_t *g = json_object_get(run, group);
    if (g == NULL) {
        g = json_object();
        json_object_set_new(run, group, g);
    }
    return g;
}

static json_t *blame_json(const struct kv_blame *b)
{
    json_t *j = json_pack("{s:o, s:o}", "requests", number(b->requests, true), "behind_ns",
                          number(b->behind_ns, true));
    for (int p = 0; p < KV_PARTS; p++)
        json_object_set_new(j, kv_part_key[p], number(b->ns[p], true));
    return j;
}

static void blame_from(const json_t *j, struct kv_blame *b)
{
    b->requests = number_of(json_object_get(j, "requests"));
    b->behind_ns = number_of(json_object_get(j, "behind_ns"));
    for (int p = 0; p < KV_PARTS; p++)
        b->ns[p] = number_of(json_object_get(j, kv_part_key[p]));
}

static json_t *run_json(const struct kv_result *r)
{
    json_t *run = json_pack("{s:s, s:s, s:i}", "policy", r->policy, "gc", r->gc ? "on" : "off",
                            "repetition", r->repetition);
    for (int m = 0; m < KV_METRICS; m++) {
        const struct kv_metric_info *info = &kv_metric_info[m];
        json_object_set_new(group_of(run, info->group), info->key,
                            number(r->metric[m], info->whole));
    }
    json_object_set_new(run, "interrupted", json_boolean(r->interrupted));
    json_object_set_new(run, "blame_above_p99",
                        json_pack("{s:o, s:o}", "outside_cycles", blame_json(&r->blame[0]),
                                  "inside_cycles", blame_json(&r->blame[1])));
    return run;
}

static int run_from(json_t *run, struct kv_result *r)
{
    const char *policy, *gc;
    int interrupted;
    json_t *outside, *inside;
    memset(r, 0, sizeof *r);
    if (json_unpack(run, "{s:s, s:s, s:i, s:b, s:{s:o, s:o}}", "policy", &policy, "gc", &gc,
                    "repetition", &r->repetition, "interrupted", &interrupted, "blame_above_p99",
                    "outside_cycles", &outside, "inside_cycles", &inside) != 0 ||
        strlen(policy) >= sizeof r->policy)
        return -1;
    memcpy(r->policy, policy, strlen(policy) + 1);
    r->gc = strcmp(gc, "on") == 0;
    r->interrupted = interrupted;
    for (int m = 0; m < KV_METRICS; m++) {
        const struct kv_metric_info *info = &kv_metric_info[m];
        const json_t *group = info->group == NULL ? run : json_object_get(run, info->group);
        r->metric[m] = number_of(json_object_get(group, info->key));
    }
    blame_from(outside, &r->blame[0]);
    blame_from(inside, &r->blame[1]);
    return 0;
}

static json_t *table_json(const struct kv_table *t)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < t->rows; i++) {
        json_t *row = json_array();
        for (size_t k = 0; k < t->columns; k++)
            json_array_append_new(row, number(t->cell[i * t->columns + k], false));
        json_array_append_new(rows, row);
    }
    return rows;
}

static void table_from(const json_t *rows, size_t columns, struct kv_table *t)
{
    double *cell = sim_alloc(columns, sizeof *cell);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        for (size_t k = 0; k < columns; k++)
            cell[k] = number_of(json_array_get(json_array_get(rows, i), k));
        kv_table_row(t, columns, cell);
    }
    free(cell);
}

/* The text of j with a newline, for the caller to free; j is given up. */
static char *line_of(json_t *j)
{
    char *text = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    if (text == NULL) {
        fprintf(stderr, "hedge-sim: no memory for a run's results\n");
        abort();
    }
    size_t n = strlen(text);
    text = sim_grow(text, n + 2, 1);
    memcpy(text + n, "\n", 2);
    return text;
}

char *kv_json_progress(const struct kv_progress *p)
{
    return line_of(json_pack("{s:{s:s, s:f, s:f, s:f}}", "progress", "phase", p->phase, "done_s",
                             p->done_s, "rate", p->rate, "cycles", p->cycles));
}

char *kv_json_error(const char *text) { return line_of(json_pack("{s:s}", "error", text)); }

char *kv_json_result(const struct kv_result *r)
{
    return line_of(json_pack("{s:o, s:{s:o, s:o, s:o, s:o}}", "run", run_json(r), "tables",
                             "series", table_json(&r->series), "cycles", table_json(&r->cycles),
                             "slowest", table_json(&r->slowest), "histogram",
                             table_json(&r->histogram)));
}

static enum kv_message parse_progress(json_t *j, struct kv_progress *p)
{
    const char *phase;
    if (json_unpack(j, "{s:s, s:F, s:F, s:F}", "phase", &phase, "done_s", &p->done_s, "rate",
                    &p->rate, "cycles", &p->cycles) != 0)
        return KV_MESSAGE_BAD;
    snprintf(p->phase, sizeof p->phase, "%s", phase);
    return KV_MESSAGE_PROGRESS;
}

static enum kv_message parse_result(json_t *run, const json_t *tables, struct kv_result *r)
{
    if (run_from(run, r) != 0)
        return KV_MESSAGE_BAD;
    table_from(json_object_get(tables, "series"), KV_SERIES_COLUMNS, &r->series);
    table_from(json_object_get(tables, "cycles"), KV_CYCLE_COLUMNS, &r->cycles);
    table_from(json_object_get(tables, "slowest"), KV_SLOWEST_COLUMNS, &r->slowest);
    table_from(json_object_get(tables, "histogram"), KV_HIST_COLUMNS, &r->histogram);
    return KV_MESSAGE_RESULT;
}

enum kv_message kv_json_parse(const char *line, struct kv_progress *p, struct kv_result *r,
                              char *error, size_t room)
{
    json_t *j = json_loads(line, 0, NULL), *part;
    enum kv_message kind = KV_MESSAGE_BAD;
    if ((part = json_object_get(j, "progress")) != NULL)
        kind = parse_progress(part, p);
    else if ((part = json_object_get(j, "run")) != NULL)
        kind = parse_result(part, json_object_get(j, "tables"), r);
    else if ((part = json_object_get(j, "error")) != NULL && json_is_string(part)) {
        snprintf(error, room, "%s", json_string_value(part));
        kind = KV_MESSAGE_ERROR;
    }
    json_decref(j);
    return kind;
}

static json_t *params_json(const struct kv_options *o, const struct kv_runs *runs)
{
    double procs = o->procs > 0 || runs->n == 0 ? o->procs : runs->run[0].metric[KV_PROCS];
    json_t *policies = json_array();
    for (int i = 0; i < o->policies; i++)
        json_array_append_new(policies, json_string(o->policy[i].name));
    json_t *j = json_pack(
        "{s:i, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:o}", "conns", o->conns, "rate",
        number(o->rate, o->rate == floor(o->rate)), "read_percent", o->read_percent, "keys",
        o->keys, "value_bytes", o->value_bytes, "garbage_nodes", o->garbage_nodes, "garbage_bytes",
        o->garbage_bytes, "entry_nodes", KV_ENTRY_NODES, "depth", o->depth, "stack_noise",
        number(o->stack_noise, false), "burst_us", number(o->burst_us, false));
    json_object_set_new(j, "net", json_boolean(o->net));
    json_object_set_new(j, "gogc", json_integer(o->gogc));
    json_object_set_new(j, "limit_bytes",
                        o->limit == INT64_MAX ? json_null() : json_integer(o->limit));
    json_object_set_new(j, "procs", number(procs, true));
    json_object_set_new(j, "duration_s", number(o->duration_s, false));
    json_object_set_new(j, "warmup_s", number(o->warmup_s, false));
    json_object_set_new(j, "repetitions", json_integer(o->repetitions));
    json_object_set_new(j, "seed", json_integer((json_int_t)o->seed));
    json_object_set_new(j, "policies", policies);
    for (int i = 0; i < o->mores; i++)
        json_object_set_new(j, o->more[i].name,
                            o->more[i].text != NULL ? json_string(o->more[i].text)
                                                    : number(o->more[i].number, false));
    return j;
}

/* A text that may hold a name from outside: JSON has no bytes that are not UTF-8. */
static json_t *outside_text(const char *text)
{
    json_t *s = json_string(text);
    return s != NULL ? s : json_null();
}

static json_t *recorded_json(const struct kv_options *o)
{
    json_t *notes = json_array();
    for (int i = 0; i < o->notes; i++)
        json_array_append_new(notes, json_pack("{s:s, s:o}", "source", o->note[i].source, "text",
                                               outside_text(o->note[i].text)));
    return json_pack("{s:o, s:o}", "text", outside_text(o->recorded), "notes", notes);
}

int kv_json_document(FILE *out, const struct kv_options *opt, const struct sim_machine *m,
                     const struct kv_runs *runs)
{
    json_t *list = json_array();
    for (int i = 0; i < runs->n; i++)
        json_array_append_new(list, run_json(&runs->run[i]));
    json_t *machine =
        json_pack("{s:i, s:s, s:s, s:s, s:I}", "cpus", m->cpus, "kernel", m->kernel, "cpu", m->cpu,
                  "governor", m->governor, "memory_bytes", (json_int_t)m->memory_bytes);
    json_t *document =
        json_pack("{s:s, s:s, s:o, s:o, s:o}", "program", opt->program, "commit", sim_commit(),
                  "machine", machine, "params", params_json(opt, runs), "runs", list);
    if (document != NULL && runs->skipped[0] != 0)
        json_object_set_new(document, "skipped", json_string(runs->skipped));
    if (document != NULL && opt->recorded != NULL)
        json_object_set_new(document, "recorded", recorded_json(opt));
    int err = document == NULL ||
              json_dumpf(document, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0 ||
              fputc('\n', out) == EOF;
    json_decref(document);
    return err ? -1 : 0;
}
