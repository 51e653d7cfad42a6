//! The sites' code as a table.
//!
//! A site is a pure machine: the same state and the same input always give the same next state and the same effects.
//! Far fewer local states exist than global ones, so each (local state, input) runs the site's code once, and its
//! outcome is kept. From then on a step of a global state is a lookup. Local states, packets and fault states are
//! numbered as they appear; a global state is a short list of such numbers.

use meshlock_protocol::registry::info::Tokens;
use meshlock_protocol::world::Violation;
use meshlock_protocol::{Demand, Effect, Info, LookupMap, Mode, SiteId, Slot};
use smallvec::SmallVec;

use crate::Bounds;
use crate::faults::{FaultChange, FaultState};
use crate::interner::Interner;
use crate::local::{LocalFacts, LocalState};
use crate::reduce::Prospects;
use crate::relative::{NormalForms, PerFamily};
use crate::rising::LocalStep;
use crate::sites::{NumberedCall, Sites};
use crate::state::{GlobalState, Layout};
use crate::symmetry::{Asymmetry, Symmetry};

/// What can happen to one local state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Input {
    Request(Demand),
    Release,
    Return(Demand),
    ChangeMode(Mode),
    Wake,
    Fail,
    Restart,
    PeerFailed(SiteId),
    PeerRecovered(SiteId),
    /// The packet with this number arrives.
    Packet(u32),
}

/// A message between two sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PacketKey {
    from: SiteId,
    to: SiteId,
    message: u32,
    /// Whether its contents are gone already, as in the world.
    spent: bool,
}

/// Properties of a packet that the search needs, computed once when it is numbered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketLabel {
    pub(crate) from: SiteId,
    pub(crate) to: SiteId,
    pub(crate) channel: u32,
    pub(crate) message: u32,
    pub(crate) tokens: u32,
    pub(crate) spent: bool,
}

/// Properties of numbered local states and packets that the search needs.
#[derive(Default)]
pub(crate) struct Labels {
    locals: Vec<LocalFacts>,
    packets: Vec<PacketLabel>,
}

impl Labels {
    pub(crate) fn local(&self, local: u32) -> &LocalFacts {
        &self.locals[local as usize]
    }

    pub(crate) fn packet(&self, packet: u32) -> &PacketLabel {
        &self.packets[packet as usize]
    }
}

/// Result of one input to one local state: the number of the local state afterwards, and of the outcome. Where the site may choose and
/// that makes a difference, `outcome` is [`BRANCHES`] and `local` the number of its branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transition {
    local: u32,
    outcome: u32,
}

/// The outcome of a transition that has branches.
const BRANCHES: u32 = u32::MAX;

/// One result of a call in which the site may choose.
#[derive(Clone, Debug)]
struct BranchResult {
    transition: Transition,
    /// The first answers that lead to it.
    answers: Box<[u32]>,
}

/// What a step does to its site.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SiteStep<'a> {
    /// The number of the local state afterwards.
    pub(crate) local: u32,
    /// The rest, unless it is nothing.
    pub(crate) outcome: Option<&'a StepOutcome>,
    /// The number of different results that the site's choices can have.
    pub(crate) branches: u32,
}

/// Effects of a step other than the change of the local state. Many steps have the same outcome, most have the empty
/// one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct StepOutcome {
    /// The packets that are sent, by number.
    pub(crate) sends: SmallVec<[u32; 4]>,
    /// The entry, if there is one, and how many of the sends come before it.
    pub(crate) entry: Option<(Slot, u32)>,
    /// The same of the moment at which the process, which is inside, becomes exclusive.
    pub(crate) upgrade: Option<u32>,
    /// Violation in the step or in the local state after it, whatever the others are.
    pub(crate) wrong: Option<Box<Violation>>,
    /// Message that was refused, which is a violation only as long as nothing has failed.
    pub(crate) refused: Option<Box<Violation>>,
}

