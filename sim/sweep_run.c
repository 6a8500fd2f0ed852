/* sweep_run.c: the points of a sweep as child processes (sweep.h).
 *
 * A child is this program itself with the command's own arguments, the point's options behind them
 * (the last one wins) and --json into a folder that is the sweep's and goes with it. What it prints
 * goes to a file there, and is shown if it fails.
 *
 *   status 0, 1   done (1: a check of --fail-if did not hold; the sweep ends with 1 as well)
 *   2             the options of the point are wrong: the sweep stops and ends with 2
 *   128 + n       interrupted: what it has is joined
 *   else          that point failed; the others go on, the sweep ends with 3
 *
 * Each child has a process group of its own, so that Ctrl-C at a terminal reaches the sweep alone,
 * which passes it on: the first as SIGINT, the second as SIGKILL. A child whose parent dies is
 * killed.
 */
#include "sim/joined.h"
#include "sim/machine.h"
#include "sim/memory.h"
#include "sim/outfile.h"
#include "sim/sim.h"
#include "sim/sweep.h"
#include "sim/text.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define POLL_NS 20000000

struct child {
    pid_t pid; /* 0: the slot is free */
    size_t point;
};

struct running {
    const struct sim_sweep *sweep;
    int argc;
    char **argv;
    const char *command;
    char folder[120];
    size_t points, next, done;
    struct child *child;
    int slots;
    bool *made; /* points that left results */
    int status; /* of the sweep, so far */
    int interrupts;
    bool stopped; /* no more points */
    bool terminal;
    time_t begun;
};

static const char *command_of(char **argv)
{
    const char *blank = strrchr(argv[0], ' ');
    return blank != NULL ? blank + 1 : argv[0];
}

static void file_of(const struct running *r, size_t point, const char *end, char *path, size_t room)
{
    snprintf(path, room, "%s/%zu.%s", r->folder, point, end);
}

/* ---- the command of a point ---- */

/* All words of it but the program's; NULL-terminated, and the words added are in one block after
 * it: one free gives all back. json NULL: --help is behind them, so that they are only parsed. */
static char **words_of(const struct running *r, size_t point, const char *json)
{
    const struct sim_sweep *s = r->sweep;
    size_t room = (size_t)r->argc + 2 * s->axes + 5, text = 0, n = 0;
    for (size_t i = 0; i < s->axes; i++)
        text += strlen(s->axis[i].name) + 3;
    char **word = sim_alloc(room * sizeof *word + text, 1), *at = (char *)(word + room);
    word[n++] = (char *)(uintptr_t)r->command;
    for (int i = 1; i < r->argc; i++)
        if (s->left_out == NULL || i >= s->argc || !s->left_out[i])
            word[n++] = r->argv[i];
    for (size_t i = 0; i < s->axes; i++) {
        size_t length = (size_t)sprintf(at, "--%s", s->axis[i].name);
        word[n++] = at;
        word[n++] = (char *)(uintptr_t)sim_sweep_value(s, point, i);
        at += length + 1;
    }
    word[n++] = (char *)(uintptr_t)(json != NULL ? "--json" : "--help");
    word[n++] = (char *)(uintptr_t)json;
    return word;
}

static json_t *point_json(const struct sim_sweep *s, size_t point)
{
    json_t *j = json_object();
    for (size_t i = 0; i < s->axes; i++)
        json_object_set_new(j, s->axis[i].name, json_string(sim_sweep_value(s, point, i)));
    return j;
}

/* One line per point. Their results are named after --json FILE.json, or after the command. */
static int emit_jobs(const struct running *r)
{
    const char *base = r->sweep->json != NULL ? r->sweep->json : r->command;
    size_t stem = strlen(base);
    if (stem > 5 && strcmp(base + stem - 5, ".json") == 0)
        stem -= 5;
    char *json = sim_alloc(stem + 32, 1);
    for (size_t point = 0; point < r->points; point++) {
        snprintf(json, stem + 32, "%.*s-%04zu.json", (int)stem, base, point + 1);
        char **word = words_of(r, point, json);
        sim_shell_quote(stdout, program_invocation_name);
        for (size_t i = 0; word[i] != NULL; i++) {
            fputc(' ', stdout);
            sim_shell_quote(stdout, word[i]);
        }
        fputc('\n', stdout);
        free(word);
    }
    free(json);
    return fflush(stdout) == 0 ? SIM_OK : SIM_FAILED;
}

/* ---- children ---- */

