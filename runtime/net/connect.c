/* connect.c: connections: listen, dial, accept.
 *
 * dial: a connect that is under way is over when the socket is writable; how it ended is the
 * socket's pending error. A Unix socket whose backlog is full refuses with -EAGAIN, and nothing
 * says when it would not: it is asked again, after pauses that double. A TCP connect to a free port
 * of this machine that is at the same time the port the system chose for it would connect the
 * socket with itself; such a one is refused.
 *
 * accept: connections that the other side has given up meanwhile, or that the network has, are
 * errors of that connection and not of the listener (accept(2), "Error handling"): the next one is
 * tried. Without descriptors left an accept fails for as long as some are not closed, and the
 * listener stays ready: hence the pause, in which other tasks may close some.
 */
#include "runtime/net/net.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>

#define BACKLOG_MOST  65535 /* the system takes less */
#define PAUSE_LEAST   INT64_C(100000)
#define PAUSE_MOST    INT64_C(10000000)
#define SELF_CONNECTS 3

static bool is_ip(const struct hg_net_address *a) { return a->u.sa.sa_family != AF_UNIX; }

/* A socket for `a` with the options that all get. */
static int new_socket(const struct hg_net_address *a)
{
    int fd = hg__os_socket(a->u.sa.sa_family, SOCK_STREAM, 0);
    if (fd >= 0 && is_ip(a)) /* accepted ones inherit it */
        (void)hg__os_set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    return fd;
}

static int refuse(int fd, int error)
{
    (void)hg__os_close(fd);
    return error;
}

/* Takes over a socket that was made here; it is closed after an error. */
static int adopt(struct hg_net *n, int fd, uint32_t flags, hg_fd **out)
{
    int error = hg__desc_open(n, fd, flags | HG_DESC_SOCKET | HG_DESC_STREAM, out);
    return error == 0 ? 0 : refuse(fd, error);
}

/* The calling task's, after a safepoint; NULL: not on a task. */
static struct hg_net *begin(void)
{
    hg_safepoint();
    return hg__net_self();
}

/* ---- listen ---- */

static int bind_and_listen(const struct hg_net_address *a, int backlog)
{
    int fd = new_socket(a), error = 0;
    if (fd < 0)
        return fd;
    if (is_ip(a))
        error = hg__os_set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (error == 0 && a->any)
        error = hg__os_set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (error == 0)
        error = hg__os_bind(fd, &a->u.sa, a->length);
    if (error == 0)
        error = hg__os_listen(fd, backlog);
    return error == 0 ? fd : refuse(fd, error);
}

/* The same port of all IPv4 addresses, where there is no IPv6. */
static void any_v4(struct hg_net_address *a)
{
    struct sockaddr_in6 six;
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&a->u;
    memcpy(&six, &a->u, sizeof six);
    memset(a, 0, sizeof *a);
    in->sin_family = AF_INET;
    in->sin_port = six.sin6_port;
    a->length = sizeof *in;
}

HG_API int hg_listen(const char *address, int backlog, hg_fd **out)
{
    struct hg_net *n = begin();
    struct hg_net_address a;
    hg_fd *f;
    int error = hg__address_parse(address, false, &a);
    if (n == NULL)
        return -EPERM;
    if (error != 0 || backlog < 0)
        return error != 0 ? error : -EINVAL;
    if (backlog == 0)
        backlog = BACKLOG_MOST;
    int fd = bind_and_listen(&a, backlog);
    if (a.any && (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL)) {
        any_v4(&a);
        fd = bind_and_listen(&a, backlog);
    }
    if (fd < 0)
        return fd;
    const char *name = (const char *)&a.u + offsetof(struct sockaddr, sa_data);
    error = adopt(n, fd, !is_ip(&a) && name[0] != 0 ? HG_DESC_UNLINK : 0, &f);
    if (error != 0)
        return error;
    hg__fd_store(out, f);
    return 0;
}

/* ---- dial ---- */

/* Inside no call: waits until the connect that f's socket is making has ended. */
static int wait_connected(const hg_fd *f, int64_t deadline)
{
    int error = hg__desc_begin(f, HG_OS_WRITABLE, 0);
    while (error == 0) {
        int holds = hg__os_poll(f->desc->fd, POLLOUT);
        if (holds != 0) {
            error = holds < 0 ? holds : hg__os_socket_error(f->desc->fd);
            hg__desc_leave(f->desc);
            return error;
        }
        error = hg__desc_wait(f, HG_OS_WRITABLE, deadline, "dial");
    }
    return error;
}

