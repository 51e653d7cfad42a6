//! Lodha and Kshemkalyani 2000. Its P_i, P_j, P_k are S0, S1, S2 here, and so are its P1, P2, P3.

use super::{PreparedRun, See, fact, scene};

const PLAIN: PreparedRun = PreparedRun { algorithm: "lodha-kshemkalyani", sites: 3, ..PreparedRun::PLAIN };

pub(super) const ENTRIES: &[PreparedRun] = &[
    PreparedRun {
        id: "lodha-3",
        source: "Lodha and Kshemkalyani 2000, section 3.4.1, Figure 3",
        title: "Three requests that cross take eight messages",
        caption: "All ask before any hears of another: nobody replies at all. Ricart and Agrawala's algorithm would take 12.",
        acts: "0q0.q1.q2.d1-0.d0-1.d2-1.d0-2.d1-2.d2-0.x0.d0-1.x1.d1-2.x2",
        until: 14,
        scenes: &[
            scene(3, "Instant t2: all have asked."),
            scene(9, "Instant t3: all have been asked; every queue is the same, and P1 enters."),
            scene(11, "Instants t4 and t5: P1's FLUSH lets P2 in."),
            scene(13, "Instant t6: the same with P3."),
        ],
        facts: &[
            fact(
                9,
                "P3's queue has all three requests",
                See::Queue(2, "LRQ", &["(1,S0)", "(1,S1)", "(1,S2)"]),
            ),
            fact(14, "eight messages", See::Messages(8)),
            fact(14, "no REPLY", See::Sent("REPLY", 0)),
            fact(14, "entered by timestamp", See::Entered(&[0, 1, 2])),
        ],
        ..PLAIN
    },
    PreparedRun {
        id: "lodha-5-1",
        source: "Lodha and Kshemkalyani 2000, section 3.4.2, Figure 5, scenario 1",
        title: "A lone request gets a reply from everyone",
        caption: "Nobody else wants to enter: the request is answered as in Ricart and Agrawala's algorithm.",
        acts: "0q0.d0-1.d0-2.d1-0.d2-0.x0",
        until: 6,
        scenes: &[scene(5, "Both have replied.")],
        facts: &[fact(5, "P_i is inside", See::Inside(&[0])), fact(6, "2(N−1) messages", See::Messages(4))],
        ..PLAIN
    },
    PreparedRun {
        id: "lodha-5-2a",
        source: "Lodha and Kshemkalyani 2000, section 3.4.2, Figure 5, scenario 2a",
        title: "A FLUSH lets in whoever asked at the same time",
        caption: "P_i and P_j ask at the same time; each takes the other's request for its answer.",
        acts: "0q0.q1.d0-1.d1-0.d1-2.d0-2.d2-1.d2-0.x0.d0-1.x1",
        until: 11,
        scenes: &[scene(8, "P_i is first."), scene(10, "Its FLUSH reaches P_j.")],
        facts: &[
            fact(8, "P_i is inside, P_j waits", See::Waiting(&[1])),
            fact(10, "P_j is inside", See::Inside(&[1])),
            fact(11, "one FLUSH, two REPLYs", See::Sent("FLUSH", 1)),
        ],
        ..PLAIN
    },
    PreparedRun {
        id: "lodha-5-2b",
        source: "Lodha and Kshemkalyani 2000, section 3.4.2, Figure 5, scenario 2b",
        title: "A request made after its reply is deferred",
        caption: "P_j has replied to P_i before it asks: the two requests do not cross, and P_i defers its own reply.",
        acts: "0q0.d0-1.q1.d1-0.d1-0.d0-2.d2-0.x0.d0-1.d1-2.d2-1.x1",
        until: 12,
        scenes: &[
            scene(5, "P_j's request finds its reply here already."),
            scene(8, "P_i leaves with a REPLY."),
        ],
        facts: &[
            fact(5, "P_i has deferred P_j", See::Set(0, "deferred", &[1])),
            fact(12, "no FLUSH", See::Sent("FLUSH", 0)),
            fact(12, "P_i, then P_j", See::Entered(&[0, 1])),
        ],
        ..PLAIN
    },
    PreparedRun {
        id: "lodha-5-2c",
        source: "Lodha and Kshemkalyani 2000, section 3.4.2, Figure 5, scenario 2c",
        title: "The next request of whoever flushed is deferred",
        caption: "P_i has flushed to P_j and asks again before P_j was in: the new request does not cross P_j's.",
        acts: "0q0.q1.d0-1.d1-0.d0-2.d2-0.x0.d0-1.q0.d0-1.d1-2.d2-1.x1.d1-0.d0-2.d2-0.x0",
        until: 17,
        scenes: &[
            scene(8, "P_j still misses P_k."),
            scene(10, "P_i's second request is deferred."),
            scene(12, "P_j enters."),
        ],
        facts: &[
            fact(10, "P_j has deferred P_i", See::Set(1, "deferred", &[0])),
            fact(17, "P_i, P_j, P_i", See::Entered(&[0, 1, 0])),
        ],
        ..PLAIN
    },
    PreparedRun {
        id: "lodha-6",
        source: "Lodha and Kshemkalyani 2000, section 3.4.2, Figure 6",
        title: "A REPLY stands for all earlier requests",
        caption: "P_k is behind P_i in its own queue but gets no FLUSH from it; P_j's REPLY says that both are done. (It is P_j's \
                  request that is made before P_k's; the text says P_i's, which it calls concurrent in the sentence before.)",
        acts: "0q0.q1.d1-2.q2.d0-2.d0-1.d2-1.d2-1.d1-0.d2-0.x0.d0-1.x1.d1-2.x2",
        until: 15,
        scenes: &[
            scene(10, "P_i is inside; its queue has all three."),
            scene(12, "P_i flushes to P_j only."),
            scene(14, "P_j's REPLY lets P_k in."),
        ],
        facts: &[
            fact(10, "P_i's queue", See::Queue(0, "LRQ", &["(1,S0)", "(1,S1)", "(2,S2)"])),
            fact(13, "P_k's queue still has P_i", See::Queue(2, "LRQ", &["(1,S0)", "(2,S2)"])),
            fact(14, "P_k is inside", See::Inside(&[2])),
            fact(15, "one FLUSH", See::Sent("FLUSH", 1)),
        ],
        ..PLAIN
    },
    PreparedRun {
        id: "lodha-7",
        source: "Lodha and Kshemkalyani 2000, section 3.4.2, Figure 7",
        title: "A site may need more than one FLUSH",
        caption: "P_i enters, leaves, and asks again before it sees P_k's request: its new request precedes P_k's, too.",
        acts: "0q0.q1.d0-2.q2.d0-1.d1-2.d2-1.d2-0.d1-0.x0.d0-1.q0.d0-2.d2-0.x1.d1-2.d0-1.d1-0.x0.d0-2.x2",
        until: 21,
        scenes: &[
            scene(9, "P_i is inside."),
            scene(13, "P_k's queue: P_j, then P_i's second request, then its own."),
            scene(16, "P_j's FLUSH is not enough."),
            scene(20, "P_i's FLUSH lets P_k in."),
        ],
        facts: &[
            fact(13, "P_k's queue", See::Queue(2, "LRQ", &["(1,S1)", "(2,S0)", "(2,S2)"])),
            fact(16, "P_k waits on", See::Waiting(&[0, 2])),
            fact(21, "P_i, P_j, P_i, P_k", See::Entered(&[0, 1, 0, 2])),
            fact(21, "three FLUSHes", See::Sent("FLUSH", 3)),
        ],
        ..PLAIN
    },
];
