//! Clients that share a lock: by every algorithm that knows modes.

mod changes;
mod order;
mod refused;
mod views;

use meshlock_protocol::registry::ALL;
use meshlock_protocol::registry::info::{Known, Permits};
use meshlock_protocol::{Demand, Mode};

use super::*;
use crate::mutant::{self, Mutant};

use Mode::{Exclusive as X, Shared as S, Upgradeable as U};

/// The algorithms that know modes, with the option that they need for it.
fn with_modes() -> Vec<String> {
    let spec = |info: &&meshlock_protocol::Info| match info.demands.modes {
        Known::No => None,
        Known::With(option) => Some(format!("{}:{option}", info.name)),
        Known::Yes => Some(info.name.to_owned()),
    };
    let all: Vec<String> = ALL.iter().filter_map(spec).collect();
    assert!(!all.is_empty(), "some algorithm knows modes");
    all
}

/// Runs a test with tables of this many members, for each algorithm that knows modes.
fn each(members: usize, test: impl Fn(&mut Tables, &Clause)) {
    for algorithm in with_modes() {
        let clause = Clause::exclusive(&algorithm);
        test(&mut Tables::of(members, clause.clone()), &clause);
    }
}

impl Tables {
    /// Lets a client ask for the lock in a mode, and passes nothing on.
    fn post(&mut self, at: usize, request: u64, demand: Demand) {
        let (session, request, wait) = (Session(request), Request(request), Wait::Forever);
        let wanted =
            Acquire { session, request, lock: lock(), permits: self.permits, wait, demand, cause: None };
        self.act(at, |table, lease_clock, out| table.acquire(wanted, lease_clock, out));
    }

    /// Lets a client ask for the lock in a mode.
    fn ask_in(&mut self, at: usize, request: u64, mode: Mode) {
        self.post(at, request, Demand::of(mode));
        self.settle();
    }

    /// Lets a client change its mode.
    fn change(&mut self, at: usize, request: u64, to: Mode) {
        self.act(at, |table, lease_clock, out| table.change_mode(Request(request), to, lease_clock, out));
        self.settle();
    }

    /// Returns what was told since the last call.
    fn words(&mut self) -> Vec<String> {
        let told = std::mem::take(&mut self.told);
        let words = |(_, event): (usize, LockEvent)| match event {
            LockEvent::Granted { request, .. } => format!("{} enters", request.0),
            LockEvent::ModeChanged { request, mode, .. } => format!("{} is {}", request.0, mode.letter()),
            LockEvent::ModeRefused { request, why } | LockEvent::Refused { request, why } => {
                format!("{}: {why:?}", request.0)
            }
            LockEvent::Busy { request } => format!("{} is told that it is busy", request.0),
            LockEvent::Lost { request, .. } => format!("{} has lost it", request.0),
            LockEvent::Released { request } => format!("{} left", request.0),
            LockEvent::Cancelled { request } => format!("{} waits no more", request.0),
            LockEvent::Extended { .. } | LockEvent::TimedOut { .. } | LockEvent::Unavailable { .. } => {
                "something else".to_owned()
            }
        };
        told.into_iter().map(words).collect()
    }

    /// Lets a client leave, and returns who enters then.
    fn entered_after(&mut self, at: usize, request: u64) -> Vec<u64> {
        self.told.clear();
        self.release(at, request);
        let mut entered: Vec<u64> = self.granted().into_iter().map(|(_, request)| request).collect();
        entered.sort_unstable();
        entered
    }

    /// Returns the fence of a holder.
    fn fence_of(&self, at: usize, request: u64) -> meshlock_protocol::Fence {
        let mut locks = self.sites[at].locks.values();
        locks.find_map(|known| known.hold(Request(request))).expect("it holds the lock").fence
    }
}

