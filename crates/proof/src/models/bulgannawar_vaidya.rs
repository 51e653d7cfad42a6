//! Bulgannawar and Vaidya's algorithm for every number of sites and of tokens, beside
//! `crates/protocol/src/algorithms/bulgannawar_vaidya`.
//!
//! Channels keep no order here. The tokens are a sort; how many there are is nowhere said. Everyone who is inside has a token of its own
//! there, so K tokens let in K at most. Left open are the order of the queues, which token a site asks for, and what a tag says: the
//! pointer that it mends may come to point anywhere else. That the pointers of a token lead to it is not needed for exclusion, and is
//! not proved. So a request may come to its own site, and be refused.

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers exclusion, for any number of tokens that is not larger than that of sites, over channels that keep no \
    order. That every request finds its token, and that pointers never lead round in a circle, is left to the explorer: a \
    request may be refused in the model. Left open are the order of service, which token is asked for, and where a tag leads, and so are all \
    options. Without crashes.";

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "every INFORM is obeyed, however old",
        erratum: Some("bulgannawar-vaidya-inform"),
        replaced: &[(
            "    when inform_sent(j, i, p, n) & possessions(i, p) < n;",
            "    when inform_sent(j, i, p, n);",
        )],
        fails_at: ("inform", "held_points_here"),
    },
    WrongModel {
        about: "the pointer of the token that came turns to the tag, not that of the token asked for",
        erratum: Some("bulgannawar-vaidya-token-prose"),
        replaced: &[(
            "    pointer(i, q, y) := if_other(i, p, w, q, x, y);",
            "    pointer(i, q, y) := if_other(i, p, p, q, x, y);",
        )],
        fails_at: ("enter_with_another", "held_points_here"),
    },
    WrongModel {
        about: "an idle holder turns the pointer of the token that was asked for, not of the one it gives",
        erratum: Some("bulgannawar-vaidya-holder-prose"),
        replaced: &[(
            "    keeping(i, p) := false;\n    pointer(i, p, y) := y = k;",
            "    keeping(i, p) := false;\n    pointer(i, w, y) := y = k;",
        )],
        fails_at: ("give", "points_to_others"),
    },
    WrongModel {
        about: "an idle holder queues the request, and does not send the token",
        erratum: Some("bulgannawar-vaidya-holder-silent"),
        replaced: &[(
            "    keeping(i, p) := false;\n    pointer(i, p, y) := y = k;\n    token_sent(k, p, n) := true;",
            "    pointer(i, p, y) := y = k;\n    queued(p, k, n) := true;",
        )],
        fails_at: ("give", "kept_has_no_queue"),
    },
    WrongModel {
        about: "a site that gives a token away keeps it, too",
        erratum: None,
        replaced: &[("    keeping(i, p) := false;\n    pointer", "    pointer")],
        fails_at: ("give", "here_or_there"),
    },
];

/// The deliberate bugs of the code, and where each breaks the tie.
pub const MUTANTS: &[(Mutant, &str)] = &[(
    Mutant::BulgannawarVaidyaStaleInform,
    "step `− pointer(site2, permit0, site1), − possessions(site2, permit0) = number1, − inform_sent(site0, site2, permit0, number0), + pointer(site2, permit0, site0), + possessions(site2, permit0) = number0`",
)];

/// The model.
pub const TEXT: &str = r#"
sort site, number, permit;
ordered number;
var i, j, k, x, y, y1, y2, i1, j1: site;
var n, m, l, c: number;
var p, q, w, v: permit;

fixed zero: number;
fixed relation succ(number, number);

// The local process, and the tokens: whoever waits wants one of them. An idle one may keep a token; one inside uses one.
relation waiting(site), inside(site), wants(site, permit), keeping(site, permit), uses(site, permit);
// How many requests a site has made; the requests in its node-queue.
function requests(site): number;
relation noted(site, site, number);
// What a site knows of each token: its parent in the token's forest, and the most possessions that it knows of.
relation pointer(site, permit, site);
function possessions(site, permit): number;

