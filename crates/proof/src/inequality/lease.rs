//! The inequality of leases, beside `crates/cluster/src/lease/mod.rs`, whose header has the arguments in words.
//!
//! Names of times end in the clock that shows them: `_m` the member's, `_l` the leader's, `_v` a voter's. An event may be seen on several
//! clocks. All that is assumed of two clocks is that one measures at most `1 + drift` times what the other one does.

use super::{Assumption, Inequality, WrongAssumption};

/// All inequalities of leases.
pub const ALL: &[Inequality] = &[EXCLUSION, NEW_LEADER, NOTICE, ROOM, PAUSE, RETRY];

const fn given(name: &'static str, why: &'static str, holds: &'static str) -> Assumption {
    Assumption { name, why, holds, is_computed: false }
}

/// What the code computes.
const fn computed(name: &'static str, why: &'static str, holds: &'static str) -> Assumption {
    Assumption { name, why, holds, is_computed: true }
}

const CONSTANTS: Assumption =
    given("constants", "No constant is negative.", "(and (>= length 0.0) (>= drift 0.0))");

const EXCLUSION: Inequality = Inequality {
    name: "exclusion",
    why: "Whoever is excluded at x ≥ g + L·(1+drift) has no lease any more, also if several renewals were in flight.",
    variables: &[
        ("length", "L: the length of a lease"),
        ("drift", "how much faster one clock may run than another"),
        ("sent_m", "when the renewal was sent from which the member counts its lease"),
        ("granted_m", "when it was granted"),
        ("arrived_m", "when the grant arrived"),
        ("end_m", "when the lease ends"),
        ("last_m", "when the leader last granted a renewal to the member"),
        ("last_l", "the same, g, on the leader's clock"),
        ("excluded_m", "when the member is excluded"),
        ("excluded_l", "the same, x, on the leader's clock"),
    ],
    assumptions: &[
        CONSTANTS,
        given(
            "asked_first",
            "What is granted was sent before, and arrives after.",
            "(<= sent_m granted_m arrived_m)",
        ),
        given(
            "last_is_last",
            "No grant is later than the last one; the member is excluded after it.",
            "(<= granted_m last_m excluded_m)",
        ),
        given(
            "drift_bound",
            "From the last grant to the exclusion the leader's clock measures at most 1+drift times what the member's does.",
            "(<= (- excluded_l last_l) (* (+ 1.0 drift) (- excluded_m last_m)))",
        ),
        computed(
            "counted_from_sending",
            "The lease ends L after the renewal was sent, at the latest.",
            "(<= end_m (+ sent_m length))",
        ),
        computed(
            "leader_waits",
            "x ≥ g + L·(1+drift).",
            "(>= excluded_l (+ last_l (* length (+ 1.0 drift))))",
        ),
    ],
    claim: "(<= end_m excluded_m)",
    wrong: &[
        WrongAssumption {
            about: "the leader waits for L without the drift",
            instead_of: "leader_waits",
            holds: "(>= excluded_l (+ last_l length))",
        },
        WrongAssumption {
            about: "the leader waits for L·(1−drift)",
            instead_of: "leader_waits",
            holds: "(>= excluded_l (+ last_l (* length (- 1.0 drift))))",
        },
        WrongAssumption {
            about: "the member counts from the arrival of the grant",
            instead_of: "counted_from_sending",
            holds: "(<= end_m (+ arrived_m length))",
        },
        WrongAssumption {
            about: "the leader counts from a grant that was not the last one",
            instead_of: "last_is_last",
            holds: "(<= last_m granted_m excluded_m)",
        },
    ],
    mutants: &[("LeaseFromReceipt", "counted_from_sending"), ("ExclusionOneTickEarly", "leader_waits")],
};

