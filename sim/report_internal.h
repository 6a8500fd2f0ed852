/* report_internal.h: between report.c, which holds the page, and report_plot.c, which draws. */
#ifndef HG_SIM_REPORT_INTERNAL_H
#define HG_SIM_REPORT_INTERNAL_H
#include "sim/report.h"
#include <stdio.h>

struct sim_report {
    char *page; /* so far; `out` writes it */
    size_t length;
    FILE *out;
    unsigned plots;
    char failure[300]; /* the first; "": none */
};

/* Writes text with what is special in XML replaced. */
void sim_report_escape(FILE *out, const char *text);
/* Remembers the first failure. */
__attribute__((format(printf, 2, 3))) void sim_report_fail(struct sim_report *r, const char *format,
                                                           ...);
/* The length of the UTF-8 character at s, which XML 1.0 may hold; 0: it is none. */
size_t sim_report_character(const char *s);

#endif
