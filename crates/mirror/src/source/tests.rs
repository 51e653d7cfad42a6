//! What a site says to its mirror and to those before, and what it owes them.

use meshlock_cluster::access::Principal;
use meshlock_cluster::names::Incarnation;
use meshlock_wire::sites::calls::ForwardedCaller;

use super::*;

const WINDOW: Span = Span::from_millis(10_000);

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn member(site: &str) -> Member {
    Member { site: site.parse().unwrap(), incarnation: Incarnation::new(1) }
}

fn lease(number: i64) -> LeaseId {
    LeaseId::new(number).unwrap()
}

fn session(number: i64) -> MirroredSession {
    let owner = ForwardedCaller::new(&Principal::Local, ([127, 0, 0, 1], 1).into(), 1).unwrap();
    let (label, keys, consul) = (None, Vec::new(), None);
    MirroredSession { lease: number, owner, label, lasts: 1, delay: 0, keys, consul }
}

/// A source whose mirror `m` asks, and is answered with these sessions: those that are `None` are over.
struct Asked(Source);

impl Asked {
    fn ask(&mut self, have: u64, now: u64, sessions: &[(i64, bool)]) -> Option<MirrorNews> {
        let all = sessions.iter().filter(|(_, is_there)| *is_there).map(|(number, _)| lease(*number));
        self.0.on_question(&member("m"), have, all, (at(now), WINDOW)).ok()?;
        let until = self.0.changes();
        let look = |id: LeaseId| {
            let is_there = sessions.contains(&(id.number(), true));
            (id, is_there.then(|| session(id.number())))
        };
        let looked = self.0.take_dirty().into_iter().map(look).collect();
        self.0.answer(&member("m"), looked, until, at(now))
    }
}

fn numbers(news: &MirrorNews) -> (Vec<i64>, Vec<i64>) {
    (news.changed.iter().map(|session| session.lease).collect(), news.ended.clone())
}

#[test]
fn a_release_is_known_when_the_mirror_has_the_news_of_it_and_not_when_it_was_sent() {
    let mut source = Asked(Source::default());
    let first = source.ask(0, 0, &[(1, true), (2, true)]).unwrap();
    assert!(first.is_first && numbers(&first) == (vec![1, 2], vec![]));
    source.0.on_change(lease(1));
    let change = source.0.owes(lease(1)).unwrap();
    assert!(!source.0.is_known(change));
    let second = source.ask(first.version, 2, &[(2, true)]).unwrap();
    assert_eq!(numbers(&second), (vec![], vec![1]));
    assert!(!second.is_first && !source.0.is_known(change), "it may be lost");
    source.ask(second.version, 3, &[(2, true)]).unwrap();
    assert!(source.0.is_known(change));
    assert_eq!(source.0.owes(lease(1)), None, "it knows nothing of it any more");
    assert!(source.0.owes(lease(2)).is_some());
}

#[test]
fn an_answer_that_was_lost_is_told_again() {
    let mut source = Asked(Source::default());
    let first = source.ask(0, 0, &[(1, true)]).unwrap();
    source.0.on_change(lease(1));
    source.0.on_change(lease(2));
    let lost = source.ask(first.version, 1, &[(2, true)]).unwrap();
    let again = source.ask(first.version, 2, &[(2, true)]).unwrap();
    assert_eq!(numbers(&lost), numbers(&again));
    assert_ne!(lost.version, again.version, "a late answer is not taken for the new one");
    assert_eq!(
        source.0.on_question(&member("m"), lost.version, [].into_iter(), (at(3), WINDOW)),
        Err(UnknownVersion)
    );
}

#[test]
fn without_its_clients_word_nothing_is_free_before_the_window_after_the_last_answer() {
    let mut source = Asked(Source::default());
    source.ask(0, 1000, &[(1, true)]).unwrap();
    source.0.on_change(lease(1));
    let change = source.0.owes(lease(1)).unwrap();
    assert!(!source.0.is_cleared(change, (at(10_999), WINDOW)));
    assert!(source.0.is_cleared(change, (at(11_000), WINDOW)));
    assert_eq!(source.0.owes(lease(3)), None, "nobody was told of it");
}

/// A site whose session 1 the mirror `m` knows, while another member, `n`, begins to ask in its place.
struct Replaced {
    source: Asked,
    /// The version that `n` has.
    have: u64,
}

