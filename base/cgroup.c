/* cgroup.c: the CPU quota that control groups put on this process.
 *
 * A container limited to two CPUs still sees all of the machine's in its affinity mask; running a
 * proc on each of them gets the whole process throttled for most of every period, in the middle of
 * whatever it does. So the number of procs is capped by the quota.
 *
 * How it is found, for both versions (a system may use both at once):
 *   1. /proc/self/mountinfo says where the hierarchy is mounted (type "cgroup2", or "cgroup" with
 *      the option "cpu"), and which group of it is seen there ("/" but in containers without a
 *      cgroup namespace).
 *   2. /proc/self/cgroup says which group the process is in: "0::/path", or "7:cpu,cpuacct:/path".
 *   3. The group's folder and each one above it, up to the mount, may hold a quota: "cpu.max" with
 *      "quota period" or "max period"; or the files cpu.cfs_quota_us (-1: none) and
 *      cpu.cfs_period_us. The smallest holds.
 * What is missing or cannot be read counts as no quota: the caller then has the affinity mask.
 */
#include "base/cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where one hierarchy is, as far as it is known. */
struct hierarchy {
    bool v2;
    char mount[PATH_MAX]; /* the folder where it is mounted; "" not found */
    char top[PATH_MAX];   /* the group that is seen there */
    char group[PATH_MAX]; /* the process's group; "" not found */
};

/* Whether `word` is one of the comma-separated words of `list`. */
static bool list_has(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; p != NULL; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, word, n) == 0 && (p[n] == ',' || p[n] == '\0'))
            return true;
    }
    return false;
}

static void copy_path(char to[PATH_MAX], const char *from)
{
    size_t n = strlen(from);
    if (n < PATH_MAX)
        memcpy(to, from, n + 1);
}

/* Calls line(arg, text) for each line of a file, without its newline. */
static void each_line(const char *root, const char *path,
                      void (*line)(struct hierarchy *h, char *text), struct hierarchy *h)
{
    char name[PATH_MAX];
    if (snprintf(name, sizeof name, "%s%s", root, path) >= (int)sizeof name)
        return;
    FILE *f = fopen(name, "re");
    if (f == NULL)
        return;
    char *text = NULL;
    size_t room = 0;
    while (getline(&text, &room, f) > 0) {
        text[strcspn(text, "\n")] = '\0';
        line(h, text);
    }
    free(text);
    fclose(f);
}

/* "36 35 98:0 /top /mount rw,noatime shared:1 - cgroup cgroup rw,cpu,cpuacct". Between the sixth
 * word and the lone dash come any number of optional ones. */
static void read_mount(struct hierarchy *h, char *text)
{
    char *dash = strstr(text, " - ");
    if (dash == NULL)
        return;
    *dash = '\0';
    char top[PATH_MAX], mount[PATH_MAX], type[32], source[PATH_MAX], options[PATH_MAX];
    if (strlen(text) >= PATH_MAX || strlen(dash + 3) >= PATH_MAX ||
        sscanf(text, "%*s %*s %*s %s %s", top, mount) != 2 ||
        sscanf(dash + 3, "%31s %s %s", type, source, options) != 3)
        return;
    bool is_v2 = strcmp(type, "cgroup2") == 0;
    bool is_v1_cpu = strcmp(type, "cgroup") == 0 && list_has(options, "cpu");
    if (h->mount[0] == '\0' && (h->v2 ? is_v2 : is_v1_cpu)) {
        copy_path(h->mount, mount);
        copy_path(h->top, top);
    }
}

/* "7:cpu,cpuacct:/path". */
static void read_group(struct hierarchy *h, char *text)
{
    char *controllers = strchr(text, ':');
    char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL)
        return;
    *controllers++ = '\0';
    *path++ = '\0';
    if (h->v2 ? strcmp(text, "0") == 0 && controllers[0] == '\0' : list_has(controllers, "cpu"))
        copy_path(h->group, path);
}

/* The first line of a file in a group's folder; false when there is none. */
static bool read_value(const char *folder, const char *file, char *value, int room)
{
    char name[PATH_MAX];
    if (snprintf(name, sizeof name, "%s/%s", folder, file) >= (int)sizeof name)
        return false;
    FILE *f = fopen(name, "re");
    if (f == NULL)
        return false;
    bool found = fgets(value, room, f) != NULL;
    fclose(f);
    return found;
}

/* The quota in one folder, in CPUs rounded up; INT_MAX: none. */
static int folder_cpus(const char *folder, bool v2)
{
    char text[64], period_text[64];
    long long quota = -1, period = 0;
    if (v2) {
        if (!read_value(folder, "cpu.max", text, sizeof text) ||
            sscanf(text, "%lld %lld", &quota, &period) != 2)
            return INT_MAX;
    } else if (read_value(folder, "cpu.cfs_quota_us", text, sizeof text) &&
               read_value(folder, "cpu.cfs_period_us", period_text, sizeof period_text)) {
        quota = strtoll(text, NULL, 10);
        period = strtoll(period_text, NULL, 10);
    }
    if (quota <= 0 || period <= 0)
        return INT_MAX;
    long long cpus = quota / period + (quota % period != 0);
    return cpus < INT_MAX ? (int)cpus : INT_MAX;
}

/* The smallest quota from the process's group up to the mount. */
static int hierarchy_cpus(const char *root, bool v2)
{
    struct hierarchy h = {.v2 = v2};
    each_line(root, "/proc/self/mountinfo", read_mount, &h);
    each_line(root, "/proc/self/cgroup", read_group, &h);
    if (h.mount[0] == '\0' || h.group[0] == '\0')
        return INT_MAX;
    /* The path below the mount is what follows `top`. A group outside of it cannot be seen; the
     * mount's own may be. */
    const char *below = h.group;
    size_t top = strcmp(h.top, "/") == 0 ? 0 : strlen(h.top);
    if (strncmp(below, h.top, top) != 0)
        below = "";
    else
        below += top;
    char folder[2 * PATH_MAX + 64];
    int n = snprintf(folder, sizeof folder, "%s%s%s", root, h.mount,
                     strcmp(below, "/") == 0 ? "" : below);
    size_t mount = strlen(root) + strlen(h.mount);
    if (n < 0 || (size_t)n >= sizeof folder)
        return INT_MAX;
    int least = INT_MAX;
    for (;;) {
        int cpus = folder_cpus(folder, v2);
        least = cpus < least ? cpus : least;
        char *slash = strrchr(folder, '/');
        if (slash == NULL || (size_t)(slash - folder) < mount)
            return least;
        *slash = '\0';
    }
}

int hg__cgroup_cpus(const char *root)
{
    int v2 = hierarchy_cpus(root, true), v1 = hierarchy_cpus(root, false);
    int least = v1 < v2 ? v1 : v2;
    return least == INT_MAX ? 0 : least;
}
