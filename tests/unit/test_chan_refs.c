/* test_chan_refs.c: references in channels: what a channel keeps alive, what it lets go, and
 * values that move between stacks, buffers and objects while cycles run. Swept memory is filled
 * with a pattern, and every value that is received is checked down to its object.
 */
#include "base/atomic.h"
#include "tests/unit/test_chan.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <string.h>

TestSuite(chan_refs, .timeout = 60);

#define MAGIC UINT64_C(0x6865646765)

/* An element of three words, as programs have them: a reference between numbers. */
struct node {
    uint64_t magic;
    uint64_t number;
};
struct elem {
    uint64_t number;
    struct node *node;
    uint64_t check;
};
static const uint32_t elem_fields[] = {offsetof(struct elem, node)};
static const hg_layout elem_layout = HG_TYPED("element", elem_fields);

static __attribute__((noinline)) void fill(struct elem *e, uint64_t number)
{
    struct node *n = hg_alloc(sizeof *n, HG_LEAF);
    n->magic = MAGIC;
    n->number = number;
    *e = (struct elem){number, n, ~number};
}
static void check(const struct elem *e, uint64_t number)
{
    CHECK(e->number == number && e->check == ~number);
    CHECK(e->node->magic == MAGIC && e->node->number == number);
}
/* Makes garbage, so that cycles run and freed slots are used again. */
static void churn(int n)
{
    for (int i = 0; i < n; i++)
        memset(hg_alloc(sizeof(struct node), HG_LEAF), 0xa5, sizeof(struct node));
}
/* Overwrites what earlier calls left below the stack pointer of the caller. */
static __attribute__((noinline)) void wipe_stack(void)
{
    volatile char dirt[2048];
    for (size_t i = 0; i < sizeof dirt; i++)
        dirt[i] = 0;
}

/* ---- the buffer ---- */

static __attribute__((noinline)) void send_some(hg_chan *c, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        struct elem e;
        fill(&e, i);
        CHECK(hg_chan_send(c, &e, HG_NOW) == 0);
    }
}
static int buffer_keeps_alive(void *arg)
{
    const hg_layout *layouts[] = {&elem_layout, HG_CONSERVATIVE};
    (void)arg;
    for (int k = 0; k < 2; k++) {
        hg_chan *c = new_chan(sizeof(struct elem), 100, layouts[k]);
        send_some(c, 100);
        wipe_stack();
        hg_collect(hg_current());
        churn(1000);
        hg_collect(hg_current());
        for (uint64_t i = 0; i < 100; i++) {
            struct elem e;
            CHECK(hg_chan_recv(c, &e, HG_NOW) == 0);
            check(&e, i);
        }
    }
    return 0;
}
Test(chan_refs, buffer_keeps_alive)
{
    cr_assert_eq(run_collecting(1, buffer_keeps_alive, NULL), 0);
}

/* What was taken out is not held any more: every slot is zero again. */
static int buffer_lets_go(void *arg)
{
    hg_chan *c = new_chan(sizeof(struct elem), 7, &elem_layout);
    struct elem e;
    (void)arg;
    for (int round = 0; round < 5; round++) {
        send_some(c, 3 + (uint64_t)round);
        while (hg_chan_recv(c, round % 2 == 0 ? &e : NULL, HG_NOW) == 0)
            continue;
        const uintptr_t *words = c->buffer;
        for (size_t i = 0; i < 7 * sizeof(struct elem) / sizeof *words; i++)
            CHECK(words[i] == 0);
    }
    return 0;
}
Test(chan_refs, buffer_lets_go) { cr_assert_eq(run_on(1, buffer_lets_go, NULL), 0); }

/* ---- waiting tasks ---- */

struct work {
    hg_chan *c, *done;
    int n;
    bool from_heap, to_heap;
    _Atomic int waiting;
};

/* Where a value lies while its task waits: in the frame, or in an object. */
static struct elem *home(struct elem *frame, bool in_heap)
{
    return in_heap ? hg_alloc(sizeof(struct elem), &elem_layout) : frame;
}

