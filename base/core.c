/* core.c: time and the version, the parts of <hedge/core.h> that need no runtime.
 *
 * Deadlines are points on CLOCK_MONOTONIC, of which 0 (HG_NOW) and INT64_MAX (HG_FOREVER) mean
 * something else. So hg_in saturates instead of wrapping, and a time that has passed is the
 * present, never 0: a wait with such a deadline times out (-ETIMEDOUT), one with HG_NOW says that
 * it would have to wait (-EAGAIN).
 */
#include <hedge/core.h>

#include "base/os.h"
#include "hg_version.h"

HG_API int64_t hg_now(void) { return hg__os_now(); }

HG_API int64_t hg_in(int64_t ns)
{
    int64_t now = hg__os_now(), deadline;
    if (ns <= 0)
        return now;
    return __builtin_add_overflow(now, ns, &deadline) ? HG_FOREVER : deadline;
}

HG_API const char *hg_version(void) { return HG_VERSION; }
