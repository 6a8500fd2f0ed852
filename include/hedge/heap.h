/* heap.h: the collected heap: layouts, allocation, references, global roots.
 *
 * Three rules:
 *  1. References live on task stacks, in heap objects, or in slots given to hg_root_add. malloc
 *     memory and static variables are not scanned.
 *  2. A store of a reference into an object that others can reach goes through hg_ref_store
 *     (hg_set). Struct assignment and memcpy are stores too: hg_refs_copy, hg_object_copy. A slot
 *     on another task's stack counts as one that others can reach.
 *     Filling a fresh object before anyone else can reach it needs no barrier: a plain store into a
 *     field that is still NULL. Overwriting a reference that it holds already does need it, if a
 *     safepoint (an allocation) lay between: building a list by `head->list = new` in a loop.
 *  3. A reference keeps its object alive from anywhere inside the object. A pointer just past its
 *     end does not.
 * Objects never move. They are aligned to 16 bytes.
 */
#ifndef HEDGE_HEAP_H
#define HEDGE_HEAP_H
#include <hedge/runtime.h>

HG_BEGIN_DECLS

/* ---- layouts: static const, at file scope, never unloaded while a runtime is open ---- */

typedef struct hg_tracer hg_tracer;
typedef enum {
    HG_KIND_LEAF,         /* no references */
    HG_KIND_CONSERVATIVE, /* every aligned word may be one */
    HG_KIND_REFS,         /* every word is one or NULL */
    HG_KIND_TYPED,        /* references at the offsets `fields`, and a repeated tail */
    HG_KIND_TRACED        /* the callback names them */
} hg_kind;

typedef struct hg_layout {
    uint32_t version, kind;
    const char *name;       /* for heap walks and reports */
    const uint32_t *fields; /* TYPED: byte offsets of references, multiples of 8 */
    uint32_t nfields;
    uint32_t tail, stride; /* TYPED: from byte `tail` on, a reference each `stride` bytes to the
                            * end; stride 0: none */
    /* TRACED: gives hg_trace_ref each reference that lies in bytes from..to of obj. Runs on any
     * thread, beside mutators: relaxed loads only; an all-zero object is legal; takes no lock,
     * allocates nothing, never fails. */
    void (*trace)(hg_tracer *t, const void *obj, size_t from, size_t to);
    uintptr_t spare[4];
} hg_layout;

#define HG_LAYOUT_V1 1u
/* clang-format off */
#define HG_TYPED(name, fields)                                                             \
    { HG_LAYOUT_V1, HG_KIND_TYPED, name, fields,                                           \
      (uint32_t)(sizeof(fields) / sizeof *(fields)), 0, 0, 0, {0, 0, 0, 0} }
#define HG_TYPED_TAIL(name, fields, tail, stride)                                          \
    { HG_LAYOUT_V1, HG_KIND_TYPED, name, fields,                                           \
      (uint32_t)(sizeof(fields) / sizeof *(fields)), tail, stride, 0, {0, 0, 0, 0} }
#define HG_TRACED(name, fn) { HG_LAYOUT_V1, HG_KIND_TRACED, name, 0, 0, 0, 0, fn, {0, 0, 0, 0} }
/* clang-format on */

#define HG_LEAF         ((const hg_layout *)0)
#define HG_CONSERVATIVE ((const hg_layout *)1)
#define HG_REFS         ((const hg_layout *)2)

/* Only inside a trace callback: one reference (NULL and words that are none are ignored). */
HG_API void hg_trace_ref(hg_tracer *t, const void *ref);

/* ---- allocation ---- */

/* S W: a zeroed object of at least `size` bytes (0 counts as 1). Never NULL: when memory is short
 * it collects, then asks the out_of_memory hook, then ends the process with the sizes in the
 * message. An invalid layout is fatal. */
HG_API void *hg_alloc(size_t size, const hg_layout *layout)
    __attribute__((alloc_size(1), assume_aligned(16)));
/* S W: the same, but NULL when there is no memory, or size is absurd; no hook is called; everything
 * stays usable. NULL comes after two collections, which may have to wait for the limiter
 * (hard_limit in runtime.h). */
HG_API void *hg_try_alloc(size_t size, const hg_layout *layout);
/* Usable bytes of the object that ref points into; 0: not in this heap. */
HG_API size_t hg_size_of(const void *ref);
/* Start of the object that ref points into, or NULL. */
HG_API void *hg_base_of(const void *ref);
/* Keeps ref's object alive up to here: an ordinary use that the compiler cannot move or drop. */
static inline void hg_keep_alive(const void *ref) { __asm__ volatile("" : : "r"(ref) : "memory"); }

/* ---- references ---- */

HG_API extern uint32_t hg_i_marking; /* private: how many runtimes of the process mark now */
HG_API void hg_i_store(void *slot, void *ref); /* private: the store while one marks */

/* Stores a reference into a slot of an object that others can reach, or a global root: barrier,
 * then store-release. */
static inline void hg_ref_store(void *slot, void *ref)
{
    if (__builtin_expect(__atomic_load_n(&hg_i_marking, __ATOMIC_RELAXED) != 0, 0))
        hg_i_store(slot, ref);
    else
        __atomic_store_n((void **)slot, ref, __ATOMIC_RELEASE);
}
/* Compare-and-swap of a reference slot, barriered, acquire-release. expected is compared with the
 * slot. */
HG_API bool hg_ref_cas(void *slot, void *expected, void *desired);
/* Barriered exchange; returns the old reference. */
HG_API void *hg_ref_swap(void *slot, void *ref);
/* S: memmove of n reference words (or words that may be references) into a reachable object,
 * barriered; may overlap. */
HG_API void hg_refs_copy(void *dst, const void *src, size_t n);
/* S: struct assignment between two objects of one layout: copies min(size of dst, size of src)
 * bytes, barriered word by word. */
HG_API void hg_object_copy(void *dst, const void *src);
/* Moving a reference between stacks by hand: call it on the reference before the old place forgets
 * it. */
HG_API void hg_shade(const void *ref);

/* HG_REF(T): a field that a plain pointer assignment does not compile for. T is a pointer type. */
/* clang-format off */
#define HG_REF(T) union { T raw_; void *slot_; }
/* clang-format on */
#define hg_get(f) ((f).raw_)
/* Type-checked and barriered. */
#define hg_set(f, v) ((void)sizeof((f).raw_ = (v)), hg_ref_store(&(f).slot_, (void *)(v)))
/* Into a field that is still NULL, of an object that nobody else can reach yet. */
#define hg_init(f, v) ((void)((f).raw_ = (v)))

/* ---- global roots ---- */

/* any: makes n words from slot on a root until removed. Written with hg_ref_store. Never collects.
 * layout: HG_REFS or HG_CONSERVATIVE. -EINVAL: misaligned, n 0; -EEXIST: already a root;
 * -ENOMEM. */
HG_API HG_MUST int hg_root_add(hg_runtime *rt, void *slot, size_t n, const hg_layout *layout);
/* any: -ENOENT if no root begins at slot. */
HG_API int hg_root_remove(hg_runtime *rt, void *slot);

HG_END_DECLS
#endif
