/* serve_zset.c: sorted sets: a dict from member to score, and a skip list in the order of
 * (score, member) (serve_value.h).
 *
 * Structure: the skip list of W. Pugh ("Skip lists: a probabilistic alternative to balanced trees",
 * 1990), a node going one level higher with probability 1/4. Each link counts how many places it
 * leads on, which gives ranks in the same O(log n). A node refers to the dict's entry, which has
 * member and score, and the entry to its node, so that a step from a member is one load.
 *
 * Invariants
 *   1. Each level is the list of all nodes of at least that height, in order; a link's span is the
 *      distance in ranks, to the end of the list where it leads nowhere.
 *   2. top has the height TOP and no entry; levels is the height of the tallest node, at least 1.
 *
 * Rejected: a counted B-tree, which marks faster but whose splits and joins are five times the
 * code.
 */
#include "sim/serve_value.h"

#define TOP 24 /* 4^24 members before searches slow down */

struct level {
    struct serve_znode *next;
    size_t span;
};

struct serve_znode {
    struct serve_entry *entry;
    struct serve_znode *previous; /* NULL: it is the first */
    struct level level[];
};

/* A node's place while the list is searched: the last node before it on each level, and its rank,
 * that of `top` being 0. */
struct path {
    struct serve_znode *node[TOP];
    size_t rank[TOP];
};

static const uint32_t zset_refs[] = {(uint32_t)offsetof(struct serve_zset, dict.table),
                                     (uint32_t)offsetof(struct serve_zset, top)};
static const hg_layout zset_layout = HG_TYPED("serve zset", zset_refs);
static const uint32_t znode_refs[] = {(uint32_t)offsetof(struct serve_znode, entry),
                                      (uint32_t)offsetof(struct serve_znode, previous)};
static const hg_layout znode_layout =
    HG_TYPED_TAIL("serve znode", znode_refs, (uint32_t)offsetof(struct serve_znode, level),
                  (uint32_t)sizeof(struct level));

static struct serve_znode *node_new(size_t height)
{
    return hg_alloc(sizeof(struct serve_znode) + height * sizeof(struct level), &znode_layout);
}

struct serve_zset *serve_zset_new(uint64_t random)
{
    struct serve_zset *z = hg_alloc(sizeof *z, &zset_layout);
    z->head.type = SERVE_ZSET;
    z->levels = 1;
    z->random = random | 1;
    hg_ref_store(&z->top, node_new(TOP));
    return z;
}

/* xorshift64 (G. Marsaglia, 2003): clients do not learn the seed, and heights are all it
 * decides. */
static size_t random_height(struct serve_zset *z)
{
    z->random ^= z->random << 13;
    z->random ^= z->random >> 7;
    z->random ^= z->random << 17;
    size_t height = 1 + (size_t)__builtin_ctzll(z->random | UINT64_C(1) << 62) / 2;
    return height < TOP ? height : TOP;
}

static int order(double score, struct serve_text member, const struct serve_entry *e)
{
    if (score != e->score)
        return score < e->score ? -1 : 1;
    return serve_text_order(member, serve_entry_key(e));
}

/* The path to where (score, member) is or would be. */
static void find_path(const struct serve_zset *z, double score, struct serve_text member,
                      struct path *p)
{
    struct serve_znode *n = z->top;
    size_t rank = 0;
    for (uint32_t i = z->levels; i-- > 0;) {
        struct serve_znode *next;
        while ((next = n->level[i].next) != NULL && order(score, member, next->entry) > 0) {
            rank += n->level[i].span;
            n = next;
        }
        p->node[i] = n;
        p->rank[i] = rank;
    }
}

/* Puts n, of this height, behind the path. It holds no links yet. */
static void link_node(struct serve_zset *z, struct serve_znode *n, size_t height, struct path *p)
{
    for (; z->levels < height; z->levels++) {
        p->node[z->levels] = z->top;
        p->rank[z->levels] = 0;
        z->top->level[z->levels].span = z->dict.count - 1;
    }
    for (uint32_t i = 0; i < z->levels; i++) {
        struct level *before = &p->node[i]->level[i];
        size_t distance = p->rank[0] - p->rank[i];
        if (i >= height) {
            before->span++;
            continue;
        }
        hg_ref_store(&n->level[i].next, before->next);
        n->level[i].span = before->span - distance;
        hg_ref_store(&before->next, n);
        before->span = distance + 1;
    }
    hg_ref_store(&n->previous, p->node[0] == z->top ? NULL : p->node[0]);
    if (n->level[0].next != NULL)
        hg_ref_store(&n->level[0].next->previous, n);
}

