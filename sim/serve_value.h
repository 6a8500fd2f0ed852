/* serve_value.h: what a key stands for: strings, lists, sets, hashes, sorted sets; all objects of
 * the collected heap.
 *
 * A value is never freed: the entry of its key lets go of it, and whoever still sends it keeps it.
 *
 * Invariants
 *   1. The first `length` bytes of a string never change once others can reach it. It may grow in
 *      place, into room behind them: bytes first, then the length.
 *   2. A list, set, hash or sorted set in the database is not empty.
 *
 * Locks: a value belongs to the shard of its key (serve_db.h), and is touched under that lock, but
 * for the bytes of a string (invariant 1).
 */
#ifndef HG_SIM_SERVE_VALUE_H
#define HG_SIM_SERVE_VALUE_H
#include "sim/serve_dict.h"

enum serve_type { SERVE_STRING, SERVE_LIST, SERVE_SET, SERVE_HASH, SERVE_ZSET, SERVE_TYPES };

/* How each value begins. */
struct serve_value {
    uint32_t type;
};

/* As clients are told: "string", ... */
const char *serve_type_name(uint32_t type);

/* ---- strings (serve_string.c) ---- */

struct serve_string {
    struct serve_value head;
    uint32_t spare;
    size_t length;
    char bytes[];
};

static inline struct serve_text serve_string_text(const struct serve_string *s)
{
    return (struct serve_text){s->bytes, s->length};
}
/* S W: a string with these bytes. */
struct serve_string *serve_string_new(struct serve_text t);
/* S W: s with more bytes behind it: s itself if it has the room, or a longer copy with room to
 * grow. */
struct serve_string *serve_string_append(struct serve_string *s, struct serve_text more);

/* ---- lists (serve_list.c) ---- */

struct serve_list_node;

struct serve_list {
    struct serve_value head;
    uint32_t spare;
    size_t length;
    struct serve_list_node *first, *last;
};

/* Where an element is. */
struct serve_list_at {
    struct serve_list_node *node;
    uint32_t slot;
};

struct serve_list *serve_list_new(void); /* S W */
/* S W: to the front or the back. */
void serve_list_push(struct serve_list *l, bool front, struct serve_string *s);
/* Of a list that is not empty. */
struct serve_string *serve_list_pop(struct serve_list *l, bool front);
/* The element at index (below length), and where it is: for serve_list_next. */
struct serve_string *serve_list_get(const struct serve_list *l, size_t index,
                                    struct serve_list_at *at);
/* The element behind the one at *at; NULL: it was the last. */
struct serve_string *serve_list_next(struct serve_list_at *at);

/* ---- sets and hashes (serve_map.c): a member's value is NULL, a field's a string ---- */

struct serve_map {
    struct serve_value head;
    uint32_t spare;
    struct serve_dict dict;
};

struct serve_map *serve_map_new(enum serve_type type); /* S W */

/* ---- sorted sets (serve_zset.c) ---- */

struct serve_znode;

struct serve_zset {
    struct serve_value head;
    uint32_t levels;         /* of the skip list, at least 1 */
    struct serve_dict dict;  /* member -> its entry, with score; the entry's value is its node */
    struct serve_znode *top; /* the node before the first, of all levels */
    uint64_t random;
};

/* An end of a range of scores, or of members. */
struct serve_zbound {
    double score;
    struct serve_text member;
    bool open;    /* what equals it is not in the range */
    int infinite; /* members: -1 and 1 are before and behind all */
};
struct serve_zrange {
    bool by_member;
    struct serve_zbound low, high;
};

struct serve_zset *serve_zset_new(uint64_t random); /* S W */
/* S W: a member that is not there. */
void serve_zset_insert(struct serve_zset *z, struct serve_text member, uint64_t hash, double score);
/* S W: another score for one that is. */
void serve_zset_move(struct serve_zset *z, struct serve_entry *e, double score);
void serve_zset_remove(struct serve_zset *z, struct serve_entry *e);
/* The member at a rank (0: the lowest), or NULL. */
struct serve_entry *serve_zset_at(const struct serve_zset *z, size_t rank);
/* The neighbour in order, or NULL. */
struct serve_entry *serve_zset_step(const struct serve_entry *e, bool back);
/* The first member (back: the last) in a range, or NULL. */
struct serve_entry *serve_zset_seek(const struct serve_zset *z, const struct serve_zrange *r,
                                    bool back);
bool serve_zset_inside(const struct serve_entry *e, const struct serve_zrange *r);

#endif
