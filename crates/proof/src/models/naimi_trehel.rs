//! Naimi and Trehel's algorithm for every number of sites, beside `crates/protocol/src/algorithms/naimi_trehel.rs`.
//!
//! Channels keep no order, and the token starts at any one site, which may be inside. That the fathers lead to the tail, and never
//! round in a circle, is not needed for exclusion, and is not proved. So a REQUEST may come to its own site, or to one that has seen
//! it: the code would refuse it, and so may the model (`refuse`).

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers exclusion, over channels that keep no order. That every request finds the tail of the \
    queue, and that fathers never lead round in a circle, is left to the explorer: a request may be refused in the \
    model. Without crashes, and without the one call that leaves and requests at once.";

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "a site that gives the token away keeps it, too",
        erratum: None,
        replaced: &[("    keeping(i) := false;\n    token_sent", "    token_sent")],
        fails_at: ("hand_over", "here_or_there"),
    },
    WrongModel {
        about: "a site that makes a requester its next does not take it for its father",
        erratum: None,
        replaced: &[(
            "    fatherless(i) := false;\n    next(i, k, n) := true;",
            "    next(i, k, n) := true;",
        )],
        fails_at: ("note_next", "tail_has_no_next"),
    },
];

/// The deliberate bugs of the code, and where each breaks the tie.
pub const MUTANTS: &[(Mutant, &str)] = &[(
    Mutant::NaimiTrehelForgottenForward,
    "step `− father(site0, site1), − request_sent(site2, site0, site2, number1), + father(site0, site2)`",
)];

/// The model.
pub const TEXT: &str = r#"
sort site, number;
ordered number;
var i, j, k, x, y, y1, y2: site;
var n, m, l: number;

fixed zero: number;
fixed relation succ(number, number);

// The local process and the token: idle with it, waiting without it, inside with it. Without any of these a site is away.
relation keeping(site), waiting(site), inside(site);
// How many requests a site has made.
function requests(site): number;
// Whom a site believes to have asked last; a site without a father believes that it was itself.
relation father(site, site), fatherless(site);
// Who gets the token from a site, with the number of its request.
relation next(site, site, number), has_next(site);

// REQUEST from the first site to the second, for the third and its request; TOKEN with the number of the request that it serves.
relation request_sent(site, site, site, number), token_sent(site, site, number);

define has_token(i) = keeping(i) | inside(i);
define busy(i) = waiting(i) | inside(i);

axiom zero_is_first "No number is before zero.": zero <= n;
axiom succ_rises "A number is before the one that follows it.": succ(n, m) -> n < m;
axiom succ_is_unique "One number follows each.": succ(n, m) & succ(n, l) -> m = l;

init one_token "The token is at one site at most.": has_token(i) & has_token(j) -> i = j;
init one_phase_at_start "Nobody waits, and nobody keeps the token while inside.": !waiting(i) & !(keeping(i) & inside(i));
init token_is_root "Exactly the site with the token has no father.": fatherless(i) <-> has_token(i);
init fathers_at_start "Who has a father has no other, and is not fatherless.":
    (father(i, j) -> !fatherless(i)) & (father(i, j) & father(i, k) -> j = k);
init nobody_is_next "Nobody is next, and nobody has made a request.": !next(i, j, n) & !has_next(i) & requests(i) = zero;
init nothing_is_sent "Nothing is on its way.": !request_sent(i, j, k, n) & !token_sent(i, j, n);

action enter_at_once(i, n) "A site without a father has the token, and enters." {
    when !busy(i) & fatherless(i) & succ(requests(i), n);
    requests(i) := n;
    keeping(i) := false;
    inside(i) := true;
}

action ask(i, j, n) "A site asks its father, and becomes the tail." {
    when !busy(i) & !fatherless(i) & father(i, j) & succ(requests(i), n);
    requests(i) := n;
    keeping(i) := false;
    waiting(i) := true;
    father(i, k) := false;
    fatherless(i) := true;
    request_sent(i, j, i, m) := request_sent(i, j, i, m) | m = n;
}

action pass_on(i, j, k, n, x) "Path reversal: the request goes on to the father, and the requester is the new father." {
    when request_sent(j, i, k, n) & k != i & !fatherless(i) & father(i, x);
    request_sent(y, y1, y2, m) :=
        request_sent(y, y1, y2, m) & !(y = j & y1 = i & y2 = k & m = n) | y = i & y1 = x & y2 = k & m = n;
    father(i, y) := y = k;
}