static bool connected_to_itself(int fd)
{
    struct hg_net_address us, peer;
    memset(&us, 0, sizeof us);
    memset(&peer, 0, sizeof peer);
    us.length = peer.length = sizeof us.u;
    return hg__os_local_address(fd, &us.u.sa, &us.length) == 0 &&
           hg__os_peer_address(fd, &peer.u.sa, &peer.length) == 0 &&
           memcmp(&us.u, &peer.u, sizeof us.u) == 0;
}

/* -EALREADY: connected to itself. */
static int connect_once(struct hg_net *n, const struct hg_net_address *a, int64_t deadline,
                        hg_fd **out)
{
    int fd = new_socket(a);
    if (fd < 0)
        return fd;
    int error = hg__os_connect(fd, &a->u.sa, a->length);
    if (error != 0 && error != -EINPROGRESS)
        return refuse(fd, error);
    bool pending = error != 0;
    error = adopt(n, fd, 0, out);
    if (error != 0)
        return error;
    if (pending)
        error = wait_connected(*out, deadline);
    if (error == 0 && is_ip(a) && connected_to_itself(fd))
        error = -EALREADY;
    if (error != 0)
        (void)hg_fd_close(*out);
    return error;
}

/* Sleeps before a full backlog is tried again: 0, or why not. */
static int pause_for(int64_t ns, int64_t deadline)
{
    if (deadline == HG_NOW)
        return -EAGAIN;
    int64_t until = hg_in(ns);
    bool last = deadline <= until;
    int error = hg_sleep_until(last ? deadline : until);
    return error != 0 ? error : last ? -ETIMEDOUT : 0;
}

HG_API int hg_dial(const char *address, int64_t deadline, hg_fd **out)
{
    struct hg_net *n = begin();
    struct hg_net_address a;
    hg_fd *f;
    int64_t pause = PAUSE_LEAST;
    int error = hg__address_parse(address, true, &a), itself = 0;
    if (n == NULL)
        return -EPERM;
    while (error == 0) {
        error = connect_once(n, &a, deadline, &f);
        if (error == 0) {
            hg__fd_store(out, f);
            return 0;
        }
        if (error == -EALREADY) {
            error = ++itself < SELF_CONNECTS ? 0 : -ECONNREFUSED;
        } else if (error == -EAGAIN && !is_ip(&a)) {
            error = pause_for(pause, deadline);
            pause = pause < PAUSE_MOST / 2 ? 2 * pause : PAUSE_MOST;
        }
    }
    return error;
}

/* ---- accept ---- */

/* Errors of a connection that has ended before it was accepted. */
static bool skip(int error)
{
    switch (-error) {
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return true;
    default:
        return false;
    }
}

/* The number of an accepted connection. */
static int accept_number(hg_fd *l, int64_t deadline)
{
    bool paused = false;
    int error = hg__desc_begin(l, HG_OS_READABLE, 0);
    while (error == 0) {
        int fd = hg__os_accept(l->desc->fd);
        if (fd == -EAGAIN) {
            error = hg__desc_wait(l, HG_OS_READABLE, deadline, "accept");
        } else if ((fd == -EMFILE || fd == -ENFILE) && !paused && deadline != HG_NOW) {
            hg__desc_leave(l->desc);
            paused = true;
            error = pause_for(HG_ACCEPT_PAUSE_NS, deadline);
            if (error == 0 || error == -ETIMEDOUT)
                error = hg__desc_begin(l, HG_OS_READABLE, 0);
        } else if (!skip(fd)) {
            hg__desc_leave(l->desc);
            return fd;
        }
    }
    return error;
}

HG_API int hg_fd_accept(hg_fd *l, int64_t deadline, hg_fd **out)
{
    struct hg_net *n = begin();
    hg_fd *f;
    if (n == NULL)
        return -EPERM;
    int fd = accept_number(l, deadline);
    if (fd < 0)
        return fd;
    int error = adopt(n, fd, 0, &f);
    if (error != 0)
        return error;
    hg__fd_store(out, f);
    return 0;
}

/* ---- names ---- */

static int name_of(const hg_fd *f, int (*ask)(int, struct sockaddr *, socklen_t *), char *text,
                   size_t room)
{
    struct hg_net_address a;
    memset(&a, 0, sizeof a);
    a.length = sizeof a.u;
    int error = hg__desc_begin(f, 0, 0);
    if (error != 0)
        return error;
    error = ask(f->desc->fd, &a.u.sa, &a.length);
    hg__desc_leave(f->desc);
    return error != 0 ? error : hg__address_format(&a, text, room);
}

HG_API int hg_fd_local_address(const hg_fd *f, char *text, size_t room)
{
    return name_of(f, hg__os_local_address, text, room);
}

HG_API int hg_fd_peer_address(const hg_fd *f, char *text, size_t room)
{
    return name_of(f, hg__os_peer_address, text, room);
}
