//! Raymond's algorithm for every number of sites and every tree, beside `crates/protocol/src/algorithms/raymond`.
//!
//! Channels keep no order, and the privilege starts at any one site, which may be inside. Which of those that are queued is the head is
//! left open.
//!
//! The tree is a relation `toward(i, r, k)`: k is the neighbour of i on the way to r. All that is assumed of it is what it takes to
//! move the goal along an edge: from everywhere but its two ends the way stays the same. So "every HOLDER leads to the privilege"
//! is a clause about single sites. That this is no circle follows from `nearer`, an order for each goal that every way descends.

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers the algorithm as it ships, for every tree, over channels that keep no order. The order of service is \
    left open. Without failures, hence without RESTART and ADVISE, with HOLDER set at the start.";

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "a site that passes the privilege on does not ask for it again on behalf of the others",
        erratum: None,
        replaced: &[(
            "    asked(i) := true;\n    request_sent(i, k, n) := true;\n    privilege_sent(i, k, n) := true;\n    crossings(i, k) := n;",
            "    asked(i) := false;\n    privilege_sent(i, k, n) := true;\n    crossings(i, k) := n;",
        )],
        fails_at: ("leave_and_ask", "queued_is_asked_for"),
    },
    WrongModel {
        about: "a site that passes the privilege on goes on taking itself for its HOLDER",
        erratum: None,
        replaced: &[("    here(i) := false;\n    via(i, x) := x = j;", "    via(i, x) := x = j;")],
        fails_at: ("pass_at_once", "here_or_there"),
    },
    WrongModel {
        about: "a site that gets the privilege does not turn its edge round",
        erratum: None,
        replaced: &[(
            "    via(i, x) := x = k;\n    asked(i) := false;\n    crossings(i, x) := if",
            "    asked(i) := false;\n    crossings(i, x) := if",
        )],
        fails_at: ("pass_on", "holders_lead_along"),
    },
];

/// The deliberate bugs of the code, and where each breaks the tie.
pub const MUTANTS: &[(Mutant, &str)] = &[(
    Mutant::RaymondForgottenRequest,
    "step `− inside(site0), − here(site0), − queued(site0, site1), − crossings(site0, site1) = number0, + via(site0, site1), + crossings(site0, site1) = number1, + privilege_sent(site0, site1, number1)`",
)];

/// The model.
pub const TEXT: &str = r#"
sort site, number;
ordered number;
var i, j, k, h, r, x, y: site;
var n, m, l: number;

fixed zero: number;
fixed relation succ(number, number);
// The tree: `k` is the neighbour of `i` on the way to `r`; and `k` is nearer to `r` than `i`, on that way.
fixed relation toward(site, site, site), nearer(site, site, site);

// The local process; an idle one is neither.
relation waiting(site), inside(site);
// `HOLDER`: the site itself, or this neighbour.
relation here(site), via(site, site);
// `ASKED`, and `REQUEST_Q`: the neighbours of the first that wait for the privilege, and itself.
relation asked(site), queued(site, site);
// How often the privilege has crossed the edge to the second site, as far as the first knows.
function crossings(site, site): number;

// REQUEST and PRIVILEGE from the first site to the second, with the crossings of the edge between them.
relation request_sent(site, site, number), privilege_sent(site, site, number);

define idle(i) = !waiting(i) & !inside(i);
define edge(i, j) = toward(i, j, j);
define others_queued(i, k) = exists y. y != k & queued(i, y);

axiom zero_is_first "No number is before zero.": zero <= n;
axiom succ_rises "A number is before the one that follows it.": succ(n, m) -> n < m;
axiom succ_is_unique "One number follows each.": succ(n, m) & succ(n, l) -> m = l;
axiom one_way "One neighbour is on the way to each site.": toward(i, r, k) & toward(i, r, h) -> k = h;
axiom no_way_home "No way leads from a site to itself.": !toward(i, i, k) & !toward(i, r, i);
axiom edges_are_mutual "Whoever is a neighbour has the other one for its neighbour.":
    (toward(i, r, k) -> toward(i, k, k)) & (toward(i, k, k) -> toward(k, i, i));
axiom ways_along_an_edge "From everywhere else the way to one end of an edge is the way to the other.":
    edge(r, h) & i != r & i != h & toward(i, r, k) -> toward(i, h, k);
axiom ways_lead_nearer "The neighbour on the way is nearer.": toward(i, r, k) -> nearer(k, i, r);
axiom nearer_is_an_order "Nearer is an order.": !nearer(i, i, r) & (nearer(i, j, r) & nearer(j, k, r) -> nearer(i, k, r));

