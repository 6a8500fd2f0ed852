/* serve.c: `hedge-sim serve`: opens the runtime, listens, stops in order (serve.h).
 *
 * The main task waits for signals, and ten times a second sweeps expired keys and looks whether
 * SHUTDOWN has asked it to stop.
 * Stopping: close the listeners; set `stopping`, so that no further request is begun; end the
 * reading side of every connection, so that tasks that wait for requests wake up, send what is
 * pending and close; after STOP_NS, or at a second signal, close those that are left at once;
 * report.
 */
#include "sim/serve_conn.h"
#include "sim/serve_report.h"
#include "sim/sim.h"
#include <errno.h>
#include <hedge/signal.h>
#include <hedge/task.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define TICK_NS        INT64_C(100000000)
#define STOP_NS        INT64_C(5000000000)
#define OTHER_FILES    64 /* descriptors beside the connections */
#define ADDRESS_LENGTH 160

struct serving {
    struct serve_options opt;
    struct serve_server server;
    hg_fd *listener[2]; /* a global root: TCP, Unix */
};

/* Lifts the limit on descriptors to what max_clients needs; lowers that where it cannot be had. */
static void fit_clients(struct serve_options *opt)
{
    struct rlimit r;
    rlim_t wanted = (rlim_t)opt->max_clients + OTHER_FILES;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= wanted)
        return;
    r.rlim_cur = r.rlim_max < wanted ? r.rlim_max : wanted;
    if (setrlimit(RLIMIT_NOFILE, &r) != 0)
        getrlimit(RLIMIT_NOFILE, &r);
    if (r.rlim_cur >= wanted)
        return;
    opt->max_clients = r.rlim_cur > OTHER_FILES + 1 ? (int)r.rlim_cur - OTHER_FILES : 1;
    fprintf(stderr,
            "hedge-sim serve: %llu descriptors allowed (ulimit -Hn): max-clients lowered to %d\n",
            (unsigned long long)r.rlim_cur, opt->max_clients);
}

/* ---- listening ---- */

struct accepting {
    struct serve_server *server;
    hg_fd *listener;
};

static void accept_task(void *arg)
{
    struct accepting *a = arg;
    serve_accept(a->server, a->listener);
}

/* Removes the socket of a server that is gone: a path that nobody listens on. */
static bool remove_stale(const char *address)
{
    hg_fd *fd;
    if (strncmp(address, "unix:", 5) != 0)
        return false;
    int err = hg_dial(address, HG_NOW, &fd);
    if (err == 0)
        err = hg_fd_close(fd);
    return err == -ECONNREFUSED && unlink(address + 5) == 0;
}

static int listen_at(struct serving *v, int i, const char *address)
{
    struct accepting a = {&v->server, NULL};
    int err = hg_listen(address, v->opt.backlog, &a.listener);
    if (err == -EADDRINUSE && remove_stale(address))
        err = hg_listen(address, v->opt.backlog, &a.listener);
    if (err == 0) {
        hg_ref_store(&v->listener[i], a.listener);
        err = hg_go_copy(accept_task, &a, sizeof a);
    }
    if (err != 0)
        fprintf(stderr, "hedge-sim serve: %s: %s\n", address, strerror(-err));
    return err;
}

static int listen_tcp(struct serving *v)
{
    char address[ADDRESS_LENGTH];
    const char *bind = strcmp(v->opt.bind, "*") == 0 ? "" : v->opt.bind;
    snprintf(address, sizeof address, strchr(bind, ':') != NULL ? "[%s]:%d" : "%s:%d", bind,
             v->opt.port);
    int err = listen_at(v, 0, address);
    if (err != 0)
        return err;
    char local[HG_ADDRESS_ROOM] = "";
    if (hg_fd_local_address(v->listener[0], local, sizeof local) >= 0 && strrchr(local, ':'))
        v->server.port = atoi(strrchr(local, ':') + 1);
    printf("listening on %s\n", local);
    return 0;
}

static int listen_all(struct serving *v)
{
    char address[ADDRESS_LENGTH];
    int err = v->opt.port >= 0 ? listen_tcp(v) : 0;
    if (err == 0 && v->opt.unix_socket != NULL) {
        snprintf(address, sizeof address, "unix:%s", v->opt.unix_socket);
        err = listen_at(v, 1, address);
        if (err == 0)
            printf("listening on %s\n", address);
    }
    fflush(stdout);
    return err;
}

static void close_listeners(struct serving *v)
{
    for (int i = 0; i < 2; i++)
        if (v->listener[i] != NULL) {
            int err = hg_fd_close(v->listener[i]);
            (void)err; /* it is gone whatever close(2) says */
        }
}

/* ---- serving ---- */

/* A signal that asks to stop, within `ns`. */
static bool signalled(int64_t ns)
{
    static const int signals[] = {SIGINT, SIGTERM};
    int64_t deadline = hg_in(ns);
    int signal = hg_signal_wait(signals, 2, deadline);
    if (signal < 0 && signal != -ETIMEDOUT) /* no descriptor for it: try again later */
        hg_sleep_until(deadline);
    return signal > 0;
}

static void serve(struct serving *v)
{
    while (!signalled(TICK_NS) && serve_counted(&v->server.stop_asked) == 0)
        serve_store_sweep(&v->server.store);
}

static void stop(struct serving *v)
{
    int64_t last = hg_in(STOP_NS);
    close_listeners(v);
    atomic_store_explicit(&v->server.stopping, true, memory_order_relaxed);
    serve_clients_stop(&v->server, false);
    while (serve_clients_left(&v->server) > 0 && hg_now() < last && !signalled(TICK_NS / 20))
        continue;
    serve_clients_stop(&v->server, true);
}

static int main_task(void *arg)
{
    struct serving *v = arg;
    hg_runtime *rt = hg_current();
    int err = serve_server_open(&v->server, &v->opt, rt);
    if (err == 0)
        err = hg_root_add(rt, v->listener, 2, HG_REFS);
    if (err != 0) {
        fprintf(stderr, "hedge-sim serve: the data's roots: %s\n", strerror(-err));
        return SIM_FAILED;
    }
    if (listen_all(v) != 0) {
        close_listeners(v);
        return SIM_FAILED;
    }
    serve(v);
    stop(v);
    serve_report(&v->server);
    return SIM_OK;
}

int sim_serve(int argc, char **argv)
{
    struct serving *v = calloc(1, sizeof *v);
    if (v == NULL)
        return SIM_FAILED;
    serve_options_parse(&v->opt, argc, argv);
    fit_clients(&v->opt);
    int status = hg_run(main_task, v, NULL);
    if (status < 0) {
        fprintf(stderr, "hedge-sim serve: no runtime: %s\n", strerror(-status));
        status = SIM_FAILED;
    }
    free(v);
    return status;
}
