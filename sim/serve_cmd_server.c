/* serve_cmd_server.c: CONFIG and SHUTDOWN (serve_command.h). INFO is in serve_info.c. */
#include "sim/serve.h"
#include <stdio.h>

/* A parameter of CONFIG GET: its name, and its value written into text. */
struct parameter {
    const char *name;
    void (*value)(const struct serve_server *s, char *text, size_t room);
};

static void empty(const struct serve_server *s, char *text, size_t room)
{
    (void)s;
    snprintf(text, room, "%s", "");
}
static void no(const struct serve_server *s, char *text, size_t room)
{
    (void)s;
    snprintf(text, room, "no");
}
static void zero(const struct serve_server *s, char *text, size_t room)
{
    (void)s;
    snprintf(text, room, "0");
}
static void databases(const struct serve_server *s, char *text, size_t room)
{
    (void)s;
    snprintf(text, room, "%d", SERVE_DATABASES);
}
static void bulk_max(const struct serve_server *s, char *text, size_t room)
{
    (void)s;
    snprintf(text, room, "%lld", (long long)SERVE_BULK_MAX);
}
static void input_max(const struct serve_server *s, char *text, size_t room)
{
    (void)s;
    snprintf(text, room, "%zu", SERVE_INPUT_MAX);
}
static void bind_address(const struct serve_server *s, char *text, size_t room)
{
    snprintf(text, room, "%s", s->opt->bind);
}
static void output_limit(const struct serve_server *s, char *text, size_t room)
{
    snprintf(text, room, "normal %lld 0 0", (long long)s->opt->output_limit);
}
static void max_clients(const struct serve_server *s, char *text, size_t room)
{
    snprintf(text, room, "%d", s->opt->max_clients);
}
static void port(const struct serve_server *s, char *text, size_t room)
{
    snprintf(text, room, "%d", s->port);
}
static void unix_socket(const struct serve_server *s, char *text, size_t room)
{
    snprintf(text, room, "%s", s->opt->unix_socket != NULL ? s->opt->unix_socket : "");
}

static const struct parameter parameters[] = {
    {"appendonly", no},
    {"bind", bind_address},
    {"client-output-buffer-limit", output_limit},
    {"client-query-buffer-limit", input_max},
    {"databases", databases},
    {"maxclients", max_clients},
    {"maxmemory", zero},
    {"port", port},
    {"proto-max-bulk-len", bulk_max},
    {"save", empty},
    {"timeout", zero},
    {"unixsocket", unix_socket},
};

/* Whether one of the patterns of CONFIG GET fits. */
static bool asked_for(const struct serve_call *c, const char *name)
{
    char lower[128];
    for (int i = 2; i < c->argc; i++) {
        struct serve_text t = serve_arg(c, i);
        size_t n = t.n < sizeof lower ? t.n : sizeof lower;
        for (size_t k = 0; k < n; k++)
            lower[k] = t.at[k] >= 'A' && t.at[k] <= 'Z' ? (char)(t.at[k] + 32) : t.at[k];
        if (serve_glob((struct serve_text){lower, n}, serve_text_of(name)))
            return true;
    }
    return false;
}

static void config_get(struct serve_call *c)
{
    int64_t n = 0;
    char text[256];
    struct serve_block *header = serve_put_later(c->out);
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
        if (asked_for(c, parameters[i].name)) {
            parameters[i].value(c->server, text, sizeof text);
            serve_put_word(c->out, parameters[i].name);
            serve_put_word(c->out, text);
            n += 2;
        }
    serve_set_array(c->out, header, n);
}

static void config_resetstat(struct serve_call *c)
{
    struct serve_server *s = c->server;
    _Atomic uint64_t *const counter[] = {&s->requests, &s->connections, &s->rejected, &s->dropped,
                                         &s->store.expired};
    for (size_t i = 0; i < sizeof counter / sizeof *counter; i++)
        atomic_store_explicit(counter[i], 0, memory_order_relaxed);
    serve_put_status(c->out, "OK");
}

static void config_set(struct serve_call *c)
{
    struct serve_text t = serve_arg(c, 2);
    serve_put_error(c->out,
                    "ERR CONFIG SET failed (possibly related to argument '%.*s') - can't set "
                    "immutable config",
                    (int)(t.n < 128 ? t.n : 128), t.at);
}

void serve_cmd_config(struct serve_call *c)
{
    static const struct serve_subcommand known[] = {
        {"get", 3, -1}, {"resetstat", 2, 2}, {"set", 4, -1}};
    switch (serve_subcommand(c, known, sizeof known / sizeof *known)) {
    case 0:
        config_get(c);
        break;
    case 1:
        config_resetstat(c);
        break;
    case 2:
        config_set(c);
        break;
    default:
        break; /* the error is put */
    }
}

void serve_cmd_shutdown(struct serve_call *c)
{
    if (c->argc > 2 || (c->argc == 2 && !serve_arg_is(c, 1, "nosave"))) {
        serve_syntax_error(c);
        return;
    }
    c->client->closing = true; /* no reply: the connection closes */
    serve_count(&c->server->stop_asked, 1);
}