init one_privilege "The privilege is at exactly one site.": (here(i) & here(j) -> i = j) & exists r. here(r);
init only_there "Only there somebody may be inside, and nobody waits.": (inside(i) -> here(i)) & !waiting(i) & !asked(i) & !queued(i, j);
init holders_at_start "Every HOLDER is on the way to it.": (via(i, k) & here(r) -> toward(i, r, k)) & (here(i) <-> !(exists k. via(i, k))) & (via(i, k) & via(i, j) -> k = j);
init nothing_is_sent "Nothing is on its way, and the privilege has not moved.": !request_sent(i, j, n) & !privilege_sent(i, j, n) & crossings(i, j) = zero;

action enter_at_once(i) "Table 9.2: a node with the privilege wants to enter." {
    when here(i) & idle(i);
    inside(i) := true;
}

action ask(i, h) "Table 9.2: a node wants to enter, and asks its HOLDER." {
    when idle(i) & via(i, h) & !asked(i);
    waiting(i) := true;
    queued(i, i) := true;
    asked(i) := true;
    request_sent(i, h, n) := request_sent(i, h, n) | n = crossings(i, h);
}

action queue_own(i) "Table 9.2: a node wants to enter, and its HOLDER is asked already." {
    when idle(i) & !here(i) & asked(i);
    waiting(i) := true;
    queued(i, i) := true;
}

action queue(i, j, n) "Table 9.2: a REQUEST comes to a node that is inside, or has asked its HOLDER." {
    when request_sent(j, i, n) & !queued(i, j) & (here(i) & inside(i) | !here(i) & asked(i));
    request_sent(j, i, n) := false;
    queued(i, j) := true;
}

action queue_and_ask(i, j, h, n) "Table 9.2: a REQUEST comes to a node that has not asked its HOLDER." {
    when request_sent(j, i, n) & !queued(i, j) & via(i, h) & !asked(i);
    request_sent(x, y, m) := request_sent(x, y, m) & !(x = j & y = i & m = n) | x = i & y = h & m = crossings(i, h);
    queued(i, j) := true;
    asked(i) := true;
}

action pass_at_once(i, j, n, m) "Table 9.2: a REQUEST comes to a node that has the privilege unused." {
    when request_sent(j, i, n) & here(i) & !inside(i) & succ(crossings(i, j), m);
    request_sent(j, i, n) := false;
    here(i) := false;
    via(i, x) := x = j;
    crossings(i, j) := m;
    privilege_sent(i, j, m) := true;
}

action enter(i, j, n) "Table 9.2: the PRIVILEGE comes, and the node itself is the head of its queue." {
    when privilege_sent(j, i, n) & via(i, j) & queued(i, i);
    privilege_sent(j, i, n) := false;
    here(i) := true;
    via(i, x) := false;
    asked(i) := false;
    queued(i, i) := false;
    waiting(i) := false;
    inside(i) := true;
    crossings(i, j) := n;
}

action pass_on(i, j, k, n, m) "Table 9.2: the PRIVILEGE comes, and goes on to the only one that is queued." {
    when privilege_sent(j, i, n) & via(i, j) & k != i & queued(i, k) & !others_queued(i, k);
    when succ(if k = j then n else crossings(i, k), m);
    privilege_sent(x, y, l) := privilege_sent(x, y, l) & !(x = j & y = i & l = n) | x = i & y = k & l = m;
    queued(i, k) := false;
    via(i, x) := x = k;
    asked(i) := false;
    crossings(i, x) := if x = k then m else if x = j then n else crossings(i, x);
}

action pass_on_and_ask(i, j, k, n, m) "Table 9.2: the PRIVILEGE comes, goes on to the head, and is asked for again." {
    when privilege_sent(j, i, n) & via(i, j) & k != i & queued(i, k) & others_queued(i, k);
    when succ(if k = j then n else crossings(i, k), m);
    privilege_sent(x, y, l) := privilege_sent(x, y, l) & !(x = j & y = i & l = n) | x = i & y = k & l = m;
    queued(i, k) := false;
    via(i, x) := x = k;
    request_sent(i, k, m) := true;
    crossings(i, x) := if x = k then m else if x = j then n else crossings(i, x);
}

action leave(i) "Table 9.2: a node leaves, and nobody is queued." {
    when inside(i) & !(exists k. queued(i, k));
    inside(i) := false;
}

action leave_and_pass(i, k, n) "Table 9.2: a node leaves, and the privilege goes to the only one that is queued." {
    when inside(i) & queued(i, k) & !others_queued(i, k) & succ(crossings(i, k), n);
    inside(i) := false;
    queued(i, k) := false;
    here(i) := false;
    via(i, x) := x = k;
    privilege_sent(i, k, n) := true;
    crossings(i, k) := n;
}

action leave_and_ask(i, k, n) "Table 9.2: a node leaves, the privilege goes to the head, and is asked for again." {
    when inside(i) & queued(i, k) & others_queued(i, k) & succ(crossings(i, k), n);
    inside(i) := false;
    queued(i, k) := false;
    here(i) := false;
    via(i, x) := x = k;
    asked(i) := true;
    request_sent(i, k, n) := true;
    privilege_sent(i, k, n) := true;
    crossings(i, k) := n;
}

