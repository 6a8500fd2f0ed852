/* find_inl.h: from a word to an object and its mark bit. Included by alloc.h only.
 *
 * Everything here may run beside mutators: tables are read relaxed with address dependency (a
 * reference that reached the reader was published after its page's desc), and desc words are
 * non-zero only for spans that are fully set up.
 */
#ifndef HG_ALLOC_FIND_INL_H
#define HG_ALLOC_FIND_INL_H
#ifndef HG_ALLOC_ALLOC_H
#error "include alloc/alloc.h"
#endif

/* An object: where it begins, what its page says. base 0: the word means no object. */
struct hg_object {
    uintptr_t base;
    uint64_t desc;  /* of the page that the word points into */
    uint32_t index; /* slot in its span; large: 0 */
};

/* Offset in the reservation, if w points to a part of it that spans have reached. */
static inline bool hg__heap_has(const struct hg_heap *h, uintptr_t w)
{
    size_t off = w - h->base;
    return off < h->size && (off < hg_load_rlx(&h->low_end) || off >= hg_load_rlx(&h->high_start));
}

/* The object whose bytes w points into. It may be a free slot: see hg__slot_allocated. */
static inline struct hg_object hg__find(const struct hg_heap *h, uintptr_t w)
{
    struct hg_object o = {0, 0, 0};
    if (!hg__heap_has(h, w))
        return o;
    uint64_t desc = hg_load_acq(&h->desc[(w - h->base) >> HG_PAGE_SHIFT]);
    if (desc == 0)
        return o;
    size_t within = (w & (HG_PAGE_BYTES - 1)) + ((size_t)hg__desc_index(desc) << HG_PAGE_SHIFT);
    unsigned size_class = hg__desc_class(desc);
    if (size_class != 0) {
        const struct hg_class *c = &hg__class[size_class];
        uint32_t index = (uint32_t)(((uint64_t)within * c->inverse) >> 32);
        uint32_t count = hg__desc_kind(desc) == HG_SPAN_DESCRIBED ? c->count_described : c->count;
        if (index >= count)
            return o; /* the tail of the span */
        o.index = index;
        within -= (size_t)index * c->size;
    }
    HG_NO_ADDRESS_YET(within);
    o.base = w - within;
    o.desc = desc;
    return o;
}

/* The span of the object that begins at base. */
static inline struct hg_span *hg__span_of(const struct hg_heap *h, uintptr_t base)
{
    return hg_load_acq(&h->spans[(base - h->base) >> HG_PAGE_SHIFT]);
}

/* Whether slot `index` of s is allocated (Note [MASK]): true at the latest when its address has
 * been published. */
static inline bool hg__slot_allocated(const struct hg_span *s, uint32_t index)
{
    for (;;) {
        uint64_t bit = (uint64_t)1 << (index & 63);
        if (hg_load_acq(&s->alloc_bits[index >> 6]) & bit)
            return true;
        uint32_t word = hg_load_acq(&s->word);
        if (word != index >> 6)
            /* Not the word in use. If it was until just now, its alloc bits were set before the
             * word moved on. */
            return (hg_load_acq(&s->alloc_bits[index >> 6]) & bit) != 0;
        uint64_t mask = hg_load_acq(&s->mask);
        if (hg_load_acq(&s->word) == word)
            return (mask & bit) == 0;
    }
}

/* Size of an object found by hg__find. */
static inline size_t hg__object_size(const struct hg_heap *h, const struct hg_object *o)
{
    unsigned size_class = hg__desc_class(o->desc);
    return size_class != 0 ? hg__class[size_class].size : hg__span_of(h, o->base)->size;
}

/* Where the layout id of a slot in a mixed DESCRIBED span lies. The span's start comes from the
 * object's index: desc is that of the page that the word pointed into, which need not be the page
 * where the object begins. */
static inline const uint16_t *hg__slot_id(const struct hg_object *o)
{
    const struct hg_class *c = &hg__class[hg__desc_class(o->desc)];
    uintptr_t start = o->base - (uintptr_t)o->index * c->size;
    uintptr_t end = start + ((uintptr_t)c->pages_described << HG_PAGE_SHIFT);
    return (const uint16_t *)end - 1 - o->index;
}

/* Layout id of an object in a DESCRIBED span. */
static inline uint16_t hg__object_layout(const struct hg_object *o)
{
    uint16_t of_span = hg__desc_layout(o->desc);
    return hg_likely(of_span != 0) ? of_span : __atomic_load_n(hg__slot_id(o), __ATOMIC_RELAXED);
}

static inline _Atomic uint64_t *hg__mark_word(const struct hg_heap *h, uintptr_t obj)
{
    return &h->marks[(obj - h->base) / (HG_GRAIN * 64)];
}
static inline uint64_t hg__mark_bit(const struct hg_heap *h, uintptr_t obj)
{
    return (uint64_t)1 << ((obj - h->base) / HG_GRAIN & 63);
}
static inline bool hg__is_marked(const struct hg_heap *h, uintptr_t obj)
{
    return (hg_load_rlx(hg__mark_word(h, obj)) & hg__mark_bit(h, obj)) != 0;
}
/* Marks; true if this call did it: acts on the value that the atomic returned, so one caller only
 * gets true. */
static inline bool hg__set_mark(const struct hg_heap *h, uintptr_t obj)
{
    _Atomic uint64_t *word = hg__mark_word(h, obj);
    uint64_t bit = hg__mark_bit(h, obj);
    if (hg_load_rlx(word) & bit)
        return false;
    return (hg_or_rlx(word, bit) & bit) == 0;
}

#endif
