/* serve_reply.h: replies on their way to a client: RESP2, written once for many commands.
 *
 * Structure: a chain of blocks, oldest first. A block holds bytes of its own, or stands for a long
 * string of the database, which is sent from where it lies. Such a string may be replaced or grow
 * meanwhile, but the bytes it had do not change (serve_value.h), and the collector keeps them as
 * long as the block refers to them: no copy, no count of users.
 *
 * Invariants
 *   1. pending is the sum of the blocks' lengths, less `sent`, the part of the first block that is
 *      gone.
 *   2. Bytes are added to the last block only, and only to one that has bytes of its own and is
 *      not sealed.
 */
#ifndef HG_SIM_SERVE_REPLY_H
#define HG_SIM_SERVE_REPLY_H
#include "sim/serve_value.h"
#include <sys/uio.h>

struct serve_block {
    struct serve_block *next;
    struct serve_string *string; /* NULL: bytes of its own */
    size_t length, room;         /* room 0: sealed */
    char bytes[];
};

/* Part of a heap object whose layout names first and last as references; all zero: nothing to
 * send. */
struct serve_out {
    struct serve_block *first, *last;
    size_t sent, pending;
};

/* S W, all of these: add to what is to be sent. */
void serve_put(struct serve_out *o, const char *bytes, size_t n);
void serve_put_status(struct serve_out *o, const char *text); /* +text */
/* -text; line ends in it become blanks. */
void serve_put_error(struct serve_out *o, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void serve_put_int(struct serve_out *o, int64_t v);
void serve_put_bulk(struct serve_out *o, struct serve_text t);
void serve_put_word(struct serve_out *o, const char *word);         /* a bulk */
void serve_put_string(struct serve_out *o, struct serve_string *s); /* a bulk; NULL: the null */
void serve_put_double(struct serve_out *o, double v);               /* a bulk */
void serve_put_null(struct serve_out *o);
void serve_put_array(struct serve_out *o,
                     int64_t n); /* its n elements follow; -1: the null array */

/* A place for what is known only when more has been put behind it, before anything is sent: a short
 * bulk, or the header of an array whose elements were counted meanwhile. */
struct serve_block *serve_put_later(struct serve_out *o);
void serve_set_bulk(struct serve_out *o, struct serve_block *place, struct serve_text t);
void serve_set_array(struct serve_out *o, struct serve_block *place, int64_t n);

/* The next bytes to send, in at most `most` pieces; how many pieces. The pieces keep their blocks
 * alive only while these are part of o. */
int serve_out_pieces(const struct serve_out *o, struct iovec *iov, int most);
/* n of them are sent. */
void serve_out_sent(struct serve_out *o, size_t n);

#endif
