/* objpool.h: making a pool, for rt, which knows what a runtime is made of. */
#ifndef HG_RUNTIME_SYNC_OBJPOOL_H
#define HG_RUNTIME_SYNC_OBJPOOL_H
#include "runtime/gc/gc.h"
#include <hedge/pool.h>

/* hg_objpool_new on the runtime whose collector this is. */
int hg__objpool_new(struct hg_gc *g, const hg_objpool_attr *attr, hg_objpool **out);

#endif
