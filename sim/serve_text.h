/* serve_text.h: bytes that somebody sent: numbers in them, patterns on them, hashes of them. Pure
 * functions; nothing here knows the collected heap.
 */
#ifndef HG_SIM_SERVE_TEXT_H
#define HG_SIM_SERVE_TEXT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes somewhere, any bytes, not terminated. */
struct serve_text {
    const char *at;
    size_t n;
};

static inline struct serve_text serve_text_of(const char *s)
{
    return (struct serve_text){s, strlen(s)};
}
/* Equal to a word in lower case, whatever the case of t. */
bool serve_text_is(struct serve_text t, const char *word);
bool serve_text_equal(struct serve_text a, struct serve_text b);
/* As strcmp: by bytes, a prefix first. */
int serve_text_order(struct serve_text a, struct serve_text b);

/* A whole decimal int64 and nothing else: no blanks, no plus, no leading zeros, no "-0". */
bool serve_int_parse(struct serve_text t, int64_t *out);
/* A number or an infinity as strtod reads it, and nothing else: no blanks, no NaN, no overflow. */
bool serve_double_parse(struct serve_text t, double *out);
/* What a client is shown; returns the length, without the terminating zero. */
size_t serve_int_format(int64_t v, char buffer[24]);
size_t serve_double_format(double v, char buffer[40]);

/* Whether the whole of `text` fits a pattern: * ? [a-z] [^a] and a backslash before a character
 * that means itself. */
bool serve_glob(struct serve_text pattern, struct serve_text text);

/* The key of the hash, secret, so that no client can make keys that collide. */
struct serve_seed {
    uint64_t w[2];
};
uint64_t serve_hash(const struct serve_seed *seed, struct serve_text t);

#endif
