//! Singhal's dynamic information structure for every number of sites, beside `crates/protocol/src/algorithms/singhal_dynamic`.
//!
//! Of the staircase at the start the model knows only that of any two sites one asks the other: nothing more is needed.

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers the algorithm as it ships, over channels that keep no order, with or without a site inside at the start, and \
    any request sets at the start in which of every two sites one asks the other. Without crashes and without duplicates. \
    That the request sets are a staircase when all is quiet (I7) is left to the explorer.";

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "a waiting site that permits does not ask in turn",
        erratum: None,
        replaced: &[(" | k = i & l = j & u = request(i) & !asks(i, j);", ";")],
        fails_at: ("permit_waiting", "missed_will_come"),
    },
    WrongModel {
        about: "two sites may start without either asking the other",
        erratum: None,
        replaced: &[(
            "!asks(i, i) & (i != j -> asks(i, j) | asks(j, i));\ninit clocks",
            "!asks(i, i);\ninit clocks",
        )],
        fails_at: ("(start)", "one_asks_the_other"),
    },
    WrongModel {
        about: "a site that permits while it is idle does not ask from now on",
        erratum: None,
        replaced: &[(
            "asks(i, j) := true;\n    reply_sent(i, j, t) := true;\n}\n\nreceive permit_waiting",
            "reply_sent(i, j, t) := true;\n}\n\nreceive permit_waiting",
        )],
        fails_at: ("permit_idle", "reply_on_its_way"),
    },
];

