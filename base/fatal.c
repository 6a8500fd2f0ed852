/* fatal.c: the way out when an invariant is broken, and warnings.
 *
 * Structure: two hooks of the process, each a function and its first argument, kept in a sequence
 * lock so that a reader never sees the function of one call with the argument of another, and never
 * waits: after a few tries beside a writer (a writer that the reader's own signal handler
 * interrupted would never finish) it falls back to standard error.
 *
 * Context: any thread, any stack with 2 KiB left, signal handlers. Nothing here allocates or takes
 * a lock; the text is formatted on the stack by format.c.
 *
 * Ordering, Note [HOOK]: a writer makes `version` odd (acquire, so that its stores stay below),
 * stores both words, and makes it even (release). A reader loads version (acquire), both words,
 * then version again behind an acquire fence: an equal, even version means that both words belong
 * together.
 */
#include "base/assert.h"
#include "base/atomic.h"
#include "base/format.h"
#include "base/os.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_ROOM = 512, LEVEL_WARNING = 4, LEVEL_INFO = 6 /* syslog's */ };

typedef void fatal_fn(void *user, const char *text);
typedef void log_fn(void *user, int level, const char *text);

/* Writers: hg__fatal_hook and hg__log_hook on any thread; readers: hg__fatal and hg__warn. Note
 * [HOOK]. */
struct hook {
    _Atomic uint32_t version;
    _Atomic uintptr_t fn, user;
};
static struct hook fatal_hook, log_hook;

/* The first thread that came to hg__fatal, its lowest bit set so that it is never 0; 0: none.
 * Written once, by it. */
static _Atomic uintptr_t dying;

static void hook_set(struct hook *h, uintptr_t fn, void *user)
{
    uint32_t v = hg_load_rlx(&h->version) & ~1u;
    while (!hg_cas_acqrel(&h->version, &v, v | 1u)) {
        v &= ~1u;
        hg_cpu_relax();
    }
    hg_fence_rel(); /* the odd version is seen before either word; Note [HOOK] */
    hg_store_rlx(&h->fn, fn);
    hg_store_rlx(&h->user, (uintptr_t)user);
    hg_store_rel(&h->version, v + 2);
}

/* The hook's function, 0 when there is none, and its argument. Note [HOOK]. */
static uintptr_t hook_get(struct hook *h, void **user)
{
    for (int tries = 0; tries < 1000; tries++) {
        uint32_t v = hg_load_acq(&h->version);
        uintptr_t fn = hg_load_rlx(&h->fn);
        *user = (void *)hg_load_rlx(&h->user);
        hg_fence_acq();
        if ((v & 1u) == 0 && hg_load_rlx(&h->version) == v)
            return fn;
        hg_cpu_relax();
    }
    return 0;
}

void hg__fatal_hook(void (*hook)(void *user, const char *text), void *user)
{
    hook_set(&fatal_hook, (uintptr_t)hook, user);
}

void hg__log_hook(void (*hook)(void *user, int level, const char *text), void *user)
{
    hook_set(&log_hook, (uintptr_t)hook, user);
}

/* "hedge: " and the message; returns the length. One byte stays free for a newline. */
static size_t compose(char text[TEXT_ROOM], const char *format, va_list args)
{
    static const char prefix[] = "hedge: ";
    size_t n = sizeof prefix - 1;
    memcpy(text, prefix, n);
    return n + hg__vformat(text + n, TEXT_ROOM - 1 - n, format, args);
}

/* One line to standard error, in one write as far as the kernel takes it. */
static void write_line(char text[TEXT_ROOM], size_t n)
{
    text[n++] = '\n';
    while (n > 0) {
        ssize_t done = write(STDERR_FILENO, text, n);
        if (done < 0 && errno != EINTR)
            return;
        if (done > 0) {
            memmove(text, text + done, n - (size_t)done);
            n -= (size_t)done;
        }
    }
}

/* To the log hook if there is one, else to standard error. */
static void deliver(int level, char text[TEXT_ROOM], size_t n)
{
    void *user;
    log_fn *hook = (log_fn *)hook_get(&log_hook, &user);
    if (hook != NULL)
        hook(user, level, text);
    else
        write_line(text, n);
}

void hg__warn(const char *format, ...)
{
    char text[TEXT_ROOM];
    int saved = errno;
    va_list args;
    va_start(args, format);
    size_t n = compose(text, format, args);
    va_end(args);
    deliver(LEVEL_WARNING, text, n);
    errno = saved;
}

void hg__log_line(const char *line)
{
    char text[TEXT_ROOM];
    int saved = errno;
    size_t n = strlen(line);
    if (n > TEXT_ROOM - 2)
        n = TEXT_ROOM - 2; /* room for a newline and the end */
    memcpy(text, line, n);
    text[n] = '\0';
    deliver(LEVEL_INFO, text, n);
    errno = saved;
}

/* The first thread that dies runs the hook. A second one gives it two seconds, so that the hook's
 * last words are not cut off; the same thread again (the hook itself failed) does not wait. */
static bool first_to_die(void)
{
    uintptr_t nobody = 0, self = (uintptr_t)pthread_self() | 1u;
    if (hg_cas_acqrel(&dying, &nobody, self))
        return true;
    if (nobody != self) {
        static _Atomic uint32_t never;
        int64_t deadline = hg__os_now() + INT64_C(2000000000);
        while (hg__os_wait(&never, 0, deadline) == 0)
            continue;
    }
    return false;
}

_Noreturn void hg__fatal(const char *format, ...)
{
    char text[TEXT_ROOM];
    va_list args;
    va_start(args, format);
    size_t n = compose(text, format, args);
    va_end(args);
    void *user;
    fatal_fn *hook = first_to_die() ? (fatal_fn *)hook_get(&fatal_hook, &user) : NULL;
    if (hook != NULL)
        hook(user, text);
    else
        write_line(text, n);
    abort();
}
