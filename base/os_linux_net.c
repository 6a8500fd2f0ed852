/* os_linux_net.c: the contract of os_net.h on Linux: epoll, sockets, pipes.
 *
 * Readiness: edge triggered, for reading and writing at once, so that a descriptor costs one
 * epoll_ctl when it comes and one when it goes. Data of 0 marks the bell, an eventfd that is edge
 * triggered too and therefore need not be read: each ring is an edge.
 *
 * Time: epoll_pwait2 takes nanoseconds. Where the kernel does not have it the wait is in
 * milliseconds, rounded up. The kernel measures from the call on, so a wait that was interrupted is
 * not made again here: it ends early, which the contract allows.
 *
 * SIGPIPE: sockets are written with MSG_NOSIGNAL. For pipes there is no such flag before Linux
 * 6.18, and the library may not claim the process's handler; so the signal, which goes to the
 * thread that writes, is blocked during the write and taken back if the write raised it.
 *
 * No state but what the kernel was found not to have; no locks.
 */
#include "base/os_net.h"

#include "base/assert.h"
#include "base/atomic.h"
#include "base/os.h"
#include "base/os_fault.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

#define EVENTS_AT_ONCE 64
#define BELL           UINT64_C(0)

/* What a call returned that was made until it was not interrupted (TEMP_FAILURE_RETRY). */
static ssize_t outcome(ssize_t r) { return r >= 0 ? r : -errno; }

/* ---- readiness ---- */

static int add(int poller, int fd, uint64_t data, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.u64 = data};
    bool added = !hg__os_fails(HG_OS_POLLER_ADD) && epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e) == 0;
    return added ? 0 : -errno;
}

int hg__os_poller_open(int *bell)
{
    int poller = hg__os_fails(HG_OS_POLLER_OPEN) ? -1 : epoll_create1(EPOLL_CLOEXEC);
    if (poller < 0)
        return -errno;
    *bell = hg__os_fails(HG_OS_POLLER_OPEN) ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = *bell < 0 ? -errno : add(poller, *bell, BELL, EPOLLIN | EPOLLET);
    if (error == 0)
        return poller;
    if (*bell >= 0)
        close(*bell);
    close(poller);
    return error;
}

void hg__os_poller_close(int poller, int bell)
{
    close(poller);
    close(bell);
}

int hg__os_poller_add(int poller, int fd, uint64_t data)
{
    HG_ASSERT(data != BELL);
    return add(poller, fd, data, EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP | EPOLLET);
}

int hg__os_poller_remove(int poller, int fd)
{
    return epoll_ctl(poller, EPOLL_CTL_DEL, fd, NULL) == 0 ? 0 : -errno;
}

/* epoll_wait until the deadline; what it returns. */
static int wait_until(int poller, struct epoll_event *events, int room, int64_t deadline)
{
    static _Atomic uint32_t no_pwait2; /* writers: whoever finds out; all the same value */
    if (hg__os_fails(HG_OS_POLLER_WAIT))
        return -1;
    if (deadline == 0)
        return epoll_wait(poller, events, room, 0);
    if (deadline == INT64_MAX)
        return epoll_wait(poller, events, room, -1);
    int64_t ns = deadline - hg__os_now();
    ns = ns > 0 ? ns : 0;
    if (hg_load_rlx(&no_pwait2) == 0) {
        struct timespec t = {.tv_sec = (time_t)(ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000)};
        long n = syscall(SYS_epoll_pwait2, poller, events, room, &t, NULL, (size_t)8);
        if (n >= 0 || (errno != ENOSYS && errno != EPERM))
            return (int)n;
        hg_store_rlx(&no_pwait2, 1u); /* EPERM: a sandbox that does not know it */
    }
    int64_t ms = (ns + 999999) / 1000000;
    return epoll_wait(poller, events, room, ms < INT_MAX ? (int)ms : INT_MAX);
}

