//! Voters in one thread: they elect, agree, write before they send, keep their log short, and survive restarts.

mod changing;
mod full_disk;

use super::message::{Ends, RaftKind};
use super::voters::VoterChange;
use super::*;
use crate::lease::Terms;
use crate::names::{Incarnation, Member};
use crate::time::Span;
use meshlock_protocol::Epoch;
use meshlock_testing::within_steps;

const PACE: Pace = Pace { heartbeat: 1, election: 5 };

/// Voters, their disks, and what is on its way. A disk completes a batch when the test says so.
struct Council {
    voters: Vec<Membership>,
    disks: Vec<Disk>,
    unwritten: Vec<VecDeque<(RaftToken, Vec<DiskWrite>)>>,
    wire: VecDeque<(usize, usize, RaftMessage)>,
    confirmed: Vec<(usize, Round)>,
    names: Vec<SiteName>,
    founding: Voters,
}

impl Council {
    fn of(count: usize) -> Self {
        let names: Vec<SiteName> = (0..count).map(|at| format!("s{at}").parse().unwrap()).collect();
        let founding = Voters::founding(&names);
        let start = |at: usize| {
            let id = at as u64 + 1;
            Membership::start(founding.clone(), id, Disk::default(), PACE, MAX_LOG_ENTRIES, at as u64)
        };
        Council {
            voters: (0..count).map(start).collect(),
            disks: vec![Disk::default(); count],
            unwritten: vec![VecDeque::new(); count],
            wire: VecDeque::new(),
            confirmed: Vec::new(),
            names,
            founding,
        }
    }

    fn handle(&mut self, at: usize, out: Vec<MembershipOutput>) {
        for output in out {
            match output {
                MembershipOutput::Send { to, message } => {
                    let to = self.names.iter().position(|name| *name == to).unwrap();
                    self.wire.push_back((at, to, message));
                }
                MembershipOutput::Persist { token, writes } => self.unwritten[at].push_back((token, writes)),
                MembershipOutput::Agreed(_)
                | MembershipOutput::VotersChanged(_)
                | MembershipOutput::AccessAgreed(_) => {}
                MembershipOutput::Confirmed(round) => self.confirmed.push((at, round)),
            }
        }
    }

    fn tick(&mut self, at: usize) {
        let mut out = Vec::new();
        self.voters[at].on_tick(&mut out);
        self.handle(at, out);
    }

    fn write_one(&mut self, at: usize) -> bool {
        let Some((token, writes)) = self.unwritten[at].pop_front() else { return false };
        for write in &writes {
            self.disks[at].apply(write);
        }
        let mut out = Vec::new();
        self.voters[at].on_persisted(token, &mut out);
        self.handle(at, out);
        true
    }

    fn deliver(&mut self) -> bool {
        let Some((from, to, message)) = self.wire.pop_front() else { return false };
        let (mut out, from) = (Vec::new(), self.names[from].clone());
        self.voters[to].on_message(&from, message, &mut out).unwrap();
        self.handle(to, out);
        true
    }

    fn settle(&mut self) {
        within_steps("nothing is left to write or deliver", || {
            !(0..self.voters.len()).any(|at| self.write_one(at)) && !self.deliver()
        });
    }

    /// Ticks everyone until one voter leads and all know it.
    fn elect(&mut self) -> usize {
        for _ in 0..100 {
            (0..self.voters.len()).for_each(|at| self.tick(at));
            self.settle();
            let leader = (0..self.voters.len()).find(|&at| self.voters[at].leads().is_some());
            if let Some(leader) = leader
                && self.voters.iter().all(|voter| voter.leader() == Some(&self.names[leader]))
            {
                return leader;
            }
        }
        panic!("nobody was elected");
    }

    /// Delivers and writes everything except the messages for which `lost` returns true.
    fn settle_without(&mut self, mut lost: impl FnMut(usize, usize, &RaftMessage) -> bool) {
        within_steps("nothing is left to write or deliver", || {
            self.wire.retain(|(from, to, message)| !lost(*from, *to, message));
            !(0..self.voters.len()).any(|at| self.write_one(at)) && !self.deliver()
        });
    }

