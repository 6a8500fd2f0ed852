/* serve_cmd_string.c: SET, GET and the other commands on strings (serve_command.h).
 *
 * A number is a string like any other: INCR makes a new one. An old value is garbage once the key
 * has the new one, and may be on its way to another client still.
 */
#include "sim/serve_command.h"

static bool get(struct serve_call *c, struct serve_string **out)
{
    return serve_call_value(c, SERVE_STRING, out);
}

void serve_cmd_get(struct serve_call *c)
{
    struct serve_string *s;
    if (get(c, &s))
        serve_put_string(c->out, s);
}

void serve_cmd_strlen(struct serve_call *c)
{
    struct serve_string *s;
    if (get(c, &s))
        serve_put_int(c->out, s == NULL ? 0 : (int64_t)s->length);
}

void serve_cmd_append(struct serve_call *c)
{
    struct serve_string *s;
    struct serve_text more = serve_arg(c, 2);
    if (!get(c, &s))
        return;
    if (s != NULL && (int64_t)(s->length + more.n) > SERVE_BULK_MAX) {
        serve_put_error(c->out, "ERR string exceeds maximum allowed size (proto-max-bulk-len)");
        return;
    }
    s = s == NULL ? serve_string_new(more) : serve_string_append(s, more);
    serve_store_put(c->store, c->db, c->key, s);
    serve_put_int(c->out, (int64_t)s->length);
}

/* ---- SET ---- */

struct set_options {
    bool if_absent, if_present, keep_time, get_old;
    int time;      /* the argument with the time; 0: none */
    bool seconds;  /* it is in seconds, else in ms */
    bool absolute; /* it is since 1970, else from now */
};

/* Whether argument i says how its time is meant, the argument behind it. */
static bool is_time(const struct serve_call *c, int i, struct set_options *o)
{
    bool ex = serve_arg_is(c, i, "ex"), exat = serve_arg_is(c, i, "exat");
    if (i + 1 == c->argc || !(ex || exat || serve_arg_is(c, i, "px") || serve_arg_is(c, i, "pxat")))
        return false;
    o->seconds = ex || exat;
    o->absolute = exat || serve_arg_is(c, i, "pxat");
    o->time = i + 1;
    return true;
}

static bool set_options(const struct serve_call *c, struct set_options *o)
{
    for (int i = 3; i < c->argc; i++) {
        if (serve_arg_is(c, i, "nx") && !o->if_present)
            o->if_absent = true;
        else if (serve_arg_is(c, i, "xx") && !o->if_absent)
            o->if_present = true;
        else if (serve_arg_is(c, i, "get"))
            o->get_old = true;
        else if (serve_arg_is(c, i, "keepttl") && o->time == 0)
            o->keep_time = true;
        else if (!o->keep_time && o->time == 0 && is_time(c, i, o))
            i++;
        else
            return false;
    }
    return true;
}

/* When the key is to expire, in ms of wall time; 0: never. False: that is no time. */
static bool set_time(struct serve_call *c, const struct set_options *o, int64_t *ms)
{
    *ms = 0;
    if (o->time == 0)
        return true;
    if (!serve_arg_int(c, o->time, ms))
        return false;
    bool fits = *ms > 0 && !(o->seconds && __builtin_mul_overflow(*ms, (int64_t)1000, ms)) &&
                !(!o->absolute && __builtin_add_overflow(*ms, serve_wall_ms(), ms));
    if (!fits)
        serve_put_error(c->out, "ERR invalid expire time in 'set' command");
    return fits;
}

void serve_cmd_set(struct serve_call *c)
{
    struct set_options o = {0};
    struct serve_string *old;
    int64_t ms;
    if (!set_options(c, &o)) {
        serve_syntax_error(c);
        return;
    }
    if (!set_time(c, &o, &ms) || (o.get_old && !get(c, &old)))
        return;
    if (o.get_old)
        serve_put_string(c->out, old);
    bool there = (o.if_absent || o.if_present) && serve_store_find(c->store, c->db, c->key) != NULL;
    if ((o.if_absent && there) || (o.if_present && !there)) {
        if (!o.get_old)
            serve_put_null(c->out);
        return;
    }
    struct serve_entry *e =
        serve_store_put(c->store, c->db, c->key, serve_string_new(serve_arg(c, 2)));
    if (!o.keep_time)
        serve_store_expire(c->store, c->db, e, ms);
    if (!o.get_old)
        serve_put_status(c->out, "OK");
}

/* ---- several at once ---- */

void serve_cmd_mget(struct serve_call *c)
{
    serve_put_array(c->out, c->argc - 1);
    for (int i = 1; i < c->argc; i++) {
        struct serve_entry *e = serve_store_find(c->store, c->db, serve_arg_key(c, i));
        struct serve_value *v = e == NULL ? NULL : e->value;
        bool string = v != NULL && v->type == SERVE_STRING;
        serve_put_string(c->out, string ? (struct serve_string *)(void *)v : NULL);
    }
}

void serve_cmd_mset(struct serve_call *c)
{
    if (c->argc % 2 == 0) {
        serve_wrong_arguments(c);
        return;
    }
    for (int i = 1; i < c->argc; i += 2) {
        struct serve_string *s = serve_string_new(serve_arg(c, i + 1));
        struct serve_entry *e = serve_store_put(c->store, c->db, serve_arg_key(c, i), s);
        serve_store_expire(c->store, c->db, e, 0);
    }
    serve_put_status(c->out, "OK");
}

/* ---- numbers ---- */

static void add(struct serve_call *c, int64_t by)
{
    struct serve_string *s;
    int64_t v = 0;
    char text[24];
    if (!get(c, &s))
        return;
    if (s != NULL && !serve_int_parse(serve_string_text(s), &v)) {
        serve_not_integer(c);
        return;
    }
    if (__builtin_add_overflow(v, by, &v)) {
        serve_put_error(c->out, "ERR increment or decrement would overflow");
        return;
    }
    size_t n = serve_int_format(v, text);
    serve_store_put(c->store, c->db, c->key, serve_string_new((struct serve_text){text, n}));
    serve_put_int(c->out, v);
}

void serve_cmd_incr(struct serve_call *c) { add(c, 1); }
void serve_cmd_decr(struct serve_call *c) { add(c, -1); }

void serve_cmd_incrby(struct serve_call *c)
{
    int64_t by;
    if (serve_arg_int(c, 2, &by))
        add(c, by);
}

void serve_cmd_decrby(struct serve_call *c)
{
    int64_t by;
    if (!serve_arg_int(c, 2, &by))
        return;
    if (by == INT64_MIN)
        serve_put_error(c->out, "ERR decrement would overflow");
    else
        add(c, -by);
}
