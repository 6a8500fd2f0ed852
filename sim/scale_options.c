/* scale_options.c: the command line of `hedge-sim scale`: kv's load and measuring options, so that
 * the same parameters mean the same, and those that only a simulation has. Wrong values end the
 * process with status 2 and a message, as in kv_options.c. */
#include "sim/option.h"
#include "sim/scale.h"
#include "sim/scale_trace.h"
#include "sim/sim.h"
#include "sim/text.h"
#include <argp.h>
#include <math.h>
#include <string.h>

#define MACHINE_DEPTH 8   /* kv's --depth when a machine was measured */
#define FRAME_BYTES   160 /* to scan of each frame: kv --depth 60 beside --depth 8, measured */

enum {
    KEY_VCPUS = 0x300,
    KEY_SOCKETS,
    KEY_PROFILE,
    KEY_NETWORK,
    KEY_NO_ASSIST,
    KEY_SERVICE,
    KEY_REQUEST_BYTES,
    KEY_LIVE_HEAP,
    KEY_SCAN_SHARE,
    KEY_NOISE,
    KEY_MARK_RATE,
    KEY_STACK_BYTES,
    KEY_MACHINE,
    KEY_TRACE,
    KEY_PID,
    KEY_TRACE_RATE,
    KEY_TRACE_CONNS,
    KEY_CALIBRATE,
    KEY_CHECK,
    KEY_BENCHMARK
};

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "The simulated machine and program:", 5},
    {"vcpus", KEY_VCPUS, "N", 0, "CPUs, and tasks that run at once (30)", 5},
    {"procs", KEY_VCPUS, "N", OPTION_ALIAS, NULL, 5},
    {"sockets", KEY_SOCKETS, "N", 0, "That the CPUs lie on, each with its part of memory (1)", 5},
    {"profile", KEY_PROFILE, "NAME", 0, "The collector: hedge, go1.19 or go1.23 (hedge)", 5},
    {"no-assist", KEY_NO_ASSIST, NULL, 0, "Allocations do not assist", 5},
    {"network", KEY_NETWORK, NULL, 0,
     "Requests come from the network, to any CPU; without it from timers, as kv's do", 5},
    {"service", KEY_SERVICE, "US", 0,
     "CPU time of a request, in microseconds (as the machine was measured)", 5},
    {"request-bytes", KEY_REQUEST_BYTES, "N", 0,
     "Bytes that a request allocates (from kv's parameters)", 5},
    {"live-heap", KEY_LIVE_HEAP, "BYTES", 0, "Live heap; K, M and G may follow (kv's store)", 5},
    {"scan-share", KEY_SCAN_SHARE, "P", 0,
     "Per cent of the live heap that has to be scanned (as in kv's store)", 5},
    {"noise", KEY_NOISE, "P", 0,
     "Marking is faster or slower by up to this many per cent in each cycle (0)", 5},
    {"mark-rate", KEY_MARK_RATE, "BYTES", 0,
     "Scan work that a CPU does in a second for this collector (as the machine was measured)", 5},
    {"stack-bytes", KEY_STACK_BYTES, "N", 0,
     "Scan work of a task's stack (as the machine's, and --depth)", 5},
    {"machine", KEY_MACHINE, "FILE", 0, "What things cost, as --calibrate wrote it", 5},
    {NULL, 0, NULL, 0, "A program from a recorded trace; options that are given win over it:", 6},
    {"trace", KEY_TRACE, "FILE", 0,
     "Lines of GODEBUG=gctrace=1,gcpacertrace=1 of a service in Go or hedge; -: standard input", 6},
    {"pid", KEY_PID, "NAME", 0, "Which of its processes, by pid, name or a part of it", 6},
    {"trace-rate", KEY_TRACE_RATE, "OPS", 0, "Requests per second while it was recorded (--rate)",
     6},
    {"trace-conns", KEY_TRACE_CONNS, "N", 0, "Connections while it was recorded (--conns)", 6},
    {NULL, 0, NULL, 0, "Instead of a comparison:", 7},
    {"calibrate", KEY_CALIBRATE, "FILE", 0,
     "Measure this machine with short live runs (25 s) and write what was found", 7},
    {"check", KEY_CHECK, NULL, 0,
     "Run kv live at 1 and 2 procs and three loads, and print predicted beside measured latency "
     "(--report: as a page)",
     7},
    {"benchmark", KEY_BENCHMARK, NULL, 0, "Print simulated requests per second of elapsed time", 7},
    {0}};

