//! Singhal 1989 and the dynamic information structure of chapter 9, section 9.5. Their S1 is S0 here.

use super::{PreparedRun, See, fact, scene};

const PLAIN: PreparedRun = PreparedRun { sites: 5, ..PreparedRun::PLAIN };

pub(super) const ENTRIES: &[PreparedRun] = &[
    PreparedRun {
        id: "singhal-1",
        source: "Singhal 1989, section III-F, Figure 1, and section III-H",
        title: "The staircase, and how it moves",
        caption: "Who believes whom to be requesting forms a staircase with the token at its low end; a site asks only the sites of \
                  its own step. Whoever was in stands at the low end.",
        algorithm: "singhal-heuristic",
        acts: "0q2.d2-0.d2-1.d0-2.x2",
        until: 5,
        scenes: &[
            scene(0, "Figure 1: S0 has the token; each site believes that all before it are requesting."),
            scene(1, "S2 asks the two sites of its step."),
            scene(5, "S2 was in: now it stands at the low end, and S0 is next."),
        ],
        facts: &[
            fact(
                0,
                "the rows form a staircase",
                See::Sets("SV = R", &[&[], &[0], &[0, 1], &[0, 1, 2], &[0, 1, 2, 3]]),
            ),
            fact(4, "S2 is inside after three messages", See::Messages(3)),
            fact(
                5,
                "the staircase again, with S2 at its low end",
                See::Sets("SV = R", &[&[2], &[0, 2], &[], &[0, 1, 2], &[0, 1, 2, 3]]),
            ),
        ],
        ..PLAIN
    },
    PreparedRun {
        id: "singhal-dynamic",
        source: "Chapter 9, section 9.5.2, the example",
        title: "Singhal's dynamic structure: the staircase of request sets",
        caption: "Each site asks those that stand below it. S1 and S2 (the chapter's S2 and S3) ask at once; at equal clocks S1 \
                  precedes and defers its reply.",
        algorithm: "singhal-dynamic",
        acts: "0q2.q1.d2-1.d1-0.d0-1.x1.d1-2.d2-0.d0-2.x2",
        until: 10,
        scenes: &[
            scene(0, "The request sets form a staircase."),
            scene(5, "S1 precedes, has deferred S2, and is inside."),
            scene(9, "S1's exit lets S2 in."),
            scene(10, "The last to enter stands at the lower end."),
        ],
        facts: &[
            fact(5, "S1 is inside", See::Inside(&[1])),
            fact(9, "S2 is inside", See::Inside(&[2])),
            fact(10, "the last to enter asks nobody", See::Set(2, "request set R", &[])),
            fact(10, "S1, then S2", See::Entered(&[1, 2])),
        ],
        ..PLAIN
    },
];
