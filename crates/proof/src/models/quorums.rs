//! The quorum algorithms for every number of sites, beside `crates/protocol/src/algorithms/arbiter`: `maekawa`, `majority` and
//! `tree-quorum` are this code, and differ in their quorums.
//!
//! Of the quorums the model knows only that any two of them meet. Both sets of rules against deadlock are covered: `refusals` says whether
//! the rules know FAILED. A message that the code would refuse is not an action here: the theorems `no_refusal_of_…` say that there is none.

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers `maekawa`, `majority` and `tree-quorum`, which share their code, with any quorums of which every two meet, \
    hence with all options of quorums, and with both sets of rules against deadlock (`deadlock=yield`, the default, and `deadlock=fail`), \
    over channels that keep no order, with or without a site inside at the start. Without crashes. The model has no turns: the clauses say \
    that of each kind of message about one request there is one at a time.";

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "two quorums need not share a site",
        erratum: None,
        replaced: &[(
            "quorum(q) & quorum(r) -> exists a. member(a, q) & member(a, r);",
            "quorum(q) -> exists a. member(a, q);",
        )],
        fails_at: ("enter", "exclusion"),
    },
    WrongModel {
        about: "an arbiter permits although another one has its permission",
        erratum: None,
        replaced: &[("when is_free(a) & queued(a, i, t)", "when queued(a, i, t)")],
        fails_at: ("permit", "one_lock"),
    },
    WrongModel {
        about: "a site that is inside gives a permission back",
        erratum: None,
        replaced: &[(
            "when waiting(i) & request(i) = t & permitted(i, a) & wanted_back(i, a) &",
            "when busy(i) & request(i) = t & permitted(i, a) &",
        )],
        fails_at: ("yield", "executing_has_all"),
    },
    WrongModel {
        about: "whoever is inquired before it has been refused ignores it",
        erratum: Some("maekawa-chapter-deadlock"),
        replaced: &[
            (
                "request(i) = t & member(a, asked(i));\n    inquire_sent",
                "request(i) = t & member(a, asked(i)) & (refusals -> exists b. refused(i, b));\n    inquire_sent",
            ),
            (
                "when inquire_sent(a, i, t) & !(waiting(i) & request(i) = t);",
                "when inquire_sent(a, i, t) & !(waiting(i) & request(i) = t & (refusals -> exists b. refused(i, b)));",
            ),
        ],
        fails_at: ("drop_inquiry", "inquired_will_know"),
    },
    WrongModel {
        about: "nobody that waits is refused when an earlier request comes",
        erratum: Some("maekawa-1985-rules"),
        replaced: &[
            ("relation queued(", "relation newcomer(site, site), queued("),
            (
                "    told(a, i) := false;\n}\n\nthen permit",
                "    told(a, i) := false;\n    newcomer(a, j) := j = i;\n}\n\nthen permit",
            ),
            ("refusals & queued(a, i, t) &", "refusals & newcomer(a, i) & queued(a, i, t) &"),
        ],
        fails_at: ("(theorem)", "nobody_keeps_last"),
    },
    WrongModel {
        about: "what is yielded goes to the request that made the arbiter inquire, and only newcomers make it inquire",
        erratum: Some("tree-quorum-rules-6-8"),
        replaced: &[
            ("relation queued(", "relation newcomer(site, site), queued("),
            (
                "    told(a, i) := false;\n}\n\nthen permit",
                "    told(a, i) := false;\n    newcomer(a, j) := j = i;\n}\n\nthen permit",
            ),
            (" & forall j, u. queued(a, j, u) -> !precedes(u, j, t, i);\n    queued", ";\n    queued"),
            (
                "!inquired(a, i) & exists j, u. queued(a, j, u) &",
                "!inquired(a, i) & exists j, u. queued(a, j, u) & newcomer(a, j) &",
            ),
            ("!inquired(a, i) & queued(a, j, u) &", "!inquired(a, i) & queued(a, j, u) & newcomer(a, j) &"),
        ],
        fails_at: ("(theorem)", "somebody_keeps"),
    },
    WrongModel {
        about: "the head of the queue is inquired, which has no permission, and yields although it has none",
        erratum: Some("tree-quorum-head"),
        replaced: &[
            (
                "when locked(a, i, t) & !inquired(a, i) & exists j, u.",
                "when queued(a, i, t) & !is_free(a) & !inquired(a, i) & exists j, u.",
            ),
            ("permitted(i, a) & wanted_back(i, a) &", "wanted_back(i, a) &"),
        ],
        fails_at: ("inquire", "inquired_while_locked"),
    },
    WrongModel {
        about: "every earlier request makes the arbiter inquire again",
        erratum: Some("tree-quorum-two-inquiries"),
        replaced: &[(
            "when locked(a, i, t) & !inquired(a, i) & exists j, u.",
            "when locked(a, i, t) & exists j, u.",
        )],
        fails_at: ("inquire", "inquire_on_its_way"),
    },
    WrongModel {
        about: "an INQUIRE names no request, and is answered for the present one",
        erratum: Some("tree-quorum-late-inquire"),
        replaced: &[
            (
                "when inquire_sent(a, i, t) & waiting(i) & request(i) = t & member(a, asked(i));",
                "when inquire_sent(a, i, t) & waiting(i) & member(a, asked(i));",
            ),
            (
                "when inquire_sent(a, i, t) & !(waiting(i) & request(i) = t);",
                "when inquire_sent(a, i, t) & !waiting(i);",
            ),
            ("permitted(i, a) & wanted_back(i, a) &", "wanted_back(i, a) &"),
        ],
        fails_at: ("note_inquiry", "wanted_is_inquired"),
    },
];

