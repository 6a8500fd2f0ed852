/* collector.pml: a cycle of the collector (docs/design/collector.md) as a model for spin:
   marking, weak references, sweep. The handshake itself (BLOCKED mutators that are taken, handed
   on, born and die) is in collector-handshake.pml; here a handshake is "every mutator answers
   once, at a safepoint of its own", and a mutator that answers for itself or is answered for
   looks the same.

   Two procs, three tasks with two stack slots each, NOBJ objects with one field each, one global
   root slot, a hand-over (slot 1 of a parked task is a value offered, or the place where one is
   awaited), one weak reference, one finalizer; a driver and a worker, both concurrent. Each
   mutator does at most OPS operations, in any order, from a choice of small heaps. Sequentially
   consistent memory; no ephemerons; exact stacks.

   Where it is in the code: Mut: runtime/mut (barrier.c, handshake.c, alloc.c) and the loop of a
   proc (runtime/sched/proc.c); Marker: runtime/gc/mark.c and stacks.c; Driver: cycle.c and
   term.c; Foreign: roots.c. Weak references and finalizers (WEAKREF, FIN) are modelled before
   they are built.

   Run (expect "errors: 0"):
     spin [-D...] -a collector.pml
     cc -O2 -w -DCOLLAPSE -DSAFETY -DNOFAIR -DMEMLIM=8000 -o pan pan.c
     ./pan -m400000
   or run-models, beside this file, which knows bounds and expected results.
   A counterexample:  spin -t -p -g -l [the same -D...] collector.pml
   Too large for a full search:  cc ... -DBITSTATE, not -DCOLLAPSE, then ./pan -m400000 -w34

   Features, any of them together:
     -DALLOC        allocation, white or black, and raw initialising stores
     -DSWITCH       procs park tasks and take others
     -DBITS         the attention bits of a request are raised one after the other, its epoch at
                    once
     -DSPAWN        a task is born in the cycle, of its creator's colour
     -DHAND         values move between parked and running stacks
     -DAMBIG        mutators shade words that are no references
     -DFOREIGN      a thread that answers no handshake shades a global root
     -DWEAKREF      a weak reference; with -DFIN also a finalizer
     -DWEAK_ABORT   in WEAK_PENDING a weak read of an unmarked target does not wait: it sets the
                    phase back to MARK and begins again
     -DSWEEP        a new generation, and sweeping; with -DEARLYSWEEP also on demand, from a
                    mutator's own RESET on
     -DCYCLES=n     so many cycles (SWEEP)
     -DOVERFLOW     a full buffer is published at any time
     -DFINE         every shared access is a step of its own
   Bounds:  -DOPS=n -DOPS1=n (mutator 0, 1) -DNOBJ=n -DNALIVE=n -DROUNDS=n (clean rounds; as
            built: 1)
   Savings: -DNOT2 (no third task) -DSTOP (no operation begins after marking is complete);
            -DINITBIG: more heaps to start from

   Checked:
     S1  nothing reachable is freed, or unmarked when marking is declared complete
     S2  no grey object then, and by a reference none appears later
     S3  a weak read gives no freed object, null only for what is unreachable, and never the
         object after null
     S4  no shade sets a bit in a swept span
     S5  no object survives whose field refers to one that is freed
     no deadlock

   Steps of the protocol, and what is lost without them (each gives an error; add pan's -E, to see
   the assertion and not the stuck driver; run-models has the other switches that each of them
   wants):
     -DNO_DEL       no deletion barrier
     -DNO_INS       no insertion barrier in ROOTS
     -DNO_NOP1      no NOP handshake before SCAN
     -DONE_NOP      only one. A store that began after its mutator's NOP may have read the old
                    value before another mutator's last store without barrier, and overwrite that
                    one after the other's SCAN: what it removes is shaded by nobody. A second NOP
                    parts the two.
     -DXCHG         the store is an exchange, and what it gives is shaded after it. Then a value
                    is out of the heap before it is shaded, so one clean round is not enough: an
                    error with -DROUNDS=1, none with -DROUNDS=2
     -DSTALE_OLD    the old value that the barrier shades was read before a safepoint
     -DNO_SWITCHSCAN    a black proc runs an unscanned task as it is
     -DEAGER_SWITCHSCAN a proc before its own SCAN scans what it takes, and counts it as scanned
     -DNO_REPOLL    a proc polls, then takes a task. A task scanned on one proc runs on another
                    that has not had its SCAN, allocates white there and parks, still counted as
                    scanned. The poll must come between taking the task and running it. (Or a proc
                    before its SCAN makes each task that it runs unscanned again: -DNO_REPOLL
                    -DUNSCAN)
     -DPOLL_BIT     (BITS) that poll looks at the proc's attention bit, which may come late, and
                    not at the epoch: the same loss
     -DBORNALWAYS   (SPAWN) a task is always born scanned
     -DNO_HANDSHADE (HAND) what moves between stacks is not shaded
     -DNO_WPEND     (WEAKREF) no WEAK_PENDING before WEAK
     -DIGNOREFAIL   (WEAK_ABORT) a weak read that could not swap the phase back goes on as if it
                    had
     -DNO_RECHECK   (FIN) a weak read does not read the reference again after the mark: it was
                    read, then cleared, its target marked for a finalizer, then the mark is read:
                    the object is returned after others got null
     -DNO_NOP7      (EARLYSWEEP) no handshake between OFF and RESET. Where nobody sweeps before
                    every mutator has had its RESET, that one does the same
     -DNO_TAKEBACK  (AMBIG) what was greyed after the last FLUSH is not taken back at OFF: an
                    object that nobody can reach stays marked, and its children are freed
     -DNO_ROOTLOCK  (FOREIGN) the driver steps to WEAK and OFF without the lock under which such a
                    thread reads the phase, shades and publishes
     -DOFFWHITE     (SWEEP) white again from OFF on, not from RESET on
     -DEARLYGEN     (SWEEP) a mutator takes memory of the new generation before its own RESET
   A reading that is right, too: -DTRACE_EARLY (workers trace already in ROOTS, with exact
   stacks). */

