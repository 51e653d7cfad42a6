//! Sanders, "The information structure of distributed mutual exclusion algorithms", 1987.

use crate::Property;
use crate::errata::{Erratum, Evidence, Run, TO_THE_LETTER, TextFault, calculation};

pub(super) const ERRATA: &[Erratum] = &[
    Erratum {
        id: "sanders-correction",
        kind: TextFault::Error,
        quote: "If it has received a FAIL message from any process, or if it has sent a YIELD to any process and not yet received a new GRANT, it revokes the GRANT from the INQUIREing process.",
        reading: "The check is made when the INQUIRE comes, as the heading over the rule says.",
        source: "Sanders 1987, section 5, INQUIRE, step 2",
        title: "the corrected rules forget an INQUIRE that comes before a FAIL",
        printed: "A waiting site that gets an INQUIRE yields if it has had a FAIL, or has yielded and not been granted again. \
                  Otherwise nothing happens.",
        wrong: "If the FAIL comes after the INQUIRE the site never yields. Her own Figure 4, which is to show how the rules \
                resolve a deadlock, deadlocks.",
        repair: "Remember the INQUIRE, and yield when a FAIL comes.",
        evidence: Evidence::Exploration {
            printed: Run::new("sanders:structure=figure-4,text=forgotten-inquire", 3, 1),
            property: Property::Deadlock,
            repaired: &[
                Run::new("sanders:structure=figure-4", 3, 2),
                Run::new("sanders:structure=figure-2", 4, 1),
            ],
        },
    },
    Erratum {
        id: "sanders-untold-newcomer",
        kind: TextFault::Error,
        quote: "Otherwise, an INQUIRE message is sent to the process indicated by CSSTAT, unless one has already been sent. A FAIL message is sent to any process in the priority queue with a larger time stamp that has not yet been sent a FAIL message.",
        reading: "A larger time stamp: than the newcomer's. INQUIREs are remembered, so that this rule alone is at fault.",
        source: "Sanders 1987, section 5, REQUEST, step 2",
        title: "a newcomer behind a queued request is not told FAIL",
        printed: "A newcomer that precedes the granted request makes the site inquire; FAIL goes to queued requests that it \
                  precedes.",
        wrong: "A newcomer that precedes the granted request, but not all queued ones, is told nothing, keeps what it holds and \
                waits for ever. Found with four sites. Fewer steps do not show it in any structure of three sites, with one request each or \
                two, nor in any of four sites that ask at most six others altogether; here they ask five (a test, \
                `no_other_small_structure_leaves_a_newcomer_untold_in_fewer_steps`). So this is the shortest run known; whether another \
                structure of four sites or more has a shorter one is not known.",
        repair: "FAIL goes to a newcomer that any queued request precedes.",
        evidence: Evidence::Exploration {
            printed: Run::new("sanders:structure=0.3+2/1.2.3/2.3/3,text=untold-newcomer", 4, 1),
            property: Property::Deadlock,
            repaired: &[
                Run::new("sanders:structure=0.3+2/1.2.3/2.3/3", 4, 1),
                Run::new("sanders:structure=figure-2", 4, 1),
            ],
        },
    },
    Erratum {
        id: "sanders-fail-kept",
        kind: TextFault::Ambiguous,
        quote: "If it has received a FAIL message from any process, or if it has sent a YIELD to any process and not yet received a new GRANT, it revokes the GRANT from the INQUIREing process.",
        reading: "Step 2 alone, to the letter: of a YIELD it says until when it counts, of a FAIL it does not; and it does not say that the process still waits. An earlier sentence says so (\"A process waiting for GRANT messages may now cancel a GRANT […] before entering the critical section\"). With that, a FAIL that is never forgotten lets nobody in, in any structure of three sites with one request each (`text=sanders-fail-kept`).",
        source: "Sanders 1987, section 5, INQUIRE, step 2",
        title: "a FAIL that is never forgotten makes a process yield inside the critical section",
        printed: "A process that gets an INQUIRE yields if it has received a FAIL.",
        wrong: "It was refused first, was granted later and is inside when the INQUIRE comes. It yields, and another enters: on her own \
                Figure 4, with one request each.",
        repair: "A GRANT ends the FAIL of its sender, and who is inside keeps what it has.",
        evidence: Evidence::Exploration {
            printed: Run::new("unnamed-quorum:structure=0+1/1+0/0.1.2,text=sanders-fail-inside", 3, 1),
            property: Property::Exclusion,
            repaired: &[Run::new("sanders:structure=figure-4", 3, 2)],
        },
    },
    Erratum {
        id: "sanders-yield-without-grant",
        kind: TextFault::Underspecified,
        quote: "it revokes the GRANT from the INQUIREing process. A YIELD is sent to the INQUIREing process.",
        reading: "The YIELD is sent although there is no GRANT to revoke; the sentence supposes that there is one. INQUIREs are answered when they come, as printed, and messages name no request.",
        source: "Sanders 1987, section 5, INQUIRE, step 2, and YIELD, step 1",
        title: "a YIELD of what was not granted frees what another has",
        printed: "A waiting process that must wait answers an INQUIRE by YIELD; on a YIELD, CSSTAT is marked free and the next is \
                  granted.",
        wrong: "An INQUIRE and a RELEASE cross. When the INQUIRE comes its receiver has asked again and been refused elsewhere; it \
                yields, and the critical section is marked free although another has been granted it meanwhile. Three sites.",
        repair: "Yield only what has been granted; INQUIRE and YIELD name the request and the round that they are about.",
        evidence: Evidence::Exploration {
            printed: Run::new("unnamed-quorum:structure=0.2/1.2/1.2,text=sanders-ungranted", 3, 2),
            property: Property::Exclusion,
            repaired: &[Run::new("sanders:structure=0.2/1.2/1.2", 3, 2)],
        },
    },
    Erratum {
        id: "sanders-figure-1b",
        kind: TextFault::Question,
        quote: "by always yielding when an inquire has been received (inquire messages in this case are always sent to one's self) the need for FAIL messages can be eliminated",
        reading: "The text is right: it names the special case and two remedies. This records what happens without them, and that one repair serves this case and the others.",
        source: "Sanders 1987, section 5, INQUIRE, step 2, for Figure 1b",
        title: "is the remedy for Figure 1b needed, and is it a case of its own?",
        printed: "A waiting site yields to an INQUIRE only if it has had a FAIL or has yielded, and Figure 1b is a special case: \
                  there it should always yield to itself, or grant itself last.",
        wrong: "The remedy is needed: without it the later of two sites inquires of itself before the FAIL of the earlier one comes, and \
                forgets it. The case is not of its own: it is the INQUIRE that comes before a FAIL once more. If that is remembered, no \
                site need yield to itself without a reason (`text=own-inquire`).",
        repair: "Remember the INQUIRE, or always yield to oneself. What ships does both: the second saves the FAILs here.",
        evidence: Evidence::Exploration {
            printed: Run::new("sanders:structure=distributed,text=without-remedy", 2, 1),
            property: Property::Deadlock,
            repaired: &[
                Run::new("sanders:structure=distributed", 3, 1).unordered(),
                Run::new("sanders:structure=distributed,text=own-inquire", 3, 1).unordered(),
                Run::new("sanders:structure=figure-4,text=own-inquire", 3, 2),
                Run::new("sanders:structure=figure-2,text=own-inquire", 4, 1),
            ],
        },
    },
    Erratum {
        id: "sanders-local-recovery",
        kind: TextFault::Error,
        quote: "The local copies of the information structures may be inconsistent during the evolution of the algorithm […] but the algorithm will never violate mutual exclusion.",
        reading: TO_THE_LETTER,
        source: "Sanders 1987, section 7.1",
        title: "local recovery lets two in, because a grant was not remembered",
        printed: "Each site mends its own copy of the structure when it learns of a failure and tells nobody; who waits for the \
                  failed site asks the additions to its request set. \"The algorithm will never violate mutual exclusion.\"",
        wrong: "A site that waits and does not know of the failure yet grants another's request without having to remember it, \
                then enters on a grant that the failed site had sent. Two are inside after one failure, with three sites.",
        repair: "A REQUEST carries the failures that its sender knows of; a waiting site asks all additions, again if it had \
                 asked before they came to rely on each other.",
        evidence: Evidence::Exploration {
            printed: Run::new("sanders:structure=central,text=silent-recovery", 3, 1).crashes(1),
            property: Property::Exclusion,
            repaired: &[
                Run::new("sanders:structure=central", 3, 1).unordered().crashes(2),
                Run::new("sanders:structure=figure-4", 3, 1).unordered().crashes(1),
                Run::new("sanders:structure=grid", 3, 1).unordered().crashes(1),
            ],
        },
    },
    Erratum {
        id: "sanders-late-mending",
        kind: TextFault::Error,
        quote: "If not, it will be because there was some k such that before the failure, I_i ∩ I_k = {j}.",
        reading: "Two failures, one after the other. The text does not say that there is one only.",
        source: "Sanders 1987, section 7.1, step 2",
        title: "two failures that two sites learn in different order let both in",
        printed: "Two sites start to ask each other when the last inform site that they shared has failed.",
        wrong: "They shared two, both failed, and each site knows of another one: each believes that the other's grant is \
                remembered somewhere.",
        repair: "They start to ask each other when half of what they shared has failed.",
        evidence: Evidence::Exploration {
            printed: Run::new("sanders:structure=figure-2,text=late-mending", 4, 1).crashes(2),
            property: Property::Exclusion,
            repaired: &[
                Run::new("sanders:structure=figure-2", 4, 1).crashes(2).enough(2_000_000),
                Run::new("sanders:structure=central", 3, 1).crashes(2),
            ],
        },
    },
    Erratum {
        id: "carvalho-sanders-section-8",
        kind: TextFault::Underspecified,
        quote: "When a GRANT is sent to a process j, j is added to I_i and R_i and removed if present from S_i.",
        reading: "The rules say how the structure changes, not what a site that waits does when its request set grows. Explored is the reading in which it does nothing; section 8 is an outline, and the original algorithm asks again.",
        source: "Sanders 1987, section 8 (Carvalho and Roucairol's algorithm as a dynamic information structure)",
        title: "it is not said that a waiting site that grants asks again",
        printed: "Who sends a GRANT moves the receiver from its status set to its request set. Nothing more is said.",
        wrong: "A site that waits and grants an earlier request has just given away a permission that it had, and never asks for \
                it.",
        repair: "It asks again, with its old timestamp.",
        evidence: Evidence::Exploration {
            printed: Run::new("carvalho-roucairol:text=printed", 3, 2),
            property: Property::Deadlock,
            repaired: &[Run::new("carvalho-roucairol", 3, 2).unordered()],
        },
    },
    Erratum {
        id: "sanders-d-misprint",
        kind: TextFault::Error,
        quote: "D_ij = 2 if I_i ∩ I_j ≠ ∅, 0 if i = j, 1 otherwise",
        reading: TO_THE_LETTER,
        source: "Sanders 1987, section 6.2, the formula for D_ij",
        title: "D_ij is 2 too often",
        printed: "D_ij = 2 if I_i and I_j meet, 0 if i = j, 1 otherwise.",
        wrong: "The figures that she derives from it do not come out.",
        repair: "D_ij = 2 only if a third site is in both I_i and I_j.",
        evidence: Evidence::Calculation(calculation::sanders_delay),
    },
    Erratum {
        id: "sanders-dm-counts-itself",
        kind: TextFault::Error,
        quote: "DM = Σ_{j ∈ R_i} r_j […] For the completely distributed information structure, S_i = {j} for all j and DM = N - 1.",
        reading: TO_THE_LETTER,
        source: "Sanders 1987, section 6.1, the formula for DM",
        title: "DM counts a message of a site to itself",
        printed: "DM sums r_j over all j of R_i, i included; r_j is 1 if S_j is {j} or {i, j}, otherwise 4.",
        wrong: "A FAIL to oneself is no message, and for the fully distributed structure she has DM = N − 1.",
        repair: "No FAIL is counted for j = i.",
        evidence: Evidence::Calculation(calculation::sanders_messages),
    },
    Erratum {
        id: "sanders-fifo-not-needed",
        kind: TextFault::Assumption,
        quote: "messages between any pair of processes are delivered in the order they were sent",
        reading: "For the shipped form, whose messages name their request. An assumption that is not needed is no error.",
        source: "Sanders 1987, section 2",
        title: "the assumption of ordered channels is superfluous if messages name their request",
        printed: "Messages between two processes are delivered in the order sent.",
        wrong: "What is late or crosses can be recognised by the request and the round that it names.",
        repair: "Name them, and drop the assumption.",
        evidence: Evidence::Assumption {
            without: &[
                Run::new("sanders:structure=figure-4", 3, 1).unordered(),
                Run::new("sanders:structure=figure-2,deadlock=yield", 4, 1).unordered(),
            ],
        },
    },
];
