/* test_counter.c: counters and gauges: sums from tasks, threads and blocking regions, setting,
 * names, the list of all figures. */
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

TestSuite(counter, .timeout = 60);

static hg_counter *new_counter(const char *name)
{
    hg_counter *c = NULL;
    CHECK(hg_counter_new(hg_current(), name, &c) == 0);
    return c;
}

/* ---- sums ---- */

struct adding {
    hg_counter *c;
    hg_gauge *g;
    hg_waitgroup done;
    int rounds;
};

static void add_in_task(void *arg)
{
    struct adding *a = arg;
    for (int i = 0; i < a->rounds; i++) {
        hg_counter_add(a->c, 3);
        hg_gauge_add(a->g, i % 2 == 0 ? 1 : -1);
        if (i % 100 == 0)
            hg_yield(); /* and go on on another proc, perhaps */
        if (i % 1000 == 0) {
            hg_block_enter();
            hg_counter_add(a->c, 1);
            hg_block_leave();
        }
    }
    hg_waitgroup_done(&a->done);
}

static void *add_in_thread(void *arg)
{
    struct adding *a = arg;
    for (int i = 0; i < a->rounds; i++) {
        hg_counter_add(a->c, 3);
        hg_gauge_add(a->g, i % 2 == 0 ? 1 : -1);
    }
    return NULL;
}

static int adds_up(void *arg)
{
    enum { TASKS = 8, THREADS = 2 };
    struct adding a = {.rounds = 2 * (int)test_scaled(10000)};
    pthread_t thread[THREADS];
    int64_t last = 0;
    (void)arg;
    a.c = new_counter("/test/adds:count");
    CHECK(hg_gauge_new(hg_current(), "/test/level:count", &a.g) == 0);
    hg_waitgroup_add(&a.done, TASKS);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, add_in_thread, &a) == 0);
    for (int i = 0; i < TASKS; i++)
        go(add_in_task, &a);
    while (hg_waitgroup_wait(&a.done, HG_NOW) != 0) {
        int64_t now = hg_counter_read(a.c); /* only grows, also seen from here */
        CHECK(now >= last);
        last = now;
        hg_yield();
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    int64_t regions = (int64_t)TASKS * ((a.rounds + 999) / 1000);
    CHECK(hg_counter_read(a.c) == (int64_t)3 * a.rounds * (TASKS + THREADS) + regions);
    CHECK(hg_gauge_read(a.g) == 0);
    hg_counter_free(a.c);
    hg_gauge_free(a.g);
    return 0;
}
Test(counter, adds_up) { cr_assert_eq(run_on(2, adds_up, NULL), 0); }

/* Beyond 32 bits, below zero, and around. */
static int wide(void *arg)
{
    hg_counter *c = new_counter("/test/wide:count");
    (void)arg;
    hg_counter_add(c, INT64_C(1) << 40);
    hg_counter_add(c, -1);
    CHECK(hg_counter_read(c) == (INT64_C(1) << 40) - 1);
    hg_counter_add(c, -(INT64_C(1) << 41));
    CHECK(hg_counter_read(c) == -(INT64_C(1) << 40) - 1);
    hg_counter_free(c);
    c = new_counter("/test/wide:count");
    hg_counter_add(c, INT64_MAX);
    hg_counter_add(c, 1);
    CHECK(hg_counter_read(c) == INT64_MIN);
    hg_counter_free(c);
    return 0;
}
Test(counter, wide) { cr_assert_eq(run_on(1, wide, NULL), 0); }

/* ---- gauges ---- */

/* Levels are set from several threads while additions of 0 in sum go on: in the end the level is
 * one that was set. */
struct setting {
    hg_gauge *g;
    _Atomic int stop;
};
static void *set_level(void *arg)
{
    struct setting *s = arg;
    for (int i = 0; i < 2000; i++)
        hg_gauge_set(s->g, i % 2 == 0 ? 1000 : 2000);
    return NULL;
}
static void add_zero(void *arg)
{
    struct setting *s = arg;
    while (hg_load_acq(&s->stop) == 0) {
        hg_gauge_add(s->g, 1);
        hg_gauge_add(s->g, -1);
        hg_safepoint();
    }
    hg_store_rel(&s->stop, 2);
}
static int sets(void *arg)
{
    struct setting s = {.g = NULL};
    pthread_t a, b;
    (void)arg;
    CHECK(hg_gauge_new(hg_current(), "/test/set:count", &s.g) == 0);
    hg_gauge_add(s.g, 5);
    CHECK(hg_gauge_read(s.g) == 5);
    hg_gauge_set(s.g, -7);
    CHECK(hg_gauge_read(s.g) == -7);
    go(add_zero, &s);
    hg_yield();
    CHECK(pthread_create(&a, NULL, set_level, &s) == 0);
    CHECK(pthread_create(&b, NULL, set_level, &s) == 0);
    CHECK(pthread_join(a, NULL) == 0);
    CHECK(pthread_join(b, NULL) == 0);
    hg_store_rel(&s.stop, 1);
    yield_until(&s.stop, 2);
    /* An addition and its opposite may lie on both sides of a set: the level is off by at most
     * one for each set that cut such a pair; the last one is what counts. */
    int64_t level = hg_gauge_read(s.g);
    CHECK(level >= 1999 && level <= 2001);
    hg_gauge_free(s.g);
    return 0;
}
Test(counter, gauge_is_set) { cr_assert_eq(run_on(2, sets, NULL), 0); }

