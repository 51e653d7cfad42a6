//! Lamport's algorithm over FIFO channels for every number of sites, beside
//! `crates/protocol/src/algorithms/lamport/mod.rs`.
//!
//! Covers the default, without `omit-replies`. One site may be inside at the start. Every message carries its sender's clock, which
//! rises with each; so a channel that keeps its order delivers the message with the smallest clock first, and that is how the
//! model says FIFO.

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers the default, without `omit-replies`, over FIFO channels, with or without a site inside at the start. \
    Without crashes.";

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "channels do not keep their order",
        erratum: None,
        replaced: &[("& oldest(j, i, t)", "")],
        fails_at: ("reply", "sent_requests_are_newer"),
    },
    WrongModel {
        about: "a reply does not raise the clock",
        erratum: None,
        replaced: &[("clock(i) < w & t < w;", "clock(i) < w;")],
        fails_at: ("queue", "reply_is_later"),
    },
    WrongModel {
        about: "a site enters without heading its queue",
        erratum: None,
        replaced: &[(
            "(forall k. !misses(i, k, j, t)) & (forall k, u. queued(i, k, u) -> !precedes(u, k, request(i), i));\n    reply_sent",
            "(forall k. !misses(i, k, j, t));\n    reply_sent",
        )],
        fails_at: ("reply_and_enter", "executing_is_first"),
    },
];

/// The deliberate bugs of the code, and where each breaks the tie.
pub const MUTANTS: &[(Mutant, &str)] = &[
    (
        Mutant::LamportLostMax,
        "step `− clock(site0) = time3, − heard(site0, site1) = time1, − answered(site0, site1) = time0, − reply_sent(site1, site0, time2, time1), + clock(site0) = time2, + heard(site0, site1) = time2, + answered(site0, site1) = time1`",
    ),
    (
        Mutant::LamportDeafClock,
        "step `− clock(site1) = time0, − heard(site1, site0) = time0, − request_sent(site0, site1, time1), + clock(site1) = time1, + heard(site1, site0) = time1, + queued(site1, site0, time1), + reply_sent(site1, site0, time1, time1)`",
    ),
    (
        Mutant::LamportReleaseNotToAll,
        "step `− executing(site0), − request(site0) = time1, − clock(site0) = time2, − queued(site0, site0, time1), + request(site0) = time0, + clock(site0) = time3`",
    ),
    (
        Mutant::LamportOmitsUnasked,
        "step `− heard(site1, site0) = time0, − request_sent(site0, site1, time1), + heard(site1, site0) = time1, + queued(site1, site0, time1)`",
    ),
];

/// The model.
pub const TEXT: &str = r#"
sort site, time;
ordered site, time;
var i, j, k, x, y: site;
var t, u, v, w: time;

fixed zero: time;

// The local process.
relation waiting(site), executing(site);
// The clock of the request on which a site waits or executes; zero while it is idle.
function request(site): time;
// From whom a waiting site has heard nothing with a larger timestamp yet (condition L1).
relation missing(site, site);
// The clock of the site's last request.
function last_request(site): time;

// What a site knows of the others: its clock, the clock of the last message of each, the last request of its own that each
// answered, and `request_queue`.
function clock(site): time;
function heard(site, site): time;
function answered(site, site): time;
relation queued(site, site, time);

// REQUEST, REPLY (with the request that it answers) and RELEASE from the first site to the second.
relation request_sent(site, site, time), reply_sent(site, site, time, time), release_sent(site, site, time);

define precedes(t, i, u, j) = t < u | t = u & i < j;
define busy(i) = waiting(i) | executing(i);
// FIFO: nothing from `j` to `i` has a smaller clock than `t`.
define oldest(j, i, t) =
    (forall u. request_sent(j, i, u) -> t <= u) & (forall u, v. reply_sent(j, i, u, v) -> t <= u)
        & (forall u. release_sent(j, i, u) -> t <= u);
define max(t, u) = if t < u then u else t;
// What `i` misses of `k` once something of `j` with clock `t` has come.
define misses(i, k, j, t) = missing(i, k) & !(k = j & waiting(i) & precedes(request(i), i, t, j));

// Site `i` has a request of `j` in its queue, or will have.
define asked_at(i, j, t) = queued(i, j, t) | request_sent(j, i, t);
// Such a request that `j` has left already.
define is_past(i, j, t) = asked_at(i, j, t) & !(busy(j) & t = request(j));

