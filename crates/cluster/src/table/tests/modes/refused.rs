//! What is refused, and why.

use super::*;

#[test]
fn a_mode_that_the_algorithm_does_not_know_is_refused_with_what_to_set() {
    let mut tables = Tables::of(1, Clause::exclusive("lamport"));
    tables.ask_in(0, 1, S);
    tables.post(0, 2, Demand::PLAIN.with_priority(3));
    let known = RequestRefusal::ExclusiveOnly { algorithm: "lamport", mode: S };
    let urgent = RequestRefusal::NoPriorities { algorithm: "lamport" };
    assert_eq!(tables.words(), [format!("1: {known:?}"), format!("2: {urgent:?}")]);
    let text = known.to_string();
    assert!(with_modes().iter().all(|algorithm| text.contains(algorithm.as_str())), "{text}");
    assert!(text.starts_with("the lock's rule runs lamport, which knows no mode but exclusive"), "{text}");
}

#[test]
fn a_reader_cannot_become_more_and_keeps_what_it_has() {
    each(2, |tables, _| {
        tables.ask_in(0, 1, S);
        tables.words();
        for to in [U, X] {
            tables.change(0, 1, to);
            assert_eq!(tables.words(), [format!("1: {:?}", RequestRefusal::UpgradeOfShared { to })]);
        }
        tables.change(0, 7, S);
        assert_eq!(tables.words(), ["7: NotHeld"]);
        tables.ask_in(1, 2, S);
        assert_eq!(tables.words(), ["2 enters"]);
        assert_eq!(tables.entered_after(0, 1), [0; 0]);
    });
}

#[test]
fn whoever_is_exclusive_stays_so_where_the_lock_knows_no_modes() {
    let mut tables = Tables::of(1, Clause::exclusive("lamport"));
    tables.ask_in(0, 1, X);
    tables.change(0, 1, S);
    let why = RequestRefusal::ExclusiveOnly { algorithm: "lamport", mode: S };
    assert_eq!(tables.words(), ["1 enters".to_owned(), format!("1: {why:?}")]);
    let several = ALL.iter().find(|info| info.permits != Permits::One).expect("one").name;
    let mut tables = Tables::of(1, Clause::shared(several, 2));
    tables.ask_in(0, 1, X);
    tables.change(0, 1, S);
    let why = RequestRefusal::ModeOfMany { permits: 2, mode: S };
    assert_eq!(tables.words().last(), Some(&format!("1: {why:?}")));
}

#[test]
fn beside_a_member_that_knows_no_modes_there_are_only_plain_demands() {
    for algorithm in with_modes() {
        let clause = Clause::exclusive(&algorithm);
        let mut tables = Tables::of(2, clause.clone());
        tables.ask_in(0, 1, S);
        tables.open_older(2, &clause);
        assert_eq!(tables.words(), ["1 enters"]);
        tables.ask_in(1, 2, S);
        assert_eq!(tables.words(), ["2: OlderMemberModes"]);
        tables.ask_in(1, 3, X);
        assert_eq!(tables.words(), [""; 0], "the reader is taken for one that is alone");
        assert_eq!(tables.entered_after(0, 1), [3]);
    }
}

#[test]
fn readers_of_two_sites_drain_beside_a_member_that_knows_no_modes() {
    for algorithm in with_modes() {
        let clause = Clause::exclusive(&algorithm);
        let mut tables = Tables::of(2, clause.clone());
        for (at, request) in [(0, 1), (0, 2), (1, 3)] {
            tables.ask_in(at, request, S);
        }
        tables.open_older(2, &clause);
        tables.ask_in(1, 4, X);
        assert_eq!(tables.entered_after(0, 1), [0; 0]);
        assert!(tables.left.is_empty() && !tables.sites[1].has_drained(), "one of two readers of a site");
        assert_eq!(tables.entered_after(1, 3), [0; 0]);
        assert!(tables.sites.iter().all(LockTable::has_drained), "one site has it alone");
        tables.open_older(3, &clause);
        assert_eq!(tables.entered_after(0, 2), [4]);
    }
}

fn a_client_that_shares_enters_no_name_that_others_use_as_a_semaphore() {
    for algorithm in with_modes() {
        let mut tables = Tables::of(2, Clause::exclusive(&algorithm));
        let name: LockName = "free".parse().unwrap();
        let text = RulesText { rules: Vec::new(), default: Clause::exclusive(&algorithm) };
        let census: Vec<Census> = tables.sites.iter_mut().map(LockTable::stop).collect();
        for me in 0..2 {
            let view = LocalView::new(Epoch::new(2).unwrap(), 2, me, Rules::new(text.clone()).unwrap());
            tables.act(me, |table, lease_clock, out| table.open(view, &census, lease_clock, out));
        }
        let ask = |tables: &mut Tables, at, request, permits, mode| {
            let (session, request, wait) = (Session(request), Request(request), Wait::Forever);
            let (lock, demand) = (name.clone(), Demand::of(mode));
            let wanted = Acquire { session, request, lock, permits, wait, demand, cause: None };
            tables.act(at, |table, lease_clock, out| table.acquire(wanted, lease_clock, out));
        };
        // A machine of the other site asks, and is inside when the home has settled another number.
        let home = name.home(2);
        let other = 1 - home;
        ask(&mut tables, other, 1, 1, S);
        let late: Vec<_> = tables.wire.drain(..).collect();
        tables.act(other, |table, lease_clock, out| table.cancel(Request(1), lease_clock, out));
        ask(&mut tables, home, 2, 3, X);
        tables.settle();
        ask(&mut tables, other, 3, 1, S);
        let rest = std::mem::replace(&mut tables.wire, late.into());
        tables.wire.extend(rest);
        tables.settle();
        let told = tables.words();
        let refused = RequestRefusal::PermitsInUse { has: 3, wants: 1 };
        let expected = ["1 waits no more".to_owned(), "2 enters".to_owned(), format!("3: {refused:?}")];
        assert_eq!(told, expected, "{algorithm}");
    }
}

#[test]
fn a_client_that_shares_beside_a_semaphore_is_caught() {
    mutant::is_caught_by(
        Mutant::SharedBesideSemaphore,
        a_client_that_shares_enters_no_name_that_others_use_as_a_semaphore,
    );
}

impl Tables {
    /// Changes to a view in which some member knows no modes.
    fn open_older(&mut self, epoch: u32, clause: &Clause) {
        self.wire.clear();
        let census: Vec<Census> = self.sites.iter_mut().map(LockTable::stop).collect();
        let members = self.sites.len();
        for me in 0..members {
            let epoch = Epoch::new(epoch).unwrap();
            let view = LocalView::new(epoch, members, me, rules(clause.clone())).without_modes();
            self.act(me, |table, lease_clock, out| table.open(view, &census, lease_clock, out));
        }
        self.settle();
    }
}
