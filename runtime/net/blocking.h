/* blocking.h: the pool of threads for blocking calls, as the rest of the runtime sees it. */
#ifndef HG_RUNTIME_NET_BLOCKING_H
#define HG_RUNTIME_NET_BLOCKING_H
#include "runtime/sched/sched.h"
#include <hedge/blocking.h>

#define HG_BLOCKING_IDLE_NS INT64_C(10000000000) /* an idle thread ends after so long */

/* Arguments of a call in memory of the pool's: `bytes` zero bytes, 16-byte aligned. They belong to
 * the caller until hg__blocking_wait. On a task. 0 or -ENOMEM, -EPERM. */
int hg__blocking_new(size_t bytes, void **args);
void hg__blocking_free(void *args);
/* Waits for fn(args), where args are from hg__blocking_new. 0: *result is what it returned, and
 * args are the caller's again. Otherwise as hg_blocking_copy: after -ETIMEDOUT and -ECANCELED args
 * are gone, and drop was called or will be; after other errors args are still the caller's. */
int hg__blocking_wait(void *args, int (*fn)(void *), void (*drop)(void *), int64_t deadline,
                      int *result);

/* The end: procs have stopped (clean), or threads of s had to be given up. No call begins any more,
 * idle threads have ended when this returns; calls that run are left alone. False: one of them uses
 * memory of s (a task's stack), which must stay. Caller: not a task. */
bool hg__blocking_stop(struct hg_sched *s, bool clean);

#endif
