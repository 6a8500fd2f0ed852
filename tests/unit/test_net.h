/* test_net.h: what the tests of descriptors share: pairs of connected ones, and the count of tasks
 * that wait for one. */
#ifndef HG_TESTS_UNIT_TEST_NET_H
#define HG_TESTS_UNIT_TEST_NET_H
#include "runtime/net/net.h"
#include "tests/unit/test_sync.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct pair {
    hg_fd *a, *b;
};

static inline struct pair new_pair(int type)
{
    int n[2];
    struct pair p;
    CHECK(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, n) == 0);
    CHECK(hg_fd_open(n[0], &p.a) == 0);
    CHECK(hg_fd_open(n[1], &p.b) == 0);
    return p;
}
static inline void close_pair(struct pair *p)
{
    CHECK(hg_fd_close(p->a) == 0);
    CHECK(hg_fd_close(p->b) == 0);
}

/* A connection over TCP of this machine. */
static inline struct pair new_tcp_pair(void)
{
    struct pair p;
    hg_fd *l;
    char text[HG_ADDRESS_ROOM];
    CHECK(hg_listen("127.0.0.1:0", 0, &l) == 0);
    CHECK(hg_fd_local_address(l, text, sizeof text) > 0);
    CHECK(hg_dial(text, HG_FOREVER, &p.a) == 0);
    CHECK(hg_fd_accept(l, HG_FOREVER, &p.b) == 0);
    CHECK(hg_fd_close(l) == 0);
    return p;
}

static inline int64_t net_waits(void) { return hg__net_waits(hg__task_self()->sched); }
/* Lets other tasks run until n of them wait for descriptors. */
static inline void until_waits(int64_t n)
{
    while (net_waits() != n)
        hg_yield();
}

#endif