// A token: who is in its queue, and how often it has been received.
relation queued(permit, site, number);
function received(permit): number;

// REQUEST from the first site to the second, for the third and its request, asking for a token; TOKEN to a site, for its request; INFORM.
relation request_sent(site, site, site, number, permit), token_sent(site, permit, number), inform_sent(site, site, permit, number);
sent token_sent(i, p, n) to i;

// Of the proof only: the present request of this site was refused.
ghost relation refused(site);

define here(i, p) = keeping(i, p) | uses(i, p);
define has_none(i) = forall v. !keeping(i, v) & !uses(i, v);
// The pointer of token q at site i after it got token p: to itself for p, to x for w.
define if_informed(i, p, j, y) = wants(i, p) & pointer(i, p, y) | !wants(i, p) & y = j;
define if_other(i, p, w, q, x, y) = q = w & y = x | q != w & q = p & y = i | q != w & q != p & pointer(i, q, y);

axiom zero_is_first "No number is before zero.": zero <= n;
axiom succ_rises "A number is before the one that follows it.": succ(n, m) -> n < m;

init one_place "A token is at one site, which has no other, and used or kept there.":
    (here(i, p) & here(j, p) -> i = j) & (here(i, p) & here(i, q) -> p = q) & !(keeping(i, p) & uses(i, q)) & exists k. here(k, p);
init own_token_at_start "Whoever is inside uses a token, and nobody waits.": (inside(i) <-> exists p. uses(i, p)) & !waiting(i) & !wants(i, p);
init pointers_at_start "Every pointer leads to the token.": (pointer(i, p, x) -> here(x, p)) & (here(i, p) -> pointer(i, p, i));
init numbers_are_zero "Nobody has made a request, and no token was received.":
    requests(i) = zero & possessions(i, p) = zero & received(p) = zero & !noted(i, k, n) & !queued(p, k, n);
init nobody_is_refused "No request was refused.": refused(i) <-> false;
init nothing_is_sent "Nothing is on its way.": !request_sent(i, j, k, n, p) & !token_sent(i, p, n) & !inform_sent(i, j, p, n);

action enter_at_once(i, p, n) "Entry_CS with a token." {
    when keeping(i, p) & succ(requests(i), n);
    requests(i) := n;
    keeping(i, p) := false;
    uses(i, p) := true;
    inside(i) := true;
}

action ask(i, w, x, n) "Entry_CS without a token: choose one, and send the request along its pointer." {
    when !waiting(i) & !inside(i) & has_none(i) & pointer(i, w, x) & succ(requests(i), n);
    requests(i) := n;
    waiting(i) := true;
    wants(i, w) := true;
    refused(i) := false;
    request_sent(i, x, i, n, w) := true;
}

action absorb(i, j, k, n, w, p) "Handle_REQUEST, inside with a token: the request joins its queue." {
    when request_sent(j, i, k, n, w) & k != i & uses(i, p);
    request_sent(j, i, k, n, w) := false;
    queued(p, k, n) := true;
}

action give(i, j, k, n, w, p) "Handle_REQUEST, idle with a token: it goes to the requester." {
    when request_sent(j, i, k, n, w) & k != i & keeping(i, p);
    request_sent(j, i, k, n, w) := false;
    keeping(i, p) := false;
    pointer(i, p, y) := y = k;
    token_sent(k, p, n) := true;
}

action note(i, j, k, n, w) "Handle_REQUEST, waiting for the same token: the request joins the node-queue." {
    when request_sent(j, i, k, n, w) & k != i & waiting(i) & wants(i, w);
    request_sent(j, i, k, n, w) := false;
    noted(i, k, n) := true;
}

