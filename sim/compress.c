/* compress.c: `hedge-sim compress`: the command line, the rows, the targets (compress.h). */
#include "sim/compress.h"
#include "sim/memory.h"
#include "sim/option.h"
#include "sim/sim.h"
#include "sim/size.h"
#include "sim/text.h"
#include <string.h>

enum {
    KEY_CODEC = 0x100,
    KEY_REUSE,
    KEY_MESSAGES,
    KEY_BYTES,
    KEY_CONNS,
    KEY_LEVEL,
    KEY_VARY,
    KEY_PROCS
};

static const struct argp_option options[] = {
    {"codec", KEY_CODEC, "LIST", 0, "none, snappy, zlib, zstd, or all (all)", 1},
    {"reuse", KEY_REUSE, "WAY", 0, "no, yes, or both (both)", 1},
    {"messages", KEY_MESSAGES, "N", 0, "Messages in a run (5000)", 1},
    {"bytes", KEY_BYTES, "SIZE", 0, "Size of a document: 2KiB, 1MiB, ... (2KiB)", 1},
    {"conns", KEY_CONNS, "N", 0, "Connections, each with a message under way (1)", 1},
    {"level", KEY_LEVEL, "N", 0, "Level of zlib and zstd, 1 to 9 (6)", 1},
    {"vary", KEY_VARY, "PCT", 0, "Values that differ from record to record, in per cent (10)", 1},
    {"procs", KEY_PROCS, "N", 0, "Tasks that run at once (the CPUs)", 1},
    TRIAL_OPTIONS,
    {0}};

static const char before[] =
    "Sends compressed documents through a real socket, with what the codec needs made anew for each "
    "message, and with it taken from object pools; compares time, allocation and collections."
    "\vThis is MongoDB's Go driver before and after its pull request 1200 (zlib: 882 to 61 KB a "
    "message, 130 to 57 us). Time of a message: compressing, sending, expanding, comparing, and the "
    "answer. Documents have 2 KiB unless told otherwise: with reuse a message then takes about as "
    "long as in that driver. Compressing larger ones takes longer than making what it needs.\n\n"
    "Examples:\n"
    "  hedge-sim compress\n"
    "  hedge-sim compress --codec zlib --bytes 20KiB --vary 50\n"
    "  hedge-sim compress --codec zlib,zstd --conns 16 --level 1\n"
    "  hedge-sim compress --check --json compress.json\n\n" TRIAL_STATUS;

#define WAYS (CODECS * 2)

struct command {
    struct compress_options opt;
    struct compress_way way[WAYS];
    bool codec[CODECS], reuse[2], check;
    struct trial_table table;
};

/* ---- command line ---- */

static void parse_codecs(struct argp_state *state, struct command *c, const char *list)
{
    char *copy = sim_alloc(strlen(list) + 1, 1), *rest = copy, *name;
    strcpy(copy, list);
    while ((name = strsep(&rest, ",")) != NULL) {
        bool known = strcmp(name, "all") == 0;
        for (int k = 0; k < CODECS; k++) {
            bool this = strcmp(name, codec_name[k]) == 0;
            c->codec[k] |= this || strcmp(name, "all") == 0;
            known |= this;
        }
        if (!known)
            argp_error(state, "--codec: expected none, snappy, zlib, zstd, or all, not \"%s\"",
                       name);
    }
    free(copy);
}

static void parse_reuse(struct argp_state *state, struct command *c, const char *way)
{
    bool both = strcmp(way, "both") == 0, no = strcmp(way, "no") == 0;
    if (!both && !no && strcmp(way, "yes") != 0)
        argp_error(state, "--reuse: expected no, yes, or both, not \"%s\"", way);
    c->reuse[0] = both || no;
    c->reuse[1] = !no;
}

static void parse_bytes(struct argp_state *state, struct command *c, const char *text)
{
    c->opt.message_bytes = sim_size_within(text, 64, INT64_C(64) << 20);
    if (c->opt.message_bytes < 0)
        argp_error(state, "--bytes: expected a size from 64 to 64MiB, not \"%s\"", text);
}

