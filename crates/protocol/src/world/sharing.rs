//! Processes that share the critical section: requests with a demand, changes of mode, and what must hold among those inside.

use crate::registry::check_demand;
use crate::registry::values::Values;
use crate::{Algorithm, Demand, Effect, Fence, Holders, Mode, PlanError, SiteId, SiteSet};

use super::{Action, Violation, World};

/// What the host knows of the processes' demands.
#[derive(Clone, Debug)]
pub(super) struct ProcessModes {
    /// What a process may ask for in this run.
    demands: Vec<Demand>,
    /// By site: the mode in which its process waits or is inside.
    modes: Vec<Mode>,
    /// The sites whose process is inside and waits to be exclusive.
    upgrading: SiteSet,
    /// By mode: the largest fence of a grant in it, where sites share one permit.
    fences: [Option<Fence>; 3],
}

impl ProcessModes {
    pub(super) fn new(sites: usize, holders: &Holders) -> Self {
        let mut modes = vec![Mode::Exclusive; sites];
        holders.with_modes().for_each(|(site, mode)| modes[site.index()] = mode);
        let demands = vec![Demand::PLAIN];
        ProcessModes { demands, modes, upgrading: SiteSet::new(), fences: [None; 3] }
    }

    /// Notes a grant in this mode. Returns whether its fence is larger than that of every earlier grant that it excludes.
    pub(super) fn note_fence(&mut self, mode: Mode, fence: Fence) -> bool {
        let excluded = Mode::ALL.into_iter().filter(|other| !mode.admits(*other));
        let rises = excluded.filter_map(|other| self.fences[other as usize]).all(|earlier| earlier < fence);
        let largest = &mut self.fences[mode as usize];
        *largest = (*largest).max(Some(fence));
        rises
    }

    pub(super) fn note_request(&mut self, site: SiteId, mode: Mode) {
        self.modes[site.index()] = mode;
        self.upgrading.remove(site);
    }

    pub(super) fn mode(&self, site: SiteId) -> Mode {
        self.modes[site.index()]
    }

    pub(super) fn is_upgrading(&self, site: SiteId) -> bool {
        self.upgrading.contains(site)
    }

    /// Forgets that the process of `site` waits to be exclusive: it has left, or failed.
    pub(super) fn end(&mut self, site: SiteId) {
        self.upgrading.remove(site);
    }
}

impl<A: Algorithm> World<A> {
    /// Lets processes ask for this from now on, beside what they might before, if the algorithm knows it with the options
    /// `values` of this world.
    pub fn demanding(mut self, values: &Values, demands: &[Demand]) -> Result<Self, PlanError> {
        for &demand in demands {
            check_demand(self.cluster, values, demand)?;
            if !self.sharing.demands.contains(&demand) {
                self.sharing.demands.push(demand);
            }
        }
        Ok(self)
    }

    /// What processes may ask for.
    pub fn demands(&self) -> &[Demand] {
        &self.sharing.demands
    }

    /// The mode in which the process at `site` waits or is inside.
    pub fn mode(&self, site: SiteId) -> Mode {
        self.sharing.mode(site)
    }

    /// Whether the process at `site` is inside and waits to be exclusive.
    pub fn is_upgrading(&self, site: SiteId) -> bool {
        self.sharing.is_upgrading(site)
    }

    /// Lets the process at `site` request.
    pub fn request_as(&mut self, site: SiteId, demand: Demand) -> Vec<Effect<A::Message>> {
        assert!(self.is_idle(site), "{site} requests only while idle");
        self.note_request(site, demand);
        self.step(site, |machine, out| machine.request_as(demand, out))
    }

    /// Lets the process at `site` leave and request again in the same step.
    pub fn release_and_request_as(&mut self, site: SiteId, demand: Demand) -> Vec<Effect<A::Message>> {
        assert!(self.inside.remove(site), "{site} releases only while inside");
        self.note_request(site, demand);
        self.step(site, |machine, out| machine.release_and_request_as(demand, out))
    }

    /// Lets the process at `site` change its mode without leaving.
    pub fn change_mode(&mut self, site: SiteId, to: Mode) -> Vec<Effect<A::Message>> {
        assert!(self.can_change(site, to), "{site} cannot become {to} now");
        if to == Mode::Exclusive {
            self.sharing.upgrading.insert(site);
        } else {
            self.sharing.modes[site.index()] = to;
        }
        self.step(site, |machine, out| machine.change_mode(to, out))
    }

    /// Whether the process at `site` can change its mode to this one now.
    pub fn can_change(&self, site: SiteId, to: Mode) -> bool {
        self.inside.contains(site) && !self.is_upgrading(site) && self.mode(site).may_become(to)
    }

    /// The changes of mode that are possible now, to modes that processes ask for in this run.
    pub fn changes(&self) -> impl Iterator<Item = Action> {
        let asked = |to: &Mode| self.sharing.demands.iter().any(|demand| demand.mode == *to);
        self.inside.iter().flat_map(move |site| {
            let able = move |to: &Mode| self.can_change(site, *to) && asked(to);
            Mode::ALL.into_iter().filter(able).map(move |to| Action::ChangeMode(site, to))
        })
    }

    fn note_request(&mut self, site: SiteId, demand: Demand) {
        assert!(
            self.sharing.demands.contains(&demand),
            "{site} asks for {demand}, which this run does not have"
        );
        self.asked[site.index()] = Some(self.steps);
        self.sharing.note_request(site, demand.mode);
    }

    /// The process at `site` is exclusive from now on.
    pub(super) fn upgrade(&mut self, site: SiteId) {
        if !self.sharing.upgrading.remove(site) {
            return self.report(Violation::UpgradedUnasked { site });
        }
        self.sharing.modes[site.index()] = Mode::Exclusive;
        let fence = self.clocks[site.index()].enter();
        if !self.sharing.note_fence(Mode::Exclusive, fence) {
            self.report(Violation::FenceFellBack { site, slot: crate::Slot::default() });
        }
    }

    /// Checks that those inside may be there together, and that they agree with their sites about their modes.
    pub(super) fn examine_modes(&self) -> Result<(), Violation> {
        let (inside, permits) = (self.inside.len(), self.cluster.permits);
        let is_exclusive = |site: SiteId| self.mode(site) == Mode::Exclusive;
        if inside > permits && (permits > 1 || self.inside.iter().all(is_exclusive)) {
            return Err(Violation::TooManyInside { inside, permits });
        }
        for site in self.inside.iter().filter(|_| permits == 1) {
            let excludes = |other: &SiteId| *other > site && !self.mode(site).admits(self.mode(*other));
            if let Some(other) = self.inside.iter().find(excludes) {
                let modes = (self.mode(site), self.mode(other));
                return Err(Violation::Excluded { site, mode: modes.0, other, beside: modes.1 });
            }
        }
        for site in SiteId::all(self.cluster.sites).filter(|&site| self.is_up(site) && !self.is_idle(site)) {
            let machine = self.site(site);
            let is_upgrading = self.is_upgrading(site);
            let (reported, real) = (machine.mode(), self.mode(site));
            let shares = machine.may_share() && (is_exclusive(site) || is_upgrading || self.is_waiting(site));
            if reported != real || machine.is_upgrading() != is_upgrading || shares {
                return Err(Violation::WrongMode { site, reported, real });
            }
        }
        Ok(())
    }
}
