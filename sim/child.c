/* child.c: one run in a process of its own (child.h). */
#include "sim/child.h"
#include "sim/sim.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GRACE_S 120.0 /* for building what a run needs, and for giving memory back */

void *sim_child_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

void sim_child_memory_free(void *memory, size_t bytes) { munmap(memory, bytes); }

_Noreturn static void child(int (*fn)(void *arg), void *arg, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(SIM_FAILED);
    int err = fn(arg);
    fflush(stderr);
    _exit(err == 0 ? SIM_OK : SIM_FAILED);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int sim_child_run(int (*fn)(void *arg), void *arg, double seconds, void (*told)(void *arg),
                  void *told_arg, struct sim_child_end *end)
{
    double deadline = now_s() + seconds + GRACE_S;
    int passed_on = sim_interrupts(NULL);
    pid_t parent = getpid();
    *end = (struct sim_child_end){0, false};
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        child(fn, arg, parent);
    if (pid < 0)
        return -errno;
    while (waitpid(pid, &end->status, WNOHANG) == 0) {
        int interrupts = sim_interrupts(NULL);
        nanosleep(&(struct timespec){0, 50000000}, NULL);
        if (interrupts > passed_on) {
            kill(pid, interrupts > 1 ? SIGKILL : SIGINT);
            passed_on = interrupts;
        }
        if (!end->aborted && now_s() > deadline) {
            kill(pid, SIGABRT);
            end->aborted = true;
        }
        if (told != NULL)
            told(told_arg);
    }
    return 0;
}

void sim_child_describe(const struct sim_child_end *end, const char *error, char *why, size_t room)
{
    int signal = WIFSIGNALED(end->status) ? WTERMSIG(end->status) : 0;
    if (end->aborted)
        snprintf(why, room, "it did not end and was aborted %.0f s after it should have", GRACE_S);
    else if (signal == SIGKILL)
        snprintf(why, room, "it was killed (signal 9; was memory short?)");
    else if (signal != 0)
        snprintf(why, room, "it died of signal %d (%s)", signal, strsignal(signal));
    else if (error[0] != 0)
        snprintf(why, room, "%s", error);
    else
        snprintf(why, room, "it ended with status %d and no result", WEXITSTATUS(end->status));
}