    fn propose(&mut self, leader: usize, view: &View) {
        let mut out = Vec::new();
        assert!(self.voters[leader].propose(view, &mut out));
        self.handle(leader, out);
    }

    fn restart(&mut self, at: usize, disk: Disk) {
        self.unwritten[at].clear();
        self.wire.retain(|(from, to, _)| *from != at && *to != at);
        self.disks[at] = disk.clone();
        let (founding, id) = (self.founding.clone(), self.voters[at].id());
        self.voters[at] = Membership::start(founding, id, disk, PACE, MAX_LOG_ENTRIES, 99);
    }
}

fn view(epoch: u32) -> View {
    let member = Member { site: "s0".parse().unwrap(), incarnation: Incarnation::new(u64::from(epoch)) };
    View { epoch: Epoch::new(epoch).unwrap(), members: vec![member], ..View::default() }
}

#[test]
fn voters_elect_one_leader_and_agree_on_views_in_order() {
    for count in [1, 2, 3, 5, 7] {
        let mut council = Council::of(count);
        let leader = council.elect();
        for epoch in 1..=3 {
            council.propose(leader, &view(epoch));
            council.settle();
        }
        council.tick(leader);
        council.settle();
        assert!(council.voters.iter().all(|voter| *voter.view() == view(3)), "{count} voters");
    }
}

#[test]
fn a_view_that_does_not_follow_on_the_last_one_changes_nothing() {
    let mut council = Council::of(1);
    let leader = council.elect();
    for epoch in [1, 1, 3] {
        council.propose(leader, &view(epoch));
        council.settle();
    }
    assert_eq!(*council.voters[0].view(), view(1));
}

/// Two leaders read two clocks, and each proposes a first view; the first one to be agreed on counts. If the other one passed for the view
/// after it, it would leave out members whose leases are not over.
#[test]
fn a_first_view_has_any_epoch_and_never_follows_on_another_first_view() {
    let first = disk::follow(&View::default(), &disk::encode_after(Epoch::default(), &view(500))).unwrap();
    assert_eq!(first, view(500));
    for other in [499, 500, 501] {
        let late = disk::encode_after(Epoch::default(), &view(other));
        assert_eq!(disk::follow(&first, &late), None, "a first view {other}");
    }
    assert_eq!(disk::follow(&first, &disk::encode_after(first.epoch, &view(501))), Some(view(501)));
    assert_eq!(disk::follow(&View::default(), &disk::encode(&view(500))), None, "it is not marked");
    assert_eq!(disk::encode_after(Epoch::default(), &view(1)), disk::encode(&view(1)), "as it always was");
    let council = &mut Council::of(3);
    let leader = council.elect();
    for epoch in [500, 501, 502] {
        council.propose(leader, &view(epoch));
    }
    council.settle();
    assert_eq!(*council.voters[leader].view(), view(500), "the others were proposed as first views");
    council.propose(leader, &view(501));
    council.settle();
    assert_eq!(*council.voters[leader].view(), view(501));
}

#[test]
fn no_vote_and_no_acknowledgement_leaves_before_the_disk_has_what_it_promises() {
    let mut council = Council::of(3);
    within_steps("the first voter asks for votes", || {
        council.tick(0);
        !council.wire.is_empty()
    });
    // The first tick after the timeout asks for pre-votes, which promise nothing.
    within_steps("all messages are delivered", || !council.deliver());
    assert!(council.voters.iter().all(|voter| voter.leads().is_none()));
    assert!(!council.unwritten[0].is_empty(), "the candidate votes for itself, on disk");
    within_steps("the candidate's disk has everything", || !council.write_one(0));
    let asked = council.wire.iter().filter(|(.., message)| message.kind == RaftKind::RequestVote).count();
    assert_eq!(asked, 2);
    within_steps("all messages are delivered", || !council.deliver());
    // The others have voted, and no vote is sent until their disks have it.
    assert!(council.voters[0].leads().is_none() && !council.unwritten[1].is_empty());
    assert!(council.wire.is_empty());
    council.settle();
    assert!(council.voters[0].leads().is_some());
}

