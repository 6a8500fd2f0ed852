/* test_sim_serve_parse.c: requests of `hedge-sim serve` out of streams of bytes: cut anywhere, at
 * the limits, wrong, random. */
#include "tests/sim/serve_test.h"

#include "sim/rng.h"

static const char stream[] = "PING\r\n"
                             "*1\r\n$4\r\nPING\r\n"
                             "*2\r\n$4\r\nECHO\r\n$5\r\na\r\nbc\r\n"
                             "\r\n"
                             "*0\r\n"
                             "*-1\r\n"
                             "  echo \"q\\x41\\n\\\"\" \n"
                             "echo 'it''\\'s' \r\n"
                             "echo 'it\\'s'\r\n"
                             "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n"
                             "GET k\n"
                             "*2\r\n$3\r\nget\r\n$4\r\nnone\r\n"
                             "echo \"open\r\n";
static const char replies[] = "+PONG\r\n+PONG\r\n$5\r\na\r\nbc\r\n$4\r\nqA\n\"\r\n"
                              "-ERR Protocol error: unbalanced quotes in request\r\n";

/* The stream with one wrong line fewer. */
static const char good_replies[] = "+PONG\r\n+PONG\r\n$5\r\na\r\nbc\r\n$4\r\nqA\n\"\r\n"
                                   "$4\r\nit's\r\n+OK\r\n$0\r\n\r\n$-1\r\n"
                                   "-ERR Protocol error: unbalanced quotes in request\r\n";

/* The stream without the line 'it''s', whose quote goes on behind its end. */
static size_t good_stream(char *out)
{
    const char *cut = strstr(stream, "echo 'it''"), *rest = strchr(cut, '\n') + 1;
    size_t before = (size_t)(cut - stream), n = strlen(rest);
    memcpy(out, stream, before);
    memcpy(out + before, rest, n);
    return before + n;
}

static void expect(struct talk *t, const char *what, size_t at, const char *wanted)
{
    MUST(strcmp(t->reply, wanted) == 0, "%s at %zu: \"%s\", expected \"%s\"", what, at, t->reply,
         wanted);
}

static int splits(void *arg)
{
    (void)arg;
    char good[sizeof stream];
    size_t n = good_stream(good);
    struct talk *t = talk_open();
    struct serve_client *c = talk_client(t);
    MUST(talk_feed(t, c, stream, sizeof stream - 1) == SERVE_CLOSING, "goes on");
    expect(t, "wrong quotes", 0, replies);
    for (size_t i = 1; i < n; i++) { /* in two, and in three */
        t->n = 0;
        c = talk_client(t);
        MUST(talk_feed(t, c, good, i) == SERVE_HUNGRY, "not hungry after %zu bytes", i);
        size_t j = i + (n - i) / 2;
        talk_feed(t, c, good + i, j - i);
        MUST(talk_feed(t, c, good + j, n - j) == SERVE_CLOSING, "goes on");
        expect(t, "cut", i, good_replies);
        serve_client_end(c);
    }
    t->n = 0;
    c = talk_client(t);
    for (size_t i = 0; i < n; i++)
        talk_feed(t, c, good + i, 1);
    expect(t, "byte by byte", 0, good_replies);
    talk_close(t);
    return 0;
}
Test(sim_serve_parse, every_split) { talk_run(splits, NULL); }

/* ---- what no request can begin with ---- */

