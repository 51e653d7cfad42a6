//! Voters change while locks are held: a site that has lost its disk votes again, operators promote, demote and replace, and nothing
//! changes while a member runs an older program.

use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::{
    ClientAnswer, ClientCall, Config, Input, StopEffect, VoterRefusal, VoterRequest, Voting,
};
use meshlock_cluster::rules::Clause;
use meshlock_cluster::table::Request;
use meshlock_cluster::time::Span;

use crate::cluster::Cluster;

fn auto(_: usize, config: &mut Config) {
    let (replace_after, stable_after) = (Span::from_millis(20_000), Span::from_millis(2_000));
    config.voting = Voting::Auto { replace_after, stable_after };
}

fn fixed(_: usize, _: &mut Config) {}

fn site(at: usize) -> SiteName {
    format!("s{at}").parse().expect("a plain name")
}

fn open(sites: usize, configure: impl Fn(usize, &mut Config)) -> Cluster {
    Cluster::open_configured(sites, &Clause::exclusive("naimi-trehel"), configure)
}

/// Lets an operator change the voters at a site. Returns the answer.
fn change(cluster: &mut Cluster, at: usize, change: VoterRequest) -> Option<VoterRefusal> {
    let request = Request(1 << 40);
    cluster.told.clear();
    cluster.input(at, Input::Call(ClientCall::ChangeVoters { request, change }));
    cluster.pass(Span::from_millis(10_000));
    let answer = cluster.told.drain(..).find_map(|answer| match answer {
        ClientAnswer::VotersChanged { .. } => Some(None),
        ClientAnswer::VotersRefused { why, .. } => Some(Some(why)),
        ClientAnswer::Lock(_)
        | ClientAnswer::Queue { .. }
        | ClientAnswer::Overview { .. }
        | ClientAnswer::Broken { .. }
        | ClientAnswer::RulesSet { .. }
        | ClientAnswer::RulesRefused { .. }
        | ClientAnswer::AccessSet { .. }
        | ClientAnswer::AccessRefused { .. }
        | ClientAnswer::Unavailable { .. }
        | ClientAnswer::Locks { .. }
        | ClientAnswer::Page { .. }
        | ClientAnswer::Deadlocks { .. }
        | ClientAnswer::Changes { .. }
        | ClientAnswer::Leaves { .. }
        | ClientAnswer::Traced { .. }
        | ClientAnswer::Proof { .. }
        | ClientAnswer::Claim(_)
        | ClientAnswer::Leaving
        | ClientAnswer::Left { .. } => None,
    });
    answer.expect("an answer in time")
}

fn voting(cluster: &Cluster) -> Vec<usize> {
    (0..cluster.nodes.len()).filter(|at| cluster.nodes[*at].has_vote()).collect()
}

/// Three voters, of which one loses its disk and comes back, and another one stops some time later. Returns whether the third one still
/// gets a lock.
fn goes_on_without_a_second_one(configure: impl Fn(usize, &mut Config)) -> bool {
    let mut cluster = open(3, &configure);
    cluster.lose_disk(2, |at, config| {
        configure(at, config);
        config.start_stamp = 1;
    });
    cluster.pass(Span::from_millis(30_000));
    assert!(cluster.nodes.iter().all(|node| node.is_open() && node.view().members.len() == 3));
    cluster.gone.insert(1);
    cluster.pass(Span::from_millis(20_000));
    let lock = "jobs".parse().expect("a name");
    let request = cluster.acquire(0, &lock);
    cluster.pass(Span::from_millis(2_000));
    cluster.is_granted(request)
}

#[test]
fn a_site_that_has_lost_its_disk_votes_again_so_that_another_one_may_stop() {
    assert!(!goes_on_without_a_second_one(fixed), "two of three voters are gone");
    assert!(goes_on_without_a_second_one(auto));
}

