/* span.c: making spans out of pages, showing them to markers, dissolving them.
 *
 * A small span is cut from a chunk of up to 32 pages that its mutator's cache has taken from the
 * page heap, with a struct that it took along, so that most new spans need no lock. The chunk's own
 * struct becomes the last span's. Pages of chunks are free pages (free_bytes, cached_pages).
 *
 * Showing. A marker finds a span by desc (which class, where it begins) and, for ambiguous words,
 * its struct by spans[]. All fields, cleared allocation bits among them, are set first, then
 * spans[], then desc and codes by store-release, paired with the load-acquire in hg__find. A page's
 * entries are written by the owner of its extent, so without a lock.
 *
 * Note [EMPTY]. A span in which a sweep finds nothing alive stays a span of its class, in a list of
 * its own, and is most often used as one again soon: to dissolve it and to cut its pages anew took
 * a tenth of the time of allocating 64 bytes. Its pages count as free. It is dissolved when free
 * pages with old contents run out (so empty spans never make the process larger), when memory is
 * given back, and by the driver before each cycle, as no span may be dissolved while anything is
 * marked: a marker that has read its desc would take the struct for what it was. The driver
 * dissolves what there is once sweeping is done, and then waits until no sweeper is left: who
 * dissolves counts as one. From then on the lists stay empty until the next sweep, so others need
 * not look at the phase.
 */
#include "alloc/internal.h"

/* Pages of a small span's kind and class. */
static uint32_t pages_of(const struct hg_class *c, unsigned kind)
{
    return kind == HG_SPAN_DESCRIBED ? c->pages_described : c->pages;
}

static struct hg_span *take_struct(struct hg_cache *c)
{
    if (c->structs == NULL)
        c->structs = hg__structs_take(c->heap, HG_STRUCTS);
    struct hg_span *s = c->structs;
    if (s != NULL)
        hg__span_remove(&c->structs, s);
    return s;
}

/* ---- dissolving ---- */

void hg__span_free(struct hg_heap *h, struct hg_span *s)
{
    uint32_t page = hg__page_of(h, s->start);
    for (uint32_t i = 0; i < s->pages; i++)
        hg_store_rlx(&h->desc[page + i], 0u);
    hg_store_rlx(&h->codes[page], (uint8_t)0);
    hg_sub_rlx(&h->span_bytes, hg__bytes_of(s->pages));
    hg__pages_put(h, s);
}

static struct hg_span *pop_empty(struct hg_heap *h, uint32_t gen)
{
    uint32_t first = hg_load_rlx(&h->empty_cursor);
    for (uint32_t n = 0; n < HG_SPAN_CLASSES; n++) {
        uint32_t i = (first + n) % HG_SPAN_CLASSES;
        struct hg_span *s = hg__central_pop_empty(h, &h->central[i], gen);
        if (s == NULL)
            continue;
        if (n != 0)
            hg_store_rlx(&h->empty_cursor, i);
        return s;
    }
    return NULL;
}

size_t hg__empties_dissolve(struct hg_heap *h, size_t pages)
{
    struct hg_span *s;
    size_t done = 0;
    hg__sweep_enter(h); /* Note [EMPTY] */
    uint32_t gen = hg_load_acq(&h->gen);
    while (done < pages && (s = pop_empty(h, gen)) != NULL) {
        done += s->pages;
        hg__span_free(h, s);
    }
    hg__sweep_leave(h, 0);
    return done;
}

void hg__empties_make_room(struct hg_heap *h, enum hg_area area, uint32_t n)
{
    size_t most = n > HG_CHUNK_PAGES ? n : HG_CHUNK_PAGES;
    while (hg_load_rlx(&h->empty_pages) > 0 && !hg__pages_has_old(h, area, n) &&
           hg__empties_dissolve(h, most) > 0)
        ;
}

/* ---- making ---- */

static void put_chunk(struct hg_heap *h, struct hg_span *chunk)
{
    hg_sub_rlx(&h->cached_pages, (int64_t)chunk->pages);
    hg_sub_rlx(&h->free_bytes, hg__bytes_of(chunk->pages));
    hg__pages_put(h, chunk);
}

