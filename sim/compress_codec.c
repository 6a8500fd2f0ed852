/* compress_codec.c: zlib, zstd and snappy (compress.h).
 *
 * zlib and zstd take their memory through hooks, which give them heap objects. What they hold is
 * found through the codec's own object (struct zlib_codec, struct zstd_codec), which its user
 * holds: all of it is laid out conservatively, as only the libraries know which words are pointers.
 * Freeing does nothing; a codec that nobody holds is garbage with all that it has.
 *
 * Rule 2 of heap.h: the libraries store without a barrier. That is sound here. What they store into
 * their memory is the address of an object that they have just been given, in a field that was
 * NULL, or an address within an object that another field keeps all the time; they never move the
 * only reference to an object from one place to another. Input and output are the exception:
 * z_stream points to them while deflate or inflate runs. The running task's stack holds them
 * meanwhile, and they are taken out before the call returns.
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

/* ---- zlib ---- */

struct zlib_codec {
    z_stream z;
};

static void *zlib_alloc(void *opaque, unsigned items, unsigned size)
{
    (void)opaque;
    return hg_try_alloc((size_t)items * size, HG_CONSERVATIVE);
}

static void zlib_free(void *opaque, void *p)
{
    (void)opaque;
    (void)p;
}

static struct zlib_codec *new_zlib(void)
{
    struct zlib_codec *c = hg_alloc(sizeof *c, HG_CONSERVATIVE);
    c->z.zalloc = zlib_alloc;
    c->z.zfree = zlib_free;
    return c;
}

/* in is not written: zlib's field lacks the const. */
static void point(z_stream *z, const void *in, size_t in_bytes, void *out, size_t out_bytes)
{
    z->next_in = (Bytef *)(uintptr_t)in;
    z->avail_in = (uInt)in_bytes;
    z->next_out = out;
    z->avail_out = (uInt)out_bytes;
}

/* Its answer after pointing at nothing again. */
static int run_zlib(z_stream *z, int (*run)(z_streamp, int), const void *in, size_t in_bytes,
                    void *out, size_t out_bytes)
{
    point(z, in, in_bytes, out, out_bytes);
    int result = run(z, Z_FINISH);
    point(z, NULL, 0, NULL, 0);
    hg_keep_alive(in);
    hg_keep_alive(out);
    return result;
}

static size_t zlib_compress(struct zlib_codec *c, void *to, size_t room, const void *from, size_t n)
{
    if (deflateReset(&c->z) != Z_OK || run_zlib(&c->z, deflate, from, n, to, room) != Z_STREAM_END)
        return 0;
    return c->z.total_out;
}

static bool zlib_expand(struct zlib_codec *c, void *to, size_t to_bytes, const void *from, size_t n)
{
    return inflateReset(&c->z) == Z_OK &&
           run_zlib(&c->z, inflate, from, n, to, to_bytes) == Z_STREAM_END &&
           c->z.total_out == to_bytes;
}

/* ---- zstd ---- */

struct zstd_codec {
    ZSTD_CCtx *encoder; /* one of the two */
    ZSTD_DCtx *decoder;
    int level;
};

static void *zstd_alloc(void *opaque, size_t bytes)
{
    (void)opaque;
    return hg_try_alloc(bytes, HG_CONSERVATIVE);
}

static const ZSTD_customMem zstd_memory = {zstd_alloc, zlib_free, NULL};

/* ---- all of them ---- */

void *codec_encoder(enum codec c, int level)
{
    if (c == CODEC_ZLIB) {
        struct zlib_codec *z = new_zlib();
        if (deflateInit(&z->z, level) != Z_OK)
            broken("zlib: no encoder");
        return z;
    }
    if (c == CODEC_ZSTD) {
        struct zstd_codec *z = hg_alloc(sizeof *z, HG_CONSERVATIVE);
        z->encoder = ZSTD_createCCtx_advanced(zstd_memory);
        z->level = level;
        if (z->encoder == NULL)
            broken("zstd: no encoder");
        return z;
    }
    return NULL;
}

void *codec_decoder(enum codec c)
{
    if (c == CODEC_ZLIB) {
        struct zlib_codec *z = new_zlib();
        if (inflateInit(&z->z) != Z_OK)
            broken("zlib: no decoder");
        return z;
    }
    if (c == CODEC_ZSTD) {
        struct zstd_codec *z = hg_alloc(sizeof *z, HG_CONSERVATIVE);
        z->decoder = ZSTD_createDCtx_advanced(zstd_memory);
        if (z->decoder == NULL)
            broken("zstd: no decoder");
        return z;
    }
    return NULL;
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
        done = ZSTD_compressCCtx(((struct zstd_codec *)encoder)->encoder, to, room, from, n,
                                 ((struct zstd_codec *)encoder)->level);
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
        return ZSTD_decompressDCtx(((struct zstd_codec *)decoder)->decoder, to, to_bytes, from,
                                   n) == to_bytes;
    case CODEC_NONE:
    case CODECS:
        break;
    }
    if (n != to_bytes)
        return false;
    memcpy(to, from, n);
    return true;
}
