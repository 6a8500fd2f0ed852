/* serve_compare.c: sends the same requests to redis-server and to hedge-sim serve, and compares the
 * replies byte by byte.
 *
 * usage: serve_compare REDIS HEDGE SEED COUNT     (paths of Unix sockets)
 *        exit 0: all alike; 1: differences, each printed; 2: usage, or a server went away
 *
 * Three parts: whole byte streams, on connections of their own, up to their end (inline requests,
 * pipelines, protocol errors); a list of requests with their edges; COUNT random requests over few
 * keys, made from templates, so that types clash and options combine.
 *
 * What Redis leaves open is evened out before the comparison: the order of sets, hashes and keys
 * (sorted), what is left of a time to expire (a tolerance), which member SPOP takes (its type is
 * compared, then the key is deleted).
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void die(const char *what)
{
    fprintf(stderr, "serve_compare: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* ---- bytes ---- */

struct bytes {
    char *at;
    size_t n, room;
};

static void add(struct bytes *b, const void *from, size_t n)
{
    if (b->n + n + 1 > b->room) {
        b->room = 2 * (b->n + n + 1);
        b->at = realloc(b->at, b->room);
        if (b->at == NULL)
            die("memory");
    }
    memcpy(b->at + b->n, from, n);
    b->n += n;
    b->at[b->n] = 0;
}

static void print(const char *who, const struct bytes *b)
{
    fprintf(stderr, "  %s: ", who);
    for (size_t i = 0; i < b->n && i < 600; i++)
        if (b->at[i] >= ' ' && b->at[i] <= '~')
            fputc(b->at[i], stderr);
        else
            fprintf(stderr, "\\x%02x", (unsigned char)b->at[i]);
    fputc('\n', stderr);
}

/* ---- a server ---- */

struct server {
    const char *path;
    int fd;
    char in[65536];
    size_t from, to;
};

static void dial(struct server *s)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct timeval patience = {30, 0};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", s->path);
    s->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (s->fd < 0 || connect(s->fd, (struct sockaddr *)&a, sizeof a) != 0)
        die(s->path);
    setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    s->from = s->to = 0;
}

static void send_all(struct server *s, const char *at, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(s->fd, at, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EPIPE)
            return; /* it has closed the connection: what it said is there to read */
        if (sent < 0)
            die("send");
        at += sent;
        n -= (size_t)sent;
    }
}

/* The next byte, or -1: the connection has ended. */
static int next_byte(struct server *s)
{
    if (s->from == s->to) {
        ssize_t n = recv(s->fd, s->in, sizeof s->in, 0);
        if (n < 0 && errno != ECONNRESET)
            die("no reply");
        if (n <= 0)
            return -1;
        s->from = 0;
        s->to = (size_t)n;
    }
    return (unsigned char)s->in[s->from++];
}

/* ---- replies ---- */

/* One element, as it came; of an array also its elements. */
struct reply {
    struct bytes raw;
    char type;
    long long number;
    struct reply *element;
    size_t elements;
};

static void read_reply(struct server *s, struct reply *r)
{
    int c;
    memset(r, 0, sizeof *r);
    do {
        if ((c = next_byte(s)) < 0)
            die("a server has closed the connection");
        char byte = (char)c;
        add(&r->raw, &byte, 1);
    } while (c != '\n');
    r->type = r->raw.at[0];
    r->number = r->type == '+' || r->type == '-' ? 0 : atoll(r->raw.at + 1);
    if (r->type == '$' && r->number >= 0)
        for (long long i = 0; i < r->number + 2; i++) {
            char byte = (char)next_byte(s);
            add(&r->raw, &byte, 1);
        }
    if (r->type == '*' && r->number > 0) {
        r->elements = (size_t)r->number;
        r->element = calloc(r->elements, sizeof *r->element);
        for (size_t i = 0; i < r->elements; i++)
            read_reply(s, &r->element[i]);
    }
}

static void flatten(const struct reply *r, struct bytes *out)
{
    add(out, r->raw.at, r->raw.n);
    for (size_t i = 0; i < r->elements; i++)
        flatten(&r->element[i], out);
}

static void free_reply(struct reply *r)
{
    for (size_t i = 0; i < r->elements; i++)
        free_reply(&r->element[i]);
    free(r->element);
    free(r->raw.at);
}

