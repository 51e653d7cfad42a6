//! Ricart and Agrawala's algorithm for every number of sites, beside
//! `crates/protocol/src/algorithms/ricart_agrawala/mod.rs`.
//!
//! Requests carry clocks, channels keep no order, and one site may be inside at the start. A message that the code would
//! refuse is not an action here: the theorems `no_refusal_of_…` say that there is none.

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers the algorithm as it ships, over channels that keep no order, with or without a site inside at the \
    start. Without crashes and without duplicates.";

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "a waiting site replies at once to everyone",
        erratum: None,
        replaced: &[
            ("when !executing(i) & (waiting(i) -> !precedes(request(i), i, t, j));", "when !executing(i);"),
            ("when executing(i) | waiting(i) & precedes(request(i), i, t, j);", "when executing(i);"),
        ],
        fails_at: ("reply", "permitted_precedes"),
    },
    WrongModel {
        about: "of two requests with the same clock each is taken for the earlier",
        erratum: None,
        replaced: &[("t < u | t = u & i < j;", "t < u;")],
        fails_at: ("reply", "permitted_precedes"),
    },
    WrongModel {
        about: "the clock is raised only when a reply is deferred",
        erratum: Some("lodha-figure-1-highest-seen"),
        replaced: &[(
            "clock(i) := if clock(i) < t then t else clock(i);\n    reply_sent(i, j, t) := true;",
            "reply_sent(i, j, t) := true;",
        )],
        fails_at: ("reply", "permitted_is_known"),
    },
    WrongModel {
        about: "a site that leaves forgets the replies that it has deferred",
        erratum: None,
        replaced: &[("reply_sent(i, j, t) := reply_sent(i, j, t) | deferred(i, j) & t = last(i, j);", "")],
        fails_at: ("leave", "missed_reply_will_come"),
    },
];

/// The deliberate bugs of the code, and where each breaks the tie.
pub const MUTANTS: &[(Mutant, &str)] = &[
    (
        Mutant::RicartAgrawalaEarlyReply,
        "step `− last(site0, site1) = time0, − request_sent(site1, site0, time1), + last(site0, site1) = time1, + reply_sent(site0, site1, time1)`",
    ),
    (
        Mutant::RicartAgrawalaWrongTieBreak,
        "step `− last(site0, site1) = time0, − request_sent(site1, site0, time1), + last(site0, site1) = time1, + reply_sent(site0, site1, time1)`",
    ),
    (
        Mutant::RicartAgrawalaSameNumber,
        "step `− executing(site0), − request(site0) = time1, − clock(site0) = time1, + request(site0) = time0, + clock(site0) = time0`",
    ),
];

/// The model.
pub const TEXT: &str = r#"
sort site, time;
ordered site, time;
var i, j, k: site;
var t, u: time;

// The local process.
relation waiting(site), executing(site);
// The clock of the request on which a site waits or executes; zero while it is idle.
function request(site): time;
// Whose reply a waiting site misses.
relation missing(site, site);

// What a site knows of the others: `Highest_Sequence_Number_Seen`, the clock of the last request of each, and whom it owes a
// reply.
fixed zero: time;
function clock(site): time;
function last(site, site): time;
relation deferred(site, site);

// REQUEST and REPLY from the first site to the second, with the clock that they carry.
relation request_sent(site, site, time), reply_sent(site, site, time);

// Timestamps are compared by clock, then by site.
define precedes(t, i, u, j) = t < u | t = u & i < j;
define busy(i) = waiting(i) | executing(i);
// No reply of `j` stands between `i` and the critical section any more, or it is on its way.
define permitted(j, i) = executing(i) | waiting(i) & !missing(i, j) | reply_sent(j, i, request(i));

axiom zero_is_first "No clock shows less than zero.": zero <= t;

init nobody_waits "Nobody waits at the start.": !waiting(i);
init one_holder "At most one site is inside at the start.": executing(i) & executing(j) -> i = j;
init clocks_are_zero "Every clock shows zero.": clock(i) = zero & request(i) = zero & last(i, j) = zero;
init nothing_is_owed "Nobody owes or misses a reply.": !deferred(i, j) & !missing(i, j);
init nothing_is_sent "Nothing is on its way.": !request_sent(i, j, t) & !reply_sent(i, j, t);

action request_alone(i, t) "Algorithm 9.2, requesting, step (a), in a cluster of one." {
    when !busy(i) & clock(i) < t & forall j. j = i;
    clock(i) := t;
    request(i) := t;
    executing(i) := true;
}

action ask(i, t) "Algorithm 9.2, requesting, step (a)." {
    when !busy(i) & clock(i) < t & exists j. j != i;
    clock(i) := t;
    request(i) := t;
    waiting(i) := true;
    missing(i, j) := j != i;
    request_sent(i, j, u) := request_sent(i, j, u) | j != i & u = t;
}

