/* wait.c: the part of the wait queue (wait.h) that is not inline. */
#include "runtime/sync/wait.h"

void hg__sync_wake_all(struct hg_sync_queue *q)
{
    struct hg_tcb *first = NULL, **last = &first;
    struct hg_sync_waiter *w;
    while ((w = hg__sync_claim(q)) != NULL) {
        *last = w->task;
        last = &w->task->next;
    }
    *last = NULL;
    hg__unlock(&q->lock);
    while (first != NULL) {
        struct hg_tcb *next = first->next;
        hg__ready(first, false);
        first = next;
    }
}