static int by_bytes(const void *a, const void *b)
{
    const struct reply *x = a, *y = b;
    size_t n = x->raw.n < y->raw.n ? x->raw.n : y->raw.n;
    int order = memcmp(x->raw.at, y->raw.at, n);
    return order != 0 ? order : (x->raw.n > y->raw.n) - (x->raw.n < y->raw.n);
}

/* Sorts an array in groups of `group` elements, by the first of each. */
static void sort(struct reply *r, size_t group)
{
    if (r->elements >= group && r->elements % group == 0)
        qsort(r->element, r->elements / group, group * sizeof *r->element, by_bytes);
}

/* ---- requests ---- */

enum { WORDS = 32 };

struct request {
    struct bytes word[WORDS];
    int n;
};

static void add_word(struct request *q, const void *at, size_t n)
{
    if (q->n == WORDS)
        die("a request with too many words");
    q->word[q->n].n = 0;
    add(&q->word[q->n++], at, n);
}

static bool is(const struct request *q, const char *name)
{
    return strcasecmp(q->word[0].at, name) == 0;
}

static void encode(const struct request *q, struct bytes *out)
{
    char line[32];
    out->n = 0;
    add(out, line, (size_t)snprintf(line, sizeof line, "*%d\r\n", q->n));
    for (int i = 0; i < q->n; i++) {
        add(out, line, (size_t)snprintf(line, sizeof line, "$%zu\r\n", q->word[i].n));
        add(out, q->word[i].at, q->word[i].n);
        add(out, "\r\n", 2);
    }
}

static bool about_as_long(const struct request *q, const struct reply *a, const struct reply *b)
{
    long long most = is(q, "TTL") ? 1 : is(q, "PTTL") ? 2000 : 0;
    return most > 0 && a->type == ':' && b->type == ':' && a->number > 0 && b->number > 0 &&
           llabs(a->number - b->number) <= most;
}

static void even_out(const struct request *q, struct reply *r)
{
    if (is(q, "SMEMBERS") || is(q, "KEYS") || is(q, "SPOP"))
        sort(r, 1);
    else if (is(q, "HGETALL"))
        sort(r, 2);
    else if (is(q, "SCAN") && r->elements == 2)
        sort(&r->element[1], 1);
}

static int differences;

static void compare(struct server s[2], const struct request *q)
{
    static struct bytes sent, got[2];
    struct reply r[2];
    encode(q, &sent);
    for (int i = 0; i < 2; i++) {
        send_all(&s[i], sent.at, sent.n);
        read_reply(&s[i], &r[i]);
        even_out(q, &r[i]);
        got[i].n = 0;
        flatten(&r[i], &got[i]);
    }
    bool alike = got[0].n == got[1].n && memcmp(got[0].at, got[1].at, got[0].n) == 0;
    if (!alike && is(q, "SPOP") && q->n == 2)
        alike = r[0].type == '$' && r[1].type == '$' && (r[0].number < 0) == (r[1].number < 0);
    if (!alike && !about_as_long(q, &r[0], &r[1])) {
        differences++;
        fprintf(stderr, "serve_compare: different replies\n");
        print("request", &sent);
        print("redis  ", &got[0]);
        print("hedge  ", &got[1]);
    }
    free_reply(&r[0]);
    free_reply(&r[1]);
}

/* After SPOP of one member the key goes, as the rest of it differs. */
static void delete_popped(struct server s[2], const struct request *q)
{
    static struct request d;
    if (!is(q, "SPOP") || q->n != 2)
        return;
    d.n = 0;
    add_word(&d, "DEL", 3);
    add_word(&d, q->word[1].at, q->word[1].n);
    compare(s, &d);
}

/* A line of words. */
static void compare_line(struct server s[2], const char *line)
{
    static struct request q;
    q.n = 0;
    while (*line != 0) {
        size_t n = strcspn(line, " ");
        if (n == 2 && memcmp(line, "''", 2) == 0)
            add_word(&q, "", 0);
        else
            add_word(&q, line, n);
        line += n + (line[n] == ' ');
    }
    compare(s, &q);
    delete_popped(s, &q);
}

/* ---- whole streams ---- */

