/* serve_list.c: lists: a chain of nodes, each an array of references to strings (serve_value.h).
 *
 * Structure of a node: slots first .. first + count are used. A node made by a push to the front
 * fills from its end down, one made by a push to the back from its beginning up, so that a push or
 * pop touches one node. A node has room for as many as the list has already, from NODE_LEAST to
 * NODE_MOST: a list of one element does not cost half a KiB.
 * Invariant: no node is empty; the counts add up to the list's length.
 *
 * Rejected: one ring that doubles, where one push in a million copies 8 MiB of references.
 */
#include "sim/serve_value.h"

#define NODE_LEAST 4
#define NODE_MOST  60 /* 512 bytes with the head */

struct serve_list_node {
    struct serve_list_node *previous, *next;
    uint32_t first, count, room, spare;
    struct serve_string *slot[];
};

static const uint32_t list_refs[] = {(uint32_t)offsetof(struct serve_list, first),
                                     (uint32_t)offsetof(struct serve_list, last)};
static const hg_layout list_layout = HG_TYPED("serve list", list_refs);
static const uint32_t node_refs[] = {(uint32_t)offsetof(struct serve_list_node, previous),
                                     (uint32_t)offsetof(struct serve_list_node, next)};
static const hg_layout node_layout =
    HG_TYPED_TAIL("serve list node", node_refs, (uint32_t)offsetof(struct serve_list_node, slot),
                  (uint32_t)sizeof(void *));

struct serve_list *serve_list_new(void)
{
    struct serve_list *l = hg_alloc(sizeof *l, &list_layout);
    l->head.type = SERVE_LIST;
    return l;
}

/* A node at the front or the back. */
static struct serve_list_node *add_node(struct serve_list *l, bool front)
{
    size_t room = l->length < NODE_LEAST ? NODE_LEAST : l->length;
    if (room > NODE_MOST)
        room = NODE_MOST;
    struct serve_list_node *n = hg_alloc(sizeof *n + room * sizeof(void *), &node_layout);
    n->room = (uint32_t)room;
    n->first = front ? n->room : 0;
    if (front) {
        n->next = l->first;
        hg_ref_store(n->next != NULL ? &n->next->previous : &l->last, n);
        hg_ref_store(&l->first, n);
    } else {
        n->previous = l->last;
        hg_ref_store(n->previous != NULL ? &n->previous->next : &l->first, n);
        hg_ref_store(&l->last, n);
    }
    return n;
}

void serve_list_push(struct serve_list *l, bool front, struct serve_string *s)
{
    struct serve_list_node *n = front ? l->first : l->last;
    if (n == NULL || (front ? n->first == 0 : n->first + n->count == n->room))
        n = add_node(l, front);
    if (front)
        n->first--;
    hg_ref_store(&n->slot[front ? n->first : n->first + n->count], s);
    n->count++;
    l->length++;
}

/* Takes an empty node off its end of the list. */
static void drop_node(struct serve_list *l, bool front, const struct serve_list_node *n)
{
    if (front) {
        hg_ref_store(&l->first, n->next);
        hg_ref_store(n->next != NULL ? &n->next->previous : &l->last, NULL);
    } else {
        hg_ref_store(&l->last, n->previous);
        hg_ref_store(n->previous != NULL ? &n->previous->next : &l->first, NULL);
    }
}

struct serve_string *serve_list_pop(struct serve_list *l, bool front)
{
    struct serve_list_node *n = front ? l->first : l->last;
    uint32_t at = front ? n->first : n->first + n->count - 1;
    struct serve_string *s = n->slot[at];
    hg_ref_store(&n->slot[at], NULL);
    if (front)
        n->first++;
    n->count--;
    l->length--;
    if (n->count == 0)
        drop_node(l, front, n);
    return s;
}

struct serve_string *serve_list_get(const struct serve_list *l, size_t index,
                                    struct serve_list_at *at)
{
    struct serve_list_node *n;
    if (index < l->length / 2) {
        for (n = l->first; index >= n->count; n = n->next)
            index -= n->count;
    } else {
        size_t back = l->length - 1 - index;
        for (n = l->last; back >= n->count; n = n->previous)
            back -= n->count;
        index = n->count - 1 - back;
    }
    *at = (struct serve_list_at){n, n->first + (uint32_t)index};
    return n->slot[at->slot];
}

struct serve_string *serve_list_next(struct serve_list_at *at)
{
    if (++at->slot == at->node->first + at->node->count) {
        at->node = at->node->next;
        if (at->node == NULL)
            return NULL;
        at->slot = at->node->first;
    }
    return at->node->slot[at->slot];
}
