/* stack.c: the memory of tasks: stacks with their control blocks, the registry, pools, and giving
 * memory back.
 *
 *   slab, one mapping:  | guard | stack 0 | guard | stack 1 | ...
 *   stack:              lo [ ... grows down ... | arguments | control block ] hi (rest: up to 1
 *   KiB)
 *
 * The pitch of stacks is their size and one guard page: with a power of two the tops of all stacks
 * would compete for the same few sets of the TLB. For the same reason control blocks lie at one of
 * 16 distances from the end, a cache line apart. Slabs use no huge pages, as most stacks touch one
 * page only.
 *
 * A control block is made once, at first use of its place: guard, entry in the registry; it stays
 * until the scheduler is closed, whatever tasks live in it. So whoever finds one in the registry,
 * or holds a stale pointer, may read it. Pools of dead stacks, by size (class), last in first out:
 * per proc for the default size, global ones under STACKS.
 *
 * Giving back. hg__stack_trim walks the registry and discards pages below what is in use of stacks
 * that were deep once and have not run since it came by last. It must keep everybody off such a
 * stack meanwhile, without a cost for those who run tasks: it claims the scan words of a few
 * stacks, then makes a handshake. Note [TRIM]: a proc polls between taking a task from a queue and
 * looking at its claim. If it looked before the claim was made, it has run the task when it answers
 * the handshake, and the trimmer finds the state RUNNING; if it looks after its answer, it sees the
 * claim and stays away. (If it ran, ended, and another task was born there: births write the word.)
 * Only waiting tasks are claimed, and only in OFF: nobody else claims then.
 * Dead stacks that were deep are kept on a list of their own, from which the trimmer takes them
 * under STACKS: nobody ever waits for it.
 *
 * Locks: STACKS for slabs, classes, and adding to the registry. The registry is read without one:
 * an entry is written before `registered` passes it (release).
 */
#include "runtime/sched/internal.h"

#include <string.h>

#if HG_ASAN
void __asan_unpoison_memory_region(void const volatile *p, size_t bytes);
#endif

struct hg_slab {
    struct hg_slab *next;
    void *base;
    size_t bytes;
};

#define CHUNK          4096u /* registry entries */
#define REGISTERED_MAX (256u * CHUNK)
#define STACK_MIN      ((size_t)16 << 10)
#define STACK_MAX      ((size_t)8 << 20)
#define SLAB_STACKS    64u
#define SLAB_BYTES     ((size_t)4 << 20) /* stacks larger than 64 KiB: about so many bytes a slab */
#define COLOURS        16u
#define POOL_MAX       64u /* default stacks that a proc keeps */
#define POOL_BATCH     32u
#define DEEP_UNITS     4u /* a dead stack that was deeper is trimmed before it is pooled */

/* ---- making control blocks ---- */

void hg__stacks_init(struct hg_sched *s, size_t stack_bytes)
{
    hg__lock_init(&s->stacks_lock, HG_RANK_STACKS);
    s->stack_bytes = hg_round_up(stack_bytes, hg__os_page_size());
    s->classes[0].bytes = s->stack_bytes;
    for (unsigned i = 1; i < HG_STACK_CLASSES; i++)
        s->classes[i].bytes = hg_round_up(STACK_MIN << (i - 1), hg__os_page_size());
}

int hg__stack_class(const struct hg_sched *s, size_t bytes)
{
    if (bytes == 0 || bytes == s->stack_bytes)
        return 0;
    if (bytes > STACK_MAX)
        return -1;
    int pool = 1;
    while (s->classes[pool].bytes < bytes)
        pool++;
    return s->classes[pool].bytes == s->stack_bytes ? 0 : pool;
}

size_t hg__stack_bytes(const struct hg_tcb *t) { return t->sched->classes[t->stack_class].bytes; }

static bool new_slab(struct hg_sched *s, struct hg_stack_class *c, size_t pitch)
{
    struct hg_meta *meta = s->world->meta;
    size_t n =
        c->bytes <= SLAB_BYTES / SLAB_STACKS ? SLAB_STACKS : hg_max_size(1, SLAB_BYTES / c->bytes);
    struct hg_slab *slab = hg__meta_alloc(meta, sizeof *slab);
    void *base = slab != NULL ? hg__os_map(n * pitch, hg__os_page_size()) : NULL;
    if (base == NULL) {
        hg__meta_free(meta, slab, sizeof *slab);
        return false;
    }
    hg__os_hugepage(base, n * pitch, false);
    *slab = (struct hg_slab){s->slabs, base, n * pitch};
    s->slabs = slab;
    c->at = (uintptr_t)base;
    c->end = c->at + n * pitch;
    return true;
}