action pass_on(i, j, k, n, w, x) "Handle_REQUEST, without a token: along the pointer, which turns to the requester." {
    when request_sent(j, i, k, n, w) & k != i & !inside(i) & has_none(i) & !wants(i, w) & pointer(i, w, x);
    request_sent(i1, j1, y, m, v) := request_sent(i1, j1, y, m, v) & !(i1 = j & j1 = i & y = k & m = n & v = w)
        | i1 = i & j1 = x & y = k & m = n & v = w;
    pointer(i, w, y) := y = k;
}

action refuse(i, j, k, n, w) "A request that comes to its own site, or a second time, is refused." {
    when request_sent(j, i, k, n, w);
    request_sent(j, i, k, n, w) := false;
    refused(k) := true;
}

action enter(i, p, n, m) "Handle_TOKEN: the token that the site asked for comes." {
    when token_sent(i, p, n) & waiting(i) & n = requests(i) & wants(i, p) & succ(received(p), m);
    token_sent(i, p, n) := false;
    waiting(i) := false;
    wants(i, p) := false;
    inside(i) := true;
    uses(i, p) := true;
    received(p) := m;
    possessions(i, p) := m;
    pointer(i, p, y) := y = i;
    queued(p, k, l) := queued(p, k, l) | noted(i, k, l);
    noted(i, k, l) := false;
}

action enter_with_another(i, p, n, m, w, x, c) "Handle_TOKEN: another token comes, and its tag mends the pointer of the one asked for." {
    when token_sent(i, p, n) & waiting(i) & n = requests(i) & wants(i, w) & w != p & succ(received(p), m);
    when x != i & possessions(i, w) <= c;
    token_sent(i, p, n) := false;
    waiting(i) := false;
    wants(i, w) := false;
    inside(i) := true;
    uses(i, p) := true;
    received(p) := m;
    possessions(i, q) := if q = p then m else if q = w then c else possessions(i, q);
    pointer(i, q, y) := if_other(i, p, w, q, x, y);
    queued(p, k, l) := queued(p, k, l) | noted(i, k, l);
    noted(i, k, l) := false;
}

action inform(i, j, p, n) "Handle_INFORM, of news: the pointer turns to the sender, unless the site waits for this token." {
    when inform_sent(j, i, p, n) & possessions(i, p) < n;
    inform_sent(j, i, p, n) := false;
    possessions(i, p) := n;
    pointer(i, p, y) := if_informed(i, p, j, y);
}

action inform_first(i, j, p, n) "The same, and the sender, which has entered again with that token, has sent the same once more." {
    when inform_sent(j, i, p, n) & possessions(i, p) < n;
    possessions(i, p) := n;
    pointer(i, p, y) := if_informed(i, p, j, y);
}

action stale(i, j, p, n) "Handle_INFORM, of what is known." {
    when inform_sent(j, i, p, n) & n <= possessions(i, p);
    inform_sent(j, i, p, n) := false;
}

action leave_and_keep(i, p, y1, y2) "Exit_CS, nobody is queued: the token stays, and two others are told." {
    when uses(i, p) & forall k, n. !queued(p, k, n);
    uses(i, p) := false;
    inside(i) := false;
    keeping(i, p) := true;
    inform_sent(i, y, p, n) := inform_sent(i, y, p, n) | y != i & (y = y1 | y = y2) & n = received(p);
}

action leave_and_give(i, p, k, n, x) "Exit_CS: the token goes to the first of its queue, and the pointer turns to one of it." {
    when uses(i, p) & queued(p, k, n) & exists m. queued(p, x, m);
    uses(i, p) := false;
    inside(i) := false;
    queued(p, k, n) := false;
    token_sent(k, p, n) := true;
    pointer(i, p, y) := y = x;
}