static const char before[] =
    "Simulates kv's load in virtual time, on machines that are not here, under the real pacer."
    "\vThe same seed gives the same bytes. What a request, a collection and a wake-up cost comes "
    "from a machine's profile; nothing else is fitted (docs/design/scale.md).\n\n"
    "Examples:\n"
    "  hedge-sim scale --vcpus 60 --conns 20000 --rate 50000\n"
    "  hedge-sim scale --profile go1.19 --network --service 350 \\\n"
    "      --request-bytes 20000 --live-heap 512M --vcpus 30 --rate 30000\n"
    "  hedge-sim scale --gogc 50,100,200,400 --policy max:5 --want 'p99<=5ms'\n"
    "  hedge-sim scale --gogc 100,400 --limit 1GiB,off --want 'p99<=5ms'\n"
    "  hedge-sim scale --trace service.log --trace-rate 3000 --service 350 \\\n"
    "      --profile go1.23 --network --vcpus 60 --conns 20000 --rate 60000\n"
    "  hedge-sim scale --calibrate a.json; hedge-sim scale --machine a.json --check\n\n"
    "Exit status: 0; 1: a check of --fail-if failed; 2: wrong usage; 3: a live run or a file "
    "failed; 130: Ctrl-C (what was done until then is reported).";

static double parse_bytes(struct argp_state *state, const char *option, const char *text)
{
    static const char suffixes[] = "KMG";
    char number[32];
    size_t n = strlen(text);
    double unit = 1;
    snprintf(number, sizeof number, "%s", text);
    const char *suffix = n > 0 && n < sizeof number ? strchr(suffixes, text[n - 1]) : NULL;
    if (suffix != NULL) {
        number[n - 1] = 0;
        unit = pow(1024, (double)(suffix - suffixes) + 1);
    }
    return unit * sim_option_number(state, option, number, 0, 1e12 / unit, false);
}

static void parse_profile(struct argp_state *state, struct scale_options *o, const char *name)
{
    o->profile = scale_profile_find(name);
    if (o->profile == NULL)
        argp_error(state, "--profile: expected %s, not \"%s\"", scale_profile_choices(), name);
}

static void parse_machine(struct argp_state *state, struct scale_options *o, const char *path)
{
    char why[160];
    o->machine_file = path;
    if (scale_machine_read(path, &o->machine, why, sizeof why) != 0)
        argp_error(state, "--machine: expected what --calibrate writes, not \"%s\": %s", path, why);
}

static void init(struct argp_state *state, struct scale_options *o)
{
    state->child_inputs[0] = state->child_inputs[1] = &o->load;
    kv_options_init(&o->load, state->name);
    o->load.procs = 30;
    o->load.duration_s = 10;
    o->load.warmup_s = 3;
    o->profile = scale_profile_find("hedge");
    o->service_us = o->request_bytes = o->live_heap = o->scan_share = o->noise_asked = NAN;
    o->mark_rate = o->stack_bytes = NAN;
    o->assist = true;
    o->sockets = 1;
    scale_machine_builtin(&o->machine);
}

static void add_number(struct kv_options *load, const char *name, double number)
{
    load->more[load->mores++] = (struct kv_param){name, NULL, number};
}

static void add_text(struct kv_options *load, const char *name, const char *text)
{
    load->more[load->mores++] = (struct kv_param){name, text, 0};
}

/* The program of --trace. A sweep's points read it again, each with its own options. */
static void take_trace(struct argp_state *state, struct scale_options *o)
{
    struct scale_recorded rec;
    char why[500];
    if (o->trace == NULL) {
        if (o->pid != NULL || o->trace_rate > 0 || o->trace_conns > 0)
            argp_error(state, "--%s: expected with --trace FILE",
                       o->pid != NULL      ? "pid"
                       : o->trace_rate > 0 ? "trace-rate"
                                           : "trace-conns");
        return;
    }
    if (scale_trace_read(o->trace, o->pid, &rec, why, sizeof why) != 0)
        argp_error(state, "--trace: %s", why);
    scale_trace_apply(o, &rec);
    if (isnan(o->service_us) && !sim_sweep_has(&o->load.sweep, "service"))
        argp_error(state,
                   "--trace: %s: a trace of Go does not say what CPU time a request takes: "
                   "expected --service US (CPU time of the process over requests)",
                   o->trace);
}

/* What the trace said, for the files. */
static void add_notes(struct scale_options *o)
{
    struct kv_options *load = &o->load;
    load->recorded = o->recorded;
    for (int i = 0; i < o->notes; i++)
        load->note[load->notes++] = (struct kv_note){o->note[i].source, o->note[i].text};
}

