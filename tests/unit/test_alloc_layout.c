/* test_alloc_layout.c: the registry of layouts. */
#include "tests/unit/test_alloc.h"

#include <pthread.h>
#include <stdlib.h>

TestSuite(alloc_layout, .timeout = 60);

static struct hg_meta *meta;
static struct hg_layouts *layouts;

static void open_layouts(void)
{
    meta = hg__meta_open();
    layouts = hg__layouts_open(meta);
    cr_assert_not_null(layouts);
}

static void close_layouts(void)
{
    hg__layouts_close(layouts);
    hg__meta_close(meta);
}

static void trace_nothing(hg_tracer *t, const void *obj, size_t from, size_t to)
{
    (void)t;
    (void)obj;
    (void)from;
    (void)to;
}

static const uint32_t few[] = {0, 16, 504};
static const uint32_t far[] = {8, 512};

Test(alloc_layout, entries_say_what_the_layout_says, .init = open_layouts, .fini = close_layouts)
{
    static const hg_layout a = HG_TYPED("a", few), b = HG_TYPED("b", far);
    static const hg_layout c = HG_TYPED_TAIL("c", few, 24, 16), d = HG_TRACED("d", trace_nothing);
    const hg_layout *const all[] = {&a, &b, &c, &d};
    for (size_t i = 0; i < HG_COUNT_OF(all); i++) {
        const char *why = NULL;
        uint16_t id = hg__layouts_id(layouts, all[i], &why);
        cr_assert_neq(id, 0, "%s", why);
        const struct hg_layout_info *e = &hg__layouts_table(layouts)[id];
        cr_assert_eq(e->layout, all[i]);
        cr_assert_eq(e->kind, all[i]->kind);
        cr_assert_str_eq(e->name, all[i]->name);
        cr_assert(e->fields == all[i]->fields && e->nfields == all[i]->nfields);
        cr_assert(e->tail == all[i]->tail && e->stride == all[i]->stride);
        cr_assert_eq(e->trace, all[i]->trace);
        cr_assert_eq(hg__layouts_id(layouts, all[i], &why), id, "the id changed");
    }
    const struct hg_layout_info *e = hg__layouts_table(layouts);
    const char *why;
    const struct hg_layout_info *ea = &e[hg__layouts_id(layouts, &a, &why)];
    const struct hg_layout_info *eb = &e[hg__layouts_id(layouts, &b, &why)];
    const struct hg_layout_info *ec = &e[hg__layouts_id(layouts, &c, &why)];
    const struct hg_layout_info *ed = &e[hg__layouts_id(layouts, &d, &why)];
    cr_assert(ea->only_bits && ea->ref_bits == ((uint64_t)1 | 1 << 2 | (uint64_t)1 << 63));
    cr_assert(!eb->only_bits && eb->ref_bits == 2, "a field lies beyond word 63");
    cr_assert(!ec->only_bits && ec->ref_bits == ea->ref_bits, "it has a tail");
    cr_assert(!ed->only_bits && ed->ref_bits == 0);
}

/* A valid layout, changed by one thing, and a word of the complaint. */
struct wrong {
    hg_layout layout;
    const char *word;
};

