/* serve_report.h: what `hedge-sim serve` prints when it has stopped. */
#ifndef HG_SIM_SERVE_REPORT_H
#define HG_SIM_SERVE_REPORT_H
#include "sim/serve.h"

/* any: the server's figures, to standard output. Its runtime is still open. */
void serve_report(struct serve_server *s);

#endif
