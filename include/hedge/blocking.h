/* blocking.h: calls that block the OS thread, on a bounded pool of threads.
 *
 * A task that reads a file, asks a database's driver or resolves a name would keep its proc's
 * thread. hg_blocking has the call made on a thread of a pool instead, while the task waits and its
 * proc goes to others. The pool is the runtime's: at most options.blocking_threads threads
 * (HEDGE_BLOCKING_THREADS, 64), made as they are needed, gone after ten idle seconds; calls beyond
 * that wait for their turn, first come, first served. hg_block_enter (task.h) is the other way:
 * the task's own thread blocks, and none is waited for.
 *
 * A call of the pool runs with all signals blocked but those of faults. It is no task: it touches
 * no heap but the bytes of leaf objects that the waiting caller keeps alive, and of this library
 * calls nothing but what is marked "any".
 *
 * A call that runs cannot be stopped. So who may give up on one decides what memory it may use:
 *   hg_blocking        its argument may lie anywhere, also on the caller's stack. Once the call has
 *                      begun, the caller waits for its end, whatever its deadline
 *   hg_blocking_copy   the call has a copy of its arguments, in memory of the pool's, which lives
 *                      until the call has ended. The caller may give up at any time
 * A program that ends, or a runtime that is shut down, waits for no call either.
 */
#ifndef HEDGE_BLOCKING_H
#define HEDGE_BLOCKING_H
#include <hedge/core.h>

HG_BEGIN_DECLS

/* S W: runs fn(arg) on a thread of the pool. Returns what fn returned, which should not be one of
 * these: -ECANCELED, -ETIMEDOUT (the task was cancelled, its ambient deadline passed), -EAGAIN
 * (the system has no thread, and the pool has none yet), -ENOMEM, -EPERM (not on a task): fn has
 * not been called and will not be. */
HG_API int hg_blocking(int (*fn)(void *arg), void *arg);

/* S W: the same for callers that may give up. fn gets the address (16-byte aligned) of a copy of
 * the `bytes` (at most 65,536) at args; when it has returned, the copy, which it may have changed,
 * is copied back. 0: it has run, *result (may be NULL) is what it returned. -ETIMEDOUT, -ECANCELED:
 * the caller has given up. Then fn has never been called, or it goes on: drop (may be NULL) is
 * called once with the copy, when fn has returned (on the pool's thread), or instead of it (on the
 * task, perhaps with `args` itself), to free what the arguments own or fn has made. Every other
 * error leaves all to the caller, neither function being called: -EAGAIN (HG_NOW; or no thread),
 * -EINVAL (too many bytes), -ENOMEM, -EPERM (not on a task). */
HG_API HG_MUST int hg_blocking_copy(int (*fn)(void *args), void *args, size_t bytes,
                                    void (*drop)(void *args), int64_t deadline, int *result);

struct addrinfo; /* <netdb.h> */

/* S W: getaddrinfo(3) on the pool; the arguments are those of the C library's (host or service, and
 * hints, may be NULL), and are copied. 0: *result is a list, to be freed with hg_freeaddrinfo.
 * Otherwise *result is NULL: -ETIMEDOUT, -ECANCELED (the query goes on, and its result is freed
 * when it comes), -EPERM, or the resolver's answer as an errno:
 *   -ENOENT            no such name, or no address for it (EAI_NONAME, EAI_NODATA)
 *   -EAGAIN            a name server does not answer now (EAI_AGAIN); or deadline HG_NOW
 *   -EIO               a name server failed for good (EAI_FAIL)
 *   -EPROTONOSUPPORT   no such service for this kind of socket (EAI_SERVICE)
 *   -ESOCKTNOSUPPORT, -EAFNOSUPPORT, -EINVAL, -ENOMEM   (EAI_SOCKTYPE, EAI_FAMILY and
 *                      EAI_ADDRFAMILY, EAI_BADFLAGS, EAI_MEMORY)
 *   -ENAMETOOLONG      host or service is longer than a name can be
 *   others             of the system call that failed (EAI_SYSTEM) */
HG_API HG_MUST int hg_getaddrinfo(const char *host, const char *service,
                                  const struct addrinfo *hints, int64_t deadline,
                                  struct addrinfo **result);
/* any: frees such a list; NULL is none. */
HG_API void hg_freeaddrinfo(struct addrinfo *list);

HG_END_DECLS
#endif
