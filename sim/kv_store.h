/* kv_store.h: the key-value store on the collected heap, and what a request and its response are
 * made of.
 *
 * The objects, their sizes and their references are those of the peer programs that run beside this
 * one (the same store in Go and in Java), slices with their capacity included, so that each
 * allocates and keeps the same bytes.
 *
 * Ownership and locks: entries, nodes and the buckets of a shard are read and written under its
 * lock. The bytes of a value are never changed once stored: a write puts new ones in their place,
 * so a reader may copy them after unlocking. A request belongs to its client until it is sent, then
 * to the server; a response the other way round.
 */
#ifndef HG_SIM_KV_STORE_H
#define HG_SIM_KV_STORE_H
#include <hedge/hedge.h>

#define KV_SHARDS    256
#define KV_KEY_BYTES 32

struct kv_bytes {
    uint8_t *data;
    size_t length, capacity;
};

struct kv_node { /* 48 bytes */
    struct kv_node *next, *other;
    struct kv_entry *own;
    uint64_t a, b, c;
};

struct kv_entry {
    uint64_t key, version;
    struct kv_bytes value;
    struct kv_entry *next;
    struct kv_node *meta;
};

struct kv_request { /* 80 bytes */
    uint64_t write, key, seq;
    struct kv_bytes key_bytes, value;
    struct kv_node *chain;
};

struct kv_response { /* 48 bytes */
    uint64_t seq, version;
    struct kv_bytes wire;
    struct kv_request *request;
};

struct kv_shard {
    hg_mutex lock;
    struct kv_entry **bucket; /* per_shard of them */
    uint64_t pad[11];         /* 128 bytes: two shards' locks never share a pair of cache lines */
};

struct kv_store {
    uint64_t keys, per_shard;
    int value_bytes;
    struct kv_shard shard[KV_SHARDS];
};

/* S W: builds the store, with `keys` entries, into *slot, a global root of the caller's. stop (may
 * be NULL) is asked now and then whether to give up; -EINTR then, else 0. */
int kv_store_build(struct kv_store **slot, int keys, int value_bytes, int (*stop)(void));

/* S W: a client's request for a key: key bytes, `garbage_nodes` small nodes, the value to write if
 * it is a write. */
struct kv_request *kv_request_new(uint64_t key, uint64_t seq, int garbage_nodes, int write_bytes);

/* S W: what the server does with it. *lock_ns grows by the time that it was parked at the shard's
 * lock, its wait for a proc afterwards (which is in its hg_task_times) not included. */
struct kv_response *kv_store_serve(struct kv_store *s, struct kv_request *r, int64_t *lock_ns);

/* S W: what the client does with the response: decodes a read's value, checks that it is the answer
 * to its request. Returns a byte of the value, or -1: this is not the answer. */
int kv_response_check(const struct kv_store *s, const struct kv_request *r,
                      const struct kv_response *resp);

/* S W: a response that was received: its wire has `bytes` bytes, to be filled. */
struct kv_response *kv_response_new(struct kv_request *r, uint64_t seq, size_t bytes);

struct kv_node *kv_node_new(void); /* S W */

#endif
