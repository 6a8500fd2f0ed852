/* test_base_cgroup.c: CPU quotas of control groups, read from trees of files as kernels and
 * containers show them. */
#include "base/cgroup.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(cgroup, .timeout = 60);

static char root[64];

static void make_root(void)
{
    strcpy(root, "/tmp/hedge-test-XXXXXX");
    cr_assert_not_null(mkdtemp(root));
}

static void remove_root(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf -- '%s'", root);
    cr_assert_eq(system(command), 0);
}

/* A file below the root, with the folders above it. */
static void put(const char *path, const char *text)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s%s", root, path);
    for (char *p = name + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        cr_assert(mkdir(name, 0700) == 0 || errno == EEXIST);
        *p = '/';
    }
    FILE *f = fopen(name, "w");
    cr_assert_not_null(f);
    fputs(text, f);
    fclose(f);
}

#define V2_MOUNT                                      \
    "25 30 0:22 / /proc rw shared:3 - proc proc rw\n" \
    "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNT(top)                                                            \
    "36 35 0:31 / /sys/fs/cgroup/memory rw shared:1 - cgroup cgroup rw,memory\n" \
    "37 35 0:32 " top " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"

Test(cgroup, nothing_there, .init = make_root, .fini = remove_root)
{
    cr_assert_eq(hg__cgroup_cpus(root), 0);
    put("/proc/self/cgroup", "0::/\n");
    cr_assert_eq(hg__cgroup_cpus(root), 0);
    put("/proc/self/mountinfo", V2_MOUNT);
    cr_assert_eq(hg__cgroup_cpus(root), 0);
}

Test(cgroup, version_2_takes_the_smallest_up_to_the_mount, .init = make_root, .fini = remove_root)
{
    put("/proc/self/mountinfo", V2_MOUNT);
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    cr_assert_eq(hg__cgroup_cpus(root), 0);
    put("/sys/fs/cgroup/a/cpu.max", "350000 100000\n");
    cr_assert_eq(hg__cgroup_cpus(root), 4); /* 3.5, rounded up */
    put("/sys/fs/cgroup/a/b/cpu.max", "800000 100000\n");
    cr_assert_eq(hg__cgroup_cpus(root), 4);
    put("/sys/fs/cgroup/a/b/cpu.max", "10000 100000\n");
    cr_assert_eq(hg__cgroup_cpus(root), 1);
}

Test(cgroup, version_2_in_a_namespace, .init = make_root, .fini = remove_root)
{
    put("/proc/self/mountinfo", V2_MOUNT);
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
    cr_assert_eq(hg__cgroup_cpus(root), 2);
}

Test(cgroup, version_1, .init = make_root, .fini = remove_root)
{
    put("/proc/self/mountinfo", V1_MOUNT("/"));
    put("/proc/self/cgroup", "9:memory:/m\n7:cpu,cpuacct:/work\n1:name=systemd:/s\n");
    put("/sys/fs/cgroup/cpu,cpuacct/work/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/work/cpu.cfs_period_us", "100000\n");
    cr_assert_eq(hg__cgroup_cpus(root), 0);
    put("/sys/fs/cgroup/cpu,cpuacct/work/cpu.cfs_quota_us", "250000\n");
    cr_assert_eq(hg__cgroup_cpus(root), 3);
}

Test(cgroup, version_1_in_a_container_that_sees_its_own_group, .init = make_root,
     .fini = remove_root)
{
    put("/proc/self/mountinfo", V1_MOUNT("/docker/0123"));
    put("/proc/self/cgroup", "7:cpu,cpuacct:/docker/0123\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000\n");
    cr_assert_eq(hg__cgroup_cpus(root), 3);
    put("/proc/self/cgroup", "7:cpu,cpuacct:/elsewhere\n");
    cr_assert_eq(hg__cgroup_cpus(root), 3); /* its own folder cannot be seen; the mount's quota
                                             * still holds */
}

Test(cgroup, both_versions_at_once, .init = make_root, .fini = remove_root)
{
    put("/proc/self/mountinfo", V2_MOUNT V1_MOUNT("/"));
    put("/proc/self/cgroup", "7:cpu,cpuacct:/v1\n0::/v2\n");
    put("/sys/fs/cgroup/v2/cpu.max", "600000 100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/v1/cpu.cfs_quota_us", "500000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/v1/cpu.cfs_period_us", "100000\n");
    cr_assert_eq(hg__cgroup_cpus(root), 5);
}

Test(cgroup, broken_files_count_as_no_quota, .init = make_root, .fini = remove_root)
{
    put("/proc/self/mountinfo", "no dash here\n - \n1 2 3 - cgroup2\n" V2_MOUNT);
    put("/proc/self/cgroup", "garbage\n:\n0::/g\n");
    static const char *const broken[] = {"",           "\n",          "abc def\n", "100000\n",
                                         "100000 0\n", "-5 100000\n", "0 100000\n"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        put("/sys/fs/cgroup/g/cpu.max", broken[i]);
        cr_assert_eq(hg__cgroup_cpus(root), 0, "\"%s\"", broken[i]);
    }
    put("/sys/fs/cgroup/g/cpu.max", "9223372036854775807 1\n");
    cr_assert_eq(hg__cgroup_cpus(root), 0); /* more CPUs than an int holds: no quota */
}
