//! The token ring for every number of sites, beside `crates/protocol/src/algorithms/token_ring/mod.rs`.
//!
//! Covers `idle=park`, the default. Channels keep no order, and the token starts at any one site, which may be inside. For exclusion it is
//! enough that everyone has at most one successor and at most one predecessor. That the sites form one ring is used for the theorem about
//! deadlock: of those who have asked, one is the first after a parked token, as there are finitely many sites.

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers `idle=park`, the default, over channels that keep no order. Without crashes.";

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "a call that comes while the site waits or is inside is forgotten",
        erratum: None,
        replaced: &[(
            "wanted_sent(j, i, n) := false;\n    wanted(i) := true;",
            "wanted_sent(j, i, n) := false;",
        )],
        fails_at: ("note_call", "asked_is_traced"),
    },
    WrongModel {
        about: "the token stays where it was, too, when it is handed over",
        erratum: None,
        replaced: &[("    parked(i) := false;\n    passed(i) := m;", "    passed(i) := m;")],
        fails_at: ("hand_over", "here_or_there"),
    },
    WrongModel {
        about: "the sites form no ring: the predecessor of a site may be anywhere",
        erratum: None,
        replaced: &[(
            "    next(k, j) & i != j & i != k -> between(i, k, j);",
            "    next(k, j) -> next(k, j);",
        )],
        fails_at: ("(theorem)", "parked_token_is_called"),
    },
];

/// The deliberate bugs of the code, and where each breaks the tie.
pub const MUTANTS: &[(Mutant, &str)] =
    &[(Mutant::TokenRingForgottenCall, "step `− wanted_sent(site1, site0, number0)`")];

/// The model.
pub const TEXT: &str = r#"
sort site, number;
ordered number;
var i, j, k, x, y: site;
var n, m, l: number;

// What all sites share: who follows whom on the ring, and which number follows which.
fixed relation next(site, site);
// From the first site on, along the ring, the second one comes before the third.
fixed relation between(site, site, site);
fixed zero: number;
fixed relation succ(number, number);

// The local process and the token: waiting without it, idle with it, inside with it. Without any of these a site is away: idle
// without the token.
relation waiting(site), parked(site), inside(site);
// My successor has asked, and I have not passed the token to it since.
relation wanted(site);
// The token's hand-overs when it last came here, and when it last left.
function seen(site): number;
function passed(site): number;

// WANTED and TOKEN from the first site to the second.
relation wanted_sent(site, site, number), token_sent(site, site, number);

define away(i) = !waiting(i) & !parked(i) & !inside(i);
define has_token(i) = parked(i) | inside(i);
define has_asked(i) = waiting(i) | away(i) & wanted(i);

axiom one_successor "A site has one successor.": next(i, j) & next(i, k) -> j = k;
axiom one_predecessor "A site has one predecessor.": next(i, k) & next(j, k) -> i = j;
axiom ring_is_an_order "From each site on, the others come one after the other.":
    !between(i, x, x) & !between(i, x, i) & !between(i, i, x) & (between(i, x, y) & between(i, y, k) -> between(i, x, k))
        & (x != i & y != i & x != y -> between(i, x, y) | between(i, y, x));
axiom predecessor_comes_before "The predecessor of a site is where the count begins, or comes before it.":
    next(k, j) & i != j & i != k -> between(i, k, j);
axiom zero_is_first "No number is before zero.": zero <= n;
axiom succ_rises "A number is before the one that follows it.": succ(n, m) -> n < m;
axiom succ_is_unique "One number follows each.": succ(n, m) & succ(n, l) -> m = l;

init one_token "The token is at one site.": (has_token(i) & has_token(j) -> i = j) & exists k. has_token(k);
init one_phase_at_start "It is parked there, or that site is inside; nobody waits.": !(parked(i) & inside(i)) & !waiting(i);
init nobody_has_asked "Nobody has asked.": !wanted(i) & seen(i) = zero & passed(i) = zero;
init nothing_is_sent "Nothing is on its way.": !wanted_sent(i, j, n) & !token_sent(i, j, n);

action enter_parked(i) "A site with the token enters." {
    when parked(i);
    parked(i) := false;
    inside(i) := true;
}

action call(i, j) "A site without the token calls its predecessor." {
    when away(i) & !wanted(i) & next(j, i);
    waiting(i) := true;
    wanted_sent(i, j, n) := wanted_sent(i, j, n) | n = seen(i);
}

action wait(i) "A site that has called for its successor already waits." {
    when away(i) & wanted(i);
    waiting(i) := true;
}

action hand_over(i, j, n, m) "The successor calls, and gets a parked token at once." {
    when wanted_sent(j, i, n) & next(i, j) & n = passed(i) & !wanted(i);
    when parked(i) & succ(seen(i), m);
    wanted_sent(j, i, n) := false;
    parked(i) := false;
    passed(i) := m;
    token_sent(i, j, m) := true;
}

