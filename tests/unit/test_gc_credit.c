/* test_gc_credit.c: what background marking earns in a cycle pays debts of that cycle only.
 *
 * Were it kept, a program whose procs are idle for long would gather so much that its tasks never
 * assist again, however fast the heap passes its goal.
 */
#include "runtime/rt.h"
#include <criterion/criterion.h>
#include <hedge/hedge.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(c, ...) ((c) ? (void)0 : (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), abort()))

enum { NODES = 50000, CYCLES = 12 };

struct node {
    struct node *next;
    uint64_t fill[7];
};

static int64_t credit_of_all(hg_runtime *rt)
{
    int64_t sum = 0;
    for (int i = 0; i < rt->sched.nprocs; i++)
        sum += rt->sched.procs[i]->mut.credit; /* at rest: no cycle runs */
    return sum;
}

static int many_cycles(void *arg)
{
    hg_runtime *rt = hg_current();
    struct node *list = NULL;
    (void)arg;
    for (int i = 0; i < NODES; i++) {
        struct node *n = hg_alloc(sizeof *n, HG_REFS);
        n->next = list;
        list = n;
    }
    for (int i = 0; i < CYCLES; i++) {
        hg_collect(rt);
        hg_cycle c;
        MUST(hg_stats_cycles(rt, &c, 1) == 1, "no cycle");
        MUST(c.scanned_heap >= NODES * sizeof *list, "the list was not marked");
        int64_t scanned = (int64_t)(c.scanned_heap + c.scanned_stack + c.scanned_roots);
        /* A slice counts one byte too many, so that it is never nothing. */
        MUST(credit_of_all(rt) <= scanned + 65536, "cycle %d: credit %ld of %ld bytes scanned", i,
             (long)credit_of_all(rt), (long)scanned);
    }
    hg_keep_alive(list);
    return 7;
}

static void run(int procs)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = procs;
    cr_assert_eq(hg_run(many_cycles, NULL, &o), 7);
}

Test(gc_credit, ends_with_its_cycle_on_one_proc) { run(1); }
Test(gc_credit, ends_with_its_cycle_on_two_procs) { run(2); }
