/* test_dlopen.c: the shared library is loaded into a process that is long running and has its own
 * malloc, as a plug-in is. Checks that it loads (its thread-local data fits in what a process keeps
 * for late comers), brings no allocator along, works, and can be loaded a second time.
 *
 * usage: test_dlopen LIBHEDGE.so
 */
#include <dlfcn.h>
#include <hedge/hedge.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(c)                                                             \
    do {                                                                     \
        if (!(c)) {                                                          \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #c); \
            exit(1);                                                         \
        }                                                                    \
    } while (0)

/* The functions that the task calls, as found in the loaded library. */
static struct {
    __typeof__(hg_alloc) *alloc;
    __typeof__(hg_collect) *collect;
    __typeof__(hg_current) *current;
    __typeof__(hg_run) *run;
    __typeof__(hg_version) *version;
} lib;

static void *find(void *handle, const char *name)
{
    void *symbol = dlsym(handle, name);
    if (symbol == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(symbol != NULL);
    return symbol;
}

static int churn(void *arg)
{
    CHECK(strcmp(arg, "argument") == 0);
    for (int i = 0; i < 20000; i++)
        memset(lib.alloc(100, HG_LEAF), 1, 100);
    lib.collect(lib.current());
    return 7;
}

static const char *const allocator[] = {"malloc", "calloc", "realloc", "free", "posix_memalign"};
enum { FUNCTIONS = sizeof allocator / sizeof *allocator };

static void load_and_run(const char *path)
{
    void *before[FUNCTIONS];
    char *kept = malloc(1000);
    memset(kept, 0x5a, 1000);
    for (int i = 0; i < FUNCTIONS; i++)
        before[i] = find(RTLD_DEFAULT, allocator[i]);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(handle != NULL);
    for (int i = 0; i < FUNCTIONS; i++) {
        CHECK(find(RTLD_DEFAULT, allocator[i]) == before[i]);
        CHECK(find(handle, allocator[i]) == before[i]);
    }
    CHECK(dlsym(handle, "mallctl") == NULL);
    *(void **)&lib.alloc = find(handle, "hg_alloc");
    *(void **)&lib.collect = find(handle, "hg_collect");
    *(void **)&lib.current = find(handle, "hg_current");
    *(void **)&lib.run = find(handle, "hg_run");
    *(void **)&lib.version = find(handle, "hg_version");
    char argument[] = "argument";
    CHECK(lib.run(churn, argument, NULL) == 7);
    printf("loaded hedge %s\n", lib.version());
    for (int i = 0; i < 1000; i++)
        CHECK(kept[i] == 0x5a);
    free(kept);
    CHECK(dlclose(handle) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    load_and_run(argv[1]);
    load_and_run(argv[1]);
    return 0;
}
