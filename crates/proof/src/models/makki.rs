//! Makki's algorithm for every number of sites and of permits, beside `crates/protocol/src/algorithms/makki`.
//!
//! Channels keep no order. The code counts permits; here they have names: a sort, whose size is nowhere said, and each is free at the token, in
//! use, waiting for the token where it will come, or on its way back. A RELEASE carries a total, as in the code. Totals only rise here, and a
//! permit on its way back is marked with the total that counts it. Who collects and where the token will stop is left open.

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers exclusion, and that no token, permit or request is lost, for any number of permits, over channels that keep no \
    order. Left open are who collects, where the token will stop, the order of service, and when the timer runs out; that requests and \
    permits find the token is left to the explorer, and rounds and ANNOUNCE are not in the model. Without crashes.";

/// What compares the code.
pub const TIED_BY: &str = "With nothing: this is proved of the model, and not tied to the code. The code counts permits, and the model names them. Which \
    permits a RELEASE gives back is a difference of totals at two sites, so no site's state says which permit is where: the comparison would have to \
    translate whole states, not one site after another, and to take states for equal that differ in the names of permits. The code is held to the same \
    statements, I1 to I6 of its file, in what the explorer reaches.";

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "a RELEASE that a later one has overtaken counts again",
        erratum: None,
        replaced: &[("release_sent(i, j, m, n) & given(j, i) < n;", "release_sent(i, j, m, n);")],
        fails_at: ("wait_for_token", "total_will_come"),
    },
    WrongModel {
        about: "the token stays where it was, too, when it is passed on",
        erratum: None,
        replaced: &[("    here(i) := false;\n    token_sent(w) := true;", "    token_sent(w) := true;")],
        fails_at: ("pass_on", "here_or_there"),
    },
    WrongModel {
        about: "a site that leaves gives back any permit",
        erratum: None,
        replaced: &[(
            "inside(i) & uses(i, p) & !here(i) & stops(i, k)",
            "inside(i) & !here(i) & stops(i, k)",
        )],
        fails_at: ("leave_after", "free_or_used"),
    },
    WrongModel {
        about: "permits that have overtaken the token are taken, and wait on",
        erratum: None,
        replaced: &[("    early(i, p) := false;\n", "")],
        fails_at: ("take", "free_or_used"),
    },
];

/// Deliberate bugs of the code that nothing here notices.
pub const BEYOND: &[(Mutant, &str)] = &[
    (Mutant::MakkiTwoPermits, "no run of the code is compared"),
    (Mutant::MakkiEndlessTimer, "no run of the code is compared"),
];

/// The model.
pub const TEXT: &str = r#"
sort site, permit, number;
ordered number;
var i, j, k, w, x, y: site;
var p, q: permit;
var l, m, n, t, u: number;

fixed zero: number;

// The local process: waits in line, waits at its turn, is inside with a permit; or none of these.
relation in_line(site), turn(site), inside(site), uses(site, permit);

// Where the token is, and why it stays: the timer runs, or has run out; otherwise others follow.
relation here(site), collecting(site), resting(site), token_sent(site);
// The token: the permits that are free, who gets it next, how often it has moved.
relation free(permit), queued(site);
function moves: number;

// A site: the token's moves when it last came or left; where it stops, and with which move it comes there.
function known(site): number;
relation stops(site, site);
function stops_at(site): number;
// Permits given back that have overtaken the token; the requests that a site has collected.
relation early(site, permit), collected(site, site);
// The last total that the first site has sent to the second in a RELEASE; the last one that the first has taken from the second.
function returned(site, site): number;
function given(site, site): number;

// REQUEST of the third site, from the first to the second. RELEASE between two sites: with which move the token comes, and the total.
relation request_sent(site, site, site), release_sent(site, site, number, number);
sent token_sent(i) to i;
// Permits that the first site has given back to the second, with this total.
relation back(site, site, number, permit);

define idle(i) = !in_line(i) & !turn(i) & !inside(i);
define comes(i, j, n, p) = exists l. back(i, j, l, p) & l <= n;
define is_news(i, j, m, n) = release_sent(i, j, m, n) & given(j, i) < n;

axiom zero_is_first "No number is before zero.": zero <= n;

init one_home "The token rests at one site, and all others know it.":
    (here(i) & here(j) -> i = j) & (exists k. here(k)) & (resting(i) <-> here(i)) & (stops(i, j) <-> here(j)) & !collecting(i);
init permits_at_start "Whoever is inside uses a permit, one only; the others are free, and nobody waits.":
    (inside(i) <-> exists p. uses(i, p)) & (uses(i, p) & uses(i, q) -> p = q) & (uses(i, p) & uses(j, p) -> i = j)
        & (free(p) <-> !(exists k. uses(k, p))) & !in_line(i) & !turn(i);
init nothing_is_known "Nobody is queued or has been collected, and nothing was given back.":
    !queued(i) & !collected(i, j) & !early(i, p) & returned(i, j) = zero & given(i, j) = zero;