#[test]
fn readers_of_several_sites_are_inside_together_and_a_writer_waits_for_all_of_them() {
    each(3, |tables, _| {
        for (at, request) in [(0, 1), (1, 2), (2, 3), (1, 4)] {
            tables.ask_in(at, request, S);
        }
        assert_eq!(tables.words(), ["1 enters", "2 enters", "3 enters", "4 enters"]);
        tables.ask_in(2, 5, X);
        let reports = [0, 1, 2].map(|at| tables.sites[at].report(&lock(), tables.now).holders);
        assert!(reports.iter().flatten().all(|holder| holder.mode == S));
        let fences = [(0, 1), (1, 2), (2, 3), (1, 4)].map(|(at, request)| tables.fence_of(at, request));
        for (at, request) in [(1, 2), (0, 1), (1, 4)] {
            assert_eq!(tables.entered_after(at, request), [0; 0], "not beside readers");
        }
        assert_eq!(tables.entered_after(2, 3), [5]);
        assert!(fences.iter().all(|fence| *fence < tables.fence_of(2, 5)));
    });
}

#[test]
fn a_reader_joins_others_of_its_site_at_once_and_without_a_message() {
    each(3, |tables, _| {
        tables.ask_in(1, 1, S);
        tables.words();
        for request in 2..=9 {
            tables.post(1, request, Demand::of(S));
            assert_eq!((tables.words(), tables.wire.len()), (vec![format!("{request} enters")], 0));
        }
        assert_eq!(tables.sites[1].counts().holders, 9);
        let fences: BTreeSet<_> = (1..=9).map(|request| tables.fence_of(1, request)).collect();
        assert_eq!(fences.len(), 9, "each has its own");
    });
}

fn a_reader_passes_nobody_who_waits_here_to_be_alone() {
    each(2, |tables, _| {
        tables.ask_in(1, 11, X);
        for (request, mode) in [(12, S), (13, X), (14, S), (15, S)] {
            tables.ask_in(0, request, mode);
        }
        assert_eq!(tables.entered_after(1, 11), [12]);
        assert_eq!(tables.entered_after(0, 12), [13]);
        assert_eq!(tables.entered_after(0, 13), [14, 15]);
        tables.release(0, 14);
        tables.release(0, 15);
        tables.words();
        tables.ask_in(0, 1, S);
        tables.ask_in(0, 2, X);
        tables.ask_in(0, 3, S);
        tables.ask_in(0, 4, X);
        assert_eq!(tables.words(), ["1 enters"]);
        assert_eq!(tables.entered_after(0, 1), [2]);
        assert_eq!(tables.entered_after(0, 2), [3]);
        assert_eq!(tables.entered_after(0, 3), [4]);
    });
}

#[test]
fn a_reader_that_passes_a_waiting_writer_is_caught() {
    mutant::is_caught_by(Mutant::ReaderPassesExclusive, a_reader_passes_nobody_who_waits_here_to_be_alone);
}

fn a_reader_passes_nobody_who_waits_elsewhere_to_be_alone() {
    each(2, |tables, _| {
        tables.ask_in(0, 1, S);
        tables.ask_in(1, 2, X);
        tables.ask_in(0, 3, S);
        assert_eq!(tables.words(), ["1 enters"]);
        assert_eq!(tables.entered_after(0, 1), [2]);
        assert_eq!(tables.entered_after(1, 2), [3]);
    });
}

#[test]
fn a_reader_that_joins_without_asking_its_machine_is_caught() {
    mutant::is_caught_by(Mutant::JoinUnasked, a_reader_passes_nobody_who_waits_elsewhere_to_be_alone);
}

#[test]
fn readers_who_wait_together_enter_together() {
    each(3, |tables, _| {
        tables.ask_in(0, 1, X);
        for (at, request) in [(0, 2), (1, 3), (1, 4), (2, 5), (0, 6)] {
            tables.ask_in(at, request, S);
        }
        assert_eq!(tables.entered_after(0, 1), [2, 3, 4, 5, 6]);
    });
}

fn a_lock_that_readers_share_is_left_with_the_last_of_them() {
    each(2, |tables, _| {
        for request in 1..=3 {
            tables.ask_in(0, request, S);
        }
        tables.ask_in(1, 4, X);
        assert_eq!(tables.entered_after(0, 2), [0; 0]);
        assert_eq!(tables.entered_after(0, 1), [0; 0]);
        assert_eq!(tables.entered_after(0, 3), [4]);
    });
}

#[test]
fn a_machine_that_is_left_with_the_first_reader_is_caught() {
    mutant::is_caught_by(Mutant::LeftWithFirst, a_lock_that_readers_share_is_left_with_the_last_of_them);
}

