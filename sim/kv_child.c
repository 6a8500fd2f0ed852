/* kv_child.c: forks one run, hears it, ends it (kv_child.h).
 *
 * The child is forked before any thread exists and runs kv_run in the copied process; nothing is
 * executed anew, so both are the same build with the same options. It sends lines of JSON through a
 * pipe (kv_json.c): progress while it runs, without ever waiting for the parent (a full pipe loses
 * a line), then its result or an error. The parent learns of its end by the pipe's end.
 *
 * A child that is silent long after it should have ended is aborted, so that a comparison that runs
 * unattended ends with a message instead of hanging. A child whose parent dies is killed.
 */
#include "sim/kv_child.h"
#include "sim/memory.h"
#include "sim/sim.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GRACE_S \
    180.0 /* for building the store, draining, the last collection and giving memory back */

/* ---- in the child ---- */

static void write_all(int fd, const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t n = write(fd, text, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return; /* the parent is gone: nobody wants to know */
        text += n;
        left -= (size_t)n;
    }
}

_Noreturn static void child(const struct kv_options *opt, const struct kv_policy *policy,
                            int repetition, int fd, bool progress, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(SIM_FAILED);
    signal(SIGPIPE, SIG_IGN);
    struct kv_result r;
    char why[200] = "";
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    int err = kv_run(opt, policy, repetition, progress ? fd : -1, &r, why, sizeof why);
    fcntl(fd, F_SETFL, flags);
    char *line = err == 0 ? kv_json_result(&r) : kv_json_error(why);
    write_all(fd, line);
    free(line);
    fflush(stderr);
    _exit(err == 0 ? SIM_OK : SIM_FAILED);
}

/* ---- in the parent ---- */

struct hearing {
    pid_t pid;
    int fd;
    char *text; /* of the line that is coming in */
    size_t length, room;
    void (*told)(void *arg, const struct kv_progress *p);
    void *arg;
    struct kv_result *r;
    bool has_result;
    char error[200];
    int interrupts;   /* passed on */
    int64_t deadline; /* ns, then it is aborted */
    bool aborted;
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void hear_line(struct hearing *h, const char *line)
{
    struct kv_progress p;
    struct kv_result r;
    switch (kv_json_parse(line, &p, &r, h->error, sizeof h->error)) {
    case KV_MESSAGE_PROGRESS:
        if (h->told != NULL)
            h->told(h->arg, &p);
        break;
    case KV_MESSAGE_RESULT:
        if (h->has_result)
            kv_result_free(h->r);
        *h->r = r;
        h->has_result = true;
        break;
    case KV_MESSAGE_ERROR:
        break;
    case KV_MESSAGE_BAD:
        snprintf(h->error, sizeof h->error, "it sent \"%.60s\", which is no result", line);
        break;
    }
}

/* Reads what is there. False: the pipe has ended. */
static bool hear(struct hearing *h)
{
    if (h->room - h->length < 65536) {
        h->room = 2 * h->room + 131072;
        h->text = sim_grow(h->text, h->room, 1);
    }
    ssize_t n = read(h->fd, h->text + h->length, h->room - h->length - 1);
    if (n <= 0)
        return n < 0 && errno == EINTR;
    h->length += (size_t)n;
    h->text[h->length] = 0;
    char *line = h->text, *end;
    while ((end = memchr(line, '\n', h->length - (size_t)(line - h->text))) != NULL) {
        *end = 0;
        hear_line(h, line);
        line = end + 1;
    }
    h->length -= (size_t)(line - h->text);
    memmove(h->text, line, h->length);
    return true;
}

/* Passes interrupts on, and ends a child that should have ended long ago. */
static void look_after(struct hearing *h)
{
    int interrupts = sim_interrupts(NULL);
    if (interrupts > h->interrupts) {
        kill(h->pid, interrupts > 1 ? SIGKILL : SIGINT);
        h->interrupts = interrupts;
    }
    if (!h->aborted && now_ns() > h->deadline) {
        kill(h->pid, SIGABRT);
        h->aborted = true;
    }
}

static void listen_to(struct hearing *h)
{
    bool open = true;
    while (open) {
        struct pollfd p = {h->fd, POLLIN, 0};
        int n = poll(&p, 1, 200);
        look_after(h);
        if (n > 0)
            open = hear(h);
    }
}

static void describe_end(const struct hearing *h, int status, char *why, size_t room)
{
    if (h->aborted)
        snprintf(why, room, "it did not end and was aborted %.0f s after it should have", GRACE_S);
    else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        snprintf(why, room, "it was killed (signal 9; was memory short?)");
    else if (WIFSIGNALED(status))
        snprintf(why, room, "it died of signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (h->error[0] != 0)
        snprintf(why, room, "%s", h->error);
    else
        snprintf(why, room, "it ended with status %d and no result", WEXITSTATUS(status));
}

enum kv_child_end kv_child(const struct kv_options *opt, const struct kv_policy *policy,
                           int repetition, void (*told)(void *arg, const struct kv_progress *p),
                           void *arg, struct kv_result *r, char *why, size_t room)
{
    int pipe_ends[2], status = 0;
    if (pipe2(pipe_ends, O_CLOEXEC) != 0) {
        snprintf(why, room, "no pipe: %s", strerror(errno));
        return KV_CHILD_FAILED;
    }
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(pipe_ends[0]);
        child(opt, policy, repetition, pipe_ends[1], told != NULL, parent);
    }
    close(pipe_ends[1]);
    if (pid < 0) {
        snprintf(why, room, "no process: %s", strerror(errno));
        close(pipe_ends[0]);
        return KV_CHILD_FAILED;
    }
    double seconds = opt->warmup_s + opt->duration_s + opt->keys * 1e-5 + GRACE_S;
    struct hearing h = {.pid = pid,
                        .fd = pipe_ends[0],
                        .told = told,
                        .arg = arg,
                        .r = r,
                        .deadline = now_ns() + (int64_t)(seconds * 1e9)};
    listen_to(&h);
    close(h.fd);
    free(h.text);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        look_after(&h);
    if (h.has_result)
        return KV_CHILD_RESULT;
    describe_end(&h, status, why, room);
    return h.interrupts > 0 ? KV_CHILD_STOPPED : KV_CHILD_FAILED;
}
