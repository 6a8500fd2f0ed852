/* collector-stacks.pml: that marking does not end before every stack is scanned: claims, pieces and
 * the pass over the registry in runtime/gc/stacks.c, and the looks of runtime/gc/term.c.
 *
 * All mutators are black. Workers make passes over the registry, one entry at a time, and scan one
 * piece of what they can claim; takers, which no pass knows of, do the same to any stack, as procs do
 * that took its task from a queue. The watcher looks twice for work, with the same activity. (The
 * FLUSH between the two looks is left out: the scans of takers are quiet in it if nothing is left to
 * mark, and it is a wait only.)
 *
 * Checked: when the watcher has seen nothing, every stack is scanned. Spin's memory is sequentially
 * consistent, as the runtime's orders on these words are.
 *
 * Runtime: Worker: hg__mark_some, hg__scan_stacks; scan_piece: claim, scan_claimed; Taker:
 * hg__scan_switch_in; Watcher: flush_round.
 *
 * Sizes: STACKS, PIECES (of each stack), WORKERS, TAKERS, TAKES (of each taker), ROUNDS (of each
 * worker).
 * Left out, each to be found: PARTLY_ONLY (a worker goes on if the word, read after its own piece, is
 * other than PARTLY: a taker has it), CLAIMED_IS_DONE (likewise for a stack that it cannot claim),
 * DEEP_LATE (what is left is noted after the entry was counted), CURSOR_FIRST (a new pass is opened
 * before its count is cleared), NO_COUNT (workers are not counted). run-models has them all.
 */
#ifndef STACKS
#define STACKS 2
#endif
#ifndef PIECES
#define PIECES 2
#endif
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef TAKERS
#define TAKERS 1
#endif
#ifndef TAKES
#define TAKES 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif

#define FRESH   0
#define CLAIMED 1
#define DONE    2
#define PARTLY  3

byte word[STACKS], left[STACKS] = PIECES; /* hg_stack.scan; pieces beyond scan_at */
byte cursor, done;                        /* hg_gc.scan_cursor, scans_done; scan_end is STACKS */
bool deep;
byte workers;
bool moved;                               /* activity has changed since the watcher's first look */

/* claim and scan_claimed: one piece, if it can be had */
inline scan_piece(i) {
    if
    :: atomic { word[i] == FRESH || word[i] == PARTLY -> word[i] = CLAIMED };
        left[i]--;
        if
        :: left[i] == 0 -> word[i] = DONE
        :: else -> word[i] = PARTLY
        fi;
        mine = true
    :: atomic { word[i] == CLAIMED || word[i] == DONE -> mine = false }
    fi
}

/* scan_entry's last look */
inline look(i) {
#ifdef PARTLY_ONLY
    again = (mine -> word[i] == PARTLY : word[i] != DONE)
#else
#ifdef CLAIMED_IS_DONE
    again = word[i] != DONE && word[i] != CLAIMED
#else
    again = word[i] != DONE
#endif
#endif
}

inline note() {
    if
    :: again -> deep = true
    :: else
    fi
}

inline arm_again() {
    atomic { was = deep; deep = false };
    if
    :: was ->
#ifdef CURSOR_FIRST
        cursor = 0;
        done = 0
#else
        done = 0;
        cursor = 0
#endif
    :: else
    fi
}

active [WORKERS] proctype Worker()
{
    byte at, n, rounds = ROUNDS;
    bool mine, again, was;
    do
    :: cursor < STACKS ->
#ifndef NO_COUNT
        workers++;
#endif
        moved = true;
        do
        :: cursor < STACKS ->
            atomic { at = cursor; cursor = (cursor < STACKS -> cursor + 1 : cursor) };
            if
            :: at >= STACKS -> break
            :: else
            fi;
            scan_piece(at);
            look(at);
#ifndef DEEP_LATE
            note();
#endif
            atomic { done++; n = done; mine = false };
#ifdef DEEP_LATE
            note();
#endif
            if
            :: n == STACKS -> arm_again()
            :: else
            fi;
            atomic { n = 0; at = 0; again = false; was = false };
            if
            :: rounds > 0 -> rounds--; break /* its time is over */
            :: true
            fi
        :: else -> break
        od;
#ifndef NO_COUNT
        workers--
#endif
    :: else -> break /* if it is wanted later, that is another worker's round */
    od
}

active [TAKERS] proctype Taker()
{
    byte i, takes = TAKES;
    bool mine;
    do
    :: takes > 0 ->
        takes--;
        select (i : 0 .. STACKS - 1);
        scan_piece(i);
        atomic { mine = false; i = 0 }
    :: takes > 0 -> takes = 0
    :: takes == 0 -> break
    od
}

inline no_work_seen() {
    quiet = workers == 0;
    quiet = quiet && cursor >= STACKS
}

active proctype Watcher()
{
    byte i;
    bool quiet;
    do
    :: true ->
        moved = false;
        no_work_seen();
        if
        :: quiet ->
            no_work_seen();
            if
            :: quiet && !moved -> break
            :: else
            fi
        :: else
        fi
    od;
    do
    :: i < STACKS -> assert(word[i] == DONE); i++
    :: else -> break
    od
}
