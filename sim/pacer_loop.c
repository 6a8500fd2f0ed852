/* pacer_loop.c: one cycle of a program in virtual time, paced by the real pacer.
 *
 * The program is a handful of numbers (struct pacer_load); procs and tasks are not told apart, CPU
 * time is a fluid. What the runtime does is done here in the same order:
 *
 *   calm     what the last cycle left is swept; mutators allocate up to the trigger, which the
 *            pacer may move as it observes, and on for as long as the limiter holds GC back, and
 *            until the driver is there
 *   quiet    handshakes and roots: mutators allocate, nothing is marked
 *   marking  in steps; each asks hg__pacer_revise and then spends the CPU time of all procs:
 *              background  the share u, earns credit
 *              mutators    what is left, as far as they want it; allocation is charged at the
 *                          ratio, paid from earned and then starting credit, then by assist,
 *                          at most ASSIST_NS for each CHARGE bytes, the rest is carried on; a
 *                          ratio of 0 (or the limiter) forgives debts; at the hard limit mutators
 *                          wait, unless the limiter is on
 *              idle        what mutators do not want, or wait through, is marked in as well
 *   quiet    the rounds after the last grey object
 *   hard     past a hard limit allocations are refused: in the calm mutators sleep until the
 *            limiter lets a cycle begin, in marking their time goes to it
 *   end      what was allocated since the scan is kept, with the live heap; the cycle is measured
 *            as the runtime measures it
 *
 * A step is a fixed share of the work at the full share, so a long cycle has no fewer of them. Its
 * inner times are solved exactly (spend), not by smaller steps: mutators first run on credit, then
 * in proportion to what they must pay.
 */
#include "sim/pacer.h"
#include <math.h>

#define STEPS     64       /* of a cycle at the full share and without assist */
#define QUIET_NS  100000.0 /* before marking, unless the load says */
#define ROUNDS_NS 50000.0  /* after it */
#define CHARGE    4096.0   /* bytes handed out between two looks at the debt */
#define ASSIST_NS 50000.0  /* one assist at most */
#define WATCHES   24       /* observations on the way from live heap to goal */
#define WOBBLES   16       /* stretches of a cycle with a rate of their own */

/* A running cycle. */
struct run {
    const struct pacer_load *load;
    struct hg_pacer_plan plan;
    struct sim_rng rng;
    double start, heap, allocated, quiet_allocated;
    double live, scan, work, scanned, scannable; /* scan: of what is live */
    double debt, earned, credit;
    double assist_ns, background_ns, idle_ns, mutator_ns, wait_ns, mark_ns;
    double asleep_ns, quiet_ns;
    int procs;
    double wobbled_to; /* scanned: the rate holds up to here */
    double rate;       /* now */
};

void pacer_loop_init(struct pacer_loop *l, const struct hg_pacer_config *c)
{
    hg__pacer_init(&l->pacer, c);
    l->heap = l->unswept = 0;
    l->procs = PACER_PROCS;
    pacer_limit_init(&l->limit, c);
}

/* ---- before the trigger ---- */

/* Where an allocation of `part` bytes ends: no further than the trigger, unless a cycle may not
 * begin; than where the rate turns; than the hard limit. */
static double calm_until(const struct pacer_loop *l, const struct pacer_load *load, double part,
                         double turn)
{
    double to = l->heap + fmin(part, pacer_limit_room(l, l->heap, load->stack));

    if (!l->limit.on)
        to = fmin(to, (double)l->pacer.plan.trigger);
    if (l->heap < turn)
        to = fmin(to, fmax(turn, l->heap + 1));
    return to;
}

/* The cycle is due, and the driver's thread is not there yet: mutators allocate on, or wait. */
static void begin_late(struct pacer_loop *l, const struct pacer_load *load,
                       struct pacer_cycle *count)
{
    double cpu = load->late_ns * l->procs, room = pacer_limit_room(l, l->heap, load->stack);
    double bytes = fmin(cpu * load->demand * load->calm_after, room);

    if (load->late_ns <= 0)
        return;
    l->heap += bytes;
    count->cpu_ns += cpu;
    count->asleep_ns += room < (double)INFINITY ? cpu - bytes / load->calm_after : 0;
    pacer_limit_time(l, cpu, 0);
    pacer_limit_heap(l, l->heap, load->stack);
}

/* Sweeps, allocates up to the trigger, and until the limiter lets a cycle begin; at the hard limit
 * everybody waits for that. Counts the CPU time of all procs. */
