/* kv_blame.c: the bounded heap of slow requests and the arithmetic of blame (kv_blame.h).
 *
 * A request's time line:
 *
 *   intended ....... free_at ......... issued ........................ end
 *   | behind earlier | timer, run queue, | run queues, marking, assist, |
 *   | requests of    | marking before    | sweeping, holds of client    |
 *   | its connection | the client runs   | and server; the rest is work |
 *
 * The time behind is shared out as that of the connection's earlier requests was: what delayed them
 * delayed this one. The counters of a task (hg_task_times) are read at the points above, not at the
 * events themselves, so their sum can exceed the time between two points: a slice that the client
 * ran on its way into its sleep counts towards its next request, and client and server can wait at
 * the same moment. Parts are therefore taken in order of what certainly belongs to the request, cut
 * to what is left of the time, or scaled down together.
 */
#include "sim/kv_blame.h"
#include "sim/memory.h"
#include <math.h>
#include <string.h>

void kv_slowest_init(struct kv_slowest *s, size_t room)
{
    s->heap = sim_alloc(room, sizeof *s->heap);
    s->n = 0;
    s->room = room;
    atomic_store_explicit(&s->threshold, -1, memory_order_relaxed);
}

void kv_slowest_free(struct kv_slowest *s)
{
    free(s->heap);
    s->heap = NULL;
    s->n = s->room = 0;
}

static int64_t latency(const struct kv_slow *s) { return s->end - s->intended; }

static void sift_up(struct kv_slow *heap, size_t i, const struct kv_slow *slow)
{
    while (i > 0 && latency(&heap[(i - 1) / 2]) > latency(slow)) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = *slow;
}

