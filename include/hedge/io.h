/* io.h: descriptors: sockets, pipes, terminals and what else the kernel can say "ready" of. A task
 * that has to wait for one parks, and its proc runs others.
 *
 * An hg_fd is a heap object: keep it where the collector finds it (heap.h, rule 1). It stays valid
 * after hg_fd_close: calls then fail with -EBADF, also when the number has a new owner. A forgotten
 * one is not closed before its runtime is.
 *
 * One task may wait to read and one to write; where a further one would have to wait it gets
 * -EBUSY. hg_fd_read_full, hg_fd_write_all and hg_fd_writev_all have their direction to themselves
 * from start to end: what two of them transfer never mixes, and others get -EBUSY meanwhile. Calls
 * that need not wait may come from any task at any time.
 *
 * Errors of all calls, beside those of the system call behind them: -EBADF: closed, also while the
 * call waited; -EAGAIN: with HG_NOW it would have to wait; -ETIMEDOUT: the deadline passed;
 * -EBUSY: see above; -EPERM: it would have to wait, and the caller is not a task. What can be done
 * without waiting is done whatever the deadline says. No call raises SIGPIPE; the error is -EPIPE.
 * Buffers may lie anywhere, also in the heap, but may not hold references.
 */
#ifndef HEDGE_IO_H
#define HEDGE_IO_H
#include <hedge/core.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

HG_BEGIN_DECLS

typedef struct hg_fd hg_fd;

/* S: takes `fd` over: it is made non-blocking, which also whoever shares it sees (a terminal, an
 * inherited pipe), and hg_fd_close closes it. Its socket options stay as they are. After an error
 * it is the caller's as before. -EPERM: always ready, so that nothing could be waited for (a
 * regular file, /dev/null): use hg_block_enter around plain calls. -EEXIST: taken over or borrowed
 * already. */
HG_API HG_MUST int hg_fd_open(int fd, hg_fd **out);
/* S: for hg_fd_wait on a descriptor that another library owns: it is neither changed nor closed.
 * Only hg_fd_wait, hg_fd_number and hg_fd_close work on it (others: -EINVAL). Call hg_fd_close
 * before the owner closes its descriptor. Errors as of hg_fd_open. */
HG_API HG_MUST int hg_fd_borrow(int fd, hg_fd **out);
/* any: closes; who waits gets -EBADF. If other threads are inside a system call on it at this
 * moment, the last of them closes the number. The path of a Unix socket from hg_listen is removed.
 * -EBADF: closed already; else what close(2) says, though it is closed. */
HG_API int hg_fd_close(hg_fd *f);
/* any: the descriptor's number, or -EBADF. It may be closed by others at any time. */
HG_API int hg_fd_number(const hg_fd *f);

/* ---- connections ----
 *
 * Addresses: "192.0.2.1:80", "[2001:db8::1]:80", "[fe80::1%eth0]:80", "localhost:80" (127.0.0.1),
 * ":80" (to listen: all addresses of the machine, by IPv6 and IPv4; to dial: 127.0.0.1),
 * "unix:/path", "unix:@name" (abstract: without a file). Port 0 listens on a free one. Names of
 * hosts are not looked up here: -EINVAL. */

/* S: a listening socket. backlog: connections that may wait to be accepted; 0: as many as the
 * system allows. TCP addresses are taken also while old connections linger (SO_REUSEADDR); a Unix
 * path that exists is -EADDRINUSE. */
HG_API HG_MUST int hg_listen(const char *address, int backlog, hg_fd **out);
/* S W: connects. TCP_NODELAY is on. -ECONNREFUSED, -ENOENT (no such path), ...; a Unix socket whose
 * backlog is full is tried again until the deadline. */
HG_API HG_MUST int hg_dial(const char *address, int64_t deadline, hg_fd **out);
/* S W: the next connection. TCP_NODELAY is on if the listening socket is hg_listen's. Connections
 * that ended before they were accepted are skipped. When the process or the system is out of
 * descriptors it pauses for HG_ACCEPT_PAUSE_NS, tries once more, and says -EMFILE or -ENFILE: a
 * loop that goes on after errors does not spin. */
HG_API HG_MUST int hg_fd_accept(hg_fd *f, int64_t deadline, hg_fd **out);
#define HG_ACCEPT_PAUSE_NS INT64_C(20000000)
/* any: the socket's own address, or its peer's, as hg_dial takes it, into `room` bytes; the length
 * without the final 0. "unix:" where a Unix socket has no name. -ENOSPC: too long (HG_ADDRESS_ROOM
 * always suffices); -EAFNOSUPPORT: neither IP nor Unix. */
HG_API int hg_fd_local_address(const hg_fd *f, char *text, size_t room);
HG_API int hg_fd_peer_address(const hg_fd *f, char *text, size_t room);
#define HG_ADDRESS_ROOM 128
/* any: ends one or both directions (SHUT_RD, SHUT_WR, SHUT_RDWR); the descriptor stays open. */
HG_API int hg_fd_shutdown(hg_fd *f, int how);

/* ---- bytes ---- */

/* S W: reads what there is, at most n bytes. 0: the end (or n is 0). */
HG_API ssize_t hg_fd_read(hg_fd *f, void *buf, size_t n, int64_t deadline);
/* S W: reads n bytes; fewer only at the end. After an error some bytes may have been taken out of
 * the stream. */
HG_API ssize_t hg_fd_read_full(hg_fd *f, void *buf, size_t n, int64_t deadline);
/* S W: writes n bytes. After an error some of them may have been written: of a stream, only closing
 * it makes sense then. */
HG_API int hg_fd_write_all(hg_fd *f, const void *buf, size_t n, int64_t deadline);
/* S W: writes n buffers as one. iov is consumed: after an error it describes what was not
 * written. */
HG_API int hg_fd_writev_all(hg_fd *f, struct iovec *iov, int n, int64_t deadline);

/* ---- messages ---- */

/* S W: recvmsg(2) and sendmsg(2), for datagrams, control messages, addresses. */
HG_API ssize_t hg_fd_recvmsg(hg_fd *f, struct msghdr *msg, int flags, int64_t deadline);
HG_API ssize_t hg_fd_sendmsg(hg_fd *f, const struct msghdr *msg, int flags, int64_t deadline);

/* S W: waits until one of `events` (POLLIN, POLLOUT, POLLPRI, POLLRDHUP of <poll.h>) holds, or an
 * error or hang-up; returns those that hold (POLLERR and POLLHUP among them). -EINVAL: events is 0
 * or has others. */
HG_API int hg_fd_wait(hg_fd *f, int events, int64_t deadline);

HG_END_DECLS
#endif
