/* test_chan.c: what channels promise, on one proc and on several: order, buffers, close, deadlines,
 * misuse. */
#include "tests/unit/test_chan.h"
#include "base/atomic.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <string.h>

TestSuite(chan, .timeout = 60);

/* Most tests give a task a struct on its creator's stack: the creator waits until it is done. */
struct work {
    hg_chan *c, *done;
    int n;
    _Atomic int waiting;
    int result;
};

static int on_procs[] = {1, 2, 4};
#define PROCS_PARAMETERS(suite, name) \
    ParameterizedTestParameters(suite, name) { return cr_make_param_array(int, on_procs, 3); }

/* ---- creation, misuse ---- */

static int creation(void *arg)
{
    hg_chan *c = NULL;
    (void)arg;
    CHECK(hg_chan_new(12, 0, HG_REFS, &c) == -EINVAL);
    CHECK(hg_chan_new(12, 0, HG_CONSERVATIVE, &c) == -EINVAL);
    CHECK(hg_chan_new(65537, 0, HG_LEAF, &c) == -EINVAL);
    CHECK(hg_chan_new(65536, SIZE_MAX / 2, HG_LEAF, &c) == -ENOMEM);
    CHECK(hg_chan_new(8, SIZE_MAX / 16, HG_LEAF, &c) == -ENOMEM);
    CHECK(c == NULL);
    CHECK(hg_chan_new(12, 4, HG_LEAF, &c) == 0);
    CHECK(hg_chan_capacity(c) == 4 && hg_chan_length(c) == 0);
    CHECK(hg_chan_new(0, 1000, HG_REFS, &c) == 0);
    CHECK(hg_chan_capacity(c) == 1000);
    CHECK(hg_chan_new(65536, 0, HG_REFS, &c) == 0);
    CHECK(hg_chan_capacity(NULL) == 0 && hg_chan_length(NULL) == 0);
    CHECK(hg_chan_close(NULL) == -EINVAL);
    return 0;
}
Test(chan, creation) { cr_assert_eq(run_on(1, creation, NULL), 0); }

Test(chan, outside_of_tasks)
{
    hg_chan *c = NULL;
    hg_case one = {.chan = c};
    int value = 0;
    cr_assert_eq(hg_chan_new(4, 0, HG_LEAF, &c), -EPERM);
    cr_assert_eq(hg_chan_send(c, &value, HG_FOREVER), -EPERM);
    cr_assert_eq(hg_chan_recv(c, &value, HG_NOW), -EPERM);
    cr_assert_eq(hg_chan_close(c), -EPERM);
    cr_assert_eq(hg_select(&one, 1, HG_FOREVER), -EPERM);
}

static int no_channel(void *arg)
{
    int value = 7;
    (void)arg;
    CHECK(hg_chan_send(NULL, &value, HG_NOW) == -EAGAIN);
    CHECK(hg_chan_recv(NULL, &value, HG_NOW) == -EAGAIN);
    int64_t until = hg_in(2000000);
    CHECK(hg_chan_send(NULL, &value, until) == -ETIMEDOUT);
    CHECK(hg_now() >= until);
    CHECK(hg_chan_recv(NULL, &value, hg_in(0)) == -ETIMEDOUT);
    CHECK(value == 7);
    return 0;
}
Test(chan, no_channel) { cr_assert_eq(run_on(1, no_channel, NULL), 0); }

/* ---- handing over ---- */

static void send_numbers(void *arg)
{
    struct work *w = arg;
    for (int i = 0; i < w->n; i++)
        CHECK(hg_chan_send(w->c, &i, HG_FOREVER) == 0);
    CHECK(hg_chan_close(w->c) == 0);
}
static int in_order(void *arg)
{
    size_t caps[] = {0, 1, 2, 3, 7, 64};
    (void)arg;
    for (size_t k = 0; k < sizeof caps / sizeof *caps; k++) {
        struct work w = {.c = new_chan(sizeof(int), caps[k], HG_LEAF), .n = 1000};
        int got = -1, next = 0;
        go(send_numbers, &w);
        while (hg_chan_recv(w.c, &got, HG_FOREVER) == 0) {
            CHECK(got == next);
            CHECK(hg_chan_length(w.c) <= caps[k]);
            next++;
        }
        CHECK(next == w.n);
        CHECK(got == 0);
    }
    return 0;
}
PROCS_PARAMETERS(chan, in_order)
ParameterizedTest(int *procs, chan, in_order) { cr_assert_eq(run_on(*procs, in_order, NULL), 0); }

