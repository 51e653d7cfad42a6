//! Sanders' theorem for every number of sites, beside `crates/protocol/src/algorithms/sanders`: the generalised algorithm over any
//! information structure that satisfies conditions a and b.
//!
//! The structure is a pair of relations, of which the model knows only the conditions. `crates/check/src/theorem.rs` goes through all
//! structures of three sites, and shows there that the conditions are necessary, too.

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers the generalised algorithm over every information structure that satisfies conditions a and b of the theorem,     under all three rules against deadlock (`deadlock=fail`, the default, `yield` and `plain`), over channels that keep no order, with or     without a site inside at the start. That the conditions are sufficient is proved; that they are necessary is checked for all structures     of three sites by exploration. Without crashes, and so without local recovery. The     model has no rounds: the clauses say that of each kind of message about one request there is one at a time.";

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "the structure violates the premise: a site need not keep track of itself",
        erratum: None,
        replaced: &[("axiom minds_itself \"Every site keeps track of itself.\": informs(i, i);", "")],
        fails_at: ("ask", "own_is_here"),
    },
    WrongModel {
        about: "the structure violates condition a: a site may inform whom it does not ask",
        erratum: None,
        replaced: &[("informs(i, k) -> asks(i, k);", "informs(i, i) -> asks(i, i);")],
        fails_at: ("enter", "exclusion"),
    },
    WrongModel {
        about: "the structure violates condition b: no site keeps track of both, and only one asks the other",
        erratum: None,
        replaced: &[(
            "informs(j, k)) | asks(i, j) & asks(j, i);",
            "informs(j, k)) | asks(i, j) | asks(j, i);",
        )],
        fails_at: ("enter", "exclusion"),
    },
    WrongModel {
        about: "a grant is not remembered",
        erratum: None,
        replaced: &[("locked(k, i, t) := informs(i, k);", "")],
        fails_at: ("grant", "granted_is_remembered"),
    },
    WrongModel {
        about: "the own request comes late to the site itself",
        erratum: None,
        replaced: &[
            ("asks(i, k) & k != i & u = t;", "asks(i, k) & u = t;"),
            ("queued(i, j, u) := queued(i, j, u) | asks(i, i) & j = i & u = t;", ""),
            ("last(k, i) < t & i != k &", "last(k, i) < t &"),
        ],
        fails_at: ("ask", "own_is_here"),
    },
    WrongModel {
        about: "an INQUIRE that comes before a FAIL is forgotten",
        erratum: Some("sanders-correction"),
        replaced: &[
            (
                "request(i) = t & !wanted_back(i, k);",
                "request(i) = t & !wanted_back(i, k) & (refusals -> exists l. blocked(i, l));",
            ),
            (
                "when inquire_sent(k, i, t) & !(waiting(i) & request(i) = t);",
                "when inquire_sent(k, i, t) & !(waiting(i) & request(i) = t & (refusals -> exists l. blocked(i, l)));",
            ),
        ],
        fails_at: ("drop_inquiry", "inquired_will_know"),
    },
    WrongModel {
        about: "a newcomer that precedes the granted request, but not all queued ones, is not told",
        erratum: Some("sanders-untold-newcomer"),
        replaced: &[
            ("relation queued(", "relation newcomer(site, site), queued("),
            (
                "    queued(k, i, t) := true;\n    told(k, i) := false;",
                "    queued(k, i, t) := true;\n    told(k, i) := false;\n    newcomer(k, j) := j = i;",
            ),
            (
                "(queued(k, j, u) | locked(k, j, u))",
                "(queued(k, j, u) & newcomer(k, j) | locked(k, j, u) & newcomer(k, i))",
            ),
        ],
        fails_at: ("(theorem)", "nobody_keeps_last"),
    },
    WrongModel {
        about: "a FAIL is never forgotten, and counts inside, too",
        erratum: Some("sanders-fail-kept"),
        replaced: &[
            ("    missing(i, k) := false;\n    blocked(i, k) := false;", "    missing(i, k) := false;"),
            (
                "when inquire_sent(k, i, t) & waiting(i) & request(i) = t & !wanted_back(i, k);",
                "when inquire_sent(k, i, t) & busy(i) & request(i) = t & !wanted_back(i, k);",
            ),
            (
                "when inquire_sent(k, i, t) & !(waiting(i) & request(i) = t);",
                "when inquire_sent(k, i, t) & !(busy(i) & request(i) = t);",
            ),
            (
                "when waiting(i) & request(i) = t & asks(i, k) & !missing(i, k) & wanted_back(i, k);",
                "when busy(i) & request(i) = t & asks(i, k) & !missing(i, k) & wanted_back(i, k);",
            ),
        ],
        fails_at: ("count", "blocked_while_missed"),
    },
    WrongModel {
        about: "a waiting site yields what it was not granted, whatever request the INQUIRE was about",
        erratum: Some("sanders-yield-without-grant"),
        replaced: &[
            (
                "when inquire_sent(k, i, t) & waiting(i) & request(i) = t & !wanted_back(i, k);",
                "when inquire_sent(k, i, t) & waiting(i) & !wanted_back(i, k);",
            ),
            (
                "when inquire_sent(k, i, t) & !(waiting(i) & request(i) = t);",
                "when inquire_sent(k, i, t) & !waiting(i);",
            ),
            ("asks(i, k) & !missing(i, k) & wanted_back(i, k);", "asks(i, k) & wanted_back(i, k);"),
        ],
        fails_at: ("yield", "grant_on_its_way"),
    },
];

