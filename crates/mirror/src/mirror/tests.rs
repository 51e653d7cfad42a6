//! What a mirror asks its host to do. The other site is played, and claims come to what a test says.

use meshlock_cluster::access::Principal;
use meshlock_cluster::claim::{ClaimKey, Proof, ProvedHold};
use meshlock_cluster::mutant::{self, Mutant};
use meshlock_cluster::names::Incarnation;
use meshlock_protocol::{Epoch, FenceClock, Mode};
use meshlock_wire::sites::calls::ForwardedCaller;
use meshlock_wire::sites::mirror::{MirroredKey, MirroredSession};

use super::*;
use crate::{ClaimState, Vouched};

fn member(site: &str) -> Member {
    Member { site: site.parse().unwrap(), incarnation: Incarnation::new(1) }
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// Returns a session of a client that holds these locks through the site `d`.
fn session_of(principal: &Principal, lease: i64, locks: &[&str]) -> MirroredSession {
    let key = |lock: &&str| {
        let fence = FenceClock::new(Epoch::default()).enter();
        let (holder, lock) = (member("d"), lock.parse().unwrap());
        let hold = ProvedHold { holder, lock, permits: 1, slot: None, fence, mode: Mode::Exclusive };
        let proof = Proof::new(&ClaimKey::new([1; 32]), b"", hold).to_bytes();
        let (name, value, label) = (proof.clone(), Vec::new(), "a client".to_owned());
        MirroredKey { name, value, label, created: 1, modified: 1, version: 1, proof }
    };
    let owner = ForwardedCaller::new(principal, ([127, 0, 0, 1], 1).into(), 1).unwrap();
    let (label, keys, consul) = (None, locks.iter().map(key).collect(), None);
    MirroredSession { lease, owner, label, lasts: 60_000_000, delay: 0, keys, consul }
}

fn session(lease: i64, locks: &[&str]) -> MirroredSession {
    session_of(&Principal::Local, lease, locks)
}

/// The mirror `m` of the site `d`.
struct Mirroring {
    mirror: Mirror,
    claims: ClaimState,
    adopts: bool,
    version: u64,
}

impl Mirroring {
    fn new() -> Self {
        let (mirror, claims) = (Mirror::default(), ClaimState::Pending);
        let mut mirroring = Mirroring { mirror, claims, adopts: true, version: 0 };
        mirroring.view(&["d"]);
        assert_eq!(mirroring.look(0), [""; 0]);
        mirroring
    }

    fn view(&mut self, others: &[&str]) {
        let others = others.iter().map(|other| member(other)).collect();
        self.mirror.on_view(&"m".parse().unwrap(), Some(others));
    }

    fn decide(
        &mut self,
        now: u64,
        decide: impl FnOnce(&mut Mirror, &Surroundings<'_>, &mut Vec<MirrorEffect>),
    ) -> Vec<String> {
        let claims = self.claims;
        let named = |principal: &Principal| matches!(principal, Principal::Named(_));
        let (now, terms, leaves) = (at(now), Terms::default(), false);
        let at = Surroundings { now, terms, leaves, claims: &|_| claims, is_revoked: &named };
        let mut out = Vec::new();
        decide(&mut self.mirror, &at, &mut out);
        out.into_iter().map(|effect| self.done(effect)).collect()
    }

    /// Does what the machine asks for, and returns it in short.
    fn done(&mut self, effect: MirrorEffect) -> String {
        match effect {
            MirrorEffect::Claim(claim) => format!("claim {}", claim.claim.0),
            MirrorEffect::GiveUp(claim) => format!("give up {}", claim.0),
            MirrorEffect::Adopt(adoption) => {
                self.mirror.on_adopted(adoption.lease, self.adopts);
                format!("adopt {} {}", adoption.lease, until(adoption.vouched))
            }
            MirrorEffect::Vouch { lease, vouched } => format!("vouch {lease} {}", until(vouched)),
            MirrorEffect::Withdraw { lease, is_over } => format!("withdraw {lease} {is_over}"),
            MirrorEffect::TakeOver { lease, .. } => format!("take over {lease}"),
        }
    }

    fn look(&mut self, now: u64) -> Vec<String> {
        self.decide(now, Mirror::look)
    }

    fn hears(&mut self, now: u64, leaves: bool, changed: Vec<MirroredSession>, ended: &[i64]) -> Vec<String> {
        self.version += 1;
        let (version, is_first) = (self.version, self.version == 1);
        let news = MirrorNews { version, is_first, leaves, ended: ended.into(), changed };
        self.decide(now, |mirror, surroundings, out| {
            mirror.on_news(&member("d"), news, at(now - 10), surroundings, out);
        })
    }

    fn have(&self) -> Option<u64> {
        self.mirror.question_to(&member("d"), false).map(|question| question.have)
    }
}

fn until(vouched: Vouched) -> String {
    match vouched {
        Vouched::Here => "here".to_owned(),
        Vouched::ForAnother { until: None } => "for ever".to_owned(),
        Vouched::ForAnother { until: Some(until) } => format!("{}", until.since(Time::ZERO).micros() / 1000),
    }
}

#[test]
fn every_site_has_one_mirror_and_is_the_mirror_of_one() {
    let sites = ["b", "c", "a"].map(|name| name.parse::<SiteName>().unwrap());
    let mirrors: Vec<&str> =
        sites.iter().map(|site| mirror_of(site, sites.iter()).unwrap().as_str()).collect();
    assert_eq!(mirrors, ["c", "a", "b"]);
    assert_eq!(mirror_of(&sites[0], sites[..1].iter()), None, "a site alone has none");
    let other: SiteName = "aa".parse().unwrap();
    assert_eq!(mirror_of(&other, sites.iter()).unwrap().as_str(), "b", "also one that has left");
}

#[test]
fn a_mirror_claims_what_it_hears_of_and_gives_up_what_is_released() {
    let mut d = Mirroring::new();
    assert_eq!(
        d.hears(20, false, vec![session(1, &["a", "b"]), session(2, &["c"])], &[]),
        ["claim 1", "claim 2", "claim 3"]
    );
    assert_eq!((d.look(50), d.have()), (vec![], Some(1)));
    assert_eq!(
        d.hears(60, false, vec![session(1, &["b", "x"])], &[2]),
        ["give up 3", "claim 4", "give up 1"]
    );
    d.claims = ClaimState::Refused;
    assert_eq!(d.look(70), ["give up 2", "give up 4"], "what cannot be claimed is not copied");
}

#[test]
fn it_answers_for_a_silent_site_and_for_nobody_when_that_answers_again() {
    let mut d = Mirroring::new();
    d.hears(20, false, vec![session(1, &["a"])], &[]);
    assert_eq!(d.look(500), [""; 0]);
    assert_eq!(d.look(2000), ["adopt 1 10010"]);
    assert_eq!(d.look(2050), ["vouch 1 10010"]);
    assert_eq!(d.hears(2100, false, vec![], &[]), ["withdraw 1 false"]);
    assert_eq!((d.look(2110), d.have()), (vec![], Some(2)));
}

#[test]
fn it_does_not_confirm_what_takes_away_its_promise_before_that_is_over() {
    let mut d = Mirroring::new();
    d.hears(20, false, vec![session(1, &["a"])], &[]);
    d.look(2000);
    assert_eq!(d.hears(2100, false, vec![], &[1]), ["withdraw 1 false"]);
    assert_eq!((d.look(7099), d.have()), (vec![], None));
    assert_eq!((d.look(7100), d.have()), (vec!["give up 1".to_owned()], Some(2)));
}

#[test]
fn it_gives_up_what_the_site_may_have_given_to_others() {
    let mut d = Mirroring::new();
    d.hears(20, false, vec![session(1, &["a"])], &[]);
    d.look(2000);
    assert_eq!(d.look(9509), ["vouch 1 10010"]);
    assert_eq!(
        (d.look(9510), d.have()),
        (vec!["withdraw 1 true".to_owned(), "give up 1".to_owned()], Some(0))
    );
}

#[test]
fn it_takes_over_what_is_settled_when_the_site_is_gone() {
    let mut d = Mirroring::new();
    d.hears(20, false, vec![session(1, &["a"])], &[]);
    d.view(&["e"]);
    assert_eq!(d.look(3000), ["adopt 1 for ever"]);
    assert_eq!(d.look(3050), ["vouch 1 for ever"]);
    d.claims = ClaimState::Settled;
    assert_eq!(d.look(3100), ["vouch 1 for ever", "take over 1"]);
    assert_eq!(d.mirror.sessions(), 0);
    let mut lost = Mirroring::new();
    lost.hears(20, false, vec![session(1, &["a"])], &[]);
    lost.view(&["e"]);
    lost.claims = ClaimState::Lost;
    assert_eq!(lost.look(3000), ["give up 1"]);
}

#[test]
fn it_answers_at_once_for_a_site_that_leaves() {
    let mut d = Mirroring::new();
    d.hears(20, true, vec![session(1, &["a"])], &[]);
    assert_eq!(d.look(20), ["adopt 1 for ever"]);
    assert_eq!(d.hears(60, true, vec![], &[1]), ["withdraw 1 true", "give up 1"]);
}

#[test]
fn a_mirror_that_is_replaced_does_not_begin_to_answer() {
    let mut d = Mirroring::new();
    d.hears(20, false, vec![session(1, &["a"])], &[]);
    // It was stopped: the first thing that it sees is that the site is silent and another member is its mirror.
    d.view(&["d", "e"]);
    assert_eq!(d.look(2000), ["give up 1"]);
}

#[test]
fn a_mirror_that_is_replaced_keeps_what_it_has_promised_and_then_says_that_it_knows_nothing() {
    let mut d = Mirroring::new();
    d.hears(20, false, vec![session(1, &["a"]), session(2, &["b"])], &[]);
    assert_eq!(d.look(2000), ["adopt 1 10010", "adopt 2 10010"]);
    d.view(&["d", "e"]);
    assert_eq!((d.look(2050), d.have()), (vec!["vouch 1 10010".into(), "vouch 2 10010".into()], Some(0)));
    assert_eq!(d.hears(2100, false, vec![], &[1, 2]), ["withdraw 1 false", "withdraw 2 false"]);
    assert_eq!((d.look(7099), d.have()), (vec![], None), "clients may count on what it has said");
    assert_eq!((d.look(7100), d.have()), (vec!["give up 1".into(), "give up 2".into()], Some(0)));
    assert_eq!((d.hears(7120, false, vec![], &[1, 2]), d.have()), (vec![], Some(3)));
    d.mirror.on_unknown(&member("d"));
    assert_eq!((d.look(7150), d.have()), (vec![], None));
}

#[test]
fn a_mirror_that_is_replaced_confirms_nothing_of_which_it_has_dropped_something() {
    let mut d = Mirroring::new();
    d.hears(20, false, vec![session(1, &["a"])], &[]);
    d.view(&["d", "e"]);
    assert_eq!((d.look(50), d.have()), (vec!["give up 1".to_owned()], Some(0)));
    // The site does not know the view yet.
    assert_eq!(d.hears(60, false, vec![session(1, &["a"])], &[]), ["claim 2"]);
    assert_eq!((d.look(70), d.have()), (vec!["give up 2".to_owned()], Some(0)));
    // It asks for as long as the site may expect something of it.
    assert_eq!((d.look(10_050), d.have()), (vec![], Some(0)));
    assert_eq!((d.look(10_051), d.have()), (vec![], None));
}

#[test]
fn a_mirror_answers_for_a_site_that_leaves_although_another_one_is_its_mirror_by_then() {
    let mut d = Mirroring::new();
    d.hears(20, true, vec![session(1, &["a"])], &[]);
    assert_eq!(d.look(20), ["adopt 1 for ever"]);
    d.view(&["d", "e"]);
    assert_eq!((d.look(50), d.have()), (vec!["vouch 1 for ever".to_owned()], Some(1)));
}

#[test]
fn it_confirms_nothing_to_a_site_that_leaves_that_it_cannot_keep() {
    let mut d = Mirroring::new();
    d.claims = ClaimState::Refused;
    d.hears(20, false, vec![session(1, &["a"])], &[]);
    assert_eq!((d.look(30), d.have()), (vec!["give up 1".to_owned()], Some(1)), "it has a share of its own");
    d.hears(40, true, vec![], &[]);
    assert_eq!((d.look(40), d.have()), (vec![], Some(0)), "the site would forget the session and be gone");
    // It is told of everything anew, and the claim is not answered at once.
    d.version = 0;
    d.claims = ClaimState::Asked;
    assert_eq!(d.hears(60, true, vec![session(1, &["a"])], &[]), ["claim 2"]);
    assert_eq!((d.look(60), d.have()), (vec!["adopt 1 for ever".to_owned()], None));
    d.claims = ClaimState::Pending;
    assert_eq!((d.look(110), d.have()), (vec!["vouch 1 for ever".to_owned()], Some(1)));
}

#[test]
fn it_confirms_nothing_to_a_site_that_leaves_for_which_its_host_does_not_answer() {
    let mut d = Mirroring::new();
    d.adopts = false;
    d.hears(20, true, vec![session(1, &["a"])], &[]);
    assert_eq!((d.look(20), d.have()), (vec!["adopt 1 for ever".to_owned()], Some(0)));
}

#[test]
fn it_keeps_what_a_site_that_leaves_has_forgotten() {
    let mut d = Mirroring::new();
    d.hears(20, true, vec![session(1, &["a"]), session(2, &["b"])], &[]);
    assert_eq!(d.look(20), ["adopt 1 for ever", "adopt 2 for ever"]);
    // The site has forgotten 1, which has moved, and 2 was released there; everything was asked for anew.
    d.version = 0;
    assert_eq!(d.hears(60, true, vec![], &[2]), ["withdraw 2 true", "give up 2"]);
    assert_eq!(d.look(100), ["vouch 1 for ever"]);
}

#[test]
fn it_copies_no_session_of_a_client_that_is_revoked() {
    let mut d = Mirroring::new();
    let bot = Principal::Named("bot".parse().unwrap());
    assert_eq!(d.hears(20, false, vec![session_of(&bot, 1, &["a"]), session(2, &["b"])], &[]), ["claim 1"]);
    assert_eq!(d.mirror.leases().map(LeaseId::number).collect::<Vec<_>>(), [2]);
}

#[test]
fn every_mistake_of_the_copy_is_caught() {
    for (mutant, test) in [
        (
            Mutant::AnswersBesideItsSite,
            it_answers_for_a_silent_site_and_for_nobody_when_that_answers_again as fn(),
        ),
        (Mutant::PromiseTakenAway, it_does_not_confirm_what_takes_away_its_promise_before_that_is_over),
        (Mutant::ReplacedStandsIn, a_mirror_that_is_replaced_does_not_begin_to_answer),
        (
            Mutant::DroppedConfirmed,
            a_mirror_that_is_replaced_confirms_nothing_of_which_it_has_dropped_something,
        ),
        (Mutant::PartConfirmed, it_confirms_nothing_to_a_site_that_leaves_that_it_cannot_keep),
        (Mutant::PartConfirmed, it_confirms_nothing_to_a_site_that_leaves_for_which_its_host_does_not_answer),
        (Mutant::MovedDropped, it_keeps_what_a_site_that_leaves_has_forgotten),
        (Mutant::RevokedClientCopied, it_copies_no_session_of_a_client_that_is_revoked),
    ] {
        mutant::is_caught_by(mutant, test);
    }
}
