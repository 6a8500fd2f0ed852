/* addr.c: addresses as text, both ways: numbers only, no names are looked up. io.h has the
 * forms. */
#include "runtime/net/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#define UNIX_PREFIX "unix:"
#define HOST_MAX    64 /* an IPv6 address with a zone */

/* ---- from text ---- */

static int parse_unix(const char *path, struct hg_net_address *out)
{
    struct sockaddr_un *un = (struct sockaddr_un *)(void *)&out->u;
    size_t n = strlen(path), at = offsetof(struct sockaddr_un, sun_path);
    if (n == 0 || (n == 1 && path[0] == '@'))
        return -EINVAL;
    bool abstract = path[0] == '@';
    if (n + !abstract > sizeof un->sun_path)
        return -ENAMETOOLONG;
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, path, n);
    if (abstract)
        un->sun_path[0] = 0; /* and the name ends where the length says */
    out->length = (socklen_t)(at + n + !abstract);
    return 0;
}

/* The port behind the last colon, which follows the host. */
static int parse_port(const char *text, in_port_t *out)
{
    unsigned port = 0;
    if (*text == 0)
        return -EINVAL;
    for (; *text != 0; text++) {
        if (*text < '0' || *text > '9')
            return -EINVAL;
        port = port * 10 + (unsigned)(*text - '0');
        if (port > 65535)
            return -EINVAL;
    }
    *out = htons((uint16_t)port);
    return 0;
}

/* "%eth0" or "%2" behind a link-local address. */
static int parse_zone(const char *zone, uint32_t *out)
{
    unsigned number = 0;
    const char *c = zone;
    for (; *c >= '0' && *c <= '9' && number < 100000000; c++)
        number = number * 10 + (unsigned)(*c - '0');
    if (*c != 0 || c == zone)
        number = hg__os_interface(zone);
    *out = number;
    return number != 0 ? 0 : -EINVAL;
}

static int parse_v6(char *host, in_port_t port, struct hg_net_address *out)
{
    struct sockaddr_in6 *in = (struct sockaddr_in6 *)(void *)&out->u;
    char *zone = strchr(host, '%');
    in->sin6_family = AF_INET6;
    in->sin6_port = port;
    out->length = sizeof *in;
    if (zone != NULL) {
        *zone = 0;
        int error = parse_zone(zone + 1, &in->sin6_scope_id);
        if (error != 0)
            return error;
    }
    return inet_pton(AF_INET6, host, &in->sin6_addr) == 1 ? 0 : -EINVAL;
}

static int parse_v4(const char *host, in_port_t port, struct hg_net_address *out)
{
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&out->u;
    in->sin_family = AF_INET;
    in->sin_port = port;
    out->length = sizeof *in;
    if (strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    return inet_pton(AF_INET, host, &in->sin_addr) == 1 ? 0 : -EINVAL;
}

static void any_v6(in_port_t port, struct hg_net_address *out)
{
    struct sockaddr_in6 *in = (struct sockaddr_in6 *)(void *)&out->u;
    in->sin6_family = AF_INET6; /* the address of zeroes */
    in->sin6_port = port;
    out->length = sizeof *in;
    out->any = true;
}

int hg__address_parse(const char *text, bool dial, struct hg_net_address *out)
{
    char host[HOST_MAX];
    in_port_t port;
    memset(out, 0, sizeof *out);
    if (text == NULL)
        return -EINVAL;
    if (strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
        return parse_unix(text + strlen(UNIX_PREFIX), out);
    const char *colon = strrchr(text, ':');
    if (colon == NULL || (size_t)(colon - text) >= sizeof host || parse_port(colon + 1, &port) != 0)
        return -EINVAL;
    size_t n = (size_t)(colon - text);
    memcpy(host, text, n);
    host[n] = 0;
    if (n == 0 && !dial) {
        any_v6(port, out);
        return 0;
    }
    if (host[0] != '[')
        return parse_v4(n == 0 ? "localhost" : host, port, out);
    if (host[n - 1] != ']')
        return -EINVAL;
    host[n - 1] = 0;
    return parse_v6(host + 1, port, out);
}

/* ---- to text ---- */

static int format_unix(const struct hg_net_address *a, char *text, size_t room)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)&a->u;
    size_t at = offsetof(struct sockaddr_un, sun_path), prefix = strlen(UNIX_PREFIX);
    size_t n = a->length > at ? a->length - at : 0;
    if (n > sizeof un->sun_path)
        n = sizeof un->sun_path;
    if (n > 0 && un->sun_path[0] != 0)
        n = strnlen(un->sun_path, n); /* the length counts the 0 behind a path */
    if (prefix + n >= room)
        return -ENOSPC;
    memcpy(text, UNIX_PREFIX, prefix);
    memcpy(text + prefix, un->sun_path, n);
    if (n > 0 && un->sun_path[0] == 0)
        text[prefix] = '@';
    text[prefix + n] = 0;
    return (int)(prefix + n);
}

static int format_v6(const struct sockaddr_in6 *in, char *text, size_t room)
{
    char host[INET6_ADDRSTRLEN], zone[1 + IF_NAMESIZE] = "";
    inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host);
    if (in->sin6_scope_id != 0) {
        zone[0] = '%';
        if (!hg__os_interface_name(in->sin6_scope_id, zone + 1))
            snprintf(zone, sizeof zone, "%%%u", in->sin6_scope_id);
    }
    return snprintf(text, room, "[%s%s]:%u", host, zone, ntohs(in->sin6_port));
}

int hg__address_format(const struct hg_net_address *a, char *text, size_t room)
{
    int n;
    if (a->u.sa.sa_family == AF_UNIX)
        return format_unix(a, text, room);
    if (a->u.sa.sa_family == AF_INET6) {
        n = format_v6((const struct sockaddr_in6 *)(const void *)&a->u, text, room);
    } else if (a->u.sa.sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)&a->u;
        char host[INET_ADDRSTRLEN];
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        n = snprintf(text, room, "%s:%u", host, ntohs(in->sin_port));
    } else {
        return -EAFNOSUPPORT;
    }
    return n >= 0 && (size_t)n < room ? n : -ENOSPC;
}
