/* wait.c: the part of the wait queue (wait.h) that is not inline: waking several tasks. */
#include "runtime/sync/wait.h"

void hg__sync_won_ready(const struct hg_sync_won *won)
{
    struct hg_tcb *t = won->first;
    while (t != NULL) {
        struct hg_tcb *next = t->next; /* once t is ready it may be in another queue */
        hg__ready(t, false);
        t = next;
    }
}

void hg__sync_wake_all(struct hg_sync_queue *q)
{
    struct hg_sync_won won = {0};
    struct hg_sync_waiter *w;
    while ((w = hg__sync_claim(q)) != NULL)
        hg__sync_won_add(&won, w->task);
    hg__unlock(&q->lock);
    hg__sync_won_ready(&won);
}
