//! Notes for the reader of the rows: how the model was understood, and why something differs.

/// For all figures.
pub(super) const READING: [&str; 3] = [
    "Reading: closed load; the delay runs from the request to the entry; 20,000 entries a run (the report: 5,000).",
    "The report draws its curves and prints no points. The rows check its sentences. A figure given as \"about\" agrees if \
     ours rounds to it. \"The same\" is read as within 5 %, \"most\" as more than half of our eight values of λ, \"a small \
     amount\" as below 10 %. These readings are ours.",
    "Makki: the report shortens the answers to 2T_t where sending and receiving cost something. Ours does not: it waits \
     2(T_s+T_t+T_r) and is correct without a bound. Only the outline of that algorithm is public.",
];

/// For Figure 3(a).
pub(super) const NOTES_3A: [&str; 5] = [
    "new+heuristic has less delay than the older three from λ = 0.03 on. At λ = 0.001 Srimani–Reddy and Makki are faster, \
     at 0.003 Srimani–Reddy, and at 0.01 Srimani–Reddy by less than the interval.",
    "Flattening: our limit, a tenth of the steepest slope, is not the report's. With a closed load at the bound of 1/10 the \
     delay is 10 − 1/λ, which still rises from 6.7 to 9 between λ = 0.3 and 1. The rate of entries, the report's reason, \
     has its own rows.",
    "The rate since λ = 0.3, new+random token: at λ = 0.3 it has 2.80 entries per unit of time of at most 3, so it is not yet \
     saturated. Raymond's rate falls by just under 5 %: a site that leaves sends all REPLYs that it deferred, and its next \
     REQUESTs, one after the other, and the more wait the later the one goes out that lets someone in. Without T_s it rises.",
    "The rate since λ = 0.3, Srimani–Reddy: 1.20 TOKENs an entry at λ = 0.3, 1.04 at λ = 1. Fewer tokens come to a site that \
     another has served, so more entries are made in the same time.",
    "Makki's delay is the longest from λ = 0.01 on. Below, its token rests at a site that all know, and a request takes two \
     hops. The report's reason (RELEASE at high load) does not concern low loads.",
];

/// For Figure 3(b).
pub(super) const NOTES_3B: [&str; 3] = [
    "T_t = 1: so say section 5's list of parameters and the caption. The sentence about Figure 3(b) has T_t = 0.8.",
    "Makki's delay is the longest from λ = 0.01 on; below, its token rests at a site that all know.",
    "Srimani–Reddy at λ = 0.1 and 1: without costs the three tokens move in step to the same next site, 3 TOKENs an entry, and \
     the system works like one with a single token. The report's text does not mention it.",
];

/// For Figure 4.
pub(super) const NOTES_4: [&str; 4] = [
    "Raymond, the bound of 58: messages sent are counted over a stretch of time, so a stretch can have a few of an entry \
     outside it. The excess (0.004) is well inside the interval (0.05); no entry costs more than 58.",
    "Raymond, the mean of 57: a reply is saved only if a site asks again while its last request is still deferred. That \
     hardly ever happens here: 29.0 REPLYs an entry at every load. What saves one in the report is not said. (An entry waits \
     for N−K = 27 of them; without the two that come later it would be 56.)",
    "Makki with lower costs: the change is largest at λ = 0.01, where the token rests more often (9.1 and 9.7 ANNOUNCEs an \
     entry instead of 8.1). It is the cost of sending 29 copies, 2.9 units: with T_s = 0, T_r = 0.1 there are 9.8, with \
     T_s = 0.1, T_r = 0 there are 8.0.",
    "Srimani–Reddy without costs, λ = 1: 3 TOKENs an entry in step, instead of 1.04; 32 messages instead of 30.",
];

/// For Figure 5.
pub(super) const NOTES_5: [&str; 3] = [
    "new+random token: at λ = 1 it sends 1.7 REQUESTs of 5 words an entry and 0.2 INFORMs of 4, the heuristic 1.0 and none. \
     Short messages lower the mean. The report itself has fewer messages with the heuristic at high load.",
    "Srimani–Reddy: 1.04 TOKENs of about 60 words an entry, and 29 REQUESTs of 4. A mean of 6.5 would need 1.34 such \
     TOKENs; or, with the report's own 31 messages, which are two TOKENs, 43 words in each. Which fields it counts, the \
     report does not say, so this remains open.",
    "Makki: our TOKEN has 8 words and 2 for each waiter (site and number of its request), 14 waiters on average at λ = 1. \
     By an estimate, with one word for each waiter and none of our numbers the mean would be 7.8.",
];
