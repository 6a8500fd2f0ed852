/* format.h: a small printf for last words: no allocation, no lock, no locale, about 200 bytes of
 * stack. */
#ifndef HG_BASE_FORMAT_H
#define HG_BASE_FORMAT_H
#include <stdarg.h>
#include <stddef.h>

/* Writes the text into buf (`room` bytes, at least 4), always terminated; a text that does not fit
 * ends in "...". Returns the length written. Conversions: d i u x X c s p f %, with flags '-' and
 * '0', width and precision ('*' too), and lengths hh h l ll z j t. What it does not know is printed
 * as it stands, with all that follows. */
size_t hg__vformat(char *buf, size_t room, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
size_t hg__format(char *buf, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
