//! Frames as text, from made-up samples.

use std::time::{Duration, Instant};

use meshlock_cluster::names::{ClientLabel, Incarnation, LockName, Member, SiteName};
use meshlock_cluster::node::LockQueue;
use meshlock_cluster::node::{SiteLocks, Standing, VoterState};
use meshlock_cluster::table::{HolderReport, LockInUse};
use meshlock_cluster::time::Span;
use meshlock_cluster::view::View;
use meshlock_protocol::{Epoch, FenceClock, Mode};
use meshlock_wire::clients::Status;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

use super::super::model::Sample;
use super::*;

fn site(name: &str) -> SiteName {
    name.parse().unwrap()
}

fn used(lock: &str, holder: Option<&str>, waiters: u64, seconds: u64) -> LockInUse {
    let holder = holder.map(|label| HolderReport {
        label: Some(label.parse::<ClientLabel>().unwrap()),
        fence: FenceClock::new(Epoch::new(1).unwrap()).enter(),
        slot: None,
        age: Span::from_millis(seconds * 1000),
        lost: false,
        mode: Mode::Exclusive,
    });
    let lock: LockName = lock.parse().unwrap();
    LockInUse { lock, holders: u64::from(holder.is_some()), waiters, holder, waited: Span::from_millis(1500) }
}

fn locks_of(name: &str, granted: u64, locks: Vec<LockInUse>) -> SiteLocks {
    SiteLocks {
        site: site(name),
        standing: Standing::Open,
        lease_left: Some(Span::from_millis(4200)),
        leaving: false,
        sessions: 2,
        granted,
        locks_in_all: locks.len() as u64,
        locks,
    }
}

/// Two members that answer and one that does not; `granted` is the number of grants of the first.
fn sample(granted: u64) -> Sample {
    let member = |name: &str| Member { site: site(name), incarnation: Incarnation::new(1) };
    let mut view = View { epoch: Epoch::new(4).unwrap(), ..View::default() };
    view.members = ["a", "b", "c"].map(member).to_vec();
    let status = Status {
        site: site("a"),
        incarnation: 1,
        cluster: "prod".parse().unwrap(),
        sites: vec![site("a")],
        view,
        standing: Standing::Open,
        leader: Some(site("b")),
        lease_left: None,
        leaving: false,
        locks: 3,
        holders: 2,
        waiters: 3,
        sessions: 2,
        held: Vec::new(),
        disk: None,
        voters: None,
    };
    let of_a = vec![used("jobs", Some("backup.sh"), 1, 12), used("alpha", Some("x"), 0, 90)];
    let of_b = vec![used("jobs", None, 2, 0)];
    let sites = vec![locks_of("a", granted, of_a), locks_of("b", 7, of_b)];
    Sample { status, sites, queue: None }
}

fn model() -> Model {
    let mut model = Model::default();
    model.take(sample(100), Instant::now());
    model
}

fn press(model: &mut Model, code: KeyCode) {
    model.on_event(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
}

#[test]
fn a_frame_shows_members_and_locks_the_most_wanted_first() {
    let text = as_text(&mut model(), 100);
    assert_eq!(
        text,
        "\
prod · view 4 · 3 members · 2 locks in use · seen by a
site                              lease    clients grants/s standing
a                                 4.2 s    2       -        is a member of the cluster
b                           leads 4.2 s    2       -        is a member of the cluster
c                                 -        0       -        does not answer

lock                        hold  wait  held for  waited    held by
jobs                        1     3     12.0 s    1.5 s     backup.sh of a
alpha                       1     0     90.0 s              x of a

sorted by waiters · Enter queue · / filter · s sort · ? help · q end
"
    );
}

#[test]
fn a_frame_shows_who_votes_and_how_many_more_may_fail() {
    let (mut model, mut sample) = (Model::default(), sample(100));
    let voter = |(name, presence)| VoterState { site: site(name), id: 1, presence };
    let voters = [("a", VoterPresence::Up), ("b", VoterPresence::Up), ("c", VoterPresence::WithoutDisk)];
    sample.status.voters =
        Some(VotersReport { voters: voters.map(voter).to_vec(), ..VotersReport::default() });
    model.take(sample, Instant::now());
    let text = as_text(&mut model, 100);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains(" · 3 members · 2 of 3 voters up, 0 may fail · "), "{text}");
    assert!(lines[2].starts_with("a                           votes 4.2 s"), "{text}");
    assert!(lines[3].starts_with("b                           leads 4.2 s"), "{text}");
    assert!(lines[4].starts_with("c                           disk? -"), "{text}");
}

#[test]
fn rates_are_grants_since_the_previous_frame() {
    let (mut model, start) = (Model::default(), Instant::now());
    model.take(sample(100), start);
    model.take(sample(150), start + Duration::from_secs(2));
    let text = as_text(&mut model, 100);
    assert!(
        text.contains(" · 25.0 grants/s · ")
            && text.contains("a                                 4.2 s    2       25.0"),
        "{text}"
    );
    // A site that was restarted has fewer grants than before, which gives no rate.
    model.take(sample(10), start + Duration::from_secs(3));
    assert!(model.members()[0].rate.is_none());
}

#[test]
fn keys_sort_filter_select_and_end() {
    let mut model = model();
    press(&mut model, KeyCode::Char('s'));
    assert_eq!(model.locks()[0].lock.as_str(), "alpha", "held longest");
    press(&mut model, KeyCode::Char('/'));
    for letter in "obq".chars() {
        press(&mut model, KeyCode::Char(letter));
    }
    assert!(model.locks().is_empty() && !model.is_over());
    press(&mut model, KeyCode::Backspace);
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.locks().len(), 1);
    assert!(as_text(&mut model, 100).contains("only 'ob'"));
    press(&mut model, KeyCode::Esc);
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Down);
    assert_eq!(model.selection(&model.locks()), Some(1), "no further than the last");
    press(&mut model, KeyCode::Char('?'));
    assert!(as_text(&mut model, 100).contains("select a lock"));
    press(&mut model, KeyCode::Char('q'));
    assert!(model.is_over());
}

#[test]
fn the_queue_of_the_selected_lock_is_asked_for_and_shown() {
    let mut model = model();
    press(&mut model, KeyCode::Enter);
    assert!(model.wants_sample());
    let lock = model.watched().unwrap().clone();
    assert_eq!(lock.as_str(), "jobs");
    let queue = LockQueue {
        epoch: meshlock_protocol::Epoch::new(4).unwrap(),
        algorithm: Some("raymond".to_owned()),
        permits: 1,
        sites: Vec::new(),
        missing: Vec::new(),
    };
    model.take(Sample { queue: Some((lock, queue)), ..sample(100) }, Instant::now());
    assert!(!model.wants_sample());
    assert!(as_text(&mut model, 100).contains("jobs: raymond, permits: 1"));
    press(&mut model, KeyCode::Esc);
    assert!(model.watched().is_none());
}

#[test]
fn outdated_values_are_marked_and_small_terminals_are_supported() {
    let mut model = model();
    model.complain("the node has gone".to_owned());
    assert!(as_text(&mut model, 100).contains("not updated: the node has gone"));
    for (width, height) in [(1, 1), (10, 3), (300, 5), (20, 100)] {
        let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
        let Ok(_) = terminal.draw(|drawn| frame(&mut model, drawn));
    }
}
