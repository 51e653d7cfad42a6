//! Bulgannawar and Vaidya, "A Distributed K-Mutual Exclusion Algorithm", Technical Report 94-066, 1994.

use crate::Property;
use crate::errata::{Erratum, Evidence, Run, TextFault};

pub(super) const ERRATA: &[Erratum] = &[
    Erratum {
        id: "bulgannawar-vaidya-inform",
        kind: TextFault::Error,
        quote: "It can be easily shown that only one modification made to the pointers can create a cycle.",
        reading: "The pseudo-code. The reliable FIFO channels that the report assumes are given.",
        source: "Bulgannawar & Vaidya 1994, section 2, Handle_INFORM; the proof, part II",
        title: "an INFORM that comes late closes a circle of pointers, and a request comes home",
        printed: "An INFORM sets the pointer of its token to its sender, unless one waits for that token. The proof says that only \
                  one change of pointers can close a circle, and this is not it.",
        wrong: "The token may have gone on meanwhile. The pointer then leads back, a REQUEST comes home, and its site waits for \
                ever, with three sites and one token.",
        repair: "Each token counts its possessions; INFORM and REQUEST carry the count, and an INFORM is obeyed only if it is news.",
        evidence: Evidence::Exploration {
            printed: Run::new("bulgannawar-vaidya:inform=1,text=printed", 3, 2),
            property: Property::Deadlock,
            repaired: &[
                Run::new("bulgannawar-vaidya:inform=1", 3, 2),
                Run::new("bulgannawar-vaidya:inform=1,choice=random", 4, 1).permits(2),
            ],
        },
    },
    Erratum {
        id: "bulgannawar-vaidya-holder-prose",
        kind: TextFault::Ambiguous,
        quote: "Node I sets pointer[t] to Y and adds node Y to the token-queue.",
        reading: "The prose. The pseudo-code sets pointer[token_id], and is right.",
        source: "Bulgannawar & Vaidya 1994, section 2, Handle_REQUEST, case 3 in prose",
        title: "an idle holder turns the pointer of the token asked for, not of the one it gives",
        printed: "A site that keeps token u and gets a request for t sets pointer[t] to the requester.",
        wrong: "If u is not t, pointer[u] still leads to the site that has just given u away; requests for u end there.",
        repair: "Set pointer[u], as the pseudo-code does.",
        evidence: Evidence::Exploration {
            printed: Run::new("bulgannawar-vaidya:inform=0,choice=random,text=holder-prose", 4, 1).permits(2),
            property: Property::Deadlock,
            repaired: &[Run::new("bulgannawar-vaidya:inform=0,choice=random", 4, 1).permits(2)],
        },
    },
    Erratum {
        id: "bulgannawar-vaidya-token-prose",
        kind: TextFault::Ambiguous,
        quote: "To maintain the forest structures for token t, node I sets pointer[t] equal to A (the node that modified I's request).",
        reading: "The prose. The pseudo-code and the example set pointer[waiting_for_token], and are right. That a request comes home, which the proof excludes (part II), takes 24 steps.",
        source: "Bulgannawar & Vaidya 1994, section 2, Handle_TOKEN, case 2 in prose",
        title: "the pointer of the token that came turns to the tag, not of the one asked for",
        printed: "A site that asked for u and gets t sets pointer[t] to the tag.",
        wrong: "pointer[u] still leads to where the request went; later requests for u follow it round and come home, and a site \
                waits for ever. Found with three sites that ask three times, where every choice of a token is tried.",
        repair: "Set pointer[u], as the pseudo-code and the example do.",
        evidence: Evidence::Exploration {
            printed: Run::new("bulgannawar-vaidya:inform=0,choice=random,text=token-prose", 3, 3).permits(2),
            property: Property::Deadlock,
            repaired: &[Run::new("bulgannawar-vaidya:inform=0,choice=random", 3, 3).permits(2)],
        },
    },
    Erratum {
        id: "bulgannawar-vaidya-holder-silent",
        kind: TextFault::Ambiguous,
        quote: "Node I sets pointer[t] to Y and adds node Y to the token-queue. The request-modifier tag of Y is set equal to I if t ≠ u, else the tag is set to NULL.",
        reading: "The prose alone, as a full account. The pseudo-code goes on to send the token, and is right.",
        source: "Bulgannawar & Vaidya 1994, section 2, Handle_REQUEST, case 3 in prose",
        title: "an idle holder queues a request and does not send the token",
        printed: "A site that keeps a token and gets a request sets its pointer and adds the requester to the token-queue, with its \
                  tag. That is all.",
        wrong: "A token-queue is processed when its site leaves the critical section. A site that never asks again never does, and \
                whoever asked it waits for ever, with two sites.",
        repair: "Queue the request, then send the token, as the pseudo-code does.",
        evidence: Evidence::Exploration {
            printed: Run::new("bulgannawar-vaidya:inform=0,text=holder-silent", 2, 1),
            property: Property::Deadlock,
            repaired: &[
                Run::new("bulgannawar-vaidya:inform=0", 3, 2),
                Run::new("bulgannawar-vaidya:inform=0,choice=random", 3, 2).permits(2),
            ],
        },
    },
    Erratum {
        id: "bulgannawar-vaidya-fifo-not-needed",
        kind: TextFault::Question,
        quote: "Also, the network is assumed to deliver messages in first-in-first-out (FIFO) order on each channel.",
        reading: "The text assumes it and does not say why. Tried is the repaired algorithm with two tokens, where every choice of a token is tried. No fault of the text.",
        source: "Bulgannawar & Vaidya 1994, section 2",
        title: "is the assumption of FIFO channels superfluous?",
        printed: "Channels are FIFO.",
        wrong: "Claim: it would do without. With one token and without INFORM nothing contradicts that: three sites that ask twice, and four that ask once, \
                hold. With two tokens and three sites a REQUEST overtakes the token that its sender has just passed to the same site; \
                it is sent back along a pointer and refused at home.",
        repair: "None: with two tokens the assumption is needed.",
        evidence: Evidence::Assumption {
            without: &[
                Run::new("bulgannawar-vaidya:inform=0", 3, 2).unordered(),
                Run::new("bulgannawar-vaidya:inform=0", 4, 1).unordered(),
                Run::new("bulgannawar-vaidya:inform=0,choice=random", 3, 2).permits(2).unordered(),
            ],
        },
    },
];