/* An extent of n pages from the cache's chunk, counted as free still. */
static struct hg_span *take_extent(struct hg_cache *c, enum hg_area area, uint32_t n)
{
    struct hg_heap *h = c->heap;
    struct hg_span *chunk = c->chunk[area];
    if (chunk != NULL && chunk->pages < n) {
        c->chunk[area] = NULL;
        put_chunk(h, chunk);
        chunk = NULL;
    }
    if (chunk == NULL) {
        hg__empties_make_room(h, area, n);
        chunk = hg__pages_take(h, area, n, n > HG_CHUNK_PAGES ? n : HG_CHUNK_PAGES);
        if (chunk == NULL)
            return NULL;
        hg_add_rlx(&h->free_bytes, hg__bytes_of(chunk->pages));
        hg_add_rlx(&h->cached_pages, (int64_t)chunk->pages);
    }
    struct hg_span *s = chunk;
    c->chunk[area] = chunk->pages == n ? NULL : chunk;
    if (chunk->pages != n) {
        if ((s = take_struct(c)) == NULL)
            return NULL;
        s->start = chunk->start;
        s->pages = n;
        s->needs_zero = chunk->needs_zero;
        chunk->start += (uintptr_t)n << HG_PAGE_SHIFT;
        chunk->pages -= n;
    }
    hg_sub_rlx(&h->cached_pages, (int64_t)n);
    return s;
}

void hg__span_show(struct hg_heap *h, struct hg_span *s)
{
    uint32_t page = hg__page_of(h, s->start);
    uint32_t entries = s->size_class != 0 ? s->pages : 1; /* large: found by its base only */
    for (uint32_t i = 0; i < entries; i++)
        hg_store_rel(&h->spans[page + i], s);
    hg__span_describe(h, s);
}

void hg__span_describe(struct hg_heap *h, const struct hg_span *s)
{
    uint32_t page = hg__page_of(h, s->start);
    for (uint32_t i = 0; i < s->pages; i++)
        hg_store_rel(&h->desc[page + i], hg__span_desc(s, i));
    if (s->size_class != 0 && s->pages == 1)
        hg_store_rel(&h->codes[page], hg__code(s->size_class, s->kind));
}

struct hg_span *hg__span_new(struct hg_cache *c, unsigned span_class, uint16_t layout, uint32_t gen)
{
    struct hg_heap *h = c->heap;
    unsigned kind = span_class % HG_SPAN_KINDS, size_class = span_class / HG_SPAN_KINDS;
    const struct hg_class *class = &hg__class[size_class];
    struct hg_span *s = take_extent(c, hg__area_of(kind), pages_of(class, kind));
    if (s == NULL)
        return NULL;
    hg_sub_rlx(&h->free_bytes, hg__bytes_of(s->pages));
    hg_add_rlx(&h->span_bytes, hg__bytes_of(s->pages));
    s->bytes = (size_t)hg__bytes_of(s->pages);
    s->size = class->size;
    s->count = kind == HG_SPAN_DESCRIBED ? class->count_described : class->count;
    s->size_class = (uint8_t)size_class;
    s->kind = (uint8_t)kind;
    s->layout = layout;
    s->full = false;
    s->gen = gen;
    s->live = 0;
    hg_store_rlx(&s->mask, 0u);
    hg_store_rlx(&s->word, HG_NO_WORD);
    for (unsigned w = 0; w < HG_COUNT_OF(s->alloc_bits); w++)
        hg_store_rlx(&s->alloc_bits[w], 0u);
    hg__span_show(h, s);
    return s;
}

void hg__chunks_release(struct hg_cache *c)
{
    for (int area = 0; area < HG_AREAS; area++)
        if (c->chunk[area] != NULL) {
            put_chunk(c->heap, c->chunk[area]);
            c->chunk[area] = NULL;
        }
    if (c->structs != NULL) {
        hg__structs_put(c->heap, c->structs);
        c->structs = NULL;
    }
}
