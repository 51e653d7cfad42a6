//! Lodha and Kshemkalyani's algorithm as repaired, for every number of sites, beside
//! `crates/protocol/src/algorithms/lodha_kshemkalyani/mod.rs`.
//!
//! Covers the default, without the three improvements. Every message carries the number of a request: FLUSH and REPLY that of the last one
//! that their sender executed, so that they were sent after it and before the sender's next REQUEST. That is all that the model asks of
//! FIFO: what follows a REQUEST does not overtake it, and a REQUEST overtakes nothing. A message that the code would refuse is not an
//! action here: three theorems say that there is none.

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers the default as repaired, without `combined-exit`, `keep-deferred` and `sequence-on-all`, over FIFO \
    channels, with or without a site inside at the start. Without crashes and without duplicates.";

const OWN_NUMBER: (&str, &str) = ("    clock(i) := t;\n    request(i) := t;", "    request(i) := t;");
const FINISHED: (&str, &str) = ("k = j & u = t & !over(i, j, t);", "k = j & u = t;");
const FLUSH: (&str, &str) =
    ("    flush_sent(j, i, v) := false;", "    flush_sent(j, i, v) := false;\n    answered(i, j) := true;");
const EXECUTED: [(&str, &str); 2] = [
    ("    over(i, k, u) := over(i, k, u) | zero < u & up_to(u, k, last(i, j), j);\n", ""),
    ("queued(i, k, u) & !up_to(u, k, last(i, j), j)", "queued(i, k, u)"),
];
const PRINTED: &[(&str, &str)] = &[OWN_NUMBER, FINISHED, FLUSH, EXECUTED[0], EXECUTED[1]];

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "without part 1 of the repair: a site's own request does not raise its clock",
        erratum: Some("lodha-own-number"),
        replaced: &[OWN_NUMBER],
        fails_at: ("ask", "clock_covers_own"),
    },
    WrongModel {
        about: "without part 2: a REQUEST is queued whatever is known to be finished",
        erratum: Some("lodha-late-request"),
        replaced: &[FINISHED],
        fails_at: ("cross", "finished_will_be_known"),
    },
    WrongModel {
        about: "without part 3: a FLUSH is its sender's answer",
        erratum: Some("lodha-late-flush"),
        replaced: &[FLUSH],
        fails_at: ("flush", "earlier_is_queued"),
    },
    WrongModel {
        about: "without part 4: a REQUEST does not tell what its sender has executed",
        erratum: Some("lodha-request-tells-nothing"),
        replaced: &EXECUTED,
        fails_at: ("cross", "finished_will_be_known"),
    },
    WrongModel {
        about: "without any part, where a FLUSH that comes late counts",
        erratum: Some("lodha-not-safe"),
        replaced: PRINTED,
        fails_at: ("flush", "known_or_queued"),
    },
    WrongModel {
        about: "without any part, where a REQUEST comes late",
        erratum: Some("lodha-not-live"),
        replaced: PRINTED,
        fails_at: ("cross", "finished_will_be_known"),
    },
    WrongModel {
        about: "a REQUEST overtakes what was sent before it",
        erratum: None,
        replaced: &[(" & no_older_than(j, i, t)", "")],
        fails_at: ("cross", "executed_on_its_way"),
    },
    WrongModel {
        about: "a FLUSH overtakes the REQUEST before it",
        erratum: None,
        replaced: &[("flush_sent(j, i, v) & no_request_up_to(j, i, v)", "flush_sent(j, i, v)")],
        fails_at: ("(theorem)", "no_refusal_of_flushes"),
    },
    WrongModel {
        about: "a site enters without heading its queue",
        erratum: None,
        replaced: &[("    when forall k, u. queued(i, k, u) -> !precedes(u, k, request(i), i);\n", "")],
        fails_at: ("enter", "exclusion"),
    },
    WrongModel {
        about: "who leaves sends no FLUSH",
        erratum: None,
        replaced: &[("flush_sent(i, k, v) | v = request(i) & is_next(i, k);", "flush_sent(i, k, v);")],
        fails_at: ("leave", "finished_will_be_known"),
    },
];

/// The deliberate bugs of the code, and where each breaks the tie.
pub const MUTANTS: &[(Mutant, &str)] = &[(
    Mutant::LodhaQueueByArrival,
    "step `− waiting(site1), − last(site1, site0) = time0, − request_sent(site0, site1, time1), + executing(site1), + last(site1, site0) = time1, + answered(site1, site0), + queued(site1, site0, time1)`",
)];