#[test]
fn a_single_voter_agrees_with_itself_only_once_its_disk_does() {
    let mut council = Council::of(1);
    let leader = council.elect();
    council.propose(leader, &view(1));
    assert_eq!(council.voters[0].view().epoch, Epoch::default());
    council.settle();
    assert_eq!(*council.voters[0].view(), view(1));
}

#[test]
fn a_leader_is_confirmed_by_a_majority_and_not_without_one() {
    let mut council = Council::of(3);
    let leader = council.elect();
    let mut out = Vec::new();
    council.voters[leader].confirm(Round(1), &mut out);
    assert!(!out.iter().any(|output| matches!(output, MembershipOutput::Confirmed(_))));
    council.handle(leader, out);
    council.settle();
    assert_eq!(council.confirmed, [(leader, Round(1))]);
    // Cut off, it still assumes that it leads, and is not confirmed.
    let mut out = Vec::new();
    council.voters[leader].confirm(Round(2), &mut out);
    council.handle(leader, out);
    council.wire.retain(|(from, to, _)| *from != leader && *to != leader);
    council.settle();
    assert!(council.voters[leader].leads().is_some());
    assert_eq!(council.confirmed, [(leader, Round(1))]);
}

#[test]
fn the_log_is_cut_and_a_voter_that_missed_it_gets_the_state() {
    let mut council = Council::of(3);
    let leader = council.elect();
    let away = (leader + 1) % 3;
    for epoch in 1..=200 {
        council.propose(leader, &view(epoch));
        council.wire.retain(|(from, to, _)| *from != away && *to != away);
        council.settle();
    }
    assert!(council.voters[leader].log_length() <= MAX_LOG_ENTRIES + 1);
    assert!(council.disks[leader].log_length() <= 2 * MAX_LOG_ENTRIES, "the disk is cut too");
    for _ in 0..20 {
        council.tick(leader);
        council.settle();
    }
    assert_eq!(*council.voters[away].view(), view(200));
}

#[test]
fn a_restarted_voter_continues_from_its_disk() {
    let mut council = Council::of(3);
    let leader = council.elect();
    for epoch in 1..=100 {
        council.propose(leader, &view(epoch));
        council.settle();
    }
    for at in 0..3 {
        council.restart(at, council.disks[at].clone());
    }
    council.elect();
    council.settle();
    assert!(council.voters.iter().all(|voter| *voter.view() == view(100)));
}

#[test]
fn messages_that_no_voter_sends_are_refused() {
    let mut council = Council::of(3);
    let leader = council.elect();
    let mut out = Vec::new();
    council.voters[leader].confirm(Round(1), &mut out);
    let Some(MembershipOutput::Send { message, .. }) = out.first().cloned() else { panic!("a heartbeat") };
    let (follower, names) = ((leader + 1) % 3, council.names.clone());
    let mut refuse = |from: &SiteName, message: RaftMessage| {
        council.voters[follower].on_message(from, message, &mut Vec::new()).unwrap_err()
    };
    let future = RaftMessage { commit: 1 << 40, ..message.clone() };
    assert_eq!(refuse(&names[leader], future), Implausible::OwnDiskIsOld);
    assert_eq!(
        refuse(&names[leader], RaftMessage { term: 0, ..message.clone() }),
        Implausible::Peer("a message without a term")
    );
    assert_eq!(refuse(&names[follower], message.clone()), Implausible::Peer("not another voter"));
    assert_eq!(refuse(&"stranger".parse().unwrap(), message.clone()), Implausible::Peer("not another voter"));
    let hollow = RaftMessage { kind: RaftKind::Snapshot, ..message };
    let Implausible::Peer(why) = refuse(&names[leader], hollow) else { panic!("its sender is wrong") };
    assert!(why.starts_with("a snapshot message without"));
}

/// Returns three voters of which one has missed so much that the leader's log does not have it any more, the leader,
/// and the one that is behind.
fn behind_by_a_whole_log() -> (Council, usize, usize) {
    let mut council = Council::of(3);
    let leader = council.elect();
    let away = (leader + 1) % 3;
    for epoch in 1..=2 * u32::try_from(MAX_LOG_ENTRIES).unwrap() {
        council.propose(leader, &view(epoch));
        council.settle_without(|from, to, _| from == away || to == away);
    }
    (council, leader, away)
}

