/* kv_options.c: the command line of `hedge-sim kv`.
 *
 * Every wrong value ends the process with status 2 and one message that names the option, the
 * value, and what was expected, before anything is built or measured. File names are checked too: a
 * run of minutes must not end with "no such folder". What the command line leaves open comes from
 * the environment, as the runtime itself reads it.
 */
#include "pacer/pacer.h"
#include "sim/kv.h"
#include "sim/kv_net.h"
#include "sim/option.h"
#include "sim/sim.h"
#include "sim/size.h"
#include <argp.h>
#include <errno.h>
#include <hedge/runtime.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_LIMIT INT64_C(1000000000000000000)

enum {
    KEY_CONNS = 0x100,
    KEY_RATE,
    KEY_READ_PERCENT,
    KEY_KEYS,
    KEY_VALUE_BYTES,
    KEY_GARBAGE_NODES,
    KEY_GARBAGE_BYTES,
    KEY_DEPTH,
    KEY_STACK_NOISE,
    KEY_BURST,
    KEY_POLICY,
    KEY_GOGC,
    KEY_LIMIT,
    KEY_PROCS,
    KEY_NET,
    KEY_DURATION,
    KEY_WARMUP,
    KEY_REPETITIONS,
    KEY_SEED,
    KEY_JSON,
    KEY_CSV,
    KEY_SLOWEST,
    KEY_SERIES,
    KEY_CYCLES,
    KEY_HGRM,
    KEY_FAIL_IF,
    KEY_REPORT
};

static const struct argp_option load_options[] = {
    {NULL, 0, NULL, 0, "The load:", 1},
    {"conns", KEY_CONNS, "N", 0, "Connections: each is two tasks and two channels (10000)", 1},
    {"rate", KEY_RATE, "OPS", 0, "Arrivals per second, all connections together (100000)", 1},
    {"read-percent", KEY_READ_PERCENT, "P", 0, "Reads among the requests (95)", 1},
    {"keys", KEY_KEYS, "N", 0, "Entries in the store (200000)", 1},
    {"value-bytes", KEY_VALUE_BYTES, "N", 0, "Bytes of a value (1024)", 1},
    {"garbage-nodes", KEY_GARBAGE_NODES, "N", 0,
     "48-byte nodes, linked by references, that each request allocates (12)", 1},
    {"garbage-bytes", KEY_GARBAGE_BYTES, "N", 0,
     "Bytes that each request allocates beside these nodes: one buffer without references, filled "
     "and kept until the response is read (0)",
     1},
    {"depth", KEY_DEPTH, "N", 0, "Stack frames of 16 pointers under each parked task (8)", 1},
    {"stack-noise", KEY_STACK_NOISE, "P", 0,
     "The frames vary: to between P per cent below and P per cent above --depth, for all tasks "
     "alike, anew each half second; a task changes when it next waits for a request (0)",
     1},
    {"burst", KEY_BURST, "US", 0, "Put arrivals off to multiples of this many microseconds (0)", 1},
    {"seed", KEY_SEED, "N", 0, "Of the arrivals and keys; repetition r uses N + r - 1 (42)", 1},
    {0}};

static const struct argp_option measure_options[] = {
    {NULL, 0, NULL, 0, "The runtime:", 2},
    {"policy", KEY_POLICY, "LIST", 0,
     "Pacing policies to compare, and off: the floor (mean:2,pi,max:5,off)", 2},
    {"gogc", KEY_GOGC, "LIST", 0,
     "Heap growth in per cent between cycles ($GOGC, else 100); off: only the floor; several: a "
     "sweep",
     2},
    {"limit", KEY_LIMIT, "LIST", 0,
     "Memory limit with B, KiB, MiB, GiB or TiB, or off ($GOMEMLIMIT, else off); several: a sweep",
     2},
    {NULL, 0, NULL, 0, "Measuring:", 3},
    {"duration", KEY_DURATION, "S", 0, "Seconds measured in each run (30)", 3},
    {"warmup", KEY_WARMUP, "S", 0, "Seconds of load before that (5)", 3},
    {"repetitions", KEY_REPETITIONS, "N", 0,
     "Runs of each policy, interleaved (6 to compare, as fewer give no 95 % interval; 1 for a "
     "single policy)",
     3},
    {"fail-if", KEY_FAIL_IF, "EXPR", 0,
     "Exit with status 1 if it holds for a policy's medians; may be repeated", 3},
    {NULL, 0, NULL, 0, "Files (each appears whole, by rename):", 4},
    {"json", KEY_JSON, "FILE", 0, "All runs", 4},
    {"csv", KEY_CSV, "FILE", 0, "All runs, one line each", 4},
    {"report", KEY_REPORT, "FILE.html", 0, "One page with plots (needs gnuplot)", 4},
    {0}};

