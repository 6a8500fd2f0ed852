/* cache_inl.h: the allocation fast path's share of the cache. Included by alloc.h only.
 *
 * Note [MASK]. A marker that meets an ambiguous word (stack, conservative object) may only mark
 * allocated slots whose memory is clear already. The owner takes a slot from its private copy of
 * the mask, clears it, writes its layout id, and then store-releases the mask in the span, paired
 * with the load-acquire in hg__slot_allocated. When a word is used up the owner sets all its alloc
 * bits (release), and only then changes span->word and span->mask.
 */
#ifndef HG_ALLOC_CACHE_INL_H
#define HG_ALLOC_CACHE_INL_H
#ifndef HG_ALLOC_ALLOC_H
#error "include alloc/alloc.h"
#endif

/* Takes a free slot, or 0. The caller clears it, writes its id, then publishes; no safepoint in
 * between. *index: the slot's index in the word. */
static inline uintptr_t hg__cache_take(struct hg_cache_slot *s, unsigned *index)
{
    uint64_t mask = s->mask;
    if (hg_unlikely(mask == 0))
        return 0;
    unsigned i = hg_ctz64(mask);
    s->mask = mask & (mask - 1);
    *index = i;
    return s->base + (size_t)i * s->size;
}

static inline void hg__cache_publish(struct hg_cache_slot *s)
{
    hg_store_rel(&s->span->mask, s->mask); /* Note [MASK] */
}

#endif
