//! The delegated algorithm for one permit and every number of sites, beside `crates/protocol/src/algorithms/delegated`.
//!
//! Channels keep no order, and the permit starts with the leader, or with a site that is inside. A request is a site with a number. A
//! chain is a relation with a total order, `before`; the queue has one, `ahead`. Chains have the default length, N, so that the leader always
//! has room for everyone who waits: each of them once.

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers the algorithm for one permit, any leader and the default `chain`, over channels that keep no order. \
    Without failures, without modes and priorities, and without the one call that leaves and requests at once: there the request rides on the permit, a message that the \
    model does not have. With several \
    permits a chain takes a K-th of the queue, a number that the model cannot say.";

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "the leader forgets those that were appended too late",
        erratum: None,
        replaced: &[(
            "define kept(i, n, j, m) = before(i, n, j, m);",
            "define kept(i, n, j, m) = before(i, n, j, m) & queued(j, m);",
        )],
        fails_at: ("come_home", "waits_somewhere"),
    },
    WrongModel {
        about: "an APPEND is obeyed although it comes too late",
        erratum: None,
        replaced: &[(
            "    when append_sent(i, l, j, m) & l = number(i) & inside(i) & no_next;",
            "    when append_sent(i, l, j, m) & inside(i) & no_next;",
        )],
        fails_at: ("append_inside", "next_follows"),
    },
    WrongModel {
        about: "the last of a chain hands the permit back and keeps it",
        erratum: None,
        replaced: &[("    inside(i) := false;\n    release_sent", "    release_sent")],
        fails_at: ("hand_back", "one_place"),
    },
];

/// The deliberate bugs of the code, and where each breaks the tie.
pub const MUTANTS: &[(Mutant, &str)] = &[
    (
        Mutant::DelegatedForgottenTail,
        "step `− chain(site0, number1), − chain(site1, number1), − before(site1, number1, site0, number1), − release_sent(site1, number1), + home`",
    ),
    (
        Mutant::DelegatedLateRefused,
        "a step by itself: S1 refused a message of S0, which follows the algorithm: an append that comes too late",
    ),
];

/// The model.
pub const TEXT: &str = r#"
sort site, number;
ordered number;
var i, j, k, h, x, y: site;
var n, m, l, c, u, v: number;

fixed zero: number;
fixed relation succ(number, number);
fixed boss: site;

// The local process; an idle one is neither. How many requests it has made; while it waits, who it was told follows it.
relation waiting(site), inside(site), told(site, site, number);
function number(site): number;

// The dispatcher of the leader: the last request of each site that it knows, who waits and is in no chain, in order, whether the permit is
// here, and the running chain in order.
function last(site): number;
relation queued(site, number), ahead(site, site);
relation home, chain(site, number), before(site, number, site, number);

// The permit: who is to have it next, wherever it is.
relation next(site, number);

// REQ to the leader; PERM to a site, for its request; APPEND to a site, after its request: another one follows; REL from a site to the leader.
relation request_sent(site, number), perm_sent(site, number), append_sent(site, number, site, number), release_sent(site, number);
sent request_sent(i, n) from i to boss;
sent perm_sent(i, n) to i;
sent append_sent(i, n, j, m) from boss to i;
sent release_sent(i, n) from i to boss;

define idle(i) = !waiting(i) & !inside(i);
define nobody_queued = forall x, u. !queued(x, u);
define no_next = forall x, u. !next(x, u);
// Who has the permit, is sent it, or has sent it back.
define has(i, n) = inside(i) & n = number(i) | perm_sent(i, n) | release_sent(i, n);
// The first request comes right before the second in the chain.
define right_before(i, n, j, m) = before(i, n, j, m) & forall x, u. !(before(i, n, x, u) & before(x, u, j, m));
define tail(k, l) = chain(k, l) & forall x, u. !before(k, l, x, u);
// The chain that is left when the permit comes back from a request, and the one that is issued then.
define kept(i, n, j, m) = before(i, n, j, m);
define issued(i, n, j, m) = kept(i, n, j, m) | queued(j, m);
define ordered(i, n, x, u, y, v) = before(x, u, y, v) & kept(i, n, x, u) & kept(i, n, y, v)
    | kept(i, n, x, u) & queued(y, v) | queued(x, u) & queued(y, v) & ahead(x, y);