static void guard(uintptr_t at, size_t bytes)
{
    static _Atomic uint32_t told; /* once for the process */
    int got = hg__os_guard((void *)at, bytes);
    if (hg_unlikely(got < 0) && hg_xchg_acqrel(&told, 1u) == 0)
        hg__warn("no guard below the stack of a task (error %d): an overflow would go unnoticed",
                 -got);
}

/* A place in the registry, or NULL. */
static struct hg_tcb **new_entry_locked(struct hg_sched *s)
{
    uint32_t n = hg_load_rlx(&s->registered);
    if (n >= REGISTERED_MAX)
        return NULL;
    struct hg_tcb ***chunk = &s->registry[n / CHUNK];
    if (*chunk == NULL)
        *chunk = hg__meta_alloc(s->world->meta, CHUNK * sizeof **chunk);
    return *chunk != NULL ? &(*chunk)[n % CHUNK] : NULL;
}

static struct hg_tcb *carve_locked(struct hg_sched *s, uint32_t pool)
{
    struct hg_stack_class *c = &s->classes[pool];
    size_t page = hg__os_page_size(), pitch = c->bytes + page;
    struct hg_tcb **entry = new_entry_locked(s);
    if (entry == NULL || (c->at == c->end && !new_slab(s, c, pitch)))
        return NULL;
    guard(c->at, page);
    uint32_t slot = hg_load_rlx(&s->registered);
    uintptr_t end = c->at + pitch, colour = slot % COLOURS * 64;
    struct hg_tcb *t = (struct hg_tcb *)hg_round_down(end - colour - sizeof *t, 64);
    t->stack.lo = c->at + page;
    t->stack.hi = (uintptr_t)(t + 1);
    t->stack.sp = (uintptr_t)t;
    t->sched = s;
    t->slot = slot;
    t->stack_class = pool;
    hg_store_rlx(&t->pages, 1);
    hg_add_rlx(&s->stack_bytes_used, (int64_t)HG_STACK_UNIT);
    c->at = end;
    *entry = t;
    hg_store_rel(&s->registered, slot + 1);
    return t;
}

/* ---- pools ---- */

struct hg_tcb *hg__stack_get(struct hg_sched *s, struct hg_proc *p, uint32_t pool)
{
    struct hg_stack_class *c = &s->classes[pool];
    hg__lock(&s->stacks_lock);
    struct hg_tcb **from = c->free != NULL ? &c->free : &c->deep, *t = *from;
    if (t != NULL)
        *from = t->next;
    else
        t = carve_locked(s, pool);
    if (p != NULL && pool == 0) {
        while (p->free_count < POOL_BATCH && c->free != NULL) {
            struct hg_tcb *more = c->free;
            c->free = more->next;
            more->next = p->free_tasks;
            p->free_tasks = more;
            p->free_count++;
        }
    }
    hg__unlock(&s->stacks_lock);
    return t;
}

/* The proc keeps those that died last. */
static void pool_overflow(struct hg_sched *s, struct hg_proc *p)
{
    struct hg_tcb *last = p->free_tasks;
    for (uint32_t i = 1; i < POOL_MAX - POOL_BATCH; i++)
        last = last->next;
    struct hg_tcb *first = last->next, *end = first;
    last->next = NULL;
    p->free_count = POOL_MAX - POOL_BATCH;
    while (end->next != NULL)
        end = end->next;
    hg__lock(&s->stacks_lock);
    end->next = s->classes[0].free;
    s->classes[0].free = first;
    hg__unlock(&s->stacks_lock);
}

void hg__stack_put(struct hg_sched *s, struct hg_proc *p, struct hg_tcb *t)
{
    bool deep = hg_load_rlx(&t->pages) > DEEP_UNITS;
    if (p != NULL && t->stack_class == 0 && !deep) {
        t->next = p->free_tasks;
        p->free_tasks = t;
        if (hg_unlikely(++p->free_count == POOL_MAX))
            pool_overflow(s, p);
        return;
    }
    struct hg_stack_class *c = &s->classes[t->stack_class];
    struct hg_tcb **list = deep ? &c->deep : &c->free;
    hg__lock(&s->stacks_lock);
    t->next = *list;
    *list = t;
    hg__unlock(&s->stacks_lock);
}

