/* serve_client.c: the engine: from a client's bytes to replies (serve_client.h).
 *
 * A request is looked up, checked, given the locks of its keys, run. Its arguments are parts of the
 * input buffer, which does not change until the command has run; what is kept of them is copied.
 */
#include "sim/serve.h"
#include <hedge/task.h>
#include <stdio.h>

#define INPUT_LEAST 1024
#define INPUT_ASK   16384 /* bytes asked for at once by a client that sends much */

static const uint32_t client_refs[] = {
    (uint32_t)offsetof(struct serve_client, next),
    (uint32_t)offsetof(struct serve_client, previous),
    (uint32_t)offsetof(struct serve_client, parse.span),
    (uint32_t)offsetof(struct serve_client, input),
    (uint32_t)offsetof(struct serve_client, out.first),
    (uint32_t)offsetof(struct serve_client, out.last),
    (uint32_t)offsetof(struct serve_client, name),
    (uint32_t)offsetof(struct serve_client, carrier),
};
static const hg_layout client_layout = HG_TYPED("serve client", client_refs);

/* ---- the registry ---- */

struct serve_client *serve_client_new(struct serve_server *server, void *carrier, const char *peer,
                                      const char *local)
{
    struct serve_client *c = hg_alloc(sizeof *c, &client_layout);
    c->server = server;
    c->carrier = carrier;
    c->since = hg_now();
    atomic_init(&c->active, c->since);
    snprintf(c->peer, sizeof c->peer, "%s", peer);
    snprintf(c->local, sizeof c->local, "%s", local);
    hg_mutex_lock(&server->clients_lock);
    c->id = ++server->next_id;
    server->clients_now++;
    hg_ref_store(&c->next, server->clients);
    if (c->next != NULL)
        hg_ref_store(&c->next->previous, c);
    hg_ref_store(&server->clients, c);
    hg_mutex_unlock(&server->clients_lock);
    serve_count(&server->connections, 1);
    return c;
}

void serve_client_end(struct serve_client *c)
{
    struct serve_server *server = c->server;
    hg_mutex_lock(&server->clients_lock);
    hg_ref_store(c->previous != NULL ? &c->previous->next : &server->clients, c->next);
    if (c->next != NULL)
        hg_ref_store(&c->next->previous, c->previous);
    server->clients_now--;
    hg_mutex_unlock(&server->clients_lock);
}

int serve_server_open(struct serve_server *s, const struct serve_options *opt, hg_runtime *rt)
{
    memset(s, 0, sizeof *s);
    s->opt = opt;
    s->rt = rt;
    s->began = hg_now();
    int err = serve_store_open(&s->store, rt);
    if (err == 0)
        err = hg_root_add(rt, &s->clients, 1, HG_REFS);
    if (err != 0)
        serve_store_close(&s->store, rt);
    return err;
}

void serve_server_close(struct serve_server *s)
{
    serve_store_close(&s->store, s->rt);
    int err = hg_root_remove(s->rt, &s->clients);
    (void)err; /* -ENOENT: it was not open */
}

/* ---- input ---- */

/* Moves what is not understood yet into a buffer of `room` bytes, or to the front of this one. */
static bool move_input(struct serve_client *c, size_t room)
{
    size_t n = c->to - c->from;
    char *input = c->input;
    if (room != c->room && (input = hg_try_alloc(room, HG_LEAF)) == NULL)
        return false;
    if (n > 0)
        memmove(input, c->input + c->from, n);
    hg_ref_store(&c->input, input);
    c->room = room;
    c->from = 0;
    c->to = n;
    return true;
}

/* The room that the buffer is to have for what comes next. Full, it shows that more comes at once
 * than it holds; what is understood makes place; one that is too large for its client goes. */
static size_t next_room(const struct serve_client *c)
{
    size_t held = c->to - c->from, room = c->room;
    if (room == 0)
        return INPUT_LEAST;
    if (held == 0 && room > INPUT_ASK)
        return INPUT_ASK;
    if (held > room / 2 || (c->to == room && room < INPUT_ASK))
        room *= 2;
    return room < SERVE_INPUT_MAX ? room : SERVE_INPUT_MAX;
}