#define QUEUED 40
struct place {
    struct work *w;
    int i;
};
static void send_place(void *arg)
{
    struct place *p = arg;
    CHECK(hg_chan_send(p->w->c, &p->i, HG_FOREVER) == 0);
}
static void recv_place(void *arg)
{
    struct place *p = arg;
    int got = -1;
    CHECK(hg_chan_recv(p->w->c, &got, HG_FOREVER) == 0);
    CHECK(got == p->i);
    CHECK(hg_chan_send(p->w->done, &got, HG_FOREVER) == 0);
}
static int first_come_first_served(void *arg)
{
    struct work w = {.c = new_chan(sizeof(int), 0, HG_LEAF),
                     .done = new_chan(sizeof(int), QUEUED, HG_LEAF)};
    struct place places[QUEUED];
    (void)arg;
    for (int i = 0; i < QUEUED; i++) {
        places[i] = (struct place){&w, i};
        go(send_place, &places[i]);
        yield_until_waiting(w.c, i + 1);
    }
    for (int i = 0, got = -1; i < QUEUED; i++) {
        CHECK(hg_chan_recv(w.c, &got, HG_NOW) == 0);
        CHECK(got == i);
    }
    for (int i = 0; i < QUEUED; i++) {
        go(recv_place, &places[i]);
        yield_until_waiting(w.c, i + 1);
    }
    for (int i = 0; i < QUEUED; i++)
        CHECK(hg_chan_send(w.c, &i, HG_NOW) == 0);
    for (int i = 0, got; i < QUEUED; i++)
        CHECK(hg_chan_recv(w.done, &got, HG_FOREVER) == 0);
    return 0;
}
Test(chan, first_come_first_served) { cr_assert_eq(run_on(1, first_come_first_served, NULL), 0); }

/* A full buffer with senders behind it: what was sent first comes first. */
static int buffer_before_senders(void *arg)
{
    struct work w = {.c = new_chan(sizeof(int), 3, HG_LEAF)};
    struct place places[QUEUED];
    (void)arg;
    for (int i = 0; i < QUEUED; i++) {
        places[i] = (struct place){&w, i};
        go(send_place, &places[i]);
        while (hg_chan_length(w.c) + (size_t)waiting_at(w.c) != (size_t)i + 1)
            hg_yield();
    }
    CHECK(hg_chan_length(w.c) == 3);
    for (int i = 0, got = -1; i < QUEUED; i++) {
        CHECK(hg_chan_recv(w.c, &got, HG_NOW) == 0);
        CHECK(got == i);
    }
    CHECK(hg_chan_length(w.c) == 0);
    return 0;
}
Test(chan, buffer_before_senders) { cr_assert_eq(run_on(1, buffer_before_senders, NULL), 0); }

/* Values of every kind of size, through a ring that wraps around at every offset, into odd
 * places. */
