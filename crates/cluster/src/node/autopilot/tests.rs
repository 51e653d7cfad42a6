//! Which step a leader takes: what it waits for, what it prefers, and what it refuses.

use super::*;
use meshlock_protocol::Epoch;

const STABLE: Span = Span::from_millis(10_000);
const FRESH: Span = Span::from_millis(3_000);
const REPLACE: Span = Span::from_millis(60_000);

fn site(name: &str) -> SiteName {
    name.parse().unwrap()
}

fn disk(name: &str) -> Incarnation {
    Incarnation::new(u64::from(name.as_bytes()[0]))
}

/// A leader's knowledge of a cluster, and a clock that the test moves.
struct Cluster {
    pilot: Pilot,
    voters: Voters,
    members: Vec<Member>,
    registered: BTreeMap<SiteName, Incarnation>,
    auto: bool,
    now: Time,
    index: u64,
    caught_up: bool,
}

impl Cluster {
    /// The first sites vote.
    fn of(voters: &[&str], members: &[&str]) -> Self {
        let sites: Vec<SiteName> = voters.iter().map(|name| site(name)).collect();
        let mut cluster = Cluster {
            pilot: Pilot::default(),
            voters: Voters::founding(&sites),
            members: Vec::new(),
            registered: BTreeMap::new(),
            auto: true,
            now: Time::ZERO,
            index: 1,
            caught_up: true,
        };
        for name in members {
            cluster.join(name, disk(name));
        }
        // It has led for a while.
        cluster.pilot.since = Some(Time::ZERO);
        cluster.now = Time::ZERO + FRESH;
        cluster.renew();
        cluster
    }

    fn view(&self) -> View {
        View { epoch: Epoch::new(1).unwrap(), members: self.members.clone(), ..View::default() }
    }

    fn voter_id(&self, name: &str, with: Incarnation) -> Option<u64> {
        let mut of = self.voters.everyone().filter(|voter| voter.site == site(name));
        of.find(|voter| voter.disk.unwrap_or(disk(name)) == with).map(|voter| voter.id)
    }

    /// A member says which disk it has, and acts as the voter with that disk.
    fn claim(&mut self, name: &str, disk: Incarnation) {
        let (view, acts_as) = (self.view(), self.voter_id(name, disk));
        let member = view.member(&site(name)).unwrap().clone();
        self.pilot.on_claim(member, Claim { disk, acts_as }, &view, self.now);
    }

    fn join(&mut self, name: &str, disk: Incarnation) {
        self.members.push(Member { site: site(name), incarnation: disk });
        self.members.sort();
        self.claim(name, disk);
    }

    fn leave(&mut self, name: &str) {
        self.members.retain(|member| member.site != site(name));
        let view = self.view();
        self.pilot.on_agreed(&view);
    }

    fn timing(&self) -> PilotTiming {
        let auto = Automatic { replace_after: REPLACE, stable_after: STABLE };
        PilotTiming { auto: self.auto.then_some(auto), learner_timeout: STABLE, fresh: FRESH }
    }

    fn step(&mut self) -> Option<VoterChange> {
        let (view, timing, caught_up) = (self.view(), self.timing(), self.caught_up);
        let (voters, registered) = (&self.voters, &self.registered);
        let at = Situation { voters, view: &view, registered, now: self.now, timing };
        self.pilot.next_step(at, |_| caught_up)
    }

    fn ask(&mut self, request: VoterRequest) -> Option<Result<(), VoterRefusal>> {
        let (view, timing) = (self.view(), self.timing());
        let (voters, registered) = (&self.voters, &self.registered);
        let at = Situation { voters, view: &view, registered, now: self.now, timing };
        self.pilot.on_request(request, at)
    }

    /// Lets time pass, in which the members renew their leases.
    fn pass(&mut self, span: Span) {
        self.now = self.now + span;
        self.renew();
    }

    fn renew(&mut self) {
        for member in self.members.clone() {
            if let Some((claim, _)) = self.pilot.claims.get(&member).copied() {
                self.claim(member.site.as_str(), claim.disk);
            }
        }
    }

    /// Takes steps until there is none, and lets every learner become the voter. Returns the steps that concern who votes.
    fn run(&mut self) -> Vec<VoterChange> {
        let mut steps = Vec::new();
        for _ in 0..50 {
            let Some(step) = self.step() else { return steps };
            self.index += 1;
            self.voters = self.voters.after(&step, self.index).unwrap_or_else(|| panic!("{step:?}"));
            self.renew();
            if !matches!(step, VoterChange::Settle { .. }) {
                steps.push(step);
            }
        }
        panic!("it goes in circles: {steps:?}");
    }

