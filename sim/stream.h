/* stream.h: connected sockets for loads: two ends in one process, over loopback TCP. */
#ifndef HG_SIM_STREAM_H
#define HG_SIM_STREAM_H
#include <hedge/hedge.h>
#include <sys/uio.h>

/* On a task: n connections, [2 * i] and [2 * i + 1] the ends of the i-th, in an object of the
 * heap. NULL: *err says why. */
hg_fd **stream_pairs(int n, int *err);
/* Reads n bytes. False: the end, or an error. */
bool stream_read(hg_fd *f, void *buf, size_t n);
/* Writes two buffers as one (the second may be empty). */
bool stream_write(hg_fd *f, const void *a, size_t a_bytes, const void *b, size_t b_bytes);

#endif