/// The deliberate bugs of the code, and where each breaks the tie.
pub const MUTANTS: &[(Mutant, &str)] = &[
    (
        Mutant::ArbiterForgottenFail,
        "step `− request(site1) = time0, − asked(site1) = set0, − clock(site1) = time1, − last(site1, site1) = time0, + waiting(site1), + request(site1) = time2, + asked(site1) = set3, + clock(site1) = time2, + last(site1, site1) = time2, + queued(site1, site1, time2), + told(site1, site1), + request_sent(site1, site0, time2)`",
    ),
    (
        Mutant::RequesterForgottenInquire,
        "step `− last(site1, site0) = time0, − request_sent(site0, site1, time1), + last(site1, site0) = time1, + inquired(site1, site1), + queued(site1, site0, time1)`",
    ),
    (
        Mutant::RequesterYieldsInside,
        "step `− inquire_sent(site0, site2, time1), + yield_sent(site2, site0, time1)`",
    ),
];

/// What neither proof nor tie notices.
pub const BEYOND: &[(Mutant, &str)] = &[
    (Mutant::ArbiterKeepsForTheDead, "it concerns failed sites, and there are none"),
    (Mutant::ArbiterOwesOn, "it concerns sites that recover, and there are none"),
];

/// The model.
pub const TEXT: &str = r#"
sort site, set, time;
ordered time, site;
var a, b, i, j, k: site;
var q, r: set;
var t, u: time;

// Which sets are quorums, and whether the rules know FAILED.
fixed relation quorum(set), member(site, set), refusals;
fixed zero: time;
fixed nobody: set;

// The requester.
relation waiting(site), executing(site);
function request(site): time;
function asked(site): set;
relation permitted(site, site), refused(site, site), wanted_back(site, site);

// The arbiter.
function clock(site): time;
function last(site, site): time;
relation locked(site, site, time), inquired(site, site);
relation queued(site, site, time), told(site, site);

// The messages
relation request_sent(site, site, time), reply_sent(site, site, time), failed_sent(site, site, time);
relation inquire_sent(site, site, time), yield_sent(site, site, time), release_sent(site, site, time);

define precedes(t, i, u, j) = t < u | t = u & i < j;
define busy(i) = waiting(i) | executing(i);
define asks(i, a) = busy(i) & member(a, asked(i));
define is_free(a) = forall j, u. !locked(a, j, u);

define earliest(i) = waiting(i) & forall k. waiting(k) & k != i -> precedes(request(i), i, request(k), k);
// Whoever has a permission that another one wants back, and keeps it.
define keeps(i) = exists a. permitted(i, a) & wanted_back(i, a);
define on_its_way = exists i, a, t. request_sent(i, a, t) | reply_sent(a, i, t) | failed_sent(a, i, t) | inquire_sent(a, i, t)
    | yield_sent(i, a, t) | release_sent(i, a, t);
define can_permit = exists a, i, t. is_free(a) & queued(a, i, t);
define can_inquire = exists a, i, t, j, u. locked(a, i, t) & !inquired(a, i) & queued(a, j, u) & precedes(u, j, t, i);
define can_refuse = exists a, i, t, j, u. refusals & queued(a, i, t) & !told(a, i) & (queued(a, j, u) | locked(a, j, u)) & precedes(u, j, t, i);
define can_enter = exists i. waiting(i) & forall a. member(a, asked(i)) -> permitted(i, a);
define can_yield = exists i. waiting(i) & keeps(i) & (refusals -> exists b. refused(i, b));