/* A node for an entry that the dict has and the list has not. */
static void insert_node(struct serve_zset *z, struct serve_entry *e)
{
    struct path p;
    size_t height = random_height(z);
    struct serve_znode *n = node_new(height);
    hg_ref_store(&n->entry, e);
    hg_ref_store(&e->value, n);
    find_path(z, e->score, serve_entry_key(e), &p);
    link_node(z, n, height, &p);
}

/* Takes the node of an entry out of the list; it stays in the dict. */
static void remove_node(struct serve_zset *z, struct serve_entry *e)
{
    struct path p;
    struct serve_znode *n = e->value;
    find_path(z, e->score, serve_entry_key(e), &p);
    for (uint32_t i = 0; i < z->levels; i++) {
        struct level *before = &p.node[i]->level[i];
        if (before->next == n) {
            before->span += n->level[i].span - 1;
            hg_ref_store(&before->next, n->level[i].next);
        } else {
            before->span--;
        }
    }
    if (n->level[0].next != NULL)
        hg_ref_store(&n->level[0].next->previous, n->previous);
    while (z->levels > 1 && z->top->level[z->levels - 1].next == NULL)
        z->levels--;
}

void serve_zset_insert(struct serve_zset *z, struct serve_text member, uint64_t hash, double score)
{
    struct serve_entry *e = serve_dict_insert(&z->dict, member, hash);
    e->score = score;
    insert_node(z, e);
}

void serve_zset_move(struct serve_zset *z, struct serve_entry *e, double score)
{
    remove_node(z, e);
    e->score = score;
    insert_node(z, e);
}

void serve_zset_remove(struct serve_zset *z, struct serve_entry *e)
{
    remove_node(z, e);
    serve_dict_remove(&z->dict, serve_entry_key(e), e->hash);
}

/* ---- reading ---- */

static struct serve_entry *entry_of(const struct serve_znode *n)
{
    return n == NULL ? NULL : n->entry;
}

struct serve_entry *serve_zset_at(const struct serve_zset *z, size_t rank)
{
    const struct serve_znode *n = z->top;
    size_t left = rank + 1;
    if (rank >= z->dict.count)
        return NULL;
    for (uint32_t i = z->levels; i-- > 0 && left > 0;)
        while (n->level[i].next != NULL && n->level[i].span <= left) {
            left -= n->level[i].span;
            n = n->level[i].next;
        }
    return n->entry;
}

struct serve_entry *serve_zset_step(const struct serve_entry *e, bool back)
{
    const struct serve_znode *n = e->value;
    return entry_of(back ? n->previous : n->level[0].next);
}

/* Where e is to a bound: below 0: before it, 0: at it, above 0: behind it. */
static int side(const struct serve_entry *e, const struct serve_zbound *b, bool by_member)
{
    if (!by_member)
        return (e->score > b->score) - (e->score < b->score);
    return b->infinite != 0 ? -b->infinite : serve_text_order(serve_entry_key(e), b->member);
}

static bool before_range(const struct serve_entry *e, const struct serve_zrange *r)
{
    int s = side(e, &r->low, r->by_member);
    return s < 0 || (s == 0 && r->low.open);
}

static bool behind_range(const struct serve_entry *e, const struct serve_zrange *r)
{
    int s = side(e, &r->high, r->by_member);
    return s > 0 || (s == 0 && r->high.open);
}

bool serve_zset_inside(const struct serve_entry *e, const struct serve_zrange *r)
{
    return !before_range(e, r) && !behind_range(e, r);
}

struct serve_entry *serve_zset_seek(const struct serve_zset *z, const struct serve_zrange *r,
                                    bool back)
{
    struct serve_znode *n = z->top, *next;
    for (uint32_t i = z->levels; i-- > 0;)
        while ((next = n->level[i].next) != NULL &&
               (back ? !behind_range(next->entry, r) : before_range(next->entry, r)))
            n = next;
    struct serve_entry *e = back ? n->entry : entry_of(n->level[0].next);
    return e != NULL && serve_zset_inside(e, r) ? e : NULL;
}
