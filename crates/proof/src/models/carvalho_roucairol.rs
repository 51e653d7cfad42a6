//! Carvalho and Roucairol's algorithm for every number of sites, beside `crates/protocol/src/algorithms/carvalho_roucairol`.
//!
//! In Sanders' terms its information structure changes: the permissions that a site holds are its status set. It is a model of its own,
//! because the structure of `sanders.rs` is fixed.

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers the algorithm as it ships, over channels that keep no order, with or without a site inside at the start. \
    Without crashes and without duplicates. The model does not number the requests \
    between two sites: the clauses say that there is one at a time.";

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "a waiting site that grants does not ask for the permission back",
        erratum: Some("carvalho-sanders-section-8"),
        replaced: &[(" | k = i & l = j & u = request(i) & holds(i, j);", ";")],
        fails_at: ("grant_waiting", "lacked_will_come"),
    },
    WrongModel {
        about: "a site that leaves forgets the requests that it has deferred",
        erratum: None,
        replaced: &[("grant_sent(i, j) := grant_sent(i, j) | deferred(i, j);", "")],
        fails_at: ("leave", "lacked_will_come"),
    },
    WrongModel {
        about: "a site that leaves keeps the permissions of those that it grants",
        erratum: None,
        replaced: &[("holds(i, j) := holds(i, j) & !deferred(i, j);", "")],
        fails_at: ("leave", "grant_on_its_way"),
    },
];

/// The deliberate bugs of the code, and where each breaks the tie.
pub const MUTANTS: &[(Mutant, &str)] = &[(
    Mutant::CarvalhoForgottenDeferred,
    "step `− executing(site0), − request(site0) = time1, − deferred(site0, site1), + request(site0) = time0`",
)];

/// The model.
pub const TEXT: &str = r#"
sort site, time;
ordered time, site;
var i, j, k, l: site;
var t, u: time;

// The local process.
relation waiting(site), executing(site);
// The clock of the request on which a site waits or executes; zero while it is idle.
function request(site): time;

// The status set: whose permission a site holds; and whom it owes a grant.
fixed zero: time;
function clock(site): time;
relation holds(site, site), deferred(site, site);

// REQUEST, with the clock that it carries, and GRANT.
relation request_sent(site, site, time), grant_sent(site, site);

define precedes(t, i, u, j) = t < u | t = u & i < j;
define busy(i) = waiting(i) | executing(i);

axiom zero_is_first "No clock shows less than zero.": zero <= t;

init nobody_waits "Nobody waits at the start.": !waiting(i);
init one_holder "At most one site is inside at the start.": executing(i) & executing(j) -> i = j;
init holder_has_all "Who is inside has all permissions; nobody else has one.": holds(i, j) <-> executing(i) & i != j;
init clocks_are_zero "Every clock shows zero.": clock(i) = zero & request(i) = zero;
init nothing_is_owed "Nobody owes a grant.": !deferred(i, j);
init nothing_is_sent "Nothing is on its way.": !request_sent(i, j, t) & !grant_sent(i, j);

action ask(i, t) "Section 3.2, entry code, with section 8's request set: ask whoever's permission is lacking." {
    when !busy(i) & clock(i) < t;
    waiting(i) := true;
    clock(i) := t;
    request(i) := t;
    request_sent(i, j, u) := request_sent(i, j, u) | j != i & !holds(i, j) & u = t;
}

then enter(i) "Section 8: a site that holds all permissions enters." {
    when waiting(i) & forall j. j != i -> holds(i, j);
    waiting(i) := false;
    executing(i) := true;
}

receive grant_idle(i, j, t) "Section 3.2, REQUEST: an idle site grants; section 8, rule (1): it must ask from now on." {
    when request_sent(j, i, t) & !busy(i);
    request_sent(j, i, t) := false;
    clock(i) := if clock(i) < t then t else clock(i);
    holds(i, j) := false;
    grant_sent(i, j) := true;
}

