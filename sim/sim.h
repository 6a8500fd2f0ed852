/* sim.h: what the subcommands of hedge-sim share: the table of commands, exit statuses, interrupts.
 *
 * hedge-sim sees the public headers of hedge and the pure pacer; nothing else of the library. A
 * subcommand is one function over its own argv (argv[0] is "hedge-sim NAME", for messages) that
 * returns an exit status.
 */
#ifndef HG_SIM_SIM_H
#define HG_SIM_SIM_H

enum sim_status {
    SIM_OK = 0,
    SIM_CHECK = 1,   /* a check asked for with --fail-if did not hold */
    SIM_USAGE = 2,   /* an option is wrong: the message names it and what was expected */
    SIM_FAILED = 3,  /* a run died, or a file could not be written */
    SIM_SIGNAL = 128 /* + the signal that ended it early: 130 for Ctrl-C */
};

struct sim_command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
};

int sim_kv(int argc, char **argv);       /* kv_compare.c */
int sim_pacer(int argc, char **argv);    /* pacer_lab.c */
int sim_limit(int argc, char **argv);    /* limit_compare.c */
int sim_scale(int argc, char **argv);    /* scale_compare.c */
int sim_serve(int argc, char **argv);    /* serve.c */
int sim_replay(int argc, char **argv);   /* replay.c */
int sim_merge(int argc, char **argv);    /* merge.c */
int sim_compress(int argc, char **argv); /* compress.c */
int sim_conn(int argc, char **argv);     /* conn.c */
int sim_timer(int argc, char **argv);    /* timer.c */
int sim_env(int argc, char **argv);      /* env.c */

/* Catches SIGINT and SIGTERM from now on: they are counted, nothing else (interrupt.c). */
void sim_interrupts_catch(void);
/* How many have come since; signal (may be NULL): the last one. Any thread. */
int sim_interrupts(int *signal);

#endif