/* ---- names ---- */

struct seen {
    int own, other;
    char order[200];
};
static void note(void *arg, const hg_metric *m)
{
    struct seen *s = arg;
    if (m->help != NULL) {
        s->own++;
        CHECK(s->other == 0);
        return;
    }
    s->other++;
    size_t used = strlen(s->order);
    snprintf(s->order + used, sizeof s->order - used, "%s=%lld%s ", m->name, (long long)m->value,
             m->kind == HG_METRIC_GAUGE ? "g" : "c");
}

static int names(void *arg)
{
    hg_runtime *rt = hg_current();
    hg_counter *a = new_counter("/test/a:count"), *c;
    hg_gauge *b;
    hg_metric m;
    char longest[65];
    (void)arg;
    memset(longest, 'x', 64);
    longest[64] = 0;
    CHECK(hg_counter_new(rt, "/test/a:count", &c) == -EEXIST);
    CHECK(hg_gauge_new(rt, "/test/a:count", &b) == -EEXIST);
    CHECK(hg_counter_new(rt, "", &c) == -EINVAL);
    CHECK(hg_counter_new(rt, "with blank", &c) == -EINVAL);
    CHECK(hg_counter_new(rt, longest, &c) == -EINVAL);
    CHECK(hg_counter_new(rt, "/gc/mine:count", &c) == -EINVAL);
    longest[63] = 0;
    CHECK(hg_counter_new(rt, longest, &c) == 0);
    CHECK(hg_gauge_new(rt, "/test/b:bytes", &b) == 0);
    hg_counter_add(a, 5);
    hg_gauge_set(b, -2);
    CHECK(hg_metric_read(rt, "/test/a:count", &m) == 0);
    CHECK(m.value == 5 && m.kind == HG_METRIC_COUNTER && m.help == NULL);
    CHECK(hg_metric_read(rt, "/test/none:count", &m) == -ENOENT);
    CHECK(hg_metric_read(rt, "/sched/procs:procs", &m) == 0);
    CHECK(m.value == 1 && m.kind == HG_METRIC_GAUGE && m.help != NULL);
    hg_collect(rt);
    CHECK(hg_metric_read(rt, "/gc/cycles/forced:gc-cycles", &m) == 0 && m.value >= 1);
    hg_counter_free(c);
    struct seen s = {0, 0, ""};
    hg_metrics_each(rt, note, &s);
    CHECK(s.own > 20 && s.other == 2);
    CHECK(strcmp(s.order, "/test/a:count=5c /test/b:bytes=-2g ") == 0);
    hg_counter_free(a);
    a = new_counter("/test/a:count"); /* the name is free, the count begins anew */
    CHECK(hg_counter_read(a) == 0);
    struct seen t = {0, 0, ""};
    hg_metrics_each(rt, note, &t);
    CHECK(strcmp(t.order, "/test/b:bytes=-2g /test/a:count=0c ") == 0);
    return 0;
}
Test(counter, names) { cr_assert_eq(run_on(1, names, NULL), 0); }

/* More than one block of cells; each counter has its own. */
static int many(void *arg)
{
    enum { N = 100 };
    hg_counter *c[N];
    char name[32];
    (void)arg;
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "/test/%d:count", i);
        c[i] = new_counter(name);
    }
    for (int i = 0; i < N; i++)
        hg_counter_add(c[i], i);
    for (int i = 0; i < N; i += 2)
        hg_counter_free(c[i]);
    for (int i = 0; i < N; i += 2) {
        snprintf(name, sizeof name, "/test/%d:count", i);
        c[i] = new_counter(name);
    }
    for (int i = 0; i < N; i++)
        CHECK(hg_counter_read(c[i]) == (i % 2 == 0 ? 0 : i));
    return 0; /* closing the runtime frees them */
}
Test(counter, many) { cr_assert_eq(run_on(2, many, NULL), 0); }
