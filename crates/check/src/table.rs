//! The sites' code as a table.
//!
//! A site is a pure machine: the same state and the same input always give the same next state and the same effects. Far fewer
//! local states exist than global ones, so each (local state, input) runs the site's code once, and its outcome is kept.
//! From then on a step of a global state is a lookup. Local states, messages and weathers are numbered as they appear; a
//! global state is a short list of such numbers.

use indexmap::IndexSet;
use meshlock_protocol::registry::info::Tokens;
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::world::Violation;
use meshlock_protocol::{Algorithm, Effect, Info, Message, Outbox, Phase, PlanError, SiteId, Slot};
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use crate::seat::{Facts, Seat};
use crate::state::{Layout, State};
use crate::weather::{Change, Weather};
use crate::{Bounds, Entries};

/// What can happen to one seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Input {
    Request,
    Release,
    Return,
    Wake,
    Fail,
    Restart,
    PeerFailed(SiteId),
    PeerRecovered(SiteId),
    /// The packet of this number arrives.
    Packet(u32),
}

/// A message between two sites.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Packet<M> {
    pub(crate) from: SiteId,
    pub(crate) to: SiteId,
    pub(crate) message: M,
    /// Whether what it carried is gone already, as in the world.
    pub(crate) spent: bool,
}

/// What the search needs of a packet again and again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub(crate) from: SiteId,
    pub(crate) to: SiteId,
    pub(crate) channel: u32,
    pub(crate) tokens: usize,
    pub(crate) spent: bool,
}

/// What one input does to one seat: the number of the seat afterwards, and of what comes of it.
#[derive(Clone, Copy, Debug)]
struct Transition {
    seat: u32,
    outcome: u32,
}

/// What comes of a step beside the new seat. Many steps have the same one, most have nothing at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Outcome {
    /// What is sent, as numbers of packets.
    pub(crate) sends: SmallVec<[u32; 4]>,
    /// The entry, if there is one, and how many of the sends come before it.
    pub(crate) entry: Option<(Slot, u32)>,
    /// What is wrong with the step or the seat afterwards, whatever the others are.
    pub(crate) wrong: Option<Box<Violation>>,
    /// What was refused, which is wrong only as long as nothing has failed.
    pub(crate) refused: Option<Box<Violation>>,
}

/// Everything that was learnt of the sites so far.
pub(crate) struct Table<A: Algorithm> {
    pub(crate) info: &'static Info,
    pub(crate) bounds: Bounds,
    seats: IndexSet<Seat<A>, FxBuildHasher>,
    facts: Vec<Facts>,
    packets: IndexSet<Packet<A::Message>, FxBuildHasher>,
    labels: Vec<Label>,
    weathers: IndexSet<Weather, FxBuildHasher>,
    /// By seat and input.
    steps: FxHashMap<u64, Transition>,
    outcomes: IndexSet<Outcome, FxBuildHasher>,
    changes: FxHashMap<(u32, Change), u32>,
    outbox: Outbox<A::Message>,
    /// By seat: whether the exploration ends there.
    outside: Vec<bool>,
    has_outside: bool,
}

impl<A: Algorithm> Table<A> {
    /// The table with the starting seats, which have the first numbers.
    pub(crate) fn new(bounds: &Bounds, values: &Values) -> Result<Self, PlanError> {
        let plan = meshlock_protocol::registry::plan::<A>(bounds.cluster, values)?;
        let mut table = Table {
            info: values.info(),
            bounds: bounds.clone(),
            seats: IndexSet::default(),
            facts: Vec::new(),
            packets: IndexSet::default(),
            labels: Vec::new(),
            weathers: IndexSet::default(),
            steps: FxHashMap::default(),
            outcomes: IndexSet::default(),
            changes: FxHashMap::default(),
            outbox: Outbox::new(),
            outside: Vec::new(),
            has_outside: false,
        };
        table.weathers.insert(Weather::default());
        table.outcomes.insert(Outcome::default());
        for me in SiteId::all(bounds.cluster.sites) {
            let phase = if bounds.holders.contains(me) { Phase::Executing } else { Phase::Idle };
            let site = A::start(&plan, me, &bounds.holders);
            table.number_seat(Seat { me, site, phase, asked: 0, timers: 0, up: true });
        }
        Ok(table)
    }

    /// Nothing has happened: the starting seats have the first numbers.
    pub(crate) fn first_state(&self, layout: Layout) -> State {
        let seats = 0..number(self.bounds.cluster.sites);
        State { seats: seats.collect(), knows: layout.knows_all(), ..State::default() }
    }

    pub(crate) fn seat(&self, seat: u32) -> &Seat<A> {
        self.seats.get_index(seat as usize).expect("a number that the table gave")
    }

