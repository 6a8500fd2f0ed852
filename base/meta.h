/* meta.h: memory for the runtime's own data (spans, tables, work buffers), kept apart from the
 * collected heap.
 *
 * One arena per runtime: closing it frees everything in one call, and its size is a statistic. Two
 * backends implement this contract: meta_jemalloc.c (an own jemalloc arena) and meta_mmap.c
 * (regions from the kernel; sanitizer builds and the shared library). Which one is in a build is
 * fixed at configure time (HEDGE_JEMALLOC).
 *
 * Ordering: calls may come from any thread; a lock of rank META is held inside at most.
 * Stack: up to 4 KiB (jemalloc), so never called on a task's stack.
 */
#ifndef HG_BASE_META_H
#define HG_BASE_META_H
#include <stddef.h>
#include <stdint.h>

struct hg_meta;

/* A new arena; NULL when the system has no memory. */
struct hg_meta *hg__meta_open(void);
/* Frees the arena and all that was allocated from it. */
void hg__meta_close(struct hg_meta *a);

/* Zeroed, 16-byte aligned; NULL when out of memory. Blocks of 64 bytes and more are aligned to a
 * cache line. */
void *hg__meta_alloc(struct hg_meta *a, size_t bytes);
/* Frees a block; bytes as given to hg__meta_alloc. p may be NULL. */
void hg__meta_free(struct hg_meta *a, void *p, size_t bytes);

/* Bytes handed out and not freed. */
size_t hg__meta_bytes(struct hg_meta *a);
/* "jemalloc" or "mmap". */
const char *hg__meta_backend(void);

#endif
