//! The event loop: virtual time goes from event to event, and after each one what must hold is checked.
//!
//! Always checked: never more than K inside, fences increase, tokens are conserved, nobody enters without a request, and once
//! the load ends everyone who waits is served. A violation ends the run with its seed, its time and the last events.
//!
//! Only the untraced loop is compiled for each algorithm, because its speed was measured to matter. What does not depend on
//! the algorithm's type is in `core`; a traced run is one of [`AnySite`].

mod core;
mod faults;
mod links;
mod observer;

use meshlock_protocol::registry::values::Values;
use meshlock_protocol::registry::{AnySite, Visitor, plan};
use meshlock_protocol::{Algorithm, Effect, Holders, Message, Outbox, PlanError, SiteId, Slot, Spec};

use crate::queue::EventQueue;
use crate::report::{self, Report};
use crate::settings::Settings;
use crate::time::Time;
use crate::trace::{Trace, TraceKind};
use crate::violation::{RunViolation, Stopped};

use self::core::{Core, Header, HostEvent, Schedule};
use links::HeldMessages;
use observer::{RunObserver, Traced, Untraced};

/// A message with what the host adds.
#[derive(Clone, Debug)]
struct Envelope<M> {
    message: M,
    header: Header,
}

/// What happens at some time.
#[derive(Clone, Debug)]
enum Event<M> {
    /// A message reaches the site, which has yet to process it.
    Arrive { from: SiteId, to: SiteId, packet: Envelope<M> },
    /// A message is processed.
    Deliver { from: SiteId, to: SiteId, packet: Envelope<M> },
    /// Something that no message causes.
    Host(HostEvent),
}

impl<M> Schedule for EventQueue<Event<M>> {
    fn at(&mut self, time: Time, event: HostEvent) {
        self.push(time, Event::Host(event));
    }
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
            simulate::<A>(self.0, &spec.values, Untraced(self.1))
        }
    }

    spec.visit(MeasureRun(settings, progress))
}

/// Runs the algorithm that `spec` names under `settings`, and tells `trace` what happens.
pub fn traced(spec: &Spec, settings: &Settings, trace: &mut dyn Trace) -> Result<Report, Stopped> {
    simulate::<AnySite>(settings, &spec.values, Traced::new(trace))
}

fn simulate<A: Algorithm>(
    settings: &Settings,
    values: &Values,
    observer: impl RunObserver<A>,
) -> Result<Report, Stopped> {
    faults::can_handle(values.info(), &settings.faults)?;
    let mut run = Simulation::<A, _>::new(settings, values, observer).map_err(Stopped::Plan)?;
    run.run().map_err(|violation| run.core.stopped(violation))?;
    Ok(report::of(values.info(), settings, &run.core.metrics, run.core.events))
}

struct Simulation<'a, A: Algorithm, W> {
    core: Core<'a>,
    sites: Vec<A>,
    queue: EventQueue<Event<A::Message>>,
    out: Outbox<A::Message>,
    held: HeldMessages<A::Message>,
    observer: W,
}

impl<'a, A: Algorithm, W: RunObserver<A>> Simulation<'a, A, W> {
    fn new(settings: &'a Settings, values: &Values, observer: W) -> Result<Self, PlanError> {
        let plan = plan::<A>(settings.cluster, values)?;
        let mut core = Core::new(settings, values.info());
        let sites = SiteId::all(settings.cluster.sites);
        let sites: Vec<A> = sites.map(|me| A::start(&plan, me, &Holders::none())).collect();
        core.tokens = sites.iter().map(A::tokens).sum();
        let (queue, out, held) = (EventQueue::default(), Outbox::new(), HeldMessages::default());
        Ok(Simulation { core, sites, queue, out, held, observer })
    }

