/* signal.h: waiting for signals of the process, without a handler. */
#ifndef HEDGE_SIGNAL_H
#define HEDGE_SIGNAL_H
#include <hedge/core.h>

HG_BEGIN_DECLS

/* S W: waits until one of n (1 to 64) signals is sent to the process (kill, the terminal; not one
 * that is sent to a single thread, like raise), takes it, and returns its number. Several that were
 * sent before the call are returned by several calls; the same one sent twice meanwhile, once.
 * Among tasks that wait for the same signal one gets it. -ETIMEDOUT, -EAGAIN (HG_NOW: none has
 * come), -ECANCELED; -EINVAL: n, or one that cannot be waited for (SIGKILL, SIGSTOP, those that
 * a fault raises, the C library's own); -EMFILE, -ENOMEM.
 *
 * The signals must be blocked in all threads, or they act as they do without this call. The
 * runtime's threads block all. The thread inside hg_run blocks these, from the first call to the
 * end of hg_run, also between two calls: none is lost then; at the end of hg_run one that nobody
 * has taken acts. Other threads of a host are the host's: call pthread_sigmask before they are
 * started. */
HG_API int hg_signal_wait(const int *signals, int n, int64_t deadline);

HG_END_DECLS
#endif