static const char *const streams[] = {
    "PING\r\nPING hello\r\nECHO \"a\\x41\\n\\\"b\"\r\necho 'it\\'s'\r\n\r\n\r\nPING\n",
    "*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\n*0\r\n*-1\r\n*1\r\n$4\r\nping\r\n",
    "SET s 1\r\nGET s\r\nINCR s\r\nINCR s\r\nDEL s\r\nGET s\r\n",
    "ECHO \"open\r\nPING\r\n",
    "ECHO \"a\"b\r\nPING\r\n",
    "ECHO 'a'b\r\nPING\r\n",
    "ECHO \"\\\r\nPING\r\n",
    "*x\r\nPING\r\n",
    "*+1\r\nPING\r\n",
    "*3000000000\r\nPING\r\n",
    "*1\r\nPING\r\n",
    "*1\r\n$-1\r\nPING\r\n",
    "*1\r\n$x\r\nPING\r\n",
    "*1\r\n$536870913\r\nPING\r\n",
    "*2\r\n$4\r\nECHO\r\n:1\r\n",
    "*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n",
    "QUIT\r\nPING\r\n",
    "*1\r\n$4\r\nQUIT\r\nPING\r\n",
    "nosuch a b\r\nGET\r\nGET a b\r\nSET a\r\n",
    "*3\r\n$3\r\nSET\r\n$1\r\nq\r\n$2\r\n\r\n\r\nGET q\r\nSTRLEN q\r\nDEL q\r\n",
    "PING\r\n*2\r\n$4\r\nECH",
};

static void compare_stream(struct server s[2], const char *stream)
{
    static struct bytes got[2];
    for (int i = 0; i < 2; i++) {
        struct server one = {.path = s[i].path};
        int c;
        dial(&one);
        send_all(&one, stream, strlen(stream));
        shutdown(one.fd, SHUT_WR);
        got[i].n = 0;
        while ((c = next_byte(&one)) >= 0) {
            char byte = (char)c;
            add(&got[i], &byte, 1);
        }
        close(one.fd);
    }
    if (got[0].n == got[1].n && memcmp(got[0].at, got[1].at, got[0].n) == 0)
        return;
    struct bytes sent = {0};
    add(&sent, stream, strlen(stream));
    differences++;
    fprintf(stderr, "serve_compare: different answers to a stream\n");
    print("stream", &sent);
    print("redis ", &got[0]);
    print("hedge ", &got[1]);
    free(sent.at);
}

/* ---- the list ---- */

