/* sweep.c: turns marks into allocation bits.
 *
 * Sweeping a span copies the mark bits of its slots into its allocation bits, clears the marks, and
 * moves it from generation g - 1 to g. It touches no object (but to poison dead ones), one line of
 * marks per page, and the span's struct. A span in which nothing lives gives its pages back, unless
 * the allocator wants it at once.
 *
 * Who sweeps: the allocator the spans it is about to use (cache.c), and anybody through
 * hg__sweep_some, a bounded number of pages at a time. A span is taken off its list before it is
 * swept, so it has one sweeper. Nothing is marked while spans are swept, except slots of spans that
 * caches hold.
 *
 * Note [DONE]. hg__sweep_done must not say yes while somebody holds a span of g - 1 that is in no
 * list. A sweeper first adds 1 to `sweepers`, then takes spans (each takes its pages off
 * `unswept_pages`), sweeps and lists them, then subtracts 1. hg__sweep_done reads unswept_pages,
 * then sweepers. If it reads 0 pages, each span was taken by somebody whose addition came before
 * its subtraction of pages; if it then reads 0 sweepers, all of them have left. Additions and reads
 * are seq_cst, since the argument orders two different words; leaving is a release, so that the
 * driver sees what was swept.
 *
 * Extraction. Slot i of a span is marked at grain i * stride of it. For strides 1, 2 and 4 (16, 32
 * and 64 bytes) words of marks are packed whole; for the others the marks that are set are visited
 * one by one: only slot starts are ever marked, so the work is by live slots.
 */
#include "alloc/internal.h"

#include <string.h>

/* ---- from marks to slots ---- */

/* The even bits of x, packed at the low end. */
static uint64_t pack_even(uint64_t x)
{
    x &= UINT64_C(0x5555555555555555);
    x = (x | x >> 1) & UINT64_C(0x3333333333333333);
    x = (x | x >> 2) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    x = (x | x >> 4) & UINT64_C(0x00ff00ff00ff00ff);
    x = (x | x >> 8) & UINT64_C(0x0000ffff0000ffff);
    return (x | x >> 16) & UINT64_C(0x00000000ffffffff);
}

struct live_bits {
    uint64_t word[HG_SPAN_SLOTS / 64];
};

/* Moves the marks of one mark word into bits of slots. n: the word's number in the span. */
static void extract_word(const struct hg_class *c, unsigned n, uint64_t marks,
                         struct live_bits *out)
{
    unsigned stride = c->size / HG_GRAIN;
    if (stride == 1) {
        out->word[n] = marks;
    } else if (stride == 2) {
        out->word[n / 2] |= pack_even(marks) << (n % 2 * 32);
    } else if (stride == 4) {
        out->word[n / 4] |= pack_even(pack_even(marks)) << (n % 4 * 16);
    } else {
        for (; marks != 0; marks &= marks - 1) {
            uint64_t offset = (n * 64u + hg_ctz64(marks)) * HG_GRAIN;
            unsigned slot = (unsigned)(offset * c->inverse >> 32);
            HG_AUDIT(slot * (uint64_t)c->size == offset);
            out->word[slot / 64] |= (uint64_t)1 << (slot % 64);
        }
    }
}

/* Takes the marks of a span, clearing them. */
static void take_marks(struct hg_heap *h, const struct hg_span *s, struct live_bits *out)
{
    _Atomic uint64_t *marks = hg__mark_word(h, s->start);
    memset(out, 0, sizeof *out);
    if (s->size_class == 0) {
        out->word[0] = hg_load_rlx(marks);
        if (out->word[0] != 0)
            hg_store_rlx(marks, 0u);
        HG_ASSERT(out->word[0] <= 1);
        return;
    }
    const struct hg_class *c = &hg__class[s->size_class];
    unsigned n = (unsigned)(s->bytes / (HG_GRAIN * 64));
    for (unsigned i = 0; i < n; i++) {
        uint64_t bits = hg_load_rlx(&marks[i]);
        if (bits == 0)
            continue;
        hg_store_rlx(&marks[i], 0u);
        extract_word(c, i, bits, out);
    }
}

/* ---- one span ---- */

static void poison(const struct hg_span *s, unsigned w, uint64_t dead)
{
    for (; dead != 0; dead &= dead - 1) {
        uint64_t *p = (uint64_t *)(s->start + (w * 64 + hg_ctz64(dead)) * s->size);
        for (size_t i = 0; i < s->size / sizeof *p; i++)
            p[i] = HG_POISON;
    }
}

/* Keeps block_live, which the collapse step goes by: a small span counts in the block where it
 * begins, a large one in each. */
