/* test_chan.h: for tests of channels that need to know that a task has parked, and not only that it
 * is about to. */
#ifndef HG_TESTS_UNIT_TEST_CHAN_H
#define HG_TESTS_UNIT_TEST_CHAN_H
#include "runtime/sync/chan.h"
#include "tests/unit/test_sync.h"

static inline int length_of(const struct hg_list *head)
{
    int n = 0;
    for (const struct hg_list *l = head->next; l != head; l = l->next)
        n++;
    return n;
}

/* Records in the queues of c. */
static inline int waiting_at(hg_chan *c)
{
    hg__lock(&c->lock);
    int n = length_of(&c->senders) + length_of(&c->receivers);
    hg__unlock(&c->lock);
    return n;
}
static inline void yield_until_waiting(hg_chan *c, int n)
{
    while (waiting_at(c) != n)
        hg_yield();
}

#endif
