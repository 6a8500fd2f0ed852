/* serve_cmd_client.c: commands on the connection itself (serve_command.h). */
#include "sim/serve.h"
#include <stdio.h>

void serve_cmd_ping(struct serve_call *c)
{
    if (c->argc > 2)
        serve_wrong_arguments(c);
    else if (c->argc == 2)
        serve_put_bulk(c->out, serve_arg(c, 1));
    else
        serve_put_status(c->out, "PONG");
}

void serve_cmd_echo(struct serve_call *c) { serve_put_bulk(c->out, serve_arg(c, 1)); }

void serve_cmd_quit(struct serve_call *c)
{
    c->client->closing = true;
    serve_put_status(c->out, "OK");
}

void serve_cmd_select(struct serve_call *c)
{
    int64_t db;
    if (!serve_arg_int(c, 1, &db))
        return;
    if (db < 0 || db >= SERVE_DATABASES) {
        serve_put_error(c->out, "ERR DB index is out of range");
        return;
    }
    atomic_store_explicit(&c->client->db, (int)db, memory_order_relaxed);
    serve_put_status(c->out, "OK");
}

void serve_cmd_auth(struct serve_call *c)
{
    if (c->argc > 3)
        serve_syntax_error(c);
    else if (c->argc == 3 && !serve_arg_is(c, 1, "default"))
        serve_put_error(c->out, "WRONGPASS invalid username-password pair or user is disabled.");
    else if (c->argc == 3)
        serve_put_status(c->out, "OK"); /* the default user has no password: any will do */
    else
        serve_put_error(c->out, "ERR AUTH <password> called without any password configured for "
                                "the default user. Are you sure your configuration is correct?");
}

/* ---- names ---- */

static bool plain_name(struct serve_text t)
{
    for (size_t i = 0; i < t.n; i++)
        if (t.at[i] < '!' || t.at[i] > '~')
            return false;
    return true;
}

/* False: the error is put. */
static bool set_name(struct serve_call *c, struct serve_text t)
{
    if (!plain_name(t)) {
        serve_put_error(c->out,
                        "ERR Client names cannot contain spaces, newlines or special characters.");
        return false;
    }
    hg_ref_store(&c->client->name, t.n == 0 ? NULL : serve_string_new(t));
    return true;
}

static void put_name(struct serve_call *c)
{
    serve_put_string(c->out, atomic_load_explicit(&c->client->name, memory_order_acquire));
}

/* ---- HELLO ---- */

static void put_hello(struct serve_call *c)
{
    serve_put_array(c->out, 14);
    serve_put_word(c->out, "server");
    serve_put_word(c->out, "hedge");
    serve_put_word(c->out, "version");
    serve_put_word(c->out, hg_version());
    serve_put_word(c->out, "proto");
    serve_put_int(c->out, 2);
    serve_put_word(c->out, "id");
    serve_put_int(c->out, (int64_t)c->client->id);
    serve_put_word(c->out, "mode");
    serve_put_word(c->out, "standalone");
    serve_put_word(c->out, "role");
    serve_put_word(c->out, "master");
    serve_put_word(c->out, "modules");
    serve_put_array(c->out, 0);
}

/* The words behind the version. False: the error is put. */
static bool hello_options(struct serve_call *c)
{
    for (int i = 2; i < c->argc; i++) {
        int left = c->argc - 1 - i;
        if (serve_arg_is(c, i, "auth") && left >= 2) {
            if (!serve_arg_is(c, i + 1, "default")) {
                serve_put_error(c->out, "WRONGPASS invalid username-password pair or user is "
                                        "disabled.");
                return false;
            }
            i += 2;
        } else if (serve_arg_is(c, i, "setname") && left >= 1) {
            if (!set_name(c, serve_arg(c, i + 1)))
                return false;
            i++;
        } else {
            struct serve_text t = serve_arg(c, i);
            serve_put_error(c->out, "ERR Syntax error in HELLO option '%.*s'",
                            (int)(t.n < 128 ? t.n : 128), t.at);
            return false;
        }
    }
    return true;
}

