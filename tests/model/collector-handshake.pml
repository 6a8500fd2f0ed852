/* collector-handshake.pml: the handshake (docs/design/collector.md) as a model for spin: the
   driver, procs whose threads run tasks, block, are taken by the driver, are handed on by the
   monitor while a task is in a blocking region, are born and die. Function by function it follows
   runtime/mut/handshake.c and mutator.c, and of runtime/sched the loop of a proc (take a task,
   poll, scan it, run it) and region.c.

   One handshake after another; the one numbered SCANAT is SCAN: who has answered it is black, and
   the stack that it ran then is scanned. A black proc scans what it takes from the queue, if it
   was not scanned. After the last handshake the driver scans what is left, as workers do in MARK.
   Sequentially consistent memory.

   Checked:
     H1  a callback never runs while its proc uses the heap, nor beside another one for it
     H2  each proc answers each epoch once, none left out, and when a handshake is complete every
         living proc has
     H3  a proc that is not black runs no task that was scanned in this cycle, a black one none
         that was not
     H4  a stack is scanned by nobody while it runs
     H5  a proc is run by one thread, and what is idle is not handed on
     no deadlock: no request and no wake-up is lost

   Run (expect "errors: 0"):
     spin [-D...] -a collector-handshake.pml
     cc -O2 -w -DCOLLAPSE -DSAFETY -DNOFAIR -DMEMLIM=8000 -o pan pan.c
     ./pan -m400000
   or run-models, beside this file, which knows bounds and expected results.

   Features:  -DHANDON: blocking regions, the monitor, a spare thread. -DDEEP: SCAN may leave a
              stack unscanned, as it is deep: its task must then go through the queue. -DLIFE: a
              proc that is born at any time, procs that die.
   Bounds:    -DTURNS=n (actions of each thread) -DHANDSHAKES=n -DSCANAT=n (0: none) -DTASKS=n

   Negative checks (each gives an error; the features that it wants in brackets):
     -DNO_RECHECK     a proc does not look at its bit again after it has stored BLOCKED. (The
                      older reading, in which the driver looked again and again at who was
                      RUNNING, could do without; with a driver that looks once and sleeps the
                      request is lost: deadlock)
     -DNO_RESTAMP     the stamp is not read again after the proc is taken: a callback runs twice
     -DNO_LOOK_AGAIN  who clears its bit does not look at the epoch again: the bit that it cleared
                      may have been the next request's, which is lost: deadlock. (A proc that
                      comes from one answer and finds the next epoch answers it before its bit is
                      up: so a bit may be left over, and must be cleared)
     -DPOLL_BIT       the poll between taking a task and running it looks at the proc's bit, not
                      at the epoch. Bits are raised one after the other: a task that was scanned
                      on one proc runs on another that is not black, as its bit is not up yet (H3;
                      POLL_BIT of collector.pml shows the object that is lost)
     -DBORN_UNSTAMPED a new proc does not start with the epoch of now [LIFE]
     -DNO_TICK        who leaves a region ignores the tick: it takes a proc that was handed on
                      [HANDON]
     -DNO_SCHED       the monitor does not hold the lock that a proc takes before it goes idle
                      [HANDON]
     -DNO_LEAVELOOK   who leaves a region runs on although SCAN left its deep stack unscanned
                      [HANDON, DEEP] */

#ifndef TURNS
#define TURNS 3
#endif
#ifndef HANDSHAKES
#define HANDSHAKES 2
#endif
#ifndef SCANAT
#define SCANAT HANDSHAKES
#endif
#ifndef TASKS
#define TASKS 2
#endif
#define PROCS 3               /* 0 and 1 live at the start; 2 may be born at any time */
#define NONE  7

#define ABSENT  0
#define RUNNING 1
#define BLOCKED 2
#define TAKEN   3

/* a proc */
byte state[PROCS];            /* with tick one word: they are compared and change in one step */
byte tick[PROCS];
bool att[PROCS];              /* its attention bit */
byte stamp[PROCS];            /* epoch that it has answered */
bool black[PROCS];
byte stk[PROCS];              /* task whose stack it names as its own, or NONE */
byte reg[PROCS];              /* its task in a blocking region, or NONE */
byte mode[PROCS];             /* ghost: epoch of the last callback run for it */
bool touching[PROCS];         /* ghost: between two safepoints, using the heap */
bool incall[PROCS];           /* ghost: its callback is under way */

/* tasks */
bool queued[3];
bool done[3];                 /* its stack is scanned in this cycle */
bool runs[3];                 /* ghost: a thread uses its stack, between two safepoints */

byte epoch;
byte unanswered;
byte count;                   /* living procs */
bool between;                 /* past the request of SCAN: the colour of births */
bool list;                    /* lock MUTATORS */
#ifdef HANDON
bool sched;                   /* lock SCHED */
byte idlers;                  /* threads without a proc */
byte given = NONE;            /* proc that one of them is to run */
#endif

#define LOCK(l)   atomic { !l -> l = 1 }
#define UNLOCK(l) l = 0