/// The model.
pub const TEXT: &str = r#"
sort site, time;
ordered site, time;
var i, j, k, l, n, x: site;
var t, u, v, w: time;

fixed zero: time;

// The local process.
relation waiting(site), executing(site);
// The clock of the request on which a site waits or executes, and of its last one that was satisfied; zero if there is none.
function request(site): time;
function executed(site): time;

// What a site knows of the others: `Highest_Sequence_Number_Seen`, the clock of the last request of each, which requests are
// finished (all up to one), `RV`, `LRQ`, and whom it owes a reply.
function clock(site): time;
function last(site, site): time;
relation over(site, site, time);
relation answered(site, site);
relation queued(site, site, time);
relation deferred(site, site);

// From the first site to the second: REQUEST with its clock, REPLY with the request that it answers and what the sender executed last,
// FLUSH with what the sender executed last.
relation request_sent(site, site, time), reply_sent(site, site, time, time), flush_sent(site, site, time);

// Timestamps are compared by clock, then by site.
define precedes(t, i, u, j) = t < u | t = u & i < j;
define busy(i) = waiting(i) | executing(i);
define max(t, u) = if t < u then u else t;
// FIFO: what was sent when `v` was the last request of `j` came after that request, and before the next one.
define no_request_up_to(j, i, v) = forall u. request_sent(j, i, u) -> v < u;
define no_older_than(j, i, t) = (forall u. request_sent(j, i, u) -> t <= u) & (forall u, v. reply_sent(j, i, u, v) -> t <= v)
    & (forall v. flush_sent(j, i, v) -> t <= v);
// The request `u` of `k` is not later than the request `v` of `j`, which was made.
define up_to(u, k, v, j) = zero < v & !precedes(v, j, u, k);
// The next of the queue of `i`: the first but its own.
define is_next(i, k) = exists u. k != i & queued(i, k, u) & forall l, w. l != i & queued(i, l, w) -> !precedes(w, l, u, k);

axiom zero_is_first "No clock shows less than zero.": zero <= t;

init nobody_waits "Nobody waits at the start.": !waiting(i);
init one_holder "At most one site is inside at the start, with the answers of all.":
    (executing(i) & executing(j) -> i = j) & (answered(i, j) <-> executing(i) & i != j);
init holder_is_queued "It has its own request in its queue; all other queues are empty.": queued(i, j, t) <-> executing(i) & i = j & t = zero;
init clocks_are_zero "Every clock shows zero.": clock(i) = zero & request(i) = zero & executed(i) = zero & last(i, j) = zero;
init nothing_is_known "Nothing is finished or owed.": !over(i, j, t) & !deferred(i, j);
init nothing_is_sent "Nothing is on its way.": !request_sent(i, j, t) & !reply_sent(i, j, t, u) & !flush_sent(i, j, t);

action ask(i, t) "Figure 2, InvMutEx." {
    when !busy(i) & clock(i) < t;
    clock(i) := t;
    request(i) := t;
    waiting(i) := true;
    queued(i, j, u) := j = i & u = t;
    answered(i, j) := false;
    request_sent(i, j, u) := request_sent(i, j, u) | j != i & u = t;
}

action reply(i, j, t) "RcvReq: a site that wants nothing replies." {
    when request_sent(j, i, t) & no_older_than(j, i, t) & last(i, j) < t & !deferred(i, j) & !busy(i);
    request_sent(j, i, t) := false;
    over(i, k, u) := over(i, k, u) | zero < u & up_to(u, k, last(i, j), j);
    last(i, j) := t;
    clock(i) := max(clock(i), t);
    reply_sent(i, j, u, v) := reply_sent(i, j, u, v) | u = t & v = executed(i);
}

action cross(i, j, t) "RcvReq: a REQUEST is its sender's answer, and is queued unless it is known to be finished." {
    when request_sent(j, i, t) & no_older_than(j, i, t) & last(i, j) < t & !deferred(i, j) & busy(i) & !answered(i, j);
    when zero < last(i, j) -> precedes(last(i, j), j, request(i), i);
    request_sent(j, i, t) := false;
    over(i, k, u) := over(i, k, u) | zero < u & up_to(u, k, last(i, j), j);
    queued(i, k, u) := queued(i, k, u) & !up_to(u, k, last(i, j), j) | k = j & u = t & !over(i, j, t);
    last(i, j) := t;
    clock(i) := max(clock(i), t);
    answered(i, j) := true;
}

