/* internal.h: what the .c files of alloc/ share, and nobody else includes.
 *
 * Who calls whom, top down:
 *   cache.c  large.c  sweep.c     scavenge.c  verify.c
 *   span.c (spans: made, found by their pages, dissolved)
 *   central.c (lists per span class)
 *   pages.c (extents of pages: taken, put back, given back to the kernel)
 *   reserve.c (address space and side tables)
 */
#ifndef HG_ALLOC_INTERNAL_H
#define HG_ALLOC_INTERNAL_H
#include "alloc/alloc.h"
#include "base/os.h"

/* The two parts of the reservation. */
enum hg_area { HG_LOW, HG_HIGH, HG_AREAS };

static inline enum hg_area hg__area_of(unsigned kind)
{
    return kind == HG_SPAN_LEAF ? HG_HIGH : HG_LOW;
}

/* Sizes that the hostile build makes tiny, so that their edges are met. */
#if defined(HG_HOSTILE)
#define HG_GROW_PAGES  8u /* pages by which an area grows */
#define HG_CHUNK_PAGES 3u /* pages that a cache takes at once */
#define HG_STRUCTS     2u /* span structs that a cache takes at once */
#define HG_BATCH       2u /* spans that are taken off an unswept list at once */
#else
#define HG_GROW_PAGES  512u
#define HG_CHUNK_PAGES 32u
#define HG_STRUCTS     16u
#define HG_BATCH       8u
#endif

#define HG_BLOCK_SHIFT 21 /* a huge page; what scavenging and collapsing work in */
#define HG_BLOCK_BYTES ((size_t)1 << HG_BLOCK_SHIFT)
#define HG_BLOCK_PAGES ((uint32_t)(HG_BLOCK_BYTES >> HG_PAGE_SHIFT))

static inline uint32_t hg__page_of(const struct hg_heap *h, uintptr_t p)
{
    return (uint32_t)((p - h->base) >> HG_PAGE_SHIFT);
}
static inline uintptr_t hg__page_address(const struct hg_heap *h, uint32_t page)
{
    return h->base + ((uintptr_t)page << HG_PAGE_SHIFT);
}
static inline int64_t hg__bytes_of(uint32_t pages)
{
    return (int64_t)((uint64_t)pages << HG_PAGE_SHIFT);
}

/* ---- lists of spans; the owner of the head serialises all calls ---- */

static inline void hg__span_push(struct hg_span **head, struct hg_span *s)
{
    s->prev = NULL;
    s->next = *head;
    if (*head != NULL)
        (*head)->prev = s;
    *head = s;
}
/* The three lines of a struct that is about to be taken. */
static inline void hg__span_prefetch(const struct hg_span *s)
{
    __builtin_prefetch(s);
    __builtin_prefetch((const char *)s + 64);
    __builtin_prefetch((const char *)s + 128);
}
static inline void hg__span_remove(struct hg_span **head, struct hg_span *s)
{
    if (s->prev != NULL)
        s->prev->next = s->next;
    else
        *head = s->next;
    if (s->next != NULL)
        s->next->prev = s->prev;
    s->next = s->prev = NULL;
}

/* ---- page heap (pages.c) ---- */

/* Free runs are kept by size: bins of one size below 32 pages, then 8 bins to a doubling. Runs with
 * pages that may hold old contents are apart from runs that are all clean. */
#define HG_EXACT_BINS 32u
#define HG_BINS       256u
enum { HG_CLEAN, HG_DIRTY, HG_GROUPS };

struct hg_bins {
    uint64_t used[HG_BINS / 64]; /* bit i: head[i] is not NULL */
    struct hg_span *head[HG_BINS];
};

struct hg_pages {
    struct hg_lock lock;          /* PAGES: guards all that follows */
    uint32_t low_end, high_start; /* as in the heap, in pages */
    struct hg_bins bins[HG_AREAS][HG_GROUPS];
    uint64_t *dirty;         /* bit per page, of free pages: may hold old contents */
    struct hg_span *structs; /* spare structs, chained by next */

