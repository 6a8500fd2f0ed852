/* test_sim_serve_value.c: the structures of `hedge-sim serve` against simple models: the table that
 * grows by buckets and its cursor, lists, sorted sets; numbers and patterns. All with collections
 * at every few allocations. */
#include "tests/sim/serve_test.h"

#include "sim/rng.h"
#include <math.h>

/* ---- the table ---- */

/* A dict in an object of its own. */
struct holder {
    struct serve_dict dict;
};
static const uint32_t holder_refs[] = {(uint32_t)offsetof(struct holder, dict.table)};
static const hg_layout holder_layout = HG_TYPED("test holder", holder_refs);
static const struct serve_seed seed = {{1, 2}};

static struct serve_key key_of(char *text, int i)
{
    struct serve_text t = {text, (size_t)sprintf(text, "key:%d", i)};
    return (struct serve_key){t, serve_hash(&seed, t)};
}

static size_t walk_count(const struct serve_dict *d)
{
    struct serve_walk w;
    size_t n = 0;
    for (struct serve_entry *e = serve_dict_first(d, &w); e != NULL; e = serve_dict_next(d, &w))
        n++;
    return n;
}

static void check_shape(const struct serve_dict *d)
{
    size_t buckets = ((size_t)1 << d->level) + d->split;
    MUST(d->count <= buckets, "%zu entries in %zu buckets", d->count, buckets);
    MUST(buckets <= 4 * d->count + 3 || buckets == SERVE_LEAST, "%zu entries in %zu buckets",
         d->count, buckets);
}

/* Grows and shrinks at random past the size where it gets a directory. */
static int dict_model(void *arg)
{
    enum { KEYS = 6000 };
    struct sim_rng rng = {*(const uint64_t *)arg};
    static bool there[KEYS];
    struct holder *h = hg_alloc(sizeof *h, &holder_layout);
    size_t count = 0;
    char text[32];
    for (uint64_t step = test_scaled(200000), i = 0; i < step; i++) {
        int k = (int)sim_rng_below(&rng, KEYS);
        bool grow = i / (step / 6) % 2 == 0, add = sim_rng_below(&rng, 10) < (grow ? 8 : 1);
        struct serve_key key = key_of(text, k);
        struct serve_entry *e = serve_dict_find(&h->dict, key.text, key.hash);
        MUST((e != NULL) == there[k], "key %d is %sthere", k, e != NULL ? "" : "not ");
        if (add && e == NULL) {
            e = serve_dict_insert(&h->dict, key.text, key.hash);
            e->expire_ms = k;
            count++;
        } else if (!add) {
            MUST(serve_dict_remove(&h->dict, key.text, key.hash) == e, "another entry");
            count -= e != NULL;
        } else {
            MUST(e->expire_ms == k, "key %d has the entry of %d", k, (int)e->expire_ms);
        }
        there[k] = add;
        MUST(h->dict.count == count, "%zu entries, expected %zu", h->dict.count, count);
        check_shape(&h->dict);
        if (count > 0 && i % 64 == 0) {
            e = serve_dict_any(&h->dict, sim_rng_next(&rng));
            MUST(there[e->expire_ms], "an entry that is not there");
        }
    }
    MUST(walk_count(&h->dict) == count, "the walk misses some");
    for (int k = 0; k < KEYS; k++) {
        struct serve_key key = key_of(text, k);
        serve_dict_remove(&h->dict, key.text, key.hash);
    }
    MUST(h->dict.count == 0 && walk_count(&h->dict) == 0, "not empty");
    check_shape(&h->dict);
    return 0;
}
Test(sim_serve_value, dict)
{
    uint64_t s = test_seed("sim_serve_value/dict");
    talk_run(dict_model, &s);
}

/* Keys 0..STAY-1 stay; others come and go between the steps of a scan, in bursts that take the
 * table up and down through several doublings. All that stay are seen. */