static void check_size(size_t bytes, size_t cap)
{
    static unsigned char in[65536 + 1], out[65536 + 1];
    hg_chan *c = new_chan(bytes, cap, HG_LEAF);
    unsigned sent = 0, got = 0;
    for (size_t round = 0; round < 3 * cap; round++) {
        size_t fill = round % cap + 1;
        for (size_t i = 0; i < fill; i++) {
            memset(in + 1, (int)(++sent & 0xff), bytes);
            CHECK(hg_chan_send(c, in + 1, HG_NOW) == 0);
        }
        CHECK(hg_chan_length(c) == fill);
        for (size_t i = 0; i < fill; i++) {
            memset(out, 0x5a, sizeof out);
            memset(in + 1, (int)(++got & 0xff), bytes);
            CHECK(hg_chan_recv(c, out + 1, HG_NOW) == 0);
            CHECK(memcmp(out + 1, in + 1, bytes) == 0);
            CHECK(out[0] == 0x5a && (bytes == 65536 || out[bytes + 1] == 0x5a));
        }
    }
    for (size_t i = 0; i < cap; i++)
        CHECK(hg_chan_send(c, in, HG_NOW) == 0);
    CHECK(hg_chan_send(c, in, HG_NOW) == -EAGAIN);
    for (size_t i = 0; i < cap; i++)
        CHECK(hg_chan_recv(c, NULL, HG_NOW) == 0);
    CHECK(hg_chan_recv(c, NULL, HG_NOW) == -EAGAIN);
}
static int element_sizes(void *arg)
{
    size_t sizes[] = {0, 1, 3, 4, 8, 12, 24, 100, 4096};
    (void)arg;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t cap = 1; cap < 6; cap++)
            check_size(sizes[i], cap);
    check_size(65536, 2);
    return 0;
}
Test(chan, element_sizes) { cr_assert_eq(run_on(1, element_sizes, NULL), 0); }

static void signal_once(void *arg)
{
    struct work *w = arg;
    CHECK(hg_chan_send(w->c, NULL, HG_FOREVER) == 0);
}
static int no_bytes(void *arg)
{
    struct work w = {.c = new_chan(0, 0, HG_LEAF)};
    (void)arg;
    for (int i = 0; i < 100; i++)
        go(signal_once, &w);
    for (int i = 0; i < 100; i++)
        CHECK(hg_chan_recv(w.c, NULL, HG_FOREVER) == 0);
    return 0;
}
PROCS_PARAMETERS(chan, no_bytes)
ParameterizedTest(int *procs, chan, no_bytes) { cr_assert_eq(run_on(*procs, no_bytes, NULL), 0); }

/* ---- close ---- */

static int close_keeps_the_buffer(void *arg)
{
    hg_chan *c = new_chan(sizeof(int), 5, HG_LEAF);
    int value = 0;
    (void)arg;
    for (value = 1; value <= 5; value++)
        CHECK(hg_chan_send(c, &value, HG_NOW) == 0);
    CHECK(hg_chan_close(c) == 0);
    CHECK(hg_chan_close(c) == -EPIPE);
    CHECK(hg_chan_send(c, &value, HG_NOW) == -EPIPE);
    CHECK(hg_chan_send(c, &value, HG_FOREVER) == -EPIPE);
    for (int i = 1; i <= 5; i++)
        CHECK(hg_chan_recv(c, &value, HG_FOREVER) == 0 && value == i);
    for (int i = 0; i < 3; i++) {
        value = 9;
        CHECK(hg_chan_recv(c, &value, i == 0 ? HG_NOW : HG_FOREVER) == -EPIPE && value == 0);
    }
    CHECK(hg_chan_recv(c, NULL, HG_FOREVER) == -EPIPE);
    return 0;
}
Test(chan, close_keeps_the_buffer) { cr_assert_eq(run_on(1, close_keeps_the_buffer, NULL), 0); }

static void wait_to_receive(void *arg)
{
    struct work *w = arg;
    struct {
        uintptr_t word[3];
    } value = {{1, 2, 3}};
    hg_add_acqrel(&w->waiting, 1);
    CHECK(hg_chan_recv(w->c, &value, HG_FOREVER) == -EPIPE);
    CHECK(value.word[0] == 0 && value.word[1] == 0 && value.word[2] == 0);
    CHECK(hg_chan_send(w->done, NULL, HG_FOREVER) == 0);
}
static void wait_to_send(void *arg)
{
    struct work *w = arg;
    uintptr_t value[3] = {1, 2, 3};
    hg_add_acqrel(&w->waiting, 1);
    CHECK(hg_chan_send(w->c, value, HG_FOREVER) == -EPIPE);
    CHECK(hg_chan_send(w->done, NULL, HG_FOREVER) == 0);
}
/* More than one batch of them. */
static int close_wakes_everyone(void *arg)
{
    enum { TASKS = 300 };
    const hg_layout *layouts[] = {HG_LEAF, HG_REFS};
    (void)arg;
    for (int round = 0; round < 4; round++) {
        struct work w = {.c = new_chan(24, 0, layouts[round / 2]), .done = new_chan(0, 0, HG_LEAF)};
        for (int i = 0; i < TASKS; i++)
            go(round % 2 == 0 ? wait_to_receive : wait_to_send, &w);
        yield_until(&w.waiting, TASKS);
        hg_sleep(1000000);
        CHECK(hg_chan_close(w.c) == 0);
        for (int i = 0; i < TASKS; i++)
            CHECK(hg_chan_recv(w.done, NULL, HG_FOREVER) == 0);
    }
    return 0;
}
PROCS_PARAMETERS(chan, close_wakes_everyone)
ParameterizedTest(int *procs, chan, close_wakes_everyone)
{
    cr_assert_eq(run_on(*procs, close_wakes_everyone, NULL), 0);
}

