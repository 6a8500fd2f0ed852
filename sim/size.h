/* size.h: sizes on the command line: a number and KiB, MiB, GiB or TiB (or nothing, or B). */
#ifndef HG_SIM_SIZE_H
#define HG_SIM_SIZE_H
#include <argp.h>
#include <stdint.h>

#define SIM_SIZE_LEAST INT64_C(1048576)   /* 1 MiB */
#define SIM_SIZE_MOST  (INT64_C(1) << 50) /* 1 PiB */

/* Bytes, or -1: text is no size from least to most. */
int64_t sim_size_within(const char *text, int64_t least, int64_t most);
/* The same from SIM_SIZE_LEAST to SIM_SIZE_MOST. */
int64_t sim_size_parse(const char *text);
/* The same for the value of an option, or the end of the process with a message. */
int64_t sim_size_option(struct argp_state *state, const char *option, const char *text);
/* "64 MiB", "1.5 GiB" into a buffer of at least 32 bytes, which is returned. */
char *sim_size_text(double bytes, char *buffer);

#endif