static void calm(struct pacer_loop *l, const struct pacer_load *load, struct pacer_cycle *count)
{
    struct hg_pacer *p = &l->pacer;
    double from = l->heap, way = (double)p->plan.goal - from, mutator_ns = 0;
    double turn = from + load->change_at * way, part = way / WATCHES;

    pacer_limit_time(l, l->unswept, 0);
    count->cpu_ns += l->unswept;
    while ((l->heap < (double)p->plan.trigger || l->limit.on) &&
           pacer_limit_room(l, l->heap, load->stack) > 0) {
        double rate = l->heap >= turn ? load->calm_after : load->calm_before;
        double to = calm_until(l, load, part, turn), ns = (to - l->heap) / rate;
        struct hg_pacer_memory mem;

        mutator_ns += ns;
        l->heap = to;
        pacer_limit_time(l, ns / load->demand, 0);
        mem = pacer_limit_heap(l, l->heap, load->stack);
        hg__pacer_observe(p, (int64_t)(l->heap - from), (int64_t)mutator_ns, &mem);
    }
    count->asleep_ns += pacer_limit_wait(l);
    count->cpu_ns += mutator_ns / load->demand + count->asleep_ns;
    begin_late(l, load, count);
}

/* ---- while it marks ---- */

/* A deviate that is near enough to normal, from sums alone. */
static double normal(struct sim_rng *r)
{
    double sum = -6;

    for (int i = 0; i < 12; i++)
        sum += (double)(sim_rng_next(r) >> 11) * 0x1p-53;
    return sum;
}

/* The allocation rate of the stretch that marking has got to; its mean is the load's. */
static void wobble(struct run *r)
{
    const struct pacer_load *load = r->load;

    if (load->wobble == 0 || r->scanned < r->wobbled_to)
        return;
    r->wobbled_to = r->scanned + r->work / WOBBLES;
    r->rate = load->rate * exp(load->wobble * normal(&r->rng) - load->wobble * load->wobble / 2);
}

static struct hg_pacer_progress progress(const struct run *r)
{
    double there = (r->quiet_ns + r->mark_ns) * r->procs;

    return (struct hg_pacer_progress){
        .heap_live = (int64_t)r->heap,
        .scanned = (int64_t)r->scanned,
        .assist_ns = (int64_t)r->assist_ns,
        .background_ns = (int64_t)r->background_ns,
        .idle_ns = (int64_t)r->idle_ns,
        .scannable_at_trigger = (int64_t)r->scannable,
        .elapsed_ns = (int64_t)r->mark_ns,
        .alloc_since_mark = (int64_t)(r->allocated - r->quiet_allocated),
        .procs = r->procs,
        .busy = r->mutator_ns / there,
    };
}

/* Mutators allocate for `ns` of their CPU time. */
static void allocate(struct run *r, double ns, double ratio)
{
    r->mutator_ns += ns;
    r->heap += ns * r->rate;
    r->allocated += ns * r->rate;
    r->debt += ns * r->rate * ratio;
}

static void pay_from_credit(struct run *r)
{
    double own = fmin(r->debt, r->earned), given;

    r->earned -= own;
    r->debt -= own;
    given = fmin(r->debt, r->credit);
    r->credit -= given;
    r->debt -= given;
}

/* Mutators have `ns` of CPU time, at this ratio. Returns what assists took of it. */
static double spend(struct run *r, double ns, double ratio)
{
    double speed = r->load->speed, owed = r->rate * ratio; /* bytes per ns of allocation */
    double on_credit, most, assist, running;

    if (ratio == 0) {
        r->debt = 0;
        allocate(r, ns, 0);
        return 0;
    }
    pay_from_credit(r);
    on_credit = r->debt > 0 ? 0 : fmin((r->earned + r->credit) / owed, ns);
    allocate(r, on_credit, ratio);
    pay_from_credit(r);
    ns -= on_credit;
    most = ASSIST_NS / CHARGE * r->rate; /* ns of assist for each ns of allocation */
    running = fmax((ns - r->debt / speed) / (1 + owed / speed), ns / (1 + most));
    running = fmin(running, ns);
    assist = ns - running;
    allocate(r, running, ratio);
    r->debt = fmax(r->debt - assist * speed, 0);
    return assist;
}

/* Of a step in which mutators have the share `busy`: no more than is left to mark, and no further
 * than to the hard limit, if that is not within a small part of a step. */
static double step_cpu(const struct pacer_loop *l, const struct run *r, double full, double left,
                       double busy, double marking)
{
    double room = pacer_limit_room(l, r->heap, r->load->stack);
    double cpu = fmin(full, left / marking);

    if (room > 0 && cpu * busy * r->rate > room)
        cpu = fmax(room / (busy * r->rate), cpu / STEPS);
    return cpu;
}

