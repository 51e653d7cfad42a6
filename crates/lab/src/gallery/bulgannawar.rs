//! Bulgannawar and Vaidya 1994. Its nodes 1 to 5 are S0 to S4 here. Its Figures 3 to 5 are plots: see the comparison.

use super::{PreparedRun, See, fact, scene};

pub(super) const ENTRIES: &[PreparedRun] = &[PreparedRun {
    id: "bulgannawar-2",
    source: "Bulgannawar and Vaidya 1994, section 2.1, Figure 2",
    title: "A request travels along its token's forest and turns the pointers",
    caption: "At first node 4 (S3) learns from node 3 (S2) where the token was, and node 5 (S4) takes it: that gives the forest of the \
              figure, 4 → 3 → 5. Then node 4 asks.",
    algorithm: "bulgannawar-vaidya:inform=1",
    sites: 5,
    holders: &[2],
    acts: "0x2.d2-3.q4.d4-2.d2-4.x4.q3.d3-2.d2-4.d4-3",
    until: 10,
    scenes: &[
        scene(6, "Figure 2: node 5 has the idle token; node 4 points at 3, node 3 at 5."),
        scene(8, "Node 3 passes the request on to node 5, and now points at node 4, who asked."),
        scene(10, "Node 5 sends the token; node 4 is inside, and 3 and 5 point at it."),
    ],
    facts: &[
        fact(10, "node 4 is inside", See::Inside(&[3])),
        fact(
            10,
            "nodes 3 and 5 point at node 4",
            See::Pointers("pointer", &[Some(2), Some(2), Some(3), None, Some(3)]),
        ),
    ],
}];
