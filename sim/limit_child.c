/* limit_child.c: one run in a process of its own.
 *
 * The child is forked before any thread exists in the parent. Results and progress are in memory
 * that both have mapped: figures are plain numbers, and a child that dies leaves `done` unset. A
 * child that is silent long after it should have ended is aborted; one whose parent dies is killed.
 */
#include "sim/limit.h"
#include "sim/sim.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GRACE_S 120.0 /* for building the live heap, and for giving memory back */

_Noreturn static void child(const struct limit_options *opt, const struct limit_scenario *s,
                            bool limited, struct limit_shared *shared, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(SIM_FAILED);
    int err = limit_run(opt, s, limited, shared);
    fflush(stderr);
    _exit(err == 0 ? SIM_OK : SIM_FAILED);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void describe_end(const struct limit_shared *shared, int status, bool aborted, char *why,
                         size_t room)
{
    if (aborted)
        snprintf(why, room, "it did not end and was aborted %.0f s after it should have", GRACE_S);
    else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        snprintf(why, room, "it was killed (signal 9; was memory short?)");
    else if (WIFSIGNALED(status))
        snprintf(why, room, "it died of signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (shared->error[0] != 0)
        snprintf(why, room, "%s", shared->error);
    else
        snprintf(why, room, "it ended with status %d and no result", WEXITSTATUS(status));
}

/* Waits for the child's end; passes interrupts on. Returns its status. */
static int wait_for(pid_t pid, double deadline, void (*told)(void *, const struct limit_shared *),
                    void *arg, const struct limit_shared *shared, bool *aborted)
{
    int status = 0, passed_on = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        int interrupts = sim_interrupts(NULL);
        nanosleep(&(struct timespec){0, 100000000}, NULL);
        if (interrupts > passed_on) {
            kill(pid, interrupts > 1 ? SIGKILL : SIGINT);
            passed_on = interrupts;
        }
        if (!*aborted && now_s() > deadline) {
            kill(pid, SIGABRT);
            *aborted = true;
        }
        if (told != NULL)
            told(arg, shared);
    }
    return status;
}

enum limit_end limit_child(const struct limit_options *opt, const struct limit_scenario *s,
                           bool limited, void (*told)(void *arg, const struct limit_shared *shared),
                           void *arg, struct limit_result *out, char *why, size_t room)
{
    bool aborted = false;
    struct limit_shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        snprintf(why, room, "no shared memory: %s", strerror(errno));
        return LIMIT_END_FAILED;
    }
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        child(opt, s, limited, shared, parent);
    if (pid < 0) {
        snprintf(why, room, "no process: %s", strerror(errno));
        munmap(shared, sizeof *shared);
        return LIMIT_END_FAILED;
    }
    double deadline = now_s() + opt->duration_s + GRACE_S;
    int status = wait_for(pid, deadline, told, arg, shared, &aborted);
    bool done = shared->result.done;
    if (done)
        *out = shared->result;
    else
        describe_end(shared, status, aborted, why, room);
    munmap(shared, sizeof *shared);
    if (done)
        return LIMIT_END_RESULT;
    return sim_interrupts(NULL) > 0 ? LIMIT_END_STOPPED : LIMIT_END_FAILED;
}
