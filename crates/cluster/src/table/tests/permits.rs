//! Semaphores that no rule names: one number of permits for a name at a time, and nothing left behind.

use super::*;

/// A name that no rule matches.
fn free() -> LockName {
    "free".parse().unwrap()
}

fn tables(members: usize) -> Tables {
    Tables::of(members, Clause::exclusive("lamport"))
}

/// Returns what was told since the last call: the request, and the fence or the numbers of a refusal.
fn answers(tables: &mut Tables) -> Vec<String> {
    let told = std::mem::take(&mut tables.told);
    let words = |(_, tell): (usize, LockEvent)| match tell {
        LockEvent::Granted { request, slot, .. } => format!("{} enters {slot:?}", request.0),
        LockEvent::Refused { request, why } => format!("{} refused: {why:?}", request.0),
        LockEvent::Released { request } => format!("{} left", request.0),
        LockEvent::Busy { request } => format!("{} busy", request.0),
        LockEvent::TimedOut { request } => format!("{} too late", request.0),
        LockEvent::Cancelled { request } => format!("{} cancelled", request.0),
        LockEvent::Unavailable { request, .. } => format!("{} unavailable", request.0),
        LockEvent::Extended { .. }
        | LockEvent::ModeChanged { .. }
        | LockEvent::ModeRefused { .. }
        | LockEvent::Lost { .. } => "something else".to_owned(),
    };
    told.into_iter().map(words).collect()
}

fn assert_nothing_is_left(tables: &Tables) {
    assert!(tables.sites.iter().all(LockTable::is_unmarked), "nothing is remembered");
    let locks = tables.sites.iter().flat_map(|table| table.locks.keys());
    assert_eq!(locks.filter(|key| key.permits > 1).count(), 0, "no semaphore is kept");
}

#[test]
fn who_asks_for_three_permits_beside_a_plain_holder_is_refused_with_both_numbers() {
    for (holder, asker) in [(0, 1), (1, 0), (2, 1), (1, 1)] {
        let mut tables = tables(3);
        tables.ask_for(&free(), holder, 1, 1, Wait::Forever);
        tables.ask_for(&free(), asker, 2, 3, Wait::Try);
        let refused = "2 refused: PermitsInUse { has: 1, wants: 3 }";
        assert_eq!(answers(&mut tables), ["1 enters Some(0)", refused]);
        assert_nothing_is_left(&tables);
        // Nothing has changed for others.
        tables.ask_for(&free(), asker, 3, 1, Wait::Forever);
        assert_eq!(answers(&mut tables), [""; 0]);
        tables.release(holder, 1);
        assert_eq!(answers(&mut tables), ["1 left", "3 enters Some(0)"]);
    }
}

#[test]
fn who_asks_for_the_plain_lock_beside_a_semaphore_is_refused_and_enters_once_it_is_over() {
    let mut tables = tables(3);
    tables.ask_for(&free(), 0, 1, 3, Wait::Forever);
    tables.ask_for(&free(), 1, 2, 3, Wait::Forever);
    tables.ask_for(&free(), 2, 3, 1, Wait::Forever);
    tables.ask_for(&free(), 2, 4, 2, Wait::Forever);
    let refused = |request, wants| format!("{request} refused: PermitsInUse {{ has: 3, wants: {wants} }}");
    let expected =
        ["1 enters Some(0)".to_owned(), "2 enters Some(1)".to_owned(), refused(3, 1), refused(4, 2)];
    assert_eq!(answers(&mut tables), expected);
    tables.release(0, 1);
    tables.release(1, 2);
    assert_nothing_is_left(&tables);
    tables.ask_for(&free(), 2, 5, 1, Wait::Forever);
    assert_eq!(answers(&mut tables), ["1 left", "2 left", "5 enters Some(0)"]);
}

#[test]
fn a_use_that_has_just_ended_refuses_nobody() {
    let mut tables = tables(3);
    tables.ask_for(&free(), 0, 1, 3, Wait::Forever);
    // The release is on its way while another site still has the mark.
    tables.act(0, |table, lease_clock, out| table.release(Request(1), lease_clock, out));
    let late = std::mem::take(&mut tables.wire);
    let wanted = Acquire {
        session: Session(2),
        request: Request(2),
        lock: free(),
        permits: 1,
        wait: Wait::Forever,
        cause: None,
        demand: meshlock_protocol::Demand::PLAIN,
    };
    tables.act(2, |table, lease_clock, out| table.acquire(wanted, lease_clock, out));
    tables.wire.extend(late);
    tables.settle();
    assert_eq!(answers(&mut tables), ["1 enters Some(0)", "1 left", "2 enters Some(0)"]);
    assert_nothing_is_left(&tables);
}

