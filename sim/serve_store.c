/* serve_store.c: the databases (serve_store.h).
 *
 * The keyspaces hang from an array in plain memory that is one global root; all stores into it are
 * barriered. The high bits of a key's hash say its shard, the low ones its bucket there.
 *
 * A cursor of SCAN is a cursor of the shard's dict above the number of the shard: keys do not move
 * between shards, so that the promise of serve_dict_scan holds for all of them.
 */
#include "sim/serve_store.h"
#include <sys/random.h>
#include <time.h>

static const uint32_t keyspace_refs[] = {(uint32_t)offsetof(struct serve_keyspace, dict.table)};
static const hg_layout keyspace_layout = HG_TYPED("serve keyspace", keyspace_refs);

int serve_store_open(struct serve_store *s, hg_runtime *rt)
{
    uint64_t words[3];
    memset(s, 0, sizeof *s);
    if (getrandom(words, sizeof words, 0) != (ssize_t)sizeof words)
        words[0] = words[1] = words[2] = (uint64_t)hg_now(); /* seeds of a machine without it */
    s->seed.w[0] = words[0];
    s->seed.w[1] = words[1];
    atomic_init(&s->random, words[2]);
    return hg_root_add(rt, s->keyspace, SERVE_DATABASES * SERVE_SHARDS, HG_REFS);
}

void serve_store_close(struct serve_store *s, hg_runtime *rt)
{
    int err = hg_root_remove(rt, s->keyspace);
    (void)err; /* -ENOENT: it was not open */
}

void serve_store_lock(struct serve_store *s, uint64_t shards)
{
    for (; shards != 0; shards &= shards - 1)
        hg_mutex_lock(&s->lock[__builtin_ctzll(shards)].mutex);
}

void serve_store_unlock(struct serve_store *s, uint64_t shards)
{
    for (; shards != 0; shards &= shards - 1)
        hg_mutex_unlock(&s->lock[__builtin_ctzll(shards)].mutex);
}

int64_t serve_wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

uint64_t serve_store_random(struct serve_store *s)
{
    /* splitmix64 (G. Steele, D. Lea, C. Flood, 2014) on a shared counter, keyed. */
    uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t v = atomic_fetch_add_explicit(&s->random, step, memory_order_relaxed);
    v = (v ^ v >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    v = (v ^ v >> 27) * UINT64_C(0x94d049bb133111eb);
    return (v ^ v >> 31) ^ s->seed.w[0];
}

/* ---- one key ---- */

static void drop(struct serve_keyspace *k, struct serve_entry *e)
{
    if (e->expire_ms != 0)
        k->expiring--;
    serve_dict_remove(&k->dict, serve_entry_key(e), e->hash);
}

struct serve_entry *serve_store_find(struct serve_store *s, int db, struct serve_key key)
{
    struct serve_keyspace *k = s->keyspace[db][serve_key_shard(key)];
    struct serve_entry *e = k == NULL ? NULL : serve_dict_find(&k->dict, key.text, key.hash);
    if (e == NULL || e->expire_ms == 0 || e->expire_ms > serve_wall_ms())
        return e;
    drop(k, e);
    atomic_fetch_add_explicit(&s->expired, 1, memory_order_relaxed);
    return NULL;
}

struct serve_entry *serve_store_put(struct serve_store *s, int db, struct serve_key key,
                                    void *value)
{
    struct serve_entry *e = serve_store_find(s, db, key);
    if (e == NULL) {
        struct serve_keyspace **slot = &s->keyspace[db][serve_key_shard(key)];
        if (*slot == NULL)
            hg_ref_store(slot, hg_alloc(sizeof **slot, &keyspace_layout));
        e = serve_dict_insert(&(*slot)->dict, key.text, key.hash);
    }
    hg_ref_store(&e->value, value);
    return e;
}

void serve_store_expire(struct serve_store *s, int db, struct serve_entry *e, int64_t ms)
{
    struct serve_key key = {serve_entry_key(e), e->hash};
    struct serve_keyspace *k = s->keyspace[db][serve_key_shard(key)];
    k->expiring = k->expiring - (e->expire_ms != 0) + (ms != 0);
    e->expire_ms = ms;
}

bool serve_store_remove(struct serve_store *s, int db, struct serve_key key)
{
    struct serve_entry *e = serve_store_find(s, db, key);
    if (e != NULL)
        drop(s->keyspace[db][serve_key_shard(key)], e);
    return e != NULL;
}

/* ---- all keys ---- */

size_t serve_store_count(struct serve_store *s, int db, size_t *expiring)
{
    size_t count = 0, with_time = 0;
    for (unsigned i = 0; i < SERVE_SHARDS; i++) {
        serve_store_lock(s, UINT64_C(1) << i);
        struct serve_keyspace *k = s->keyspace[db][i];
        count += k == NULL ? 0 : k->dict.count;
        with_time += k == NULL ? 0 : k->expiring;
        serve_store_unlock(s, UINT64_C(1) << i);
    }
    if (expiring != NULL)
        *expiring = with_time;
    return count;
}

void serve_store_flush(struct serve_store *s, int db)
{
    serve_store_lock(s, SERVE_ALL_SHARDS);
    for (int d = 0; d < SERVE_DATABASES; d++)
        for (unsigned i = 0; i < SERVE_SHARDS; i++)
            if (d == db || db < 0)
                hg_ref_store(&s->keyspace[d][i], NULL);
    serve_store_unlock(s, SERVE_ALL_SHARDS);
}

uint64_t serve_store_scan(struct serve_store *s, int db, uint64_t cursor, serve_store_visit *visit,
                          void *arg)
{
    unsigned shard = cursor & (SERVE_SHARDS - 1);
    uint64_t next = cursor >> SERVE_SHARD_BITS;
    for (bool visited = false; shard < SERVE_SHARDS && !visited;) {
        serve_store_lock(s, UINT64_C(1) << shard);
        struct serve_keyspace *k = s->keyspace[db][shard];
        struct serve_entry *e = NULL;
        if (k != NULL && k->dict.count > 0) {
            next = serve_dict_scan(&k->dict, next, &e);
            visited = true;
        } else {
            next = 0;
        }
        for (; e != NULL; e = e->next)
            if (e->expire_ms == 0 || e->expire_ms > serve_wall_ms())
                visit(arg, e);
        serve_store_unlock(s, UINT64_C(1) << shard);
        shard += next == 0;
    }
    return shard == SERVE_SHARDS ? 0 : next << SERVE_SHARD_BITS | shard;
}
