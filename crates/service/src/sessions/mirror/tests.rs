//! What a mirror does with the sessions of another site, and what its question changes at the site that it follows. The node is alone, and
//! the other site is played: times are given, an hour ahead, so that nothing ends by itself meanwhile.

use std::pin::Pin;

use meshlock_cluster::access::Principal;
use meshlock_cluster::mutant::{self, Mutant};
use meshlock_cluster::names::{Incarnation, Member};
use meshlock_cluster::table::Wait;
use meshlock_cluster::time::{Span, Time};
use meshlock_host::Engine;
use meshlock_host::front::Admitted;
use meshlock_system::now;
use meshlock_testing::{async_test, in_time};
use meshlock_tls::Revoked;
use meshlock_wire::sites::calls::ForwardedCaller;
use meshlock_wire::sites::mirror::{MirrorNews, MirroredSession};

use super::effects::Following;
use super::{ChangeNumber, acknowledged};
use crate::sessions::registry::{LeaseId, Vouched};
use crate::sessions::tests::{key_request, lease, me, poll, sessions};
use crate::sessions::{AcquireError, KeyGrant, SessionKey, Sessions};

const WINDOW: Span = Span::from_millis(10_000);

fn member(site: &str) -> Member {
    Member { site: site.parse().unwrap(), incarnation: Incarnation::new(1) }
}

fn id(number: i64) -> LeaseId {
    LeaseId::new(number).unwrap()
}

fn session_of(principal: &Principal, number: i64) -> MirroredSession {
    let owner = ForwardedCaller::new(principal, ([127, 0, 0, 1], 1).into(), 1).unwrap();
    let (label, keys, consul) = (None, Vec::new(), None);
    MirroredSession { lease: number, owner, label, lasts: 60_000_000, delay: 0, keys, consul }
}

/// A mirror of the site `other`.
struct Mirror {
    engine: Engine,
    here: Sessions,
    following: Following,
    start: Time,
}

impl Mirror {
    fn new() -> Self {
        let (engine, here) = sessions();
        let start = now() + Span::from_millis(3_600_000);
        let mut mirror = Mirror { engine, here, following: Following::default(), start };
        mirror.view(true);
        mirror.attends(0);
        mirror
    }

    /// Installs a view with the other site or without it, as far as the machine knows.
    fn view(&mut self, has_other: bool) {
        let others = if has_other { vec![member("other")] } else { Vec::new() };
        self.following.mirror.on_view(self.here.site(), Some(others));
    }

    /// Returns the version of the news that is confirmed with the next question, if there is one.
    fn have(&self) -> Option<u64> {
        self.following.mirror.question_to(&member("other"), false).map(|question| question.have)
    }

    fn at(&self, millis: u64) -> Time {
        self.start + Span::from_millis(millis)
    }

    /// Receives the answer to a question that was sent at `sent`.
    fn hears(&mut self, (sent, now): (u64, u64), version: u64, changed: &[i64], ended: &[i64]) {
        let changed = changed.iter().map(|number| session_of(&Principal::Local, *number)).collect();
        let is_first = version == 1;
        self.hears_news(
            (sent, now),
            MirrorNews { version, is_first, leaves: false, ended: ended.into(), changed },
        );
    }

    fn hears_news(&mut self, (sent, now): (u64, u64), news: MirrorNews) {
        let times = (self.at(sent), self.at(now));
        let leaves = news.leaves;
        self.following.on_news(&self.here, &member("other"), news, times);
        if leaves {
            self.looks(times.1);
        }
    }

    fn attends(&mut self, now: u64) {
        self.looks(self.at(now));
    }

    /// Looks who is silent. Of the views of the node, which opens its first one in the background, the machine hears nothing.
    fn looks(&mut self, now: Time) {
        self.following.decide(&self.here, now, |mirror, at, out| mirror.look(at, out));
    }

    /// Returns who vouches for the locks of a session, if this site answers for it.
    fn answers_for(&self, number: i64, now: u64) -> Option<Vouched> {
        self.here.registry().vouched(id(number), self.at(now))
    }

    fn copied(&self) -> Vec<i64> {
        self.following.mirror.leases().map(LeaseId::number).collect()
    }

    /// The time after which a mirror that was answered at `sent` promises nothing.
    fn promised_from(&self, sent: u64) -> Time {
        self.at(sent) + self.here.front().lease_terms().resume_window()
    }
}

