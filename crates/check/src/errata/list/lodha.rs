//! Lodha and Kshemkalyani, "A Fair Distributed Mutual Exclusion Algorithm", 2000; chapter 9, section 9.6, repeats it.

use crate::Property;
use crate::errata::{Erratum, Evidence, Run, TO_THE_LETTER, TextFault};

const FIGURE_2: &str =
    "Lodha & Kshemkalyani 2000, section 3.3, Figure 2; Kshemkalyani & Singhal ch. 9, Algorithm 9.4";

const REPAIRED: &[Run] = &[Run::new("lodha-kshemkalyani", 3, 2)];

/// The four parts of the repair, each shown to be needed by leaving it out.
const fn part(id: &'static str, run: Run, property: Property, texts: [&'static str; 6]) -> Erratum {
    let [title, quote, reading, printed, wrong, repair] = texts;
    let evidence = Evidence::Exploration { printed: run, property, repaired: REPAIRED };
    Erratum {
        id,
        kind: TextFault::Error,
        quote,
        reading,
        source: FIGURE_2,
        title,
        printed,
        wrong,
        repair,
        evidence,
    }
}

pub(super) const ERRATA: &[Erratum] = &[
    Erratum {
        id: "lodha-figure-1-highest-seen",
        kind: TextFault::Error,
        quote: "P_i's REQUEST has a lower priority than P_j's REQUEST. In this case, P_i sends a REPLY to P_j.",
        reading: "Only Figure 1. Section 2.1 of the same paper raises the number whenever a REQUEST is received, and is right.",
        source: "Lodha & Kshemkalyani 2000, section 2.2, Figure 1 (Ricart and Agrawala's algorithm)",
        title: "the highest sequence number seen is raised in one of three branches only",
        printed: "RcvReq raises Highest_Sequence_Number_Seen only where the REQUEST is deferred, not where it is answered.",
        wrong: "A site that has just answered may use a number below that of the request which it let pass, and takes \
                precedence over a site that is inside.",
        repair: "Raise it by every REQUEST.",
        evidence: Evidence::Exploration {
            printed: Run::new("ricart-agrawala:text=printed", 2, 2),
            property: Property::Exclusion,
            repaired: &[Run::new("ricart-agrawala", 2, 3), Run::new("ricart-agrawala", 3, 2)],
        },
    },
    Erratum {
        id: "lodha-not-live",
        kind: TextFault::Error,
        quote: "if RV_i[j] = 0, then insert this request in the LRQ_i (in sorted order) and mark RV_i[j] = 1",
        reading: TO_THE_LETTER,
        source: FIGURE_2,
        title: "a REQUEST that comes late blocks its receiver for ever",
        printed: "A REQUEST that counts as its sender's answer is queued; it is taken out by the FLUSH or REPLY that names a \
                  later request.",
        wrong: "If that FLUSH or REPLY has come before, nobody ever takes it out.",
        repair: "The four parts that follow.",
        evidence: Evidence::Exploration {
            printed: Run::new("lodha-kshemkalyani:text=printed", 3, 1),
            property: Property::Deadlock,
            repaired: REPAIRED,
        },
    },
    Erratum {
        id: "lodha-not-safe",
        kind: TextFault::Error,
        quote: "RV_i[j] = 1 indicates that process P_j has replied (by a REPLY or by a REQUEST or by a FLUSH)",
        reading: TO_THE_LETTER,
        source: FIGURE_2,
        title: "a FLUSH that comes late lets two in",
        printed: "A FLUSH counts as its sender's answer.",
        wrong: "It may be meant for a request that was served meanwhile on other news; then it is credited to the receiver's \
                next request, which never had the sender's answer.",
        repair: "The four parts that follow.",
        evidence: Evidence::Exploration {
            printed: Run::new("lodha-kshemkalyani:text=printed", 3, 2),
            property: Property::Exclusion,
            repaired: REPAIRED,
        },
    },
    part(
        "lodha-own-number",
        Run::new("lodha-kshemkalyani:text=without-1", 2, 2),
        Property::Exclusion,
        [
            "part 1 of the repair is needed: one's own request counts as seen",
            "My_Sequence_Number_i = Highest_Sequence_Number_Seen_i + 1",
            "The three other parts of the repair are in place. By section 2.1 the highest number is that seen so far and is raised by a REQUEST that is received: one's own is not received. With all rules as printed, two sites that ask three times show nothing.",
            "InvMutEx takes Highest_Sequence_Number_Seen + 1 and does not raise it.",
            "The site may use the same number again. Its next request then looks like the one that was served, and two are inside, with two \
             sites. Fewer steps do not suffice: not with two or three sites, whatever options are on (a test, \
             `a_number_that_is_used_again_lets_two_in_after_eight_steps_and_no_fewer`), and with four or more sites two entries take at least eight \
             steps, since each waits for the messages of all others.",
            "A site's own request raises the highest sequence number seen.",
        ],
    ),
    part(
        "lodha-late-request",
        Run::new("lodha-kshemkalyani:text=without-2", 3, 2),
        Property::Deadlock,
        [
            "part 2 of the repair is needed: what is finished is remembered",
            "if RV_i[j] = 0, then insert this request in the LRQ_i (in sorted order) and mark RV_i[j] = 1",
            "The three other parts of the repair are in place.",
            "A REQUEST is queued whatever is known to be finished.",
            "One that comes after the news that it was served is never taken out of the queue.",
            "Remember the last request known to be finished; a REQUEST up to it counts as an answer and is not queued.",
        ],
    ),
    part(
        "lodha-late-flush",
        Run::new("lodha-kshemkalyani:text=without-3", 3, 2),
        Property::Order,
        [
            "part 3 of the repair is needed: a FLUSH is no answer",
            "RV_i[j] = 1 indicates that process P_j has replied (by a REPLY or by a REQUEST or by a FLUSH)",
            "The three other parts of the repair are in place.",
            "A FLUSH sets RV for its sender.",
            "One that comes late is credited to the receiver's next request, which then passes its sender's.",
            "A FLUSH only purges the queue; where it is legitimate the answer was there before.",
        ],
    ),
    part(
        "lodha-request-tells-nothing",
        Run::new("lodha-kshemkalyani:text=without-4", 3, 2),
        Property::Deadlock,
        [
            "part 4 of the repair is needed: a REQUEST tells what its sender has executed",
            "A REPLY message from P_j also carries the ReqID of the last REQUEST made by P_j that was satisfied.",
            "The three other parts of the repair are in place.",
            "Only FLUSH and REPLY tell that requests are finished.",
            "A site that is answered by REQUESTs alone never learns that what heads its queue is finished.",
            "A REQUEST says which request its sender executed last, and is read as a REPLY's id is.",
        ],
    ),
    Erratum {
        id: "lodha-combined-exit",
        kind: TextFault::Underspecified,
        quote: "P_i can send REPLY just to P_k, apprising P_k of all the information P_i has gathered. […] Now it is upto P_k to take care of the rest.",
        reading: "How P_k takes care of the rest is not said. Explored is the plain way: it passes each answer on when it leaves.",
        source: "Lodha & Kshemkalyani 2000, section 5, first improvement",
        title: "one message at the exit: the next REQUEST overtakes the answer that was handed over",
        printed: "Who leaves sends one message to the first that waits, which passes on what is for the others.",
        wrong: "The site may ask again, and its REQUEST reaches a third site before the answer that was handed over does; the \
                third takes it for one that crosses its own.",
        repair: "A REQUEST says which request of its receiver the sender has answered.",
        evidence: Evidence::Exploration {
            printed: Run::new("lodha-kshemkalyani:combined-exit,text=without-answers", 3, 2),
            property: Property::Deadlock,
            repaired: &[Run::new("lodha-kshemkalyani:combined-exit", 3, 2)],
        },
    },
    Erratum {
        id: "lodha-fifo-not-needed",
        kind: TextFault::Question,
        quote: "Unlike the RA algorithm but similar to Lamport's algorithm, we assume FIFO channels in the communication network.",
        reading: "The text assumes it and does not say why. Tried is the repaired algorithm, not the printed one: it needs it. No fault of the text.",
        source: "Lodha & Kshemkalyani 2000, section 3",
        title: "is the assumption of FIFO channels superfluous?",
        printed: "Channels are FIFO.",
        wrong: "Claim: it would do without, as Ricart and Agrawala's does.",
        repair: "None: the repaired algorithm needs it.",
        evidence: Evidence::Assumption { without: &[Run::new("lodha-kshemkalyani", 2, 2).unordered()] },
    },
];
