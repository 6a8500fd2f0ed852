/* size.c: sizes on the command line (size.h). Units are written as in GOMEMLIMIT; unlike there a
 * fraction is allowed, since sizes here are chosen for an experiment and not for a budget. */
#include "sim/size.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t sim_size_within(const char *text, int64_t least, int64_t most)
{
    static const struct {
        const char *name;
        int shift;
    } units[] = {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
    size_t digits = strspn(text, "0123456789.");
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (digits == 0 || errno != 0 || end != text + digits)
        return -1;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name) != 0)
            continue;
        v = floor(ldexp(v, units[i].shift));
        return v >= (double)least && v <= (double)most ? (int64_t)v : -1;
    }
    return -1;
}

int64_t sim_size_parse(const char *text)
{
    return sim_size_within(text, SIM_SIZE_LEAST, SIM_SIZE_MOST);
}

int64_t sim_size_option(struct argp_state *state, const char *option, const char *text)
{
    int64_t bytes = sim_size_parse(text);
    if (bytes < 0)
        argp_error(state,
                   "--%s: expected a size from 1MiB to 1024TiB such as 64MiB (B, KiB, MiB, GiB, "
                   "TiB), not \"%s\"",
                   option, text);
    return bytes;
}

char *sim_size_text(double bytes, char *buffer)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int i = 0;
    while (i < 4 && bytes >= 1024) {
        bytes /= 1024;
        i++;
    }
    snprintf(buffer, 32, "%.4g %s", bytes, unit[i]);
    return buffer;
}
