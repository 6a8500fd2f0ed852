/* bintree.c: the peer of bench/macro/bintree.c: the same trees, on threads. With malloc a tree is
 * freed node by node when it has been counted.
 *
 * usage: bintree [DEPTH [WORKERS]]
 */
#include "bench/peers/peer.h"

#define WORKERS_MAX 64

struct tree {
    struct tree *left, *right;
};

static struct tree *make(long depth)
{
    struct tree *t = peer_allocate(sizeof *t);
    t->left = depth > 0 ? make(depth - 1) : NULL;
    t->right = depth > 0 ? make(depth - 1) : NULL;
    return t;
}

static long count(const struct tree *t)
{
    return t->left == NULL ? 1 : 1 + count(t->left) + count(t->right);
}

static void drop(struct tree *t)
{
    if (PEER_COLLECTS || t == NULL)
        return;
    drop(t->left);
    drop(t->right);
    peer_free(t);
}

static long count_and_drop(struct tree *t)
{
    long nodes = count(t);
    drop(t);
    return nodes;
}

struct worker {
    long depth, trees, nodes;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    for (long i = 0; i < w->trees; i++)
        w->nodes += count_and_drop(make(w->depth));
    return NULL;
}

int main(int argc, char **argv)
{
    peer_init();
    long depth_max = peer_argument(argc, argv, 1, 18), workers = peer_argument(argc, argv, 2, 2);
    pthread_t thread[WORKERS_MAX];
    struct worker worker[WORKERS_MAX];
    if (workers > WORKERS_MAX)
        workers = WORKERS_MAX;
    double wall = peer_wall(), cpu = peer_cpu();
    long nodes = count_and_drop(make(depth_max + 1));
    struct tree *lives = make(depth_max);
    for (long depth = 4; depth <= depth_max; depth += 4) {
        for (long i = 0; i < workers; i++) {
            worker[i] = (struct worker){depth, (1L << (depth_max - depth + 4)) / workers, 0};
            peer_start(&thread[i], work, &worker[i]);
        }
        for (long i = 0; i < workers; i++) {
            pthread_join(thread[i], NULL);
            nodes += worker[i].nodes;
        }
    }
    nodes += count_and_drop(lives);
    wall = peer_wall() - wall;
    cpu = peer_cpu() - cpu;
    printf("depth %ld, %ld workers, %ld nodes\n", depth_max, workers, nodes);
    peer_figure(wall, "s", "binary trees, elapsed");
    peer_figure(cpu, "s", "binary trees, CPU");
    peer_figure(peer_peak_mib(), "MiB", "binary trees, peak resident");
    if (PEER_COLLECTS)
        peer_figure((double)peer_collections(), "cycles", "collections");
    return 0;
}