/// The deliberate bugs of the code, and where each breaks the tie.
pub const MUTANTS: &[(Mutant, &str)] = &[(
    Mutant::SandersForgottenGrant,
    "step `− request(site0) = time0, − clock(site0) = time0, + executing(site0), + request(site0) = time1, + clock(site0) = time1`",
)];

/// The model.
pub const TEXT: &str = r#"
sort site, time;
ordered time, site;
var i, j, k, l: site;
var t, u: time;

// The information structure: `informs(i, k)` for k in the inform set of i, `asks(i, k)` for k in its request set. The status set of k is
// everyone who informs it.
fixed relation informs(site, site), asks(site, site);
// The rules against deadlock: with FAIL, or none at all; without either, a site that waits always gives a grant back.
fixed relation refusals, plain;
fixed zero: time;

// The local process.
relation waiting(site), executing(site);
function request(site): time;
// Whose grant a waiting site misses; of those, who said FAIL or has its grant back; whose grant is wanted back.
relation missing(site, site), blocked(site, site), wanted_back(site, site);

// The site that is asked.
function clock(site): time;
function last(site, site): time;
relation locked(site, site, time), inquired(site, site);
relation queued(site, site, time), told(site, site);

// Messages, with the clock of the request that they are about.
relation request_sent(site, site, time), grant_sent(site, site, time), fail_sent(site, site, time);
relation inquire_sent(site, site, time), yield_sent(site, site, time), release_sent(site, site, time);

define precedes(t, i, u, j) = t < u | t = u & i < j;
define busy(i) = waiting(i) | executing(i);
define is_free(k) = forall j, u. !locked(k, j, u);
// The grant of `k` is with the present request of `i`, or on its way to it.
define granted(k, i) = executing(i) & asks(i, k) | waiting(i) & asks(i, k) & !missing(i, k) | grant_sent(k, i, request(i));

define earliest(i) = waiting(i) & forall k. waiting(k) & k != i -> precedes(request(i), i, request(k), k);
// Whoever has a grant that is wanted back, and keeps it.
define keeps(i) = exists k. asks(i, k) & !missing(i, k) & waiting(i) & wanted_back(i, k);
define on_its_way = exists i, k, t. request_sent(i, k, t) | grant_sent(k, i, t) | fail_sent(k, i, t) | inquire_sent(k, i, t)
    | yield_sent(i, k, t) | release_sent(i, k, t);
define can_grant = exists k, i, t. is_free(k) & queued(k, i, t);
define can_inquire = exists k, i, t, j, u. locked(k, i, t) & !inquired(k, i) & (plain -> i = k) & queued(k, j, u) & precedes(u, j, t, i);
define can_fail = exists k, i, t, j, u. refusals & queued(k, i, t) & !told(k, i) & (queued(k, j, u) | locked(k, j, u)) & precedes(u, j, t, i);
define can_enter = exists i. waiting(i) & forall k. !missing(i, k);
define can_yield = exists i. keeps(i) & (!plain & !refusals | exists l. blocked(i, l));
define nothing_moves = (forall k. !executing(k)) & !on_its_way & !can_grant & !can_inquire & !can_fail & !can_enter & !can_yield;