static const char *const list[] = {
    "FLUSHALL",
    "PING",
    "PING a",
    "PING a b",
    "ECHO",
    "ECHO ''",
    "SELECT 3",
    "SELECT 16",
    "SELECT -1",
    "SELECT x",
    "SELECT 0",
    "DBSIZE x",
    "FLUSHALL x",
    "FLUSHDB sync x",
    "FLUSHDB sync",
    "nosuch",
    "nosuch a b c",
    "GET",
    "get a b",
    "CLIENT",
    "CLIENT nosuch",
    "CLIENT SETNAME",
    "CLIENT SETNAME a",
    "CLIENT GETNAME",
    "CLIENT GETNAME x",
    "CLIENT SETNAME a\nb",
    "CLIENT SETNAME ''",
    "CLIENT GETNAME",
    "CONFIG",
    "CONFIG GET",
    "CONFIG nosuch",
    "CONFIG GET save",
    "CONFIG GET appendonly",
    "CONFIG GET nosuch",
    "CONFIG GET databases",
    "COMMAND nosuch",
    "AUTH",
    "AUTH x",
    "AUTH a b",
    "AUTH a b c d",
    "HELLO 4",
    "HELLO x",
    "SHUTDOWN x",
    /* strings */
    "SET k",
    "SET k v NX XX",
    "SET k v GET",
    "SET k v2 GET",
    "SET k v EX",
    "SET k v EX x",
    "SET k v EX 0",
    "SET k v EX -1",
    "SET k v PX 0",
    "SET k v EX 9223372036854775807",
    "SET k v PX 9223372036854775807",
    "SET k v EXAT 0",
    "SET k v EXAT 99999999999",
    "TTL k",
    "SET k v PXAT 1",
    "GET k",
    "SET k v EX 10 PX 10",
    "SET k v EX 10 KEEPTTL",
    "SET k v KEEPTTL EX 10",
    "SET k v KEEPTTL KEEPTTL",
    "SET k v NX NX",
    "SET k v EX 100 NX",
    "TTL k",
    "SET k w XX KEEPTTL",
    "TTL k",
    "SET k v x",
    "SET none v XX GET",
    "SET k v NX GET",
    "GETX k",
    "APPEND k ''",
    "APPEND k abc",
    "STRLEN k",
    "GET k",
    "TTL k",
    "SET n 10",
    "INCR n",
    "DECR n",
    "INCRBY n 5",
    "DECRBY n 3",
    "INCRBY n x",
    "INCRBY n 1.5",
    "INCR k",
    "SET n ' 1'",
    "INCR n",
    "SET n 9223372036854775807",
    "INCR n",
    "SET n -9223372036854775808",
    "DECR n",
    "DECRBY n -9223372036854775808",
    "INCRBY n 9223372036854775807",
    "SET n 01",
    "INCR n",
    "SET n -0",
    "INCR n",
    "SET n +1",
    "INCR n",
    "SET n ''",
    "INCR n",
    "MSET a 1 b 2 a 3",
    "MGET a b c a",
    "MSET a",
    "MSET a 1 b",
    "MGET",
    "DEL",
    "DEL a b c",
    "EXISTS a a k k",
    "EXISTS",
    "UNLINK a k",
    "TYPE k",
    "TYPE nosuch",
    "STRLEN nosuch",
    /* lists */
    "LPUSH l",
    "LPUSH l a b c",
    "RPUSH l d e",
    "LRANGE l 0 -1",
    "LRANGE l -100 100",
    "LRANGE l 1 1",
    "LRANGE l 4 2",
    "LRANGE l 5 5",
    "LRANGE l -1 -2",
    "LRANGE l x 1",
    "LRANGE l 0 9223372036854775807",
    "LRANGE l -9223372036854775808 -1",
    "LRANGE k2 0 x",
    "LLEN l",
    "LLEN nosuch",
    "LPOP l",
    "RPOP l",
    "LPOP l 0",
    "LPOP l -1",
    "LPOP l x",
    "LPOP l 1 1",
    "RPOP nosuch",
    "RPOP nosuch 0",
    "RPOP nosuch 2",
    "LPOP l 2",
    "LPOP l 9",
    "LPOP l",
    "EXISTS l",
    "TYPE l",
    /* sets, hashes */
    "SADD s",
    "SADD s a",
    "SADD s a b c c",
    "SCARD s",
    "SISMEMBER s a",
    "SISMEMBER s x",
    "SMEMBERS s",
    "SREM s a x",
    "SREM s",
    "SMEMBERS nosuch",
    "SPOP s 0",
    "SPOP s -1",
    "SPOP s x",
    "SPOP s 1 1",
    "SPOP s 9",
    "SPOP s",
    "SPOP nosuch",
    "SPOP nosuch 3",
    "SCARD s",
    "HSET h",
    "HSET h a",
    "HSET h a 1",
    "HSET h a 2 b 3",
    "HSET h a 1 b",
    "HGET h a",
    "HGET h x",
    "HGET nosuch x",
    "HGETALL h",
    "HGETALL nosuch",
    "HLEN h",
    "HDEL h a a",
    "HDEL h x",
    "HDEL h b",
    "EXISTS h",
    "HLEN h",
    /* sorted sets */
    "ZADD z",
    "ZADD z 1",
    "ZADD z 1 a 2",
    "ZADD z x a",
    "ZADD z nan a",
    "ZADD z 1 a 2 b 2 c",
    "ZADD z NX XX 1 a",
    "ZADD z GT LT 1 a",
    "ZADD z NX GT 1 a",
    "ZADD z NX 5 a 5 d",
    "ZADD z XX 6 a 6 e",
    "ZADD z CH 7 a 2 b",
    "ZADD z GT CH 1 a",
    "ZADD z GT CH 8 a",
    "ZADD z LT CH 9 a",
    "ZADD z LT CH 0.1 a",
    "ZADD z INCR 1 a",
    "ZADD z INCR 1 a 2 b",
    "ZADD z NX INCR 1 a",
    "ZADD z XX INCR 1 nosuch",
    "ZADD z GT INCR -1 a",
    "ZADD z inf i -inf j",
    "ZADD z INCR -inf i",
    "ZSCORE z i",
    "ZSCORE z a",
    "ZSCORE z nosuch",
    "ZSCORE nosuch a",
    "ZADD z 1e300 big 1e-300 small 0.1 tenth 3.14159265358979 pi -0 zero 1e17 wide 123456789012345678 wider",
    "ZRANGE z 0 -1 WITHSCORES",
    "ZRANGE z 0 -1 REV WITHSCORES",
    "ZRANGE z 2 4",
    "ZRANGE z -3 -1",
    "ZRANGE z 9 2",
    "ZRANGE z 99 100",
    "ZRANGE z x 1",
    "ZRANGE z 0 1 LIMIT 0 1",
    "ZRANGE z 0 1 BYSCORE BYLEX",
    "ZRANGE z 0 1 WITHSCORES BYLEX",
    "ZRANGE z 0 1 nosuch",
    "ZRANGE z (0 5 BYSCORE",
    "ZRANGE z 0 (5 BYSCORE WITHSCORES",
    "ZRANGE z 5 0 BYSCORE REV",
    "ZRANGE z +inf -inf BYSCORE REV LIMIT 1 2",
    "ZRANGE z -inf +inf BYSCORE LIMIT -1 2",
    "ZRANGE z -inf +inf BYSCORE LIMIT 1 -2",
    "ZRANGE z -inf inf BYSCORE LIMIT 100 1",
    "ZRANGE z x 1 BYSCORE",
    "ZRANGE z 1 nan BYSCORE",
    "ZRANGE z ( 1 BYSCORE",
    "ZRANGE z 0 5 BYSCORE LIMIT 1",
    "ZRANGE z 0 5 BYSCORE LIMIT a b",
    "ZRANGE nosuch 0 1",
    "ZRANGE nosuch 0 1 BYSCORE",
    "ZADD x 0 a 0 b 0 c 0 aa",
    "ZRANGE x - + BYLEX",
    "ZRANGE x [a (b BYLEX",
    "ZRANGE x [aa + BYLEX LIMIT 0 2",
    "ZRANGE x + - BYLEX REV",
    "ZRANGE x (c - BYLEX REV",
    "ZRANGE x a b BYLEX",
    "ZRANGE x [b [a BYLEX",
    "ZRANGE x ( + BYLEX",
    "ZRANGE x - - BYLEX",
    "ZRANGE x + + BYLEX",
    "ZRANGE x '' + BYLEX",
    "ZRANGE x -x + BYLEX",
    "ZPOPMIN x",
    "ZPOPMIN x 0",
    "ZPOPMIN x -1",
    "ZPOPMIN x x",
    "ZPOPMIN x 1 1",
    "ZPOPMIN x 9",
    "ZPOPMIN x",
    "ZPOPMIN nosuch 2",
    "ZCARD z",
    "ZCARD x",
    "EXISTS x",
    /* times */
    "SET t v",
    "TTL t",
    "PTTL t",
    "EXPIRE t 100",
    "TTL t",
    "PTTL t",
    "PERSIST t",
    "PERSIST t",
    "EXPIRE t x",
    "EXPIRE t 100 XX",
    "EXPIRE t 100 NX",
    "EXPIRE t 100 NX",
    "EXPIRE t 50 GT",
    "EXPIRE t 200 GT",
    "EXPIRE t 300 LT",
    "EXPIRE t 20 LT",
    "EXPIRE t 20 NX XX",
    "EXPIRE t 20 GT LT",
    "EXPIRE t 20 XX GT",
    "EXPIRE t 30 XX GT",
    "TTL t",
    "EXPIRE t 20 nosuch",
    "EXPIRE t 9223372036854775807",
    "EXPIRE t -9223372036854775808",
    "PEXPIRE t 9223372036854775807",
    "EXPIREAT t 9223372036854775",
    "TTL nosuch",
    "EXPIRE nosuch 10",
    "PERSIST nosuch",
    "PEXPIREAT t 99999999999999",
    "SET t v",
    "TTL t",
    "EXPIRE t 0",
    "EXISTS t",
    "SET t v",
    "EXPIREAT t 1",
    "GET t",
    "SET t v",
    "PEXPIRE t -5",
    "DBSIZE",
    /* types */
    "FLUSHALL",
    "SET str v",
    "RPUSH lst a",
    "SADD st a",
    "HSET hsh f v",
    "ZADD zst 1 a",
    "GET lst",
    "SET lst v GET",
    "APPEND st x",
    "INCR hsh",
    "STRLEN zst",
    "MGET str lst st",
    "LPUSH str a",
    "LPOP st",
    "LPOP hsh 1",
    "LRANGE zst 0 1",
    "LLEN str",
    "SADD lst a",
    "SREM str a",
    "SPOP hsh",
    "SPOP hsh 1",
    "SMEMBERS zst",
    "SCARD str",
    "SISMEMBER lst a",
    "HSET st a b",
    "HGET str a",
    "HDEL lst a",
    "HGETALL zst",
    "HLEN str",
    "ZADD hsh 1 a",
    "ZADD hsh x a",
    "ZPOPMIN lst",
    "ZCARD str",
    "ZSCORE st a",
    "ZRANGE hsh 0 1",
    "TYPE str",
    "TYPE lst",
    "TYPE st",
    "TYPE hsh",
    "TYPE zst",
    "KEYS *",
    "KEYS s*",
    "KEYS ?st",
    "KEYS [lz]st",
    "KEYS [^l]st",
    "KEYS nosuch",
    "KEYS",
    "SCAN 0 COUNT 1000",
    "SCAN 0 COUNT 1000 MATCH *st",
    "SCAN 0 TYPE hash COUNT 1000",
    "SCAN 0 TYPE nosuch COUNT 1000",
    "SCAN x",
    "SCAN 0 COUNT",
    "SCAN 0 COUNT 0",
    "SCAN 0 COUNT -1",
    "SCAN 0 COUNT x",
    "SCAN 0 nosuch 1",
    "SCAN",
    "SCAN -1x",
    "SCAN 1.5",
    "SET str v",
    "RPUSH str v",
    "DBSIZE",
    "SELECT 1",
    "DBSIZE",
    "SET only1 v",
    "KEYS *",
    "FLUSHDB",
    "SELECT 0",
    "DBSIZE",
};