char *serve_client_room(struct serve_client *c, size_t *n)
{
    size_t held = c->to - c->from;
    if (held >= SERVE_INPUT_MAX)
        return NULL;
    bool fits = held > 0 && c->room - c->to >= c->room / 4;
    if (!fits && !move_input(c, next_room(c)))
        return NULL;
    *n = c->room - c->to;
    return c->input + c->to;
}

void serve_client_received(struct serve_client *c, size_t n) { c->to += n; }

/* ---- requests ---- */

/* The name of a command, as the error quotes it, and its arguments. */
static void unknown_command(struct serve_call *c)
{
    char args[160] = "";
    size_t used = 0;
    struct serve_text name = serve_arg(c, 0);
    for (int i = 1; i < c->argc && used < 128; i++) {
        struct serve_text t = serve_arg(c, i);
        size_t most = 128 - used;
        used += (size_t)snprintf(args + used, sizeof args - used, "'%.*s' ",
                                 (int)(t.n < most ? t.n : most), t.at);
    }
    serve_put_error(c->out, "ERR unknown command '%.*s', with args beginning with: %s",
                    (int)(name.n < 128 ? name.n : 128), name.at, args);
}

static void run(struct serve_call *c)
{
    uint64_t shards = serve_call_shards(c);
    serve_store_lock(c->store, shards);
    c->command->run(c);
    serve_store_unlock(c->store, shards);
}

/* Executes the request that has been parsed at `from`. */
static void execute(struct serve_client *client)
{
    const struct serve_parse *p = &client->parse;
    struct serve_call c = {.server = client->server,
                           .store = &client->server->store,
                           .client = client,
                           .out = &client->out,
                           .bytes = client->input + client->from,
                           .span = p->span,
                           .argc = (int)p->argc};
    c.db = atomic_load_explicit(&client->db, memory_order_relaxed);
    c.command = serve_command_find(serve_arg(&c, 0));
    if (c.command == NULL) {
        unknown_command(&c);
        return;
    }
    atomic_store_explicit(&client->last, c.command, memory_order_relaxed);
    int arity = c.command->arity;
    if (arity > 0 ? c.argc != arity : c.argc < -arity)
        serve_wrong_arguments(&c);
    else
        run(&c);
}

/* The next request of those that are there. SERVE_FLUSHED: executed. */
static enum serve_state next_request(struct serve_client *c)
{
    int64_t limit = c->server->opt->output_limit;
    enum serve_parsed parsed = serve_parse(&c->parse, c->input + c->from, c->to - c->from);
    if (parsed == SERVE_MORE)
        return SERVE_HUNGRY;
    if (parsed == SERVE_WRONG) {
        serve_put_error(&c->out, "ERR %s", c->parse.error);
        c->closing = true;
        return SERVE_CLOSING;
    }
    if (limit > 0 && c->out.pending > (size_t)limit)
        return SERVE_DROP;
    if (c->parse.argc > 0)
        execute(c);
    c->from += c->parse.at;
    serve_parse_reset(&c->parse);
    return c->closing ? SERVE_CLOSING : SERVE_FLUSHED;
}

enum serve_state serve_client_run(struct serve_client *c)
{
    struct serve_server *s = c->server;
    enum serve_state state = SERVE_FLUSHED;
    size_t flush = c->out.pending + SERVE_FLUSH;
    uint64_t done = 0;
    if (c->closing)
        return SERVE_CLOSING;
    while (state == SERVE_FLUSHED && c->out.pending < flush) {
        if (atomic_load_explicit(&s->stopping, memory_order_relaxed))
            c->closing = true;
        state = c->closing ? SERVE_CLOSING : next_request(c);
        done += state == SERVE_FLUSHED;
        if (done % 64 == 63)
            hg_safepoint();
    }
    if (done > 0) {
        atomic_store_explicit(&c->active, hg_now(), memory_order_relaxed);
        serve_count(&s->requests, done);
    }
    return state;
}
