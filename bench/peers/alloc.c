/* alloc.c: the peer of bench/micro/alloc.c, on threads: the same ring, ballast, sizes.
 *
 * With malloc an object is freed when its place in the ring is taken, it is not zeroed, and layouts
 * do not exist. With gc off the Boehm collector is disabled and a bounded number of objects is
 * allocated, from memory that a collection has just freed.
 *
 * usage: alloc [THREADS [COUNT]]
 */
#include "bench/peers/peer.h"

#define RING        1024
#define WARM_UP     100000
#define THREADS_MAX 64
#define BALLAST     ((size_t)64 << 20)
#define OFF_BUDGET  (256L << 20)

static const size_t sizes[] = {16, 32, 48, 64, 128, 1024};
static pthread_barrier_t barrier;

struct job {
    void **ring;
    size_t size;
    long n;
    int leaf;
    double wall;
};

static inline __attribute__((always_inline)) void loop(void **ring, size_t size, long n, int leaf)
{
    for (long i = 0; i < n; i++) {
        void **object = leaf ? peer_allocate_leaf(size) : peer_allocate(size);
        void **slot = &ring[i % RING];
        *object = NULL;
        peer_free(*slot);
        *slot = object;
    }
}

__attribute__((noinline)) static void allocate(const struct job *j, long n)
{
    if (j->leaf)
        loop(j->ring, j->size, n, 1);
    else
        loop(j->ring, j->size, n, 0);
}

static void *work(void *arg)
{
    struct job *j = arg;
    j->ring = peer_allocate(RING * sizeof *j->ring);
    memset(j->ring, 0, RING * sizeof *j->ring);
    allocate(j, j->n < WARM_UP ? j->n : WARM_UP);
    pthread_barrier_wait(&barrier);
    double t = peer_wall();
    allocate(j, j->n);
    j->wall = peer_wall() - t;
    for (int i = 0; i < RING; i++)
        peer_free(j->ring[i]);
    peer_free(j->ring);
    return NULL;
}

static struct job jobs[THREADS_MAX]; /* static: the Boehm collector finds the rings here */

/* ns per allocation, elapsed and CPU. */
static void measure(size_t size, int leaf, long threads, long n, double *wall, double *cpu)
{
    pthread_t thread[THREADS_MAX];
    *wall = 0;
    *cpu = peer_cpu();
    for (long i = 0; i < threads; i++) {
        jobs[i] = (struct job){NULL, size, n, leaf, 0};
        peer_start(&thread[i], work, &jobs[i]);
    }
    for (long i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        *wall += jobs[i].wall / (double)(threads * n) * 1e9;
    }
    *cpu = (peer_cpu() - *cpu) / (double)(threads * (n + WARM_UP)) * 1e9;
}

static void steady(const char *layout, int leaf, long threads, long count)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        long room = (long)(((size_t)2 << 30) / sizes[i]);
        double wall, cpu;
        int64_t collections = peer_collections();
        measure(sizes[i], leaf, threads, count < room ? count : room, &wall, &cpu);
        peer_figure(wall, "ns", "allocate%s %zu B, steady", layout, sizes[i]);
        peer_figure(cpu, "ns", "allocate%s %zu B, steady, CPU", layout, sizes[i]);
        if (PEER_COLLECTS)
            peer_figure((double)(peer_collections() - collections), "cycles",
                        "allocate%s %zu B, steady, collections", layout, sizes[i]);
    }
}

#ifdef PEER_BOEHM
static void off(const char *layout, int leaf, long threads, long count, int print)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        long room = OFF_BUDGET / threads / (long)sizes[i];
        double wall, cpu;
        GC_gcollect();
        GC_disable();
        measure(sizes[i], leaf, threads, count < room ? count : room, &wall, &cpu);
        GC_enable();
        if (print)
            peer_figure(wall, "ns", "allocate%s %zu B, gc off", layout, sizes[i]);
    }
}
#endif

int main(int argc, char **argv)
{
    static void *ballast;
    peer_init();
    long threads = peer_argument(argc, argv, 1, 1), count = peer_argument(argc, argv, 2, 20000000);
    if (threads > THREADS_MAX)
        threads = THREADS_MAX;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    ballast = peer_allocate_leaf(BALLAST);
    memset(ballast, 1, BALLAST);
    printf("%ld threads, %ld allocations\n", threads, count);
#ifdef PEER_BOEHM
    for (int leaf = 0; leaf < 2; leaf++) {
        const char *layout = leaf ? " leaf" : " refs";
        steady(layout, leaf, threads, count);
        off(layout, leaf, threads, count, 0); /* touches the memory */
        off(layout, leaf, threads, count, 1);
    }
#else
    steady("", 0, threads, count);
#endif
    return 0;
}