/* Work may move after the last round: so the driver looks once more, under ROOTS. It always does;
   where nothing can move the model saves the step. */
#if defined(FOREIGN) || defined(OVERFLOW)
#define LASTLOOK
#endif

/* ---- bounds ---------------------------------------------------------------- */
#ifndef NOBJ
#define NOBJ 3               /* objects 1..NOBJ; 0 is null, and fld[0] is the global root slot */
#endif
#ifndef NALIVE
#define NALIVE 2             /* objects allocated at the start; the others are free */
#endif
#ifndef OPS
#define OPS 3                /* operations of mutator 0 */
#endif
#ifndef OPS1
#define OPS1 OPS             /* operations of mutator 1 */
#endif
#ifndef ROUNDS
#define ROUNDS 2             /* clean FLUSH rounds before WEAK_PENDING is tried */
#endif
#ifndef CYCLES
#define CYCLES 1
#endif
#ifdef SPAWN
#define INITSC (born -> 0 : 4)
#else
#define INITSC TSC0
#endif
#define NT   3               /* tasks; each has two stack slots */
#define NONE 7

/* phase word */
#define OFF   0
#define ROOTS 1
#define MARK  2
#define WPEND 3
#define WEAK  4
/* callbacks */
#define NOP   1
#define SCAN  2
#define FLUSH 3
#define TOOFF 4               /* HG_REQ_OFF */
#define RESET 5

/* granularity: with FINE every shared access is a step of its own, otherwise neighbours that the
   mutator makes before its next safepoint are joined where their order matters to nobody */
#ifdef FINE
#define SPLIT }; atomic {
#else
#define SPLIT ;
#endif

#define B(o)     (1 << (o))
#define S0       stk[cur[m]*2]
#define S1       stk[cur[m]*2+1]
#ifdef NOT2
#define TSC0     4           /* without the third task */
#else
#define TSC0     0
#endif
#define ASKED    (req != 0 && !(ackd & B(m)))   /* what the epoch says */
#ifdef BITS
#define PENDING  (ASKED && (raised & B(m)))     /* what the bit says */
#else
#define PENDING  ASKED
#endif
#define SHADES(p) ((p) != OFF && (p) != WEAK)   /* hg__shades */
#define ISBLACK  (black & B(m))
#ifdef SPAWN
bool born;
#define PARKED(k)    (cur[0] != (k) && cur[1] != (k) && ((k) != 2 || born))
#else
#define PARKED(k)    (cur[0] != (k) && cur[1] != (k))
#endif
#define UNSCANNED(k) (PARKED(k) && !(tsc & B(k)))
#define CANRUN(k)    (PARKED(k) && sclm != (k) && !(hclm & B(k))) /* nothing holds it */
#define CANHAND(k)   (PARKED(k) && !(hclm & B(k)))              /* may race with a worker's scan */
#define CANTAKE(k)   (CANHAND(k) && stk[(k)*2+1] != 0)
#define CANGIVE(k)   (CANHAND(k) && stk[(k)*2+1] == 0)

