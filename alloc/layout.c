/* layout.c: the registry of layouts: ids for the embedder's typed and traced layouts.
 *
 * An object of a DESCRIBED span is known by a 16-bit id. The id is the index of an entry in one
 * array that is reserved whole (65,536 entries, 4 MiB of address space, pages as they are touched),
 * so that markers index it without a lock and entries never move. Id 0 means none.
 *
 * A layout is registered when it is first used, found again by its address in a hash table, and
 * checked then and only then; it is immutable, as the embedder promises (static const).
 *
 * Ordering: an entry is complete before its id leaves hg__layouts_id; a marker gets ids from
 * objects, whose publication carries the entry along. Lock: LAYOUTS guards all but the entries that
 * have been given out.
 */
#include "alloc/internal.h"

#define ENTRIES       65536u
#define ENTRY_BYTES   (ENTRIES * sizeof(struct hg_layout_info))
#define SLOTS_AT_OPEN 64u

struct hg_layouts {
    struct hg_lock lock;
    struct hg_meta *meta;
    struct hg_layout_info *table; /* entries 1..count are given out */
    uint32_t count;
    uint32_t slots; /* of the hash table; a power of two, at least twice count */
    uint16_t *slot; /* ids by hash of the address, open addressing; 0: free */
};

struct hg_layouts *hg__layouts_open(struct hg_meta *meta)
{
    struct hg_layouts *l = hg__meta_alloc(meta, sizeof *l);
    if (l == NULL)
        return NULL;
    hg__lock_init(&l->lock, HG_RANK_LAYOUTS);
    l->meta = meta;
    l->slots = SLOTS_AT_OPEN;
    l->slot = hg__meta_alloc(meta, l->slots * sizeof *l->slot);
    l->table = hg__os_map(ENTRY_BYTES, hg__os_page_size());
    if (l->slot != NULL && l->table != NULL)
        return l;
    hg__layouts_close(l);
    return NULL;
}

void hg__layouts_close(struct hg_layouts *l)
{
    if (l->table != NULL)
        hg__os_unmap(l->table, ENTRY_BYTES);
    hg__meta_free(l->meta, l->slot, l->slots * sizeof *l->slot);
    hg__meta_free(l->meta, l, sizeof *l);
}

const struct hg_layout_info *hg__layouts_table(const struct hg_layouts *l) { return l->table; }

/* ---- checks ---- */

static const char *typed_error(const hg_layout *t)
{
    if (t->trace != NULL)
        return "a typed layout has a trace callback";
    if (t->nfields > 0 && t->fields == NULL)
        return "nfields is not 0, but fields is NULL";
    for (uint32_t i = 0; i < t->nfields; i++)
        if (t->fields[i] % sizeof(void *) != 0)
            return "a field's offset is not a multiple of 8";
    if (t->tail % sizeof(void *) != 0)
        return "tail is not a multiple of 8";
    if (t->stride % sizeof(void *) != 0)
        return "stride is not a multiple of 8";
    if (t->tail != 0 && t->stride == 0)
        return "tail is set, but stride is 0";
    return NULL;
}

static const char *traced_error(const hg_layout *t)
{
    if (t->trace == NULL)
        return "a traced layout has no trace callback";
    if (t->nfields != 0 || t->fields != NULL || t->tail != 0 || t->stride != 0)
        return "a traced layout names fields as well";
    return NULL;
}

/* What is wrong with a layout, or NULL. */
static const char *layout_error(const hg_layout *t)
{
    if ((uintptr_t)t <= (uintptr_t)HG_REFS)
        return "HG_LEAF, HG_CONSERVATIVE and HG_REFS have no id";
    if ((uintptr_t)t % _Alignof(hg_layout) != 0)
        return "the layout's address is misaligned";
    if (t->version != HG_LAYOUT_V1)
        return "version is not HG_LAYOUT_V1";
    for (size_t i = 0; i < HG_COUNT_OF(t->spare); i++)
        if (t->spare[i] != 0)
            return "a spare word is not 0";
    if (t->kind == HG_KIND_TYPED)
        return typed_error(t);
    if (t->kind == HG_KIND_TRACED)
        return traced_error(t);
    if (t->kind <= HG_KIND_REFS)
        return "kind is that of HG_LEAF, HG_CONSERVATIVE or HG_REFS, which are used themselves";
    return "kind is none of hg_kind";
}

/* ---- registering ---- */

static uint32_t hash(const struct hg_layouts *l, const hg_layout *t)
{
    return (uint32_t)((uint64_t)(uintptr_t)t * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (l->slots - 1);
}

/* The slot of a layout, or the free slot where it belongs. */
static uint16_t *slot_of(struct hg_layouts *l, const hg_layout *t)
{
    uint32_t i = hash(l, t);
    while (l->slot[i] != 0 && l->table[l->slot[i]].layout != t)
        i = (i + 1) & (l->slots - 1);
    return &l->slot[i];
}

static bool grow_slots(struct hg_layouts *l)
{
    uint16_t *old = l->slot;
    uint32_t old_slots = l->slots;
    uint16_t *grown = hg__meta_alloc(l->meta, (size_t)old_slots * 2 * sizeof *grown);
    if (grown == NULL)
        return false;
    l->slot = grown;
    l->slots = old_slots * 2;
    for (uint32_t id = 1; id <= l->count; id++)
        *slot_of(l, l->table[id].layout) = (uint16_t)id;
    hg__meta_free(l->meta, old, old_slots * sizeof *old);
    return true;
}

static void fill_entry(struct hg_layout_info *e, const hg_layout *t)
{
    *e = (struct hg_layout_info){
        .layout = t,
        .kind = t->kind,
        .name = t->name != NULL ? t->name : "(no name)",
        .fields = t->fields,
        .nfields = t->nfields,
        .tail = t->tail,
        .stride = t->stride,
        .trace = t->trace,
        .only_bits = t->kind == HG_KIND_TYPED && t->stride == 0,
    };
    for (uint32_t i = 0; i < t->nfields; i++) {
        uint32_t word = t->fields[i] / (uint32_t)sizeof(void *);
        if (word < 64)
            e->ref_bits |= (uint64_t)1 << word;
        else
            e->only_bits = false;
    }
}

/* Requires: LAYOUTS. */
static uint16_t register_locked(struct hg_layouts *l, const hg_layout *t, const char **why)
{
    if ((*why = layout_error(t)) != NULL)
        return 0;
    if (l->count == ENTRIES - 1) {
        *why = "65,535 layouts are in use";
        return 0;
    }
    if ((l->count + 1) * 2 > l->slots && !grow_slots(l)) {
        *why = "no memory for another layout";
        return 0;
    }
    uint16_t id = (uint16_t)++l->count;
    fill_entry(&l->table[id], t);
    *slot_of(l, t) = id;
    return id;
}

uint16_t hg__layouts_id(struct hg_layouts *l, const hg_layout *layout, const char **why)
{
    hg__lock(&l->lock);
    uint16_t id = *slot_of(l, layout);
    if (id == 0)
        id = register_locked(l, layout, why);
    hg__unlock(&l->lock);
    return id;
}
