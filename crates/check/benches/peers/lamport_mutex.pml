/* Lamport's algorithm as the TLA+ module LamportMutex models it, for SPIN. One process takes every step of all three, each
 * in a d_step, so that SPIN's states are exactly the model's: no program counters, nothing between two steps. A request
 * whose receipt would push a clock past MAX is never received, as TLC keeps no state outside its constraint. */

#define N 3
#ifndef MAX
#define MAX 6
#endif
#define ALL 7

/* A request travels as its clock, 1 to MAX. */
#define ACK 200
#define REL 201

#define CH(from, to) ch[(from) * N + (to)]

chan ch[N * N] = [3] of { byte };
byte clock[N] = 1;
byte req[N * N];
byte ack[N];
bool crit[N];
byte c; /* 0 but within a step */

/* The others of p are q and r. */
#define BEATS(p, q) (req[p*N+q] == 0 || req[p*N+p] < req[p*N+q] || (req[p*N+p] == req[p*N+q] && p < q))

#define STEPS(p, q, r) \
  :: d_step { req[p*N+p] == 0 -> \
       req[p*N+p] = clock[p]; ack[p] = 1 << p; CH(p,q)!clock[p]; CH(p,r)!clock[p] } \
  :: d_step { ack[p] == ALL && !crit[p] && BEATS(p,q) && BEATS(p,r) -> crit[p] = true } \
  :: d_step { crit[p] -> crit[p] = false; req[p*N+p] = 0; ack[p] = 0; CH(p,q)!REL; CH(p,r)!REL } \
  RECEIVE(p, q) \
  RECEIVE(p, r)

#define RECEIVE(p, q) \
  :: d_step { CH(q,p)?[ACK] -> CH(q,p)?ACK; ack[p] = ack[p] | (1 << q) } \
  :: d_step { CH(q,p)?[REL] -> CH(q,p)?REL; req[p*N+q] = 0 } \
  :: d_step { clock[p] < MAX && REQ_BELOW(CH(q,p)) -> \
       CH(q,p)?c; req[p*N+q] = c; \
       if :: c > clock[p] -> clock[p] = c + 1 :: else -> clock[p] = clock[p] + 1 fi; \
       CH(p,q)!ACK; c = 0 }

/* The oldest message is a request with a clock below MAX. */
#define REQ_BELOW(channel) (nempty(channel) && !(channel?[ACK]) && !(channel?[REL]) && !(channel?[MAX]))

active proctype processes() {
  do
  STEPS(0, 1, 2)
  STEPS(1, 0, 2)
  STEPS(2, 0, 1)
  :: d_step { crit[0] + crit[1] + crit[2] > 1 -> assert(false) }
  od
}
