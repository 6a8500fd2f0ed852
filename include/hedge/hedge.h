/* hedge.h: a garbage-collected runtime for C: tasks, a heap that is collected while they run, and a
 * pacer that hedges. This header includes all of the public ones. */
#ifndef HEDGE_HEDGE_H
#define HEDGE_HEDGE_H
#include <hedge/blocking.h>
#include <hedge/chan.h>
#include <hedge/core.h>
#include <hedge/counter.h>
#include <hedge/group.h>
#include <hedge/heap.h>
#include <hedge/histogram.h>
#include <hedge/io.h>
#include <hedge/pool.h>
#include <hedge/runtime.h>
#include <hedge/signal.h>
#include <hedge/stats.h>
#include <hedge/sync.h>
#include <hedge/task.h>
#include <hedge/timer.h>
#endif
