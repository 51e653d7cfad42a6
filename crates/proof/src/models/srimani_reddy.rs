//! Srimani and Reddy's algorithm for every number of sites and of tokens, beside `crates/protocol/src/algorithms/srimani_reddy`.
//!
//! Channels keep no order. The tokens are a sort; how many there are is nowhere said. Everyone who is inside has a token of its own there,
//! so K tokens let in K at most. The order of the queues is left open: any of those in a token's queue may be the first.

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers the algorithm as it ships, for any number of tokens, over channels that keep no order. The order of \
    service and the choice between idle tokens are left open, hence `append` and `token`. Without crashes.";

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "an idle holder sends a token and keeps it",
        erratum: None,
        replaced: &[("    idle(i, p) := false;\n    token_sent", "    token_sent")],
        fails_at: ("hand_over", "here_or_there"),
    },
    WrongModel {
        about: "an idle holder notes a request, and does not answer",
        erratum: None,
        replaced: &[("    when (forall p. !idle(i, p)) | exists p. idle(i, p) & n <= served(p, j);\n", "")],
        fails_at: ("note", "idle_knows_nobody"),
    },
    WrongModel {
        about: "a site that passes a token on leaves the receiver in its queue",
        erratum: None,
        replaced: &[(
            "queued(p, j) := j != k & (queued(p, j) | next_of(i, p, j));",
            "queued(p, j) := queued(p, j) | next_of(i, p, j);",
        )],
        fails_at: ("leave_and_pass", "queued_is_elsewhere"),
    },
];

/// The deliberate bugs of the code, and where each breaks the tie.
pub const MUTANTS: &[(Mutant, &str)] = &[
    (
        Mutant::SrimaniReddyTokenKept,
        "step `− requested(site0, site1) = number0, − known(site0, permit0) = number0, − moves(permit0) = number0, − request_sent(site1, site0, number1), + requested(site0, site1) = number1, + known(site0, permit0) = number1, + moves(permit0) = number1, + token_sent(site1, permit0)`",
    ),
    (Mutant::SrimaniReddyWrongSlot, "a step by itself: S1 enters with permit 0, and uses another one"),
];

/// The model.
pub const TEXT: &str = r#"
sort site, number, permit;
ordered number;
var i, j, k, x, y: site;
var n, m, l: number;
var p, q: permit;

fixed zero: number;
fixed relation succ(number, number);

// The local process; an idle one is neither.
relation waiting(site), inside(site);
// Tokens that are here and not in use, and the one that a site is inside with.
relation idle(site, permit), uses(site, permit);
// `RN`: the largest number of a request of each site that a site knows.
function requested(site, site): number;
// How often the token had moved when the site last had it.
function known(site, permit): number;

// A token: `LN`, the last request of each site that was served when it had the token; `Q`, who gets it next; its moves.
function served(permit, site): number;
relation queued(permit, site);
function moves(permit): number;

// REQUEST with its number from the first site to the second; a token on its way to a site.
relation request_sent(site, site, number), token_sent(site, permit);
sent token_sent(i, p) to i;

define free(i) = !waiting(i) & !inside(i);
define here(i, p) = idle(i, p) | uses(i, p);
// A site with this token believes that another one waits, or the token has it in its queue.
define next_of(i, p, j) = j != i & (queued(p, j) | served(p, j) < requested(i, j));

axiom zero_is_first "No number is before zero.": zero <= n;
axiom succ_rises "A number is before the one that follows it.": succ(n, m) -> n < m;

init one_place "A token is at one site, and used or idle there.":
    (here(i, p) & here(j, p) -> i = j) & !(idle(i, p) & uses(i, p)) & exists k. here(k, p);
init own_token_at_start "Whoever is inside uses a token, one only, and nobody waits.":
    (inside(i) <-> exists p. uses(i, p)) & (uses(i, p) & uses(i, q) -> p = q) & !waiting(i);
init numbers_are_zero "Nobody has made a request, and no token has moved.":
    requested(i, j) = zero & served(p, i) = zero & known(i, p) = zero & moves(p) = zero & !queued(p, i);
init nothing_is_sent "Nothing is on its way.": !request_sent(i, j, n) & !token_sent(j, p);

action enter_at_once(i, p, n) "With an idle token enter at once." {
    when free(i) & idle(i, p) & succ(requested(i, i), n);
    requested(i, i) := n;
    idle(i, p) := false;
    uses(i, p) := true;
    inside(i) := true;
}

action ask(i, n) "Otherwise ask everyone." {
    when free(i) & !(exists p. idle(i, p)) & succ(requested(i, i), n);
    requested(i, i) := n;
    waiting(i) := true;
    request_sent(i, j, m) := request_sent(i, j, m) | j != i & m = n;
}

action overtaken(i, j, n) "A request that a newer one has overtaken is served." {
    when request_sent(j, i, n) & n < requested(i, j);
    request_sent(j, i, n) := false;
}

action note(i, j, n) "A request comes, and no idle token is here, or one that knows that it is served." {
    when request_sent(j, i, n) & requested(i, j) < n;
    when (forall p. !idle(i, p)) | exists p. idle(i, p) & n <= served(p, j);
    request_sent(j, i, n) := false;
    requested(i, j) := n;
}

