/* kv_net.h: a connection of `hedge-sim kv --net`: TCP over the loopback in place of two
 * channels. */
#ifndef HG_SIM_KV_NET_H
#define HG_SIM_KV_NET_H
#include "sim/kv.h"
#include "sim/kv_store.h"

/* One end, with what was read ahead. Holds references: on a task's stack. */
struct kv_wire {
    hg_fd *fd;
    uint8_t *ahead; /* read and not taken yet: ahead[from..to) */
    size_t from, to, room;
};

/* Raises this process's limit of descriptors to what the connections need. 0, or -1: `why` says
 * what is lacking. */
int kv_net_descriptors(const struct kv_options *opt, char *why, size_t room);

/* S W: connects all: ends[2 * i] is the client's of connection i, ends[2 * i + 1] the server's.
 * ends: an object of references, 2 * opt->conns of them. stop is asked now and then whether to give
 * up (-EINTR). 0 or a negative errno. */
int kv_net_connect(hg_fd **ends, const struct kv_options *opt, int (*stop)(void));

/* S: an end for a task that reads messages of up to `value_bytes` of value. */
struct kv_wire kv_wire_new(hg_fd *fd, int value_bytes);

/* S W: one message, whole. 0 or a negative errno; -EPIPE where the other end is closed, -EBADMSG:
 * not a message of the load's, for a store s. */
int kv_wire_send_request(struct kv_wire *w, const struct kv_request *r);
int kv_wire_recv_request(struct kv_wire *w, const struct kv_store *s, struct kv_request **out);
int kv_wire_send_response(struct kv_wire *w, const struct kv_response *r);
/* r: what it should answer. */
int kv_wire_recv_response(struct kv_wire *w, const struct kv_store *s, struct kv_request *r,
                          struct kv_response **out);

/* Bytes that --net allocates per operation, beyond what the channels' load does. */
double kv_net_garbage_per_op(const struct kv_options *opt);

#endif
