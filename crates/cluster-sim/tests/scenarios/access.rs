//! The access document in a small cluster: all sites learn it, removed and unlisted sites stay outside, tokens are used up, and nothing
//! changes while a member runs an older program. Each rule is shown with the mutant that lacks it.

use std::cell::Cell;
use std::rc::Rc;

use meshlock_cluster::access::{AccessDocument, Admission, JoinToken, ShownToken, TokenHash};
use meshlock_cluster::mutant::{self, Mutant};
use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::{
    Abilities, ClientAnswer, ClientCall, Config, Content, Input, NodeOutput, Packet, Route,
};
use meshlock_cluster::rules::Clause;
use meshlock_cluster::table::Request;
use meshlock_cluster::time::Span;
use meshlock_wire::sites::{AGREES_ON_ACCESS, as_read, decode_packet, encode_packet};

use crate::cluster::Cluster;

const SECOND: u64 = 1_000;

fn site(at: usize) -> SiteName {
    format!("s{at}").parse().expect("a plain name")
}

fn open(sites: usize) -> Cluster {
    Cluster::open_configured(sites, &Clause::exclusive("naimi-trehel"), |_, _| {})
}

/// Lets an operator change the document at a site. Returns why it is refused, if it is.
fn change(cluster: &mut Cluster, at: usize, edit: impl FnOnce(&mut AccessDocument)) -> Result<u64, String> {
    let access = cluster.nodes[at].access();
    let (base, mut document) = (access.version, access.document.clone());
    edit(&mut document);
    let request = Request(1 << 40);
    cluster.told.clear();
    cluster.input(at, Input::Call(ClientCall::SetAccess { request, base, document: Box::new(document) }));
    cluster.pass(Span::from_millis(6 * SECOND));
    let answer = cluster.told.drain(..).find_map(|answer| {
        if let ClientAnswer::AccessSet { version, .. } = answer {
            return Some(Ok(version));
        }
        if let ClientAnswer::AccessRefused { why, .. } | ClientAnswer::Unavailable { why, .. } = answer {
            return Some(Err(why));
        }
        None
    });
    answer.expect("an answer in time")
}

fn members(cluster: &Cluster, at: usize) -> Vec<String> {
    cluster.nodes[at].view().members.iter().map(|member| member.site.to_string()).collect()
}

#[test]
fn all_sites_learn_each_document_also_one_that_was_away_and_know_it_after_a_restart() {
    // Eight sites: the last one does not vote, and learns the document only by being told.
    let mut cluster = open(8);
    assert_eq!(change(&mut cluster, 7, |document| document.revoked.push("client/a".to_owned())), Ok(1));
    assert!(cluster.nodes.iter().all(|node| node.access().version == 1));
    for other in 0..7 {
        cluster.cut(7, other);
    }
    assert_eq!(change(&mut cluster, 3, |document| document.revoked.push("client/b".to_owned())), Ok(2));
    assert_eq!(cluster.nodes[7].access().version, 1);
    for other in 0..7 {
        cluster.reconnect(7, other);
    }
    cluster.pass(Span::from_millis(20 * SECOND));
    assert_eq!(cluster.nodes[7].access().document.revoked, ["client/a", "client/b"]);
    for at in [0, 7] {
        cluster.restart(at);
        assert_eq!(
            cluster.nodes[at].access().version,
            2,
            "site {at} knows it before it has heard from anyone"
        );
    }
}

#[test]
fn of_two_changes_that_are_based_on_the_same_version_one_is_refused() {
    let two_at_once = || {
        let mut cluster = open(3);
        for at in 0..2 {
            let mut document = AccessDocument::default();
            document.revoked.push(format!("client/c{at}"));
            let (request, document) = (Request((1 << 40) + at as u64), Box::new(document));
            cluster.input(at, Input::Call(ClientCall::SetAccess { request, base: 0, document }));
        }
        cluster.pass(Span::from_millis(6 * SECOND));
        let is_refused = |answer: &ClientAnswer| matches!(answer, ClientAnswer::AccessRefused { .. });
        assert_eq!(cluster.told.iter().filter(|answer| is_refused(answer)).count(), 1);
        // A request that was on its way for long, too.
        let leader = cluster.nodes.iter().position(|node| node.leads().is_some()).expect("a leader");
        let late = (leader + 1) % 3;
        let content = Content::SetAccess { base: 0, document: AccessDocument::default() };
        let packet = Packet { content, ..cluster.nodes[late].probe() };
        cluster.input(leader, Input::Packet { from: site(late), packet });
        cluster.pass(Span::from_millis(6 * SECOND));
        cluster.nodes.iter().map(|node| node.access().version).max()
    };
    assert_eq!(two_at_once(), Some(1));
    assert_eq!(mutant::with(Mutant::AnyBaseAccepted, two_at_once), Some(2), "one has overwritten the other");
}