    /* Upkeep of 2 MiB blocks, by address. */
    _Atomic int32_t *block_live;  /* bytes found live by sweeps; writers: sweepers (relaxed) */
    _Atomic uint8_t *block_tried; /* collapsed, or refused; writers: scavenge.c */
    uint32_t collapse_cursor;     /* block; only the thread that runs collapse steps */
};

/* An extent of `want` pages, or fewer but at least `min`, as a struct with start, pages and
 * needs_zero set. NULL: no memory. Counted as mapped, and as nothing else. */
struct hg_span *hg__pages_take(struct hg_heap *h, enum hg_area area, uint32_t min, uint32_t want);
/* Whether a free run of n pages, with old contents in it, is easily found. */
bool hg__pages_has_old(struct hg_heap *h, enum hg_area area, uint32_t n);
/* Puts an extent back, contents unknown. Its mark bits are clear, its desc entries 0. The struct
 * goes with it. Counts it as free; the caller has taken it off what it was counted as. Cannot fail.
 * */
void hg__pages_put(struct hg_heap *h, struct hg_span *s);
/* A chain of up to n spare structs. NULL: no memory. */
struct hg_span *hg__structs_take(struct hg_heap *h, unsigned n);
void hg__structs_put(struct hg_heap *h, struct hg_span *chain);
/* Takes pages with old contents, at most one block's and at most `most`, out of the largest run
 * that has any. NULL: none is left. Counted as nothing. */
struct hg_span *hg__pages_take_dirty(struct hg_heap *h, uint32_t most);
/* Puts an extent back whose pages the kernel has: clean. Counted as nothing. */
void hg__pages_put_clean(struct hg_heap *h, struct hg_span *s);

unsigned hg__pages_bin(uint32_t pages);
static inline bool hg__page_dirty(const struct hg_pages *p, uint32_t page)
{
    return (p->dirty[page / 64] >> (page % 64) & 1) != 0;
}

/* ---- spans (span.c) ---- */

/* Marks of word w's existing slots. */
static inline uint64_t hg__word_slots(const struct hg_span *s, uint32_t w)
{
    uint32_t left = s->count - w * 64;
    return left >= 64 ? UINT64_MAX : ((uint64_t)1 << left) - 1;
}
static inline uint32_t hg__span_words(const struct hg_span *s)
{
    return ((uint32_t)s->count + 63) / 64;
}

static inline bool hg__span_is_empty(const struct hg_span *s)
{
    uint64_t any = 0;
    for (uint32_t w = 0; w < hg__span_words(s); w++)
        any |= hg_load_rlx(&s->alloc_bits[w]);
    return any == 0;
}

/* A small span from the cache's pages, visible, empty, in no list. layout: as hg__cache_refill's.
 * NULL: no memory. */
struct hg_span *hg__span_new(struct hg_cache *c, unsigned span_class, uint16_t layout,
                             uint32_t gen);
/* Sets the span's entries in spans and desc. Requires: all fields but links are set. */
void hg__span_show(struct hg_heap *h, struct hg_span *s);
/* The desc of page i of s. */
static inline uint64_t hg__span_desc(const struct hg_span *s, uint32_t i)
{
    return hg__desc(s->size_class, s->kind, s->layout, i) | (s->full ? HG_DESC_FULL : 0);
}
/* Sets its entries in desc and codes. Requires: its owner; s is shown already, or spans[] is
 * set. */
void hg__span_describe(struct hg_heap *h, const struct hg_span *s);
/* Dissolves an empty span: no entry, pages back to the page heap. Requires: marks clear, no list.
 * */
void hg__span_free(struct hg_heap *h, struct hg_span *s);
/* Dissolves empty spans until the page heap has n free pages in a run that is not clean, or none is
 * left. */
void hg__empties_make_room(struct hg_heap *h, enum hg_area area, uint32_t n);
/* Gives the chunks and structs of a cache back to the page heap. */
void hg__chunks_release(struct hg_cache *c);

