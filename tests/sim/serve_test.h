/* serve_test.h: what the tests of `hedge-sim serve` share: its engine on a runtime, without a
 * network: bytes in, replies out.
 *
 * Criterion's assertions jump out of the function that fails, which a task must not do: in tasks
 * MUST prints and ends the process, and each test has a process of its own.
 */
#ifndef HG_TESTS_SIM_SERVE_TEST_H
#define HG_TESTS_SIM_SERVE_TEST_H
#include "sim/serve.h"
#include "tests/support/test.h"

#include <criterion/criterion.h>
#include <hedge/hedge.h>
#include <stdio.h>
#include <stdlib.h>

#undef MUST
#define MUST(c, ...) ((c) ? (void)0 : (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), abort()))

/* A server and what its clients were answered. */
struct talk {
    struct serve_options opt;
    struct serve_server server;
    char *reply; /* of the last request, terminated */
    size_t n, room;
};

static inline struct talk *talk_open(void)
{
    struct talk *t = calloc(1, sizeof *t);
    MUST(t != NULL, "no memory");
    t->opt = (struct serve_options){
        .bind = "127.0.0.1", .port = -1, .max_clients = 10, .output_limit = 1 << 24};
    MUST(serve_server_open(&t->server, &t->opt, hg_current()) == 0, "no server");
    return t;
}

static inline void talk_close(struct talk *t)
{
    serve_server_close(&t->server);
    free(t->reply);
    free(t);
}

static inline struct serve_client *talk_client(struct talk *t)
{
    return serve_client_new(&t->server, NULL, "127.0.0.1:1", "127.0.0.1:2");
}

/* Moves what is pending for a client behind what it was answered. */
static inline void talk_take(struct talk *t, struct serve_client *c)
{
    struct iovec iov[3];
    int pieces;
    while ((pieces = serve_out_pieces(&c->out, iov, 3)) > 0)
        for (int i = 0; i < pieces; i++) {
            if (t->n + iov[i].iov_len + 1 > t->room) {
                t->room = 2 * (t->n + iov[i].iov_len + 1);
                t->reply = realloc(t->reply, t->room);
                MUST(t->reply != NULL, "no memory");
            }
            memcpy(t->reply + t->n, iov[i].iov_base, iov[i].iov_len);
            t->n += iov[i].iov_len;
            t->reply[t->n] = 0;
            serve_out_sent(&c->out, iov[i].iov_len);
        }
    MUST(c->out.pending == 0, "%zu bytes are pending and cannot be had", c->out.pending);
}

/* Gives a client bytes, as many as it takes at once; its replies are added to t->reply. */
static inline enum serve_state talk_feed(struct talk *t, struct serve_client *c, const char *bytes,
                                         size_t n)
{
    enum serve_state state = SERVE_HUNGRY;
    while (n > 0 && (state == SERVE_HUNGRY || state == SERVE_FLUSHED)) {
        size_t room;
        char *to = serve_client_room(c, &room);
        MUST(to != NULL && room > 0, "no room for input");
        size_t part = room < n ? room : n;
        memcpy(to, bytes, part);
        serve_client_received(c, part);
        bytes += part;
        n -= part;
        do {
            state = serve_client_run(c);
            talk_take(t, c);
        } while (state == SERVE_FLUSHED);
    }
    return state;
}

/* The reply to one request, given as a line. */
static inline const char *talk_ask(struct talk *t, struct serve_client *c, const char *line)
{
    t->n = 0;
    talk_feed(t, c, line, strlen(line));
    talk_feed(t, c, "\n", 1);
    return t->n == 0 ? "" : t->reply;
}

/* Requests with the replies they must have. */
struct exchange {
    const char *request, *reply;
};
static inline void talk_script(struct talk *t, const struct exchange *x, size_t n)
{
    struct serve_client *c = talk_client(t);
    for (size_t i = 0; i < n; i++) {
        const char *reply = talk_ask(t, c, x[i].request);
        MUST(strcmp(reply, x[i].reply) == 0, "%s: expected \"%s\", not \"%s\"", x[i].request,
             x[i].reply, reply);
    }
    serve_client_end(c);
}

/* Runs fn on a runtime with collections all the time, freed memory being overwritten. */
static inline void talk_run(int (*fn)(void *), void *arg)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = 2;
    o.stress = 20;
    o.poison = true;
    cr_assert_eq(hg_run(fn, arg, &o), 0);
}

#endif
