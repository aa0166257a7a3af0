/* Sessions, asks and batches of docs/internals/protocol.md, in the smallest form that can still go
 * wrong. Two ranks of a job make each step together. Two workers have memory for one batch each, and
 * one of them may die. A consumer asks any member of its list for a step that it lacks, and a second member
 * for a copy of the step that its loop needs next; what a dead one was asked for is asked anew. With
 * SESSIONS, two trainers want one rank instead, and the dispatcher may restart between them.
 *
 * No state comes twice in a run, so that every run in which nobody gets stuck comes to its end.
 * tests/model/run makes spin look for states in which somebody is stuck, and for assertions that do
 * not hold. BUG=1 to 6 builds a mistake into the model, and spin finds each of them.
 */
#ifndef BUG
#define BUG 0
#endif
#define STEPS 3
#define WINDOW 3                                    /* steps ahead that a rank asks for */
#define B(r, s) ((r) * STEPS + (s))
#define W(w) (1 << (w))

byte place[2];                                      /* step that a rank's loop takes next */
bool held[6];
byte asked[6], built[6];                            /* the workers that are asked for it, have it */
bool copied[6];                                     /* somebody was asked for a copy */
byte memory[2];                                     /* batches built and not sent yet */
bool dead;                                          /* worker 0 has died */

#define LACKS(r, s) (place[r] <= (s) && (s) < place[r] + WINDOW && !held[B(r, s)])
/* A rank has memory for one batch besides the next one. More batches are sent only with credit. */
#define CREDIT(r) (!held[B(r, 0)] && !held[B(r, 1)] && !held[B(r, 2)])
#define OVER (place[0] == STEPS && place[1] == STEPS)

#define ASK(s, w) \
  atomic { LACKS(r, s) && asked[B(r, s)] == 0 && ((w) == 1 || !dead) -> asked[B(r, s)] = W(w) }
#define COPY(w) \
  atomic { place[r] < STEPS && !held[B(r, place[r])] && asked[B(r, place[r])] == W(1 - (w)) && \
           !copied[B(r, place[r])] && !dead -> \
           copied[B(r, place[r])] = true; asked[B(r, place[r])] = 3 }
#define LOST(s) \
  atomic { dead && (asked[B(r, s)] & W(0)) && BUG != 3 -> asked[B(r, s)] = asked[B(r, s)] & W(1) }
proctype Consumer(byte r) {
  do
  :: place[r] == STEPS -> break
  :: atomic { place[r] < STEPS && held[B(r, place[r])] && place[r] <= place[1 - r] ->
              held[B(r, place[r])] = false; place[r]++ }
  :: ASK(0, 0) :: ASK(1, 0) :: ASK(2, 0) :: ASK(0, 1) :: ASK(1, 1) :: ASK(2, 1)
  :: COPY(0) :: COPY(1) :: LOST(0) :: LOST(1) :: LOST(2)
  od
}

/* The batch that a rank needs next is built even if memory is full, and sent even without credit.
 * Of a batch that comes twice the second one is only compared, and a worker forgets what nobody asks
 * of it any more. */
#define BUILD(r, s) \
  atomic { ((asked[B(r, s)] & W(w)) || (BUG == 1 && LACKS(r, s))) && !(built[B(r, s)] & W(w)) && \
           (memory[w] == 0 || ((s) == place[r] && BUG != 2)) -> \
           assert(asked[B(r, s)] & W(w)); built[B(r, s)] = built[B(r, s)] | W(w); memory[w]++ }
#define SEND(r, s) \
  atomic { (built[B(r, s)] & W(w)) && (CREDIT(r) || ((s) == place[r] && BUG != 5)) && \
           ((asked[B(r, s)] & W(w)) || BUG == 6) -> \
           assert(LACKS(r, s)); held[B(r, s)] = true; asked[B(r, s)] = 0; \
           built[B(r, s)] = built[B(r, s)] & W(1 - w); memory[w]-- }
#define FORGET(r, s) \
  atomic { (built[B(r, s)] & W(w)) && !(asked[B(r, s)] & W(w)) && BUG != 6 -> \
           built[B(r, s)] = built[B(r, s)] & W(1 - w); memory[w]-- }
#define DIES(b) built[b] = built[b] & W(1)
proctype Worker(byte w) {
  do
  :: OVER -> break
  :: atomic { w == 0 -> dead = true; d_step { DIES(0); DIES(1); DIES(2); DIES(3); DIES(4); DIES(5) } };
     break
  :: BUILD(0, 0) :: BUILD(0, 1) :: BUILD(0, 2) :: BUILD(1, 0) :: BUILD(1, 1) :: BUILD(1, 2)
  :: SEND(0, 0) :: SEND(0, 1) :: SEND(0, 2) :: SEND(1, 0) :: SEND(1, 1) :: SEND(1, 2)
  :: FORGET(0, 0) :: FORGET(0, 1) :: FORGET(0, 2) :: FORGET(1, 0) :: FORGET(1, 1) :: FORGET(1, 2)
  od
}

byte number[2];                                     /* the first number of a trainer; 0: none yet */
byte issued, restarts;
byte lives = 2;                                     /* the trainer that has the rank; 2: none */
bool out[2];                                        /* the trainer was told that it lost the rank */

/* A hello, the first one or a later one. The rival with the higher number keeps the rank. */
#define HELLO(t) \
  atomic { !out[t] && lives != (t) -> \
    if :: number[t] == 0 || BUG == 4 -> issued++; number[t] = issued :: else fi; \
    if :: lives == 2 -> lives = t \
       :: lives != 2 && number[lives] < number[t] -> out[lives] = true; lives = t \
       :: else -> out[t] = true \
    fi }
proctype Trainer(byte t) {
  t == 0 || number[0] != 0;                         /* trainer 1 begins later */
  do
  :: HELLO(t); assert(!out[1])
  :: atomic { lives == t && restarts < 2 -> restarts++; lives = 2 }
  :: out[t] || lives == t -> break                  /* it was told, or goes on with its batches */
  od
}

#ifdef SESSIONS
init { atomic { run Trainer(0); run Trainer(1) } }
#else
init { atomic { run Consumer(0); run Consumer(1); run Worker(0); run Worker(1) } }
#endif
