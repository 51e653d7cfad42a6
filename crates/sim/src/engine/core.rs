//! The part of a simulation that does not depend on the algorithm's type: processes, network, checks, measurements.

use std::collections::BTreeSet;

use meshlock_protocol::fence::Stamp;
use meshlock_protocol::registry::info::Tokens;
use meshlock_protocol::{
    Clock, Demand, Epoch, Fence, FenceClock, Info, Message, Mode, SiteId, Slot, Timestamp,
};

use super::Checked;
use super::faults::{FaultState, PacketOrigin};
use super::sharing::ReaderModes;
use crate::draw::{Distribution, Draw};
use crate::faults::{FaultEvent, Link};
use crate::metrics::{Metrics, SiteCounters};
use crate::network::Network;
use crate::settings::{Load, Settings};
use crate::time::Time;
use crate::trace::TraceKind;
use crate::violation::{History, Past, RunViolation, Stopped};

/// Header that the host adds to a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    stamp: Stamp,
    clock: Clock,
    /// The sender's incarnation and the state of the network when the message was sent.
    origin: PacketOrigin,
}

/// An event that no message causes. What was scheduled for an earlier incarnation of a site is void.
#[derive(Clone, Debug)]
pub(super) enum HostEvent {
    /// The process of an idle site requests.
    Request(SiteId, u32),
    /// The process leaves.
    Exit(SiteId, u32),
    /// A timer runs out.
    Wake(SiteId, u32),
    /// Something fails or is repaired.
    Fault(FaultEvent),
    /// Something that failed at random is repaired.
    Repair(FaultEvent),
    /// A site learns of a failure or a recovery.
    Tell { to: SiteId, about: SiteId, up: bool },
    /// The next random failure of a site is due.
    DrawFault,
    /// The next random partition is due.
    DrawSplit,
    /// The next random cut of a link is due.
    DrawCut,
}

/// Takes events for later; the event queue without the type of its messages.
pub(super) trait Schedule {
    fn at(&mut self, time: Time, event: HostEvent);

    /// Takes the exit of a critical section, where all take the same time.
    fn exit_at(&mut self, time: Time, site: SiteId, incarnation: u32);
}

/// State of the process at a site.
#[derive(Clone, Copy, Debug)]
pub(super) enum ProcessState {
    Idle,
    Waiting { arrived: Time, requested: Time, request: Timestamp },
    Inside { arrived: Time },
}

/// State of the host of a site. What a message needs is together in one line of the cache, what an entry needs in the next: with a
/// million sites each line is a jump in memory.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct HostedSite {
    // What every message needs.
    pub(super) fence: FenceClock,
    clock: Clock,
    pub(super) up: bool,
    /// Number of times that the site has failed.
    pub(super) incarnation: u32,
    pub(super) counters: SiteCounters,
    // What entries and exits need.
    pub(super) process: ProcessState,
    /// When the site's next request arrives, or has arrived. Under open load the ones behind it are drawn when their
    /// turn comes: an overloaded site costs neither events nor memory.
    arrival: Option<Time>,
}

/// A run without its sites and messages.
pub(super) struct Core<'a> {
    pub(super) settings: &'a Settings,
    info: &'static Info,
    pub(super) hosts: Vec<HostedSite>,
    network: Network,
    /// The time that every message takes, if it is always the same.
    uniform_delay: Option<Time>,
    pub(super) draw: Draw,
    pub(super) now: Time,
    pub(super) events: u64,
    /// The number of the event with the last entry, or with the last sign that the run makes progress.
    pub(super) last_entry: u64,
    /// So many events without an entry, while someone waits, are a livelock.
    livelock_after: u64,
    pub(super) waiting: usize,
    pub(super) inside: usize,
    /// The last fence of each line that must increase.
    fences: Vec<Option<Fence>>,
    /// The modes of the processes, in a run with readers.
    sharing: Option<Box<ReaderModes>>,
    tokens: usize,
    /// Whether the algorithm has tokens at all.
    counts_tokens: bool,
    fewest_tokens: usize,
    most_tokens: usize,
    /// Whether requests still arrive.
    pub(super) open: bool,
    pub(super) faults: FaultState,
    /// The links that are cut.
    pub(super) cut: BTreeSet<Link>,
    pub(super) metrics: Metrics,
    history: History,
    /// Whether the last events are kept for the message of a violation.
    pub(super) notes_history: bool,
}

