/* Sessions, room and pulls of docs/protocol.md, as small as they can be and still go wrong: two ranks
 * of a job that make each step together, two workers with memory for one batch each, one of which may
 * die, and a dispatcher that may lease any lacking step to any living worker. Beside them two
 * trainers that want the same rank, and a dispatcher that may restart between them.
 *
 * Checked by tests/model/run: no deadlock, no broken assertion, and (`finished`, `decided`) both come
 * to their end. -DBUG=1..4 are mistakes that it finds.
 */
#define STEPS 3
#define WINDOW 2                          /* batches that a rank holds or may get */
#define B(r, s) ((r) * STEPS + (s))
#ifndef BUG
#define BUG 0
#endif

byte next[2];                             /* step that the loop takes next */
bool held[6], room[6], built[6], sent[6];
byte lease[6];                            /* 0: none; else its worker + 1 */
byte memory[2];                           /* batches built and not sent */
bool dead[2];                             /* worker 0 may die */

#define IN_WINDOW(r, s) ((s) >= next[r] && (s) < next[r] + WINDOW && (s) < STEPS)
#define LACKS(r, s) (IN_WINDOW(r, s) && !held[B(r, s)])

active proctype Dispatcher() {            /* and every consumer that leases to itself */
  byte r, s, w;
  do
  :: next[0] == STEPS && next[1] == STEPS -> break
  :: else ->
     select(r : 0 .. 1); select(s : 0 .. STEPS - 1); select(w : 0 .. 1);
     if
     :: atomic { LACKS(r, s) && lease[B(r, s)] == 0 && !dead[w] -> lease[B(r, s)] = w + 1 }
     :: else -> skip
     fi
  od
}

active [2] proctype Consumer() {
  byte r = _pid - 1; byte s;
  do
  :: next[r] == STEPS -> break
  :: atomic { next[r] < STEPS && held[B(r, next[r])] && next[r] <= next[1 - r] ->
       held[B(r, next[r])] = false; next[r]++ }
  :: atomic { next[r] < STEPS && LACKS(r, next[r]) && lease[B(r, next[r])] != 0 &&
              !room[B(r, next[r])] -> room[B(r, next[r])] = true }
  :: atomic { next[r] + 1 < STEPS && LACKS(r, next[r] + 1) && lease[B(r, next[r] + 1)] != 0 &&
              !room[B(r, next[r] + 1)] -> room[B(r, next[r] + 1)] = true }
  :: atomic { dead[0] ->                  /* its leases lapse */
       s = 0;
       do
       :: s < STEPS -> if :: lease[B(r, s)] == 1 && !held[B(r, s)] && BUG != 3 ->
                             lease[B(r, s)] = 0; room[B(r, s)] = false
                          :: else fi; s++
       :: else -> break
       od; (next[r] == STEPS || lease[B(r, next[r])] != 1) }
  od
}

active [2] proctype Worker() {
  byte w = _pid - 3; byte r, s, i;
  do
  :: next[0] == STEPS && next[1] == STEPS -> break
  :: atomic { w == 0 && !dead[w] -> dead[w] = true;
       i = 0; do :: i < 6 -> if :: lease[i] == w + 1 -> built[i] = false :: else fi; i++
                 :: else -> break od }; break
  :: select(r : 0 .. 1); select(s : 0 .. STEPS - 1); i = B(r, s);
     if
     :: atomic { lease[i] == w + 1 && !built[i] && !sent[i] && (room[i] || BUG == 1) &&
                 (memory[w] == 0 || (s == next[r] && BUG != 2)) ->      /* the next one first */
          assert(room[i]); built[i] = true; memory[w]++ }
     :: atomic { lease[i] == w + 1 && built[i] -> assert(LACKS(r, s) && !held[i]);
          built[i] = false; memory[w]--; held[i] = true; sent[i] = true }
     :: else -> skip
     fi
  od
}

/* Two trainers want one rank; the old one's messages may come late, and the dispatcher restarts. */
byte number[2];                           /* as a trainer was told at first contact; 0: none */
byte issued; byte live = 2;               /* trainer that holds the rank; 2: none */
byte started; bool ended[2];

active [2] proctype Trainer() {
  byte t = _pid - 5;
  started == t;                           /* trainer 1 begins when trainer 0 has its number */
  byte n;
  do
  :: ended[t] -> break
  :: else ->
     atomic { if :: number[t] == 0 || BUG == 4 -> issued++; n = issued :: else -> n = number[t] fi;
       number[t] = n; started = 1;
       if
       :: live == 2 || live == t -> live = t
       :: else -> if :: number[live] < n -> ended[live] = true; live = t
                     :: else -> ended[t] = true fi
       fi }
     if :: t == 1 && live == 1 -> break :: else -> skip fi    /* the newer one goes on */
     if :: atomic { live != 2 -> live = 2 } :: skip fi        /* a restart forgets who lives */
  od;
  assert(t == 0 || !ended[1])
}

ltl finished { <> (next[0] == STEPS && next[1] == STEPS) }