/* ---- answering ---- */

inline scan(t) {              /* H4 */
	assert(!runs[t]);
	done[t] = 1
}

/* the callback takes time, must be alone, and must run once for each epoch, none left out */
inline answer(m, e) {
	atomic {
		assert(!touching[m]); assert(!incall[m]);     /* H1 */
		incall[m] = 1;
		assert(mode[m] + 1 == e);                     /* H2 */
		mode[m] = e
	};
	atomic {
		if
		:: e == SCANAT ->
			if
			:: stk[m] != NONE -> scan(stk[m])
#ifdef DEEP
			:: stk[m] != NONE -> assert(!runs[stk[m]])
#endif
			:: else
			fi;
			black[m] = 1
		:: else
		fi;
		incall[m] = 0;
		stamp[m] = e; att[m] = 0       /* in one step: it has not counted down, so nobody looks */
	};
	unanswered--
}

/* hg__poll_slow */
inline poll_slow(m) {
	do
	:: e = epoch;
	   if
	   :: stamp[m] != e -> answer(m, e)
	   :: else
	   fi;
	   att[m] = 0;
#ifdef NO_LOOK_AGAIN
	   break
#else
	   if
	   :: epoch == e -> break
	   :: else
	   fi
#endif
	od;
	e = 0
}
inline poll(m) {              /* hg__poll */
	if
	:: att[m] -> poll_slow(m)
	:: else
	fi
}
inline poll_taken(m) {        /* between taking a task and running it */
	if
#ifdef POLL_BIT
	:: att[m] -> poll_slow(m)
#else
	:: epoch != stamp[m] -> poll_slow(m)
#endif
	:: else
	fi
}

/* ---- blocking ---- */

/* hg__mutator_block; w: the tick */
inline block(m) {
	do
	:: poll(m);
	   atomic { w = tick[m]; assert(state[m] == RUNNING); state[m] = BLOCKED };
#ifdef NO_RECHECK
	   break
#else
	   if
	   :: !att[m] -> break
	   :: att[m] ->
		if
		:: atomic { state[m] == BLOCKED && tick[m] == w -> state[m] = RUNNING }
		:: atomic { !(state[m] == BLOCKED && tick[m] == w) -> break } /* taken, or handed on */
		fi
	   fi
#endif
	od
}

#define UNSEEN (black[m] && !done[t])

/* one safepoint to the next */
inline touch(m, t) {
	atomic {
		assert(state[m] == RUNNING && stk[m] == t);   /* H5 */
		assert(epoch < SCANAT || SCANAT == 0 || black[m] == done[t]); /* H3 */
		runs[t] = 1; touching[m] = 1
	};
	atomic { runs[t] = 0; touching[m] = 0 }
}

proctype Thread(byte m; byte n)
{
	byte e, t = NONE, w;

	if
#ifdef HANDON
	:: m == NONE -> goto idle
#endif
	:: m != NONE && stk[m] != NONE -> t = stk[m]; goto running
	:: else -> goto takeover
	fi;

running:                      /* m runs t */
end1:
	if
	:: n > 0 -> n--; touch(m, t); goto running
	:: att[m] -> poll_slow(m);
#ifdef DEEP
	   if :: UNSEEN -> goto yield :: else fi;
#endif
	   goto running
	:: n > 0 -> n--; goto yield  /* parks, and is made ready */
#ifdef HANDON
	:: n > 0 -> n--; goto region
#endif
	fi;

yield:
	atomic { stk[m] = NONE; queued[t] = 1; t = NONE };
schedule:                     /* hg__schedule */
	poll(m);
	if
	:: atomic { queued[0] -> queued[0] = 0; t = 0 }; goto taken
	:: atomic { queued[1] -> queued[1] = 0; t = 1 }; goto taken
	:: atomic { queued[2] -> queued[2] = 0; t = 2 }; goto taken
	:: atomic { !(queued[0] || queued[1] || queued[2]) -> skip } /* goes idle */
#ifdef LIFE
	:: n > 0 -> goto dying
#endif
	fi;
#if defined(HANDON) && !defined(NO_SCHED)
	LOCK(sched); UNLOCK(sched);  /* lists itself as idle */
#endif
	block(m);
end2:
	queued[0] || queued[1] || queued[2];
	atomic { state[m] == BLOCKED || tick[m] != w ->
		assert(tick[m] == w);    /* H5: an idle proc was handed on */
		state[m] = RUNNING; w = 0 };
	goto schedule;

taken:
	poll_taken(m);
	atomic {
		if
		:: black[m] && !done[t] -> scan(t)   /* switch-in */
		:: else
		fi;
		stk[m] = t
	};
	goto running;

#ifdef HANDON
region:
	reg[m] = t;
	block(m);
end3:
	if
#ifdef NO_TICK
	:: atomic { state[m] == BLOCKED -> state[m] = RUNNING }
#else
	:: atomic { state[m] == BLOCKED && tick[m] == w -> state[m] = RUNNING }
	:: atomic { tick[m] != w -> queued[t] = 1; t = NONE; m = NONE; w = 0 }; goto idle
#endif
	fi;
	atomic { reg[m] = NONE; w = 0 };
#if defined(DEEP) && !defined(NO_LEAVELOOK)
	if :: UNSEEN -> goto yield :: else fi;
#endif
	goto running;                /* and polls there */

idle:
	idlers++;
end4:
	atomic { given != NONE -> m = given; given = NONE };
#endif

takeover:                     /* run_proc: m is BLOCKED and nobody's, or taken by the driver */
	atomic { state[m] == BLOCKED -> state[m] = RUNNING };
	goto schedule;

#ifdef LIFE
dying:
	LOCK(list);
	poll(m);                     /* its last answer */
	atomic { state[m] = ABSENT; count--; UNLOCK(list) }
#endif
	skip
}

