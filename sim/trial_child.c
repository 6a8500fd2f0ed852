/* trial_child.c: one run of a comparison in a process of its own (child.h). */
#include "sim/child.h"
#include "sim/memory.h"
#include "sim/sim.h"
#include "sim/trial.h"
#include <errno.h>
#include <string.h>

struct run {
    trial_fn *fn;
    const void *arg;
    struct trial_shared *shared;
    void (*told)(void *arg, int64_t operations);
    void *told_arg;
};

static int in_child(void *arg)
{
    const struct run *r = arg;
    struct trial t = {.shared = r->shared, .latency = sim_alloc(1, sizeof(hg_histogram))};
    return r->fn(&t, r->arg);
}

static void tell(void *arg)
{
    const struct run *r = arg;
    r->told(r->told_arg, atomic_load_explicit(&r->shared->operations, memory_order_relaxed));
}

enum trial_ending trial_child(trial_fn *fn, const void *arg, double seconds,
                              void (*told)(void *arg, int64_t operations), void *told_arg,
                              struct trial_result *out, char *why, size_t room)
{
    struct sim_child_end end;
    struct trial_shared *shared = sim_child_memory(sizeof *shared);
    if (shared == NULL) {
        snprintf(why, room, "no shared memory: %s", strerror(errno));
        return TRIAL_FAILED;
    }
    struct run r = {fn, arg, shared, told, told_arg};
    int error = sim_child_run(in_child, &r, seconds, told != NULL ? tell : NULL, &r, &end);
    bool done = error == 0 && shared->result.done && end.status == 0;
    if (done)
        *out = shared->result;
    else if (error != 0)
        snprintf(why, room, "no process: %s", strerror(-error));
    else
        sim_child_describe(&end, shared->error, why, room);
    sim_child_memory_free(shared, sizeof *shared);
    if (done)
        return TRIAL_RESULT;
    return error == 0 && sim_interrupts(NULL) > 0 ? TRIAL_STOPPED : TRIAL_FAILED;
}
