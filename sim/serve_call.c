/* serve_call.c: what the functions of commands share (serve_command.h). Errors are in Redis's
 * words: client libraries look for them. */
#include "sim/serve_command.h"
#include <ctype.h>
#include <stdio.h>

void serve_wrong_type(struct serve_call *c)
{
    serve_put_error(c->out, "WRONGTYPE Operation against a key holding the wrong kind of value");
}

void serve_syntax_error(struct serve_call *c) { serve_put_error(c->out, "ERR syntax error"); }

void serve_wrong_arguments(struct serve_call *c)
{
    serve_put_error(c->out, "ERR wrong number of arguments for '%s' command", c->command->name);
}

void serve_not_integer(struct serve_call *c)
{
    serve_put_error(c->out, "ERR value is not an integer or out of range");
}

bool serve_arg_int(struct serve_call *c, int i, int64_t *out)
{
    if (serve_int_parse(serve_arg(c, i), out))
        return true;
    serve_not_integer(c);
    return false;
}

bool serve_arg_count(struct serve_call *c, int i, int64_t *out)
{
    if (serve_int_parse(serve_arg(c, i), out) && *out >= 0)
        return true;
    serve_put_error(c->out, "ERR value is out of range, must be positive");
    return false;
}

bool serve_call_value(struct serve_call *c, enum serve_type type, void *out)
{
    struct serve_entry *e = serve_store_find(c->store, c->db, c->key);
    struct serve_value *v = e == NULL ? NULL : e->value;
    if (v != NULL && v->type != type) {
        serve_wrong_type(c);
        return false;
    }
    *(void **)out = v;
    return true;
}

bool serve_range(int64_t from, int64_t to, size_t length, size_t *first, size_t *count)
{
    int64_t n = (int64_t)length;
    if (from < 0)
        from = from < -n ? 0 : from + n;
    if (to < 0)
        to += n; /* below 0 still: before the first */
    if (to >= n)
        to = n - 1;
    if (from > to)
        return false;
    *first = (size_t)from;
    *count = (size_t)(to - from) + 1;
    return true;
}

static void *make(struct serve_call *c, enum serve_type type)
{
    switch (type) {
    case SERVE_LIST:
        return serve_list_new();
    case SERVE_ZSET:
        return serve_zset_new(serve_store_random(c->store));
    default:
        return serve_map_new(type);
    }
}

bool serve_call_make(struct serve_call *c, enum serve_type type, void *out)
{
    if (!serve_call_value(c, type, out))
        return false;
    if (*(void **)out == NULL) {
        void *made = make(c, type);
        serve_store_put(c->store, c->db, c->key, made);
        *(void **)out = made;
    }
    return true;
}

void serve_call_drop(struct serve_call *c) { serve_store_remove(c->store, c->db, c->key); }

uint64_t serve_call_shards(struct serve_call *c)
{
    const struct serve_command *command = c->command;
    if (command->first == 0)
        return 0;
    int last = command->last < 0 ? c->argc - 1 : command->last;
    uint64_t shards = 0;
    for (int i = last; i >= command->first; i--)
        if ((i - command->first) % command->step == 0) {
            c->key = serve_arg_key(c, i);
            shards |= UINT64_C(1) << serve_key_shard(c->key);
        }
    return shards;
}

int serve_subcommand(struct serve_call *c, const struct serve_subcommand *known, size_t n)
{
    struct serve_text t = serve_arg(c, 1);
    for (size_t i = 0; i < n; i++) {
        if (!serve_text_is(t, known[i].name))
            continue;
        if (c->argc >= known[i].least && (known[i].most < 0 || c->argc <= known[i].most))
            return (int)i;
        serve_put_error(c->out, "ERR wrong number of arguments for '%s|%s' command",
                        c->command->name, known[i].name);
        return -1;
    }
    char upper[32];
    size_t length = 0;
    for (; c->command->name[length] != 0; length++)
        upper[length] = (char)toupper((unsigned char)c->command->name[length]);
    serve_put_error(c->out, "ERR unknown subcommand '%.*s'. Try %.*s HELP.",
                    (int)(t.n < 128 ? t.n : 128), t.at, (int)length, upper);
    return -1;
}
