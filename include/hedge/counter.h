/* counter.h: counters and gauges for hot paths, and the list of all figures of a runtime.
 *
 * A counter has a cell per proc: hg_counter_add is a load, an addition and a store to memory that
 * no other proc writes, without an atomic read-modify-write. Reading sums the cells. Nothing here
 * allocates on the heap but for its user's callback.
 */
#ifndef HEDGE_COUNTER_H
#define HEDGE_COUNTER_H
#include <hedge/runtime.h>

HG_BEGIN_DECLS

typedef struct hg_counter hg_counter; /* a sum that only grows, or rises and falls */
typedef struct hg_gauge hg_gauge;     /* a level: it can also be set */

/* any: a counter at 0. The name is copied: up to 63 characters, printable and without blanks, by
 * convention like "/app/requests:count"; a name under "/gc/", "/memory/" or "/sched/" is the
 * runtime's. It lives until hg_counter_free, or until its runtime is closed. -EINVAL: no such name;
 * -EEXIST: it is taken; -ENOMEM. */
HG_API HG_MUST int hg_counter_new(hg_runtime *rt, const char *name, hg_counter **out);
/* any: adds n, which may be negative. From a task of the runtime it is one addition to the proc's
 * own cell; from any other thread, and inside a blocking region, an atomic addition to a cell that
 * those share. Not from signal handlers. Wraps at 64 bits. */
HG_API void hg_counter_add(hg_counter *c, int64_t n);
/* any: the sum. Additions that are made meanwhile are in it or not, each wholly. */
HG_API int64_t hg_counter_read(const hg_counter *c);
/* any: ends it. No other call on it may be under way. NULL: none. */
HG_API void hg_counter_free(hg_counter *c);

/* any: likewise a gauge at 0. */
HG_API HG_MUST int hg_gauge_new(hg_runtime *rt, const char *name, hg_gauge **out);
HG_API void hg_gauge_add(hg_gauge *g, int64_t n);
/* any: makes the level `value`; an addition at the same time counts as before it or after it. Takes
 * a lock: for levels that are known as a whole, now and then. */
HG_API void hg_gauge_set(hg_gauge *g, int64_t value);
HG_API int64_t hg_gauge_read(const hg_gauge *g);
HG_API void hg_gauge_free(hg_gauge *g);

/* ---- all figures ---- */

typedef enum { HG_METRIC_COUNTER, HG_METRIC_GAUGE } hg_metric_kind;

typedef struct hg_metric {
    const char *name; /* valid during the callback, or of hg_metric_read */
    const char *help; /* of the runtime's own; NULL for a program's */
    hg_metric_kind kind;
    int64_t value;
} hg_metric;

/* any: calls fn for each of the runtime's own figures (stats.h, under names in the style of Go's
 * runtime/metrics), then for each counter and gauge of the program in the order in which they were
 * made. A lock is held meanwhile: fn must not make or free any, nor wait, nor allocate on the
 * heap. */
HG_API void hg_metrics_each(hg_runtime *rt, void (*fn)(void *arg, const hg_metric *m), void *arg);
/* any: the figure of that name; out->name is `name` itself. -ENOENT: there is none. */
HG_API HG_MUST int hg_metric_read(hg_runtime *rt, const char *name, hg_metric *out);

HG_END_DECLS
#endif