/// Everything that was learnt of the sites so far.
pub(crate) struct Table {
    pub(crate) bounds: Bounds,
    pub(crate) info: &'static Info,
    sites: Box<dyn Sites>,
    locals: Interner<LocalState>,
    packets: Interner<PacketKey>,
    labels: Labels,
    faults: Interner<FaultState>,
    /// By local state and input.
    steps: LookupMap<u64, Transition>,
    /// The keys of `steps`, in the order in which they were learnt.
    learnt: Vec<u64>,
    /// The results of the calls in which choices make a difference.
    branches: Vec<Box<[BranchResult]>>,
    outcomes: Interner<StepOutcome>,
    changes: LookupMap<(u32, FaultChange), u32>,
    /// Whether states are kept in their normal form: in an endless run of an algorithm that names its numbers.
    pub(crate) is_relative: bool,
    /// Normal forms of what is numbered here.
    pub(crate) normal_forms: NormalForms,
    /// What sites can do, in a reduced search.
    pub(crate) prospects: Prospects,
    /// The symmetries that are used, in a search up to symmetry.
    pub(crate) symmetry: Option<Symmetry>,
    /// The effects of one step, empty between steps.
    effects: Vec<Effect<u32>>,
    /// The local states at the start.
    first: Vec<u32>,
    /// By local state: whether the exploration ends there.
    outside: Vec<bool>,
    has_outside: bool,
}

impl Table {
    /// The table with the first local states, which have the first numbers.
    pub(crate) fn new(bounds: &Bounds, sites: Box<dyn Sites>) -> Self {
        let mut table = Table {
            bounds: bounds.clone(),
            info: sites.info(),
            sites,
            locals: Interner::default(),
            packets: Interner::default(),
            labels: Labels::default(),
            faults: Interner::default(),
            steps: LookupMap::default(),
            learnt: Vec::new(),
            branches: Vec::new(),
            outcomes: Interner::default(),
            changes: LookupMap::default(),
            is_relative: false,
            normal_forms: NormalForms::default(),
            prospects: Prospects::default(),
            symmetry: None,
            effects: Vec::new(),
            first: (0..number(bounds.cluster.sites)).collect(),
            outside: Vec::new(),
            has_outside: false,
        };
        table.is_relative = bounds.is_endless() && table.sites.name_numbers();
        table.faults.insert(FaultState::default());
        table.outcomes.insert(StepOutcome::default());
        for me in SiteId::all(bounds.cluster.sites) {
            let site = table.sites.first()[me.index()];
            table.number_local(LocalState::start(me, site, bounds.holders.mode(me)));
        }
        if table.is_relative {
            let layout = Layout::of(table.info, bounds);
            let mut first = table.first_state(layout);
            table.learn_normal_form(layout, &first);
            table.normalise(layout, &mut first).expect("it was learnt");
            table.first = first.locals;
        }
        table
    }

    /// Gives the sites back, to start again with.
    pub(crate) fn into_sites(self) -> Box<dyn Sites> {
        self.sites
    }

    pub(crate) fn sites(&self) -> &dyn Sites {
        &*self.sites
    }

    /// The local states at the start, in the order of the sites.
    pub(crate) fn first_locals(&self) -> &[u32] {
        &self.first
    }

    /// The site whose local state this is.
    pub(crate) fn site_of(&self, local: u32) -> SiteId {
        self.locals.get(local).me
    }

    /// A local state in words, with all that it consists of.
    #[cfg(test)]
    pub(crate) fn local_in_words(&self, local: u32) -> String {
        format!("{:?}", self.locals.get(local))
    }

    /// The step that contradicts the symmetries of this search, if one does.
    pub(crate) fn asymmetry(&self) -> Option<Asymmetry> {
        self.symmetry.as_ref()?.refuted.clone()
    }

    /// The state before anything has happened.
    pub(crate) fn first_state(&self, layout: Layout) -> GlobalState {
        GlobalState { locals: self.first.clone(), knows: layout.knows_all(), ..GlobalState::default() }
    }

    pub(crate) fn facts(&self, local: u32) -> &LocalFacts {
        self.labels.local(local)
    }

    /// Whether the exploration goes on from a state with these local states; costs nothing where it always does.
    pub(crate) fn is_within(&self, locals: &[u32]) -> bool {
        !self.has_outside || locals.iter().all(|&local| !self.outside[local as usize])
    }

    pub(crate) fn label(&self, packet: u32) -> &PacketLabel {
        self.labels.packet(packet)
    }

    pub(crate) fn labels(&self) -> &Labels {
        &self.labels
    }

    pub(crate) fn faults(&self, faults: u32) -> &FaultState {
        self.faults.get(faults)
    }

