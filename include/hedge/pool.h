/* pool.h: pools of heap objects that are worth keeping: buffers, encoders, parsers.
 *
 * A pool is a cache, not a store: what is put may be dropped at any moment. Each proc has a cache
 * of its own; a get that finds nothing there looks in the others'. Before each collection what lies
 * in the pool becomes its victim generation, and what was that is dropped: an object that nobody
 * gets over two collections is collected as garbage, but a collection does not empty the pool (the
 * victim cache of Go's sync.Pool, golang/go issue 22950).
 *
 * Two bounds keep a pool from holding memory for nobody: an object above max_object_bytes is
 * dropped where it is put, so that one huge buffer is not kept by who never needs it again; and all
 * that the pool holds together stays within budget_bytes.
 */
#ifndef HEDGE_POOL_H
#define HEDGE_POOL_H
#include <hedge/heap.h>

HG_BEGIN_DECLS

typedef struct hg_objpool hg_objpool; /* no heap object: may be held anywhere */

typedef struct hg_objpool_attr {
    size_t size;             /* sizeof(hg_objpool_attr) */
    size_t max_object_bytes; /* a larger object is dropped (hg_size_of counts); 0: 64 KiB */
    size_t budget_bytes;     /* of all objects in the pool; 0: 16 MiB */
    /* Makes an object for a get that finds none; NULL: the get returns NULL then. Called on the
     * task that gets, with no lock held: it may allocate and wait. */
    void *(*make)(void *arg);
    void *arg; /* first argument of make; not scanned: no reference to the heap */
    uintptr_t spare[4];
} hg_objpool_attr;

/* any: a new, empty pool; attr NULL: all defaults, and no make. It lives until hg_objpool_free, or
 * until its runtime is closed. -EINVAL: attr->size is wrong; -ENOMEM. */
HG_API HG_MUST int hg_objpool_new(hg_runtime *rt, const hg_objpool_attr *attr, hg_objpool **out);
/* any: ends the pool; what it holds is garbage. No other call on it may be under way. NULL:
 * none. */
HG_API void hg_objpool_free(hg_objpool *p);

/* S W (only in make): an object that somebody put, else a new one from make, else NULL. What it
 * contains is what its last user left. On tasks only. */
HG_API HG_MUST void *hg_objpool_get(hg_objpool *p);
/* Gives an object up: the caller must not use it any more. `obj` is the start of an object of this
 * runtime's heap (else fatal), of any layout; NULL: nothing happens. Dropped when it is above
 * max_object_bytes, or when the budget is used up; as procs hold shares of it ahead of use, that
 * may be from three quarters of it on. On tasks only; no safepoint. */
HG_API void hg_objpool_put(hg_objpool *p, void *obj);

typedef struct hg_objpool_stats {
    size_t size;                     /* sizeof(hg_objpool_stats), set by the caller */
    uint64_t gets, hits;             /* gets that found an object */
    uint64_t steals;                 /* of the hits: in another proc's cache */
    uint64_t victims;                /* of the hits: in the victim generation */
    uint64_t made;                   /* objects from make */
    uint64_t puts;                   /* puts of an object, dropped ones included */
    uint64_t too_large, over_budget; /* puts that were dropped, and why */
    uint64_t expired;                /* objects that collections dropped */
    uint64_t objects, bytes;         /* now in the pool */
    uintptr_t spare[4];
} hg_objpool_stats;
/* any: sums over procs; stops nobody, so what happens meanwhile may be in it or not. */
HG_API void hg_objpool_stats_read(hg_objpool *p, hg_objpool_stats *out);

HG_END_DECLS
#endif
