//! Singhal, "A Heuristically-Aided Algorithm for Mutual Exclusion in Distributed Systems", 1989.

use crate::Property;
use crate::errata::{Erratum, Evidence, Run};

pub(super) const ERRATA: &[Erratum] = &[
    Erratum {
        id: "singhal-heuristic-not-live",
        source: "Singhal 1989, sections III-F and III-G; Lemma 3 and Theorem 2",
        title: "a request is left at a site that never forwards it",
        printed: "A site raises SN from the token, and discards a request whose number it knows; who has been served is marked N.",
        wrong: "A request that comes after its sender was served is discarded, though the sender no longer looks here. Neither \
                looks to the other, and a later request waits for ever while the token is idle, FIFO or not.",
        repair: "SN holds only what the requester itself has told. A site that keeps the idle token, or leaves and keeps it, \
                 answers such a late request with its own last one.",
        evidence: Evidence::Exploration {
            printed: Run::new("singhal-heuristic:text=printed", 3, 2),
            property: Property::Deadlock,
            repaired: &[
                Run::new("singhal-heuristic", 3, 2).unordered(),
                Run::new("singhal-heuristic", 4, 1).unordered(),
            ],
        },
    },
    Erratum {
        id: "singhal-heuristic-fifo-not-needed",
        source: "Singhal 1989, section II",
        title: "the assumption of ordered channels is superfluous",
        printed: "Between any pair of sites messages are delivered in the order they are sent.",
        wrong: "The repaired algorithm does not need it.",
        repair: "Drop the assumption.",
        evidence: Evidence::Assumption {
            without: &[
                Run::new("singhal-heuristic", 3, 2).unordered(),
                Run::new("singhal-heuristic", 3, 1).unordered().crashes(1),
            ],
        },
    },
];
