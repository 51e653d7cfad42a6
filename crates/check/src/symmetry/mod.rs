//! The search up to symmetry: of the states that differ only in which site is which, one is kept.
//!
//! A permutation of the sites is a *symmetry* of a run if the sites cannot be told apart by it: if whatever happens can also happen with
//! the sites exchanged, and then the sites do the same, exchanged. Nobody declares that. It is found out by following the steps of the
//! sites ([`Renaming`]): the first state of each site stands for the first state of the site that takes its place; where a site
//! takes a step, the other one takes the step that corresponds to it, and what they send and become stand for each other from then on. If
//! the two differ in anything that anybody can notice, or a state would have to stand for two, the permutation is no symmetry, and the
//! step is the evidence.
//!
//! First the permutations are tried on the beginning of the run ([`probe`]). The search then uses those that are left, and compares every
//! step that it learns, with all that its site could be exchanged for. So it rests on nothing that was not compared: at its end the steps
//! of all kept states are known together with all their images, which therefore are the steps of all states that were left out. If
//! a step contradicts a symmetry, the search starts again without any.
//!
//! Most algorithms have no symmetry at all: they end ties by the ids of sites, walk through sites in the order of their ids, or start on a
//! structure whose sites have different places.
//!
//! What this preserves: exclusion, deadlock, fences, tokens, refusals, quiet and the invariants of single sites, because they say the same of
//! all sites; invariants that span sites are checked in the kept states only. Cycles through exchanged sites are not those of the full
//! graph, so that starvation and the bypass bound are left out, and with them the costs of runs. Runs with failures, with
//! modes or without end are not explored so.

mod group;
mod path;
mod probe;
mod renaming;
#[cfg(test)]
mod tests;

pub(crate) use group::{Group, Permutation};
pub use probe::{Asymmetry, SiteSymmetry, site_symmetry};
pub(crate) use probe::{PROBED, symmetry_of};
pub(crate) use renaming::Renaming;

use meshlock_protocol::SiteId;
use meshlock_protocol::world::Delivery;
use smallvec::SmallVec;

use crate::state::{GlobalState, Layout};
use crate::table::{Input, Table};

/// The largest number of sites whose permutations are tried.
pub(crate) const MAX_SITES: usize = 6;

/// The symmetries that a search uses.
pub(crate) struct Symmetry {
    pub(crate) group: Group,
    /// One for each generator of the group.
    generators: Vec<Renaming>,
    /// The first step that contradicts the group.
    pub(crate) refuted: Option<Asymmetry>,
}

/// Working memory for finding the state to keep.
#[derive(Default)]
pub(crate) struct Lookalikes {
    /// For each element of the group the local states of all sites.
    locals: Vec<u32>,
    packets: Vec<u32>,
    best: Vec<u32>,
}

impl Symmetry {
    /// The symmetries of `group` at the start of a run, when the table has only the first local states.
    pub(crate) fn new(table: &Table, group: Group) -> Self {
        let mut refuted = None;
        let generators = group.generators.iter().map(|permutation| {
            let mut renaming = Renaming::new(permutation.clone());
            if let Err(difference) = renaming.start(table) {
                refuted = refuted.take().or(Some(difference));
            }
            renaming
        });
        let generators = generators.collect();
        Symmetry { group, generators, refuted }
    }
}

impl Table {
    /// Finds out what `input` does to `local`, and in a search up to symmetry to everything that it stands for.
    pub(crate) fn learn_input(&mut self, local: u32, input: Input) {
        let Some(mut symmetry) = self.symmetry.take() else { return self.learn_step(local, input) };
        let mut orbit = vec![(local, input)];
        let mut at = 0;
        while at < orbit.len() && symmetry.refuted.is_none() {
            for renaming in &mut symmetry.generators {
                match renaming.follow(self, orbit[at]) {
                    Ok(image) if orbit.contains(&image) => {}
                    Ok(image) => orbit.push(image),
                    Err(difference) => symmetry.refuted = Some(difference),
                }
            }
            at += 1;
        }
        if symmetry.refuted.is_some() {
            self.learn_step(local, input);
        }
        self.symmetry = Some(symmetry);
    }

    /// In a search up to symmetry: replaces `state` by the one that stands for it.
    pub(crate) fn exchange_sites(
        &self,
        layout: Layout,
        state: &mut GlobalState,
        lookalikes: &mut Lookalikes,
    ) {
        let Some(symmetry) = &self.symmetry else { return };
        // What contradicts the symmetry has no image; then the search is made again.
        if symmetry.refuted.is_some() {
            return;
        }
        let sites = state.locals.len();
        let alike = &mut lookalikes.locals;
        alike.clear();
        alike.extend_from_slice(&state.locals);
        let (mut least, mut best) = (0, SmallVec::<[usize; 24]>::from_slice(&[0]));
        for (number, element) in symmetry.group.elements.iter().enumerate().skip(1) {
            let (shorter, generator) = element.before.expect("only the identity has none");
            let renaming = &symmetry.generators[generator];
            let from = alike.len();
            alike.resize(from + sites, 0);
            for site in SiteId::all(sites) {
                let local = alike[shorter * sites + site.index()];
                alike[from + renaming.permutation.of(site).index()] = renaming.local(local);
            }
            match alike[from..].cmp(&alike[least * sites..(least + 1) * sites]) {
                std::cmp::Ordering::Less => {
                    (least, best) = (number, SmallVec::from_slice(&[number]));
                }
                std::cmp::Ordering::Equal => best.push(number),
                std::cmp::Ordering::Greater => {}
            }
        }
        let mut knows = None;
        for element in best {
            let known = symmetry.knowledge(layout, state, element);
            self.exchange_packets(layout, symmetry, state, element, &mut lookalikes.packets);
            let is_less = knows.is_none_or(|least| (known, &lookalikes.packets) < (least, &lookalikes.best));
            if is_less {
                knows = Some(known);
                std::mem::swap(&mut lookalikes.packets, &mut lookalikes.best);
            }
        }
        state.knows = knows.expect("some element is the least");
        state.locals.copy_from_slice(&lookalikes.locals[least * sites..(least + 1) * sites]);
        state.packets.clone_from(&lookalikes.best);
    }

    /// The packets of `state` with the sites exchanged as by an element of the group.
    fn exchange_packets(
        &self,
        layout: Layout,
        symmetry: &Symmetry,
        state: &GlobalState,
        element: usize,
        packets: &mut Vec<u32>,
    ) {
        let factors = symmetry.group.factors(element);
        packets.clear();
        packets.extend(state.packets.iter().map(|&code| {
            let (packet, knew) = layout.split(code);
            let image = factors
                .iter()
                .fold(packet, |packet, &generator| symmetry.generators[generator].packet(packet));
            layout.join(image, knew)
        }));
        match self.bounds.delivery {
            Delivery::Unordered => packets.sort_unstable(),
            // The order within a channel stays.
            Delivery::Fifo => packets.sort_by_key(|&code| self.label(layout.split(code).0).channel),
        }
    }
}

impl Symmetry {
    /// What the sites of `state` know of the last entries, with the sites exchanged as by an element of the group.
    fn knowledge(&self, layout: Layout, state: &GlobalState, element: usize) -> u64 {
        let permutation = &self.group.elements[element].permutation;
        SiteId::all(state.locals.len()).fold(0, |knows, site| {
            layout.learn(knows, permutation.of(site), layout.known_to(state.knows, site))
        })
    }
}
