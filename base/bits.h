/* bits.h: rounding, bit scans and addresses. Pure arithmetic; no state. */
#ifndef HG_BASE_BITS_H
#define HG_BASE_BITS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HG_KIB ((size_t)1 << 10)
#define HG_MIB ((size_t)1 << 20)
#define HG_GIB ((size_t)1 << 30)

/* clang-format off */
#define hg_container_of(p, type, member) ((type *)(void *)((char *)(p) - offsetof(type, member)))
/* clang-format on */
#define HG_COUNT_OF(a) (sizeof(a) / sizeof *(a))

/* Index of the lowest / highest set bit. v must not be 0. */
static inline unsigned hg_ctz64(uint64_t v) { return (unsigned)__builtin_ctzll(v); }
static inline unsigned hg_log2(uint64_t v) { return 63u - (unsigned)__builtin_clzll(v); }
static inline unsigned hg_popcount64(uint64_t v) { return (unsigned)__builtin_popcountll(v); }

/* Rounds to a multiple of `a`, a power of two. The caller makes sure that rounding up cannot
 * wrap. */
static inline size_t hg_round_up(size_t v, size_t a) { return (v + a - 1) & ~(a - 1); }
static inline size_t hg_round_down(size_t v, size_t a) { return v & ~(a - 1); }
static inline bool hg_is_pow2(size_t v) { return v != 0 && (v & (v - 1)) == 0; }

static inline size_t hg_min_size(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t hg_max_size(size_t a, size_t b) { return a > b ? a : b; }

#endif