    fn sites(&self) -> Vec<String> {
        self.voters.voters.iter().map(|voter| voter.site.to_string()).collect()
    }
}

#[test]
fn the_voters_become_the_largest_odd_number_that_the_members_allow() {
    for (members, voters) in [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (6, 5), (7, 7), (9, 7)] {
        let names = &["a", "b", "c", "d", "e", "f", "g", "h", "i"][..members];
        let mut cluster = Cluster::of(&["a"], names);
        assert_eq!(cluster.run(), [], "nobody has been there long enough");
        cluster.pass(STABLE);
        cluster.run();
        assert_eq!(cluster.sites(), names[..voters], "{members} members");
    }
    // An even number of first voters stays, or becomes odd.
    let mut two = Cluster::of(&["a", "b"], &["a", "b"]);
    two.step();
    two.pass(STABLE);
    assert_eq!(two.run(), []);
    two.join("c", disk("c"));
    two.step();
    two.pass(STABLE);
    two.run();
    assert_eq!(two.sites(), ["a", "b", "c"]);
}

#[test]
fn a_voter_that_is_gone_for_long_is_replaced_by_the_member_that_has_been_there_longest() {
    let mut cluster = Cluster::of(&["a", "b", "c"], &["a", "b", "c", "d"]);
    cluster.step();
    cluster.pass(STABLE);
    cluster.join("e", Incarnation::new(3));
    assert_eq!(cluster.run(), [], "four members have three voters");
    cluster.registered.insert(site("c"), disk("c"));
    cluster.leave("c");
    cluster.leave("e");
    cluster.step();
    cluster.pass(Span::from_micros(REPLACE.micros() - 1));
    assert_eq!(cluster.run(), []);
    cluster.pass(Span::TICK);
    cluster.run();
    assert_eq!(cluster.sites(), ["a", "b", "d"]);
    assert!(!cluster.voters.is_joint() && cluster.voters.learners.is_empty());
    // Nobody is left who could vote, so the next one that goes is not replaced, and the voters do not become fewer.
    cluster.leave("d");
    cluster.step();
    cluster.pass(REPLACE);
    assert_eq!(cluster.run(), []);
}

#[test]
fn a_site_that_has_lost_its_disk_votes_again_under_another_number() {
    let mut cluster = Cluster::of(&["a", "b", "c"], &["a", "b", "c"]);
    cluster.step();
    cluster.pass(STABLE);
    assert_eq!(cluster.run(), []);
    cluster.registered.insert(site("c"), disk("c"));
    cluster.leave("c");
    cluster.members.push(Member { site: site("c"), incarnation: Incarnation::new(900) });
    let (view, new) = (cluster.view(), Incarnation::new(900));
    let member = view.member(&site("c")).unwrap().clone();
    cluster.pilot.on_claim(member, Claim { disk: new, acts_as: None }, &view, cluster.now);
    assert_eq!(cluster.step(), None);
    cluster.pass(STABLE);
    // Who stays is bound to a disk first.
    assert!(matches!(cluster.step(), Some(VoterChange::Settle { id: 1, .. })));
    let steps = cluster.run();
    assert_eq!(steps[0], VoterChange::Admit { site: site("c"), disk: new, replaced: Some(3), wanted: 1 });
    assert_eq!(cluster.sites(), ["a", "b", "c"]);
    assert_eq!(cluster.voters.of_site(&site("c")).map(|voter| (voter.id, voter.disk)), Some((4, Some(new))));
}

#[test]
fn fixed_voters_change_only_on_request() {
    let mut cluster = Cluster::of(&["a"], &["a", "b", "c"]);
    cluster.auto = false;
    cluster.step();
    cluster.pass(REPLACE);
    assert_eq!(cluster.run(), []);
    let promote = VoterRequest::Promote(site("b"));
    assert_eq!(cluster.ask(promote.clone()), None, "under way");
    assert_eq!(cluster.ask(VoterRequest::Promote(site("c"))), Some(Err(VoterRefusal::Busy)));
    cluster.run();
    assert_eq!(cluster.sites(), ["a", "b"]);
    assert_eq!(cluster.ask(promote), Some(Ok(())));
    let replace = VoterRequest::Replace { old: site("b"), new: site("c") };
    assert_eq!(cluster.ask(replace.clone()), None);
    cluster.run();
    assert_eq!((cluster.sites(), cluster.ask(replace)), (vec!["a".to_owned(), "c".to_owned()], Some(Ok(()))));
    let demote = VoterRequest::Demote(site("a"));
    assert_eq!(cluster.ask(demote.clone()), None);
    cluster.run();
    assert_eq!((cluster.sites(), cluster.ask(demote)), (vec!["c".to_owned()], Some(Ok(()))));
    assert_eq!(cluster.ask(VoterRequest::Demote(site("c"))), Some(Err(VoterRefusal::LastVoter(site("c")))));
}

