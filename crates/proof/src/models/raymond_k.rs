//! Raymond's algorithm for K permits and every number of sites, beside `crates/protocol/src/algorithms/raymond_k`.
//!
//! Channels keep no order, and at the start up to K sites are inside. Nobody counts here: there is a sort of sets of sites, and it is
//! fixed which of them are *small*, with fewer than K sites. A site enters when everyone whose reply it misses is in a small set. What is
//! proved is that for everyone inside there is a small set with all of those inside that precede it. Take the last of them: all others
//! precede it, and are fewer than K.

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers the algorithm as it ships for K < N, over channels that keep no order; with more permits nobody asks \
    anybody. The model does not count: it has sets of sites, some of which are small (fewer than K sites). That K at most are \
    inside follows from what is proved: of finitely many inside one is the last, and all others are in a small set. Without \
    crashes.";

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "a late reply to an old request is credited to the new one",
        erratum: None,
        replaced: &[(
            "when reply_sent(j, i, t) & t = request(i) & missing(i, j);",
            "when reply_sent(j, i, t) & missing(i, j);",
        )],
        fails_at: ("take_reply", "earlier_is_missed"),
    },
    WrongModel {
        about: "a waiting site replies at once to a request that its own precedes",
        erratum: None,
        replaced: &[("& !inside(i) & (waiting(i) -> !precedes(request(i), i, t, j));", "& !inside(i);")],
        fails_at: ("reply", "earlier_is_missed"),
    },
    WrongModel {
        about: "a site enters whoever has not replied",
        erratum: None,
        replaced: &[(
            "when waiting(i) & small(s) & forall k. missing(i, k) & k != j -> in(k, s);",
            "when waiting(i);",
        )],
        fails_at: ("enter", "enough_have_replied"),
    },
];

/// The deliberate bugs of the code, and where each breaks the tie.
pub const MUTANTS: &[(Mutant, &str)] = &[
    (
        Mutant::RaymondKOldReply,
        "step `− waiting(site0), − missing(site0, site2), − reply_sent(site2, site0, time1), + inside(site0)`",
    ),
    (
        Mutant::RaymondKOffByOne,
        "step `− request(site0) = time0, − clock(site0) = time0, + inside(site0), + request(site0) = time1, + missing(site0, site1), + clock(site0) = time1, + request_sent(site0, site1, time1)`",
    ),
];

/// The model.
pub const TEXT: &str = r#"
sort site, time, crowd;
ordered site, time;
var i, j, k: site;
var t, u: time;
var s: crowd;

// Sets of sites, and which of them have fewer than K.
fixed relation in(site, crowd), small(crowd);

// The local process; an idle one is neither.
relation waiting(site), inside(site);
// The clock of a site's last request, zero before the first, and who has not replied to it.
function request(site): time;
relation missing(site, site);

// What a site knows of the others: no request that it has seen has a larger clock; the newest request of each, and whom it owes a reply.
fixed zero: time;
function clock(site): time;
function last(site, site): time;
relation deferred(site, site);

// REQUEST and REPLY from the first site to the second, with the clock that they carry.
relation request_sent(site, site, time), reply_sent(site, site, time);

// Timestamps are compared by clock, then by site.
define precedes(t, i, u, j) = t < u | t = u & i < j;
define before(i, j) = precedes(request(i), i, request(j), j);
define busy(i) = waiting(i) | inside(i);
// The site has asked at least once.
define asked(i) = zero < request(i);
// No reply of `j` to the last request of `i` is missing, or it is on its way.
define permitted(j, i) = !missing(i, j) | reply_sent(j, i, request(i));

axiom zero_is_first "No clock shows less than zero.": zero <= t;

init nobody_waits "Nobody waits at the start.": !waiting(i);
init few_inside "At most K sites are inside: before each of them a small set.":
    inside(i) -> exists s. small(s) & forall j. inside(j) & j < i -> in(j, s);
init clocks_are_zero "Every clock shows zero.": clock(i) = zero & request(i) = zero & last(i, j) = zero;
init nothing_is_owed "Nobody owes or misses a reply.": !deferred(i, j) & !missing(i, j);
init nothing_is_sent "Nothing is on its way.": !request_sent(i, j, t) & !reply_sent(i, j, t);

action ask(i, t) "A site that wants to enter sends its timestamp to all others." {
    when !busy(i) & clock(i) < t;
    clock(i) := t;
    request(i) := t;
    waiting(i) := true;
    missing(i, j) := j != i;
    request_sent(i, j, u) := request_sent(i, j, u) | j != i & u = t;
}

action overtaken(i, j, t) "A request that a newer one has overtaken needs no answer." {
    when request_sent(j, i, t) & t < last(i, j);
    request_sent(j, i, t) := false;
}

action reply(i, j, t) "A site that does not want to enter, or later, replies at once." {
    when request_sent(j, i, t) & last(i, j) < t & !inside(i) & (waiting(i) -> !precedes(request(i), i, t, j));
    request_sent(j, i, t) := false;
    last(i, j) := t;
    clock(i) := if clock(i) < t then t else clock(i);
    reply_sent(i, j, t) := true;
}