invariant one_here "At most one site has the privilege.": here(i) & here(j) -> i = j;
invariant one_on_its_way "At most one PRIVILEGE is on its way.":
    privilege_sent(i, j, n) & privilege_sent(x, y, m) -> i = x & j = y & n = m;
invariant here_or_there "The privilege is not at a site while it is on its way.": !(here(i) & privilege_sent(j, k, n));
invariant privilege_is_somewhere "The privilege is at a site or on its way.": (exists i. here(i)) | exists i, j, n. privilege_sent(i, j, n);
invariant inside_has_it "Whoever is inside has it (I2), and does not wait.": inside(i) -> here(i) & !waiting(i);
invariant one_holder "A site has one HOLDER.": (via(i, j) & via(i, k) -> j = k) & !(here(i) & via(i, k));
invariant holder_is_near "A HOLDER is a neighbour.": via(i, k) -> edge(i, k);
invariant edge_turns "Two neighbours have each other for their HOLDER only while the PRIVILEGE is between them.":
    via(i, j) & via(j, i) -> privilege_sent(i, j, crossings(i, j)) | privilege_sent(j, i, crossings(j, i));
invariant knows_the_way "A site that has not the privilege has a HOLDER.": here(i) | exists k. via(i, k);
invariant holders_lead_there "Every HOLDER is on the way to the site with the privilege (I4).": here(r) & via(i, k) -> toward(i, r, k);
invariant holders_lead_along "Or to the one that it is on its way to; that one has the sender for its HOLDER (I4).":
    privilege_sent(j, r, n) & via(i, k) -> (i != r -> toward(i, r, k)) & (i = r -> k = j);
invariant sent_along_an_edge "The PRIVILEGE goes along an edge.": privilege_sent(i, j, n) -> edge(i, j);
invariant queued_is_near "A queue has neighbours and the site itself, which waits (I1).":
    (queued(i, k) -> k = i | edge(i, k)) & (queued(i, i) <-> waiting(i));
invariant unused_is_unwanted "Where the privilege is unused nobody is queued (I2).": here(i) & !inside(i) -> !queued(i, k);
invariant queued_is_asked_for "A site that has someone queued has the privilege, or has asked for it (I3).": queued(i, k) -> here(i) | asked(i);
invariant asked_for_someone "A site that has asked has not the privilege, and someone queued.":
    asked(i) -> !here(i) & exists k. queued(i, k);
invariant sent_is_asked "A REQUEST on its way goes to the HOLDER, which has been asked, and says the crossings.":
    request_sent(i, k, n) -> asked(i) & via(i, k) & n = crossings(i, k) & edge(i, k);
invariant queued_has_asked "A neighbour that is queued has asked, and has no REQUEST on its way.":
    queued(k, i) & i != k -> asked(i) & via(i, k) & !request_sent(i, k, n);
invariant asked_is_heard "The HOLDER of a site that has asked has it queued, or the REQUEST or the PRIVILEGE is on its way.":
    asked(i) & via(i, k) -> queued(k, i) | request_sent(i, k, crossings(i, k)) | privilege_sent(k, i, crossings(k, i));
invariant sent_was_asked "The PRIVILEGE goes to a neighbour that has asked, and has nothing else on its way.":
    privilege_sent(k, i, n) -> asked(i) & via(i, k) & via(k, i) & !queued(k, i) & !request_sent(i, k, m);
invariant crossings_agree "Both ends of an edge count the same crossings, unless one is under way (I5).":
    edge(i, k) -> crossings(i, k) = crossings(k, i) | privilege_sent(i, k, crossings(i, k)) | privilege_sent(k, i, crossings(k, i));
invariant crossing_under_way "The one under way is counted by its sender (I5).":
    privilege_sent(i, k, n) -> n = crossings(i, k) & succ(crossings(k, i), n);

safety exclusion "Two sites are never inside at once.": inside(i) & inside(j) -> i = j;

theorem no_refusal_of_requests "Every REQUEST is one that its receiver accepts.":
    request_sent(j, i, n) -> !queued(i, j) & (here(i) -> n = crossings(i, j))
        & (via(i, k) & k != j -> n = crossings(i, j)) & (via(i, j) -> asked(i) & succ(crossings(i, j), n));
theorem no_refusal_of_privileges "Every PRIVILEGE is one that its receiver accepts.":
    privilege_sent(j, i, n) -> via(i, j) & asked(i) & succ(crossings(i, j), n);
theorem queues_lead_to_the_privilege "Whoever has someone queued is inside, or a message is on its way to or from its HOLDER, or a HOLDER that is nearer to the privilege has it queued: no deadlock.":
    queued(i, k) -> inside(i) | exists h. via(i, h) & (request_sent(i, h, crossings(i, h)) | privilege_sent(h, i, crossings(h, i)) | queued(h, i) & (here(r) -> nearer(h, i, r)) & (privilege_sent(x, r, n) -> nearer(h, i, r)));
"#;
