/* child.h: one run in a process of its own, so that no run inherits another one's heap or threads.
 *
 * The child is forked before any thread exists in the parent; results and progress are in memory
 * that both have mapped (sim_child_memory). One that is silent long after it should have ended is
 * aborted; one whose parent dies is killed. Interrupts come to the child too: the first makes it
 * report what it has, the second ends it.
 */
#ifndef HG_SIM_CHILD_H
#define HG_SIM_CHILD_H
#include <stdbool.h>
#include <stddef.h>

struct sim_child_end {
    int status; /* as waitpid gives it */
    bool aborted;
};

/* Zeroed memory that a child shares with its parent, or NULL: errno says why. */
void *sim_child_memory(size_t bytes);
void sim_child_memory_free(void *memory, size_t bytes);

/* Runs fn(arg) in a child, which ends with SIM_OK if that returns 0, else with SIM_FAILED, and
 * waits for its end: `seconds`, and two minutes for what lies around the run. told(told_arg), which
 * may be NULL, is called twenty times a second. 0, or -errno: there is no child. */
int sim_child_run(int (*fn)(void *arg), void *arg, double seconds, void (*told)(void *arg),
                  void *told_arg, struct sim_child_end *end);
/* How a child ended that left no result. error: what it said itself, or "". */
void sim_child_describe(const struct sim_child_end *end, const char *error, char *why, size_t room);

#endif
