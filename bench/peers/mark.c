/* mark.c: the peer of bench/macro/mark.c for the Boehm collector: the same graph (bench_graph),
 * forced collections. Markers: GC_MARKERS in the environment, else one per CPU; they start with the
 * first thread, which is why there is one.
 *
 * usage: mark [NODES [ROUNDS]]
 */
#include "bench/peers/peer.h"

struct node {
    struct node *left, *right, *cross;
    uint64_t payload[5];
};

static uint64_t random_state = UINT64_C(88172645463325252);
static struct node *root;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void *nothing(void *arg) { return arg; }

static void build(long n)
{
    struct node **table = GC_MALLOC_UNCOLLECTABLE((size_t)n * sizeof *table);
    for (long i = 0; i < n; i++)
        table[i] = GC_MALLOC(sizeof(struct node));
    for (long i = n - 1; i > 0; i--) {
        long j = (long)(next_random() % (uint64_t)(i + 1));
        struct node *t = table[i];
        table[i] = table[j];
        table[j] = t;
    }
    for (long i = 0; i < n; i++) {
        if (2 * i + 1 < n)
            table[i]->left = table[2 * i + 1];
        if (2 * i + 2 < n)
            table[i]->right = table[2 * i + 2];
        table[i]->cross = table[next_random() % (uint64_t)n];
    }
    root = table[0];
    GC_FREE(table);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    peer_init();
    long n = peer_argument(argc, argv, 1, 8388608), rounds = peer_argument(argc, argv, 2, 5);
    double wall[64], cpu[64], bytes = (double)n * sizeof(struct node);
    pthread_t thread;
    if (rounds > 64)
        rounds = 64;
    peer_start(&thread, nothing, NULL);
    pthread_join(thread, NULL);
    GC_disable();
    build(n);
    GC_enable();
    GC_gcollect();
    for (long i = 0; i < rounds; i++) {
        wall[i] = peer_wall();
        cpu[i] = peer_cpu();
        GC_gcollect();
        wall[i] = peer_wall() - wall[i];
        cpu[i] = peer_cpu() - cpu[i];
    }
    qsort(wall, (size_t)rounds, sizeof *wall, by_value);
    qsort(cpu, (size_t)rounds, sizeof *cpu, by_value);
    printf("%ld nodes, %ld rounds, %d markers beside the first\n", n, rounds, GC_get_parallel());
    peer_figure(bytes / cpu[rounds / 2] / 1e9, "GB/s", "mark conservative, per core-second");
    peer_figure(bytes / wall[rounds / 2] / 1e9, "GB/s", "mark conservative, elapsed rate");
    peer_figure(wall[rounds / 2] * 1e3, "ms", "mark conservative, elapsed");
    peer_figure(cpu[rounds / 2] * 1e3, "ms", "mark conservative, CPU of all");
    peer_figure(peer_peak_mib(), "MiB", "mark conservative, peak resident");
    return root == NULL;
}
