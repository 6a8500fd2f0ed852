/* stream.c: connected sockets for loads (stream.h). */
#include "sim/stream.h"
#include <errno.h>

static int stream_pair(hg_fd *end[2])
{
    char address[HG_ADDRESS_ROOM];
    hg_fd *listener;
    int err = hg_listen("127.0.0.1:0", 1, &listener);
    if (err != 0)
        return err;
    err = hg_fd_local_address(listener, address, sizeof address);
    if (err > 0)
        err = hg_dial(address, hg_in(INT64_C(10000000000)), &end[0]);
    if (err == 0) {
        err = hg_fd_accept(listener, hg_in(INT64_C(10000000000)), &end[1]);
        if (err != 0)
            hg_fd_close(end[0]);
    }
    hg_fd_close(listener);
    return err;
}

hg_fd **stream_pairs(int n, int *err)
{
    hg_fd **all = hg_alloc(2 * (size_t)n * sizeof(hg_fd *), HG_REFS);
    for (int i = 0; i < n; i++) {
        hg_fd *end[2];
        *err = stream_pair(end);
        if (*err != 0)
            return NULL;
        hg_ref_store(&all[2 * i], end[0]);
        hg_ref_store(&all[2 * i + 1], end[1]);
    }
    *err = 0;
    return all;
}

bool stream_read(hg_fd *f, void *buf, size_t n)
{
    return hg_fd_read_full(f, buf, n, HG_FOREVER) == (ssize_t)n;
}

bool stream_write(hg_fd *f, const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    struct iovec iov[2] = {{(void *)(uintptr_t)a, a_bytes}, {(void *)(uintptr_t)b, b_bytes}};
    return hg_fd_writev_all(f, iov, b_bytes > 0 ? 2 : 1, HG_FOREVER) == 0;
}
