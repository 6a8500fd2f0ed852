/* serve_abuse.c: clients that behave badly, against hedge-sim serve on a Unix socket. After each
 * the server must answer others as before.
 *
 * usage: serve_abuse SOCKET MAX-CLIENTS OUTPUT-LIMIT      exit 0: it does; 1: not, said on stderr
 *
 *   garbage       random bytes: an error and the end, or nothing; never anything else
 *   half          requests that stop in the middle, announced lengths of 512 MiB: the heap does not
 *                 grow by what was only announced
 *   deaf          asks for much and does not read: closed when more than the limit is pending
 *   deep          sends 100,000 requests before it reads the first reply: all are answered
 *   crowd         more connections than MAX-CLIENTS (more than 210): refused with Redis's error,
 *                 others live on
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *path;

#define CHECK(c, ...) \
    ((c) ? (void)0 : (fprintf(stderr, "serve_abuse: " __VA_ARGS__), fputc('\n', stderr), exit(1)))

static int dial(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct timeval patience = {60, 0};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0, "%s: %s", path,
          strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
}

/* False: the other side has closed. */
static bool say(int fd, const char *at, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        if (sent < 0)
            return false;
        at += sent;
        n -= (size_t)sent;
    }
    return true;
}

/* Reads until the text ends with `end`, or the connection does; how many bytes (terminated, as much
 * as there is room for). */
static size_t hear(int fd, char *text, size_t room, const char *end)
{
    size_t n = 0, length = strlen(end);
    while (n + 1 < room) {
        ssize_t got = recv(fd, text + n, room - 1 - n, 0);
        CHECK(got >= 0 || errno == ECONNRESET, "no answer: %s", strerror(errno));
        if (got <= 0)
            break;
        n += (size_t)got;
        if (length > 0 && n >= length && memcmp(text + n - length, end, length) == 0)
            break;
    }
    text[n] = 0;
    return n;
}

static char *info(const char *section)
{
    static char text[8192];
    char line[64];
    int fd = dial();
    say(fd, line, (size_t)snprintf(line, sizeof line, "INFO %s\r\nPING\r\n", section));
    hear(fd, text, sizeof text, "+PONG\r\n");
    close(fd);
    return text;
}

static long long figure(const char *section, const char *name)
{
    char *at = strstr(info(section), name);
    CHECK(at != NULL && at[strlen(name)] == ':', "INFO %s has no %s", section, name);
    return atoll(at + strlen(name) + 1);
}

/* Everything is as it should be for others. */
static void check_alive(const char *after)
{
    char text[64];
    int fd = dial();
    say(fd, "SET alive yes\r\nGET alive\r\n", 26);
    hear(fd, text, sizeof text, "yes\r\n");
    CHECK(strcmp(text, "+OK\r\n$3\r\nyes\r\n") == 0, "after %s: \"%s\"", after, text);
    close(fd);
}

static uint64_t state = 1;
static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void garbage(void)
{
    static char bytes[4096], text[65536];
    for (int i = 0; i < 200; i++) {
        size_t n = 1 + next() % sizeof bytes;
        for (size_t k = 0; k < n; k++)
            bytes[k] = (char)next();
        if (i % 4 == 0)
            memcpy(bytes, "*3\r\n", n < 4 ? n : 4);
        int fd = dial();
        say(fd, bytes, n);
        shutdown(fd, SHUT_WR);
        size_t got = hear(fd, text, sizeof text, "");
        CHECK(got == 0 || text[0] == '-', "garbage was answered \"%.40s\"", text);
        close(fd);
    }
    check_alive("garbage");
}