define first(i, n, j, m) = issued(i, n, j, m) & forall x, u. !ordered(i, n, x, u, j, m);

axiom zero_is_first "No number is before zero.": zero <= n;
axiom succ_rises "A number is before the one that follows it.": succ(n, m) -> n < m;
axiom succ_is_next "Nothing is between a number and the one that follows it.": succ(n, m) & n < l -> m <= l;

init one_permit "The permit is with the leader, or at one site that is inside; that one is the chain.":
    (home | exists i. inside(i)) & !(home & inside(i)) & (inside(i) & inside(j) -> i = j) & (chain(i, n) <-> inside(i) & n = zero);
init nobody_waits "Nobody waits, and nobody has made a request.": !waiting(i) & !told(i, j, n) & number(i) = zero & last(i) = zero;
init empty_queue "Nobody is queued or follows anyone.": !queued(i, n) & !ahead(i, j) & !before(i, n, j, m) & !next(i, n);
init nothing_is_sent "Nothing is on its way.":
    !request_sent(i, n) & !perm_sent(i, n) & !append_sent(i, n, j, m) & !release_sent(i, n);

action ask(i, n) "A member asks the leader." {
    when i != boss & idle(i) & succ(number(i), n);
    number(i) := n;
    waiting(i) := true;
    request_sent(i, n) := true;
}

action enter_own(n) "The leader itself, with the permit at home, enters at once." {
    when idle(boss) & home & succ(number(boss), n);
    number(boss) := n;
    last(boss) := n;
    inside(boss) := true;
    home := false;
    chain(boss, n) := true;
}

action queue_own(n) "The leader itself, with the permit out, queues its request." {
    when idle(boss) & !home & succ(number(boss), n);
    number(boss) := n;
    last(boss) := n;
    waiting(boss) := true;
    queued(boss, n) := true;
    ahead(x, boss) := x != boss & exists u. queued(x, u);
}

action append_own(n, k, l) "The leader itself joins the chain; its tail is told." {
    when idle(boss) & !home & nobody_queued & succ(number(boss), n) & k != boss & tail(k, l);
    number(boss) := n;
    last(boss) := n;
    waiting(boss) := true;
    chain(boss, n) := true;
    before(x, u, boss, n) := chain(x, u);
    append_sent(k, l, boss, n) := true;
}

action grant(i, n) "A request comes, and the permit is at home." {
    when request_sent(i, n) & succ(last(i), n) & i != boss & home;
    request_sent(i, n) := false;
    last(i) := n;
    home := false;
    chain(i, n) := true;
    perm_sent(i, n) := true;
}

action queue(i, n) "A request comes, and the permit is out." {
    when request_sent(i, n) & succ(last(i), n) & i != boss & !home;
    request_sent(i, n) := false;
    last(i) := n;
    queued(i, n) := true;
    ahead(x, i) := x != i & exists u. queued(x, u);
}

action append(i, n, k, l) "A request comes, joins the chain, and its tail is told." {
    when request_sent(i, n) & succ(last(i), n) & i != boss & !home & nobody_queued & k != i & tail(k, l) & k != boss;
    request_sent(i, n) := false;
    last(i) := n;
    chain(i, n) := true;
    before(x, u, i, n) := chain(x, u);
    append_sent(k, l, i, n) := true;
}

action append_to_own(i, n, l) "A request comes and joins the chain, whose tail is the leader itself." {
    when request_sent(i, n) & succ(last(i), n) & i != boss & !home & nobody_queued & tail(boss, l);
    request_sent(i, n) := false;
    last(i) := n;
    chain(i, n) := true;
    before(x, u, i, n) := chain(x, u);
    told(boss, i, n) := told(boss, i, n) | l = number(boss) & waiting(boss);
    next(i, n) := next(i, n) | l = number(boss) & inside(boss);
}

action enter(i, n) "The permit comes: enter. What the leader said of the next one counts if the permit names nobody." {
    when perm_sent(i, n) & waiting(i) & n = number(i);
    perm_sent(i, n) := false;
    waiting(i) := false;
    inside(i) := true;
    next(j, m) := next(j, m) | told(i, j, m) & no_next;
    told(i, j, m) := false;
}