/// Removes the third site of three, which is a founder and does not obey, and starts it again. Returns the members then.
fn remove_and_restart() -> Vec<String> {
    let mut cluster = open(3);
    assert_eq!(change(&mut cluster, 0, |document| document.remove(&site(2))), Ok(1));
    cluster.pass(Span::from_millis(20 * SECOND));
    cluster.restart(2);
    cluster.pass(Span::from_millis(20 * SECOND));
    members(&cluster, 0)
}

#[test]
fn a_removed_founder_is_left_out_and_does_not_come_back_by_being_restarted() {
    assert_eq!(remove_and_restart(), ["s0", "s1"]);
    assert_eq!(mutant::with(Mutant::RemovedIsRenewed, remove_and_restart), ["s0", "s1"]);
    assert_eq!(mutant::with(Mutant::AdmissionIgnored, remove_and_restart), ["s0", "s1", "s2"]);
}

#[test]
fn a_removed_member_that_goes_on_asking_gets_no_lease() {
    let stays = || {
        let mut cluster = open(3);
        assert_eq!(change(&mut cluster, 0, |document| document.remove(&site(2))), Ok(1));
        cluster.pass(Span::from_millis(20 * SECOND));
        members(&cluster, 0).len()
    };
    assert_eq!(stays(), 2);
    assert_eq!(mutant::with(Mutant::RemovedIsRenewed, stays), 3);
}

#[test]
fn a_removed_site_comes_back_when_it_is_added_again() {
    let mut cluster = open(3);
    assert_eq!(change(&mut cluster, 0, |document| document.remove(&site(2))), Ok(1));
    cluster.pass(Span::from_millis(20 * SECOND));
    assert_eq!(members(&cluster, 0), ["s0", "s1"]);
    assert_eq!(change(&mut cluster, 0, |document| document.admit(site(2), None)), Ok(2));
    cluster.pass(Span::from_millis(20 * SECOND));
    assert_eq!(members(&cluster, 0), ["s0", "s1", "s2"]);
    let request = cluster.acquire(2, &"jobs".parse().expect("a name"));
    cluster.pass(Span::from_millis(2 * SECOND));
    assert!(cluster.is_granted(request), "it serves clients again");
}

/// Closes the cluster, lets the fourth site, which may join with a token only, start without a disk, and tells everyone the time.
fn join_with(shown: Option<&'static str>, at_second: u64) -> Cluster {
    let mut cluster = open(4);
    let known: Vec<SiteName> = (0..3).map(site).collect();
    let changed = change(&mut cluster, 0, |document| {
        document.close(&known);
        document.remove(&site(3));
    });
    assert_eq!(changed, Ok(1));
    cluster.pass(Span::from_millis(20 * SECOND));
    assert_eq!(members(&cluster, 0).len(), 3);
    let token = JoinToken { sha256: TokenHash::of("right"), expires: 1_000 };
    assert_eq!(change(&mut cluster, 1, |document| document.admit(site(3), Some(token))), Ok(2));
    for at in 0..3 {
        cluster.input(at, Input::WallClock(at_second));
    }
    cluster.lose_disk(3, |_, config: &mut Config| {
        config.start_stamp = 1;
        config.join_token = shown.map(|shown| ShownToken(shown.to_owned()));
    });
    cluster.pass(Span::from_millis(30 * SECOND));
    cluster
}

#[test]
fn a_site_that_needs_a_token_joins_with_it_once_and_before_its_end() {
    for (shown, second) in [(None, 10), (Some("wrong"), 10), (Some("right"), 1_000)] {
        assert_eq!(members(&join_with(shown, second), 0).len(), 3, "{shown:?} at {second}");
    }
    let cluster = join_with(Some("right"), 999);
    assert_eq!(members(&cluster, 0).len(), 4);
    let pending =
        |cluster: &Cluster| cluster.nodes[0].access().document.sites.iter().any(|site| site.token.is_some());
    assert!(!pending(&cluster) && cluster.nodes[0].access().version == 3, "the token is used up");
    let stays = mutant::with(Mutant::TokenStays, || pending(&join_with(Some("right"), 999)));
    assert!(stays, "the mutant leaves it");
}