    /// The site with this index as it started.
    pub(crate) fn first_seat(&self, site: usize) -> &A {
        &self.seats[site].site
    }

    pub(crate) fn facts(&self, seat: u32) -> &Facts {
        &self.facts[seat as usize]
    }

    /// Whether the exploration goes on from a state with these seats; costs nothing where it always does.
    pub(crate) fn is_within(&self, seats: &[u32]) -> bool {
        !self.has_outside || seats.iter().all(|&seat| !self.outside[seat as usize])
    }

    pub(crate) fn packet(&self, packet: u32) -> &Packet<A::Message> {
        self.packets.get_index(packet as usize).expect("a number that the table gave")
    }

    pub(crate) fn label(&self, packet: u32) -> &Label {
        &self.labels[packet as usize]
    }

    pub(crate) fn weather(&self, weather: u32) -> &Weather {
        self.weathers.get_index(weather as usize).expect("a number that the table gave")
    }

    /// The seat that `input` makes of `seat` and what comes of it, if that is known.
    pub(crate) fn step(&self, seat: u32, input: Input) -> Option<(u32, Option<&Outcome>)> {
        let Transition { seat, outcome } = *self.steps.get(&self.key(seat, input))?;
        let outcome = (outcome > 0).then(|| &self.outcomes[outcome as usize]);
        Some((seat, outcome))
    }

    pub(crate) fn knows_step(&self, seat: u32, input: Input) -> bool {
        self.steps.contains_key(&self.key(seat, input))
    }

    /// Seat and input in one word: hashing it is one multiplication.
    fn key(&self, seat: u32, input: Input) -> u64 {
        let sites = number(self.bounds.cluster.sites);
        let peer = |peer: SiteId| number(peer.index());
        let code = match input {
            Input::Request => 0,
            Input::Release => 1,
            Input::Return => 2,
            Input::Wake => 3,
            Input::Fail => 4,
            Input::Restart => 5,
            Input::PeerFailed(failed) => 6 + peer(failed),
            Input::PeerRecovered(back) => 6 + sites + peer(back),
            Input::Packet(packet) => 6 + 2 * sites + packet,
        };
        u64::from(seat) << 32 | u64::from(code)
    }

    /// The weather after `change`, if that is known.
    pub(crate) fn change(&self, weather: u32, change: Change) -> Option<u32> {
        self.changes.get(&(weather, change)).copied()
    }

    /// The packet as it is once its contents are spent, if that is known.
    pub(crate) fn spent(&self, packet: u32) -> Option<u32> {
        let packet = self.packet(packet);
        let spent = Packet { spent: true, ..packet.clone() };
        self.packets.get_index_of(&spent).map(number)
    }