static void half(void)
{
    static const char *const begins[] = {"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\nabc",
                                         "*1048576\r\n$536870912\r\n", "*2\r\n$3", "PIN"};
    enum { EACH = 50 };
    int fd[4 * EACH];
    long long before = figure("memory", "used_memory_mapped");
    for (int i = 0; i < 4 * EACH; i++) {
        fd[i] = dial();
        say(fd[i], begins[i % 4], strlen(begins[i % 4]));
    }
    check_alive("half a request");
    long long grown = figure("memory", "used_memory_mapped") - before;
    CHECK(grown < 64 << 20, "half a request of %d clients takes %lld bytes", 4 * EACH, grown);
    for (int i = 0; i < 4 * EACH; i++)
        close(fd[i]);
    check_alive("clients that left");
}

static void deaf(long long limit)
{
    enum { BYTES = 100000 };
    static char value[BYTES], line[64];
    int fd = dial();
    long long before = figure("stats", "client_output_buffer_limit_disconnections");
    memset(value, 'v', sizeof value);
    say(fd, line,
        (size_t)snprintf(line, sizeof line, "*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n", BYTES));
    say(fd, value, BYTES);
    say(fd, "\r\n", 2);
    long long asked = 0;
    while (asked < 20 * limit && say(fd, "GET big\r\n", 9))
        asked += BYTES;
    CHECK(asked < 20 * limit, "%lld bytes are pending, the limit is %lld", asked, limit);
    close(fd);
    long long dropped = figure("stats", "client_output_buffer_limit_disconnections") - before;
    CHECK(dropped == 1, "%lld clients were dropped", dropped);
    check_alive("a client that does not read");
}

/* Sends all it has without reading; a server that waits for it to read would wait for ever. */
static void deep(void)
{
    enum { REQUESTS = 100000 };
    static char text[65536];
    int fd = dial();
    for (int i = 0; i < REQUESTS; i += 10)
        CHECK(
            say(fd,
                "PING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\n",
                60),
            "closed after %d requests", i);
    size_t all = 0;
    while (all < 7 * REQUESTS) {
        ssize_t got = recv(fd, text, sizeof text, 0);
        CHECK(got > 0, "%zu of %d bytes came", all, 7 * REQUESTS);
        all += (size_t)got;
    }
    close(fd);
    check_alive("a deep pipeline");
}

static void crowd(int most)
{
    int *fd = calloc((size_t)most + 8, sizeof *fd), refused = 0;
    char text[64];
    for (int i = 0; i < most + 8; i++) {
        fd[i] = dial();
        say(fd[i], "PING\r\n", 6);
        size_t n = hear(fd[i], text, sizeof text, "\r\n");
        refused += n > 0 && strcmp(text, "-ERR max number of clients reached\r\n") == 0;
        CHECK(n == 0 || text[0] == '-' || strcmp(text, "+PONG\r\n") == 0, "\"%s\"", text);
    }
    CHECK(refused >= 1 && refused <= 8, "%d of 8 too many were refused", refused);
    say(fd[0], "PING\r\n", 6);
    hear(fd[0], text, sizeof text, "\r\n");
    CHECK(strcmp(text, "+PONG\r\n") == 0, "the first of the crowd: \"%s\"", text);
    for (int i = 0; i < most + 8; i++)
        close(fd[i]);
    free(fd);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: serve_abuse SOCKET MAX-CLIENTS OUTPUT-LIMIT\n");
        return 2;
    }
    path = argv[1];
    garbage();
    half();
    deaf(atoll(argv[3]));
    deep();
    crowd(atoi(argv[2]));
    /* Those who left take a moment to be gone. */
    int fd = -1;
    char text[64] = "";
    for (int i = 0; i < 100 && strcmp(text, "+PONG\r\n") != 0; i++) {
        fd = dial();
        say(fd, "PING\r\n", 6);
        hear(fd, text, sizeof text, "\r\n");
        close(fd);
        poll(NULL, 0, 50);
    }
    CHECK(strcmp(text, "+PONG\r\n") == 0, "after a crowd: \"%s\"", text);
    puts("garbage, half, deaf, deep, crowd: the server goes on");
    return 0;
}
