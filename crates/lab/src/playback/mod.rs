//! Playback: a [`World`] in which things happen by themselves, in virtual time, until a person acts.
//!
//! The world checks every property after each step; playback only decides what happens next. The same setup always
//! gives the same steps, so that a run is its setup and its acts, and the past is played again rather than stored.

mod acts;
mod agenda;
mod bypass;
mod line;

pub(crate) use acts::ActError;
pub(crate) use bypass::Bypassed;
pub(crate) use line::{LineKind, PlaybackLine};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use meshlock_protocol::world::{Violation, World};
use meshlock_protocol::{Algorithm, Chooser, Effect, Phase, SiteId, Spec};
use meshlock_sim::draw::Draw;
use meshlock_sim::faults::Link;
use meshlock_sim::network::{Delay, Network};
use meshlock_sim::trace::TraceKind;
use meshlock_sim::{Settings, Time};

use crate::setup::{LoadPattern, RunSetup, SetupError};
use agenda::{Agenda, Due, EventKey};

/// The time from a failure or a recovery until the others know of it.
const DETECTION: f64 = 1.0;

/// A message in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingMessage {
    pub(crate) number: usize,
    /// The key of its arrival in the agenda.
    key: EventKey,
}

impl PendingMessage {
    /// When it arrives, if its link is not cut.
    pub(crate) fn due(&self) -> Time {
        self.key.0
    }
}

/// State of the host of one site in a run.
#[derive(Clone, Debug)]
struct PlaybackSite {
    /// Draws the times of its requests. Each site has its own generator, so that an act elsewhere does not change them.
    draw: Draw,
    /// The number of requests that have arrived while the process was busy (open load).
    backlog: u32,
    /// The number of all entries when the waiting request was made.
    asked_at: usize,
    /// The number of all entries at the first moment of its wait at which no message of its own was in flight.
    heard_at: Option<usize>,
    /// The key in the agenda of the exit of the process that is inside.
    exit: Option<EventKey>,
}

/// The messages in flight by pair of sites, in their order.
type MessagesInFlight = BTreeMap<(SiteId, SiteId), Vec<PendingMessage>>;

/// A run at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Playback<A: Algorithm> {
    setup: Arc<RunSetup>,
    world: World<A>,
    now: Time,
    steps: usize,
    agenda: Agenda,
    channels: MessagesInFlight,
    sent: usize,
    hosts: Vec<PlaybackSite>,
    network: Network,
    draw: Draw,
    cut: BTreeSet<Link>,
    /// The number of messages that a person has dropped.
    dropped: usize,
    /// Whether a person has made a site fail, has split the network, or has dropped or doubled a message.
    has_faults: bool,
    /// The first wait in which others entered more often than is claimed.
    bypassed: Option<Bypassed>,
    /// The step of each of the world's violations.
    violated_at: Vec<usize>,
    lines: Vec<PlaybackLine<A::Message>>,
}

impl<A: Algorithm> Playback<A> {
    /// Starts a run.
    pub(crate) fn new(setup: &Arc<RunSetup>, spec: &Spec) -> Result<Self, SetupError> {
        let sites = setup.cluster.sites;
        let world = World::<A>::new(setup.cluster, &spec.values, &setup.holders()?)?;
        let world = world.tolerant().choosing(Chooser::seeded(setup.seed));
        let delay = Delay::Same(setup.delays.distribution());
        // Seeds that differ from the network's and from each other.
        let own = |site: usize| setup.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(site as u64 + 1);
        let host = |site| PlaybackSite {
            draw: Draw::new(own(site)),
            backlog: 0,
            asked_at: 0,
            heard_at: None,
            exit: None,
        };
        let mut playback = Playback {
            setup: Arc::clone(setup),
            world,
            now: Time::ZERO,
            steps: 0,
            agenda: Agenda::default(),
            channels: MessagesInFlight::new(),
            sent: 0,
            hosts: (0..sites).map(host).collect(),
            network: Network::new(&Settings { delay, fifo: setup.fifo, ..Settings::new(setup.cluster) }),
            draw: Draw::new(setup.seed),
            cut: BTreeSet::new(),
            dropped: 0,
            has_faults: false,
            bypassed: None,
            violated_at: Vec::new(),
            lines: Vec::new(),
        };
        for site in SiteId::all(sites) {
            if playback.world.inside().contains(site) {
                playback.plan_exit(site);
            } else {
                playback.plan_request(site);
            }
        }
        playback.note_violation();
        Ok(playback)
    }

    /// The sites and the network.
    pub(crate) fn world(&self) -> &World<A> {
        &self.world
    }

    /// The number of steps that have been taken.
    pub(crate) fn steps(&self) -> usize {
        self.steps
    }

    /// The time of the last step.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// The messages in flight, channel by channel, oldest first.
    pub(crate) fn channels(&self) -> impl Iterator<Item = ((SiteId, SiteId), &[PendingMessage])> {
        self.channels.iter().map(|(&ends, pending)| (ends, pending.as_slice()))
    }