axiom zero_is_first "No clock shows less than zero.": zero <= t;

init nobody_waits "Nobody waits at the start.": !waiting(i) & !missing(i, j);
init one_holder "At most one site is inside at the start.": executing(i) & executing(j) -> i = j;
init holder_is_queued "Everybody has the holder's request in its queue, and no other.":
    queued(i, j, t) <-> executing(j) & t = zero;
init clocks_are_zero "Every clock shows zero.":
    clock(i) = zero & request(i) = zero & last_request(i) = zero & heard(i, j) = zero & answered(i, j) = zero;
init nothing_is_sent "Nothing is on its way.":
    !request_sent(i, j, t) & !reply_sent(i, j, t, u) & !release_sent(i, j, t);

action request_alone(i, t) "Algorithm 9.1, requesting, first rule, in a cluster of one." {
    when !busy(i) & clock(i) < t & forall j. j = i;
    clock(i) := t;
    request(i) := t;
    last_request(i) := t;
    queued(i, i, u) := queued(i, i, u) | u = t;
    executing(i) := true;
}

action ask(i, t) "Algorithm 9.1, requesting, first rule: broadcast the timestamp and queue it." {
    when !busy(i) & clock(i) < t & exists j. j != i;
    clock(i) := t;
    request(i) := t;
    last_request(i) := t;
    queued(i, i, u) := queued(i, i, u) | u = t;
    waiting(i) := true;
    missing(i, j) := j != i;
    request_sent(i, j, u) := request_sent(i, j, u) | j != i & u = t;
}

action queue(i, j, t, w) "Requesting, second rule: queue the request and reply; the site does not enter." {
    when request_sent(j, i, t) & oldest(j, i, t) & heard(i, j) < t & clock(i) < w & t < w;
    when forall u. !queued(i, j, u);
    when waiting(i) -> (exists k. misses(i, k, j, t)) | (exists k, u. queued(i, k, u) & precedes(u, k, request(i), i))
        | precedes(t, j, request(i), i);
    request_sent(j, i, t) := false;
    heard(i, j) := t;
    missing(i, k) := misses(i, k, j, t);
    queued(i, j, t) := true;
    clock(i) := w;
    reply_sent(i, j, w, t) := true;
}

action queue_and_enter(i, j, t, w) "Requesting, second rule: the request is the proof that the site missed, and it enters." {
    when request_sent(j, i, t) & oldest(j, i, t) & heard(i, j) < t & clock(i) < w & t < w;
    when forall u. !queued(i, j, u);
    when waiting(i) & (forall k. !misses(i, k, j, t)) & (forall k, u. queued(i, k, u) -> !precedes(u, k, request(i), i));
    when !precedes(t, j, request(i), i);
    request_sent(j, i, t) := false;
    heard(i, j) := t;
    missing(i, k) := false;
    queued(i, j, t) := true;
    clock(i) := w;
    reply_sent(i, j, w, t) := true;
    waiting(i) := false;
    executing(i) := true;
}

action reply(i, j, t, v) "Executing, condition L1: a reply comes, and the site does not enter." {
    when reply_sent(j, i, t, v) & oldest(j, i, t) & heard(i, j) < t & answered(i, j) < v & v <= last_request(i);
    when waiting(i) -> (exists k. misses(i, k, j, t)) | (exists k, u. queued(i, k, u) & precedes(u, k, request(i), i));
    reply_sent(j, i, t, v) := false;
    answered(i, j) := v;
    heard(i, j) := t;
    clock(i) := max(clock(i), t);
    missing(i, k) := misses(i, k, j, t);
}

action reply_and_enter(i, j, t, v) "Executing, conditions L1 and L2: the last proof comes, and the site enters." {
    when reply_sent(j, i, t, v) & oldest(j, i, t) & heard(i, j) < t & answered(i, j) < v & v <= last_request(i);
    when waiting(i) & (forall k. !misses(i, k, j, t)) & (forall k, u. queued(i, k, u) -> !precedes(u, k, request(i), i));
    reply_sent(j, i, t, v) := false;
    answered(i, j) := v;
    heard(i, j) := t;
    clock(i) := max(clock(i), t);
    missing(i, k) := false;
    waiting(i) := false;
    executing(i) := true;
}

