/* sanitize.h: which sanitizer the build has, and the calls that tell it of a switch of stacks. */
#ifndef HG_RUNTIME_MUT_SANITIZE_H
#define HG_RUNTIME_MUT_SANITIZE_H
#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__)
#define HG_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HG_ASAN 1
#endif
#endif
#if !defined(HG_ASAN)
#define HG_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__)
#define HG_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HG_TSAN 1
#endif
#endif
#if !defined(HG_TSAN)
#define HG_TSAN 0
#endif

/* For code that reads foreign stacks and objects beside their owners: scans by design. */
#define HG_SCANS __attribute__((no_sanitize("address"), no_sanitize("thread")))

#if HG_ASAN
#include <sanitizer/common_interface_defs.h>
void *__asan_get_current_fake_stack(void);
void *__asan_addr_is_in_fake_stack(void *fake_stack, void *addr, void **beg, void **end);
/* Leaving for [lo, lo + bytes). save NULL: this stack is not returned to. fiber:
 * ThreadSanitizer's. */
static inline void hg__san_start(void **save, uintptr_t lo, size_t bytes, void *fiber)
{
    (void)fiber;
    __sanitizer_start_switch_fiber(save, (const void *)lo, bytes);
}
static inline void hg__san_finish(void *saved, const void **lo, size_t *bytes)
{
    __sanitizer_finish_switch_fiber(saved, lo, bytes);
}
#elif HG_TSAN
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
/* Not seen by ThreadSanitizer itself: entered on one fiber, left on the other. */
__attribute__((no_sanitize("thread"))) static inline void hg__san_start(void **save, uintptr_t lo,
                                                                        size_t bytes, void *fiber)
{
    (void)save;
    (void)lo;
    (void)bytes;
    __tsan_switch_to_fiber(fiber, 0);
}
static inline void hg__san_finish(void *saved, const void **lo, size_t *bytes)
{
    (void)saved;
    (void)lo;
    (void)bytes;
}
#endif

#endif