/* an operation may begin: stores, hand-overs and weak reads even before the cycle does (they may
   then be under way with the old phase when it begins); the others only after, as before it they
   would only make another heap to start from */
#ifdef STOP
#define GOING    (!complete) /* to save states: look at nothing after marking is complete */
#else
#define GOING    true
#endif
#ifdef WEAKREF
#define CANBEGIN (n > 0 && GOING && !wait)
#else
#define CANBEGIN (n > 0 && GOING)
#endif
#define CANOP    (CANBEGIN && started)

#ifdef NO_GLOB
#define CANNAME  (S0 != 0 || S1 != 0)
#else
#define CANNAME  true
#endif

/* ---- variants: see the header ------------------------------------------------- */
#ifdef NO_SWITCHSCAN
#define SWITCHSCAN false
#else
#ifdef EAGER_SWITCHSCAN
#define SWITCHSCAN (phase != OFF)
#else
#define SWITCHSCAN ISBLACK
#endif
#endif
#ifdef POLL_BIT
#define TAKEPOLL PENDING
#else
#define TAKEPOLL ASKED
#endif
#ifdef NO_REPOLL
#define REPOLL true
#else
#define REPOLL (!TAKEPOLL)   /* the poll comes after the task was taken from its queue */
#endif
#ifdef OFFWHITE
#define ALLOCBLACK (ISBLACK && phase != OFF)
#else
#define ALLOCBLACK ISBLACK
#endif
#ifdef TRACE_EARLY
#define TRACING (phase != OFF)
#else
#define TRACING (phase == MARK || phase == WPEND)
#endif

/* ---- heap ---------------------------------------------------------------------- */
byte fld[NOBJ+1];            /* the one field of each object; [0]: the global root slot */
byte alive = 1;              /* bit o: allocated */
byte marks = 1;              /* bit o: marked; bit 0 stays set, so that shading null is nothing */
#ifdef SWEEP
byte swept = 255;            /* bit o: the span of o (each has its own) is swept */
bool sweepopen;              /* a sweep generation is open, and the phase is OFF */
#endif
#ifdef WEAKREF
byte wk;                     /* the weak reference */
bool nullseen;               /* ghost: some weak read has answered null */
bool tgone;                  /* ghost: the target is freed, or a finalizer has it */
#define WTARGET 2            /* ghost: what wk held at first */
#endif

/* ---- tasks and mutators ----------------------------------------------------------- */
byte stk[NT*2];              /* slot 1 of a parked task is also its side of a hand-over */
#ifdef ALLOC
byte fresh[NT];              /* an object of the task that is neither published nor initialised */
#endif
byte tsc;                    /* bit k: stack of task k is scanned this cycle */
byte cur[2];                 /* task that proc m runs, or NONE */
byte sclm = NONE;            /* parked task whose stack a worker is scanning */
byte hclm;                   /* bit k: parked task that a hand-over holds (the channel's lock) */
byte black;                  /* bit m: mutator m is past its SCAN: allocates black */
#ifdef OVERFLOW
byte shd;                    /* bit m: mutator m shaded since its last FLUSH (else: buf[m] != 0) */
#endif
byte buf[2];                 /* grey objects of mutator m, not yet published */

/* ---- driver and workers -------------------------------------------------------------- */
byte phase;                  /* hg_marking */
byte req, ackd;              /* handshake: callback wanted; bit m: mutator m has stamped */
#ifdef BITS
byte raised;                 /* bit m: the attention bit of mutator m is up */
#endif
#ifdef FOREIGN
bool rootlock;               /* lock ROOTS */
byte sink;                   /* grey objects of a thread that is no mutator, not yet published */
#endif
bool dirty;                  /* in a round: an answer was "dirty", or work has moved */
byte q;                      /* shared queue of grey objects */
byte held;                   /* grey object that the marker holds */
bool complete;               /* ghost: marking was declared complete (until the next cycle) */
bool started;                /* ghost */

hidden byte r, k;            /* scratch */

inline reach() {             /* r = objects reachable from stacks and the global root */
	r = 1 | B(fld[0]) | B(stk[0]) | B(stk[1]) | B(stk[2]) | B(stk[3]) | B(stk[4]) | B(stk[5]);
	k = 0;
	do
	:: k < NOBJ*NOBJ ->
		if :: r & B(1 + k%NOBJ) -> r = r | B(fld[1 + k%NOBJ]) :: else fi;
		k++
	:: else -> break
	od;
	k = 0
}