    fn run(&mut self) -> Result<(), RunViolation> {
        self.core.schedule_first(&mut self.queue);
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
    fn next_event(&mut self) -> Result<(), RunViolation> {
        let Some((time, event)) = self.queue.pop() else { return Err(RunViolation::NothingLeft) };
        self.core.advance(time)?;
        match event {
            Event::Arrive { from, to, packet } => {
                let at = self.core.processed_at(to);
                self.queue.push(at, Event::Deliver { from, to, packet });
                Ok(())
            }
            Event::Deliver { from, to, packet } => self.deliver(from, to, packet),
            Event::Host(event) => self.on_host_event(event),
        }
    }

    fn on_host_event(&mut self, event: HostEvent) -> Result<(), RunViolation> {
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
                self.core.draw_cut(&mut self.queue);
                Ok(())
            }
        }
    }

    fn request(&mut self, site: SiteId, incarnation: u32) -> Result<(), RunViolation> {
        if !self.core.open || !self.core.is_current(site, incarnation) {
            return Ok(());
        }
        self.core.start_waiting(site, self.core.now);
        self.cause(TraceKind::Request, site, None, None);
        self.step(site, |machine, out| machine.request(out))
    }

    fn deliver(
        &mut self,
        from: SiteId,
        to: SiteId,
        packet: Envelope<A::Message>,
    ) -> Result<(), RunViolation> {
        self.core.tokens -= packet.message.tokens();
        if !self.core.accept(from, to, packet.header) {
            // Lost with the site or with the network, and its tokens with it.
            return Ok(());
        }
        self.cause(TraceKind::Receive, to, Some(from), Some(&packet.message));
        self.step(to, |machine, out| machine.receive(from, packet.message, out))
    }

    fn exit(&mut self, site: SiteId, incarnation: u32) -> Result<(), RunViolation> {
        if !self.core.is_current(site, incarnation) {
            return Ok(());
        }
        self.core.leave(site);
        self.cause(TraceKind::Release, site, None, None);
        if let Some(arrived) = self.core.next_request(site) {
            self.core.start_waiting(site, arrived);
            self.cause(TraceKind::Request, site, None, None);
            return self.step(site, |machine, out| machine.release_and_request(out));
        }
        self.step(site, |machine, out| machine.release(out))?;
        self.core.request_on_arrival(site, &mut self.queue);
        Ok(())
    }

    fn wake(&mut self, site: SiteId, incarnation: u32) -> Result<(), RunViolation> {
        if !self.core.is_current(site, incarnation) {
            return Ok(());
        }
        self.step(site, |machine, out| machine.wake(out))
    }

    /// Makes one call of a site and does what it asks for.
    fn step(
        &mut self,
        site: SiteId,
        call: impl FnOnce(&mut A, &mut Outbox<A::Message>),
    ) -> Result<(), RunViolation> {
        let machine = &mut self.sites[site.index()];
        if self.core.has_tokens {
            self.core.tokens -= machine.tokens();
        }
        call(machine, &mut self.out);
        self.finish_step(site)
    }

    /// Does what the site has asked for in the call that it has just made.
    fn finish_step(&mut self, site: SiteId) -> Result<(), RunViolation> {
        let machine = &self.sites[site.index()];
        if self.core.has_tokens {
            self.core.tokens += machine.tokens();
        }
        self.observer.on_step(self.core.now, site, machine);
        let mut out = std::mem::take(&mut self.out);
        let mut result = Ok(());
        for effect in out.drain() {
            let done = self.perform(site, effect);
            result = result.and(done);
        }
        self.out = out;
        result.and_then(|()| self.core.check_tokens())
    }

    fn perform(&mut self, site: SiteId, effect: Effect<A::Message>) -> Result<(), RunViolation> {
        match effect {
            Effect::Send { to, message } => {
                self.send(site, to, message);
                Ok(())
            }
            Effect::Enter { slot } => self.enter(site, slot),
            Effect::Timer { delays } => {
                self.core.set_timer(site, delays, &mut self.queue);
                Ok(())
            }
            Effect::Misbehaved { peer, why } => Err(RunViolation::Refused { site, peer, why }),
        }
    }

    fn send(&mut self, from: SiteId, to: SiteId, message: A::Message) {
        self.core.metrics.sent(from, message.kind(), message.words());
        self.note(TraceKind::Send, from, Some(to), Some(&message));
        let Some(header) = self.core.header(from, to) else { return };
        self.core.tokens += message.tokens();
        let packet = Envelope { message, header };
        if self.core.is_cut(from, to) {
            self.held.push(from, to, packet);
        } else {
            self.transmit(from, to, packet);
        }
    }

    fn transmit(&mut self, from: SiteId, to: SiteId, packet: Envelope<A::Message>) {
        let (arrival, is_charged) = self.core.arrival(from, to);
        let event =
            if is_charged { Event::Arrive { from, to, packet } } else { Event::Deliver { from, to, packet } };
        self.queue.push(arrival, event);
    }

    fn enter(&mut self, site: SiteId, slot: Slot) -> Result<(), RunViolation> {
        let fence = self.core.enter(site)?;
        if self.core.open {
            self.observer.on_entry(self.core.metrics.now.entries);
        }
        self.note(TraceKind::Enter, site, None, None);
        self.core.check_entry(site, slot, fence)?;
        self.core.schedule_exit(site, &mut self.queue);
        Ok(())
    }

    /// Notes what causes the next step of `site`. A trace shows it with the state after the step.
    fn cause(&mut self, kind: TraceKind, site: SiteId, peer: Option<SiteId>, message: Option<&A::Message>) {
        self.core.remember(kind, site, peer, message.map(Message::kind));
        self.observer.on_cause(kind, peer, message);
    }

    /// Notes what happens by itself or as the effect of a step.
    fn note(&mut self, kind: TraceKind, site: SiteId, peer: Option<SiteId>, message: Option<&A::Message>) {
        self.core.remember(kind, site, peer, message.map(Message::kind));
        self.observer.on_event(self.core.now, kind, site, peer, message, &self.sites[site.index()]);
    }
}