#[test]
fn a_mirror_answers_for_a_site_while_that_is_silent_and_for_nobody_as_soon_as_it_answers_again() {
    async_test(async {
        let mut mirror = Mirror::new();
        mirror.hears((0, 10), 1, &[1, 2], &[]);
        mirror.attends(100);
        assert_eq!(mirror.answers_for(1, 100), None, "the other site answers");
        mirror.attends(2000);
        let until = mirror.promised_from(0);
        assert_eq!(
            [1, 2].map(|number| mirror.answers_for(number, 2000)),
            [Some(Vouched::ForAnother { until: Some(until) }); 2]
        );
        mirror.hears((2000, 2010), 2, &[], &[]);
        assert_eq!([1, 2].map(|number| mirror.answers_for(number, 2010)), [None; 2]);
        assert!(mirror.here.is_elsewhere(id(1)), "who asks for it here is not told that it is over");
        assert_eq!(mirror.copied(), [1, 2]);
    });
}

#[test]
fn what_a_mirror_has_promised_is_taken_away_only_when_nobody_can_count_on_it_any_more() {
    async_test(async {
        let mut mirror = Mirror::new();
        mirror.hears((0, 10), 1, &[1, 2, 3], &[]);
        mirror.hears((10, 20), 2, &[], &[3]);
        assert_eq!(
            (mirror.copied(), mirror.have()),
            (vec![1, 2], Some(2)),
            "nobody was told anything of it here"
        );
        mirror.attends(2000);
        let lease_length = mirror.here.front().lease_length().micros() / 1000;
        // The session 1 has ended at its site. A client of it may have been told otherwise here.
        mirror.hears((2000, 2010), 3, &[], &[1]);
        assert_eq!(
            (mirror.copied(), mirror.have()),
            (vec![1, 2], None),
            "it is asked nothing, so that the news is not confirmed"
        );
        mirror.attends(2010 + lease_length - 1);
        assert_eq!(mirror.have(), None);
        assert_eq!(mirror.answers_for(1, 2010 + lease_length - 1), None, "and nobody is told anything more");
        mirror.attends(2010 + lease_length);
        assert_eq!((mirror.copied(), mirror.have()), (vec![2], Some(3)));
        let asks_again = 2010 + lease_length;
        assert_eq!(mirror.answers_for(2, asks_again), None, "the other site could not be heard of until now");
        mirror.hears((asks_again, asks_again + 10), 4, &[], &[2]);
        assert_eq!((mirror.copied(), mirror.have()), (vec![], Some(4)));
    });
}

#[test]
fn a_mirror_gives_up_what_it_mirrors_when_the_site_may_have_given_it_to_others() {
    async_test(async {
        let mut mirror = Mirror::new();
        mirror.hears((0, 10), 1, &[1], &[]);
        mirror.attends(2000);
        let over = mirror.here.front().lease_terms().resume_window().micros() / 1000;
        mirror.attends(over);
        assert_eq!((mirror.copied(), mirror.answers_for(1, over)), (vec![], None));
        assert_eq!(mirror.have(), Some(0), "it asks for everything anew");
    });
}

#[test]
fn a_mirror_answers_at_once_and_without_an_end_for_a_site_that_leaves() {
    async_test(async {
        let mut mirror = Mirror::new();
        let changed = vec![session_of(&Principal::Local, 1), session_of(&Principal::Local, 2)];
        let leaves = MirrorNews { version: 1, is_first: true, leaves: true, ended: vec![], changed };
        mirror.hears_news((0, 10), leaves);
        assert_eq!(
            [1, 2].map(|number| mirror.answers_for(number, 10)),
            [Some(Vouched::ForAnother { until: None }); 2]
        );
        let ended = MirrorNews { version: 2, is_first: false, leaves: true, ended: vec![1], changed: vec![] };
        mirror.hears_news((10, 20), ended);
        assert_eq!(
            [1, 2].map(|number| mirror.answers_for(number, 20)),
            [None, Some(Vouched::ForAnother { until: None })]
        );
    });
}

#[test]
fn the_sessions_of_a_member_that_is_gone_become_the_mirrors_own() {
    async_test(async {
        let mut mirror = Mirror::new();
        mirror.hears((0, 10), 1, &[1], &[]);
        mirror.view(false);
        mirror.attends(20);
        mirror.attends(70);
        assert_eq!(mirror.answers_for(1, 20), Some(Vouched::Here));
        assert!(mirror.copied().is_empty(), "there is nobody left to follow");
    });
}

#[test]
fn the_session_of_a_client_that_is_revoked_is_not_copied() {
    async_test(async {
        let mut mirror = Mirror::new();
        mirror.engine.trust().set_revoked(Revoked::new(&["client/bot"]).unwrap());
        let [bot, other] = ["bot", "other"].map(|name| Principal::Named(name.parse().unwrap()));
        let changed = vec![session_of(&bot, 1), session_of(&other, 2)];
        mirror.hears_news(
            (0, 10),
            MirrorNews { version: 1, is_first: true, leaves: false, ended: vec![], changed },
        );
        assert_eq!(mirror.copied(), [2]);
    });
}

/// A site whose client holds a lock of which the mirror `m` knows, while another client waits for it.
struct Followed {
    _engine: Engine,
    here: Sessions,
    held: SessionKey,
    version: u64,
}

