/* echo.c: a server that sends back what it gets, one task per connection, and its client.
 *
 *     echo 127.0.0.1:7007              serves; port 0 takes a free one
 *     echo 127.0.0.1:7007 hello you    sends each word as a line, prints the answers
 */
#include <errno.h>
#include <hedge/hedge.h>
#include <stdio.h>
#include <string.h>

static void echo(void *arg)
{
    hg_fd *client = arg;
    char buffer[4096];
    ssize_t n;
    while ((n = hg_fd_read(client, buffer, sizeof buffer, HG_FOREVER)) > 0)
        if (hg_fd_write_all(client, buffer, (size_t)n, HG_FOREVER) != 0)
            break;
    hg_fd_close(client);
}

static int serve(const char *address)
{
    hg_fd *listener, *client;
    char name[HG_ADDRESS_ROOM];
    int r = hg_listen(address, 0, &listener);
    if (r != 0)
        return r;
    hg_fd_local_address(listener, name, sizeof name);
    printf("listening on %s\n", name);
    fflush(stdout);
    while ((r = hg_fd_accept(listener, HG_FOREVER, &client)) == 0 || r == -EMFILE)
        if (r == 0 && hg_go(echo, client) != 0)
            hg_fd_close(client);
    return r;
}

static int ask(const char *address, char **words)
{
    hg_fd *server;
    char answer[1024];
    int64_t deadline = hg_in(INT64_C(5000000000));
    int r = hg_dial(address, deadline, &server);
    for (; r == 0 && *words != NULL; words++) {
        size_t length = strlen(*words);
        if (length > sizeof answer)
            return -EMSGSIZE;
        r = hg_fd_write_all(server, *words, length, deadline);
        ssize_t n = r == 0 ? hg_fd_read_full(server, answer, length, deadline) : r;
        if (n >= 0 && (size_t)n < length)
            n = -EPIPE;
        r = n < 0 ? (int)n : 0;
        if (r == 0)
            printf("%.*s\n", (int)n, answer);
    }
    return r;
}

static int first_task(void *arg)
{
    char **argv = arg;
    int r = argv[2] == NULL ? serve(argv[1]) : ask(argv[1], argv + 2);
    if (r != 0)
        fprintf(stderr, "echo: %s: %s\n", argv[1], strerror(-r));
    return r != 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: echo ADDRESS [WORD...]\n");
        return 2;
    }
    return hg_run(first_task, argv, NULL);
}