static void wait_with_value(void *arg)
{
    struct work *w = arg;
    struct elem frame, *e = home(&frame, w->from_heap);
    fill(e, (uint64_t)hg_add_acqrel(&w->waiting, 1));
    CHECK(hg_chan_send(w->c, e, HG_FOREVER) == 0);
}
static void wait_for_value(void *arg)
{
    struct work *w = arg;
    struct elem frame, *e = home(&frame, w->to_heap);
    hg_add_acqrel(&w->waiting, 1);
    CHECK(hg_chan_recv(w->c, e, HG_FOREVER) == 0);
    churn(50);
    check(e, e->number);
    CHECK(hg_chan_send(w->done, e, HG_FOREVER) == 0);
}

/* Values wait on parked stacks over whole cycles, then go to stacks and into objects. */
static int values_of_waiting_tasks(void *arg)
{
    enum { TASKS = 50 };
    (void)arg;
    for (int k = 0; k < 4; k++) {
        struct work w = {.c = new_chan(sizeof(struct elem), 0, &elem_layout),
                         .done = new_chan(sizeof(struct elem), 0, &elem_layout),
                         .from_heap = (k & 1) != 0,
                         .to_heap = (k & 2) != 0};
        bool seen[TASKS] = {false};
        for (int i = 0; i < TASKS; i++)
            go(wait_with_value, &w);
        yield_until(&w.waiting, TASKS);
        churn(1000);
        hg_collect(hg_current());
        for (int i = 0; i < TASKS; i++)
            go(wait_for_value, &w);
        for (int i = 0; i < TASKS; i++) {
            struct elem frame, *e = home(&frame, w.to_heap);
            CHECK(hg_chan_recv(w.done, e, HG_FOREVER) == 0);
            check(e, e->number);
            CHECK(e->number < TASKS && !seen[e->number]);
            seen[e->number] = true;
        }
    }
    return 0;
}
static int on_procs[] = {1, 2, 4};
ParameterizedTestParameters(chan_refs, values_of_waiting_tasks)
{
    return cr_make_param_array(int, on_procs, 3);
}
ParameterizedTest(int *procs, chan_refs, values_of_waiting_tasks)
{
    cr_assert_eq(run_collecting(*procs, values_of_waiting_tasks, NULL), 0);
}

/* A closed channel zeroes what it is received into, also more than it zeroes at once, and no
 * more. */
static int close_zeroes_objects(void *arg)
{
    enum { WORDS = 21 };
    hg_chan *c = new_chan(WORDS * sizeof(uintptr_t), 0, HG_REFS);
    void **object = hg_alloc((WORDS + 2) * sizeof(void *), HG_REFS);
    (void)arg;
    for (int i = 0; i < WORDS + 2; i++)
        hg_ref_store(&object[i], object);
    CHECK(hg_chan_close(c) == 0);
    CHECK(hg_chan_recv(c, object + 1, HG_FOREVER) == -EPIPE);
    for (int i = 1; i <= WORDS; i++)
        CHECK(object[i] == NULL);
    CHECK(object[0] == object && object[WORDS + 1] == object);
    return 0;
}
Test(chan_refs, close_zeroes_objects) { cr_assert_eq(run_on(1, close_zeroes_objects, NULL), 0); }

/* ---- what is shaded ---- */

/* The windows in which a missing shade loses an object are short: a stack that is not scanned yet
 * gives to one that is. So here the phase is set by hand, with no cycle running and collection off:
 * what an operation shades is then marked, and nothing else is. */
struct shading {
    hg_chan *c;
    void **to; /* where the waiting receiver wants it; NULL: in its frame */
    bool select;
    _Atomic int done;
};
static void set_phase(enum hg_phase phase)
{
    hg_i_marking = phase != HG_PHASE_OFF;
    hg_store_rel(&hg__self()->world->phase, (uint32_t)phase);
}
static bool marked(const void *object)
{
    return hg__is_marked(hg__self()->world->heap, (uintptr_t)object);
}
static void *white(void)
{
    void *object = hg_alloc(16, HG_LEAF);
    CHECK(!marked(object));
    return object;
}
static int send_one(struct shading *s, void **value)
{
    hg_case one = {.chan = s->c, .send = value};
    return s->select ? hg_select(&one, 1, HG_FOREVER) : hg_chan_send(s->c, value, HG_FOREVER);
}
static int recv_one(struct shading *s, void **value)
{
    hg_case one = {.chan = s->c, .recv = value};
    return s->select ? hg_select(&one, 1, HG_FOREVER) : hg_chan_recv(s->c, value, HG_FOREVER);
}
static void wait_with_white(void *arg)
{
    struct shading *s = arg;
    void *value = white();
    CHECK(send_one(s, &value) == 0);
    hg_add_acqrel(&s->done, 1);
}
static void wait_for_white(void *arg)
{
    struct shading *s = arg;
    void *value = NULL;
    CHECK(recv_one(s, s->to != NULL ? s->to : &value) == 0);
    hg_add_acqrel(&s->done, 1);
}
static void start(struct shading *s, void (*fn)(void *))
{
    int before = waiting_at(s->c);
    hg_store_rel(&s->done, 0);
    go(fn, s);
    yield_until_waiting(s->c, before + 1);
}

