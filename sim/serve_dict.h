/* serve_dict.h: a hash table on the collected heap that grows and shrinks by one bucket at a time.
 *
 * It is the table of the keyspace, of sets, of hashes, and of the members of sorted sets. A dict is
 * part of a heap object, whose layout names `table` as a reference; all zero is an empty dict.
 *
 * Structure
 *   buckets     2^level + split of them: bucket b < split has been split by bit `level` of the hash
 *               into b and b + 2^level, the others are still whole. With each entry more than
 *               buckets the next one is split; with fewer entries than a quarter of the buckets the
 *               last split is undone.
 *   table       up to SERVE_SEGMENT buckets: an array of them. Beyond: `deep`, a directory of
 *               segments of SERVE_SEGMENT buckets each, made when the first of them is used.
 *
 * Invariants
 *   1. Entry e is in the chain of bucket `hash & (2^level - 1)`, or with one bit more where that
 *      is below split; in no other.
 *   2. count is the number of entries; there are at least as many buckets.
 *   3. There are at most 4 count + 3 buckets, or SERVE_LEAST: walking over all of them, or trying
 *      them at random for one with entries, is no more work than the entries are worth.
 *   4. No operation touches more than the chains of five buckets, one new segment, and at each
 *      doubling a directory of a 512th of the buckets: no request pays for a whole table.
 *
 * This is linear hashing (W. Litwin, "Linear hashing: a new tool for file and table addressing",
 * 1980), in segments as P.-A. Larson has it ("Dynamic hash tables", 1988). Rejected: two tables
 * with the old one moved over bit by bit, as in Redis: the new table has to be there, and cleared,
 * at once, 8 MiB for a million keys, in the request that happens to start it.
 *
 * Locks: none in here. Whoever owns the object that the dict is part of holds its lock
 * (serve_db.h).
 */
#ifndef HG_SIM_SERVE_DICT_H
#define HG_SIM_SERVE_DICT_H
#include "sim/serve_text.h"
#include <hedge/heap.h>

#define SERVE_SEGMENT 512 /* buckets */
#define SERVE_LEAST   4

struct serve_dict {
    void **table; /* reference */
    size_t count, split;
    uint32_t level; /* meaningful once table is there */
    uint32_t room;  /* buckets of the array, or segments that the directory has room for */
    uint32_t deep;
    uint32_t spare;
};

/* An entry with its key. value is a reference. What `expire_ms` or `score` mean the owner of the
 * dict says. */
struct serve_entry {
    struct serve_entry *next;
    void *value;
    uint64_t hash;
    union {
        int64_t expire_ms; /* keyspace: when it goes, in ms of wall time; 0: never */
        double score;      /* sorted sets */
    };
    size_t key_length;
    char key[];
};

static inline struct serve_text serve_entry_key(const struct serve_entry *e)
{
    return (struct serve_text){e->key, e->key_length};
}

/* The entry of a key, or NULL. */
struct serve_entry *serve_dict_find(const struct serve_dict *d, struct serve_text key,
                                    uint64_t hash);
/* S W: a new entry for a key that is not there; its value is NULL. */
struct serve_entry *serve_dict_insert(struct serve_dict *d, struct serve_text key, uint64_t hash);
/* Takes the entry of a key out and returns it; NULL: there is none. */
struct serve_entry *serve_dict_remove(struct serve_dict *d, struct serve_text key, uint64_t hash);

/* The first entry of a walk over all, then the next; NULL: that was the last. The dict must not
 * change meanwhile. */
struct serve_walk {
    size_t bucket;
    struct serve_entry *entry;
};
struct serve_entry *serve_dict_first(const struct serve_dict *d, struct serve_walk *w);
struct serve_entry *serve_dict_next(const struct serve_dict *d, struct serve_walk *w);
/* An entry of a dict that is not empty, from 64 random bits and more made from them: the bucket is
 * uniform among those with entries, then the entry in it, which is as near to uniform as Redis
 * is. */
struct serve_entry *serve_dict_any(const struct serve_dict *d, uint64_t random);

/* The chain at a cursor, of which the caller looks at all entries, and the cursor after it; 0
 * begins, and 0 ends. Every entry that is there from the first call to the last is seen, however
 * the dict changes between the calls; an entry may be seen twice.
 *
 * Hashes are visited in the order of their reversed bits. Everything in a bucket has the same low
 * bits, so a bucket is one interval in that order, whatever the number of buckets; the cursor is
 * the low bits where the next interval begins, and all below it has been seen (the reversed binary
 * cursor is P. Noordhuis's, in Redis). */
uint64_t serve_dict_scan(const struct serve_dict *d, uint64_t cursor, struct serve_entry **chain);

#endif
