/* test_sim_serve.c: the commands of `hedge-sim serve`: replies, errors in Redis's words, types,
 * times to expire, limits on what a client may hold. The same commands are compared with
 * redis-server in serve.sh; here is what it leaves out, and what needs no network. */
#include "tests/sim/serve_test.h"

#define WRONGTYPE "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
#define NOT_INT   "-ERR value is not an integer or out of range\r\n"
#define SYNTAX    "-ERR syntax error\r\n"

static int script(void *arg)
{
    const struct exchange *x = arg;
    size_t n = 0;
    while (x[n].request != NULL)
        n++;
    struct talk *t = talk_open();
    talk_script(t, x, n);
    talk_close(t);
    return 0;
}
#define SCRIPT(name, ...)                                                 \
    static struct exchange name##_script[] = {__VA_ARGS__, {NULL, NULL}}; \
    Test(sim_serve, name) { talk_run(script, name##_script); }

/* clang-format off */
SCRIPT(connection,
    {"PING", "+PONG\r\n"},
    {"ping x", "$1\r\nx\r\n"},
    {"PING a b", "-ERR wrong number of arguments for 'ping' command\r\n"},
    {"ECHO hello", "$5\r\nhello\r\n"},
    {"echo", "-ERR wrong number of arguments for 'echo' command\r\n"},
    {"NOSUCH a b", "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' \r\n"},
    {"SELECT 15", "+OK\r\n"},
    {"SELECT 16", "-ERR DB index is out of range\r\n"},
    {"SELECT -1", "-ERR DB index is out of range\r\n"},
    {"SELECT x", NOT_INT},
    {"CLIENT GETNAME", "$-1\r\n"},
    {"CLIENT SETNAME me", "+OK\r\n"},
    {"CLIENT GETNAME", "$2\r\nme\r\n"},
    {"CLIENT SETNAME \"a b\"",
     "-ERR Client names cannot contain spaces, newlines or special characters.\r\n"},
    {"CLIENT SETNAME \"\"", "+OK\r\n"},
    {"CLIENT GETNAME", "$-1\r\n"},
    {"CLIENT ID", ":1\r\n"},
    {"CLIENT SETINFO lib-name x", "+OK\r\n"},
    {"CLIENT nonsense", "-ERR unknown subcommand 'nonsense'. Try CLIENT HELP.\r\n"},
    {"CLIENT SETNAME", "-ERR wrong number of arguments for 'client|setname' command\r\n"},
    {"HELLO 3", "-NOPROTO unsupported protocol version\r\n"},
    {"HELLO x", "-ERR Protocol version is not an integer or out of range\r\n"},
    {"COMMAND INFO get nosuch", "*2\r\n*10\r\n$3\r\nget\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n"
     ":1\r\n:1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n*-1\r\n"},
    {"CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"},
    {"CONFIG GET appendonly nosuch", "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n"},
    {"CONFIG GET MaxC*", "*2\r\n$10\r\nmaxclients\r\n$2\r\n10\r\n"},
    {"QUIT", "+OK\r\n"},
    {"PING", ""})

SCRIPT(databases,
    {"SET k 0", "+OK\r\n"},
    {"SELECT 1", "+OK\r\n"},
    {"GET k", "$-1\r\n"},
    {"SET k 1", "+OK\r\n"},
    {"SET l 1", "+OK\r\n"},
    {"DBSIZE", ":2\r\n"},
    {"FLUSHDB", "+OK\r\n"},
    {"DBSIZE", ":0\r\n"},
    {"SELECT 0", "+OK\r\n"},
    {"GET k", "$1\r\n0\r\n"},
    {"FLUSHALL ASYNC", "+OK\r\n"},
    {"FLUSHALL now", SYNTAX},
    {"DBSIZE", ":0\r\n"})

SCRIPT(strings,
    {"SET k v", "+OK\r\n"},
    {"GET k", "$1\r\nv\r\n"},
    {"SET k w NX", "$-1\r\n"},
    {"SET none w XX", "$-1\r\n"},
    {"SET k w XX GET", "$1\r\nv\r\n"},
    {"SET new w NX GET", "$-1\r\n"},
    {"GET new", "$1\r\nw\r\n"},
    {"SET new x NX GET", "$1\r\nw\r\n"},
    {"SET k v NX XX", SYNTAX},
    {"SET k v EX 1 PX 1", SYNTAX},
    {"SET k v EX 1 KEEPTTL", SYNTAX},
    {"SET k v EX", SYNTAX},
    {"SET k v EX x", NOT_INT},
    {"SET k v EX 0", "-ERR invalid expire time in 'set' command\r\n"},
    {"SET k v PX -5", "-ERR invalid expire time in 'set' command\r\n"},
    {"SET k v EX 9223372036854775807", "-ERR invalid expire time in 'set' command\r\n"},
    {"APPEND k xyz", ":4\r\n"},
    {"GET k", "$4\r\nwxyz\r\n"},
    {"STRLEN k", ":4\r\n"},
    {"STRLEN none", ":0\r\n"},
    {"APPEND fresh a", ":1\r\n"},
    {"INCR n", ":1\r\n"},
    {"INCRBY n 41", ":42\r\n"},
    {"DECR n", ":41\r\n"},
    {"DECRBY n 50", ":-9\r\n"},
    {"INCR k", NOT_INT},
    {"SET n 9223372036854775807", "+OK\r\n"},
    {"INCR n", "-ERR increment or decrement would overflow\r\n"},
    {"DECRBY n -9223372036854775808", "-ERR decrement would overflow\r\n"},
    {"MSET a 1 b 2", "+OK\r\n"},
    {"MSET a 1 b", "-ERR wrong number of arguments for 'mset' command\r\n"},
    {"LPUSH l x", ":1\r\n"},
    {"MGET a none b l", "*4\r\n$1\r\n1\r\n$-1\r\n$1\r\n2\r\n$-1\r\n"},
    {"GET l", WRONGTYPE},
    {"APPEND l x", WRONGTYPE},
    {"INCR l", WRONGTYPE},
    {"SET l x GET", WRONGTYPE},
    {"SET l x", "+OK\r\n"},
    {"TYPE l", "+string\r\n"},
    {"DEL a b none a", ":2\r\n"},
    {"EXISTS k k none", ":2\r\n"},
    {"TYPE none", "+none\r\n"})

SCRIPT(lists,
    {"RPUSH l a b c", ":3\r\n"},
    {"LPUSH l z y", ":5\r\n"},
    {"LLEN l", ":5\r\n"},
    {"LRANGE l 0 -1", "*5\r\n$1\r\ny\r\n$1\r\nz\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"},
    {"LRANGE l -2 100", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n"},
    {"LRANGE l 3 1", "*0\r\n"},
    {"LRANGE l 5 9", "*0\r\n"},
    {"LRANGE none 0 1", "*0\r\n"},
    {"LRANGE l x 1", NOT_INT},
    {"LPOP l", "$1\r\ny\r\n"},
    {"RPOP l 2", "*2\r\n$1\r\nc\r\n$1\r\nb\r\n"},
    {"LPOP l 0", "*0\r\n"},
    {"LPOP l -1", "-ERR value is out of range, must be positive\r\n"},
    {"LPOP l 99", "*2\r\n$1\r\nz\r\n$1\r\na\r\n"},
    {"EXISTS l", ":0\r\n"},
    {"LPOP l", "$-1\r\n"},
    {"RPOP l 1", "*-1\r\n"},
    {"SET s x", "+OK\r\n"},
    {"LPUSH s a", WRONGTYPE},
    {"LLEN s", WRONGTYPE},
    {"LPOP l 1 2", "-ERR wrong number of arguments for 'lpop' command\r\n"})

SCRIPT(sets_and_hashes,
    {"SADD s a b a", ":2\r\n"},
    {"SCARD s", ":2\r\n"},
    {"SISMEMBER s a", ":1\r\n"},
    {"SISMEMBER s x", ":0\r\n"},
    {"SREM s a x", ":1\r\n"},
    {"SMEMBERS s", "*1\r\n$1\r\nb\r\n"},
    {"SPOP s", "$1\r\nb\r\n"},
    {"SPOP s", "$-1\r\n"},
    {"SPOP s 2", "*0\r\n"},
    {"EXISTS s", ":0\r\n"},
    {"SADD s q", ":1\r\n"},
    {"SPOP s 0", "*0\r\n"},
    {"SPOP s 5", "*1\r\n$1\r\nq\r\n"},
    {"SPOP s -1", "-ERR value is out of range, must be positive\r\n"},
    {"HSET h f 1 g 2", ":2\r\n"},
    {"HSET h f 3", ":0\r\n"},
    {"HGET h f", "$1\r\n3\r\n"},
    {"HGET h x", "$-1\r\n"},
    {"HLEN h", ":2\r\n"},
    {"HDEL h g x", ":1\r\n"},
    {"HGETALL h", "*2\r\n$1\r\nf\r\n$1\r\n3\r\n"},
    {"HDEL h f", ":1\r\n"},
    {"EXISTS h", ":0\r\n"},
    {"HGETALL h", "*0\r\n"},
    {"HSET h f", "-ERR wrong number of arguments for 'hset' command\r\n"},
    {"HSET h f 1 g", "-ERR wrong number of arguments for 'hset' command\r\n"},
    {"SADD s a", ":1\r\n"},
    {"HGET s a", WRONGTYPE},
    {"HSET s a b", WRONGTYPE},
    {"ZADD s 1 a", WRONGTYPE})

SCRIPT(sorted_sets,
    {"ZADD z 1 a 2 b 1.5 c", ":3\r\n"},
    {"ZADD z 3 a", ":0\r\n"},
    {"ZADD z CH 4 a 2 b", ":1\r\n"},
    {"ZADD z NX 9 a 9 d", ":1\r\n"},
    {"ZADD z XX 9 e", ":0\r\n"},
    {"ZADD z XX INCR 1 e", "$-1\r\n"},
    {"ZADD z INCR 0.5 c", "$1\r\n2\r\n"},
    {"ZADD z GT CH 1 a 10 a", ":1\r\n"},
    {"ZADD z NX XX 1 a", "-ERR XX and NX options at the same time are not compatible\r\n"},
    {"ZADD z GT LT 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible\r\n"},
    {"ZADD z INCR 1 a 2 b", "-ERR INCR option supports a single increment-element pair\r\n"},
    {"ZADD z x a", "-ERR value is not a valid float\r\n"},
    {"ZADD z 1", "-ERR wrong number of arguments for 'zadd' command\r\n"},
    {"ZADD z 1 a 2", SYNTAX},
    {"ZSCORE z a", "$2\r\n10\r\n"},
    {"ZSCORE z none", "$-1\r\n"},
    {"ZCARD z", ":4\r\n"},
    {"ZRANGE z 0 -1", "*4\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\na\r\n"},
    {"ZRANGE z 0 0 REV WITHSCORES", "*2\r\n$1\r\na\r\n$2\r\n10\r\n"},
    {"ZRANGE z (2 +inf BYSCORE LIMIT 1 5", "*1\r\n$1\r\na\r\n"},
    {"ZRANGE z +inf -inf BYSCORE REV LIMIT 0 1", "*1\r\n$1\r\na\r\n"},
    {"ZRANGE z x 1 BYSCORE", "-ERR min or max is not a float\r\n"},
    {"ZRANGE z a + BYLEX", "-ERR min or max not valid string range item\r\n"},
    {"ZRANGE z 0 1 LIMIT 0 1",
     "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX\r\n"},
    {"ZADD l 0 a 0 b 0 c", ":3\r\n"},
    {"ZRANGE l [b + BYLEX", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n"},
    {"ZRANGE l (c - BYLEX REV", "*2\r\n$1\r\nb\r\n$1\r\na\r\n"},
    {"ZRANGE l - + BYLEX LIMIT -1 1", "*0\r\n"},
    {"ZPOPMIN z", "*2\r\n$1\r\nb\r\n$1\r\n2\r\n"},
    {"ZPOPMIN z 9", "*6\r\n$1\r\nc\r\n$1\r\n2\r\n$1\r\nd\r\n$1\r\n9\r\n$1\r\na\r\n$2\r\n10\r\n"},
    {"ZPOPMIN z", "*0\r\n"},
    {"EXISTS z", ":0\r\n"},
    {"ZADD n inf a", ":1\r\n"},
    {"ZADD n INCR -inf a", "-ERR resulting score is not a number (NaN)\r\n"})

SCRIPT(times,
    {"SET k v EX 100", "+OK\r\n"},
    {"TTL k", ":100\r\n"},
    {"SET k w KEEPTTL", "+OK\r\n"},
    {"TTL k", ":100\r\n"},
    {"APPEND k x", ":2\r\n"},
    {"TTL k", ":100\r\n"},
    {"PERSIST k", ":1\r\n"},
    {"PERSIST k", ":0\r\n"},
    {"TTL k", ":-1\r\n"},
    {"TTL none", ":-2\r\n"},
    {"PTTL none", ":-2\r\n"},
    {"EXPIRE k 100 XX", ":0\r\n"},
    {"EXPIRE k 100 NX", ":1\r\n"},
    {"EXPIRE k 50 GT", ":0\r\n"},
    {"EXPIRE k 50 LT", ":1\r\n"},
    {"TTL k", ":50\r\n"},
    {"EXPIRE k 1 NX XX",
     "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n"},
    {"EXPIRE k 1 GT LT", "-ERR GT and LT options at the same time are not compatible\r\n"},
    {"EXPIRE k 1 soon", "-ERR Unsupported option soon\r\n"},
    {"EXPIRE k x", NOT_INT},
    {"EXPIRE k 9223372036854775807", "-ERR invalid expire time in 'expire' command\r\n"},
    {"EXPIRE none 1", ":0\r\n"},
    {"SET k w", "+OK\r\n"},
    {"TTL k", ":-1\r\n"},
    {"EXPIRE k -1", ":1\r\n"},
    {"EXISTS k", ":0\r\n"},
    {"SET k v PXAT 1", "+OK\r\n"},
    {"GET k", "$-1\r\n"},
    {"RPUSH l a", ":1\r\n"},
    {"PEXPIREAT l 1", ":1\r\n"},
    {"LLEN l", ":0\r\n"})

SCRIPT(scan,
    {"SET one 1", "+OK\r\n"},
    {"SCAN 0 MATCH two COUNT 10000", "*2\r\n$1\r\n0\r\n*0\r\n"},
    {"SCAN 0 MATCH o* COUNT 10000", "*2\r\n$1\r\n0\r\n*1\r\n$3\r\none\r\n"},
    {"SCAN 0 COUNT 10000 TYPE list", "*2\r\n$1\r\n0\r\n*0\r\n"},
    {"SCAN 0 COUNT 10000 TYPE string", "*2\r\n$1\r\n0\r\n*1\r\n$3\r\none\r\n"},
    {"SCAN x", "-ERR invalid cursor\r\n"},
    {"SCAN 0 COUNT 0", SYNTAX},
    {"SCAN 0 COUNT", SYNTAX},
    {"SCAN 0 COUNT x", NOT_INT},
    {"KEYS o[a-n]e", "*1\r\n$3\r\none\r\n"},
    {"KEYS x*", "*0\r\n"})
/* clang-format on */

/* The table is in order, as the search in it needs. */
Test(sim_serve, table)
{
    const struct serve_command *command;
    size_t n = 0;
    for (; (command = serve_command_at(n)) != NULL; n++) {
        char upper[32] = "";
        for (size_t i = 0; command->name[i] != 0; i++)
            upper[i] = (char)(command->name[i] - 'a' + 'A');
        cr_assert_eq(serve_command_find(serve_text_of(upper)), command, "%s", upper);
        cr_assert_eq(serve_command_find(serve_text_of(command->name)), command);
        cr_assert_neq(serve_command_find((struct serve_text){upper, strlen(upper) - 1}), command);
        cr_assert(command->first == 0 || command->step > 0);
    }
    cr_assert_gt(n, 50);
}

/* ---- what a script cannot say ---- */

/* Keys that nobody asks for go. */
static int sweeper(void *arg)
{
    (void)arg;
    enum { KEYS = 2000 };
    struct talk *t = talk_open();
    struct serve_client *c = talk_client(t);
    char line[64];
    for (int i = 0; i < KEYS; i++) {
        sprintf(line, i % 2 ? "SET key:%d v PX 1" : "SET key:%d v", i);
        MUST(strcmp(talk_ask(t, c, line), "+OK\r\n") == 0, "%s", line);
    }
    int64_t last = hg_in(INT64_C(20000000000));
    size_t expiring = 1;
    while (expiring > 0) {
        serve_store_sweep(&t->server.store);
        serve_store_count(&t->server.store, 0, &expiring);
        MUST(hg_now() < last, "%zu keys have not gone", expiring);
        hg_sleep(1000000);
    }
    MUST(strcmp(talk_ask(t, c, "DBSIZE"), ":1000\r\n") == 0, "others have gone too");
    MUST(serve_counted(&t->server.store.expired) == KEYS / 2, "not counted");
    talk_close(t);
    return 0;
}
Test(sim_serve, sweeper) { talk_run(sweeper, NULL); }

/* SCAN sees all that stays, with keys coming and going between its steps. */
static int scan_all(void *arg)
{
    (void)arg;
    enum { STAY = 500 };
    struct talk *t = talk_open();
    struct serve_client *c = talk_client(t);
    char line[64], cursor[32] = "0";
    static bool seen[STAY];
    for (int i = 0; i < STAY; i++) {
        sprintf(line, "SET stay:%d v", i);
        talk_ask(t, c, line);
    }
    int other = 0;
    do {
        sprintf(line, "SCAN %.20s", cursor);
        const char *reply = talk_ask(t, c, line), *key = reply;
        MUST(sscanf(reply, "*2\r\n$%*d\r\n%20[0-9]", cursor) == 1, "%s", reply);
        while ((key = strstr(key, "stay:")) != NULL)
            seen[atoi(key += 5)] = true;
        for (int i = 0; i < 100; i++) {
            sprintf(line, other / 2000 % 2 ? "DEL other:%d" : "SET other:%d v", other % 2000);
            talk_ask(t, c, line);
            other++;
        }
    } while (strcmp(cursor, "0") != 0);
    for (int i = 0; i < STAY; i++)
        MUST(seen[i], "SCAN has missed stay:%d", i);
    talk_close(t);
    return 0;
}
Test(sim_serve, scan_all) { talk_run(scan_all, NULL); }

/* A client that does not read: what is pending is bounded, then it is dropped; a single reply may
 * be longer than the limit. A string that is being sent stays as it was. */
static int unread(void *arg)
{
    (void)arg;
    enum { BYTES = 100000 };
    struct talk *t = talk_open();
    struct serve_client *c = talk_client(t);
    char header[64], *value = malloc(BYTES);
    MUST(value != NULL, "no memory");
    memset(value, 'v', BYTES);
    t->opt.output_limit = 3 * BYTES;
    talk_feed(t, c, header,
              (size_t)sprintf(header, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n", BYTES));
    talk_feed(t, c, value, BYTES);
    talk_feed(t, c, "\r\n", 2);
    enum serve_state state = SERVE_HUNGRY;
    for (int i = 0; i < 10 && state != SERVE_DROP; i++) {
        size_t room;
        char *to = serve_client_room(c, &room);
        memcpy(to, "GET k\n", 6);
        serve_client_received(c, 6);
        while ((state = serve_client_run(c)) == SERVE_FLUSHED)
            continue;
    }
    MUST(state == SERVE_DROP, "state %d", state);
    MUST(c->out.pending > 3 * BYTES && c->out.pending < 5 * BYTES, "%zu bytes", c->out.pending);
    struct serve_client *d = talk_client(t);
    for (int i = 0; i < 50; i++)
        talk_ask(t, d, "APPEND k wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww");
    talk_ask(t, d, "SET k new");
    hg_collect(hg_current());
    t->n = 0;
    talk_take(t, c);
    MUST(t->n == 3 * (BYTES + 11), "%zu bytes were sent", t->n);
    for (size_t i = 0; i < 3; i++)
        MUST(memcmp(t->reply + i * (BYTES + 11) + 9, value, BYTES) == 0,
             "reply %zu is not the value", i);
    free(value);
    talk_close(t);
    return 0;
}
Test(sim_serve, unread) { talk_run(unread, NULL); }

/* ---- several clients ---- */

enum { PAIRS = 4 };
struct crowd {
    struct talk *t;
    hg_waitgroup done;
    _Atomic int torn;
};

/* MSET of two keys in different shards, always to the same value. */
static void writer(void *arg)
{
    struct crowd *w = arg;
    struct serve_client *c = talk_client(w->t);
    char line[80];
    for (uint64_t i = test_scaled(3000); i > 0; i--) {
        size_t room;
        int n = sprintf(line, "MSET left %d right %d\nINCR counter\n", (int)i, (int)i);
        memcpy(serve_client_room(c, &room), line, (size_t)n);
        serve_client_received(c, (size_t)n);
        MUST(serve_client_run(c) == SERVE_HUNGRY, "it goes on");
        serve_out_sent(&c->out, c->out.pending);
        if (i % 16 == 0)
            hg_yield();
    }
    serve_client_end(c);
    hg_waitgroup_done(&w->done);
}

static void reader(void *arg)
{
    struct crowd *w = arg;
    struct serve_client *c = talk_client(w->t);
    for (uint64_t i = test_scaled(3000); i > 0; i--) {
        size_t room;
        struct iovec iov;
        memcpy(serve_client_room(c, &room), "MGET left right\n", 16);
        serve_client_received(c, 16);
        MUST(serve_client_run(c) == SERVE_HUNGRY, "it goes on");
        MUST(serve_out_pieces(&c->out, &iov, 1) == 1, "no reply");
        const char *text = iov.iov_base;
        size_t half = (iov.iov_len - 4) / 2;
        if (memcmp(text + 4, text + 4 + half, half) != 0)
            atomic_fetch_add(&w->torn, 1);
        serve_out_sent(&c->out, c->out.pending);
        if (i % 16 == 0)
            hg_yield();
    }
    serve_client_end(c);
    hg_waitgroup_done(&w->done);
}

static int crowd(void *arg)
{
    (void)arg;
    struct crowd w = {.t = talk_open()};
    struct serve_client *c = talk_client(w.t);
    char wanted[40];
    talk_ask(w.t, c, "MSET left 0 right 0");
    hg_waitgroup_add(&w.done, 2 * PAIRS);
    for (int i = 0; i < PAIRS; i++)
        MUST(hg_go(writer, &w) == 0 && hg_go(reader, &w) == 0, "no task");
    hg_waitgroup_wait(&w.done, HG_FOREVER);
    MUST(atomic_load(&w.torn) == 0, "MGET has seen half of an MSET");
    sprintf(wanted, ":%d\r\n", PAIRS * (int)test_scaled(3000) + 1);
    MUST(strcmp(talk_ask(w.t, c, "INCR counter"), wanted) == 0, "increments were lost");
    const char *list = talk_ask(w.t, c, "CLIENT LIST");
    MUST(strstr(list, "id=1 addr=127.0.0.1:1 laddr=127.0.0.1:2 ") != NULL, "%s", list);
    MUST(strstr(list, "cmd=client ") != NULL && strstr(list, "id=2 ") == NULL, "%s", list);
    const char *info = talk_ask(w.t, c, "INFO");
    MUST(strstr(info, "connected_clients:1\r\n") != NULL, "%s", info);
    MUST(strstr(info, "db0:keys=3,expires=0") != NULL && strstr(info, "gc_cycles:"), "%s", info);
    MUST(strstr(talk_ask(w.t, c, "INFO stats"), "# Memory") == NULL, "other sections too");
    talk_close(w.t);
    return 0;
}
Test(sim_serve, crowd) { talk_run(crowd, NULL); }
