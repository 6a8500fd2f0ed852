/* bench.h: what the benchmark programs share: their command line, the machine they ran on, clocks,
 * samples and the lines on which figures are printed.
 *
 * A program is bench_begin (reads the command line against a table of options, prints parameters
 * and machine), measurements, bench_end (says whether others disturbed the run). Every figure is
 * one line of at most 80 columns:
 *
 *     name, two blanks or more, median, unit, and with several rounds min..max
 *
 * so that it can be read, found by grep and collected by bench/compare.
 *
 * Programs see nothing of the library but <hedge/...>. What has to be in a state of its own (a
 * runtime with other options, the resident size) is measured in a child process: bench_isolated.
 * Large books (hg_histogram is 58 KiB) are static or from malloc, never on a task's stack, and hold
 * no references into the collected heap.
 */
#ifndef HG_BENCH_BENCH_H
#define HG_BENCH_BENCH_H
#include <hedge/hedge.h>

/* ---- command line (common/options.c) ---- */

#define BENCH_LIST_MAX 8

struct bench_list {
    int n;
    int64_t v[BENCH_LIST_MAX];
};

enum bench_kind {
    BENCH_NUMBER, /* value: int64_t */
    BENCH_LIST,   /* value: struct bench_list; given as "16,32,64" */
    BENCH_WORDS   /* value: unsigned, bit i for word i; given as "leaf,refs" or "all" */
};

/* An option "--name VALUE", and in the table's order an argument without a name. *value holds the
 * default when bench_begin is called, and what holds afterwards. */
struct bench_option {
    const char *name; /* NULL: the table's end */
    enum bench_kind kind;
    void *value;
    int64_t low, high; /* of NUMBER and of each in LIST */
    const char *words; /* of WORDS, blank between: "leaf refs typed" */
    const char *help;
};

/* The option that every program has: tasks that run at once; 0: what the environment says, else all
 * CPUs. */
/* clang-format off */
#define BENCH_OPTION_PROCS(variable)                                                            \
    { "procs", BENCH_NUMBER, &(variable), 0, 1024, NULL, "tasks that run at once; 0: all CPUs" }
/* clang-format on */

/* Parses the command line and prints the program's name, the machine and what each option is. A bad
 * one ends the process with status 2 and a message that names it and what was expected; --help with
 * status 0, after `about` and the table. */
void bench_begin(int argc, char **argv, const char *about, const struct bench_option *table);
/* Prints how busy others kept the machine since bench_begin. Returns main's exit status. */
int bench_end(void);
/* Ends the process with status 1 and "program: message". */
_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- runtime (common/machine.c) ---- */

/* hg_options_init, then the environment (a bad variable is reported and left out), then procs if it
 * is not 0. */
void bench_options(hg_options *opt, int64_t procs);
/* hg_run, where a result other than 0 ends the process by bench_fail. */
void bench_run(int (*main_task)(void *), void *arg, const hg_options *opt);
/* Ends the process by bench_fail if err, what a call returned, is not 0. */
void bench_check(int err, const char *what);
/* fn(arg) in a process of its own, awaited; if it does not end with status 0, neither do we. Only
 * while no runtime is open. */
void bench_isolated(void (*fn)(void *), void *arg);

/* CPU time of this process in ns, all threads; resident bytes now and at most; bytes of page
 * tables. What cannot be read is 0. Callable on tasks. */
int64_t bench_cpu(void);
uint64_t bench_rss(void);
uint64_t bench_rss_peak(void);
uint64_t bench_page_tables(void);

/* ---- samples and figures (common/figure.c) ---- */

#define BENCH_ROUNDS_MAX 64

struct bench_samples {
    int n;
    double v[BENCH_ROUNDS_MAX];
};

static inline void bench_add(struct bench_samples *s, double v)
{
    if (s->n < BENCH_ROUNDS_MAX)
        s->v[s->n++] = v;
}

/* Prints the line of a figure with several rounds, or with one value. Nothing without samples. */
void bench_figure(const struct bench_samples *s, const char *unit, const char *name, ...)
    __attribute__((format(printf, 3, 4)));
void bench_value(double v, const char *unit, const char *name, ...)
    __attribute__((format(printf, 3, 4)));

/* All counters at one moment: the difference of two tells about the time between. */
struct bench_look {
    int64_t wall, cpu;
    hg_stats stats;
    hg_histogram hist[HG_HIST_COUNT];
};

/* A cleared one from malloc, never NULL. */
struct bench_look *bench_look_new(void);
void bench_look(struct bench_look *l, hg_runtime *rt);
/* Makes *from what happened between *from and *to, of counters and histograms; what stats.h calls
 * "now", peaks and longest times stay those of *to. A histogram's max is the end of its last bucket
 * then. */
void bench_between(struct bench_look *from, const struct bench_look *to);
/* CPU ns of marking: background, idle and assist. */
int64_t bench_marking(const hg_stats *st);
/* Prints how many values a histogram of nanoseconds has, and p50, p90, p99, p99.9 and max in us. */
void bench_percentiles(const hg_histogram *h, const char *name);
/* Prints what the collector did: cycles, CPU by kind, assists, longest ones. */
void bench_collector(const struct bench_look *l);

/* ---- load (common/graph.c) ---- */

/* xorshift64: the generator of all programs here and of their peers. The state is never 0. */
#define BENCH_SEED UINT64_C(88172645463325252)
static inline uint64_t bench_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* 64 bytes: a tree in an order of memory that is random, and a cross reference to any node. */
struct bench_node {
    struct bench_node *left, *right, *cross;
    uint64_t payload[5];
};
extern const hg_layout bench_node_layout; /* typed: the three references */

/* S W: n > 0 nodes of the layout, all reachable from the root that it returns. Allocates 8 n bytes
 * beside them, garbage when it returns. */
struct bench_node *bench_graph(int64_t n, const hg_layout *layout);

#endif
