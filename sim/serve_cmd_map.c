/* serve_cmd_map.c: commands on sets and hashes (serve_command.h): both are dicts, of members
 * without and of fields with a value. */
#include "sim/serve_command.h"

/* The dict's entry of argument i, or NULL. */
static struct serve_entry *find(struct serve_call *c, const struct serve_map *m, int i)
{
    struct serve_key k = serve_arg_key(c, i);
    return m == NULL ? NULL : serve_dict_find(&m->dict, k.text, k.hash);
}

/* The number of entries, for SCARD and HLEN. */
static void put_count(struct serve_call *c, enum serve_type type)
{
    struct serve_map *m;
    if (serve_call_value(c, type, &m))
        serve_put_int(c->out, m == NULL ? 0 : (int64_t)m->dict.count);
}

/* Removes the arguments from 2 on, for SREM and HDEL. */
static void remove_all(struct serve_call *c, enum serve_type type)
{
    struct serve_map *m;
    int64_t removed = 0;
    if (!serve_call_value(c, type, &m))
        return;
    for (int i = 2; m != NULL && i < c->argc; i++) {
        struct serve_key k = serve_arg_key(c, i);
        removed += serve_dict_remove(&m->dict, k.text, k.hash) != NULL;
    }
    if (m != NULL && m->dict.count == 0)
        serve_call_drop(c);
    serve_put_int(c->out, removed);
}

/* ---- sets ---- */

void serve_cmd_sadd(struct serve_call *c)
{
    struct serve_map *m;
    int64_t added = 0;
    if (!serve_call_make(c, SERVE_SET, &m))
        return;
    for (int i = 2; i < c->argc; i++) {
        struct serve_key k = serve_arg_key(c, i);
        if (serve_dict_find(&m->dict, k.text, k.hash) == NULL) {
            serve_dict_insert(&m->dict, k.text, k.hash);
            added++;
        }
    }
    serve_put_int(c->out, added);
}

void serve_cmd_srem(struct serve_call *c) { remove_all(c, SERVE_SET); }
void serve_cmd_scard(struct serve_call *c) { put_count(c, SERVE_SET); }

void serve_cmd_sismember(struct serve_call *c)
{
    struct serve_map *m;
    if (serve_call_value(c, SERVE_SET, &m))
        serve_put_int(c->out, find(c, m, 2) != NULL);
}

void serve_cmd_smembers(struct serve_call *c)
{
    struct serve_map *m;
    struct serve_walk w;
    if (!serve_call_value(c, SERVE_SET, &m))
        return;
    serve_put_array(c->out, m == NULL ? 0 : (int64_t)m->dict.count);
    for (struct serve_entry *e = m == NULL ? NULL : serve_dict_first(&m->dict, &w); e != NULL;
         e = serve_dict_next(&m->dict, &w))
        serve_put_bulk(c->out, serve_entry_key(e));
}

static void pop_member(struct serve_call *c, struct serve_map *m)
{
    struct serve_entry *e = serve_dict_any(&m->dict, serve_store_random(c->store));
    serve_dict_remove(&m->dict, serve_entry_key(e), e->hash);
    serve_put_bulk(c->out, serve_entry_key(e));
}

void serve_cmd_spop(struct serve_call *c)
{
    struct serve_map *m;
    bool several = c->argc == 3;
    int64_t count = 1;
    if (c->argc > 3) {
        serve_syntax_error(c);
        return;
    }
    if ((several && !serve_arg_count(c, 2, &count)) || !serve_call_value(c, SERVE_SET, &m))
        return;
    if (m == NULL)
        count = 0;
    else if ((uint64_t)count > m->dict.count)
        count = (int64_t)m->dict.count;
    if (several)
        serve_put_array(c->out, count);
    else if (count == 0)
        serve_put_null(c->out);
    while (count-- > 0)
        pop_member(c, m);
    if (m != NULL && m->dict.count == 0)
        serve_call_drop(c);
}

/* ---- hashes ---- */

void serve_cmd_hset(struct serve_call *c)
{
    struct serve_map *m;
    int64_t added = 0;
    if (c->argc % 2 != 0) {
        serve_wrong_arguments(c);
        return;
    }
    if (!serve_call_make(c, SERVE_HASH, &m))
        return;
    for (int i = 2; i < c->argc; i += 2) {
        struct serve_key k = serve_arg_key(c, i);
        struct serve_string *s = serve_string_new(serve_arg(c, i + 1));
        struct serve_entry *e = serve_dict_find(&m->dict, k.text, k.hash);
        added += e == NULL;
        if (e == NULL)
            e = serve_dict_insert(&m->dict, k.text, k.hash);
        hg_ref_store(&e->value, s);
    }
    serve_put_int(c->out, added);
}

void serve_cmd_hget(struct serve_call *c)
{
    struct serve_map *m;
    if (!serve_call_value(c, SERVE_HASH, &m))
        return;
    struct serve_entry *e = find(c, m, 2);
    serve_put_string(c->out, e == NULL ? NULL : e->value);
}

void serve_cmd_hdel(struct serve_call *c) { remove_all(c, SERVE_HASH); }
void serve_cmd_hlen(struct serve_call *c) { put_count(c, SERVE_HASH); }

void serve_cmd_hgetall(struct serve_call *c)
{
    struct serve_map *m;
    struct serve_walk w;
    if (!serve_call_value(c, SERVE_HASH, &m))
        return;
    serve_put_array(c->out, m == NULL ? 0 : 2 * (int64_t)m->dict.count);
    for (struct serve_entry *e = m == NULL ? NULL : serve_dict_first(&m->dict, &w); e != NULL;
         e = serve_dict_next(&m->dict, &w)) {
        serve_put_bulk(c->out, serve_entry_key(e));
        serve_put_string(c->out, e->value);
    }
}