inline setmark(o) {
#ifdef SWEEP
	assert(!(sweepopen && (swept & B(o))));  /* S4: no late shade sets a bit in a swept span */
#endif
	assert(!complete);                       /* S2: no grey object appears after completion */
	marks = marks | B(o)
}
inline shade(o) {            /* by mutator m */
	if
	:: !(marks & B(o)) ->
		setmark(o); buf[m] = buf[m] | B(o);
#ifdef OVERFLOW
		shd = shd | B(m)
#endif
	:: else
	fi
}
inline shadeq(o) {           /* by the driver or a worker */
	if
	:: !(marks & B(o)) -> setmark(o); q = q | B(o)
	:: else
	fi
}

#ifdef LASTLOOK
inline moved() { dirty = 1 }                 /* the driver looks at it once more after the round */
#else
inline moved() { dirty = (req == FLUSH) }    /* only a round's watcher looks at it */
#endif

/* the callback, at a safepoint of m. (For a BLOCKED mutator the driver runs it: that is the same
   here, as a mutator that does nothing but answer looks the same) */
inline callback() {
	if
	:: req == SCAN ->
		if
		:: cur[m] != NONE -> shade(S0); shade(S1); tsc = tsc | B(cur[m])
		:: else
		fi;
		black = black | B(m)
	:: req == FLUSH ->
		if
#ifdef OVERFLOW
		:: shd & B(m) -> dirty = 1
#endif
		:: buf[m] != 0 -> dirty = 1
		:: else
		fi;
		q = q | buf[m]; buf[m] = 0;
#ifdef OVERFLOW
		shd = shd & ~B(m)
#endif
	:: req == TOOFF ->            /* what was greyed since the last FLUSH */
#ifdef AMBIG
#ifndef NO_TAKEBACK
		marks = marks & ~buf[m]; buf[m] = 0
#else
		skip
#endif
#else
		assert(buf[m] == 0)
#endif
	:: req == RESET -> black = black & ~B(m)
	:: else
	fi;
	ackd = ackd | B(m)
}

#ifdef AMBIG
/* any allocated object, by a word that is no reference to it */
inline shade_any(o) {
#ifdef SWEEP
	assert(!(sweepopen && (swept & B(o))));  /* S4 */
#endif
	if
	:: !(marks & B(o)) ->
		marks = marks | B(o); buf[m] = buf[m] | B(o);
#ifdef OVERFLOW
		shd = shd | B(m)
#endif
	:: else
	fi
}
#endif

inline pickloc() {           /* x = a field (or the global root) that the running task can name */
	if
#ifndef NO_GLOB
	:: x = 0
#endif
	:: S0 != 0 -> x = S0
	:: S1 != 0 && S1 != S0 -> x = S1
	fi
}

#ifdef SWEEP
/* sweep the span of o; S1 */
inline sweep(o) {
	if
	:: (alive & B(o)) && !(marks & B(o)) ->
		reach();
		assert(!(r & B(o)));
#ifdef WEAKREF
		assert(wk != o);
#endif
#ifdef WEAKREF
		if :: o == WTARGET -> tgone = 1 :: else fi;
#endif
		k = 1;                                   /* S5: what refers to it dies too */
		do
		:: k <= NOBJ ->
			assert(!((alive & B(k)) && k != o && fld[k] == o && ((swept | marks) & B(k))));
			k++
		:: else -> break
		od;
		k = 0;
		alive = alive & ~B(o); fld[o] = 0
	:: else
	fi;
	marks = marks & ~B(o); swept = swept | B(o)
}
/* the free slot o is in a span that mutator (o&1) may have cached: before its RESET only that one
   takes from it, and nobody sweeps it */
#define CACHED(o)   (!(alive & B(o)) && (black & B((o)&1)))
#ifdef EARLYGEN
#define CANALLOC(o) (!(alive & B(o)) && \
	(!sweepopen || (ISBLACK && !(swept & B(o)) && ((o)&1) == m) || \
	(swept & B(o))))
#else
#define CANALLOC(o) (!(alive & B(o)) && \
	(!sweepopen || (ISBLACK && !(swept & B(o)) && ((o)&1) == m) || \
	(!ISBLACK && (swept & B(o)))))
#endif
#else
#define CANALLOC(o) (!(alive & B(o)))
#endif

