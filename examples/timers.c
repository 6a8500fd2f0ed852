/* timers.c: sessions that end when nothing has come for a while, and a report every second.
 *
 * A session is an object of the collected heap with its timer inside. Each message moves the timer
 * on; when it fires, its function (which must not wait) tells the session's task through a
 * semaphore. A session that is dropped takes its timer with it: nobody has to stop it.
 *
 * The first task takes what sessions report from a channel, and a line of statistics from a ticker
 * between: the ticker's next time is the deadline of the receive.
 */
#include <errno.h>
#include <hedge/hedge.h>
#include <inttypes.h>
#include <stdio.h>

#define MS       INT64_C(1000000)
#define SESSIONS 3
#define IDLE     (40 * MS)

struct session {
    hg_timer idle;
    hg_sema ended;
    int64_t id, messages;
};

static void end_session(hg_timer *t, void *arg)
{
    (void)t;
    hg_sema_release(&((struct session *)arg)->ended, 1);
}

static const uint32_t session_fields[] = {HG_TIMER_ARG(offsetof(struct session, idle))};
static const hg_layout session_layout = HG_TYPED("session", session_fields);

struct start {
    int64_t id;
    hg_chan *ended; /* of int64_t[2]: id, messages */
};

static void run_session(void *arg)
{
    const struct start *start = arg;
    struct session *s = hg_alloc(sizeof *s, &session_layout);
    s->id = start->id;
    hg_timer_init(&s->idle, end_session, s);
    for (int64_t i = 0; i < 4 * (s->id + 1); i++) { /* as if messages came every 20 ms */
        hg_timer_reset(&s->idle, hg_in(IDLE));
        s->messages++;
        if (hg_sema_acquire(&s->ended, 1, hg_in(20 * MS)) != -ETIMEDOUT)
            break;
    }
    hg_sema_acquire(&s->ended, 1, HG_FOREVER); /* no more come: the timer ends it */
    int64_t report[2] = {s->id, s->messages};
    hg_chan_send(start->ended, report, HG_FOREVER);
}

static int first_task(void *arg)
{
    hg_chan *ended;
    hg_ticker report = {{0}};
    int64_t began = hg_now(), got[2];
    (void)arg;
    if (hg_chan_new(sizeof got, 0, HG_LEAF, &ended) != 0)
        return 1;
    for (int64_t i = 0; i < SESSIONS; i++) {
        struct start s = {i, ended};
        if (hg_go_copy(run_session, &s, sizeof s) != 0)
            return 1;
    }
    hg_ticker_start(&report, began + 100 * MS, 100 * MS);
    for (int left = SESSIONS; left > 0;) {
        int r = hg_chan_recv(ended, got, hg_ticker_next(&report));
        if (r == 0) {
            printf("session %" PRId64 " ended after %" PRId64 " messages\n", got[0], got[1]);
            left--;
        } else if (hg_ticker_wait(&report, HG_NOW, NULL) == 0) {
            printf("%3" PRId64 " ms: %d sessions\n", (hg_now() - began) / MS, left);
        }
    }
    hg_ticker_stop(&report);
    return 0;
}

int main(void) { return hg_run(first_task, NULL, NULL); }
