//! No step allocates at steady state, and a quiet site takes no more memory than the registry says.
//!
//! Counts are exact and the same on every machine: nothing here depends on time.

use std::collections::VecDeque;
use std::mem::size_of;

use allocation_counter::{AllocationInfo, measure};
use meshlock_protocol::registry::info::{Permits, Tokens};
use meshlock_protocol::registry::{ALL, Visitor, plan};
use meshlock_protocol::{Algorithm, Cluster, Effect, Holders, Outbox, Phase, SiteId, Spec};

/// A bare host: sites, one queue of messages, and a count of what the sites' own steps allocate.
struct Host<A: Algorithm> {
    sites: Vec<A>,
    out: Outbox<A::Message>,
    on_their_way: VecDeque<(SiteId, SiteId, A::Message)>,
    timers: VecDeque<SiteId>,
    inside: VecDeque<SiteId>,
    allocated: u64,
}

impl<A: Algorithm> Host<A> {
    fn new(cluster: Cluster, spec: &Spec) -> Self {
        let plan = plan::<A>(cluster, &spec.values).expect("the tested options fit any cluster");
        Host {
            sites: SiteId::all(cluster.sites).map(|me| A::start(&plan, me, &Holders::none())).collect(),
            out: Outbox::new(),
            on_their_way: VecDeque::new(),
            timers: VecDeque::new(),
            inside: VecDeque::new(),
            allocated: 0,
        }
    }

    fn step(&mut self, site: SiteId, call: impl FnOnce(&mut A, &mut Outbox<A::Message>)) {
        let (machine, out) = (&mut self.sites[site.index()], &mut self.out);
        self.allocated += measure(|| call(machine, out)).count_total;
        for effect in self.out.drain() {
            match effect {
                Effect::Send { to, message } => self.on_their_way.push_back((site, to, message)),
                Effect::Enter { .. } => self.inside.push_back(site),
                Effect::Timer { .. } => self.timers.push_back(site),
                Effect::Misbehaved { peer, why } => panic!("{peer}: {why}"),
            }
        }
    }

    /// Every site enters `rounds` times; all want in all the time.
    fn saturate(&mut self, rounds: u32) {
        for _ in 0..rounds {
            for site in SiteId::all(self.sites.len()) {
                if self.sites[site.index()].phase() == Phase::Idle {
                    self.step(site, |machine, out| machine.request(out));
                }
            }
            self.settle();
        }
    }

    fn settle(&mut self) {
        loop {
            if let Some((from, to, message)) = self.on_their_way.pop_front() {
                self.step(to, |machine, out| machine.receive(from, message, out));
            } else if let Some(site) = self.inside.pop_front() {
                self.step(site, |machine, out| machine.release(out));
            } else if let Some(site) = self.timers.pop_front() {
                self.step(site, |machine, out| machine.wake(out));
            } else {
                return;
            }
        }
    }
}

/// The allocations of all steps once the run has warmed up.
struct Steady(Cluster);

impl Visitor for Steady {
    type Output = u64;

    fn visit<A: Algorithm>(self, spec: &Spec) -> u64 {
        let mut host = Host::<A>::new(self.0, spec);
        host.saturate(5);
        host.allocated = 0;
        host.saturate(5);
        assert!(host.sites.iter().all(A::is_quiet), "{spec}: the run ends quiet");
        host.allocated
    }
}

#[test]
fn no_step_allocates_at_steady_state() {
    let mut wasteful = Vec::new();
    for spec in ALL.iter().flat_map(|info| info.specs()) {
        let spec: Spec = spec.parse().unwrap();
        for sites in [2, 10, 64] {
            let permits = if spec.info.permits == Permits::Many { 2 } else { 1 };
            let allocated = spec.visit(Steady(Cluster::of(sites).with_permits(permits)));
            if allocated > 0 {
                wasteful.push(format!("{spec} allocates {allocated} times at N={sites}"));
            }
        }
    }
    assert!(wasteful.is_empty(), "{}", wasteful.join("\n"));
}

/// The bytes of the largest quiet site: itself and what it owns, after a run, without what all share.
struct Quiet(Cluster);

impl Visitor for Quiet {
    type Output = usize;

    fn visit<A: Algorithm>(self, spec: &Spec) -> usize {
        let mut host = Host::<A>::new(self.0, spec);
        host.saturate(2);
        let owned = |site: A| {
            let freed: AllocationInfo = measure(|| drop(site));
            usize::try_from(-freed.bytes_current).expect("a drop only frees")
        };
        host.sites.drain(..).map(|site| size_of::<A>() + owned(site)).max().expect("at least one site")
    }
}

#[test]
fn a_quiet_site_takes_no_more_memory_than_stated_and_at_least_half_of_it() {
    let mut wrong = Vec::new();
    for info in ALL {
        for sites in [1, 10, 64, 100] {
            let taken = Spec::plain(info).visit(Quiet(Cluster::of(sites)));
            let stated = info.memory.at(sites);
            if taken > stated || taken * 2 < stated {
                wrong.push(format!("{}, N={sites}: takes {taken} bytes, stated are {stated}", info.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn token_algorithms_say_how_many_tokens_there_are() {
    for info in ALL {
        let token = info.kind == meshlock_protocol::registry::info::Kind::Token;
        assert_eq!(token, info.tokens != Tokens::None, "{}", info.name);
    }
}
