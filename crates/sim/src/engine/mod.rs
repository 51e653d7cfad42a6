//! The event loop: virtual time goes from event to event, and after each one what must hold is checked.
//!
//! Always checked: never more than K inside, or in a run with readers no writer beside anybody, fences increase, tokens are conserved, nobody enters without a request, and once
//! the load ends everyone who waits is served. A violation ends the run with its seed, its time and the last events.
//!
//! Only the untraced loop is compiled for each algorithm, because its speed was measured to matter. What does not depend on
//! the algorithm's type is in `core`; a traced run is one of [`AnySite`].

mod agenda;
mod copies;
mod core;
mod faults;
mod inbox;
mod links;
mod observer;
mod sharing;

use meshlock_protocol::registry::values::Values;
use meshlock_protocol::registry::{AnySite, Visitor, check_demand, plan};
use meshlock_protocol::{
    Algorithm, Chooser, Demand, Effect, Holders, Message, Mode, Outbox, PlanError, SiteId, Slot, Spec,
};

use crate::queue::time_of;
use crate::report::{self, Report};
use crate::settings::Settings;
use crate::trace::{Trace, TraceKind};
use crate::violation::{RunViolation, Stopped};

use self::core::{Core, Header, HostEvent};
use agenda::{Agenda, Event};
use inbox::Inboxes;
use links::HeldMessages;
use observer::{RunObserver, Traced, Untraced};

/// A message with what the host adds.
#[derive(Clone, Debug)]
struct Envelope<M> {
    message: M,
    header: Header,
}

/// The size of one event of a run of `A` in the event queue, in bytes.
pub const fn event_bytes<A: Algorithm>() -> usize {
    size_of::<Event<A::Message>>()
}

/// Runs the algorithm that `spec` names under `settings`.
pub fn measure(spec: &Spec, settings: &Settings) -> Result<Report, Stopped> {
    measure_with(spec, settings, &mut |_| {})
}

/// Runs the algorithm that `spec` names under `settings`, and calls `progress` with the number of entries after each one.
///
/// Not generic, so that the simulator is compiled here, once for each algorithm.
pub fn measure_with(
    spec: &Spec,
    settings: &Settings,
    progress: &mut dyn FnMut(u64),
) -> Result<Report, Stopped> {
    struct MeasureRun<'a>(&'a Settings, &'a mut dyn FnMut(u64));

    impl Visitor for MeasureRun<'_> {
        type Output = Result<Report, Stopped>;

        fn visit<A: Algorithm>(self, spec: &Spec) -> Self::Output {
            simulate::<A>(self.0, &spec.values, Untraced::new(self.1))
        }
    }

    spec.visit(MeasureRun(settings, progress))
}

/// Runs the algorithm that `spec` names under `settings`, and tells `trace` what happens.
pub fn traced(spec: &Spec, settings: &Settings, trace: &mut dyn Trace) -> Result<Report, Stopped> {
    simulate::<AnySite>(settings, &spec.values, Traced::new(trace))
}

/// The result of a part of a run. A violation is boxed, because a result is passed on at every event.
type Checked<T = ()> = Result<T, Box<RunViolation>>;

fn simulate<A: Algorithm>(
    settings: &Settings,
    values: &Values,
    observer: impl RunObserver<A>,
) -> Result<Report, Stopped> {
    faults::can_handle(values.info(), &settings.faults)?;
    let mut run = Simulation::<A, _>::new(settings, values, observer).map_err(Stopped::Plan)?;
    let Err(violation) = run.run() else {
        let counters: Vec<_> = run.core.hosts.iter().map(|host| host.counters).collect();
        return Ok(report::of(values.info(), settings, &run.core.metrics, &counters, run.core.events));
    };
    // The same run once more, for its last events: to note them in every run would cost more than all checks.
    let mut observer = run.into_observer();
    observer.mute();
    let mut again = Simulation::<A, _>::new(settings, values, observer).map_err(Stopped::Plan)?;
    again.core.notes_history = true;
    assert!(again.run().as_ref() == Err(&violation), "the same seed gives the same run");
    Err(again.core.stopped(*violation))
}

struct Simulation<'a, A: Algorithm, W> {
    core: Core<'a>,
    sites: Vec<A>,
    agenda: Agenda<A::Message>,
    /// Whether what the step under way sends next may be a copy of what it has sent last.
    may_copy: bool,
    out: Outbox<A::Message>,
    held: HeldMessages<A::Message>,
    inboxes: Inboxes<A::Message>,
    observer: W,
}