#[test]
fn one_site_may_have_all_permits_of_a_large_semaphore() {
    let mut tables = tables(3);
    for request in 0..101 {
        tables.ask_for(&free(), 1, request, 100, Wait::Forever);
    }
    assert_eq!(tables.granted().len(), 100);
    tables.release(1, 7);
    assert_eq!(tables.granted(), [(1, 100)]);
    let fences: BTreeSet<i64> = tables.sites[1]
        .locks
        .values()
        .flat_map(|lock| &lock.clients.holds)
        .map(|hold| hold.fence.value())
        .collect();
    assert_eq!(fences.len(), 100, "no two holders have the same fence");
    for request in (0..=100).filter(|request| *request != 7) {
        tables.release(1, request);
    }
    assert_nothing_is_left(&tables);
}

#[test]
fn permits_go_on_in_the_next_view_and_those_that_were_left_meanwhile_come_back() {
    let mut tables = tables(3);
    for (site, request) in [(0, 1), (1, 2), (2, 3)] {
        tables.ask_for(&free(), site, request, 2, Wait::Forever);
    }
    assert_eq!(tables.granted(), [(0, 1), (1, 2)]);
    tables.wire.clear();
    let census: Vec<Census> = tables.sites.iter_mut().map(LockTable::stop).collect();
    tables.act(0, |table, lease_clock, out| table.release(Request(1), lease_clock, out));
    tables.open(2, Clause::exclusive("lamport"), &census);
    assert_eq!(tables.granted(), [(2, 3)]);
    tables.ask_for(&free(), 0, 4, 1, Wait::Try);
    assert_eq!(answers(&mut tables), ["4 refused: PermitsInUse { has: 2, wants: 1 }"]);
    tables.release(1, 2);
    tables.release(2, 3);
    assert_nothing_is_left(&tables);
}

#[test]
fn fences_rise_from_the_plain_lock_to_the_semaphore_and_back() {
    let mut tables = tables(3);
    let mut last = 0;
    for round in 0..6_u64 {
        let (site, permits) = (usize::try_from(round % 3).unwrap(), if round % 2 == 0 { 1 } else { 3 });
        tables.ask_for(&free(), site, round, permits, Wait::Forever);
        let fence = tables.sites[site].report(&free(), tables.now).holders[0].fence.value();
        assert!(fence > last, "round {round}: {fence} after {last}");
        last = fence;
        tables.release(site, round);
    }
}

#[test]
fn a_waiter_of_a_full_semaphore_gives_up_and_leaves_nothing_behind() {
    let mut tables = tables(2);
    tables.ask_for(&free(), 0, 1, 2, Wait::Forever);
    tables.ask_for(&free(), 1, 2, 2, Wait::Forever);
    tables.ask_for(&free(), 1, 3, 2, Wait::Within(Span::from_millis(3)));
    tables.time(5);
    tables.release(0, 1);
    tables.release(1, 2);
    let expected = ["1 enters Some(0)", "2 enters Some(1)", "3 too late", "1 left", "2 left"];
    assert_eq!(answers(&mut tables), expected);
    assert_nothing_is_left(&tables);
}

#[test]
fn a_rule_that_gives_more_permits_lets_nobody_in_beside_a_plain_holder() {
    let mut tables = tables(3);
    tables.acquire(0, 1, Wait::Forever);
    tables.change_view(2, Clause::shared("raymond-k", 3));
    tables.acquire(1, 2, Wait::Forever);
    tables.acquire_of(2, 3, 1, Wait::Forever);
    let refused = "3 refused: PermitsByRule { has: 3, wants: 1 }";
    assert_eq!(answers(&mut tables), ["1 enters Some(0)", refused]);
    tables.release(0, 1);
    assert!(tables.sites.iter().all(LockTable::has_drained));
    tables.change_view(3, Clause::shared("raymond-k", 3));
    assert_eq!(tables.granted(), [(1, 2)]);
}

