//! Kshemkalyani and Singhal, chapter 9. Its sites S1, S2, … are S0, S1, … here.

use super::{PreparedRun, See, fact, scene};

const TREE: &str = "raymond:tree=0-1/1-2/2-6/2-3/0-4/1-5";

pub(super) const ENTRIES: &[PreparedRun] = &[
    PreparedRun {
        id: "chapter-9-3",
        source: "Chapter 9, Figures 9.3 to 9.6",
        title: "Lamport: the smaller timestamp enters first",
        caption: "Two sites ask at the same time. All sites queue both requests in the order of their timestamps; whoever heads \
                  its own queue and has heard from all enters.",
        algorithm: "lamport",
        sites: 3,
        acts: "0q0.q1.d0-1.d0-2.d1-0.d1-2.d1-0.d2-0.d0-1.d2-1.x0.d0-1.d0-2.x1.d1-0.d1-2",
        until: 16,
        scenes: &[
            scene(2, "Figure 9.3: S0 and S1 ask, with the timestamps (1,S0) and (1,S1)."),
            scene(
                10,
                "Figure 9.4: both have all replies. S0 heads its queue and is inside; S1 is second in its own.",
            ),
            scene(11, "Figure 9.5: S0 leaves and tells both others."),
            scene(12, "Figure 9.6: the RELEASE takes (1,S0) off S1's queue, and S1 enters."),
        ],
        facts: &[
            fact(10, "S0 is inside, S1 waits", See::Inside(&[0])),
            fact(10, "S1's queue is (1,S0) (1,S1)", See::Queue(1, "request queue", &["(1,S0)", "(1,S1)"])),
            fact(12, "S1 is inside", See::Inside(&[1])),
            fact(16, "they entered in the order of their timestamps", See::Entered(&[0, 1])),
            fact(16, "12 messages: 3(N−1) for each entry", See::Messages(12)),
        ],
        ..PreparedRun::PLAIN
    },
    PreparedRun {
        id: "chapter-9-7",
        source: "Chapter 9, Figures 9.7 to 9.10",
        title: "Ricart and Agrawala: a reply withheld is a place in the queue",
        caption: "The chapter's S2 is S0 here and its S1 is S1; the timestamps are (1,S0) and (1,S1), so that the smaller one \
                  again belongs to the site that enters first. (The captions of the chapter's figures name the other site.)",
        algorithm: "ricart-agrawala",
        sites: 3,
        acts: "0q1.q0.d1-0.d0-1.d0-2.d1-2.d1-0.d2-0.d2-1.x0.d0-1.x1",
        until: 12,
        scenes: &[
            scene(2, "Figure 9.7: both ask."),
            scene(
                8,
                "Figure 9.8: S0 precedes. It defers its reply to S1 and enters with the replies of S1 and S2.",
            ),
            scene(10, "Figure 9.9: S0 leaves and sends the reply that it had deferred."),
            scene(11, "Figure 9.10: with it S1 has all replies and enters."),
        ],
        facts: &[
            fact(8, "S0 is inside and owes S1 a reply", See::Set(0, "deferred", &[1])),
            fact(8, "S1 waits", See::Waiting(&[1])),
            fact(11, "S1 is inside", See::Inside(&[1])),
            fact(12, "8 messages: 2(N−1) for each entry", See::Messages(8)),
        ],
        ..PreparedRun::PLAIN
    },
    PreparedRun {
        id: "chapter-9-11",
        source: "Chapter 9, Figures 9.11 to 9.15",
        title: "Lodha and Kshemkalyani: a request is an answer, too",
        caption: "Requests that cross answer each other. Whoever leaves sends a FLUSH to the next request that crossed its own. \
                  Where the text of Figure 9.15 says FLUSH, the requests did not cross, as it says itself: it is a REPLY.",
        algorithm: "lodha-kshemkalyani",
        sites: 3,
        acts: "0q0.q1.d0-1.d1-0.d1-2.d2-1.q2.d0-2.d2-1.d2-0.x0.d0-1.x1.d1-2.x2",
        until: 15,
        scenes: &[
            scene(4, "Figure 9.11: P1 and P2 (S0 and S1) ask; P1's REQUEST to P3 (S2) is slow."),
            scene(6, "Figure 9.12: P3 replies to P2 only."),
            scene(
                10,
                "Figure 9.13: P3 asks as P1's REQUEST arrives: it is P3's answer. P1 has all and enters.",
            ),
            scene(12, "Figure 9.14: P1 leaves, and its FLUSH lets P2 in."),
            scene(14, "Figure 9.15: P2 leaves; P3 takes (1,S0) off its queue and enters."),
        ],
        facts: &[
            fact(10, "P1 (S0) is inside", See::Inside(&[0])),
            fact(12, "P2 (S1) is inside", See::Inside(&[1])),
            fact(12, "P3's queue still has P1's request", See::Queue(2, "LRQ", &["(1,S0)", "(2,S2)"])),
            fact(14, "P3 (S2) is inside", See::Inside(&[2])),
            fact(15, "one FLUSH, not two", See::Sent("FLUSH", 1)),
            fact(15, "entered as they asked", See::Entered(&[0, 1, 2])),
        ],
        ..PreparedRun::PLAIN
    },
    PreparedRun {
        id: "chapter-9-16",
        source: "Chapter 9, section 9.9.4, Figure 9.16",
        title: "Tree quorums: a path from the root to a leaf",
        caption: "Fifteen sites in a binary tree. A quorum is all sites of a path from the root to a leaf, so every two share at \
                  least the root. The chapter counts sites from 1: its site 8 is S7.",
        algorithm: "tree-quorum",
        sites: 15,
        acts: "0q7",
        until: 40,
        scenes: &[scene(1, "Site 8 (S7), a leaf, asks the path above it: 1, 2, 4, 8.")],
        facts: &[
            fact(1, "its quorum is 1, 2, 4, 8 in the chapter's count", See::Set(7, "quorum", &[0, 1, 3, 7])),
            fact(7, "it enters with three permissions and its own", See::Inside(&[7])),
        ],
        ..PreparedRun::PLAIN
    },
    PreparedRun {
        id: "chapter-9-16-node-3",
        source: "Chapter 9, section 9.9.4, Figure 9.16, when node 3 fails",
        title: "Tree quorums: a failed site is replaced by two paths",
        caption: "Site 3 (S2) fails and all learn it. Below it, paths that start from both its children stand in for it.",
        algorithm: "tree-quorum",
        sites: 15,
        acts: "0f2.15q11",
        until: 60,
        scenes: &[
            scene(1, "Site 3 fails; the others learn it one by one."),
            scene(16, "Site 12 (S11) asks 1, and instead of 3 the paths 6–12 and 7–14 or 7–15."),
        ],
        facts: &[
            fact(
                16,
                "its quorum is one of the eight of the text",
                See::Set(11, "quorum", &[0, 5, 6, 11, 14]),
            ),
            fact(24, "it enters", See::Inside(&[11])),
        ],
        ..PreparedRun::PLAIN
    },
    PreparedRun {
        id: "chapter-9-16-nodes-1-2",
        source: "Chapter 9, section 9.9.4, Figure 9.16, if sites 1 and 2 are down",
        title: "Tree quorums: without the root, seven sites",
        caption: "Sites 1 and 2 fail. Every quorum now has 3, 4 and 5 in it, and seven sites in all.",
        algorithm: "tree-quorum",
        sites: 15,
        acts: "0f0.f1.28q2",
        until: 80,
        scenes: &[scene(29, "Site 3 (S2) asks: a path from 3, one from 4, one from 5.")],
        facts: &[fact(29, "seven sites", See::Set(2, "quorum", &[2, 3, 4, 6, 7, 9, 13]))],
        ..PreparedRun::PLAIN
    },
    PreparedRun {
        id: "chapter-9-16-path",
        source: "Chapter 9, section 9.9.4, Figure 9.16, when sites 1, 2, 4 and 8 are inaccessible",
        title: "Tree quorums: with a whole path down there is no quorum",
        caption: "Sites 1, 2, 4 and 8 fail: a path from the root to a leaf. No quorum can be formed any more.",
        algorithm: "tree-quorum",
        sites: 15,
        acts: "0f0.f1.f3.f7.48q4",
        until: 80,
        scenes: &[scene(49, "Site 5 (S4) asks, and will wait until a site of the path comes back.")],
        facts: &[fact(49, "it waits", See::Waiting(&[4]))],
        ..PreparedRun::PLAIN
    },
    PreparedRun {
        id: "chapter-9-17",
        source: "Chapter 9, section 9.12, Figures 9.17 to 9.19",
        title: "Raymond: the edges that the privilege crosses turn round",
        caption: "Seven sites in a tree; A to G are S0 to S6. Every HOLDER points towards the privilege. Requests go along the \
                  arrows, the privilege comes back, and the arrows that it crosses turn.",
        algorithm: TREE,
        sites: 7,
        holders: &[6],
        acts: "0q1.d1-2.d2-6.x6.d6-2.d2-1.q2.d2-1.q4.d4-0.d0-1.x1.d1-2.d1-2.x2.d2-1.d1-0.d0-4.x4",
        until: 19,
        scenes: &[
            scene(0, "Figures 9.17 and 9.18: G (S6) is inside; all arrows lead to it."),
            scene(6, "Figure 9.19: B (S1) has asked and is inside; all arrows lead to B."),
            scene(11, "Section 9.12.4: C (S2) heads B's queue, then E's request comes through A."),
            scene(14, "B leaves: the privilege goes to C, and B asks for it back on behalf of A."),
            scene(18, "C leaves: the privilege goes along B and A to E (S4)."),
        ],
        facts: &[
            fact(
                0,
                "all HOLDER arrows lead to G",
                See::Pointers("HOLDER", &[Some(1), Some(2), Some(6), Some(2), Some(0), Some(1), None]),
            ),
            fact(
                6,
                "all HOLDER arrows lead to B",
                See::Pointers("HOLDER", &[Some(1), None, Some(1), Some(2), Some(0), Some(1), Some(2)]),
            ),
            fact(11, "B's queue is C, A", See::Queue(1, "REQUEST_Q", &["S2", "S0"])),
            fact(18, "E is inside", See::Inside(&[4])),
            fact(19, "B, C and E have entered in turn", See::Entered(&[1, 2, 4])),
        ],
    },
];
