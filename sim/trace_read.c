/* trace_read.c: files to processes, and a process's lines to cycles (trace_read.h).
 *
 *   group    all lines whose prefix gives one name; has the pacer's lines that no gctrace line has
 *            claimed yet
 *   process  one start of a program: running numbers that rise
 *
 * Both programs print a cycle's pacer line before its gctrace line, but in a log of several
 * processes other lines come between; a gctrace line therefore takes the oldest pacer's line whose
 * sizes are its own, within the rounding of MB. A pacer's line that is not taken while WAITING more
 * come is a cycle without times.
 *
 * Where the log names no process, numbers alone tell them apart: a line belongs to the process that
 * it continues, else to the one that it follows with at most GAP missing, else it begins a new one.
 */
#include "sim/trace_read.h"
#include "sim/memory.h"
#include <errno.h>
#include <math.h>
#include <string.h>

#define WAITING 8
#define GAP     8
#define MIB     1048576.0

struct sim_trace_group {
    char *name;
    struct sim_trace_cycle waiting[WAITING]; /* pacer's lines, oldest first */
    size_t n;
    size_t starts;  /* processes so far */
    size_t current; /* the process of its last line; only with starts > 0 */
};

void sim_trace_init(struct sim_trace *t) { memset(t, 0, sizeof *t); }

void sim_trace_free(struct sim_trace *t)
{
    for (size_t i = 0; i < t->processes; i++) {
        free(t->process[i].name);
        free(t->process[i].cycle);
    }
    for (size_t i = 0; i < t->groups; i++)
        free(t->group[i].name);
    free(t->process);
    free(t->group);
    sim_trace_init(t);
}

static char *copy_text(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = sim_alloc(n, 1);
    memcpy(copy, text, n);
    return copy;
}

static size_t group_of(struct sim_trace *t, const char *name)
{
    for (size_t i = 0; i < t->groups; i++)
        if (strcmp(t->group[i].name, name) == 0)
            return i;
    t->group = sim_grow(t->group, t->groups + 1, sizeof *t->group);
    t->group[t->groups] = (struct sim_trace_group){.name = copy_text(name)};
    return t->groups++;
}

/* The first start of a named process has its name; later ones, and all without a name, a number. */
static size_t start_process(struct sim_trace *t, size_t group)
{
    struct sim_trace_group *g = &t->group[group];
    char name[160];
    g->starts++;
    if (g->name[0] == 0)
        snprintf(name, sizeof name, "#%zu", g->starts);
    else if (g->starts == 1)
        snprintf(name, sizeof name, "%s", g->name);
    else
        snprintf(name, sizeof name, "%s #%zu", g->name, g->starts);
    t->process = sim_grow(t->process, t->processes + 1, sizeof *t->process);
    t->process[t->processes] =
        (struct sim_trace_process){.name = copy_text(name), .group = group, .last_at_s = -1};
    g->current = t->processes;
    return t->processes++;
}

static void append(struct sim_trace_process *p, const struct sim_trace_cycle *c)
{
    if (p->cycles == p->room) {
        p->room = p->room > 0 ? 2 * p->room : 64;
        p->cycle = sim_grow(p->cycle, p->room, sizeof *p->cycle);
    }
    p->cycle[p->cycles++] = *c;
}

/* Does the line follow what the process has said? *missing: numbers passed over. */
static bool follows(const struct sim_trace_process *p, const struct sim_trace_cycle *c,
                    uint64_t *missing)
{
    if (c->number <= p->last_number || c->at_s < p->last_at_s)
        return false;
    *missing = p->last_number > 0 ? c->number - p->last_number - 1 : 0;
    return true;
}

/* Among the processes without a name, the one that the line follows with the fewest missing, the
 * latest first; t->processes: none. A first cycle is nobody's second. */