static int dict_scan(void *arg)
{
    enum { STAY = 300, OTHERS = 5000 };
    struct sim_rng rng = {*(const uint64_t *)arg};
    struct holder *h = hg_alloc(sizeof *h, &holder_layout);
    char text[32];
    for (int k = 0; k < STAY; k++) {
        struct serve_key key = key_of(text, k);
        serve_dict_insert(&h->dict, key.text, key.hash)->expire_ms = k;
    }
    for (uint64_t round = test_scaled(40); round > 0; round--) {
        bool seen[STAY] = {false};
        uint64_t cursor = 0;
        do {
            struct serve_entry *e;
            cursor = serve_dict_scan(&h->dict, cursor, &e);
            for (; e != NULL; e = e->next)
                if (e->expire_ms < STAY)
                    seen[e->expire_ms] = true;
            bool grow = sim_rng_below(&rng, 2);
            for (uint32_t i = sim_rng_below(&rng, 200); i > 0; i--) {
                struct serve_key key = key_of(text, STAY + (int)sim_rng_below(&rng, OTHERS));
                struct serve_entry *old = serve_dict_find(&h->dict, key.text, key.hash);
                if (grow && old == NULL)
                    serve_dict_insert(&h->dict, key.text, key.hash)->expire_ms = STAY;
                else if (!grow && old != NULL)
                    serve_dict_remove(&h->dict, key.text, key.hash);
            }
        } while (cursor != 0);
        for (int k = 0; k < STAY; k++)
            MUST(seen[k], "the scan has missed key %d, which was there all the time", k);
    }
    return 0;
}
Test(sim_serve_value, dict_scan)
{
    uint64_t s = test_seed("sim_serve_value/dict_scan");
    talk_run(dict_scan, &s);
}

/* Without changes meanwhile each entry is seen once. */
static int dict_scan_once(void *arg)
{
    (void)arg;
    struct holder *h = hg_alloc(sizeof *h, &holder_layout);
    char text[32];
    for (int k = 0; k < 3000; k++) {
        struct serve_key key = key_of(text, k);
        serve_dict_insert(&h->dict, key.text, key.hash);
        if (k % 100 != 0)
            continue;
        size_t n = 0;
        uint64_t cursor = 0;
        do {
            struct serve_entry *e;
            cursor = serve_dict_scan(&h->dict, cursor, &e);
            for (; e != NULL; e = e->next)
                n++;
        } while (cursor != 0);
        MUST(n == h->dict.count, "%zu of %zu seen", n, h->dict.count);
    }
    return 0;
}
Test(sim_serve_value, dict_scan_once) { talk_run(dict_scan_once, NULL); }

/* ---- lists ---- */

static struct serve_string *number(int i)
{
    char text[16];
    return serve_string_new((struct serve_text){text, (size_t)sprintf(text, "%d", i)});
}

static int list_model(void *arg)
{
    enum { MOST = 2000 };
    struct sim_rng rng = {*(const uint64_t *)arg};
    static int model[2 * MOST + 1]; /* from `low` up to `high` */
    int low = MOST, high = MOST, next = 0;
    struct serve_list *l = serve_list_new();
    for (uint64_t step = test_scaled(60000); step > 0; step--) {
        bool front = sim_rng_below(&rng, 2), grow = step / 4000 % 2 == 0;
        if (low == high ||
            (sim_rng_below(&rng, 10) < (grow ? 8 : 2) && low > 0 && high < 2 * MOST)) {
            serve_list_push(l, front, number(next));
            model[front ? --low : high++] = next++;
        } else {
            struct serve_string *s = serve_list_pop(l, front);
            MUST(atoi(s->bytes) == model[front ? low++ : --high], "another element");
        }
        MUST(l->length == (size_t)(high - low), "length %zu", l->length);
        if (low == high)
            low = high = MOST;
        if (step % 50 != 0 || low == high)
            continue;
        struct serve_list_at at;
        size_t i = sim_rng_below(&rng, (uint32_t)l->length);
        struct serve_string *s = serve_list_get(l, i, &at);
        for (; s != NULL; s = serve_list_next(&at), i++)
            MUST(atoi(s->bytes) == model[low + (int)i], "another element at %zu", i);
        MUST(i == l->length, "the end is at %zu", i);
    }
    return 0;
}
Test(sim_serve_value, list)
{
    uint64_t s = test_seed("sim_serve_value/list");
    talk_run(list_model, &s);
}

/* ---- sorted sets ---- */

enum { MEMBERS = 300 };

struct zmodel {
    struct serve_zset *z;
    double score[MEMBERS]; /* NaN: not there */
    int order[MEMBERS], n;
    const struct zmodel *sort;
};

static struct serve_key member_of(char *text, int i)
{
    struct serve_text t = {text, (size_t)sprintf(text, "%03d", i)};
    return (struct serve_key){t, serve_hash(&seed, t)};
}