type Acquired = Result<(SessionKey, KeyGrant), AcquireError>;

impl Followed {
    async fn new() -> Self {
        let (engine, here) = sessions();
        let request = key_request(lease(&here), Wait::Forever);
        let (held, _) = in_time("it holds", here.acquire(&me(&here), request)).await.unwrap();
        let mut followed = Followed { _engine: engine, here, held, version: 0 };
        followed.mirror_asks();
        followed
    }

    /// Lets the mirror ask, which confirms what it was told before; it is told what has changed since. It asks far in the future, so that
    /// its site counts it as one that asks however long this test takes.
    fn mirror_asks(&mut self) {
        let late = now() + Span::from_millis(3_600_000);
        let (mut registry, mirror) = (self.here.registry(), member("m"));
        let all = registry.all_leases();
        registry.source.on_question(&mirror, self.version, all.into_iter(), (late, WINDOW)).unwrap();
        let until: ChangeNumber = registry.source.changes();
        let looked = registry.source.take_dirty().into_iter().map(|lease| {
            let is_held = lease == self.held.lease && registry.key(&self.held.name).is_some();
            (lease, is_held.then(|| session_of(&Principal::Local, lease.number())))
        });
        let looked = looked.collect();
        self.version = registry.source.answer(&mirror, looked, until, late).unwrap().version;
        drop(registry);
        self.here.0.confirmed.send_modify(|count| *count += 1);
    }

    /// Starts a call of another client that waits for the lock.
    fn waits<'a>(&'a self, other: &'a Admitted) -> Pin<Box<impl Future<Output = Acquired> + use<'a>>> {
        let mut call = Box::pin(self.here.acquire(other, key_request(lease(&self.here), Wait::Forever)));
        assert!(poll(call.as_mut()).is_pending());
        call
    }

    /// Returns when the node has answered a question, and so all that were asked before.
    async fn settle(&self) {
        let mut request = key_request(lease(&self.here), Wait::Forever);
        request.wanted.lock = "another".parse().unwrap();
        request.wanted.name = b"another/1".to_vec();
        let other = me(&self.here);
        let (key, _) = in_time("the node answers", self.here.acquire(&other, request)).await.unwrap();
        self.here.release(&other, &key.name).unwrap();
    }
}

#[test]
fn a_release_hands_the_lock_over_at_once_and_is_acknowledged_when_the_mirror_knows_it() {
    async_test(async {
        let mut site = Followed::new().await;
        let (here, name) = (site.here.clone(), site.held.name.clone());
        let (caller, other) = (me(&here), me(&here));
        let next = site.waits(&other);
        let mut release = Box::pin(acknowledged(&here, async { here.release(&caller, &name) }));
        assert!(poll(release.as_mut()).is_pending(), "if its site died now, the mirror would hold it again");
        in_time("the next client has the lock, although the mirror has heard nothing", next).await.unwrap();
        // It is told, and then confirms it.
        site.mirror_asks();
        site.mirror_asks();
        assert!(in_time("the release is acknowledged", release).await.is_some());
    });
}

#[test]
fn without_its_clients_word_a_lock_is_free_only_when_the_mirror_knows_that_its_session_is_over() {
    async_test(async {
        let mut site = Followed::new().await;
        let here = site.here.clone();
        let other = me(&here);
        let mut next = Box::pin(here.acquire(&other, key_request(lease(&here), Wait::Forever)));
        assert!(poll(next.as_mut()).is_pending());
        let key = here.registry().remove(&site.held.name).unwrap();
        here.0.end_unasked(key, now());
        site.settle().await;
        assert!(poll(next.as_mut()).is_pending(), "its client may count on what the mirror says");
        site.mirror_asks();
        site.mirror_asks();
        in_time("the lock is free", next).await.unwrap();
    });
}

#[test]
fn every_mistake_of_both_sides_is_caught() {
    let silent: fn() =
        a_mirror_answers_for_a_site_while_that_is_silent_and_for_nobody_as_soon_as_it_answers_again;
    for (mutant, test) in [
        (Mutant::AnswersBesideItsSite, silent),
        (
            Mutant::PromiseTakenAway,
            what_a_mirror_has_promised_is_taken_away_only_when_nobody_can_count_on_it_any_more,
        ),
        (Mutant::RevokedClientCopied, the_session_of_a_client_that_is_revoked_is_not_copied),
        (
            Mutant::AcknowledgedUnmirrored,
            a_release_hands_the_lock_over_at_once_and_is_acknowledged_when_the_mirror_knows_it,
        ),
        (
            Mutant::GivenBeforeCleared,
            without_its_clients_word_a_lock_is_free_only_when_the_mirror_knows_that_its_session_is_over,
        ),
    ] {
        mutant::is_caught_by(mutant, test);
    }
}