action hand_over(i, j, n, p, m) "An idle holder answers with one token." {
    when request_sent(j, i, n) & requested(i, j) < n & idle(i, p) & succ(moves(p), m);
    when forall q. idle(i, q) -> served(q, j) < n;
    request_sent(j, i, n) := false;
    requested(i, j) := n;
    idle(i, p) := false;
    token_sent(j, p) := true;
    moves(p) := m;
    known(i, p) := m;
}

action enter(i, p) "A token comes to a site that waits." {
    when token_sent(i, p) & waiting(i) & known(i, p) < moves(p) & !queued(p, i);
    token_sent(i, p) := false;
    waiting(i) := false;
    inside(i) := true;
    uses(i, p) := true;
    known(i, p) := moves(p);
}

action pass_on(i, p, k, m) "A token comes too late, and goes on to one that waits, as far as is known here." {
    when token_sent(i, p) & !waiting(i) & known(i, p) < moves(p) & !queued(p, i);
    when k != i & (queued(p, k) | served(p, k) < requested(i, k)) & succ(moves(p), m);
    served(p, i) := requested(i, i);
    queued(p, x) := x != k & (queued(p, x) | next_of(i, p, x));
    token_sent(y, q) := token_sent(y, q) & !(y = i & q = p) | y = k & q = p;
    moves(p) := m;
    known(i, p) := m;
}

action keep(i, p) "A token comes too late, and nobody waits as far as is known here." {
    when token_sent(i, p) & !waiting(i) & known(i, p) < moves(p) & !queued(p, i) & forall k. !next_of(i, p, k);
    token_sent(i, p) := false;
    served(p, i) := requested(i, i);
    idle(i, p) := true;
    known(i, p) := moves(p);
}

action leave_and_keep(i, p) "Suzuki and Kasami's release: nobody waits as far as is known here." {
    when uses(i, p) & forall k. !next_of(i, p, k);
    uses(i, p) := false;
    inside(i) := false;
    served(p, i) := requested(i, i);
    idle(i, p) := true;
}

action leave_and_pass(i, p, k, m) "Suzuki and Kasami's release: those who wait join the queue, and its first gets the token." {
    when uses(i, p) & next_of(i, p, k) & succ(moves(p), m);
    uses(i, p) := false;
    inside(i) := false;
    served(p, i) := requested(i, i);
    queued(p, j) := j != k & (queued(p, j) | next_of(i, p, j));
    token_sent(k, p) := true;
    moves(p) := m;
    known(i, p) := m;
}

invariant one_here "A token is at one site at most, and used or idle there.":
    (here(i, p) & here(j, p) -> i = j) & !(idle(i, p) & uses(i, p));
invariant one_on_its_way "A token is on its way at most once.": token_sent(i, p) & token_sent(j, p) -> i = j;
invariant here_or_there "A token is not at a site while it is on its way (I3).": !(here(i, p) & token_sent(k, p));
invariant uses_one "Whoever is inside uses a token, and one only.":
    (uses(i, p) -> inside(i)) & (uses(i, p) & uses(i, q) -> p = q) & (inside(i) -> exists p. uses(i, p));
invariant one_phase "A process does not wait and execute at once.": !(waiting(i) & inside(i));
invariant waits_without "A site that waits has no token (I1).": !(waiting(i) & here(i, p));
invariant queued_is_elsewhere "A token's queue has not the site where the token is, nor the one it is on its way to (I2).":
    (here(i, p) -> !queued(p, i)) & (token_sent(i, p) -> !queued(p, i));
invariant idle_has_no_queue "The queue of an idle token is empty.": idle(i, p) -> !queued(p, j);
invariant moves_known "Nobody has seen a later move of a token (I3).": known(i, p) <= moves(p);
invariant news_on_its_way "A token on its way is news to its receiver.": token_sent(i, p) -> known(i, p) < moves(p);
invariant known_is_made "Nobody knows of a request that was not made, and no token has served one.":
    requested(i, j) <= requested(j, j) & served(p, j) <= requested(j, j);
invariant sent_is_made "A REQUEST on its way was made, to another site, and is not known there.":
    request_sent(j, i, n) -> i != j & n <= requested(j, j) & requested(i, j) != n;
invariant waits_unserved "No token has served the request of a site that waits.": waiting(i) -> served(p, i) < requested(i, i);
invariant everybody_hears "Everybody knows of a request that waits, or will hear of it (I4).":
    waiting(i) & i != j -> requested(j, i) = requested(i, i) | request_sent(i, j, requested(i, i));
invariant idle_knows_nobody "Where a token is idle, nobody is known who waits, unless a token is on its way to that one.":
    (exists p. idle(i, p)) & waiting(j) & requested(i, j) = requested(j, j) -> exists q. token_sent(j, q);
progress no_token_is_lost "Every token is at a site or on its way.": exists i. here(i, p) | token_sent(i, p);

safety exclusion "Everyone inside has a token of its own, so that K at most are inside.":
    (inside(i) -> exists p. uses(i, p)) & (uses(i, p) & uses(j, p) -> i = j);

theorem no_refusal_of_requests "Every REQUEST is one that its receiver accepts.": request_sent(j, i, n) -> n != requested(i, j);
theorem no_refusal_of_tokens "Every token is one that its receiver accepts.":
    token_sent(i, p) -> known(i, p) < moves(p) & !queued(p, i) & !here(i, p);
theorem idle_token_is_asked_for "An idle token will hear of everyone who waits, or one is on its way there: no deadlock.":
    idle(i, p) & waiting(j) -> request_sent(j, i, requested(j, j)) | exists q. token_sent(j, q);
"#;
