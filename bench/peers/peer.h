/* peer.h: what the peer programs in C share: one source for several allocators, clocks, and figures
 * printed on the same lines as those of bench.h.
 *
 *   -DPEER_BOEHM, -lgc   the Boehm-Demers-Weiser collector
 *   otherwise            malloc and free of what is linked: glibc's, jemalloc's, mimalloc's
 *
 * bench/compare builds them. They link nothing of hedge.
 */
#ifndef HG_BENCH_PEER_H
#define HG_BENCH_PEER_H
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef PEER_BOEHM
#define GC_THREADS
#include <gc.h>
#define PEER_COLLECTS 1
static inline void peer_init(void) { GC_INIT(); }
static inline void *peer_allocate(size_t size) { return GC_MALLOC(size); }
static inline void *peer_allocate_leaf(size_t size) { return GC_MALLOC_ATOMIC(size); }
static inline void peer_free(void *p) { (void)p; }
static inline int64_t peer_collections(void) { return (int64_t)GC_get_gc_no(); }
#else
#define PEER_COLLECTS 0
static inline void peer_init(void) {}
static inline void *peer_allocate(size_t size) { return malloc(size); }
static inline void *peer_allocate_leaf(size_t size) { return malloc(size); }
static inline void peer_free(void *p) { free(p); }
static inline int64_t peer_collections(void) { return 0; }
#endif

static inline double peer_wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline double peer_cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Largest resident size, in MiB. Not ru_maxrss: that of the process which started this one counts
 * in it. */
static inline double peer_peak_mib(void)
{
    char line[256];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtod(line + 6, NULL);
    if (f != NULL)
        fclose(f);
    return kib / 1024;
}

static inline void peer_figure(double v, const char *unit, const char *name, ...)
{
    char text[80];
    va_list args;
    va_start(args, name);
    vsnprintf(text, sizeof text, name, args);
    va_end(args);
    int decimals = v >= 1000 || v == 0 ? 0 : v >= 100 ? 1 : v >= 10 ? 2 : 3;
    printf("%-42s  %9.*f %s\n", text, decimals, v, unit);
    fflush(stdout);
}

/* The numeric argument i, or the standard; ends the process if it is none, or below 1. */
static inline long peer_argument(int argc, char **argv, int i, long standard)
{
    char *end;
    if (i >= argc)
        return standard;
    long v = strtol(argv[i], &end, 10);
    if (*argv[i] == 0 || *end != 0 || v < 1) {
        fprintf(stderr, "%s: expected a number above 0, not \"%s\"\n", argv[0], argv[i]);
        exit(2);
    }
    return v;
}

static inline void peer_start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    if (pthread_create(thread, NULL, fn, arg) != 0) {
        fprintf(stderr, "no thread\n");
        exit(1);
    }
}

#endif
