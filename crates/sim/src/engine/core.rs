//! The part of a simulation that does not depend on the algorithm's type: processes, network, checks, measurements.

use std::collections::BTreeSet;

use meshlock_protocol::fence::Stamp;
use meshlock_protocol::registry::info::Tokens;
use meshlock_protocol::{Clock, Epoch, Fence, FenceClock, Info, SiteId, Slot, Timestamp};

use super::faults::{FaultState, PacketOrigin};
use crate::draw::Draw;
use crate::faults::{FaultEvent, Link};
use crate::metrics::Metrics;
use crate::network::Network;
use crate::settings::{Load, Settings};
use crate::time::Time;
use crate::trace::TraceKind;
use crate::violation::{History, RunViolation, Stopped};

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
}

/// State of the process at a site.
#[derive(Clone, Copy, Debug)]
pub(super) enum ProcessState {
    Idle,
    Waiting { arrived: Time, requested: Time, request: Timestamp },
    Inside { arrived: Time },
}

/// State of the host of a site.
#[derive(Clone, Debug)]
pub(super) struct HostedSite {
    pub(super) process: ProcessState,
    pub(super) fence: FenceClock,
    clock: Clock,
    /// When the site's next request arrives, or has arrived. Under open load the ones behind it are drawn when their
    /// turn comes: an overloaded site costs neither events nor memory.
    arrival: Option<Time>,
    pub(super) up: bool,
    /// Number of times that the site has failed.
    pub(super) incarnation: u32,
}

