/* sweep.h: one command at many points: --sweep param=a:b:step on kv, pacer and scale.
 *
 * A sweep is done by the command itself, run as a child per point with the swept option added and
 * its results as JSON in a folder of its own; the parent joins those (joined.h). So a command needs
 * no more for it than three calls:
 *
 *   - its options hold a struct sim_sweep, given to sim_sweep_argp as an argp child (child_inputs
 *     at ARGP_KEY_INIT), which parses --sweep, --want and --emit-jobs;
 *   - its parser passes its output files on with sim_sweep_output, and options that mean nothing
 *     over many points with sim_sweep_refuse;
 *   - after parsing: if (sim_sweep_asked(s)) return sim_sweep_run(s, argc, argv, parallel).
 *
 * Invariant: argv is not permuted by argp (the commands take no arguments but options), so that an
 * option is found at the place where it was parsed and can be left out for the children.
 */
#ifndef HG_SIM_SWEEP_H
#define HG_SIM_SWEEP_H
#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

#define SIM_SWEEP_AXES   8
#define SIM_SWEEP_POINTS 10000

struct sim_axis {
    char *name;   /* an option without its dashes */
    char **value; /* as they are given to the command */
    size_t n;
};

struct sim_sweep {
    struct sim_axis axis[SIM_SWEEP_AXES];
    size_t axes;
    bool emit_jobs;
    const char *want;                /* NULL: not wanted */
    const char *json, *csv, *report; /* NULL: not wanted */
    const char *refused;             /* an option that a sweep cannot have */
    bool *left_out;                  /* of argv */
    int argc;                        /* words that left_out has */
};

extern const struct argp sim_sweep_argp; /* its input: struct sim_sweep *, zeroed */

/* In the command's parser, for the option that state has just parsed. */
void sim_sweep_output(struct sim_sweep *s, struct argp_state *state, const char *option,
                      const char *path);
void sim_sweep_refuse(struct sim_sweep *s, const char *option);
/* An option whose value may be a list: true if it is one, and it is then an axis. */
bool sim_sweep_list(struct sim_sweep *s, struct argp_state *state, const char *option,
                    const char *value);

/* Takes "param=a:b:step" or "param=v1,v2,..." apart. 0, or -1: `why` says what was expected. */
int sim_axis_parse(const char *text, struct sim_axis *out, char *why, size_t room);
void sim_sweep_free(struct sim_sweep *s);

bool sim_sweep_asked(const struct sim_sweep *s);
/* Is that option swept? */
bool sim_sweep_has(const struct sim_sweep *s, const char *option);
/* Points of the sweep, and the value of each axis at one of them; the last axis turns fastest. */
size_t sim_sweep_points(const struct sim_sweep *s);
const char *sim_sweep_value(const struct sim_sweep *s, size_t point, size_t axis);
/* Writes text as a shell reads it back as one word. */
void sim_shell_quote(FILE *out, const char *text);

/* Runs all points, at most `parallel` at once (0: as many as there are CPUs), prints one table,
 * writes the files. argv may have words behind those that were parsed: for the children alone.
 * Returns the exit status. */
int sim_sweep_run(const struct sim_sweep *s, int argc, char **argv, int parallel);

#endif