invariant one_here "A token is at one site at most.": here(i, p) & here(j, p) -> i = j;
invariant one_each "A site has one token at most, used or kept.": (here(i, p) & here(i, q) -> p = q) & !(keeping(i, p) & uses(i, q));
invariant one_on_its_way "A token is on its way at most once (I5).": token_sent(i, p, n) & token_sent(j, p, m) -> i = j & n = m;
invariant here_or_there "A token is not at a site while it is on its way (I5).": !(here(i, p) & token_sent(j, p, n));
invariant one_phase "A process is in one state at a time, and whoever waits has no token.":
    !(waiting(i) & inside(i)) & !(waiting(i) & here(i, p)) & !(inside(i) & keeping(i, p)) & (uses(i, p) -> inside(i));
invariant wants_one "Whoever wants a token waits for it, and for one only.": (wants(i, p) -> waiting(i)) & (wants(i, p) & wants(i, q) -> p = q);
invariant held_points_here "The pointer of a token that is here is the site itself (I3).": here(i, p) & pointer(i, p, x) -> x = i;
invariant points_to_others "No other pointer is (I3).": pointer(i, p, i) -> here(i, p);
invariant kept_has_no_queue "The queue of a token that is kept unused is empty (I2).": keeping(i, p) -> !queued(p, k, n);
invariant noted_while_waiting "Only a waiting site keeps requests in its node-queue (I1).": noted(i, k, n) -> waiting(i) & k != i;
invariant asked_waits "Whoever is asked for waits, with its last request.":
    (request_sent(j, i, k, n, w) -> waiting(k) & n = requests(k)) & (noted(i, k, n) -> waiting(k) & n = requests(k));
invariant queued_waits "Whoever is queued, or gets a token, waits, with its last request.":
    (queued(p, k, n) -> waiting(k) & n = requests(k)) & (token_sent(k, p, n) -> waiting(k) & n = requests(k));
invariant one_request "One message at most asks for a site (I4).":
    request_sent(j, i, k, n, w) & request_sent(x, y, k, m, v) -> j = x & i = y & w = v;
invariant one_note "A request is in one node-queue at most (I4).": noted(i, k, n) & noted(j, k, m) -> i = j;
invariant one_queue "A request is in one token-queue at most (I4).": queued(p, k, n) & queued(q, k, m) -> p = q;
invariant one_token "One token at most is on its way to a site (I4).": token_sent(k, p, n) & token_sent(k, q, m) -> p = q;
invariant sent_or_noted "A request on its way is in no queue, and no token is on its way to its site (I4).":
    request_sent(j, i, k, n, w) -> !noted(x, k, m) & !queued(p, k, m) & !token_sent(k, p, m);
invariant noted_or_queued "A request in a node-queue is in no token-queue, and no token is on its way to its site (I4).":
    noted(i, k, n) -> !queued(p, k, m) & !token_sent(k, p, m);
invariant queued_or_served "A request in a token-queue has no token on its way to its site (I4).":
    queued(p, k, n) -> !token_sent(k, q, m);
invariant holder_knows "The site that has a token knows how often it was received, and nobody says more.":
    (here(i, p) -> possessions(i, p) = received(p)) & (inform_sent(i, j, p, n) -> i != j & n <= received(p));

progress waits_somewhere "Whoever waits, and was not refused, has its request on its way, in a queue, or a token on its way to it.":
    waiting(k) & !refused(k) -> (exists i, j, n, p. request_sent(j, i, k, n, p)) | (exists i, n. noted(i, k, n))
        | (exists p, n. queued(p, k, n)) | exists p, n. token_sent(k, p, n);
progress no_token_is_lost "Every token is at a site or on its way.": exists i. here(i, p) | exists n. token_sent(i, p, n);

safety exclusion "Everyone inside has a token of its own, so that K at most are inside.":
    (inside(i) -> exists p. uses(i, p)) & (uses(i, p) & uses(j, p) -> i = j);

theorem no_refusal_of_tokens "Every TOKEN is one that its receiver accepts.":
    token_sent(i, p, n) -> waiting(i) & n = requests(i) & !here(i, q);
theorem no_refusal_of_informs "No INFORM is news of a token that is here.": inform_sent(j, i, p, n) & here(i, p) -> n <= possessions(i, p);
"#;