/* Of kv alone: what only a live run has. */
static const struct argp_option options[] = {
    {"net", KEY_NET, NULL, 0,
     "Connections are TCP over 127.0.0.1, two descriptors each, in place of channels", 1},
    {"procs", KEY_PROCS, "N", 0, "Tasks that run at once ($GOMAXPROCS, else the CPUs)", 2},
    {"slowest", KEY_SLOWEST, "FILE", 0,
     "CSV: the ten slowest requests of each run, and where their time went", 4},
    {"series", KEY_SERIES, "FILE", 0, "CSV: rate, latency, heap and phase every 100 ms", 4},
    {"cycles", KEY_CYCLES, "FILE", 0, "CSV: one line per collection", 4},
    {"hgrm", KEY_HGRM, "DIR", 0,
     "A folder for each run's latency percentiles (HdrHistogram's format)", 4},
    {0}};

static const char before[] =
    "Serves a key-value load on tasks while the heap is collected, and compares pacing policies "
    "by its latency."
    "\vLatency counts from the moment at which a request was to start, not from when the client "
    "got to it, so a stall is felt by every request that fell into it. Each run has a process of "
    "its own; runs are interleaved.\n\n"
    "Examples:\n"
    "  hedge-sim kv\n"
    "  hedge-sim kv --policy max:5,off --duration 5 --repetitions 1\n"
    "  hedge-sim kv --conns 512 --rate 60000 --procs 1 --json kv.json\n"
    "  hedge-sim kv --net --conns 5000 --rate 20000 --policy max:5,off\n"
    "  hedge-sim kv --gogc 50,100,200,400 --policy max:5 --want 'p99<=5ms'\n"
    "  hedge-sim kv --sweep rate=20000:100000:20000 --report rates.html\n"
    "  hedge-sim kv --fail-if 'p99 > 1.5*off.p99' --fail-if 'hold_p999 > 200us'\n\n"
    "Checks use the figures' names in the CSV (times in ns; units ns us ms s KiB MiB GiB % may "
    "follow a number), arithmetic, comparisons, && and ||; POLICY.FIGURE is another policy's.\n\n"
    "Exit status: 0; 1: a check of --fail-if failed; 2: wrong usage; 3: a run or a file failed; "
    "130: Ctrl-C (what was measured until then is reported).";

static int whole(struct argp_state *state, const char *option, const char *text, double low,
                 double high)
{
    return (int)sim_option_number(state, option, text, low, high, true);
}

static void add_policy(struct argp_state *state, struct kv_options *opt, const char *name)
{
    struct kv_policy p = {"", strcmp(name, "off") == 0};
    struct hg_policy_spec spec;
    char why[200] = "";
    if (p.off)
        snprintf(p.name, sizeof p.name, "off");
    else if (hg__policy_parse(name, &spec, why, sizeof why) != 0)
        argp_error(state, "--policy: \"%s\": %s; or off", name, why);
    else
        hg__policy_name(&spec, p.name, sizeof p.name);
    for (int i = 0; i < opt->policies; i++)
        if (strcmp(opt->policy[i].name, p.name) == 0)
            argp_error(state, "--policy: expected each policy once, not %s twice", p.name);
    if (opt->policies == KV_POLICIES_MAX)
        argp_error(state, "--policy: expected at most %d policies", KV_POLICIES_MAX);
    opt->policy[opt->policies++] = p;
}

static void parse_policies(struct argp_state *state, struct kv_options *opt, const char *list)
{
    char *copy = strdup(list), *rest = copy, *name;
    if (copy == NULL)
        argp_failure(state, SIM_FAILED, ENOMEM, "--policy");
    opt->policies = 0;
    while ((name = strsep(&rest, ",")) != NULL)
        add_policy(state, opt, name);
    free(copy);
}

static const char *folder_name(struct argp_state *state, const char *option, const char *path)
{
    struct stat st;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        argp_error(state, "--%s: expected a folder, not \"%s\": %s", option, path, strerror(errno));
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode) || access(path, W_OK | X_OK) != 0)
        argp_error(state, "--%s: expected a folder that can be written, not \"%s\"", option, path);
    return path;
}

