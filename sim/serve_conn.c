/* serve_conn.c: connections: a task for each, which reads, has the requests run, and sends
 * (serve_conn.h).
 *
 *   run     all requests that are there, or until 64 KiB of replies are pending
 *   send    what the socket takes now: one system call for the replies of a batch
 *   receive when there is nothing more to run: waits for bytes, and if replies are pending also for
 *           the socket to take them
 *
 * So a client that sends many requests before it reads is served on, as Redis does it, while its
 * replies pile up to the output limit; and a task never waits to send alone as long as its client
 * may want to send too, which would be a deadlock with a client that writes all before it reads.
 *
 * At the end replies get CLOSE_NS to be taken. The socket is then shut down for sending first, and
 * what the client still sends is read away for a moment: closing with unread bytes would reset the
 * connection, and the client might never see the error that it was closed for.
 */
#include "sim/serve_conn.h"
#include <errno.h>
#include <hedge/io.h>
#include <hedge/task.h>
#include <poll.h>

#define PIECES      32
#define CLOSE_NS    INT64_C(5000000000)
#define LINGER_NS   INT64_C(500000000)
#define LINGER_MOST 1048576 /* bytes read away */

static hg_fd *fd_of(const struct serve_client *c) { return c->carrier; }

/* Sends what is pending; with HG_NOW what the socket takes at once. 0: all; -EAGAIN: not all. */
static int send_pending(struct serve_client *c, int64_t deadline)
{
    while (c->out.pending > 0) {
        struct iovec iov[PIECES];
        struct msghdr m = {.msg_iov = iov};
        m.msg_iovlen = (size_t)serve_out_pieces(&c->out, iov, PIECES);
        ssize_t n = hg_fd_sendmsg(fd_of(c), &m, 0, deadline);
        if (n < 0)
            return (int)n;
        serve_out_sent(&c->out, (size_t)n);
    }
    return 0;
}

/* Bytes for the client's input: how many, 0: it sends no more, or a negative errno. */
static ssize_t receive_now(struct serve_client *c, int64_t deadline)
{
    size_t room;
    char *to = serve_client_room(c, &room);
    if (to == NULL)
        return -ENOBUFS;
    ssize_t n = hg_fd_read(fd_of(c), to, room, deadline);
    if (n > 0)
        serve_client_received(c, (size_t)n);
    return n;
}

/* The same; sends what is pending meanwhile. -EAGAIN: nothing came, but something was sent. */
static ssize_t receive(struct serve_client *c)
{
    if (c->out.pending == 0)
        return receive_now(c, HG_FOREVER);
    int events = hg_fd_wait(fd_of(c), POLLIN | POLLOUT, HG_FOREVER);
    if (events < 0)
        return events;
    int err = events & POLLOUT ? send_pending(c, HG_NOW) : 0;
    if (err != 0 && err != -EAGAIN)
        return err;
    return events & ~POLLOUT ? receive_now(c, HG_NOW) : -EAGAIN;
}

/* Serves until there is a reason to stop: 0: the client or the server has ended it in order, and
 * what is pending should be sent; else a negative errno. */
static int converse(struct serve_client *c)
{
    for (;;) {
        enum serve_state state = serve_client_run(c);
        if (state == SERVE_DROP)
            return -ENOBUFS;
        int err = send_pending(c, HG_NOW);
        if (err != 0 && err != -EAGAIN)
            return err;
        if (state == SERVE_CLOSING)
            return 0;
        if (state == SERVE_FLUSHED)
            continue;
        ssize_t n = receive(c);
        if (n <= 0 && n != -EAGAIN)
            return (int)n;
    }
}

/* Reads away what the client still sends. */
static void linger(hg_fd *fd)
{
    char bytes[2048];
    int64_t deadline = hg_in(LINGER_NS);
    ssize_t n;
    if (hg_fd_shutdown(fd, SHUT_WR) != 0)
        return;
    for (size_t all = 0; all < LINGER_MOST; all += (size_t)n)
        if ((n = hg_fd_read(fd, bytes, sizeof bytes, deadline)) <= 0)
            return;
}

static void connection(void *arg)
{
    struct serve_client *c = arg;
    int err = converse(c);
    if (err == -ENOBUFS)
        serve_count(&c->server->dropped, 1);
    if (err == 0 && send_pending(c, hg_in(CLOSE_NS)) == 0 && c->closing)
        linger(fd_of(c));
    err = hg_fd_close(fd_of(c));
    (void)err; /* -EBADF: the server has closed it, to stop */
    serve_client_end(c);
}

/* ---- new connections ---- */

static void refuse(struct serve_server *s, hg_fd *fd, const char *why)
{
    serve_count(&s->rejected, 1);
    int err = hg_fd_write_all(fd, why, strlen(why), HG_NOW);
    if (err == 0)
        err = hg_fd_close(fd);
    else
        hg_fd_close(fd);
    (void)err; /* it is gone either way */
}

static void admit(struct serve_server *s, hg_fd *fd)
{
    static const char full[] = "-ERR max number of clients reached\r\n";
    char peer[HG_ADDRESS_ROOM] = "?", local[HG_ADDRESS_ROOM] = "?";
    hg_mutex_lock(&s->clients_lock);
    bool room = s->clients_now < s->opt->max_clients;
    hg_mutex_unlock(&s->clients_lock);
    if (!room) {
        refuse(s, fd, full);
        return;
    }
    hg_fd_peer_address(fd, peer, sizeof peer);
    hg_fd_local_address(fd, local, sizeof local);
    struct serve_client *c = serve_client_new(s, fd, peer, local);
    if (hg_go(connection, c) != 0) {
        serve_client_end(c);
        refuse(s, fd, full);
    }
}

void serve_accept(struct serve_server *s, hg_fd *listener)
{
    for (;;) {
        hg_fd *fd;
        int err = hg_fd_accept(listener, HG_FOREVER, &fd);
        if (err == -EBADF || err == -ECANCELED)
            return;
        if (err == 0)
            admit(s, fd);
        else if (err != -EMFILE && err != -ENFILE) /* after these it has paused already */
            hg_sleep(HG_ACCEPT_PAUSE_NS);
    }
}

/* ---- the end ---- */

int serve_clients_left(struct serve_server *s)
{
    hg_mutex_lock(&s->clients_lock);
    int n = s->clients_now;
    hg_mutex_unlock(&s->clients_lock);
    return n;
}

void serve_clients_stop(struct serve_server *s, bool at_once)
{
    hg_mutex_lock(&s->clients_lock);
    for (struct serve_client *c = s->clients; c != NULL; c = c->next) {
        int err = at_once ? hg_fd_close(fd_of(c)) : hg_fd_shutdown(fd_of(c), SHUT_RD);
        (void)err; /* it may have been closed at this moment */
    }
    hg_mutex_unlock(&s->clients_lock);
}