action append_waiting(i, l, j, m) "An APPEND comes to a site that waits." {
    when append_sent(i, l, j, m) & l = number(i) & waiting(i) & forall x, u. !told(i, x, u);
    append_sent(i, l, j, m) := false;
    told(i, j, m) := true;
}

action append_inside(i, l, j, m) "An APPEND comes to a site that is inside." {
    when append_sent(i, l, j, m) & l = number(i) & inside(i) & no_next;
    append_sent(i, l, j, m) := false;
    next(j, m) := true;
}

action append_known(i, l, j, m) "An APPEND comes to a site that is inside, and whose permit names that one already." {
    when append_sent(i, l, j, m) & l = number(i) & inside(i) & next(j, m);
    append_sent(i, l, j, m) := false;
}

action append_late(i, l, j, m) "An APPEND comes too late: the permit was handed on." {
    when append_sent(i, l, j, m) & (l < number(i) | idle(i));
    append_sent(i, l, j, m) := false;
}

action hand_on(i, j, m) "A site leaves: the permit goes to the next of the chain." {
    when inside(i) & next(j, m) & forall x, u. next(x, u) -> !before(x, u, j, m);
    inside(i) := false;
    next(j, m) := false;
    perm_sent(j, m) := true;
}

action hand_back(i) "A member leaves, and nobody follows that it knows of: the permit goes to the leader." {
    when inside(i) & no_next & i != boss;
    inside(i) := false;
    release_sent(i, number(i)) := true;
}

action come_home(i, n) "The permit comes back, and nobody waits." {
    when release_sent(i, n) & chain(i, n) & !home & forall x, u. !issued(i, n, x, u);
    release_sent(i, n) := false;
    home := true;
    chain(x, u) := false;
    before(x, u, y, v) := false;
}

action issue(i, n, j, m) "The permit comes back, and the next chain is issued: who was appended too late, and the queue." {
    when release_sent(i, n) & chain(i, n) & !home & first(i, n, j, m) & j != boss;
    release_sent(i, n) := false;
    chain(x, u) := issued(i, n, x, u);
    before(x, u, y, v) := ordered(i, n, x, u, y, v);
    next(x, u) := issued(i, n, x, u) & !(x = j & u = m);
    queued(x, u) := false;
    ahead(x, y) := false;
    perm_sent(j, m) := true;
}

action issue_own(i, n, m) "The same, and the leader itself is its first." {
    when release_sent(i, n) & chain(i, n) & !home & first(i, n, boss, m);
    release_sent(i, n) := false;
    chain(x, u) := issued(i, n, x, u);
    before(x, u, y, v) := ordered(i, n, x, u, y, v);
    next(x, u) := issued(i, n, x, u) & !(x = boss & u = m);
    queued(x, u) := false;
    ahead(x, y) := false;
    waiting(boss) := false;
    inside(boss) := true;
    told(boss, x, u) := false;
}

action leave_own "The leader itself leaves, as the last of the chain, and nobody waits." {
    when inside(boss) & no_next & chain(boss, number(boss)) & forall x, u. !issued(boss, number(boss), x, u);
    inside(boss) := false;
    home := true;
    chain(x, u) := false;
    before(x, u, y, v) := false;
}

action leave_and_issue(j, m) "The leader itself leaves, as the last of the chain, and issues the next one." {
    when inside(boss) & no_next & chain(boss, number(boss)) & first(boss, number(boss), j, m);
    inside(boss) := false;
    chain(x, u) := issued(boss, number(boss), x, u);
    before(x, u, y, v) := ordered(boss, number(boss), x, u, y, v);
    next(x, u) := issued(boss, number(boss), x, u) & !(x = j & u = m);
    queued(x, u) := false;
    ahead(x, y) := false;
    perm_sent(j, m) := true;
}

invariant one_phase "A process does not wait and execute at once.": !(waiting(i) & inside(i));
invariant one_place "The permit is in one place (I5).":
    (has(i, n) & has(j, m) -> i = j & n = m) & !(home & has(i, n)) & !(inside(i) & (perm_sent(i, n) | release_sent(i, n))) & !(perm_sent(i, n) & release_sent(i, n));
