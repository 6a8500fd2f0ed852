/* kv_store.c: the store's objects and what a request does (kv_store.h).
 *
 * Stores of references follow heap.h: plain into an object that nobody else can reach yet,
 * hg_ref_store into entries, buckets and nodes of the store. Byte buffers are leaves; memcpy into a
 * fresh one is an ordinary write.
 */
#include "sim/kv_store.h"
#include "sim/kv.h"
#include <errno.h>
#include <string.h>

#define REF(type, field) (uint32_t) offsetof(struct type, field)

static const uint32_t node_refs[] = {REF(kv_node, next), REF(kv_node, other), REF(kv_node, own)};
static const hg_layout node_layout = HG_TYPED("kv node", node_refs);
static const uint32_t entry_refs[] = {REF(kv_entry, value.data), REF(kv_entry, next),
                                      REF(kv_entry, meta)};
static const hg_layout entry_layout = HG_TYPED("kv entry", entry_refs);
static const uint32_t request_refs[] = {REF(kv_request, key_bytes.data),
                                        REF(kv_request, value.data), REF(kv_request, chain)};
static const hg_layout request_layout = HG_TYPED("kv request", request_refs);
static const uint32_t response_refs[] = {REF(kv_response, wire.data), REF(kv_response, request)};
static const hg_layout response_layout = HG_TYPED("kv response", response_refs);
/* The first shard's buckets are a field, those of the others the repeated tail. */
static const uint32_t store_refs[] = {REF(kv_store, shard[0].bucket)};
static const hg_layout store_layout = HG_TYPED_TAIL(
    "kv store", store_refs, REF(kv_store, shard[1].bucket), (uint32_t)sizeof(struct kv_shard));

_Static_assert(sizeof(struct kv_node) == 48, "as in the peers");
_Static_assert(sizeof(struct kv_request) == 80, "as in the peers");
_Static_assert(sizeof(struct kv_response) == 48, "as in the peers");
_Static_assert(sizeof(struct kv_shard) == 128, "pad");

static uint64_t hash(uint64_t k) /* the finaliser of MurmurHash3 */
{
    k ^= k >> 33;
    k *= UINT64_C(0xff51afd7ed558ccd);
    k ^= k >> 33;
    k *= UINT64_C(0xc4ceb9fe1a85ec53);
    return k ^ k >> 33;
}

static struct kv_entry **bucket_of(struct kv_store *s, uint64_t h)
{
    return &s->shard[h % KV_SHARDS].bucket[(h >> 8) % s->per_shard];
}

/* The caller holds the shard's lock. Every key below s->keys is there. */
static struct kv_entry *find(struct kv_store *s, uint64_t key, uint64_t h)
{
    struct kv_entry *e = *bucket_of(s, h);
    while (e->key != key)
        e = e->next;
    return e;
}

struct kv_node *kv_node_new(void) { return hg_alloc(sizeof(struct kv_node), &node_layout); }

/* A fresh buffer of `capacity` bytes, its length 0. */
static struct kv_bytes bytes_new(size_t capacity)
{
    struct kv_bytes b = {hg_alloc(capacity, HG_LEAF), 0, capacity};
    return b;
}

static void bytes_append(struct kv_bytes *b, const uint8_t *from, size_t n)
{
    memcpy(b->data + b->length, from, n);
    b->length += n;
}

/* A whole entry that nobody can reach yet. */
static struct kv_entry *entry_new(uint64_t key, int value_bytes)
{
    struct kv_entry *e = hg_alloc(sizeof *e, &entry_layout);
    e->key = key;
    e->value = bytes_new((size_t)value_bytes);
    e->value.length = (size_t)value_bytes;
    for (size_t i = 0; i < e->value.length; i++)
        e->value.data[i] = (uint8_t)(key + i);
    for (int i = 0; i < KV_ENTRY_NODES; i++) {
        struct kv_node *n = kv_node_new();
        n->next = e->meta;
        n->own = e;
        n->a = key;
        hg_ref_store(&e->meta, n); /* e is still ours alone, but this overwrites a reference */
    }
    return e;
}

int kv_store_build(struct kv_store **slot, int keys, int value_bytes, int (*stop)(void))
{
    struct kv_store *s = hg_alloc(sizeof *s, &store_layout);
    hg_ref_store(slot, s);
    s->keys = (uint64_t)keys;
    s->per_shard = (uint64_t)keys / KV_SHARDS + 1;
    s->value_bytes = value_bytes;
    for (int i = 0; i < KV_SHARDS; i++)
        hg_ref_store(&s->shard[i].bucket, hg_alloc(s->per_shard * sizeof(void *), HG_REFS));
    for (uint64_t key = 0; key < s->keys; key++) {
        if (key % 1024 == 0 && stop != NULL && stop())
            return -EINTR;
        struct kv_entry *e = entry_new(key, value_bytes), **bucket = bucket_of(s, hash(key));
        e->next = *bucket;
        hg_ref_store(bucket, e);
    }
    return 0;
}

