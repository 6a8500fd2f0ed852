/* os_fault.c: the rules of os_fault.h.
 *
 * A rule counts the calls that it meets. Whether the k-th of them fails is a function of the rule
 * and k alone, also at random (a hash of seed and k), so that a run is repeated by its seed as far
 * as threads make the same calls in the same order.
 */
#include "base/os_fault.h"

#include "base/bits.h"
#include "base/rand.h"
#include <errno.h>

enum { RULES = 16 };

_Atomic uint32_t hg__os_faults;

static struct {
    struct hg_os_fault rule;
    _Atomic uint64_t met, hit; /* writers: callers that the rule meets (relaxed: counts) */
} rules[RULES];

static const struct {
    const char *name;
    int error;
} calls[] = {
#define OS_CALL(name, error) {#name, error},
#include "base/os_fault.def"
};
_Static_assert(HG_OS_CALLS <= 64, "a bit for each in a rule");

void hg__os_fault_add(const struct hg_os_fault *rule)
{
    uint32_t n = hg_load_rlx(&hg__os_faults);
    HG_CHECK(n < RULES, "more than %d rules for faults", RULES);
    HG_CHECK(rule->nth != 0 || rule->one_in != 0, "a rule for faults that never holds");
    rules[n].rule = *rule;
    hg_store_rlx(&rules[n].met, UINT64_C(0));
    hg_store_rlx(&rules[n].hit, UINT64_C(0));
    hg_store_rel(&hg__os_faults, n + 1);
}

void hg__os_fault_shake(uint32_t one_in, uint64_t seed)
{
    static const uint64_t transfers =
        HG_OS_BIT(READ) | HG_OS_BIT(WRITEV) | HG_OS_BIT(RECV) | HG_OS_BIT(SEND);
    static const size_t most[] = {1, 100};
    if (hg_load_rlx(&hg__os_faults) != 0)
        return;
    if (one_in < 2)
        one_in = 2; /* a call that is always interrupted is never made */
    hg__os_fault_add(&(struct hg_os_fault){.calls = transfers | HG_OS_BIT(ACCEPT) |
                                                    HG_OS_BIT(RECVMSG) | HG_OS_BIT(SENDMSG) |
                                                    HG_OS_BIT(POLLER_WAIT) | HG_OS_BIT(WAIT),
                                           .error = EINTR,
                                           .one_in = one_in,
                                           .seed = seed});
    for (size_t i = 0; i < HG_COUNT_OF(most); i++)
        hg__os_fault_add(&(struct hg_os_fault){
            .calls = transfers, .at_most = most[i], .one_in = one_in, .seed = seed + 1 + i});
}

void hg__os_fault_clear(void) { hg_store_rel(&hg__os_faults, 0u); }

uint64_t hg__os_fault_met(unsigned i) { return hg_load_rlx(&rules[i].met); }

uint64_t hg__os_fault_hit(unsigned i) { return hg_load_rlx(&rules[i].hit); }

const char *hg__os_call_name(enum hg_os_call call) { return calls[call].name; }

/* Whether the k-th call (from 1) that r meets is one of those. */
static bool holds(const struct hg_os_fault *r, uint64_t k)
{
    if (r->nth != 0)
        return k >= r->nth && k - r->nth < (r->count != 0 ? r->count : 1);
    struct hg_rand rand = {r->seed + k * UINT64_C(0xd1342543de82ef95)};
    return hg_rand_below(&rand, r->one_in) == 0;
}

bool hg__os_fails_slow(enum hg_os_call call, size_t *bytes)
{
    uint32_t n = hg_load_acq(&hg__os_faults);
    for (uint32_t i = 0; i < n; i++) {
        const struct hg_os_fault *r = &rules[i].rule;
        if ((r->calls >> call & 1) == 0 || (r->at_most != 0 && bytes == NULL))
            continue;
        if (!holds(r, hg_add_rlx(&rules[i].met, UINT64_C(1)) + 1))
            continue;
        hg_add_rlx(&rules[i].hit, UINT64_C(1));
        if (r->at_most != 0) {
            *bytes = hg_min_size(*bytes, r->at_most);
            return false;
        }
        errno = r->error != 0 ? r->error : calls[call].error;
        return true;
    }
    return false;
}
