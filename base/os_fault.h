/* os_fault.h: making calls to the operating system fail, for tests.
 *
 * A rule says which calls, and which of them: the n-th and so many after it, or one in so many at
 * random from a seed; and with which error, or that reads and writes do less than they were asked
 * to. Rules hold for the whole process. What can fail is listed in os_fault.def; os_linux.c and its
 * like ask here before each such call.
 *
 * In every build, since what is tested is what is shipped. A call pays one relaxed load of a word
 * that nobody writes; each of them is a system call otherwise, and the clock is not among them.
 *
 * Order: a rule is complete before `hg__os_faults` counts it (release), and does not change until
 * all are cleared. Setting and clearing are for one thread at a time; calls of other threads that
 * are under way may or may not see a change.
 */
#ifndef HG_BASE_OS_FAULT_H
#define HG_BASE_OS_FAULT_H
#include "base/assert.h"
#include "base/atomic.h"
#include <stddef.h>

enum hg_os_call {
#define OS_CALL(name, error) HG_OS_##name,
#include "base/os_fault.def"
    HG_OS_CALLS
};
#define HG_OS_BIT(name) (UINT64_C(1) << HG_OS_##name)

struct hg_os_fault {
    uint64_t calls;  /* which, by HG_OS_BIT */
    int error;       /* an errno; 0: each call's own (os_fault.def) */
    uint64_t nth;    /* from 1: this call fails, counted over all of `calls`; 0: at random */
    uint64_t count;  /* ... and so many in all from there on; 0: one */
    uint32_t one_in; /* nth 0: one in so many */
    uint64_t seed;   /* of the choice */
    size_t at_most;  /* not 0: no error, but no more bytes than this at once */
};

/* Adds a rule; of several that meet a call the first one holds. At most 16. */
void hg__os_fault_add(const struct hg_os_fault *rule);
/* Rules that a correct program cannot tell from an unlucky day: one in so many reads, writes and
 * waits is interrupted, one in so many reads and writes cut short. For the whole process; nothing
 * if there are rules already. */
void hg__os_fault_shake(uint32_t one_in, uint64_t seed);
/* Removes all rules. */
void hg__os_fault_clear(void);
/* How many calls rule i (in the order of adding) has met, and how many it has changed. */
uint64_t hg__os_fault_met(unsigned i);
uint64_t hg__os_fault_hit(unsigned i);
/* "ACCEPT". */
const char *hg__os_call_name(enum hg_os_call call);

/* How many rules there are. Writers: add, clear (release); readers: every injectable call. */
extern _Atomic uint32_t hg__os_faults;
bool hg__os_fails_slow(enum hg_os_call call, size_t *bytes);

/* Before a call: true: it fails, with errno set. */
static inline bool hg__os_fails(enum hg_os_call call)
{
    return hg_unlikely(hg_load_rlx(&hg__os_faults) != 0) && hg__os_fails_slow(call, NULL);
}
/* The same for a call that moves *bytes, which may be lowered, not to 0. */
static inline bool hg__os_fails_moving(enum hg_os_call call, size_t *bytes)
{
    return hg_unlikely(hg_load_rlx(&hg__os_faults) != 0) && hg__os_fails_slow(call, bytes);
}

#endif
