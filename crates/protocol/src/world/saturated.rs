//! The leanest host: one queue for all messages, every site always requests, nothing is checked.
//!
//! For benchmarks and for counting allocations: its time is the algorithm's own time plus one push and one pop for each
//! message. At steady state it does not allocate.

use std::collections::VecDeque;

use crate::registry::plan;
use crate::registry::values::Values;
use crate::{Algorithm, Cluster, Effect, Holders, Outbox, Phase, PlanError, SiteId};

/// Sites under permanent load.
#[derive(Debug)]
pub struct Saturated<A: Algorithm> {
    sites: Vec<A>,
    out: Outbox<A::Message>,
    on_their_way: VecDeque<(SiteId, SiteId, A::Message)>,
    timers: VecDeque<SiteId>,
    inside: VecDeque<SiteId>,
    received: u64,
    entered: u64,
}

impl<A: Algorithm> Saturated<A> {
    /// Starts all sites of a cluster, with nobody inside.
    pub fn new(cluster: Cluster, values: &Values) -> Result<Self, PlanError> {
        let plan = plan::<A>(cluster, values)?;
        Ok(Saturated {
            sites: SiteId::all(cluster.sites).map(|me| A::start(&plan, me, &Holders::none())).collect(),
            out: Outbox::new(),
            on_their_way: VecDeque::new(),
            timers: VecDeque::new(),
            inside: VecDeque::new(),
            received: 0,
            entered: 0,
        })
    }

    /// Lets every site request and enter `rounds` times.
    pub fn run(&mut self, rounds: u32) {
        for _ in 0..rounds {
            for site in SiteId::all(self.sites.len()) {
                assert!(self.sites[site.index()].phase() == Phase::Idle, "the last round has ended");
                self.step(site, |machine, out| machine.request(out));
            }
            self.settle();
        }
    }

    /// The number of messages that have arrived.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The number of entries so far.
    pub fn entered(&self) -> u64 {
        self.entered
    }

    /// The sites as they are now.
    pub fn into_sites(self) -> Vec<A> {
        self.sites
    }

    fn settle(&mut self) {
        loop {
            if let Some((from, to, message)) = self.on_their_way.pop_front() {
                self.received += 1;
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

    fn step(&mut self, site: SiteId, call: impl FnOnce(&mut A, &mut Outbox<A::Message>)) {
        call(&mut self.sites[site.index()], &mut self.out);
        for effect in self.out.drain() {
            match effect {
                Effect::Send { to, message } => self.on_their_way.push_back((site, to, message)),
                Effect::Enter { .. } => {
                    self.entered += 1;
                    self.inside.push_back(site);
                }
                Effect::Timer { .. } => self.timers.push_back(site),
                Effect::Upgraded | Effect::Chose { .. } => {}
                Effect::Misbehaved { peer, why } => {
                    panic!("a correct site's message was refused: {peer}, {why}")
                }
            }
        }
    }
}