define nothing_moves = (forall k. !executing(k)) & !on_its_way & !can_permit & !can_inquire & !can_refuse & !can_enter & !can_yield;

axiom zero_is_first "No clock shows less than zero.": zero <= t;
axiom quorums_meet "Any two quorums share a site.": quorum(q) & quorum(r) -> exists a. member(a, q) & member(a, r);

init nobody_waits "Nobody waits at the start.": !waiting(i);
init one_holder "At most one site is inside at the start.": executing(i) & executing(j) -> i = j;
init has_a_quorum "It has asked a quorum.": executing(i) -> quorum(asked(i));
init holds_permissions "It has the permissions of its quorum, and they are with nobody else.":
    (permitted(i, a) <-> executing(i) & member(a, asked(i))) & (locked(a, i, t) <-> permitted(i, a) & t = zero);
init clocks_are_zero "Every clock shows zero.": clock(i) = zero & request(i) = zero & last(a, i) = zero;
init nothing_is_known "Nobody has answered, queued or inquired anything.":
    !refused(i, a) & !wanted_back(i, a) & !inquired(a, i) & !queued(a, i, t) & !told(a, i);
init nothing_is_sent "Nothing is on its way.":
    !request_sent(i, a, t) & !reply_sent(a, i, t) & !failed_sent(a, i, t) & !inquire_sent(a, i, t) & !yield_sent(i, a, t)
        & !release_sent(i, a, t);

action ask(i, q, t) "Algorithm 9.5, step (a)." {
    when !busy(i) & clock(i) < t & quorum(q);
    waiting(i) := true;
    request(i) := t;
    clock(i) := t;
    asked(i) := q;
    request_sent(i, a, u) := request_sent(i, a, u) | member(a, q) & u = t;
}

receive queue(a, i, t) "Algorithm 9.5, step (b): the request waits; a RELEASE that it has overtaken is forgone." {
    when request_sent(i, a, t) & last(a, i) < t & forall u. !queued(a, i, u);
    request_sent(i, a, t) := false;
    last(a, i) := t;
    clock(a) := if clock(a) < t then t else clock(a);
    locked(a, i, u) := false;
    inquired(a, i) := false;
    queued(a, i, t) := true;
    told(a, i) := false;
}

then permit(a, i, t) "Algorithm 9.5, steps (b) and (e): the earliest that waits is permitted when the permission is there." {
    when is_free(a) & queued(a, i, t) & forall j, u. queued(a, j, u) -> !precedes(u, j, t, i);
    queued(a, i, t) := false;
    told(a, i) := false;
    locked(a, i, t) := true;
    reply_sent(a, i, t) := true;
}

then inquire(a, i, t) "Section 9.8.1, first rule: whoever has the permission is inquired once if an earlier request waits." {
    when locked(a, i, t) & !inquired(a, i) & exists j, u. queued(a, j, u) & precedes(u, j, t, i);
    inquired(a, i) := true;
    inquire_sent(a, i, t) := true;
}

then refuse(a, i, t) "Section 9.8.1, first rule: whoever waits behind an earlier request is told once." {
    when refusals & queued(a, i, t) & !told(a, i);
    when exists j, u. (queued(a, j, u) | locked(a, j, u)) & precedes(u, j, t, i);
    told(a, i) := true;
    failed_sent(a, i, t) := true;
}

receive count(i, a, t, u) "Algorithm 9.5, step (c): a permission comes." {
    when reply_sent(a, i, t) & waiting(i) & request(i) = t & !permitted(i, a) & member(a, asked(i)) & clock(i) <= u;
    reply_sent(a, i, t) := false;
    permitted(i, a) := true;
    refused(i, a) := false;
    clock(i) := u;
}

then enter(i) "Algorithm 9.5, step (c): all have permitted." {
    when waiting(i) & forall a. member(a, asked(i)) -> permitted(i, a);
    waiting(i) := false;
    executing(i) := true;
    wanted_back(i, a) := false;
}

receive note_refusal(i, a, t) "Section 9.8.1: a refusal is noted." {
    when failed_sent(a, i, t) & waiting(i) & request(i) = t & !permitted(i, a) & !refused(i, a) & member(a, asked(i));
    failed_sent(a, i, t) := false;
    refused(i, a) := true;
}

