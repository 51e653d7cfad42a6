//! Lock tables of several sites, without network, leases or views of their own: the test passes everything on.

mod changes;
mod choices;
mod claims;
mod inquiry;
mod modes;
mod page;
mod permits;
mod reports;
mod resuming;
mod scale;
mod tally;
mod waits;

use std::collections::VecDeque;

use super::*;
use crate::rules::{Clause, Rules, RulesText};
use crate::time::Span;

/// The tables of all members of a view, and the messages between them.
struct Tables {
    sites: Vec<LockTable>,
    wire: VecDeque<(usize, usize, Sent)>,
    told: Vec<(usize, LockEvent)>,
    left: Vec<(usize, LockName)>,
    misbehaved: Vec<&'static str>,
    /// Clients that were told that the lock is not to be had, and why.
    unavailable: Vec<(usize, Request, Obstacle)>,
    /// Questions who holds a lock, which every site answers at once that is not in `silent`.
    asked: VecDeque<(usize, LockName)>,
    claims: Vec<(usize, ClaimEvent)>,
    /// The sites that have said that they leave.
    frozen: Vec<usize>,
    silent: BTreeSet<usize>,
    now: Time,
    /// The number of permits of the rule of the view.
    permits: u32,
    /// When everyone's lease ends; `None` while nobody has one.
    lease_end: Option<Time>,
}

/// A message between two tables.
enum Sent {
    Lock(LockMessage),
    Permits(PermitsOf),
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn lock() -> LockName {
    "jobs".parse().unwrap()
}

fn rules(clause: Clause) -> Rules {
    Rules::new(RulesText { rules: vec![("jobs".to_owned(), clause)], ..RulesText::default() }).unwrap()
}

impl Tables {
    fn of(members: usize, clause: Clause) -> Self {
        let table_config = TableConfig {
            local_turns: 2,
            message_delay: Span::from_millis(1),
            try_within: Some(Span::from_millis(5)),
            max_locks: 10,
            max_claims: 8,
            max_claims_per_session: 4,
            margin: Span::from_millis(200),
            resume_window: Span::from_millis(2000),
        };
        let mut tables = Tables {
            sites: vec![LockTable::new(table_config); members],
            wire: VecDeque::new(),
            told: Vec::new(),
            left: Vec::new(),
            misbehaved: Vec::new(),
            unavailable: Vec::new(),
            asked: VecDeque::new(),
            claims: Vec::new(),
            frozen: Vec::new(),
            silent: BTreeSet::new(),
            now: at(1),
            permits: 1,
            lease_end: Some(at(1000)),
        };
        tables.change_view(1, clause);
        tables
    }

    fn act(&mut self, at: usize, act: impl FnOnce(&mut LockTable, LeaseClock, &mut Vec<TableOutput>)) {
        let mut out = Vec::new();
        act(&mut self.sites[at], LeaseClock { now: self.now, lease_end: self.lease_end }, &mut out);
        for output in out {
            match output {
                TableOutput::LockEvent(tell) => self.told.push((at, tell)),
                TableOutput::Send { to, message } => self.wire.push_back((at, to, Sent::Lock(message))),
                TableOutput::SendPermits { to, message } => {
                    self.wire.push_back((at, to, Sent::Permits(message)));
                }
                TableOutput::Left(lock) => self.left.push((at, lock)),
                TableOutput::Misbehaved { why, .. } => self.misbehaved.push(why),
                TableOutput::Unavailable { request, obstacle } => {
                    self.unavailable.push((at, request, obstacle));
                }
                TableOutput::Ask(lock) => self.asked.push_back((at, lock)),
                TableOutput::Claim(event) => self.claims.push((at, event)),
                TableOutput::Leaving => self.frozen.push(at),
                TableOutput::Trace(_) => panic!("nobody watches"),
            }
        }
        assert_eq!(self.sites[at].check_invariants(), Ok(()));
    }

