//! The tie to the code: everything that the explorer reaches in a run, compared with the model.
//!
//! Each global state of the code becomes a state of the model, by what its sites and the messages on their way say of themselves
//! ([`Modelled`]). Then the first state must be an initial one, every clause must hold in every state, and every step must be an action
//! of the model or change nothing in it. And no site may refuse a message, or enter with a permit that is in use: what the explorer itself
//! objects to in a step.
//!
//! What is of the proof only, the model's ghosts, is left out, with the clauses that speak of it: no step depends on it.
//!
//! A process that leaves and requests again in one step takes two: what the code does when it only leaves, and from there any one step of the
//! model. What is kept by each of two steps is kept by both together, so that nothing has to be proved about such a step.
//!
//! One step of the code may be several actions: what a site sends to itself it also receives within the step, and a model may say in an
//! action of its own what follows at once ([`ActionPart`]). Then the step must take all that follows: no such action is possible in any
//! state of the code.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use meshlock_check::Bounds;
use meshlock_check::visit::{Catalogue, Departure, Visited, VisitedState, visit};
use meshlock_protocol::registry::info::Channels;
use meshlock_protocol::{Count, LookupMap, ModelFacts, Modelled, PlanError, SiteId, Slot, Spec};

use crate::evaluate::{Evaluator, Staged, StagedClause};
use crate::model::{ActionPart, NamedClause, ProofModel};
use crate::structure::{ModelState, OutsideError, Structure};

mod sizes;

/// A run of the code that is compared with the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TieRun {
    pub sites: usize,
    /// How many may be inside at once.
    pub permits: usize,
    /// The number of requests of each site.
    pub entries: u8,
    /// The site that is inside at the start.
    pub inside: Option<usize>,
    /// Whether sites may leave and request again in one step.
    pub returns: bool,
    /// The algorithm with its options, if it is not that of the model's name.
    pub spec: Option<&'static str>,
    /// The number of states, breadth first, after which the comparison ends.
    pub most_states: usize,
}

impl TieRun {
    /// The same run as the explorer takes it.
    pub fn bounds(&self, spec: &Spec) -> Result<Bounds, PlanError> {
        let bounds = Bounds::new(self.sites, self.entries).with_permits(self.permits);
        let bounds = if spec.info.channels == Channels::Unordered { bounds.unordered() } else { bounds };
        let bounds = if self.returns { bounds.with_returns() } else { bounds };
        bounds.held_by(self.inside.as_slice())
    }
}

/// What was compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TieReport {
    /// Whether everything within the run was compared, and not only the first states.
    pub is_whole: bool,
    pub states: usize,
    pub steps: usize,
    /// The steps that change nothing in the model.
    pub unchanged: usize,
    /// By action of the model: the number of steps of the code that are this action.
    pub taken: Vec<usize>,
}

