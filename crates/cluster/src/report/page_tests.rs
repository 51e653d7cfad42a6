//! How the pages of several sites become one.

use super::*;
use crate::mutant::is_caught_by;
use meshlock_protocol::Mode;

fn name(text: &str) -> LockName {
    text.parse().unwrap()
}

fn entry(lock: &str, waiters: u64) -> LockEntry {
    let (holders, holders_in_all, waited) = (Vec::new(), 0, Span::from_millis(waiters));
    LockEntry { lock: name(lock), permits: 1, holders, holders_in_all, waiters, waited }
}

fn site(name: &str, locks: &[&str], more: bool) -> SitePage {
    let entries = locks.iter().map(|lock| entry(lock, 1)).collect();
    SitePage { site: name.parse().unwrap(), entries, more }
}

fn question(limit: u32) -> PageQuestion {
    PageQuestion { names: NameFilter::default(), after: None, limit }
}

fn merged(limit: u32, sites: &[SitePage]) -> (Vec<String>, Option<String>) {
    let page = merge(&question(limit), sites.to_vec(), Vec::new(), |_, _| None);
    let names = page.locks.iter().map(|lock| lock.lock.to_string()).collect();
    (names, page.next.map(|next| next.to_string()))
}

/// Reads all pages of what three sites use, as a client does, and returns the names. A site never lists more than two locks at a time, as if
/// their texts were long.
fn read_all(limit: u32) -> Vec<String> {
    let used: [&[&str]; 3] = [&["a", "c", "e", "g"], &["b", "c", "d"], &["x", "y", "z"]];
    let (mut names, mut after): (Vec<String>, Option<String>) = (Vec::new(), None);
    loop {
        let (most, listed) = (limit as usize, limit.min(2) as usize);
        let pages = used.iter().zip(["s1", "s2", "s3"]).map(|(used, of)| {
            let later: Vec<&str> = used
                .iter()
                .copied()
                .filter(|lock| after.as_deref().is_none_or(|after| *lock > after))
                .collect();
            site(of, &later[..listed.min(later.len())], later.len() > listed)
        });
        let (page, next) = merged(limit, &pages.collect::<Vec<_>>());
        assert!(page.len() <= most && (next.is_none() || !page.is_empty()), "{page:?}");
        names.extend(page);
        match next {
            Some(next) => after = Some(next),
            None => return names,
        }
    }
}

fn every_lock_is_listed_once_and_in_order() {
    for limit in 1..=11 {
        let expected = ["a", "b", "c", "d", "e", "g", "x", "y", "z"];
        assert_eq!(read_all(limit), expected, "pages of {limit}");
    }
}

#[test]
fn however_long_the_pages_are_every_lock_is_listed_once_and_in_order() {
    is_caught_by(Mutant::PageBeyondKnown, every_lock_is_listed_once_and_in_order);
}

#[test]
fn a_page_ends_where_a_site_has_not_said_everything() {
    let sites = [site("s1", &["a", "b"], true), site("s2", &["c", "d"], false)];
    assert_eq!(merged(10, &sites), (vec!["a".to_owned(), "b".to_owned()], Some("b".to_owned())));
}

#[test]
fn a_lock_is_summed_over_all_sites_and_its_oldest_holders_are_listed() {
    let holder = |age| HolderReport {
        label: None,
        fence: meshlock_protocol::FenceClock::new(meshlock_protocol::Epoch::default()).enter(),
        slot: None,
        age: Span::from_millis(age),
        lost: false,
        mode: Mode::Exclusive,
    };
    let of = |ages: std::ops::Range<u64>| LockEntry {
        permits: 20,
        holders: ages.clone().map(holder).collect(),
        holders_in_all: 10,
        ..entry("pool", 2)
    };
    let page =
        |name: &str, entry| SitePage { site: name.parse().unwrap(), entries: vec![entry], more: false };
    let sites = vec![page("s0", entry("pool", 7)), page("s1", of(0..6)), page("s2", of(3..9))];
    let page = merge(&question(10), sites, Vec::new(), |_, permits| Some(format!("of {permits}")));
    let [pool] = &page.locks[..] else { panic!("one lock: {page:?}") };
    let ages: Vec<u64> = pool.holders.iter().map(|held| held.holder.age.micros() / 1000).collect();
    assert_eq!(ages, [8, 7, 6, 5, 5, 4, 4, 3]);
    assert_eq!((pool.holders_in_all, pool.waiters, pool.held()), (20, 11, Some(Span::from_millis(8))));
    assert_eq!((pool.waited, pool.algorithm.as_deref()), (Span::from_millis(7), Some("of 20")));
}

