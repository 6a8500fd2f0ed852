/* compress.h: the parts of `hedge-sim compress` and the data between them.
 *
 *   compress.c         command line, the comparison, its targets
 *   compress_codec.c   zlib, zstd and snappy, with their memory on the collected heap
 *   compress_live.c    the run: tasks that send and receive messages
 *
 * A message is a document, compressed, with a header, through a socket. With reuse off all that a
 * codec needs is made anew for each message, as the MongoDB driver for Go did before its pull
 * request 1200; with reuse on it comes from object pools.
 */
#ifndef HG_SIM_COMPRESS_H
#define HG_SIM_COMPRESS_H
#include "sim/trial.h"

/* ---- codecs (compress_codec.c) ---- */

enum codec { CODEC_NONE, CODEC_SNAPPY, CODEC_ZLIB, CODEC_ZSTD, CODECS };
extern const char *const codec_name[CODECS];

/* Most bytes that n bytes may become. */
size_t codec_bound(enum codec c, size_t n);
/* S: what compressing, and the way back, needs: heap objects, all of whose memory is on the heap
 * and which need no end; NULL for codecs that need none. A codec that cannot be made ends the
 * process. */
void *codec_encoder(enum codec c, int level);
void *codec_decoder(enum codec c);
/* Compresses n bytes into at most `room`; returns how many, or 0: failed. encoder is used by one
 * task at a time. */
size_t codec_compress(enum codec c, void *encoder, void *to, size_t room, const void *from,
                      size_t n);
/* The way back: exactly `to_bytes`, or false. */
bool codec_expand(enum codec c, void *decoder, void *to, size_t to_bytes, const void *from,
                  size_t n);

/* ---- the run (compress_live.c) ---- */

struct compress_options {
    int64_t messages, message_bytes;
    int conns, procs, level;
    double vary; /* per cent of values that differ from one record to the next */
};

/* One way of a comparison. */
struct compress_way {
    const struct compress_options *opt;
    enum codec codec;
    bool reuse;
};
trial_fn compress_run; /* arg: a struct compress_way */

#endif
