/* serve_cmd_zset.c: ZADD and the other commands on sorted sets, but for ZRANGE
 * (serve_command.h). */
#include "sim/serve_command.h"
#include <math.h>

/* ---- ZADD ---- */

struct zadd {
    bool if_absent, if_present, if_greater, if_less, count_changed, increment;
    int first; /* the argument with the first score */
    int64_t added, changed;
    bool put;     /* increment: the member has the score below now */
    double score; /* of the last member */
};

static void zadd_options(const struct serve_call *c, struct zadd *z)
{
    for (z->first = 2; z->first < c->argc; z->first++) {
        if (serve_arg_is(c, z->first, "nx"))
            z->if_absent = true;
        else if (serve_arg_is(c, z->first, "xx"))
            z->if_present = true;
        else if (serve_arg_is(c, z->first, "gt"))
            z->if_greater = true;
        else if (serve_arg_is(c, z->first, "lt"))
            z->if_less = true;
        else if (serve_arg_is(c, z->first, "ch"))
            z->count_changed = true;
        else if (serve_arg_is(c, z->first, "incr"))
            z->increment = true;
        else
            return;
    }
}

/* What is wrong with the words before the scores, or NULL. */
static const char *zadd_fault(const struct serve_call *c, const struct zadd *z)
{
    int rest = c->argc - z->first;
    if (rest == 0 || rest % 2 != 0)
        return "ERR syntax error";
    if (z->if_absent && z->if_present)
        return "ERR XX and NX options at the same time are not compatible";
    if ((z->if_greater && (z->if_absent || z->if_less)) || (z->if_less && z->if_absent))
        return "ERR GT, LT, and/or NX options at the same time are not compatible";
    if (z->increment && rest > 2)
        return "ERR INCR option supports a single increment-element pair";
    double score;
    for (int i = z->first; i < c->argc; i += 2)
        if (!serve_double_parse(serve_arg(c, i), &score))
            return "ERR value is not a valid float";
    return NULL;
}

/* One member with its score. False: its new score is not a number. */
static bool zadd_one(struct serve_call *c, struct serve_zset *set, struct zadd *z, int i)
{
    struct serve_key k = serve_arg_key(c, i + 1);
    struct serve_entry *e = serve_dict_find(&set->dict, k.text, k.hash);
    bool parsed = serve_double_parse(serve_arg(c, i), &z->score);
    if (!parsed)
        return false; /* zadd_fault has seen that it is one */
    z->score += 0.0;  /* -0 is shown as 0, as by Redis for a set that is small */
    z->put = e == NULL ? !z->if_present : !z->if_absent;
    if (!z->put)
        return true;
    if (e == NULL) {
        serve_zset_insert(set, k.text, k.hash, z->score);
        z->added++;
        return true;
    }
    if (z->increment)
        z->score += e->score;
    if (isnan(z->score))
        return false;
    if ((z->if_greater && z->score <= e->score) || (z->if_less && z->score >= e->score)) {
        z->put = false;
    } else if (z->score != e->score) {
        serve_zset_move(set, e, z->score);
        z->changed++;
    }
    return true;
}

static void zadd_reply(struct serve_call *c, const struct zadd *z)
{
    if (z->increment && z->put)
        serve_put_double(c->out, z->score);
    else if (z->increment)
        serve_put_null(c->out);
    else
        serve_put_int(c->out, z->added + (z->count_changed ? z->changed : 0));
}

void serve_cmd_zadd(struct serve_call *c)
{
    struct serve_zset *set;
    struct zadd z = {0};
    zadd_options(c, &z);
    const char *fault = zadd_fault(c, &z);
    if (fault != NULL) {
        serve_put_error(c->out, "%s", fault);
        return;
    }
    if (!serve_call_value(c, SERVE_ZSET, &set))
        return;
    if (set != NULL || !z.if_present) {
        if (set == NULL && !serve_call_make(c, SERVE_ZSET, &set))
            return;
        for (int i = z.first; i < c->argc; i += 2)
            if (!zadd_one(c, set, &z, i)) {
                serve_put_error(c->out, "ERR resulting score is not a number (NaN)");
                return;
            }
    }
    zadd_reply(c, &z);
}

/* ---- the others ---- */

void serve_cmd_zcard(struct serve_call *c)
{
    struct serve_zset *set;
    if (serve_call_value(c, SERVE_ZSET, &set))
        serve_put_int(c->out, set == NULL ? 0 : (int64_t)set->dict.count);
}

void serve_cmd_zscore(struct serve_call *c)
{
    struct serve_zset *set;
    if (!serve_call_value(c, SERVE_ZSET, &set))
        return;
    struct serve_key k = serve_arg_key(c, 2);
    struct serve_entry *e = set == NULL ? NULL : serve_dict_find(&set->dict, k.text, k.hash);
    if (e == NULL)
        serve_put_null(c->out);
    else
        serve_put_double(c->out, e->score);
}

void serve_cmd_zpopmin(struct serve_call *c)
{
    struct serve_zset *set;
    int64_t count = 1;
    if (c->argc > 3) {
        serve_syntax_error(c);
        return;
    }
    if ((c->argc == 3 && !serve_arg_count(c, 2, &count)) || !serve_call_value(c, SERVE_ZSET, &set))
        return;
    if (set == NULL)
        count = 0;
    else if ((uint64_t)count > set->dict.count)
        count = (int64_t)set->dict.count;
    serve_put_array(c->out, 2 * count);
    while (count-- > 0) {
        struct serve_entry *e = serve_zset_at(set, 0);
        serve_put_bulk(c->out, serve_entry_key(e));
        serve_put_double(c->out, e->score);
        serve_zset_remove(set, e);
    }
    if (set != NULL && set->dict.count == 0)
        serve_call_drop(c);
}