static size_t nearest_unnamed(const struct sim_trace *t, size_t group,
                              const struct sim_trace_cycle *c, uint64_t *fewest)
{
    size_t best = t->processes;
    uint64_t missing;
    *fewest = GAP + 1;
    for (size_t i = t->processes; i-- > 0 && *fewest > 0;) {
        const struct sim_trace_process *p = &t->process[i];
        if (p->group != group || (c->number == 1 && p->last_number > 0))
            continue;
        if (follows(p, c, &missing) && missing < *fewest) {
            best = i;
            *fewest = missing;
        }
    }
    return best;
}

/* The process of a gctrace line; a new one if it continues none. */
static struct sim_trace_process *process_of(struct sim_trace *t, size_t group,
                                            const struct sim_trace_cycle *c)
{
    const struct sim_trace_group *g = &t->group[group];
    size_t best = t->processes;
    uint64_t missing = 0;
    if (g->name[0] == 0)
        best = nearest_unnamed(t, group, c, &missing);
    else if (g->starts > 0 && follows(&t->process[g->current], c, &missing))
        best = g->current;
    if (best == t->processes)
        best = start_process(t, group);
    else
        t->process[best].missing += (size_t)missing;
    t->group[group].current = best;
    t->process[best].last_number = c->number;
    t->process[best].last_at_s = c->at_s;
    return &t->process[best];
}

/* Takes entry i out of the group's waiting lines. */
static struct sim_trace_cycle take(struct sim_trace_group *g, size_t i)
{
    struct sim_trace_cycle c = g->waiting[i];
    g->n--;
    memmove(&g->waiting[i], &g->waiting[i + 1], (g->n - i) * sizeof c);
    return c;
}

/* The oldest waiting line becomes a cycle without times. */
static void release_oldest(struct sim_trace *t, size_t group)
{
    struct sim_trace_cycle c = take(&t->group[group], 0);
    if (t->group[group].starts == 0)
        start_process(t, group);
    append(&t->process[t->group[group].current], &c);
}

static bool same_sizes(const struct sim_trace_cycle *pacer, const struct sim_trace_cycle *gc)
{
    return fabs(pacer->heap_start - gc->heap_start) <= 1.001 * MIB &&
           fabs(pacer->heap_end - gc->heap_end) <= 1.001 * MIB;
}

static void enter_gc(struct sim_trace *t, size_t group, struct sim_trace_cycle *c)
{
    struct sim_trace_group *g = &t->group[group];
    for (size_t i = 0; i < g->n; i++) {
        if (!same_sizes(&g->waiting[i], c))
            continue;
        struct sim_trace_cycle p = take(g, i);
        c->heap_start = p.heap_start;
        c->heap_end = p.heap_end;
        c->scan_heap = p.scan_heap;
        c->scan_stack = p.scan_stack;
        c->scan_globals = p.scan_globals;
        c->utilization = p.utilization;
        c->cons_mark = p.cons_mark;
        c->estimate = p.estimate;
        c->source = p.source;
        break;
    }
    append(process_of(t, group, c), c);
}

static void enter_pacer(struct sim_trace *t, size_t group, const struct sim_trace_cycle *c)
{
    if (t->group[group].n == WAITING)
        release_oldest(t, group);
    t->group[group].waiting[t->group[group].n++] = *c;
}

/* One line. False: it is broken. */
static bool enter_line(struct sim_trace *t, const char *text, struct sim_trace_line *line)
{
    switch (sim_trace_parse(text, line)) {
    case SIM_TRACE_GC:
        t->gc_lines++;
        enter_gc(t, group_of(t, line->name), &line->cycle);
        return true;
    case SIM_TRACE_PACER:
        t->pacer_lines++;
        enter_pacer(t, group_of(t, line->name), &line->cycle);
        return true;
    case SIM_TRACE_OTHER:
        t->other_lines++;
        return true;
    case SIM_TRACE_FOREIGN:
        t->skipped++;
        return true;
    case SIM_TRACE_BROKEN:
        break;
    }
    t->broken++;
    t->skipped++;
    return false;
}

