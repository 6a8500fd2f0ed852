/* option.h: values of options that several commands take: numbers, output files, pages. A wrong one
 * ends the process with status 2 and a message that names the option, the value and what was
 * expected. */
#ifndef HG_SIM_OPTION_H
#define HG_SIM_OPTION_H
#include <argp.h>
#include <stdbool.h>

/* A decimal number from low to high; whole: without a fraction. */
double sim_option_number(struct argp_state *state, const char *option, const char *text, double low,
                         double high, bool whole);
/* A file that can be put there later; nothing is created. */
const char *sim_option_file(struct argp_state *state, const char *option, const char *path);
/* Likewise for --report; gnuplot must be there. */
const char *sim_option_report(struct argp_state *state, const char *path);

#endif
