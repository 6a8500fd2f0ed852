/* cache_inl.h: the allocation fast path's share of the cache. Included by alloc.h only.
 *
 * Note [MASK]. A marker that meets an ambiguous word (stack, conservative object) may only mark
 * allocated slots whose memory is clear already. The owner takes a slot from its private copy of
 * the mask, clears it, writes its layout id if the span is mixed, and then store-releases the mask
 * in the span, paired with the load-acquire in hg__slot_allocated. When a word is used up the owner
 * sets all its alloc bits (release), and only then changes span->word and span->mask.
 */
#ifndef HG_ALLOC_CACHE_INL_H
#define HG_ALLOC_CACHE_INL_H
#ifndef HG_ALLOC_ALLOC_H
#error "include alloc/alloc.h"
#endif

/* Larger slots are cleared by memset, out of the leaf function that the fast path is. */
#define HG_CLEAR_INLINE 128u

/* Bytes ahead of a slot that is handed out whose line is asked for, to be written: freed memory is
 * cold, and the processor's own prefetching begins anew in each page of 4 KiB. Beyond the span it
 * is mostly the next one, as spans are cut from chunks in order. */
#define HG_ALLOC_AHEAD 1024

/* Slots are multiples of 16 bytes, and aligned to them. From the last to the first, since their end
 * is the address of another object, which must not be left in a register. */
static inline void hg__clear_inline(uintptr_t p, size_t size)
{
    typedef long long v2 __attribute__((vector_size(16), may_alias));
    do {
        size -= 16;
        *(v2 *)(p + size) = (v2){0, 0};
    } while (size != 0);
}

/* A free slot, clear, its layout id written if there is one to write, published. Requires: mask is
 * not 0; the span is uniform with the object's layout, or id is that layout's. `small`, a constant:
 * slots have at most HG_CLEAR_INLINE bytes. */
static inline uintptr_t hg__cache_pick(struct hg_cache_slot *s, uint16_t id, bool small)
{
    uint64_t mask = s->mask;
    unsigned i = hg_ctz64(mask);
    size_t offset = s->offset + (size_t)i * s->size;
    HG_NO_ADDRESS_YET(offset);
    uintptr_t p = s->heap_base + offset;
    __builtin_prefetch((const void *)(p + HG_ALLOC_AHEAD), 1);
    if (small)
        hg__clear_inline(p, s->size);
    else if (s->dirty)
        memset((void *)p, 0, s->size);
    if (id != 0)
        *(s->ids - i) = id;
    s->mask = mask &= mask - 1;
    hg_store_rel(&s->span->mask, mask); /* Note [MASK] */
    return p;
}

/* Takes a slot for an object with this layout id (0: not DESCRIBED), clear and published; or 0: the
 * slot needs hg__cache_refill. For all sizes and for mixed spans (cache.c). */
uintptr_t hg__cache_take(struct hg_cache_slot *s, uint16_t layout);

#endif