#[test]
fn whoever_may_upgrade_reads_beside_readers_and_is_the_only_one() {
    each(2, |tables, _| {
        tables.ask_in(0, 1, U);
        tables.ask_in(0, 2, S);
        tables.ask_in(1, 3, S);
        tables.ask_in(1, 4, U);
        tables.ask_in(0, 5, U);
        assert_eq!(tables.words(), ["1 enters", "2 enters", "3 enters"]);
        let mut order = tables.entered_after(0, 1);
        assert_eq!(order.len(), 1);
        let next = if order == [4] { (1, 4) } else { (0, 5) };
        order.extend(tables.entered_after(next.0, next.1));
        order.sort_unstable();
        assert_eq!(order, [4, 5]);
    });
}

#[test]
fn clients_that_crash_or_give_up_keep_nobody_waiting() {
    each(2, |tables, _| {
        tables.ask_in(0, 1, S);
        tables.ask_in(1, 2, S);
        tables.ask_in(0, 3, X);
        tables.ask_in(0, 4, S);
        tables.words();
        // The writer gives up. Its machine cannot, and lets the reader in that was behind it.
        tables.act(0, |table, lease_clock, out| table.cancel(Request(3), lease_clock, out));
        tables.settle();
        assert_eq!(tables.words(), ["3 waits no more"]);
        let end = |tables: &mut Tables, session| {
            tables
                .act(0, |table, lease_clock, out| table.on_session_ended(Session(session), lease_clock, out));
            tables.settle();
        };
        end(tables, 1);
        assert_eq!(tables.entered_after(1, 2), [4]);
        tables.ask_in(1, 5, X);
        assert_eq!(tables.words(), [""; 0]);
        end(tables, 4);
        assert_eq!(tables.words(), ["5 enters"]);
    });
}

#[test]
fn a_try_is_told_that_the_lock_is_taken_only_if_the_modes_exclude_each_other() {
    each(2, |tables, _| {
        tables.ask_in(0, 1, S);
        let attempt = |tables: &mut Tables, at, request, mode| {
            let (session, request, wait) = (Session(request), Request(request), Wait::Try);
            let (demand, permits) = (Demand::of(mode), 1);
            let wanted = Acquire { session, request, lock: lock(), permits, wait, demand, cause: None };
            tables.act(at, |table, lease_clock, out| table.acquire(wanted, lease_clock, out));
            tables.settle();
        };
        tables.words();
        for at in [0, 1] {
            attempt(tables, at, 10 + at as u64, S);
            assert_eq!(tables.words(), [format!("1{at} enters")]);
            attempt(tables, at, 20 + at as u64, X);
            assert_eq!(tables.words(), [format!("2{at} is told that it is busy")]);
        }
        attempt(tables, 1, 30, U);
        assert_eq!(tables.words(), ["30 enters"]);
        attempt(tables, 0, 40, U);
        assert_eq!(tables.words(), ["40 is told that it is busy"]);
    });
}

#[test]
fn a_lock_that_only_one_client_uses_takes_one_machine_at_its_site() {
    each(3, |tables, clause| {
        let running = |tables: &Tables, at: usize| {
            let known = tables.sites[at].locks.values().next().expect("a lock");
            let lock::Machines::Running { lanes, .. } = &known.machines else { panic!("machines run") };
            lanes.len()
        };
        tables.ask_in(1, 1, X);
        tables.change_view(2, clause.clone());
        // The algorithm may ask all machines; nobody has asked for anything in this view.
        tables.change(1, 1, X);
        assert_eq!(running(tables, 1), 1);
        tables.release(1, 1);
        assert_eq!(running(tables, 1), 1);
    });
}

#[test]
fn a_lock_with_several_permits_has_lanes_for_them_and_no_modes() {
    let algorithm = ALL.iter().find(|info| info.permits != Permits::One).expect("one").name;
    let mut tables = Tables::of(2, Clause::shared(algorithm, 2));
    tables.ask_in(0, 1, S);
    let why = RequestRefusal::ModeOfMany { permits: 2, mode: S };
    assert_eq!(tables.words(), [format!("1: {why:?}")]);
}