action defer(i, j, t) "RcvReq: a REQUEST of a site that has answered is deferred." {
    when request_sent(j, i, t) & no_older_than(j, i, t) & last(i, j) < t & !deferred(i, j) & busy(i) & answered(i, j);
    when zero < last(i, j) -> precedes(last(i, j), j, request(i), i);
    request_sent(j, i, t) := false;
    over(i, k, u) := over(i, k, u) | zero < u & up_to(u, k, last(i, j), j);
    queued(i, k, u) := queued(i, k, u) & !up_to(u, k, last(i, j), j);
    last(i, j) := t;
    clock(i) := max(clock(i), t);
    deferred(i, j) := true;
}

action count_reply(i, j, t, v) "RcvReply: its sender has answered, and all up to the request that it executed last are finished." {
    when reply_sent(j, i, t, v) & no_request_up_to(j, i, v) & waiting(i) & request(i) = t & !answered(i, j);
    when v = last(i, j) & (zero < v -> precedes(v, j, request(i), i));
    reply_sent(j, i, t, v) := false;
    over(i, k, u) := over(i, k, u) | zero < u & up_to(u, k, v, j);
    queued(i, k, u) := queued(i, k, u) & !up_to(u, k, v, j);
    answered(i, j) := true;
}

action flush(i, j, v) "RcvFlush: all up to the request that its sender executed last are finished." {
    when flush_sent(j, i, v) & no_request_up_to(j, i, v) & zero < v & v = last(i, j) & (busy(i) -> precedes(v, j, request(i), i));
    flush_sent(j, i, v) := false;
    over(i, k, u) := over(i, k, u) | zero < u & up_to(u, k, v, j);
    queued(i, k, u) := queued(i, k, u) & !up_to(u, k, v, j);
}

then enter(i) "CheckExecuteCS: all have answered, and the site's own request heads its queue." {
    when waiting(i) & queued(i, i, request(i)) & (forall j. j != i -> answered(i, j));
    when forall k, u. queued(i, k, u) -> !precedes(u, k, request(i), i);
    waiting(i) := false;
    executing(i) := true;
}

action leave(i) "FinCS: a FLUSH to the next of the queue, a REPLY to whoever was deferred." {
    when executing(i);
    executing(i) := false;
    executed(i) := request(i);
    request(i) := zero;
    over(i, k, u) := over(i, k, u) | zero < u & up_to(u, k, request(i), i);
    flush_sent(i, k, v) := flush_sent(i, k, v) | v = request(i) & is_next(i, k);
    reply_sent(i, k, t, v) := reply_sent(i, k, t, v) | deferred(i, k) & t = last(i, k) & v = request(i);
    queued(i, k, u) := false;
    answered(i, k) := false;
    deferred(i, k) := false;
}

// Site `j` has received the request on which `i` waits or executes.
define has_seen(j, i) = last(j, i) = request(i);

// Site `i` will be told that the request `u` of `k` is finished.
define told(i, k, u) =
    exists x, v. up_to(u, k, v, x) & (flush_sent(x, i, v) | reply_sent(x, i, request(i), v));
// Someone who wants to enter precedes `i`.
define preceded(i) = exists n. busy(n) & precedes(request(n), n, request(i), i);
define can_enter(i) = queued(i, i, request(i)) & (forall j. j != i -> answered(i, j))
    & forall k, u. queued(i, k, u) -> !precedes(u, k, request(i), i);

invariant one_phase "A process does not wait and execute at once.": !(waiting(i) & executing(i));
invariant idle_wants_nothing "A site that wants nothing has no request, no queue, no answers, and owes nothing (I1, I8).":
    !busy(i) -> request(i) = zero & !queued(i, j, t) & !answered(i, j) & !deferred(i, j);
invariant clock_covers_own "The clock is not behind the site's own request (I4).": request(i) <= clock(i) & executed(i) <= clock(i);
invariant clock_covers_known "The clock is not behind any request that the site has seen.": last(i, j) <= clock(i);
invariant waits_after_executed "A site waits or executes on a later request than it executed last.":
    busy(i) -> executed(i) < request(i) | executing(i) & request(i) = zero & executed(i) = zero;
invariant none_answers_itself "Nobody answers, defers or writes to itself (I2).":
    !answered(i, i) & !deferred(i, i) & !request_sent(i, i, t) & !reply_sent(i, i, t, v) & !flush_sent(i, i, v);