/* ---- random requests ---- */

static uint64_t state;
static unsigned below(unsigned n)
{
    uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((z ^ z >> 31) >> 33) % n;
}

/* %k key, %v value, %i integer, %c count, %r rank, %s score, %m member, %b score bound, %l member
 * bound, %o and %z a word that SET or ZADD may take, %t a time that does not pass here. */
static const char *const templates[] = {
    "SET %k %v",
    "SET %k %i",
    "SET %k %v %o",
    "SET %k %v %o %o",
    "SET %k %v EX %t",
    "SET %k %v PX %t %o",
    "GET %k",
    "APPEND %k %v",
    "STRLEN %k",
    "INCR %k",
    "DECR %k",
    "INCRBY %k %i",
    "DECRBY %k %i",
    "MSET %k %v %k %v %k %i",
    "MGET %k %k %k",
    "DEL %k",
    "DEL %k %k",
    "EXISTS %k %k",
    "TYPE %k",
    "EXPIRE %k %t",
    "EXPIRE %k %t %e",
    "EXPIRE %k %i %e",
    "PEXPIRE %k -1",
    "TTL %k",
    "PTTL %k",
    "PERSIST %k",
    "LPUSH %k %v",
    "RPUSH %k %v %m %m",
    "LPOP %k",
    "RPOP %k",
    "LPOP %k %c",
    "RPOP %k %c",
    "LLEN %k",
    "LRANGE %k %r %r",
    "RPUSH %k %m %m %m %m %m %m",
    "LPUSH %k %m %m %m %m %m %m",
    "SADD %k %m",
    "SADD %k %m %m %m %v",
    "SREM %k %m %m",
    "SCARD %k",
    "SISMEMBER %k %m",
    "SMEMBERS %k",
    "SPOP %k",
    "SPOP %k 100",
    "SPOP %k 0",
    "HSET %k %m %v",
    "HSET %k %m %v %m %i",
    "HGET %k %m",
    "HDEL %k %m %m",
    "HLEN %k",
    "HGETALL %k",
    "ZADD %k %s %m",
    "ZADD %k %s %m %s %m %s %m",
    "ZADD %k %z %s %m",
    "ZADD %k %z %z %s %m",
    "ZADD %k %z %z %s %m %s %m",
    "ZPOPMIN %k",
    "ZPOPMIN %k %c",
    "ZCARD %k",
    "ZSCORE %k %m",
    "ZRANGE %k %r %r",
    "ZRANGE %k %r %r WITHSCORES",
    "ZRANGE %k %r %r REV WITHSCORES",
    "ZRANGE %k %b %b BYSCORE",
    "ZRANGE %k %b %b BYSCORE WITHSCORES",
    "ZRANGE %k %b %b BYSCORE REV LIMIT %r %r",
    "ZRANGE %k %l %l BYLEX",
    "ZRANGE %k %l %l REV BYLEX LIMIT %r %r",
    "DBSIZE",
    "KEYS *",
    "KEYS k[0-4]",
    "SCAN 0 COUNT 1000",
    "SCAN 0 COUNT 1000 TYPE set",
    "SELECT %c",
};

