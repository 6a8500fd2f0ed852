/* resolve.c: names to addresses: getaddrinfo(3) on the pool for blocking calls.
 *
 * A query is a record of the pool's: the arguments are copied into it, and it lives until the C
 * library has answered, also if the task has given up and is gone by then; the answer is freed
 * then. Nothing of it lies on the task's stack, for which a host's name would be too long anyway.
 *
 * The resolver's own error codes are small negative numbers, like errno values with other meanings;
 * here they become errno values, so that a caller has one kind of error to look at.
 */
#include "runtime/net/blocking.h"

#include "base/bits.h"
#include <errno.h>
#include <netdb.h>
#include <string.h>

struct query {
    struct addrinfo hints;
    bool hinted;
    int error;                  /* 0 or -errno */
    struct addrinfo *list;      /* the answer */
    const char *host, *service; /* in text, or NULL */
    char text[];
};

static int errno_of(int resolver_error, int system_error)
{
    static const struct {
        int of_resolver, error;
    } table[] = {
        {EAI_NONAME, ENOENT},
        {EAI_NODATA, ENOENT},
        {EAI_AGAIN, EAGAIN},
        {EAI_FAIL, EIO},
        {EAI_SERVICE, EPROTONOSUPPORT},
        {EAI_SOCKTYPE, ESOCKTNOSUPPORT},
        {EAI_FAMILY, EAFNOSUPPORT},
        {EAI_ADDRFAMILY, EAFNOSUPPORT},
        {EAI_BADFLAGS, EINVAL},
        {EAI_MEMORY, ENOMEM},
    };
    for (size_t i = 0; i < HG_COUNT_OF(table); i++)
        if (table[i].of_resolver == resolver_error)
            return -table[i].error;
    return resolver_error == EAI_SYSTEM && system_error != 0 ? -system_error : -EIO;
}

/* On the pool's thread. */
static int ask(void *arg)
{
    struct query *q = arg;
    int r = getaddrinfo(q->host, q->service, q->hinted ? &q->hints : NULL, &q->list);
    return r == 0 ? 0 : errno_of(r, errno);
}

static void drop(void *arg)
{
    struct query *q = arg;
    hg_freeaddrinfo(q->list);
}

/* Copies a name of n - 1 characters, or NULL (n is 0), to *at. */
static const char *keep(char **at, const char *name, size_t n)
{
    char *kept = *at;
    if (name == NULL)
        return NULL;
    memcpy(kept, name, n);
    *at += n;
    return kept;
}

static size_t room_for(const char *name, size_t most)
{
    return name != NULL ? strnlen(name, most) + 1 : 0;
}

int hg_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                   int64_t deadline, struct addrinfo **result)
{
    size_t host_n = room_for(host, NI_MAXHOST), service_n = room_for(service, NI_MAXHOST);
    void *args;
    hg_safepoint();
    *result = NULL;
    if (host_n > NI_MAXHOST || service_n > NI_MAXHOST)
        return -ENAMETOOLONG;
    int error = hg__blocking_new(sizeof(struct query) + host_n + service_n, &args), answer;
    if (error != 0)
        return error;
    struct query *q = args;
    char *at = q->text;
    q->host = keep(&at, host, host_n);
    q->service = keep(&at, service, service_n);
    q->hinted = hints != NULL;
    if (hints != NULL)
        q->hints = *hints;
    error = hg__blocking_wait(q, ask, drop, deadline, &answer);
    if (error != 0 && error != -EAGAIN)
        return error; /* q is gone */
    if (error == 0) {
        error = answer;
        *result = q->list;
    }
    hg__blocking_free(q);
    return error;
}

void hg_freeaddrinfo(struct addrinfo *list)
{
    if (list != NULL) /* some C libraries do not take it */
        freeaddrinfo(list);
}
