/* machine.h: what a run says about the machine it ran on, and whether others disturbed it. Linux's
 * /proc and /sys; what cannot be read is left empty or 0. */
#ifndef HG_SIM_MACHINE_H
#define HG_SIM_MACHINE_H
#include <stdint.h>

struct sim_machine {
    int cpus;              /* that this process may use */
    char cpu[80];          /* model name, "" where unknown */
    char kernel[128];      /* "Linux 6.1.0 x86_64" */
    char governor[32];     /* of cpu0, "unknown" where the kernel does not say */
    uint64_t memory_bytes; /* physical */
    /* That a process may still use: MemAvailable, capped by the cgroups' limits. */
    uint64_t available_bytes;
};

void sim_machine_read(struct sim_machine *m);

/* Running totals, in seconds; differences of two readings tell about the time between. */
struct sim_cpu {
    double busy;  /* CPU time used on the machine by anyone, this process included */
    double steal; /* time for which the hypervisor ran something else */
    double own;   /* CPU time of this process */
};

void sim_cpu_read(struct sim_cpu *c);

/* Largest resident size this process has had, and its resident size now, in bytes. */
uint64_t sim_rss_peak(void);
uint64_t sim_rss_now(void);

/* The commit this program was built from: set by the build, else "unknown". */
const char *sim_commit(void);

#endif