init nothing_has_moved "The token has not moved.": moves = zero & known(i) = zero;
init nothing_is_sent "Nothing is on its way.":
    !token_sent(i) & !request_sent(i, j, k) & !release_sent(i, j, m, n) & !back(i, j, n, p);

action ask_here(i) "With the token here it is the site's turn at once." {
    when idle(i) & here(i) & forall w. !collected(i, w);
    turn(i) := true;
}

action queue_own(i) "With the token here, and requests of others: behind them." {
    when idle(i) & here(i) & exists w. collected(i, w);
    in_line(i) := true;
    collected(i, i) := true;
}

action ask(i, k) "The site asks the one that collects, as far as it knows: any." {
    when idle(i) & !here(i) & k != i;
    in_line(i) := true;
    request_sent(i, k, i) := true;
}

action collect(j, k, w) "A REQUEST comes to a site that collects." {
    when request_sent(k, j, w) & w != j;
    request_sent(k, j, w) := false;
    collected(j, w) := true;
}

action forward(j, k, w, x) "A REQUEST comes to a site that collects no longer, and goes on to whom it knows to collect: any." {
    when request_sent(k, j, w) & w != j & x != j;
    request_sent(y, i, w) := request_sent(y, i, w) & !(y = k & i = j) | y = j & i = x;
}

action take(i, m) "The token comes: with it all permits that have overtaken it. The last of the queue starts the timer." {
    when token_sent(i) & in_line(i) & !here(i) & known(i) < moves & m = moves;
    token_sent(i) := false;
    here(i) := true;
    in_line(i) := false;
    turn(i) := true;
    free(p) := free(p) | early(i, p);
    early(i, p) := false;
    known(i) := m;
    collecting(i) := forall w. !queued(w);
}

then enter(i, p) "Enter if it is the site's turn and a permit is free." {
    when here(i) & turn(i) & free(p);
    turn(i) := false;
    inside(i) := true;
    free(p) := false;
    uses(i, p) := true;
}

action wake(i) "2T are over." {
    when here(i) & collecting(i);
    collecting(i) := false;
    resting(i) := true;
}

then next_round(i) "What has been collected is the next queue." {
    when here(i) & resting(i) & !turn(i) & exists w. collected(i, w);
    resting(i) := false;
    queued(w) := collected(i, w);
    collected(i, w) := false;
}

then pass_on(i, w, k, m, n) "The token goes on to one of the queue. It stops at one of the queue, which one is left open." {
    when here(i) & !turn(i) & !resting(i) & queued(w) & queued(k) & w != i & moves < m & m <= n;
    here(i) := false;
    token_sent(w) := true;
    queued(w) := false;
    moves := m;
    known(i) := m;
    stops(i, x) := x = k;
    stops_at(i) := n;
}

action leave_with_token(i, p) "A site leaves where the token is." {
    when inside(i) & uses(i, p) & here(i);
    inside(i) := false;
    uses(i, p) := false;
    free(p) := true;
}

action leave_early(i, p) "A site leaves to which the token comes back: the permit waits for it." {
    when inside(i) & uses(i, p) & !here(i) & stops(i, i);
    inside(i) := false;
    uses(i, p) := false;
    early(i, p) := true;
}

action leave_after(i, p, k, n) "A site leaves, and sends the permit to where the token stops." {
    when inside(i) & uses(i, p) & !here(i) & stops(i, k) & k != i & returned(i, k) < n;
    inside(i) := false;
    uses(i, p) := false;
    returned(i, k) := n;
    release_sent(i, k, m, n) := release_sent(i, k, m, n) | m = stops_at(i);
    back(i, k, n, p) := true;
}

action overtaken(i, j, m, n) "A RELEASE that a later one has overtaken is counted already." {
    when release_sent(i, j, m, n) & n <= given(j, i);
    release_sent(i, j, m, n) := false;
}

action wait_for_token(i, j, m, n) "A RELEASE comes before the token, or to where the token will be again: the permits wait for it." {
    when is_news(i, j, m, n) & !here(j) & (known(j) < m | stops(j, j));
    release_sent(i, j, m, n) := false;
    given(j, i) := n;
    early(j, p) := early(j, p) | comes(i, j, n, p);
    back(i, j, l, p) := back(i, j, l, p) & n < l;
}

action give_to_token(i, j, m, n) "A RELEASE comes to the token." {
    when is_news(i, j, m, n) & here(j);
    release_sent(i, j, m, n) := false;
    given(j, i) := n;
    free(p) := free(p) | comes(i, j, n, p);
    back(i, j, l, p) := back(i, j, l, p) & n < l;
}

