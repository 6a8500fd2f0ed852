/* test.c: what the tests share; see test.h. */
#include "tests/support/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

uint64_t test_seed(const char *test)
{
    const char *given = getenv("HEDGE_TEST_SEED");
    uint64_t seed;
    if (given != NULL && *given != '\0') {
        seed = strtoull(given, NULL, 0);
    } else {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        seed = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + (uint64_t)getpid() * 7919u;
    }
    printf("%s: HEDGE_TEST_SEED=%llu\n", test, (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

uint64_t test_scaled(uint64_t full)
{
    const char *given = getenv("HEDGE_TEST_SCALE");
    uint64_t percent = given != NULL ? strtoull(given, NULL, 10) : 100;
    if (percent < 1 || percent > 100)
        percent = 100;
    uint64_t n = full / 100 * percent + full % 100 * percent / 100;
    return n > 0 ? n : 1;
}

static _Noreturn void child_main(int to, unsigned seconds, void (*fn)(void *arg), void *arg)
{
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    dup2(to, STDERR_FILENO);
    close(to);
    alarm(seconds);
    fn(arg);
    _exit(0);
}

void test_child_run(struct test_child *out, unsigned seconds, void (*fn)(void *arg), void *arg)
{
    int ends[2], status;
    size_t n = 0;
    memset(out, 0, sizeof *out);
    if (pipe(ends) != 0)
        abort();
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        close(ends[0]);
        child_main(ends[1], seconds, fn, arg);
    }
    close(ends[1]);
    for (;;) {
        char chunk[1024];
        ssize_t got = read(ends[0], chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        size_t fits =
            sizeof out->text - 1 - n < (size_t)got ? sizeof out->text - 1 - n : (size_t)got;
        memcpy(out->text + n, chunk, fits);
        n += fits;
    }
    close(ends[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    out->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    out->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