/// Where code and model part.
#[derive(Debug, thiserror::Error)]
pub enum TieBreak {
    #[error("{0}")]
    Outside(#[from] OutsideError),
    #[error("{0}")]
    Plan(#[from] PlanError),
    #[error("the axiom {name} does not hold in the instance")]
    Axiom { name: String },
    #[error("the first state of the code is no initial state of the model: {name} does not hold")]
    Start { name: String },
    #[error("the clause {name} does not hold in a state of the code: {}", state.join(", "))]
    Clause { name: String, state: Vec<String> },
    #[error("the code does not go on with {name} in a state in which it can: {}", state.join(", "))]
    Sequel { name: String, state: Vec<String> },
    #[error("a step of the code is wrong by itself: {what}")]
    Wrong { what: String },
    #[error("a step of the code is no action of the model: {}", change.join(", "))]
    Step { before: Vec<String>, change: Vec<String> },
}

impl TieBreak {
    /// In a few words, for tables: at which clause or step.
    pub fn brief(&self) -> String {
        match self {
            TieBreak::Clause { name, .. } => format!("clause `{name}`"),
            TieBreak::Sequel { name, .. } => format!("`{name}` does not follow"),
            TieBreak::Step { change, .. } => format!("step `{}`", change.join(", ")),
            TieBreak::Wrong { what } => format!("a step by itself: {what}"),
            TieBreak::Outside(_) | TieBreak::Plan(_) | TieBreak::Axiom { .. } | TieBreak::Start { .. } => {
                self.to_string()
            }
        }
    }
}

/// Compares everything within one run of the algorithm `A`, with the options of `spec`, with the model.
pub fn compare<A: Modelled>(model: &ProofModel, spec: &Spec, run: &TieRun) -> Result<TieReport, TieBreak> {
    let model = &model.without_ghosts();
    let bounds = run.bounds(spec)?;
    let sizes = sizes::of::<A>(model, spec, run, &bounds)?;
    let structure = Structure::new(model, sizes);
    let mut comparison = Comparison::<A>::new(&structure);
    let ended = visit::<A, Option<TieBreak>>(&bounds, &spec.values, &mut |catalogue, visited| {
        if matches!(visited, Visited::State(_)) && comparison.report.states == run.most_states {
            return ControlFlow::Break(None);
        }
        match comparison.see(catalogue, visited) {
            Ok(()) => ControlFlow::Continue(()),
            Err(why) => ControlFlow::Break(Some(why)),
        }
    })?;
    comparison.report.is_whole = ended.is_continue();
    match ended {
        ControlFlow::Continue(_) | ControlFlow::Break(None) => Ok(comparison.report),
        ControlFlow::Break(Some(why)) => Err(why),
    }
}

/// What a part of the code's state says of the model's: where in the state, and which value.
type SaidFacts = Vec<(usize, u8)>;

/// The numbers of actions that follow each other, and the state after them.
type ModelStep = (Vec<usize>, ModelState);

/// A comparison that is under way.
struct Comparison<'a, A> {
    structure: &'a Structure<'a>,
    evaluator: Evaluator<'a>,
    guards: Vec<Staged<'a>>,
    clauses: Vec<StagedClause<'a>>,
    /// What is the same in every state: which number follows which.
    base: ModelState,
    sites: LookupMap<u32, SaidFacts>,
    messages: LookupMap<(usize, usize, u32), SaidFacts>,
    /// The state whose steps are being compared.
    state: ModelState,
    /// The model's steps from it.
    successors: Option<Vec<ModelStep>>,
    /// The states after the steps from it in which a process has left: whose, and the state.
    left: Vec<(SiteId, ModelState)>,
    report: TieReport,
    algorithm: std::marker::PhantomData<A>,
}

impl<'a, A: Modelled> Comparison<'a, A> {
    fn new(structure: &'a Structure<'a>) -> Self {
        let model = structure.model;
        let mut base = structure.empty();
        if let Some(follows) = model.symbol("succ") {
            // The code's own idea of the next number.
            let size = structure.size(model.symbols[follows].arguments[0]);
            for number in 0..u64::from(size) {
                let next = Count::at(number).next().value();
                if let Ok((index, value)) = structure.locate("succ", &[number, next], 1) {
                    base[index] = value;
                }
            }
        }
        Comparison {
            structure,
            evaluator: Evaluator::new(structure),
            guards: model.actions.iter().map(Staged::guards).collect(),
            clauses: claims(model).map(|clause| StagedClause::of(&clause.holds)).collect(),
            base,
            sites: LookupMap::default(),
            messages: LookupMap::default(),
            state: ModelState::new(),
            successors: None,
            left: Vec::new(),
            report: TieReport { taken: vec![0; model.actions.len()], ..TieReport::default() },
            algorithm: std::marker::PhantomData,
        }
    }

    fn see(&mut self, catalogue: Catalogue<'_, A>, visited: Visited<'_>) -> Result<(), TieBreak> {
        match visited {
            Visited::State(state) => {
                self.state = self.translate(catalogue, state)?;
                self.successors = None;
                self.left.clear();
                if self.report.states == 0 {
                    self.check_start()?;
                }
                self.report.states += 1;
                self.check_clauses()?;
                self.check_sequels()
            }
            Visited::Step { next, departure, entered, wrong } => {
                let next = self.translate(catalogue, next)?;
                self.report.steps += 1;
                match departure {
                    Some(Departure::Returns(site)) => self.check_return(site, &next)?,
                    Some(Departure::Leaves(site)) => {
                        self.check_step(&next)?;
                        self.left.push((site, next.clone()));
                    }
                    None => self.check_step(&next)?,
                }
                if let Some((site, slot)) = entered {
                    self.check_permit(site, slot, &next)?;
                }
                wrong.map_or(Ok(()), |what| Err(TieBreak::Wrong { what }))
            }
        }
    }

    /// The state of the model that a state of the code stands for.
    fn translate(
        &mut self,
        catalogue: Catalogue<'_, A>,
        state: &VisitedState,
    ) -> Result<ModelState, OutsideError> {
        let mut translated = self.base.clone();
        let mut put = |said: &SaidFacts| said.iter().for_each(|&(index, value)| translated[index] = value);
        for &number in &state.sites {
            if !self.sites.contains(&number) {
                let mut facts = ModelFacts::default();
                catalogue.site(number).facts(&mut facts);
                self.sites.insert(number, locate(self.structure, &facts)?);
            }
            self.sites.get(&number).into_iter().for_each(&mut put);
        }
        for &(from, to, number) in &state.messages {
            let key = (from.index(), to.index(), number);
            if !self.messages.contains(&key) {
                let mut facts = ModelFacts::default();
                A::message_facts(from, to, catalogue.message(number), &mut facts);
                self.messages.insert(key, locate(self.structure, &facts)?);
            }
            self.messages.get(&key).into_iter().for_each(&mut put);
        }
        Ok(translated)
    }

    fn check_start(&mut self) -> Result<(), TieBreak> {
        let model = self.structure.model;
        for axiom in &model.axioms {
            if !self.evaluator.holds(&self.state, &axiom.holds) {
                return Err(TieBreak::Axiom { name: axiom.name.clone() });
            }
        }
        for initial in &model.initial {
            if !self.evaluator.holds(&self.state, &initial.holds) {
                return Err(TieBreak::Start { name: initial.name.clone() });
            }
        }
        Ok(())
    }

