//! The event loop: virtual time goes from event to event, and after each one what must hold is checked.
//!
//! Always on: never more than K inside, fences increase, tokens are conserved, nobody enters unasked, and once the load
//! ends everyone who waits is served. A violation ends the run with its seed, its time and the last events.

use meshlock_protocol::fence::Stamp;
use meshlock_protocol::registry::Visitor;
use meshlock_protocol::registry::info::Tokens;
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::{
    Algorithm, Clock, Effect, Epoch, Fence, FenceClock, Holders, Info, Message, Outbox, PlanError, SiteId,
    Slot, Spec, Timestamp,
};

use crate::draw::Draw;
use crate::metrics::Metrics;
use crate::network::Network;
use crate::queue::EventQueue;
use crate::report::{self, Report};
use crate::settings::{Load, Settings};
use crate::time::Time;
use crate::trace::{Kind, Line, NoTrace, Trace};
use crate::violation::{History, Stopped, Violation};

mod faults;
mod links;

use faults::Origin;
use links::Links;

/// A message with what the host adds.
#[derive(Clone, Debug)]
struct Packet<M> {
    message: M,
    stamp: Stamp,
    clock: Clock,
    /// From which life of its sender and across which state of the network it was sent.
    origin: Origin,
}

/// What happens at some time.
#[derive(Clone, Debug)]
enum Event<M> {
    /// The process of an idle site asks.
    Ask(SiteId, u32),
    /// A message reaches the site, which has yet to take it in.
    Reach { from: SiteId, to: SiteId, packet: Packet<M> },
    /// A message is taken in.
    Deliver { from: SiteId, to: SiteId, packet: Packet<M> },
    /// The process leaves.
    Exit(SiteId, u32),
    /// A timer runs out.
    Wake(SiteId, u32),
    /// Something fails or is mended.
    Fault(crate::faults::Fault),
    /// What failed at random is mended.
    Repair(crate::faults::Fault),
    /// A site learns of a failure or a recovery.
    Tell { to: SiteId, about: SiteId, up: bool },
    /// The next random failure of a site is due.
    DrawFault,
    /// The next random partition is due.
    DrawSplit,
    /// The next random cut of a link is due.
    DrawCut,
}

/// How large one event of a run of `A` is in the event queue.
pub const fn event_bytes<A: Algorithm>() -> usize {
    size_of::<Event<A::Message>>()
}

/// What the process at a site does.
#[derive(Clone, Copy, Debug)]
enum Process {
    Idle,
    Waiting { arrived: Time, asked: Time, request: Timestamp },
    Inside { arrived: Time },
}

/// What the host keeps for a site.
#[derive(Clone, Debug)]
struct Host {
    process: Process,
    fence: FenceClock,
    clock: Clock,
    /// When the request arrives, or has arrived, that is the site's next. Under open load the ones behind it are drawn when
    /// their turn comes: that a site is overloaded costs neither events nor memory.
    arrival: Option<Time>,
    up: bool,
    /// How often the site has failed: what was scheduled in an earlier life is void.
    life: u32,
}

/// Runs the algorithm `A` with these options under `settings`, and tells `trace` what happens.
pub fn simulate<A: Algorithm>(
    settings: &Settings,
    values: &Values,
    trace: &mut impl Trace,
) -> Result<Report, Stopped> {
    faults::can_handle(values.info(), &settings.faults)?;
    let mut run = Simulation::<A, _>::new(settings, values, trace).map_err(Stopped::Plan)?;
    run.run().map_err(|violation| run.stopped(violation))?;
    Ok(report::of(values.info(), settings, &run.metrics, run.events))
}

/// Runs the algorithm that `spec` names under `settings`, without a trace. Not generic, so that the simulator is compiled once
/// for each algorithm, here.
pub fn measure(spec: &Spec, settings: &Settings) -> Result<Report, Stopped> {
    struct Untraced<'a>(&'a Settings);

    impl Visitor for Untraced<'_> {
        type Output = Result<Report, Stopped>;

        fn visit<A: Algorithm>(self, spec: &Spec) -> Self::Output {
            simulate::<A>(self.0, &spec.values, &mut NoTrace)
        }
    }

    spec.visit(Untraced(settings))
}