struct kv_request *kv_request_new(uint64_t key, uint64_t seq, int garbage_nodes, int write_bytes)
{
    struct kv_request *r = hg_alloc(sizeof *r, &request_layout);
    r->key = key;
    r->seq = seq;
    r->key_bytes = bytes_new(KV_KEY_BYTES);
    r->key_bytes.length = KV_KEY_BYTES;
    for (int i = 0; i < 8; i++)
        r->key_bytes.data[i] = (uint8_t)(key >> 8 * i);
    for (int i = 0; i < garbage_nodes; i++) {
        struct kv_node *n = kv_node_new();
        n->next = r->chain;
        n->a = seq;
        hg_ref_store(&r->chain, n); /* overwrites a reference */
    }
    if (write_bytes > 0) {
        r->write = 1;
        r->value = bytes_new((size_t)write_bytes);
        r->value.length = (size_t)write_bytes;
        for (size_t i = 0; i < r->value.length; i += 8)
            r->value.data[i] = (uint8_t)seq;
    }
    return r;
}

static void lock_shard(struct kv_shard *shard, int64_t *lock_ns)
{
    if (hg_mutex_lock_until(&shard->lock, HG_NOW) == 0)
        return;
    hg_task_times before, after;
    int64_t since = hg_now();
    hg_task_times_read(&before);
    hg_mutex_lock(&shard->lock);
    hg_task_times_read(&after);
    *lock_ns += hg_now() - since - (after.runq_ns - before.runq_ns);
}

static void serve_read(struct kv_store *s, const struct kv_request *r, struct kv_response *resp,
                       int64_t *lock_ns)
{
    uint64_t h = hash(r->key);
    struct kv_shard *shard = &s->shard[h % KV_SHARDS];
    lock_shard(shard, lock_ns);
    struct kv_entry *e = find(s, r->key, h);
    struct kv_bytes value = e->value;
    resp->version = e->version;
    hg_mutex_unlock(&shard->lock);
    struct kv_bytes copy = bytes_new(value.length); /* copy out of the store */
    bytes_append(&copy, value.data, value.length);
    struct kv_bytes wire = bytes_new(copy.length + 40); /* encode */
    bytes_append(&wire, r->key_bytes.data, r->key_bytes.length);
    bytes_append(&wire, copy.data, copy.length);
    resp->wire = wire;
}

/* Puts a node in front of an entry's list and cuts the list off behind KV_ENTRY_NODES of them.
 * Under the shard's lock. */
static void push_node(struct kv_entry *e, struct kv_node *n)
{
    n->own = e;
    n->next = e->meta;
    hg_ref_store(&e->meta, n);
    for (int i = 1; i < KV_ENTRY_NODES && n->next != NULL; i++)
        n = n->next;
    hg_ref_store(&n->next, NULL);
}

static void serve_write(struct kv_store *s, const struct kv_request *r, struct kv_response *resp,
                        int64_t *lock_ns)
{
    uint64_t h = hash(r->key);
    struct kv_shard *shard = &s->shard[h % KV_SHARDS];
    struct kv_bytes value = bytes_new(r->value.length);
    bytes_append(&value, r->value.data, r->value.length);
    struct kv_node *n = kv_node_new();
    n->a = r->key;
    lock_shard(shard, lock_ns);
    struct kv_entry *e = find(s, r->key, h);
    hg_ref_store(&e->value.data, value.data);
    e->value.length = value.length;
    e->value.capacity = value.capacity;
    e->version++;
    push_node(e, n);
    resp->version = e->version;
    hg_mutex_unlock(&shard->lock);
    struct kv_bytes wire = bytes_new(64);
    bytes_append(&wire, r->key_bytes.data, r->key_bytes.length);
    resp->wire = wire;
}

struct kv_response *kv_store_serve(struct kv_store *s, struct kv_request *r, int64_t *lock_ns)
{
    struct kv_response *resp = hg_alloc(sizeof *resp, &response_layout);
    resp->seq = r->seq;
    resp->request = r;
    if (r->write)
        serve_write(s, r, resp, lock_ns);
    else
        serve_read(s, r, resp, lock_ns);
    return resp;
}

struct kv_response *kv_response_new(struct kv_request *r, uint64_t seq, size_t bytes)
{
    struct kv_response *resp = hg_alloc(sizeof *resp, &response_layout);
    resp->seq = seq;
    resp->request = r;
    resp->wire = bytes_new(bytes);
    resp->wire.length = bytes;
    return resp;
}

int kv_response_check(const struct kv_store *s, const struct kv_request *r,
                      const struct kv_response *resp)
{
    int byte = 0;
    if (!r->write) {
        struct kv_bytes decoded = bytes_new((size_t)s->value_bytes);
        bytes_append(&decoded, resp->wire.data + r->key_bytes.length, (size_t)s->value_bytes);
        byte = decoded.data[r->seq % decoded.length];
    }
    bool answer = resp->seq == r->seq && memcmp(resp->wire.data, r->key_bytes.data, 8) == 0;
    return answer ? byte : -1;
}
