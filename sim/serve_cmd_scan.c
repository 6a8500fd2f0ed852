/* serve_cmd_scan.c: commands on all keys of a database: SCAN, KEYS, DBSIZE, FLUSHDB, FLUSHALL
 * (serve_command.h). They hold no lock when they begin; the store takes one shard at a time. */
#include "sim/serve_command.h"
#include <hedge/task.h>
#include <stdio.h>
#include <stdlib.h>

/* What keys are asked for, and how many were put. */
struct wanted {
    struct serve_out *out;
    struct serve_text pattern, type;
    bool all, any_type; /* no pattern, no type */
    int64_t count;
};

static void put_key(void *arg, struct serve_entry *e)
{
    struct wanted *w = arg;
    struct serve_value *v = e->value;
    if (!w->any_type && !serve_text_is(w->type, serve_type_name(v->type)))
        return;
    if (!w->all && !serve_glob(w->pattern, serve_entry_key(e)))
        return;
    serve_put_bulk(w->out, serve_entry_key(e));
    w->count++;
}

void serve_cmd_keys(struct serve_call *c)
{
    struct wanted w = {.out = c->out, .pattern = serve_arg(c, 1), .any_type = true};
    struct serve_block *header = serve_put_later(c->out);
    uint64_t cursor = 0;
    w.all = serve_text_is(w.pattern, "*");
    do {
        cursor = serve_store_scan(c->store, c->db, cursor, put_key, &w);
        hg_safepoint();
    } while (cursor != 0);
    serve_set_array(c->out, header, w.count);
}

/* The cursor, as strtoul reads it. */
static bool parse_cursor(struct serve_text t, uint64_t *cursor)
{
    char text[24], *end;
    if (t.n == 0 || t.n >= sizeof text || t.at[0] == ' ')
        return false;
    memcpy(text, t.at, t.n);
    text[t.n] = 0;
    *cursor = strtoull(text, &end, 10);
    return *end == 0 && (size_t)(end - text) == t.n;
}

/* The options of SCAN. False: the error is put. */
static bool scan_options(struct serve_call *c, struct wanted *w, int64_t *count)
{
    for (int i = 2; i < c->argc; i += 2) {
        if (i + 1 == c->argc) {
            serve_syntax_error(c);
            return false;
        }
        if (serve_arg_is(c, i, "count")) {
            if (!serve_arg_int(c, i + 1, count))
                return false;
            if (*count < 1) {
                serve_syntax_error(c);
                return false;
            }
        } else if (serve_arg_is(c, i, "match")) {
            w->pattern = serve_arg(c, i + 1);
            w->all = serve_text_is(w->pattern, "*");
        } else if (serve_arg_is(c, i, "type")) {
            w->type = serve_arg(c, i + 1);
            w->any_type = false;
        } else {
            serve_syntax_error(c);
            return false;
        }
    }
    return true;
}

void serve_cmd_scan(struct serve_call *c)
{
    struct wanted w = {.all = true, .any_type = true};
    struct serve_out *out = c->out;
    uint64_t cursor;
    int64_t count = 10;
    char text[24];
    if (!parse_cursor(serve_arg(c, 1), &cursor)) {
        serve_put_error(out, "ERR invalid cursor");
        return;
    }
    if (!scan_options(c, &w, &count))
        return;
    w.out = out;
    /* The cursor comes first in the reply and is known last. */
    serve_put_array(out, 2);
    struct serve_block *place = serve_put_later(out);
    struct serve_block *header = serve_put_later(out);
    int64_t steps = count > INT64_MAX / 10 ? INT64_MAX : count * 10;
    do {
        cursor = serve_store_scan(c->store, c->db, cursor, put_key, &w);
        hg_safepoint();
    } while (cursor != 0 && w.count < count && --steps > 0);
    int n = snprintf(text, sizeof text, "%llu", (unsigned long long)cursor);
    serve_set_bulk(out, place, (struct serve_text){text, (size_t)n});
    serve_set_array(out, header, w.count);
}

void serve_cmd_dbsize(struct serve_call *c)
{
    serve_put_int(c->out, (int64_t)serve_store_count(c->store, c->db, NULL));
}

static void flush(struct serve_call *c, int db)
{
    if (c->argc > 2 ||
        (c->argc == 2 && !serve_arg_is(c, 1, "sync") && !serve_arg_is(c, 1, "async"))) {
        serve_syntax_error(c);
        return;
    }
    serve_store_flush(c->store, db);
    serve_put_status(c->out, "OK");
}

void serve_cmd_flushdb(struct serve_call *c) { flush(c, c->db); }
void serve_cmd_flushall(struct serve_call *c) { flush(c, -1); }
