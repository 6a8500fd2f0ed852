/* scheduler-wake.pml: going idle, waking and handing over: Note [WAKE] in runtime/sched/wake.c, and
 * H1 and H2 in ready.c.
 *
 * Procs run tasks; a running task makes parked ones ready, by telling (W) or by handing over (H), and
 * then parks, yields, or computes until no task waits anywhere: this stands for a task that may run
 * for ever while another one waits. A proc without a task spins once over the others, goes idle (I)
 * and sleeps. The monitor looks for untold tasks while a proc is idle.
 *
 * With NET tasks also wait for descriptors (Note [POLL] in runtime/sched/poll.c): the kernel makes them
 * ready when it likes, and keeps that until somebody asks. A proc without a task asks if there is no
 * poller; an idle one becomes the poller and sleeps in the kernel, from where an event or the bell
 * brings it back; the monitor sees to it that somebody asks if nobody did. As descriptors are open all
 * the time, the order in which the first one is opened is not part of the model.
 *
 * Checked: when nothing can happen any more, procs sleep or compute, and none sleeps while a task
 * waits in a queue, or in the kernel with a descriptor that is ready. Spin's memory is sequentially consistent, so the fences themselves are not
 * checked; the order of the looks and the stores is.
 *
 * Runtime: Proc: the loop of proc.c with find_elsewhere and go_idle of wake.c; hand_over, tell:
 * ready.c; Monitor: check_hand_overs of monitor.c, hg__poll_check; take_events: net_poll and
 * hg__poll_take of poll.c.
 *
 * Sizes: PROCS (2 or 3), TASKS, READY (how often a task is made ready in all).
 * Left out, each to be found: NO_TELL (a yield does not tell), RING_FIRST (I looks at the ring
 * before runnext), NO_MONITOR (H2), NO_LOOK (I does not look once it is listed), NO_NEXT_SPINNER
 * (the last spinner that finds a task wakes no other; takes three procs), ALL_UNTOLD (I and the
 * thieves leave told tasks in runnext alone, as if they were untold). With NET: NO_BELL (who wakes
 * the poller does not ring), NO_DUE (the monitor does not look), NO_POLLER (idle procs sleep on their
 * futex only), KEEP_POLLER (who comes back from the kernel is still the poller), NO_RING_AGAIN (who
 * looks, and so takes the bell from the poller, keeps it). run-models has them all.
 */
#ifndef PROCS
#define PROCS 2
#endif
#ifndef TASKS
#define TASKS 3
#endif
#ifndef READY
#define READY 3
#endif

#if PROCS == 3
#define WAITING (ring[0] + next[0] + ring[1] + next[1] + ring[2] + next[2])
#else
#define WAITING (ring[0] + next[0] + ring[1] + next[1])
#endif

byte ring[PROCS], next[PROCS];      /* how many tasks; runnext holds one at most */
bool untold[PROCS];
bool listed[PROCS], woken[PROCS];
bool spins[PROCS];                  /* hg_proc.spinning */
byte idle, spinning;                /* hg_sched's counts */
byte parked = TASKS - 1, ready = READY;
byte sleepers;                      /* procs that sleep, on a futex or in the kernel */

#ifdef NET
#ifndef EVENTS
#define EVENTS 2
#endif
byte waits, events = EVENTS;        /* tasks that wait for a descriptor; how often one becomes ready */
byte pending;                       /* descriptors that are ready, and nobody has asked */
bool poller, due, bell;             /* hg_sched's; the eventfd's edge */
bool polls[PROCS];                  /* hg_proc.wake is POLLS */
#define UNSEEN pending
#else
#define UNSEEN 0
#endif

inline look(found) { /* hg__runq_offers of each proc, one after the other */
    found = false;
    v = 0;
    do
    :: v < PROCS ->
#ifdef RING_FIRST
        if
        :: ring[v] > 0 -> found = true
        :: else
        fi;
#endif
#ifndef ALL_UNTOLD
        if
        :: next[v] > 0 -> found = found || !untold[v]
        :: else
        fi;
#endif
#ifndef RING_FIRST
        if
        :: ring[v] > 0 -> found = true
        :: else
        fi;
#endif
        v++
    :: else -> break
    od;
    v = 0
}

/* W after its fence. The pop is under SCHED. */
inline wake_for_work() {
    if
    :: idle > 0 && spinning == 0 ->
        if
        :: atomic { spinning == 0 -> spinning++ };
            atomic {
                w = 0;
                do
                :: w < PROCS && !listed[w] -> w++
                :: else -> break
                od;
                if
                :: w < PROCS -> listed[w] = false; idle--; spins[w] = true; woken[w] = true;
#if defined(NET) && !defined(NO_BELL)
                    bell = bell || polls[w];
#endif
                :: else -> spinning--
                fi;
                w = 0
            }
        :: spinning > 0
        fi
    :: else
    fi
}

/* hg__tell */
inline tell() {
    if
    :: untold[id] -> untold[id] = false; wake_for_work()
    :: else
    fi
}

/* hg__hand_over, where nobody need be told */
inline hand_over() {
    untold[id] = true;
    next[id] = 1
}

/* hg__ready(next) */
inline put_told() {
    untold[id] = false;
    if
    :: next[id] == 0 -> next[id] = 1
    :: else -> atomic { ring[id] = ring[id] + next[id]; next[id] = 1 }
    fi;
    wake_for_work()
}

/* hg__ready(last) */
inline put_last() {
    ring[id]++;
    wake_for_work()
}