/* ---- central lists (central.c) ---- */

enum hg_fill { HG_PARTIAL, HG_FULL, HG_FILLS };

/* Linked both ways, by next and prev. */
struct hg_queue {
    struct hg_span *first, *last;
};

struct hg_central {
    _Alignas(64) struct hg_lock lock;  /* CENTRAL: guards what follows */
    uint32_t gen;                      /* the generation for which unswept pages are counted */
    _Atomic uint32_t listed[2];        /* spans listed, by parity; read without lock as a hint */
    int64_t pages[2];                  /* pages listed, by parity */
    struct hg_queue list[2][HG_FILLS]; /* by parity of the spans' generation */
    struct hg_queue empty;             /* of generation `gen`, with nothing in them */
    _Atomic uint32_t empties;          /* how many; read without lock as a hint */
};

static inline struct hg_central *hg__central_of(const struct hg_heap *h, const struct hg_span *s)
{
    return &h->central[hg__span_class(s->size_class, (enum hg_span_kind)s->kind)];
}

void hg__central_init(struct hg_heap *h);
/* Opens generation `gen` for one class: spans of gen - 1 in its lists count as unswept from now on.
 * Requires: none is empty. */
void hg__central_open(struct hg_heap *h, struct hg_central *c, uint32_t gen);
/* Lists a span by its generation; one without free slots says so in its desc from then on. Takes
 * CENTRAL. The span is not the caller's any more. */
void hg__central_push(struct hg_heap *h, struct hg_span *s, enum hg_fill fill);
/* Takes a span of generation `gen` off the list, or NULL. Takes CENTRAL. */
struct hg_span *hg__central_pop(struct hg_heap *h, struct hg_central *c, uint32_t gen,
                                enum hg_fill fill);
/* A few spans of one class, as a sweep takes them off their lists and puts them back. */
struct hg_batch {
    unsigned n;
    struct hg_span *span[HG_BATCH];
};
/* Takes spans of generation `gen` off, until they have `pages` pages or HG_BATCH are taken. Returns
 * pages taken, 0: there is no such span. Takes CENTRAL. */
size_t hg__central_take(struct hg_heap *h, struct hg_central *c, uint32_t gen, size_t pages,
                        struct hg_batch *out);
/* Lists spans that were just swept, by their live slots. Empty ones' pages count as free from now
 * on. Takes CENTRAL. */
void hg__central_file(struct hg_heap *h, struct hg_central *c, const struct hg_batch *b);
/* Takes an empty span of generation `gen`, or NULL. Takes CENTRAL. */
struct hg_span *hg__central_pop_empty(struct hg_heap *h, struct hg_central *c, uint32_t gen);

/* ---- sweep (sweep.c) ---- */

/* Sweeps a span of generation gen - 1 that the caller has taken off its list: alloc bits are what
 * was marked, marks are clear, gen is `gen`. Returns live slots. */
uint32_t hg__sweep_span(struct hg_heap *h, struct hg_span *s, uint32_t gen);
/* Takes up to HG_BATCH spans of one class and generation gen - 1 off their list and sweeps them:
 * pages swept, 0 if there was none. Then the caller files what it does not keep. */
size_t hg__sweep_batch(struct hg_heap *h, struct hg_central *c, uint32_t gen, size_t pages,
                       struct hg_batch *out);
void hg__sweep_file(struct hg_heap *h, struct hg_batch *b);
/* As hg__sweep_some, from generation gen - 1 into gen. */
size_t hg__sweep_into(struct hg_heap *h, uint32_t gen, size_t pages);
/* Brackets taking spans off unswept lists and sweeping them, and dissolving spans. Note [DONE] in
 * sweep.c. */
static inline void hg__sweep_enter(struct hg_heap *h) { hg_add_sc(&h->sweepers, 1u); }
static inline void hg__sweep_leave(struct hg_heap *h, size_t pages)
{
    hg_add_rlx(&h->swept_pages, pages);
    hg_sub_acqrel(&h->sweepers, 1u);
}

#endif
