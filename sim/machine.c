/* machine.c: reads /proc and /sys (machine.h). Buffers are small and on the stack: sim_cpu_read and
 * sim_rss_now are also called on tasks. */
#include "sim/machine.h"
#include "hg_commit.h"
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Reads the beginning of a file, always terminated. Length, or -1. */
static long read_file(const char *path, char *buffer, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    buffer[0] = 0;
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, buffer, room - 1);
    close(fd);
    buffer[n > 0 ? n : 0] = 0;
    return n;
}

/* The text after "key" and ':' or blanks on the line of `text` that begins with key, up to the
 * line's end. */
static void value_of(const char *text, const char *key, char *out, size_t room)
{
    out[0] = 0;
    for (const char *line = text; line != NULL && *line != 0; line = strchr(line, '\n')) {
        line += strspn(line, "\n");
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        line += strlen(key);
        line += strspn(line, " \t:");
        size_t n = strcspn(line, "\n");
        snprintf(out, room, "%.*s", (int)n, line);
        return;
    }
}

static uint64_t meminfo_bytes(const char *text, const char *key)
{
    char value[40];
    value_of(text, key, value, sizeof value);
    return strtoull(value, NULL, 10) * 1024;
}

/* Lowers *bytes to what is left under one cgroup's limit. */
static void cap_by(const char *limit_path, const char *used_path, uint64_t *bytes)
{
    char text[64];
    if (read_file(limit_path, text, sizeof text) <= 0 || text[0] < '0' || text[0] > '9')
        return;
    uint64_t limit = strtoull(text, NULL, 10);
    read_file(used_path, text, sizeof text);
    uint64_t used = strtoull(text, NULL, 10);
    uint64_t left = limit > used ? limit - used : 0;
    if (left < *bytes)
        *bytes = left;
}

/* The limits of this process's cgroup and of those above it (version 2), and of version 1's root as
 * a container sees it. */
static void cap_by_cgroups(uint64_t *bytes)
{
    char text[512], path[512], limit[600], used[600];
    cap_by("/sys/fs/cgroup/memory/memory.limit_in_bytes",
           "/sys/fs/cgroup/memory/memory.usage_in_bytes", bytes);
    read_file("/proc/self/cgroup", text, sizeof text);
    value_of(text, "0:", path, sizeof path);
    for (;;) {
        snprintf(limit, sizeof limit, "/sys/fs/cgroup%s/memory.max", path);
        snprintf(used, sizeof used, "/sys/fs/cgroup%s/memory.current", path);
        cap_by(limit, used, bytes);
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            return;
        *slash = 0;
    }
}

void sim_machine_read(struct sim_machine *m)
{
    char text[4096];
    memset(m, 0, sizeof *m);
    cpu_set_t set;
    m->cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                          : (int)sysconf(_SC_NPROCESSORS_ONLN);
    struct utsname u;
    if (uname(&u) == 0)
        snprintf(m->kernel, sizeof m->kernel, "%.20s %.60s %.20s", u.sysname, u.release, u.machine);
    read_file("/proc/cpuinfo", text, sizeof text);
    value_of(text, "model name", m->cpu, sizeof m->cpu);
    read_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", text, sizeof text);
    text[strcspn(text, "\n")] = 0;
    snprintf(m->governor, sizeof m->governor, "%.31s", text[0] != 0 ? text : "unknown");
    read_file("/proc/meminfo", text, sizeof text);
    m->memory_bytes = meminfo_bytes(text, "MemTotal");
    m->available_bytes = meminfo_bytes(text, "MemAvailable");
    cap_by_cgroups(&m->available_bytes);
}

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

void sim_cpu_read(struct sim_cpu *c)
{
    char text[256];
    unsigned long long t[8] = {
        0}; /* user nice system idle iowait irq softirq steal, in clock ticks */
    double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    memset(c, 0, sizeof *c);
    if (read_file("/proc/stat", text, sizeof text) > 0 &&
        sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
               &t[4], &t[5], &t[6], &t[7]) >= 7) {
        c->busy = (double)(t[0] + t[1] + t[2] + t[5] + t[6]) * tick;
        c->steal = (double)t[7] * tick;
    }
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u) == 0)
        c->own = seconds(u.ru_utime) + seconds(u.ru_stime);
}

uint64_t sim_rss_peak(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (uint64_t)u.ru_maxrss * 1024 : 0;
}

uint64_t sim_rss_now(void)
{
    char text[128];
    if (read_file("/proc/self/statm", text, sizeof text) <= 0)
        return 0;
    const char *resident = strchr(text, ' ');
    return resident != NULL ? strtoull(resident, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

const char *sim_commit(void) { return HG_COMMIT; }