#[test]
fn a_page_is_bounded_by_the_length_of_its_texts_and_still_leads_on() {
    let long: Vec<SitePage> = vec![SitePage {
        site: "s1".parse().unwrap(),
        entries: (0..1000).map(|at| entry(&format!("{at:04}{}", "x".repeat(250)), 0)).collect(),
        more: false,
    }];
    let heavy = MAX_PAGE_BYTES / 254;
    assert!(heavy > 1000, "names alone do not reach the limit");
    let labels = |mut page: SitePage| {
        for entry in &mut page.entries {
            let holder = HolderReport {
                label: Some("x".repeat(200).parse().unwrap()),
                fence: meshlock_protocol::FenceClock::new(meshlock_protocol::Epoch::default()).enter(),
                slot: None,
                age: Span::ZERO,
                lost: false,
                mode: Mode::Exclusive,
            };
            entry.holders = vec![holder; MAX_PAGE_HOLDERS];
            entry.holders_in_all = MAX_PAGE_HOLDERS as u64;
        }
        page
    };
    let sites: Vec<SitePage> = long.into_iter().map(labels).collect();
    let (names, next) = merged(1000, &sites);
    assert!(names.len() > 1 && names.len() < 200, "{}", names.len());
    assert_eq!(names.last(), next.as_ref());
}

#[test]
fn what_no_correct_site_says_is_no_answer() {
    let question = PageQuestion {
        names: NameFilter { pattern: Some(Pattern::parse("j*").unwrap()), visible: None },
        after: Some(name("j2")),
        limit: 2,
    };
    let answers = |page: &SitePage| page.answers(&question);
    assert!(answers(&site("s1", &["j3", "j4"], true)));
    assert!(answers(&site("s1", &[], false)));
    for wrong in [
        site("s1", &["j3", "j4", "j5"], false),
        site("s1", &["j4", "j3"], false),
        site("s1", &["j3", "j3"], false),
        site("s1", &["j2"], false),
        site("s1", &["k3"], false),
        site("s1", &[], true),
    ] {
        assert!(!answers(&wrong), "{wrong:?}");
    }
    let mut lying = site("s1", &["j3"], false);
    let fence = meshlock_protocol::FenceClock::new(meshlock_protocol::Epoch::default()).enter();
    let holder =
        HolderReport { label: None, fence, slot: None, age: Span::ZERO, lost: false, mode: Mode::Exclusive };
    lying.entries[0].holders = vec![holder];
    assert!(!answers(&lying), "more holders are listed than there are");
}

#[test]
fn only_the_first_names_are_kept_of_many() {
    let many: Vec<LockName> = (0..1000).map(|at| name(&format!("{:03}", at * 7 % 1000))).collect();
    let mut first = FirstNames::new(3);
    for name in &many {
        first.offer(name);
    }
    for name in &many {
        first.offer(name);
    }
    assert!(first.names.len() <= 3);
    let (names, more) = first.finish();
    assert_eq!(names.into_iter().map(LockName::as_str).collect::<Vec<_>>(), ["000", "001", "002"]);
    assert!(more);
    let mut all = FirstNames::new(1000);
    many.iter().chain(&many).for_each(|name| all.offer(name));
    assert!(!all.finish().1, "a name that is offered twice is no other one");
}
