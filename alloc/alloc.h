/* alloc.h: the collected heap's memory: reservation, pages, spans, size classes, mark and
 * allocation bits, caches, sweep. The only header of this module that others include (with
 * cache_inl.h and find_inl.h, which it pulls in).
 *
 * It knows bits and pages, and nothing of tasks, phases or handshakes. What it is told by its
 * callers: a mutator's colour and generation, and when a new sweep generation opens.
 *
 * Address space. One reservation per heap. Spans of objects that may hold references grow from its
 * bottom, spans of leaf objects from its top:
 *
 *   base |-- scannable spans --> low_end     high_start <-- leaf spans --| base + size
 *
 * Side tables indexed by address alone (committed as they are touched):
 *   marks   one bit per 16 bytes of heap (64 bytes, one line, per 8 KiB page)
 *   desc    8 bytes per page: see hg__desc; 0: no object begins or lies here
 *   codes   1 byte per page: class and kind of spans of one page, else 0: what a marker needs to
 *           get from most references to their objects, small enough to stay in its cache
 *   spans   the span of a page (large spans: of their first page): for ambiguous words, sweep and
 *           statistics; the marker's fast path never loads it
 *
 * Spans. A small span holds `count` slots of one size class and one kind, count <= 512. A large
 * span holds one object.
 *   slot i begins at start + i * size;   a slot's index is ((p - start) * inverse) >> 32
 *   DESCRIBED spans are uniform, all of one layout, whose id stands in their pages' desc; or mixed:
 *   a 16-bit layout id per slot, growing down from the span's end: ids[-1 - i]. See Note [LAYOUT].
 *
 * Generations. heap->gen is the sweep generation: g. For each span in a central list:
 *   span->gen == g      swept: alloc bits are true, mark bits clear until the next cycle marks
 *   span->gen == g - 1  not swept: mark bits say what is live
 * A span in a cache is in no list, is swept by nobody, and keeps the generation of the mutator that
 * took it. Lists are indexed by the parity of their spans' generation, so that opening a generation
 * turns "swept" into "unswept" lists without touching a span. All spans of generation g - 1 are
 * swept before g + 1 opens.
 *
 * Which slots are allocated: slot i is, if bit i of alloc_bits is set, or if it lies in the word in
 * use (span->word) and its bit of span->mask is clear. The owner stores in this order: clears the
 * slot, writes its layout id if the span is mixed, then store-releases the mask. Note [MASK] is in
 * cache_inl.h.
 *
 * Colour. A black mutator's slots are marked when the word is taken (hg__cache_refill), so the
 * allocation itself looks at no colour. hg__cache_stash turns a white cache into one whose next
 * take goes through a refill that marks.
 *
 * Locks: CENTRAL (one per span class), PAGES, LAYOUTS, META, in this order.
 */
#ifndef HG_ALLOC_ALLOC_H
#define HG_ALLOC_ALLOC_H
#include "alloc/sizeclass.h" /* generated: HG_CLASSES, hg__class, hg__class_of */
#include "base/assert.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/lock.h"
#include "base/meta.h"
#include <hedge/heap.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HG_PAGE_SHIFT 13
#define HG_PAGE_BYTES ((size_t)1 << HG_PAGE_SHIFT)
#define HG_GRAIN      16u    /* object alignment, and heap bytes per mark bit */
#define HG_SMALL_MAX  32768u /* larger objects have a span of their own */
#define HG_SPAN_SLOTS 512    /* most slots of a span */

/* What the slots of a span hold. LEAF spans lie at the top of the reservation, the others at the
 * bottom. */
enum hg_span_kind {
    HG_SPAN_LEAF,         /* never scanned */
    HG_SPAN_CONSERVATIVE, /* every word may be a reference */
    HG_SPAN_REFS,         /* every word is a reference or NULL */
    HG_SPAN_DESCRIBED,    /* by the slot's layout id: typed and traced layouts */
    HG_SPAN_KINDS
};

/* Span class: size class and kind. Size class 0 stands for large objects and has no cache. */
#define HG_SPAN_CLASSES (HG_CLASSES * HG_SPAN_KINDS)
static inline unsigned hg__span_class(unsigned size_class, enum hg_span_kind kind)
{
    return size_class * HG_SPAN_KINDS + (unsigned)kind;
}

#define HG_NO_WORD UINT32_MAX

/* Describes one extent of pages: a span, a free run in the page heap, or a chunk of pages in a
 * cache. A run or chunk uses the fields marked (any) only. Structs are recycled and stay structs
 * until the heap is closed. Three cache lines: identity and links, what the owner writes,
 * allocation bits. */
