//! Singhal's heuristic token algorithm as repaired, for every number of sites, beside
//! `crates/protocol/src/algorithms/singhal_heuristic/mod.rs`.
//!
//! Any site that the token knows to be requesting may get it: that covers every rule of arbitration. Numbers only grow; that a request has
//! the next one is not needed. Exclusion is the lesser part, as of every token. The clauses about who looks to whom say why nobody waits
//! for a token that is idle: that is where the printed text is wrong.

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers the algorithm as repaired, with every `arbitration` and both values of `merge`, over channels that keep no order, with or without a \
    site inside at the start. Without `count=entries`, `adaptive` and `focused`, without crashes and split networks, and without duplicates.";

/// The update rules without the repair: whoever was served is not looked to, and his number is known from the token.
const PRINTED: &[(&str, &str)] = &[
    (" & !asked(i, j)))", " & false))"),
    (
        "    token_sent(i, k) := true;",
        "    last(i, j) := if j != i & last(i, j) < served(j) then served(j) else last(i, j);\n    token_sent(i, k) := true;",
    ),
    (
        "    holding(i) := true;",
        "    last(i, j) := if j != i & last(i, j) < served(j) then served(j) else last(i, j);\n    holding(i) := true;",
    ),
];

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "a site that leaves takes what it hears of from the token, and does not look to whom that has served",
        erratum: Some("singhal-heuristic-not-live"),
        replaced: PRINTED,
        fails_at: ("leave_and_pass", "one_looks_to_the_other"),
    },
    WrongModel {
        about: "a site that leaves does not look to whom the token has served, also if it was not asked",
        erratum: None,
        replaced: &[(" & !asked(i, j)))", " & false))")],
        fails_at: ("leave_and_hold", "all_look_to_the_holder"),
    },
    WrongModel {
        about: "a late REQUEST is not answered by the site with the idle token",
        erratum: None,
        replaced: &[(
            "    asked(i, j) := true;\n    request_sent(x, y, m) := request_sent(x, y, m) & !(x = j & y = i & m = n) | x = i & y = j & m = request(i) & !asked(i, j);\n}\n\naction enter(",
            "    request_sent(j, i, n) := false;\n}\n\naction enter(",
        )],
        fails_at: ("answer", "all_look_to_the_holder"),
    },
    WrongModel {
        about: "a waiting site does not ask whom it hears from",
        erratum: None,
        replaced: &[(
            "    asked(i, j) := true;\n    request_sent(x, y, m) := request_sent(x, y, m) & !(x = j & y = i & m = n) | x = i & y = j & m = request(i) & !asked(i, j);\n}\n\naction give(",
            "    request_sent(j, i, n) := false;\n}\n\naction give(",
        )],
        fails_at: ("cross", "asks_all_it_looks_to"),
    },
    WrongModel {
        about: "who keeps the token does not tell those that it looked to",
        erratum: None,
        replaced: &[(
            "    request_sent(i, j, m) := request_sent(i, j, m) | still_looks_to(i, j) & m = request(i);\n",
            "",
        )],
        fails_at: ("leave_and_hold", "all_look_to_the_holder"),
    },
    WrongModel {
        about: "who gives the idle token away keeps it",
        erratum: None,
        replaced: &[("    holding(i) := false;\n    asked(i, k)", "    asked(i, k)")],
        fails_at: ("give", "here_or_there"),
    },
    WrongModel {
        about: "the token goes to anyone whom its site looks to",
        erratum: None,
        replaced: &[(
            "executing(i) & is_next(i, k)",
            "executing(i) & i != k & (is_next(i, k) | looks_to(i, k))",
        )],
        fails_at: ("leave_and_pass", "token_is_awaited"),
    },
];

/// What neither proof nor tie notices.
pub const BEYOND: &[(Mutant, &str)] = &[(
    Mutant::HeuristicForgottenWaiter,
    "it concerns a token that was lost with a failed site, and there is none",
)];

/// The model.
pub const TEXT: &str = r#"
sort site, number;
ordered number;
var i, j, k, x, y: site;
var l, m, n: number;

fixed zero: number;

// Table I, the state of a site: R, E and H. Without any of these it is N.
relation waiting(site), executing(site), holding(site);
// `SN[me]`: the site's last request; and to whom it has sent that, while it is in R, E or H.
function request(site): number;
relation asked(site, site);

// What a site knows of the others: whom it looks to (`SV` is R), `SN`, and how often the token had been sent when it last knew.
relation looks_to(site, site);
function last(site, site): number;
function known(site): number;

// The token: whose `TSV` is R, `TSN`, and how often it was sent.
relation requesting(site);
function served(site): number;
function passes: number;

