/* interrupt.c: Ctrl-C stops early and still reports.
 *
 * The handler only counts. Loops that wait look at the count (the run's main task ten times a
 * second, the comparing parent five times): the first interrupt ends the measurement, what was
 * measured is reported; the second one ends the running child at once. A forked child inherits
 * handler and count.
 *
 * Both words are atomics without a lock, written by the handler on whatever thread it runs, read by
 * anyone. They carry no other data, so relaxed order is enough.
 */
#include "sim/sim.h"
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

static atomic_int count;
static atomic_int last;

static void on_signal(int signal)
{
    atomic_store_explicit(&last, signal, memory_order_relaxed);
    atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
}

void sim_interrupts_catch(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int sim_interrupts(int *signal)
{
    if (signal != NULL)
        *signal = atomic_load_explicit(&last, memory_order_relaxed);
    return atomic_load_explicit(&count, memory_order_relaxed);
}