Test(alloc_layout, wrong_layouts_are_told_why, .init = open_layouts, .fini = close_layouts)
{
    static const uint32_t odd[] = {4};
    struct wrong w[] = {
        {{.version = 2, .kind = HG_KIND_TYPED}, "version"},
        {{.version = 1, .kind = HG_KIND_REFS}, "HG_REFS"},
        {{.version = 1, .kind = 17}, "none of hg_kind"},
        {{.version = 1, .kind = HG_KIND_TYPED, .nfields = 1}, "fields is NULL"},
        {{.version = 1, .kind = HG_KIND_TYPED, .nfields = 1, .fields = odd}, "offset"},
        {{.version = 1, .kind = HG_KIND_TYPED, .tail = 12, .stride = 8}, "tail"},
        {{.version = 1, .kind = HG_KIND_TYPED, .tail = 8, .stride = 12}, "stride"},
        {{.version = 1, .kind = HG_KIND_TYPED, .tail = 8}, "stride is 0"},
        {{.version = 1, .kind = HG_KIND_TYPED, .trace = trace_nothing}, "callback"},
        {{.version = 1, .kind = HG_KIND_TYPED, .spare = {0, 0, 1, 0}}, "spare"},
        {{.version = 1, .kind = HG_KIND_TRACED}, "no trace callback"},
        {{.version = 1, .kind = HG_KIND_TRACED, .trace = trace_nothing, .stride = 8}, "fields"},
    };
    for (size_t i = 0; i < HG_COUNT_OF(w); i++) {
        const char *why = NULL;
        cr_assert_eq(hg__layouts_id(layouts, &w[i].layout, &why), 0, "layout %zu was taken", i);
        cr_assert_not_null(why);
        cr_assert_not_null(strstr(why, w[i].word), "layout %zu: \"%s\"", i, why);
    }
    const char *why = NULL;
    cr_assert_eq(hg__layouts_id(layouts, HG_REFS, &why), 0);
    cr_assert_not_null(strstr(why, "have no id"));
    _Alignas(hg_layout) char bytes[sizeof(hg_layout) + 8] = {0};
    cr_assert_eq(hg__layouts_id(layouts, (const hg_layout *)(void *)(bytes + 4), &why), 0);
    cr_assert_not_null(strstr(why, "misaligned"));
    static const hg_layout good = HG_TYPED(NULL, few);
    uint16_t id = hg__layouts_id(layouts, &good, &why);
    cr_assert_eq(id, 1, "a wrong layout used up an id");
    cr_assert_not_null(hg__layouts_table(layouts)[id].name);
}

Test(alloc_layout, the_table_fills_up_and_stays_usable, .init = open_layouts, .fini = close_layouts)
{
    enum { ALL = 65535 };
    hg_layout *many = malloc((ALL + 1) * sizeof *many);
    const char *why = NULL;
    for (uint32_t i = 0; i <= ALL; i++)
        many[i] = (hg_layout)HG_TYPED("one of many", few);
    for (uint32_t i = 0; i < ALL; i++)
        HG_CHECK(hg__layouts_id(layouts, &many[i], &why) == i + 1, "layout %u: another id", i);
    cr_assert_eq(hg__layouts_id(layouts, &many[ALL], &why), 0);
    cr_assert_not_null(strstr(why, "65,535"));
    for (uint32_t i = 0; i < ALL; i += 997)
        cr_assert_eq(hg__layouts_id(layouts, &many[i], &why), i + 1);
    free(many);
}

/* ---- several threads register the same layouts in different orders ---- */

enum { THREADS = 4, SHARED = 3000 };
static hg_layout shared[SHARED];
static uint16_t got[THREADS][SHARED];

static void *register_all(void *arg)
{
    static const size_t steps[THREADS] = {7, 11, 13, 17}; /* no divisors of SHARED */
    size_t me = (size_t)(uintptr_t)arg;
    const char *why;
    for (size_t n = 0; n < SHARED; n++) {
        size_t i = (n * steps[me] + me * 501) % SHARED;
        got[me][i] = hg__layouts_id(layouts, &shared[i], &why);
    }
    return NULL;
}

Test(alloc_layout, threads_agree_on_ids, .init = open_layouts, .fini = close_layouts)
{
    pthread_t t[THREADS];
    static bool seen[SHARED + 1];
    for (size_t i = 0; i < SHARED; i++)
        shared[i] = (hg_layout)HG_TYPED("shared", few);
    for (size_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&t[i], NULL, register_all, (void *)(uintptr_t)i), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    for (size_t i = 0; i < SHARED; i++) {
        uint16_t id = got[0][i];
        HG_CHECK(id >= 1 && id <= SHARED && !seen[id], "layout %zu: id %u", i, id);
        seen[id] = true;
        HG_CHECK(hg__layouts_table(layouts)[id].layout == &shared[i], "id %u: another layout", id);
        for (size_t k = 1; k < THREADS; k++)
            HG_CHECK(got[k][i] == id, "layout %zu: ids %u and %u", i, id, got[k][i]);
    }
}