action defer(i, j, t) "A site that is inside or wants to enter earlier replies when it leaves, to the newest request." {
    when request_sent(j, i, t) & last(i, j) < t & (inside(i) | waiting(i) & precedes(request(i), i, t, j));
    request_sent(j, i, t) := false;
    last(i, j) := t;
    clock(i) := if clock(i) < t then t else clock(i);
    deferred(i, j) := true;
}

action late(i, j, t) "A reply to an earlier request, which did without it, counts for nothing." {
    when reply_sent(j, i, t) & t < request(i);
    reply_sent(j, i, t) := false;
}

action take_reply(i, j, t) "A reply comes, and does not let the site in: too many are missing, or it has entered without it." {
    when reply_sent(j, i, t) & t = request(i) & missing(i, j);
    when waiting(i) -> forall s. small(s) -> exists k. missing(i, k) & k != j & !in(k, s);
    reply_sent(j, i, t) := false;
    missing(i, j) := false;
}

action enter(i, j, t, s) "A reply comes, and fewer than K are missing: the site enters." {
    when reply_sent(j, i, t) & t = request(i) & missing(i, j);
    when waiting(i) & small(s) & forall k. missing(i, k) & k != j -> in(k, s);
    reply_sent(j, i, t) := false;
    missing(i, j) := false;
    waiting(i) := false;
    inside(i) := true;
}

action leave(i) "All deferred replies are sent." {
    when inside(i);
    inside(i) := false;
    reply_sent(i, j, t) := reply_sent(i, j, t) | deferred(i, j) & t = last(i, j);
    deferred(i, j) := false;
}

invariant one_phase "A process does not wait and execute at once.": !(waiting(i) & inside(i));
invariant waits_for_own "Whoever waits has asked, and never misses its own reply (I2).": (waiting(i) -> asked(i)) & !missing(i, i);
invariant clock_covers "The clock is behind no request that was made or seen here (I3).": request(i) <= clock(i) & last(i, j) <= clock(i);
invariant last_was_made "Nobody knows of a request that was not made.": last(j, i) <= request(i);
invariant request_on_its_way "A REQUEST on its way was made, and is not known to its receiver.":
    request_sent(i, j, t) -> i != j & zero < t & t <= request(i) & last(j, i) != t;
invariant present_request_on_its_way "Nothing answers a request that is on its way.":
    request_sent(i, j, request(i)) -> missing(i, j) & !reply_sent(j, i, request(i)) & last(j, i) < request(i);
invariant reply_on_its_way "A REPLY answers a request that its sender knows.": reply_sent(j, i, t) -> i != j & zero < t & t <= last(j, i);
invariant present_reply_is_missed "A REPLY to the last request is missed.": reply_sent(j, i, request(i)) -> missing(i, j);
invariant deferred_while_busy "A reply is deferred only while the site waits or executes (I1), and is not on its way.":
    deferred(j, i) -> i != j & busy(j) & zero < last(j, i) & !reply_sent(j, i, last(j, i)) & (last(j, i) = request(i) -> missing(i, j));
invariant missed_reply_will_come "Whoever misses a reply has asked for it, is owed it, or it is on its way.":
    missing(i, j) -> request_sent(i, j, request(i)) | reply_sent(j, i, request(i)) | deferred(j, i) & last(j, i) = request(i);
invariant deferred_by_whom_precedes "Who defers a reply is inside, or precedes the request.":
    deferred(j, i) -> inside(j) | precedes(request(j), j, last(j, i), i);
invariant permitted_is_known "Whoever has permitted a request has a clock that is not behind it.":
    asked(i) & permitted(j, i) & i != j -> request(i) <= clock(j);
invariant earlier_is_missed "Of two that have asked and wait or execute the later misses the reply of the earlier (I4).":
    busy(i) & busy(j) & asked(i) & asked(j) & i != j & permitted(j, i) -> before(i, j);
invariant holder_is_missed "Whoever is inside from the start has replied to nobody.":
    inside(j) & !asked(j) & asked(i) & i != j -> missing(i, j) & !reply_sent(j, i, t);
invariant enough_have_replied "Whoever has asked and is inside misses a small set of replies (I2).":
    inside(i) & asked(i) -> exists s. small(s) & forall j. missing(i, j) -> in(j, s);

safety exclusion "Those inside that precede one inside are in a small set, so that K at most are inside.":
    inside(i) -> exists s. small(s) & forall j. inside(j) & before(j, i) -> in(j, s);

theorem no_refusal_of_requests "Every REQUEST is one that its receiver accepts.": request_sent(j, i, t) -> i != j & t != last(i, j);
theorem no_refusal_of_replies "Every REPLY is one that its receiver accepts, or is known to be late.":
    reply_sent(j, i, t) -> i != j & (t < request(i) | t = request(i) & missing(i, j));
theorem earliest_waits_for_those_inside
    "Whoever the first that waits misses is inside, or a message between them is on its way: so K are inside, or something moves.":
    waiting(i) & missing(i, j) & (forall k. waiting(k) & k != i -> before(i, k))
        -> inside(j) | request_sent(i, j, request(i)) | reply_sent(j, i, request(i));
"#;
