/* serve_cmd_key.c: commands on keys of any type: DEL, EXISTS, TYPE and times to expire
 * (serve_command.h). */
#include "sim/serve_command.h"

static struct serve_entry *find(struct serve_call *c)
{
    return serve_store_find(c->store, c->db, c->key);
}

void serve_cmd_del(struct serve_call *c)
{
    int64_t count = 0;
    for (int i = 1; i < c->argc; i++)
        count += serve_store_remove(c->store, c->db, serve_arg_key(c, i));
    serve_put_int(c->out, count);
}

void serve_cmd_exists(struct serve_call *c)
{
    int64_t count = 0;
    for (int i = 1; i < c->argc; i++)
        count += serve_store_find(c->store, c->db, serve_arg_key(c, i)) != NULL;
    serve_put_int(c->out, count);
}

void serve_cmd_type(struct serve_call *c)
{
    struct serve_entry *e = find(c);
    struct serve_value *v = e == NULL ? NULL : e->value;
    serve_put_status(c->out, v == NULL ? "none" : serve_type_name(v->type));
}

/* ---- times ---- */

struct conditions {
    bool if_none, if_any, if_later, if_sooner;
};

/* The words behind the time. False: the error is put. */
static bool conditions(struct serve_call *c, struct conditions *w)
{
    for (int i = 3; i < c->argc; i++) {
        struct serve_text t = serve_arg(c, i);
        if (serve_text_is(t, "nx")) {
            w->if_none = true;
        } else if (serve_text_is(t, "xx")) {
            w->if_any = true;
        } else if (serve_text_is(t, "gt")) {
            w->if_later = true;
        } else if (serve_text_is(t, "lt")) {
            w->if_sooner = true;
        } else {
            serve_put_error(c->out, "ERR Unsupported option %.*s", (int)(t.n < 400 ? t.n : 400),
                            t.at);
            return false;
        }
    }
    if (w->if_none && (w->if_any || w->if_later || w->if_sooner)) {
        serve_put_error(c->out,
                        "ERR NX and XX, GT or LT options at the same time are not compatible");
        return false;
    }
    if (w->if_later && w->if_sooner) {
        serve_put_error(c->out, "ERR GT and LT options at the same time are not compatible");
        return false;
    }
    return true;
}

static bool holds(const struct conditions *w, int64_t old, int64_t ms)
{
    return !(w->if_none && old != 0) && !(w->if_any && old == 0) &&
           !(w->if_later && (old == 0 || ms <= old)) && !(w->if_sooner && old != 0 && ms >= old);
}

static void expire(struct serve_call *c, int64_t base, int64_t unit)
{
    struct conditions w = {0};
    int64_t ms;
    if (!conditions(c, &w) || !serve_arg_int(c, 2, &ms))
        return;
    if (__builtin_mul_overflow(ms, unit, &ms) || __builtin_add_overflow(ms, base, &ms)) {
        serve_put_error(c->out, "ERR invalid expire time in '%s' command", c->command->name);
        return;
    }
    struct serve_entry *e = find(c);
    if (e == NULL || !holds(&w, e->expire_ms, ms)) {
        serve_put_int(c->out, 0);
        return;
    }
    if (ms <= serve_wall_ms())
        serve_call_drop(c);
    else
        serve_store_expire(c->store, c->db, e, ms);
    serve_put_int(c->out, 1);
}

void serve_cmd_expire(struct serve_call *c) { expire(c, serve_wall_ms(), 1000); }
void serve_cmd_pexpire(struct serve_call *c) { expire(c, serve_wall_ms(), 1); }
void serve_cmd_expireat(struct serve_call *c) { expire(c, 0, 1000); }
void serve_cmd_pexpireat(struct serve_call *c) { expire(c, 0, 1); }

/* What is left in ms; -2: no such key, -1: no time. */
static int64_t left(struct serve_call *c)
{
    struct serve_entry *e = find(c);
    if (e == NULL)
        return -2;
    if (e->expire_ms == 0)
        return -1;
    int64_t ms = e->expire_ms - serve_wall_ms();
    return ms < 0 ? 0 : ms;
}

void serve_cmd_pttl(struct serve_call *c) { serve_put_int(c->out, left(c)); }

void serve_cmd_ttl(struct serve_call *c)
{
    int64_t ms = left(c);
    serve_put_int(c->out, ms < 0 ? ms : ms / 1000 + (ms % 1000 >= 500));
}

void serve_cmd_persist(struct serve_call *c)
{
    struct serve_entry *e = find(c);
    bool had = e != NULL && e->expire_ms != 0;
    if (had)
        serve_store_expire(c->store, c->db, e, 0);
    serve_put_int(c->out, had);
}