static void shades_between_stacks(bool select)
{
    struct shading s = {.c = new_chan(sizeof(void *), 0, HG_REFS), .select = select};
    void *value = white(), *other = white(), *got = NULL;
    start(&s, wait_for_white);
    set_phase(HG_PHASE_MARK);
    CHECK(send_one(&s, &value) == 0);
    set_phase(HG_PHASE_OFF);
    CHECK(marked(value) && !marked(other));
    yield_until(&s.done, 1);
    start(&s, wait_with_white);
    set_phase(HG_PHASE_MARK);
    CHECK(recv_one(&s, &got) == 0);
    set_phase(HG_PHASE_OFF);
    CHECK(marked(got) && !marked(other));
    yield_until(&s.done, 1);
}
/* A place in an object: what it held is shaded too. */
static void shades_what_is_overwritten(bool select)
{
    struct shading s = {.c = new_chan(sizeof(void *), 0, HG_REFS), .select = select};
    void *value = white(), *old = white(), *older = white();
    void **object = hg_alloc(2 * sizeof(void *), HG_REFS);
    hg_ref_store(&object[0], old);
    hg_ref_store(&object[1], older);
    s.to = &object[0];
    start(&s, wait_for_white);
    set_phase(HG_PHASE_MARK);
    CHECK(send_one(&s, &value) == 0);
    set_phase(HG_PHASE_OFF);
    CHECK(object[0] == value && marked(value) && marked(old) && !marked(older));
    yield_until(&s.done, 1);
    start(&s, wait_with_white);
    set_phase(HG_PHASE_MARK);
    CHECK(recv_one(&s, &object[1]) == 0);
    set_phase(HG_PHASE_OFF);
    CHECK(marked(object[1]) && marked(older));
    yield_until(&s.done, 1);
    hg_chan_close(s.c);
    set_phase(HG_PHASE_MARK);
    hg_ref_store(&object[0], value = white());
    CHECK(hg_chan_recv(s.c, &object[0], HG_NOW) == -EPIPE);
    set_phase(HG_PHASE_OFF);
    CHECK(object[0] == NULL && marked(value));
}
/* Out of the buffer: the value that is taken, and that of the sender that takes its place. Into it:
 * in ROOTS, when the sender may be unscanned for good. */
static void shades_at_the_buffer(bool select)
{
    struct shading s = {.c = new_chan(sizeof(void *), 1, HG_REFS), .select = select};
    void *value = white(), *got = NULL;
    set_phase(HG_PHASE_MARK);
    CHECK(send_one(&s, &value) == 0);
    CHECK(!marked(value));
    set_phase(HG_PHASE_OFF);
    start(&s, wait_with_white);
    set_phase(HG_PHASE_MARK);
    CHECK(recv_one(&s, &got) == 0 && got == value);
    CHECK(marked(value));
    CHECK(marked(*(void **)s.c->buffer));
    set_phase(HG_PHASE_OFF);
    yield_until(&s.done, 1);
    CHECK(recv_one(&s, &got) == 0);
    value = white();
    set_phase(HG_PHASE_ROOTS);
    CHECK(send_one(&s, &value) == 0);
    set_phase(HG_PHASE_OFF);
    CHECK(marked(value));
}
static int shading(void *arg)
{
    (void)arg;
    CHECK(hg_set_gc_percent(hg_current(), -1) != -EINVAL);
    for (int select = 0; select < 2; select++) {
        shades_between_stacks(select != 0);
        shades_what_is_overwritten(select != 0);
        shades_at_the_buffer(select != 0);
    }
    return 0;
}
Test(chan_refs, shading) { cr_assert_eq(run_on(1, shading, NULL), 0); }

