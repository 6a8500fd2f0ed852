/* test.h: what the tests share: seeds of random tests, their size, and functions run in a child
 * process.
 *
 * Environment: HEDGE_TEST_SEED=N repeats a random test with the seed that a failed run printed;
 * HEDGE_TEST_SCALE=N (per cent, 1 to 100) makes stress tests smaller, for slow builds.
 */
#ifndef HG_TESTS_SUPPORT_TEST_H
#define HG_TESTS_SUPPORT_TEST_H
#include <stddef.h>
#include <stdint.h>

/* The seed for a random test: HEDGE_TEST_SEED, else a new one. Prints it with the name of the
 * test. */
uint64_t test_seed(const char *test);

/* `full`, or the share of it that HEDGE_TEST_SCALE asks for, at least 1. */
uint64_t test_scaled(uint64_t full);

/* How a child ended, and what it wrote to standard error. */
struct test_child {
    int exit_code; /* -1: ended by a signal */
    int signal;    /* 0: ended by itself */
    char text[8192];
};

/* Runs fn(arg) in a forked child, which exits with 0 when fn returns. A child that runs for more
 * than `seconds` is ended by SIGALRM. It leaves no core file. */
void test_child_run(struct test_child *out, unsigned seconds, void (*fn)(void *arg), void *arg);

#endif
