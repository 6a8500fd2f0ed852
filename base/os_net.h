/* os_net.h: the contract with the operating system for descriptors: readiness, sockets, reading and
 * writing. One implementation per system (os_linux_net.c); nothing else in the library makes a
 * system call on a descriptor.
 *
 * Every call but hg__os_poller_wait returns at once: descriptors are non-blocking, or the call asks
 * for it. Results are a count, a descriptor, or 0; errors are negative errno values, never -EINTR:
 * an interrupted call is made again. -EAGAIN: it would have to wait. No call raises SIGPIPE. All
 * calls may come from any thread and need at most 1 KiB of stack.
 */
#ifndef HG_BASE_OS_NET_H
#define HG_BASE_OS_NET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/* ---- readiness ---- */

/* What a descriptor has become ready for, since the last report (edge triggered). Errors and
 * hang-ups are both. */
#define HG_OS_READABLE 1u
#define HG_OS_WRITABLE 2u

struct hg_os_event {
    uint64_t data; /* as given when it was added */
    uint32_t ready;
};

/* A poller with a bell (hg__os_poller_ring): `bell` is its number, to be kept beside the poller's.
 * The poller or -errno. */
int hg__os_poller_open(int *bell);
void hg__os_poller_close(int poller, int bell);
/* Reports changes of fd from now on, and its state of now if it is ready. -EPERM: fd is always
 * ready (a regular file, a directory); -EEXIST: it is there already. */
int hg__os_poller_add(int poller, int fd, uint64_t data);
/* Before fd is closed: else a copy of it (dup, fork) would keep it there. */
int hg__os_poller_remove(int poller, int fd);
/* At most `room` events. Waits for the first one until `deadline` (CLOCK_MONOTONIC; HG_NOW: does
 * not wait; INT64_MAX: for ever), until the bell is rung, or, rarely, for no reason. The bell is no
 * event: *rung says that this call, and no other, has heard it. Returns how many. A wait may end up
 * to a millisecond late where the kernel has no epoll_pwait2 (before Linux 5.11). */
int hg__os_poller_wait(int poller, struct hg_os_event *events, int room, int64_t deadline,
                       bool *rung);
/* Ends one wait: the one that sleeps, or else the next; or is heard by a call that does not
 * wait. */
void hg__os_poller_ring(int bell);

/* ---- any descriptor ---- */

int hg__os_close(int fd); /* the number is free afterwards, whatever is returned */
/* Makes it non-blocking. 0 or -errno. */
int hg__os_set_nonblocking(int fd);
/* 1: a socket, 0: something else, -EBADF. */
int hg__os_is_socket(int fd);
/* What of `events` (POLLIN, POLLOUT, ...) holds now, or POLLERR, POLLHUP; 0: nothing. */
int hg__os_poll(int fd, int events);
/* A descriptor from which a signal of `signals` (bit s - 1 for signal s) that is blocked and
 * pending for the process can be read; non-blocking. Takes one: its number, -EAGAIN: none is
 * pending. */
int hg__os_signal_fd(uint64_t signals);
int hg__os_signal_take(int fd);
ssize_t hg__os_read(int fd, void *buf, size_t n);
/* For what is no socket: a pipe, a terminal. */
ssize_t hg__os_writev(int fd, const struct iovec *iov, int n);

/* ---- sockets ---- */

/* Non-blocking, closed on exec. */
int hg__os_socket(int family, int type, int protocol);
int hg__os_bind(int fd, const struct sockaddr *address, socklen_t length);
int hg__os_listen(int fd, int backlog);
/* 0: connected; -EINPROGRESS: hg__os_socket_error says how it ended, once fd is writable. */
int hg__os_connect(int fd, const struct sockaddr *address, socklen_t length);
/* The connection, non-blocking and closed on exec. */
int hg__os_accept(int fd);
ssize_t hg__os_recv(int fd, void *buf, size_t n);
ssize_t hg__os_send(int fd, const void *buf, size_t n);
ssize_t hg__os_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t hg__os_sendmsg(int fd, const struct msghdr *msg, int flags);
int hg__os_shutdown(int fd, int how);
int hg__os_set_option(int fd, int level, int option, int value);
/* The pending error of a socket (negative), or 0. Takes it away. */
int hg__os_socket_error(int fd);
/* *length: in the room, out the size of the whole address. */
int hg__os_local_address(int fd, struct sockaddr *address, socklen_t *length);
int hg__os_peer_address(int fd, struct sockaddr *address, socklen_t *length);

/* The number of a network interface, 0: there is none of this name. And its name, into
 * IF_NAMESIZE bytes; false: there is none of this number. */
unsigned hg__os_interface(const char *name);
bool hg__os_interface_name(unsigned number, char *name);
/* Removes a file. 0 or -errno. */
int hg__os_unlink(const char *path);

#endif
