//! Why a voter that has lost its disk does not vote again.
//!
//! A vote, or an acknowledged entry, binds the voter: it is on its disk before anyone hears of it. A voter whose disk was
//! lost or replaced does not know what it is bound by, and must not bind itself to anything else. But at the first start of a
//! cluster every disk is empty, and an empty disk cannot tell that it is not the first. So others remember it. A disk is told
//! from another one of the same site by the incarnation that wrote to it first, and before its first vote a voter *registers*:
//!
//! ```text
//!  voter                          every other voter
//!   ── Register { disk } ──────▶  writes down that this is the voter's disk, unless it has written down another one
//!   ◀── Registered { disk } ────  what it has in writing
//! ```
//!
//! It votes once enough others have its disk in writing, and never with a disk for which one of them has another in writing.
//! It then still is a member like a site that does not vote, and answers others that register.
//!
//! **How many are enough.** Let n sites vote, m = n−1 be the others, and f the largest minority of n: the number of lost disks
//! that agreement survives. With s = ⌈(m+f)/2⌉ any two sets of s others have at least 2s−m ≥ f in common. *Why.* Say that a
//! voter has voted with one disk and comes to vote with another. Then s others had the first one in writing, and s others
//! have the second; whoever is in both has lost its own disk in between. Those are f, and the voter itself is one more: more
//! than f disks were lost, and with them the cluster. So for three voters all three must be up at the very first start, four of
//! five, six of seven; later a majority is enough, as ever.
//!
//! Where no other site votes nobody can remember: a cluster whose only voter loses its disk begins anew.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::packet::Content;
use super::{Node, Note, Output, Purpose};
use crate::membership::Membership;
use crate::membership::disk::{Disk, Registrations, Write};
use crate::mutant::{self, Mutant};
use crate::names::{Incarnation, SiteName};

/// What this site knows of voters' disks: its own and the others'.
#[derive(Clone, Debug)]
pub(super) struct VoterRegistration {
    /// What the disk will have once all that was handed to it is written.
    registrations: Registrations,
    /// Those of the others' disks that are still being written down.
    writing: BTreeSet<SiteName>,
    /// The other voters.
    others: Vec<SiteName>,
    phase: Phase,
    /// How often it has asked the others.
    asked: u32,
}

/// Every so many times that a voter has asked in vain it is said for whom it waits.
const ASKED_IN_VAIN: u32 = 50;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// It was never to vote.
    Bystander,
    /// These others have its disk in writing.
    Registers(BTreeSet<SiteName>),
    /// It votes.
    Sworn,
    /// Its disk is not the first one.
    Refused,
}

/// How many others must have a voter's disk in writing before it votes.
fn enough(voters: usize) -> usize {
    let (others, minority) = (voters.saturating_sub(1), voters.saturating_sub(1) / 2);
    (others + minority).div_ceil(2)
}

impl VoterRegistration {
    /// Of this site, with what its disk has; `incarnation` is the one that begins.
    pub(super) fn new(site: &SiteName, voters: &[SiteName], disk: &Disk, incarnation: Incarnation) -> Self {
        let first = Registrations { disk: incarnation, sworn: false, roll: BTreeMap::new() };
        let registrations = disk.registrations.clone().unwrap_or(first);
        let phase = if !voters.contains(site) {
            Phase::Bystander
        } else if registrations.sworn || enough(voters.len()) == 0 {
            Phase::Sworn
        } else {
            Phase::Registers(BTreeSet::new())
        };
        let others = voters.iter().filter(|voter| *voter != site).cloned().collect();
        VoterRegistration { registrations, writing: BTreeSet::new(), others, phase, asked: 0 }
    }

    /// Whether this site votes.
    pub(super) fn is_sworn(&self) -> bool {
        self.phase == Phase::Sworn
    }

    /// What the first start writes down.
    pub(super) fn registrations(&self) -> Registrations {
        self.registrations.clone()
    }
}

impl Node {
    /// Asks those others that have not answered yet to write this site's disk down, if it still has to.
    pub(super) fn register(&mut self, out: &mut Vec<Output>) {
        let Phase::Registers(known) = &self.registration.phase else { return };
        if !self.may_speak {
            return;
        }
        let disk = self.registration.registrations.disk;
        let asked: Vec<SiteName> =
            self.registration.others.iter().filter(|site| !known.contains(*site)).cloned().collect();
        self.registration.asked = self.registration.asked.wrapping_add(1);
        if self.registration.asked.is_multiple_of(ASKED_IN_VAIN) {
            out.push(Output::Note(Note::FirstStartWaits { silent: asked.clone() }));
        }
        for site in asked {
            self.send(site, Content::Register { disk }, out);
        }
    }

    /// Another voter asks to have its disk written down. It is answered when that is on disk here.
    pub(super) fn on_register(&mut self, from: SiteName, disk: Incarnation, out: &mut Vec<Output>) {
        if self.registration.phase == Phase::Bystander || !self.registration.others.contains(&from) {
            return Node::misbehaved(from, "registers a disk, though one of us does not vote", out);
        }
        if !self.may_speak {
            return;
        }
        if self.registration.writing.contains(&from) {
            return;
        }
        if let Some(disk) = self.registration.registrations.roll.get(&from).copied() {
            return self.send(from, Content::Registered { disk }, out);
        }
        self.registration.writing.insert(from.clone());
        self.registration.registrations.roll.insert(from.clone(), disk);
        self.persist(
            vec![Write::Registrations(self.registration.registrations())],
            Purpose::Registered(from),
            out,
        );
    }

    /// The disk of `site` is in writing now.
    pub(super) fn on_written_down(&mut self, site: SiteName, out: &mut Vec<Output>) {
        self.registration.writing.remove(&site);
        if let Some(disk) = self.registration.registrations.roll.get(&site).copied() {
            self.send(site, Content::Registered { disk }, out);
        }
    }

    /// Another voter has this disk of this site in writing.
    pub(super) fn on_registered(&mut self, from: SiteName, disk: Incarnation, out: &mut Vec<Output>) {
        if !self.registration.others.contains(&from) {
            return Node::misbehaved(from, "has a disk in writing, though it does not vote", out);
        }
        let needed = enough(self.registration.others.len() + 1);
        let mine = self.registration.registrations.disk == disk || mutant::is_on(Mutant::LostDiskVotes);
        let Phase::Registers(known) = &mut self.registration.phase else { return };
        if !mine {
            self.registration.phase = Phase::Refused;
            let note =
                Note::DiskReplaced { by: from, known: disk, disk: self.registration.registrations.disk };
            return out.push(Output::Note(note));
        }
        known.insert(from);
        if known.len() >= needed {
            self.registration.phase = Phase::Sworn;
            // What a voter promises is written behind this, and said only when it is written.
            self.registration.registrations.sworn = true;
            self.persist(vec![Write::Registrations(self.registration.registrations())], Purpose::Record, out);
            self.membership = self.as_voter(Disk::default());
        }
    }

    /// This site as a voter, if it votes, with what its disk remembers of that.
    pub(super) fn as_voter(&self, disk: Disk) -> Option<Membership> {
        let (config, voters) = (&self.config, &self.voters);
        let place = voters.iter().position(|voter| *voter == self.me.site)?;
        let (seed, longest_log) = (config.seed ^ self.me.incarnation.number(), config.longest_log);
        let sworn = self.registration.is_sworn();
        sworn.then(|| Membership::start(voters.clone(), place, disk, config.pace, longest_log, seed))
    }
}
