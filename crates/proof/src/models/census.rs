//! Why no two members act on machines of different views, beside `crates/cluster/src/node/change.rs`.
//!
//! A member is one incarnation of a site. Whoever opens a view has the census of every other member of it, and each of those had stopped
//! the machines of earlier views before it sent its census. Whoever is no member of it has no lease: the leader proposes a view only when the
//! leases of those that it leaves out are over (`inequality/lease.rs` proves that time), and grants leases only to members of the
//! view that was agreed on last. So whoever still has machines of an earlier view may not act on them.
//!
//! How voters agree on views, one after the other, is Raft's: here `agree` simply appends.

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "The change of views of a node, for any number of members and views. What is agreed on by the voters is agreed on \
    for ever, one view after the other; a lease ends before its member is left out, which is proved by the inequalities of leases. \
    A grant of a lease takes effect in the step in which the leader decides it.";

/// What the guards take for granted.
pub const ASSUMED: &[(&str, &str)] = &[
    (
        "`agree`, the view comes after all others",
        "the voters agree on views one after the other, which is Raft's part.",
    ),
    (
        "`agree`, those whom the view leaves out have no lease",
        "the leader proposes a view when the leases of those whom it leaves out are over. It computes that time, for leases of earlier \
         leaders, too, and the [inequalities of leases](#what-is-proved-of-a-nodes-times) prove it (`NewLeaderDoesNotWait` breaks it).",
    ),
    (
        "`agree`, whoever was left out does not come back",
        "a view lists the past incarnations of its sites, or has a floor above them, and a site that was left out takes a later \
         incarnation, which is another member (`PastForgotten` breaks it).",
    ),
    (
        "`grant`, the view is the one that was agreed on last",
        "a leader grants a lease when a majority has confirmed, after it was asked for, that it still leads (`GrantUnconfirmed` breaks \
         it). A view that is agreed on between this and the grant is a matter of times again: the lease counts from before it was asked for.",
    ),
];

/// What compares the code with the model.
pub const TIED_BY: &str = "Every simulated run of whole clusters (`meshlock dst`) holds the code to two clauses whenever a site installs or \
    opens a view: `runs_as_member` and `all_have_stopped` (`crates/cluster-sim/src/properties/views.rs`), and to \
    `leased_is_kept` whenever a lease is granted or a view installed (`leases.rs` there). The deliberate bugs that are named \
    below break these runs, as `crates/cluster-sim/src/tests.rs` records. That is a check of drawn runs, not of every step.";

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "machines start although a census is missing (`CensusSkipped`)",
        erratum: None,
        replaced: &[(
            "when member(i, installed(i)) & forall j. member(j, installed(i)) & j != i -> census_sent(j, i, installed(i));",
            "when member(i, installed(i));",
        )],
        fails_at: ("open", "all_have_stopped"),
    },
    WrongModel {
        about: "a view is agreed on while one that it leaves out has a lease (`NewLeaderDoesNotWait`)",
        erratum: None,
        replaced: &[("when forall i. lease(i) & !member(i, e) -> forall d. agreed(d) -> !member(i, d);", "")],
        fails_at: ("agree", "leased_is_kept"),
    },
    WrongModel {
        about: "a leader grants a lease for a view that was not agreed on last (`GrantUnconfirmed`)",
        erratum: None,
        replaced: &[(
            "    when agreed(e) & member(i, e) & forall d. agreed(d) -> d <= e;",
            "    when agreed(e) & member(i, e);",
        )],
        fails_at: ("grant", "leased_is_kept"),
    },
    WrongModel {
        about: "an incarnation that was left out is let in again (`PastForgotten`)",
        erratum: None,
        replaced: &[(
            "    when forall i, d, f. agreed(d) & agreed(f) & d < f & member(i, d) & !member(i, f) -> !member(i, e);\n",
            "",
        )],
        fails_at: ("agree", "never_again"),
    },
    WrongModel {
        about: "the machines go on running when a view is installed",
        erratum: None,
        replaced: &[("    runs(i) := false;\n    census_sent", "    census_sent")],
        fails_at: ("install", "all_have_stopped"),
    },
];

/// The model.
pub const TEXT: &str = r#"
sort site, view;
ordered view;
var i, j: site;
var d, e, f: view;

// Who belongs to a view, and which views were agreed on.
fixed relation member(site, view);
relation agreed(view);
// The view that a member has installed last, and whether its machines run.
function installed(site): view;
relation runs(site);
// The census of the first for the second member, for this view: it stays where it is until it is needed.
relation census_sent(site, site, view);
// Whether a member has a lease.
relation lease(site);

init nothing_runs "Nothing runs, and nobody has a lease.": !runs(i) & !lease(i) & !census_sent(i, j, e);
init views_in_order "Whoever is left out of a view comes into no later one, and what is installed was agreed on.":
    (agreed(d) & agreed(e) & agreed(f) & d < e & e < f & member(i, d) & member(i, f) -> member(i, e)) & agreed(installed(i));

action agree(e) "The voters agree on the next view. Those that it leaves out have no lease, and never come back." {
    when forall d. agreed(d) -> d < e;
    when forall i. lease(i) & !member(i, e) -> forall d. agreed(d) -> !member(i, d);
    when forall i, d, f. agreed(d) & agreed(f) & d < f & member(i, d) & !member(i, f) -> !member(i, e);
    agreed(e) := true;
}

action grant(i, e) "The leader grants a lease to a member of the view that was agreed on last." {
    when agreed(e) & member(i, e) & forall d. agreed(d) -> d <= e;
    lease(i) := true;
}

action expire(i) "A lease ends." {
    lease(i) := false;
}

action install(i, e) "A member learns of a newer view: it stops, and sends its census to all members of it." {
    when agreed(e) & installed(i) < e;
    installed(i) := e;
    runs(i) := false;
    census_sent(i, j, d) := census_sent(i, j, d) | d = e & j != i & member(i, e) & member(j, e);
}

action open(i) "A member that has the census of all others opens the view." {
    when member(i, installed(i)) & forall j. member(j, installed(i)) & j != i -> census_sent(j, i, installed(i));
    runs(i) := true;
}

invariant installed_is_agreed "What is installed was agreed on.": agreed(installed(i));
invariant census_of_stopped "Whoever has sent a census of a view has installed it, or a later one.":
    census_sent(j, i, e) -> e <= installed(j);
invariant runs_as_member "Whose machines run is a member of their view.": runs(i) -> member(i, installed(i));
invariant all_have_stopped "When machines of a view run, all its members have stopped those of earlier ones.":
    runs(i) & member(j, installed(i)) -> installed(i) <= installed(j);
invariant never_again "Whoever is left out of a view comes into no later one.":
    agreed(d) & agreed(e) & agreed(f) & d < e & e < f & member(i, d) & member(i, f) -> member(i, e);
invariant leased_is_kept "Whoever has a lease is in every view since the first that it was in.":
    lease(i) & agreed(d) & agreed(e) & d < e & member(i, d) -> member(i, e);

safety one_view "Two members that act, on machines and with leases, act in the same view.":
    runs(i) & lease(i) & runs(j) & lease(j) -> installed(i) = installed(j);
safety others_have_stopped "While one acts in a view, no machine of an earlier view runs at a member of it, nor anywhere with a lease.":
    runs(i) & runs(j) & installed(j) < installed(i) -> !member(j, installed(i)) & !lease(j);
"#;
