/* serve_compare.c: sends the same requests to redis-server and to hedge-sim serve, and compares the
 * replies byte by byte.
 *
 * usage: serve_compare REDIS HEDGE REQUESTS SEED COUNT     (Unix sockets; data/serve_requests.txt)
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

/* ---- random requests ---- */

static uint64_t state;
static unsigned below(unsigned n)
{
    uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((z ^ z >> 31) >> 33) % n;
}

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
    case 'x':
        snprintf(text, sizeof text, "x%u", below(3));
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
    case 'u': /* its conditions depend on the order of times: no two within seconds */
        snprintf(text, sizeof text, "%u0005", 10 + below(1000000));
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

/* The words of a template, with what stands for %. One that is to have none begins with %. */
static void compare_random(struct server s[2], const char *t)
{
    static struct request q;
    static struct bytes word;
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

/* ---- all of it ---- */

struct lines {
    char **at;
    size_t n;
};

static void add_line(struct lines *l, char *line)
{
    l->at = realloc(l->at, (l->n + 1) * sizeof *l->at);
    if (l->at == NULL)
        die("memory");
    l->at[l->n++] = line;
}

/* Requests and templates of a file. */
static void read_requests(const char *path, struct lines *list, struct lines *templates)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    if (f == NULL)
        die(path);
    while ((n = getline(&line, &room, f)) > 0) {
        line[n - 1] = 0;
        if (line[0] == '%')
            add_line(templates, strdup(line + 1));
        else if (line[0] != '#')
            add_line(strstr(line, " %") != NULL ? templates : list, strdup(line));
    }
    free(line);
    fclose(f);
}

static void free_lines(struct lines *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->at[i]);
    free(l->at);
}

int main(int argc, char **argv)
{
    static struct server s[2];
    struct lines list = {0}, templates = {0};
    if (argc != 6) {
        fprintf(stderr, "usage: serve_compare REDIS HEDGE REQUESTS SEED COUNT\n");
        return 2;
    }
    s[0].path = argv[1];
    s[1].path = argv[2];
    read_requests(argv[3], &list, &templates);
    state = strtoull(argv[4], NULL, 10);
    long count = atol(argv[5]);
    for (int i = 0; i < 2; i++)
        dial(&s[i]);
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        compare_stream(s, streams[i]);
    for (size_t i = 0; i < list.n; i++)
        compare_line(s, list.at[i]);
    for (long i = 0; i < count; i++) {
        if (i % 2000 == 0)
            compare_line(s, "FLUSHALL");
        compare_random(s, templates.at[below((unsigned)templates.n)]);
    }
    printf("%zu streams, %zu requests, %ld random ones (seed %s): %d differences\n",
           sizeof streams / sizeof *streams, list.n, count, argv[4], differences);
    free_lines(&list);
    free_lines(&templates);
    return differences > 0;
}