static void describe(struct scale_options *o)
{
    char bytes[32], live[32];
    snprintf(o->about, sizeof o->about, "requests of %.4g us and %s, %s live, collector %s",
             scale_service_ns(o) / 1e3, text_bytes(scale_request_bytes(o), bytes),
             text_bytes(scale_live_heap(o), live), o->profile->name);
    o->load.about = o->about;
}

/* What of kv's load a simulation, or a calibration, does not have. */
static void finish_load(struct argp_state *state, struct scale_options *o)
{
    if (o->load.stack_noise > 0)
        argp_error(state,
                   "--stack-noise: expected with kv, not here: simulated stacks have one size "
                   "(--stack-bytes; hedge-sim pacer --model stacks has noise on them)");
    if (o->calibrate && o->load.garbage_bytes > 0)
        argp_error(state, "--garbage-bytes: expected without --calibrate, which measures requests "
                          "without them");
    if (o->calibrate && o->load.depth != MACHINE_DEPTH)
        argp_error(state, "--depth: expected %d with --calibrate: a machine's stacks are those",
                   MACHINE_DEPTH);
}

/* A machine's stacks are kv's at its usual depth. A trace says more of them than --depth. */
static void set_stacks(struct scale_options *o)
{
    double bytes = o->machine.stack_bytes + FRAME_BYTES * (o->load.depth - MACHINE_DEPTH);
    if (!isnan(o->stack_bytes))
        scale_set_stack(o, o->stack_bytes);
    else if (o->load.depth != MACHINE_DEPTH && o->trace == NULL)
        scale_set_stack(o, fmax(1, bytes));
}

static void finish(struct argp_state *state, struct scale_options *o)
{
    finish_load(state, o);
    if (!isnan(o->mark_rate))
        scale_set_mark_rate(o, o->mark_rate / 1e9);
    set_stacks(o);
    take_trace(state, o);
    describe(o);
    if (o->calibrate && o->load.report != NULL)
        argp_error(state, "--report: expected without --calibrate, which compares nothing");
    kv_options_finish(state, &o->load, o->profile->policies);
    add_text(&o->load, "profile", o->profile->name);
    add_text(&o->load, "machine", o->machine.name);
    add_text(&o->load, "arrivals", o->network ? "network" : "timer");
    add_text(&o->load, "assist", o->assist ? "on" : "off");
    add_number(&o->load, "service_ns", scale_service_ns(o));
    add_number(&o->load, "request_bytes", scale_request_bytes(o));
    add_number(&o->load, "live_heap_bytes", scale_live_heap(o));
    add_number(&o->load, "scan_bytes", scale_scan_bytes(o));
    add_number(&o->load, "noise", o->noise);
    add_number(&o->load, "sockets", o->sockets);
    add_number(&o->load, "mark_rate", o->machine.mark_rate);
    if (o->trace != NULL) {
        add_text(&o->load, "trace", o->trace);
        add_notes(o);
    }
}

static error_t parse_program(int key, char *arg, struct argp_state *state, struct scale_options *o)
{
    switch (key) {
    case KEY_SERVICE:
        o->service_us = sim_option_number(state, "service", arg, 0.01, 1e6, false);
        return 0;
    case KEY_REQUEST_BYTES:
        o->request_bytes = sim_option_number(state, "request-bytes", arg, 0, 1e9, false);
        return 0;
    case KEY_LIVE_HEAP:
        o->live_heap = parse_bytes(state, "live-heap", arg);
        return 0;
    case KEY_SCAN_SHARE:
        o->scan_share = sim_option_number(state, "scan-share", arg, 0, 100, false) / 100;
        return 0;
    case KEY_MARK_RATE:
        o->mark_rate = parse_bytes(state, "mark-rate", arg);
        if (o->mark_rate < 1e6)
            argp_error(state, "--mark-rate: expected at least 1e6 bytes a second, not \"%s\"", arg);
        return 0;
    case KEY_STACK_BYTES:
        o->stack_bytes = sim_option_number(state, "stack-bytes", arg, 1, 1e9, false);
        return 0;
    case KEY_SOCKETS:
        o->sockets = (int)sim_option_number(state, "sockets", arg, 1, 64, true);
        return 0;
    case KEY_NOISE:
        o->noise = o->noise_asked = sim_option_number(state, "noise", arg, 0, 95, false) / 100;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_trace(int key, char *arg, struct argp_state *state, struct scale_options *o)
{
    switch (key) {
    case KEY_TRACE:
        o->trace = arg;
        if (strcmp(arg, "-") == 0)
            sim_sweep_refuse(&o->load.sweep, "trace -");
        return 0;
    case KEY_PID:
        o->pid = arg;
        return 0;
    case KEY_TRACE_RATE:
        o->trace_rate = sim_option_number(state, "trace-rate", arg, 0.001, 1e9, false);
        return 0;
    case KEY_TRACE_CONNS:
        o->trace_conns = (int)sim_option_number(state, "trace-conns", arg, 1, 1e7, true);
        return 0;
    default:
        return parse_program(key, arg, state, o);
    }
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct scale_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        init(state, o);
        return 0;
    case KEY_VCPUS:
        o->load.procs = (int)sim_option_number(state, "vcpus", arg, 1, 1024, true);
        return 0;
    case KEY_PROFILE:
        parse_profile(state, o, arg);
        return 0;
    case KEY_NETWORK:
        o->network = true;
        return 0;
    case KEY_NO_ASSIST:
        o->assist = false;
        return 0;
    case KEY_MACHINE:
        parse_machine(state, o, arg);
        return 0;
    case KEY_CALIBRATE:
        o->calibrate = true;
        o->calibrate_file = sim_option_file(state, "calibrate", arg);
        sim_sweep_refuse(&o->load.sweep, "calibrate");
        return 0;
    case KEY_CHECK:
        o->check = true;
        sim_sweep_refuse(&o->load.sweep, "check");
        return 0;
    case KEY_BENCHMARK:
        o->benchmark = true;
        sim_sweep_refuse(&o->load.sweep, "benchmark");
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "expected options only, not \"%s\"", arg);
        return 0;
    case ARGP_KEY_END:
        finish(state, o);
        return 0;
    default:
        return parse_trace(key, arg, state, o);
    }
}