#[test]
fn a_voter_that_got_the_state_can_stand_for_election_at_once() {
    let (mut council, leader, away) = behind_by_a_whole_log();
    let mut installed = false;
    for _ in 0..20 {
        council.tick(leader);
        // No entries follow the snapshot: the log of the voter that was away is empty when it campaigns.
        council.settle_without(|from, to, message| {
            installed |= message.kind == RaftKind::AppendResponse && from == away && !message.reject;
            installed && (from == leader || to == leader)
        });
    }
    assert!(installed && council.voters[away].log_length() == 0);
    assert_ne!(council.voters[away].view().epoch, Epoch::default());
    within_steps("the voter that was away asks for pre-votes", || {
        council.tick(away);
        council.wire.iter().any(|(_, _, message)| message.kind == RaftKind::RequestPreVote)
    });
}

#[test]
fn no_election_begins_while_the_disk_takes_in_the_state() {
    let (mut council, leader, away) = behind_by_a_whole_log();
    let installs = |council: &Council| {
        let mut writes = council.unwritten[away].iter().flat_map(|(_, writes)| writes);
        writes.any(|write| matches!(write, DiskWrite::Install(_)))
    };
    within_steps("the state is about to be written", || {
        let others = [leader, 3 - leader - away];
        if !council.deliver()
            && !others.into_iter().any(|at| council.write_one(at))
            && !council.write_one(away)
        {
            council.tick(leader);
        }
        installs(&council)
    });
    council.wire.clear();
    for _ in 0..20 * PACE.election {
        council.tick(away);
    }
    assert!(council.wire.is_empty());
    council.settle();
    assert_eq!(council.voters[away].view(), council.voters[leader].view());
}

#[test]
fn state_that_was_lost_on_the_way_is_sent_again() {
    let (mut council, leader, away) = behind_by_a_whole_log();
    let mut lost = 0;
    for _ in 0..20 {
        council.tick(leader);
        council.settle_without(|_, _, message| {
            let loses = message.kind == RaftKind::Snapshot && lost < 3;
            lost += usize::from(loses);
            loses
        });
    }
    assert_eq!((lost, council.voters[away].view()), (3, council.voters[leader].view()));
}

#[test]
fn a_voter_that_is_a_little_behind_gets_entries_and_not_the_state() {
    let mut council = Council::of(3);
    let leader = council.elect();
    let away = (leader + 1) % 3;
    let mut epoch = 0;
    within_steps("the leader has shortened its log", || {
        epoch += 1;
        let before = council.voters[leader].log_length();
        council.propose(leader, &view(epoch));
        council.settle_without(|from, to, _| cut_off(before, from, to, away));
        council.voters[leader].log_length() < before
    });
    let mut whole = 0;
    for _ in 0..20 {
        council.tick(leader);
        council.settle_without(|_, _, message| {
            whole += usize::from(message.kind == RaftKind::Snapshot);
            false
        });
    }
    assert_eq!((whole, council.voters[away].view()), (0, &view(epoch)));
}

/// Returns whether a message is lost: those to or from the voter that is away, once the log is nearly full.
fn cut_off(length: usize, from: usize, to: usize, away: usize) -> bool {
    length + MAX_LOG_ENTRIES / 4 > MAX_LOG_ENTRIES && (from == away || to == away)
}

#[test]
fn a_view_follows_under_the_same_terms_and_the_first_one_under_any_that_make_sense() {
    let terms = |millis| Terms { length: Span::from_millis(millis), ..Terms::default() };
    let under = |epoch, millis| View { terms: terms(millis), ..view(epoch) };
    let follows = |last: &View, next: &View| disk::follow(last, &disk::encode(next)).is_some();
    assert!(follows(&View::default(), &under(1, 7000)));
    assert!(!follows(&View::default(), &under(1, 1)));
    assert!(follows(&under(1, 7000), &under(2, 7000)));
    assert!(!follows(&under(1, 7000), &under(2, 6999)));
}