receive grant_waiting(i, j, t) "Section 3.2, REQUEST: a site that waits grants an earlier request, and asks for what it had." {
    when request_sent(j, i, t) & waiting(i) & precedes(t, j, request(i), i);
    request_sent(k, l, u) := request_sent(k, l, u) & !(k = j & l = i & u = t) | k = i & l = j & u = request(i) & holds(i, j);
    clock(i) := if clock(i) < t then t else clock(i);
    holds(i, j) := false;
    grant_sent(i, j) := true;
}

receive defer(i, j, t) "Section 3.2, REQUEST: whoever is inside or precedes defers its grant." {
    when request_sent(j, i, t) & !deferred(i, j) & (executing(i) | waiting(i) & !precedes(t, j, request(i), i));
    request_sent(j, i, t) := false;
    clock(i) := if clock(i) < t then t else clock(i);
    deferred(i, j) := true;
}

receive count(i, j) "Section 8, rule (2): the giver moves from the request set to the status set." {
    when grant_sent(j, i) & waiting(i) & !holds(i, j);
    grant_sent(j, i) := false;
    holds(i, j) := true;
}

action leave(i) "Section 3.2, exit code: whoever waits for the site is granted." {
    when executing(i);
    executing(i) := false;
    request(i) := zero;
    grant_sent(i, j) := grant_sent(i, j) | deferred(i, j);
    holds(i, j) := holds(i, j) & !deferred(i, j);
    deferred(i, j) := false;
}

invariant one_phase "A process does not wait and execute at once.": !(waiting(i) & executing(i));
invariant clock_covers_own "The clock is not behind the site's own request (I3).": request(i) <= clock(i);
invariant executing_holds_all "Whoever is inside holds all permissions (I2).": executing(i) & i != j -> holds(i, j);
invariant none_holds_its_own "Nobody holds its own permission (I2).": !holds(i, i);
invariant one_permission "Between two sites one holds the permission at most (I4).": !(holds(i, j) & holds(j, i));
invariant request_on_its_way "A REQUEST on its way is the present one, and nothing answers it yet.":
    request_sent(i, j, t) -> i != j & waiting(i) & t = request(i) & !holds(i, j) & !grant_sent(j, i) & !deferred(j, i);
invariant deferred_by_whom_precedes "A grant is deferred by a site that is inside or precedes (I1).":
    deferred(j, i) -> i != j & waiting(i) & !holds(i, j) & !grant_sent(j, i) & request(i) <= clock(j)
        & (executing(j) | waiting(j) & precedes(request(j), j, request(i), i));
invariant grant_on_its_way "A GRANT on its way is for a site that waits, and the only permission between the two (I4).":
    grant_sent(j, i) -> i != j & waiting(i) & !holds(i, j) & !holds(j, i) & !grant_sent(i, j);
invariant granted_is_known "Whoever has sent a GRANT has a clock that is not behind the request.":
    grant_sent(j, i) -> request(i) <= clock(j);
invariant granted_precedes "A request to which a GRANT is on its way precedes that of whoever sent it.":
    grant_sent(j, i) & busy(j) -> waiting(j) & precedes(request(i), i, request(j), j);
invariant lacked_will_come "Whoever waits and lacks a permission has asked for it, is owed it, or it is on its way.":
    waiting(i) & i != j & !holds(i, j) -> request_sent(i, j, request(i)) | grant_sent(j, i) | deferred(j, i);

safety exclusion "Two sites are never inside at once.": executing(i) & executing(j) -> i = j;

theorem no_refusal_of_requests "A REQUEST is accepted.": request_sent(j, i, t) -> !deferred(i, j);
theorem no_refusal_of_grants "A GRANT is accepted.": grant_sent(j, i) -> waiting(i) & !holds(i, j);
theorem earliest_is_served
    "If nobody is inside, the earliest of those who wait can enter, or a message that it waits for is on its way: no deadlock.":
    (forall k. !executing(k)) & waiting(i) & (forall k. waiting(k) & k != i -> precedes(request(i), i, request(k), k))
        -> (forall j. j != i -> holds(i, j)) | exists j. request_sent(i, j, request(i)) | grant_sent(j, i);
"#;