#[test]
fn with_a_member_of_an_older_program_permits_without_a_rule_are_refused_and_holders_wait_for_nobody() {
    let mut tables = tables(2);
    tables.ask_for(&free(), 0, 1, 3, Wait::Forever);
    let mut census: Vec<Census> = tables.sites.iter_mut().map(LockTable::stop).collect();
    census[1].clear();
    for me in 0..2 {
        let epoch = Epoch::new(2).unwrap();
        let mut local_view = LocalView::new(epoch, 2, me, rules(Clause::exclusive("lamport")));
        local_view.shares_permits = false;
        tables.act(me, |table, lease_clock, out| table.open(local_view, &census, lease_clock, out));
    }
    tables.ask_for(&free(), 1, 2, 3, Wait::Forever);
    tables.ask_for(&free(), 1, 3, 1, Wait::Forever);
    let refused = "2 refused: OlderMember { has: 1, wants: 3 }";
    assert_eq!(answers(&mut tables), ["1 enters Some(0)", refused]);
    tables.release(0, 1);
    assert!(tables.sites.iter().all(LockTable::has_drained), "a fresh view lets the plain lock run");
}

/// Opens the next view at a member whose program knows only the rules, with what the others tell it. Returns whether its own client enters.
fn enters_at_older_member(tables: &mut Tables, name: &LockName, clause: Clause) -> bool {
    let next = rules(clause);
    let stop = |table: &mut LockTable| table.stop_in_pieces(usize::MAX, Some(&next));
    let census: Vec<Census> = tables.sites.iter_mut().map(stop).collect();
    let older = census.iter().map(|census| census.iter().map(Holdings::for_older).collect());
    let older: Vec<Census> = older.collect();
    let (epoch, permits) = (Epoch::new(2).unwrap(), next.rule(name).permits);
    let mut local_view = LocalView::new(epoch, 2, 1, next);
    local_view.shares_permits = false;
    tables.act(1, |table, lease_clock, out| table.open(local_view, &older, lease_clock, out));
    tables.silent.insert(0);
    tables.ask_for(name, 1, 9, permits, Wait::Forever);
    tables.granted().contains(&(1, 9))
}

#[test]
fn a_member_of_an_older_program_lets_nobody_in_beside_holders_that_count_on_another_number() {
    // By the rule of the next view there are as many permits as processes, so that everybody enters without asking.
    let four = || Clause { per_site: 2, ..Clause::shared("raymond-k", 4) };
    for wrong in [None, Some(Mutant::OlderMemberMisled)] {
        let mut tables = Tables::of(2, Clause::exclusive("lamport"));
        tables.ask_for(&lock(), 0, 1, 1, Wait::Forever);
        let enters = |tables: &mut Tables| enters_at_older_member(tables, &lock(), four());
        let enters = match wrong {
            Some(wrong) => mutant::with(wrong, || enters(&mut tables)),
            None => enters(&mut tables),
        };
        assert_eq!(enters, wrong.is_some());
    }
}

#[test]
fn messages_about_permits_that_no_correct_member_sends_are_reported() {
    let mut tables = tables(3);
    let home = free().home(3);
    let (other, stamp) = ((home + 1) % 3, FenceClock::new(Epoch::default()).stamp());
    let mut send = |from: usize, to: usize, lock: LockName, message: PermitMessage| {
        let message = PermitsOf { lock, message };
        tables.act(to, |table, lease_clock, out| table.on_permits(from, message, lease_clock, out));
        tables.misbehaved.pop()
    };
    let (want, settled) = (PermitMessage::Want { permits: 3 }, PermitMessage::Settled { permits: 3 });
    let not_home = Some("is not the home of this lock, or takes this site for it");
    assert_eq!(send(home, other, free(), want), not_home);
    assert_eq!(send(other, home, free(), settled), not_home);
    let has_rule = Some("speaks of the permits of a lock that has a rule");
    assert_eq!(send(other, home, lock(), want), has_rule);
    let decided = Some("hands out what a rule decides");
    assert_eq!(send(home, other, free(), PermitMessage::Settled { permits: 1 }), decided);
    assert_eq!(send(home, other, free(), PermitMessage::Permit { permits: 1, slot: 0, stamp }), decided);
    let too_many = PermitMessage::Want { permits: u32::MAX };
    assert_eq!(send(other, home, free(), too_many), Some("wants more permits than a lock can have"));
    let returned = PermitMessage::Return { slot: 0, stamp };
    assert_eq!(send(other, home, free(), returned), Some("returns a permit that it does not have"));
    let reserved = PermitMessage::Reserved { in_use: None, stamp };
    assert_eq!(send(other, home, free(), reserved), Some("answers what it was not asked"));
    assert!(tables.sites.iter().all(LockTable::is_unmarked));
}
