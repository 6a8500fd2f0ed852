/* serve_options.c: the command line of `hedge-sim serve`. Every wrong value ends the process with
 * status 2 and one message that names the option, the value, and what is possible. */
#include "sim/option.h"
#include "sim/serve.h"
#include "sim/size.h"
#include <argp.h>

enum { KEY_BIND = 0x100, KEY_PORT, KEY_UNIX_SOCKET, KEY_MAX_CLIENTS, KEY_OUTPUT_LIMIT };

static const struct argp_option options[] = {
    {"bind", KEY_BIND, "ADDRESS", 0, "Address to listen on; * is all (127.0.0.1)", 1},
    {"port", KEY_PORT, "N", 0, "Port; 0: one that is free; none: no TCP (6379)", 1},
    {"unixsocket", KEY_UNIX_SOCKET, "PATH", 0, "Listen on a Unix socket too", 1},
    {"max-clients", KEY_MAX_CLIENTS, "N", 0, "Connections at once (10000)", 1},
    {"output-limit", KEY_OUTPUT_LIMIT, "SIZE", 0,
     "A client that lets more than this pile up is closed; none: no limit (64MiB)", 1},
    {0}};

static const char before[] =
    "Serves the Redis protocol (RESP2): a key-value store whose data, buffers and clients are on "
    "the collected heap, with a task per connection. redis-cli and redis-benchmark work with it."
    "\vThe heap is tuned by the environment (hedge-sim env): GOGC, GOMEMLIMIT, GOMAXPROCS, "
    "GODEBUG, HEDGEDEBUG. INFO shows what the collector does.\n\n"
    "Nothing is stored on disk. There are no passwords: think before you --bind.\n\n"
    "Examples:\n"
    "  hedge-sim serve\n"
    "  hedge-sim serve --port 7000 --unixsocket /run/hedge.sock\n"
    "  GOGC=200 GOMAXPROCS=2 hedge-sim serve --port 0 --max-clients 20000\n"
    "  redis-benchmark -p 6379 -c 1000 -P 16 -q        (from another terminal)\n\n"
    "SIGINT and SIGTERM stop it in order: no new connections, requests that run end, replies are "
    "sent, then it reports. A second signal does not wait for that.\n\n"
    "Exit status: 0; 2: wrong usage; 3: it could not listen.";

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct serve_options *o = state->input;
    switch (key) {
    case KEY_BIND:
        if (arg[0] == 0 || strpbrk(arg, "[]/ ") != NULL)
            argp_error(state, "--bind: expected an IP address or *, not \"%s\"", arg);
        o->bind = arg;
        return 0;
    case KEY_PORT:
        o->port = strcmp(arg, "none") == 0
                      ? -1
                      : (int)sim_option_number(state, "port", arg, 0, 65535, true);
        return 0;
    case KEY_UNIX_SOCKET:
        if (arg[0] == 0 || strlen(arg) > 107) /* sun_path */
            argp_error(state, "--unixsocket: expected a path of 1 to 107 bytes, not \"%s\"", arg);
        o->unix_socket = arg;
        return 0;
    case KEY_MAX_CLIENTS:
        o->max_clients = (int)sim_option_number(state, "max-clients", arg, 1, 1000000, true);
        return 0;
    case KEY_OUTPUT_LIMIT:
        o->output_limit =
            strcmp(arg, "none") == 0 ? 0 : sim_size_option(state, "output-limit", arg);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "expected options only, not \"%s\"", arg);
        return 0;
    case ARGP_KEY_END:
        if (o->port < 0 && o->unix_socket == NULL)
            argp_error(state, "--port: none needs --unixsocket: nobody could connect");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void serve_options_parse(struct serve_options *opt, int argc, char **argv)
{
    static const struct argp argp = {options, parse_option, NULL, before, NULL, NULL, NULL};
    *opt = (struct serve_options){.bind = "127.0.0.1",
                                  .port = 6379,
                                  .max_clients = 10000,
                                  .output_limit = INT64_C(64) << 20,
                                  .backlog = 511};
    argp_parse(&argp, argc, argv, 0, NULL, opt);
}
