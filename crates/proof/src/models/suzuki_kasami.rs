//! Suzuki and Kasami's algorithm for every number of sites, beside
//! `crates/protocol/src/algorithms/suzuki_kasami/mod.rs`.
//!
//! Channels keep no order, and the token starts at any one site, which may be inside. What the token carries is kept once,
//! wherever the token is. Its queue is a set here: which of those who wait gets the token next is left open, so that the order
//! of service is no part of what is proved.

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers the algorithm as it ships, over channels that keep no order. The order of service is left open, \
    hence `append`. Without crashes.";

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "the token stays where it was, too, when it is handed over",
        erratum: None,
        replaced: &[(
            "    parked(i) := false;\n    token_sent(i, j) := true;",
            "    token_sent(i, j) := true;",
        )],
        fails_at: ("hand_over", "here_or_there"),
    },
    WrongModel {
        about: "step (b) compares with the number served of the holder, not of the requester",
        erratum: Some("suzuki-kasami-step-b"),
        replaced: &[
            ("!(parked(i) & succ(served(j), n));", "!(parked(i) & succ(served(i), n));"),
            ("parked(i) & succ(served(j), n);", "parked(i) & succ(served(i), n);"),
        ],
        fails_at: ("note", "parked_knows_nobody"),
    },
    WrongModel {
        about: "a site that leaves does not note that it was served",
        erratum: None,
        replaced: &[("    served(i) := requested(i, i);\n    queued(j)", "    queued(j)")],
        fails_at: ("leave_and_pass", "idle_is_served"),
    },
];

/// The deliberate bugs of the code, and where each breaks the tie.
pub const MUTANTS: &[(Mutant, &str)] = &[(
    Mutant::SuzukiKasamiTokenKept,
    "step `− requested(site0, site1) = number0, − known(site0) = number0, − handovers = number0, − request_sent(site1, site0, number1), + requested(site0, site1) = number1, + known(site0) = number1, + handovers = number1, + token_sent(site0, site1)`",
)];

/// The model.
pub const TEXT: &str = r#"
sort site, number;
ordered number;
var i, j, k, x, y: site;
var n, m, l: number;

fixed zero: number;
fixed relation succ(number, number);

// The local process and the token: waiting without it, idle with it, inside with it. Without any of these a site is away.
relation waiting(site), parked(site), inside(site);
// `RN`: the largest number of a request of each site that a site knows.
function requested(site, site): number;
// How often the token had been handed over when the site last knew.
function known(site): number;

// The token: `LN`, the last request of each site that was served; `Q`, who gets it next; how often it was handed over.
function served(site): number;
relation queued(site);
function handovers: number;

// REQUEST with its number, and TOKEN, from the first site to the second.
relation request_sent(site, site, number), token_sent(site, site);

define away(i) = !waiting(i) & !parked(i) & !inside(i);
define has_token(i) = parked(i) | inside(i);
// Site `i` knows of a request of `j` that the token has not served: step (e).
define sees_waiting(i, j) = succ(served(j), requested(i, j));

axiom zero_is_first "No number is before zero.": zero <= n;
axiom succ_rises "A number is before the one that follows it.": succ(n, m) -> n < m;
axiom succ_is_next "Nothing is between a number and the one that follows it.": succ(n, m) & n < l -> m <= l;

init one_token "The token is at one site.": (has_token(i) & has_token(j) -> i = j) & exists k. has_token(k);
init one_phase_at_start "It is parked there, or that site is inside; nobody waits.": !(parked(i) & inside(i)) & !waiting(i);
init numbers_are_zero "Nobody has made a request.": requested(i, j) = zero & served(i) = zero & known(i) = zero;
init fresh_token "The token was never handed over, and nobody is in its queue.": handovers = zero & !queued(i);
init nothing_is_sent "Nothing is on its way.": !request_sent(i, j, n) & !token_sent(i, j);

action enter_parked(i) "Algorithm 9.7, step (a): a site with the token enters." {
    when parked(i);
    parked(i) := false;
    inside(i) := true;
}

action ask(i, n) "Algorithm 9.7, requesting, step (a)." {
    when away(i) & succ(requested(i, i), n);
    requested(i, i) := n;
    waiting(i) := true;
    request_sent(i, j, m) := request_sent(i, j, m) | j != i & m = n;
}

action overtaken(i, j, n) "Step (b): a REQUEST that was overtaken by a later one is outdated." {
    when request_sent(j, i, n) & n < requested(i, j);
    request_sent(j, i, n) := false;
}

