/* memory.h: plain C memory for the simulator's own books (never for references into the collected
 * heap: it is not scanned). A simulator without memory for its books has nothing to report: it says
 * so and ends. */
#ifndef HG_SIM_MEMORY_H
#define HG_SIM_MEMORY_H
#include <stdio.h>
#include <stdlib.h>

/* n zeroed elements of `size` bytes; never NULL, also for n 0. free() gives them back. */
static inline void *sim_alloc(size_t n, size_t size)
{
    void *p = calloc(n > 0 ? n : 1, size);
    if (p == NULL) {
        fprintf(stderr, "hedge-sim: no memory for %zu x %zu bytes\n", n, size);
        abort();
    }
    return p;
}

/* Room for n elements: grows p like realloc, or ends the process. The new part is not cleared. */
static inline void *sim_grow(void *p, size_t n, size_t size)
{
    void *q = size > 0 && n > (size_t)-1 / size ? NULL : realloc(p, n * size > 0 ? n * size : 1);
    if (q == NULL) {
        fprintf(stderr, "hedge-sim: no memory for %zu x %zu bytes\n", n, size);
        abort();
    }
    return q;
}

#endif