/* ---- in motion ---- */

/* References go round through channels of every kind and select while cycles run: each task
 * forgets what it passes on, so that for much of the time a value lies only in a buffer, on a
 * parked stack, or between the two. */
#define RING    6
#define PER_HOP 8
#define CYCLES  200
struct ring {
    hg_chan *hop[RING];
    hg_chan *rest; /* what tasks hold when they stop */
    _Atomic int at, stop, done;
    _Atomic uint64_t moves;
};
static bool take(struct ring *r, hg_chan *from, struct elem *e, uint64_t k)
{
    hg_case cases[2] = {{.chan = NULL, .recv = e}, {.chan = from, .recv = e}};
    int result;
    do {
        int64_t deadline = hg_in(1000000);
        result = k % 3 == 0 ? hg_select(cases, 2, deadline) : hg_chan_recv(from, e, deadline);
        if (result == 1)
            result = cases[1].result;
        CHECK(result == 0 || result == -ETIMEDOUT);
    } while (result != 0 && hg_load_acq(&r->stop) == 0);
    return result == 0;
}
static void give(struct ring *r, hg_chan *to, struct elem *e, uint64_t k)
{
    hg_case one = {.chan = to, .send = e};
    int result;
    do {
        int64_t deadline = hg_in(1000000);
        result = k % 4 == 0 ? hg_select(&one, 1, deadline) : hg_chan_send(to, e, deadline);
        CHECK(result == 0 || result == -ETIMEDOUT);
    } while (result != 0 && hg_load_acq(&r->stop) == 0);
    if (result != 0)
        CHECK(hg_chan_send(r->rest, e, HG_NOW) == 0);
}
static void pass_on(void *arg)
{
    struct ring *r = arg;
    int i = hg_add_acqrel(&r->at, 1);
    hg_chan *from = r->hop[i], *to = r->hop[(i + 1) % RING];
    struct elem e;
    for (uint64_t k = 0; take(r, from, &e, k); k++) {
        check(&e, e.number);
        if (k % 5 == 0)
            fill(&e, e.number);
        churn(2);
        give(r, to, &e, k);
        hg_add_acqrel(&r->moves, 1);
    }
    hg_add_acqrel(&r->done, 1);
}
static uint64_t count_left(hg_chan *c)
{
    struct elem e;
    uint64_t sum = 0;
    while (hg_chan_recv(c, &e, HG_NOW) == 0) {
        check(&e, e.number);
        sum += UINT64_C(1) << 8 * e.number;
    }
    return sum;
}
static int references_go_round(void *arg)
{
    struct ring r = {.rest = new_chan(sizeof(struct elem), PER_HOP, &elem_layout)};
    (void)arg;
    /* Room in some of the hops for all that is in motion, or the ring would come to a stop. */
    for (int i = 0; i < RING; i++)
        r.hop[i] =
            new_chan(sizeof(struct elem), i % 3 == 0 ? PER_HOP : (size_t)(i % 3 - 1), &elem_layout);
    send_some(r.hop[0], PER_HOP);
    for (int i = 0; i < RING; i++)
        go(pass_on, &r);
    for (int i = 0; i < CYCLES; i++)
        hg_collect(hg_current());
    hg_store_rel(&r.stop, 1);
    yield_until(&r.done, RING);
    uint64_t sum = count_left(r.rest);
    for (int i = 0; i < RING; i++)
        sum += count_left(r.hop[i]);
    CHECK(sum == UINT64_C(0x0101010101010101)); /* each number once */
    CHECK(hg_load_acq(&r.moves) > 10 * CYCLES);
    return 0;
}
ParameterizedTestParameters(chan_refs, references_go_round)
{
    return cr_make_param_array(int, on_procs, 3);
}
ParameterizedTest(int *procs, chan_refs, references_go_round)
{
    cr_assert_eq(run_collecting(*procs, references_go_round, NULL), 0);
}
