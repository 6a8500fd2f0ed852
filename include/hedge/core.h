/* core.h: what every hedge header needs: linkage, marks, time.
 *
 * Marks used in all headers:
 *   any   may be called from any thread, also one that the runtime does not know
 *   S     a safepoint: the collector may act for this task or thread here
 *   W     may wait: a task parks (other tasks run), until the deadline
 * A call without a mark is for tasks, is no safepoint and does not wait. Results are 0 or a
 * negative errno unless said otherwise. Times are int64_t nanoseconds on CLOCK_MONOTONIC.
 */
#ifndef HEDGE_CORE_H
#define HEDGE_CORE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define HG_BEGIN_DECLS extern "C" {
#define HG_END_DECLS   }
#else
#define HG_BEGIN_DECLS
#define HG_END_DECLS
#endif

#define HG_API  __attribute__((visibility("default")))
#define HG_MUST __attribute__((warn_unused_result))

HG_BEGIN_DECLS

#define HG_NOW     INT64_C(0) /* a deadline that never waits: -EAGAIN where it would have to */
#define HG_FOREVER INT64_MAX  /* no deadline */

/* any: CLOCK_MONOTONIC in nanoseconds. */
HG_API int64_t hg_now(void);
/* any: the time `ns` from now, saturating at HG_FOREVER; ns <= 0 gives a time that has passed. */
HG_API int64_t hg_in(int64_t ns);

/* any: "major.minor.patch" of the library. */
HG_API const char *hg_version(void);

HG_END_DECLS
#endif
