/* serve.h: the parts of `hedge-sim serve` and the state between them.
 *
 * A RESP2 server: what redis-benchmark and redis-cli need of Redis, with all data, buffers and
 * clients on the collected heap.
 *
 *   serve.c         opens the runtime, listens, accepts; stops in order at a signal
 *   serve_conn.c    a task per connection: reads, has the requests run, sends
 *   serve_client.c  the engine: bytes in, replies out (serve_client.h)
 *   serve_parse, serve_reply, serve_command, serve_store, serve_value    as their headers say
 *   serve_info.c, serve_report.c    figures: INFO; what is printed at the end
 *
 * The state is in plain memory and outlives the runtime. References into the heap are in the two
 * global roots only: the store's keyspaces and `clients`.
 */
#ifndef HG_SIM_SERVE_H
#define HG_SIM_SERVE_H
#include "sim/serve_command.h"
#include <hedge/stats.h>

struct serve_options {
    const char *bind;        /* address to listen on */
    int port;                /* 0: any that is free; -1: none */
    const char *unix_socket; /* NULL: none */
    int max_clients;
    int64_t output_limit; /* bytes pending for a client; 0: none */
    int backlog;
};
/* Wrong usage ends the process with status 2 (serve_options.c). */
void serve_options_parse(struct serve_options *opt, int argc, char **argv);

/* Counters are written by any task, relaxed, and read by INFO and the report. */
struct serve_server {
    const struct serve_options *opt;
    hg_runtime *rt;
    struct serve_store store;
    hg_mutex clients_lock;
    struct serve_client *clients; /* a global root: the registry, newest first; under the lock */
    int clients_now;              /* under the lock */
    uint64_t next_id;             /* under the lock */
    _Atomic uint64_t requests, connections, rejected, dropped;
    _Atomic bool stopping;       /* by the main task and SHUTDOWN; no request is begun any more */
    _Atomic uint64_t stop_asked; /* SHUTDOWN: counts */
    int64_t began;               /* hg_now() */
    int port;                    /* that it listens on; 0: none */
};

/* The server's state with its roots; the caller's memory, for as long as the runtime is open.
 * 0 or a negative errno. */
int serve_server_open(struct serve_server *s, const struct serve_options *opt, hg_runtime *rt);
void serve_server_close(struct serve_server *s);

static inline void serve_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}
static inline uint64_t serve_counted(_Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

#endif
