//! Sanders 1987. Its processes are counted from 0, as here.

use super::{PreparedRun, See, fact, scene};

const PLAIN: PreparedRun = PreparedRun { sites: 4, ..PreparedRun::PLAIN };

const ALL: &[usize] = &[0, 1, 2, 3];

pub(super) const ENTRIES: &[PreparedRun] = &[
    PreparedRun {
        id: "sanders-1a",
        source: "Sanders 1987, section 3.2, Figure 1a",
        title: "One process decides for all",
        caption: "Every inform set and request set is the process itself and 1: a coordinator. Look at the sets and at what keeps each pair apart.",
        algorithm: "sanders:structure=figure-1a,deadlock=plain",
        acts: "0q0.q2.d0-1.d2-1.d1-0.x0.d0-1.d1-2.x2.d2-1",
        until: 10,
        scenes: &[scene(4, "S1 has granted S0 and queued S2."), scene(8, "S0's RELEASE lets S1 grant S2.")],
        facts: &[
            fact(
                0,
                "everyone informs itself and 1",
                See::Sets("inform set I", &[&[0, 1], &[1], &[1, 2], &[1, 3]]),
            ),
            fact(10, "three messages an entry", See::Messages(6)),
            fact(10, "0, then 2", See::Entered(&[0, 2])),
        ],
        ..PLAIN
    },
    PreparedRun {
        id: "sanders-1b",
        source: "Sanders 1987, section 3.2, Figure 1b",
        title: "Everyone asks everyone",
        caption: "Every request set is all processes, every inform set the process itself: Ricart and Agrawala's algorithm.",
        algorithm: "sanders:structure=figure-1b",
        acts: "0q0",
        until: 12,
        scenes: &[scene(1, "S0 asks the three others.")],
        facts: &[
            fact(0, "everyone informs itself", See::Sets("inform set I", &[&[0], &[1], &[2], &[3]])),
            fact(0, "everyone asks all", See::Sets("request set R", &[ALL, ALL, ALL, ALL])),
            fact(7, "S0 is inside after 2(N−1) messages", See::Messages(6)),
        ],
        ..PLAIN
    },
    PreparedRun {
        id: "sanders-1c",
        source: "Sanders 1987, section 3.2, Figure 1c",
        title: "Subsets that meet: Maekawa's idea",
        caption: "Everyone asks and informs the same subset, and every two subsets have a process in common.",
        algorithm: "sanders:structure=figure-1c",
        acts: "0q0",
        until: 12,
        scenes: &[scene(1, "S0 asks the two others of its subset.")],
        facts: &[
            fact(
                0,
                "rows and columns of a grid",
                See::Sets("inform set I", &[&[0, 1, 2], &[0, 1, 3], &[0, 2, 3], &[1, 2, 3]]),
            ),
            fact(5, "S0 is inside after four messages", See::Inside(&[0])),
        ],
        ..PLAIN
    },
    PreparedRun {
        id: "sanders-2",
        source: "Sanders 1987, section 3.2, Figure 2",
        title: "Two busy processes, two that are not",
        caption: "0 and 1 ask each other only; 2 and 3 pay for it by asking and informing both. The pairs are kept apart in \
                  different ways.",
        algorithm: "sanders:structure=figure-2",
        acts: "0q0",
        until: 8,
        scenes: &[scene(1, "S0 asks S1 alone.")],
        facts: &[
            fact(3, "an entry of 0 takes two messages", See::Messages(2)),
            fact(3, "S0 is inside", See::Inside(&[0])),
        ],
        ..PLAIN
    },
    PreparedRun {
        id: "sanders-4-deadlock",
        source: "Sanders 1987, section 5, Figure 4",
        title: "A deadlock you can cause: the plain rules",
        caption: "Safe, but not live: S0 asks with (1,S0), S2 with (1,S2), and S2's request reaches S1 first.",
        algorithm: "sanders:structure=figure-4,deadlock=plain",
        sites: 3,
        acts: "0q0.q2.d2-1.d0-1.d2-0.d1-2",
        until: 6,
        scenes: &[
            scene(3, "S1 grants S2."),
            scene(6, "S0 has precedence at itself, S2 has S1's grant: each waits for the other."),
        ],
        facts: &[
            fact(6, "both wait for ever", See::Broken("deadlock")),
            fact(6, "S0 and S2 wait", See::Waiting(&[0, 2])),
        ],
        ..PLAIN
    },
    PreparedRun {
        id: "sanders-4",
        source: "Sanders 1987, section 5, Figure 4, with FAIL, INQUIRE and YIELD",
        title: "The same, resolved: S2 yields once it has a FAIL",
        caption: "The same order of messages. S1 asks S2 for its grant back; S2 remembers that and yields when the FAIL comes.",
        algorithm: "sanders:structure=figure-4",
        sites: 3,
        acts: "0q0.q2.d2-1.d0-1.d1-2.d1-2.d2-0.d0-2.d2-1.d1-0.d1-2.x0.d0-2.x2",
        until: 14,
        scenes: &[
            scene(4, "S1 gets the earlier request and inquires."),
            scene(8, "The FAIL of S0 makes S2 yield."),
            scene(10, "S0 is inside."),
            scene(13, "S0 leaves and grants S2."),
        ],
        facts: &[
            fact(10, "S0 is inside", See::Inside(&[0])),
            fact(13, "S2 is inside", See::Inside(&[2])),
            fact(14, "one YIELD", See::Sent("YIELD", 1)),
            fact(14, "nothing is broken", See::AllHold),
        ],
        ..PLAIN
    },
    PreparedRun {
        id: "sanders-5",
        source: "Sanders 1987, section 8, Figure 5",
        title: "Carvalho and Roucairol: permissions stay where they were given",
        caption: "The information structure changes as processes enter: whoever was in holds the permissions of all others until \
                  they ask.",
        algorithm: "carvalho-roucairol",
        acts: "0q0.d0-1.d0-2.d0-3.d1-0.d2-0.d3-0.x0.q0.x0.q2.d2-0.d2-1.d2-3.d0-2.d1-2.d3-2.x2",
        until: 18,
        scenes: &[
            scene(0, "(a) at the start everyone must ask everyone."),
            scene(8, "(b) process 0 was in: it asks nobody as long as it is alone."),
            scene(9, "It enters again without a message."),
            scene(18, "(c) process 2 was in: 0 must ask 2 again, and only 2."),
        ],
        facts: &[
            fact(8, "(b) 0 holds all permissions", See::Set(0, "status set S", &[1, 2, 3])),
            fact(9, "six messages for two entries", See::Messages(6)),
            fact(18, "(c) 0 has lost that of 2", See::Set(0, "status set S", &[1, 3])),
            fact(18, "(c) 2 holds all", See::Set(2, "status set S", &[0, 1, 3])),
        ],
        ..PLAIN
    },
];
