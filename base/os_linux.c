/* os_linux.c: the contract of os.h on Linux.
 *
 * Memory: reservations are PROT_NONE and MAP_NORESERVE, so that neither they nor the tables mapped
 * beside them count against strict accounting before they are touched. Aligned mappings ask for
 * `align` bytes more and unmap both ends.
 *
 * Guards: MADV_GUARD_INSTALL marks page table entries and leaves the mapping whole, so a hundred
 * thousand stacks do not need a hundred thousand mappings (the kernel's default limit is 65,530).
 * Older kernels answer -EINVAL and get a PROT_NONE range of its own.
 *
 * Waiting: FUTEX_WAIT_BITSET takes an absolute time on CLOCK_MONOTONIC, so a wait that is
 * interrupted and repeated does not drift. A wake orders nothing by itself: the caller's store
 * before it and the load that decides to go on do.
 *
 * No state, no locks; every function may be called from any thread.
 */
#include "base/os.h"

#include "base/assert.h"
#include "base/bits.h"
#include "base/cgroup.h"
#include "base/os_fault.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Newer than the headers that this may be built with. */
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24 /* Linux 5.18 */
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#endif

/* ---- memory ---- */

size_t hg__os_page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* An anonymous mapping of `bytes`, rounded up to pages, at a multiple of `align`; NULL on
 * failure. */
static void *map_aligned(size_t bytes, size_t align, int protection)
{
    size_t page = hg__os_page_size();
    size_t slack = align > page ? align - page : 0;
    if (bytes == 0 || bytes > (size_t)PTRDIFF_MAX - page ||
        slack > (size_t)PTRDIFF_MAX - page - bytes)
        return NULL;
    bytes = hg_round_up(bytes, page);
    if (hg__os_fails(protection == PROT_NONE ? HG_OS_RESERVE : HG_OS_MAP))
        return NULL;
    void *got =
        mmap(NULL, bytes + slack, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED)
        return NULL;
    char *begin = got;
    size_t before = (size_t)(-(uintptr_t)got & (align - 1));
    if (before > 0)
        munmap(begin, before);
    if (slack > before)
        munmap(begin + before + bytes, slack - before);
    return begin + before;
}

void *hg__os_reserve(size_t bytes, size_t align) { return map_aligned(bytes, align, PROT_NONE); }

void *hg__os_map(size_t bytes, size_t align)
{
    return map_aligned(bytes, align, PROT_READ | PROT_WRITE);
}

int hg__os_commit(void *p, size_t bytes)
{
    return !hg__os_fails(HG_OS_COMMIT) && mprotect(p, bytes, PROT_READ | PROT_WRITE) == 0 ? 0
                                                                                          : -ENOMEM;
}

/* The host may have locked its memory (mlockall), which MADV_DONTNEED refuses; the promise that the
 * range reads as zero holds even where the kernel knows no way to give locked memory back. */
void hg__os_discard(void *p, size_t bytes)
{
    if (!hg__os_fails(HG_OS_DISCARD) &&
        (madvise(p, bytes, MADV_DONTNEED) == 0 || madvise(p, bytes, MADV_DONTNEED_LOCKED) == 0))
        return;
    memset(p, 0, bytes);
}

/* Unmapping the middle of a mapping splits it and fails at the process's limit of mappings; the
 * address space is lost then, the memory is not. */
void hg__os_unmap(void *p, size_t bytes)
{
    if (munmap(p, bytes) != 0)
        (void)madvise(p, bytes, MADV_DONTNEED);
}