axiom zero_is_first "No clock shows less than zero.": zero <= t;
axiom minds_itself "Every site keeps track of itself.": informs(i, i);
axiom condition_a "Who keeps track of a site is asked before that site enters.": informs(i, k) -> asks(i, k);
axiom condition_b "A third site keeps track of both, or each asks the other.":
    i != j -> (exists k. informs(i, k) & informs(j, k)) | asks(i, j) & asks(j, i);

init nobody_waits "Nobody waits at the start.": !waiting(i);
init one_holder "At most one site is inside at the start.": executing(i) & executing(j) -> i = j;
init holder_is_remembered "Its inform set remembers its grant.": locked(k, i, t) <-> executing(i) & informs(i, k) & t = zero;
init clocks_are_zero "Every clock shows zero.": clock(i) = zero & request(i) = zero & last(k, i) = zero;
init nothing_is_known "Nobody has answered, queued or inquired anything.":
    !missing(i, k) & !blocked(i, k) & !wanted_back(i, k) & !inquired(k, i) & !queued(k, i, t) & !told(k, i);
init nothing_is_sent "Nothing is on its way.":
    !request_sent(i, k, t) & !grant_sent(k, i, t) & !fail_sent(k, i, t) & !inquire_sent(k, i, t) & !yield_sent(i, k, t)
        & !release_sent(i, k, t);

action ask(i, t) "Section 3.2, entry code, step 1; the own request is put to the site itself at once." {
    when !busy(i) & clock(i) < t;
    waiting(i) := true;
    request(i) := t;
    clock(i) := t;
    missing(i, k) := asks(i, k);
    request_sent(i, k, u) := request_sent(i, k, u) | asks(i, k) & k != i & u = t;
    queued(i, j, u) := queued(i, j, u) | asks(i, i) & j = i & u = t;
    told(i, j) := told(i, j) & j != i;
}

receive queue(k, i, t) "Section 3.2, REQUEST, step 1." {
    when request_sent(i, k, t) & last(k, i) < t & i != k & forall u. !queued(k, i, u);
    request_sent(i, k, t) := false;
    last(k, i) := t;
    clock(k) := if clock(k) < t then t else clock(k);
    queued(k, i, t) := true;
    told(k, i) := false;
}

then grant(k, i, t) "Section 3.2, RELEASE, steps 2 and 3: the earliest is granted, and remembered if it is in the status set." {
    when is_free(k) & queued(k, i, t) & forall j, u. queued(k, j, u) -> !precedes(u, j, t, i);
    queued(k, i, t) := false;
    told(k, i) := false;
    locked(k, i, t) := informs(i, k);
    grant_sent(k, i, t) := true;
}

then inquire(k, i, t) "Section 5, REQUEST: the remembered grant is asked back once for an earlier request; under the plain rules only from oneself." {
    when locked(k, i, t) & !inquired(k, i) & (plain -> i = k) & exists j, u. queued(k, j, u) & precedes(u, j, t, i);
    inquired(k, i) := true;
    inquire_sent(k, i, t) := true;
}

then fail(k, i, t) "Section 5, REQUEST: whoever waits behind an earlier request is told once." {
    when refusals & queued(k, i, t) & !told(k, i);
    when exists j, u. (queued(k, j, u) | locked(k, j, u)) & precedes(u, j, t, i);
    told(k, i) := true;
    fail_sent(k, i, t) := true;
}

receive count(i, k, t) "Section 3.2, entry code, step 2: a grant comes." {
    when grant_sent(k, i, t) & waiting(i) & request(i) = t & missing(i, k);
    grant_sent(k, i, t) := false;
    missing(i, k) := false;
    blocked(i, k) := false;
}

then enter(i) "Section 3.2, entry code, step 2: all have granted." {
    when waiting(i) & forall k. !missing(i, k);
    waiting(i) := false;
    executing(i) := true;
    wanted_back(i, k) := false;
}

receive note_fail(i, k, t) "Section 5: this site does not grant soon." {
    when fail_sent(k, i, t) & waiting(i) & request(i) = t & missing(i, k) & !blocked(i, k);
    fail_sent(k, i, t) := false;
    blocked(i, k) := true;
}

receive drop_fail(i, k, t) "Section 5: a FAIL that comes late is dropped." {
    when fail_sent(k, i, t) & !(waiting(i) & request(i) = t & missing(i, k) & !blocked(i, k));
    fail_sent(k, i, t) := false;
}

