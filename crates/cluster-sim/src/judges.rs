//! What a node says, held against what must be.

use super::client::Asked;
use super::coverage::Rare;
use super::event::Event;
use super::properties::exclusion::Grant;
use super::properties::{Verdict, sound};
use super::world::World;
use meshlock_cluster::node::{ClientAnswer, LockQueue, Note};
use meshlock_cluster::rules::Rules;
use meshlock_cluster::table::LockEvent;
use meshlock_cluster::view::View;

impl World {
    pub(super) fn note(&mut self, machine: usize, note: Note) -> Verdict {
        sound::on_note(machine, &note, self.now)?;
        self.trace.note(self.now, machine, &note);
        match note {
            Note::Installed(view) => {
                self.coverage.saw(Rare::ViewInstalled);
                self.machines[machine].installed = Some(view.epoch);
                self.agreement.on_installed(machine, &view, self.now)?;
                self.leases.on_installed(&view, self.now)?;
                self.on_newest(view);
            }
            Note::Opened(_) => self.coverage.saw(Rare::ViewOpened),
            Note::Excluded { .. } => self.coverage.saw(Rare::Excluded),
            Note::Granted(member) => self.leases.on_granted(machine, member, self.now),
            Note::Proposed(view) => {
                self.coverage.saw(Rare::ViewProposed);
                let node = self.machines[machine].node.as_ref().expect("it proposes");
                let last = node.view().clone();
                self.leases.on_proposed(machine, &last, &view, self.now)?;
            }
            Note::Leads(_) => {
                self.coverage.saw(Rare::LeaderElected);
                self.leases.on_leads(machine, self.now);
            }
            Note::GaveUp(member) => self.leases.on_gave_up(member),
            Note::OtherCluster { .. } => self.coverage.saw(Rare::OtherCluster),
            Note::DiskReplaced { .. } => {
                self.coverage.saw(Rare::VoterWithoutDisk);
                return sound::on_replaced(machine, self.machines[machine].lost_disk, self.now);
            }
            Note::OtherTerms { .. } => self.coverage.saw(Rare::OtherTerms),
            Note::TooOld(_) => self.coverage.saw(Rare::TooOld),
            Note::FirstStartWaits { .. }
            | Note::EpochsExhausted
            | Note::Misbehaved { .. }
            | Note::CannotOpen { .. } => {}
        }
        Ok(())
    }

    /// What a view brings that nobody had installed before: its rules, and who has come in.
    fn on_newest(&mut self, view: View) {
        if view.epoch <= self.newest.epoch {
            return;
        }
        if let Ok(rules) = Rules::new(view.rules.clone()) {
            self.rules.insert(view.epoch, rules);
        }
        for member in view.members.iter().filter(|member| !self.newest.contains(member)) {
            let known = self.newest.member(&member.site).is_some()
                || self.newest.past.iter().any(|past| past.site == member.site);
            self.coverage.saw(if known { Rare::JoinedAgain } else { Rare::Joined });
            let machine = self.names.iter().position(|name| *name == member.site);
            if machine.is_some_and(|machine| std::mem::take(&mut self.machines[machine].is_out)) {
                self.coverage.saw(Rare::Rejoined);
            }
        }
        self.newest = view;
    }

    /// A node answers a client: what that means is checked now, and the client hears it a little later.
    pub(super) fn answer(&mut self, machine: usize, answer: ClientAnswer) -> Verdict {
        let process = match &answer {
            ClientAnswer::Lock(tell) => {
                self.judge(machine, tell)?;
                self.whom(tell)
            }
            ClientAnswer::RulesSet { .. } => {
                self.coverage.saw(Rare::RulesSet);
                None
            }
            ClientAnswer::RulesRefused { .. } => {
                self.coverage.saw(Rare::RulesRefused);
                None
            }
            ClientAnswer::Left { .. } => {
                self.coverage.saw(Rare::Left);
                self.machines[machine].is_out = true;
                None
            }
            ClientAnswer::Queue { queue: LockQueue { missing, .. }, .. } => {
                self.coverage.saw(if missing.is_empty() { Rare::Queue } else { Rare::QueueInPart });
                None
            }
            ClientAnswer::Broken { cut_off, .. } => {
                self.coverage.saw(if cut_off.is_empty() { Rare::NothingToTake } else { Rare::TakenAway });
                None
            }
            ClientAnswer::Overview { .. }
            | ClientAnswer::Locks { .. }
            | ClientAnswer::Leaves { .. }
            | ClientAnswer::Traced { .. } => None,
        };
        let Some(process) = process else { return Ok(()) };
        let Some(session) = self.processes[process].session else { return Ok(()) };
        let delay = self.within(500);
        let at = self.now.after(delay).max(self.processes[process].last_told);
        self.processes[process].last_told = at;
        self.at(at, Event::Told { process, session, answer });
        Ok(())
    }

    fn judge(&mut self, machine: usize, tell: &LockEvent) -> Verdict {
        match *tell {
            LockEvent::Granted { request, fence, slot, lease_end, .. } => {
                self.coverage.saw(Rare::Granted);
                // One step may grant and then install another view: what counts is what the node had said before.
                let Asked { lock, session, .. } =
                    self.asked.get(&request).cloned().expect("only what was asked for is granted");
                let installed = self.machines[machine].installed;
                let rules = installed.and_then(|epoch| self.rules.get(&epoch));
                let permits = rules.map_or(0, |rules| rules.rule(&lock).permits as usize);
                if permits > 1 {
                    self.updates.exempt(&lock);
                }
                let heard = self.who_asked(request).is_some();
                let grant =
                    Grant { request, session, lock: &lock, machine, until: lease_end, permits, heard };
                self.exclusion.on_granted(grant, self.now)?;
                self.fences.on_granted(&lock, machine, slot, fence, self.now)?;
                self.trace.entered(self.now, machine, &lock, fence);
            }
            LockEvent::Extended { session, lease_end } => {
                self.coverage.saw(Rare::Extended);
                self.exclusion.on_extended(session, lease_end, self.now)?;
            }
            LockEvent::Lost { request, act_by, .. } => {
                self.coverage.saw(Rare::Lost);
                self.exclusion.on_lost(request, act_by);
            }
            LockEvent::Released { request } => self.exclusion.on_left(request),
            LockEvent::Cancelled { .. } => self.coverage.saw(Rare::Cancelled),
            LockEvent::TimedOut { .. } => self.coverage.saw(Rare::TimedOut),
            LockEvent::Busy { .. } => self.coverage.saw(Rare::Busy),
            LockEvent::Refused { .. } => self.coverage.saw(Rare::Refused),
        }
        Ok(())
    }
}
