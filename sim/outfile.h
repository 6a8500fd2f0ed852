/* outfile.h: files that appear whole or not at all: written beside their place under a temporary
 * name, then renamed. A run that is killed leaves the old file as it was. What is there and no
 * regular file (a pipe, /dev/stdout) is written directly. */
#ifndef HG_SIM_OUTFILE_H
#define HG_SIM_OUTFILE_H
#include <stdio.h>

struct sim_outfile {
    FILE *file;
    char *path, *temporary; /* temporary NULL: written directly */
};

/* Can a file be put at path later? 0 or a negative errno; creates nothing. */
int sim_outfile_check(const char *path);
/* Opens the temporary file. 0 or a negative errno. */
int sim_outfile_open(struct sim_outfile *f, const char *path);
/* Closes it and gives it its name. 0 or a negative errno: then nothing has changed at path and no
 * temporary is left. */
int sim_outfile_commit(struct sim_outfile *f);
/* Closes it and leaves nothing behind, since its contents could not be made. Returns -EIO. */
int sim_outfile_discard(struct sim_outfile *f);

/* Writes what a file is to hold: 0, or -1 where that could not be made. What the stream did not
 * take its error flag says. */
typedef int sim_outfile_writer(FILE *out, const void *data);
/* The file as its writer makes it. 0 or a negative errno. */
int sim_outfile_write(const char *path, sim_outfile_writer *write, const void *data);
/* The same for a file that an option of a program asks for; path NULL: it does not. Returns how
 * many failed: 0, or 1, and that was said on standard error. */
int sim_outfile_put(const char *program, const char *option, const char *path,
                    sim_outfile_writer *write, const void *data);
/* Says on standard error that such a file could not be written. Returns 1. */
int sim_outfile_complain(const char *program, const char *option, const char *path,
                         const char *why);

#endif