invariant last_was_made "The last request that a site has seen is the present one of its sender, or not later than it executed.":
    last(j, i) <= executed(i) | busy(i) & last(j, i) = request(i);
invariant queued_was_made "What is in a queue was asked: it was received, or is the site's own.":
    queued(i, j, t) -> i = j & t = request(i) | i != j & zero < t & t <= last(i, j) & (t <= executed(j) | busy(j) & t = request(j));
invariant own_is_queued "A site's own request is in its queue (I1).": busy(i) -> queued(i, i, request(i));
invariant executing_has_all "A site that is inside has all answers (I3).": executing(i) & i != j -> answered(i, j);
invariant executing_is_first "A site that is inside heads its queue (I3).":
    executing(i) & queued(i, j, t) & i != j -> precedes(request(i), i, t, j);
invariant holder_queues_nobody "A site that was inside at the start has nobody else in its queue: all are deferred.":
    executing(i) & request(i) = zero & queued(i, j, t) -> i = j;
invariant executed_is_known "Every clock covers what any site has executed.": executed(i) <= clock(j);
invariant executed_precedes "What was executed precedes all that wait or execute.":
    busy(j) & zero < executed(i) -> precedes(executed(i), i, request(j), j);
invariant over_is_finished "What any site takes for finished is finished (I5).":
    busy(j) & over(k, i, t) -> precedes(t, i, request(j), j);
invariant over_is_old "What is taken for finished is not ahead of any clock.": over(i, j, t) -> t <= clock(k);
invariant present_was_sent "Everybody else has seen a site's present request, or will see it.":
    busy(i) & zero < request(i) & i != j -> has_seen(j, i) | request_sent(i, j, request(i));
invariant executed_was_sent "Everybody else has seen what a site has executed, or will see it.":
    i != j -> executed(i) <= last(j, i) | request_sent(i, j, executed(i));
invariant request_on_its_way "A REQUEST on its way is the present one, or the one that its sender executed last, and is news.":
    request_sent(i, j, t) -> zero < t & last(j, i) < t & (busy(i) & t = request(i) | t = executed(i));
invariant executed_on_its_way "A REQUEST that comes after its sender has left finds a site that waits, whose request its sender knew.":
    request_sent(i, j, t) & t = executed(i) ->
        waiting(j) & !answered(j, i) & has_seen(i, j) & !queued(i, j, request(j)) & !reply_sent(i, j, u, v)
            & (busy(i) -> precedes(request(j), j, request(i), i));
invariant answered_on_its_way "Whoever has the answer of a site that its REQUEST has yet to reach has it by a REQUEST that crosses it.":
    request_sent(i, j, request(i)) & busy(i) & answered(i, j) -> waiting(j) & !answered(j, i) & has_seen(i, j);
invariant reply_on_its_way "A REPLY on its way answers the present request, which misses it.":
    reply_sent(j, i, t, v) -> waiting(i) & t = request(i) & !answered(i, j) & has_seen(j, i) & !deferred(j, i) & !queued(j, i, t)
        & (busy(j) -> request_sent(j, i, request(j)) & !answered(j, i) & precedes(request(i), i, request(j), j));
invariant one_reply "A site has one REPLY to another on its way.": reply_sent(j, i, t, v) & reply_sent(j, i, u, w) -> v = w;
invariant reply_is_of_last "A REPLY says what its sender has executed, which its receiver has seen or will see before.":
    reply_sent(j, i, t, v) -> v = executed(j) & (last(i, j) = v | last(i, j) < v & request_sent(j, i, v));
invariant flush_is_of_executed "A FLUSH says what its sender has executed, which its receiver has seen or will see before.":
    flush_sent(j, i, v) -> zero < v & v <= executed(j) & (last(i, j) = v | last(i, j) < v & request_sent(j, i, v));
invariant deferred_waits "Whoever is deferred waits for the answer.":
    deferred(j, i) -> busy(j) & answered(j, i) & waiting(i) & has_seen(j, i) & !answered(i, j) & !request_sent(j, i, t)
            & precedes(request(j), j, request(i), i);
invariant known_or_queued "Whoever has a site's answer has its earlier request in its queue, or is known to it.":
    busy(i) & answered(i, j) -> request(i) <= clock(j) | busy(j) & queued(i, j, request(j)) & precedes(request(j), j, request(i), i);