    fn check_clauses(&mut self) -> Result<(), TieBreak> {
        for (clause, staged) in claims(self.structure.model).zip(&self.clauses) {
            if !self.evaluator.clause_holds(&self.state, staged) {
                let state = self.structure.describe(&self.state);
                return Err(TieBreak::Clause { name: clause.name.clone(), state });
            }
        }
        Ok(())
    }

    fn check_step(&mut self, next: &ModelState) -> Result<(), TieBreak> {
        if *next == self.state {
            self.report.unchanged += 1;
            return Ok(());
        }
        if self.successors.is_none() {
            self.successors = Some(self.successors(&self.state.clone()));
        }
        let taken = self.successors.iter().flatten().find(|(_, after)| after == next);
        let taken = taken.map(|(actions, _)| actions.clone());
        self.count(taken, next)
    }

    /// The process of `site` leaves and requests again: this is a step of the model from where the code is if the process only leaves.
    fn check_return(&mut self, site: SiteId, next: &ModelState) -> Result<(), TieBreak> {
        let left = std::mem::take(&mut self.left);
        let after_leaving = left.iter().filter(|(by, _)| *by == site);
        let taken = after_leaving
            .flat_map(|(_, state)| self.successors(state))
            .find_map(|(actions, after)| (after == *next).then_some(actions));
        self.left = left;
        self.count(taken, next)
    }

    /// Counts the actions of a step; without them it is none of the model's.
    fn count(&mut self, taken: Option<Vec<usize>>, next: &ModelState) -> Result<(), TieBreak> {
        if let Some(actions) = taken {
            for action in actions {
                self.report.taken[action] += 1;
            }
            return Ok(());
        }
        let (before, after) = (self.structure.describe(&self.state), self.structure.describe(next));
        let gone = before.iter().filter(|fact| !after.contains(fact)).map(|fact| format!("− {fact}"));
        let come = after.iter().filter(|fact| !before.contains(fact)).map(|fact| format!("+ {fact}"));
        let change = gone.chain(come).collect();
        Err(TieBreak::Step { before, change })
    }

    /// Where the model says which permit a site uses: it is the one that the site has told its host.
    fn check_permit(&self, site: SiteId, slot: Slot, next: &ModelState) -> Result<(), TieBreak> {
        if self.structure.model.symbol("uses").is_none() {
            return Ok(());
        }
        let (index, value) = self.structure.locate("uses", &[site.index() as u64, u64::from(slot.0)], 1)?;
        let what = || format!("{site} enters with permit {}, and uses another one", slot.0);
        if next[index] == value { Ok(()) } else { Err(TieBreak::Wrong { what: what() }) }
    }

    /// The code has taken everything that follows at once.
    fn check_sequels(&mut self) -> Result<(), TieBreak> {
        let state = self.state.clone();
        let (mut sequels, model) = (Vec::new(), self.structure.model);
        self.extend(&[], &state, &mut sequels);
        let Some((actions, _)) = sequels.first() else { return Ok(()) };
        let name = model.actions[actions[0]].name.clone();
        Err(TieBreak::Sequel { name, state: self.structure.describe(&state) })
    }

    /// Every step of the model from a state, with everything that follows at once.
    fn successors(&mut self, state: &ModelState) -> Vec<ModelStep> {
        let model = self.structure.model;
        let mut open = Vec::new();
        for (number, (action, guards)) in model.actions.iter().zip(&self.guards).enumerate() {
            if action.part != ActionPart::Sequel {
                let every = &mut |_: &[u8], after| open.push((vec![number], after));
                self.evaluator.for_each_step(state, action, guards, every);
            }
        }
        open.reverse(); // The last one is taken first.
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        while let Some((actions, state)) = open.pop() {
            if seen.insert(state.clone()) {
                let before = open.len();
                self.extend(&actions, &state, &mut open);
                if open.len() == before {
                    found.push((actions, state));
                }
            }
        }
        found
    }

    /// Adds to `steps` what can follow at once after `actions`, which have led to `state`.
    fn extend(&mut self, actions: &[usize], state: &[u8], steps: &mut Vec<ModelStep>) {
        for (number, (action, guards)) in self.structure.model.actions.iter().zip(&self.guards).enumerate() {
            let every = &mut |parameters: &[u8], after| {
                if action.part == ActionPart::Sequel || parameters[0] == parameters[1] {
                    steps.push(([actions, &[number]].concat(), after));
                }
            };
            if action.part != ActionPart::First {
                self.evaluator.for_each_step(state, action, guards, every);
            }
        }
    }
}

/// Everything that must hold in every state.
fn claims(model: &ProofModel) -> impl Iterator<Item = &NamedClause> {
    model.clauses.iter().chain(&model.theorems)
}

/// Where in a state each fact is.
fn locate(structure: &Structure<'_>, facts: &ModelFacts) -> Result<SaidFacts, OutsideError> {
    facts.0.iter().map(|fact| structure.locate(fact.symbol, &fact.arguments, fact.value)).collect()
}
