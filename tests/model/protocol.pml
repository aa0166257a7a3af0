/* Sessions, room and pulls of docs/protocol.md, in the smallest form that can still go wrong. Two
 * ranks of a job make each step together. Two workers have memory for one batch each, and one of
 * them may die. If a window lacks a batch, it may be leased to any living worker (by a dispatcher,
 * or by the consumer itself). With SESSIONS, two trainers want one rank instead, and the dispatcher
 * may restart between them.
 *
 * No state comes twice in a run, so that every run in which nobody gets stuck comes to its end.
 * tests/model/run makes spin look for states in which somebody is stuck, and for assertions that do
 * not hold. BUG=1 to 5 builds a mistake into the model, and spin finds each of them.
 */
#ifndef BUG
#define BUG 0
#endif
#define STEPS 3
#define WINDOW 3                                    /* batches that a rank may have built for it */
#define B(r, s) ((r) * STEPS + (s))

byte place[2];                                      /* step that a rank's loop takes next */
bool held[6], room[6], built[6];
byte lease[6];                                      /* 0: not leased; otherwise worker + 1 */
byte memory[2];                                     /* batches built and not sent yet */
bool dead;                                          /* worker 0 has died */

#define LACKS(r, s) (place[r] <= (s) && (s) < place[r] + WINDOW && !held[B(r, s)])
/* A rank has memory for one batch besides the next one. More batches are sent only with credit. */
#define CREDIT(r) (!held[B(r, 0)] && !held[B(r, 1)] && !held[B(r, 2)])
#define OVER (place[0] == STEPS && place[1] == STEPS)

#define GRANT(r, s, w) \
  atomic { LACKS(r, s) && lease[B(r, s)] == 0 && ((w) == 1 || !dead) -> lease[B(r, s)] = (w) + 1 }
proctype Leases() {
  do
  :: OVER -> break
  :: GRANT(0, 0, 0) :: GRANT(0, 1, 0) :: GRANT(0, 2, 0) :: GRANT(1, 0, 0) :: GRANT(1, 1, 0)
  :: GRANT(1, 2, 0) :: GRANT(0, 0, 1) :: GRANT(0, 1, 1) :: GRANT(0, 2, 1) :: GRANT(1, 0, 1)
  :: GRANT(1, 1, 1) :: GRANT(1, 2, 1)
  od
}

#define ROOM(s) \
  atomic { LACKS(r, s) && lease[B(r, s)] != 0 && !room[B(r, s)] -> room[B(r, s)] = true }
#define LAPSE(s) \
  atomic { dead && lease[B(r, s)] == 1 && !held[B(r, s)] && BUG != 3 -> \
           lease[B(r, s)] = 0; room[B(r, s)] = false }
proctype Consumer(byte r) {
  do
  :: place[r] == STEPS -> break
  :: atomic { place[r] < STEPS && held[B(r, place[r])] && place[r] <= place[1 - r] ->
              held[B(r, place[r])] = false; place[r]++ }
  :: ROOM(0) :: ROOM(1) :: ROOM(2) :: LAPSE(0) :: LAPSE(1) :: LAPSE(2)
  od
}

/* The batch that a rank needs next is built even if memory is full, and sent even without credit.
 * A later batch is given up for it. */
#define BUILD(r, s) \
  atomic { lease[B(r, s)] == w + 1 && !built[B(r, s)] && !held[B(r, s)] && place[r] <= (s) && \
           (room[B(r, s)] || BUG == 1) && (memory[w] == 0 || ((s) == place[r] && BUG != 2)) -> \
           assert(room[B(r, s)]); built[B(r, s)] = true; memory[w]++ }
#define SEND(r, s) \
  atomic { built[B(r, s)] && lease[B(r, s)] == w + 1 && \
           (CREDIT(r) || ((s) == place[r] && BUG != 5)) -> \
           assert(LACKS(r, s)); built[B(r, s)] = false; memory[w]--; held[B(r, s)] = true }
proctype Worker(byte w) {
  do
  :: OVER -> break
  :: atomic { w == 0 -> dead = true; d_step {
       built[0] = built[0] && lease[0] != 1; built[1] = built[1] && lease[1] != 1;
       built[2] = built[2] && lease[2] != 1; built[3] = built[3] && lease[3] != 1;
       built[4] = built[4] && lease[4] != 1; built[5] = built[5] && lease[5] != 1 } }; break
  :: BUILD(0, 0) :: BUILD(0, 1) :: BUILD(0, 2) :: BUILD(1, 0) :: BUILD(1, 1) :: BUILD(1, 2)
  :: SEND(0, 0) :: SEND(0, 1) :: SEND(0, 2) :: SEND(1, 0) :: SEND(1, 1) :: SEND(1, 2)
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
init { atomic { run Leases(); run Consumer(0); run Consumer(1); run Worker(0); run Worker(1) } }
#endif