impl Replaced {
    fn new() -> Self {
        let mut source = Asked(Source::default());
        source.ask(0, 1000, &[(1, true)]).unwrap();
        let mut replaced = Replaced { source, have: 0 };
        assert_eq!(replaced.asks(2000, &[1]), (vec![], vec![]), "the former one may claim what 1 holds");
        replaced
    }

    /// Lets `n` ask, and returns what it is told: the sessions that are `there`, as far as it has to know.
    fn asks(&mut self, now: u64, there: &[i64]) -> (Vec<i64>, Vec<i64>) {
        let (source, n) = (&mut self.source.0, member("n"));
        let all = there.iter().map(|number| lease(*number));
        source.on_question(&n, self.have, all, (at(now), WINDOW)).unwrap();
        let look = |id: LeaseId| (id, there.contains(&id.number()).then(|| session(id.number())));
        let looked = source.take_dirty().into_iter().map(look).collect();
        let news = source.answer(&n, looked, source.changes(), at(now)).unwrap();
        self.have = news.version;
        numbers(&news)
    }

    /// Lets `m` ask, and returns what it is told.
    fn former_asks(&mut self, have: u64, now: u64) -> Option<MirrorNews> {
        self.source.0.on_former_question(&member("m"), have, at(now))
    }
}

#[test]
fn a_mirror_that_is_replaced_may_count_on_what_it_knew_for_as_long() {
    let mut replaced = Replaced::new();
    replaced.source.0.on_change(lease(1));
    let change = replaced.source.0.owes(lease(1)).unwrap();
    for _ in 0..2 {
        replaced.asks(2001, &[]);
    }
    let source = &replaced.source.0;
    assert!(!source.is_cleared(change, (at(10_999), WINDOW)), "the former one has not confirmed it");
    assert!(source.is_cleared(change, (at(12_001), WINDOW)));
}

#[test]
fn a_release_that_a_former_mirror_may_not_know_is_not_known() {
    let mut replaced = Replaced::new();
    replaced.source.0.on_change(lease(1));
    let change = replaced.source.0.owes(lease(1)).unwrap();
    for _ in 0..2 {
        replaced.asks(2001, &[]);
    }
    assert!(!replaced.source.0.is_known(change), "it would come back through the former one");
    let told = replaced.former_asks(0, 2002).unwrap();
    assert_eq!((numbers(&told), told.is_first), ((vec![], vec![1]), false));
    assert!(!replaced.source.0.is_known(change), "it has not confirmed it");
    assert_eq!(replaced.former_asks(told.version, 2003), None);
    assert!(replaced.source.0.is_known(change));
    assert_eq!(replaced.former_asks(0, 2004), None, "it is owed nothing any more");
}

#[test]
fn a_new_mirror_is_told_of_a_session_when_the_former_one_has_dropped_it() {
    let mut replaced = Replaced::new();
    replaced.source.0.on_change(lease(1));
    replaced.source.0.on_change(lease(2));
    assert_eq!(replaced.asks(2001, &[1, 2]), (vec![2], vec![]), "nobody else knows of the other one");
    let first = replaced.former_asks(0, 2002).unwrap();
    let second = replaced.former_asks(0, 2003).unwrap();
    assert!(replaced.former_asks(first.version, 2004).is_some(), "an older answer was meant");
    assert_eq!(replaced.asks(2005, &[1, 2]), (vec![], vec![]));
    let last = replaced.former_asks(second.version, 2006).unwrap();
    replaced.former_asks(last.version, 2007);
    assert!(replaced.source.0.has_news());
    assert_eq!(replaced.asks(2008, &[1, 2]), (vec![1], vec![]));
}

#[test]
fn a_new_mirror_is_told_of_everything_when_the_former_one_cannot_count_on_it_any_more() {
    let mut replaced = Replaced::new();
    assert_eq!(replaced.asks(10_999, &[1]), (vec![], vec![]));
    assert_eq!(replaced.asks(11_000, &[1]), (vec![1], vec![]));
    let mut replaced = Replaced::new();
    // It is left out of the view: its lease was over before.
    replaced.source.0.on_view(&[member("n")]);
    assert_eq!(replaced.asks(2001, &[1]), (vec![1], vec![]));
}

