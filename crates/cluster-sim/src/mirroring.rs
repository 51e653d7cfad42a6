//! What drives the machines of `meshlock_mirror` at every site, as `crates/service/src/sessions/mirror` does for a node: sessions that end,
//! releases that are acknowledged, and sites that leave. `mirror_questions.rs` has the questions of mirrors and their answers,
//! `mirror_effects.rs` the claims and the sessions that are adopted.

use super::coverage::Occurrence;
use super::event::Event;
use super::mirror_faults::MirrorPoint;
use super::properties::{CheckResult, PropertyViolation};
use super::site_sessions::SiteSessions;
use super::world::World;
use meshlock_cluster::access::Principal;
use meshlock_cluster::lease::Terms;
use meshlock_cluster::node::ClientCall;
use meshlock_cluster::time::{Span, Time};
use meshlock_mirror::{ClaimState, LOOK_EVERY, Mirror, MirrorEffect, Surroundings};

impl World {
    /// Begins with the sessions of a site's new process.
    pub(super) fn start_sessions(&mut self, machine: usize) -> CheckResult {
        if self.wire.all.is_empty() {
            return Ok(());
        }
        self.sites[machine] = SiteSessions::default();
        self.site_calls(machine, ClientCall::ServeCalls(true))?;
        self.look_again(machine, LOOK_EVERY);
        Ok(())
    }

    /// Forgets the sessions of a process that has ended.
    pub(super) fn lose_sessions(&mut self, machine: usize) {
        if let Some(site) = self.sites.get_mut(machine) {
            *site = SiteSessions::default();
        }
    }

    fn look_again(&mut self, machine: usize, after: Span) {
        let at = self.moment(machine, self.local(machine) + after);
        let incarnation = self.machines[machine].incarnation;
        self.at(at.max(self.now.after(1)), Event::SiteLook { machine, incarnation });
    }

    /// Lets a site look what is due, as it does at regular times.
    pub(super) fn on_site_look(&mut self, machine: usize, incarnation: u64) -> CheckResult {
        if self.machines[machine].incarnation != incarnation || self.machines[machine].node.is_none() {
            return Ok(());
        }
        self.step_site(machine)?;
        if self.machines[machine].node.is_some() {
            self.look_again(machine, LOOK_EVERY);
        }
        Ok(())
    }

    /// Lets a site look once what is due.
    pub(super) fn on_site_step(&mut self, machine: usize, incarnation: u64) -> CheckResult {
        if self.machines[machine].incarnation != incarnation || !self.runs(machine) {
            return Ok(());
        }
        self.step_site(machine)
    }

    /// Does everything that is due at a site.
    pub(super) fn step_site(&mut self, machine: usize) -> CheckResult {
        self.move_sessions(machine)?;
        self.expire_sessions(machine)?;
        self.look_at_source(machine)?;
        self.ask_sources(machine)?;
        self.answer_held(machine)?;
        self.end_cleared(machine)?;
        self.acknowledge_releases(machine);
        Ok(())
    }

    pub(super) fn runs(&self, machine: usize) -> bool {
        self.machines[machine].node.is_some()
    }

    pub(super) fn is_frozen(&self, machine: usize) -> bool {
        self.machines[machine].frozen
    }

    /// Returns the terms of leases that were agreed on, as a site knows them.
    pub(super) fn agreed_terms(&self, machine: usize) -> Terms {
        self.machines[machine].node.as_ref().map_or(self.settings.terms, |node| node.lease().terms())
    }

    /// Returns for how long after an answer a mirror may count on it, on the site's clock.
    pub(super) fn mirror_window(&self, machine: usize) -> Span {
        let terms = self.agreed_terms(machine);
        terms.drift.stretch(terms.resume_window())
    }

    /// Lets a site that leaves say so, and forget what its mirror answers for.
    fn move_sessions(&mut self, machine: usize) -> CheckResult {
        if !self.is_frozen(machine) || !self.runs(machine) {
            return Ok(());
        }
        let site = &mut self.sites[machine];
        if !std::mem::replace(&mut site.has_told_leaving, true) {
            site.source.on_leaving();
        }
        for lease in site.source.moved().unwrap_or_default() {
            let site = &mut self.sites[machine];
            let session = site.all.remove(&lease);
            site.source.on_change(lease);
            site.source.on_moved(lease);
            let Some(key) = session.and_then(|session| session.key) else { continue };
            self.coverage.record(Occurrence::SessionMoved);
            self.exclusion.on_moved(key.request);
            self.site_calls(machine, ClientCall::SessionEnded(key.session))?;
        }
        Ok(())
    }

