/* serve_store.h: the databases: keys, values and when they expire.
 *
 * Structure: a database is SERVE_SHARDS keyspaces, a key being in the one that the low bits of its
 * hash say. A keyspace is a heap object, made with its first key.
 *
 * Locks: lock i guards shard i of all databases, with every value in them. A command that names
 * keys holds the locks of all of their shards, taken in ascending order, from its first look to its
 * last (the dispatcher does that, serve_client.c), so that it is atomic, MSET too. What looks at
 * all shards (SCAN, KEYS, DBSIZE, the sweeper) takes one at a time; FLUSHALL takes all. The locks
 * are task mutexes: a holder that allocates may have to wait for the collector, and lets its proc
 * go meanwhile. Nothing waits for a client while it holds one.
 *
 * Why shards: commands are short, a microsecond or two, so that with few procs one lock would do;
 * but a task that is held up while it has the lock (it marks for its allocation, its thread loses
 * the CPU) holds up only who wants the same 64th of the keys, and LRANGE of a long list does not
 * stop the others. Rejected: a lock per key (MSET of many keys, and a table of locks as large as
 * the data); readers beside each other (GET holds the lock for less than a reader count costs).
 *
 * A key that has expired is dropped when somebody looks for it, or by the sweeper (serve_sweep.c).
 */
#ifndef HG_SIM_SERVE_STORE_H
#define HG_SIM_SERVE_STORE_H
#include "sim/serve_value.h"
#include <hedge/sync.h>
#include <stdalign.h>
#include <stdatomic.h>

#define SERVE_DATABASES  16
#define SERVE_SHARD_BITS 6
#define SERVE_SHARDS     (1 << SERVE_SHARD_BITS)
#define SERVE_ALL_SHARDS (~UINT64_C(0))
_Static_assert(SERVE_SHARDS == 64, "a set of shards is one word");

struct serve_keyspace {
    struct serve_dict dict;
    size_t expiring; /* keys of it with a time to expire */
    uint64_t swept;  /* where the sweeper goes on: a cursor of serve_dict_scan */
};

struct serve_store {
    struct serve_seed seed;
    struct serve_keyspace *keyspace[SERVE_DATABASES][SERVE_SHARDS]; /* a global root */
    struct {
        alignas(64) hg_mutex mutex;
    } lock[SERVE_SHARDS];
    _Atomic uint64_t expired; /* keys dropped because their time was over; relaxed, a statistic */
    _Atomic uint64_t random;  /* state of serve_store_random */
};

/* A key with its hash, which also says its shard. */
struct serve_key {
    struct serve_text text;
    uint64_t hash;
};

static inline struct serve_key serve_store_key(const struct serve_store *s, struct serve_text t)
{
    return (struct serve_key){t, serve_hash(&s->seed, t)};
}
static inline unsigned serve_key_shard(struct serve_key k)
{
    return (unsigned)(k.hash >> (64 - SERVE_SHARD_BITS));
}

/* A store with a secret seed; its root is added to the runtime. 0 or a negative errno. */
int serve_store_open(struct serve_store *s, hg_runtime *rt);
void serve_store_close(struct serve_store *s, hg_runtime *rt);

/* S W: the locks of a set of shards (bit i: shard i). */
void serve_store_lock(struct serve_store *s, uint64_t shards);
void serve_store_unlock(struct serve_store *s, uint64_t shards);

/* Wall time in ms since 1970. */
int64_t serve_wall_ms(void);
/* 64 bits that no client can foresee well enough to do harm: for SPOP and skip lists. */
uint64_t serve_store_random(struct serve_store *s);

/* ---- with the lock of the key's shard ---- */

/* The entry of a key, or NULL. One that has expired is dropped. */
struct serve_entry *serve_store_find(struct serve_store *s, int db, struct serve_key key);
/* S W: gives a key a value, new or instead of its old one; does not change when it expires. */
struct serve_entry *serve_store_put(struct serve_store *s, int db, struct serve_key key,
                                    void *value);
/* When it expires, in ms of wall time; 0: never. */
void serve_store_expire(struct serve_store *s, int db, struct serve_entry *e, int64_t ms);
/* False: it is not there (or has expired). */
bool serve_store_remove(struct serve_store *s, int db, struct serve_key key);

/* ---- with no lock held ---- */

/* S W: keys in a database, those too that have expired and were not dropped yet. *expiring (may be
 * NULL): how many of them have a time to expire. */
size_t serve_store_count(struct serve_store *s, int db, size_t *expiring);
/* S W: empties one database, or all (db -1). The collector takes the rest from there. */
void serve_store_flush(struct serve_store *s, int db);

/* Called for each key of a scan, under its shard's lock. */
typedef void serve_store_visit(void *arg, struct serve_entry *e);
/* S W: visits the keys at a cursor and returns the next one: 0 begins, 0 ends. Has the promise of
 * serve_dict_scan. A step visits one bucket; shards without keys are passed over in the same
 * step. */
uint64_t serve_store_scan(struct serve_store *s, int db, uint64_t cursor, serve_store_visit *visit,
                          void *arg);

/* S W, in a task of its own, some times a second: drops keys that have expired, those of shards
 * with many of them first (serve_sweep.c). */
void serve_store_sweep(struct serve_store *s);

#endif
