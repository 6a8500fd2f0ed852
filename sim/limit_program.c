/* limit_program.c: the program: tasks that answer requests out of a live heap, and one that leaks.
 *
 * One worker per proc, flat out, so that what the collector takes is what the workers lack. An
 * operation allocates a chain of small objects, reads some entries of the live heap, computes for
 * some microseconds, and replaces an entry now and then: it costs the same whatever is alive. A
 * refused allocation (NULL) ends the operation; it does not count as one, as a server would answer
 * "try later".
 *
 * The leak grows with time and not with operations, so that the runs with and without a limit hold
 * the same at any moment. In scenario `hard` it is a cache: refused, its task goes without for
 * LIMIT_REFUSED_NS, then insists (hg_alloc), and the hook out_of_memory lets the cache go. Without
 * a limit the program lets go of it itself, at its full size. Only that one task touches the cache
 * and runs the hook.
 */
#include "sim/limit_program.h"
#include "sim/rng.h"
#include <errno.h>

#define ENTRY        1024 /* bytes; all words are references */
#define VALUE        64
#define CHUNK        1024 /* words of a chunk of the cache */
#define NODES        8    /* objects of a request, */
#define NODE         128  /* bytes each */
#define LOOKUPS      4
#define REPLACE      4    /* an entry in every so many operations */
#define COMPUTE      3000 /* rounds of the random generator: some microseconds */
#define YIELD        256  /* likewise: lets other tasks run */
#define LEAK_NS      INT64_C(2000000)
#define OTHER_NS     INT64_C(1000000)
#define OTHER_OBJECT 4096

/* near: what is alive, half-filled spans and the runtime's own data come to a little less than the
 * limit. */
const struct limit_scenario limit_scenarios[LIMIT_KINDS] = {
    [LIMIT_BELOW] = {"below", "the limit is below the live heap", 1.25, 0, 1, false},
    [LIMIT_NEAR] = {"near", "the live heap is just under the limit", 0.85, 0, 1, false},
    [LIMIT_LEAK] = {"leak", "a leak towards the limit and past it", 0.4, 0.9, 0.6, false},
    [LIMIT_HARD] = {"hard", "a hard limit and a cache that outgrows it", 0.4, 1.2, 0.5, true},
};

double limit_alive(const struct limit_scenario *s, double at)
{
    return s->live + s->leak * fmin(at / s->leak_until, 1);
}

static bool stopping(const struct limit_live *l)
{
    return atomic_load_explicit(&l->stop, memory_order_relaxed);
}

static int64_t add(_Atomic int64_t *counter, int64_t n)
{
    return atomic_fetch_add_explicit(counter, n, memory_order_relaxed) + n;
}

/* An entry with its value, or NULL. */
static void *entry_new(void)
{
    void **entry = hg_try_alloc(ENTRY, HG_REFS), *value;
    if (entry == NULL || (value = hg_try_alloc(VALUE, HG_LEAF)) == NULL)
        return NULL;
    hg_ref_store(entry, value);
    return entry;
}

int limit_program_build(struct limit_live *l)
{
    size_t each = ENTRY + VALUE + sizeof(void *);
    int err = hg_root_add(l->rt, &l->alive, 1, HG_REFS);
    if (err == 0)
        err = hg_root_add(l->rt, &l->cache, 1, HG_REFS);
    if (err != 0)
        return err;
    l->entries = (size_t)(l->scenario->live * (double)l->opt->limit) / each;
    hg_ref_store(&l->alive, hg_alloc(l->entries * sizeof(void *), HG_REFS));
    for (size_t i = 0; i < l->entries; i++) {
        void *entry = entry_new();
        if (entry == NULL)
            return -ENOMEM;
        hg_ref_store(&l->alive[i], entry);
    }
    return 0;
}

/* ---- workers ---- */

/* One operation. False: it was refused. */
static bool operate(struct limit_live *l, struct sim_rng *rng, int64_t number)
{
    void **chain = NULL;
    uintptr_t sum = 0;
    for (int i = 0; i < NODES; i++) {
        void **node = hg_try_alloc(NODE, HG_REFS);
        if (node == NULL)
            return false;
        node[0] = chain; /* fresh, and nobody else's */
        chain = node;
    }
    for (int i = 0; i < LOOKUPS; i++) {
        void **entry = l->alive[sim_rng_below(rng, (uint32_t)l->entries)];
        sum += *(const uintptr_t *)entry[0];
    }
    for (int i = 0; i < COMPUTE; i++)
        sum ^= (uintptr_t)sim_rng_next(rng);
    __asm__ volatile("" : : "r"(sum), "r"(chain));
    if (number % REPLACE != 0)
        return true;
    void *entry = entry_new();
    if (entry != NULL)
        hg_ref_store(&l->alive[sim_rng_below(rng, (uint32_t)l->entries)], entry);
    return entry != NULL;
}