action note_next(i, j, k, n) "At the tail, which needs the token itself: the requester is the next." {
    when request_sent(j, i, k, n) & k != i & fatherless(i) & busy(i);
    request_sent(j, i, k, n) := false;
    father(i, y) := y = k;
    fatherless(i) := false;
    next(i, k, n) := true;
    has_next(i) := true;
}

action hand_over(i, j, k, n) "At the tail, which keeps the token unused: the requester gets it." {
    when request_sent(j, i, k, n) & k != i & fatherless(i) & keeping(i);
    request_sent(j, i, k, n) := false;
    father(i, y) := y = k;
    fatherless(i) := false;
    keeping(i) := false;
    token_sent(i, k, n) := true;
}

action refuse(i, j, k, n) "A request that comes to its own site, or a second time, is refused." {
    when request_sent(j, i, k, n);
    request_sent(j, i, k, n) := false;
}

action enter(i, j, n) "A waiting site that gets the token enters." {
    when token_sent(j, i, n) & waiting(i) & n = requests(i);
    token_sent(j, i, n) := false;
    waiting(i) := false;
    inside(i) := true;
}

action leave_and_keep(i) "A site leaves, and nobody is next: it keeps the token." {
    when inside(i) & !has_next(i);
    inside(i) := false;
    keeping(i) := true;
}

action leave_and_give(i, k, n) "A site leaves, and the token goes to the next." {
    when inside(i) & has_next(i) & next(i, k, n);
    inside(i) := false;
    next(i, y, m) := false;
    has_next(i) := false;
    token_sent(i, k, n) := true;
}

invariant one_phase "A process is in one state at a time.":
    !(waiting(i) & keeping(i)) & !(waiting(i) & inside(i)) & !(keeping(i) & inside(i));
invariant one_holder "At most one site has the token.": has_token(i) & has_token(j) -> i = j;
invariant one_on_its_way "At most one token is on its way.":
    token_sent(i, j, n) & token_sent(x, y, m) -> i = x & j = y & n = m;
invariant here_or_there "The token is not at a site while it is on its way.": !(has_token(i) & token_sent(j, k, n));
invariant one_father "A site has one father at most, and none if it believes to be the tail.":
    (father(i, j) & father(i, k) -> j = k) & (father(i, j) -> !fatherless(i));
invariant idle_tail_keeps "A site without a father that wants nothing has the token (I1).":
    fatherless(i) -> keeping(i) | busy(i);
invariant keeper_is_tail "A site that keeps the token has no father (I1).": keeping(i) -> fatherless(i);
invariant tail_has_no_next "A site without a father has no next (I1).": has_next(i) -> !fatherless(i);
invariant end_is_tail "A site that is busy and has no next has no father (I1).": busy(i) & !has_next(i) -> fatherless(i);
invariant next_while_busy "A site has a next only while it wants to enter or is inside (I2).": has_next(i) -> busy(i);
invariant next_is_one "A site has one next at most.":
    (next(i, j, n) -> has_next(i)) & (next(i, j, n) & next(i, k, m) -> j = k & n = m);
invariant asked_waits "Whoever is asked for waits, with its last request.":
    request_sent(j, i, k, n) -> waiting(k) & n = requests(k);
invariant next_waits "Whoever is next waits, with its last request.": next(j, k, n) -> waiting(k) & n = requests(k) & j != k;
invariant served_waits "Whoever the token is on its way to waits, with its last request.":
    token_sent(j, k, n) -> waiting(k) & n = requests(k);
invariant one_request "One message at most asks for a site.":
    request_sent(j, i, k, n) & request_sent(x, y, k, m) -> j = x & i = y;
invariant one_predecessor "A site is next to one other at most.": next(j, k, n) & next(x, k, m) -> j = x;
invariant asked_or_next "Nobody is next while its request is on its way.": !(request_sent(j, i, k, n) & next(x, k, m));
invariant asked_or_served "No token is on its way to a site whose request is.": !(request_sent(j, i, k, n) & token_sent(x, k, m));
invariant next_or_served "No token is on its way to a site that is next.": !(next(j, k, n) & token_sent(x, k, m));

safety exclusion "Two sites are never inside at once.": inside(i) & inside(j) -> i = j;

theorem no_refusal_of_tokens "Every TOKEN is one that its receiver accepts.":
    token_sent(j, i, n) -> waiting(i) & n = requests(i);
"#;