action leave(i, w) "Releasing, first rule: leave the queue and tell everybody." {
    when executing(i) & clock(i) < w;
    executing(i) := false;
    request(i) := zero;
    queued(i, i, u) := false;
    clock(i) := w;
    release_sent(i, j, u) := release_sent(i, j, u) | j != i & u = w;
}

action release(i, j, t) "Releasing, second rule: the sender leaves the queue; the site does not enter." {
    when release_sent(j, i, t) & oldest(j, i, t) & heard(i, j) < t & exists u. queued(i, j, u);
    when waiting(i) -> (exists k. misses(i, k, j, t)) | (exists k, u. k != j & queued(i, k, u) & precedes(u, k, request(i), i));
    release_sent(j, i, t) := false;
    heard(i, j) := t;
    clock(i) := max(clock(i), t);
    missing(i, k) := misses(i, k, j, t);
    queued(i, j, u) := false;
}

action release_and_enter(i, j, t) "Releasing, second rule: the sender leaves the queue, and the site enters." {
    when release_sent(j, i, t) & oldest(j, i, t) & heard(i, j) < t & exists u. queued(i, j, u);
    when waiting(i) & (forall k. !misses(i, k, j, t)) & (forall k, u. k != j & queued(i, k, u) -> !precedes(u, k, request(i), i));
    release_sent(j, i, t) := false;
    heard(i, j) := t;
    clock(i) := max(clock(i), t);
    missing(i, k) := false;
    queued(i, j, u) := false;
    waiting(i) := false;
    executing(i) := true;
}

invariant one_phase "A process does not wait and execute at once.": !(waiting(i) & executing(i));
invariant missed_while_waiting "Only a waiting site misses a proof, and never its own (I4).":
    missing(i, j) -> waiting(i) & i != j;
invariant clock_covers_own "The clock is not behind the site's own request (I5).": request(i) <= clock(i) & last_request(i) <= clock(i);
invariant busy_on_last "A site waits or executes on its last request.": busy(i) -> request(i) = last_request(i);
invariant sent_requests_are_newer "A REQUEST on its way is newer than what was heard, and not ahead of its sender's clock.":
    request_sent(j, i, t) -> i != j & heard(i, j) < t & t <= clock(j);
invariant sent_replies_are_newer "A REPLY on its way is newer than what was heard, and not ahead of its sender's clock.":
    reply_sent(j, i, t, v) -> i != j & heard(i, j) < t & t <= clock(j);
invariant sent_releases_are_newer "A RELEASE on its way is newer than what was heard, and not ahead of its sender's clock.":
    release_sent(j, i, t) -> i != j & heard(i, j) < t & t <= clock(j);
invariant heard_is_said "Nobody has heard of a clock that its owner's is behind.": heard(i, j) <= clock(j);
invariant no_tie_request_reply "Two messages of a site have different clocks: REQUEST and REPLY.":
    !(request_sent(j, i, t) & reply_sent(j, k, t, v));
invariant no_tie_request_release "Two messages of a site have different clocks: REQUEST and RELEASE.":
    !(request_sent(j, i, t) & release_sent(j, k, t));
invariant no_tie_reply_release "Two messages of a site have different clocks: REPLY and RELEASE.":
    !(reply_sent(j, i, t, v) & release_sent(j, k, t));
invariant no_tie_replies "Two replies of a site have different clocks.":
    reply_sent(j, i, t, v) & reply_sent(j, k, t, u) -> i = k & v = u;
invariant known_or_on_its_way "Everybody has the request of a site that waits or executes in its queue, or on its way.":
    busy(j) -> queued(i, j, request(j)) | i != j & request_sent(j, i, request(j));
invariant one_request_each "A queue has one request of a site at most (I1).": queued(i, j, t) & queued(i, j, u) -> t = u;
invariant own_is_queued "A site's own request is in its queue exactly while it waits or executes (I2).":
    queued(i, i, t) -> busy(i) & t = request(i);
invariant queued_was_made "What is in a queue was asked, and was heard.":
    queued(i, j, t) -> t <= last_request(j) & (i != j -> t <= heard(i, j));
invariant sent_request_was_made "A REQUEST on its way is not later than its sender's last.":
    request_sent(j, i, t) -> t <= last_request(j) & zero < t;
