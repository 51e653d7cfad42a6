/* Ricart and Agrawala's algorithm as `ricart_agrawala.rs` has it, for SPIN: three sites that enter ENTRIES times each. One
 * process takes every step of all three, each in a d_step, so that SPIN's states are exactly the explorer's. A reply names the
 * request that it answers; a site enters in the step in which the last reply arrives. */

#define N 3
#ifndef ENTRIES
#define ENTRIES 2
#endif

/* A request travels as its clock, the reply to it as that plus 128. */
#define REPLY 128
#define CH(from, to) ch[(from) * N + (to)]

chan ch[N * N] = [4] of { byte };
byte phase[N];            /* 0 idle, 1 waits, 2 inside */
byte asked[N];
byte clock[N];
byte request[N];          /* the clock of the own request; 0 while idle */
byte missing[N];          /* whose replies are missing: a bit a site */
byte deferred[N];
byte last[N * N];         /* the clock of the last request of each other site */
byte m;                   /* 0 but within a step */

#define FIRST(p, q) (request[p] < m || (request[p] == m && p < q))

#define STEPS(p, q, r) \
  :: d_step { phase[p] == 0 && asked[p] < ENTRIES -> \
       asked[p]++; clock[p]++; request[p] = clock[p]; phase[p] = 1; missing[p] = (1 << q) | (1 << r); \
       CH(p,q)!clock[p]; CH(p,r)!clock[p] } \
  :: d_step { phase[p] == 2 -> \
       phase[p] = 0; request[p] = 0; \
       if :: deferred[p] & (1 << q) -> CH(p,q)!(REPLY + last[p*N+q]) :: else fi; \
       if :: deferred[p] & (1 << r) -> CH(p,r)!(REPLY + last[p*N+r]) :: else fi; \
       deferred[p] = 0 } \
  RECEIVE(p, q) \
  RECEIVE(p, r)

#define RECEIVE(p, q) \
  :: d_step { nempty(CH(q,p)) -> CH(q,p)?m; \
       if \
       :: m >= REPLY -> \
            assert(phase[p] == 1 && m == REPLY + request[p] && (missing[p] & (1 << q))); \
            missing[p] = missing[p] & (7 - (1 << q)); \
            if :: missing[p] == 0 -> phase[p] = 2 :: else fi \
       :: else -> \
            last[p*N+q] = m; \
            if :: m > clock[p] -> clock[p] = m :: else fi; \
            if \
            :: phase[p] == 2 || (phase[p] == 1 && FIRST(p, q)) -> deferred[p] = deferred[p] | (1 << q) \
            :: else -> CH(p,q)!(REPLY + m) \
            fi \
       fi; \
       m = 0; assert((phase[0] == 2) + (phase[1] == 2) + (phase[2] == 2) <= 1) }

active proctype sites() {
  do
  STEPS(0, 1, 2)
  STEPS(1, 0, 2)
  STEPS(2, 0, 1)
  od
}
