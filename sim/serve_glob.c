/* serve_glob.c: patterns of KEYS and SCAN.
 *
 * One star at a time: on a mismatch the last star takes one byte more, and what an earlier star has
 * taken is never taken back. That finds a match whenever there is one, and is at most n*m steps:
 * recursing at each star, as is common, takes exponential time on a pattern like *a*a*a*a*b.
 * As Redis does it: a class that is not closed ends with the pattern; a range may be given in
 * either order; a backslash at the end means itself.
 */
#include "sim/serve_text.h"

/* Whether byte c is in the class that begins after a '[' at p; *end: behind the class. */
static bool in_class(const char *p, const char *last, unsigned char c, const char **end)
{
    bool inverted = p < last && *p == '^', found = false;
    if (inverted)
        p++;
    for (; p < last && *p != ']'; p++) {
        unsigned char low = (unsigned char)*p, high;
        if (low == '\\' && last - p >= 2) {
            p++;
            found |= (unsigned char)*p == c;
        } else if (last - p >= 3 && p[1] == '-') {
            high = (unsigned char)p[2];
            p += 2;
            found |= low <= high ? c >= low && c <= high : c >= high && c <= low;
        } else {
            found |= low == c;
        }
    }
    *end = p < last ? p + 1 : last;
    return found != inverted;
}

/* Whether the element of the pattern at p (not a star) takes byte c; *end: behind the element. */
static bool takes(const char *p, const char *last, unsigned char c, const char **end)
{
    if (*p == '[')
        return in_class(p + 1, last, c, end);
    if (*p == '\\' && last - p >= 2)
        p++;
    else if (*p == '?') {
        *end = p + 1;
        return true;
    }
    *end = p + 1;
    return (unsigned char)*p == c;
}

bool serve_glob(struct serve_text pattern, struct serve_text text)
{
    const char *p = pattern.at, *last = p + pattern.n;
    const char *t = text.at, *end = t + text.n;
    const char *star = NULL, *taken = NULL; /* behind the last star; where it stops taking */
    while (t < end) {
        const char *next;
        if (p < last && *p == '*') {
            star = ++p;
            taken = t;
        } else if (p < last && takes(p, last, (unsigned char)*t, &next)) {
            p = next;
            t++;
        } else if (star != NULL) {
            p = star;
            t = ++taken;
        } else {
            return false;
        }
    }
    while (p < last && *p == '*')
        p++;
    return p == last;
}