int sim_trace_read(struct sim_trace *t, FILE *in, const char *name, bool lenient, char *why,
                   size_t room)
{
    char *text = NULL;
    size_t text_room = 0, number = 0;
    ssize_t n;
    int err = 0;
    struct sim_trace_line line;
    while (err == 0 && (n = getline(&text, &text_room, in)) > 0) {
        bool whole = text[n - 1] == '\n';
        while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
            text[--n] = 0;
        t->lines++;
        number++;
        if (enter_line(t, text, &line) || lenient)
            continue;
        snprintf(why, room, "%s: line %zu, column %zu: expected %s%s", name, number, line.column,
                 line.expected, whole ? "" : "; the file ends there (is it truncated?)");
        err = -1;
    }
    if (err == 0 && ferror(in)) {
        snprintf(why, room, "%s: line %zu: cannot be read: %s", name, number + 1, strerror(errno));
        err = -1;
    }
    free(text);
    return err;
}

int sim_trace_read_path(struct sim_trace *t, const char *path, bool lenient, char *why, size_t room)
{
    if (strcmp(path, "-") == 0)
        return sim_trace_read(t, stdin, "standard input", lenient, why, room);
    FILE *in = fopen(path, "re");
    if (in == NULL) {
        snprintf(why, room, "%s: cannot be opened: %s", path, strerror(errno));
        return -1;
    }
    int err = sim_trace_read(t, in, path, lenient, why, room);
    fclose(in);
    return err;
}

int sim_trace_finish(struct sim_trace *t, char *why, size_t room)
{
    for (size_t g = 0; g < t->groups; g++)
        while (t->group[g].n > 0)
            release_oldest(t, g);
    for (size_t i = 0; i < t->processes; i++)
        for (size_t k = 0; k < t->process[i].cycles; k++)
            sim_trace_ratio(&t->process[i].cycle[k]);
    if (t->processes > 0)
        return 0;
    if (t->lines == 0)
        snprintf(why, room, "line 1: expected \"gc 1 @...\" or \"pacer: ...\", but it is empty");
    else
        snprintf(why, room,
                 "lines 1 to %zu: expected \"gc 1 @0.012s 3%%: ...\" or \"pacer: 25%% CPU ...\", "
                 "and none is like that",
                 t->lines);
    return -1;
}

/* The pid in a name like "api[4711]", or an empty text. */
static void pid_of(const char *name, char *pid, size_t room)
{
    const char *open = strchr(name, '['), *close = open != NULL ? strchr(open, ']') : NULL;
    pid[0] = 0;
    if (close != NULL)
        snprintf(pid, room, "%.*s", (int)(close - open - 1), open + 1);
}

static void list_processes(const struct sim_trace *t, char *why, size_t room)
{
    for (size_t i = 0; i < t->processes; i++) {
        size_t used = strlen(why);
        snprintf(why + used, room - used, "%s%s", i > 0 ? ", " : "", t->process[i].name);
    }
}

const struct sim_trace_process *sim_trace_find(const struct sim_trace *t, const char *wanted,
                                               char *why, size_t room)
{
    const struct sim_trace_process *part = NULL;
    size_t parts = 0;
    for (size_t i = 0; i < t->processes; i++) {
        const struct sim_trace_process *p = &t->process[i];
        char pid[32];
        pid_of(p->name, pid, sizeof pid);
        bool plain = wanted != NULL && p->name[0] == '#' && strcmp(p->name + 1, wanted) == 0;
        if (plain || (wanted != NULL && strcmp(p->name, wanted) == 0))
            return p;
        if (wanted == NULL || strcmp(pid, wanted) == 0 || strstr(p->name, wanted) != NULL) {
            part = p;
            parts++;
        }
    }
    if (parts == 1)
        return part;
    snprintf(why, room, "expected one of: ");
    list_processes(t, why, room);
    return NULL;
}
