/* scheduler-cancel.pml: cancelling a task that parks: Note [CANCEL] and C1 to C4 in
 * runtime/sched/cancel.c.
 *
 * One control block, in which LIVES tasks live one after the other. Each parks up to PARKS times, some
 * of them masked; a waker may win a park for a value; a canceller reaches the first task by its handle,
 * under the lock, or (SWEEP) whatever lives in the block, again and again, as a shutdown does.
 *
 * Checked: a task is made ready once for each park, and only when it waits (S2); no masked park ends by
 * cancellation; a handle reaches its own task only; and when nothing can happen any more, no task is
 * parked, cancelled and unmasked. Spin's memory is sequentially consistent, so the fences themselves
 * are not checked; the order of the looks and the stores is.
 *
 * Runtime: Task: task.c, park.c, hg__wait_enter; Canceller: hg__cancel_task, hg__cancel_claim; Sweeper:
 * hg__cancel_all; Waker: any owner of a wait queue.
 *
 * Left out, each to be found: NO_LOOK (the parker does not look once its task is WAITING), BORN_NONE
 * (a newborn's `wait` is like that of a park), MASK_LATE (mask is set after hg__park_begin), NO_LOCK
 * (the canceller uses the handle without its lock).
 */
#ifndef LIVES
#define LIVES 2
#endif
#ifndef PARKS
#define PARKS 2
#endif
#ifndef WAKES
#define WAKES 3
#endif

mtype = { FREE, RUNNABLE, RUNNING, WAITING, NONE, VALUE, CANCEL };

mtype state = FREE, why = VALUE;
byte ticket, queue, life;
bool canceled, mask, shutdown;
bool locked, alive;                 /* the handle's lock; it leads to the first task */
bool listed;                        /* the wait record, under the waker's lock */
byte record;

inline claim(t, reason, won) { /* hg__park_claim */
    atomic {
        won = ticket == t && why == NONE;
        if
        :: won -> why = reason
        :: else
        fi
    }
}

inline make_ready() { /* hg__ready */
    state == WAITING;
    atomic {
        state = RUNNABLE;
        queue++;
        assert(queue == 1)
    }
}

inline look() { /* hg__cancel_claim */
    if
    :: state == WAITING ->
        atomic { seen = ticket; open = why == NONE };
        if
        :: open ->
            open = !mask;
            if
            :: open ->
                claim(seen, CANCEL, open);
                if
                :: open -> make_ready()
                :: else
                fi
            :: else
            fi
        :: else
        fi
    :: else
    fi
}

active proctype Task() {
    byte n;
    bool won, masked;
    do
    :: life < LIVES ->
        atomic {
            ticket++;
#ifdef BORN_NONE
            why = NONE;
#else
            why = VALUE;
#endif
            mask = false
        }
        canceled = shutdown;
        state = RUNNING;
        if
        :: life == 0 -> alive = true /* others get to know the handle */
        :: else
        fi;
        n = 0;
        do
        :: n < PARKS ->
            n++;
            if
            :: masked = true
            :: masked = false
            fi;
#ifndef MASK_LATE
            mask = masked;
#endif
            if
            :: !masked && canceled -> break
            :: else
            fi;
            atomic { ticket++; why = NONE };
#ifdef MASK_LATE
            mask = masked;
#endif
            state = WAITING;
            atomic { record = ticket; listed = true }; /* commit: the waker's lock is let go */
#ifndef NO_LOOK
            if
            :: !masked && canceled ->
                claim(record, CANCEL, won);
                if
                :: won -> make_ready()
                :: else
                fi
            :: else
            fi;
#endif
end_parked:
            atomic { queue > 0 -> queue-- };
            assert(state == RUNNABLE && why != NONE);
            state = RUNNING;
            listed = false;
            assert(!(masked && why == CANCEL));
            mask = false
        :: n == PARKS -> break
        :: break
        od;
        atomic { !locked -> locked = true };
        alive = false;
        locked = false;
        state = FREE;
        life++
    :: else -> break
    od
}

active proctype Waker() {
    byte wakes, t;
    bool won;
    do
    :: wakes < WAKES ->
        wakes++;
        atomic {
            if
            :: listed -> listed = false; t = record; claim(t, VALUE, won)
            :: else -> won = false
            fi
        }
        if
        :: won -> make_ready()
        :: else
        fi
    :: break
    od
}

#ifdef SWEEP
active proctype Sweeper() {
    byte seen;
    bool open;
    shutdown = true;
    do
    :: life < LIVES ->
        if
        :: state != FREE -> canceled = true; look()
        :: else
        fi
    :: life == LIVES -> break
    od
}
#else
active proctype Canceller() {
    byte seen;
    bool open;
#ifdef NO_LOCK
    if
    :: alive ->
#else
    atomic { !locked -> locked = true };
    if
    :: alive ->
#endif
        canceled = true;
        assert(life == 0 && state != FREE);
        look()
    :: else
    fi;
    locked = false
}
#endif

active proctype End() {
    timeout -> assert(!(state == WAITING && canceled && !mask))
}