static void work(void *arg)
{
    struct limit_worker *w = arg;
    struct limit_live *l = w->live;
    struct sim_rng rng = {(uint64_t)(w - l->worker) + 1};
    for (int64_t i = 1; !stopping(l); i++) {
        if (operate(l, &rng, i))
            add(&w->ops, 1);
        else
            add(&l->refused, 1);
        if (i % YIELD == 0)
            hg_yield();
    }
    hg_waitgroup_done(&l->done);
}

int64_t limit_program_ops(const struct limit_live *l)
{
    int64_t sum = 0;
    for (int i = 0; i < l->workers; i++)
        sum += atomic_load_explicit(&l->worker[i].ops, memory_order_relaxed);
    return sum;
}

/* ---- the leak ---- */

static void let_go(struct limit_live *l)
{
    hg_ref_store(&l->cache, NULL);
    l->leaked = 0;
    l->leak_from = hg_now();
    add(&l->let_go, 1);
}

/* Puts one more entry into the cache. insist: with hg_alloc, which calls the hook rather than give
 * NULL. False: refused. */
static bool leak_entry(struct limit_live *l, bool insist)
{
    if (l->cache == NULL || l->in_chunk == CHUNK) {
        void **chunk = insist ? hg_alloc(CHUNK * sizeof *chunk, HG_REFS)
                              : hg_try_alloc(CHUNK * sizeof *chunk, HG_REFS);
        if (chunk == NULL)
            return false;
        chunk[0] = l->cache;
        hg_ref_store(&l->cache, chunk);
        l->in_chunk = 1;
        l->leaked += (int64_t)(CHUNK * sizeof *chunk);
    }
    void *entry = insist ? hg_alloc(ENTRY, HG_REFS) : hg_try_alloc(ENTRY, HG_REFS);
    if (entry == NULL)
        return false;
    if (l->cache == NULL) /* the hook let go of it meanwhile: so does this entry */
        return true;
    hg_ref_store(&l->cache[l->in_chunk++], entry);
    l->leaked += ENTRY;
    return true;
}

/* Refused: goes without for a while, then insists until the hook has let the cache go. */
static void meet_refusal(struct limit_live *l)
{
    int64_t before = atomic_load_explicit(&l->let_go, memory_order_relaxed);
    add(&l->refused, 1);
    hg_sleep(LIMIT_REFUSED_NS);
    while (!stopping(l) && atomic_load_explicit(&l->let_go, memory_order_relaxed) == before)
        leak_entry(l, true);
}

/* What it should hold now. */
static int64_t leak_wanted(const struct limit_live *l)
{
    double all = l->scenario->leak * (double)l->opt->limit;
    double time = l->scenario->leak_until * (double)(l->end - l->begin);
    double wanted = all * (double)(hg_now() - l->leak_from) / time;
    return (int64_t)fmin(wanted, all);
}

static void leak(void *arg)
{
    struct limit_live *l = arg;
    int64_t all = (int64_t)(l->scenario->leak * (double)l->opt->limit);
    l->leak_from = hg_now();
    while (!stopping(l)) {
        int64_t wanted = leak_wanted(l);
        while (l->leaked < wanted && !stopping(l)) {
            if (!leak_entry(l, false)) {
                meet_refusal(l);
                break;
            }
        }
        if (l->scenario->hard && l->leaked >= all)
            let_go(l);
        hg_sleep(LEAK_NS);
    }
    hg_waitgroup_done(&l->done);
}

int limit_program_start(struct limit_live *l)
{
    int err = 0;
    for (int i = 0; i < l->workers && err == 0; i++) {
        l->worker[i].live = l;
        hg_waitgroup_add(&l->done, 1);
        err = hg_go(work, &l->worker[i]);
    }
    if (err == 0 && l->scenario->leak > 0) {
        hg_waitgroup_add(&l->done, 1);
        err = hg_go(leak, l);
    }
    return err;
}

/* ---- hooks, and the other runtime ---- */

void limit_on_passed(void *user, int64_t bytes)
{
    struct limit_live *l = user;
    (void)bytes;
    add(&l->passed, 1);
}

bool limit_on_no_memory(void *user, size_t wanted)
{
    struct limit_live *l = user;
    (void)wanted;
    add(&l->no_memory, 1);
    if (l->cache == NULL)
        return false; /* nothing that could be let go of: the runtime's message ends the process */
    let_go(l);
    return true;
}

void limit_other_task(void *live)
{
    struct limit_live *l = live;
    int64_t last = hg_now(), longest = 0;
    while (!stopping(l)) {
        hg_keep_alive(hg_alloc(OTHER_OBJECT, HG_REFS));
        int64_t now = hg_now();
        longest = now - last > longest ? now - last : longest;
        last = now;
        atomic_store_explicit(&l->other_wait_ns, longest, memory_order_relaxed);
        add(&l->other_ops, 1);
        hg_sleep(OTHER_NS);
    }
    atomic_store_explicit(&l->other_done, true, memory_order_release);
}
