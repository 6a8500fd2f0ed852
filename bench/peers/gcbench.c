/* gcbench.c: the peer of bench/macro/gcbench.c, on threads. With malloc each tree is freed node by
 * node.
 *
 * usage: gcbench [WORKERS [STRETCH [LONG]]]
 */
#include "bench/peers/peer.h"

#define WORKERS_MAX 64
#define DOUBLES     4000000

struct node {
    struct node *left, *right;
    int i, j;
};

static long workers, stretch_depth, long_depth;

static struct node *node_new(struct node *left, struct node *right)
{
    struct node *n = peer_allocate(sizeof *n);
    *n = (struct node){left, right, 0, 0};
    return n;
}

static long tree_nodes(long depth) { return (2L << depth) - 1; }

static void populate(long depth, struct node *n)
{
    if (depth <= 0)
        return;
    n->left = node_new(NULL, NULL);
    n->right = node_new(NULL, NULL);
    populate(depth - 1, n->left);
    populate(depth - 1, n->right);
}

static struct node *make(long depth)
{
    struct node *left = depth > 0 ? make(depth - 1) : NULL;
    struct node *right = depth > 0 ? make(depth - 1) : NULL;
    return node_new(left, right);
}

static void drop(struct node *n)
{
    if (PEER_COLLECTS || n == NULL)
        return;
    drop(n->left);
    drop(n->right);
    peer_free(n);
}

static void *work(void *arg)
{
    (void)arg;
    for (long depth = 4; depth <= long_depth; depth += 2) {
        long trees = 2 * tree_nodes(stretch_depth) / tree_nodes(depth) / workers;
        if (trees < 1)
            trees = 1;
        for (long i = 0; i < trees; i++) {
            struct node *n = node_new(NULL, NULL);
            populate(depth, n);
            drop(n);
        }
        for (long i = 0; i < trees; i++)
            drop(make(depth));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    peer_init();
    pthread_t thread[WORKERS_MAX];
    workers = peer_argument(argc, argv, 1, 2);
    stretch_depth = peer_argument(argc, argv, 2, 20);
    long_depth = peer_argument(argc, argv, 3, 18);
    if (workers > WORKERS_MAX)
        workers = WORKERS_MAX;
    double wall = peer_wall(), cpu = peer_cpu();
    drop(make(stretch_depth));
    struct node *lives = node_new(NULL, NULL);
    populate(long_depth, lives);
    double *array = peer_allocate_leaf(DOUBLES * sizeof *array);
    for (int i = 1; i < DOUBLES; i++)
        array[i] = 1.0 / i;
    for (long i = 0; i < workers; i++)
        peer_start(&thread[i], work, NULL);
    for (long i = 0; i < workers; i++)
        pthread_join(thread[i], NULL);
    if (array[1000] != 1.0 / 1000 || lives->left == NULL)
        return 1;
    drop(lives);
    peer_free(array);
    wall = peer_wall() - wall;
    cpu = peer_cpu() - cpu;
    printf("%ld workers, stretch %ld, long %ld\n", workers, stretch_depth, long_depth);
    peer_figure(wall, "s", "gcbench, elapsed");
    peer_figure(cpu, "s", "gcbench, CPU");
    peer_figure(peer_peak_mib(), "MiB", "gcbench, peak resident");
    if (PEER_COLLECTS)
        peer_figure((double)peer_collections(), "cycles", "collections");
    return 0;
}
