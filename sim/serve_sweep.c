/* serve_sweep.c: drops keys that have expired and that nobody asks for.
 *
 * A sweep goes over the keyspaces that have keys with a time, a few buckets of each, from where the
 * last sweep got to: a walk by cursor, so that every key has its turn however the table grows. It
 * stays in a keyspace as long as a quarter or more of the keys with a time that it saw there had
 * expired, and ends when it has taken SWEEP_NS: what has expired and is still there is then about a
 * quarter of the keys with a time, or the sweeper takes SWEEP_NS of each of its periods.
 * (Redis samples at random with the same quarter; a cursor needs no second table of the keys with
 * a time.)
 */
#include "sim/serve_store.h"
#include <hedge/task.h>

#define SWEEP_NS INT64_C(10000000)
#define BUCKETS  32 /* looked at under one lock */

struct sweep {
    int64_t now_ms;
    size_t with_time, expired;
};

static void sweep_bucket(struct serve_keyspace *k, struct sweep *w)
{
    struct serve_entry *e, *next;
    k->swept = serve_dict_scan(&k->dict, k->swept, &e);
    for (; e != NULL; e = next) {
        next = e->next;
        if (e->expire_ms == 0)
            continue;
        w->with_time++;
        if (e->expire_ms <= w->now_ms) {
            w->expired++;
            k->expiring--;
            serve_dict_remove(&k->dict, serve_entry_key(e), e->hash);
        }
    }
}

/* A few buckets of one keyspace. True: it is worth going on there. */
static bool sweep_some(struct serve_store *s, int db, unsigned shard)
{
    struct sweep w = {serve_wall_ms(), 0, 0};
    serve_store_lock(s, UINT64_C(1) << shard);
    struct serve_keyspace *k = s->keyspace[db][shard];
    for (int i = 0; k != NULL && k->expiring > 0 && i < BUCKETS; i++)
        sweep_bucket(k, &w);
    serve_store_unlock(s, UINT64_C(1) << shard);
    atomic_fetch_add_explicit(&s->expired, w.expired, memory_order_relaxed);
    return w.expired > 0 && w.expired * 4 >= w.with_time;
}

void serve_store_sweep(struct serve_store *s)
{
    int64_t end = hg_in(SWEEP_NS);
    for (int db = 0; db < SERVE_DATABASES; db++)
        for (unsigned shard = 0; shard < SERVE_SHARDS; shard++)
            while (sweep_some(s, db, shard)) {
                hg_safepoint();
                if (hg_now() >= end)
                    return;
            }
}