struct Simulation<'a, A: Algorithm, T: Trace> {
    info: &'static Info,
    settings: &'a Settings,
    trace: &'a mut T,
    sites: Vec<A>,
    hosts: Vec<Host>,
    network: Network,
    queue: EventQueue<Event<A::Message>>,
    out: Outbox<A::Message>,
    draw: Draw,
    now: Time,
    events: u64,
    last_entry: u64,
    waiting: usize,
    inside: usize,
    /// The last fence of each line that must increase.
    fences: Vec<Option<Fence>>,
    tokens: usize,
    /// Whether requests still arrive.
    open: bool,
    faults: faults::State,
    links: Links<A::Message>,
    metrics: Metrics,
    history: History,
    /// What caused the step under way; the trace tells it with the state after the step.
    causes: Vec<Cause<A::Message>>,
}

/// The kind of a line, the peer, the message.
type Cause<M> = (Kind, Option<SiteId>, Option<M>);

impl<'a, A: Algorithm, T: Trace> Simulation<'a, A, T> {
    fn new(settings: &'a Settings, values: &Values, trace: &'a mut T) -> Result<Self, PlanError> {
        let cluster = settings.cluster;
        let plan = meshlock_protocol::registry::plan::<A>(cluster, values)?;
        let host = Host {
            process: Process::Idle,
            fence: FenceClock::new(Epoch::default()),
            clock: Clock::ZERO,
            arrival: None,
            up: true,
            life: 0,
        };
        let sites: Vec<A> =
            SiteId::all(cluster.sites).map(|me| A::start(&plan, me, &Holders::none())).collect();
        let Settings { delay, send_cost, receive_cost, fifo, .. } = settings.clone();
        let info = values.info();
        let lines = if is_numbered(info, cluster.permits) { cluster.permits } else { cluster.sites };
        Ok(Simulation {
            info,
            settings,
            trace,
            tokens: sites.iter().map(A::tokens).sum(),
            sites,
            hosts: vec![host; cluster.sites],
            network: Network::new(cluster.sites, delay, send_cost, receive_cost, fifo),
            queue: EventQueue::default(),
            out: Outbox::new(),
            draw: Draw::new(settings.seed),
            now: Time::ZERO,
            events: 0,
            last_entry: 0,
            waiting: 0,
            inside: 0,
            fences: vec![None; lines],
            open: true,
            faults: faults::State::new(cluster.sites),
            links: Links::default(),
            metrics: Metrics::new(info, cluster.sites, settings.entries),
            history: History::default(),
            causes: Vec::new(),
        })
    }

    fn run(&mut self) -> Result<(), Violation> {
        self.schedule_faults();
        for site in SiteId::all(self.sites.len()) {
            self.next_arrival(site);
        }
        while self.metrics.now.entries < self.settings.entries {
            self.next_event()?;
        }
        // The load ends; whoever waits must still be served.
        self.open = false;
        while self.somebody_waits_in_hope() || self.inside > 0 {
            self.next_event()?;
        }
        Ok(())
    }

    /// Takes the next event. That there is none while entries are due means that everyone waits for ever.
    fn next_event(&mut self) -> Result<(), Violation> {
        let Some((time, event)) = self.queue.pop() else { return Err(Violation::NothingLeft) };
        self.now = time;
        self.events += 1;
        if self.events - self.last_entry > 1_000_000 + 10_000 * self.sites.len() as u64 && self.waiting > 0 {
            return Err(Violation::NobodyEnters);
        }
        match event {
            Event::Ask(site, life) => self.ask(site, life),
            Event::Reach { from, to, packet } => {
                let at = self.network.taken_in(self.now, to);
                self.queue.push(at, Event::Deliver { from, to, packet });
                Ok(())
            }
            Event::Deliver { from, to, packet } => self.deliver(from, to, packet),
            Event::Exit(site, life) => self.exit(site, life),
            Event::Wake(site, life) => self.wake(site, life),
            Event::Fault(fault) => self.fault(fault),
            Event::Repair(fault) => self.repair(fault),
            Event::Tell { to, about, up } => self.tell(to, about, up),
            Event::DrawFault => self.draw_fault(),
            Event::DrawSplit => self.draw_split(),
            Event::DrawCut => {
                self.draw_cut();
                Ok(())
            }
        }
    }

    /// Sees to it that `site`, which is idle, asks when its next request arrives.
    fn next_arrival(&mut self, site: SiteId) {
        self.draw_arrival(site, self.now);
        self.ask_on_arrival(site);
    }