impl<'a> Core<'a> {
    pub(super) fn new(settings: &'a Settings, info: &'static Info) -> Self {
        let cluster = settings.cluster;
        let host = HostedSite {
            process: ProcessState::Idle,
            fence: FenceClock::new(Epoch::default()),
            clock: Clock::ZERO,
            arrival: None,
            up: true,
            incarnation: 0,
            counters: SiteCounters::default(),
        };
        let expected_tokens = match info.tokens {
            Tokens::None => 0,
            Tokens::One => 1,
            Tokens::PerPermit => cluster.permits,
        };
        let network = Network::new(settings);
        let counts_tokens = info.tokens != Tokens::None;
        let lines = if is_numbered(info, cluster.permits) { cluster.permits } else { cluster.sites };
        Core {
            settings,
            info,
            hosts: vec![host; cluster.sites],
            uniform_delay: network.uniform_delay(),
            network,
            draw: Draw::new(settings.seed),
            now: Time::ZERO,
            events: 0,
            last_entry: 0,
            livelock_after: 1_000_000 + 10_000 * cluster.sites as u64,
            waiting: 0,
            inside: 0,
            fences: vec![None; lines],
            sharing: ReaderModes::of(settings),
            tokens: 0,
            counts_tokens,
            fewest_tokens: if counts_tokens && settings.faults.loses_nothing() { expected_tokens } else { 0 },
            most_tokens: expected_tokens,
            open: true,
            faults: FaultState::new(cluster.sites),
            cut: BTreeSet::new(),
            metrics: Metrics::new(info, settings),
            history: History::default(),
            notes_history: false,
        }
    }

    /// Schedules the faults and the first request of every site.
    pub(super) fn schedule_first(&mut self, queue: &mut dyn Schedule) {
        self.schedule_faults(queue);
        for site in SiteId::all(self.hosts.len()) {
            self.next_arrival(site, queue);
        }
    }

    /// Whether more entries are to be measured.
    pub(super) fn has_entries_left(&self) -> bool {
        self.metrics.now.entries < self.settings.entries
    }

    pub(super) fn is_anyone_inside(&self) -> bool {
        self.inside > 0
    }

    /// Whether what was scheduled for this incarnation of the site still counts.
    pub(super) fn is_current(&self, site: SiteId, incarnation: u32) -> bool {
        self.hosts[site.index()].incarnation == incarnation
    }

    /// Lets time go on to the next event.
    #[inline]
    pub(super) fn advance(&mut self, time: Time) -> Checked {
        self.now = time;
        self.events += 1;
        if self.events - self.last_entry > self.livelock_after && self.waiting > 0 {
            return Err(RunViolation::NobodyEnters.into());
        }
        Ok(())
    }

    /// Schedules the next request of `site`, which is idle.
    pub(super) fn next_arrival(&mut self, site: SiteId, queue: &mut dyn Schedule) {
        self.draw_arrival(site, self.now);
        self.request_on_arrival(site, queue);
    }

    /// Draws when the next request of `site` arrives: after the last arrival (open) or after the exit (closed,
    /// saturated).
    fn draw_arrival(&mut self, site: SiteId, after: Time) {
        let rate = self.settings.rates.of(site.index());
        self.hosts[site.index()].arrival = match self.settings.load {
            Load::Saturated => Some(after),
            Load::Open | Load::Closed if rate <= 0.0 => None,
            Load::Open | Load::Closed => Some(after + Time::units(self.draw.exponential(1.0 / rate))),
        };
    }

    pub(super) fn request_on_arrival(&mut self, site: SiteId, queue: &mut dyn Schedule) {
        let host = &self.hosts[site.index()];
        if let Some(arrival) = host.arrival
            && self.open
        {
            queue.at(arrival, HostEvent::Request(site, host.incarnation));
        }
    }

    /// What the process of `site` asks for next.
    #[inline]
    pub(super) fn next_demand(&mut self, site: SiteId) -> Demand {
        self.sharing.as_mut().map_or(Demand::PLAIN, |sharing| sharing.demand(site))
    }