    /// Finds out what `input` does to `seat`.
    pub(crate) fn learn_step(&mut self, seat: u32, input: Input) {
        let key = self.key(seat, input);
        if self.steps.contains_key(&key) {
            return;
        }
        let mut next = self.seat(seat).clone();
        self.run(&mut next, input);
        let (me, mut outcome, mut wrong) = (next.me, Outcome::default(), None);
        let mut outbox = std::mem::take(&mut self.outbox);
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } => {
                    outcome.sends.push(self.number_packet(Packet { from: me, to, message, spent: false }));
                }
                Effect::Enter { slot } => {
                    wrong = wrong.or(let_in(&mut next));
                    outcome.entry = Some((slot, number(outcome.sends.len())));
                }
                Effect::Timer { .. } => next.timers += 1,
                Effect::Misbehaved { peer, why } => {
                    outcome.refused = Some(Box::new(Violation::Refused { site: me, peer, why }));
                }
            }
        }
        self.outbox = outbox;
        let seat = self.number_seat(next);
        outcome.wrong = wrong.map(Box::new).or_else(|| self.facts(seat).wrong.clone());
        let outcome = number(self.outcomes.insert_full(outcome).0);
        self.steps.insert(key, Transition { seat, outcome });
    }

    /// Finds out what the weather is after `change`.
    pub(crate) fn learn_change(&mut self, weather: u32, change: Change) {
        let next = self.weather(weather).after(change, self.bounds.cluster.sites);
        let next = number(self.weathers.insert_full(next).0);
        self.changes.insert((weather, change), next);
    }

    /// Numbers the packet as it is once its contents are spent.
    pub(crate) fn learn_spent(&mut self, packet: u32) {
        let spent = Packet { spent: true, ..self.packet(packet).clone() };
        self.number_packet(spent);
    }

    /// Runs the site's own code; its effects are in the outbox.
    fn run(&mut self, seat: &mut Seat<A>, input: Input) {
        let out = &mut self.outbox;
        let counted = matches!(self.bounds.entries, Entries::Each(_));
        match input {
            Input::Request => {
                seat.ask(counted);
                seat.site.request(out);
            }
            Input::Release => {
                seat.phase = Phase::Idle;
                seat.site.release(out);
            }
            Input::Return => {
                seat.ask(counted);
                seat.site.release_and_request(out);
            }
            Input::Wake => {
                seat.timers -= 1;
                seat.site.wake(out);
            }
            Input::Fail => {
                (seat.phase, seat.timers, seat.up) = (Phase::Idle, 0, false);
            }
            Input::Restart => {
                seat.up = true;
                seat.site.restart(out);
            }
            Input::PeerFailed(peer) => seat.site.peer_failed(peer, out),
            Input::PeerRecovered(peer) => seat.site.peer_recovered(peer, out),
            Input::Packet(packet) => {
                let packet = self.packets.get_index(packet as usize).expect("a number that the table gave");
                seat.site.receive(packet.from, packet.message.clone(), out);
            }
        }
    }

    fn number_seat(&mut self, seat: Seat<A>) -> u32 {
        let (at, fresh) = self.seats.insert_full(seat);
        if fresh {
            let facts = self.seats[at].facts(&self.bounds);
            let outside = !self.seats[at].site.is_within_bounds();
            self.outside.push(outside);
            self.has_outside |= outside;
            self.facts.push(facts);
        }
        number(at)
    }

    fn number_packet(&mut self, packet: Packet<A::Message>) -> u32 {
        let sites = self.bounds.cluster.sites;
        assert!(packet.from != packet.to, "{} sends {:?} to itself", packet.from, packet.message);
        assert!(
            packet.to.index() < sites,
            "{:?} goes to {}, which does not exist",
            packet.message,
            packet.to
        );
        let label = Label {
            from: packet.from,
            to: packet.to,
            channel: number(packet.from.index() * sites + packet.to.index()),
            tokens: packet.message.tokens(),
            spent: packet.spent,
        };
        let (at, fresh) = self.packets.insert_full(packet);
        if fresh {
            self.labels.push(label);
        }
        number(at)
    }

    /// What is wrong with a seat that was there before anything happened.
    pub(crate) fn wrong_at_start(&self) -> Option<Violation> {
        self.facts.iter().take(self.bounds.cluster.sites).find_map(|facts| facts.wrong.as_deref().cloned())
    }

    /// Whether any site has ever set a timer.
    pub(crate) fn uses_timers(&self) -> bool {
        self.facts.iter().any(|facts| facts.timer)
    }

    /// Every step of a site that was learnt: the seats before and after, and whether it takes a message and sends none.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (u32, u32, bool)> {
        let first_message = self.key(0, Input::Packet(0));
        self.steps.iter().map(move |(&key, &Transition { seat, outcome })| {
            let (before, code) = (key >> 32, key & u64::from(u32::MAX));
            let takes = code >= first_message && self.outcomes[outcome as usize].sends.is_empty();
            (u32::try_from(before).expect("the upper half of a word"), seat, takes)
        })
    }

    /// How many tokens there should be.
    pub(crate) fn expected_tokens(&self) -> usize {
        match self.info.tokens {
            Tokens::None => 0,
            Tokens::One => 1,
            Tokens::PerPermit => self.bounds.cluster.permits,
        }
    }

    /// How many local states there are.
    pub(crate) fn local_states(&self) -> usize {
        self.seats.len()
    }

    /// Roughly how much memory the table takes.
    pub(crate) fn bytes(&self) -> usize {
        let site = self.info.memory.at(self.bounds.cluster.sites);
        let seats = self.seats.len() * (size_of::<Seat<A>>() + site + size_of::<Facts>() + 16);
        let packets = self.packets.len() * (size_of::<Packet<A::Message>>() + size_of::<Label>() + 16);
        let steps = self.steps.capacity() * (size_of::<(u64, Transition)>() + 1);
        seats + packets + steps + self.outcomes.len() * (size_of::<Outcome>() + 16)
    }
}

impl<A> Seat<A> {
    fn ask(&mut self, counted: bool) {
        self.phase = Phase::Waiting;
        self.asked += u8::from(counted);
    }
}

/// The process of the seat enters, as its host sees it.
fn let_in<A>(seat: &mut Seat<A>) -> Option<Violation> {
    let site = seat.me;
    let wrong = match seat.phase {
        Phase::Waiting => None,
        Phase::Idle => Some(Violation::EnteredUnasked { site }),
        Phase::Executing => Some(Violation::EnteredTwice { site }),
    };
    seat.phase = Phase::Executing;
    wrong
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 local states, packets and outcomes")
}
