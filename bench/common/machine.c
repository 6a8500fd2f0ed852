/* machine.c: the machine, this process, and the runtime that a measurement opens (bench.h).
 *
 * How much CPU others used is the busy time of the machine in /proc/stat less the CPU time of this
 * process and its children. In a container that hides the host's /proc/stat it cannot be told and 0
 * is printed; time stolen by a hypervisor counts as theirs.
 */
#include "bench/common/machine.h"
#include "bench/bench.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined __has_include
#if __has_include("hg_commit.h")
#include "hg_commit.h"
#endif
#endif
#ifndef HG_COMMIT
#define HG_COMMIT "unknown"
#endif

#define DISTURBED 0.05 /* CPUs that others may keep busy before a run is called disturbed */

static struct {
    double others, wall;
} start;

const char *bench_commit(void) { return HG_COMMIT; }

/* ---- /proc and /sys ---- */

/* The beginning of a file, always terminated; "" if it cannot be read. */
static void read_file(const char *path, char *buffer, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, buffer, room - 1) : 0;
    if (fd >= 0)
        close(fd);
    buffer[n > 0 ? n : 0] = 0;
}

/* Where the value begins in the line of `text` that begins with key, or NULL. */
static const char *value_of(const char *text, const char *key)
{
    for (const char *line = text; line != NULL && *line != 0; line = strchr(line, '\n')) {
        line += strspn(line, "\n");
        if (strncmp(line, key, strlen(key)) == 0) {
            line += strlen(key);
            return line + strspn(line, " \t:");
        }
    }
    return NULL;
}

static uint64_t kib_of(const char *path, const char *key)
{
    char text[4096];
    read_file(path, text, sizeof text);
    const char *value = value_of(text, key);
    return value != NULL ? strtoull(value, NULL, 10) * 1024 : 0;
}

void bench_machine_print(FILE *out)
{
    char text[4096], governor[32];
    cpu_set_t set;
    struct utsname u;
    int cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    memset(&u, 0, sizeof u);
    uname(&u);
    read_file("/proc/cpuinfo", text, sizeof text);
    const char *model = value_of(text, "model name");
    read_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor, sizeof governor);
    governor[strcspn(governor, "\n")] = 0;
    fprintf(out, "machine   %d CPUs, %.1f GiB, %.20s %.30s %.10s\n", cpus,
            (double)kib_of("/proc/meminfo", "MemTotal") / 1073741824.0, u.sysname, u.release,
            u.machine);
    fprintf(out, "          %.*s, governor %s\n",
            model != NULL ? (int)(strcspn(model, "\n") < 48 ? strcspn(model, "\n") : 48) : 11,
            model != NULL ? model : "CPU unknown", governor[0] != 0 ? governor : "unknown");
}

/* ---- clocks ---- */

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

static double own_cpu(void)
{
    struct rusage self, children;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    return seconds(self.ru_utime) + seconds(self.ru_stime) + seconds(children.ru_utime) +
           seconds(children.ru_stime);
}

/* CPU seconds that others have used since the machine started; differences count. */
static double others_cpu(void)
{
    char text[256];
    unsigned long long t[8] = {0}; /* user nice system idle iowait irq softirq steal */
    read_file("/proc/stat", text, sizeof text);
    if (sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
               &t[4], &t[5], &t[6], &t[7]) < 8)
        return 0;
    double ticks = (double)(t[0] + t[1] + t[2] + t[5] + t[6] + t[7]);
    return ticks / (double)sysconf(_SC_CLK_TCK) - own_cpu();
}

void bench_machine_start(void)
{
    start.others = others_cpu();
    start.wall = (double)hg_now() / 1e9;
}

void bench_machine_report(FILE *out)
{
    double wall = (double)hg_now() / 1e9 - start.wall;
    double used = others_cpu() - start.others;
    double share = wall > 0 && used > 0 ? used / wall : 0;
    fprintf(out, "\nothers    kept %.2f CPUs busy during %.1f s%s\n", share, wall,
            share > DISTURBED ? ": DISTURBED, measure again" : "");
}

int64_t bench_cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint64_t bench_rss(void)
{
    char text[128];
    read_file("/proc/self/statm", text, sizeof text);
    const char *resident = strchr(text, ' ');
    return resident != NULL ? strtoull(resident, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

uint64_t bench_rss_peak(void) { return kib_of("/proc/self/status", "VmHWM"); }

uint64_t bench_page_tables(void) { return kib_of("/proc/self/status", "VmPTE"); }

/* ---- runtime ---- */

void bench_options(hg_options *opt, int64_t procs)
{
    char why[1024];
    hg_options_init(opt, sizeof *opt);
    if (hg_options_env(opt, why, sizeof why) != 0)
        fprintf(stderr, "%s\n", why);
    if (procs > 0)
        opt->procs = (int)procs;
}

void bench_check(int err, const char *what)
{
    if (err != 0)
        bench_fail("%s: %s", what, strerror(-err));
}

void bench_run(int (*main_task)(void *), void *arg, const hg_options *opt)
{
    bench_check(hg_run(main_task, arg, opt), "the runtime");
}

void bench_isolated(void (*fn)(void *), void *arg)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        bench_fail("no process: %s", strerror(errno));
    if (pid == 0) {
        fn(arg);
        fflush(NULL);
        _exit(0);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            bench_fail("waiting for a measurement: %s", strerror(errno));
    if (WIFSIGNALED(status))
        bench_fail("a measurement died of signal %d (%s)", WTERMSIG(status),
                   strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0)
        exit(WEXITSTATUS(status));
}
