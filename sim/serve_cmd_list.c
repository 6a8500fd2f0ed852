/* serve_cmd_list.c: commands on lists (serve_command.h). */
#include "sim/serve_command.h"

static void push(struct serve_call *c, bool front)
{
    struct serve_list *l;
    if (!serve_call_make(c, SERVE_LIST, &l))
        return;
    for (int i = 2; i < c->argc; i++)
        serve_list_push(l, front, serve_string_new(serve_arg(c, i)));
    serve_put_int(c->out, (int64_t)l->length);
}

void serve_cmd_lpush(struct serve_call *c) { push(c, true); }
void serve_cmd_rpush(struct serve_call *c) { push(c, false); }

static void pop(struct serve_call *c, bool front)
{
    struct serve_list *l;
    bool several = c->argc == 3;
    int64_t count = 1;
    if (c->argc > 3) {
        serve_wrong_arguments(c);
        return;
    }
    if ((several && !serve_arg_count(c, 2, &count)) || !serve_call_value(c, SERVE_LIST, &l))
        return;
    if (l == NULL) {
        if (several)
            serve_put_array(c->out, -1);
        else
            serve_put_null(c->out);
        return;
    }
    if ((uint64_t)count > l->length)
        count = (int64_t)l->length;
    if (several)
        serve_put_array(c->out, count);
    while (count-- > 0)
        serve_put_string(c->out, serve_list_pop(l, front));
    if (l->length == 0)
        serve_call_drop(c);
}

void serve_cmd_lpop(struct serve_call *c) { pop(c, true); }
void serve_cmd_rpop(struct serve_call *c) { pop(c, false); }

void serve_cmd_llen(struct serve_call *c)
{
    struct serve_list *l;
    if (serve_call_value(c, SERVE_LIST, &l))
        serve_put_int(c->out, l == NULL ? 0 : (int64_t)l->length);
}

void serve_cmd_lrange(struct serve_call *c)
{
    struct serve_list *l;
    struct serve_list_at at;
    int64_t from, to;
    size_t first, count;
    if (!serve_arg_int(c, 2, &from) || !serve_arg_int(c, 3, &to) ||
        !serve_call_value(c, SERVE_LIST, &l))
        return;
    if (l == NULL || !serve_range(from, to, l->length, &first, &count)) {
        serve_put_array(c->out, 0);
        return;
    }
    serve_put_array(c->out, (int64_t)count);
    struct serve_string *s = serve_list_get(l, first, &at);
    for (; count > 0; count--) {
        serve_put_string(c->out, s);
        s = serve_list_next(&at);
    }
}
