/* report.c: the page of a report (report.h): its frame, text, tables, escaping, and its file.
 *
 * The page is built in memory and written at the end, so that nothing half made is ever seen.
 * Colours are dark on light whatever the reader's system prefers: plots are drawn once, for a light
 * page.
 */
#include "sim/machine.h"
#include "sim/memory.h"
#include "sim/outfile.h"
#include "sim/report_internal.h"
#include <ctype.h>
#include <stdarg.h>
#include <string.h>

static const char frame_head[] =
    "<!DOCTYPE html>\n"
    "<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
    "<meta charset=\"utf-8\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
    "<meta name=\"color-scheme\" content=\"light\"/>\n";

static const char frame_style[] =
    "<style>\n"
    "html { background: #fff; color: #1a1a1a; -webkit-text-size-adjust: 100%; }\n"
    "body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto;\n"
    "  padding: 0.75rem; overflow-wrap: anywhere; }\n"
    "h1 { font-size: 1.4rem; line-height: 1.25; margin: 0.5rem 0; }\n"
    "h2 { font-size: 1.15rem; margin: 1.75rem 0 0.5rem; border-bottom: 1px solid #ccc; }\n"
    "p { margin: 0.5rem 0; }\n"
    ".sub, footer, caption { color: #555; font-size: 0.875rem; }\n"
    ".wide { overflow-x: auto; margin: 0.75rem 0; }\n"
    "table { border-collapse: collapse; font-size: 0.875rem;\n"
    "  font-variant-numeric: tabular-nums; overflow-wrap: normal; }\n"
    "caption { text-align: left; padding-bottom: 0.25rem; }\n"
    "th, td { padding: 0.2rem 0.6rem; text-align: left; border-bottom: 1px solid #ddd;\n"
    "  white-space: nowrap; }\n"
    ".n { text-align: right; }\n"
    "figure { margin: 0.75rem 0; }\n"
    "figcaption span { margin-right: 0.9rem; white-space: nowrap; font-size: 0.875rem; }\n"
    "figcaption i { display: inline-block; width: 0.8em; height: 0.8em; margin-right: 0.3em; }\n"
    "svg { display: block; width: 100%; max-width: 34rem; height: auto; }\n"
    "</style>\n";

size_t sim_report_character(const char *s)
{
    const unsigned char *u = (const unsigned char *)s;
    if (u[0] < 0x80)
        return u[0] >= 0x20 || u[0] == '\t' || u[0] == '\n' || u[0] == '\r' ? 1 : 0;
    size_t n = u[0] >= 0xf0 && u[0] < 0xf5 ? 4 : u[0] >= 0xe0 ? 3 : u[0] >= 0xc2 ? 2 : 0;
    if (u[0] >= 0xf5 || n == 0)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((u[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xf0 && u[1] < 0x90);
    bool surrogate = u[0] == 0xed && u[1] >= 0xa0;
    bool beyond = u[0] == 0xf4 && u[1] >= 0x90;
    bool no_character = u[0] == 0xef && u[1] == 0xbf && u[2] >= 0xbe;
    return overlong || surrogate || beyond || no_character ? 0 : n;
}

void sim_report_escape(FILE *out, const char *text)
{
    while (*text != 0) {
        size_t n = sim_report_character(text);
        if (n == 0)
            fputs("\xef\xbf\xbd", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '>')
            fputs("&gt;", out);
        else if (*text == '"')
            fputs("&quot;", out);
        else
            fwrite(text, 1, n, out);
        text += n > 0 ? n : 1;
    }
}

void sim_report_fail(struct sim_report *r, const char *format, ...)
{
    va_list args;
    if (r->failure[0] != 0)
        return;
    va_start(args, format);
    vsnprintf(r->failure, sizeof r->failure, format, args);
    va_end(args);
}

static void element(struct sim_report *r, const char *open, const char *text, const char *close)
{
    fputs(open, r->out);
    sim_report_escape(r->out, text);
    fputs(close, r->out);
}

struct sim_report *sim_report_begin(const char *title, const char *subtitle)
{
    struct sim_report *r = sim_alloc(1, sizeof *r);
    r->out = open_memstream(&r->page, &r->length);
    if (r->out == NULL) {
        fprintf(stderr, "hedge-sim: no memory for a report\n");
        abort();
    }
    fputs(frame_head, r->out);
    element(r, "<title>", title, "</title>\n");
    fputs(frame_style, r->out);
    fputs("</head>\n<body>\n", r->out);
    element(r, "<h1>", title, "</h1>\n");
    if (subtitle[0] != 0)
        element(r, "<p class=\"sub\">", subtitle, "</p>\n");
    return r;
}

void sim_report_heading(struct sim_report *r, const char *text)
{
    element(r, "<h2>", text, "</h2>\n");
}

void sim_report_text(struct sim_report *r, const char *text) { element(r, "<p>", text, "</p>\n"); }

void sim_report_textf(struct sim_report *r, const char *format, ...)
{
    va_list args;
    char *text = NULL;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    if (text == NULL)
        sim_report_fail(r, "no memory for a paragraph");
    else
        sim_report_text(r, text);
    free(text);
}

/* A number, its unit or an interval behind it, but no words: "20.4k", "1.23 ±0.05", "-". */
static bool looks_numeric(const char *text)
{
    if (text[0] != 0 && strchr("0123456789+-.", text[0]) == NULL)
        return false;
    for (size_t i = 0; text[0] != 0 && text[i + 1] != 0; i++)
        if (isalpha((unsigned char)text[i]) && isalpha((unsigned char)text[i + 1]))
            return false;
    return true;
}

void sim_report_table(struct sim_report *r, const char *caption, size_t columns, size_t rows,
                      const char *const *cells)
{
    fputs("<div class=\"wide\"><table>\n", r->out);
    if (caption[0] != 0)
        element(r, "<caption>", caption, "</caption>\n");
    for (size_t i = 0; i < rows; i++) {
        fputs("<tr>", r->out);
        for (size_t k = 0; k < columns; k++) {
            const char *text = cells[i * columns + k];
            /* A head stands over its column: to the right if the first cell below it does. */
            const char *like = i == 0 && rows > 1 ? cells[columns + k] : text;
            fprintf(r->out, "<%s%s>", i == 0 ? "th" : "td",
                    k > 0 && looks_numeric(like) ? " class=\"n\"" : "");
            sim_report_escape(r->out, text);
            fprintf(r->out, "</%s>", i == 0 ? "th" : "td");
        }
        fputs("</tr>\n", r->out);
    }
    fputs("</table></div>\n", r->out);
}

void sim_report_abandon(struct sim_report *r)
{
    fclose(r->out);
    free(r->page);
    free(r);
}

int sim_report_end(struct sim_report *r, const char *path, char *why, size_t room)
{
    struct sim_outfile f;
    element(r, "<footer><p>hedge-sim, commit ", sim_commit(), "</p></footer>\n</body>\n</html>\n");
    if (fflush(r->out) != 0)
        sim_report_fail(r, "no memory for the page");
    int err = r->failure[0] != 0 ? -1 : 0;
    snprintf(why, room, "%s", r->failure);
    if (err == 0 && (err = sim_outfile_open(&f, path)) == 0) {
        fwrite(r->page, 1, r->length, f.file);
        err = sim_outfile_commit(&f);
    }
    if (err != 0 && r->failure[0] == 0)
        snprintf(why, room, "%s", strerror(-err));
    sim_report_abandon(r);
    return err != 0 ? -1 : 0;
}
