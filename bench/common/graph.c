/* graph.c: the heap that marking is measured on (bench.h).
 *
 * n nodes are allocated one after the other, shuffled, and linked in the shuffled order: node i to
 * 2 i + 1 and 2 i + 2, as a heap is laid out in an array, and to any node. So every node is
 * reachable, neighbours in the graph are strangers in memory, and half of all references lead to a
 * node that another one leads to as well. The peers build the same.
 */
#include "bench/bench.h"

static const uint32_t node_refs[] = {(uint32_t)offsetof(struct bench_node, left),
                                     (uint32_t)offsetof(struct bench_node, right),
                                     (uint32_t)offsetof(struct bench_node, cross)};
const hg_layout bench_node_layout = HG_TYPED("bench node", node_refs);

_Static_assert(sizeof(struct bench_node) == 64, "as in the peers");

/* The table is an object of its own that the collector may be tracing: stores take the barrier. */
static void shuffle(struct bench_node **table, int64_t n, uint64_t *state)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)(bench_random(state) % (uint64_t)(i + 1));
        struct bench_node *t = table[i];
        hg_ref_store(&table[i], table[j]);
        hg_ref_store(&table[j], t);
        if (i % 4096 == 0)
            hg_safepoint();
    }
}

struct bench_node *bench_graph(int64_t n, const hg_layout *layout)
{
    uint64_t state = BENCH_SEED;
    struct bench_node **table = hg_alloc((size_t)n * sizeof *table, HG_REFS);
    for (int64_t i = 0; i < n; i++)
        hg_ref_store(&table[i], hg_alloc(sizeof(struct bench_node), layout));
    shuffle(table, n, &state);
    for (int64_t i = 0; i < n; i++) {
        struct bench_node *node = table[i];
        if (2 * i + 1 < n)
            hg_ref_store(&node->left, table[2 * i + 1]);
        if (2 * i + 2 < n)
            hg_ref_store(&node->right, table[2 * i + 2]);
        hg_ref_store(&node->cross, table[bench_random(&state) % (uint64_t)n]);
        if (i % 4096 == 0)
            hg_safepoint();
    }
    return table[0];
}
