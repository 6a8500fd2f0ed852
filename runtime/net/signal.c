/* signal.c: tasks that wait for signals of the process.
 *
 * Each wait has a signal descriptor of its own, which the poller watches like a socket. A signal
 * stays pending in the kernel, blocked, until one of them takes it; who was woken and finds nothing
 * (another task was faster) waits on.
 *
 * Blocked it must be in all threads. Those of the runtime block everything (hg__os_thread). The
 * thread that is inside hg_run sleeps on hg_sched.bell; it is told which signals are waited for,
 * blocks them, and says so (hg_sched.signals_blocked), which the first wait for a signal waits for.
 * It unblocks them when hg_run ends: a program that does not wait for SIGINT dies of it, as ever.
 *
 * A descriptor per call costs four system calls, and no state that would have to be shared, sized
 * or closed.
 */
#include "runtime/net/net.h"
#include <hedge/signal.h>
#include <hedge/task.h>

#include <errno.h>
#include <signal.h>

#define LOOK_NS INT64_C(50000)

static bool can_be_waited_for(int signal)
{
    switch (signal) {
    case SIGKILL:
    case SIGSTOP:
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGTRAP:
    case SIGSYS:
    case SIGABRT:
        return false;
    default: /* between the two ranges: the C library's own */
        return (signal >= 1 && signal <= SIGSYS) || (signal >= SIGRTMIN && signal <= SIGRTMAX);
    }
}

/* Until hg_run's thread, if there is one, has blocked `signals`. That takes as long as it takes to
 * wake it, once per signal and program. */
static void block_in_host(struct hg_tcb *t, uint64_t signals)
{
    struct hg_sched *s = t->sched;
    (void)hg_or_acqrel(&s->signals_wanted, signals);
    if (!s->hosted || (signals & ~hg_load_acq(&s->signals_blocked)) == 0)
        return;
    hg_add_acqrel(&s->bell, 1u);
    hg__os_wake(&s->bell, 1);
    uint32_t mask = hg__mask(t);
    while ((signals & ~hg_load_acq(&s->signals_blocked)) != 0)
        hg_sleep(LOOK_NS);
    hg__unmask(t, mask);
}

/* f is open for the signals that are waited for. The signal or -errno. */
static int take(const hg_fd *f, int64_t deadline)
{
    int error = hg__desc_begin(f, HG_OS_READABLE, 0);
    while (error == 0) {
        int r = hg__os_signal_take(f->desc->fd);
        if (r != -EAGAIN) {
            (void)hg__desc_leave(f->desc);
            return r;
        }
        error = hg__desc_wait(f, HG_OS_READABLE, deadline, "signal");
    }
    return error;
}

HG_API int hg_signal_wait(const int *signals, int n, int64_t deadline)
{
    hg_safepoint();
    struct hg_tcb *t = hg__task_self();
    if (t == NULL)
        return -EPERM;
    if (n < 1 || n > 64)
        return -EINVAL;
    uint64_t set = 0;
    for (int i = 0; i < n; i++) {
        if (!can_be_waited_for(signals[i]))
            return -EINVAL;
        set |= UINT64_C(1) << (signals[i] - 1);
    }
    block_in_host(t, set);
    int fd = hg__os_signal_fd(set);
    if (fd < 0)
        return fd;
    hg_fd *f;
    int r = hg_fd_open(fd, &f);
    if (r != 0) {
        (void)hg__os_close(fd);
        return r;
    }
    r = take(f, deadline);
    (void)hg_fd_close(f);
    hg_keep_alive(f);
    return r;
}
