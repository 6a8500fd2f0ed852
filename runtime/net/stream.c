/* stream.c: bytes: read, read_full, write_all, writev_all.
 *
 * Each call tries first and waits only if the kernel says -EAGAIN. Buffers may lie in the heap
 * while a cycle marks: they hold no references, and objects do not move.
 *
 * A read of a stream that got less than it asked for has emptied it, so an edge that came before is
 * used up. If `ready` said so it is cleared before the read, and set again if the stream may hold
 * more: another task, which has found nothing before that edge, may be about to wait, and rely on
 * it. Without this each answer that came before it was waited for would cost a second read that
 * says -EAGAIN. Writes mostly do not wait, and leave `ready` alone.
 */
#include "runtime/net/net.h"

#include <errno.h>
#include <limits.h>

#define IOV_AT_ONCE 1024 /* IOV_MAX on Linux */

/* ---- reading ---- */

/* Between begin and leave: one read; -EAGAIN. */
static ssize_t read_once(struct hg_desc *d, void *buf, size_t n)
{
    bool edge = (hg_load_rlx(&d->ready) & HG_OS_READABLE) != 0;
    if (edge)
        hg_and_acqrel(&d->ready, ~HG_OS_READABLE);
    ssize_t got = hg__desc_is_socket(d) ? hg__os_recv(d->fd, buf, n) : hg__os_read(d->fd, buf, n);
    if (edge && got > 0 && (!(d->flags & HG_DESC_STREAM) || (size_t)got == n))
        hg_or_acqrel(&d->ready, HG_OS_READABLE);
    return got;
}

HG_API ssize_t hg_fd_read(hg_fd *f, void *buf, size_t n, int64_t deadline)
{
    int error = n > SSIZE_MAX ? -EINVAL : hg__desc_begin(f, HG_OS_READABLE, 0);
    while (error == 0) {
        ssize_t got = read_once(f->desc, buf, n);
        if (got != -EAGAIN) {
            hg__desc_leave(f->desc);
            return got;
        }
        error = hg__desc_wait(f, HG_OS_READABLE, deadline, "read");
    }
    return error;
}

HG_API ssize_t hg_fd_read_full(hg_fd *f, void *buf, size_t n, int64_t deadline)
{
    size_t have = 0;
    ssize_t got = 0;
    int error = n > SSIZE_MAX ? -EINVAL : hg__desc_begin(f, HG_OS_READABLE, HG_DESC_READING);
    if (error != 0)
        return error;
    while (have < n) {
        got = read_once(f->desc, (char *)buf + have, n - have);
        if (got > 0)
            have += (size_t)got;
        else if (got != -EAGAIN)
            break;
        else if ((error = hg__desc_wait(f, HG_OS_READABLE, deadline, "read")) != 0)
            break;
    }
    hg__desc_end_turn(f, HG_DESC_READING);
    if (error != 0)
        return error;
    hg__desc_leave(f->desc);
    return got < 0 ? got : (ssize_t)have;
}

/* ---- writing ---- */

/* Takes `put` bytes, which were written, off the front of iov. Returns the buffers that are used
 * up. */
static int consume(struct iovec *iov, int n, size_t put)
{
    int done = 0;
    while (done < n && put >= iov[done].iov_len) {
        put -= iov[done].iov_len;
        iov[done].iov_base = (char *)iov[done].iov_base + iov[done].iov_len;
        iov[done++].iov_len = 0;
    }
    if (put > 0) {
        iov[done].iov_base = (char *)iov[done].iov_base + put;
        iov[done].iov_len -= put;
    }
    return done;
}

static ssize_t write_once(const struct hg_desc *d, struct iovec *iov, int n)
{
    if (n > IOV_AT_ONCE)
        n = IOV_AT_ONCE;
    if (!hg__desc_is_socket(d))
        return hg__os_writev(d->fd, iov, n);
    if (n == 1)
        return hg__os_send(d->fd, iov->iov_base, iov->iov_len);
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)n};
    return hg__os_sendmsg(d->fd, &msg, 0);
}

HG_API int hg_fd_writev_all(hg_fd *f, struct iovec *iov, int n, int64_t deadline)
{
    ssize_t put = 0;
    int error = n < 0 ? -EINVAL : hg__desc_begin(f, HG_OS_WRITABLE, HG_DESC_WRITING);
    if (error != 0)
        return error;
    for (int done = consume(iov, n, 0); done < n;) {
        put = write_once(f->desc, iov + done, n - done);
        if (put >= 0)
            done += consume(iov + done, n - done, (size_t)put);
        else if (put != -EAGAIN)
            break;
        else if ((error = hg__desc_wait(f, HG_OS_WRITABLE, deadline, "write")) != 0)
            break;
    }
    hg__desc_end_turn(f, HG_DESC_WRITING);
    if (error != 0)
        return error;
    hg__desc_leave(f->desc);
    return put < 0 ? (int)put : 0;
}

HG_API int hg_fd_write_all(hg_fd *f, const void *buf, size_t n, int64_t deadline)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = n};
    return hg_fd_writev_all(f, &iov, 1, deadline);
}
