/* serve_dict.c: linear hashing on the collected heap (serve_dict.h).
 *
 * Every store of a reference into a table, a directory or an entry that is already in a chain is a
 * barriered one: the collector may be marking. New arrays and entries are filled before they can be
 * reached.
 */
#include "sim/serve_dict.h"

#define SEGMENT_BITS 9
#define SEGMENT_MASK ((size_t)SERVE_SEGMENT - 1)
_Static_assert(1 << SEGMENT_BITS == SERVE_SEGMENT, "the same number twice");

static const uint32_t entry_refs[] = {(uint32_t)offsetof(struct serve_entry, next),
                                      (uint32_t)offsetof(struct serve_entry, value)};
static const hg_layout entry_layout = HG_TYPED("serve entry", entry_refs);

static size_t buckets(const struct serve_dict *d) { return ((size_t)1 << d->level) + d->split; }

/* Invariant 1; *bits: how many bits of the hash tell the bucket. */
static size_t bucket_of(const struct serve_dict *d, uint64_t hash, unsigned *bits)
{
    size_t b = hash & (((size_t)1 << d->level) - 1);
    *bits = d->level + (b < d->split);
    return hash & (((size_t)1 << *bits) - 1);
}

static struct serve_entry **slot(const struct serve_dict *d, size_t b)
{
    if (!d->deep)
        return (struct serve_entry **)(void *)&d->table[b];
    void **segment = d->table[b >> SEGMENT_BITS];
    return (struct serve_entry **)(void *)&segment[b & SEGMENT_MASK];
}

static struct serve_entry **slot_of_hash(const struct serve_dict *d, uint64_t hash)
{
    unsigned bits;
    return slot(d, bucket_of(d, hash, &bits));
}

/* The link that points to the key's entry, or to the NULL at the end of its chain. */
static struct serve_entry **link_of(const struct serve_dict *d, struct serve_text key,
                                    uint64_t hash)
{
    struct serve_entry **link = slot_of_hash(d, hash);
    for (; *link != NULL; link = &(*link)->next)
        if ((*link)->hash == hash && serve_text_equal(serve_entry_key(*link), key))
            break;
    return link;
}

struct serve_entry *serve_dict_find(const struct serve_dict *d, struct serve_text key,
                                    uint64_t hash)
{
    return d->count == 0 ? NULL : *link_of(d, key, hash);
}

/* ---- growing and shrinking ---- */

/* A table of twice the room, with what is in the old one. */
static void double_table(struct serve_dict *d)
{
    void **table = hg_alloc(2 * (size_t)d->room * sizeof(void *), HG_REFS);
    hg_refs_copy(table, d->table, d->room);
    hg_ref_store(&d->table, table);
    d->room *= 2;
}

/* From one array of buckets to a directory of which it is the first segment. */
static void deepen(struct serve_dict *d)
{
    void **directory = hg_alloc(SERVE_LEAST * sizeof(void *), HG_REFS);
    directory[0] = d->table;
    hg_ref_store(&d->table, directory);
    d->room = SERVE_LEAST;
    d->deep = 1;
}

/* Makes the slot of bucket b, the one behind the last. */
static void make_slot(struct serve_dict *d, size_t b)
{
    if (!d->deep && b == SERVE_SEGMENT)
        deepen(d);
    if (!d->deep) {
        if (b == d->room)
            double_table(d);
        return;
    }
    size_t segment = b >> SEGMENT_BITS;
    if (segment == d->room)
        double_table(d);
    if (d->table[segment] == NULL)
        hg_ref_store(&d->table[segment], hg_alloc(SERVE_SEGMENT * sizeof(void *), HG_REFS));
}

/* Splits the bucket whose turn it is. */
static void grow(struct serve_dict *d)
{
    size_t other = buckets(d);
    make_slot(d, other);
    struct serve_entry **stay = slot(d, d->split), **move = slot(d, other), *e = *stay;
    for (struct serve_entry *next; e != NULL; e = next) {
        next = e->next;
        struct serve_entry ***tail = (e->hash >> d->level & 1) != 0 ? &move : &stay;
        if (**tail != e)
            hg_ref_store(*tail, e);
        *tail = &e->next;
    }
    hg_ref_store(stay, NULL);
    hg_ref_store(move, NULL);
    if (++d->split == (size_t)1 << d->level) {
        d->level++;
        d->split = 0;
    }
}