impl<'a, A: Algorithm, W: RunObserver<A>> Simulation<'a, A, W> {
    fn new(settings: &'a Settings, values: &Values, observer: W) -> Result<Self, PlanError> {
        let plan = plan::<A>(settings.cluster, values)?;
        if settings.readers > 0.0 {
            check_demand(settings.cluster, values, Demand::of(Mode::Shared))?;
        }
        let mut core = Core::new(settings, values.info());
        let sites = SiteId::all(settings.cluster.sites);
        let sites: Vec<A> = sites.map(|me| A::start(&plan, me, &Holders::none())).collect();
        core.add_tokens(|| sites.iter().map(A::tokens).sum());
        // A stream of its own, so that what is chosen changes no other draw.
        let out = Outbox::choosing(Chooser::seeded(!settings.seed));
        let (agenda, held) = (Agenda::default(), HeldMessages::default());
        let inboxes = Inboxes::of(if core.may_queue() { settings.cluster.sites } else { 0 });
        Ok(Simulation { core, sites, agenda, may_copy: false, out, held, inboxes, observer })
    }

    fn into_observer(self) -> W {
        self.observer
    }

    fn run(&mut self) -> Checked {
        self.core.schedule_first(&mut self.agenda);
        while self.core.has_entries_left() {
            self.next_event()?;
        }
        // The load ends; everyone who waits must still be served.
        self.core.open = false;
        while self.core.is_anyone_inside() || self.does_anyone_wait() {
            self.next_event()?;
        }
        Ok(())
    }

    /// Takes the next event. If there is none while entries are due, everyone waits for ever.
    fn next_event(&mut self) -> Checked {
        let Agenda { messages, exits, others } = &self.agenda;
        let (message, exit, other) = (messages.first(), exits.first(), others.first());
        if message < exit.min(other) {
            self.deliver_first()
        } else if exit < other {
            self.core.advance(time_of(exit))?;
            let (site, incarnation) = self.agenda.exits.pop().expect("an exit is due");
            self.exit(site, incarnation)
        } else {
            self.next_other()
        }
    }

    /// Takes the next event that waits in no lane.
    fn next_other(&mut self) -> Checked {
        let Some((time, event)) = self.agenda.others.pop() else {
            return Err(RunViolation::NothingLeft.into());
        };
        self.core.advance(time)?;
        match event {
            Event::Arrive { from, to, packet } => {
                self.arrive(from, to, packet);
                Ok(())
            }
            Event::Receive { at } => self.receive_first(at),
            Event::Deliver { from, to, packet } => self.deliver(from, to, packet),
            Event::Host(event) => self.on_host_event(event),
        }
    }

    fn on_host_event(&mut self, event: HostEvent) -> Checked {
        match event {
            HostEvent::Request(site, incarnation) => self.request(site, incarnation),
            HostEvent::Exit(site, incarnation) => self.exit(site, incarnation),
            HostEvent::Wake(site, incarnation) => self.wake(site, incarnation),
            HostEvent::Fault(fault) => self.fault(fault),
            HostEvent::Repair(fault) => {
                self.core.faults.repairs -= 1;
                self.fault(fault)
            }
            HostEvent::Tell { to, about, up } => self.tell(to, about, up),
            HostEvent::DrawFault => self.draw_fault(),
            HostEvent::DrawSplit => self.draw_split(),
            HostEvent::DrawCut => {
                self.core.draw_cut(&mut self.agenda);
                Ok(())
            }
        }
    }

    fn request(&mut self, site: SiteId, incarnation: u32) -> Checked {
        if !self.core.open || !self.core.is_current(site, incarnation) {
            return Ok(());
        }
        self.core.start_waiting(site, self.core.now);
        self.cause(TraceKind::Request, site, None, None);
        let demand = self.core.next_demand(site);
        self.requesting_step(site, |machine, out| machine.request_as(demand, out))
    }

    fn deliver(&mut self, from: SiteId, to: SiteId, packet: Envelope<A::Message>) -> Checked {
        self.core.remove_tokens(|| packet.message.tokens());
        if !self.core.accept(from, to, packet.header) {
            // Lost with the site or with the network, and its tokens with it.
            return Ok(());
        }
        self.cause(TraceKind::Receive, to, Some(from), Some(&packet.message));
        self.step(to, |machine, out| machine.receive(from, packet.message, out))
    }

    fn exit(&mut self, site: SiteId, incarnation: u32) -> Checked {
        if !self.core.is_current(site, incarnation) {
            return Ok(());
        }
        self.core.leave(site);
        self.cause(TraceKind::Release, site, None, None);
        if let Some(arrived) = self.core.next_request(site) {
            self.core.start_waiting(site, arrived);
            self.cause(TraceKind::Request, site, None, None);
            let demand = self.core.next_demand(site);
            return self.requesting_step(site, |machine, out| machine.release_and_request_as(demand, out));
        }
        self.step(site, |machine, out| machine.release(out))?;
        self.core.request_on_arrival(site, &mut self.agenda);
        Ok(())
    }

    fn wake(&mut self, site: SiteId, incarnation: u32) -> Checked {
        if !self.core.is_current(site, incarnation) {
            return Ok(());
        }
        self.step(site, |machine, out| machine.wake(out))
    }

