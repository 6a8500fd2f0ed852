/* atomic.h: atomic accesses with their memory order in the name.
 *
 * Purpose: every access to a shared field says which order it needs, at the place where it is made.
 * The bare operators on _Atomic objects are silently seq_cst and are not used in this project; sc
 * forms here are spelt out and each use says why nothing weaker will do.
 *
 * Orders: rlx (no order), acq (loads), rel (stores), acqrel (read-modify-write), sc.
 * All are macros over the C11 generic functions and work on any _Atomic scalar.
 */
#ifndef HG_BASE_ATOMIC_H
#define HG_BASE_ATOMIC_H
#include <stdatomic.h>
#include <stdint.h>

#define hg_load_rlx(p) atomic_load_explicit((p), memory_order_relaxed)
#define hg_load_acq(p) atomic_load_explicit((p), memory_order_acquire)
#define hg_load_sc(p)  atomic_load_explicit((p), memory_order_seq_cst)

#define hg_store_rlx(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define hg_store_rel(p, v) atomic_store_explicit((p), (v), memory_order_release)
#define hg_store_sc(p, v)  atomic_store_explicit((p), (v), memory_order_seq_cst)

/* Read-modify-write operations return the old value. */
#define hg_add_rlx(p, v)     atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
#define hg_add_acqrel(p, v)  atomic_fetch_add_explicit((p), (v), memory_order_acq_rel)
#define hg_add_sc(p, v)      atomic_fetch_add_explicit((p), (v), memory_order_seq_cst)
#define hg_sub_rlx(p, v)     atomic_fetch_sub_explicit((p), (v), memory_order_relaxed)
#define hg_sub_acqrel(p, v)  atomic_fetch_sub_explicit((p), (v), memory_order_acq_rel)
#define hg_sub_sc(p, v)      atomic_fetch_sub_explicit((p), (v), memory_order_seq_cst)
#define hg_or_rlx(p, v)      atomic_fetch_or_explicit((p), (v), memory_order_relaxed)
#define hg_or_acqrel(p, v)   atomic_fetch_or_explicit((p), (v), memory_order_acq_rel)
#define hg_or_sc(p, v)       atomic_fetch_or_explicit((p), (v), memory_order_seq_cst)
#define hg_and_rlx(p, v)     atomic_fetch_and_explicit((p), (v), memory_order_relaxed)
#define hg_and_acqrel(p, v)  atomic_fetch_and_explicit((p), (v), memory_order_acq_rel)
#define hg_and_sc(p, v)      atomic_fetch_and_explicit((p), (v), memory_order_seq_cst)
#define hg_xchg_acqrel(p, v) atomic_exchange_explicit((p), (v), memory_order_acq_rel)
#define hg_xchg_sc(p, v)     atomic_exchange_explicit((p), (v), memory_order_seq_cst)

/* Adds to a word that only the caller writes (a cell of its proc): no read-modify-write, as there
 * is nobody to lose a race against; readers elsewhere see the old value or the new one. */
#define hg_own_add(p, v) hg_store_rlx((p), hg_load_rlx(p) + (v))

/* Strong compare-and-swap: `e` points to the expected value and gets the found one when it fails
 * (acquire). */
#define hg_cas_rlx(p, e, v)                                                      \
    atomic_compare_exchange_strong_explicit((p), (e), (v), memory_order_relaxed, \
                                            memory_order_relaxed)
#define hg_cas_acqrel(p, e, v)                                                   \
    atomic_compare_exchange_strong_explicit((p), (e), (v), memory_order_acq_rel, \
                                            memory_order_acquire)
#define hg_cas_sc(p, e, v)                                                       \
    atomic_compare_exchange_strong_explicit((p), (e), (v), memory_order_seq_cst, \
                                            memory_order_seq_cst)

#define hg_fence_acq() atomic_thread_fence(memory_order_acquire)
#define hg_fence_rel() atomic_thread_fence(memory_order_release)
#define hg_fence_sc()  atomic_thread_fence(memory_order_seq_cst)

/* A hint to the core in a bounded spin. */
static inline void hg_cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

#endif
