/* large.c: objects above HG_SMALL_MAX: a span, and whole pages, of their own.
 *
 * Between hg__large_alloc and hg__large_publish the span is its maker's alone: its pages count as a
 * span's, but no desc leads to it and no list holds it. The maker clears it meanwhile, with
 * safepoints between chunks, so generations may open: that is why it is listed only when it is
 * published, under the generation that its maker is in then.
 *
 * Order of publishing: the mark (if black) and the allocation bit before desc, since from desc on
 * markers find the object; the list last, since from there on a sweep of a later generation may
 * take it. In the generation it is listed in nothing sweeps it, or its mark, set by a black maker,
 * saves it.
 */
#include "alloc/internal.h"

struct hg_span *hg__large_alloc(struct hg_heap *h, size_t size, enum hg_span_kind kind,
                                uint16_t layout, uint32_t gen)
{
    HG_ASSERT(size > HG_SMALL_MAX);
    if (size > h->size - HG_PAGE_BYTES)
        return NULL; /* so that no rounding below wraps */
    uint32_t pages = (uint32_t)((size + HG_PAGE_BYTES - 1) >> HG_PAGE_SHIFT);
    enum hg_area area = hg__area_of(kind);
    hg__empties_make_room(h, area, pages);
    struct hg_span *s = hg__pages_take(h, area, pages, pages);
    if (s == NULL)
        return NULL;
    hg_add_rlx(&h->span_bytes, hg__bytes_of(pages));
    s->bytes = (size_t)hg__bytes_of(pages);
    s->size = hg_round_up(size, HG_GRAIN);
    s->count = 1;
    s->size_class = 0;
    s->kind = (uint8_t)kind;
    s->layout = layout;
    s->gen = gen;
    s->live = 0;
    hg_store_rlx(&s->mask, 0u);
    hg_store_rlx(&s->word, HG_NO_WORD);
    hg_store_rlx(&s->alloc_bits[0], 0u);
    return s;
}

void hg__large_publish(struct hg_heap *h, struct hg_span *s, bool black)
{
    if (black)
        hg_or_rlx(hg__mark_word(h, s->start), hg__mark_bit(h, s->start));
    hg_store_rel(&s->alloc_bits[0], 1u); /* Note [MASK]: the object is clear */
    s->full = true;
    hg__span_show(h, s);
    hg__central_push(h, s, HG_FULL);
}