receive drop_refusal(i, a, t) "Section 9.8.1: a refusal that comes late is dropped." {
    when failed_sent(a, i, t) & !(waiting(i) & request(i) = t & !permitted(i, a) & !refused(i, a));
    failed_sent(a, i, t) := false;
}

receive note_inquiry(i, a, t) "Section 9.8.1, second rule: an INQUIRE is remembered until the site yields or enters." {
    when inquire_sent(a, i, t) & waiting(i) & request(i) = t & member(a, asked(i));
    inquire_sent(a, i, t) := false;
    wanted_back(i, a) := true;
}

receive drop_inquiry(i, a, t) "Section 9.8.1, second rule: an INQUIRE that comes late, or to a site that is inside, is dropped." {
    when inquire_sent(a, i, t) & !(waiting(i) & request(i) = t);
    inquire_sent(a, i, t) := false;
}

then yield(i, a, t) "Section 9.8.1, second rule: a site that waits gives the permission back; with refusals only if it has one." {
    when waiting(i) & request(i) = t & permitted(i, a) & wanted_back(i, a) & (refusals -> exists b. refused(i, b));
    permitted(i, a) := false;
    wanted_back(i, a) := false;
    refused(i, a) := true;
    yield_sent(i, a, t) := true;
}

receive take_back(a, i, t) "Section 9.8.1, third rule: the request goes back into the queue." {
    when yield_sent(i, a, t) & locked(a, i, t) & inquired(a, i);
    yield_sent(i, a, t) := false;
    locked(a, i, t) := false;
    inquired(a, i) := false;
    queued(a, i, t) := true;
    told(a, i) := true;
}

action leave(i) "Algorithm 9.5, step (d)." {
    when executing(i);
    executing(i) := false;
    release_sent(i, a, t) := release_sent(i, a, t) | member(a, asked(i)) & t = request(i);
    request(i) := zero;
    asked(i) := nobody;
    permitted(i, a) := false;
    refused(i, a) := false;
}

receive release(a, i, t) "Algorithm 9.5, step (e): the permission is back." {
    when release_sent(i, a, t) & locked(a, i, t);
    release_sent(i, a, t) := false;
    locked(a, i, t) := false;
    inquired(a, i) := false;
}

receive drop_release(a, i, t) "Algorithm 9.5, step (e): a RELEASE that its sender's next request has overtaken is dropped." {
    when release_sent(i, a, t) & !locked(a, i, t) & t < last(a, i);
    release_sent(i, a, t) := false;
}

invariant one_phase "A process does not wait and execute at once.": !(waiting(i) & executing(i));
invariant asks_a_quorum "Whoever waits or executes has asked a quorum.": busy(i) -> quorum(asked(i));
invariant clock_covers_own "The clock is not behind the site's own request (Q1).": request(i) <= clock(i);
invariant waits_after_zero "A waiting site's request is later than that of a holder from the start.": waiting(i) -> zero < request(i);
invariant idle_requests_nothing "An idle site has no request.": !busy(i) -> request(i) = zero;
invariant permitted_while_busy "Only the asked have permitted, and only a request that is not over.": permitted(i, a) -> asks(i, a);
invariant refused_while_waiting "Only a site that waits is refused, and by whom it misses.": refused(i, a) -> waiting(i) & asks(i, a) & !permitted(i, a);
invariant wanted_while_waiting "Only a site that waits remembers an INQUIRE.": wanted_back(i, a) -> waiting(i) & asks(i, a);
invariant one_lock "An arbiter's permission is with one request at most.": locked(a, i, t) & locked(a, j, u) -> i = j & t = u;
invariant inquired_while_locked "Only the request that has the permission is inquired.": inquired(a, i) -> exists t. locked(a, i, t);
invariant permitted_is_locked "A permission that counts is with this request (Q2).": permitted(i, a) -> locked(a, i, request(i));
invariant executing_has_all "Whoever is inside has all permissions of its quorum (R5).":
    executing(i) & member(a, asked(i)) -> permitted(i, a);
invariant locked_is_known "What has the permission was asked for, and is the present request or one that is over.":
    locked(a, i, t) -> t <= last(a, i) & (t = request(i) & asks(i, a) & last(a, i) = t | release_sent(i, a, t));
invariant locked_is_used "A permission is on its way, in use, or on its way back.":
    locked(a, i, t) -> permitted(i, a) & t = request(i) | reply_sent(a, i, t) | yield_sent(i, a, t) | release_sent(i, a, t);