    /// Draws when the next request of `site` arrives: after the last arrival (open) or after the exit (closed, saturated).
    fn draw_arrival(&mut self, site: SiteId, after: Time) {
        let rate = self.settings.rates.of(site.index());
        self.hosts[site.index()].arrival = match self.settings.load {
            Load::Saturated => Some(after),
            Load::Open | Load::Closed if rate <= 0.0 => None,
            Load::Open | Load::Closed => Some(after + Time::units(self.draw.exponential(1.0 / rate))),
        };
    }

    fn ask_on_arrival(&mut self, site: SiteId) {
        let host = &self.hosts[site.index()];
        if let Some(arrival) = host.arrival
            && self.open
        {
            self.queue.push(arrival, Event::Ask(site, host.life));
        }
    }

    fn ask(&mut self, site: SiteId, life: u32) -> Result<(), Violation> {
        if !self.open || self.hosts[site.index()].life != life {
            return Ok(());
        }
        self.start_waiting(site, self.now);
        self.step(site, |machine, out| machine.request(out))
    }

    fn start_waiting(&mut self, site: SiteId, arrived: Time) {
        let host = &mut self.hosts[site.index()];
        let request = Timestamp::new(host.clock.tick(), site);
        host.process = Process::Waiting { arrived, asked: self.now, request };
        if self.settings.load == Load::Open {
            self.draw_arrival(site, arrived);
        }
        self.waiting += 1;
        self.metrics.fairness.asked(request);
        self.cause(Kind::Request, site, None, None);
    }

    fn deliver(&mut self, from: SiteId, to: SiteId, packet: Packet<A::Message>) -> Result<(), Violation> {
        let tokens = packet.message.tokens();
        if !self.hosts[to.index()].up || self.faults.lost(from, to, packet.origin) {
            // Lost with the site or with the network, and the tokens in it.
            self.tokens -= tokens;
            return Ok(());
        }
        let host = &mut self.hosts[to.index()];
        host.fence.observe(packet.stamp).expect("this host's own stamps are in range");
        host.clock.observe(packet.clock);
        self.metrics.received_by[to.index()] += 1;
        self.cause(Kind::Receive, to, Some(from), Some(&packet.message));
        self.tokens -= tokens;
        self.step(to, |machine, out| machine.receive(from, packet.message, out))
    }

    fn exit(&mut self, site: SiteId, life: u32) -> Result<(), Violation> {
        let host = &mut self.hosts[site.index()];
        if host.life != life {
            return Ok(());
        }
        let Process::Inside { arrived } = host.process else { unreachable!("an exit follows an entry") };
        host.process = Process::Idle;
        self.inside -= 1;
        if self.open {
            self.metrics.left(self.now, arrived, self.waiting);
        }
        self.cause(Kind::Release, site, None, None);
        if self.settings.load != Load::Open {
            self.draw_arrival(site, self.now);
        }
        if let Some(arrived) = self.hosts[site.index()].arrival
            && arrived <= self.now
            && self.open
        {
            self.start_waiting(site, arrived);
            return self.step(site, |machine, out| machine.release_and_request(out));
        }
        self.step(site, |machine, out| machine.release(out))?;
        self.ask_on_arrival(site);
        Ok(())
    }

    fn wake(&mut self, site: SiteId, life: u32) -> Result<(), Violation> {
        if self.hosts[site.index()].life != life {
            return Ok(());
        }
        self.step(site, |machine, out| machine.wake(out))
    }

    /// One call of a site, and what comes of it.
    fn step(
        &mut self,
        site: SiteId,
        call: impl FnOnce(&mut A, &mut Outbox<A::Message>),
    ) -> Result<(), Violation> {
        let machine = &mut self.sites[site.index()];
        let mut out = std::mem::take(&mut self.out);
        if self.info.tokens == Tokens::None {
            call(machine, &mut out);
        } else {
            self.tokens -= machine.tokens();
            call(machine, &mut out);
            self.tokens += machine.tokens();
        }
        self.tell_causes(site);
        let mut result = Ok(());
        for effect in out.drain() {
            let done = self.perform(site, effect);
            result = result.and(done);
        }
        self.out = out;
        result.and_then(|()| self.check_tokens())
    }

    fn perform(&mut self, site: SiteId, effect: Effect<A::Message>) -> Result<(), Violation> {
        match effect {
            Effect::Send { to, message } => {
                self.send(site, to, message);
                Ok(())
            }
            Effect::Enter { slot } => self.enter(site, slot),
            Effect::Timer { delays } => {
                let pause = Time::from_ticks(self.settings.longest_delay().ticks() * u64::from(delays));
                self.queue.push(self.now + pause, Event::Wake(site, self.hosts[site.index()].life));
                Ok(())
            }
            Effect::Misbehaved { peer, why } => Err(Violation::Refused { site, peer, why }),
        }
    }