/// The deliberate bugs of the code, and where each breaks the tie.
pub const MUTANTS: &[(Mutant, &str)] = &[(
    Mutant::SinghalDynamicNotAskedBack,
    "step `− last(site0, site2) = time0, − request_sent(site2, site0, time1), + last(site0, site2) = time1, + asks(site0, site2), + reply_sent(site0, site2, time1)`",
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

// What a site knows of the others: the last request of each, the request set and the inform set.
fixed zero: time;
function clock(site): time;
function last(site, site): time;
relation asks(site, site), owes(site, site);

// REQUEST and REPLY from the first site to the second, with the clock of the request.
relation request_sent(site, site, time), reply_sent(site, site, time);

define precedes(t, i, u, j) = t < u | t = u & i < j;
define busy(i) = waiting(i) | executing(i);

axiom zero_is_first "No clock shows less than zero.": zero <= t;

init nobody_waits "Nobody waits at the start.": !waiting(i);
init one_holder "At most one site is inside at the start.": executing(i) & executing(j) -> i = j;
init holder_asks_nobody "Who is inside asks nobody.": executing(i) -> !asks(i, j);
init one_asks_the_other "Of any two sites one asks the other, and nobody itself.": !asks(i, i) & (i != j -> asks(i, j) | asks(j, i));
init clocks_are_zero "Every clock shows zero.": clock(i) = zero & request(i) = zero & last(i, j) = zero;
init nothing_is_owed "Nobody owes a reply.": !owes(i, j);
init nothing_is_sent "Nothing is on its way.": !request_sent(i, j, t) & !reply_sent(i, j, t);

action ask(i, t) "Algorithm 9.3, step 1: ask the request set." {
    when !busy(i) & clock(i) < t;
    waiting(i) := true;
    clock(i) := t;
    request(i) := t;
    request_sent(i, j, u) := request_sent(i, j, u) | asks(i, j) & u = t;
}

then enter(i) "Algorithm 9.3, step 1: the request set is empty." {
    when waiting(i) & forall j. !asks(i, j);
    waiting(i) := false;
    executing(i) := true;
}

receive permit_idle(i, j, t) "Algorithm 9.3, REQUEST: an idle site replies, and must ask from now on." {
    when request_sent(j, i, t) & last(i, j) < t & !owes(i, j) & !busy(i);
    request_sent(j, i, t) := false;
    last(i, j) := t;
    clock(i) := if clock(i) < t then t else clock(i);
    asks(i, j) := true;
    reply_sent(i, j, t) := true;
}

receive permit_waiting(i, j, t) "Algorithm 9.3, REQUEST: a site that waits replies to an earlier request, and asks its sender." {
    when request_sent(j, i, t) & last(i, j) < t & !owes(i, j) & waiting(i) & precedes(t, j, request(i), i);
    request_sent(k, l, u) := request_sent(k, l, u) & !(k = j & l = i & u = t) | k = i & l = j & u = request(i) & !asks(i, j);
    last(i, j) := t;
    clock(i) := if clock(i) < t then t else clock(i);
    asks(i, j) := true;
    reply_sent(i, j, t) := true;
}

receive owe(i, j, t) "Algorithm 9.3, REQUEST: whoever is inside or precedes replies when it leaves." {
    when request_sent(j, i, t) & last(i, j) < t & !owes(i, j);
    when executing(i) | waiting(i) & !precedes(t, j, request(i), i);
    request_sent(j, i, t) := false;
    last(i, j) := t;
    clock(i) := if clock(i) < t then t else clock(i);
    owes(i, j) := true;
}

receive count(i, j, t, u) "Algorithm 9.3, REPLY: its sender leaves the request set." {
    when reply_sent(j, i, t) & waiting(i) & request(i) = t & asks(i, j) & clock(i) <= u;
    reply_sent(j, i, t) := false;
    asks(i, j) := false;
    clock(i) := u;
}

action leave(i) "Algorithm 9.3, step 3: the inform set gets its permissions and becomes the request set." {
    when executing(i);
    executing(i) := false;
    request(i) := zero;
    reply_sent(i, j, t) := reply_sent(i, j, t) | owes(i, j) & t = last(i, j);
    asks(i, j) := owes(i, j);
    owes(i, j) := false;
}

invariant one_phase "A process does not wait and execute at once.": !(waiting(i) & executing(i));
invariant clock_covers_own "The clock is not behind the site's own request (I4).": request(i) <= clock(i);
invariant last_is_old "Nobody knows of a request that was not made, and clocks cover all that are known.":
    last(j, i) <= clock(i) & last(j, i) <= clock(j) & (busy(i) -> last(j, i) <= request(i));
invariant not_itself "No site is in its own request set or inform set (I1).": !asks(i, i) & !owes(i, i);
invariant executing_asks_nobody "A site that is inside asks nobody (I2).": executing(i) -> !asks(i, j);
invariant one_asks_the_other "Of every two sites one has the other in its request set (I5).": i != j -> asks(i, j) | asks(j, i);
invariant request_on_its_way "A REQUEST on its way is the present one, it is news, and nothing answers it yet.":
    request_sent(i, j, t) -> waiting(i) & asks(i, j) & t = request(i) & last(j, i) < t & !owes(j, i) & !reply_sent(j, i, u);
invariant owed_by_whom_precedes "A reply is owed by a site that is inside or precedes (I3).":
    owes(j, i) -> waiting(i) & asks(i, j) & last(j, i) = request(i) & !reply_sent(j, i, u)
        & (executing(j) | waiting(j) & precedes(request(j), j, request(i), i));
invariant reply_on_its_way "A REPLY on its way answers the present request, and its sender asks in turn.":
    reply_sent(j, i, t) -> waiting(i) & asks(i, j) & t = request(i) & asks(j, i) & !reply_sent(i, j, u) & last(j, i) = t & t <= clock(j);
invariant permitted_precedes "A request to which a REPLY is on its way precedes that of whoever sent it.":
    reply_sent(j, i, t) & busy(j) -> waiting(j) & precedes(t, i, request(j), j);
invariant replied_precedes "A request that was answered, and waits for others, precedes that of whoever answered.":
    waiting(i) & i != j & !asks(i, j) & last(j, i) = request(i) & busy(j) -> precedes(request(i), i, request(j), j);
invariant missed_will_come "An answer that a waiting site misses is asked for, owed or on its way (I6).":
    waiting(i) & asks(i, j) -> request_sent(i, j, request(i)) | reply_sent(j, i, request(i)) | owes(j, i);

safety exclusion "Two sites are never inside at once.": executing(i) & executing(j) -> i = j;

theorem no_refusal_of_requests "A REQUEST is accepted.": request_sent(j, i, t) -> last(i, j) < t & !owes(i, j);
theorem no_refusal_of_replies "A REPLY is accepted.": reply_sent(j, i, t) -> waiting(i) & request(i) = t & asks(i, j);
theorem earliest_is_served
    "If nobody is inside, the earliest of those who wait can enter, or a message that it waits for is on its way: no deadlock.":
    (forall k. !executing(k)) & waiting(i) & (forall k. waiting(k) & k != i -> precedes(request(i), i, request(k), k))
        -> (forall j. !asks(i, j)) | exists j. request_sent(i, j, request(i)) | reply_sent(j, i, request(i));
"#;
