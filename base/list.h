/* list.h: intrusive doubly linked circular list. The owner of the head serialises all calls. */
#ifndef HG_BASE_LIST_H
#define HG_BASE_LIST_H
#include <stdbool.h>
#include <stddef.h>

struct hg_list {
    struct hg_list *next, *prev;
};

static inline void hg_list_init(struct hg_list *h) { h->next = h->prev = h; }
static inline bool hg_list_empty(const struct hg_list *h) { return h->next == h; }

static inline void hg_list_insert_between(struct hg_list *n, struct hg_list *prev,
                                          struct hg_list *next)
{
    n->prev = prev;
    n->next = next;
    prev->next = n;
    next->prev = n;
}
static inline void hg_list_push_back(struct hg_list *h, struct hg_list *n)
{
    hg_list_insert_between(n, h->prev, h);
}
static inline void hg_list_push_front(struct hg_list *h, struct hg_list *n)
{
    hg_list_insert_between(n, h, h->next);
}

/* Unlinks n and leaves it linked to itself, so that unlinking twice is harmless. */
static inline void hg_list_remove(struct hg_list *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    hg_list_init(n);
}
/* Removes and returns the first element, or NULL. */
static inline struct hg_list *hg_list_pop_front(struct hg_list *h)
{
    struct hg_list *n = h->next;
    if (n == h)
        return NULL;
    hg_list_remove(n);
    return n;
}

#endif
