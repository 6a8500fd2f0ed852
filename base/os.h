/* os.h: the contract with the operating system. One implementation per system (os_linux.c); nothing
 * else in the library makes a system call for memory, threads, time or waiting.
 *
 * Errors are negative errno values. Sizes are in bytes, times in nanoseconds. All calls may come
 * from any thread and need at most 1 KiB of stack, unless said otherwise.
 */
#ifndef HG_BASE_OS_H
#define HG_BASE_OS_H
#include "base/atomic.h"
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- memory ---- */
size_t hg__os_page_size(void);

/* Reserves address space without memory behind it (PROT_NONE, not counted), aligned to `align` (a
 * power of two, at least the page size). NULL when it does not fit (RLIMIT_AS, for one). */
void *hg__os_reserve(size_t bytes, size_t align);

/* Reserves and makes readable and writable at once; zero pages appear as they are touched. NULL on
 * failure. */
void *hg__os_map(size_t bytes, size_t align);

/* Makes part of a reservation readable and writable. 0 or -ENOMEM. */
int hg__os_commit(void *p, size_t bytes);

/* Gives the memory behind [p, p+bytes) back (MADV_DONTNEED); it reads as zero afterwards. */
void hg__os_discard(void *p, size_t bytes);

void hg__os_unmap(void *p, size_t bytes);

/* Advice on transparent huge pages; failures are ignored. collapse: synchronous, milliseconds; 0 or
 * -errno. */
void hg__os_hugepage(void *p, size_t bytes, bool on);
int hg__os_collapse(void *p, size_t bytes);

/* Makes [p, p+bytes) of a mapping a guard: any access faults. Tries MADV_GUARD_INSTALL (Linux
 * 6.13), then PROT_NONE. Returns 1: guard advice, 2: own mapping, or -errno (the process's mapping
 * limit). */
int hg__os_guard(void *p, size_t bytes);

/* ---- time ---- */
int64_t hg__os_now(void);        /* CLOCK_MONOTONIC */
int64_t hg__os_thread_cpu(void); /* CPU time of the calling thread (a system call: 0.1 to 0.3 us) */
int64_t hg__os_process_cpu(void); /* CPU time of the process */

/* ---- waiting ---- */
/* Sleeps while *word == expected, until woken or until `deadline` (CLOCK_MONOTONIC, INT64_MAX:
 * none). 0: woken, value changed, or interrupted; -ETIMEDOUT. */
int hg__os_wait(_Atomic uint32_t *word, uint32_t expected, int64_t deadline);
void hg__os_wake(_Atomic uint32_t *word, int count); /* wakes up to count sleepers */

/* ---- threads ---- */
/* Starts a thread with all signals blocked but those that a fault raises (SIGSEGV and its like), so
 * that the host's handlers never run on it but for its crash reports. stack_bytes 0: default. name:
 * at most 15 characters. 0 or -errno. */
int hg__os_thread(pthread_t *out, const char *name, size_t stack_bytes, void *(*fn)(void *),
                  void *arg);
void hg__os_thread_join(pthread_t t);
/* The calling thread blocks the signals of `signals`, bit s - 1 for signal s, beside those that it
 * blocks already. What it blocked before goes to *was, if was is not NULL. */
void hg__os_signals_block(uint64_t signals, sigset_t *was);
void hg__os_signals_restore(const sigset_t *was);
void hg__os_thread_detach(pthread_t t); /* instead of joining: it may end at any time */
void hg__os_timer_slack(void);          /* asks for 1 us timer slack for the calling thread */
void hg__os_nice(int increment); /* raises the calling thread's nice value, where the system has
                                  * one per thread */

/* ---- the machine ---- */
/* CPUs that this process may use: affinity mask, capped by the cgroup's CPU quota (rounded up), at
 * least 1. Reads files and allocates with malloc; needs 64 KiB of stack. */
int hg__os_cpus(void);
size_t hg__os_memory(void); /* bytes of physical memory */

#endif