void scale_options_parse(struct scale_options *opt, int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&kv_argp_load, 0, NULL, 0}, {&kv_argp_measure, 0, NULL, 0}, {NULL, 0, NULL, 0}};
    static const struct argp argp = {options, parse_option, NULL, before, children, NULL, NULL};
    memset(opt, 0, sizeof *opt);
    argp_parse(&argp, argc, argv, 0, NULL, opt);
    opt->load.program = argv[0];
}

/* ---- what follows from them ---- */

void scale_set_mark_rate(struct scale_options *opt, double rate)
{
    struct scale_machine *m = &opt->machine;
    double wanted = rate * scale_crowd_factor(opt) / opt->profile->mark_factor;
    m->mark_rate = wanted;
}

void scale_set_stack(struct scale_options *opt, double bytes)
{
    struct scale_machine *m = &opt->machine;
    double more = fmax(0, bytes - m->stack_bytes) / m->mark_rate;
    m->stack_bytes = bytes;
    m->stack_ns += more;
    m->switch_in_ns += more;
}

double scale_request_bytes(const struct scale_options *opt)
{
    if (!isnan(opt->request_bytes))
        return opt->request_bytes;
    return opt->machine.alloc_factor * kv_garbage_per_op(&opt->load);
}

/* Memory is spread evenly: of N sockets, (N - 1) / N of all accesses go to another one. */
double scale_memory_factor(const struct scale_options *opt)
{
    return 1 + (1 - 1.0 / opt->sockets) * (opt->machine.remote_factor - 1);
}

double scale_crowd_factor(const struct scale_options *opt)
{
    return opt->load.procs > 1 ? opt->machine.crowd_factor : 1;
}

double scale_service_ns(const struct scale_options *opt)
{
    const struct scale_machine *m = &opt->machine;
    if (!isnan(opt->service_us))
        return opt->service_us * 1e3 * scale_memory_factor(opt);
    double cold = fmax(0, log10((double)opt->load.conns / SCALE_FEW_CONNS));
    double own = m->fixed_ns + m->cold_ns * cold + m->byte_ns * scale_request_bytes(opt);
    return own * scale_memory_factor(opt);
}

/* Bytes of an entry of kv's store: all, and those of objects with references. */
static double entry_bytes(const struct kv_options *o)
{
    return 64 + o->value_bytes + 48.0 * KV_ENTRY_NODES + 8;
}
static double entry_scan_bytes(void) { return 64 + 48.0 * KV_ENTRY_NODES + 8; }

double scale_live_heap(const struct scale_options *opt)
{
    if (!isnan(opt->live_heap))
        return opt->live_heap;
    return opt->load.keys * entry_bytes(&opt->load) +
           opt->load.conns * opt->machine.conn_scan_bytes;
}

double scale_scan_bytes(const struct scale_options *opt)
{
    if (!isnan(opt->scan_share))
        return opt->scan_share * scale_live_heap(opt);
    double conns = opt->load.conns * opt->machine.conn_scan_bytes;
    if (!isnan(opt->live_heap))
        return opt->live_heap * entry_scan_bytes() / entry_bytes(&opt->load);
    return opt->load.keys * entry_scan_bytes() + conns;
}