    fn settle(&mut self) {
        while let Some((from, to, message)) = self.wire.pop_front() {
            if self.silent.contains(&to) {
                continue;
            }
            self.act(to, |table, lease_clock, out| match message {
                Sent::Lock(message) => table.on_message(from, message, lease_clock, out),
                Sent::Permits(message) => table.on_permits(from, message, lease_clock, out),
            });
        }
        while let Some((by, lock)) = self.asked.pop_front() {
            for of in
                (0..self.sites.len()).filter(|of| *of != by && !self.silent.contains(of)).collect::<Vec<_>>()
            {
                let report = self.sites[of].report(&lock, self.now);
                self.act(by, |table, lease_clock, out| table.on_report(of, &lock, &report, lease_clock, out));
            }
        }
        for (from, lock) in std::mem::take(&mut self.left) {
            for to in (0..self.sites.len()).filter(|&to| to != from) {
                self.act(to, |table, _, out| table.on_left_elsewhere(from, &lock, out));
            }
        }
    }

    /// Stops all machines, and starts those of the next view.
    fn change_view(&mut self, epoch: u32, clause: Clause) {
        self.wire.clear();
        let census: Vec<Census> = self.sites.iter_mut().map(LockTable::stop).collect();
        self.open(epoch, clause, &census);
    }

    fn open(&mut self, epoch: u32, clause: Clause, census: &[Census]) {
        let members = self.sites.len();
        self.permits = clause.permits;
        for me in 0..members {
            let epoch = Epoch::new(epoch).unwrap();
            let local_view = LocalView::new(epoch, members, me, rules(clause.clone()));
            self.act(me, |table, lease_clock, out| table.open(local_view, census, lease_clock, out));
        }
        self.settle();
    }

    /// Asks for the lock with the number of permits of its rule.
    fn acquire(&mut self, at: usize, request: u64, wait: Wait) {
        self.acquire_of(at, request, self.permits, wait);
    }

    fn acquire_of(&mut self, at: usize, request: u64, permits: u32, wait: Wait) {
        self.ask_for(&lock(), at, request, permits, wait);
    }

    fn ask_for(&mut self, lock: &LockName, at: usize, request: u64, permits: u32, wait: Wait) {
        let (session, request, lock) = (Session(request), Request(request), lock.clone());
        let wanted = Acquire {
            session,
            request,
            lock,
            permits,
            wait,
            cause: None,
            demand: meshlock_protocol::Demand::PLAIN,
        };
        self.act(at, |table, lease_clock, out| table.acquire(wanted, lease_clock, out));
        self.settle();
    }

    fn release(&mut self, at: usize, request: u64) {
        self.act(at, |table, lease_clock, out| table.release(Request(request), lease_clock, out));
        self.settle();
    }

    fn time(&mut self, millis: u64) {
        self.now = at(millis);
        for at in 0..self.sites.len() {
            self.act(at, |table, lease_clock, out| table.on_time(lease_clock, out));
        }
        self.settle();
    }

    /// Returns the grants since the last call, in order: place and request.
    fn granted(&mut self) -> Vec<(usize, u64)> {
        let told = std::mem::take(&mut self.told);
        told.iter()
            .filter_map(|(at, tell)| match tell {
                LockEvent::Granted { request, .. } => Some((*at, request.0)),
                LockEvent::Extended { .. }
                | LockEvent::ModeChanged { .. }
                | LockEvent::ModeRefused { .. }
                | LockEvent::Lost { .. }
                | LockEvent::Released { .. }
                | LockEvent::Cancelled { .. }
                | LockEvent::TimedOut { .. }
                | LockEvent::Busy { .. }
                | LockEvent::Unavailable { .. }
                | LockEvent::Refused { .. } => None,
            })
            .collect()
    }

    /// Returns a copy of the first site alone, with what it needs to be given inputs.
    fn clone_first(&self) -> Self {
        let mut copy = Tables::of(1, Clause::exclusive("naimi-trehel"));
        (copy.now, copy.lease_end) = (self.now, self.lease_end);
        copy.sites[0] = self.sites[0].clone();
        copy
    }

