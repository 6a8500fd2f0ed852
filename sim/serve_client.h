/* serve_client.h: a client as the engine sees it: bytes in, requests executed, replies out. What
 * carries the bytes is none of its business (serve_conn.c does that, and tests do).
 *
 * A client is one heap object with everything that belongs to it: input buffer, arguments, replies.
 * It is used by the one task that serves it. Other tasks, for CLIENT LIST and at the end, find it
 * in the registry of the server and read only what is marked shared.
 *
 * Memory: the input buffer grows by doubling as bytes arrive, never because of what a client
 * announces; past SERVE_INPUT_MAX the client is closed. Replies: serve_reply.h; a request is
 * executed only if no more than the output limit is pending, so a client that does not read has at
 * most that and one reply.
 */
#ifndef HG_SIM_SERVE_CLIENT_H
#define HG_SIM_SERVE_CLIENT_H
#include "sim/serve_parse.h"
#include "sim/serve_reply.h"
#include "sim/serve_store.h"

#define SERVE_INPUT_MAX (size_t)(UINT64_C(1) << 30) /* of one client: as Redis's query buffer */
#define SERVE_FLUSH     65536 /* replies that are sent before more requests are looked at */

struct serve_server;
struct serve_command;

struct serve_client {
    struct serve_client *next, *previous; /* registry: under its lock */
    struct serve_parse parse;
    char *input; /* leaf: bytes from..to are not understood yet */
    size_t from, to, room;
    struct serve_out out;
    _Atomic(struct serve_string *) name; /* shared; NULL: none */
    void *carrier; /* whoever carries the bytes, a heap object or NULL. Shared, fixed */
    struct serve_server *server;
    uint64_t id;
    _Atomic int db;                             /* shared */
    _Atomic(const struct serve_command *) last; /* shared: the last command */
    _Atomic int64_t active;                     /* shared: hg_now() of the last request */
    int64_t since;                              /* hg_now() of its beginning. Shared, fixed */
    bool closing;                               /* after what is pending */
    char peer[64], local[64];                   /* addresses. Shared, fixed */
};

/* What serve_client_run came to. */
enum serve_state {
    SERVE_HUNGRY,  /* needs more bytes */
    SERVE_FLUSHED, /* replies should be sent; then run again, there may be more requests */
    SERVE_CLOSING, /* close it when all is sent */
    SERVE_DROP     /* close it now: too much pending, or no memory for its input */
};

/* S W: a client, in the registry. */
struct serve_client *serve_client_new(struct serve_server *server, void *carrier, const char *peer,
                                      const char *local);
/* S W: out of the registry. */
void serve_client_end(struct serve_client *c);

/* S W: where the next bytes go, at least one; *n: how many may. NULL: it has sent too much that is
 * no request, or there is no memory. */
char *serve_client_room(struct serve_client *c, size_t *n);
/* n bytes were put there. */
void serve_client_received(struct serve_client *c, size_t n);
/* S W: executes requests that are there in full. */
enum serve_state serve_client_run(struct serve_client *c);

#endif
