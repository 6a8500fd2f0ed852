/* format.c: a small printf for last words.
 *
 * Why not vsnprintf: hg__fatal must work on a task stack with 2 KiB left, in a signal handler and
 * while the host's malloc holds its lock. The C library's takes between 1 and 8 KiB of stack, looks
 * at the locale, and may allocate for a wide field. This one writes straight into the caller's
 * buffer.
 *
 * Structure: struct sink is the buffer with its end; struct spec is one conversion as parsed. Each
 * conversion turns its argument into digits in a buffer of 24 bytes at most, then pads. All state
 * is on the stack.
 *
 * Kept out: floating point beyond %f of magnitudes that fit 64 bits (larger ones print as "huge"),
 * %n, wide characters, the flags '#', '+', ' ' and '''.
 */
#include "base/format.h"

#include "base/assert.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct sink {
    char *at, *end; /* end leaves room for the terminator */
    bool full;
};

struct spec {
    bool left, zero;
    int width, precision; /* precision -1: none given */
    char length;          /* 0, 'H' (hh), 'h', 'l', 'L' (ll), 'z', 'j', 't' */
    char conversion;
};

static void put(struct sink *s, const char *text, size_t n)
{
    size_t left = (size_t)(s->end - s->at);
    if (n > left) {
        n = left;
        s->full = true;
    }
    memcpy(s->at, text, n);
    s->at += n;
}

static void pad(struct sink *s, char with, int n)
{
    for (; n > 0 && !s->full; n--)
        put(s, &with, 1);
}

/* `text` in its field; with zeros between `sign` and text when asked to. */
static void put_field(struct sink *s, const struct spec *spec, const char *sign, const char *text,
                      size_t n)
{
    size_t sign_n = strlen(sign), all = n + sign_n;
    int fill = spec->width > 0 && (size_t)spec->width > all ? spec->width - (int)all : 0;
    if (!spec->left && !spec->zero)
        pad(s, ' ', fill);
    put(s, sign, sign_n);
    if (!spec->left && spec->zero)
        pad(s, '0', fill);
    put(s, text, n);
    if (spec->left)
        pad(s, ' ', fill);
}

/* Digits of v before `end`; returns the first. At least `least` of them (the caller's buffer holds
 * them). */
static char *digits(char *end, uint64_t v, unsigned base, bool upper, int least)
{
    const char *set = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    for (; v != 0 || least > 0; v /= base, least--)
        *--end = set[v % base];
    return end;
}

static uint64_t take_unsigned(char length, va_list *args)
{
    switch (length) {
    case 'H':
        return (unsigned char)va_arg(*args, unsigned);
    case 'h':
        return (unsigned short)va_arg(*args, unsigned);
    case 'l':
        return va_arg(*args, unsigned long);
    case 'L':
        return va_arg(*args, unsigned long long);
    case 'z':
        return va_arg(*args, size_t);
    case 'j':
        return va_arg(*args, uintmax_t);
    case 't':
        return (uint64_t)va_arg(*args, ptrdiff_t);
    default:
        return va_arg(*args, unsigned);
    }
}

static int64_t take_signed(char length, va_list *args)
{
    uint64_t v = take_unsigned(length, args);
    switch (length) {
    case 'H':
        return (signed char)v;
    case 'h':
        return (short)v;
    case 0:
        return (int)(unsigned)v;
    default:
        return (int64_t)v;
    }
}

enum { NUMBER_ROOM = 24 }; /* 20 digits of 2^64 and a precision up to it */

static void put_integer(struct sink *s, struct spec *spec, va_list *args)
{
    const char *sign = "";
    uint64_t v;
    unsigned base = 10;
    if (spec->conversion == 'd' || spec->conversion == 'i') {
        int64_t given = take_signed(spec->length, args);
        sign = given < 0 ? "-" : "";
        v = given < 0 ? 0 - (uint64_t)given : (uint64_t)given;
    } else if (spec->conversion == 'p') {
        v = (uintptr_t)va_arg(*args, void *);
        sign = "0x";
        base = 16;
    } else {
        v = take_unsigned(spec->length, args);
        base = spec->conversion == 'u' ? 10 : 16;
    }
    char text[NUMBER_ROOM], *end = text + sizeof text;
    int least = spec->precision < 0             ? 1
                : spec->precision < NUMBER_ROOM ? spec->precision
                                                : NUMBER_ROOM;
    spec->zero = spec->zero && spec->precision < 0;
    char *first = digits(end, v, base, spec->conversion == 'X', least);
    put_field(s, spec, sign, first, (size_t)(end - first));
}