/* Undoes the last split. */
static void shrink(struct serve_dict *d)
{
    if (d->split == 0) {
        d->level--;
        d->split = (size_t)1 << d->level;
    }
    d->split--;
    size_t other = buckets(d);
    struct serve_entry **from = slot(d, other), **to = slot(d, d->split);
    while (*to != NULL)
        to = &(*to)->next;
    hg_ref_store(to, *from);
    hg_ref_store(from, NULL);
    if (d->deep && (other & SEGMENT_MASK) == 0)
        hg_ref_store(&d->table[other >> SEGMENT_BITS], NULL);
}

/* ---- changing it ---- */

static void make_table(struct serve_dict *d)
{
    hg_ref_store(&d->table, hg_alloc(SERVE_LEAST * sizeof(void *), HG_REFS));
    d->room = SERVE_LEAST;
    d->level = 2;
    _Static_assert(1 << 2 == SERVE_LEAST, "the level of the least table");
}

struct serve_entry *serve_dict_insert(struct serve_dict *d, struct serve_text key, uint64_t hash)
{
    struct serve_entry *e = hg_alloc(sizeof *e + key.n, &entry_layout);
    e->hash = hash;
    e->key_length = key.n;
    memcpy(e->key, key.at, key.n);
    if (d->table == NULL)
        make_table(d);
    if (d->count + 1 > buckets(d))
        grow(d);
    struct serve_entry **head = slot_of_hash(d, hash);
    hg_ref_store(&e->next, *head); /* a slice of marking in grow() may have seen e already */
    hg_ref_store(head, e);
    d->count++;
    return e;
}

struct serve_entry *serve_dict_remove(struct serve_dict *d, struct serve_text key, uint64_t hash)
{
    if (d->count == 0)
        return NULL;
    struct serve_entry **link = link_of(d, key, hash), *e = *link;
    if (e == NULL)
        return NULL;
    hg_ref_store(link, e->next);
    d->count--;
    /* Four buckets for the entry that went: invariant 3. */
    for (int i = 0; i < 4 && d->count < buckets(d) / 4 && buckets(d) > SERVE_LEAST; i++)
        shrink(d);
    return e;
}

/* ---- looking at all of it ---- */

static struct serve_entry *from_bucket(const struct serve_dict *d, struct serve_walk *w)
{
    for (; w->bucket < buckets(d); w->bucket++)
        if ((w->entry = *slot(d, w->bucket)) != NULL)
            return w->entry;
    return NULL;
}

struct serve_entry *serve_dict_first(const struct serve_dict *d, struct serve_walk *w)
{
    *w = (struct serve_walk){0, NULL};
    return d->count == 0 ? NULL : from_bucket(d, w);
}

struct serve_entry *serve_dict_next(const struct serve_dict *d, struct serve_walk *w)
{
    if ((w->entry = w->entry->next) != NULL)
        return w->entry;
    w->bucket++;
    return from_bucket(d, w);
}

struct serve_entry *serve_dict_any(const struct serve_dict *d, uint64_t random)
{
    struct serve_entry *e;
    /* A quarter of the buckets have entries, or nearly: five tries on the average. */
    do {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        e = *slot(d, (size_t)((random >> 32) * buckets(d) >> 32));
    } while (e == NULL);
    size_t length = 0;
    for (struct serve_entry *c = e; c != NULL; c = c->next)
        length++;
    for (size_t skip = (random & 0xffff) % length; skip > 0; skip--)
        e = e->next;
    return e;
}

static uint64_t reverse(uint64_t v)
{
    v = (v >> 1 & UINT64_C(0x5555555555555555)) | (v & UINT64_C(0x5555555555555555)) << 1;
    v = (v >> 2 & UINT64_C(0x3333333333333333)) | (v & UINT64_C(0x3333333333333333)) << 2;
    v = (v >> 4 & UINT64_C(0x0f0f0f0f0f0f0f0f)) | (v & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4;
    return __builtin_bswap64(v);
}

uint64_t serve_dict_scan(const struct serve_dict *d, uint64_t cursor, struct serve_entry **chain)
{
    unsigned bits;
    *chain = NULL;
    if (d->count == 0)
        return 0;
    *chain = *slot(d, bucket_of(d, cursor, &bits));
    return reverse(reverse(cursor | ~UINT64_C(0) << bits) + 1);
}