void hg__os_hugepage(void *p, size_t bytes, bool on)
{
    (void)madvise(p, bytes, on ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

int hg__os_collapse(void *p, size_t bytes)
{
    return madvise(p, bytes, MADV_COLLAPSE) == 0 ? 0 : -errno;
}

int hg__os_guard(void *p, size_t bytes)
{
    if (hg__os_fails(HG_OS_GUARD))
        return -errno;
    if (madvise(p, bytes, MADV_GUARD_INSTALL) == 0)
        return 1;
    return mprotect(p, bytes, PROT_NONE) == 0 ? 2 : -errno;
}

/* ---- time ---- */

static int64_t read_clock(clockid_t clock)
{
    struct timespec t;
    HG_CHECK(clock_gettime(clock, &t) == 0, "clock %d cannot be read: errno %d", (int)clock, errno);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t hg__os_now(void) { return read_clock(CLOCK_MONOTONIC); }

int64_t hg__os_thread_cpu(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

int64_t hg__os_process_cpu(void) { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }

/* ---- waiting ---- */

int hg__os_wait(_Atomic uint32_t *word, uint32_t expected, int64_t deadline)
{
    struct timespec until, *limit = NULL;
    if (hg__os_fails(HG_OS_WAIT))
        return 0;
    if (deadline != INT64_MAX) {
        int64_t t = deadline > 0 ? deadline : 0;
        until.tv_sec = (time_t)(t / 1000000000);
        until.tv_nsec = (long)(t % 1000000000);
        limit = &until;
    }
    long r = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected, limit, NULL,
                     FUTEX_BITSET_MATCH_ANY);
    if (r == 0 || errno == EAGAIN || errno == EINTR)
        return 0;
    HG_CHECK(errno == ETIMEDOUT, "futex wait at %p failed: errno %d", (void *)word, errno);
    return -ETIMEDOUT;
}

/* The word may be gone by now (its owner saw the store before this call and freed it): a wake of an
 * address that is not mapped fails with EFAULT and has woken nobody, which is right. */
void hg__os_wake(_Atomic uint32_t *word, int count)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL, NULL, 0);
}

/* ---- threads ---- */

/* A fault is raised on the thread that caused it, and blocking its signal would only take the
 * report of a host's crash handler (or a sanitizer's) away. */
static void signals_to_block(sigset_t *set)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT};
    sigfillset(set);
    for (size_t i = 0; i < HG_COUNT_OF(faults); i++)
        sigdelset(set, faults[i]);
}

int hg__os_thread(pthread_t *out, const char *name, size_t stack_bytes, void *(*fn)(void *),
                  void *arg)
{
    pthread_attr_t attr;
    if (hg__os_fails(HG_OS_THREAD))
        return -errno;
    int error = pthread_attr_init(&attr);
    if (error != 0)
        return -error;
    if (stack_bytes != 0) {
        size_t least = (size_t)sysconf(_SC_THREAD_STACK_MIN);
        error = pthread_attr_setstacksize(
            &attr, hg_round_up(hg_max_size(stack_bytes, least), hg__os_page_size()));
    }
    if (error == 0) {
        /* The new thread inherits the mask, so no signal can reach it between its birth and its
         * first statement. */
        sigset_t block, before;
        signals_to_block(&block);
        pthread_sigmask(SIG_SETMASK, &block, &before);
        error = pthread_create(out, &attr, fn, arg);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attr);
    if (error == 0)
        (void)pthread_setname_np(*out, name); /* for debuggers and top; a name that is too long is
                                               * not worth a failure */
    return -error;
}

void hg__os_signals_block(uint64_t signals, sigset_t *was)
{
    sigset_t block;
    sigemptyset(&block);
    for (int s = 1; s <= 64; s++)
        if (signals >> (s - 1) & 1)
            sigaddset(&block, s);
    pthread_sigmask(SIG_BLOCK, &block, was);
}

void hg__os_signals_restore(const sigset_t *was) { pthread_sigmask(SIG_SETMASK, was, NULL); }

void hg__os_thread_join(pthread_t t)
{
    int error = pthread_join(t, NULL);
    HG_CHECK(error == 0, "a thread cannot be joined: error %d", error);
}

void hg__os_thread_detach(pthread_t t)
{
    int error = pthread_detach(t);
    HG_CHECK(error == 0, "a thread cannot be detached: error %d", error);
}

void hg__os_timer_slack(void) { (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0); }

/* On Linux the nice value belongs to the thread, whatever POSIX says. */
void hg__os_nice(int increment)
{
    id_t self = (id_t)syscall(SYS_gettid);
    errno = 0;
    int now = getpriority(PRIO_PROCESS, self);
    if (errno == 0)
        (void)setpriority(PRIO_PROCESS, self, now + increment);
}

/* ---- the machine ---- */

/* CPUs in the affinity mask. The kernel refuses a mask that is smaller than its own, so it grows
 * until it fits. */
static int affinity_cpus(void)
{
    for (size_t cpus = 1024; cpus <= 1u << 20; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (set == NULL)
            break;
        size_t bytes = CPU_ALLOC_SIZE(cpus);
        int r = sched_getaffinity(0, bytes, set);
        int n = r == 0 ? CPU_COUNT_S(bytes, set) : 0;
        bool too_small = r != 0 && errno == EINVAL;
        CPU_FREE(set);
        if (n > 0)
            return n;
        if (!too_small)
            break;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online < INT_MAX ? (int)online : 1;
}

int hg__os_cpus(void)
{
    int cpus = affinity_cpus();
    int quota = hg__cgroup_cpus("");
    return quota > 0 && quota < cpus ? quota : cpus;
}

size_t hg__os_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    return pages > 0 ? (size_t)pages * hg__os_page_size() : 0;
}