receive note_inquiry(i, k, t) "Section 5, INQUIRE: it is remembered until the site yields or enters." {
    when inquire_sent(k, i, t) & waiting(i) & request(i) = t & !wanted_back(i, k);
    inquire_sent(k, i, t) := false;
    wanted_back(i, k) := true;
}

receive drop_inquiry(i, k, t) "Section 5, INQUIRE: it is void if the site has entered meanwhile." {
    when inquire_sent(k, i, t) & !(waiting(i) & request(i) = t);
    inquire_sent(k, i, t) := false;
}

then yield(i, k, t) "Section 5, INQUIRE, step 2: the grant is given back; always to oneself, with FAIL to others only after one." {
    when waiting(i) & request(i) = t & asks(i, k) & !missing(i, k) & wanted_back(i, k);
    when i = k | !plain & !refusals | exists l. blocked(i, l);
    missing(i, k) := true;
    blocked(i, k) := true;
    wanted_back(i, k) := false;
    yield_sent(i, k, t) := true;
}

receive take_back(k, i, t) "Section 5, YIELD: the holder gives the grant back and waits again." {
    when yield_sent(i, k, t) & locked(k, i, t) & inquired(k, i);
    yield_sent(i, k, t) := false;
    locked(k, i, t) := false;
    inquired(k, i) := false;
    queued(k, i, t) := true;
    told(k, i) := true;
}

action leave(i) "Section 3.2, exit code." {
    when executing(i);
    executing(i) := false;
    release_sent(i, k, t) := release_sent(i, k, t) | informs(i, k) & t = request(i);
    request(i) := zero;
}

receive release(k, i, t) "Section 3.2, RELEASE, step 1." {
    when release_sent(i, k, t) & locked(k, i, t);
    release_sent(i, k, t) := false;
    locked(k, i, t) := false;
    inquired(k, i) := false;
}

invariant one_phase "A process does not wait and execute at once.": !(waiting(i) & executing(i));
invariant clock_covers_own "The clock is not behind the site's own request (I5).": request(i) <= clock(i);
invariant waits_after_zero "A waiting site's request is later than that of a holder from the start.": waiting(i) -> zero < request(i);
invariant idle_requests_nothing "An idle site has no request.": !busy(i) -> request(i) = zero;
invariant missed_while_waiting "Only a site that waits misses a grant, and only of whom it asks.": missing(i, k) -> waiting(i) & asks(i, k);
invariant blocked_while_missed "FAILs are from sites whose grant is missed (I4).": blocked(i, k) -> missing(i, k);
invariant wanted_while_waiting "Only a site that waits remembers an INQUIRE.": wanted_back(i, k) -> waiting(i) & asks(i, k);
invariant one_lock "One grant at most is remembered.": locked(k, i, t) & locked(k, j, u) -> i = j & t = u;
invariant remembered_is_informed "Only a grant to a site of the status set is remembered (I3).": locked(k, i, t) -> informs(i, k);
invariant granted_is_remembered "The inform set remembers the grant to a site that uses it (I7).":
    granted(k, i) & informs(i, k) -> locked(k, i, request(i));
invariant granted_precedes "A grant that is not remembered was given to an earlier request than one's own.":
    granted(k, i) & !informs(i, k) & busy(k) -> precedes(request(i), i, request(k), k);
invariant granted_is_known "A grant that is not remembered was given to a request that the clock is not behind.":
    granted(k, i) & !informs(i, k) -> request(i) <= clock(k);
invariant own_is_here "A site's own request waits at the site, or has its grant.":
    busy(i) -> queued(i, i, request(i)) | locked(i, i, request(i));
invariant last_is_old "No site has seen a request that was not made.":
    last(k, i) <= clock(i) & last(k, i) <= clock(k) & (busy(i) -> last(k, i) <= request(i));
invariant request_on_its_way "A REQUEST on its way is the present one, it is news, and nothing answers it yet.":
    request_sent(i, k, t) -> i != k & waiting(i) & missing(i, k) & t = request(i) & last(k, i) < t & !queued(k, i, u)
        & !grant_sent(k, i, u) & !yield_sent(i, k, u) & !locked(k, i, t);
invariant queued_waits "Whoever is queued waits, with its last request (I2).":
    queued(k, i, t) -> waiting(i) & missing(i, k) & t = request(i) & t <= clock(k) & (i = k | last(k, i) = t)
        & !locked(k, i, t) & !grant_sent(k, i, u) & !yield_sent(i, k, u);