    /// What `input` does to `local` if the site's choices lead to this branch, if that is known.
    pub(crate) fn step(&self, local: u32, input: Input, branch: u32) -> Option<SiteStep<'_>> {
        let mut transition = *self.steps.get(&self.key(local, input))?;
        let mut branches = 1;
        if transition.outcome == BRANCHES {
            let results = &self.branches[transition.local as usize];
            branches = number(results.len());
            transition = results[branch as usize].transition;
        }
        let Transition { local, outcome } = transition;
        Some(SiteStep { local, outcome: (outcome > 0).then(|| self.outcomes.get(outcome)), branches })
    }

    /// The answers with which the site takes this branch; none if its choices make no difference.
    pub(crate) fn answers(&self, local: u32, input: Input, branch: u32) -> &[u32] {
        match self.steps.get(&self.key(local, input)) {
            Some(&Transition { local, outcome: BRANCHES }) => {
                &self.branches[local as usize][branch as usize].answers
            }
            _ => &[],
        }
    }

    pub(crate) fn knows_step(&self, local: u32, input: Input) -> bool {
        self.steps.contains(&self.key(local, input))
    }

    /// Local state and input in one word: hashing it is one multiplication.
    fn key(&self, local: u32, input: Input) -> u64 {
        let sites = number(self.bounds.cluster.sites);
        let peer = |peer: SiteId| number(peer.index());
        let asked = |demand: Demand| u32::from(demand.priority.0) << 2 | demand.mode as u32;
        let code = match input {
            Input::Request(demand) => asked(demand),
            Input::Return(demand) => 1024 + asked(demand),
            Input::ChangeMode(to) => 2048 + to as u32,
            Input::Release => 2051,
            Input::Wake => 2052,
            Input::Fail => 2053,
            Input::Restart => 2054,
            Input::PeerFailed(failed) => 2055 + peer(failed),
            Input::PeerRecovered(back) => 2055 + sites + peer(back),
            Input::Packet(packet) => 2055 + 2 * sites + packet,
        };
        u64::from(local) << 32 | u64::from(code)
    }

    /// The fault state after `change`, if that is known.
    pub(crate) fn change(&self, faults: u32, change: FaultChange) -> Option<u32> {
        self.changes.get(&(faults, change)).copied()
    }

    /// The packet as it is once its contents are spent, if that is known.
    pub(crate) fn spent(&self, packet: u32) -> Option<u32> {
        self.packets.find(&PacketKey { spent: true, ..*self.packets.get(packet) })
    }

    /// Finds out what `input` does to `local`, by running the site's code: once, or once for each answer to what it asks.
    pub(crate) fn learn_step(&mut self, local: u32, input: Input) {
        let key = self.key(local, input);
        if self.steps.contains(&key) {
            return;
        }
        let mut answers = Vec::new();
        let mut results: Vec<BranchResult> = Vec::new();
        loop {
            let (transition, asked) = self.run_step(local, input, &answers);
            if results.iter().all(|known| known.transition != transition) {
                let taken = asked.iter().map(|&(taken, _)| taken).collect();
                results.push(BranchResult { transition, answers: taken });
            }
            match next_answers(&asked) {
                Some(next) => answers = next,
                None => break,
            }
        }
        let transition = if let [only] = &results[..] {
            only.transition
        } else {
            let branches = number(self.branches.len());
            self.branches.push(results.into());
            Transition { local: branches, outcome: BRANCHES }
        };
        self.steps.insert(key, transition);
        self.learnt.push(key);
    }

    /// Runs the site's code once. Returns what it does, and each answer that it took with the number of its alternatives.
    fn run_step(
        &mut self,
        local: u32,
        input: Input,
        answers: &[u32],
    ) -> (Transition, SmallVec<[(u32, u32); 4]>) {
        let mut next = *self.locals.get(local);
        let mut effects = std::mem::take(&mut self.effects);
        if let Some(call) = self.prepare(&mut next, input) {
            next.site = self.sites.step(next.site, call, answers, &mut effects);
        }
        let (me, mut outcome, mut wrong) = (next.me, StepOutcome::default(), None);
        let mut asked = SmallVec::new();
        for effect in effects.drain(..) {
            match effect {
                Effect::Send { to, message } => {
                    outcome.sends.push(self.number_packet(PacketKey { from: me, to, message, spent: false }));
                }
                Effect::Enter { slot } => {
                    wrong = wrong.or(next.enter());
                    outcome.entry = Some((slot, number(outcome.sends.len())));
                }
                Effect::Upgraded => {
                    wrong = wrong.or(next.upgrade());
                    outcome.upgrade = Some(number(outcome.sends.len()));
                }
                Effect::Timer { .. } => next.timers += 1,
                Effect::Chose { taken, of } => asked.push((taken, of)),
                Effect::Misbehaved { peer, why } => {
                    outcome.refused = Some(Box::new(Violation::Refused { site: me, peer, why }));
                }
            }
        }
        self.effects = effects;
        if self.bounds.keeps_entries && outcome.entry.is_some() {
            wrong = wrong.or(self.keep_entry(&mut next));
        }
        let local = self.number_local(next);
        outcome.wrong = wrong.map(Box::new).or_else(|| self.facts(local).wrong.clone());
        let outcome = self.outcomes.insert(outcome).0;
        (Transition { local, outcome }, asked)
    }

    /// Notes the timestamp of the entry, and returns what is wrong with it.
    fn keep_entry(&self, local: &mut LocalState) -> Option<Violation> {
        let clock = self.sites.facts(local.site).timestamp?.clock;
        let last = local.last_entry.replace(clock);
        last.is_some_and(|last| last >= clock).then_some(Violation::NotRising { site: local.me })
    }

    /// Does the host's part of `input`, and returns the site's part.
    fn prepare(&self, local: &mut LocalState, input: Input) -> Option<NumberedCall> {
        let is_bounded = !self.bounds.is_endless();
        Some(match input {
            Input::Request(demand) => {
                local.request(demand, is_bounded);
                NumberedCall::Request(demand)
            }
            Input::Release => {
                local.leave();
                NumberedCall::Release
            }
            Input::Return(demand) => {
                local.request(demand, is_bounded);
                NumberedCall::ReleaseAndRequest(demand)
            }
            Input::ChangeMode(to) => {
                local.change_mode(to);
                NumberedCall::ChangeMode(to)
            }
            Input::Wake => {
                local.timers -= 1;
                NumberedCall::Wake
            }
            Input::Fail => {
                local.leave();
                (local.timers, local.up) = (0, false);
                return None;
            }
            Input::Restart => {
                local.up = true;
                NumberedCall::Restart
            }
            Input::PeerFailed(peer) => NumberedCall::PeerFailed(peer),
            Input::PeerRecovered(peer) => NumberedCall::PeerRecovered(peer),
            Input::Packet(packet) => {
                let PacketKey { from, message, .. } = *self.packets.get(packet);
                NumberedCall::Receive { from, message }
            }
        })
    }

    /// Finds out what the fault state is after `change`.
    pub(crate) fn learn_change(&mut self, faults: u32, change: FaultChange) {
        let next = self.faults.get(faults).after(change, self.bounds.cluster.sites);
        let next = self.faults.insert(next).0;
        self.changes.insert((faults, change), next);
    }

    /// Numbers the packet as it is once its contents are spent.
    pub(crate) fn learn_spent(&mut self, packet: u32) {
        let spent = PacketKey { spent: true, ..*self.packets.get(packet) };
        self.number_packet(spent);
    }

    fn number_local(&mut self, local: LocalState) -> u32 {
        let (number, is_new) = self.locals.insert(local);
        if is_new {
            let site = self.sites.facts(local.site);
            self.outside.push(!site.is_within_bounds);
            self.has_outside |= !site.is_within_bounds;
            let mut facts = local.facts(&site, &self.bounds);
            if self.is_relative {
                facts.largest = self.sites.largest_number(local.site);
                self.normal_forms.locals.push(self.sites.site_numbers(local.site));
            }
            self.labels.locals.push(facts);
        }
        number
    }

    /// The local state with its numbers made smaller.
    pub(crate) fn local_less(&mut self, local: u32, base: &PerFamily) -> u32 {
        let local = *self.locals.get(local);
        let site = self.sites.site_less(local.site, base);
        self.number_local(LocalState { site, ..local })
    }

    /// The packet with its numbers made smaller.
    pub(crate) fn packet_less(&mut self, packet: u32, base: &PerFamily) -> u32 {
        let packet = *self.packets.get(packet);
        let message = self.sites.message_less(packet.message, (packet.from, packet.to), base);
        self.number_packet(PacketKey { message, ..packet })
    }

    fn number_packet(&mut self, packet: PacketKey) -> u32 {
        let (number_of_packet, is_new) = self.packets.insert(packet);
        if is_new {
            let PacketKey { from, to, message, spent } = packet;
            let (sites, print) = (self.bounds.cluster.sites, || self.sites.print(message));
            assert!(from != to, "{from} sends {} to itself", print());
            assert!(to.index() < sites, "{} goes to {to}, which does not exist", print());
            let channel = number(from.index() * sites + to.index());
            let tokens = number(self.sites.tokens(message));
            self.labels.packets.push(PacketLabel { from, to, channel, message, tokens, spent });
            if self.is_relative {
                self.normal_forms.packets.push(self.sites.message_numbers(message, (from, to)));
            }
        }
        number_of_packet
    }

    /// Returns a violation in a local state at the start.
    pub(crate) fn wrong_at_start(&self) -> Option<Violation> {
        let mut first = self.labels.locals.iter().take(self.bounds.cluster.sites);
        first.find_map(|facts| facts.wrong.as_deref()).cloned()
    }

    /// Whether any site has ever set a timer.
    pub(crate) fn uses_timers(&self) -> bool {
        self.labels.locals.iter().any(|facts| facts.has_timer)
    }

    /// Every step of a site, in the order in which they were learnt: the local states before and after, and whether it
    /// takes a message and sends none.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (u32, u32, bool)> {
        let first_message = self.key(0, Input::Packet(0));
        self.learnt.iter().flat_map(move |&key| {
            let (before, code) = (key >> 32, key & u64::from(u32::MAX));
            let before = u32::try_from(before).expect("the upper half of a word");
            self.results(key).map(move |Transition { local, outcome }| {
                let takes = code >= first_message && self.outcomes.get(outcome).sends.is_empty();
                (before, local, takes)
            })
        })
    }

    /// All results of a step that was learnt.
    fn results(&self, key: u64) -> impl Iterator<Item = Transition> {
        let transition = *self.steps.get(&key).expect("it was learnt");
        let (one, many) = match transition {
            Transition { local, outcome: BRANCHES } => (None, &self.branches[local as usize][..]),
            one => (Some(one), &[][..]),
        };
        one.into_iter().chain(many.iter().map(|result| result.transition))
    }

    /// Every step of a site that was learnt, and whether the site enters by it.
    pub(crate) fn local_steps(&self) -> impl Iterator<Item = LocalStep> {
        self.learnt.iter().flat_map(move |&key| {
            let before = u32::try_from(key >> 32).expect("the upper half of a word");
            self.results(key).map(move |Transition { local, outcome }| LocalStep {
                before,
                after: local,
                enters: self.outcomes.get(outcome).entry.is_some(),
            })
        })
    }

    /// Returns the number of tokens that must exist.
    pub(crate) fn expected_tokens(&self) -> usize {
        match self.info.tokens {
            Tokens::None => 0,
            Tokens::One => 1,
            Tokens::PerPermit => self.bounds.cluster.permits,
        }
    }

    /// Returns the number of local states.
    pub(crate) fn local_states(&self) -> usize {
        self.locals.len()
    }

    /// Whether the table takes more memory than this, in bytes.
    pub(crate) fn is_over(&self, memory: usize) -> bool {
        self.bytes() > memory
    }

    /// Roughly how much memory the table takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let (site, sizes) = (self.info.memory.at(self.bounds.cluster.sites), self.sites.sizes());
        let locals = self.locals.len() * (sizes.local_state + site + size_of::<LocalFacts>() + 16);
        let packets = self.packets.len() * (sizes.packet + size_of::<PacketLabel>() + 16);
        let steps = self.steps.capacity() * (size_of::<(u64, Transition)>() + 1)
            + self.learnt.capacity() * size_of::<u64>();
        let results: usize = self.branches.iter().map(|results| results.len()).sum();
        let branches = results * (size_of::<BranchResult>() + 16);
        let outcomes = self.outcomes.len() * (size_of::<StepOutcome>() + 16);
        locals + packets + steps + branches + outcomes + self.prospects.bytes()
    }
}

/// The answers to try next, if each of these was taken of so many: the last one that can be is raised, and what followed it is
/// asked anew. `None` after the last.
fn next_answers(asked: &[(u32, u32)]) -> Option<Vec<u32>> {
    let last = asked.iter().rposition(|&(taken, of)| taken + 1 < of)?;
    let taken = asked[..=last].iter().map(|&(taken, _)| taken);
    let mut answers: Vec<u32> = taken.collect();
    answers[last] += 1;
    Some(answers)
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 local states, packets and outcomes")
}