_Noreturn static void become(const struct running *r, char *const *word, const char *log,
                             pid_t parent)
{
    size_t n = 0;
    while (word[n] != NULL)
        n++;
    char **argv = sim_alloc(n + 2, sizeof *argv);
    argv[0] = program_invocation_name;
    memcpy(argv + 1, word, n * sizeof *argv);
    int out = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || out < 0 || in < 0)
        _exit(SIM_FAILED);
    setpgid(0, 0);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    execv("/proc/self/exe", argv);
    dprintf(STDERR_FILENO, "hedge-sim %s: cannot be run again: %s\n", r->command, strerror(errno));
    _exit(SIM_FAILED);
}

/* A child with the point's words; json as in words_of. 0: there is none, and the sweep stops. */
static pid_t start_child(struct running *r, size_t point, const char *json)
{
    char log[160];
    file_of(r, point, "log", log, sizeof log);
    char **word = words_of(r, point, json);
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        become(r, word, log, parent);
    free(word);
    if (pid > 0)
        return pid;
    fprintf(stderr, "hedge-sim %s: no process: %s\n", r->command, strerror(errno));
    r->status = SIM_FAILED;
    r->stopped = true;
    return 0;
}

static void start(struct running *r, struct child *c)
{
    char json[160];
    size_t point = r->next++;
    file_of(r, point, "json", json, sizeof json);
    *c = (struct child){start_child(r, point, json), point};
}

static void print_point(FILE *out, const struct sim_sweep *s, size_t point)
{
    for (size_t i = 0; i < s->axes; i++)
        fprintf(out, "%s%s=%.40s", i > 0 ? " " : "", s->axis[i].name, sim_sweep_value(s, point, i));
}

/* Shows what a child said: all of it, or the lines about failed checks. */
static void show_log(const struct running *r, size_t point, bool checks_only)
{
    char path[160], *line = NULL;
    size_t room = 0;
    file_of(r, point, "log", path, sizeof path);
    FILE *in = fopen(path, "re");
    while (in != NULL && getline(&line, &room, in) > 0)
        if (!checks_only || strncmp(line, "check failed", 12) == 0)
            fprintf(stderr, "    %s", line);
    if (in != NULL)
        fclose(in);
    free(line);
}

static void settle(struct running *r, size_t point, int wait_status)
{
    int status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : SIM_FAILED;
    char json[160];
    file_of(r, point, "json", json, sizeof json);
    r->done++;
    r->made[point] = (status < SIM_USAGE || status > SIM_SIGNAL) && access(json, R_OK) == 0;
    if (status == SIM_OK || status > SIM_SIGNAL || (r->interrupts > 0 && !WIFEXITED(wait_status)))
        return;
    fprintf(stderr, "%shedge-sim %s at ", r->terminal ? "\r\033[K" : "", r->command);
    print_point(stderr, r->sweep, point);
    if (WIFSIGNALED(wait_status))
        fprintf(stderr, " was ended by signal %d:\n", WTERMSIG(wait_status));
    else
        fprintf(stderr, " ended with status %d:\n", status);
    show_log(r, point, status == SIM_CHECK);
    if (status == SIM_USAGE)
        r->stopped = true;
    if (status == SIM_CHECK)
        r->status = r->status == SIM_OK ? SIM_CHECK : r->status;
    else
        r->status = status == SIM_USAGE || r->status == SIM_USAGE ? SIM_USAGE : SIM_FAILED;
}

static void pass_interrupts_on(struct running *r)
{
    int interrupts = sim_interrupts(NULL);
    if (interrupts == r->interrupts)
        return;
    r->interrupts = interrupts;
    r->stopped = true;
    for (int i = 0; i < r->slots; i++)
        if (r->child[i].pid > 0)
            kill(r->child[i].pid, interrupts > 1 ? SIGKILL : SIGINT);
}

static void draw_progress(const struct running *r)
{
    char left[32] = "";
    double gone = (double)(time(NULL) - r->begun);
    if (!r->terminal || gone < 2)
        return;
    if (r->done > 0)
        text_duration(gone / (double)r->done * (double)(r->points - r->done), left);
    fprintf(stderr, "\r%zu/%zu points, %.0f s%s%s%s\033[K", r->done, r->points, gone,
            r->done > 0 ? "; about " : "", left, r->done > 0 ? " left" : "");
}

/* Starts what there is room for, collects what has ended. False: nothing runs any more. */
static bool step(struct running *r)
{
    bool any = false;
    int status;
    pass_interrupts_on(r);
    for (int i = 0; i < r->slots; i++) {
        struct child *c = &r->child[i];
        if (c->pid > 0 && waitpid(c->pid, &status, WNOHANG) == c->pid) {
            c->pid = 0;
            settle(r, c->point, status);
        }
        if (c->pid == 0 && !r->stopped && r->next < r->points)
            start(r, c);
        any |= c->pid > 0;
    }
    return any;
}