invariant release_before_request "A RELEASE on its way is of an earlier request than the present one.":
    busy(j) & release_sent(j, i, t) -> t < request(j);
invariant waits_after_zero "A waiting site's request is later than that of a holder from the start.":
    waiting(i) -> zero < request(i);
invariant released_in_between "Between two requests that a site has yet to forget comes a RELEASE.":
    asked_at(i, j, t) & request_sent(j, i, u) & t < u -> exists v. t < v & v < u & release_sent(j, i, v);
invariant past_is_released "A request that its sender has left is followed by a RELEASE.":
    is_past(i, j, t) & i != j -> exists v. t < v & release_sent(j, i, v);
invariant release_of_something "Before each RELEASE comes its request, and no other RELEASE in between.":
    release_sent(j, i, v) -> exists u. u < v & asked_at(i, j, u) & forall w. release_sent(j, i, w) -> w < u | v <= w;
invariant past_is_known "Whoever has left a request had a proof from everyone: no clock is behind it.":
    is_past(i, j, t) -> t <= clock(i);
invariant past_precedes "A request that its sender has left precedes those of all who have not heard of it.":
    is_past(i, j, t) & i != j & busy(i) -> precedes(t, j, request(i), i);
invariant reply_is_expected "A REPLY on its way answers a request that was made and not answered before.":
    reply_sent(j, i, t, v) -> answered(i, j) < v & v <= last_request(i);
invariant replies_in_order "Replies answer requests in their order.":
    reply_sent(j, i, t, v) & reply_sent(j, i, u, w) & t < u -> v < w;
invariant unanswered_reply "A REQUEST on its way is later than all that were answered: on its way.":
    request_sent(i, j, v) & reply_sent(j, i, t, w) -> w < v;
invariant unanswered "A REQUEST on its way is later than all that were answered.": request_sent(i, j, v) -> answered(i, j) < v;
invariant answered_was_asked "Nobody has answered a request that was not made.": answered(i, j) <= last_request(i);
invariant reply_is_later "A REPLY has a larger clock than the request that it answers.": reply_sent(j, i, t, v) -> v < t;
invariant missed_proof_will_come "Whoever misses a proof has asked for it, or a reply is on its way.":
    missing(i, j) -> request_sent(i, j, request(i)) | exists t. reply_sent(j, i, t, request(i));
invariant waits_for_something "A waiting site misses a proof or does not head its queue (I4).":
    waiting(i) -> (exists j. missing(i, j)) | exists j, t. queued(i, j, t) & precedes(t, j, request(i), i);
invariant proof_was_heard "A proof that is not missed was heard: something with a larger timestamp.":
    busy(i) & i != j & !missing(i, j) -> precedes(request(i), i, heard(i, j), j) | request(i) = zero & executing(i);
invariant executing_is_first "An executing site heads its queue (I3).":
    executing(i) & queued(i, j, t) & i != j -> precedes(request(i), i, t, j);

safety exclusion "Two sites are never inside at once.": executing(i) & executing(j) -> i = j;
safety in_order "Whoever is inside has an earlier request than everyone who waits (I6).":
    executing(i) & waiting(j) -> precedes(request(i), i, request(j), j);

theorem no_refusal_of_requests "A REQUEST that is next in its channel is accepted.":
    request_sent(j, i, t) & oldest(j, i, t) -> heard(i, j) < t & !queued(i, j, u);
theorem no_refusal_of_replies "A REPLY is accepted.":
    reply_sent(j, i, t, v) -> heard(i, j) < t & answered(i, j) < v & v <= last_request(i);
theorem no_refusal_of_releases "A RELEASE that is next in its channel is accepted, and is not before its turn.":
    release_sent(j, i, t) & oldest(j, i, t) ->
        heard(i, j) < t & (exists u. queued(i, j, u)) & (forall u. queued(i, j, u) & busy(i) -> !precedes(request(i), i, u, j));
theorem earliest_is_served
    "If nobody is inside and somebody is the earliest of those who wait, a message is on its way: no deadlock.":
    (forall k. !executing(k)) & waiting(i) & (forall k. waiting(k) & k != i -> precedes(request(i), i, request(k), k))
        -> exists j, k, t, v. request_sent(j, k, t) | reply_sent(j, k, t, v) | release_sent(j, k, t);
"#;