proctype Mut(byte m; byte n)
{
	byte ph, x, v, t;
#ifdef WEAKREF
	bool wait;
#endif

top:
end:
	if
	/* ---- safepoint ---- */
	:: atomic { PENDING -> callback() }; goto top

#ifdef OVERFLOW
	/* ---- the buffer is full: publish it ---- */
	:: atomic { buf[m] != 0 -> q = q | buf[m]; buf[m] = 0; moved() }; goto top
#endif

	/* ---- load a field into a slot ---- */
	:: atomic {
		CANOP && CANNAME -> n--;
		pickloc();
		assert(alive & B(x));
		if :: S0 = fld[x] :: S1 = fld[x] fi;
		x = 0
	   }; goto top

	/* ---- drop a slot ---- */
	:: atomic {
		CANOP && (S0 != 0 || S1 != 0) -> n--;
		if :: S0 != 0 -> S0 = 0 :: S1 != 0 -> S1 = 0 fi
	   }; goto top

	/* ---- store a slot (or null) into a field ---- */
	:: atomic {
		CANBEGIN && CANNAME -> n--;
		pickloc();
		if :: v = 0 :: S0 != 0 && S0 != x -> v = S0 :: S1 != 0 && S1 != S0 && S1 != x -> v = S1 fi;
		ph = phase
	   };
#ifdef STALE_OLD             /* the old value was read before a safepoint */
	   atomic { t = fld[x] };
	   do :: atomic { PENDING -> callback() } :: atomic { ph = phase; break } od;
#endif
#ifndef XCHG
	   if
	   :: atomic { SHADES(ph) ->
#ifdef NO_DEL
		skip
#else
#ifndef STALE_OLD
		t = fld[x]                                   /* read the old value ... */
#endif
		SPLIT shade(t); t = 0                        /* ... shade it (deletion barrier) ... */
#endif
		SPLIT
#ifndef NO_INS
		if :: ph == ROOTS -> shade(v) :: else fi;    /* ... in ROOTS also the new one ... */
#endif
		ph = OFF }
	   :: else
	   fi;
	   atomic {
		assert(alive & B(x));
		fld[x] = v; t = 0;                           /* ... and store */
#ifdef ALLOC
		if :: fresh[cur[m]] == v -> fresh[cur[m]] = 0 :: else fi;
#endif
		x = 0; v = 0; ph = 0
	   }; goto top
#else /* the store is an exchange, and what it gives is shaded after it */
	   atomic {
		if :: ph == ROOTS -> shade(v) :: else fi
	   };
	   atomic {
		assert(alive & B(x));
		t = fld[x]; fld[x] = v;
#ifdef ALLOC
		if :: fresh[cur[m]] == v -> fresh[cur[m]] = 0 :: else fi;
#endif
		x = 0; v = 0
	   };
	   atomic { if :: SHADES(ph) -> shade(t) :: else fi; t = 0; ph = 0 }; goto top
#endif

#ifdef AMBIG
	/* ---- shade a word that may be anything: padding of a value, a conservative slot ---- */
	:: atomic { CANBEGIN -> n--; ph = phase };
	   atomic {
		if
		:: SHADES(ph) && (alive & B(1)) -> shade_any(1)
		:: SHADES(ph) && (alive & B(2)) -> shade_any(2)
#if NOBJ > 2
		:: SHADES(ph) && (alive & B(3)) -> shade_any(3)
#endif
		:: else
		fi;
		ph = 0
	   }; goto top
#endif

#ifdef ALLOC
	/* ---- allocate ---- */
	:: atomic {
		CANOP && (CANALLOC(NOBJ) || CANALLOC(NOBJ-1)) -> n--;
		if :: CANALLOC(NOBJ) -> x = NOBJ :: else -> x = NOBJ-1 fi;
		alive = alive | B(x);
		if
		:: ALLOCBLACK -> marks = marks | B(x)
		:: else -> assert(!(marks & B(x)))
		fi;
		if :: S0 = x :: S1 = x fi;
		fresh[cur[m]] = x; x = 0
	   }; goto top
	/* ---- its initialising store, raw ---- */
	:: atomic {
		started && fresh[cur[m]] != 0 && S0 != S1 && S0 != 0 && S1 != 0 &&
			(S0 == fresh[cur[m]] || S1 == fresh[cur[m]]) ->
		if :: S0 != fresh[cur[m]] -> fld[S1] = S0 :: else -> fld[S0] = S1 fi;
		fresh[cur[m]] = 0
	   }; goto top
#endif

#ifdef HAND
	/* ---- take the value of a parked giver ---- */
	:: atomic {
		CANBEGIN && (CANTAKE(0) || CANTAKE(1) || CANTAKE(2)) -> n--;
		if :: CANTAKE(0) -> x = 0 :: CANTAKE(1) -> x = 1 :: CANTAKE(2) -> x = 2 fi;
		hclm = hclm | B(x);
		ph = phase
		SPLIT
#ifndef NO_HANDSHADE
		if :: SHADES(ph) -> shade(stk[x*2+1]) :: else fi;
#endif
		ph = 0 };
	   atomic {
		if :: S0 = stk[x*2+1] :: S1 = stk[x*2+1] fi;
		stk[x*2+1] = 0; hclm = hclm & ~B(x);
#ifdef ALLOC
		fresh[x] = 0;
#endif
		x = 0
	   }; goto top
	/* ---- give a value to a parked taker ---- */
	:: atomic {
		CANBEGIN && (S0 != 0 || S1 != 0) && (CANGIVE(0) || CANGIVE(1) || CANGIVE(2)) -> n--;
		if :: CANGIVE(0) -> x = 0 :: CANGIVE(1) -> x = 1 :: CANGIVE(2) -> x = 2 fi;
		if :: S0 != 0 -> v = S0 :: S1 != 0 && S1 != S0 -> v = S1 fi;
		hclm = hclm | B(x);
		ph = phase
		SPLIT
#ifndef NO_HANDSHADE
		if :: SHADES(ph) -> shade(v) :: else fi;
#endif
		ph = 0 };
	   atomic {
		stk[x*2+1] = v; hclm = hclm & ~B(x);
#ifdef ALLOC
		if :: fresh[cur[m]] == v -> fresh[cur[m]] = 0 :: else fi;
#endif
		x = 0; v = 0
	   }; goto top
#endif

#ifdef EARLYSWEEP
	/* ---- sweep on demand, as soon as this mutator has had its RESET ---- */
	:: atomic {
		sweepopen && !ISBLACK && !(swept & B(2)) && !CACHED(2) -> sweep(2)
	   }; goto top
	:: atomic {
		sweepopen && !ISBLACK && !(swept & B(NOBJ)) && !CACHED(NOBJ) -> sweep(NOBJ)
	   }; goto top
#endif

#ifdef WEAKREF
	/* ---- weak read ---- */
	:: atomic { CANBEGIN -> n--; ph = phase }; goto weakread
	:: atomic { wait && phase != WPEND -> wait = 0; ph = phase }; goto weakread
#endif

#ifdef SPAWN
	:: atomic { CANOP && !born && (S0 != 0 || S1 != 0) -> n--;
		if :: S0 != 0 -> v = S0 :: S1 != 0 -> v = S1 fi;
		if :: SHADES(phase) -> shade(v) :: else fi;
		stk[4] = v; stk[5] = 0; v = 0;
		if
#ifdef BORNALWAYS
		:: true -> tsc = tsc | 4
#else
		:: ISBLACK -> tsc = tsc | 4
		:: else -> tsc = tsc & ~4
#endif
		fi;
#ifdef BORNUNSC
		tsc = tsc & ~4; moved();
#endif
		born = 1 }; goto top
#endif
#ifdef SWITCH
	/* ---- park the running task, go to the scheduler ---- */
	:: atomic { CANOP -> n--; cur[m] = NONE }; goto sched
#endif
	fi;

#ifdef SWITCH
sched:
	if
	:: atomic { PENDING -> callback() }; goto sched
#ifdef BITS
	:: atomic { TAKEPOLL -> callback() }; goto sched   /* poll_taken */
#endif
	:: atomic {
		REPOLL && (CANRUN(0) || CANRUN(1) || CANRUN(2)) ->
		if :: CANRUN(0) -> x = 0 :: CANRUN(1) -> x = 1 :: CANRUN(2) -> x = 2 fi;
		cur[m] = x; x = 0;
#ifdef UNSCAN
		if :: !ISBLACK -> tsc = tsc & ~B(cur[m]) :: else fi;
#endif
		if
		:: SWITCHSCAN && !(tsc & B(cur[m])) -> shade(S0); shade(S1); tsc = tsc | B(cur[m])
		:: else
		fi
	   }; goto top
	fi;
#endif

#ifdef WEAKREF
weakread:
	atomic { t = wk };
	if
	:: atomic { ph == OFF -> skip }
	:: atomic { ph == ROOTS || ph == MARK -> shade(t) }
#ifdef WEAK_ABORT
	/* instead of waiting: take the phase back to MARK, then shade */
#ifdef IGNOREFAIL
	:: atomic { ph == WPEND && !(marks & B(t)) -> skip };
	   atomic { if :: phase == WPEND -> phase = MARK :: else fi; shade(t) }
#else
:: atomic { ph == WPEND && !(marks & B(t)) -> t = 0;
		if :: phase == WPEND -> phase = MARK :: else fi; ph = phase }; goto weakread
#endif
#else
	:: atomic { ph == WPEND && !(marks & B(t)) -> wait = 1; ph = 0; t = 0 }; goto top
#endif
	:: atomic { ph == WEAK && !(marks & B(t)) -> t = 0 }
	:: atomic { (ph == WPEND || ph == WEAK) && (marks & B(t)) -> skip };
#ifndef NO_RECHECK
	   atomic { t = wk }         /* it counts only if the reference still holds it */
#endif
	fi;
	atomic {
		if
		:: t != 0 ->
			assert(!nullseen);               /* S3: never the object after null */
			assert(alive & B(t));            /* S3: never a freed object */
			if :: S0 = t :: S1 = t fi
		:: else ->
			nullseen = 1;
			reach();                         /* S3: null only for what is unreachable */
			assert(tgone || !(r & B(WTARGET)))
		fi;
		t = 0; ph = 0
	};
	goto top
#endif
}

