/* replay.c: `hedge-sim replay`: reads, judges, prints, writes. */
#include "sim/replay.h"
#include "sim/memory.h"
#include "sim/outfile.h"
#include "sim/sim.h"
#include <math.h>
#include <string.h>

/* Reads all files. 0 or the exit status. */
static int read_files(struct replay *r)
{
    char why[400];
    for (int i = 0; i < r->opt.files; i++) {
        if (sim_trace_read_path(&r->trace, r->opt.file[i], r->opt.how.lenient, why, sizeof why) !=
            0) {
            fprintf(stderr, "hedge-sim replay: %s\n", why);
            return SIM_USAGE;
        }
    }
    if (sim_trace_finish(&r->trace, why, sizeof why) != 0) {
        fprintf(stderr, "hedge-sim replay: %s%s: %s\n", r->opt.file[0],
                r->opt.files > 1 ? " and the others" : "", why);
        return SIM_USAGE;
    }
    if (!isnan(r->opt.how.assume_scan))
        sim_trace_assume(&r->trace, r->opt.how.assume_scan);
    return 0;
}

/* Judges the process that was asked for, or all. 0 or the exit status. */
static int judge(struct replay *r)
{
    char why[1000] = "";
    if (r->opt.how.pid == NULL) {
        r->results = r->trace.processes;
        r->result = sim_alloc(r->results, sizeof *r->result);
        for (size_t i = 0; i < r->results; i++)
            replay_judge(&r->opt, &r->trace.process[i], &r->result[i]);
        return 0;
    }
    const struct sim_trace_process *p = sim_trace_find(&r->trace, r->opt.how.pid, why, sizeof why);
    if (p == NULL) {
        fprintf(stderr, "hedge-sim replay: --pid: \"%s\": %s\n", r->opt.how.pid, why);
        return SIM_USAGE;
    }
    r->results = 1;
    r->result = sim_alloc(1, sizeof *r->result);
    replay_judge(&r->opt, p, r->result);
    return 0;
}

static int write_files(const struct replay *r)
{
    char why[400];
    int failed = replay_write_files(r);
    if (r->opt.report != NULL && replay_write_report(r, why, sizeof why) != 0)
        failed += sim_outfile_complain("hedge-sim replay", "report", r->opt.report, why);
    return failed > 0 ? SIM_FAILED : SIM_OK;
}

int sim_replay(int argc, char **argv)
{
    struct replay r;
    memset(&r, 0, sizeof r);
    replay_options_parse(&r.opt, argc, argv);
    sim_trace_init(&r.trace);
    int status = read_files(&r);
    if (status == 0)
        status = judge(&r);
    if (status == 0) {
        replay_print(stdout, &r);
        fflush(stdout);
        status = write_files(&r);
    }
    for (size_t i = 0; i < r.results; i++)
        replay_result_free(&r.result[i]);
    free(r.result);
    sim_trace_free(&r.trace);
    return status;
}
