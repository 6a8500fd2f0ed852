/* conn.h: the parts of `hedge-sim conn` and the data between them.
 *
 *   conn.c        command line, the comparison, its targets
 *   conn_live.c   the run: clients, servers, connections
 *   conn_meter.c  the metrics of a connection: recorded by a task per read and write, or added up
 *
 * This is the Cloud SQL connector for Go before and after its pull request 983.
 */
#ifndef HG_SIM_CONN_H
#define HG_SIM_CONN_H
#include "sim/trial.h"

enum conn_metrics {
    CONN_PER_READ, /* each read and write starts a task whose arguments are heap objects */
    CONN_COPY,     /* likewise, the arguments copied onto the task's stack (hg_go_copy) */
    CONN_BATCHED,  /* each adds to a counter, which is exported now and then */
    CONN_METRICS
};
extern const char *const conn_metrics_name[CONN_METRICS];

struct conn_options {
    int conns, procs;
    int64_t requests; /* of each connection */
    double flush_s;
};

struct conn_way {
    const struct conn_options *opt;
    enum conn_metrics metrics;
};
trial_fn conn_run; /* arg: a struct conn_way */

/* ---- metrics (conn_meter.c) ---- */

/* What is known of a connection's traffic. All fields but `way` belong to conn_meter.c. */
struct conn_meter {
    const struct conn_way *way;
    hg_counter *read, *written; /* batched: bytes, not yet exported ones included */
    hg_chan *stop;              /* closed: the exporting task ends */
    hg_waitgroup exporter;
    int64_t exported_before[2]; /* the exporting task's */
    /* The view: what a monitoring system sees. Writers: recording tasks, or the exporting one. */
    _Atomic int64_t view[2], records, flushes;
    _Atomic int64_t started; /* recording tasks */
    _Atomic int failed;
};
enum { CONN_READ, CONN_WRITTEN };

/* On a task: begins, and ends when all has come to the view. 0 or a negative errno. */
int conn_meter_start(struct conn_meter *m);
int conn_meter_stop(struct conn_meter *m);
/* Connection `conn` has read or written so many bytes. */
void conn_meter_note(struct conn_meter *m, int conn, int direction, int64_t bytes);

#endif