#ifdef LIFE
proctype Birth()
{
	if
	:: skip ->
		LOCK(list);
		/* born as if it had answered the request of now, which may be under way elsewhere */
#ifdef BORN_UNSTAMPED
		stamp[2] = 0; mode[2] = 0;
#else
		atomic { stamp[2] = epoch; mode[2] = epoch };
#endif
		atomic { black[2] = between; state[2] = BLOCKED; count++; UNLOCK(list);
			run Thread(2, TURNS - 1) }
	:: skip
	fi
}
#endif

#ifdef HANDON
/* hg__region_hand_on, again and again */
proctype Monitor()
{
	byte w, x;
end:
	do
	:: atomic { idlers > 0 && given == NONE && !list && (reg[0] != NONE || reg[1] != NONE) ->
		list = 1;
		if :: reg[0] != NONE -> x = 0 :: reg[1] != NONE -> x = 1 fi };
#ifndef NO_SCHED
	   LOCK(sched);
#endif
	   if
	   :: atomic { state[x] == BLOCKED -> w = tick[x] };
		if
		:: reg[x] != NONE ->
			if
			:: atomic { state[x] == BLOCKED && tick[x] == w -> tick[x]++ };
			   atomic { reg[x] = NONE; stk[x] = NONE; idlers--; given = x }
			:: atomic { !(state[x] == BLOCKED && tick[x] == w) -> skip }
			fi
		:: else
		fi
	   :: atomic { state[x] != BLOCKED -> skip }
	   fi;
#ifndef NO_SCHED
	   UNLOCK(sched);
#endif
	   atomic { w = 0; x = 0; UNLOCK(list) }
	od
}
#endif

/* answer_for_blocked: looks once */
inline take_blocked(m) {
	do
	:: atomic { state[m] != BLOCKED -> break }
	:: atomic { state[m] == BLOCKED -> w = tick[m] };
	   if
	   :: atomic { state[m] == BLOCKED && tick[m] == w -> state[m] = TAKEN };
#ifndef NO_RESTAMP
		if
		:: stamp[m] != epoch -> answer(m, epoch)
		:: else                  /* it has answered: its bit stays up, its next poll clears it */
		fi;
#else
		answer(m, epoch);
#endif
		state[m] = BLOCKED;
		break
	   :: atomic { !(state[m] == BLOCKED && tick[m] == w) -> skip } /* it left, or was handed on */
	   fi
	od
}

proctype Driver()
{
	byte i, h, w;

	do
	:: h < HANDSHAKES ->
		h++;
		LOCK(list);
		atomic {
			unanswered = count;
			between = (h == SCANAT) || between;
		};
		epoch++;
		do
		:: i < PROCS -> atomic { if :: state[i] != ABSENT -> att[i] = 1 :: else fi; i++ }
		:: atomic { i == PROCS -> i = 0; break }
		od;
		do
		:: i < PROCS -> take_blocked(i); i++
		:: atomic { i == PROCS -> i = 0; w = 0; break }
		od;
		UNLOCK(list);
		atomic { unanswered == 0 ->      /* sleeps; the last one wakes it */
			assert(state[0] == ABSENT || mode[0] == epoch);
			assert(state[1] == ABSENT || mode[1] == epoch);
			assert(state[2] == ABSENT || mode[2] == epoch) }   /* H2 */
	:: else -> break
	od;
#if SCANAT > 0
	/* MARK: a worker scans what is left */
	do
	:: i < TASKS -> atomic { if :: !done[i] -> scan(i) :: else fi; i++ }
	:: atomic { i == TASKS -> i = 0; break }
	od
#endif
}

init {
	atomic {
		state[0] = RUNNING; state[1] = RUNNING; count = 2;
		stk[0] = 0;
#if TASKS > 1
		stk[1] = 1;
#else
		stk[1] = NONE; state[1] = BLOCKED;
#endif
		stk[2] = NONE;
#if TASKS > 2
		queued[2] = 1;
#endif
		reg[0] = NONE; reg[1] = NONE; reg[2] = NONE;
		run Thread(0, TURNS); run Thread(1, TURNS);
#ifdef HANDON
		run Thread(NONE, TURNS); run Monitor();
#endif
#ifdef LIFE
		run Birth();
#endif
		run Driver()
	}
}