static void fill_in(struct argp_state *state, struct command *c)
{
    bool any = false;
    for (int k = 0; k < CODECS; k++)
        any |= c->codec[k];
    if (!any)
        parse_codecs(state, c, "all");
    if (!c->reuse[0] && !c->reuse[1])
        parse_reuse(state, c, "both");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct command *c = state->input;
    switch (key) {
    case KEY_CODEC:
        parse_codecs(state, c, arg);
        return 0;
    case KEY_REUSE:
        parse_reuse(state, c, arg);
        return 0;
    case KEY_MESSAGES:
        c->opt.messages = (int64_t)sim_option_number(state, "messages", arg, 1, 1e9, true);
        return 0;
    case KEY_BYTES:
        parse_bytes(state, c, arg);
        return 0;
    case KEY_CONNS:
        c->opt.conns = (int)sim_option_number(state, "conns", arg, 1, 10000, true);
        return 0;
    case KEY_LEVEL:
        c->opt.level = (int)sim_option_number(state, "level", arg, 1, 9, true);
        return 0;
    case KEY_VARY:
        c->opt.vary = sim_option_number(state, "vary", arg, 0, 100, false);
        return 0;
    case KEY_PROCS:
        c->opt.procs = (int)sim_option_number(state, "procs", arg, 1, 1024, true);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "expected options only, not \"%s\"", arg);
        return 0;
    case ARGP_KEY_END:
        fill_in(state, c);
        return 0;
    default:
        return trial_option(&c->table, &c->check, key, arg, state) ? 0 : ARGP_ERR_UNKNOWN;
    }
}

/* ---- the comparison ---- */

static void add_rows(struct command *c)
{
    static const char *const reuse[] = {"no", "yes"};
    int n = 0;
    for (int k = 0; k < CODECS; k++)
        for (int r = 0; r < 2; r++) {
            if (!c->codec[k] || !c->reuse[r])
                continue;
            c->way[n] = (struct compress_way){&c->opt, (enum codec)k, r == 1};
            trial_row_add(&c->table, codec_name[k], reuse[r], &c->way[n++]);
        }
}

/* With reuse over without: of one figure, or NaN. */
static double ratio(const struct trial_table *t, const char *codec, enum trial_figure f)
{
    return trial_median(t, trial_row_find(t, codec, "yes"), f) /
           trial_median(t, trial_row_find(t, codec, "no"), f);
}

static void report_wire(const struct trial_table *t)
{
    char a[32];
    printf("\nwire      ");
    for (int i = 0; i < t->rows; i++)
        if (t->row[i].runs > 0 && (i == 0 || t->row[i - 1].label[0] != t->row[i].label[0]))
            printf("%s%s %s", i > 0 ? ", " : "", t->row[i].label[0],
                   text_bytes(trial_median(t, i, TRIAL_EXTRA), a));
    printf(" per message\n");
}

static int report_targets(const struct trial_table *t)
{
    report_wire(t);
    return trial_target("zlib, bytes per message saved by reuse", 1 - ratio(t, "zlib", TRIAL_BYTES),
                        0.93, false, true) +
           trial_target("zlib, time per message saved by reuse", 1 - ratio(t, "zlib", TRIAL_NS),
                        0.5, false, true);
}

int sim_compress(int argc, char **argv)
{
    static const struct argp argp = {options, parse_option, NULL, before, NULL, NULL, NULL};
    static struct command c = {.opt = {.messages = 5000,
                                       .message_bytes = 2 << 10,
                                       .conns = 1,
                                       .procs = -1,
                                       .level = 6,
                                       .vary = 10},
                               .table = {.program = "hedge-sim compress",
                                         .label = {"codec", "reuse"},
                                         .unit = "message",
                                         .extra = "wire_bytes_per_op",
                                         .fn = compress_run,
                                         .repetitions = 3}};
    char a[32], b[32];
    argp_parse(&argp, argc, argv, 0, NULL, &c);
    add_rows(&c);
    c.table.operations = (double)c.opt.messages;
    c.table.seconds = (double)c.opt.messages * (1e-3 + 1e-6 * (double)c.opt.message_bytes);
    c.table.params = json_pack("{s:I, s:I, s:f, s:i, s:i, s:i, s:i}", "messages",
                               (json_int_t)c.opt.messages, "bytes", (json_int_t)c.opt.message_bytes,
                               "vary", c.opt.vary, "conns", c.opt.conns, "level", c.opt.level,
                               "procs", c.opt.procs, "repetitions", c.table.repetitions);
    sim_interrupts_catch();
    trial_header(&c.table);
    printf("load      %s documents of %s, %d connection%s, loopback TCP, level %d\n",
           text_count((double)c.opt.messages, a), sim_size_text((double)c.opt.message_bytes, b),
           c.opt.conns, c.opt.conns == 1 ? "" : "s", c.opt.level);
    bool done = trial_runs(&c.table);
    return trial_finish(&c.table, done, c.check, report_targets(&c.table));
}