    /// Ends the sessions whose time is up, without their clients' word.
    fn expire_sessions(&mut self, machine: usize) -> CheckResult {
        let now = self.local(machine);
        let over = self.sites[machine].all.iter().filter(|(_, session)| session.end <= now);
        for lease in over.map(|(lease, _)| *lease).collect::<Vec<_>>() {
            let site = &mut self.sites[machine];
            let session = site.all.remove(&lease);
            site.source.on_change(lease);
            let owed = site.source.owes_unasked(lease);
            let Some(key) = session.and_then(|session| session.key) else { continue };
            self.coverage.record(Occurrence::SessionExpired);
            self.on_mirrored(machine, MirrorPoint::Expired)?;
            match owed {
                Some(_) => self.sites[machine].ending.push((owed, now, key.session)),
                None => self.site_calls(machine, ClientCall::SessionEnded(key.session))?,
            }
        }
        Ok(())
    }

    /// Lets a fault strike that waits for what a site does with a session of which its mirror knows.
    pub(super) fn on_mirrored(&mut self, machine: usize, point: MirrorPoint) -> CheckResult {
        let Some(mirror) = self.sites[machine].source.mirror().map(|mirror| mirror.site.clone()) else {
            return Ok(());
        };
        self.on_mirror_point(point, &self.names[machine].clone(), &mirror)
    }

    /// Gives to others what has ended without its client's word, as soon as nobody counts on it.
    fn end_cleared(&mut self, machine: usize) -> CheckResult {
        let (now, window) = (self.local(machine), self.mirror_window(machine));
        let site = &mut self.sites[machine];
        let source = &site.source;
        let is_due = |(owed, by, _): &mut (Option<_>, Time, _)| {
            *by <= now && owed.is_none_or(|change| source.is_cleared(change, (now, window)))
        };
        let due: Vec<_> = site.ending.extract_if(.., is_due).collect();
        for (.., session) in due {
            self.site_calls(machine, ClientCall::SessionEnded(session))?;
        }
        Ok(())
    }

    fn acknowledge_releases(&mut self, machine: usize) {
        let now = self.local(machine);
        let site = &mut self.sites[machine];
        let source = &site.source;
        let due: Vec<_> =
            site.releases.extract_if(.., |(wait, ..)| wait.waits_until(source, now).is_none()).collect();
        for (wait, lease, key) in due {
            let is_known = wait.is_known(&self.sites[machine].source);
            self.acknowledge(lease, &key, is_known);
        }
    }

    /// Lets the mirror's machine decide something, and does what it asks for.
    pub(super) fn decide(
        &mut self,
        machine: usize,
        decide: impl FnOnce(&mut Mirror, &Surroundings<'_>, &mut Vec<MirrorEffect>) -> bool,
    ) -> Result<bool, PropertyViolation> {
        let (now, leaves, terms) = (self.local(machine), self.is_frozen(machine), self.agreed_terms(machine));
        let site = &mut self.sites[machine];
        let claims = |number| site.claims.get(&number).map_or(ClaimState::Pending, |claim| claim.state);
        let at = Surroundings { now, terms, leaves, claims: &claims, is_revoked: &|_: &Principal| false };
        let mut out = Vec::new();
        let decided = decide(&mut site.mirror, &at, &mut out);
        let process = self.machines[machine].incarnation;
        while !out.is_empty() {
            for effect in std::mem::take(&mut out) {
                self.perform_effect(machine, effect, &mut out)?;
                if !self.runs(machine) || self.machines[machine].incarnation != process {
                    return Ok(false);
                }
            }
        }
        Ok(decided)
    }

    /// Looks whether the member that a site mirrors is silent or gone.
    pub(super) fn look_at_source(&mut self, machine: usize) -> CheckResult {
        let Some(node) = &self.machines[machine].node else { return Ok(()) };
        let (view, me, site) = (node.view(), node.me(), &mut self.sites[machine]);
        if site.epoch != Some(view.epoch) {
            site.epoch = Some(view.epoch);
            let others = view.members.iter().filter(|member| *member != me).cloned().collect();
            site.mirror.on_view(&me.site, view.contains(me).then_some(others));
        }
        self.decide(machine, |mirror, at, out| {
            mirror.look(at, out);
            true
        })?;
        Ok(())
    }
}