#[test]
fn a_revoked_site_is_not_carried_by_voters_and_is_left_out() {
    // One voter, which the document has not reached yet, would carry its packets: then the others do not believe them.
    let passes = || {
        let mut cluster = open(4);
        assert_eq!(change(&mut cluster, 0, |document| document.revoked.push("site/s3".to_owned())), Ok(1));
        let asked = |cluster: &mut Cluster, route: Route, from: usize, to: usize| {
            let packet = Packet { route, ..cluster.nodes[3].probe() };
            let mut out = Vec::new();
            let now = cluster.now();
            cluster.nodes[to].handle(now, Input::Packet { from: site(from), packet }, &mut out);
            out.iter().any(|output| matches!(output, NodeOutput::Send { packet, .. } if packet.content == Content::Pong || packet.route == Route::From(site(3))))
        };
        let is_carried = asked(&mut cluster, Route::To(site(1)), 3, 0);
        let is_believed = asked(&mut cluster, Route::From(site(3)), 0, 1);
        cluster.pass(Span::from_millis(30 * SECOND));
        (is_carried, is_believed, members(&cluster, 0).len())
    };
    assert_eq!(passes(), (false, false, 3));
    assert_eq!(
        mutant::with(Mutant::RevokedIsCarried, passes),
        (true, true, 3),
        "it is left out all the same"
    );
}

#[test]
fn a_document_that_revokes_too_many_voters_is_refused() {
    let mut cluster = open(3);
    let refused = change(&mut cluster, 0, |document| {
        document.revoked.extend(["site/s1".to_owned(), "site/s2".to_owned()]);
    });
    assert!(refused.unwrap_err().contains("it would revoke so many of the voters"));
    assert_eq!(cluster.nodes[0].access().version, 0);
}

#[test]
fn nothing_changes_while_a_member_runs_a_program_that_does_not_know_the_document() {
    let try_it = || {
        let mut cluster = open(3);
        cluster.tamper(|from, packet| {
            let is_too_new = from == 2 && packet.content.is_about_access();
            if is_too_new { Vec::new() } else { vec![packet] }
        });
        // The site that pretends to be old must not have been heard before as what it is.
        for at in 0..3 {
            cluster.restart(at);
        }
        cluster.pass(Span::from_millis(20 * SECOND));
        change(&mut cluster, 0, |document| document.revoked.push("client/a".to_owned()))
    };
    let why = try_it().unwrap_err();
    assert!(why.starts_with("s2 run a program that does not know the cluster's access document"), "{why}");
    assert_eq!(mutant::with(Mutant::OlderMemberNotAsked, try_it), Ok(1));
}

/// The last version of the format between sites that does not have the document.
const OLDER: u16 = AGREES_ON_ACCESS - 1;

/// What others know of a program that speaks that version.
const OLDER_ABILITIES: Abilities = Abilities {
    counts_voters: false,
    knows_floors: false,
    agrees_on_access: false,
    reports_records: false,
    ..Abilities::ALL
};

/// Lets the third of three sites run an older program: all that it sends travels in the older format, as far as that can say it, and the
/// others know what it speaks. Returns the switch that upgrades it.
fn with_an_older_program(cluster: &mut Cluster) -> Rc<Cell<bool>> {
    let is_old = Rc::new(Cell::new(true));
    let speaks = is_old.clone();
    cluster.tamper(move |from, packet| {
        if from != 2 || !speaks.get() {
            return vec![packet];
        }
        if packet.content.is_about_access() || packet.content.is_absence() || packet.content.is_records() {
            return Vec::new();
        }
        let read = decode_packet(&encode_packet(&packet, OLDER), OLDER).expect("the older version has it");
        assert_eq!(read, as_read(packet, OLDER));
        vec![read]
    });
    for other in 0..2 {
        cluster.input(other, Input::Connected { site: site(2), abilities: OLDER_ABILITIES });
    }
    is_old
}

