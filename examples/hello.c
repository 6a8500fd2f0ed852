/* hello.c: the smallest program: a task, a channel between the two, an object that nobody frees. */
#include <hedge/hedge.h>
#include <stdio.h>

static void greet(void *channel)
{
    char *text = hg_alloc(32, HG_LEAF);
    snprintf(text, 32, "hello from task %d", (int)hg_task_id());
    hg_chan_send(channel, &text, HG_FOREVER);
}

static int first_task(void *arg)
{
    hg_chan *channel;
    char *text;
    (void)arg;
    if (hg_chan_new(sizeof text, 0, HG_REFS, &channel) != 0 || hg_go(greet, channel) != 0)
        return 1;
    hg_chan_recv(channel, &text, HG_FOREVER);
    puts(text);
    return 0;
}

int main(void) { return hg_run(first_task, NULL, NULL); }