    /// The process of `site` is not inside any more.
    pub(super) fn end_inside(&mut self, site: SiteId) {
        self.inside -= 1;
        if let Some(sharing) = &mut self.sharing {
            sharing.leave(site);
        }
    }

    /// The process of `site` waits from now on for the request that arrived then.
    pub(super) fn start_waiting(&mut self, site: SiteId, arrived: Time) {
        let host = &mut self.hosts[site.index()];
        let request = Timestamp::new(host.clock.tick(), site);
        host.process = ProcessState::Waiting { arrived, requested: self.now, request };
        if self.settings.load == Load::Open {
            self.draw_arrival(site, arrived);
        }
        self.waiting += 1;
    }

    /// The site has made the request that its process waits for. Its place in the order is the one that the algorithm gives
    /// it, or the one of the host's clock if the algorithm gives none.
    pub(super) fn order_request(&mut self, site: SiteId, own: Option<Timestamp>) {
        if let ProcessState::Waiting { request, .. } = &mut self.hosts[site.index()].process {
            *request = own.unwrap_or(*request);
            self.metrics.fairness.asked(*request, own.is_some());
        }
    }

    /// The process of `site` leaves.
    pub(super) fn leave(&mut self, site: SiteId) {
        let host = &mut self.hosts[site.index()];
        let ProcessState::Inside { arrived } = host.process else { unreachable!("an exit follows an entry") };
        host.process = ProcessState::Idle;
        self.end_inside(site);
        if self.open {
            self.metrics.left(self.now, arrived, self.waiting);
        }
    }

    /// When the next request of `site`, which has just left, has arrived; `None` if it arrives later.
    pub(super) fn next_request(&mut self, site: SiteId) -> Option<Time> {
        if self.settings.load != Load::Open {
            self.draw_arrival(site, self.now);
        }
        let arrival = self.hosts[site.index()].arrival;
        arrival.filter(|&arrived| arrived <= self.now && self.open)
    }

    /// Counts a message that `from` sends.
    #[inline]
    pub(super) fn count_sent(&mut self, from: SiteId, message: &impl Message) {
        self.metrics.sent(&mut self.hosts[from.index()].counters, message.kind(), message.words());
    }

    /// Counts one more message of the kind and length of the last.
    #[inline]
    pub(super) fn count_copy(&mut self, from: SiteId) {
        self.metrics.sent_copy(&mut self.hosts[from.index()].counters);
    }