action reply(i, j, t) "Step (b): whoever does not stand in the way replies at once." {
    when request_sent(j, i, t) & last(i, j) < t & !deferred(i, j);
    when !executing(i) & (waiting(i) -> !precedes(request(i), i, t, j));
    request_sent(j, i, t) := false;
    last(i, j) := t;
    clock(i) := if clock(i) < t then t else clock(i);
    reply_sent(i, j, t) := true;
}

action defer(i, j, t) "Step (b): whoever is inside or precedes defers its reply." {
    when request_sent(j, i, t) & last(i, j) < t & !deferred(i, j);
    when executing(i) | waiting(i) & precedes(request(i), i, t, j);
    request_sent(j, i, t) := false;
    last(i, j) := t;
    clock(i) := if clock(i) < t then t else clock(i);
    deferred(i, j) := true;
}

action count_reply(i, j, t) "Step (c): a reply comes, and others are still missing." {
    when reply_sent(j, i, t) & waiting(i) & request(i) = t & missing(i, j);
    when exists k. missing(i, k) & k != j;
    reply_sent(j, i, t) := false;
    missing(i, j) := false;
}

action enter(i, j, t) "Step (c): the last reply comes, and the site enters." {
    when reply_sent(j, i, t) & waiting(i) & request(i) = t & missing(i, j);
    when forall k. missing(i, k) -> k = j;
    reply_sent(j, i, t) := false;
    missing(i, j) := false;
    waiting(i) := false;
    executing(i) := true;
}

action leave(i) "Releasing, step (d): all deferred replies are sent." {
    when executing(i);
    executing(i) := false;
    request(i) := zero;
    reply_sent(i, j, t) := reply_sent(i, j, t) | deferred(i, j) & t = last(i, j);
    deferred(i, j) := false;
}

invariant one_phase "A process does not wait and execute at once.": !(waiting(i) & executing(i));
invariant missed_while_waiting "Only a waiting site misses replies, and never its own (I2).":
    missing(i, j) -> waiting(i) & i != j;
invariant clock_covers_own "The clock is not behind the site's own request (I3).": request(i) <= clock(i);
invariant clock_covers_known "The clock is not behind any request that the site has seen.": last(i, j) <= clock(i);
invariant last_is_old "Nobody knows of a request later than its sender's clock.": last(j, i) <= clock(i);
invariant request_on_its_way "A REQUEST on its way is the present one, it is news, and nothing answers it yet.":
    request_sent(i, j, t) ->
        i != j & waiting(i) & missing(i, j) & t = request(i) & last(j, i) < t & !deferred(j, i);
invariant reply_on_its_way "A REPLY on its way answers the present request, which misses it.":
    reply_sent(j, i, t) -> i != j & waiting(i) & missing(i, j) & t = request(i) & last(j, i) = t & !deferred(j, i);
invariant deferred_by_whom_precedes "A reply is deferred by a site that waits or executes and precedes (I1).":
    deferred(j, i) ->
        i != j & waiting(i) & missing(i, j) & last(j, i) = request(i) & busy(j) & precedes(request(j), j, request(i), i);
invariant missed_reply_will_come "Whoever misses a reply has asked for it, is owed it, or it is on its way.":
    missing(i, j) -> request_sent(i, j, request(i)) | reply_sent(j, i, request(i)) | deferred(j, i);
invariant permitted_is_known "Whoever has permitted a request has a clock that is not behind it.":
    permitted(j, i) & i != j -> request(i) <= clock(j);
invariant permitted_precedes "A permitted request precedes that of whoever permitted it.":
    permitted(j, i) & i != j & busy(j) -> precedes(request(i), i, request(j), j);

safety exclusion "Two sites are never inside at once.": executing(i) & executing(j) -> i = j;
safety in_order "Whoever is inside has an earlier request than everyone who waits.":
    executing(i) & waiting(j) -> precedes(request(i), i, request(j), j);

theorem no_refusal_of_requests "A REQUEST is accepted.": request_sent(j, i, t) -> i != j & last(i, j) < t & !deferred(i, j);
theorem no_refusal_of_replies "A REPLY is accepted.":
    reply_sent(j, i, t) -> i != j & waiting(i) & request(i) = t & missing(i, j);
theorem earliest_is_served
    "If nobody is inside, the earliest of those who wait has a message on its way that it waits for: no deadlock.":
    (forall k. !executing(k)) & waiting(i) & missing(i, j) & (forall k. waiting(k) & k != i -> precedes(request(i), i, request(k), k))
        -> request_sent(i, j, request(i)) | reply_sent(j, i, request(i));
"#;
