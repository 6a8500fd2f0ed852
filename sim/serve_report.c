/* serve_report.c: what `hedge-sim serve` prints when it has stopped. */
#include "sim/serve_report.h"
#include "sim/text.h"
#include <stdlib.h>

static void line(const char *name, double v)
{
    char text[32];
    printf("%-24s %14s\n", name, text_count(v, text));
}

static void line_bytes(const char *name, uint64_t bytes)
{
    char text[32];
    printf("%-24s %14s\n", name, text_bytes((double)bytes, text));
}

static void line_us(const char *name, int64_t ns)
{
    printf("%-24s %14.1f\n", name, (double)ns / 1e3);
}

static void counts(struct serve_server *s, double seconds)
{
    double requests = (double)serve_counted(&s->requests);
    line("connections", (double)serve_counted(&s->connections));
    line("  refused", (double)serve_counted(&s->rejected));
    line("  dropped", (double)serve_counted(&s->dropped));
    line("requests", requests);
    line("  per second", seconds > 0 ? requests / seconds : 0);
    line("keys expired", (double)serve_counted(&s->store.expired));
}

void serve_report(struct serve_server *s)
{
    hg_stats st = {.size = sizeof st};
    hg_histogram *hold = malloc(sizeof *hold);
    double seconds = (double)(hg_now() - s->began) / 1e9;
    char text[32];
    hg_stats_read(s->rt, &st);
    int64_t mark = st.background_ns + st.idle_ns + st.assist_ns;
    int64_t gc = mark + st.sweep_ns + st.scan_ns;
    printf("%-24s %14s\n", "served for", text_duration(seconds, text));
    counts(s, seconds);
    line("collections", (double)st.cycles);
    printf("%-24s %14.2f\n", "GC CPU, % of procs",
           seconds > 0 ? 100 * (double)gc / (seconds * 1e9 * st.procs) : 0);
    printf("%-24s %14.2f\n", "assist, % of GC CPU",
           gc > 0 ? 100 * (double)st.assist_ns / (double)gc : 0);
    if (hold != NULL) {
        hg_stats_histogram(s->rt, HG_HIST_HOLD, hold);
        line_us("hold, us        p50", hg_histogram_quantile(hold, 0.5));
        line_us("              p99.9", hg_histogram_quantile(hold, 0.999));
        line_us("                max", hold->max);
    }
    line_bytes("allocated", st.alloc_bytes);
    line_bytes("live heap", st.heap_marked_bytes);
    line_bytes("peak heap", st.heap_peak_bytes);
    fflush(stdout);
    free(hold);
}