    fn send(&mut self, from: SiteId, to: SiteId, message: A::Message) {
        self.metrics.sent(from, message.kind(), message.words());
        self.note(Kind::Send, from, Some(to), Some(&message));
        let host = &self.hosts[from.index()];
        let (stamp, clock, origin) =
            (host.fence.stamp(), host.clock, self.faults.origin(from, to, host.life));
        let Some(origin) = origin else { return };
        self.tokens += message.tokens();
        let packet = Packet { message, stamp, clock, origin };
        if let Some(packet) = self.links.hold(from, to, packet) {
            self.put_on_the_way(from, to, packet);
        }
    }

    fn put_on_the_way(&mut self, from: SiteId, to: SiteId, packet: Packet<A::Message>) {
        let arrival = self.network.arrival(self.now, from, to, &mut self.draw);
        let event = if self.network.charges_receivers() {
            Event::Reach { from, to, packet }
        } else {
            Event::Deliver { from, to, packet }
        };
        self.queue.push(arrival, event);
    }

    fn enter(&mut self, site: SiteId, slot: Slot) -> Result<(), Violation> {
        let host = &mut self.hosts[site.index()];
        let Process::Waiting { arrived, asked, request } = host.process else {
            return Err(Violation::Unasked { site });
        };
        host.process = Process::Inside { arrived };
        let (fence, life) = (host.fence.enter(), host.life);
        self.waiting -= 1;
        self.inside += 1;
        self.last_entry = self.events;
        self.metrics.fairness.entered(request);
        if self.open {
            self.metrics.entered(site, self.now, asked);
            self.trace.entered(self.metrics.now.entries);
        }
        self.note(Kind::Enter, site, None, None);
        if self.inside > self.settings.cluster.permits {
            return Err(Violation::TooManyInside {
                inside: self.inside,
                permits: self.settings.cluster.permits,
            });
        }
        let line = if is_numbered(self.info, self.settings.cluster.permits) {
            slot.0 as usize
        } else {
            site.index()
        };
        if self.fences[line].replace(fence).is_some_and(|last| last >= fence) {
            return Err(Violation::FenceFellBack { site });
        }
        let stay = self.draw.from(&self.settings.inside);
        self.queue.push(self.now + stay, Event::Exit(site, life));
        Ok(())
    }

    fn check_tokens(&self) -> Result<(), Violation> {
        let expected = match self.info.tokens {
            Tokens::None => 0,
            Tokens::One => 1,
            Tokens::PerPermit => self.settings.cluster.permits,
        };
        // A token can be lost with a failed site or network; none may appear from nowhere.
        let fewer_is_wrong = self.settings.faults.loses_nothing();
        if self.tokens > expected || (fewer_is_wrong && self.tokens < expected) {
            return Err(Violation::Tokens { found: self.tokens, expected });
        }
        Ok(())
    }

    /// Notes what the next step of `site` comes from.
    fn cause(&mut self, kind: Kind, site: SiteId, peer: Option<SiteId>, message: Option<&A::Message>) {
        self.history.push(self.now, kind, site, peer, message.map(Message::kind));
        if T::ON {
            self.causes.push((kind, peer, message.cloned()));
        }
    }

    fn tell_causes(&mut self, site: SiteId) {
        if T::ON {
            for (kind, peer, message) in self.causes.drain(..) {
                let (time, state, message) = (self.now, &self.sites[site.index()], message.as_ref());
                self.trace.line(Line { time, kind, site, peer, message, state });
            }
        }
    }

    /// Notes what happens by itself or as the effect of a step.
    fn note(&mut self, kind: Kind, site: SiteId, peer: Option<SiteId>, message: Option<&A::Message>) {
        self.history.push(self.now, kind, site, peer, message.map(Message::kind));
        if T::ON {
            let (time, state) = (self.now, &self.sites[site.index()]);
            self.trace.line(Line { time, kind, site, peer, message, state });
        }
    }

    fn stopped(&self, violation: Violation) -> Stopped {
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

/// Whether fences must increase slot by slot; with K permits that are not numbered they do site by site.
fn is_numbered(info: &Info, permits: usize) -> bool {
    permits == 1 || info.tokens == Tokens::PerPermit
}