/* ---- deadlines ---- */

static void send_late(void *arg)
{
    struct work *w = arg;
    hg_sleep(1000000);
    CHECK(hg_chan_send(w->c, &w->n, HG_FOREVER) == 0);
}
static int deadlines(void *arg)
{
    struct work w = {.c = new_chan(sizeof(int), 0, HG_LEAF), .n = 42};
    int value = 5;
    (void)arg;
    CHECK(hg_chan_recv(w.c, &value, HG_NOW) == -EAGAIN);
    CHECK(hg_chan_send(w.c, &value, HG_NOW) == -EAGAIN);
    for (int i = 0; i < 2; i++) {
        int64_t until = hg_in(3000000);
        int r = i == 0 ? hg_chan_recv(w.c, &value, until) : hg_chan_send(w.c, &value, until);
        CHECK(r == -ETIMEDOUT);
        CHECK(hg_now() >= until);
        CHECK(value == 5);
        /* Nobody is left in the queues. */
        CHECK(hg_chan_recv(w.c, &value, HG_NOW) == -EAGAIN);
        CHECK(hg_chan_send(w.c, &value, HG_NOW) == -EAGAIN);
    }
    CHECK(hg_chan_recv(w.c, &value, hg_in(-1)) == -ETIMEDOUT);
    CHECK(hg_chan_send(w.c, &value, hg_in(0)) == -ETIMEDOUT);
    go(send_late, &w);
    CHECK(hg_chan_recv(w.c, &value, hg_in(INT64_C(10000000000))) == 0 && value == 42);
    CHECK(hg_chan_close(w.c) == 0);
    CHECK(hg_chan_recv(w.c, &value, hg_in(1)) == -EPIPE);
    return 0;
}
PROCS_PARAMETERS(chan, deadlines)
ParameterizedTest(int *procs, chan, deadlines) { cr_assert_eq(run_on(*procs, deadlines, NULL), 0); }

/* A record in the middle of the queue goes, its neighbours stay. */
static void recv_until(void *arg)
{
    struct place *p = arg;
    int got = -1;
    int64_t deadline = p->i == 1 ? hg_in(100000000) : HG_FOREVER;
    int r = hg_chan_recv(p->w->c, &got, deadline);
    CHECK(p->i == 1 ? r == -ETIMEDOUT : r == 0 && got == p->i);
    CHECK(hg_chan_send(p->w->done, &got, HG_FOREVER) == 0);
}
static int deadline_between_others(void *arg)
{
    struct work w = {.c = new_chan(sizeof(int), 0, HG_LEAF),
                     .done = new_chan(sizeof(int), 0, HG_LEAF)};
    struct place places[3];
    int got;
    (void)arg;
    for (int i = 0; i < 3; i++) {
        places[i] = (struct place){&w, i};
        go(recv_until, &places[i]);
        yield_until_waiting(w.c, i + 1);
    }
    CHECK(hg_chan_recv(w.done, &got, HG_FOREVER) == 0 && got == -1);
    for (int i = 0; i < 3; i += 2) {
        CHECK(hg_chan_send(w.c, &i, HG_NOW) == 0);
        CHECK(hg_chan_recv(w.done, &got, HG_FOREVER) == 0 && got == i);
    }
    return 0;
}
Test(chan, deadline_between_others) { cr_assert_eq(run_on(1, deadline_between_others, NULL), 0); }