/* ---- a worker: traces, and scans parked stacks --------------------------------------- */
proctype Marker()
{
	byte c;
end:
	do
	:: atomic {
		TRACING && q != 0 ->
		if
		:: q & B(1) -> held = 1
		:: q & B(2) -> held = 2
#if NOBJ > 2
		:: q & B(3) -> held = 3
#endif
#if NOBJ > 3
		:: q & B(4) -> held = 4
#endif
		fi;
		q = q & ~B(held); moved()
	   };
	   atomic { c = fld[held] SPLIT shadeq(c); c = 0; held = 0 }
	:: atomic {
		(phase == MARK || phase == WPEND) && (UNSCANNED(0) || UNSCANNED(1) || UNSCANNED(2)) ->
		if
		:: UNSCANNED(0) -> sclm = 0
		:: UNSCANNED(1) -> sclm = 1
		:: UNSCANNED(2) -> sclm = 2
		fi;
		moved()
		SPLIT shadeq(stk[sclm*2]) };
	   atomic { shadeq(stk[sclm*2+1]); tsc = tsc | B(sclm); sclm = NONE }
	od
}

#ifdef FOREIGN
/* a thread that is no mutator, and answers no handshake, shades what a global root holds */
proctype Foreign()
{
	byte ph, x;
end:
	atomic { started && !rootlock -> rootlock = 1; ph = phase };
	if
	:: SHADES(ph) ->
		atomic { x = fld[0]; if :: !(marks & B(x)) -> setmark(x); sink = B(x) :: else fi; x = 0 };
		atomic { if :: sink != 0 -> q = q | sink; sink = 0; moved() :: else fi }
	:: else
	fi;
	atomic { rootlock = 0; ph = 0 }
}
#endif