invariant last_is_old "No arbiter has seen a request that was not made.": last(a, i) <= clock(i) & (busy(i) -> last(a, i) <= request(i));
invariant request_on_its_way "A REQUEST on its way is the present one, it is news, and nothing answers it yet.":
    request_sent(i, a, t) -> waiting(i) & asks(i, a) & t = request(i) & last(a, i) < t & !queued(a, i, u)
        & !permitted(i, a) & !reply_sent(a, i, u) & !yield_sent(i, a, u);
invariant queued_waits "Whoever is queued waits, with its last request (A3).":
    queued(a, i, t) -> waiting(i) & asks(i, a) & t = request(i) & last(a, i) = t & !permitted(i, a) & !locked(a, i, u)
        & !reply_sent(a, i, u) & !yield_sent(i, a, u);
invariant reply_on_its_way "A REPLY on its way permits the present request, which has the permission.":
    reply_sent(a, i, t) -> waiting(i) & asks(i, a) & t = request(i) & locked(a, i, t) & last(a, i) = t & !permitted(i, a)
        & !yield_sent(i, a, u);
invariant yield_on_its_way "A YIELD on its way gives back what was inquired about.":
    yield_sent(i, a, t) -> waiting(i) & asks(i, a) & t = request(i) & locked(a, i, t) & last(a, i) = t & inquired(a, i)
        & !permitted(i, a) & refused(i, a) & !wanted_back(i, a) & !inquire_sent(a, i, t);
invariant release_on_its_way "A RELEASE on its way is of a request that is over.":
    release_sent(i, a, t) -> t <= clock(i) & (busy(i) -> t < request(i)) & (locked(a, i, t) | t < last(a, i));
invariant inquire_on_its_way "An INQUIRE on its way is about what has the permission, or about a request that is over.":
    inquire_sent(a, i, t) -> t <= last(a, i) & (busy(i) & t = request(i) -> locked(a, i, t) & inquired(a, i) & !wanted_back(i, a));
invariant wanted_is_inquired "A remembered INQUIRE is about what has the permission.":
    wanted_back(i, a) -> locked(a, i, request(i)) & inquired(a, i);

invariant failed_on_its_way "A FAILED on its way is about a request that was made.":
    failed_sent(a, i, t) -> t <= last(a, i) & (busy(i) & t = request(i) -> asks(i, a));
invariant missed_will_come "Whoever misses a permission has asked for it, is queued, or it is on its way, or on its way back.":
    waiting(i) & member(a, asked(i)) & !permitted(i, a)
        -> request_sent(i, a, request(i)) | queued(a, i, request(i)) | reply_sent(a, i, request(i)) | yield_sent(i, a, request(i));
invariant inquired_will_know "Whoever waits and is inquired knows it, will know it, or has given the permission back.":
    locked(a, i, t) & inquired(a, i) & waiting(i) & t = request(i) -> inquire_sent(a, i, t) | wanted_back(i, a) | yield_sent(i, a, t);
invariant told_while_queued "Only whoever is queued has been told to wait.": told(a, i) -> exists t. queued(a, i, t);
invariant told_will_know "Whoever has been told to wait knows it, or will know it.":
    told(a, i) -> failed_sent(a, i, request(i)) | refused(i, a);

safety exclusion "Two sites are never inside at once.": executing(i) & executing(j) -> i = j;

theorem no_refusal_of_requests "A REQUEST is accepted.": request_sent(i, a, t) -> last(a, i) < t & !queued(a, i, u);
theorem no_refusal_of_replies "A REPLY is accepted.":
    reply_sent(a, i, t) -> waiting(i) & request(i) = t & member(a, asked(i)) & !permitted(i, a);
theorem no_refusal_of_yields "A YIELD is accepted.": yield_sent(i, a, t) -> locked(a, i, t) & inquired(a, i);
theorem no_refusal_of_releases "A RELEASE is accepted, or known to be late.":
    release_sent(i, a, t) -> locked(a, i, t) | t < last(a, i);
theorem no_refusal_of_answers "FAILED and INQUIRE are accepted, or known to be late.":
    (failed_sent(a, i, t) | inquire_sent(a, i, t)) & (t > clock(i) | busy(i) & t >= request(i)) -> t = request(i) & asks(i, a);
theorem somebody_keeps "If somebody waits and nothing can happen, somebody keeps a permission that is wanted back.":
    nothing_moves & earliest(i) -> exists j. keeps(j);
theorem nobody_keeps_last
    "If nothing can happen, nobody is the last of those who keep one: as there are finitely many sites, there is no deadlock.":
    nothing_moves & keeps(i) -> exists k. keeps(k) & precedes(request(i), i, request(k), k);
"#;