HG_SCANS void hg__stack_clear(struct hg_tcb *t, uintptr_t sp)
{
    uintptr_t page = hg_round_down(sp, hg__os_page_size());
    for (uintptr_t at = page; at < sp; at += sizeof(uintptr_t))
        *(volatile uintptr_t *)at = 0;
    if (page > t->stack.lo)
        hg__os_discard((void *)t->stack.lo, page - t->stack.lo);
}

void hg__stack_forget_frames(struct hg_tcb *t)
{
#if HG_ASAN
    __asan_unpoison_memory_region((void *)t->stack.lo, (uintptr_t)t - t->stack.lo);
#else
    (void)t;
#endif
}

void hg__stacks_fini(struct hg_sched *s)
{
    struct hg_meta *meta = s->world->meta;
#if HG_TSAN
    for (uint32_t i = 0; i < hg_load_rlx(&s->registered); i++) {
        if (hg__task_at(s, i)->stack.sanitizer != NULL)
            __tsan_destroy_fiber(hg__task_at(s, i)->stack.sanitizer);
    }
#endif
    for (unsigned i = 0; i < HG_COUNT_OF(s->registry); i++)
        hg__meta_free(meta, s->registry[i], CHUNK * sizeof *s->registry[i]);
    while (s->slabs != NULL) {
        struct hg_slab *slab = s->slabs;
        s->slabs = slab->next;
#if HG_ASAN
        __asan_unpoison_memory_region(slab->base, slab->bytes); /* frames that never returned */
#endif
        hg__os_unmap(slab->base, slab->bytes);
        hg__meta_free(meta, slab, sizeof *slab);
    }
}

/* ---- size and trimming ---- */

void hg__stack_deepened(struct hg_tcb *t, uint32_t pages)
{
    uint32_t more = pages - hg_load_rlx(&t->pages);
    hg_store_rlx(&t->pages, (uint16_t)pages);
    hg_add_rlx(&t->sched->stack_bytes_used, (int64_t)(more * HG_STACK_UNIT));
}

#define SAMPLES 512u

HG_SCANS int64_t hg__stack_scannable(struct hg_sched *s)
{
    uint32_t n = hg_load_acq(&s->registered);
    uint32_t step = n / SAMPLES + 1;
    /* Another start each time, so that a pattern in the registry does not stay unseen. */
    uint32_t start = (uint32_t)hg_load_rlx(&s->next_id) % step;
    int64_t bytes = 0, seen = 0;
    for (uint32_t i = start; i < n; i += step, seen++) {
        struct hg_tcb *t = hg__task_at(s, i);
        if (hg_load_acq(&t->state) != HG_TASK_FREE)
            bytes += (int64_t)(t->stack.hi - __atomic_load_n(&t->stack.sp, __ATOMIC_RELAXED));
    }
    return seen == 0 ? 0 : bytes * (int64_t)n / seen;
}

/* What of t is in use while it is suspended, in units from hi down. */
static uint32_t units_in_use(const struct hg_tcb *t, uint32_t state)
{
    bool dead = state == HG_TASK_FREE;
    uintptr_t sp = dead ? (uintptr_t)t : __atomic_load_n(&t->stack.sp, __ATOMIC_RELAXED);
    return (uint32_t)((t->stack.hi - sp + HG_STACK_UNIT - 1) / HG_STACK_UNIT);
}

/* Claims t if it waits, was two units deeper than now, and has not run since the last time. */
static bool claim_for_trim(struct hg_tcb *t, uint32_t claimed, uint32_t *before)
{
    uint32_t state = hg_load_acq(&t->state);
    uint64_t wait = hg_load_acq(&t->wait);
    bool rested = t->trim_seen == wait;
    t->trim_seen = wait;
    if (!rested || state != HG_TASK_WAITING || hg_load_rlx(&t->pages) < units_in_use(t, state) + 2)
        return false;
    *before = hg_load_rlx(&t->stack.scan);
    return hg_cas_acqrel(&t->stack.scan, before, claimed);
}

