//! Many waiters at one site: view changes, cuts and slow members cost nobody a lock or its membership.

use meshlock_cluster::mutant::{self, Mutant};
use meshlock_cluster::names::{LockName, Member};
use meshlock_cluster::node::{ClientAnswer, ClientCall, Config, Input};
use meshlock_cluster::rules::{Clause, RulesText};
use meshlock_cluster::table::{LockEvent, Request, Session};
use meshlock_cluster::time::Span;

use crate::cluster::Cluster;

/// A cluster of three in which clients of one site hold locks, and clients of another wait for all of them.
struct Backlog {
    cluster: Cluster,
    /// The site where clients wait.
    waits: usize,
    /// The site where clients hold.
    holds: usize,
    third: usize,
    held: Vec<Request>,
    members: Vec<Member>,
}

/// Which of the sites leads.
#[derive(Clone, Copy)]
enum Leader {
    Waits,
    IsThird,
}

fn lock(number: usize) -> LockName {
    format!("backup/host-{number:06}").parse().expect("a name")
}

impl Backlog {
    /// Lets clients of one site hold `count` locks, and clients of the `leader` or another site wait for them later. Every packet takes
    /// a millisecond.
    fn hold(mut cluster: Cluster, count: usize, leader: Leader) -> Self {
        cluster.delay(Span::from_millis(1));
        let leads = (0..3).find(|&at| cluster.nodes[at].leads().is_some()).expect("a leader");
        let others = ((leads + 1) % 3, (leads + 2) % 3);
        let (waits, holds, third) = match leader {
            Leader::Waits => (leads, others.0, others.1),
            Leader::IsThird => (others.0, others.1, leads),
        };
        let members = cluster.nodes[waits].view().members.clone();
        let mut backlog = Backlog { cluster, waits, holds, third, held: Vec::new(), members };
        backlog.held = backlog.ask(holds, count);
        backlog.cluster.pass(Span::from_millis(500));
        let granted = backlog.told(|event| matches!(event, LockEvent::Granted { .. }));
        assert_eq!(granted, count);
        backlog
    }

    /// Requests every lock at a site, not so fast that a link has much to do.
    fn ask(&mut self, at: usize, count: usize) -> Vec<Request> {
        let mut requests = Vec::new();
        for number in 0..count {
            requests.push(self.cluster.acquire(at, &lock(number)));
            if number % 500 == 0 {
                self.cluster.pass(Span::from_millis(25));
            }
        }
        requests
    }

    /// Returns how many events of a kind clients were told since the last call, and forgets all of them. Nobody lost a lock.
    fn told(&mut self, kind: impl Fn(&LockEvent) -> bool) -> usize {
        let mut count = 0;
        for answer in self.cluster.told.drain(..) {
            if let ClientAnswer::Lock(event) = answer {
                assert!(!matches!(event, LockEvent::Lost { .. }), "{event:?}");
                count += usize::from(kind(&event));
            }
        }
        count
    }

    /// Changes the view, and nothing else of importance.
    fn change_view(&mut self) {
        let before = self.cluster.nodes[self.waits].view().epoch;
        let rules = vec![("unused".to_owned(), Clause::exclusive("maekawa"))];
        let rules = RulesText { rules, default: Clause::exclusive("naimi-trehel") };
        let call = ClientCall::SetRules { request: Request(u64::MAX), rules };
        self.cluster.input(self.waits, Input::Call(call));
        for _ in 0..1000 {
            if self.cluster.nodes.iter().all(|node| node.view().epoch > before) {
                return;
            }
            self.cluster.pass(Span::from_millis(1));
        }
        panic!("the view has not changed");
    }

    /// Returns whether nobody was left out.
    fn is_complete(&self) -> bool {
        self.cluster.nodes.iter().all(|node| node.view().members == self.members)
    }

    /// Lets the holders go, and returns how many waiters got their locks within ten seconds.
    fn serve(&mut self) -> usize {
        for (number, request) in std::mem::take(&mut self.held).into_iter().enumerate() {
            self.cluster.release(self.holds, request);
            if number % 500 == 0 {
                self.cluster.pass(Span::from_millis(25));
            }
        }
        self.cluster.pass(Span::from_millis(10_000));
        self.told(|event| matches!(event, LockEvent::Granted { .. }))
    }
}

#[test]
fn twenty_thousand_waiters_of_one_site_survive_a_view_change() {
    let mut backlog = Backlog::hold(Cluster::open(3, "naimi-trehel"), 20_000, Leader::IsThird);
    backlog.ask(backlog.waits, 20_000);
    backlog.change_view();
    for second in 0..20 {
        backlog.cluster.pass(Span::from_millis(1000));
        assert!(backlog.is_complete(), "somebody was left out after {second} seconds");
    }
    assert_eq!(backlog.serve(), 20_000);
}

/// Four thousand clients ask for locks of a site that theirs does not reach for 3.3 s.
fn cut_for_a_while(reconnects: bool) {
    let mut backlog = Backlog::hold(Cluster::open(3, "naimi-trehel"), 4_000, Leader::IsThird);
    let (a, b) = (backlog.waits, backlog.holds);
    backlog.cluster.cut(a, b);
    for number in 0..4_000 {
        backlog.cluster.acquire(a, &lock(number));
    }
    backlog.cluster.pass(Span::from_millis(3300));
    if reconnects {
        backlog.cluster.reconnect(a, b);
    } else {
        backlog.cluster.mend(a, b);
    }
    for second in 0..20 {
        backlog.cluster.pass(Span::from_millis(1000));
        assert!(backlog.is_complete(), "somebody was left out after {second} seconds");
    }
    assert_eq!(backlog.serve(), 4_000);
}

