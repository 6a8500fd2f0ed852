/* serve_conn.h: the connections of a server: accepting, serving and ending them. */
#ifndef HG_SIM_SERVE_CONN_H
#define HG_SIM_SERVE_CONN_H
#include "sim/serve.h"
#include <hedge/io.h>

/* S W: accepts and starts a task per connection, until the listener is closed. */
void serve_accept(struct serve_server *s, hg_fd *listener);
/* S W: connections that there are. */
int serve_clients_left(struct serve_server *s);
/* S W: ends all connections: they run no further request (s->stopping is set) and send what is
 * pending; or at once, with nothing sent. */
void serve_clients_stop(struct serve_server *s, bool at_once);

#endif
