/* serve_cmd_zrange.c: ZRANGE, by rank, by score and by member, both ways (serve_command.h). */
#include "sim/serve_command.h"
#include <ctype.h>

struct zrange {
    bool by_score, by_member, back, scores;
    int64_t skip, most; /* most -1: all */
    int64_t from, to;   /* ranks */
    struct serve_zrange range;
};

/* The words behind the ends. False: the error is put. */
static bool options(struct serve_call *c, struct zrange *z)
{
    bool limit = false;
    for (int i = 4; i < c->argc; i++) {
        if (serve_arg_is(c, i, "withscores")) {
            z->scores = true;
        } else if (serve_arg_is(c, i, "limit") && i + 2 < c->argc) {
            if (!serve_arg_int(c, i + 1, &z->skip) || !serve_arg_int(c, i + 2, &z->most))
                return false;
            limit = true;
            i += 2;
        } else if (serve_arg_is(c, i, "rev")) {
            z->back = true;
        } else if (serve_arg_is(c, i, "byscore") && !z->by_member) {
            z->by_score = true;
        } else if (serve_arg_is(c, i, "bylex") && !z->by_score) {
            z->by_member = true;
        } else {
            serve_syntax_error(c);
            return false;
        }
    }
    if (limit && !z->by_score && !z->by_member) {
        serve_put_error(c->out, "ERR syntax error, LIMIT is only supported in combination with "
                                "either BYSCORE or BYLEX");
        return false;
    }
    if (z->scores && z->by_member) {
        serve_put_error(c->out, "ERR syntax error, WITHSCORES not supported in combination with "
                                "BYLEX");
        return false;
    }
    return true;
}

/* 1.5, (1.5, -inf. Redis takes nothing for 0, and blanks before a number. */
static bool score_bound(struct serve_text t, struct serve_zbound *b)
{
    b->open = t.n > 0 && t.at[0] == '(';
    if (b->open)
        t = (struct serve_text){t.at + 1, t.n - 1};
    if (t.n == 0)
        return true;
    while (t.n > 1 && isspace((unsigned char)t.at[0]))
        t = (struct serve_text){t.at + 1, t.n - 1};
    return serve_double_parse(t, &b->score);
}

/* [abc, (abc, - and + */
static bool member_bound(struct serve_text t, struct serve_zbound *b)
{
    if (t.n == 1 && (t.at[0] == '-' || t.at[0] == '+')) {
        b->infinite = t.at[0] == '-' ? -1 : 1;
        return true;
    }
    b->open = t.n > 0 && t.at[0] == '(';
    if (t.n == 0 || (t.at[0] != '[' && t.at[0] != '('))
        return false;
    b->member = (struct serve_text){t.at + 1, t.n - 1};
    return true;
}

/* The two ends. False: the error is put. */
static bool ends(struct serve_call *c, struct zrange *z)
{
    int low = z->back ? 3 : 2, high = z->back ? 2 : 3;
    struct serve_zrange *r = &z->range;
    r->by_member = z->by_member;
    if (z->by_score) {
        if (score_bound(serve_arg(c, low), &r->low) && score_bound(serve_arg(c, high), &r->high))
            return true;
        serve_put_error(c->out, "ERR min or max is not a float");
        return false;
    }
    if (z->by_member) {
        if (member_bound(serve_arg(c, low), &r->low) && member_bound(serve_arg(c, high), &r->high))
            return true;
        serve_put_error(c->out, "ERR min or max not valid string range item");
        return false;
    }
    return serve_arg_int(c, 2, &z->from) && serve_arg_int(c, 3, &z->to);
}

static void put_member(struct serve_call *c, const struct zrange *z, const struct serve_entry *e)
{
    serve_put_bulk(c->out, serve_entry_key(e));
    if (z->scores)
        serve_put_double(c->out, e->score);
}

static void by_rank(struct serve_call *c, const struct zrange *z, const struct serve_zset *set)
{
    size_t first, count;
    if (set == NULL || !serve_range(z->from, z->to, set->dict.count, &first, &count)) {
        serve_put_array(c->out, 0);
        return;
    }
    serve_put_array(c->out, (int64_t)(z->scores ? 2 * count : count));
    struct serve_entry *e = serve_zset_at(set, z->back ? set->dict.count - 1 - first : first);
    for (; count > 0; count--, e = serve_zset_step(e, z->back))
        put_member(c, z, e);
}

static void by_range(struct serve_call *c, const struct zrange *z, const struct serve_zset *set)
{
    int64_t n = 0, skip = z->skip;
    struct serve_block *header = serve_put_later(c->out);
    struct serve_entry *e =
        set == NULL || skip < 0 ? NULL : serve_zset_seek(set, &z->range, z->back);
    for (; e != NULL && skip > 0 && serve_zset_inside(e, &z->range); skip--)
        e = serve_zset_step(e, z->back);
    for (; e != NULL && (z->most < 0 || n < z->most) && serve_zset_inside(e, &z->range); n++) {
        put_member(c, z, e);
        e = serve_zset_step(e, z->back);
    }
    serve_set_array(c->out, header, z->scores ? 2 * n : n);
}

void serve_cmd_zrange(struct serve_call *c)
{
    struct serve_zset *set;
    struct zrange z = {.most = -1};
    if (!options(c, &z) || !ends(c, &z) || !serve_call_value(c, SERVE_ZSET, &set))
        return;
    if (z.by_score || z.by_member)
        by_range(c, &z, set);
    else
        by_rank(c, &z, set);
}