#[test]
fn an_older_member_delays_the_first_document_and_does_not_come_back_before_it_is_upgraded() {
    let mut cluster = open(3);
    let is_old = with_an_older_program(&mut cluster);
    for at in 0..3 {
        cluster.restart(at);
    }
    for other in 0..2 {
        cluster.input(other, Input::Connected { site: site(2), abilities: OLDER_ABILITIES });
    }
    cluster.pass(Span::from_millis(20 * SECOND));
    assert_eq!(members(&cluster, 0).len(), 3);
    let shut_out = |document: &mut AccessDocument| document.revoked.push("client/a".to_owned());
    let why = change(&mut cluster, 0, shut_out).unwrap_err();
    assert!(why.starts_with("s2 run a program that does not know the cluster's access document"), "{why}");
    // It is stopped for its upgrade, and the document is made meanwhile.
    for other in 0..2 {
        cluster.cut(2, other);
    }
    cluster.pass(Span::from_millis(20 * SECOND));
    assert_eq!(members(&cluster, 0), ["s0", "s1"]);
    assert_eq!(change(&mut cluster, 0, shut_out), Ok(1));
    // Somebody starts the old program once more.
    for other in 0..2 {
        cluster.mend(2, other);
        cluster.input(other, Input::Connected { site: site(2), abilities: OLDER_ABILITIES });
        cluster.input(2, Input::Connected { site: site(other), abilities: Abilities::ALL });
    }
    cluster.pass(Span::from_millis(20 * SECOND));
    assert_eq!(members(&cluster, 0), ["s0", "s1"], "it would let in whom the document refuses");
    // And then the new one.
    is_old.set(false);
    cluster.restart(2);
    for other in 0..2 {
        cluster.reconnect(2, other);
    }
    cluster.pass(Span::from_millis(20 * SECOND));
    assert_eq!(members(&cluster, 0).len(), 3);
    assert!(cluster.nodes.iter().all(|node| node.access().version == 1), "all know the document");
    assert_eq!(cluster.nodes[2].access().document.revoked, ["client/a"]);
}

/// Founds a cluster of three that is closed by its configuration, and lets a fourth site, which is not in the list, ask to join. Returns the
/// members and the document.
fn found_closed() -> (Vec<String>, AccessDocument) {
    let closed = |at: usize, config: &mut Config| {
        config.admission = Admission::Closed;
        config.sites.truncate(3);
        if at == 3 {
            config.start_stamp = 1;
        }
    };
    let clause = Clause::exclusive("naimi-trehel");
    let mut cluster = Cluster::open_some(4, 3, &clause, closed);
    cluster.pass(Span::from_millis(20 * SECOND));
    (members(&cluster, 0), cluster.nodes[0].access().document.clone())
}

#[test]
fn a_cluster_that_is_closed_by_its_configuration_lets_in_only_the_sites_of_its_list() {
    let (members, document) = found_closed();
    assert_eq!(members, ["s0", "s1", "s2"]);
    let admitted: Vec<&str> = document.sites.iter().map(|site| site.name.as_str()).collect();
    assert_eq!((document.admission, admitted), (Admission::Closed, vec!["s0", "s1", "s2"]));
    let (members, document) = mutant::with(Mutant::FoundedOpen, found_closed);
    assert_eq!((members.len(), document.admission), (4, Admission::Open));
}

/// Reference: docs/operating.md, "Removing a site for good": a vote is taken away by demoting only.
#[test]
fn a_removed_site_that_was_not_demoted_serves_nobody_and_its_vote_counts() {
    let mut cluster = open(3);
    assert_eq!(change(&mut cluster, 0, |document| document.remove(&site(2))), Ok(1));
    cluster.pass(Span::from_millis(20 * SECOND));
    cluster.restart(2);
    for other in [0, 2] {
        cluster.cut(1, other);
    }
    cluster.pass(Span::from_millis(30 * SECOND));
    assert_eq!(members(&cluster, 0), ["s0"], "two of three voters have agreed on that, one of them removed");
    let jobs = "jobs".parse().expect("a name");
    let theirs = cluster.acquire(2, &jobs);
    cluster.pass(Span::from_millis(5 * SECOND));
    assert!(!cluster.is_granted(theirs));
    let ours = cluster.acquire(0, &jobs);
    cluster.pass(Span::from_millis(5 * SECOND));
    assert!(cluster.is_granted(ours));
}