static void fill(struct bytes *out, char kind)
{
    static const char *const values[] = {"",   "v",    "hello world", "0",    "-1",
                                         "99", "\r\n", "1e3",         "a\xff"};
    static const char *const ints[] = {
        "0", "1", "-1", "10", "9223372036854775807", "-9223372036854775808", "x", "1.5", "+1", ""};
    static const char *const set_words[] = {"NX", "XX", "GET", "KEEPTTL", "nx", "EX"};
    static const char *const zadd_words[] = {"NX", "XX", "GT", "LT", "CH", "INCR"};
    static const char *const expire_words[] = {"NX", "XX", "GT", "LT", "nosuch"};
    static const char *const scores[] = {"0",   "1",    "-1",   "1.5", "2", "2",  "3",
                                         "inf", "-inf", "1e10", "0.1", "x", "nan"};
    static const char *const times[] = {"100", "200", "3000", "1000000", "x"};
    static const char *const lexes[] = {"-", "+", "[m1", "(m3", "[m", "(", "m2", "[m22"};
    char text[32];
    const char *word = text;
    switch (kind) {
    case 'k':
        snprintf(text, sizeof text, "k%u", below(10));
        break;
    case 'm':
        snprintf(text, sizeof text, "m%u", below(25));
        break;
    case 'c':
        snprintf(text, sizeof text, "%d", (int)below(7) - 1);
        break;
    case 'r':
        snprintf(text, sizeof text, "%d", (int)below(24) - 12);
        break;
    case 'b':
        snprintf(text, sizeof text, "%s%s", below(2) ? "(" : "", scores[below(13)]);
        break;
    case 'v':
        word = values[below(sizeof values / sizeof *values)];
        break;
    case 'i':
        word = ints[below(sizeof ints / sizeof *ints)];
        break;
    case 'o':
        word = set_words[below(sizeof set_words / sizeof *set_words)];
        break;
    case 'z':
        word = zadd_words[below(sizeof zadd_words / sizeof *zadd_words)];
        break;
    case 'e':
        word = expire_words[below(sizeof expire_words / sizeof *expire_words)];
        break;
    case 's':
        word = scores[below(sizeof scores / sizeof *scores)];
        break;
    case 't':
        word = times[below(sizeof times / sizeof *times)];
        break;
    default:
        word = lexes[below(sizeof lexes / sizeof *lexes)];
    }
    add(out, word, strlen(word));
}

