/* cgroup.h: the CPU quota that control groups put on this process; a part of the Linux port
 * (os_linux.c). */
#ifndef HG_BASE_CGROUP_H
#define HG_BASE_CGROUP_H

/* The smallest quota of the process's group and of the groups above it, in whole CPUs, rounded up;
 * 0: none is known. `root` goes before every path that is read ("" for the real system; tests build
 * a tree of their own). Allocates with malloc and reads files: for the start of a runtime. */
int hg__cgroup_cpus(const char *root);

#endif