static uint32_t ready_of(uint32_t events)
{
    uint32_t ready = 0;
    if (events & (EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        ready |= HG_OS_READABLE;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
        ready |= HG_OS_WRITABLE;
    return ready;
}

int hg__os_poller_wait(int poller, struct hg_os_event *events, int room, int64_t deadline,
                       bool *rung)
{
    struct epoll_event e[EVENTS_AT_ONCE];
    int n = wait_until(poller, e, room < EVENTS_AT_ONCE ? room : EVENTS_AT_ONCE, deadline);
    HG_CHECK(n >= 0 || errno == EINTR, "waiting for descriptors failed: errno %d", errno);
    int out = 0;
    *rung = false;
    for (int i = 0; i < n; i++)
        if (e[i].data.u64 == BELL)
            *rung = true;
        else
            events[out++] = (struct hg_os_event){e[i].data.u64, ready_of(e[i].events)};
    return out;
}

/* The counter is never read, so it is full after 2^64 - 1 rings. */
void hg__os_poller_ring(int bell)
{
    uint64_t one = 1;
    ssize_t n = outcome(TEMP_FAILURE_RETRY(write(bell, &one, sizeof one)));
    HG_CHECK(n == sizeof one, "the bell of a poller cannot be rung: errno %d", (int)-n);
}

/* ---- any descriptor ---- */

/* On Linux an interrupted close has closed. */
int hg__os_close(int fd) { return close(fd) == 0 || errno == EINTR ? 0 : -errno; }

int hg__os_set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return -errno;
    if (flags & O_NONBLOCK)
        return 0;
    return fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 ? 0 : -errno;
}

int hg__os_is_socket(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return -errno;
    return S_ISSOCK(st.st_mode) ? 1 : 0;
}

int hg__os_poll(int fd, int events)
{
    struct pollfd p = {.fd = fd, .events = (short)events};
    int n = (int)outcome(TEMP_FAILURE_RETRY(poll(&p, 1, 0)));
    if (n < 0)
        return n;
    return p.revents & POLLNVAL ? -EBADF : p.revents;
}

int hg__os_signal_fd(uint64_t signals)
{
    sigset_t set;
    sigemptyset(&set);
    for (int s = 1; s <= 64; s++)
        if (signals >> (s - 1) & 1)
            sigaddset(&set, s);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd >= 0 ? fd : -errno;
}

int hg__os_signal_take(int fd)
{
    struct signalfd_siginfo info;
    ssize_t n = hg__os_read(fd, &info, sizeof info);
    return n == sizeof info ? (int)info.ssi_signo : n < 0 ? (int)n : -EIO;
}

ssize_t hg__os_read(int fd, void *buf, size_t n)
{
    return outcome(TEMP_FAILURE_RETRY(hg__os_fails_moving(HG_OS_READ, &n) ? -1 : read(fd, buf, n)));
}

/* writev; with a fault that shortens it, of a part of the first buffer. */
static ssize_t write_some(int fd, const struct iovec *iov, int n)
{
    size_t first = n > 0 ? iov->iov_len : 0, most = first;
    if (hg__os_fails_moving(HG_OS_WRITEV, &most))
        return -1;
    if (most < first)
        return write(fd, iov->iov_base, most);
    return writev(fd, iov, n);
}

ssize_t hg__os_writev(int fd, const struct iovec *iov, int n)
{
    sigset_t pipe_only, before, pending;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    sigpending(&pending);
    ssize_t put = outcome(TEMP_FAILURE_RETRY(write_some(fd, iov, n)));
    /* One that was pending before is somebody else's, and absorbs this one. */
    if (put == -EPIPE && !sigismember(&pending, SIGPIPE)) {
        static const struct timespec now;
        while (sigtimedwait(&pipe_only, NULL, &now) < 0 && errno == EINTR)
            ;
    }
    if (!sigismember(&before, SIGPIPE))
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    return put;
}

/* ---- sockets ---- */

int hg__os_socket(int family, int type, int protocol)
{
    int fd = hg__os_fails(HG_OS_SOCKET)
                 ? -1
                 : socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
    return fd >= 0 ? fd : -errno;
}

int hg__os_bind(int fd, const struct sockaddr *address, socklen_t length)
{
    return !hg__os_fails(HG_OS_BIND) && bind(fd, address, length) == 0 ? 0 : -errno;
}

int hg__os_listen(int fd, int backlog)
{
    return !hg__os_fails(HG_OS_LISTEN) && listen(fd, backlog) == 0 ? 0 : -errno;
}

/* Interrupted, a connect goes on by itself. */
int hg__os_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    if (!hg__os_fails(HG_OS_CONNECT) && connect(fd, address, length) == 0)
        return 0;
    return errno == EINTR ? -EINPROGRESS : -errno;
}

int hg__os_accept(int fd)
{
    return (int)outcome(TEMP_FAILURE_RETRY(
        hg__os_fails(HG_OS_ACCEPT) ? -1 : accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)));
}

ssize_t hg__os_recv(int fd, void *buf, size_t n)
{
    return outcome(TEMP_FAILURE_RETRY(
        hg__os_fails_moving(HG_OS_RECV, &n) ? -1 : recv(fd, buf, n, MSG_DONTWAIT)));
}

ssize_t hg__os_send(int fd, const void *buf, size_t n)
{
    return outcome(TEMP_FAILURE_RETRY(
        hg__os_fails_moving(HG_OS_SEND, &n) ? -1 : send(fd, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL)));
}

ssize_t hg__os_recvmsg(int fd, struct msghdr *msg, int flags)
{
    return outcome(TEMP_FAILURE_RETRY(
        hg__os_fails(HG_OS_RECVMSG) ? -1 : recvmsg(fd, msg, flags | MSG_DONTWAIT)));
}

ssize_t hg__os_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    return outcome(TEMP_FAILURE_RETRY(
        hg__os_fails(HG_OS_SENDMSG) ? -1 : sendmsg(fd, msg, flags | MSG_DONTWAIT | MSG_NOSIGNAL)));
}

int hg__os_shutdown(int fd, int how) { return shutdown(fd, how) == 0 ? 0 : -errno; }

int hg__os_set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value) == 0 ? 0 : -errno;
}

int hg__os_socket_error(int fd)
{
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
        return -errno;
    return -error;
}

int hg__os_local_address(int fd, struct sockaddr *address, socklen_t *length)
{
    return getsockname(fd, address, length) == 0 ? 0 : -errno;
}

int hg__os_peer_address(int fd, struct sockaddr *address, socklen_t *length)
{
    return getpeername(fd, address, length) == 0 ? 0 : -errno;
}

unsigned hg__os_interface(const char *name) { return if_nametoindex(name); }

bool hg__os_interface_name(unsigned number, char *name)
{
    return if_indextoname(number, name) != NULL;
}

int hg__os_unlink(const char *path) { return unlink(path) == 0 ? 0 : -errno; }
