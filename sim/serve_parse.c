/* serve_parse.c: the request parser (serve_parse.h).
 *
 * Limits and messages are those of Redis 7, since clients match on them. What is unlike it: a NUL
 * byte does not end a line, and a line that is too long is refused as soon as that is certain.
 */
#include "sim/serve_parse.h"
#include <ctype.h>
#include <hedge/heap.h>
#include <stdio.h>

#define SPANS_KEPT 64 /* a longer list of arguments is not kept for the next request */

static enum serve_parsed wrong(struct serve_parse *p, const char *what)
{
    snprintf(p->error, sizeof p->error, "Protocol error: %s", what);
    return SERVE_WRONG;
}

static void add(struct serve_parse *p, size_t at, size_t n)
{
    if (p->argc == p->room) {
        uint32_t room = p->room == 0 ? 8 : 2 * p->room;
        struct serve_span *span = hg_alloc(room * sizeof *span, HG_LEAF);
        if (p->argc > 0)
            memcpy(span, p->span, p->argc * sizeof *span);
        hg_ref_store(&p->span, span);
        p->room = room;
    }
    p->span[p->argc++] = (struct serve_span){(uint32_t)at, (uint32_t)n};
}

void serve_parse_reset(struct serve_parse *p)
{
    if (p->room > SPANS_KEPT) {
        hg_ref_store(&p->span, NULL);
        p->room = 0;
    }
    p->argc = 0;
    p->at = 0;
    p->bulks = 0;
    p->bulk = 0;
}

/* ---- arrays of bulk strings ---- */

/* The header line at p->at: its number. SERVE_REQUEST: it is there, whole. */
static enum serve_parsed header(struct serve_parse *p, const char *bytes, size_t n,
                                const char *long_line, bool *number, int64_t *value)
{
    const char *from = bytes + p->at, *end = memchr(from, '\r', n - p->at);
    if (end == NULL)
        return n - p->at > SERVE_LINE_MAX ? wrong(p, long_line) : SERVE_MORE;
    if (end + 1 == bytes + n)
        return SERVE_MORE;
    *number = serve_int_parse((struct serve_text){from + 1, (size_t)(end - from) - 1}, value);
    p->at = (size_t)(end - bytes) + 2;
    return SERVE_REQUEST;
}

static enum serve_parsed parse_bulk(struct serve_parse *p, const char *bytes, size_t n)
{
    bool number;
    int64_t value;
    if (p->bulk == 0) {
        if (p->at == n)
            return SERVE_MORE;
        if (bytes[p->at] != '$') {
            char text[40];
            snprintf(text, sizeof text, "expected '$', got '%c'", bytes[p->at]);
            return wrong(p, text);
        }
        enum serve_parsed r = header(p, bytes, n, "too big bulk count string", &number, &value);
        if (r != SERVE_REQUEST)
            return r;
        if (!number || value < 0 || value > SERVE_BULK_MAX)
            return wrong(p, "invalid bulk length");
        p->bulk = value + 1;
    }
    size_t length = (size_t)p->bulk - 1;
    if (n - p->at < length + 2)
        return SERVE_MORE;
    add(p, p->at, length);
    p->at += length + 2;
    p->bulk = 0;
    return SERVE_REQUEST;
}

static enum serve_parsed parse_array(struct serve_parse *p, const char *bytes, size_t n)
{
    enum serve_parsed r;
    if (p->bulks == 0) {
        bool number;
        int64_t value;
        r = header(p, bytes, n, "too big mbulk count string", &number, &value);
        if (r != SERVE_REQUEST)
            return r;
        if (!number || value > SERVE_BULKS_MAX)
            return wrong(p, "invalid multibulk length");
        if (value <= 0)
            return SERVE_REQUEST;
        p->bulks = value;
    }
    while (p->bulks > 0) {
        if ((r = parse_bulk(p, bytes, n)) != SERVE_REQUEST)
            return r;
        p->bulks--;
    }
    return SERVE_REQUEST;
}

/* ---- lines ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that the escape at *at means; moves *at behind it. There are two bytes at least. */
static char unescape(const char *bytes, size_t *at, size_t end)
{
    static const char from[] = "nrtba", to[] = "\n\r\t\b\a";
    const char *c = bytes + *at + 1;
    if (*c == 'x' && end - *at >= 4 && hex_digit(c[1]) >= 0 && hex_digit(c[2]) >= 0) {
        *at += 4;
        return (char)(hex_digit(c[1]) * 16 + hex_digit(c[2]));
    }
    *at += 2;
    const char *known = *c == 0 ? NULL : strchr(from, *c);
    return known != NULL ? to[known - from] : *c;
}

/* Unquotes the rest of a word whose opening quote is at *at; *out: where its bytes go. False: it is
 * not closed, or goes on behind the closing quote. */
static bool unquote(char *bytes, size_t *at, size_t end, size_t *out)
{
    char quote = bytes[(*at)++];
    while (*at < end && bytes[*at] != quote) {
        bool escape = bytes[*at] == '\\' && *at + 1 < end;
        if (escape && quote == '"') {
            bytes[(*out)++] = unescape(bytes, at, end);
        } else {
            if (escape && bytes[*at + 1] == '\'')
                (*at)++;
            bytes[(*out)++] = bytes[(*at)++];
        }
    }
    if (*at == end)
        return false;
    ++*at;
    return *at == end || isspace((unsigned char)bytes[*at]);
}

/* The words of bytes[0..end). */
static bool split_words(struct serve_parse *p, char *bytes, size_t end)
{
    size_t at = 0;
    for (;;) {
        while (at < end && isspace((unsigned char)bytes[at]))
            at++;
        if (at == end)
            return true;
        size_t word = at, out = at;
        while (at < end && !isspace((unsigned char)bytes[at])) {
            if (bytes[at] != '"' && bytes[at] != '\'')
                bytes[out++] = bytes[at++];
            else if (!unquote(bytes, &at, end, &out))
                return false;
        }
        add(p, word, out - word);
    }
}

static enum serve_parsed parse_line(struct serve_parse *p, char *bytes, size_t n)
{
    char *end = memchr(bytes, '\n', n);
    if (end == NULL)
        return n > SERVE_LINE_MAX ? wrong(p, "too big inline request") : SERVE_MORE;
    size_t length = (size_t)(end - bytes);
    p->at = length + 1;
    if (length > 0 && bytes[length - 1] == '\r')
        length--;
    return split_words(p, bytes, length) ? SERVE_REQUEST : wrong(p, "unbalanced quotes in request");
}

enum serve_parsed serve_parse(struct serve_parse *p, char *bytes, size_t n)
{
    if (n == 0)
        return SERVE_MORE;
    return bytes[0] == '*' ? parse_array(p, bytes, n) : parse_line(p, bytes, n);
}