const NEW_LEADER: Inequality = Inequality {
    name: "new_leader",
    why: "A new leader that has granted the member nothing waits from h, the latest of r − a/(1+drift), and that is enough for what \
          earlier leaders have granted.",
    variables: &[
        ("length", "L: the length of a lease"),
        ("drift", "how much faster one clock may run than another"),
        ("sent_m", "when the renewal was sent from which the member counts its lease"),
        ("end_m", "when the lease ends"),
        ("listed_m", "when a voter that votes for the new leader was told of a round for this renewal"),
        ("listed_v", "the same, on the voter's clock"),
        ("listed_l", "the same, on the new leader's clock"),
        ("voted_v", "when that voter sent its vote, on its own clock"),
        ("voted_l", "the same, on the new leader's clock"),
        ("age", "a: what the voter says with its vote"),
        ("received_l", "r: when the vote came"),
        ("inherited_l", "h: what the new leader counts from"),
        ("excluded_m", "when the member is excluded"),
        ("excluded_l", "the same, on the new leader's clock"),
    ],
    assumptions: &[
        CONSTANTS,
        given(
            "asked_first",
            "The round was begun after the renewal came; the member is excluded later.",
            "(<= sent_m listed_m excluded_m)",
        ),
        given(
            "in_order",
            "The voter heard of the round, voted, and the vote came.",
            "(and (<= listed_v voted_v) (<= listed_l voted_l received_l))",
        ),
        given(
            "drift_of_voter",
            "From the round to the vote the voter's clock measures at most 1+drift times what the leader's does.",
            "(<= (- voted_v listed_v) (* (+ 1.0 drift) (- voted_l listed_l)))",
        ),
        given(
            "drift_of_member",
            "From the round to the exclusion the leader's clock measures at most 1+drift times what the member's does.",
            "(<= (- excluded_l listed_l) (* (+ 1.0 drift) (- excluded_m listed_m)))",
        ),
        computed(
            "counted_from_sending",
            "The lease ends L after the renewal was sent, at the latest.",
            "(<= end_m (+ sent_m length))",
        ),
        computed(
            "says_its_age",
            "The voter says how long ago that round was, or less: it may have been told of a later one.",
            "(<= 0.0 age (- voted_v listed_v))",
        ),
        computed(
            "inherits_the_latest",
            "h is at least r − a/(1+drift).",
            "(>= inherited_l (- received_l (/ age (+ 1.0 drift))))",
        ),
        computed(
            "leader_waits",
            "x ≥ h + L·(1+drift).",
            "(>= excluded_l (+ inherited_l (* length (+ 1.0 drift))))",
        ),
    ],
    claim: "(<= end_m excluded_m)",
    wrong: &[
        WrongAssumption {
            about: "the age is taken as it is, without the drift",
            instead_of: "inherits_the_latest",
            holds: "(>= inherited_l (- received_l age))",
        },
        WrongAssumption {
            about: "the age is stretched instead of shrunk",
            instead_of: "inherits_the_latest",
            holds: "(>= inherited_l (- received_l (* age (+ 1.0 drift))))",
        },
        WrongAssumption {
            about: "the leader waits for L without the drift",
            instead_of: "leader_waits",
            holds: "(>= excluded_l (+ inherited_l length))",
        },
        WrongAssumption {
            about: "the voter says an age that is too large",
            instead_of: "says_its_age",
            holds: "(<= 0.0 age)",
        },
    ],
    mutants: &[
        ("NewLeaderDoesNotWait", "leader_waits"),
        ("RoundsForgotten", "says_its_age"),
        ("RestartedVoterRemembers", "says_its_age"),
    ],
};

const NOTICE: Inequality = Inequality {
    name: "notice",
    why: "A client is told of the loss a margin, on the member's clock, before anyone can act as if the member were gone.",
    variables: &[
        ("margin", "how long before the end of the lease clients are told"),
        ("end_m", "when the lease ends"),
        ("notice_m", "when clients are told"),
        ("excluded_m", "when the member is excluded"),
    ],
    assumptions: &[
        given(
            "excluded_later",
            "The member is excluded after its lease: `exclusion` and `new_leader`.",
            "(<= end_m excluded_m)",
        ),
        computed(
            "told_before",
            "Clients are told a margin before the end.",
            "(<= notice_m (- end_m margin))",
        ),
    ],
    claim: "(>= (- excluded_m notice_m) margin)",
    wrong: &[WrongAssumption {
        about: "clients are told at the end",
        instead_of: "told_before",
        holds: "(<= notice_m end_m)",
    }],
    mutants: &[],
};