    /// The links that are cut.
    pub(crate) fn cut(&self) -> impl Iterator<Item = Link> {
        self.cut.iter().copied()
    }

    /// The number of messages that a person has dropped.
    pub(crate) fn dropped(&self) -> usize {
        self.dropped
    }

    /// The violations that the world has found, the first of each kind, with their steps.
    pub(crate) fn violations(&self) -> impl Iterator<Item = (&Violation, usize)> {
        self.world.violations().iter().zip(self.violated_at.iter().copied())
    }

    /// Whether a site waits, nobody is inside, and nothing is due that could change it: no message, timer or news.
    pub(crate) fn is_stuck(&self) -> bool {
        let news = |due| matches!(due, Due::Wake(_) | Due::Tell { .. } | Due::Arrive { .. });
        SiteId::all(self.hosts.len()).any(|site| self.world.is_waiting(site))
            && self.world.inside().is_empty()
            && self.agenda.find(news).is_none()
    }

    /// Takes the lines of the last steps.
    pub(crate) fn take_lines(&mut self) -> Vec<PlaybackLine<A::Message>> {
        std::mem::take(&mut self.lines)
    }

    /// Takes the next step: the act of a person at this step, or else the event that is due. Returns whether there was
    /// one.
    pub(crate) fn advance(&mut self) -> Result<bool, ActError> {
        let setup = Arc::clone(&self.setup);
        if let Some(act) = setup.acts.at(self.steps) {
            if setup.load == LoadPattern::ByHand {
                self.now += Time::units(1.0);
            }
            self.act_choosing(act)?;
        } else {
            let Some((key, due)) = self.agenda.find(|due| self.can_happen(due)) else { return Ok(false) };
            self.agenda.remove(key);
            self.now = self.now.max(key.0);
            self.happen(due);
        }
        self.note_violation();
        self.note_waits();
        self.steps += 1;
        Ok(true)
    }

    fn note_violation(&mut self) {
        self.violated_at.resize(self.world.violations().len(), self.steps);
    }