    /// Header of a message that is sent now; `None` if the network is split between the two sites.
    #[expect(
        clippy::inline_always,
        reason = "measured: a call leaves the result in memory, and to read it back stalls"
    )]
    #[inline(always)]
    pub(super) fn header(&self, from: SiteId, to: SiteId) -> Option<Header> {
        let host = &self.hosts[from.index()];
        let origin = self.faults.origin(from, to, host.incarnation)?;
        Some(Header { stamp: host.fence.stamp(), clock: host.clock, origin })
    }

    /// Whether the message reaches its receiver. If it does, the receiver's clocks observe it.
    #[inline]
    pub(super) fn accept(&mut self, from: SiteId, to: SiteId, header: Header) -> bool {
        let host = &mut self.hosts[to.index()];
        if !host.up || self.faults.is_lost(from, to, header.origin) {
            return false;
        }
        host.fence.observe(header.stamp).expect("this host's own stamps are in range");
        host.clock.observe(header.clock);
        host.counters.received += 1;
        true
    }

    /// When a message that is sent now arrives, if all arrive in the order in which they are sent, whoever sends them.
    #[inline]
    pub(super) fn arrival_in_order(&self) -> Option<Time> {
        self.uniform_delay.map(|delay| self.now + delay)
    }

    /// When a message that is sent now arrives.
    pub(super) fn arrival(&mut self, from: SiteId, to: SiteId) -> Time {
        self.network.arrival(self.now, from, to, &mut self.draw)
    }

    /// Whether all messages of a step go the same way: nothing is cut or has failed, and nobody wants to know of each.
    #[inline]
    pub(super) fn is_undisturbed(&self) -> bool {
        self.faults.is_unhurt() && self.cut.is_empty() && !self.notes_history
    }

    /// Whether messages may have to wait at their receivers.
    pub(super) fn may_queue(&self) -> bool {
        self.network.queues_at_receivers()
    }

    /// When `site` has received the next message that waits there.
    pub(super) fn received_at(&mut self, site: SiteId) -> Time {
        self.network.received_at(self.now, site)
    }

    pub(super) fn set_timer(&self, site: SiteId, delays: u32, queue: &mut dyn Schedule) {
        let pause = Time::from_ticks(self.settings.max_delay().ticks() * u64::from(delays));
        queue.at(self.now + pause, HostEvent::Wake(site, self.hosts[site.index()].incarnation));
    }

    /// The process of `site` enters. Returns the fence.
    pub(super) fn enter(&mut self, site: SiteId) -> Checked<Fence> {
        let host = &mut self.hosts[site.index()];
        let ProcessState::Waiting { arrived, requested, request } = host.process else {
            return Err(RunViolation::Unasked { site }.into());
        };
        host.process = ProcessState::Inside { arrived };
        let fence = host.fence.enter();
        self.waiting -= 1;
        self.inside += 1;
        self.last_entry = self.events;
        self.metrics.fairness.entered(request);
        if self.open {
            let reads = self.sharing.as_ref().map(|sharing| sharing.mode(site) == Mode::Shared);
            self.metrics.entered(&mut host.counters, self.now, requested, reads);
        }
        Ok(fence)
    }

    /// Checks the entry that was just made.
    pub(super) fn check_entry(&mut self, site: SiteId, slot: Slot, fence: Fence) -> Checked {
        if let Some(sharing) = &mut self.sharing {
            return sharing.enter(site, fence);
        }
        let (inside, permits) = (self.inside, self.settings.cluster.permits);
        if inside > permits {
            return Err(RunViolation::TooManyInside { inside, permits }.into());
        }
        let line = if is_numbered(self.info, permits) { slot.0 as usize } else { site.index() };
        if self.fences[line].replace(fence).is_some_and(|last| last >= fence) {
            return Err(RunViolation::FenceFellBack { site }.into());
        }
        Ok(())
    }

    pub(super) fn schedule_exit(&mut self, site: SiteId, queue: &mut dyn Schedule) {
        let (now, incarnation) = (self.now, self.hosts[site.index()].incarnation);
        match self.settings.inside {
            Distribution::Constant(stay) => queue.exit_at(now + stay, site, incarnation),
            random @ (Distribution::Uniform { .. } | Distribution::Exponential { .. }) => {
                queue.at(now + self.draw.from(&random), HostEvent::Exit(site, incarnation));
            }
        }
    }

    /// Counts tokens that have come into being, or that a site or a message has again.
    #[inline]
    pub(super) fn add_tokens(&mut self, tokens: impl FnOnce() -> usize) {
        if self.counts_tokens {
            self.tokens += tokens();
        }
    }

    /// Takes tokens that are on their way, or lost, out of the count.
    #[inline]
    pub(super) fn remove_tokens(&mut self, tokens: impl FnOnce() -> usize) {
        if self.counts_tokens {
            self.tokens -= tokens();
        }
    }

    /// Whether the tokens are as many as there should be.
    #[inline]
    pub(super) fn check_tokens(&self) -> Checked {
        // A token can be lost with a failed site or network; none may appear from nowhere.
        if self.tokens > self.most_tokens || self.tokens < self.fewest_tokens {
            return Err(RunViolation::Tokens { found: self.tokens, expected: self.most_tokens }.into());
        }
        Ok(())
    }

    /// Keeps what happened for the message of a violation.
    #[inline]
    pub(super) fn remember(
        &mut self,
        kind: TraceKind,
        site: SiteId,
        peer: Option<SiteId>,
        message: impl FnOnce() -> Option<&'static str>,
    ) {
        if self.notes_history {
            self.history.push(Past { time: self.now, kind, site, peer, message: message() });
        }
    }

    pub(super) fn stopped(&self, violation: RunViolation) -> Stopped {
        Stopped::Violated {
            algorithm: self.info.name,
            violation,
            seed: self.settings.seed,
            time: self.now,
            events: self.events,
            last: self.history.lines(),
        }
    }
}

/// Whether fences must increase slot by slot; those of K permits without numbers must increase site by site.
fn is_numbered(info: &Info, permits: usize) -> bool {
    permits == 1 || info.tokens == Tokens::PerPermit
}