#[test]
fn a_site_that_was_demoted_on_request_is_not_promoted_without_being_asked() {
    let mut cluster = Cluster::of(&["a", "b", "c"], &["a", "b", "c"]);
    cluster.step();
    cluster.pass(STABLE);
    assert_eq!(cluster.ask(VoterRequest::Demote(site("b"))), None);
    cluster.run();
    cluster.pass(REPLACE);
    assert_eq!((cluster.run(), cluster.sites()), (vec![], vec!["a".to_owned(), "c".to_owned()]));
    assert_eq!(cluster.ask(VoterRequest::Promote(site("b"))), None);
    cluster.run();
    assert_eq!(cluster.sites(), ["a", "c", "b"]);
}

#[test]
fn requests_that_cannot_be_fulfilled_are_refused_with_the_reason() {
    let mut cluster = Cluster::of(&["a", "b", "c"], &["a", "b", "c", "d"]);
    let refused = |cluster: &mut Cluster, request| cluster.ask(request).unwrap().unwrap_err();
    let promote = |name| VoterRequest::Promote(site(name));
    let demote = |name| VoterRequest::Demote(site(name));
    assert_eq!(refused(&mut cluster, promote("z")), VoterRefusal::NotMember(site("z")));
    assert_eq!(refused(&mut cluster, demote("d")), VoterRefusal::NotVoter(site("d")));
    let replace = |old, new| VoterRequest::Replace { old: site(old), new: site(new) };
    assert_eq!(refused(&mut cluster, replace("a", "b")), VoterRefusal::Votes(site("b")));
    assert_eq!(cluster.ask(replace("d", "b")), Some(Ok(())), "it is so already");
    // One of the voters that stay is away, and nobody knows its disk.
    cluster.leave("c");
    assert_eq!(refused(&mut cluster, replace("b", "d")), VoterRefusal::DiskUnknown(site("c")));
    cluster.registered.extend([(site("c"), disk("c")), (site("b"), disk("b"))]);
    assert_eq!(cluster.ask(replace("b", "d")), None, "two of a, c and d are there");
    cluster.run();
    assert_eq!(cluster.sites(), ["a", "c", "d"]);
    assert_eq!(refused(&mut cluster, demote("d")), VoterRefusal::NoMajority);
    let seven = ["a", "b", "c", "d", "e", "f", "g"];
    let mut full = Cluster::of(&seven, &["a", "b", "c", "d", "e", "f", "g", "h"]);
    assert_eq!(refused(&mut full, promote("h")), VoterRefusal::TooMany);
    // A program that knows no changes of voters says nothing of its disk.
    full.members.push(Member { site: site("i"), incarnation: Incarnation::new(1) });
    assert_eq!(refused(&mut full, demote("g")), VoterRefusal::OlderVersion(vec![site("i")]));
}

#[test]
fn a_member_that_has_been_silent_is_not_counted_though_its_lease_lasts() {
    let mut cluster = Cluster::of(&["a", "b", "c"], &["a", "b", "c"]);
    cluster.now = cluster.now + FRESH + Span::TICK;
    for name in ["a", "b"] {
        cluster.claim(name, disk(name));
    }
    cluster.registered.insert(site("c"), disk("c"));
    assert_eq!(cluster.ask(VoterRequest::Demote(site("b"))), Some(Err(VoterRefusal::NoMajority)));
    cluster.claim("c", disk("c"));
    assert_eq!(cluster.ask(VoterRequest::Demote(site("b"))), None);
}

