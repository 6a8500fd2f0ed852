/* serve_cmd_command.c: COMMAND: the table of commands, for redis-cli and client libraries
 * (serve_command.h). */
#include "sim/serve.h"
#include <stdio.h>

/* The ten parts that Redis 7 gives of a command; no categories, tips, key specifications or
 * subcommands. */
static void put_command(struct serve_out *o, const struct serve_command *command)
{
    static const struct {
        unsigned flag;
        const char *name;
    } flags[] = {{SERVE_WRITES, "write"},
                 {SERVE_READS, "readonly"},
                 {SERVE_GROWS, "denyoom"},
                 {SERVE_ADMIN, "admin"},
                 {SERVE_FAST, "fast"}};
    serve_put_array(o, 10);
    serve_put_word(o, command->name);
    serve_put_int(o, command->arity);
    serve_put_array(o, __builtin_popcount(command->flags));
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (command->flags & flags[i].flag)
            serve_put_status(o, flags[i].name);
    serve_put_int(o, command->first);
    serve_put_int(o, command->last);
    serve_put_int(o, command->step);
    for (int i = 0; i < 4; i++)
        serve_put_array(o, 0);
}

static void put_docs(struct serve_out *o, const struct serve_command *command)
{
    serve_put_word(o, command->name);
    serve_put_array(o, 6);
    serve_put_word(o, "summary");
    serve_put_word(o, command->summary);
    serve_put_word(o, "since");
    serve_put_word(o, command->since);
    serve_put_word(o, "group");
    serve_put_word(o, command->group);
}

static int64_t count(void)
{
    size_t n = 0;
    while (serve_command_at(n) != NULL)
        n++;
    return (int64_t)n;
}

static void put_all(struct serve_call *c)
{
    const struct serve_command *command;
    serve_put_array(c->out, count());
    for (size_t i = 0; (command = serve_command_at(i)) != NULL; i++)
        put_command(c->out, command);
}

static void put_names(struct serve_call *c)
{
    const struct serve_command *command;
    serve_put_array(c->out, count());
    for (size_t i = 0; (command = serve_command_at(i)) != NULL; i++)
        serve_put_word(c->out, command->name);
}

static void put_info(struct serve_call *c)
{
    if (c->argc == 2) {
        put_all(c);
        return;
    }
    serve_put_array(c->out, c->argc - 2);
    for (int i = 2; i < c->argc; i++) {
        const struct serve_command *command = serve_command_find(serve_arg(c, i));
        if (command == NULL)
            serve_put_array(c->out, -1);
        else
            put_command(c->out, command);
    }
}

static void put_all_docs(struct serve_call *c)
{
    const struct serve_command *command;
    int64_t n = 0;
    struct serve_block *header = serve_put_later(c->out);
    for (size_t i = 0; c->argc == 2 && (command = serve_command_at(i)) != NULL; i++, n++)
        put_docs(c->out, command);
    for (int i = 2; i < c->argc; i++)
        if ((command = serve_command_find(serve_arg(c, i))) != NULL) {
            put_docs(c->out, command);
            n++;
        }
    serve_set_array(c->out, header, 2 * n);
}

void serve_cmd_command(struct serve_call *c)
{
    static const struct serve_subcommand known[] = {
        {"count", 2, 2}, {"docs", 2, -1}, {"info", 2, -1}, {"list", 2, 2}};
    if (c->argc == 1) {
        put_all(c);
        return;
    }
    switch (serve_subcommand(c, known, sizeof known / sizeof *known)) {
    case 0:
        serve_put_int(c->out, count());
        break;
    case 1:
        put_all_docs(c);
        break;
    case 2:
        put_info(c);
        break;
    case 3:
        put_names(c);
        break;
    default:
        break; /* the error is put */
    }
}