static const struct exchange wrongs[] = {
    {"*x\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
    {"*1048577\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
    {"*99999999999999999999\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
    {"*+1\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
    {"*1\r\n+PING\r\n", "-ERR Protocol error: expected '$', got '+'\r\n"},
    {"*1\r\n\r\n", "-ERR Protocol error: expected '$', got ' '\r\n"},
    {"*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
    {"*1\r\n$536870913\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
    {"*1\r\n$a\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
    {"echo \"a\"b\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"},
    {"echo 'a\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"},
};

/* Legal, as far as it goes; costs no more memory than was sent. */
static const char *const open_ends[] = {
    "*1048576\r\n", "*1048576\r\n$536870912\r\n", "*2\r\n$3\r\nGET\r\n$536870912\r\nabc", "*", "$",
    "PIN"};

static int wrong(void *arg)
{
    (void)arg;
    struct talk *t = talk_open();
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        struct serve_client *c = talk_client(t);
        t->n = 0;
        enum serve_state s = talk_feed(t, c, wrongs[i].request, strlen(wrongs[i].request));
        MUST(s == SERVE_CLOSING, "%s: state %d", wrongs[i].request, s);
        expect(t, wrongs[i].request, 0, wrongs[i].reply);
        MUST(talk_feed(t, c, "PING\r\n", 6) == SERVE_CLOSING, "it goes on");
        expect(t, "behind it", 0, wrongs[i].reply);
        serve_client_end(c);
    }
    for (size_t i = 0; i < sizeof open_ends / sizeof *open_ends; i++) {
        struct serve_client *c = talk_client(t);
        t->n = 0;
        enum serve_state s = talk_feed(t, c, open_ends[i], strlen(open_ends[i]));
        MUST(s == SERVE_HUNGRY && t->n == 0, "%s: state %d", open_ends[i], s);
        size_t held = hg_size_of(c->input) + hg_size_of(c->parse.span);
        MUST(held <= 4096, "%s holds %zu bytes", open_ends[i], held);
        serve_client_end(c);
    }
    talk_close(t);
    return 0;
}
Test(sim_serve_parse, wrong) { talk_run(wrong, NULL); }

/* Lines without an end. */
static int long_lines(void *arg)
{
    (void)arg;
    static const struct exchange begin[] = {
        {"", "-ERR Protocol error: too big inline request\r\n"},
        {"*", "-ERR Protocol error: too big mbulk count string\r\n"},
        {"*1\r\n$", "-ERR Protocol error: too big bulk count string\r\n"},
    };
    char *line = malloc(SERVE_LINE_MAX + 2);
    MUST(line != NULL, "no memory");
    memset(line, '1', SERVE_LINE_MAX + 2);
    struct talk *t = talk_open();
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++) {
        struct serve_client *c = talk_client(t);
        size_t n = SERVE_LINE_MAX - (begin[i].request[0] != 0);
        t->n = 0;
        talk_feed(t, c, begin[i].request, strlen(begin[i].request));
        MUST(talk_feed(t, c, line, n) == SERVE_HUNGRY, "%zu bytes are too many", n);
        MUST(talk_feed(t, c, line, 1) == SERVE_CLOSING, "one byte more is not");
        expect(t, "a long line", 0, begin[i].reply);
        serve_client_end(c);
    }
    free(line);
    talk_close(t);
    return 0;
}
Test(sim_serve_parse, long_lines) { talk_run(long_lines, NULL); }

/* Many arguments, and a long one, which its key then has. */
static int large(void *arg)
{
    (void)arg;
    enum { KEYS = 20000, BYTES = 3000000 };
    struct talk *t = talk_open();
    struct serve_client *c = talk_client(t);
    char text[64];
    talk_feed(t, c, text, (size_t)sprintf(text, "*%d\r\n$4\r\nMSET\r\n", 2 * KEYS + 1));
    for (int i = 0; i < 2 * KEYS; i++)
        talk_feed(t, c, text, (size_t)sprintf(text, "$6\r\n%06d\r\n", i));
    expect(t, "MSET", 0, "+OK\r\n");
    MUST(strcmp(talk_ask(t, c, "GET 039998"), "$6\r\n039999\r\n") == 0, "not set");
    MUST(c->parse.room <= 64, "the list of arguments is kept");
    char *value = malloc(BYTES);
    MUST(value != NULL, "no memory");
    for (int i = 0; i < BYTES; i++)
        value[i] = (char)(i * 7 + i / 1000);
    t->n = 0;
    talk_feed(t, c, text, (size_t)sprintf(text, "*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n", BYTES));
    talk_feed(t, c, value, BYTES);
    talk_feed(t, c, "\r\n", 2);
    expect(t, "SET", 0, "+OK\r\n");
    const char *reply = talk_ask(t, c, "GET big");
    MUST(t->n == BYTES + 12 && memcmp(reply + 10, value, BYTES) == 0, "another value");
    talk_ask(t, c, "PING");
    MUST(c->room <= 16384, "an input buffer of %zu bytes is kept", c->room);
    free(value);
    talk_close(t);
    return 0;
}
Test(sim_serve_parse, large) { talk_run(large, NULL); }

/* ---- random bytes ---- */

/* Bytes that look like requests often enough to get far. */
static size_t garbage(struct sim_rng *rng, char *out, size_t n)
{
    static const char *const pieces[] = {
        "*",    "$",           "\r\n",          "\r", "\n", "0",  "1",   "2",
        "-1",   "*2\r\n",      "$3\r\nGET\r\n", "\"", "'",  "\\", "\\x", " ",
        "PING", "SET a b\r\n", "$1\r\na\r\n"};
    size_t used = 0;
    while (used + 16 < n) {
        uint32_t pick = sim_rng_below(rng, 24);
        if (pick < sizeof pieces / sizeof *pieces) {
            size_t length = strlen(pieces[pick]);
            memcpy(out + used, pieces[pick], length);
            used += length;
        } else {
            out[used++] = (char)sim_rng_next(rng);
        }
    }
    return used;
}

/* The same bytes in one piece and in pieces of any size: the same replies. */
static int random_bytes(void *arg)
{
    struct sim_rng rng = {*(const uint64_t *)arg};
    struct talk *one = talk_open(), *many = talk_open();
    for (uint64_t round = test_scaled(2000); round > 0; round--) {
        char bytes[700];
        size_t n = garbage(&rng, bytes, 1 + sim_rng_below(&rng, sizeof bytes));
        struct serve_client *a = talk_client(one), *b = talk_client(many);
        one->n = many->n = 0;
        enum serve_state wanted = talk_feed(one, a, bytes, n), got = SERVE_HUNGRY;
        for (size_t i = 0, part; i < n && got == SERVE_HUNGRY; i += part) {
            part = 1 + sim_rng_below(&rng, (uint32_t)(n - i < 40 ? n - i : 40));
            got = talk_feed(many, b, bytes + i, part);
        }
        MUST(got == wanted && one->n == many->n &&
                 (one->n == 0 || memcmp(one->reply, many->reply, one->n) == 0),
             "in one piece %d \"%s\", in several %d \"%s\"", wanted, one->reply, got, many->reply);
        serve_client_end(a);
        serve_client_end(b);
    }
    talk_close(one);
    talk_close(many);
    return 0;
}
Test(sim_serve_parse, random_bytes)
{
    uint64_t seed = test_seed("sim_serve_parse/random_bytes");
    talk_run(random_bytes, &seed);
}
