/* option.c: values of options that several commands take (option.h). */
#include "sim/option.h"
#include "sim/outfile.h"
#include "sim/report.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double sim_option_number(struct argp_state *state, const char *option, const char *text, double low,
                         double high, bool whole)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    bool plain = *text != 0 && strspn(text, "0123456789.eE+-") == strlen(text);
    if (!plain || *end != 0 || errno != 0 || v < low || v > high || (whole && v != floor(v)))
        argp_error(state, "--%s: expected %s from %.15g to %.15g, not \"%s\"", option,
                   whole ? "a whole number" : "a number", low, high, text);
    return v;
}

const char *sim_option_file(struct argp_state *state, const char *option, const char *path)
{
    int err = sim_outfile_check(path);
    if (err != 0)
        argp_error(state, "--%s: expected a file that can be written, not \"%s\": %s", option, path,
                   strerror(-err));
    return path;
}

const char *sim_option_report(struct argp_state *state, const char *path)
{
    char why[200];
    if (sim_report_possible(why, sizeof why) != 0)
        argp_error(state, "--report: %s", why);
    return sim_option_file(state, "report", path);
}
