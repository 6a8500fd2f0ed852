/* text.c: numbers for people (text.h). */
#include "sim/text.h"
#include <math.h>
#include <string.h>

#define ROOM  32
#define WIDTH 79

char *text_count(double v, char *buffer)
{
    char digits[ROOM];
    if (isnan(v) || fabs(v) >= 1e15) {
        snprintf(buffer, ROOM, "%.4g", v);
        return buffer;
    }
    int n = snprintf(digits, sizeof digits, "%.0f", fabs(v)), k = 0;
    if (v <= -0.5)
        buffer[k++] = '-';
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            buffer[k++] = ',';
        buffer[k++] = digits[i];
    }
    buffer[k] = 0;
    return buffer;
}

static char *scaled(double v, double base, const char *const *unit, int units, char *buffer)
{
    int i = 0;
    while (i + 1 < units && v >= 0.9995 * base) {
        v /= base;
        i++;
    }
    snprintf(buffer, ROOM, i == 0 || v >= 99.95 ? "%.0f%s" : "%.1f%s", v, unit[i]);
    return buffer;
}

char *text_short(double v, char *buffer)
{
    static const char *const unit[] = {"", "k", "M", "G", "T"};
    return scaled(v, 1000, unit, 5, buffer);
}

char *text_bytes(double v, char *buffer)
{
    static const char *const unit[] = {" B", " KB", " MB", " GB", " TB"};
    return scaled(v, 1000, unit, 5, buffer);
}

char *text_ms(double ns, char *buffer)
{
    double ms = ns / 1e6;
    if (isnan(ns))
        snprintf(buffer, ROOM, "-");
    else
        snprintf(buffer, ROOM, "%.*f", ms < 9.9995 ? 3 : ms < 99.995 ? 2 : ms < 999.95 ? 1 : 0, ms);
    return buffer;
}

char *text_duration(double s, char *buffer)
{
    if (s < 99.5)
        snprintf(buffer, ROOM, "%.0f s", s);
    else if (s < 99.5 * 60)
        snprintf(buffer, ROOM, "%.0f min", s / 60);
    else
        snprintf(buffer, ROOM, "%.1f h", s / 3600);
    return buffer;
}

void text_wrap(FILE *out, int indent, const char *text)
{
    int column = indent;
    while (*text != 0) {
        int word = (int)strcspn(text, " \n");
        if (column > indent && column + 1 + word > WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        }
        column += fprintf(out, "%s%.*s", column > indent ? " " : "", word, text);
        text += word;
        text += strspn(text, " \n");
    }
    fputc('\n', out);
}
