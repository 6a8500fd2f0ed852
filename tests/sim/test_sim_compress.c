/* test_sim_compress.c: the codecs with their memory on the collected heap: what is compressed comes
 * back, while collections run at every opportunity and the verifier checks what they have
 * marked. */
#include "sim/compress.h"
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(sim_compress, .timeout = 60);

struct work {
    enum codec codec;
    bool reuse;
    int rounds;
    hg_waitgroup done;
};

/* Words from a small alphabet: compressible, and different in each round. */
static void fill(char *to, size_t n, uint64_t seed)
{
    static const char *const word[] = {"status ", "active ", "amount ", "city ", "null ", "42 "};
    size_t at = 0;
    while (at < n) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        const char *w = word[(seed >> 40) % 6];
        size_t k = strlen(w) < n - at ? strlen(w) : n - at;
        memcpy(to + at, w, k);
        at += k;
    }
}

static void there_and_back(void *arg)
{
    struct work *w = arg;
    void *encoder = NULL, *decoder = NULL;
    uint64_t seed = hg_task_id();
    for (int i = 0; i < w->rounds; i++) {
        size_t n = 100 + (size_t)(seed % 7) * 4000 + (size_t)i, room = codec_bound(w->codec, n);
        char *text = hg_alloc(n, HG_LEAF), *wire = hg_alloc(room, HG_LEAF);
        char *back = hg_alloc(n, HG_LEAF);
        fill(text, n, seed++);
        if (i == 0 || !w->reuse) {
            encoder = codec_encoder(w->codec, 1 + i % 9);
            decoder = codec_decoder(w->codec);
        }
        size_t k = codec_compress(w->codec, encoder, wire, room, text, n);
        CHECK(k > 0 && k <= room);
        CHECK(w->codec == CODEC_NONE || n < 1000 || k < n / 2);
        CHECK(codec_expand(w->codec, decoder, back, n, wire, k));
        CHECK(memcmp(text, back, n) == 0);
        /* Too little room, and a message that is cut off, are noticed; and the codecs go on. */
        CHECK(codec_compress(w->codec, encoder, wire, 10, text, n) == 0 || n <= 10 ||
              w->codec == CODEC_SNAPPY);
        CHECK(!codec_expand(w->codec, decoder, back, n, wire, k / 2) || w->codec == CODEC_NONE);
        hg_yield();
    }
    hg_waitgroup_done(&w->done);
}

static int run_codec(void *arg)
{
    enum { TASKS = 3 };
    struct work *w = arg;
    hg_waitgroup_add(&w->done, TASKS);
    for (int i = 0; i < TASKS; i++)
        go(there_and_back, w);
    hg_waitgroup_wait(&w->done, HG_FOREVER);
    return 0;
}

static void run_all(bool check, int rounds)
{
    for (int c = 0; c < CODECS; c++)
        for (int reuse = 0; reuse < 2; reuse++) {
            struct work w = {.codec = (enum codec)c, .reuse = reuse == 1, .rounds = rounds};
            hg_options o;
            hg_options_init(&o, sizeof o);
            o.procs = 2;
            o.stress = 1;
            o.poison = true;
            o.check = check;
            o.reserve_bytes = (size_t)1 << 30;
            cr_assert_eq(hg_run(run_codec, &w, &o), 0, "%s", codec_name[c]);
        }
}

Test(sim_compress, collecting) { run_all(false, (int)test_scaled(60)); }
Test(sim_compress, checked) { run_all(true, (int)test_scaled(15)); }
