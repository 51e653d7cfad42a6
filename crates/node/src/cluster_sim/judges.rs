//! What a node says, held against what must be.

use super::event::Event;
use super::properties::exclusion::Grant;
use super::properties::{Verdict, sound};
use super::world::World;
use crate::node::{Answer, Note};
use crate::rules::Rules;
use crate::table::{Request, Tell};

impl World {
    pub(super) fn note(&mut self, machine: usize, note: Note) -> Verdict {
        sound::on_note(machine, &note, self.now)?;
        self.trace.note(self.now, machine, &note);
        match note {
            Note::Installed(view) => {
                self.coverage.count("view installed");
                self.machines[machine].rules = Rules::new(view.rules.clone()).ok();
                self.leases.on_installed(&view, self.now)?;
            }
            Note::Opened(_) => self.coverage.count("view opened"),
            Note::Excluded { .. } => self.coverage.count("found itself excluded"),
            Note::Granted(member) => self.leases.on_granted(machine, member, self.now),
            Note::Proposed(view) => {
                self.coverage.count("view proposed");
                let node = self.machines[machine].node.as_ref().expect("it proposes");
                let last = node.view().clone();
                if last.epoch.number() + 1 == view.epoch.number() {
                    self.leases.on_proposed(machine, &last, &view, self.now)?;
                }
            }
            Note::Leads(_) => {
                self.coverage.count("leader elected");
                self.leases.on_leads(machine, self.now);
            }
            Note::GaveUp(member) => self.leases.on_gave_up(member),
            Note::Misbehaved { .. } | Note::CannotOpen { .. } => {}
        }
        Ok(())
    }

    /// A node answers a client: what that means is checked now, and the client hears it a little later.
    pub(super) fn answer(&mut self, machine: usize, answer: Answer) -> Verdict {
        let client = match &answer {
            Answer::Lock(tell) => {
                self.judge(machine, tell)?;
                self.whose(machine, tell)
            }
            Answer::RulesSet { .. } => {
                self.coverage.count("rules set");
                None
            }
            Answer::RulesRefused { .. } => {
                self.coverage.count("rules refused");
                None
            }
            Answer::Left { .. } => {
                self.coverage.count("site left");
                None
            }
            Answer::Status { .. } => None,
        };
        let Some(client) = client else { return Ok(()) };
        let Some(session) = self.clients[client].session else { return Ok(()) };
        let delay = self.within(500);
        let at = self.now.after(delay).max(self.clients[client].last_told);
        self.clients[client].last_told = at;
        self.at(at, Event::Told { client, session, answer });
        Ok(())
    }

    fn judge(&mut self, machine: usize, tell: &Tell) -> Verdict {
        match *tell {
            Tell::Granted { request, fence, slot, lease_end, .. } => {
                self.coverage.count("granted");
                // One step may grant and then install another view: what counts is what the node had said before.
                let lock = self.asked.get(&request).cloned().expect("only what was asked for is granted");
                let rules = self.machines[machine].rules.as_ref();
                let permits = rules.map_or(0, |rules| rules.rule(&lock).permits as usize);
                if permits > 1 {
                    self.updates.exempt(&lock);
                }
                let heard = self.whose(machine, tell).is_some();
                let grant = Grant { request, lock: &lock, machine, until: lease_end, permits, heard };
                self.exclusion.on_granted(grant, self.now)?;
                self.fences.on_granted(&lock, machine, slot, fence, self.now)?;
                self.trace.entered(self.now, machine, &lock, fence);
            }
            Tell::Extended { session, lease_end } => {
                let node = self.machines[machine].node.as_ref().expect("it speaks");
                let held = node.table().holders().filter(|(of, ..)| *of == session);
                let held: Vec<Request> = held.map(|(_, request, _)| request).collect();
                self.exclusion.on_extended(held.into_iter(), lease_end, self.now)?;
            }
            Tell::Lost { request, act_by } => {
                self.coverage.count("told that it has lost");
                self.exclusion.on_lost(request, act_by);
            }
            Tell::Released { request } => self.exclusion.on_left(request),
            Tell::Cancelled { .. } => self.coverage.count("cancelled"),
            Tell::TimedOut { .. } => self.coverage.count("timed out"),
            Tell::Busy { .. } => self.coverage.count("busy"),
            Tell::Refused { .. } => self.coverage.count("refused"),
        }
        Ok(())
    }
}