struct hg_span {
    _Alignas(64) uintptr_t start; /* (any) */
    size_t bytes;                 /* of all pages */
    size_t size;                  /* of a slot; large: usable bytes of the object */
    uint32_t pages;               /* (any) */
    uint16_t count;               /* slots; large: 1 */
    uint8_t size_class, kind;
    uint16_t layout;             /* DESCRIBED: the id of all slots; 0: mixed. Owner of the span */
    bool needs_zero;             /* (any) the pages, or free slots, may hold old contents */
    bool free;                   /* (any) in the page heap's bins; lock PAGES */
    bool full;                   /* its desc has HG_DESC_FULL; owner of the span */
    uint32_t dirty;              /* free runs: pages that may hold old contents; lock PAGES */
    struct hg_span *next, *prev; /* (any) in a central list or a bin; its lock */

    /* Writer: the mutator that caches the span. Readers: markers that meet an ambiguous word. See
     * Note [MASK]. */
    _Atomic uint64_t mask; /* slots of the word in use that are still free */
    _Atomic uint32_t word; /* index of the word in use, or HG_NO_WORD */
    uint32_t gen;          /* owner of the span, or the list's lock */
    uint32_t live;         /* slots found live by the last sweep; owner of the span */
    struct hg_span *ahead; /* some places after it in a central list, to be prefetched; its lock */

    _Alignas(64) _Atomic uint64_t alloc_bits[HG_SPAN_SLOTS / 64]; /* large: bit 0: visible */
};

/* desc word of a page. 0: nothing here that a reference could mean.
 *   bits 0-7 size class (0 with HG_DESC_VALID: large)   8-9 kind   10 valid   11 full
 *   16-31 layout id of all slots, 0: none, or mixed   32-63 index of this page in its span
 *
 * Note [LAYOUT]. A DESCRIBED span begins uniform: its objects' layout is found with their page, and
 * no id is written or read for each. When its owner allocates an object of another layout there, it
 * first writes the id of each slot (hg__cache_refill), then stores desc without the layout
 * (release), and only then hands the new object out. So who has a reference to an object finds it
 * described rightly whichever desc it reads: the old one is right for all objects that were there
 * before, and with the new one come the ids (acquire). Who comes by an ambiguous word reads desc
 * for the layout after hg__slot_allocated. A span becomes uniform again when it is empty.
 *
 * Full: all slots are allocated, and stay so as long as anything is marked, so a marker that meets
 * an ambiguous word need not look at the span's struct. Stored (release) when the span goes to a
 * list of full ones, its slots being clear and their bits set; taken away by the sweep that frees
 * one. */
#define HG_DESC_VALID ((uint64_t)1 << 10)
#define HG_DESC_FULL  ((uint64_t)1 << 11)
static inline uint64_t hg__desc(unsigned size_class, unsigned kind, uint16_t layout, uint32_t index)
{
    return (uint64_t)size_class | (uint64_t)kind << 8 | HG_DESC_VALID | (uint64_t)layout << 16 |
           (uint64_t)index << 32;
}
static inline unsigned hg__desc_class(uint64_t d) { return (unsigned)(d & 0xff); }
static inline enum hg_span_kind hg__desc_kind(uint64_t d)
{
    return (enum hg_span_kind)((d >> 8) & 3);
}
static inline uint16_t hg__desc_layout(uint64_t d) { return (uint16_t)(d >> 16); }

/* The code of a page whose span is small and has one page; that of other pages is 0. */
static inline uint8_t hg__code(unsigned size_class, unsigned kind)
{
    return (uint8_t)(size_class | kind << 6);
}
static inline unsigned hg__code_class(uint8_t code) { return code & 63u; }
static inline unsigned hg__code_kind(uint8_t code) { return code >> 6; }
_Static_assert(HG_CLASSES <= 64 && HG_SPAN_KINDS <= 4, "a code has 8 bits");
static inline uint32_t hg__desc_index(uint64_t d) { return (uint32_t)(d >> 32); }

struct hg_central; /* central.c */
struct hg_pages;   /* pages.c */

struct hg_heap_config {
    size_t reserve_bytes; /* 0: 256 GiB; halved until it fits, at least 64 MiB */
    int hugepages;        /* HG_HUGEPAGES_AUTO (mark table only, and collapse), _ALWAYS, _NEVER */
    bool poison;          /* swept slots are filled with HG_POISON */
};
#define HG_POISON UINT64_C(0xdbdbdbdbdbdbdbdb)

/* One per runtime. The first fields are constant after open, or only grow, and are read by markers
 * without a lock. */