static void count_live(struct hg_heap *h, struct hg_span *s, uint32_t live)
{
    int64_t change = ((int64_t)live - (int64_t)s->live) * (int64_t)s->size;
    _Atomic int32_t *block = &h->pages->block_live[(s->start - h->base) >> HG_BLOCK_SHIFT];
    s->live = live;
    if (change == 0)
        return;
    if (s->size_class != 0) {
        hg_add_rlx(block, (int32_t)change);
        return;
    }
    size_t left = s->size, part = HG_BLOCK_BYTES - ((s->start - h->base) & (HG_BLOCK_BYTES - 1));
    for (; left > 0; left -= part, block++, part = HG_BLOCK_BYTES) {
        part = hg_min_size(part, left);
        hg_add_rlx(block, change > 0 ? (int32_t)part : -(int32_t)part);
    }
}

uint32_t hg__sweep_span(struct hg_heap *h, struct hg_span *s, uint32_t gen)
{
    struct live_bits bits;
    uint32_t live = 0;
    HG_ASSERT(s->gen == gen - 1 && hg_load_rlx(&s->word) == HG_NO_WORD);
    take_marks(h, s, &bits);
    for (unsigned w = 0; w < hg__span_words(s); w++) {
        uint64_t was = hg_load_rlx(&s->alloc_bits[w]), now = bits.word[w];
        HG_ASSERT((now & ~was) == 0); /* only allocated slots are marked */
        live += hg_popcount64(now);
        if (h->config.poison)
            poison(s, w, was & ~now);
        if (was != now) {
            hg_store_rlx(&s->alloc_bits[w], now);
            s->needs_zero = true;
        }
    }
    if (s->full && live < s->count && s->size_class != 0) { /* a large one goes as a whole */
        s->full = false;
        hg__span_describe(h, s);
    }
    count_live(h, s, live);
    s->gen = gen;
    return live;
}

/* ---- a few spans of one class ---- */

size_t hg__sweep_batch(struct hg_heap *h, struct hg_central *c, uint32_t gen, size_t pages,
                       struct hg_batch *out)
{
    size_t taken = hg__central_take(h, c, gen - 1, pages, out);
    for (unsigned i = 0; i < out->n; i++)
        hg__sweep_span(h, out->span[i], gen);
    return taken;
}

void hg__sweep_file(struct hg_heap *h, struct hg_batch *b)
{
    unsigned n = 0;
    for (unsigned i = 0; i < b->n; i++) {
        struct hg_span *s = b->span[i];
        if (s->live == 0 && s->size_class == 0)
            hg__span_free(h, s); /* a large one */
        else
            b->span[n++] = s;
    }
    b->n = n;
    if (n > 0)
        hg__central_file(h, hg__central_of(h, b->span[0]), b);
}

/* ---- generations ---- */

void hg__sweep_open(struct hg_heap *h)
{
    HG_CHECK(hg__sweep_done(h), "a sweep generation was opened before the last one was swept");
    uint32_t gen = hg_load_rlx(&h->gen) + 1;
    for (unsigned i = 0; i < HG_SPAN_CLASSES; i++)
        hg__central_open(h, &h->central[i], gen);
    hg_store_rlx(&h->sweep_cursor, 0u);
    /* seq_cst as decisions of mutators hang on it together with their poll words: a mutator that
     * has seen the request of RESET, which was stored before, meets this generation or the request
     * first. */
    hg_store_sc(&h->gen, gen);
}

/* Sweeps and files a few spans of some class; the search begins where the last one ended. */
static size_t sweep_any(struct hg_heap *h, uint32_t gen, size_t pages)
{
    struct hg_batch b;
    uint32_t first = hg_load_rlx(&h->sweep_cursor);
    for (uint32_t n = 0; n < HG_SPAN_CLASSES; n++) {
        uint32_t i = (first + n) % HG_SPAN_CLASSES;
        size_t taken = hg__sweep_batch(h, &h->central[i], gen, pages, &b);
        if (taken == 0)
            continue;
        hg__sweep_file(h, &b);
        if (n != 0)
            hg_store_rlx(&h->sweep_cursor, i);
        return taken;
    }
    return 0;
}

size_t hg__sweep_into(struct hg_heap *h, uint32_t gen, size_t pages)
{
    size_t done = 0, n = 1;
    while (n > 0 && done < pages && hg_load_sc(&h->unswept_pages) > 0) {
        n = sweep_any(h, gen, pages - done);
        done += n;
    }
    return done;
}

size_t hg__sweep_some(struct hg_heap *h, size_t pages)
{
    if (hg_load_sc(&h->unswept_pages) == 0)
        return 0;
    hg__sweep_enter(h);
    size_t done = hg__sweep_into(h, hg_load_acq(&h->gen), pages);
    hg__sweep_leave(h, done);
    return done;
}

bool hg__sweep_done(struct hg_heap *h)
{
    return hg_load_sc(&h->unswept_pages) == 0 && hg_load_sc(&h->sweepers) == 0; /* Note [DONE] */
}