#[test]
fn a_former_mirror_that_is_the_mirror_again_is_told_that_a_session_is_over() {
    let mut replaced = Replaced::new();
    replaced.source.0.on_view(&[member("m")]);
    let news = replaced.source.ask(0, 3000, &[]).unwrap();
    assert!(news.is_first && numbers(&news) == (vec![], vec![1]));
}

#[test]
fn a_site_that_leaves_keeps_the_mirror_that_answers_for_its_sessions() {
    let (m, n): (SiteName, SiteName) = ("m".parse().unwrap(), "n".parse().unwrap());
    let mut source = Asked(Source::default());
    let first = source.ask(0, 0, &[(1, true)]).unwrap();
    source.0.on_leaving();
    let second = source.ask(first.version, 1, &[(1, true)]).unwrap();
    assert!(source.0.is_mirror(&member("n"), Some(&n)), "the present one does not know it yet");
    source.ask(second.version, 2, &[(1, true)]).unwrap();
    assert!(source.0.is_mirror(&member("m"), Some(&n)) && !source.0.is_mirror(&member("n"), Some(&n)));
    source.0.on_view(&[member("n")]);
    assert!(source.0.is_mirror(&member("n"), Some(&n)) && !source.0.is_mirror(&member("m"), Some(&n)));
    assert!(source.0.is_mirror(&member("m"), Some(&m)));
}

#[test]
fn what_does_not_fit_is_told_next_and_is_not_known_before() {
    let mut source = Asked(Source::default());
    let many: Vec<(i64, bool)> = (1..=400).map(|number| (number, true)).collect();
    let first = source.ask(0, 1, &many).unwrap();
    source.0.on_change(lease(400));
    let change = source.0.changes();
    let (mut have, mut told) = (first.version, first.changed.len());
    while told < 400 {
        let news = source.ask(have, 1, &many).unwrap();
        assert!(!news.changed.is_empty() && news.changed.len() < 400);
        assert!(!source.0.is_known(change), "the last one is not told yet, or not confirmed");
        (have, told) = (news.version, told + news.changed.len());
    }
    source.ask(have, 2, &many).unwrap();
    assert!(source.0.is_known(change));
}

#[test]
fn sessions_have_moved_when_the_mirror_knows_that_the_site_leaves() {
    let mut source = Asked(Source::default());
    let first = source.ask(0, 0, &[(1, true), (2, true)]).unwrap();
    source.0.on_leaving();
    assert!(source.0.has_news() && !first.leaves);
    let second = source.ask(first.version, 1, &[(1, true), (2, true)]).unwrap();
    assert!(second.leaves && source.0.moved().is_none());
    source.0.on_question(&member("m"), second.version, [].into_iter(), (at(2), WINDOW)).unwrap();
    source.0.on_change(lease(2));
    assert_eq!(source.0.moved(), Some(vec![lease(1)]), "the mirror does not know what the other is now");
}

#[test]
fn every_mistake_of_the_source_is_caught() {
    for (mutant, test) in [
        (
            Mutant::KnownWhenSent,
            a_release_is_known_when_the_mirror_has_the_news_of_it_and_not_when_it_was_sent as fn(),
        ),
        (Mutant::LostAnswerForgotten, an_answer_that_was_lost_is_told_again),
        (Mutant::PartCountsAsWhole, what_does_not_fit_is_told_next_and_is_not_known_before),
        (
            Mutant::WindowNotAwaited,
            without_its_clients_word_nothing_is_free_before_the_window_after_the_last_answer,
        ),
        (Mutant::FormerMirrorForgotten, a_mirror_that_is_replaced_may_count_on_what_it_knew_for_as_long),
        (Mutant::FormerUnaware, a_release_that_a_former_mirror_may_not_know_is_not_known),
        (Mutant::ToldBesideFormer, a_new_mirror_is_told_of_a_session_when_the_former_one_has_dropped_it),
        (Mutant::LeavesToAnother, a_site_that_leaves_keeps_the_mirror_that_answers_for_its_sessions),
        (Mutant::MovedUnconfirmed, sessions_have_moved_when_the_mirror_knows_that_the_site_leaves),
        (Mutant::MovedAsItWas, sessions_have_moved_when_the_mirror_knows_that_the_site_leaves),
    ] {
        mutant::is_caught_by(mutant, test);
    }
}
