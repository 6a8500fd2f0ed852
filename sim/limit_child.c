/* limit_child.c: one run in a process of its own (child.h). Figures are plain numbers in shared
 * memory, and a child that dies leaves `done` unset. */
#include "sim/child.h"
#include "sim/limit.h"
#include "sim/sim.h"
#include <errno.h>
#include <string.h>

struct run {
    const struct limit_options *opt;
    const struct limit_scenario *s;
    bool limited;
    struct limit_shared *shared;
    void (*told)(void *arg, const struct limit_shared *shared);
    void *told_arg;
};

static int in_child(void *arg)
{
    const struct run *r = arg;
    return limit_run(r->opt, r->s, r->limited, r->shared);
}

static void tell(void *arg)
{
    const struct run *r = arg;
    r->told(r->told_arg, r->shared);
}

enum limit_end limit_child(const struct limit_options *opt, const struct limit_scenario *s,
                           bool limited, void (*told)(void *arg, const struct limit_shared *shared),
                           void *arg, struct limit_result *out, char *why, size_t room)
{
    struct sim_child_end end;
    struct limit_shared *shared = sim_child_memory(sizeof *shared);
    if (shared == NULL) {
        snprintf(why, room, "no shared memory: %s", strerror(errno));
        return LIMIT_END_FAILED;
    }
    struct run r = {opt, s, limited, shared, told, arg};
    int error = sim_child_run(in_child, &r, opt->duration_s, told != NULL ? tell : NULL, &r, &end);
    bool done = error == 0 && shared->result.done;
    if (done)
        *out = shared->result;
    else if (error != 0)
        snprintf(why, room, "no process: %s", strerror(-error));
    else
        sim_child_describe(&end, shared->error, why, room);
    sim_child_memory_free(shared, sizeof *shared);
    if (done)
        return LIMIT_END_RESULT;
    return error == 0 && sim_interrupts(NULL) > 0 ? LIMIT_END_STOPPED : LIMIT_END_FAILED;
}