static void compare_random(struct server s[2])
{
    static struct request q;
    static struct bytes word;
    const char *t = templates[below(sizeof templates / sizeof *templates)];
    q.n = 0;
    while (*t != 0) {
        size_t n = strcspn(t, " ");
        word.n = 0;
        if (t[0] == '%')
            fill(&word, t[1]);
        else
            add(&word, t, n);
        add_word(&q, word.at, word.n);
        t += n + (t[n] == ' ');
    }
    compare(s, &q);
    delete_popped(s, &q);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: serve_compare REDIS HEDGE SEED COUNT\n");
        return 2;
    }
    static struct server s[2];
    s[0].path = argv[1];
    s[1].path = argv[2];
    state = strtoull(argv[3], NULL, 10);
    long count = atol(argv[4]);
    for (int i = 0; i < 2; i++)
        dial(&s[i]);
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        compare_stream(s, streams[i]);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        compare_line(s, list[i]);
    for (long i = 0; i < count; i++) {
        if (i % 2000 == 0)
            compare_line(s, "FLUSHALL");
        compare_random(s);
    }
    printf("%zu streams, %zu listed and %ld random requests (seed %s): %d differences\n",
           sizeof streams / sizeof *streams, sizeof list / sizeof *list, count, argv[3],
           differences);
    return differences > 0;
}