/* Puts `slow` in the place of the root. */
static void sift_down(struct kv_slow *heap, size_t n, const struct kv_slow *slow)
{
    size_t i = 0, child;
    while ((child = 2 * i + 1) < n) {
        if (child + 1 < n && latency(&heap[child + 1]) < latency(&heap[child]))
            child++;
        if (latency(&heap[child]) >= latency(slow))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = *slow;
}

void kv_slowest_add(struct kv_slowest *s, const struct kv_slow *slow)
{
    if (s->n < s->room)
        sift_up(s->heap, s->n++, slow);
    else if (s->n > 0 && latency(slow) > latency(&s->heap[0]))
        sift_down(s->heap, s->n, slow);
    if (s->n == s->room)
        atomic_store_explicit(&s->threshold, s->n > 0 ? latency(&s->heap[0]) : INT64_MAX,
                              memory_order_relaxed);
}

hg_task_times kv_times_between(const hg_task_times *earlier, const hg_task_times *later)
{
    return (hg_task_times){
        later->runq_ns - earlier->runq_ns,   later->mark_ns - earlier->mark_ns,
        later->slice_ns - earlier->slice_ns, later->assist_ns - earlier->assist_ns,
        later->sweep_ns - earlier->sweep_ns, later->hold_ns - earlier->hold_ns};
}

/* Adds `ns` to a part, at most what is left. */
static void take(double *part, double ns, double *left)
{
    double n = fmin(fmax(ns, 0), *left);
    *part += n;
    *left -= n;
}

/* When the connection could have turned to it. */
static int64_t turn(const struct kv_slow *s)
{
    return s->free_at > s->intended ? s->free_at : s->intended;
}

/* Takes the time from the request's turn to its end apart, by its tasks' own counters. */
static void split_own(const struct kv_slow *s, double part[KV_PARTS])
{
    memset(part, 0, KV_PARTS * sizeof *part);
    const hg_task_times *w = &s->waiting, *c = &s->client, *v = &s->server;
    double left = (double)(s->issued - turn(s));
    take(&part[KV_PART_MARK], (double)w->mark_ns, &left);
    take(&part[KV_PART_RUNQ], (double)(w->runq_ns - w->mark_ns), &left);
    take(&part[KV_PART_HOLD], (double)w->hold_ns, &left);
    take(&part[KV_PART_MARK], (double)w->slice_ns, &left);
    part[KV_PART_TIMER] = left;

    double service[KV_PARTS] = {0}, sum = 0, time = (double)(s->end - s->issued);
    service[KV_PART_MARK] = (double)(c->mark_ns + v->mark_ns + c->slice_ns + v->slice_ns);
    service[KV_PART_RUNQ] = (double)(c->runq_ns - c->mark_ns + v->runq_ns - v->mark_ns);
    service[KV_PART_LOCK] = (double)s->lock_ns;
    service[KV_PART_ASSIST] = (double)(c->assist_ns + v->assist_ns);
    service[KV_PART_SWEEP] = (double)(c->sweep_ns + v->sweep_ns);
    service[KV_PART_HOLD] = (double)(c->hold_ns + v->hold_ns);
    for (int i = 0; i < KV_PARTS; i++)
        sum += service[i] = fmax(service[i], 0);
    double scale = sum > time ? time / sum : 1;
    for (int i = 0; i < KV_PARTS; i++)
        part[i] += service[i] * scale;
    part[KV_PART_WORK] = fmax(0, time - sum * scale);
}

void kv_busy_add(struct kv_busy *busy, const struct kv_slow *finished, float shares[KV_PARTS])
{
    double part[KV_PARTS];
    split_own(finished, part);
    busy->ns += (double)(finished->end - turn(finished));
    for (int i = 0; i < KV_PARTS; i++) {
        busy->part[i] += part[i];
        shares[i] = busy->ns > 0 ? (float)(busy->part[i] / busy->ns) : 0;
    }
}

void kv_blame_split(const struct kv_slow *s, double part[KV_PARTS])
{
    double behind = (double)(turn(s) - s->intended), known = 0;
    split_own(s, part);
    for (int i = 0; i < KV_PARTS; i++)
        known += s->earlier[i];
    for (int i = 0; i < KV_PARTS && known > 0; i++)
        part[i] += behind * (s->earlier[i] / known);
    if (known <= 0)
        part[KV_PART_WORK] += behind;
}

uint64_t kv_blame_cycle(const hg_cycle *cycles, size_t n, int64_t from, int64_t to)
{
    for (size_t i = 0; i < n; i++)
        if (cycles[i].start_ns <= to && cycles[i].end_ns >= from)
            return cycles[i].number;
    return 0;
}

void kv_blame_sum(const struct kv_slowest *const *shard, size_t n, int64_t least,
                  const hg_cycle *cycles, size_t ncycles, struct kv_blame blame[2])
{
    memset(blame, 0, 2 * sizeof *blame);
    for (size_t k = 0; k < n; k++) {
        for (size_t i = 0; i < shard[k]->n; i++) {
            const struct kv_slow *s = &shard[k]->heap[i];
            if (latency(s) < least)
                continue;
            double part[KV_PARTS];
            kv_blame_split(s, part);
            struct kv_blame *b = &blame[kv_blame_cycle(cycles, ncycles, s->intended, s->end) != 0];
            b->requests++;
            b->behind_ns += (double)(turn(s) - s->intended);
            for (int p = 0; p < KV_PARTS; p++)
                b->ns[p] += part[p];
        }
    }
}

static int slowest_first(const void *a, const void *b)
{
    int64_t x = latency(*(const struct kv_slow *const *)a),
            y = latency(*(const struct kv_slow *const *)b);
    return (x < y) - (x > y);
}

void kv_blame_slowest(const struct kv_slowest *const *shard, size_t n, size_t want,
                      const hg_cycle *cycles, size_t ncycles, int64_t origin, struct kv_table *out)
{
    size_t total = 0, k = 0;
    for (size_t i = 0; i < n; i++)
        total += shard[i]->n;
    const struct kv_slow **all = sim_alloc(total, sizeof(struct kv_slow *));
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < shard[i]->n; j++)
            all[k++] = &shard[i]->heap[j];
    qsort(all, total, sizeof(struct kv_slow *), slowest_first);
    for (size_t i = 0; i < total && i < want; i++) {
        const struct kv_slow *s = all[i];
        double row[KV_SLOWEST_COLUMNS] = {s->conn, (double)s->seq, s->write,
                                          (double)(s->intended - origin) / 1e9, (double)latency(s)};
        row[5] = (double)kv_blame_cycle(cycles, ncycles, s->intended, s->end);
        row[6] = (double)(turn(s) - s->intended);
        kv_blame_split(s, &row[7]);
        kv_table_row(out, KV_SLOWEST_COLUMNS, row);
    }
    free(all);
}
