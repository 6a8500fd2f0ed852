/* serve_command.h: commands: their table, and what a command's function is given.
 *
 * A command's function runs with the locks of the shards of its keys held (those that first, last
 * and step name), has its number of arguments checked, and puts exactly one reply.
 */
#ifndef HG_SIM_SERVE_COMMAND_H
#define HG_SIM_SERVE_COMMAND_H
#include "sim/serve_client.h"

struct serve_call {
    struct serve_server *server;
    struct serve_store *store;
    struct serve_client *client;
    struct serve_out *out;
    const struct serve_command *command;
    const char *bytes; /* of the request */
    const struct serve_span *span;
    int argc, db;
    struct serve_key key; /* the first one, if the command has keys */
};

enum {
    SERVE_WRITES = 1,
    SERVE_READS = 2,
    SERVE_FAST = 4,
    SERVE_ADMIN = 8,
    SERVE_GROWS = 16 /* needs memory: "denyoom" */
};

struct serve_command {
    const char *name; /* lower case */
    int arity;        /* arguments with the name; -n: n or more */
    void (*run)(struct serve_call *c);
    unsigned flags;
    int first, last, step; /* arguments that are keys; first 0: none; last -1: to the end */
    const char *group, *since, *summary;
};

/* The command of this name, in any case; NULL: there is none. */
const struct serve_command *serve_command_find(struct serve_text name);
/* The commands in alphabetical order, by number; NULL behind the last. */
const struct serve_command *serve_command_at(size_t i);
/* The mask of the shards of all keys of a call, and the first of them. */
uint64_t serve_call_shards(struct serve_call *c);

static inline struct serve_text serve_arg(const struct serve_call *c, int i)
{
    return (struct serve_text){c->bytes + c->span[i].at, c->span[i].n};
}
static inline bool serve_arg_is(const struct serve_call *c, int i, const char *word)
{
    return serve_text_is(serve_arg(c, i), word);
}
static inline struct serve_key serve_arg_key(const struct serve_call *c, int i)
{
    return serve_store_key(c->store, serve_arg(c, i));
}

/* ---- errors that several commands have (serve_call.c) ---- */

void serve_wrong_type(struct serve_call *c);
void serve_syntax_error(struct serve_call *c);
void serve_wrong_arguments(struct serve_call *c);
void serve_not_integer(struct serve_call *c);

/* Numbers in arguments. False: it is none, and the error is put. */
bool serve_arg_int(struct serve_call *c, int i, int64_t *out);
/* 0 or more, as the count of LPOP. */
bool serve_arg_count(struct serve_call *c, int i, int64_t *out);

/* The value of the first key. False: it is of another type, and the error is put. *out NULL: the
 * key is not there. */
bool serve_call_value(struct serve_call *c, enum serve_type type, void *out);
/* S W: the same; a key that is not there gets an empty value, made by the type's function; the
 * caller puts something into it. */
bool serve_call_make(struct serve_call *c, enum serve_type type, void *out);
/* From ranks as clients give them, negative ones counted from the end, to a part of what has this
 * length. False: the part is empty. */
bool serve_range(int64_t from, int64_t to, size_t length, size_t *first, size_t *count);
/* Takes the first key out. */
void serve_call_drop(struct serve_call *c);

/* A word that may follow a command's name, and how many arguments (with the name) there are then;
 * most -1: any number. */
struct serve_subcommand {
    const char *name;
    int least, most;
};
/* Which of n subcommands argument 1 is; -1: none, or the number of arguments is wrong, and the
 * error is put. */
int serve_subcommand(struct serve_call *c, const struct serve_subcommand *known, size_t n);

/* ---- the functions, by file ---- */

/* serve_cmd_string.c */
void serve_cmd_append(struct serve_call *c);
void serve_cmd_decr(struct serve_call *c);
void serve_cmd_decrby(struct serve_call *c);
void serve_cmd_get(struct serve_call *c);
void serve_cmd_incr(struct serve_call *c);
void serve_cmd_incrby(struct serve_call *c);
void serve_cmd_mget(struct serve_call *c);
void serve_cmd_mset(struct serve_call *c);
void serve_cmd_set(struct serve_call *c);
void serve_cmd_strlen(struct serve_call *c);
/* serve_cmd_key.c */
void serve_cmd_del(struct serve_call *c);
void serve_cmd_exists(struct serve_call *c);
void serve_cmd_expire(struct serve_call *c);
void serve_cmd_expireat(struct serve_call *c);
void serve_cmd_pexpire(struct serve_call *c);
void serve_cmd_pexpireat(struct serve_call *c);
void serve_cmd_persist(struct serve_call *c);
void serve_cmd_pttl(struct serve_call *c);
void serve_cmd_ttl(struct serve_call *c);
void serve_cmd_type(struct serve_call *c);
/* serve_cmd_scan.c */
void serve_cmd_dbsize(struct serve_call *c);
void serve_cmd_flushall(struct serve_call *c);
void serve_cmd_flushdb(struct serve_call *c);
void serve_cmd_keys(struct serve_call *c);
void serve_cmd_scan(struct serve_call *c);
/* serve_cmd_list.c */
void serve_cmd_llen(struct serve_call *c);
void serve_cmd_lpop(struct serve_call *c);
void serve_cmd_lpush(struct serve_call *c);
void serve_cmd_lrange(struct serve_call *c);
void serve_cmd_rpop(struct serve_call *c);
void serve_cmd_rpush(struct serve_call *c);
/* serve_cmd_map.c */
void serve_cmd_hdel(struct serve_call *c);
void serve_cmd_hget(struct serve_call *c);
void serve_cmd_hgetall(struct serve_call *c);
void serve_cmd_hlen(struct serve_call *c);
void serve_cmd_hset(struct serve_call *c);
void serve_cmd_sadd(struct serve_call *c);
void serve_cmd_scard(struct serve_call *c);
void serve_cmd_sismember(struct serve_call *c);
void serve_cmd_smembers(struct serve_call *c);
void serve_cmd_spop(struct serve_call *c);
void serve_cmd_srem(struct serve_call *c);
/* serve_cmd_zset.c, serve_cmd_zrange.c */
void serve_cmd_zadd(struct serve_call *c);
void serve_cmd_zcard(struct serve_call *c);
void serve_cmd_zpopmin(struct serve_call *c);
void serve_cmd_zscore(struct serve_call *c);
void serve_cmd_zrange(struct serve_call *c);
/* serve_cmd_client.c */
void serve_cmd_auth(struct serve_call *c);
void serve_cmd_client(struct serve_call *c);
void serve_cmd_echo(struct serve_call *c);
void serve_cmd_hello(struct serve_call *c);
void serve_cmd_ping(struct serve_call *c);
void serve_cmd_quit(struct serve_call *c);
void serve_cmd_select(struct serve_call *c);
/* serve_cmd_server.c, serve_cmd_command.c, serve_info.c */
void serve_cmd_command(struct serve_call *c);
void serve_cmd_config(struct serve_call *c);
void serve_cmd_info(struct serve_call *c);
void serve_cmd_shutdown(struct serve_call *c);

#endif
