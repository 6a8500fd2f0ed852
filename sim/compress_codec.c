/* compress_codec.c: zlib, zstd and snappy (compress.h).
 *
 * zlib and zstd take their memory through hooks, which give them heap objects. The libraries store
 * into it without a barrier, and what they store is not only references: zstd keeps addresses
 * within messages that are long gone, and addresses that lie in no message at all. So none of that
 * memory is scanned: each block is a leaf, and the codec's own object (struct state), which its
 * user holds, has a reference to each. Messages are kept by who calls. A block that the library
 * frees is forgotten, and a codec that nobody holds is garbage with all that it has.
 *
 * snappy has no state; its C interface takes what memory it needs from malloc.
 */
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_customMem */
#include "sim/compress.h"
#include "sim/memory.h"
#include <snappy-c.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

const char *const codec_name[CODECS] = {
    [CODEC_NONE] = "none",
    [CODEC_SNAPPY] = "snappy",
    [CODEC_ZLIB] = "zlib",
    [CODEC_ZSTD] = "zstd",
};

_Noreturn static void broken(const char *what)
{
    fprintf(stderr, "hedge-sim compress: %s\n", what);
    abort();
}

/* ---- memory ---- */

#define BLOCKS 16 /* zlib takes five at most, zstd four */

struct state {
    z_stream z;
    ZSTD_CCtx *encoder; /* of zstd, as the next two */
    ZSTD_DCtx *decoder;
    int level;
    void *block[BLOCKS]; /* the only references that are scanned */
};

static const uint32_t first_block[] = {offsetof(struct state, block)};
static const hg_layout state_layout = HG_TYPED_TAIL(
    "codec", first_block, offsetof(struct state, block) + sizeof(void *), sizeof(void *));

static void *block_new(void *state, size_t bytes)
{
    struct state *s = state;
    for (int i = 0; i < BLOCKS; i++) {
        if (s->block[i] != NULL)
            continue;
        void *block = hg_try_alloc(bytes, HG_LEAF);
        hg_ref_store(&s->block[i], block);
        return block;
    }
    return NULL;
}

static void block_free(void *state, void *block)
{
    struct state *s = state;
    for (int i = 0; i < BLOCKS; i++)
        if (block != NULL && s->block[i] == block)
            hg_ref_store(&s->block[i], NULL);
}

static struct state *state_new(void) { return hg_alloc(sizeof(struct state), &state_layout); }

/* ---- zlib ---- */

static void *zlib_alloc(void *state, unsigned items, unsigned size)
{
    return block_new(state, (size_t)items * size);
}

static struct state *new_zlib(void)
{
    struct state *s = state_new();
    s->z.zalloc = zlib_alloc;
    s->z.zfree = block_free;
    s->z.opaque = s;
    return s;
}

/* in is not written: zlib's field lacks the const. */
static int run_zlib(z_stream *z, int (*run)(z_streamp, int), const void *in, size_t in_bytes,
                    void *out, size_t out_bytes)
{
    z->next_in = (Bytef *)(uintptr_t)in;
    z->avail_in = (uInt)in_bytes;
    z->next_out = out;
    z->avail_out = (uInt)out_bytes;
    int result = run(z, Z_FINISH);
    hg_keep_alive(in);
    hg_keep_alive(out);
    return result;
}

static size_t zlib_compress(struct state *c, void *to, size_t room, const void *from, size_t n)
{
    if (deflateReset(&c->z) != Z_OK || run_zlib(&c->z, deflate, from, n, to, room) != Z_STREAM_END)
        return 0;
    return c->z.total_out;
}

static bool zlib_expand(struct state *c, void *to, size_t to_bytes, const void *from, size_t n)
{
    return inflateReset(&c->z) == Z_OK &&
           run_zlib(&c->z, inflate, from, n, to, to_bytes) == Z_STREAM_END &&
           c->z.total_out == to_bytes;
}

/* ---- zstd ---- */

static struct state *new_zstd(bool encoder, int level)
{
    struct state *s = state_new();
    ZSTD_customMem memory = {block_new, block_free, s};
    s->level = level;
    if (encoder)
        s->encoder = ZSTD_createCCtx_advanced(memory);
    else
        s->decoder = ZSTD_createDCtx_advanced(memory);
    if (s->encoder == NULL && s->decoder == NULL)
        broken("zstd: no codec");
    return s;
}

/* ---- all of them ---- */

void *codec_encoder(enum codec c, int level)
{
    if (c == CODEC_ZSTD)
        return new_zstd(true, level);
    if (c != CODEC_ZLIB)
        return NULL;
    struct state *s = new_zlib();
    if (deflateInit(&s->z, level) != Z_OK)
        broken("zlib: no encoder");
    return s;
}

void *codec_decoder(enum codec c)
{
    if (c == CODEC_ZSTD)
        return new_zstd(false, 0);
    if (c != CODEC_ZLIB)
        return NULL;
    struct state *s = new_zlib();
    if (inflateInit(&s->z) != Z_OK)
        broken("zlib: no decoder");
    return s;
}

size_t codec_bound(enum codec c, size_t n)
{
    switch (c) {
    case CODEC_SNAPPY:
        return snappy_max_compressed_length(n);
    case CODEC_ZLIB:
        return compressBound((uLong)n);
    case CODEC_ZSTD:
        return ZSTD_compressBound(n);
    case CODEC_NONE:
    case CODECS:
        break;
    }
    return n;
}

size_t codec_compress(enum codec c, void *encoder, void *to, size_t room, const void *from,
                      size_t n)
{
    size_t done = room;
    switch (c) {
    case CODEC_SNAPPY:
        return snappy_compress(from, n, to, &done) == SNAPPY_OK ? done : 0;
    case CODEC_ZLIB:
        return zlib_compress(encoder, to, room, from, n);
    case CODEC_ZSTD:
        done = ZSTD_compressCCtx(((struct state *)encoder)->encoder, to, room, from, n,
                                 ((struct state *)encoder)->level);
        hg_keep_alive(encoder);
        hg_keep_alive(from);
        hg_keep_alive(to);
        return ZSTD_isError(done) ? 0 : done;
    case CODEC_NONE:
    case CODECS:
        break;
    }
    if (n > room)
        return 0;
    memcpy(to, from, n);
    return n;
}

bool codec_expand(enum codec c, void *decoder, void *to, size_t to_bytes, const void *from,
                  size_t n)
{
    size_t done = to_bytes;
    switch (c) {
    case CODEC_SNAPPY:
        return snappy_uncompress(from, n, to, &done) == SNAPPY_OK && done == to_bytes;
    case CODEC_ZLIB:
        return zlib_expand(decoder, to, to_bytes, from, n);
    case CODEC_ZSTD:
        done = ZSTD_decompressDCtx(((struct state *)decoder)->decoder, to, to_bytes, from, n);
        hg_keep_alive(decoder);
        hg_keep_alive(from);
        hg_keep_alive(to);
        return done == to_bytes;
    case CODEC_NONE:
    case CODECS:
        break;
    }
    if (n != to_bytes)
        return false;
    memcpy(to, from, n);
    return true;
}