// REQUEST with its number, and TOKEN, from the first site to the second.
relation request_sent(site, site, number), token_sent(site, site);

define has_token(i) = executing(i) | holding(i);
define idle(i) = !waiting(i) & !has_token(i);
// The update rules: what the token learns of `j` when `i` leaves, who then waits as far as it knows, and to whom `i` then looks.
define is_news(i, j) = j != i & served(j) < last(i, j) & looks_to(i, j);
define is_next(i, j) = j != i & (requesting(j) | is_news(i, j));
define still_looks_to(i, j) =
    j != i & (served(j) < last(i, j) & looks_to(i, j) | last(i, j) <= served(j) & (requesting(j) | looks_to(i, j) & !asked(i, j)));
// A REQUEST of `i` is on its way to `j` that will be news there.
define will_hear(j, i) = exists n. request_sent(i, j, n) & last(j, i) < n;

init one_token "One site has the token, and is inside or not.":
    (has_token(i) & has_token(j) -> i = j) & !(executing(i) & holding(i)) & (exists i. has_token(i));
init nobody_waits "Nobody waits.": !waiting(i) & !requesting(i);
init staircase "Of two sites one looks to the other, and all look to the one with the token, which looks to nobody.":
    (i != j -> looks_to(i, j) | looks_to(j, i)) & !looks_to(i, i) & (has_token(i) & i != j -> looks_to(j, i) & !looks_to(i, j));
init all_are_asked "Whoever has the token need not ask.": asked(i, j) <-> has_token(i) & i != j;
init numbers_are_zero "Nobody has made a request, and the token was never sent.":
    request(i) = zero & last(i, j) = zero & served(i) = zero & known(i) = zero & passes = zero;
init nothing_is_sent "Nothing is on its way.": !request_sent(i, j, n) & !token_sent(i, j);

action ask(i, n) "Step 1, Rule 1: a site asks all it looks to." {
    when idle(i) & request(i) < n;
    request(i) := n;
    waiting(i) := true;
    asked(i, j) := looks_to(i, j);
    request_sent(i, j, m) := request_sent(i, j, m) | looks_to(i, j) & m = n;
}

action enter_held(i) "Step 1, Rule 2: a site with the idle token enters." {
    when holding(i);
    holding(i) := false;
    executing(i) := true;
}

action outdated(i, j, n) "The request message handler: a REQUEST that was overtaken by a later one is dropped." {
    when request_sent(j, i, n) & n <= last(i, j);
    request_sent(j, i, n) := false;
}

action note(i, j, n) "Rules 8 and 10: look to who asks." {
    when request_sent(j, i, n) & last(i, j) < n & !waiting(i) & !holding(i);
    request_sent(j, i, n) := false;
    last(i, j) := n;
    looks_to(i, j) := true;
}

action cross(i, j, n) "Rule 9: so it must know of one's own request, too." {
    when request_sent(j, i, n) & last(i, j) < n & waiting(i);
    last(i, j) := n;
    looks_to(i, j) := true;
    asked(i, j) := true;
    request_sent(x, y, m) := request_sent(x, y, m) & !(x = j & y = i & m = n) | x = i & y = j & m = request(i) & !asked(i, j);
}

action give(i, j, n, m) "Rule 11: the idle token goes to who asks." {
    when request_sent(j, i, n) & last(i, j) < n & holding(i) & served(j) < n & passes < m;
    request_sent(j, i, n) := false;
    last(i, j) := n;
    requesting(j) := true;
    served(j) := n;
    looks_to(i, j) := true;
    holding(i) := false;
    asked(i, k) := false;
    token_sent(i, j) := true;
    passes := m;
    known(i) := m;
}

action answer(i, j, n) "Our repair, second part: a late REQUEST is answered with one's own last one." {
    when request_sent(j, i, n) & last(i, j) < n & holding(i) & n <= served(j);
    last(i, j) := n;
    asked(i, j) := true;
    request_sent(x, y, m) := request_sent(x, y, m) & !(x = j & y = i & m = n) | x = i & y = j & m = request(i) & !asked(i, j);
}

action enter(i, j) "Step 2: a site that gets the token enters." {
    when token_sent(j, i) & known(i) < passes & waiting(i);
    token_sent(j, i) := false;
    waiting(i) := false;
    executing(i) := true;
    known(i) := passes;
}

action leave_and_pass(i, k, m) "Step 3, Rules 3 to 7: token and site tell each other what they know; one that waits gets the token." {
    when executing(i) & is_next(i, k) & passes < m;
    executing(i) := false;
    requesting(j) := is_next(i, j);
    served(j) := if j = i then request(i) else if is_news(i, j) then last(i, j) else served(j);
    looks_to(i, j) := still_looks_to(i, j);
    asked(i, j) := false;
    token_sent(i, k) := true;
    passes := m;
    known(i) := m;
}

