/* timer.c: `hedge-sim timer`: the command line, the rows, the targets (timer.h). */
#include "sim/timer.h"
#include "sim/option.h"
#include "sim/sim.h"
#include "sim/text.h"
#include <math.h>
#include <string.h>

enum { KEY_STYLE = 0x100, KEY_TASKS, KEY_USES, KEY_AFTER, KEY_PROCS };

static const struct argp_option options[] = {
    {"style", KEY_STYLE, "STYLE", 0, "pooled, stack, or both (both)", 1},
    {"tasks", KEY_TASKS, "N", 0, "Tasks that use a timer each (1)", 1},
    {"uses", KEY_USES, "N", 0, "Uses by each task (10000)", 1},
    {"after", KEY_AFTER, "US", 0, "Microseconds after which it fires (100)", 1},
    {"procs", KEY_PROCS, "N", 0, "Tasks that run at once (the CPUs)", 1},
    TRIAL_OPTIONS,
    {0}};

static const char before[] =
    "Uses timers that come from a pool, and timers on the stack of the task that uses them; compares "
    "allocation, time and collections."
    "\vThis is CockroachDB before and after its pull request 119901 (200 bytes and 3 allocations per "
    "use to none, at the same time). A use: the timer is set for an hour, moved to --after, waited "
    "for, and stopped.\n"
    "  pooled  the outer struct from an object pool; an inner timer and its channel\n"
    "          are made for each use\n"
    "  stack   one variable of the task\n\n"
    "Examples:\n"
    "  hedge-sim timer\n"
    "  hedge-sim timer --tasks 1000 --uses 200 --after 5000\n"
    "  hedge-sim timer --style stack --check --csv timer.csv\n\n" TRIAL_STATUS;

struct command {
    struct timer_options opt;
    struct timer_way way[TIMER_STYLES];
    bool style[TIMER_STYLES], check;
    struct trial_table table;
};

/* ---- command line ---- */

static void parse_style(struct argp_state *state, struct command *c, const char *style)
{
    bool both = strcmp(style, "both") == 0, any = both;
    for (int k = 0; k < TIMER_STYLES; k++) {
        c->style[k] = both || strcmp(style, timer_style_name[k]) == 0;
        any |= c->style[k];
    }
    if (!any)
        argp_error(state, "--style: expected pooled, stack, or both, not \"%s\"", style);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct command *c = state->input;
    switch (key) {
    case KEY_STYLE:
        parse_style(state, c, arg);
        return 0;
    case KEY_TASKS:
        c->opt.tasks = (int)sim_option_number(state, "tasks", arg, 1, 1e6, true);
        return 0;
    case KEY_USES:
        c->opt.uses = (int64_t)sim_option_number(state, "uses", arg, 1, 1e9, true);
        return 0;
    case KEY_AFTER:
        c->opt.after_us = sim_option_number(state, "after", arg, 1, 1e9, false);
        return 0;
    case KEY_PROCS:
        c->opt.procs = (int)sim_option_number(state, "procs", arg, 1, 1024, true);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "expected options only, not \"%s\"", arg);
        return 0;
    default:
        return trial_option(&c->table, &c->check, key, arg, state) ? 0 : ARGP_ERR_UNKNOWN;
    }
}

/* ---- the comparison ---- */

static int report_targets(const struct trial_table *t)
{
    int stack = trial_row_find(t, timer_style_name[TIMER_STACK], "");
    putchar('\n');
    for (int i = 0; i < t->rows; i++)
        if (t->row[i].runs > 0)
            printf("late      %s: %.1f us, the median\n", t->row[i].label[0],
                   trial_median(t, i, TRIAL_EXTRA) / 1e3);
    return trial_target("stack, bytes per use", trial_median(t, stack, TRIAL_BYTES), 0, true,
                        false) +
           trial_target("stack, allocations per use", trial_median(t, stack, TRIAL_ALLOCS), 0, true,
                        false);
}

int sim_timer(int argc, char **argv)
{
    static const struct argp argp = {options, parse_option, NULL, before, NULL, NULL, NULL};
    static struct command c = {.opt = {.tasks = 1, .uses = 10000, .after_us = 100, .procs = -1},
                               .style = {true, true},
                               .table = {.program = "hedge-sim timer",
                                         .label = {"style", ""},
                                         .unit = "use",
                                         .extra = "late_p50_ns",
                                         .fn = timer_run,
                                         .repetitions = 3}};
    char a[32], b[32];
    argp_parse(&argp, argc, argv, 0, NULL, &c);
    for (int k = 0; k < TIMER_STYLES; k++) {
        c.way[k] = (struct timer_way){&c.opt, (enum timer_style)k};
        if (c.style[k])
            trial_row_add(&c.table, timer_style_name[k], "", &c.way[k]);
    }
    c.table.operations = (double)c.opt.tasks * (double)c.opt.uses;
    c.table.seconds = c.table.operations * 2e-5 + (double)c.opt.uses * (c.opt.after_us + 200) / 1e6;
    c.table.params = json_pack("{s:i, s:I, s:f, s:i, s:i}", "tasks", c.opt.tasks, "uses",
                               (json_int_t)c.opt.uses, "after_us", c.opt.after_us, "procs",
                               c.opt.procs, "repetitions", c.table.repetitions);
    sim_interrupts_catch();
    trial_header(&c.table);
    printf("load      %s task%s, %s uses each, firing after %g us\n", text_count(c.opt.tasks, a),
           c.opt.tasks == 1 ? "" : "s", text_count((double)c.opt.uses, b), c.opt.after_us);
    bool done = trial_runs(&c.table);
    return trial_finish(&c.table, done, c.check, report_targets(&c.table));
}
