/* joined_notes.c: joined results of a program that was recorded elsewhere (scale --trace): where
 * its quantities come from.
 *
 * Each document has "recorded": {"text", "notes": [{"source", "text"}]}. Notes that all documents
 * have are told once; those that differ from point to point, since a swept option goes into them,
 * are told with the point.
 */
#include "sim/joined.h"
#include "sim/memory.h"
#include "sim/report.h"
#include <string.h>

#define COLUMNS 3
#define DIFFER  24 /* rows of notes that differ; more are counted */

static json_t *notes_of(const struct sim_joined *j, size_t document)
{
    return json_object_get(json_object_get(j->document[document], "recorded"), "notes");
}

/* A note as one text, for the caller to free. */
static char *key_of(const json_t *note) { return json_dumps(note, JSON_COMPACT | JSON_SORT_KEYS); }

/* In how many documents each note is, by its text. */
static json_t *count_notes(const struct sim_joined *j)
{
    json_t *count = json_object(), *note;
    for (size_t i = 0; i < j->documents; i++) {
        size_t k;
        json_array_foreach(notes_of(j, i), k, note)
        {
            char *key = key_of(note);
            json_int_t before = json_integer_value(json_object_get(count, key));
            json_object_set_new(count, key, json_integer(before + 1));
            free(key);
        }
    }
    return count;
}

static size_t count_of(const json_t *count, const json_t *note)
{
    char *key = key_of(note);
    size_t n = (size_t)json_integer_value(json_object_get(count, key));
    free(key);
    return n;
}

json_t *sim_joined_recorded(const struct sim_joined *j)
{
    size_t k, of = 0;
    json_t *note, *text = NULL;
    while (of < j->documents && json_object_get(j->document[of], "recorded") == NULL)
        of++;
    if (of == j->documents)
        return NULL;
    json_t *common = json_array(), *recorded = json_object(), *count = count_notes(j);
    json_array_foreach(notes_of(j, 0), k, note)
    {
        if (count_of(count, note) == j->documents)
            json_array_append(common, note);
    }
    json_decref(count);
    for (size_t i = 0; i < j->documents; i++) {
        json_t *own = json_object_get(json_object_get(j->document[i], "recorded"), "text");
        text = i == 0 || json_equal(text, own) ? own : NULL;
    }
    json_object_set(recorded, "text", text != NULL ? text : json_null());
    json_object_set_new(recorded, "notes", common);
    return recorded;
}

/* ---- on the page ---- */

/* "gogc 50, rate 1000 and 3 more", for the caller to free. */
static char *point_text(const struct sim_joined *j, size_t document, size_t more)
{
    char *text = NULL;
    size_t length;
    const char *key;
    json_t *value;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return NULL;
    json_object_foreach(j->point[document], key, value)
    {
        fprintf(out, "%s%s %s", ftell(out) > 0 ? ", " : "", key, json_string_value(value));
    }
    if (ftell(out) == 0)
        fprintf(out, "result %zu", document + 1);
    if (more > 0)
        fprintf(out, " and %zu more", more);
    fclose(out);
    return text;
}

struct rows {
    const char **cell;
    char **owned; /* the texts of the last column, NULL: not allocated */
    size_t n, left_out;
};

static void add_row(struct rows *r, const char *source, const char *text, char *at)
{
    r->cell = sim_grow(r->cell, (r->n + 1) * COLUMNS, sizeof *r->cell);
    r->owned = sim_grow(r->owned, r->n + 1, sizeof *r->owned);
    r->cell[r->n * COLUMNS] = source != NULL ? source : "";
    r->cell[r->n * COLUMNS + 1] = text != NULL ? text : "";
    r->cell[r->n * COLUMNS + 2] = at != NULL ? at : "";
    r->owned[r->n++] = at;
}

static void add_note(struct rows *r, json_t *note, char *at)
{
    add_row(r, json_string_value(json_object_get(note, "source")),
            json_string_value(json_object_get(note, "text")), at);
}

/* Those of one document that some lack, each once: `count` forgets what was added. */
static void add_differing(struct rows *r, const struct sim_joined *j, size_t document,
                          json_t *count, size_t most)
{
    size_t k;
    json_t *note;
    json_array_foreach(notes_of(j, document), k, note)
    {
        size_t with = count_of(count, note);
        if (with == 0 || with == j->documents)
            continue;
        char *key = key_of(note);
        json_object_del(count, key);
        free(key);
        if (r->n < most)
            add_note(r, note, point_text(j, document, with - 1));
        else
            r->left_out++;
    }
}

void sim_joined_report_notes(struct sim_report *page, const struct sim_joined *j)
{
    struct rows r = {.n = 0};
    json_t *recorded = sim_joined_recorded(j), *note;
    if (recorded == NULL)
        return;
    json_t *count = count_notes(j);
    const char *text = json_string_value(json_object_get(recorded, "text"));
    size_t k;
    add_row(&r, "source", "quantity", NULL);
    r.cell[COLUMNS - 1] = "at";
    json_array_foreach(json_object_get(recorded, "notes"), k, note)
    {
        add_note(&r, note, NULL);
        r.cell[r.n * COLUMNS - 1] = "everywhere";
    }
    size_t common = r.n;
    for (size_t i = 0; i < j->documents; i++)
        add_differing(&r, j, i, count, common + DIFFER);
    sim_report_heading(page, "The recorded program");
    if (text != NULL)
        sim_report_text(page, text);
    sim_report_table(page, "", COLUMNS, r.n, r.cell);
    if (r.left_out > 0)
        sim_report_textf(page, "%zu more quantities differ from point to point.", r.left_out);
    for (size_t i = 0; i < r.n; i++)
        free(r.owned[i]);
    free(r.cell);
    free(r.owned);
    json_decref(count);
    json_decref(recorded);
}
