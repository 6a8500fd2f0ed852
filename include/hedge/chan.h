/* chan.h: channels and select. A channel is a heap object: nothing to free. */
#ifndef HEDGE_CHAN_H
#define HEDGE_CHAN_H
#include <hedge/heap.h>

HG_BEGIN_DECLS

typedef struct hg_chan hg_chan;

/* S: elements of elem_bytes (0 to 65,536) bytes, room for cap of them (0: unbuffered). elem: layout
 * of one element: HG_LEAF (no references), HG_REFS for a channel of pointers, or anything else:
 * then elements of whole words may hold references. -EINVAL, -ENOMEM. */
HG_API HG_MUST int hg_chan_new(size_t elem_bytes, size_t cap, const hg_layout *elem, hg_chan **out);

/* S W: sends *value. 0; -EPIPE: closed; -EAGAIN (HG_NOW), -ETIMEDOUT or -ECANCELED: not sent.
 * Waiting senders are served first come first served. c NULL: waits for ever, as nothing can be
 * sent there. */
HG_API int hg_chan_send(hg_chan *c, const void *value, int64_t deadline);
/* S W: receives into *value (NULL: drops it). 0; -EPIPE: closed and empty (*value is zeroed);
 * -EAGAIN; -ETIMEDOUT; -ECANCELED. */
HG_API int hg_chan_recv(hg_chan *c, void *value, int64_t deadline);
/* Closes: waiting senders and receivers get -EPIPE; what is in the buffer can still be received.
 * -EPIPE: it was. */
HG_API int hg_chan_close(hg_chan *c);
/* Elements in the buffer now, and the room for them. */
HG_API size_t hg_chan_length(const hg_chan *c);
HG_API size_t hg_chan_capacity(const hg_chan *c);

/* One case of a select: exactly one of send and recv is set, or neither: a receive whose value is
 * dropped. */
typedef struct hg_case {
    hg_chan *chan;    /* NULL: never ready */
    const void *send; /* value to send */
    void *recv;       /* where to receive to */
    int result;       /* of the chosen case: 0 or -EPIPE */
} hg_case;

/* S W: performs one of n (at most 1,024) cases, chosen uniformly among those that are ready, else
 * the first that becomes so. Returns its index (its result is set), or -EAGAIN (HG_NOW: none
 * ready), -ETIMEDOUT, -ECANCELED, -EINVAL. */
HG_API int hg_select(hg_case *cases, int n, int64_t deadline);

HG_END_DECLS
#endif
