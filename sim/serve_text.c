/* serve_text.c: numbers and the hash (serve_text.h).
 *
 * Which texts are numbers a client can see in the errors it gets, so it is as Redis has it: an
 * integer has one spelling only; a score is whatever strtod takes whole.
 *
 * The hash is SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012, with
 * one round per word and three to finish, as in Rust's and Python's tables): with a secret seed a
 * client cannot make one bucket hold all of its keys. Rejected: an unkeyed hash, faster by some ns
 * a key, with which a few MB of chosen keys stop the server.
 */
#include "sim/serve_text.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

bool serve_text_is(struct serve_text t, const char *word)
{
    for (size_t i = 0; i < t.n; i++)
        if (word[i] == 0 || tolower((unsigned char)t.at[i]) != word[i])
            return false;
    return word[t.n] == 0;
}

bool serve_text_equal(struct serve_text a, struct serve_text b)
{
    return a.n == b.n && memcmp(a.at, b.at, a.n) == 0;
}

int serve_text_order(struct serve_text a, struct serve_text b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = memcmp(a.at, b.at, n);
    if (order == 0)
        order = (a.n > b.n) - (a.n < b.n);
    return order;
}

/* ---- numbers ---- */

bool serve_int_parse(struct serve_text t, int64_t *out)
{
    size_t i = 0;
    uint64_t v = 0;
    bool negative = t.n > 0 && t.at[0] == '-';
    if (negative)
        i++;
    if (t.n - i == 0 || t.n - i > 19)
        return false;
    if (t.at[i] == '0') {
        *out = 0;
        return t.n == 1;
    }
    for (; i < t.n; i++) {
        if (t.at[i] < '0' || t.at[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(t.at[i] - '0');
    }
    if (v > (uint64_t)INT64_MAX + negative)
        return false;
    *out = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

bool serve_double_parse(struct serve_text t, double *out)
{
    char small[128], *copy = t.n < sizeof small ? small : malloc(t.n + 1), *end;
    if (copy == NULL)
        return false;
    memcpy(copy, t.at, t.n);
    copy[t.n] = 0;
    errno = 0;
    double v = strtod(copy, &end);
    bool whole = t.n > 0 && !isspace((unsigned char)copy[0]) && (size_t)(end - copy) == t.n;
    if (copy != small)
        free(copy);
    if (!whole || isnan(v) || (errno == ERANGE && (isinf(v) || fpclassify(v) == FP_ZERO)))
        return false;
    *out = v;
    return true;
}

size_t serve_int_format(int64_t v, char buffer[24])
{
    char digits[24];
    size_t n = 0, length = 0;
    uint64_t rest = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do
        digits[n++] = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (v < 0)
        buffer[length++] = '-';
    while (n > 0)
        buffer[length++] = digits[--n];
    buffer[length] = 0;
    return length;
}

size_t serve_double_format(double v, char buffer[40])
{
    if (v == (double)(int64_t)(v > -1e15 && v < 1e15 ? v : 0.5) && (v != 0 || !signbit(v)))
        return serve_int_format((int64_t)v, buffer);
    return (size_t)snprintf(buffer, 40, "%.17g", v);
}

/* ---- the hash ---- */

static inline uint64_t turn(uint64_t x, int by) { return x << by | x >> (64 - by); }

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = turn(v[1], 13) ^ v[0];
    v[3] = turn(v[3], 16) ^ v[2];
    v[0] = turn(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = turn(v[1], 17) ^ v[2];
    v[3] = turn(v[3], 21) ^ v[0];
    v[2] = turn(v[2], 32);
}

uint64_t serve_hash(const struct serve_seed *seed, struct serve_text t)
{
    uint64_t v[4] = {
        seed->w[0] ^ UINT64_C(0x736f6d6570736575), seed->w[1] ^ UINT64_C(0x646f72616e646f6d),
        seed->w[0] ^ UINT64_C(0x6c7967656e657261), seed->w[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t word;
    size_t i = 0;
    for (; i + 8 <= t.n; i += 8) {
        memcpy(&word, t.at + i, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    word = (uint64_t)t.n << 56;
    for (unsigned shift = 0; i < t.n; i++, shift += 8)
        word |= (uint64_t)(unsigned char)t.at[i] << shift;
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    for (int k = 0; k < 3; k++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
