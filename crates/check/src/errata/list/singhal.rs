//! Singhal, "A Heuristically-Aided Algorithm for Mutual Exclusion in Distributed Systems", 1989.

use crate::Property;
use crate::errata::{Erratum, Evidence, Run, TO_THE_LETTER, TextFault};

pub(super) const ERRATA: &[Erratum] = &[
    Erratum {
        id: "singhal-heuristic-not-live",
        kind: TextFault::Error,
        quote: "if SN[j] ≥ SeqNo, then {discard the message} /* the message is out-dated */ […] then all sites of the system form a totally ordered sequence at that instant",
        reading: "To the letter, with the condensed update rule, which the paper says is the same as the detailed ones.",
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
        id: "singhal-heuristic-twice",
        kind: TextFault::Error,
        quote: "Therefore, under the second arbitration rule, once all of site S_i's request messages have been processed by its recipient sites, no other site can execute the CS twice (or more number of times) before site S_i has executed the CS.",
        reading: "To the letter: from a moment on at which no message of the waiting site is in flight, at most N − 1 entries of others, which is one of each. The paper's rules as printed, with the second arbitration rule.",
        source: "Singhal 1989, section IV-C",
        title: "a site enters twice before one whose requests have been processed",
        printed: "Once all request messages of a site have been processed, no other site enters twice before it.",
        wrong: "The site that has processed the request need not have the token, and tells nobody before it has it again. Another, \
                which has the idle token and knows nothing of the request, enters again and again for nothing. Three sites that ask \
                twice; with three requests each, four entries of others. What ships does the same.",
        repair: "None. Nothing is claimed of the bypass of what ships; that every request of a bounded run is served is explored.",
        evidence: Evidence::Exploration {
            printed: Run::new("singhal-heuristic:text=printed", 3, 2),
            property: Property::Bypass,
            repaired: &[Run::new("singhal-heuristic", 3, 2)],
        },
    },
    Erratum {
        id: "singhal-heuristic-fifo-not-needed",
        kind: TextFault::Assumption,
        quote: "between any pair of sites, messages are delivered in the order they are sent",
        reading: "For the repaired form. An assumption that is not needed is no error.",
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
    Erratum {
        id: "singhal-second-step-1",
        kind: TextFault::Error,
        quote: "we need to simply change step 1 of the algorithm in the following way: Step 1: SN[i] := SN[i] + 1; […] SN[i] > TSN[i]: cannot occur",
        reading: "The second form of step 1 together with the detailed update rules. The condensed rule, which the paper says is the same, \
                  has no such case and does the right thing; with the first form none arises in what was explored.",
        source: "Singhal 1989, section III-G, the second form of step 1, and Rule 6",
        title: "the second form of step 1 leads to a case of the update rules that cannot occur",
        printed: "A site that has the idle token raises its own number too, and enters. At its exit SV and TSV of itself are N, and Rule 6 says \
                  that SN cannot be above TSN then.",
        wrong: "It is above it: the token has not heard of the new number. The detailed rules do not say what to do. One site alone shows it.",
        repair: "Use the condensed rule, which takes the larger number, as what ships does.",
        evidence: Evidence::Exploration {
            printed: Run::new("singhal-1989-recovery:text=second-step-1", 2, 1),
            property: Property::Invariants,
            repaired: &[Run::new("singhal-1989-recovery", 4, 1)],
        },
    },
    Erratum {
        id: "singhal-recovery-numbers",
        kind: TextFault::Error,
        quote: "Setting all entries of SN to 0 by S_i does not create any problem because when S_i gets the token next, update rules will appropriately set the SN from TSN.",
        reading: TO_THE_LETTER,
        source: "Singhal 1989, section VI-B, crash recovery procedure, step 2",
        title: "a site that comes back numbers its requests from 1 again, and they look outdated",
        printed: "A recovering site sets all entries of its SN to 0, which is said to do no harm: the update rules set them right \
                  when the site gets the token next.",
        wrong: "It does not get the token next: its own number is among those entries, and whoever knows a request of its former \
                incarnation discards the new one. It waits for ever, with two sites.",
        repair: "Keep the own number on stable storage. What ships keeps how often the site has failed, and begins every number with \
                 it.",
        evidence: Evidence::Exploration {
            printed: Run::new("singhal-1989-recovery:text=numbers", 2, 2).crashes(1).recoveries(),
            property: Property::Deadlock,
            repaired: &[
                Run::new("singhal-1989-recovery", 2, 2).crashes(1).recoveries(),
                Run::new("singhal-heuristic", 2, 2).crashes(1).recoveries(),
            ],
        },
    },
    Erratum {
        id: "singhal-recovery-own-entry",
        kind: TextFault::Error,
        quote: "Set all entries of its state vector SV to \"R\" […] However, if the failed site had recovered before the token arrives, then the system continues to function normally.",
        reading: TO_THE_LETTER,
        source: "Singhal 1989, section VI-B, crash recovery procedure, step 2, and case III",
        title: "a site that comes back believes that it waits, and enters unasked",
        printed: "A recovering site sets all entries of its SV to R. If it had waited, and recovers before the token arrives that was \
                  on its way to it, all is said to be normal.",
        wrong: "All entries are one too many: with its own at R the site takes the token for an answer, and is inside although no \
                process of it has asked.",
        repair: "Its own entry is N. What ships drops the token, which the others know to be lost, and makes another.",
        evidence: Evidence::Exploration {
            printed: Run::new("singhal-1989-recovery:text=own-entry", 2, 1).crashes(1).recoveries(),
            property: Property::Exclusion,
            repaired: &[Run::new("singhal-heuristic", 2, 2).crashes(1).recoveries()],
        },
    },
    Erratum {
        id: "singhal-failed-in-token",
        kind: TextFault::Error,
        quote: "In the first situation, all the up sites may learn that a particular site is down before any one of them has sent the token to it. […] no site sends the token to it",
        reading: "To the letter, with what the sentence supposes: in the runs explored all others know of the failure before anything else happens.",
        source: "Singhal 1989, section VI-B, case III, first situation",
        title: "the token is sent to a site that all know to have failed",
        printed: "If all sites learn of a failure before the token is sent to the failed site, they set its SV entry to N, and so \
                  nobody sends it the token.",
        wrong: "TSV is forgotten. If the token has learnt of the request, the update rules restore the entry from there, and the \
                token goes to the failed site. Three sites.",
        repair: "Clear the entries of failed sites in TSV too, and leave them out of the arbitration.",
        evidence: Evidence::Exploration {
            printed: Run::new("singhal-1989-recovery:text=in-token", 3, 1).crashes(1).news_first(),
            property: Property::Invariants,
            repaired: &[
                Run::new("singhal-1989-recovery", 3, 1).crashes(1).news_first(),
                Run::new("singhal-1989-recovery", 3, 1).crashes(1),
                Run::new("singhal-heuristic", 3, 1).crashes(1),
            ],
        },
    },
    Erratum {
        id: "singhal-case-iii-indices",
        kind: TextFault::Ambiguous,
        quote: "When a site S_j learns that site S_i is down, S_j sets its SV[j] to N. Therefore, site S_j is pushed to the highest end of the staircase pattern",
        reading: "To the letter; the same index stands in three places. Cases I and II have the other one, and are right: what is meant is plain.",
        source: "Singhal 1989, section VI-B, case III, first situation",
        title: "who learns of a failure marks itself, not the failed site",
        printed: "When a site S_j learns that site S_i is down, S_j sets its SV[j] to N; therefore S_j is pushed to the highest end of \
                  the staircase pattern.",
        wrong: "To the letter the holder of the idle token forgets that it has it, and when it asks next it \
                waits for it for ever. Two sites.",
        repair: "It sets SV[i] to N, as cases I and II have it.",
        evidence: Evidence::Exploration {
            printed: Run::new("singhal-1989-recovery:text=indices", 2, 1).crashes(1).recoveries(),
            property: Property::Deadlock,
            repaired: &[Run::new("singhal-1989-recovery", 2, 2).crashes(1).recoveries()],
        },
    },
];
