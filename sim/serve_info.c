/* serve_info.c: INFO: the server's figures, in Redis's sections and words where it has them, and a
 * section on the collector, which Redis has not. */
#include "sim/serve.h"
#include <stdio.h>
#include <unistd.h>

/* Room for one section; the longest line is well below a tenth of it. */
struct page {
    char text[2048];
    size_t n;
};

#define LINE(p, ...) \
    ((p)->n += (size_t)snprintf((p)->text + (p)->n, sizeof(p)->text - (p)->n, __VA_ARGS__))

static void server_section(struct serve_server *s, const hg_stats *st, struct page *p)
{
    LINE(p, "redis_version:7.0.15\r\nserver_name:hedge\r\nhedge_version:%s\r\n", hg_version());
    LINE(p, "redis_mode:standalone\r\narch_bits:%zu\r\nprocess_id:%ld\r\n", 8 * sizeof(void *),
         (long)getpid());
    LINE(p, "tcp_port:%d\r\nprocs:%d\r\nuptime_in_seconds:%lld\r\n", s->port, st->procs,
         (long long)((hg_now() - s->began) / 1000000000));
}

static void clients_section(struct serve_server *s, const hg_stats *st, struct page *p)
{
    (void)st;
    hg_mutex_lock(&s->clients_lock);
    int now = s->clients_now;
    hg_mutex_unlock(&s->clients_lock);
    LINE(p, "connected_clients:%d\r\nmaxclients:%d\r\n", now, s->opt->max_clients);
}

static void memory_section(struct serve_server *s, const hg_stats *st, struct page *p)
{
    (void)s;
    LINE(p, "used_memory:%llu\r\n", (unsigned long long)st->heap_live_bytes);
    LINE(p, "used_memory_marked:%llu\r\n", (unsigned long long)st->heap_marked_bytes);
    LINE(p, "used_memory_goal:%llu\r\n", (unsigned long long)st->heap_goal_bytes);
    LINE(p, "used_memory_mapped:%llu\r\n", (unsigned long long)st->heap_mapped_bytes);
    LINE(p, "used_memory_stacks:%llu\r\n", (unsigned long long)st->stack_bytes);
    LINE(p, "maxmemory:0\r\n");
}

static void stats_section(struct serve_server *s, const hg_stats *st, struct page *p)
{
    (void)st;
    LINE(p, "total_connections_received:%llu\r\n",
         (unsigned long long)serve_counted(&s->connections));
    LINE(p, "total_commands_processed:%llu\r\n", (unsigned long long)serve_counted(&s->requests));
    LINE(p, "rejected_connections:%llu\r\n", (unsigned long long)serve_counted(&s->rejected));
    LINE(p, "client_output_buffer_limit_disconnections:%llu\r\n",
         (unsigned long long)serve_counted(&s->dropped));
    LINE(p, "expired_keys:%llu\r\n", (unsigned long long)serve_counted(&s->store.expired));
}

static void replication_section(struct serve_server *s, const hg_stats *st, struct page *p)
{
    (void)s;
    (void)st;
    LINE(p, "role:master\r\nconnected_slaves:0\r\n");
}

static void gc_section(struct serve_server *s, const hg_stats *st, struct page *p)
{
    (void)s;
    int64_t mark = st->background_ns + st->idle_ns + st->assist_ns;
    LINE(p, "gc_cycles:%llu\r\n", (unsigned long long)st->cycles);
    LINE(p, "gc_cpu_ms:%lld\r\n", (long long)((mark + st->sweep_ns + st->scan_ns) / 1000000));
    LINE(p, "gc_assist_ms:%lld\r\n", (long long)(st->assist_ns / 1000000));
    LINE(p, "gc_longest_assist_us:%lld\r\n", (long long)(st->longest_assist_ns / 1000));
    LINE(p, "allocated_bytes:%llu\r\n", (unsigned long long)st->alloc_bytes);
    LINE(p, "allocated_objects:%llu\r\n", (unsigned long long)st->alloc_objects);
    LINE(p, "tasks:%llu\r\n", (unsigned long long)st->tasks_now);
}

static void keyspace_section(struct serve_server *s, const hg_stats *st, struct page *p)
{
    (void)st;
    for (int db = 0; db < SERVE_DATABASES; db++) {
        size_t expiring, keys = serve_store_count(&s->store, db, &expiring);
        if (keys > 0)
            LINE(p, "db%d:keys=%zu,expires=%zu,avg_ttl=0\r\n", db, keys, expiring);
    }
}

static const struct {
    const char *name, *title;
    void (*write)(struct serve_server *s, const hg_stats *st, struct page *p);
} sections[] = {
    {"server", "Server", server_section},
    {"clients", "Clients", clients_section},
    {"memory", "Memory", memory_section},
    {"stats", "Stats", stats_section},
    {"replication", "Replication", replication_section},
    {"gc", "GC", gc_section},
    {"keyspace", "Keyspace", keyspace_section},
};
#define SECTIONS (sizeof sections / sizeof *sections)

static bool asked_for(const struct serve_call *c, const char *name)
{
    for (int i = 1; i < c->argc; i++)
        if (serve_arg_is(c, i, name) || serve_arg_is(c, i, "all") ||
            serve_arg_is(c, i, "default") || serve_arg_is(c, i, "everything"))
            return true;
    return c->argc == 1;
}

void serve_cmd_info(struct serve_call *c)
{
    /* On the heap, as a task's stack is small: all sections in one buffer. */
    struct page *all = hg_alloc(sizeof *all * SECTIONS, HG_LEAF), *p = all;
    hg_stats st = {.size = sizeof st};
    size_t n = 0;
    hg_stats_read(c->server->rt, &st);
    for (size_t i = 0; i < SECTIONS; i++) {
        if (!asked_for(c, sections[i].name))
            continue;
        LINE(p, "%s# %s\r\n", p == all ? "" : "\r\n", sections[i].title);
        sections[i].write(c->server, &st, p);
        n += p->n;
        p++;
    }
    char header[32];
    int length = snprintf(header, sizeof header, "$%zu\r\n", n);
    serve_put(c->out, header, (size_t)length);
    for (struct page *q = all; q < p; q++)
        serve_put(c->out, q->text, q->n);
    serve_put(c->out, "\r\n", 2);
}