#define IDLEWORK (q == 0 && held == 0 && sclm == NONE && (tsc & 7) == 7)

/* every mutator has stamped (the request is cleared in the same step: nobody sees that) */
#define STAMPED  ackd == 3 -> req = 0; ackd = 0
#ifdef BITS
#define ASK(kind) ackd = 0; req = kind; raised = 0
#define RAISE    ; if :: raised = 1 :: raised = 2 fi; raised = 3
#else
#define ASK(kind) ackd = 0; req = kind
#define RAISE
#endif
#if defined(FOREIGN) && !defined(NO_ROOTLOCK)
#define ROOTSFREE !rootlock
#else
#define ROOTSFREE true
#endif

proctype Driver()
{
	byte c = 0, cyc = 0;

cycle:
	/* 1 */
	atomic { phase = ROOTS; started = 1; complete = 0; tsc = INITSC;
#ifdef SWEEP
		 sweepopen = 0;
#endif
#ifdef NO_NOP1
		 skip };
	atomic { skip;
#else
		 ASK(NOP) } RAISE;
#ifndef ONE_NOP
	atomic { STAMPED; ASK(NOP) } RAISE;      /* the second one: flaw 1 in the header */
#endif
	atomic { STAMPED;
#endif
	/* 2 */
		 c = fld[0] SPLIT shadeq(c); c = 0 };
	atomic { ASK(SCAN) } RAISE;
	atomic { STAMPED; phase = MARK };        /* 3 */
tomark:
	/* 4 */
	do
	:: atomic { IDLEWORK && c < ROUNDS -> dirty = 0; ASK(FLUSH) } RAISE;
	   atomic { STAMPED;
		if :: dirty || !IDLEWORK -> c = 0 :: else -> c++ fi
#ifndef LASTLOOK
		; dirty = 0
#endif
		}
	:: atomic { c == ROUNDS -> c = 0; break }
	od;
#if defined(WEAKREF) && !defined(NO_WPEND)
	/* 5 */
	atomic { phase = WPEND; dirty = !IDLEWORK; ASK(FLUSH) } RAISE;
	atomic { STAMPED;
		if
		:: dirty || !IDLEWORK -> dirty = 0; phase = MARK; goto tomark
#ifdef WEAK_ABORT
		:: !dirty && IDLEWORK && phase != WPEND -> goto tomark
#endif
		:: else
		fi
#else
	atomic { skip
#endif
#ifdef LASTLOOK
	};
	atomic { ROOTSFREE ->         /* the last look, under ROOTS */
		if
		:: dirty || !IDLEWORK -> dirty = 0; phase = MARK; goto tomark
#ifdef WEAK_ABORT
		:: !dirty && IDLEWORK && phase != WPEND -> dirty = 0; goto tomark /* the swap fails */
#endif
		:: else
		fi
#endif
		;
		phase = WEAK;
		complete = 1;
		assert(q == 0 && held == 0);                                 /* S2 */
#ifndef AMBIG
		assert(buf[0] == 0 && buf[1] == 0);
#endif
#ifdef FOREIGN
		assert(sink == 0);
#endif
		reach();
		assert((r & ~marks) == 0)                                    /* S1, early */
	};
#ifdef WEAKREF
	/* 6 */
	if
	:: atomic { !(marks & B(wk)) -> skip };
	   wk = 0
	:: else
	fi;
#ifdef FIN
	/* object 1 has a finalizer: trace from it, then queue it (here: into the global root) */
	if
	:: atomic { !(marks & B(1)) -> c = 1 };
	   do
	   :: atomic { !(marks & B(c)) ->
		marks = marks | B(c);
		if :: c == WTARGET -> tgone = 1 :: else fi;
		c = fld[c] }
	   :: else -> break
	   od;
	   atomic { c = 0; fld[0] = 1 }
	:: else
	fi;
#endif
#endif
#ifdef SWEEP
	/* 7 */
#ifdef NO_NOP7
	phase = OFF;
	atomic { skip;
#else
	atomic { ROOTSFREE -> phase = OFF; ASK(TOOFF) } RAISE;
	atomic { STAMPED;
#if defined(AMBIG) && !defined(NO_TAKEBACK)
		marks = marks & ~q; q = 0;               /* what overflowed since the last FLUSH */
#endif
#endif
	/* 8 */
		swept = 1; sweepopen = 1; ASK(RESET) } RAISE;
	atomic { STAMPED; c = 1 };
	/* 9 */
	do
	:: atomic { c <= NOBJ -> if :: !(swept & B(c)) -> sweep(c) :: else fi; c++ }
	:: atomic { c > NOBJ -> c = 0; break }
	od;
	if
	:: atomic { cyc < CYCLES - 1 -> cyc++ }; goto cycle
	:: else
	fi;
#endif
	skip
}

init {
	atomic {
		/* a choice of small heaps and stacks */
		fld[0] = 1;
		if :: fld[1] = 0 :: fld[1] = 2 fi;
		if :: stk[0] = 0 :: stk[0] = 2 fi;
		if :: stk[2] = 0 :: stk[2] = 2 fi;
#ifndef NOT2
#ifndef SPAWN
		if :: stk[5] = 0 :: stk[5] = 2 fi;
#endif
#endif
#ifdef FIN
		if :: fld[0] = 0 :: stk[1] = 1 fi;   /* object 1 may be dead at the start */
#else
		stk[1] = 1; stk[3] = 1;
#endif
#ifdef INITBIG
		if :: skip :: fld[0] = 0 fi;
		if :: skip :: stk[1] = 0 fi;
		if :: skip :: stk[3] = 0 fi;
#ifndef NOT2
		if :: skip :: stk[4] = 1 fi;
#endif
#endif
		k = 1;
		do :: k <= NALIVE -> alive = alive | B(k); k++ :: else -> break od;
		k = 0;
		cur[0] = 0; cur[1] = 1;
#ifdef WEAKREF
		wk = WTARGET;
#endif
		run Mut(0, OPS); run Mut(1, OPS1); run Marker(); run Driver();
#ifdef FOREIGN
		run Foreign()
#endif
	}
}