#[test]
fn a_cut_of_three_seconds_with_four_thousand_requests_waiting_loses_nothing() {
    cut_for_a_while(true);
}

#[test]
fn a_cut_that_does_not_break_the_connection_loses_nothing_either() {
    cut_for_a_while(false);
}

#[test]
fn a_census_that_comes_a_second_late_costs_nothing_with_eight_thousand_waiters() {
    let mut backlog = Backlog::hold(Cluster::open(3, "naimi-trehel"), 8_000, Leader::Waits);
    backlog.ask(backlog.waits, 8_000);
    backlog.cluster.keep_back(backlog.third, backlog.holds);
    backlog.change_view();
    backlog.cluster.pass(Span::from_millis(1000));
    assert!(
        backlog.cluster.nodes[backlog.waits].is_open() && !backlog.cluster.nodes[backlog.holds].is_open()
    );
    backlog.cluster.let_go(backlog.third, backlog.holds);
    for second in 0..20 {
        backlog.cluster.pass(Span::from_millis(1000));
        assert!(backlog.is_complete(), "somebody was left out after {second} seconds");
    }
    assert_eq!(backlog.serve(), 8_000);
}

/// Returns whether everybody stays a member while a backlog drains for seconds, because the window is small.
fn survives_a_slow_drain() -> bool {
    let small = |_: usize, config: &mut Config| config.link_limits.window = 32;
    let cluster = Cluster::open_configured(3, &Clause::exclusive("naimi-trehel"), small);
    let mut backlog = Backlog::hold(cluster, 3_000, Leader::IsThird);
    backlog.ask(backlog.waits, 3_000);
    backlog.cluster.pass(Span::from_millis(1000));
    backlog.cluster.delay(Span::from_millis(40));
    backlog.change_view();
    // 94 windows of a round trip each.
    let stays = (0..120).all(|_| {
        backlog.cluster.pass(Span::from_millis(100));
        backlog.is_complete()
    });
    stays && backlog.serve() == 3_000
}

#[test]
fn a_backlog_that_takes_longer_than_a_peer_may_be_silent_makes_nobody_unreachable() {
    assert!(survives_a_slow_drain());
    assert!(!mutant::with(Mutant::UnreachableByAge, survives_a_slow_drain));
}

#[test]
fn a_member_that_is_not_open_for_seconds_holds_the_others_back_and_is_not_taken_for_silent() {
    let small = |_: usize, config: &mut Config| config.link_limits.early_bytes = 10_000;
    let cluster = Cluster::open_configured(3, &Clause::exclusive("naimi-trehel"), small);
    let mut backlog = Backlog::hold(cluster, 20_000, Leader::Waits);
    backlog.ask(backlog.waits, 20_000);
    backlog.cluster.keep_back(backlog.third, backlog.holds);
    backlog.change_view();
    backlog.cluster.pass(Span::from_millis(3500));
    assert!(!backlog.cluster.nodes[backlog.holds].is_open());
    backlog.cluster.let_go(backlog.third, backlog.holds);
    for second in 0..20 {
        backlog.cluster.pass(Span::from_millis(1000));
        assert!(backlog.is_complete(), "somebody was left out after {second} seconds");
    }
    let tally = backlog.cluster.nodes[backlog.holds].link_tally();
    assert_eq!((tally.held, tally.refused), (1, 0));
    assert_eq!(backlog.serve(), 20_000);
}

#[test]
fn a_full_table_delays_only_the_locks_for_which_it_has_no_room() {
    // The third site keeps few locks, and others ask it for many.
    let small = |at: usize, config: &mut Config| {
        if at == 2 {
            config.table_config.max_locks = 20;
        }
    };
    let mut cluster = Cluster::open_configured(3, &Clause::exclusive("naimi-trehel"), small);
    cluster.delay(Span::from_millis(1));
    let known = cluster.acquire(2, &lock(0));
    cluster.pass(Span::from_millis(100));
    assert!(cluster.is_granted(known));
    for number in 1..=500 {
        cluster.acquire(number % 2, &lock(number));
    }
    let waiter = cluster.acquire(0, &lock(0));
    cluster.pass(Span::from_millis(10));
    assert!(cluster.nodes[2].roomless_messages() > 0);
    cluster.release(2, known);
    cluster.pass(Span::from_millis(10));
    assert!(cluster.is_granted(waiter));
}

#[test]
fn a_link_that_breaks_costs_a_site_its_membership_and_not_the_cluster() {
    let small =
        |_: usize, config: &mut Config| (config.link_limits.window, config.link_limits.queue) = (16, 100);
    let mut cluster = Cluster::open_configured(3, &Clause::exclusive("naimi-trehel"), small);
    cluster.delay(Span::from_millis(1));
    let leads = (0..3).find(|&at| cluster.nodes[at].leads().is_some()).expect("a leader");
    let (a, b) = ((leads + 1) % 3, (leads + 2) % 3);
    let members = cluster.nodes[leads].view().members.clone();
    cluster.cut(a, b);
    for number in 0..600 {
        cluster.acquire(a, &lock(number));
        cluster.pass(Span::from_millis(2));
    }
    assert_eq!(cluster.nodes[a].link_tally().broken, 1);
    // Otherwise the next view would ask for as much again.
    cluster.input(a, Input::Call(ClientCall::SessionEnded(Session(1))));
    cluster.reconnect(a, b);
    cluster.pass(Span::from_millis(20_000));
    // One of the two has begun a new incarnation, and all take part again.
    let view = cluster.nodes[leads].view().clone();
    assert!(view.members.len() == 3 && view.members != members, "{view:?}");
    for at in 0..3 {
        let request = cluster.acquire(at, &lock(5000));
        cluster.pass(Span::from_millis(100));
        assert!(cluster.is_granted(request), "site {at}");
        cluster.release(at, request);
    }
}
