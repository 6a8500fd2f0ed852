/* pipeline.c: three stages on channels: read, work in parallel, collect. Counts the words of
 * standard input, line by line, and prints the totals and the longest word.
 *
 *   reader --lines--> worker (WORKERS of them) --results--> the first task
 *
 * The reader closes `lines` at the end of the input. Each worker then leaves, and a wait group
 * tells a closing task that the last one has left: it closes `results`, and the first task is
 * done. The reader blocks its OS thread in fgets, so it says so (hg_block_enter), and other
 * tasks go on.
 */
#include <ctype.h>
#include <hedge/hedge.h>
#include <stdio.h>
#include <string.h>

#define WORKERS    4
#define LINE_BYTES 4096

struct pipeline {
    HG_REF(hg_chan *) lines;   /* of char * */
    HG_REF(hg_chan *) results; /* of struct result * */
    hg_waitgroup workers;
};
static const uint32_t pipeline_fields[] = {offsetof(struct pipeline, lines),
                                           offsetof(struct pipeline, results)};
static const hg_layout pipeline_layout = HG_TYPED("pipeline", pipeline_fields);

struct result {
    HG_REF(char *) longest; /* points into the line: that keeps the line alive, nothing is copied */
    size_t longest_bytes;
    size_t words;
};
static const uint32_t result_fields[] = {offsetof(struct result, longest)};
static const hg_layout result_layout = HG_TYPED("result", result_fields);

static void reader(void *arg)
{
    struct pipeline *p = arg;
    char buffer[LINE_BYTES];
    for (;;) {
        hg_block_enter();
        bool more = fgets(buffer, sizeof buffer, stdin) != NULL;
        hg_block_leave();
        if (!more)
            break;
        char *line = hg_alloc(strlen(buffer) + 1, HG_LEAF);
        strcpy(line, buffer);
        hg_chan_send(hg_get(p->lines), &line, HG_FOREVER);
    }
    hg_chan_close(hg_get(p->lines));
}

static struct result *count_words(char *line)
{
    struct result *r = hg_alloc(sizeof *r, &result_layout);
    for (char *at = line; *at != '\0';) {
        while (isspace((unsigned char)*at))
            at++;
        char *word = at;
        while (*at != '\0' && !isspace((unsigned char)*at))
            at++;
        size_t bytes = (size_t)(at - word);
        r->words += bytes > 0;
        if (bytes > r->longest_bytes) {
            hg_set(r->longest, word); /* overwrites a reference: not hg_init */
            r->longest_bytes = bytes;
        }
    }
    return r;
}

static void worker(void *arg)
{
    struct pipeline *p = arg;
    char *line;
    while (hg_chan_recv(hg_get(p->lines), &line, HG_FOREVER) == 0) {
        struct result *r = count_words(line);
        hg_chan_send(hg_get(p->results), &r, HG_FOREVER);
    }
    hg_waitgroup_done(&p->workers);
}

static void closer(void *arg)
{
    struct pipeline *p = arg;
    hg_waitgroup_wait(&p->workers, HG_FOREVER);
    hg_chan_close(hg_get(p->results));
}

static int first_task(void *arg)
{
    struct pipeline *p = hg_alloc(sizeof *p, &pipeline_layout);
    struct result *best = hg_alloc(sizeof *best, &result_layout), *r;
    size_t lines = 0, words = 0;
    hg_chan *to_workers, *from_workers;
    (void)arg;
    if (hg_chan_new(sizeof(char *), 16, HG_REFS, &to_workers) != 0 ||
        hg_chan_new(sizeof(struct result *), 16, HG_REFS, &from_workers) != 0)
        return 1;
    hg_init(p->lines, to_workers);
    hg_init(p->results, from_workers);
    hg_waitgroup_add(&p->workers, WORKERS);
    for (int i = 0; i < WORKERS; i++)
        if (hg_go(worker, p) != 0)
            return 1;
    if (hg_go(closer, p) != 0 || hg_go(reader, p) != 0)
        return 1;
    while (hg_chan_recv(from_workers, &r, HG_FOREVER) == 0) {
        lines++;
        words += r->words;
        if (r->longest_bytes > best->longest_bytes)
            best = r;
    }
    printf("%zu lines, %zu words; longest: %.*s\n", lines, words, (int)best->longest_bytes,
           best->longest_bytes > 0 ? hg_get(best->longest) : "");
    return 0;
}

int main(void) { return hg_run(first_task, NULL, NULL); }
