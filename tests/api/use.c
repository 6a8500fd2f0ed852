/* use.c: a program on the public headers alone, valid as strict C17 and as C++17. The tests compile
 * it both ways and run it against the installed library: a list of typed nodes that only a task's
 * stack keeps alive, a collection, a channel between two tasks, and a timer inside an object. Ends
 * with 0 when all is right. */
#include <hedge/hedge.h>
#include <stdio.h>

typedef struct node node;
struct node {
    HG_REF(node *) next;
    int64_t value;
};

static const uint32_t node_fields[] = {offsetof(node, next)};
static const hg_layout node_layout = HG_TYPED("node", node_fields);

enum { NODES = 1000 };

static void add_up(void *arg)
{
    hg_chan *numbers = *(hg_chan **)arg;
    int64_t sum = 0;
    node *list = NULL;
    for (int i = 1; i <= NODES; i++) {
        node *n = (node *)hg_alloc(sizeof *n, &node_layout);
        n->value = i;
        hg_init(n->next, list);
        list = n;
    }
    hg_collect(hg_current());
    for (node *n = list; n != NULL; n = hg_get(n->next))
        sum += n->value;
    (void)hg_chan_send(numbers, &sum, HG_FOREVER);
}

typedef struct alarm {
    hg_timer timer;
    hg_sema rung;
} alarm;
static const uint32_t alarm_fields[] = {HG_TIMER_ARG(offsetof(alarm, timer))};
static const hg_layout alarm_layout = HG_TYPED("alarm", alarm_fields);

static void ring(hg_timer *t, void *arg)
{
    (void)t;
    hg_sema_release(&((alarm *)arg)->rung, 1);
}

static int rings(void)
{
    alarm *a = (alarm *)hg_alloc(sizeof *a, &alarm_layout);
    hg_timer_init(&a->timer, ring, a);
    if (hg_timer_reset(&a->timer, hg_in(1000000)) != 0)
        return 5;
    if (hg_sema_acquire(&a->rung, 1, hg_in(INT64_C(30000000000))) != 0)
        return 6;
    return hg_timer_stop(&a->timer) ? 7 : 0;
}

static int main_task(void *arg)
{
    (void)arg;
    hg_chan *numbers;
    int64_t sum = 0;
    if (hg_chan_new(sizeof sum, 0, HG_LEAF, &numbers) != 0)
        return 1;
    if (hg_go_copy(add_up, &numbers, sizeof numbers) != 0)
        return 2;
    if (hg_chan_recv(numbers, &sum, hg_in(INT64_C(30000000000))) != 0)
        return 3;
    if (sum != (int64_t)NODES * (NODES + 1) / 2)
        return 4;
    return rings();
}

int main(void)
{
    int result = hg_run(main_task, NULL, NULL);
    printf("hedge %s: %d\n", hg_version(), result);
    return result != 0;
}
