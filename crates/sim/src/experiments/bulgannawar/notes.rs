//! Notes for the reader of the rows: how the model was understood, and why something differs.

/// For all figures.
pub(super) const READING: [&str; 3] = [
    "Reading: closed load; the delay runs from the request to the entry; a site is one processor, which sends and receives one \
     message after the other; 20,000 entries a run (the report: 5,000).",
    "The report draws its curves and prints no points. The rows check its sentences. A figure given as \"about\" is compared as it is \
     printed, by our interval. \"The same\" is read as within 5 %, \"most\" as more than half of our eight values of λ, \"a small \
     amount\" as below 10 %. These readings are ours.",
    "Makki: the report shortens the answers to 2T_t where sending and receiving cost something. Ours does not: it waits \
     2(T_s+T_t+T_r) and is correct without a bound. Only the outline of that algorithm is public.",
];

/// For Figure 3(a).
pub(super) const NOTES_3A: [&str; 6] = [
    "new+heuristic has less delay than the older three from λ = 0.003 on; at λ = 0.001 Makki is faster.",
    "Flattening: our limit, a tenth of the steepest slope, is not the report's. With a closed load at the bound of 1/10 the \
     delay is 10 − 1/λ, which still rises from 6.7 to 9 between λ = 0.3 and 1. The rate of entries, the report's reason, \
     has its own rows, and its bound its own experiment (bulgannawar-1994-saturation).",
    "The rate since λ = 0.3, new+random token: at λ = 0.3 it has 2.79 entries per unit of time of at most 3, so it is not yet \
     saturated. Raymond's rate falls by about 5 %: a site that leaves sends all REPLYs that it deferred, and its next \
     REQUESTs, one after the other, and the more wait the later the one goes out that lets someone in. Without T_s it rises.",
    "The rate since λ = 0.3, Srimani–Reddy: fewer tokens come to a site that another has served, so more entries are made in \
     the same time.",
    "Makki's delay is the longest from λ = 0.01 on, but for Raymond's at 0.01. Below, its token rests at a site that all know, and \
     a request takes two hops. The report's reason (RELEASE at high load) does not concern low loads.",
    "The last rows: where sending and receiving did not hinder each other, Raymond would be up to 18 % faster and \
     Srimani–Reddy 11 %: they send 29 copies and get as many messages. The others change by less than their interval.",
];

/// For Figure 3(b).
pub(super) const NOTES_3B: [&str; 3] = [
    "T_t = 1: so say section 5's list of parameters and the caption. The sentence about Figure 3(b) has T_t = 0.8.",
    "Makki's delay is the longest from λ = 0.01 on; below, its token rests at a site that all know.",
    "Srimani–Reddy at λ = 0.1 and 1: without costs the three tokens move in step to the same next site, 3 TOKENs an entry, and \
     the system works like one with a single token. The report's text does not mention it.",
];

/// For Figure 4.
pub(super) const NOTES_4: [&str; 5] = [
    "Raymond, the bound of 58: messages sent are counted over a stretch of time, so a stretch can have a few of an entry \
     outside it. The excess is well inside the interval, so the row is undecided; no entry costs more than 58.",
    "Raymond, 57 against 58: a reply is saved only if a site asks again while its last request is still deferred. That \
     hardly ever happens here: 29.0 REPLYs an entry at every load. What saves one in the report is not said. (An entry waits \
     for N−K = 27 of them; without the two that come later it would be 56.)",
    "Srimani–Reddy, 31 against 30.5, and Makki, 3 against 3.4: the report gives both from its drawing, to the nearest whole \
     number. Ours round to the same, and differ.",
    "Makki with lower costs: the change is largest at λ = 0.01, where the token rests more often. It is the cost of sending 29 \
     copies, 2.9 units.",
    "Srimani–Reddy without costs, λ = 1: 3 TOKENs an entry in step; 32 messages instead of 30.",
];

/// For Figure 5.
pub(super) const NOTES_5: [&str; 4] = [
    "new+random token: at λ = 1 it sends 1.7 REQUESTs of 5 words an entry and 0.2 INFORMs of 4, the heuristic 1.0 and none. \
     Short messages lower the mean. The report itself has fewer messages with the heuristic at high load.",
    "Srimani–Reddy: 1.04 TOKENs of about 60 words an entry, and 29 REQUESTs of 4. A mean of 6.5 would need 1.34 such \
     TOKENs; or, with the report's own 31 messages, which are two TOKENs, 43 words in each. Which fields it counts, the \
     report does not say, so this remains open.",
    "Makki: our TOKEN has 8 words and 2 for each waiter (site and number of its request). Counted as the report counts, one word \
     for each waiter and none of our numbers, the mean is 7.8 where it has 8. The ratios below take that count.",
    "\"1.5 to 2 times larger than the other algorithms\" contradicts the report's own figures at λ = 1: 9 to 4, 6.5 and 8 are \
     2.25, 1.38 and 1.13.",
];

/// For the bound on the rate of entries.
pub(super) const NOTES_SATURATION: [&str; 2] = [
    "The report derives the bound from the time that a token takes from one node to another. A token that nobody waits for does \
     not move: with a random choice of token some queue is empty now and then, and its holder enters again and again without a \
     message, the faster the larger λ. So the bound fails for new+random token from λ = 3 on; with the heuristic, which \
     asks for the token seen last, and in the three older algorithms it holds at every load tried.",
    "Undecided are rows whose rate is the bound itself, to within the interval.",
];

/// For INFORM.
pub(super) const NOTES_INFORM: [&str; 2] = [
    "\"The net effect of the INFORM messages is often to reduce the average number of messages\": here it never is. The two INFORMs of \
     an exit with an empty queue cost more than they save at every load where they are sent. With random choice they shorten \
     the delay at low load, by 0.2 to 0.4; with the heuristic they lengthen it a little.",
    "\"Often\" is read as at two or more of the eight loads; the report names none.",
];

/// For convergence and for each node.
pub(super) const NOTES_CHECKS: [&str; 3] = [
    "Converged is read as within 5 % of a run of 200,000 entries with another seed. It holds for the new algorithm at every load \
     tried. Srimani–Reddy at λ = 1 has not converged by then: its tokens fall into step and out of it over long times.",
    "\"Roughly equal\" and \"comparable\" are read as within a quarter of the mean of all nodes.",
    "At λ = 0.01 a node has 167 entries on average; by chance alone such counts differ by 8 %, and the farthest of 30 by about \
     20 %.",
];

/// For longer critical sections.
pub(super) const NOTES_LARGER_E: [&str; 2] = [
    "Compared is who is above whom: pairs of algorithms whose intervals do not meet, at all loads, with E = 0.0002 and with a longer \
     E. \"Similar\" is read as at most one pair in ten with the other order.",
    "The report refers to a thesis for its values of E; these are ours.",
];
