/* kv_result.h: from a run's live state and its samples to its figures. The runtime is gone:
 * everything is still. */
#ifndef HG_SIM_KV_RESULT_H
#define HG_SIM_KV_RESULT_H
#include "sim/kv_sample.h"

void kv_result_make(struct kv_result *r, const struct kv_options *opt,
                    const struct kv_policy *policy, int repetition, bool interrupted,
                    const struct kv_live *live, struct kv_samples *s);

#endif