const ROOM: Inequality = Inequality {
    name: "room",
    why: "One renewal that is lost ends no lease: the second one after it is sent before clients are told of a loss.",
    variables: &[
        ("length", "L: the length of a lease"),
        ("margin", "how long before the end of the lease clients are told"),
        ("renew_every", "how often a member asks for a renewal"),
        ("sent_m", "when the last renewal was sent that was granted"),
        ("second_m", "when the second one after it is sent"),
        ("notice_m", "when clients are told of the loss"),
    ],
    assumptions: &[
        computed("terms", "Other terms are refused.", "(> length (+ (* 2.0 renew_every) margin))"),
        computed(
            "told_at",
            "Clients are told a margin before the end of the lease.",
            "(= notice_m (- (+ sent_m length) margin))",
        ),
        given(
            "asked_regularly",
            "A member asks for a renewal every `renew_every`, at the latest.",
            "(<= second_m (+ sent_m (* 2.0 renew_every)))",
        ),
    ],
    claim: "(< second_m notice_m)",
    wrong: &[WrongAssumption {
        about: "the margin is not counted",
        instead_of: "terms",
        holds: "(> length (* 2.0 renew_every))",
    }],
    mutants: &[],
};

const PAUSE: Inequality = Inequality {
    name: "pause",
    why: "Clients of a member that was stopped or cut off for less than L − margin − renew_every have not been told of a loss when it is back.",
    variables: &[
        ("length", "L: the length of a lease"),
        ("margin", "how long before the end of the lease clients are told"),
        ("renew_every", "how often a member asks for a renewal"),
        ("sent_m", "when the last renewal was sent that was granted before"),
        ("notice_m", "when clients are told of the loss"),
        ("cut_m", "when the member is cut off"),
        ("back_m", "when it is not any more"),
        ("longest_pause", "for how long the program says that it may be cut off"),
    ],
    assumptions: &[
        computed(
            "pause_is",
            "The program says at most L − margin − renew_every.",
            "(<= longest_pause (- length margin renew_every))",
        ),
        computed(
            "told_at",
            "Clients are told a margin before the end of the lease.",
            "(= notice_m (- (+ sent_m length) margin))",
        ),
        given(
            "renewed_before",
            "The last renewal before was sent at most `renew_every` earlier.",
            "(>= sent_m (- cut_m renew_every))",
        ),
        given("short_pause", "It is cut off for less than that.", "(< (- back_m cut_m) longest_pause)"),
    ],
    claim: "(< back_m notice_m)",
    wrong: &[WrongAssumption {
        about: "the time since the last renewal is not counted",
        instead_of: "pause_is",
        holds: "(<= longest_pause (- length margin))",
    }],
    mutants: &[],
};

const RETRY: Inequality = Inequality {
    name: "retry",
    why: "If r is left when a cut ends, the next attempt comes within the larger of r/7 and renew_every/40.",
    variables: &[
        ("renew_every", "how often a member asks for a renewal"),
        ("left_before", "what was left at the last attempt before the cut ended"),
        ("wait", "after what time the next attempt follows it"),
        ("left_now", "r: what is left when the cut ends"),
    ],
    assumptions: &[
        computed(
            "hurries",
            "The next attempt follows within the larger of an eighth of what is left and renew_every/40.",
            "(or (<= wait (/ left_before 8.0)) (<= wait (/ renew_every 40.0)))",
        ),
        given(
            "between",
            "The cut ends between the two attempts.",
            "(<= (- left_before wait) left_now left_before)",
        ),
    ],
    claim: "(or (<= (- left_now (- left_before wait)) (/ left_now 7.0)) (<= (- left_now (- left_before wait)) (/ renew_every 40.0)))",
    wrong: &[WrongAssumption {
        about: "a renewal is sent again four times in renew_every, however little is left",
        instead_of: "hurries",
        holds: "(<= wait (/ renew_every 4.0))",
    }],
    mutants: &[("RenewalNotRepeated", "hurries"), ("NoHurryAtTheEnd", "hurries")],
};