inline make_ready() {
    atomic { parked > 0 && ready > 0 -> parked--; ready-- };
    if
    :: next[id] == 0 -> hand_over()
    :: put_told()
    :: put_last()
    fi
}

#ifdef NET
/* After net_poll: the first task is in hand, the others go to the ring. Falls through if there is
 * none. */
inline take_events(from) {
    if
    :: from > 1 -> ring[id] = ring[id] + from - 1; from = 0; wake_for_work(); goto got
    :: from == 1 -> from = 0; goto got
    :: from == 0
    fi
}
#endif

proctype Proc(byte id; bool runs) {
    byte v, w;
    bool found;
#ifdef NET
    byte n;
    bool rung;
#endif
    if
    :: runs -> goto turn
    :: else
    fi;
find:
#ifdef NET
    if
    :: atomic { due -> due = false; n = pending; pending = 0 };
        if
        :: n > 0 -> ring[id] = ring[id] + n; n = 0; wake_for_work()
        :: n == 0
        fi
    :: !due
    fi;
#endif
    if
    :: atomic { next[id] > 0 -> next[id] = 0 }; untold[id] = false; goto got
    :: next[id] == 0
    fi;
    if
    :: atomic { ring[id] > 0 -> ring[id]-- }; goto got
    :: ring[id] == 0
    fi;
#ifdef NET
    if
    :: !poller ->
        atomic { n = pending; pending = 0; rung = bell; bell = false };
#ifndef NO_RING_AGAIN
        if
        :: rung && poller -> bell = true
        :: else
        fi;
#endif
        rung = false;
        take_events(n)
    :: poller
    fi;
#endif
    if
    :: !spins[id] -> atomic { spins[id] = true; spinning++ }
    :: else
    fi;
    v = 0;
    do
    :: v < PROCS ->
        if
        :: atomic { v != id && ring[v] > 0 -> ring[v]-- }; v = 0; goto got
        :: v == id || ring[v] == 0
        fi;
        if
#ifdef ALL_UNTOLD
        :: skip
#else
        :: atomic { v != id && next[v] > 0 -> next[v] = 0 }; v = 0; goto got
        :: v == id || next[v] == 0
        :: untold[v] /* it did not linger */
#endif
        fi;
        v++
    :: else -> break
    od;
    v = 0;
    atomic { spins[id] = false; spinning-- };
    look(found);
    if
    :: found -> goto find
    :: else
    fi;
    atomic { listed[id] = true; idle++; woken[id] = false };
#ifndef NO_LOOK
    look(found);
    if
    :: atomic { found && listed[id] -> listed[id] = false; idle-- }; goto find
    :: found && !listed[id]
    :: !found
    fi;
#endif
#if defined(NET) && !defined(NO_POLLER)
    if
    :: atomic { !poller -> poller = true };
        if /* AWAKE to POLLS, unless somebody was faster */
        :: atomic { !woken[id] -> polls[id] = true; sleepers++ };
end_polling:
            atomic { pending > 0 || bell -> bell = false; n = pending; pending = 0; sleepers-- }
        :: atomic { woken[id] -> n = pending; pending = 0 }
        fi;
#ifndef KEEP_POLLER
        poller = false;
#endif
        if
        :: atomic { listed[id] -> listed[id] = false; idle-- }
        :: !listed[id] -> woken[id]
        fi;
        polls[id] = false;
        take_events(n);
        goto find
    :: poller
    fi;
#endif
    sleepers++;
end_asleep:
    atomic { woken[id] -> sleepers-- };
    goto find;
got:
    if
    :: spins[id] ->
        atomic { spins[id] = false; spinning-- };
#ifndef NO_NEXT_SPINNER
        if
        :: spinning == 0 -> wake_for_work()
        :: else
        fi
#endif
    :: else
    fi;
turn:
    do
    :: parked > 0 && ready > 0 ->
        if
        :: make_ready()
        :: parked == 0 || ready == 0 /* another proc was faster */
        fi
    :: break
    od;
    if
    :: parked++ /* parks */
#ifdef NET
    :: waits++ /* parks until a descriptor is ready */
#endif
    ::
#ifndef NO_TELL
        tell();
#endif
        ring[id]++ /* yields */
    :: skip;
end_computing:
        (WAITING == 0 && UNSEEN == 0) /* and the task ends */
    fi;
    goto find
}

#ifndef NO_MONITOR
active proctype Monitor() {
    byte w, id;
end:
    do
    :: idle > 0 && spinning == 0 && untold[0] && next[0] > 0 -> wake_for_work()
    :: idle > 0 && spinning == 0 && untold[1] && next[1] > 0 -> wake_for_work()
#if PROCS == 3
    :: idle > 0 && spinning == 0 && untold[2] && next[2] > 0 -> wake_for_work()
#endif
#if defined(NET) && !defined(NO_DUE)
    :: idle < PROCS && !poller && pending > 0 && (!due || (idle > 0 && spinning == 0)) ->
        due = true; /* while all are idle the monitor sleeps */
        wake_for_work()
#endif
    od
}
#endif

#ifdef NET
active proctype Kernel() {
end:
    do
    :: atomic { waits > 0 && events > 0 -> waits--; events--; pending++ }
    od
}
#endif

active proctype Check() {
    timeout;
    assert(sleepers == 0 || (WAITING == 0 && UNSEEN == 0))
}

init {
    atomic {
        run Proc(0, true);
        run Proc(1, false)
#if PROCS == 3
        ;
        run Proc(2, false)
#endif
    }
}