    fn fence(&self, at: usize) -> i64 {
        self.sites[at].report(&lock(), self.now).holders[0].fence.value()
    }
}

#[test]
fn clients_of_a_site_are_served_in_order_and_other_sites_get_in_after_two_local_turns() {
    let mut tables = Tables::of(2, Clause::exclusive("ricart-agrawala"));
    for request in 1..=5 {
        tables.acquire(0, request, Wait::Forever);
    }
    tables.acquire(1, 9, Wait::Forever);
    assert_eq!(tables.granted(), [(0, 1)]);
    let mut order = Vec::new();
    for holder in [(0, 1), (0, 2), (0, 3), (1, 9), (0, 4), (0, 5)] {
        tables.release(holder.0, holder.1);
        order.extend(tables.granted());
    }
    assert_eq!(order, [(0, 2), (0, 3), (1, 9), (0, 4), (0, 5)]);
}

#[test]
fn a_deadline_ends_the_wait_and_the_request_that_runs_on_harms_nobody() {
    let mut tables = Tables::of(2, Clause::exclusive("naimi-trehel"));
    tables.acquire(0, 1, Wait::Forever);
    tables.acquire(1, 2, Wait::Within(Span::from_millis(50)));
    // The clock begins at 1.
    tables.time(50);
    assert_eq!(tables.told.last(), Some(&(0, tables.told[0].1.clone())), "nothing but the grant");
    tables.time(51);
    assert_eq!(tables.told.last(), Some(&(1, LockEvent::TimedOut { request: Request(2) })));
    tables.release(0, 1);
    tables.acquire(0, 3, Wait::Forever);
    assert_eq!(tables.granted(), [(0, 1), (0, 3)]);
}

#[test]
fn a_try_for_a_lock_that_is_held_fails_when_its_holder_is_known() {
    let mut tables = Tables::of(2, Clause::exclusive("central"));
    tables.acquire(0, 1, Wait::Try);
    assert_eq!(tables.granted(), [(0, 1)]);
    tables.acquire(0, 2, Wait::Try);
    assert_eq!(tables.told, [(0, LockEvent::Busy { request: Request(2) })]);
    tables.acquire(1, 3, Wait::Try);
    assert_eq!(tables.told.last(), Some(&(1, LockEvent::Busy { request: Request(3) })), "in one round trip");
}

#[test]
fn a_cancelled_wait_ends_and_a_cancelled_grant_is_given_back() {
    let mut tables = Tables::of(2, Clause::exclusive("lamport"));
    tables.acquire(0, 1, Wait::Forever);
    tables.acquire(1, 2, Wait::Forever);
    tables.acquire(1, 3, Wait::Forever);
    tables.act(1, |table, lease_clock, out| table.cancel(Request(2), lease_clock, out));
    tables.act(0, |table, lease_clock, out| table.cancel(Request(1), lease_clock, out));
    tables.settle();
    assert!(tables.told.contains(&(1, LockEvent::Cancelled { request: Request(2) })));
    assert!(tables.told.contains(&(0, LockEvent::Released { request: Request(1) })));
    assert_eq!(tables.granted(), [(0, 1), (1, 3)]);
}

#[test]
fn a_client_that_is_gone_neither_holds_nor_waits() {
    let mut tables = Tables::of(2, Clause::exclusive("suzuki-kasami"));
    tables.acquire(0, 1, Wait::Forever);
    tables.acquire(1, 2, Wait::Forever);
    tables.acquire(1, 3, Wait::Forever);
    tables.act(1, |table, lease_clock, out| table.on_session_ended(Session(2), lease_clock, out));
    tables.act(0, |table, lease_clock, out| table.on_session_ended(Session(1), lease_clock, out));
    tables.settle();
    assert_eq!(tables.granted(), [(0, 1), (1, 3)]);
    assert!(!tables.sites[0].holds_anything());
}

#[test]
fn a_lost_lock_stays_lost_and_is_free_for_others_when_its_lease_ends() {
    let mut tables = Tables::of(2, Clause::exclusive("raymond"));
    tables.acquire(0, 1, Wait::Forever);
    tables.acquire(1, 2, Wait::Forever);
    tables.time(800);
    tables.act(0, |table, clock, out| table.on_notice(at(1000), clock.now, out));
    assert_eq!(
        tables.told.last(),
        Some(&(0, LockEvent::Lost { request: Request(1), act_by: at(1000), why: LossReason::LeaseEnd }))
    );
    // The lease is renewed after all: no lock comes back, and nobody is told of an extension.
    tables.lease_end = Some(at(2000));
    tables.act(0, |table, lease_clock, out| table.on_extended(at(2000), lease_clock, out));
    assert!(!tables.told.iter().any(|(_, tell)| matches!(tell, LockEvent::Extended { .. })));
    tables.time(999);
    assert_eq!(tables.granted(), [(0, 1)]);
    tables.time(1000);
    assert_eq!(tables.granted(), [(1, 2)]);
}

#[test]
fn whoever_stops_when_told_frees_the_lock_before_its_time_is_over() {
    let mut tables = Tables::of(2, Clause::exclusive("raymond"));
    tables.acquire(0, 1, Wait::Forever);
    tables.acquire(1, 2, Wait::Forever);
    tables.act(0, |table, clock, out| table.on_notice(at(1000), clock.now, out));
    tables.release(0, 1);
    assert_eq!(tables.granted(), [(0, 1), (1, 2)]);
}

#[test]
fn nothing_is_granted_without_a_lease_and_everything_asked_again_with_one() {
    let mut tables = Tables::of(2, Clause::exclusive("token-ring"));
    tables.acquire(0, 1, Wait::Forever);
    tables.acquire(1, 2, Wait::Forever);
    // The other site has no lease when its turn comes: it leaves at once, so that others can enter.
    tables.act(0, |table, lease_clock, out| table.release(Request(1), lease_clock, out));
    tables.lease_end = None;
    tables.settle();
    assert_eq!(tables.granted(), [(0, 1)]);
    assert_eq!(tables.sites[1].report(&lock(), tables.now).waiters.len(), 1);
    tables.lease_end = Some(at(3000));
    tables.acquire(0, 3, Wait::Forever);
    assert_eq!(tables.granted(), [(0, 3)]);
    tables.release(0, 3);
    tables.act(1, |table, lease_clock, out| table.on_extended(at(3000), lease_clock, out));
    tables.settle();
    assert_eq!(tables.granted(), [(1, 2)]);
}

#[test]
fn a_holder_keeps_its_lock_through_a_change_of_the_algorithm_and_later_fences_are_larger() {
    let mut tables = Tables::of(3, Clause::exclusive("maekawa"));
    tables.acquire(2, 1, Wait::Forever);
    tables.acquire(0, 2, Wait::Forever);
    let first = tables.fence(2);
    for (epoch, algorithm) in [(2, "lamport"), (3, "naimi-trehel"), (4, "delegated"), (5, "sanders")] {
        tables.change_view(epoch, Clause::exclusive(algorithm));
        assert_eq!(tables.fence(2), first, "{algorithm}");
    }
    assert_eq!(tables.granted(), [(2, 1)]);
    tables.release(2, 1);
    assert_eq!(tables.granted(), [(0, 2)]);
    assert!(tables.fence(0) > first && tables.fence(0) >> 40 == 5);
}

#[test]
fn a_lock_that_is_released_during_a_view_change_is_free_in_the_new_view() {
    let mut tables = Tables::of(2, Clause::exclusive("carvalho-roucairol"));
    tables.acquire(0, 1, Wait::Forever);
    tables.acquire(1, 2, Wait::Forever);
    let census: Vec<Census> = tables.sites.iter_mut().map(LockTable::stop).collect();
    tables.wire.clear();
    tables.release(0, 1);
    tables.open(2, Clause::exclusive("carvalho-roucairol"), &census);
    assert_eq!(tables.granted(), [(0, 1), (1, 2)]);
}

#[test]
fn one_site_can_hold_several_permits_and_all_together_never_more_than_there_are() {
    for algorithm in ["raymond-k", "bulgannawar-vaidya", "srimani-reddy", "makki", "delegated"] {
        let mut tables = Tables::of(2, Clause::shared(algorithm, 3));
        for request in 1..=3 {
            tables.acquire(0, request, Wait::Forever);
            tables.acquire(1, 10 + request, Wait::Forever);
        }
        // Some algorithms look for idle permits only after a while.
        tables.time(20);
        let mut all = tables.granted();
        assert_eq!(all.len(), 3, "{algorithm}: {all:?}");
        let mut holders: VecDeque<(usize, u64)> = all.iter().copied().collect();
        while let Some((at, request)) = holders.pop_front() {
            tables.release(at, request);
            tables.time(tables.now.micros() / 1000 + 5);
            let next = tables.granted();
            all.extend(&next);
            holders.extend(next);
        }
        all.sort_unstable();
        assert_eq!(all, [(0, 1), (0, 2), (0, 3), (1, 11), (1, 12), (1, 13)], "{algorithm}");
    }
}

#[test]
fn permits_keep_their_numbers_through_a_view_change() {
    let mut tables = Tables::of(3, Clause::shared("srimani-reddy", 3));
    for site in 0..3 {
        tables.acquire(site, site as u64, Wait::Forever);
    }
    let slot = |tables: &Tables, at: usize| tables.sites[at].report(&lock(), tables.now).holders[0].slot;
    let before: Vec<_> = (0..3).map(|at| slot(&tables, at)).collect();
    let given_back = before[0];
    tables.release(0, 0);
    tables.change_view(2, Clause::shared("srimani-reddy", 3));
    assert_eq!([slot(&tables, 1), slot(&tables, 2)], [before[1], before[2]]);
    tables.acquire(0, 7, Wait::Forever);
    assert_eq!(slot(&tables, 0), given_back);
}

#[test]
fn after_a_change_of_permits_nobody_gets_in_before_those_with_the_old_number_have_left() {
    let mut tables = Tables::of(3, Clause::shared("raymond-k", 3));
    for site in 0..3 {
        tables.acquire(site, site as u64, Wait::Forever);
    }
    tables.acquire(0, 7, Wait::Forever);
    assert_eq!(tables.granted().len(), 3);
    tables.change_view(2, Clause::exclusive("lamport"));
    let why = RequestRefusal::PermitsByRule { has: 1, wants: 3 };
    assert_eq!(tables.told, [(0, LockEvent::Refused { request: Request(7), why })]);
    tables.acquire(0, 8, Wait::Forever);
    assert_eq!(tables.sites.iter().filter(|table| table.holds_anything()).count(), 3, "nobody is thrown out");
    tables.release(0, 0);
    assert!(tables.sites.iter().all(|table| !table.has_drained()));
    tables.release(1, 1);
    assert!(tables.sites.iter().all(|table| !table.has_drained()), "one of three is not one of one");
    tables.release(2, 2);
    assert!(tables.sites.iter().all(LockTable::has_drained), "all know that nobody is left");
    assert_eq!(tables.granted(), []);
    tables.change_view(3, Clause::exclusive("lamport"));
    assert_eq!(tables.granted(), [(0, 8)]);
}

#[test]
fn messages_that_no_correct_member_sends_change_nothing_and_are_reported() {
    let mut tables = Tables::of(2, Clause::exclusive("ricart-agrawala"));
    tables.acquire(0, 1, Wait::Forever);
    let (session, request, wait) = (Session(2), Request(2), Wait::Forever);
    let wanted = Acquire {
        session,
        request,
        lock: lock(),
        permits: 1,
        wait,
        cause: None,
        demand: meshlock_protocol::Demand::PLAIN,
    };
    tables.act(1, |table, lease_clock, out| table.acquire(wanted, lease_clock, out));
    let Some((_, _, Sent::Lock(request))) = tables.wire.pop_front() else { panic!("it asks") };
    let mut send = |message: LockMessage| {
        tables.act(0, |table, lease_clock, out| table.on_message(1, message, lease_clock, out));
        tables.misbehaved.pop()
    };
    let lane = LockMessage { to_lane: 1, ..request.clone() };
    assert_eq!(send(lane), Some("names a lane that does not exist"));
    assert_eq!(send(request.clone()), None);
    assert_eq!(send(request), Some("a request that is not newer than its last"));
    tables.act(0, |table, _, out| table.on_left_elsewhere(1, &lock(), out));
    assert_eq!(tables.misbehaved, ["leaves a lock that it does not hold"]);
}

#[test]
fn invalid_requests_are_rejected_with_the_reason() {
    let mut tables = Tables::of(1, Clause::exclusive("central"));
    tables.acquire(0, 1, Wait::Forever);
    tables.acquire(0, 1, Wait::Forever);
    tables.release(0, 9);
    tables.act(0, |table, lease_clock, out| table.cancel(Request(9), lease_clock, out));
    let refused = tables.told.iter().filter(|(_, tell)| matches!(tell, LockEvent::Refused { .. }));
    assert_eq!(refused.count(), 3);
    for number in 0..20 {
        let name: LockName = format!("lock {number}").parse().unwrap();
        let (session, request, wait) = (Session(5), Request(100 + number), Wait::Forever);
        let wanted = Acquire {
            session,
            request,
            lock: name,
            permits: 1,
            wait,
            cause: None,
            demand: meshlock_protocol::Demand::PLAIN,
        };
        tables.act(0, |table, lease_clock, out| table.acquire(wanted, lease_clock, out));
    }
    assert_eq!(tables.granted().len(), 1 + 9, "a site keeps ten locks here");
}