struct hg_heap {
    uintptr_t base;
    size_t size;
    _Atomic uint64_t *marks;
    _Atomic uint64_t *desc;           /* writer: the span's owner (release); readers: markers */
    _Atomic uint8_t *codes;           /* likewise */
    _Atomic(struct hg_span *) *spans; /* likewise; for free runs the first and last page, PAGES */
    /* Offsets; writer: page heap. low_end only grows, high_start only falls. */
    _Atomic size_t low_end, high_start;

    /* Writer: the driver (hg__sweep_open), seq_cst; readers: slow paths. */
    _Atomic uint32_t gen;
    struct hg_heap_config config;
    struct hg_meta *meta;
    struct hg_central *central; /* HG_SPAN_CLASSES of them */
    struct hg_pages *pages;

    /* Counters: any thread adds (relaxed, but for the two of sweep_done), anyone reads. */
    _Atomic int64_t mapped_bytes;    /* = span_bytes + free_bytes */
    _Atomic int64_t free_bytes;      /* free pages not given back, those of caches and of empty
                                      * spans included */
    _Atomic int64_t span_bytes;      /* pages in spans */
    _Atomic int64_t cached_pages;    /* free pages in caches */
    _Atomic int64_t empty_pages;     /* free pages in empty spans */
    _Atomic int64_t unswept_pages;   /* pages of spans of generation gen - 1 in lists; seq_cst */
    _Atomic uint32_t sweepers;       /* sweeps under way; seq_cst. Note [DONE] in sweep.c */
    _Atomic uint32_t sweep_cursor;   /* class where the last unswept span was found: a hint */
    _Atomic uint32_t empty_cursor;   /* likewise, the last empty one that was dissolved */
    _Atomic uint64_t swept_pages;    /* in all */
    _Atomic uint64_t released_bytes; /* given back to the kernel, in all */
};

/* ---- open, close (reserve.c) ---- */

/* 0 or -ENOMEM. Span structs come from `meta`, which must outlive the heap. */
int hg__heap_open(struct hg_heap **out, struct hg_meta *meta, const struct hg_heap_config *config);
void hg__heap_close(struct hg_heap *h);
/* Touches the mark table where objects begin, and a little beyond what spans have reached. Its
 * pages are huge: the first touch of one costs up to milliseconds, which the driver should pay,
 * before it starts a cycle, and not a mutator that marks or allocates black. */
void hg__heap_touch_marks(struct hg_heap *h);

/* ---- caches: one per mutator ---- */

/* The word of 64 slots that a mutator allocates from, for one span class. Owner: the mutator (its
 * thread, or the driver that has taken it); mask is published in the span after each take. */
struct hg_cache_slot {
    _Alignas(64) uint64_t mask; /* free slots left; 0: refill */
    size_t offset;              /* of the word's slot 0 in the reservation; see hg__cache_pick */
    uintptr_t heap_base;        /* where the reservation begins */
    uint16_t *ids;              /* DESCRIBED: where the layout id of slot 0 lies; slot i: ids[-i] */
    struct hg_span *span;       /* NULL: none */
    uint64_t stash; /* free slots set aside by hg__cache_stash, to be marked before use */
    uint32_t size;
    uint16_t layout; /* the span's */
    bool dirty;      /* the span's needs_zero */
};

struct hg_cache {
    struct hg_heap *heap;
    /* Bytes and slots handed out to this cache less those given back unused. Owner writes; the
     * owner reads and resets. Counted a word at a time. */
    int64_t alloc_bytes, alloc_slots;
    /* Pages to carve small spans from, and structs for them. Filled by the page heap. Index: area.
     * */
    struct hg_span *chunk[2];
    struct hg_span *structs;
    bool tight; /* refills take no pages, only free slots of spans in use; owner */
    struct hg_cache_slot slot[HG_SPAN_CLASSES];
};

void hg__cache_init(struct hg_cache *c, struct hg_heap *h);

enum hg_refill { HG_REFILL_OK, HG_REFILL_NO_MEMORY };

/* After hg__cache_take(slot, layout) gave nothing: makes the next one succeed. If the slot is empty
 * it fills it: from the stash, the next word of its span, another swept span, an unswept one that
 * it sweeps (a bounded number), or new pages (not if the cache is tight). If the span is uniform
 * with another layout, it becomes mixed. Everything is done in generation `gen`, the mutator's own,
 * whatever heap->gen says. layout: an id for DESCRIBED classes, else 0. black: the slots are
 * marked. *swept (may be NULL) gets the pages swept. Requires: the owner, on a big stack. Never
 * calls up, never waits but for locks. */