action note(i, j, n) "Step (b): the number is remembered; the token is elsewhere, in use, or has served it." {
    when request_sent(j, i, n) & requested(i, j) < n & !(parked(i) & succ(served(j), n));
    request_sent(j, i, n) := false;
    requested(i, j) := n;
}

action hand_over(i, j, n, m) "Step (b): a parked token goes to whoever asks and was not served." {
    when request_sent(j, i, n) & requested(i, j) < n & parked(i) & succ(served(j), n);
    when succ(handovers, m);
    request_sent(j, i, n) := false;
    requested(i, j) := n;
    parked(i) := false;
    token_sent(i, j) := true;
    handovers := m;
    known(i) := m;
}

action enter(i, j) "Step (c): a site that gets the token enters." {
    when token_sent(j, i) & known(i) < handovers & waiting(i) & !queued(i) & succ(served(i), requested(i, i));
    token_sent(j, i) := false;
    waiting(i) := false;
    inside(i) := true;
    known(i) := handovers;
}

action leave_and_park(i) "Steps (d) and (f): a site leaves, and knows of nobody who waits." {
    when inside(i) & forall j. !queued(j) & (j != i -> !sees_waiting(i, j));
    inside(i) := false;
    parked(i) := true;
    served(i) := requested(i, i);
}

action leave_and_pass(i, k, m) "Steps (d), (e) and (f): those who wait join the queue, and one of it gets the token." {
    when inside(i) & k != i & (queued(k) | sees_waiting(i, k)) & succ(handovers, m);
    inside(i) := false;
    served(i) := requested(i, i);
    queued(j) := j != k & (queued(j) | j != i & sees_waiting(i, j));
    token_sent(i, k) := true;
    handovers := m;
    known(i) := m;
}

invariant one_phase "A process is in one state at a time.":
    !(waiting(i) & parked(i)) & !(waiting(i) & inside(i)) & !(parked(i) & inside(i));
invariant one_holder "At most one site has the token.": has_token(i) & has_token(j) -> i = j;
invariant one_on_its_way "At most one token is on its way.": token_sent(i, j) & token_sent(x, y) -> i = x & j = y;
invariant here_or_there "The token is not at a site while it is on its way.": !(has_token(i) & token_sent(j, k));
invariant token_is_somewhere "The token is at a site or on its way.": (exists i. has_token(i)) | exists i, j. token_sent(i, j);
invariant handovers_known "Nobody knows of a hand-over that did not happen.": known(i) <= handovers;
invariant news_on_its_way "A token on its way is news to its receiver.":
    token_sent(j, i) -> known(i) < handovers & waiting(i) & !queued(i) & i != j;
invariant known_is_made "Nobody knows of a request that was not made (I3).": requested(i, j) <= requested(j, j);
invariant sent_is_made "A REQUEST on its way was made, to another site, and is not known there.":
    request_sent(j, i, n) -> i != j & n <= requested(j, j) & requested(i, j) != n;
invariant waits_for_next "A waiting site has one request more than the token has served (I4).":
    waiting(i) -> succ(served(i), requested(i, i));
invariant idle_is_served "A site that is idle was served (I4).": !waiting(i) & !inside(i) -> served(i) = requested(i, i);
invariant inside_is_next "A site inside was served, or is being served (I4).":
    inside(i) -> served(i) = requested(i, i) | succ(served(i), requested(i, i));
invariant queued_waits "Whoever is in the token's queue waits (I1).": queued(i) -> waiting(i);
invariant parked_knows_nobody "A parked token has an empty queue, and its site knows of nobody who waits (I2).":
    parked(i) -> !queued(j) & !sees_waiting(i, j);
invariant everybody_hears "Everybody knows of a site's last request while it waits, or will hear of it.":
    waiting(i) & i != j -> requested(j, i) = requested(i, i) | request_sent(i, j, requested(i, i));

safety exclusion "Two sites are never inside at once.": inside(i) & inside(j) -> i = j;

theorem no_refusal_of_requests "Every REQUEST is one that its receiver accepts.":
    request_sent(j, i, n) -> n != requested(i, j) & (parked(i) & requested(i, j) < n -> n <= served(j) | succ(served(j), n));
theorem parked_token_is_asked_for "A parked token will hear of everyone who waits: no deadlock.":
    parked(i) & waiting(j) -> request_sent(j, i, requested(j, j));
"#;
