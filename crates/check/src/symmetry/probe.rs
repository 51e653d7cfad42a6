//! Which permutations of the sites are symmetries of a run: each is followed through the steps of the run's beginning.

use std::fmt;

use meshlock_protocol::registry::info::Order;
use meshlock_protocol::{PlanError, SiteId, Spec};

use super::renaming::LocalInput;
use super::{Group, MAX_SITES, Permutation, Renaming};
use crate::Bounds;
use crate::interner::Interner;
use crate::sites::Sites;
use crate::state::{GlobalState, Layout};
use crate::table::{Input, Table};

/// The number of states from which the steps are taken that permutations are tried on.
pub(crate) const PROBED: usize = 3000;

/// What two sites do differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    Choices,
    Entry,
    Messages,
    State,
    StandsForTwo,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Difference::Choices => {
                "other choices are open, or it cannot be told which of them corresponds to which"
            }
            Difference::Entry => "only one of them enters, or not with the same permit",
            Difference::Messages => "they do not send the same number of messages to the same sites",
            Difference::State => "their processes, tokens, timestamps or timers differ after it",
            Difference::StandsForTwo => "the same state or message would have to stand for two",
        })
    }
}

/// Evidence that a permutation of the sites is no symmetry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Asymmetry(String);

impl Asymmetry {
    pub(super) fn at_start(permutation: &Permutation, site: SiteId) -> Self {
        Asymmetry(format!("{permutation}: {site} does not start as {} does", permutation.of(site)))
    }

    pub(super) fn in_step(
        table: &Table,
        permutation: &Permutation,
        step: LocalInput,
        image: LocalInput,
        difference: Difference,
    ) -> Self {
        let [one, other] = [step, image].map(|step| table.tell(step));
        Asymmetry(format!("{permutation}: {one}, and {other}: {difference}"))
    }
}

/// How symmetric a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteSymmetry {
    /// The number of permutations of the sites that are symmetries; 1 if only the one is that moves nobody.
    pub permutations: usize,
    /// Why the first permutation that was tried and is none is no symmetry.
    pub asymmetry: Option<Asymmetry>,
}

/// How symmetric the beginning of a run is.
pub fn site_symmetry(spec: &Spec, bounds: &Bounds) -> Result<SiteSymmetry, PlanError> {
    let (_, group, asymmetry) = symmetry_of(crate::sites_of(spec, bounds)?, bounds, PROBED);
    Ok(SiteSymmetry { permutations: group.elements.len(), asymmetry })
}

/// The symmetries of a run by all that happens in its first so many states. Gives the sites back.
pub(crate) fn symmetry_of(
    sites: Box<dyn Sites>,
    bounds: &Bounds,
    probed: usize,
) -> (Box<dyn Sites>, Group, Option<Asymmetry>) {
    let count = bounds.cluster.sites;
    if !bounds.can_be_explored_alike() {
        let why = Asymmetry(format!(
            "runs with failures, with modes, without end, or with more than {MAX_SITES} sites are not tried"
        ));
        return (sites, Group::within(count, Vec::new()), Some(why));
    }
    let mut table = Table::new(bounds, sites);
    let steps = table.first_steps(probed);
    let (mut symmetries, mut asymmetry) = (Vec::new(), None);
    for permutation in Permutation::all(count).into_iter().skip(1) {
        match table.try_permutation(permutation.clone(), &steps) {
            Ok(()) => symmetries.push(permutation),
            Err(difference) => asymmetry = asymmetry.or(Some(difference)),
        }
    }
    // Two timestamps with the same clock are ordered by their sites, so that the order says something else of exchanged sites.
    if !symmetries.is_empty() && table.info.order == Order::Timestamp {
        symmetries.clear();
        asymmetry = Some(Asymmetry("requests with the same clock are ordered by their sites".to_owned()));
    }
    let group = Group::within(count, symmetries);
    (table.into_sites(), group, asymmetry)
}

impl Table {
    /// Learns the steps of the first states of a breadth-first search. Returns them in the order in which they were learnt.
    fn first_steps(&mut self, probed: usize) -> Vec<LocalInput> {
        let layout = Layout::of(self.info, &self.bounds);
        let (mut known, mut body, mut moves) = (Interner::default(), Vec::new(), Vec::new());
        let (mut steps, mut state, mut next) = (Vec::new(), self.first_state(layout), GlobalState::default());
        layout.encode(&state, &mut body);
        known.insert(body.clone());
        let mut at = 0;
        while at < known.len().min(probed) {
            layout.decode(known.get(u32::try_from(at).expect("a few states")), &mut state);
            at += 1;
            self.moves(layout, &state, &mut moves);
            for &step in &moves {
                let (site, input) = self.input(layout, &state, step).expect("all sites are up");
                let local = state.locals[site.index()];
                if !self.knows_step(local, input) {
                    self.learn_step(local, input);
                    steps.push((local, input));
                }
                let applied = self.apply_all(layout, &state, step, &mut next, |_, wrong, next| {
                    if wrong.is_none() && self.is_within(&next.locals) {
                        body.clear();
                        layout.encode(next, &mut body);
                        known.insert(body.clone());
                    }
                });
                applied.expect("it was learnt");
            }
        }
        steps
    }

    /// Follows a permutation through `steps`, in which each state and packet comes from an earlier step.
    fn try_permutation(&mut self, permutation: Permutation, steps: &[LocalInput]) -> Result<(), Asymmetry> {
        let mut renaming = Renaming::new(permutation);
        renaming.start(self)?;
        for &step in steps {
            assert!(renaming.knows(step), "each step follows others");
            renaming.follow(self, step)?;
        }
        Ok(())
    }

    /// A step of a site in words.
    fn tell(&self, (local, input): LocalInput) -> String {
        let site = self.site_of(local);
        match input {
            Input::Packet(packet) => {
                let label = self.label(packet);
                format!("{site} takes {} from {}", self.sites().print(label.message), label.from)
            }
            Input::Request(_) => format!("{site} requests"),
            Input::Release => format!("{site} leaves"),
            Input::Return(_) => format!("{site} leaves and requests again"),
            Input::Wake => format!("a timer of {site} runs out"),
            Input::ChangeMode(_)
            | Input::Fail
            | Input::Restart
            | Input::PeerFailed(_)
            | Input::PeerRecovered(_) => {
                unreachable!("runs with failures or modes are not tried")
            }
        }
    }
}