static int by_score(const void *a, const void *b, void *arg)
{
    const struct zmodel *m = arg;
    int i = *(const int *)a, j = *(const int *)b;
    if (m->score[i] != m->score[j])
        return m->score[i] < m->score[j] ? -1 : 1;
    return i - j;
}

static void zcompare(struct zmodel *m)
{
    m->n = 0;
    for (int i = 0; i < MEMBERS; i++)
        if (!isnan(m->score[i]))
            m->order[m->n++] = i;
    qsort_r(m->order, (size_t)m->n, sizeof *m->order, by_score, m);
    MUST(m->z->dict.count == (size_t)m->n, "%zu members, expected %d", m->z->dict.count, m->n);
    struct serve_entry *e = serve_zset_at(m->z, 0), *last = NULL;
    for (int i = 0; i < m->n; i++) {
        MUST(e == serve_zset_at(m->z, (size_t)i), "rank %d is not the next", i);
        MUST(atoi(e->key) == m->order[i] && e->score == m->score[m->order[i]], "rank %d", i);
        MUST(serve_zset_step(e, true) == last, "the one before rank %d", i);
        last = e;
        e = serve_zset_step(e, false);
    }
    MUST(e == NULL && serve_zset_at(m->z, (size_t)m->n) == NULL, "more than there should be");
}

/* Ranges of scores, seen from both ends. */
static void zranges(struct zmodel *m, struct sim_rng *rng)
{
    struct serve_zrange r = {0};
    r.low.score = sim_rng_below(rng, 22) - 1.0;
    r.high.score = sim_rng_below(rng, 22) - 1.0;
    r.low.open = sim_rng_below(rng, 2);
    r.high.open = sim_rng_below(rng, 2);
    int first = -1, last = -1;
    for (int i = 0; i < m->n; i++) {
        double s = m->score[m->order[i]];
        if ((r.low.open ? s > r.low.score : s >= r.low.score) &&
            (r.high.open ? s < r.high.score : s <= r.high.score)) {
            first = first < 0 ? i : first;
            last = i;
        }
    }
    struct serve_entry *e = serve_zset_seek(m->z, &r, false), *b = serve_zset_seek(m->z, &r, true);
    MUST((e == NULL) == (first < 0) && (b == NULL) == (first < 0), "a range is empty or not");
    MUST(e == NULL || (atoi(e->key) == m->order[first] && atoi(b->key) == m->order[last]),
         "another range");
}

static int zset_model(void *arg)
{
    struct sim_rng rng = {*(const uint64_t *)arg};
    struct zmodel m = {.z = serve_zset_new(sim_rng_next(&rng))};
    char text[16];
    for (int i = 0; i < MEMBERS; i++)
        m.score[i] = NAN;
    for (uint64_t step = test_scaled(20000); step > 0; step--) {
        int i = (int)sim_rng_below(&rng, MEMBERS);
        double score = sim_rng_below(&rng, 20);
        struct serve_key k = member_of(text, i);
        struct serve_entry *e = serve_dict_find(&m.z->dict, k.text, k.hash);
        MUST((e != NULL) == !isnan(m.score[i]), "member %d is there or not", i);
        if (e == NULL)
            serve_zset_insert(m.z, k.text, k.hash, score);
        else if (sim_rng_below(&rng, 2))
            serve_zset_move(m.z, e, score);
        else {
            serve_zset_remove(m.z, e);
            score = NAN;
        }
        m.score[i] = score;
        if (step % 40 == 0) {
            zcompare(&m);
            zranges(&m, &rng);
        }
    }
    return 0;
}
Test(sim_serve_value, zset)
{
    uint64_t s = test_seed("sim_serve_value/zset");
    talk_run(zset_model, &s);
}

/* ---- strings: whoever has got one keeps its bytes ---- */

static int strings(void *arg)
{
    (void)arg;
    struct serve_string *s = serve_string_new(serve_text_of("")), *old = s;
    size_t length = 0, old_length = 0;
    for (int i = 0; i < 3000; i++) {
        char c = (char)('a' + i % 26);
        s = serve_string_append(s, (struct serve_text){&c, 1});
        MUST(s->length == ++length && s->bytes[i] == c, "append %d", i);
        if (i % 100 == 0) {
            old = s;
            old_length = length;
        }
        MUST(old_length == 0 || old->bytes[old_length - 1] == s->bytes[old_length - 1],
             "an old byte has changed");
    }
    return 0;
}
Test(sim_serve_value, strings) { talk_run(strings, NULL); }

