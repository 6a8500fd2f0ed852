/* serve_reply.c: replies and the chain of blocks they lie in (serve_reply.h).
 *
 * Blocks grow with what is pending, from 1 KiB to 16 KiB. When all is sent a block of an ordinary
 * size stays for the next replies: a client that asks and waits costs no allocation for its
 * answers, and an idle one holds 1 KiB.
 */
#include "sim/serve_reply.h"
#include <stdarg.h>
#include <stdio.h>

#define BLOCK_LEAST 1024
#define BLOCK_MOST  16384
#define SHARED      16384 /* a string of so many bytes is sent from where it lies */
#define LATER_ROOM  48    /* of a place: a number of 20 digits as a bulk */

static const uint32_t block_refs[] = {(uint32_t)offsetof(struct serve_block, next),
                                      (uint32_t)offsetof(struct serve_block, string)};
static const hg_layout block_layout = HG_TYPED("serve block", block_refs);

static const char *block_bytes(const struct serve_block *b)
{
    return b->string != NULL ? b->string->bytes : b->bytes;
}

/* A block behind the last, of `bytes` bytes in all. */
static struct serve_block *add_block(struct serve_out *o, size_t bytes)
{
    struct serve_block *b = hg_alloc(bytes, &block_layout);
    b->room = bytes - sizeof *b;
    hg_ref_store(o->last != NULL ? &o->last->next : &o->first, b);
    hg_ref_store(&o->last, b);
    return b;
}

/* The next block for bytes: twice as large as the last one was. */
static struct serve_block *more_room(struct serve_out *o)
{
    size_t bytes = BLOCK_LEAST;
    while (bytes < BLOCK_MOST && bytes <= o->pending)
        bytes *= 2;
    return add_block(o, bytes);
}

void serve_put(struct serve_out *o, const char *bytes, size_t n)
{
    while (n > 0) {
        struct serve_block *b = o->last;
        if (b == NULL || b->length >= b->room)
            b = more_room(o);
        size_t part = b->room - b->length < n ? b->room - b->length : n;
        memcpy(b->bytes + b->length, bytes, part);
        b->length += part;
        o->pending += part;
        bytes += part;
        n -= part;
    }
}

/* A type byte, a number, a line end. */
static void put_header(struct serve_out *o, char type, int64_t v)
{
    char line[28];
    line[0] = type;
    size_t n = 1 + serve_int_format(v, line + 1);
    line[n++] = '\r';
    line[n++] = '\n';
    serve_put(o, line, n);
}

void serve_put_status(struct serve_out *o, const char *text)
{
    serve_put(o, "+", 1);
    serve_put(o, text, strlen(text));
    serve_put(o, "\r\n", 2);
}

void serve_put_error(struct serve_out *o, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    size_t n = (size_t)length < sizeof line ? (size_t)length : sizeof line - 1;
    for (size_t i = 0; i < n; i++)
        if (line[i] == '\r' || line[i] == '\n')
            line[i] = ' ';
    serve_put(o, "-", 1);
    serve_put(o, line, n);
    serve_put(o, "\r\n", 2);
}

void serve_put_int(struct serve_out *o, int64_t v) { put_header(o, ':', v); }

void serve_put_bulk(struct serve_out *o, struct serve_text t)
{
    put_header(o, '$', (int64_t)t.n);
    serve_put(o, t.at, t.n);
    serve_put(o, "\r\n", 2);
}

void serve_put_word(struct serve_out *o, const char *word)
{
    serve_put_bulk(o, serve_text_of(word));
}

void serve_put_string(struct serve_out *o, struct serve_string *s)
{
    if (s == NULL) {
        serve_put_null(o);
    } else if (s->length < SHARED) {
        serve_put_bulk(o, serve_string_text(s));
    } else {
        put_header(o, '$', (int64_t)s->length);
        struct serve_block *b = add_block(o, sizeof *b);
        hg_ref_store(&b->string, s); /* b is in the chain already */
        b->length = s->length;
        o->pending += b->length;
        serve_put(o, "\r\n", 2);
    }
}

void serve_put_double(struct serve_out *o, double v)
{
    char text[40];
    size_t n = serve_double_format(v, text);
    serve_put_bulk(o, (struct serve_text){text, n});
}

void serve_put_null(struct serve_out *o) { serve_put(o, "$-1\r\n", 5); }

void serve_put_array(struct serve_out *o, int64_t n) { put_header(o, '*', n); }

struct serve_block *serve_put_later(struct serve_out *o)
{
    struct serve_block *b = add_block(o, sizeof *b + LATER_ROOM);
    b->room = 0;
    return b;
}

/* Bytes into a place; they fit. */
static void set(struct serve_out *o, struct serve_block *place, const char *bytes, size_t n)
{
    memcpy(place->bytes + place->length, bytes, n);
    place->length += n;
    o->pending += n;
}

static void set_header(struct serve_out *o, struct serve_block *place, char type, int64_t v)
{
    char text[24];
    size_t n = serve_int_format(v, text);
    set(o, place, &type, 1);
    set(o, place, text, n);
    set(o, place, "\r\n", 2);
}

void serve_set_bulk(struct serve_out *o, struct serve_block *place, struct serve_text t)
{
    set_header(o, place, '$', (int64_t)t.n);
    set(o, place, t.at, t.n);
    set(o, place, "\r\n", 2);
}

void serve_set_array(struct serve_out *o, struct serve_block *place, int64_t n)
{
    set_header(o, place, '*', n);
}

/* ---- sending ---- */

int serve_out_pieces(const struct serve_out *o, struct iovec *iov, int most)
{
    int n = 0;
    size_t skip = o->sent;
    for (const struct serve_block *b = o->first; b != NULL && n < most; b = b->next) {
        if (b->length > skip) {
            iov[n].iov_base = (char *)(uintptr_t)(block_bytes(b) + skip);
            iov[n++].iov_len = b->length - skip;
        }
        skip = 0;
    }
    return n;
}

void serve_out_sent(struct serve_out *o, size_t n)
{
    o->pending -= n;
    n += o->sent;
    struct serve_block *b = o->first;
    while (b != NULL && n >= b->length && b->next != NULL) {
        n -= b->length;
        b = b->next;
    }
    if (o->pending > 0) {
        hg_ref_store(&o->first, b);
        o->sent = n;
        return;
    }
    o->sent = 0;
    if (b != NULL && (b->string != NULL || b->room == 0 || b->room > BLOCK_LEAST))
        b = NULL;
    if (b != NULL)
        b->length = 0;
    hg_ref_store(&o->first, b);
    hg_ref_store(&o->last, b);
}