invariant somewhere "The permit is somewhere (I5).": home | (exists i. inside(i)) | (exists j, m. perm_sent(j, m)) | (exists k, l. release_sent(k, l));
invariant home_is_idle "While the permit is at home nobody is queued, and it has no chain (I2, I3).": home -> !queued(i, n) & !chain(i, n);
invariant numbers "The leader knows all but the last request of each site, or all; a request that it does not know is on its way.":
    (last(i) = number(i) | succ(last(i), number(i)) & waiting(i) & request_sent(i, number(i))) & (i = boss -> last(i) = number(i));
invariant asked_once "A REQ on its way is the site's last, and is nowhere else.":
    request_sent(i, n) -> waiting(i) & n = number(i) & succ(last(i), n) & i != boss;
invariant queued_waits "Whoever is queued waits, and is in no chain.": queued(i, n) -> waiting(i) & n = number(i) & n = last(i) & !chain(i, n);
invariant queue_in_order "The queue is in order (I4).":
    (ahead(i, j) -> (exists n. queued(i, n)) & (exists m. queued(j, m)) & !ahead(j, i) & i != j) & (ahead(i, j) & ahead(j, k) -> ahead(i, k))
        & (queued(i, n) & queued(j, m) & i != j -> ahead(i, j) | ahead(j, i));
invariant chain_in_order "The chain is in order.":
    (before(i, n, j, m) -> chain(i, n) & chain(j, m) & !before(j, m, i, n)) & (before(i, n, j, m) & before(j, m, k, l) -> before(i, n, k, l))
        & (chain(i, n) & chain(j, m) -> i = j & n = m | before(i, n, j, m) | before(j, m, i, n));
invariant chain_is_known "A chain has requests that the leader knows.": chain(i, n) -> n <= last(i);
invariant holder_in_chain "Whoever has the permit is in the chain (I6).": has(i, n) -> chain(i, n);
invariant permit_is_meant "Whoever is sent the permit waits with that request; whoever has handed it back does not.":
    (perm_sent(i, n) -> waiting(i) & n = number(i)) & (release_sent(i, n) -> n < number(i) | idle(i) & n = number(i)) & (release_sent(i, n) -> i != boss);
invariant followers_wait "Who follows the permit's place in the chain waits.":
    has(i, n) & before(i, n, j, m) -> waiting(j) & m = number(j);
invariant served_is_over "Who precedes it was served.": has(i, n) & before(j, m, i, n) -> m < number(j) | idle(j);
invariant next_follows "Whom the permit names follow its place in the chain, without a gap (I6).":
    (next(j, m) -> !home & !release_sent(i, n)) & (next(j, m) & has(i, n) -> before(i, n, j, m))
        & (next(j, m) & has(i, n) & before(i, n, k, l) & before(k, l, j, m) -> next(k, l));
invariant told_follows "Whoever waits and is told what follows it is followed by that in its chain (I7).":
    told(i, j, m) -> waiting(i) & right_before(i, number(i), j, m);
invariant append_is_right "An APPEND that comes in time is right.":
    append_sent(i, l, j, m) -> i != j & l <= number(i) & (l = number(i) & !idle(i) -> right_before(i, l, j, m));
invariant waits_somewhere "Whoever waits has a REQ on its way, is queued, or is in the chain.":
    waiting(i) -> request_sent(i, number(i)) | queued(i, number(i)) | chain(i, number(i));

safety exclusion "Two sites are never inside at once.": inside(i) & inside(j) -> i = j;

theorem no_refusal_of_permits "Every PERM, and every REL, is one that its receiver accepts.":
    (perm_sent(i, n) -> waiting(i) & n = number(i) & !next(i, m)) & (release_sent(i, n) -> !home & chain(i, n) & !next(j, m));
theorem no_refusal_of_appends "Every APPEND is one that its receiver accepts.":
    append_sent(i, l, j, m) -> l <= number(i) & i != j
        & (l = number(i) & told(i, x, u) -> x = j & u = m);
theorem no_refusal_of_requests "Every REQ is one that the leader accepts.": request_sent(i, n) -> succ(last(i), n) & !queued(i, m);
theorem permit_moves "If somebody waits, its REQ or the permit is on its way, or somebody is inside: no deadlock.":
    waiting(i) -> request_sent(i, number(i)) | (exists j. inside(j)) | (exists j, m. perm_sent(j, m)) | (exists j, m. release_sent(j, m));
"#;
