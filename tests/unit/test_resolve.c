/* test_resolve.c: hg_getaddrinfo: answers of the C library's resolver, errors as errno values, and
 * (N08) a query that outlives its caller. This file's getaddrinfo takes the place of the C
 * library's: names that end in ".test" are its own, the others go on to the real one. */
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(resolve, .timeout = 60);

#define MS INT64_C(1000000)

/* ---- the resolver of ".test" ---- */

static _Atomic int queries, slow_done;

static const struct {
    const char *host;
    int answer, error;
} bad_names[] = {
    {"noname.test", EAI_NONAME, ENOENT},
    {"nodata.test", EAI_NODATA, ENOENT},
    {"again.test", EAI_AGAIN, EAGAIN},
    {"fail.test", EAI_FAIL, EIO},
    {"service.test", EAI_SERVICE, EPROTONOSUPPORT},
    {"socktype.test", EAI_SOCKTYPE, ESOCKTNOSUPPORT},
    {"family.test", EAI_FAMILY, EAFNOSUPPORT},
    {"badflags.test", EAI_BADFLAGS, EINVAL},
    {"memory.test", EAI_MEMORY, ENOMEM},
    {"system.test", EAI_SYSTEM, ENETDOWN},
    {"other.test", -12345, EIO},
};

static int real(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **list)
{
    static int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "getaddrinfo");
    return next(host, service, hints, list);
}

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **list)
{
    hg_add_acqrel(&queries, 1);
    for (size_t i = 0; host != NULL && i < sizeof bad_names / sizeof *bad_names; i++) {
        if (strcmp(host, bad_names[i].host) == 0) {
            errno = ENETDOWN;
            return bad_names[i].answer;
        }
    }
    if (host == NULL || strcmp(host, "slow.test") != 0)
        return real(host, service, hints, list);
    usleep(2000000);
    /* All that it was given must be there yet. */
    int r = strcmp(host, "slow.test") == 0 && strcmp(service, "80") == 0 &&
                    hints->ai_socktype == SOCK_STREAM
                ? real("127.0.0.1", service, hints, list)
                : EAI_FAIL;
    hg_store_rel(&slow_done, r == 0 ? 1 : -1);
    return r;
}

/* ---- answers ---- */

static const struct addrinfo stream = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};

static int numeric(void *arg)
{
    struct addrinfo *list = NULL;
    (void)arg;
    CHECK(hg_getaddrinfo("127.0.0.1", "8080", &stream, HG_FOREVER, &list) == 0);
    CHECK(list != NULL && list->ai_family == AF_INET && list->ai_next == NULL);
    const struct sockaddr_in *four = (const void *)list->ai_addr;
    CHECK(ntohs(four->sin_port) == 8080 && ntohl(four->sin_addr.s_addr) == INADDR_LOOPBACK);
    hg_freeaddrinfo(list);
    CHECK(hg_getaddrinfo("::1", "53", NULL, hg_in(20000 * MS), &list) == 0);
    CHECK(list != NULL && list->ai_family == AF_INET6);
    hg_freeaddrinfo(list);
    /* No host: the wildcard address, of a service alone. */
    struct addrinfo passive = {
        .ai_flags = AI_PASSIVE, .ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    CHECK(hg_getaddrinfo(NULL, "9", &passive, HG_FOREVER, &list) == 0);
    CHECK(((const struct sockaddr_in *)(const void *)list->ai_addr)->sin_addr.s_addr == INADDR_ANY);
    hg_freeaddrinfo(list);
    CHECK(hg_getaddrinfo("127.0.0.1", NULL, &stream, HG_FOREVER, &list) == 0);
    hg_freeaddrinfo(list);
    hg_freeaddrinfo(NULL);
    return 0;
}
Test(resolve, answers_of_the_c_library)
{
    for (int procs = 1; procs <= 2; procs++)
        cr_assert_eq(run_on(procs, numeric, NULL), 0);
}

static int errors(void *arg)
{
    static int nothing;
    struct addrinfo *list;
    char name[3000];
    (void)arg;
    for (size_t i = 0; i < sizeof bad_names / sizeof *bad_names; i++) {
        list = (void *)&nothing;
        CHECK(hg_getaddrinfo(bad_names[i].host, "80", &stream, HG_FOREVER, &list) ==
              -bad_names[i].error);
        CHECK(list == NULL);
    }
    CHECK(hg_getaddrinfo(NULL, NULL, NULL, HG_FOREVER, &list) == -ENOENT);
    int asked = hg_load_acq(&queries);
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = 0;
    CHECK(hg_getaddrinfo(name, "80", &stream, HG_FOREVER, &list) == -ENAMETOOLONG);
    CHECK(hg_getaddrinfo("127.0.0.1", name, &stream, HG_FOREVER, &list) == -ENAMETOOLONG);
    CHECK(hg_getaddrinfo("127.0.0.1", "80", &stream, HG_NOW, &list) == -EAGAIN);
    CHECK(hg_getaddrinfo("127.0.0.1", "80", &stream, hg_now(), &list) == -ETIMEDOUT);
    CHECK(hg_load_acq(&queries) == asked);
    return 0;
}
Test(resolve, errors_are_errno_values) { cr_assert_eq(run_on(1, errors, NULL), 0); }

Test(resolve, only_tasks_may_call)
{
    struct addrinfo *list;
    cr_assert_eq(hg_getaddrinfo("127.0.0.1", "80", &stream, HG_FOREVER, &list), -EPERM);
    cr_assert_null(list);
}

/* ---- N08 ---- */

static int ask_and_leave(void *arg)
{
    struct addrinfo hints = stream, *list = (void *)arg;
    char host[] = "slow.test", service[] = "80";
    int64_t start = hg_now();
    CHECK(hg_getaddrinfo(host, service, &hints, hg_in(100 * MS), &list) == -ETIMEDOUT);
    CHECK(hg_now() - start >= 100 * MS && hg_now() - start < 1500 * MS && list == NULL);
    memset(host, 0xee, sizeof host);
    memset(service, 0xee, sizeof service);
    memset(&hints, 0xee, sizeof hints);
    return 0;
}
static int outlived(void *arg)
{
    hg_task *t;
    int result;
    CHECK(hg_go_with(NULL, ask_and_leave, arg, &t) == 0);
    CHECK(hg_join(t, HG_FOREVER, &result) == 0 && result == 0);
    for (int i = 0; i < 10; i++) { /* over what the caller left behind */
        CHECK(hg_go_with(NULL, numeric, NULL, &t) == 0);
        CHECK(hg_join(t, HG_FOREVER, &result) == 0 && result == 0);
        hg_collect(hg_current());
    }
    CHECK(hg_load_acq(&slow_done) == 0);
    while (hg_load_acq(&slow_done) == 0)
        hg_sleep(10 * MS);
    return hg_load_acq(&slow_done);
}
Test(resolve, a_query_outlives_its_caller) { cr_assert_eq(run_on(2, outlived, NULL), 1); }

/* The whole runtime is gone when the answer comes. */
static void run_and_leave(void *arg)
{
    if (run_on(2, ask_and_leave, arg) != 0 || hg_load_acq(&slow_done) != 0)
        _exit(1);
    while (hg_load_acq(&slow_done) == 0)
        usleep(10000);
    usleep(50000); /* its answer is freed meanwhile; a fault would show */
    _exit(hg_load_acq(&slow_done) == 1 ? 0 : 2);
}
Test(resolve, a_query_outlives_its_runtime)
{
    struct test_child c;
    test_child_run(&c, 20, run_and_leave, NULL);
    cr_assert_eq(c.exit_code, 0, "%s", c.text);
}