    fn can_happen(&self, due: Due) -> bool {
        match due {
            Due::Ask(_) | Due::Exit(_) | Due::Wake(_) => true,
            Due::Arrive { from, to, .. } => {
                Link::between(from, to).is_none_or(|link| !self.cut.contains(&link))
            }
            Due::Tell { to, about } => self.world.can_tell(to, about),
        }
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Ask(site) => self.ask(site),
            Due::Exit(site) => self.exit(site),
            Due::Arrive { from, to, number } => {
                let nth = self.channels[&(from, to)].iter().position(|pending| pending.number == number);
                self.arrive(from, to, nth.expect("what is due to arrive is on its way"));
            }
            Due::Wake(site) => self.wake(site),
            Due::Tell { to, about } => self.tell(to, about),
        }
    }

    /// The process of `site` requests by itself.
    fn ask(&mut self, site: SiteId) {
        if self.setup.load == LoadPattern::Open {
            self.plan_request(site);
        }
        if self.may_request(site) {
            self.request(site);
        } else {
            self.hosts[site.index()].backlog += u32::from(self.setup.load == LoadPattern::Open);
        }
    }

    /// Whether host and site agree that the process is idle. After a violation they may not.
    fn may_request(&self, site: SiteId) -> bool {
        self.world.is_idle(site) && self.world.site(site).phase() == Phase::Idle
    }

    /// Whether host and site agree that the process is inside.
    fn may_release(&self, site: SiteId) -> bool {
        self.world.inside().contains(site) && self.world.site(site).phase() == Phase::Executing
    }

    fn request(&mut self, site: SiteId) {
        self.begin_wait(site);
        self.note(LineKind::Traced(TraceKind::Request), site, None);
        let effects = self.world.request(site);
        self.perform(site, effects);
    }

    /// The process of `site` leaves by itself, and requests again at once if the load says so.
    fn exit(&mut self, site: SiteId) {
        if !self.may_release(site) {
            return;
        }
        let host = &mut self.hosts[site.index()];
        match self.setup.load {
            LoadPattern::Saturated => self.release_and_request(site),
            LoadPattern::Open if host.backlog > 0 => {
                host.backlog -= 1;
                self.release_and_request(site);
            }
            LoadPattern::ByHand | LoadPattern::Once | LoadPattern::Open | LoadPattern::Closed => {
                self.release(site);
            }
        }
    }

    fn release(&mut self, site: SiteId) {
        self.unplan_exit(site);
        self.note(LineKind::Traced(TraceKind::Release), site, None);
        let effects = self.world.release(site);
        self.perform(site, effects);
        if self.setup.load == LoadPattern::Closed {
            self.plan_request(site);
        }
    }

    fn release_and_request(&mut self, site: SiteId) {
        self.unplan_exit(site);
        self.begin_wait(site);
        self.note(LineKind::Traced(TraceKind::Release), site, None);
        self.note(LineKind::Traced(TraceKind::Request), site, None);
        let effects = self.world.release_and_request(site);
        self.perform(site, effects);
    }

    /// Delivers the message with `nth` older ones before it; at a failed site it is lost.
    fn arrive(&mut self, from: SiteId, to: SiteId, nth: usize) {
        let up = self.world.is_up(to);
        self.note_message(
            if up { LineKind::Traced(TraceKind::Receive) } else { LineKind::Lost },
            from,
            to,
            nth,
        );
        self.forget(from, to, nth);
        let effects = self.world.deliver_nth(from, to, nth);
        self.perform(to, effects);
    }

    /// Removes a message from those in flight.
    fn forget(&mut self, from: SiteId, to: SiteId, nth: usize) {
        if let Some(channel) = self.channels.get_mut(&(from, to)) {
            self.agenda.remove(channel.remove(nth).key);
            if channel.is_empty() {
                self.channels.remove(&(from, to));
            }
        }
    }

    fn wake(&mut self, site: SiteId) {
        self.note(LineKind::Wake, site, None);
        let effects = self.world.wake(site);
        self.perform(site, effects);
    }

    fn tell(&mut self, to: SiteId, about: SiteId) {
        self.agenda.retain(|due| due != Due::Tell { to, about });
        self.note(LineKind::Learn, to, Some(about));
        let effects = self.world.tell(to, about);
        self.perform(to, effects);
    }

    /// Adds the consequences of effects that the world has performed to the agenda, and writes their lines.
    fn perform(&mut self, site: SiteId, effects: Vec<Effect<A::Message>>) {
        for effect in effects {
            match effect {
                Effect::Send { to, message } => self.send(site, to, message),
                Effect::Enter { .. } => {
                    self.note(LineKind::Traced(TraceKind::Enter), site, None);
                    self.plan_exit(site);
                }
                Effect::Timer { delays } => {
                    let pause = Time::units(f64::from(delays));
                    self.agenda.plan(self.now + pause, Due::Wake(site));
                }
                Effect::Chose { taken, of } => {
                    let mut line = self.line(LineKind::Traced(TraceKind::Choose), site, None);
                    line.choice = Some((taken, of));
                    self.lines.push(line);
                }
                // A playback asks for no mode.
                Effect::Upgraded | Effect::Misbehaved { .. } => {}
            }
        }
    }

    fn send(&mut self, from: SiteId, to: SiteId, message: A::Message) {
        let number = self.sent;
        self.sent += 1;
        let lost = self.world.is_cut(from, to);
        let mut line = self.line(LineKind::Traced(TraceKind::Send), from, Some(to));
        line.message = Some((number, message.clone()));
        self.lines.push(line);
        if lost {
            let mut line = self.line(LineKind::Lost, to, Some(from));
            line.message = Some((number, message));
            self.lines.push(line);
            return;
        }
        let due = self.network.arrival(self.now, from, to, &mut self.draw);
        let key = self.agenda.plan(due, Due::Arrive { from, to, number });
        self.channels.entry((from, to)).or_default().push(PendingMessage { number, key });
    }

    fn plan_exit(&mut self, site: SiteId) {
        if let Some(stay) = self.setup.stay {
            let key = self.agenda.plan(self.now + Time::units(stay), Due::Exit(site));
            self.hosts[site.index()].exit = Some(key);
        }
    }

    fn unplan_exit(&mut self, site: SiteId) {
        if let Some(key) = self.hosts[site.index()].exit.take() {
            self.agenda.remove(key);
        }
    }

    /// Schedules the next request of `site` according to the load.
    fn plan_request(&mut self, site: SiteId) {
        let draw = &mut self.hosts[site.index()].draw;
        let pause = match self.setup.load {
            LoadPattern::ByHand => return,
            LoadPattern::Once => draw.fraction() * 2.0,
            LoadPattern::Open | LoadPattern::Closed => draw.exponential(1.0 / self.setup.rate),
            LoadPattern::Saturated => 0.0,
        };
        self.agenda.plan(self.now + Time::units(pause), Due::Ask(site));
    }

    fn line(&self, what: LineKind, site: SiteId, peer: Option<SiteId>) -> PlaybackLine<A::Message> {
        PlaybackLine { step: self.steps, time: self.now, what, site, peer, message: None, choice: None }
    }

    fn note(&mut self, what: LineKind, site: SiteId, peer: Option<SiteId>) {
        let line = self.line(what, site, peer);
        self.lines.push(line);
    }

    /// Writes a line about a message in flight, from the receiver's point of view.
    fn note_message(&mut self, what: LineKind, from: SiteId, to: SiteId, nth: usize) {
        let number = self.channels.get(&(from, to)).and_then(|channel| channel.get(nth));
        let message = self.world.packets(from, to).nth(nth).map(|packet| packet.message.clone());
        let mut line = self.line(what, to, Some(from));
        line.message = number.map(|pending| pending.number).zip(message);
        self.lines.push(line);
    }
}
