/* text.h: numbers for people. Each writes into the caller's buffer of at least 32 bytes and returns
 * it. */
#ifndef HG_SIM_TEXT_H
#define HG_SIM_TEXT_H
#include <stdio.h>

char *text_count(double v, char *buffer); /* 20000 -> "20,000"; rounded to a whole number */
char *text_short(double v, char *buffer); /* 30123 -> "30.1k"; at most 6 characters */
char *text_ms(double ns,
              char *buffer); /* four figures of milliseconds: "0.512", "23.40", "161.5", "1325" */
char *text_bytes(double v, char *buffer);    /* "3.9 KB", "13.4 GB": powers of 1000 */
char *text_duration(double s, char *buffer); /* "45 s", "14 min" */

/* Prints text and a newline, broken at blanks into lines of at most 79 columns. The first begins at
 * column `indent`, where the caller has got to; the others are indented by as much. */
void text_wrap(FILE *out, int indent, const char *text);

#endif
