//! A cluster that begins with an epoch of its own, and a site that becomes the first of a new cluster because the others are gone.

use super::*;
use crate::fence_floor::RECOVERY_JUMP;
use crate::founding::Founding;

fn epoch(number: u32) -> Epoch {
    Epoch::new(number).unwrap()
}

fn fence(lone: &Lone, request: u64) -> i64 {
    let of = |answer: &ClientAnswer| {
        let ClientAnswer::Lock(LockEvent::Granted { request: of, fence, .. }) = answer else { return None };
        (of.0 == request).then_some(fence.value())
    };
    lone.answers.iter().find_map(of).unwrap_or_else(|| panic!("request {request} is granted"))
}

fn with_first_epoch(number: u32, disk: Disk) -> Lone {
    let mut config = Config::new("a".parse().unwrap(), vec!["a".parse().unwrap()]);
    config.first_epoch = epoch(number);
    Lone::with(config, disk)
}

#[test]
fn a_cluster_begins_with_the_configured_epoch_and_goes_on_from_it_whatever_is_configured_later() {
    let mut first = with_first_epoch(115_000, Disk::default());
    first.acquire(1, "jobs");
    first.pass(Span::from_millis(100));
    assert_eq!(fence(&first, 1), 115_000 << 40 | 1);
    let mut second = with_first_epoch(7, first.disk);
    second.acquire(2, "jobs");
    second.pass(Span::from_millis(9_000));
    assert_eq!(fence(&second, 2), 115_001 << 40 | 1);
}

#[test]
fn a_leader_whose_voters_run_a_program_without_floors_begins_with_one_and_says_so() {
    let sites: Vec<SiteName> = ["a", "b"].iter().map(|site| site.parse().unwrap()).collect();
    let mut config = Config::new("a".parse().unwrap(), sites);
    config.first_epoch = epoch(500);
    let mut lone = Lone::with(config, Disk::default());
    let mut out = Vec::new();
    assert_eq!(lone.node.first_epoch(&mut out), epoch(500));
    for (site, first) in [("z", 500), ("b", 1)] {
        let abilities = Abilities { knows_floors: false, ..Abilities::ALL };
        lone.input(Input::Connected { site: site.parse().unwrap(), abilities });
        assert_eq!(lone.node.first_epoch(&mut out), epoch(first), "{site} has an old program");
    }
    assert_eq!(out, [NodeOutput::Note(Note::NoFenceFloor { old: "b".parse().unwrap() })]);
}

#[test]
fn a_voter_whose_program_knows_no_floors_is_not_registered_once_there_is_a_view() {
    let sites: Vec<SiteName> = ["a", "b", "c"].iter().map(|site| site.parse().unwrap()).collect();
    for (knows_floors, answered) in [(true, true), (false, false)] {
        let mut config = Config::new("a".parse().unwrap(), sites.clone());
        config.first_epoch = epoch(500);
        let mut lone = Lone::with(config, Disk::default());
        lone.write();
        lone.receive_from("b", Content::View(View { epoch: epoch(500), ..View::default() }));
        let abilities = Abilities { knows_floors, ..Abilities::ALL };
        lone.input(Input::Connected { site: "c".parse().unwrap(), abilities });
        lone.sent.clear();
        lone.receive_from("c", Content::Register { disk: Incarnation::new(1) });
        lone.write();
        let is_answer = |(to, content): &(SiteName, Content)| {
            to.as_str() == "c" && matches!(content, Content::Registered { .. })
        };
        assert_eq!(lone.sent.iter().any(is_answer), answered);
        assert_eq!(lone.notes.iter().any(|note| matches!(note, Note::Doubted { .. })), !answered);
    }
}

/// The disk of the site a, which is one of three members and had a lease when all of them ended.
fn survivor() -> Disk {
    let sites: Vec<SiteName> = ["a", "b", "c"].iter().map(|site| site.parse().unwrap()).collect();
    let members: Vec<Member> =
        sites.iter().map(|site| Member { site: site.clone(), incarnation: Incarnation::new(3) }).collect();
    let mut disk = Disk::default();
    let view = View { epoch: epoch(90), members, ..View::default() };
    for write in [
        DiskWrite::Founding(Founding::new(ClusterName::default(), &sites)),
        DiskWrite::Incarnation(Incarnation::new(3)),
        DiskWrite::Install(Saved { index: 4, term: 2, view, voters: None, access: None }),
        DiskWrite::Ballot(Ballot { term: 2, vote: 1, commit: 4 }),
    ] {
        disk.apply(&write);
    }
    disk
}

#[test]
fn a_recovered_site_grants_nothing_before_every_lease_of_the_old_cluster_is_over() {
    let plan = survivor().recovery(&"a".parse().unwrap(), None, epoch(1)).unwrap();
    let mut disk = Disk::default();
    plan.writes.iter().for_each(|write| disk.apply(write));
    let mut lone = Lone::start(&["a"], disk);
    lone.acquire(1, "jobs");
    lone.pass(lone.node.config.terms.length);
    assert!(!lone.has_granted(1), "somebody may have had a lease until now");
    lone.pass(Span::from_millis(2000));
    assert_eq!(fence(&lone, 1), i64::from(90 + RECOVERY_JUMP + 1) << 40 | 1);
    assert!(lone.node.has_vote() && lone.node.view().members.len() == 1);
    let past: Vec<String> = lone.node.view().past.iter().map(ToString::to_string).collect();
    assert_eq!(past, ["b#3", "c#3"], "no incarnation of the old cluster takes part");
    // It goes on after a restart, and the packets of the old cluster are not its own.
    let before = fence(&lone, 1);
    let mut again = Lone::start(&["a"], lone.disk);
    again.acquire(2, "jobs");
    again.pass(Span::from_millis(9_000));
    assert!(fence(&again, 2) > before);
    let sites: Vec<SiteName> = ["a", "b", "c"].iter().map(|site| site.parse().unwrap()).collect();
    let old = Founding::new(ClusterName::default(), &sites).id();
    let packet = Packet::direct(old, Incarnation::new(9), Content::Ping);
    again.input(Input::Packet { from: "b".parse().unwrap(), packet });
    assert!(again.notes.iter().any(|note| matches!(note, Note::OtherCluster { .. })));
}