action call_on(i, j, n, k) "The successor calls, and the site calls its own predecessor." {
    when wanted_sent(j, i, n) & next(i, j) & n = passed(i) & !wanted(i);
    when away(i) & next(k, i);
    wanted(i) := true;
    wanted_sent(x, y, l) := wanted_sent(x, y, l) & !(x = j & y = i & l = n) | x = i & y = k & l = seen(i);
}

action note_call(i, j, n) "The successor calls while the site waits or is inside: it is remembered." {
    when wanted_sent(j, i, n) & next(i, j) & n = passed(i) & !wanted(i);
    when waiting(i) | inside(i);
    wanted_sent(j, i, n) := false;
    wanted(i) := true;
}

action enter(i, j, n) "Exercise 9.1: a site waits for the token, grabs it and enters." {
    when token_sent(j, i, n) & next(j, i) & seen(i) < n & waiting(i);
    token_sent(j, i, n) := false;
    seen(i) := n;
    waiting(i) := false;
    inside(i) := true;
}

action pass_by(i, j, n, k, m) "Exercise 9.1: a site that does not need the token dispatches it immediately." {
    when token_sent(j, i, n) & next(j, i) & seen(i) < n & away(i) & wanted(i);
    when next(i, k) & succ(n, m);
    seen(i) := n;
    passed(i) := m;
    wanted(i) := false;
    token_sent(x, y, l) := token_sent(x, y, l) & !(x = j & y = i & l = n) | x = i & y = k & l = m;
}

action leave_and_park(i) "A site leaves, and nobody wants the token." {
    when inside(i) & !wanted(i);
    inside(i) := false;
    parked(i) := true;
}

action leave_and_pass(i, k, m) "Exercise 9.1: and then dispatches the token to the next site on the ring." {
    when inside(i) & wanted(i) & next(i, k) & succ(seen(i), m);
    inside(i) := false;
    wanted(i) := false;
    passed(i) := m;
    token_sent(i, k, m) := true;
}

invariant one_phase "A process is in one state at a time.":
    !(waiting(i) & parked(i)) & !(waiting(i) & inside(i)) & !(parked(i) & inside(i));
invariant one_holder "At most one site has the token.": has_token(i) & has_token(j) -> i = j;
invariant one_on_its_way "At most one token is on its way.":
    token_sent(i, j, n) & token_sent(x, y, m) -> i = x & j = y & n = m;
invariant here_or_there "The token is not at a site while it is on its way.": !(has_token(i) & token_sent(j, k, n));
invariant nobody_wants_parked "Nobody wants a parked token (I1).": !(parked(i) & wanted(i));
invariant holder_saw_last "Nobody has seen or passed the token later than the site that has it.":
    has_token(i) -> seen(j) <= seen(i) & passed(j) <= seen(i);
invariant token_is_newest "A token on its way has more hand-overs than any site has seen, and goes along the ring.":
    token_sent(i, j, n) -> next(i, j) & passed(i) = n & seen(k) < n & passed(k) <= n;
invariant neighbours_agree "What one site passed its successor has seen, unless the token is on its way there.":
    next(i, j) -> seen(j) = passed(i) | token_sent(i, j, passed(i));
invariant call_on_its_way "A WANTED on its way is of a site that has asked, and its predecessor does not know (I2).":
    wanted_sent(j, i, n) -> next(i, j) & n = seen(j) & n = passed(i) & has_asked(j) & !wanted(i);
invariant called_once "There is one WANTED of a site at a time (I2).":
    wanted_sent(i, j, n) & wanted_sent(i, k, m) -> j = k & n = m;
invariant known_call "What a site knows of its successor is true (I2).":
    wanted(i) & next(i, j) -> has_asked(j) & seen(j) = passed(i);
invariant awaited "A token on its way goes to a site that has asked, and replaces its call (I2).":
    token_sent(i, j, n) -> has_asked(j) & !wanted(i) & !wanted_sent(j, i, m);
invariant asked_is_traced "Whoever has asked has a call on its way, is known to its predecessor, or gets the token (I2).":
    next(i, j) & has_asked(j) -> wanted_sent(j, i, seen(j)) | wanted(i) | token_sent(i, j, passed(i));

invariant token_is_somewhere "The token is at a site or on its way.": (exists i. has_token(i)) | exists i, j, n. token_sent(i, j, n);

safety exclusion "Two sites are never inside at once.": inside(i) & inside(j) -> i = j;

theorem no_refusal_of_calls "Every WANTED is one that its receiver accepts.":
    wanted_sent(j, i, n) -> next(i, j) & n = passed(i) & !wanted(i);
theorem no_refusal_of_tokens "Every TOKEN is one that its receiver accepts.":
    token_sent(j, i, n) -> next(j, i) & seen(i) < n & (waiting(i) | away(i) & wanted(i));
theorem parked_token_is_called "The first site after a parked token that has asked has its call on its way: no deadlock.":
    parked(i) & has_asked(j) & next(k, j) & (forall x. between(i, x, j) -> !has_asked(x)) -> wanted_sent(j, k, seen(j));
"#;