static void step(struct pacer_loop *l, struct run *r, struct hg_pacer_assist a, double full_step_ns)
{
    double speed = r->load->speed, left = (r->work - r->scanned) / speed; /* GC CPU time */
    bool waits = (r->heap >= (double)r->plan.hard && !l->limit.on) ||
                 pacer_limit_room(l, r->heap, r->load->stack) == 0;
    double busy = fmin(r->load->demand, 1 - a.u);      /* shares of CPU time */
    double marking = waits ? 1 : 1 - busy, assist = 0; /* background and idle */
    double full = full_step_ns * r->procs * HG_PACER_U / a.u;
    double cpu = step_cpu(l, r, full, left, waits ? 0 : busy, marking);

    if (waits)
        r->wait_ns += cpu * busy;
    else
        assist = spend(r, cpu * busy, l->limit.on ? 0 : a.ratio);
    if (cpu * marking + assist > left) { /* work ran out meanwhile: the rest is the mutators' */
        allocate(r, cpu * marking + assist - left, 0);
        assist = fmax(left - cpu * marking, 0);
    }
    r->background_ns += cpu * a.u;
    r->idle_ns += cpu * (marking - a.u);
    r->assist_ns += assist;
    r->earned += cpu * marking * speed;
    r->scanned += (cpu * marking + assist) * speed;
    r->mark_ns += cpu / r->procs;
    if (r->work - r->scanned < 1) /* byte: what is left is rounding */
        r->scanned = r->work;
    pacer_limit_time(l, cpu, cpu * marking + assist);
    pacer_limit_heap(l, r->heap, r->load->stack);
}

static void mark(struct pacer_loop *l, struct run *r)
{
    double full_step_ns = r->work / (r->load->speed * r->procs * HG_PACER_U * STEPS);

    while (r->scanned < r->work) {
        struct hg_pacer_progress now = progress(r);

        wobble(r);
        step(l, r, hg__pacer_revise(&l->pacer, &now, true), full_step_ns);
    }
}

/* ---- its end ---- */

static void end(struct pacer_loop *l, const struct run *r)
{
    const struct pacer_load *load = r->load;
    double marked = r->live + r->allocated - r->quiet_allocated;
    struct hg_pacer_cycle m = {
        .heap_at_start = (int64_t)r->start,
        .heap_at_end = (int64_t)r->heap,
        .marked = (int64_t)marked,
        .scanned_heap = (int64_t)r->scan,
        .scanned_stack = (int64_t)load->stack,
        .stack_bytes = (int64_t)load->stack,
        .alloc_bytes = (int64_t)r->allocated,
        .assist_ns = (int64_t)r->assist_ns,
        .background_ns = (int64_t)r->background_ns,
        .idle_ns = (int64_t)r->idle_ns,
        .mark_wall_ns = (int64_t)r->mark_ns,
        .cycle_wall_ns = (int64_t)(r->quiet_ns + r->mark_ns),
        .quiet_ns = (int64_t)r->quiet_ns,
        .mutator_ns = (int64_t)r->mutator_ns,
        .procs = r->procs,
        .forced = pacer_limit_room(l, r->start, load->stack) == 0,
    };

    struct hg_pacer_memory mem = pacer_limit_heap(l, r->heap, load->stack);

    hg__pacer_cycle_end(&l->pacer, &m, &mem);
    l->heap = marked;
    l->unswept = r->heap * load->sweep;
}

/* Nothing is marked for `ns`: mutators allocate, or wait at the hard limit. */
static void quiet(const struct pacer_loop *l, struct run *r, double ns)
{
    double cpu = ns * r->procs * r->load->demand;
    double some = fmin(cpu, pacer_limit_room(l, r->heap, r->load->stack) / r->rate);

    allocate(r, some, 0);
    r->asleep_ns += cpu - some;
}

struct pacer_cycle pacer_loop_cycle(struct pacer_loop *l, const struct pacer_load *load)
{
    const struct hg_pacer *p = &l->pacer;
    struct pacer_cycle out = {0};
    double before = l->heap;

    calm(l, load, &out);
    struct run r = {.load = load,
                    .plan = p->plan,
                    .rng = {load->wobble_seed},
                    .start = l->heap,
                    .heap = l->heap,
                    .live = fmin(load->live, l->heap),
                    .scannable = (double)p->last.scanned_heap + l->heap - (double)p->last.marked +
                                 load->stack,
                    .credit = (double)hg__pacer_starting_credit(p),
                    .procs = l->procs,
                    .quiet_ns = load->quiet_ns > 0 ? load->quiet_ns : QUIET_NS,
                    .rate = load->rate};

    r.scan = load->scan * r.live;
    r.work = r.scan + load->stack;
    quiet(l, &r, r.quiet_ns);
    r.quiet_allocated = r.allocated;
    pacer_limit_time(l, (r.quiet_ns + ROUNDS_NS) * r.procs, 0);
    mark(l, &r);
    quiet(l, &r, ROUNDS_NS);
    r.mark_ns += ROUNDS_NS;
    end(l, &r);
    out.plan = r.plan;
    out.heap_at_end = r.heap;
    out.live = r.live + load->stack;
    out.allocated = r.heap - before;
    out.assist_ns = r.assist_ns;
    out.gc_ns = r.assist_ns + r.background_ns + r.idle_ns;
    out.wait_ns = r.wait_ns;
    out.asleep_ns += r.asleep_ns;
    out.cpu_ns += (r.quiet_ns + r.mark_ns) * r.procs;
    out.full = pacer_limit_room(l, l->heap, load->stack) == 0;
    return out;
}
