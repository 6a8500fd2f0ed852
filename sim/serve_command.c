/* serve_command.c: the table of commands (serve_command.h). It is the only list of them: dispatch,
 * COMMAND and its documentation for redis-cli are made from it. In alphabetical order. */
#include "sim/serve_command.h"

enum { W = SERVE_WRITES, R = SERVE_READS, F = SERVE_FAST, A = SERVE_ADMIN, G = SERVE_GROWS };

/* clang-format off */
static const struct serve_command table[] = {
    {"append", 3, serve_cmd_append, W | G | F, 1, 1, 1, "string", "2.0.0",
     "Appends a string to the value of a key. Creates the key if it doesn't exist."},
    {"auth", -2, serve_cmd_auth, F, 0, 0, 0, "connection", "1.0.0",
     "Authenticates the connection. This server has no passwords."},
    {"client", -2, serve_cmd_client, 0, 0, 0, 0, "connection", "2.4.0",
     "ID, GETNAME, SETNAME, SETINFO, LIST and INFO of connections."},
    {"command", -1, serve_cmd_command, 0, 0, 0, 0, "server", "2.8.13",
     "Describes the commands: COUNT, LIST, INFO, DOCS."},
    {"config", -2, serve_cmd_config, A, 0, 0, 0, "server", "2.0.0",
     "GET shows parameters of the server, RESETSTAT clears its counters."},
    {"dbsize", 1, serve_cmd_dbsize, R | F, 0, 0, 0, "server", "1.0.0",
     "Returns the number of keys in the database."},
    {"decr", 2, serve_cmd_decr, W | G | F, 1, 1, 1, "string", "1.0.0",
     "Decrements the integer value of a key by one."},
    {"decrby", 3, serve_cmd_decrby, W | G | F, 1, 1, 1, "string", "1.0.0",
     "Decrements a number from the integer value of a key."},
    {"del", -2, serve_cmd_del, W, 1, -1, 1, "generic", "1.0.0", "Deletes one or more keys."},
    {"echo", 2, serve_cmd_echo, F, 0, 0, 0, "connection", "1.0.0", "Returns the given string."},
    {"exists", -2, serve_cmd_exists, R | F, 1, -1, 1, "generic", "1.0.0",
     "Determines how many of the keys exist."},
    {"expire", -3, serve_cmd_expire, W | F, 1, 1, 1, "generic", "1.0.0",
     "Sets the expiration time of a key in seconds."},
    {"expireat", -3, serve_cmd_expireat, W | F, 1, 1, 1, "generic", "1.2.0",
     "Sets the expiration time of a key to a Unix timestamp."},
    {"flushall", -1, serve_cmd_flushall, W, 0, 0, 0, "server", "1.0.0",
     "Removes all keys from all databases."},
    {"flushdb", -1, serve_cmd_flushdb, W, 0, 0, 0, "server", "1.0.0",
     "Removes all keys from the current database."},
    {"get", 2, serve_cmd_get, R | F, 1, 1, 1, "string", "1.0.0",
     "Returns the string value of a key."},
    {"hdel", -3, serve_cmd_hdel, W | F, 1, 1, 1, "hash", "2.0.0",
     "Deletes fields of a hash, and the hash with its last one."},
    {"hello", -1, serve_cmd_hello, F, 0, 0, 0, "connection", "6.0.0",
     "Handshakes with the server. It speaks RESP2 only."},
    {"hget", 3, serve_cmd_hget, R | F, 1, 1, 1, "hash", "2.0.0",
     "Returns the value of a field of a hash."},
    {"hgetall", 2, serve_cmd_hgetall, R, 1, 1, 1, "hash", "2.0.0",
     "Returns all fields and values of a hash."},
    {"hlen", 2, serve_cmd_hlen, R | F, 1, 1, 1, "hash", "2.0.0",
     "Returns the number of fields of a hash."},
    {"hset", -4, serve_cmd_hset, W | G | F, 1, 1, 1, "hash", "2.0.0",
     "Creates or changes fields of a hash."},
    {"incr", 2, serve_cmd_incr, W | G | F, 1, 1, 1, "string", "1.0.0",
     "Increments the integer value of a key by one."},
    {"incrby", 3, serve_cmd_incrby, W | G | F, 1, 1, 1, "string", "1.0.0",
     "Increments the integer value of a key by a number."},
    {"info", -1, serve_cmd_info, 0, 0, 0, 0, "server", "1.0.0",
     "Returns figures of the server and of its collector."},
    {"keys", 2, serve_cmd_keys, R, 0, 0, 0, "generic", "1.0.0",
     "Returns all key names that match a pattern."},
    {"llen", 2, serve_cmd_llen, R | F, 1, 1, 1, "list", "1.0.0", "Returns the length of a list."},
    {"lpop", -2, serve_cmd_lpop, W | F, 1, 1, 1, "list", "1.0.0",
     "Removes and returns the first elements of a list."},
    {"lpush", -3, serve_cmd_lpush, W | G | F, 1, 1, 1, "list", "1.0.0",
     "Puts elements in front of a list."},
    {"lrange", 4, serve_cmd_lrange, R, 1, 1, 1, "list", "1.0.0",
     "Returns a range of the elements of a list."},
    {"mget", -2, serve_cmd_mget, R | F, 1, -1, 1, "string", "1.0.0",
     "Returns the string values of one or more keys."},
    {"mset", -3, serve_cmd_mset, W | G, 1, -1, 2, "string", "1.0.1",
     "Sets the string values of one or more keys, all at once."},
    {"persist", 2, serve_cmd_persist, W | F, 1, 1, 1, "generic", "2.2.0",
     "Removes the expiration time of a key."},
    {"pexpire", -3, serve_cmd_pexpire, W | F, 1, 1, 1, "generic", "2.6.0",
     "Sets the expiration time of a key in milliseconds."},
    {"pexpireat", -3, serve_cmd_pexpireat, W | F, 1, 1, 1, "generic", "2.6.0",
     "Sets the expiration time of a key to a Unix timestamp in milliseconds."},
    {"ping", -1, serve_cmd_ping, F, 0, 0, 0, "connection", "1.0.0",
     "Returns PONG, or the given string."},
    {"pttl", 2, serve_cmd_pttl, R | F, 1, 1, 1, "generic", "2.6.0",
     "Returns the expiration time of a key in milliseconds."},
    {"quit", -1, serve_cmd_quit, F, 0, 0, 0, "connection", "1.0.0", "Closes the connection."},
    {"rpop", -2, serve_cmd_rpop, W | F, 1, 1, 1, "list", "1.0.0",
     "Removes and returns the last elements of a list."},
    {"rpush", -3, serve_cmd_rpush, W | G | F, 1, 1, 1, "list", "1.0.0",
     "Puts elements behind a list."},
    {"sadd", -3, serve_cmd_sadd, W | G | F, 1, 1, 1, "set", "1.0.0", "Adds members to a set."},
    {"scan", -2, serve_cmd_scan, R, 0, 0, 0, "generic", "2.8.0",
     "Iterates over the key names in the database."},
    {"scard", 2, serve_cmd_scard, R | F, 1, 1, 1, "set", "1.0.0",
     "Returns the number of members of a set."},
    {"select", 2, serve_cmd_select, F, 0, 0, 0, "connection", "1.0.0",
     "Changes the selected database."},
    {"set", -3, serve_cmd_set, W | G, 1, 1, 1, "string", "1.0.0",
     "Sets the string value of a key, whatever its type was."},
    {"shutdown", -1, serve_cmd_shutdown, A, 0, 0, 0, "server", "1.0.0",
     "Stops the server in order."},
    {"sismember", 3, serve_cmd_sismember, R | F, 1, 1, 1, "set", "1.0.0",
     "Determines whether a member belongs to a set."},
    {"smembers", 2, serve_cmd_smembers, R, 1, 1, 1, "set", "1.0.0",
     "Returns all members of a set."},
    {"spop", -2, serve_cmd_spop, W | F, 1, 1, 1, "set", "1.0.0",
     "Removes and returns random members of a set."},
    {"srem", -3, serve_cmd_srem, W | F, 1, 1, 1, "set", "1.0.0", "Removes members from a set."},
    {"strlen", 2, serve_cmd_strlen, R | F, 1, 1, 1, "string", "2.2.0",
     "Returns the length of a string value."},
    {"ttl", 2, serve_cmd_ttl, R | F, 1, 1, 1, "generic", "1.0.0",
     "Returns the expiration time of a key in seconds."},
    {"type", 2, serve_cmd_type, R | F, 1, 1, 1, "generic", "1.0.0",
     "Determines the type of the value of a key."},
    {"unlink", -2, serve_cmd_del, W | F, 1, -1, 1, "generic", "4.0.0",
     "Deletes one or more keys; here it is DEL."},
    {"zadd", -4, serve_cmd_zadd, W | G | F, 1, 1, 1, "sorted-set", "1.2.0",
     "Adds members to a sorted set, or changes their scores."},
    {"zcard", 2, serve_cmd_zcard, R | F, 1, 1, 1, "sorted-set", "1.2.0",
     "Returns the number of members of a sorted set."},
    {"zpopmin", -2, serve_cmd_zpopmin, W | F, 1, 1, 1, "sorted-set", "5.0.0",
     "Removes and returns the members with the lowest scores."},
    {"zrange", -4, serve_cmd_zrange, R, 1, 1, 1, "sorted-set", "1.2.0",
     "Returns members of a sorted set within a range of ranks, scores or members."},
    {"zscore", 3, serve_cmd_zscore, R | F, 1, 1, 1, "sorted-set", "1.2.0",
     "Returns the score of a member of a sorted set."},
};
/* clang-format on */
#define COMMANDS (sizeof table / sizeof *table)

const struct serve_command *serve_command_at(size_t i) { return i < COMMANDS ? &table[i] : NULL; }

/* Order of a name in any case to one in lower case. */
static int order(struct serve_text t, const char *name)
{
    for (size_t i = 0; i < t.n; i++) {
        int c = (unsigned char)t.at[i], n = (unsigned char)name[i];
        if (c >= 'A' && c <= 'Z')
            c += 'a' - 'A';
        if (c != n || n == 0)
            return n == 0 ? 1 : c - n;
    }
    return name[t.n] == 0 ? 0 : -1;
}

const struct serve_command *serve_command_find(struct serve_text name)
{
    size_t low = 0, high = COMMANDS;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int o = order(name, table[middle].name);
        if (o == 0)
            return &table[middle];
        if (o < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