static void run_points(struct running *r)
{
    struct timespec pause = {0, POLL_NS};
    time_t drawn = 0;
    while (step(r)) {
        if (time(NULL) != drawn) {
            drawn = time(NULL);
            draw_progress(r);
        }
        nanosleep(&pause, NULL);
    }
    if (r->terminal)
        fputs("\r\033[K", stderr);
}

/* ---- the options of all points, before any of them runs ---- */

/* Has the command's own parser look at one value of an axis. False: it does not take it. */
static bool check_value(struct running *r, size_t axis, size_t value)
{
    size_t point = value;
    int status = -1;
    char log[160];
    for (size_t i = axis + 1; i < r->sweep->axes; i++)
        point *= r->sweep->axis[i].n;
    pid_t pid = start_child(r, point, NULL);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (pid > 0 && status != 0)
        show_log(r, point, false);
    file_of(r, point, "log", log, sizeof log);
    unlink(log);
    return status == 0;
}

/* A sweep of hours must not end with a value that the command does not take. */
static bool check_values(struct running *r)
{
    for (size_t axis = 0; axis < r->sweep->axes; axis++) {
        for (size_t value = 0; value < r->sweep->axis[axis].n; value++) {
            if (check_value(r, axis, value))
                continue;
            fprintf(stderr, "hedge-sim %s: expected values that --%s takes, not \"%s\"\n",
                    r->command, r->sweep->axis[axis].name, r->sweep->axis[axis].value[value]);
            return false;
        }
    }
    return true;
}

/* ---- the whole ---- */

/* Joins what was made, prints, writes. */
static void report(struct running *r)
{
    struct sim_joined j;
    char path[160], why[400];
    int signal = 0;
    sim_joined_init(&j);
    for (size_t point = 0; point < r->points; point++) {
        if (!r->made[point])
            continue;
        file_of(r, point, "json", path, sizeof path);
        if (sim_joined_add(&j, path, point_json(r->sweep, point), why, sizeof why) != 0) {
            fprintf(stderr, "hedge-sim %s: %s\n", r->command, why);
            r->status = SIM_FAILED;
        }
    }
    if (j.documents > 0) {
        j.interrupted = j.documents < r->points;
        sim_joined_finish(&j);
        sim_joined_print(stdout, &j);
        int wanted = r->sweep->want != NULL ? sim_joined_want(stdout, &j, r->sweep->want) : 0;
        if (wanted != 0 && r->status == SIM_OK)
            r->status = wanted < 0 ? SIM_USAGE : SIM_CHECK;
        fflush(stdout);
        if (sim_joined_write(&j, r->argv[0], r->sweep->json, r->sweep->csv, r->sweep->report) > 0)
            r->status = SIM_FAILED;
    }
    sim_joined_free(&j);
    if (sim_interrupts(&signal) > 0)
        r->status = SIM_SIGNAL + signal;
}

static void remove_folder(const struct running *r)
{
    static const char *const end[] = {"json", "log"};
    char path[160];
    for (size_t point = 0; point < r->next; point++) {
        for (int i = 0; i < 2; i++) {
            file_of(r, point, end[i], path, sizeof path);
            unlink(path);
        }
    }
    rmdir(r->folder);
}

int sim_sweep_run(const struct sim_sweep *s, int argc, char **argv, int parallel)
{
    struct sim_machine machine;
    struct running r = {.sweep = s, .argc = argc, .argv = argv, .command = command_of(argv)};
    const char *temporary = getenv("TMPDIR");
    r.points = sim_sweep_points(s);
    snprintf(r.folder, sizeof r.folder, "%.90s/hedge-sweep-XXXXXX",
             temporary != NULL && temporary[0] == '/' ? temporary : "/tmp");
    if (mkdtemp(r.folder) == NULL) {
        fprintf(stderr, "%s: no folder \"%s\": %s\n", argv[0], r.folder, strerror(errno));
        return SIM_FAILED;
    }
    bool valid = check_values(&r);
    if (!valid || s->emit_jobs) {
        rmdir(r.folder);
        return valid ? emit_jobs(&r) : SIM_USAGE;
    }
    sim_machine_read(&machine);
    r.slots = parallel > 0 ? parallel : machine.cpus > 0 ? machine.cpus : 1;
    r.child = sim_alloc((size_t)r.slots, sizeof *r.child);
    r.made = sim_alloc(r.points, sizeof *r.made);
    r.terminal = isatty(STDERR_FILENO);
    r.begun = time(NULL);
    sim_interrupts_catch();
    run_points(&r);
    report(&r);
    remove_folder(&r);
    free(r.child);
    free(r.made);
    return r.status;
}
