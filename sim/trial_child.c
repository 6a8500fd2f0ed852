/* trial_child.c: one run in a process of its own, so that no run inherits another one's heap or
 * threads (trial.h).
 *
 * The child is forked before any thread exists in the parent. Results and progress are in memory
 * that both have mapped; a child that dies leaves `done` unset. One that is silent long after it
 * should have ended is aborted; one whose parent dies is killed. Interrupts come to the child too:
 * the first makes it report what it has, the second ends it.
 */
#include "sim/memory.h"
#include "sim/sim.h"
#include "sim/trial.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GRACE_S 120.0

_Noreturn static void child(trial_fn *fn, const void *arg, struct trial_shared *shared,
                            pid_t parent)
{
    struct trial t = {.shared = shared, .latency = sim_alloc(1, sizeof(hg_histogram))};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(SIM_FAILED);
    int err = fn(&t, arg);
    fflush(stderr);
    _exit(err == 0 ? SIM_OK : SIM_FAILED);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void describe_end(const struct trial_shared *shared, int status, bool aborted, char *why,
                         size_t room)
{
    if (aborted)
        snprintf(why, room, "it did not end and was aborted %.0f s after it should have", GRACE_S);
    else if (WIFSIGNALED(status))
        snprintf(why, room, "it died of signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (shared->error[0] != 0)
        snprintf(why, room, "%s", shared->error);
    else
        snprintf(why, room, "it ended with status %d and no result", WEXITSTATUS(status));
}

/* Waits for the child's end. Returns its status. */
static int wait_for(pid_t pid, double seconds, void (*told)(void *arg, int64_t operations),
                    void *told_arg, const struct trial_shared *shared, bool *aborted)
{
    double deadline = now_s() + seconds + GRACE_S;
    int status = 0, passed_on = sim_interrupts(NULL);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        int interrupts = sim_interrupts(NULL);
        nanosleep(&(struct timespec){0, 50000000}, NULL);
        if (interrupts > passed_on) {
            kill(pid, interrupts > 1 ? SIGKILL : SIGINT);
            passed_on = interrupts;
        }
        if (!*aborted && now_s() > deadline) {
            kill(pid, SIGABRT);
            *aborted = true;
        }
        if (told != NULL)
            told(told_arg, atomic_load_explicit(&shared->operations, memory_order_relaxed));
    }
    return status;
}

enum trial_ending trial_child(trial_fn *fn, const void *arg, double seconds,
                              void (*told)(void *arg, int64_t operations), void *told_arg,
                              struct trial_result *out, char *why, size_t room)
{
    bool aborted = false;
    struct trial_shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        snprintf(why, room, "no shared memory: %s", strerror(errno));
        return TRIAL_FAILED;
    }
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        child(fn, arg, shared, parent);
    if (pid < 0) {
        snprintf(why, room, "no process: %s", strerror(errno));
        munmap(shared, sizeof *shared);
        return TRIAL_FAILED;
    }
    int status = wait_for(pid, seconds, told, told_arg, shared, &aborted);
    bool done = shared->result.done && status == 0;
    if (done)
        *out = shared->result;
    else
        describe_end(shared, status, aborted, why, room);
    munmap(shared, sizeof *shared);
    if (done)
        return TRIAL_RESULT;
    return sim_interrupts(NULL) > 0 ? TRIAL_STOPPED : TRIAL_FAILED;
}
