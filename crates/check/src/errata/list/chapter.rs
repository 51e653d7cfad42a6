//! Kshemkalyani and Singhal, "Distributed Computing", chapter 9.

use crate::Property;
use crate::errata::{Erratum, Evidence, Run, TO_THE_LETTER, TextFault, calculation};

const RULES_6_TO_8: &str = "Kshemkalyani & Singhal ch. 9, section 9.9.5, rules 6 to 8";

const TREES: &[Run] = &[Run::new("tree-quorum", 3, 2), Run::new("tree-quorum", 4, 1)];

pub(super) const ERRATA: &[Erratum] = &[
    Erratum {
        id: "suzuki-kasami-step-b",
        kind: TextFault::Error,
        quote: "If S_j has the idle token, then it sends the token to S_i if RN_j[i] = LN[j] + 1.",
        reading: TO_THE_LETTER,
        source: "Kshemkalyani & Singhal ch. 9, section 9.11, Algorithm 9.7, step (b)",
        title: "an idle holder compares with its own number and keeps the token",
        printed: "A site S_j with the idle token sends it to the requester S_i if RN_j[i] = LN[j] + 1.",
        wrong: "LN[j] is the holder's own number. Once it differs from the requester's, the holder keeps the token and the \
                requester waits for ever, already with two sites.",
        repair: "Compare with LN[i] + 1, the number of the requester, as step (e) does.",
        evidence: Evidence::Exploration {
            printed: Run::new("suzuki-kasami:text=printed", 2, 1),
            property: Property::Deadlock,
            repaired: &[
                Run::new("suzuki-kasami", 3, 2).unordered(),
                Run::new("suzuki-kasami", 4, 1).unordered(),
            ],
        },
    },
    Erratum {
        id: "suzuki-kasami-outdated",
        kind: TextFault::Question,
        quote: "the request is outdated if RN_i[j] > n",
        reading: TO_THE_LETTER,
        source: "Kshemkalyani & Singhal ch. 9, section 9.11, outdated requests",
        title: "is a REQUEST with the last number not outdated, too?",
        printed: "A REQUEST(j, n) is outdated if RN_i[j] > n.",
        wrong: "Claim: it must be ≥. A copy of the last REQUEST counts as a current one, and could draw the token to a site that \
                does not need it.",
        repair: "None is needed. Who keeps the idle token has compared RN with LN before: a request that still waits was served \
                 then, and a copy of one that is served does not make RN = LN + 1. (What ships reports a copy, because \
                 no correct channel brings one.)",
        evidence: Evidence::Suspicion {
            printed: &[
                Run::new("suzuki-kasami:text=outdated", 2, 2).unordered().duplicates(2),
                Run::new("suzuki-kasami:text=outdated", 3, 1).unordered().duplicates(1),
            ],
        },
    },
    Erratum {
        id: "raymond-recovery-delay",
        kind: TextFault::Ambiguous,
        quote: "selects a delay period for the recovery phase in order to get back all the lost information. […] The ADVISE message that a recovering node A receives from each immediate neighbor B will contain information on the HOLDER, ASKED, and REQUEST_Q variables of B",
        reading: "The delay ends the recovery, whoever has not answered by then. If the second sentence means that the node waits for each neighbour, however long that takes, nothing is wrong, and what ships does that.",
        source: "Kshemkalyani & Singhal ch. 9, section 9.12.7",
        title: "if the recovery ends after a delay, a second privilege appears",
        printed: "A node that restarts selects a delay for its recovery phase and waits for ADVISE messages. If HOLDER_B = A for \
                  all neighbours B of A, then A holds the privilege.",
        wrong: "A neighbour whose ADVISE takes longer than the delay may be the one on whose side the privilege is. With three sites \
                two are inside, even if the site waits again as long as nobody has advised it.",
        repair: "Wait for the ADVISE of every neighbour; RESTART and ADVISE carry an incarnation.",
        evidence: Evidence::Exploration {
            printed: Run::new("raymond:text=printed", 3, 1).crashes(1).recoveries(),
            property: Property::Exclusion,
            repaired: &[
                Run::new("raymond", 3, 1).crashes(1).recoveries(),
                Run::new("raymond:tree=line", 3, 1).crashes(1).recoveries(),
            ],
        },
    },
    Erratum {
        id: "maekawa-chapter-deadlock",
        kind: TextFault::Error,
        quote: "site S_k sends a YIELD(k) message to S_j provided S_k has received a FAILED message from a site in its request set",
        reading: "An INQUIRE is answered when it comes or not at all. The text names no later moment at which it would be.",
        source: "Kshemkalyani & Singhal ch. 9, section 9.8.1",
        title: "an INQUIRE that comes before a FAILED is forgotten",
        printed: "A site answers an INQUIRE by YIELD if it has received a FAILED; nothing is said of an INQUIRE that comes \
                  before the FAILED.",
        wrong: "Three sites each hold one permission; the INQUIREs come before the FAILEDs and are ignored; nobody yields.",
        repair: "Remember the INQUIRE and yield when a FAILED comes (`deadlock=fail`), or yield to every INQUIRE unless inside \
                 and do without FAILED (`deadlock=yield`). Every message names the request that it is about.",
        evidence: Evidence::Exploration {
            printed: Run::new("maekawa:text=printed", 3, 1),
            property: Property::Deadlock,
            repaired: &[
                Run::new("maekawa:deadlock=fail", 3, 2).unordered(),
                Run::new("maekawa:deadlock=yield", 3, 2).unordered(),
            ],
        },
    },
    Erratum {
        id: "maekawa-1985-rules",
        kind: TextFault::Error,
        quote: "neglects to send a FAIL message to the process involved in an INQUIRE/YIELD exchange when a REQUEST with a smaller time stamp arrives and could deadlock in this situation",
        reading: "The sentence is Sanders' about Maekawa's rules. We do not have the paper of 1985: explored are the rules as they are usually given, without that FAILED.",
        source: "Maekawa 1985, as it is usually given (and as Sanders 1987, section 5, criticises it)",
        title: "who waits is not told FAILED when an earlier request comes",
        printed: "FAILED goes to a newcomer that the granted or a queued request precedes; otherwise the arbiter inquires. A \
                  request that is queued already gets no FAILED when an earlier one comes.",
        wrong: "A site that was first in a queue, and so was not refused, never learns that it is first no longer, and does not \
                yield what others wait for. It takes four sites.",
        repair: "FAILED goes to every queued request behind the newcomer that has not had one (`deadlock=fail`).",
        evidence: Evidence::Exploration {
            printed: Run::new("maekawa:text=1985", 4, 1),
            property: Property::Deadlock,
            repaired: &[Run::new("maekawa:deadlock=fail", 4, 1), Run::new("maekawa:deadlock=yield", 4, 1)],
        },
    },
    Erratum {
        id: "tree-quorum-rules-6-8",
        kind: TextFault::Error,
        quote: "When a site gets the “Yield” message, it puts the pending request (on behalf of which the “Inquire” message was sent) at the head of the queue and sends a “Reply” message to the requestor.",
        reading: "A site that has sent an INQUIRE waits for the answer before it sends another. Messages name their request and turn, which the printed ones do not: without that two are inside, see the three entries that follow.",
        source: RULES_6_TO_8,
        title: "what is yielded goes to the pending request, though an earlier one has come",
        printed: "A request earlier than the head makes the site inquire and wait for YIELD or RELINQUISH. On YIELD the pending \
                  request, on whose behalf it inquired, becomes the head and gets the REPLY.",
        wrong: "Meanwhile a still earlier request may have come. It waits behind the pending one, and nobody inquires on its \
                behalf: the two hold what the other lacks.",
        repair: "On YIELD the earliest request gets the REPLY; an arbiter has one INQUIRE out at most, and messages name their \
                 request and turn.",
        evidence: Evidence::Exploration {
            printed: Run::new("tree-quorum:text=printed", 5, 1),
            property: Property::Deadlock,
            repaired: &[Run::new("tree-quorum", 5, 1), Run::new("tree-quorum", 3, 1).unordered().crashes(1)],
        },
    },
    Erratum {
        id: "tree-quorum-head",
        kind: TextFault::Ambiguous,
        quote: "an “Inquire” message is sent to the process whose request is at the head of the queue",
        reading: "The head is the request with the lowest timestamp, as rules 2 and 3 say, whether or not it has had the REPLY. If the head is the request that has had it, see the two entries that follow.",
        source: RULES_6_TO_8,
        title: "the INQUIRE goes to the head of the queue, which has nothing to yield",
        printed: "The queue is ordered by timestamps. A request earlier than the head makes the site inquire of the head. A site that \
                  lacks replies answers by YIELD, and then the earlier request gets the REPLY.",
        wrong: "A second earlier request makes the site inquire of the first one, which is at the head and has had no REPLY. It \
                yields what it does not have, and the second gets a REPLY while the permission is with a third: two are inside, with \
                one request each.",
        repair: "Inquire of the request that has had the REPLY; messages name their request and turn.",
        evidence: Evidence::Exploration {
            printed: Run::new("unnamed-quorum:text=tree-literal", 5, 1),
            property: Property::Exclusion,
            repaired: TREES,
        },
    },
    Erratum {
        id: "tree-quorum-two-inquiries",
        kind: TextFault::Ambiguous,
        quote: "If a new request arrives with a timestamp smaller than the request at the head of the queue, an “Inquire” message is sent […] and waits for a “Yield” or “Relinquish” message.",
        reading: "The head is the request that has had the REPLY, and every earlier request makes the site inquire. If a site that waits for an answer does not inquire again, see the next entry.",
        source: RULES_6_TO_8,
        title: "two INQUIREs are answered by two YIELDs of one permission",
        printed: "Every request earlier than the head makes the site inquire, and every YIELD gives a REPLY to the request on whose \
                  behalf the INQUIRE was sent.",
        wrong: "The site that has the permission yields it twice. By the second YIELD it is somebody else's already, who keeps it: two \
                are inside, with one request each.",
        repair: "An arbiter has one INQUIRE out at most; messages name their request and turn.",
        evidence: Evidence::Exploration {
            printed: Run::new("unnamed-quorum:text=tree-every", 4, 1),
            property: Property::Exclusion,
            repaired: TREES,
        },
    },
    Erratum {
        id: "tree-quorum-late-inquire",
        kind: TextFault::Error,
        quote: "If s has not yet collected enough replies from its quorum, then it sends a “Yield” message to the inquiring site.",
        reading: "The softest: the head is the request that has had the REPLY, a site that has inquired waits for YIELD or RELINQUISH, and takes a YIELD only of the site that it has inquired of. Messages name no request, as printed; channels are FIFO.",
        source: RULES_6_TO_8,
        title: "an INQUIRE about the last request is answered for the next",
        printed: "A site that lacks replies answers an INQUIRE by YIELD. RELINQUISH answers an INQUIRE, too.",
        wrong: "The INQUIRE and the RELINQUISH cross. The site has asked again when the INQUIRE comes, and yields although nothing was \
                granted yet. By the time of that YIELD it has been granted, and inquired of again: the YIELD counts as the answer, and \
                both enter. Three sites that ask twice.",
        repair: "INQUIRE and YIELD name the request and the turn that they are about.",
        evidence: Evidence::Exploration {
            printed: Run::new("unnamed-quorum:text=tree-waiting", 3, 2),
            property: Property::Exclusion,
            repaired: TREES,
        },
    },
    Erratum {
        id: "tree-quorum-line-15",
        kind: TextFault::Error,
        quote: "(* Unsuccessful in establishing a quorum *) EXIT(-1); […] as long as the number of site failures is less than log n, the tree quorum algorithm guarantees the formation of a quorum",
        reading: "The OR of lines 7 to 9 is one choice, made before the outcome is known. The prose says that the algorithm terminates with an error condition.",
        source: "Kshemkalyani & Singhal ch. 9, section 9.9.1, Algorithm 9.6, line 15",
        title: "GetQuorum gives up where a sibling's path would do",
        printed: "A failed site without two quorums below it ends the whole algorithm: EXIT(−1).",
        wrong: "Section 9.9.4 promises a quorum as long as fewer than log n sites have failed. One failed leaf on the path that \
                happens to be tried (the left one here) breaks the promise.",
        repair: "Return failure, and let the caller try the other child.",
        evidence: Evidence::Calculation(calculation::tree_quorums),
    },
    Erratum {
        id: "chapter-figure-9-15",
        kind: TextFault::Error,
        quote: "Since the requests of P_2 and P_3 are not concurrent, P_2 sends a FLUSH message to P_3.",
        reading: TO_THE_LETTER,
        source: "Kshemkalyani & Singhal ch. 9, section 9.6.2, Figure 9.15",
        title: "a FLUSH to a request that is not concurrent",
        printed: "Since the requests of P2 and P3 are not concurrent, P2 sends a FLUSH to P3.",
        wrong: "By Algorithm 9.4 a FLUSH is for the next concurrent request; one that is not concurrent was deferred and gets a \
                REPLY.",
        repair: "P2 sends a REPLY.",
        evidence: Evidence::Calculation(calculation::figure_9_15),
    },
    Erratum {
        id: "lamport-fifo-not-needed",
        kind: TextFault::Question,
        quote: "This algorithm requires communication channels to deliver messages in FIFO order.",
        reading: "The text is right: this records that the assumption was tried and is needed.",
        source: "Kshemkalyani & Singhal ch. 9, section 9.3",
        title: "is the assumption of FIFO channels superfluous?",
        printed: "The algorithm requires channels that deliver in FIFO order.",
        wrong: "Claim: it would do without, as Ricart and Agrawala's does.",
        repair: "None: the assumption is needed, already with two sites.",
        evidence: Evidence::Assumption { without: &[Run::new("lamport", 2, 1).unordered()] },
    },
    Erratum {
        id: "ricart-agrawala-fifo-not-needed",
        kind: TextFault::Assumption,
        quote: "assumes that the communication channels are FIFO",
        reading: "An assumption that is not needed is no error.",
        source: "Kshemkalyani & Singhal ch. 9, section 9.4",
        title: "the assumption of FIFO channels is superfluous",
        printed: "The algorithm assumes that channels are FIFO.",
        wrong: "It does not need it: a site has one request at a time, and each REPLY answers that one.",
        repair: "Drop the assumption.",
        evidence: Evidence::Assumption {
            without: &[
                Run::new("ricart-agrawala", 2, 3).unordered(),
                Run::new("ricart-agrawala", 3, 2).unordered(),
            ],
        },
    },
    Erratum {
        id: "singhal-dynamic-fifo-not-needed",
        kind: TextFault::Assumption,
        quote: "between any pair of sites, messages are delivered in the order they are sent",
        reading: "An assumption that is not needed is no error.",
        source: "Kshemkalyani & Singhal ch. 9, section 9.5",
        title: "the assumption of ordered channels is superfluous",
        printed: "Messages between two sites are delivered in the order sent.",
        wrong: "It does not need it.",
        repair: "Drop the assumption.",
        evidence: Evidence::Assumption { without: &[Run::new("singhal-dynamic", 3, 2).unordered()] },
    },
    Erratum {
        id: "maekawa-fifo-not-needed",
        kind: TextFault::Assumption,
        quote: "This algorithm requires delivery of messages to be in the order they are sent between every pair of sites.",
        reading: "For the shipped form, whose messages name their request. The printed messages do not, and need the order.",
        source: "Kshemkalyani & Singhal ch. 9, section 9.8",
        title: "the requirement of ordered channels is superfluous if messages name their request",
        printed: "The algorithm requires messages to be delivered in the order sent between every pair of sites.",
        wrong: "What is late or crosses can be recognised by the request and the turn that it names.",
        repair: "Name them, and drop the requirement.",
        evidence: Evidence::Assumption {
            without: &[
                Run::new("maekawa:deadlock=yield", 3, 2).unordered(),
                Run::new("maekawa:deadlock=fail", 3, 2).unordered(),
            ],
        },
    },
];