    /// Makes one call of a site and does what it asks for.
    fn step(&mut self, site: SiteId, call: impl FnOnce(&mut A, &mut Outbox<A::Message>)) -> Checked {
        let machine = &mut self.sites[site.index()];
        self.core.remove_tokens(|| machine.tokens());
        call(machine, &mut self.out);
        self.finish_step(site)
    }

    /// Makes a call in which the site requests, and notes the request's place in the order before anything comes of it.
    fn requesting_step(
        &mut self,
        site: SiteId,
        call: impl FnOnce(&mut A, &mut Outbox<A::Message>),
    ) -> Checked {
        let machine = &mut self.sites[site.index()];
        self.core.remove_tokens(|| machine.tokens());
        call(machine, &mut self.out);
        self.core.order_request(site, machine.timestamp());
        self.finish_step(site)
    }

    /// Does what the site has asked for in the call that it has just made.
    #[inline]
    fn finish_step(&mut self, site: SiteId) -> Checked {
        let machine = &self.sites[site.index()];
        self.core.add_tokens(|| machine.tokens());
        self.observer.on_step(self.core.now, site, machine);
        if !self.out.effects().is_empty() {
            self.perform_all(site)?;
        }
        self.core.check_tokens()
    }

    fn perform_all(&mut self, site: SiteId) -> Checked {
        let mut out = std::mem::take(&mut self.out);
        let mut result = Ok(());
        self.may_copy = false;
        for effect in out.drain() {
            match effect {
                Effect::Send { to, message } => self.send(site, to, message),
                other @ (Effect::Enter { .. }
                | Effect::Upgraded
                | Effect::Timer { .. }
                | Effect::Chose { .. }
                | Effect::Misbehaved { .. }) => {
                    self.may_copy = false;
                    result = result.and(self.perform(site, other));
                }
            }
        }
        self.out = out;
        result
    }

    fn perform(&mut self, site: SiteId, effect: Effect<A::Message>) -> Checked {
        match effect {
            Effect::Send { to, message } => {
                self.send(site, to, message);
                Ok(())
            }
            Effect::Enter { slot } => self.enter(site, slot),
            // No process of a simulation asks for it.
            Effect::Upgraded => Err(RunViolation::UpgradedUnasked { site }.into()),
            Effect::Timer { delays } => {
                self.core.set_timer(site, delays, &mut self.agenda);
                Ok(())
            }
            Effect::Chose { taken, of } => {
                self.observer.on_choice(self.core.now, site, (taken, of), &self.sites[site.index()]);
                Ok(())
            }
            Effect::Misbehaved { peer, why } => Err(RunViolation::Refused { site, peer, why }.into()),
        }
    }

    #[inline]
    fn send(&mut self, from: SiteId, to: SiteId, message: A::Message) {
        if self.send_copy(from, to, &message) {
            return;
        }
        self.core.count_sent(from, &message);
        self.note(TraceKind::Send, from, Some(to), Some(&message));
        let Some(header) = self.core.header(from, to) else { return };
        self.core.add_tokens(|| message.tokens());
        let packet = Envelope { message, header };
        if self.core.is_cut(from, to) {
            self.held.push(from, to, packet);
        } else {
            self.transmit(from, to, packet);
        }
    }

    #[expect(
        clippy::inline_always,
        reason = "measured: a message is written where it waits, not copied there"
    )]
    #[inline(always)]
    fn transmit(&mut self, from: SiteId, to: SiteId, packet: Envelope<A::Message>) {
        if let Some(arrival) = self.core.arrival_in_order() {
            return self.transmit_in_order(arrival, from, to, packet);
        }
        let arrival = self.core.arrival(from, to);
        let event = if self.core.may_queue() {
            Event::Arrive { from, to, packet }
        } else {
            Event::Deliver { from, to, packet }
        };
        self.agenda.others.push(arrival, event);
    }

    fn enter(&mut self, site: SiteId, slot: Slot) -> Checked {
        let fence = self.core.enter(site)?;
        if self.core.open {
            self.observer.on_entry(self.core.metrics.now.entries);
        }
        self.note(TraceKind::Enter, site, None, None);
        self.core.check_entry(site, slot, fence)?;
        self.core.schedule_exit(site, &mut self.agenda);
        Ok(())
    }

    /// Notes what causes the next step of `site`. A trace shows it with the state after the step.
    #[inline]
    fn cause(&mut self, kind: TraceKind, site: SiteId, peer: Option<SiteId>, message: Option<&A::Message>) {
        self.core.remember(kind, site, peer, || message.map(Message::kind));
        self.observer.on_cause(kind, peer, message);
    }

    /// Notes what happens by itself or as the effect of a step.
    #[inline]
    fn note(&mut self, kind: TraceKind, site: SiteId, peer: Option<SiteId>, message: Option<&A::Message>) {
        self.core.remember(kind, site, peer, || message.map(Message::kind));
        self.observer.on_event(self.core.now, kind, site, peer, message, &self.sites[site.index()]);
    }
}