action send_on(i, j, m, n, k, t) "A RELEASE comes after the token, and goes on to where the token stops." {
    when is_news(i, j, m, n) & !here(j) & m <= known(j) & stops(j, k) & k != j & returned(j, k) < t;
    given(j, i) := n;
    returned(j, k) := t;
    release_sent(x, y, u, l) := release_sent(x, y, u, l) & !(x = i & y = j & u = m & l = n) | x = j & y = k & u = stops_at(j) & l = t;
    back(x, y, l, p) := back(x, y, l, p) & !(x = i & y = j & l <= n) | x = j & y = k & l = t & comes(i, j, n, p);
}

invariant one_phase "A process is in one state at a time.":
    !(in_line(i) & turn(i)) & !(in_line(i) & inside(i)) & !(turn(i) & inside(i));
invariant one_holder "At most one site has the token.": here(i) & here(j) -> i = j;
invariant one_on_its_way "At most one token is on its way.": token_sent(i) & token_sent(j) -> i = j;
invariant here_or_there "The token is not at a site while it is on its way.": !(here(i) & token_sent(j));
invariant turn_has_token "A site whose turn it is has the token (I1).": turn(i) -> here(i);
invariant stays_here "A site where the timer runs or has run out has the token, and nobody follows (I3).":
    (collecting(i) | resting(i) -> here(i) & !queued(j)) & !(collecting(i) & resting(i));
invariant passes_by "Where the token is in passing somebody follows (I3).":
    here(i) & !collecting(i) & !resting(i) -> exists w. queued(w);
invariant known_moves "Nobody has seen a later move of the token than the token itself (I4).": known(i) <= moves;
invariant news_on_its_way "A token on its way is news to its receiver.": token_sent(i) -> known(i) < moves;
invariant asked_waits "A REQUEST on its way is of a site that waits, and is in one place (I6).":
    request_sent(i, j, w) -> in_line(w) & !collected(k, w) & !queued(w) & !token_sent(w);
invariant asked_once "A REQUEST is on its way once (I6).": request_sent(i, j, w) & request_sent(k, x, w) -> i = k & j = x;
invariant collected_waits "A request that was collected is of a site that waits, and is in one place (I6).":
    collected(i, w) -> in_line(w) & !queued(w) & !token_sent(w);
invariant collected_once "A request is collected at one site (I6).": collected(i, w) & collected(j, w) -> i = j;
invariant queued_waits "Whoever is queued waits, and the token is not on its way there (I6).": queued(w) -> in_line(w) & !token_sent(w);
invariant served_waits "Whoever the token is on its way to waits.": token_sent(w) -> in_line(w);
invariant uses_one "Whoever is inside uses one permit.":
    (uses(i, p) -> inside(i)) & (uses(i, p) & uses(i, q) -> p = q) & (inside(i) -> exists p. uses(i, p));
invariant free_or_used "A free permit is not in use or on its way back.": free(p) -> !uses(i, p) & !early(i, p) & !back(i, j, n, p);
invariant used_or_back "A permit in use is not on its way back.": uses(i, p) -> !early(j, p) & !back(j, k, n, p);
invariant early_once "A permit waits for the token at one site, and is nowhere else.":
    early(i, p) -> (early(j, p) -> i = j) & !back(j, k, n, p);
invariant back_once "A permit is on its way back once.": back(i, j, m, p) & back(k, x, n, p) -> i = k & j = x & m = n;
invariant given_was_returned "Nobody has taken more than was given back.": given(j, i) <= returned(i, j);
invariant release_was_sent "A RELEASE on its way was sent.": release_sent(i, j, m, n) -> n <= returned(i, j);
invariant back_is_counted "A permit on its way back is in a total that has not come.":
    back(i, j, n, p) -> given(j, i) < n & n <= returned(i, j);
invariant total_will_come "The last total has come, or is on its way.":
    given(j, i) != returned(i, j) -> exists m. release_sent(i, j, m, returned(i, j));
progress token_is_somewhere "The token is at a site or on its way.": exists i. here(i) | token_sent(i);
progress permit_is_somewhere "No permit is lost: it is free, in use, or on its way back (I5).":
    free(p) | (exists i. uses(i, p) | early(i, p)) | exists i, j, n. back(i, j, n, p);
progress waits_somewhere "No request is lost: whoever waits in line is in one of these places (I6).":
    in_line(w) -> queued(w) | token_sent(w) | (exists j. collected(j, w)) | exists i, j. request_sent(i, j, w);

safety exclusion "Everyone inside has a permit of its own, so that K at most are inside.":
    (inside(i) -> exists p. uses(i, p)) & (uses(i, p) & uses(j, p) -> i = j);

theorem no_refusal_of_tokens "A token is accepted.": token_sent(i) -> in_line(i) & known(i) < moves & !here(i);
theorem no_refusal_of_releases "A RELEASE gives back permits that are not free or waiting where it comes.":
    release_sent(i, j, m, n) & comes(i, j, n, p) -> !free(p) & !early(j, p) & !uses(j, p);
theorem permit_is_announced "A permit on its way back comes with a RELEASE that its receiver has not counted.":
    back(i, j, n, p) -> exists m, l. release_sent(i, j, m, l) & n <= l & given(j, i) < l;
"#;
