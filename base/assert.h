/* assert.h: three levels of assertion, and the way out when one fails.
 *
 *   HG_CHECK(c, ...)   always on: broken invariants whose test costs nothing that matters
 *   HG_ASSERT(c)       debug builds (HG_DEBUG)
 *   HG_AUDIT(c)        expensive; hostile builds (HG_HOSTILE)
 *
 * A switched-off assertion still compiles (inside sizeof), so that it cannot rot, and evaluates
 * nothing. A broken invariant ends in hg__fatal, which allocates nothing. A caller's misuse that is
 * documented to be an error returns a negative errno instead.
 */
#ifndef HG_BASE_ASSERT_H
#define HG_BASE_ASSERT_H
#include <stdbool.h>

/* Prints "hedge: " and the text through the fatal hook, if one is set, else to standard error, then
 * aborts. Allocates nothing, takes no lock, may be called from any context and on any stack of at
 * least 2 KiB. */
_Noreturn void hg__fatal(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* Sets the process-wide hook that hg__fatal calls with the whole text before abort(). NULL:
 * standard error. */
void hg__fatal_hook(void (*hook)(void *user, const char *text), void *user);

/* Prints a warning ("hedge: ...") the same way, through the log hook if set, and returns. Allocates
 * nothing. */
void hg__warn(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* One line as it is, the same way, as information: traces. At most one write. Allocates nothing. */
void hg__log_line(const char *line);
void hg__log_hook(void (*hook)(void *user, int level, const char *text), void *user);

#define HG_CHECK(c, ...)               \
    do {                               \
        if (__builtin_expect(!(c), 0)) \
            hg__fatal(__VA_ARGS__);    \
    } while (0)

#define HG_NO_CHECK(c) ((void)sizeof((c) ? 1 : 0))

#if defined(HG_DEBUG)
#define HG_ASSERT(c) HG_CHECK((c), "%s:%d: assertion failed: %s", __FILE__, __LINE__, #c)
#else
#define HG_ASSERT(c) HG_NO_CHECK(c)
#endif
#if defined(HG_HOSTILE)
#define HG_AUDIT(c) HG_CHECK((c), "%s:%d: audit failed: %s", __FILE__, __LINE__, #c)
#else
#define HG_AUDIT(c) HG_NO_CHECK(c)
#endif

#define hg_likely(c)   __builtin_expect(!!(c), 1)
#define hg_unlikely(c) __builtin_expect(!!(c), 0)

#endif