invariant earlier_is_queued "Of two sites that want to enter the later one has the earlier one in its queue, or misses its answer (I6).":
    busy(i) & busy(j) & i != j & answered(i, j) & precedes(request(j), j, request(i), i) -> queued(i, j, request(j));
invariant queued_has_seen "Whoever is queued and has the answer has it by a REQUEST that crosses it.":
    queued(i, j, request(j)) & busy(j) & i != j & answered(j, i) -> has_seen(j, i);

invariant queued_has_answered "Who is queued has answered (I2).": queued(i, j, t) & i != j -> answered(i, j);
invariant queued_is_open "What is known to be finished is not in the queue.": queued(i, j, t) -> !over(i, j, t);
invariant over_is_closed "All up to one request is known to be finished.":
    over(i, j, t) & zero < u & !precedes(t, j, u, k) -> over(i, k, u);
invariant own_is_open "A site's last request is over for it exactly when it is executed.": zero < executed(i) -> over(i, i, executed(i));
invariant crossed_both_ways "Of two requests that crossed each is in the other's queue, once both have come.":
    queued(i, j, request(j)) & busy(j) & i != j & answered(j, i) & waiting(i) -> queued(j, i, request(i));
invariant crossing_is_queued "A REQUEST that crosses one that is still on its way is queued.":
    request_sent(i, j, request(i)) & busy(i) & answered(i, j) -> queued(i, j, request(j));
invariant missed_answer_will_come "Whoever misses an answer has asked for it, is owed it, or it is on its way (I7).":
    waiting(i) & i != j & !answered(i, j) ->
        request_sent(i, j, request(i)) | deferred(j, i) | reply_sent(j, i, request(i), executed(j))
            | request_sent(j, i, executed(j)) | answered(j, i) & busy(j) & request_sent(j, i, request(j));
progress finished_will_be_known "Whoever has a finished request in its queue will be told, or someone who precedes it leaves before.":
    waiting(i) & queued(i, k, u) & i != k & u <= executed(k) ->
        told(i, k, u) | preceded(i) | exists j. j != i & !answered(i, j) & up_to(u, k, executed(j), j);
progress late_will_be_known "Whoever gets a REQUEST that is finished and does not know it will be told, or someone who precedes it leaves before.":
    request_sent(k, i, u) & u = executed(k) & !over(i, k, u) ->
        told(i, k, u) | preceded(i) | exists j. j != i & j != k & !answered(i, j) & up_to(u, k, executed(j), j);

safety exclusion "Two sites are never inside at once.": executing(i) & executing(j) -> i = j;
safety in_order "Whoever is inside has an earlier request than everyone who waits.":
    executing(i) & waiting(j) -> precedes(request(i), i, request(j), j);

theorem no_refusal_of_requests "A REQUEST that is next in its channel is accepted.":
    request_sent(j, i, t) & no_older_than(j, i, t) ->
        last(i, j) < t & !deferred(i, j) & (busy(i) & zero < last(i, j) -> precedes(last(i, j), j, request(i), i));
theorem no_refusal_of_replies "A REPLY that is next in its channel is accepted.":
    reply_sent(j, i, t, v) & no_request_up_to(j, i, v) ->
        waiting(i) & request(i) = t & !answered(i, j) & v = last(i, j) & (zero < v -> precedes(v, j, request(i), i));
theorem no_refusal_of_flushes "A FLUSH that is next in its channel is accepted.":
    flush_sent(j, i, v) & no_request_up_to(j, i, v) -> zero < v & v = last(i, j) & (busy(i) -> precedes(v, j, request(i), i));
theorem missed_answers_come
    "If nobody is inside, the earliest of those who wait has a message on its way for each answer that it misses.":
    (forall k. !executing(k)) & waiting(i) & (forall k. waiting(k) & k != i -> precedes(request(i), i, request(k), k))
        & i != j & !answered(i, j)
        -> request_sent(i, j, request(i)) | reply_sent(j, i, request(i), executed(j)) | request_sent(j, i, executed(j))
            | request_sent(j, i, request(j));
theorem earliest_is_told
    "If nobody is inside, and the earliest of those who wait misses no answer, it enters, or will be told who is finished: no deadlock.":
    (forall k. !executing(k)) & waiting(i) & (forall k. waiting(k) & k != i -> precedes(request(i), i, request(k), k))
        & (forall j. j != i -> answered(i, j)) & queued(i, k, u) & precedes(u, k, request(i), i) -> told(i, k, u);
"#;