static uint64_t parse_seed(struct argp_state *state, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != 0 || errno != 0)
        argp_error(state,
                   "--seed: expected a whole number from 0 to 18446744073709551615, not \"%s\"",
                   text);
    return v;
}

static error_t parse_load(int key, char *arg, struct argp_state *state)
{
    struct kv_options *o = state->input;
    switch (key) {
    case KEY_CONNS:
        o->conns = whole(state, "conns", arg, 1, 1e7);
        break;
    case KEY_RATE:
        o->rate = sim_option_number(state, "rate", arg, 0.001, 1e9, false);
        break;
    case KEY_READ_PERCENT:
        o->read_percent = whole(state, "read-percent", arg, 0, 100);
        break;
    case KEY_KEYS:
        o->keys = whole(state, "keys", arg, 1, 1e9);
        break;
    case KEY_VALUE_BYTES:
        o->value_bytes = whole(state, "value-bytes", arg, 8, 64 << 20);
        break;
    case KEY_GARBAGE_NODES:
        o->garbage_nodes = whole(state, "garbage-nodes", arg, 0, 1e6);
        break;
    case KEY_GARBAGE_BYTES:
        o->garbage_bytes = whole(state, "garbage-bytes", arg, 0, 64 << 20);
        break;
    case KEY_DEPTH:
        o->depth = whole(state, "depth", arg, 0, 10000);
        break;
    case KEY_STACK_NOISE:
        o->stack_noise = sim_option_number(state, "stack-noise", arg, 0, 100, false) / 100;
        break;
    case KEY_BURST:
        o->burst_us = sim_option_number(state, "burst", arg, 0, 1e9, false);
        break;
    case KEY_SEED:
        o->seed = parse_seed(state, arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* As GOMEMLIMIT; INT64_MAX for off. */
static int64_t parse_limit(struct argp_state *state, const char *text)
{
    if (strcmp(text, "off") == 0)
        return INT64_MAX;
    int64_t bytes = sim_size_within(text, 1, MOST_LIMIT);
    if (bytes < 0)
        argp_error(state,
                   "--limit: expected bytes from 1 to 1e18, with B, KiB, MiB, GiB or TiB, or off, "
                   "not \"%s\"",
                   text);
    return bytes;
}

static error_t parse_files(int key, char *arg, struct argp_state *state, struct kv_options *o)
{
    switch (key) {
    case KEY_SLOWEST:
        o->slowest = sim_option_file(state, "slowest", arg);
        sim_sweep_refuse(&o->sweep, "slowest");
        break;
    case KEY_SERIES:
        o->series = sim_option_file(state, "series", arg);
        sim_sweep_refuse(&o->sweep, "series");
        break;
    case KEY_CYCLES:
        o->cycles = sim_option_file(state, "cycles", arg);
        sim_sweep_refuse(&o->sweep, "cycles");
        break;
    case KEY_HGRM:
        o->hgrm = folder_name(state, "hgrm", arg);
        sim_sweep_refuse(&o->sweep, "hgrm");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* Noise that changes no frame is no noise. Points of a sweep look for themselves. */
static void check_noise(struct argp_state *state, const struct kv_options *o)
{
    if (o->stack_noise > 0 && kv_stack_frames_least(o) == kv_stack_frames_most(o) &&
        !sim_sweep_asked(&o->sweep))
        argp_error(state,
                   "--stack-noise: expected to change frames: %g %% of --depth %d is less than "
                   "half a frame",
                   100 * o->stack_noise, o->depth);
}

void kv_options_finish(struct argp_state *state, struct kv_options *o, const char *list)
{
    if (o->policies == 0)
        parse_policies(state, o, list);
    if (o->gogc < 0)
        parse_policies(state, o, "off");
    if (o->repetitions == 0)
        o->repetitions = o->policies > 1 ? 6 : 1;
    check_noise(state, o);
    for (int i = 0; i < o->checks; i++) {
        char why[1024];
        if (kv_check_syntax(o, o->fail_if[i], why, sizeof why) != 0)
            argp_error(state, "--fail-if: \"%s\": %s", o->fail_if[i], why);
    }
}

static error_t parse_measure(int key, char *arg, struct argp_state *state)
{
    struct kv_options *o = state->input;
    switch (key) {
    case KEY_POLICY:
        parse_policies(state, o, arg);
        return 0;
    case KEY_GOGC:
        o->gogc_given = true;
        if (!sim_sweep_list(&o->sweep, state, "gogc", arg))
            o->gogc = strcmp(arg, "off") == 0 ? -1 : whole(state, "gogc", arg, 0, 1e6);
        return 0;
    case KEY_LIMIT:
        if (!sim_sweep_list(&o->sweep, state, "limit", arg))
            o->limit = parse_limit(state, arg);
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->sweep;
        return 0;
    case KEY_DURATION:
        o->duration_s = sim_option_number(state, "duration", arg, 0.1, 1e6, false);
        return 0;
    case KEY_WARMUP:
        o->warmup_s = sim_option_number(state, "warmup", arg, 0, 1e5, false);
        return 0;
    case KEY_REPETITIONS:
        o->repetitions = whole(state, "repetitions", arg, 1, 1000);
        return 0;
    case KEY_JSON:
        o->json = sim_option_file(state, "json", arg);
        sim_sweep_output(&o->sweep, state, "json", arg);
        return 0;
    case KEY_CSV:
        o->csv = sim_option_file(state, "csv", arg);
        sim_sweep_output(&o->sweep, state, "csv", arg);
        return 0;
    case KEY_REPORT:
        o->report = sim_option_report(state, arg);
        sim_sweep_output(&o->sweep, state, "report", arg);
        return 0;
    case KEY_FAIL_IF:
        if (o->checks == KV_CHECKS_MAX)
            argp_error(state, "--fail-if: expected at most %d checks", KV_CHECKS_MAX);
        o->fail_if[o->checks++] = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp kv_argp_load = {load_options, parse_load, NULL, NULL, NULL, NULL, NULL};
static const struct argp_child measure_children[] = {{&sim_sweep_argp, 0, NULL, 0}, {0}};
const struct argp kv_argp_measure = {measure_options,  parse_measure, NULL, NULL,
                                     measure_children, NULL,          NULL};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct kv_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = state->child_inputs[1] = o;
        return 0;
    case KEY_PROCS:
        o->procs = whole(state, "procs", arg, 1, 1024);
        return 0;
    case KEY_NET:
        o->net = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "expected options only, not \"%s\"", arg);
        return 0;
    case ARGP_KEY_END:
        kv_options_finish(state, o, "mean:2,pi,max:5,off");
        return 0;
    default:
        return parse_files(key, arg, state, o);
    }
}

void kv_options_init(struct kv_options *opt, const char *program)
{
    hg_options env;
    char why[1024];
    hg_options_init(&env, sizeof env);
    if (hg_options_env(&env, why, sizeof why) != 0)
        fprintf(stderr, "%s: %s\n", program, why);
    *opt = (struct kv_options){.program = program,
                               .conns = 10000,
                               .rate = 100000,
                               .read_percent = 95,
                               .keys = 200000,
                               .value_bytes = 1024,
                               .garbage_nodes = 12,
                               .depth = 8,
                               .gogc = env.gc_percent,
                               .limit = env.memory_limit,
                               .procs = env.procs,
                               .duration_s = 30,
                               .warmup_s = 5,
                               .seed = 42};
}

void kv_options_parse(struct kv_options *opt, int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&kv_argp_load, 0, NULL, 0}, {&kv_argp_measure, 0, NULL, 0}, {NULL, 0, NULL, 0}};
    static const struct argp argp = {options, parse_option, NULL, before, children, NULL, NULL};
    kv_options_init(opt, argv[0]);
    argp_parse(&argp, argc, argv, 0, NULL, opt);
}

double kv_garbage_per_op(const struct kv_options *opt)
{
    double value = opt->value_bytes, reads = opt->read_percent / 100.0;
    /* request, key, nodes, buffer, response */
    double request = 80 + 32 + 48.0 * opt->garbage_nodes + opt->garbage_bytes + 48;
    double read = value + (value + 40) + value; /* copy, wire, decoded */
    double write = value + value + 48 + 64;     /* sent, stored, node, wire */
    double net = opt->net ? kv_net_garbage_per_op(opt) : 0;
    return request + reads * read + (1 - reads) * write + net;
}

double kv_floor_bytes(const struct kv_options *opt)
{
    double seconds = opt->duration_s + opt->warmup_s + 1;
    double entry = 64 + opt->value_bytes + 48.0 * KV_ENTRY_NODES + 8;
    double stack = 8192 + 224.0 * kv_stack_frames_most(opt);
    double rounding = 1.15; /* size classes */
    return rounding * (opt->keys * entry + opt->rate * seconds * kv_garbage_per_op(opt)) +
           2.0 * opt->conns * stack;
}