#[test]
fn a_leader_that_was_just_elected_refuses_nothing_before_everyone_could_speak_to_it() {
    let mut cluster = Cluster::of(&["a", "b", "c"], &["a", "b", "c", "d"]);
    cluster.pilot = Pilot::default();
    let replace = VoterRequest::Replace { old: site("b"), new: site("d") };
    assert_eq!(cluster.ask(replace.clone()), None);
    cluster.now = cluster.now + FRESH;
    let all = ["a", "b", "c", "d"].map(site).to_vec();
    assert_eq!(cluster.ask(replace.clone()), Some(Err(VoterRefusal::OlderVersion(all))));
    for name in ["a", "b", "c", "d"] {
        cluster.claim(name, disk(name));
    }
    assert_eq!(cluster.ask(replace), None, "under way");
}

#[test]
fn no_step_leaves_voters_of_which_a_majority_is_away() {
    let demotes = || {
        let mut cluster = Cluster::of(&["a", "b", "c"], &["a", "b", "c"]);
        cluster.auto = false;
        cluster.registered.insert(site("c"), disk("c"));
        cluster.leave("c");
        cluster.ask(VoterRequest::Demote(site("b")))
    };
    assert_eq!(demotes(), Some(Err(VoterRefusal::NoMajority)));
    assert_eq!(mutant::with(Mutant::MinorityPromoted, demotes), None);
}

#[test]
fn a_learner_that_goes_or_does_not_catch_up_is_dismissed_and_another_leader_goes_on() {
    let begun = || {
        let mut cluster = Cluster::of(&["a"], &["a", "b", "c"]);
        cluster.auto = false;
        cluster.ask(VoterRequest::Promote(site("b")));
        cluster.caught_up = false;
        let steps = cluster.run();
        assert!(matches!(steps[..], [VoterChange::Admit { .. }]), "{steps:?}");
        cluster
    };
    let mut slow = begun();
    slow.pass(STABLE);
    assert_eq!(slow.run(), [VoterChange::Dismiss { id: 2 }]);
    let mut gone = begun();
    gone.caught_up = true;
    gone.leave("b");
    assert_eq!(gone.run(), []);
    gone.pass(STABLE);
    assert_eq!(gone.run(), [VoterChange::Dismiss { id: 2 }]);
    let mut next = begun();
    assert_eq!(next.ask(VoterRequest::Demote(site("z"))), Some(Err(VoterRefusal::Busy)));
    let claims = std::mem::take(&mut next.pilot).claims;
    next.pilot.claims = claims;
    next.caught_up = true;
    assert_eq!(next.ask(VoterRequest::Promote(site("b"))), None, "it is the one that is under way");
    assert_eq!(next.ask(VoterRequest::Promote(site("c"))), Some(Err(VoterRefusal::Busy)));
    next.run();
    assert_eq!(next.sites(), ["a", "b"]);
}

#[test]
fn absent_voters_are_told_when_that_changes_and_again_while_they_are_absent() {
    let repeat = Span::from_millis(5_000);
    let tell = |cluster: &mut Cluster| {
        cluster.step();
        let (view, timing) = (cluster.view(), cluster.timing());
        let (voters, registered) = (&cluster.voters, &cluster.registered);
        let at = Situation { voters, view: &view, registered, now: cluster.now, timing };
        cluster.pilot.absence_to_tell(at, repeat)
    };
    let mut cluster = Cluster::of(&["a", "b", "c"], &["a", "b", "c"]);
    cluster.auto = false;
    assert_eq!(tell(&mut cluster), None);
    cluster.pass(FRESH);
    assert_eq!(tell(&mut cluster), None, "a cluster that is well sends nothing");
    // The site of c says that it acts as no voter, and b says nothing for a while.
    cluster.voters.voters[2].disk = Some(Incarnation::new(1));
    cluster.pass(Span::TICK);
    let idle = Absence { silent: vec![], idle: vec![3] };
    assert_eq!(tell(&mut cluster), Some(idle.clone()));
    assert_eq!(tell(&mut cluster), None, "once");
    cluster.pass(repeat);
    assert_eq!(tell(&mut cluster), Some(idle.clone()), "and again");
    cluster.now = cluster.now + FRESH + Span::TICK;
    for name in ["a", "c"] {
        cluster.claim(name, disk(name));
    }
    assert_eq!(tell(&mut cluster), Some(Absence { silent: vec![2], idle: vec![3] }));
    cluster.renew();
    cluster.voters.voters[2].disk = Some(disk("c"));
    cluster.renew();
    assert_eq!(tell(&mut cluster), Some(Absence::default()), "all are there again");
    cluster.pass(repeat);
    assert_eq!(tell(&mut cluster), None);
    // A leader that was just elected has not heard from anybody.
    cluster.pilot.since = Some(cluster.now);
    cluster.pilot.claims.clear();
    assert_eq!(tell(&mut cluster), None);
    cluster.now = cluster.now + FRESH;
    assert_eq!(tell(&mut cluster), Some(Absence { silent: vec![1, 2, 3], idle: vec![] }));
}

