/* machine.h: the machine that a benchmark runs on, for bench_begin and bench_end. */
#ifndef HG_BENCH_MACHINE_H
#define HG_BENCH_MACHINE_H
#include <stdio.h>

/* The commit that the program was built from, or "unknown". */
const char *bench_commit(void);
/* CPUs, memory, kernel, model and governor, on two lines. */
void bench_machine_print(FILE *out);
/* From bench_machine_start on, CPU time that others used is counted; bench_machine_report says how
 * much. */
void bench_machine_start(void);
void bench_machine_report(FILE *out);

#endif
