/* joined.h: results of several runs of one program, joined: by a sweep, and by `hedge-sim merge`.
 *
 * What goes in are the documents that kv, pacer and scale write with --json: a "program", "params",
 * and "runs", each an object of texts (policy, model) and figures, some of these in groups
 * (latency_ns). What comes out is one list of runs, each with the point at which it was made, as
 * text, CSV, JSON and a page. Nothing here knows a program's figures, but for a list of those that
 * a table shows first.
 *
 * Names of figures are those of kv's --fail-if: "latency_ns": {"p99"} is p99, "hold_ns": {"p99"}
 * hold_p99, "max_rss_bytes" max_rss; "ci95": {"assist_share": [a, b]} gives ci95_assist_share_low
 * and _high.
 *
 * Runs that differ in repetition or seed alone are shown as their medians, with the medians' 95 %
 * intervals (stats.h) from SIM_FEWEST_FOR_INTERVAL runs on. A run that stands alone and sums up
 * many seeds itself, as pacer's do, has the intervals that it came with.
 */
#ifndef HG_SIM_JOINED_H
#define HG_SIM_JOINED_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct sim_report;

enum sim_unit { SIM_UNIT_PLAIN, SIM_UNIT_NS, SIM_UNIT_BYTES, SIM_UNIT_SHARE };

/* A run as a row, or the medians of several. */
struct sim_row {
    char **label;       /* of columns labels; "" where it has none */
    double *figure;     /* NaN where it has none */
    double *low, *high; /* of several: 95 % intervals of the figures; NaN: too few */
    size_t runs;
};

struct sim_joined {
    char program[64];
    char *first; /* the file that named it */
    /* Documents, in order; what was put in. */
    json_t **document;
    json_t **point; /* given with it, NULL: as params differ */
    size_t documents;
    /* After sim_joined_finish. */
    char **label; /* names: the point's params first, then texts of runs */
    size_t labels, params;
    char **figure;
    enum sim_unit *unit;
    size_t figures;
    struct sim_row *row; /* a run each */
    size_t rows;
    struct sim_row *group; /* medians over rows with the same labels, in order of appearance */
    size_t groups;
    bool interrupted; /* not all points were made */
};

void sim_joined_init(struct sim_joined *j);
void sim_joined_free(struct sim_joined *j);
/* Adds the document in a file. point: an object of texts, which is taken over, or NULL. 0, or -1:
 * `why` names the file and what was expected in it. */
int sim_joined_add(struct sim_joined *j, const char *path, json_t *point, char *why, size_t room);
/* Lays the rows out and makes the groups. */
void sim_joined_finish(struct sim_joined *j);
/* Number of a figure, or `figures`. */
size_t sim_joined_figure(const struct sim_joined *j, const char *name);

/* ---- output (joined_text.c, joined_files.c, joined_report.c, joined_notes.c) ---- */

/* Figures that a table shows, the most telling first: indexes in show[], at most `most`. */
size_t sim_joined_shown(const struct sim_joined *j, size_t *show, size_t most);
/* A figure for people, in at most 11 characters. */
const char *sim_joined_text(double v, enum sim_unit unit, char *buffer);
/* Its interval, "0.11..0.36", in at most 12 characters, with fewer digits if they have to be; "too
 * few" for the interval of a figure that is known, "" of one that is not. buffer: 32 bytes. */
const char *sim_joined_interval(const struct sim_row *group, size_t figure, enum sim_unit unit,
                                char *buffer);
/* Has any group the interval of one of these n figures? */
bool sim_joined_has_interval(const struct sim_joined *j, const size_t *figure, size_t n);
/* What the figures of groups and their intervals are, for below a table; "": there are no runs, or
 * nothing needs to be said. */
const char *sim_joined_legend(const struct sim_joined *j, bool intervals, char *buffer,
                              size_t room);
void sim_joined_print(FILE *out, const struct sim_joined *j);
/* Prints which group meets the expression with the least memory. 0; 1: none does; -1: it cannot be
 * evaluated, and that was said on standard error. */
int sim_joined_want(FILE *out, const struct sim_joined *j, const char *expression);
/* Of a program that was recorded elsewhere: what all documents say alike of where it comes from, as
 * they say it ("recorded"), for the caller to give back; NULL: it was not recorded. */
json_t *sim_joined_recorded(const struct sim_joined *j);
/* The same on the page, with what differs from point to point; nothing if it was not recorded. */
void sim_joined_report_notes(struct sim_report *page, const struct sim_joined *j);
/* Each 0 or a negative errno. */
int sim_joined_write_json(const struct sim_joined *j, const char *path);
int sim_joined_write_csv(const struct sim_joined *j, const char *path);
/* 0, or -1: `why` says what went wrong. */
int sim_joined_write_report(const struct sim_joined *j, const char *path, char *why, size_t room);
/* All that are not NULL; what failed is said on standard error. Returns how many failed. */
int sim_joined_write(const struct sim_joined *j, const char *program, const char *json,
                     const char *csv, const char *report);

#endif