void serve_cmd_hello(struct serve_call *c)
{
    int64_t version = 2;
    if (c->argc > 1 && !serve_int_parse(serve_arg(c, 1), &version)) {
        serve_put_error(c->out, "ERR Protocol version is not an integer or out of range");
        return;
    }
    if (version != 2) {
        serve_put_error(c->out, "NOPROTO unsupported protocol version");
        return;
    }
    if (hello_options(c))
        put_hello(c);
}

/* ---- CLIENT ---- */

/* A client as CLIENT LIST shows it, a line. Under the lock of the registry, or of the caller
 * itself. */
static void put_client(struct serve_out *o, struct serve_client *c)
{
    char line[512];
    int64_t now = hg_now();
    const struct serve_command *last = atomic_load_explicit(&c->last, memory_order_relaxed);
    struct serve_string *name = atomic_load_explicit(&c->name, memory_order_acquire);
    int n = snprintf(line, sizeof line,
                     "id=%llu addr=%s laddr=%s fd=-1 name=", (unsigned long long)c->id, c->peer,
                     c->local);
    serve_put(o, line, (size_t)n);
    if (name != NULL)
        serve_put(o, name->bytes, name->length);
    n = snprintf(
        line, sizeof line,
        " age=%lld idle=%lld flags=N db=%d sub=0 psub=0 ssub=0 multi=-1 cmd=%s user=default "
        "redir=-1 resp=2\n",
        (long long)((now - c->since) / 1000000000),
        (long long)((now - atomic_load_explicit(&c->active, memory_order_relaxed)) / 1000000000),
        atomic_load_explicit(&c->db, memory_order_relaxed), last == NULL ? "NULL" : last->name);
    serve_put(o, line, (size_t)n);
}

/* The lines of all clients, or of the caller, as one bulk: they are written aside, to be
 * counted. */
static void put_clients(struct serve_call *c, bool all)
{
    struct serve_server *s = c->server;
    struct serve_out lines = {0};
    struct iovec piece;
    if (all) {
        hg_mutex_lock(&s->clients_lock);
        for (struct serve_client *k = s->clients; k != NULL; k = k->next)
            put_client(&lines, k);
        hg_mutex_unlock(&s->clients_lock);
    } else {
        put_client(&lines, c->client);
    }
    char header[32];
    int n = snprintf(header, sizeof header, "$%zu\r\n", lines.pending);
    serve_put(c->out, header, (size_t)n);
    while (serve_out_pieces(&lines, &piece, 1) > 0) {
        serve_put(c->out, piece.iov_base, piece.iov_len);
        serve_out_sent(&lines, piece.iov_len);
    }
    serve_put(c->out, "\r\n", 2);
}

static void client_setinfo(struct serve_call *c)
{
    if (!serve_arg_is(c, 2, "lib-name") && !serve_arg_is(c, 2, "lib-ver")) {
        struct serve_text t = serve_arg(c, 2);
        serve_put_error(c->out, "ERR Unrecognized option '%.*s'", (int)(t.n < 128 ? t.n : 128),
                        t.at);
    } else if (!plain_name(serve_arg(c, 3))) {
        serve_put_error(c->out, "ERR %.*s cannot contain spaces, newlines or special characters.",
                        (int)serve_arg(c, 2).n, serve_arg(c, 2).at);
    } else {
        serve_put_status(c->out, "OK");
    }
}

void serve_cmd_client(struct serve_call *c)
{
    static const struct serve_subcommand known[] = {{"getname", 2, 2}, {"id", 2, 2},
                                                    {"info", 2, 2},    {"list", 2, 2},
                                                    {"setinfo", 4, 4}, {"setname", 3, 3}};
    switch (serve_subcommand(c, known, sizeof known / sizeof *known)) {
    case 0:
        put_name(c);
        break;
    case 1:
        serve_put_int(c->out, (int64_t)c->client->id);
        break;
    case 2:
        put_clients(c, false);
        break;
    case 3:
        put_clients(c, true);
        break;
    case 4:
        client_setinfo(c);
        break;
    case 5:
        if (set_name(c, serve_arg(c, 2)))
            serve_put_status(c->out, "OK");
        break;
    default:
        break; /* the error is put */
    }
}