/// A run without its sites and messages.
pub(super) struct Core<'a> {
    pub(super) settings: &'a Settings,
    info: &'static Info,
    pub(super) hosts: Vec<HostedSite>,
    network: Network,
    pub(super) draw: Draw,
    pub(super) now: Time,
    pub(super) events: u64,
    /// The number of the event with the last entry, or with the last sign that the run makes progress.
    pub(super) last_entry: u64,
    pub(super) waiting: usize,
    pub(super) inside: usize,
    /// The last fence of each line that must increase.
    fences: Vec<Option<Fence>>,
    pub(super) tokens: usize,
    /// Whether the algorithm has tokens at all.
    pub(super) has_tokens: bool,
    /// Whether requests still arrive.
    pub(super) open: bool,
    pub(super) faults: FaultState,
    /// The links that are cut.
    pub(super) cut: BTreeSet<Link>,
    pub(super) metrics: Metrics,
    history: History,
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
        };
        let Settings { delay, send_cost, receive_cost, fifo, .. } = settings.clone();
        let lines = if is_numbered(info, cluster.permits) { cluster.permits } else { cluster.sites };
        Core {
            settings,
            info,
            hosts: vec![host; cluster.sites],
            network: Network::new(cluster.sites, delay, send_cost, receive_cost, fifo),
            draw: Draw::new(settings.seed),
            now: Time::ZERO,
            events: 0,
            last_entry: 0,
            waiting: 0,
            inside: 0,
            fences: vec![None; lines],
            tokens: 0,
            has_tokens: info.tokens != Tokens::None,
            open: true,
            faults: FaultState::new(cluster.sites),
            cut: BTreeSet::new(),
            metrics: Metrics::new(info, cluster.sites, settings.entries),
            history: History::default(),
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
    pub(super) fn advance(&mut self, time: Time) -> Result<(), RunViolation> {
        self.now = time;
        self.events += 1;
        let limit = 1_000_000 + 10_000 * self.hosts.len() as u64;
        if self.events - self.last_entry > limit && self.waiting > 0 {
            return Err(RunViolation::NobodyEnters);
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

    /// The process of `site` waits from now on for the request that arrived then.
    pub(super) fn start_waiting(&mut self, site: SiteId, arrived: Time) {
        let host = &mut self.hosts[site.index()];
        let request = Timestamp::new(host.clock.tick(), site);
        host.process = ProcessState::Waiting { arrived, requested: self.now, request };
        if self.settings.load == Load::Open {
            self.draw_arrival(site, arrived);
        }
        self.waiting += 1;
        self.metrics.fairness.asked(request);
    }

    /// The process of `site` leaves.
    pub(super) fn leave(&mut self, site: SiteId) {
        let host = &mut self.hosts[site.index()];
        let ProcessState::Inside { arrived } = host.process else { unreachable!("an exit follows an entry") };
        host.process = ProcessState::Idle;
        self.inside -= 1;
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

    /// Header of a message that is sent now; `None` if the network is split between the two sites.
    pub(super) fn header(&self, from: SiteId, to: SiteId) -> Option<Header> {
        let host = &self.hosts[from.index()];
        let origin = self.faults.origin(from, to, host.incarnation)?;
        Some(Header { stamp: host.fence.stamp(), clock: host.clock, origin })
    }

    /// Whether the message reaches its receiver. If it does, the receiver's clocks observe it.
    pub(super) fn accept(&mut self, from: SiteId, to: SiteId, header: Header) -> bool {
        let host = &mut self.hosts[to.index()];
        if !host.up || self.faults.is_lost(from, to, header.origin) {
            return false;
        }
        host.fence.observe(header.stamp).expect("this host's own stamps are in range");
        host.clock.observe(header.clock);
        self.metrics.received_by[to.index()] += 1;
        true
    }

    /// When a message that is sent now arrives, and whether its receiver then pays for it.
    pub(super) fn arrival(&mut self, from: SiteId, to: SiteId) -> (Time, bool) {
        let arrival = self.network.arrival(self.now, from, to, &mut self.draw);
        (arrival, self.network.charges_receivers())
    }

    /// When `site` has processed a message that reaches it now.
    pub(super) fn processed_at(&mut self, site: SiteId) -> Time {
        self.network.taken_in(self.now, site)
    }

    pub(super) fn set_timer(&self, site: SiteId, delays: u32, queue: &mut dyn Schedule) {
        let pause = Time::from_ticks(self.settings.max_delay().ticks() * u64::from(delays));
        queue.at(self.now + pause, HostEvent::Wake(site, self.hosts[site.index()].incarnation));
    }

    /// The process of `site` enters. Returns the fence.
    pub(super) fn enter(&mut self, site: SiteId) -> Result<Fence, RunViolation> {
        let host = &mut self.hosts[site.index()];
        let ProcessState::Waiting { arrived, requested, request } = host.process else {
            return Err(RunViolation::Unasked { site });
        };
        host.process = ProcessState::Inside { arrived };
        let fence = host.fence.enter();
        self.waiting -= 1;
        self.inside += 1;
        self.last_entry = self.events;
        self.metrics.fairness.entered(request);
        if self.open {
            self.metrics.entered(site, self.now, requested);
        }
        Ok(fence)
    }

    /// Checks the entry that was just made.
    pub(super) fn check_entry(&mut self, site: SiteId, slot: Slot, fence: Fence) -> Result<(), RunViolation> {
        let (inside, permits) = (self.inside, self.settings.cluster.permits);
        if inside > permits {
            return Err(RunViolation::TooManyInside { inside, permits });
        }
        let line = if is_numbered(self.info, permits) { slot.0 as usize } else { site.index() };
        if self.fences[line].replace(fence).is_some_and(|last| last >= fence) {
            return Err(RunViolation::FenceFellBack { site });
        }
        Ok(())
    }

    pub(super) fn schedule_exit(&mut self, site: SiteId, queue: &mut dyn Schedule) {
        let stay = self.draw.from(&self.settings.inside);
        queue.at(self.now + stay, HostEvent::Exit(site, self.hosts[site.index()].incarnation));
    }

    pub(super) fn check_tokens(&self) -> Result<(), RunViolation> {
        let expected = match self.info.tokens {
            Tokens::None => 0,
            Tokens::One => 1,
            Tokens::PerPermit => self.settings.cluster.permits,
        };
        // A token can be lost with a failed site or network; none may appear from nowhere.
        let fewer_is_wrong = self.settings.faults.loses_nothing();
        if self.tokens > expected || (fewer_is_wrong && self.tokens < expected) {
            return Err(RunViolation::Tokens { found: self.tokens, expected });
        }
        Ok(())
    }

    /// Keeps what happened for the message of a violation.
    pub(super) fn remember(
        &mut self,
        kind: TraceKind,
        site: SiteId,
        peer: Option<SiteId>,
        message: Option<&'static str>,
    ) {
        self.history.push(self.now, kind, site, peer, message);
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