/* ---- numbers and patterns ---- */

Test(sim_serve_value, integers)
{
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      "01",
                                      "-0",
                                      "-01",
                                      " 1",
                                      "1 ",
                                      "1a",
                                      "0x10",
                                      "1.0",
                                      "--1",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "18446744073709551616",
                                      "100000000000000000000"};
    static const int64_t good[] = {0, 1, -1, 10, 99, -100, 1234567890123, INT64_MAX, INT64_MIN};
    int64_t v;
    char text[24], wanted[24];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert(!serve_int_parse(serve_text_of(bad[i]), &v), "\"%s\"", bad[i]);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(wanted, sizeof wanted, "%lld", (long long)good[i]);
        cr_assert_eq(serve_int_format(good[i], text), strlen(wanted));
        cr_assert_str_eq(text, wanted);
        cr_assert(serve_int_parse(serve_text_of(text), &v));
        cr_assert_eq(v, good[i]);
    }
}

Test(sim_serve_value, doubles)
{
    static const struct {
        const char *text, *shown;
    } good[] = {{"1", "1"},
                {"-2.5", "-2.5"},
                {"0.1", "0.10000000000000001"},
                {"1e3", "1000"},
                {"inf", "inf"},
                {"-Infinity", "-inf"},
                {"-0", "-0"},
                {"3e20", "3e+20"},
                {"0x10", "16"},
                {"1e15", "1000000000000000"},
                {"1e-7", "9.9999999999999995e-08"}};
    static const char *const bad[] = {"", " 1", "1 ", "nan", "1e999", "x", "1,5", "1e-999"};
    double v;
    char text[40];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        cr_assert(serve_double_parse(serve_text_of(good[i].text), &v), "%s", good[i].text);
        cr_assert_eq(serve_double_format(v, text), strlen(good[i].shown));
        cr_assert_str_eq(text, good[i].shown);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert(!serve_double_parse(serve_text_of(bad[i]), &v), "\"%s\"", bad[i]);
}

Test(sim_serve_value, glob)
{
    static const struct {
        const char *pattern, *text;
        bool fits;
    } g[] = {{"*", "", true},          {"", "", true},
             {"", "a", false},         {"a*c", "abbc", true},
             {"a*c", "abbd", false},   {"*a*b*", "xxayybzz", true},
             {"h?llo", "hello", true}, {"h?llo", "hllo", false},
             {"[a-c]x", "bx", true},   {"[c-a]x", "bx", true},
             {"[^a]x", "ax", false},   {"[^a]x", "bx", true},
             {"\\*", "*", true},       {"\\*", "a", false},
             {"[\\]]", "]", true},     {"a\\", "a\\", true},
             {"[abc", "c", true},      {"**", "ab", true},
             {"a?", "a", false},       {"*.txt", "a.txt.txt", true}};
    for (size_t i = 0; i < sizeof g / sizeof *g; i++)
        cr_assert_eq(serve_glob(serve_text_of(g[i].pattern), serve_text_of(g[i].text)), g[i].fits,
                     "%s %s", g[i].pattern, g[i].text);
    /* Nothing that takes for ever: 2^40 ways to fit, none of which does. */
    char text[2048];
    memset(text, 'a', sizeof text);
    cr_assert(!serve_glob(serve_text_of("*a*a*a*a*a*a*a*a*a*a*a*a*b"),
                          (struct serve_text){text, sizeof text}));
}

/* The test vector of SipHash-1-3 with the key 00 01 .. 0f: another implementation's answers. */
Test(sim_serve_value, hash)
{
    static const struct serve_seed key = {
        {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)}};
    static const uint64_t wanted[] = {UINT64_C(0xabac0158050fc4dc), UINT64_C(0xc9f49bf37d57ca93),
                                      UINT64_C(0x82cb9b024dc7d44d), UINT64_C(0x8bf80ab8e7ddf7fb)};
    static const char bytes[] = {0, 1, 2, 3};
    for (size_t n = 0; n < sizeof wanted / sizeof *wanted; n++)
        cr_assert_eq(serve_hash(&key, (struct serve_text){bytes, n}), wanted[n], "length %zu", n);
}