invariant grant_on_its_way "A GRANT on its way is for the present request, which misses it.":
    grant_sent(k, i, t) -> waiting(i) & missing(i, k) & t = request(i) & (i = k | last(k, i) = t) & !yield_sent(i, k, u);
invariant yield_on_its_way "A YIELD on its way gives back what was inquired about.":
    yield_sent(i, k, t) -> waiting(i) & missing(i, k) & blocked(i, k) & t = request(i) & locked(k, i, t) & inquired(k, i)
        & !wanted_back(i, k) & !inquire_sent(k, i, t);
invariant release_on_its_way "A RELEASE on its way is of a request that is over, whose grant is remembered.":
    release_sent(i, k, t) -> locked(k, i, t) & t <= clock(i) & (busy(i) -> t < request(i));
invariant locked_is_used "A remembered grant is on its way, in use, or on its way back.":
    locked(k, i, t) -> granted(k, i) & t = request(i) | yield_sent(i, k, t) | release_sent(i, k, t);
invariant locked_is_known "A remembered grant is for a request that was seen.":
    locked(k, i, t) -> t <= clock(i) & t <= clock(k) & (i = k | t <= last(k, i)) & (busy(i) & t = request(i) -> i = k | last(k, i) = t);
invariant inquired_is_locked "Only a grant that is remembered is inquired about.": inquired(k, i) -> exists t. locked(k, i, t);
invariant inquire_on_its_way "An INQUIRE on its way is about a grant that is remembered, or about a request that is over.":
    inquire_sent(k, i, t) -> informs(i, k) & t <= clock(i) & (busy(i) -> t <= request(i))
        & (busy(i) & t = request(i) -> locked(k, i, t) & inquired(k, i) & !wanted_back(i, k));
invariant wanted_is_inquired "A remembered INQUIRE is about a grant that is remembered.":
    wanted_back(i, k) -> locked(k, i, request(i)) & inquired(k, i);
invariant fail_on_its_way "A FAIL on its way is about a request that was made.":
    fail_sent(k, i, t) -> refusals & asks(i, k) & t <= clock(i);
invariant missed_will_come "Whoever misses a grant has asked for it, is queued, or it is on its way, or on its way back.":
    missing(i, k) -> request_sent(i, k, request(i)) | queued(k, i, request(i)) | grant_sent(k, i, request(i)) | yield_sent(i, k, request(i));
invariant inquired_will_know "Whoever waits and is inquired knows it, will know it, or has given the grant back.":
    locked(k, i, t) & inquired(k, i) & waiting(i) & t = request(i) -> inquire_sent(k, i, t) | wanted_back(i, k) | yield_sent(i, k, t);
invariant told_while_queued "Only whoever is queued has been told to wait.": told(k, i) -> exists t. queued(k, i, t);
invariant told_will_know "Whoever has been told to wait knows it, or will know it.":
    told(k, i) -> fail_sent(k, i, request(i)) | blocked(i, k);

safety exclusion "Two sites are never inside at once.": executing(i) & executing(j) -> i = j;

theorem no_refusal_of_requests "A REQUEST is accepted.": request_sent(i, k, t) -> i != k & last(k, i) < t & !queued(k, i, u);
theorem no_refusal_of_grants "A GRANT is accepted.": grant_sent(k, i, t) -> waiting(i) & request(i) = t & missing(i, k);
theorem no_refusal_of_yields "A YIELD is accepted.": yield_sent(i, k, t) -> locked(k, i, t) & inquired(k, i);
theorem no_refusal_of_releases "A RELEASE is accepted.": release_sent(i, k, t) -> locked(k, i, t);
theorem no_refusal_of_inquiries "An INQUIRE is accepted, or known to be late.":
    inquire_sent(k, i, t) -> informs(i, k) & t <= clock(i) & !(waiting(i) & request(i) = t & wanted_back(i, k));
theorem somebody_keeps "If somebody waits and nothing can happen, under `fail` and `yield`, somebody keeps a grant that is wanted back.":
    !plain & nothing_moves & earliest(i) -> exists j. keeps(j);
theorem nobody_keeps_last
    "If nothing can happen, nobody is the last of those who keep one: as there are finitely many sites, `fail` and `yield` do not deadlock.":
    !plain & nothing_moves & keeps(i) -> exists k. keeps(k) & precedes(request(i), i, request(k), k);
"#;