#define KEPT_BELOW 256 /* below the stack pointer: a birth's first frame, the red zone */

/* t is suspended, and nobody else can take it: claimed, or dead and the caller's alone. */
static bool trim(struct hg_tcb *t)
{
    uint32_t state = hg_load_acq(&t->state);
    uint32_t used = units_in_use(t, state), was = hg_load_rlx(&t->pages);
    if (was < used + 2)
        return false;
    size_t page = hg__os_page_size();
    uintptr_t sp = state == HG_TASK_FREE ? (uintptr_t)t : t->stack.sp;
    uintptr_t to = hg_round_down(sp - KEPT_BELOW, page);
    if (to > t->stack.lo) /* from lo: calls between two switches may have gone deeper than seen */
        hg__os_discard((void *)t->stack.lo, to - t->stack.lo);
    hg_store_rlx(&t->pages, (uint16_t)used);
    hg_sub_rlx(&t->sched->stack_bytes_used, (int64_t)((was - used) * HG_STACK_UNIT));
    return true;
}

#define TRIM_BATCH 8     /* claimed at a time: who wants to run on one waits for all at worst */
#define TRIM_LOOK  4096u /* registry entries that a call looks at */

/* Goes on through the registry until n stacks are claimed or *look entries seen. Returns the number
 * of claims. */
static int claim_batch(struct hg_sched *s, struct hg_tcb **t, uint32_t *before, uint32_t claimed,
                       int n, uint32_t *look)
{
    uint32_t registered = hg_load_acq(&s->registered);
    int claims = 0;
    for (; *look > 0 && claims < n; --*look) {
        s->trim_at = s->trim_at + 1 < registered ? s->trim_at + 1 : 0;
        t[claims] = hg__task_at(s, s->trim_at);
        if (claim_for_trim(t[claims], claimed, &before[claims]))
            claims++;
    }
    return claims;
}

/* Trims waiting tasks' stacks, at most n; returns how many. */
static int trim_waiting(struct hg_sched *s, int n)
{
    struct hg_tcb *t[TRIM_BATCH];
    uint32_t before[TRIM_BATCH], registered = hg_load_acq(&s->registered);
    uint32_t claimed = hg_load_rlx(&s->world->cycle) * 4 + HG_SCAN_CLAIMED;
    uint32_t look = registered < TRIM_LOOK ? registered : TRIM_LOOK;
    int trimmed = 0;
    while (n > 0 && look > 0) {
        int claims = claim_batch(s, t, before, claimed, n < TRIM_BATCH ? n : TRIM_BATCH, &look);
        if (claims == 0)
            break;
        n -= claims;
        bool answered = hg__handshake(s->world, HG_REQ_NOP); /* Note [TRIM] */
        for (int i = 0; i < claims; i++) {
            /* It may have run after all, and ended, and another task been born there: births write
             * the word. */
            uint32_t state = hg_load_acq(&t[i]->state), seen = hg_load_acq(&t[i]->stack.scan);
            if (answered && seen == claimed &&
                (state == HG_TASK_WAITING || state == HG_TASK_RUNNABLE))
                trimmed += trim(t[i]);
            /* Release: the discard before anyone may run there. */
            (void)hg_cas_acqrel(&t[i]->stack.scan, &(uint32_t){claimed}, before[i]);
        }
    }
    return trimmed;
}

/* Trims dead stacks of the lists of deep ones, at most n. */
static int trim_dead(struct hg_sched *s, int n)
{
    int trimmed = 0;
    for (unsigned i = 0; i < HG_STACK_CLASSES; i++) {
        struct hg_stack_class *c = &s->classes[i];
        for (; trimmed < n; trimmed++) {
            hg__lock(&s->stacks_lock);
            struct hg_tcb *t = c->deep;
            if (t != NULL)
                c->deep = t->next;
            hg__unlock(&s->stacks_lock);
            if (t == NULL)
                break;
            trim(t);
            hg__stack_put(s, NULL, t);
        }
    }
    return trimmed;
}

int hg__stack_trim(struct hg_sched *s, int n)
{
    HG_ASSERT(hg__phase(s->world) == HG_PHASE_OFF);
    int dead = trim_dead(s, n);
    return dead + trim_waiting(s, n - dead);
}