#[test]
fn a_voter_that_writes_nothing_any_more_is_not_counted_until_it_does_again() {
    let absent = || {
        let mut cluster = Cluster::of(&["a", "b", "c"], &["a", "b", "c"]);
        cluster.auto = false;
        // It has entry 7 for a while, and all others have more and more.
        let mut tell = |committed: u64, of_third: u64, span: Span| {
            cluster.pass(span);
            let acknowledged = |id: u64| if id == 3 { of_third } else { committed };
            cluster.pilot.note_progress(&cluster.voters, committed, acknowledged, cluster.now);
            cluster.step();
            let (view, timing) = (cluster.view(), cluster.timing());
            let (voters, registered) = (&cluster.voters, &cluster.registered);
            let at = Situation { voters, view: &view, registered, now: cluster.now, timing };
            let refused = cluster.pilot.plan(&VoterRequest::Demote(site("b")), at).err();
            (cluster.pilot.absence_to_tell(at, FRESH).map(|absence| absence.silent), refused)
        };
        tell(7, 7, FRESH);
        assert_eq!(tell(8, 7, FRESH).0, None, "it is behind since just now");
        assert_eq!(tell(9, 8, FRESH).0, None, "it goes on, one entry behind the others");
        assert_eq!(tell(9, 8, FRESH).0, None);
        let stuck = tell(9, 8, Span::TICK);
        (stuck, tell(9, 9, Span::TICK))
    };
    let no_majority = Some(VoterRefusal::NoMajority);
    assert_eq!(absent(), ((Some(vec![3]), no_majority), (Some(vec![]), None)), "and no step counts on it");
    assert_eq!(mutant::with(Mutant::LaggingVoterCounts, absent).0, (None, None));
}

/// Five voters, of which e is not there. It has registered with b, c and d, voted, lost its disk, and then registered with the leader.
fn without_e() -> Cluster {
    let mut cluster = Cluster::of(&["a", "b", "c", "d", "e"], &["a", "b", "c", "d"]);
    cluster.registered.insert(site("e"), Incarnation::new(900));
    cluster
}

impl Cluster {
    fn record(&mut self, at: &str, of: &str, disk: Incarnation) {
        let view = self.view();
        let member = view.member(&site(at)).unwrap().clone();
        self.pilot.on_records(member, vec![(site(of), disk)], (&self.voters.voters, &view));
    }

    /// Demotes d, and returns the disk that e is bound to.
    fn bound(&mut self) -> Result<Option<Incarnation>, VoterRefusal> {
        if let Some(Err(refused)) = self.ask(VoterRequest::Demote(site("d"))) {
            return Err(refused);
        }
        self.run();
        Ok(self.voters.of_site(&site("e")).and_then(|voter| voter.disk))
    }
}

#[test]
fn a_voter_that_is_away_is_bound_to_the_disk_that_enough_others_have_recorded() {
    let unknown = Err(VoterRefusal::DiskUnknown(site("e")));
    let mut cluster = without_e();
    assert_eq!(cluster.bound(), unknown, "the leader's record alone can be that of a later disk");
    cluster.record("b", "e", disk("e"));
    cluster.record("c", "e", disk("e"));
    assert_eq!(cluster.bound(), unknown, "three of five are needed");
    cluster.record("d", "e", disk("e"));
    assert_eq!(cluster.bound(), Ok(Some(disk("e"))));
    let mutant = mutant::with(Mutant::OneRecordBinds, || without_e().bound());
    assert_eq!(mutant, Ok(Some(Incarnation::new(900))), "this is the mistake");
}

#[test]
fn records_of_sites_that_never_voted_first_and_of_members_that_are_gone_do_not_count() {
    let mut cluster = without_e();
    cluster.join("f", disk("f"));
    for (at, of) in [("b", "e"), ("c", "e"), ("f", "e"), ("d", "x")] {
        cluster.record(at, of, disk("e"));
    }
    assert!(cluster.bound().is_err());
    cluster.record("d", "e", disk("e"));
    cluster.leave("b");
    assert!(cluster.bound().is_err());
}
