/* stop.c: a program that ends in order: on Ctrl-C everything it does is cancelled, cleans up, and
 * is waited for; and a group of workers of which the first failure stops the others.
 *
 *     stop          works until Ctrl-C (or SIGTERM)
 *     stop 3        the third piece of work fails
 */
#include <errno.h>
#include <hedge/hedge.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stop_on_signal(void *unused)
{
    static const int stop[] = {SIGINT, SIGTERM};
    (void)unused;
    int signal = hg_signal_wait(stop, 2, HG_FOREVER);
    if (signal < 0)
        return; /* cancelled: the program has ended by itself */
    printf("\nsignal %d: stopping\n", signal);
    if (hg_runtime_shutdown(hg_current(), hg_in(INT64_C(5000000000))) != 0)
        fprintf(stderr, "some work did not end within 5 s\n");
}

struct piece {
    int n, failing;
};

static void put_away(void *arg)
{
    struct piece *p = arg;
    hg_sleep(1000000); /* it may wait: it is shielded */
    printf("piece %d: put away\n", p->n);
}

static int work(void *arg)
{
    struct piece *p = arg;
    hg_defer_node d;
    hg_defer(&d, put_away, p);
    int r = hg_sleep(INT64_C(100000000) * p->n);
    if (r == 0 && p->n == p->failing)
        hg_task_exit(-EIO); /* from any depth */
    hg_defer_run(&d);
    return r;
}

static int program(void *arg)
{
    hg_group g;
    int r = hg_go(stop_on_signal, NULL);
    hg_group_init(&g, 4); /* four at once */
    for (int n = 1; r == 0 && (n <= 10 || *(int *)arg == 0); n++) {
        struct piece p = {(n - 1) % 10 + 1, *(int *)arg};
        r = hg_group_go(&g, work, &p, sizeof p);
    }
    int first = hg_group_wait(&g, HG_FOREVER);
    r = first != 0 ? first : r;
    printf("ended: %s\n", r == 0 ? "all is done" : strerror(-r));
    return r == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    int failing = argc > 1 ? atoi(argv[1]) : 0;
    return hg_run(program, &failing, NULL);
}
