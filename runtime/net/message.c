/* message.c: messages, shutdown, and waiting for what other code will read or write. */
#include "runtime/net/net.h"

#include <errno.h>
#include <poll.h>

HG_API ssize_t hg_fd_recvmsg(hg_fd *f, struct msghdr *msg, int flags, int64_t deadline)
{
    /* The kernel changes these also when it says -EAGAIN. */
    socklen_t name = msg->msg_namelen;
    size_t control = msg->msg_controllen;
    int error = hg__desc_begin(f, HG_OS_READABLE, 0);
    while (error == 0) {
        ssize_t got = hg__os_recvmsg(f->desc->fd, msg, flags);
        if (got != -EAGAIN) {
            hg__desc_leave(f->desc);
            return got;
        }
        msg->msg_namelen = name;
        msg->msg_controllen = control;
        error = hg__desc_wait(f, HG_OS_READABLE, deadline, "recvmsg");
    }
    return error;
}

HG_API ssize_t hg_fd_sendmsg(hg_fd *f, const struct msghdr *msg, int flags, int64_t deadline)
{
    int error = hg__desc_begin(f, HG_OS_WRITABLE, 0);
    while (error == 0) {
        ssize_t put = hg__os_sendmsg(f->desc->fd, msg, flags);
        if (put != -EAGAIN) {
            hg__desc_leave(f->desc);
            return put;
        }
        error = hg__desc_wait(f, HG_OS_WRITABLE, deadline, "sendmsg");
    }
    return error;
}

HG_API int hg_fd_shutdown(hg_fd *f, int how)
{
    int error = hg__desc_begin(f, 0, 0);
    if (error != 0)
        return error;
    error = f->desc->flags & HG_DESC_BORROWED ? -EINVAL : hg__os_shutdown(f->desc->fd, how);
    hg__desc_leave(f->desc);
    return error;
}

/* The kernel is asked what holds, before a wait and after it: an edge only says that it is worth
 * asking. */
HG_API int hg_fd_wait(hg_fd *f, int events, int64_t deadline)
{
    static const int to_read = POLLIN | POLLPRI | POLLRDHUP;
    uint32_t directions =
        (events & to_read ? HG_OS_READABLE : 0) | (events & POLLOUT ? HG_OS_WRITABLE : 0);
    if (directions == 0 || (events & ~(to_read | POLLOUT)) != 0)
        return -EINVAL;
    int error = hg__desc_begin(f, 0, 0);
    while (error == 0) {
        int holds = hg__os_poll(f->desc->fd, events);
        if (holds != 0) {
            hg__desc_leave(f->desc);
            return holds;
        }
        error = hg__desc_wait(f, directions, deadline, "descriptor");
    }
    return error;
}