#[test]
fn operators_promote_demote_and_replace_voters_at_any_site() {
    let mut cluster = open(5, fixed);
    assert_eq!(voting(&cluster), [0, 1, 2, 3, 4]);
    assert_eq!(change(&mut cluster, 1, VoterRequest::Demote(site(4))), None);
    assert_eq!(voting(&cluster), [0, 1, 2, 3]);
    assert_eq!(change(&mut cluster, 4, VoterRequest::Replace { old: site(0), new: site(4) }), None);
    assert_eq!(voting(&cluster), [1, 2, 3, 4]);
    assert_eq!(cluster.nodes[4].voter_id(), Some(6), "under another number than before");
    assert_eq!(change(&mut cluster, 0, VoterRequest::Promote(site(0))), None);
    assert_eq!(voting(&cluster), [0, 1, 2, 3, 4]);
    let refused = change(&mut cluster, 2, VoterRequest::Promote(site(9)));
    assert_eq!(refused, Some(VoterRefusal::NotMember(site(9))));
    // Each of them knows it after a restart, too.
    for at in 0..5 {
        cluster.restart(at);
    }
    cluster.pass(Span::from_millis(20_000));
    assert_eq!(voting(&cluster), [0, 1, 2, 3, 4]);
    let lock = "jobs".parse().expect("a name");
    let request = cluster.acquire(3, &lock);
    cluster.pass(Span::from_millis(1_000));
    assert!(cluster.is_granted(request));
}

#[test]
fn nothing_changes_while_a_member_runs_a_program_that_knows_no_changes() {
    let mut cluster = open(3, auto);
    cluster.tamper(|from, packet| {
        let is_too_new = from == 2 && packet.content.is_about_voters();
        if is_too_new { Vec::new() } else { vec![packet] }
    });
    // The site that pretends to be old must not have been heard before as what it is.
    for at in 0..3 {
        cluster.restart(at);
    }
    cluster.pass(Span::from_millis(20_000));
    let refused = change(&mut cluster, 0, VoterRequest::Demote(site(1)));
    assert_eq!(refused, Some(VoterRefusal::OlderVersion(vec![site(2)])));
    assert_eq!(voting(&cluster), [0, 1, 2]);
}

#[test]
fn every_site_says_the_same_of_a_voter_that_is_a_member_without_its_disk() {
    let mut cluster = open(3, fixed);
    cluster.pass(Span::from_millis(5_000));
    let survived = |cluster: &Cluster| -> Vec<Option<usize>> {
        cluster.nodes.iter().map(|node| node.voters_report().spare()).collect()
    };
    assert_eq!(survived(&cluster), [Some(1); 3]);
    cluster.lose_disk(2, |_, config| config.start_stamp = 1);
    cluster.pass(Span::from_millis(30_000));
    assert!(cluster.nodes.iter().all(|node| node.is_open() && node.view().members.len() == 3));
    assert_eq!(survived(&cluster), [Some(0); 3], "all take part, and one of them has no vote");
    for node in &cluster.nodes {
        let report = node.voters_report();
        let states: Vec<&str> = report.voters.iter().map(|voter| voter.presence.label()).collect();
        assert_eq!(states, ["up", "up", "without_disk"]);
        assert_eq!(report.if_stopped(&site(1)), StopEffect::Stops);
        assert_eq!(report.if_stopped(&site(2)), StopEffect::None);
    }
    assert_eq!(change(&mut cluster, 1, VoterRequest::Promote(site(2))), None);
    assert_eq!(survived(&cluster), [Some(1); 3]);
    // A voter that is gone is missed by all others as soon as it is no member any more, and by the leader before.
    cluster.gone.insert(2);
    cluster.pass(Span::from_millis(10_000));
    assert_eq!(survived(&cluster)[..2], [Some(0); 2]);
    cluster.gone.insert(1);
    cluster.pass(Span::from_millis(10_000));
    assert_eq!(survived(&cluster)[0], None);
}

#[test]
fn two_clients_that_ask_for_the_same_change_are_both_answered() {
    let mut cluster = open(3, fixed);
    cluster.pass(Span::from_millis(5_000));
    let requests = [Request(1 << 40), Request(1 << 41)];
    cluster.told.clear();
    for request in requests {
        let change = VoterRequest::Demote(site(2));
        cluster.input(0, Input::Call(ClientCall::ChangeVoters { request, change }));
    }
    let other = ClientCall::ChangeVoters { request: Request(1 << 42), change: VoterRequest::Demote(site(1)) };
    cluster.input(0, Input::Call(other));
    cluster.pass(Span::from_millis(10_000));
    let told = |answer: &ClientAnswer| cluster.told.contains(answer);
    assert!(requests.into_iter().all(|request| told(&ClientAnswer::VotersChanged { request })));
    assert!(told(&ClientAnswer::VotersRefused { request: Request(1 << 42), why: VoterRefusal::Busy }));
}