static void put_fixed(struct sink *s, struct spec *spec, double v)
{
    int places = spec->precision < 0 ? 6 : spec->precision < 9 ? spec->precision : 9;
    uint64_t scale = 1;
    for (int i = 0; i < places; i++)
        scale *= 10;
    const char *sign = __builtin_signbit(v) ? "-" : "";
    v = __builtin_fabs(v);
    if (!(v < 9e18 / (double)scale)) {
        const char *word = __builtin_isnan(v) ? "nan" : __builtin_isinf(v) ? "inf" : "huge";
        spec->zero = false;
        put_field(s, spec, sign, word, strlen(word));
        return;
    }
    uint64_t scaled = (uint64_t)(v * (double)scale + 0.5);
    char text[NUMBER_ROOM], *end = text + sizeof text, *first = end;
    if (places > 0) {
        first = digits(end, scaled % scale, 10, false, places);
        *--first = '.';
    }
    first = digits(first, scaled / scale, 10, false, 1);
    put_field(s, spec, sign, first, (size_t)(end - first));
}

static void put_string(struct sink *s, struct spec *spec, const char *text)
{
    if (text == NULL)
        text = "(null)";
    size_t n = spec->precision < 0 ? strlen(text) : strnlen(text, (size_t)spec->precision);
    spec->zero = false;
    put_field(s, spec, "", text, n);
}

/* A number or '*' at f; returns what follows it. -1 stays when neither is there. */
static const char *parse_number(const char *f, int *out, va_list *args)
{
    if (*f == '*') {
        *out = va_arg(*args, int);
        return f + 1;
    }
    for (; *f >= '0' && *f <= '9'; f++)
        *out = (*out < 0 ? 0 : *out > 1000 ? 1000 : *out) * 10 + (*f - '0');
    return f;
}

/* Parses what follows '%'; returns what follows the conversion. */
static const char *parse_spec(const char *f, struct spec *spec, va_list *args)
{
    *spec = (struct spec){.width = -1, .precision = -1};
    for (; *f == '-' || *f == '0'; f++) {
        spec->left |= *f == '-';
        spec->zero |= *f == '0';
    }
    f = parse_number(f, &spec->width, args);
    if (spec->width < -1) { /* a negative '*' */
        spec->left = true;
        spec->width = -spec->width;
    }
    if (*f == '.') {
        spec->precision = 0;
        f = parse_number(f + 1, &spec->precision, args);
    }
    if (*f != '\0' && strchr("hlzjt", *f) != NULL) {
        spec->length = *f++;
        if ((spec->length == 'h' || spec->length == 'l') && *f == spec->length) {
            spec->length = spec->length == 'h' ? 'H' : 'L';
            f++;
        }
    }
    spec->conversion = *f;
    return *f != '\0' ? f + 1 : f;
}

/* Prints one conversion. False: it is not known, and its argument's size neither. */
static bool put_conversion(struct sink *s, struct spec *spec, va_list *args)
{
    char c;
    switch (spec->conversion) {
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'p':
        put_integer(s, spec, args);
        return true;
    case 'c':
        c = (char)va_arg(*args, int);
        put_field(s, spec, "", &c, 1);
        return true;
    case 's':
        put_string(s, spec, va_arg(*args, const char *));
        return true;
    case 'f':
        put_fixed(s, spec, va_arg(*args, double));
        return true;
    case '%':
        put(s, "%", 1);
        return true;
    default:
        return false;
    }
}

size_t hg__vformat(char *buf, size_t room, const char *format, va_list args)
{
    HG_ASSERT(room >= 4);
    struct sink s = {buf, buf + room - 1, false};
    va_list rest;
    va_copy(rest, args);
    for (const char *f = format; *f != '\0' && !s.full;) {
        size_t plain = strcspn(f, "%");
        put(&s, f, plain);
        f += plain;
        if (*f == '\0')
            break;
        struct spec spec;
        const char *next = parse_spec(f + 1, &spec, &rest);
        if (!put_conversion(&s, &spec, &rest)) {
            put(&s, f, strlen(f));
            break;
        }
        f = next;
    }
    va_end(rest);
    *s.at = '\0';
    if (s.full)
        memcpy(s.at - 3, "...", 3);
    return (size_t)(s.at - buf);
}

size_t hg__format(char *buf, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t n = hg__vformat(buf, room, format, args);
    va_end(args);
    return n;
}