enum hg_refill hg__cache_refill(struct hg_cache *c, unsigned span_class, uint16_t layout,
                                bool black, uint32_t gen, uint32_t *swept);

/* SCAN: all free slots go to the stash. The mutator turns black with it. */
void hg__cache_stash(struct hg_cache *c);

/* RESET, detach: gives every span back to the central lists of its generation. black: the marks of
 * slots that were taken but not used are cleared first. */
void hg__cache_release(struct hg_cache *c, bool black);

/* ---- large objects ---- */

/* A span for one object of `size` > HG_SMALL_MAX bytes, invisible to markers (no desc) and to the
 * sweep (in no list) until published. NULL: no memory. span->needs_zero says whether the caller
 * must clear [start, start + bytes) first. */
struct hg_span *hg__large_alloc(struct hg_heap *h, size_t size, enum hg_span_kind kind,
                                uint16_t layout, uint32_t gen);
/* Makes it visible, marked if black. The mutator may have passed a RESET since hg__large_alloc: it
 * stores its present generation in s->gen before. */
void hg__large_publish(struct hg_heap *h, struct hg_span *s, bool black);

/* ---- layouts ---- */

/* A registered layout. Immutable once its id is given out. ref_bits: bit i set: word i holds a
 * reference (words 0-63); layouts whose fields all lie there have `only_bits`. */
struct hg_layout_info {
    const hg_layout *layout;
    uint32_t kind; /* HG_KIND_TYPED or HG_KIND_TRACED */
    bool only_bits;
    uint64_t ref_bits;
    const char *name;
    const uint32_t *fields;
    uint32_t nfields, tail, stride;
    void (*trace)(hg_tracer *t, const void *obj, size_t from, size_t to);
};

struct hg_layouts;
/* NULL: no memory. */
struct hg_layouts *hg__layouts_open(struct hg_meta *meta);
void hg__layouts_close(struct hg_layouts *l);
/* Id of a layout (1..65535), registering it at first sight. 0: it is invalid, *why says how; or the
 * table is full. Takes LAYOUTS. The caller caches ids. */
uint16_t hg__layouts_id(struct hg_layouts *l, const hg_layout *layout, const char **why);
/* Any thread, no lock; id must have been given out. The array is reserved whole, so entries never
 * move. */
const struct hg_layout_info *hg__layouts_table(const struct hg_layouts *l);

/* ---- sweep ---- */

/* Opens generation gen + 1. Requires: all of generation gen - 1 is swept, no span is empty. Driver
 * only. */
void hg__sweep_open(struct hg_heap *h);
/* Dissolves empty spans until `pages` pages have gone to the page heap by it, or none is left;
 * returns how many have. Any thread, at any time; but see Note [EMPTY] in span.c for what the
 * driver owes. */
size_t hg__empties_dissolve(struct hg_heap *h, size_t pages);
/* Sweeps unswept spans of lists until at least `pages` pages are done or none is left. Returns
 * pages swept; 0: none was left in lists. Any thread, any number at once. */
size_t hg__sweep_some(struct hg_heap *h, size_t pages);
/* No unswept span in a list and no sweep under way. True for good once every cache was released in
 * this generation. */
bool hg__sweep_done(struct hg_heap *h);

/* ---- giving memory back ---- */

/* Gives up to `bytes` of free pages back to the kernel, largest runs first; returns bytes given
 * back. */
size_t hg__scavenge(struct hg_heap *h, size_t bytes);
/* One step of huge page upkeep (config AUTO): collapses at most one 2 MiB block that is nearly full
 * of live spans. Returns true if it collapsed one. Background thread only: 6 ms each. */
bool hg__collapse_step(struct hg_heap *h);

/* ---- looking at it ---- */

/* Calls fn for each allocated object. Requires: no allocation and no sweep meanwhile (mutators
 * held, or a heap at rest in a test) and all spans of caches visible through alloc bits and masks.
 * */
void hg__heap_each(struct hg_heap *h,
                   void (*fn)(void *arg, uintptr_t obj, const struct hg_span *span), void *arg);
/* Checks the equations above for every page and span; fatal at the first that does not hold. Same
 * requirements. */
void hg__heap_verify(struct hg_heap *h);

/* On a task's stack, the address of a span's slot 0, left in a register or a dead frame by the
 * runtime's own arithmetic, would be a word that means an object which the program may not hold any
 * more. So what is computed there stays an offset until it is complete: the compiler must have it
 * in this variable before it goes on. */
#define HG_NO_ADDRESS_YET(offset) __asm__("" : "+r"(offset))

#include "alloc/cache_inl.h"
#include "alloc/find_inl.h"
#endif
