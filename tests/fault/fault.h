/* fault.h: what the tests of faults share: what a process holds (descriptors, threads, address
 * space), checks inside tasks, rules that are cleared again. */
#ifndef HG_TESTS_FAULT_FAULT_H
#define HG_TESTS_FAULT_FAULT_H
#include "base/os_fault.h"

#include <dirent.h>
#include <hedge/hedge.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MUST(c, ...) ((c) ? (void)0 : (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), abort()))
#define FAULT_MS     INT64_C(1000000)

/* What main tasks return when they got to their end. */
#define FAULT_DONE 7

static inline int fault_entries(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    MUST(d != NULL, "opendir %s", folder);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* What the process holds now. */
struct fault_held {
    int descriptors, threads;
    size_t address_bytes;
};
static inline struct fault_held fault_held_now(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    MUST(f != NULL && fscanf(f, "%lu", &pages) == 1, "statm");
    fclose(f);
    return (struct fault_held){fault_entries("/proc/self/fd"), fault_entries("/proc/self/task"),
                               pages * (size_t)sysconf(_SC_PAGESIZE)};
}

static inline void fault_nth(uint64_t calls, uint64_t nth, uint64_t count)
{
    hg__os_fault_add(&(struct hg_os_fault){.calls = calls, .nth = nth, .count = count});
}
static inline void fault_one_in(uint64_t calls, uint32_t n, uint64_t seed)
{
    hg__os_fault_add(&(struct hg_os_fault){.calls = calls, .one_in = n, .seed = seed});
}

static inline hg_options fault_options(int procs)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = procs;
    o.reserve_bytes = (size_t)4 << 30;
    return o;
}

#endif