action leave_and_hold(i) "Step 3, Rules 3 to 7: nobody waits, the site keeps the token; our repair: who may not look here gets its last request." {
    when executing(i) & forall k. !is_next(i, k);
    executing(i) := false;
    holding(i) := true;
    requesting(j) := false;
    served(j) := if j = i then request(i) else served(j);
    looks_to(i, j) := false;
    asked(i, j) := asked(i, j) | still_looks_to(i, j);
    request_sent(i, j, m) := request_sent(i, j, m) | still_looks_to(i, j) & m = request(i);
}

invariant one_phase "A process is in one state at a time.":
    !(waiting(i) & executing(i)) & !(waiting(i) & holding(i)) & !(executing(i) & holding(i));
invariant one_holder "At most one site has the token.": has_token(i) & has_token(j) -> i = j;
invariant one_on_its_way "At most one token is on its way.": token_sent(i, j) & token_sent(x, y) -> i = x & j = y;
invariant here_or_there "The token is not at a site while it is on its way.": !(has_token(i) & token_sent(j, k));
invariant token_is_somewhere "The token is at a site or on its way.": (exists i. has_token(i)) | exists i, j. token_sent(i, j);
invariant passes_known "Nobody knows of a pass that did not happen.": known(i) <= passes;
invariant token_is_awaited "A token on its way is news to its receiver, and served for it (Lemma 1).":
    token_sent(j, i) -> i != j & known(i) < passes & waiting(i) & requesting(i);
invariant nobody_looks_to_itself "No site looks to itself, asks itself or writes to itself (I1).":
    !looks_to(i, i) & !asked(i, i) & !request_sent(i, i, n) & last(i, i) = zero;
invariant requesting_wants "Whom the token knows to be requesting waits or executes, on that request (I7, Lemma 1).":
    requesting(i) -> (waiting(i) | executing(i)) & served(i) = request(i);
invariant idle_is_served "A site that wants nothing was served.": !waiting(i) & !executing(i) -> served(i) = request(i);
invariant served_was_made "The token knows of no request that was not made.": served(i) <= request(i);
invariant sent_is_made "A REQUEST on its way is the present one, or one that was served.":
    request_sent(i, j, n) -> n = request(i) | n <= served(i);
invariant known_is_made "Whoever knows of a request knows of the present one, or of one that was served.":
    last(j, i) = request(i) | last(j, i) <= served(i);
invariant waits_for_service "A waiting site is yet to be served, or the token comes for it.":
    waiting(i) & !requesting(i) -> served(i) < request(i);
invariant unserved_is_looked_to "Whoever knows of a request that the token does not know looks to its site.":
    i != j & served(j) < last(i, j) -> looks_to(i, j);
invariant asks_all_it_looks_to "A waiting site has asked all it looks to (I2).": waiting(i) & looks_to(i, j) -> asked(i, j);
invariant holder_looks_to_nobody "A site with the idle token looks to nobody (I3), and an idle token knows of nobody who waits (I4).":
    holding(i) -> !looks_to(i, j) & !requesting(j);
invariant idle_asks_nobody "A site that wants nothing and has no token has nobody noted as asked.": idle(i) -> !asked(i, j);
invariant asked_will_look_back "Whoever was asked looks to who asked, or will hear of it.":
    asked(i, j) -> request_sent(i, j, request(i)) & last(j, i) < request(i) | last(j, i) = request(i) & looks_to(j, i);
invariant not_asked_has_not_heard "Whoever was not asked has not heard of the present request, and will not.":
    !idle(i) & i != j & !asked(i, j) -> last(j, i) < request(i) & !request_sent(i, j, request(i));
invariant one_looks_to_the_other "Of two sites one looks to the other, or will hear of it (I5).":
    i != j -> looks_to(i, j) | looks_to(j, i) | will_hear(i, j) | will_hear(j, i);
invariant all_look_to_the_holder "Every site looks to the one with the idle token, or a REQUEST is on its way between them (I6).":
    holding(i) & i != j -> looks_to(j, i) | will_hear(i, j) | will_hear(j, i);

safety exclusion "Two sites are never inside at once.": executing(i) & executing(j) -> i = j;

theorem no_refusal_of_tokens "A TOKEN is accepted.": token_sent(j, i) -> known(i) < passes & waiting(i);
theorem idle_token_is_asked_for "If the token is idle, whoever waits has asked for it, or a REQUEST is on its way between the two: no deadlock.":
    holding(i) & waiting(j) -> request_sent(j, i, request(j)) | will_hear(i, j) | will_hear(j, i);
"#;
