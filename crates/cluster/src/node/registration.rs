//! Voter registration: why a voter that has lost its disk does not vote again.
//!
//! A vote, or an acknowledged entry, binds the voter: it is on its disk before anyone else knows of it. A voter whose
//! disk was lost or replaced does not know what it is bound by, and must not bind itself to anything else. A disk is told apart from
//! another one of the same site by the first incarnation that wrote to it. So the rule is: *no id of a voter is used with two disks.*
//!
//! **Voters that were admitted later.** The entry that gives an id to a site names the disk, and no entry gives the same id again
//! (`membership/voters.rs`). The site acts under the id only with that disk, and only after it has written on that disk that it does
//! (`voting.rs`). A site that has lost its disk has another one, and is another voter: nothing else is needed.
//!
//! **First voters** have ids that the founding gives them, without disks. At the first start of a cluster every disk is empty, and an empty
//! disk cannot tell that it is not the first. So the other first voters remember it. Before its first vote a first voter *registers*:
//!
//! ```text
//!  voter                          every other first voter
//!   ── Register { disk } ──────▶  records that this is the voter's disk, unless it has recorded another one, or knows who votes and
//!                                 the voter is none any more or has another disk
//!   ◀── Registered { disk } ────  the disk that it has recorded
//! ```
//!
//! A first voter votes once enough others have recorded its disk, and never with a disk for which one of them has recorded
//! another one. In that case it is still a member like a site that does not vote, answers others that register, and the leader may
//! admit it under another id.
//!
//! **How many are enough.** Let the founding name n sites, m = n−1 be the others, and f the largest minority of n: the number of
//! lost disks that agreement survives. With s = ⌈(m+f)/2⌉ any two sets of s others have at least 2s−m ≥ f in common.
//! *Why.* Suppose that a first voter has voted with one disk and is about to vote with another. Then s others had recorded
//! the first one, and s others have recorded the second. Every site that is in both sets has lost its own disk in
//! between, and did not know who votes when it recorded the second: it had heard nothing of the cluster since its disk was lost. Those are f,
//! and the voter itself is one more.
//! - *As long as the first voters vote*, more than f of them have lost their disks, and with them the cluster.
//! - *After the voters have changed* that need not be so, because lost disks were replaced one by one. But then a site that has heard from the
//!   cluster refuses: the change before which a first voter was not bound to a disk yet has bound it to that one (`VoterChange::Settle`,
//!   `autopilot/records.rs`; no configuration other than the first has a voter without a disk), and voters and members know that. It takes the voter and f others of
//!   the founding's list that all start with empty disks and reach each other before any of them hears from a member.
//!
//! So for three voters all three must be up at the very first start, four of five, six of seven; later a majority is enough, as always. And
//! this remains with the operator: where all three sites of a founding of three (four of five, six of seven) are given empty
//! disks at the same time, they look like a first start and found the cluster again, also if it has moved to other sites meanwhile.
//!
//! *Why the first start needs nearly all voters.* With fewer, two sets of voters could each have begun without the other, after a disk was
//! lost: that is the inequality above. It is only the first start: a first voter that never came is replaced like one that is gone.
//!
//! If there is only one voter, nobody else can remember its disk: a cluster whose only voter loses its disk starts
//! from nothing.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use meshlock_protocol::Epoch;

use super::packet::Content;
use super::{Node, NodeOutput, Note, Purpose};
use crate::membership::Membership;
use crate::membership::disk::{Disk, DiskWrite, Registrations};
use crate::mutant::{self, Mutant};
use crate::names::{Incarnation, SiteName};

/// What this site knows of the voters' disks: its own and the others'.
#[derive(Clone, Debug)]
pub(super) struct VoterRegistration {
    /// What the disk will contain once all writes that were handed out are done.
    registrations: Registrations,
    /// The voters whose registrations are still being written.
    writing: BTreeSet<SiteName>,
    others: Vec<SiteName>,
    /// Other voters that have asked to record another disk than the recorded one: they do not vote any more.
    replaced: BTreeSet<SiteName>,
    phase: Phase,
    /// How often it has asked the others.
    asked: u32,
}

/// Number of unanswered attempts after which the node reports, again each time, which voters it waits for.
const ATTEMPTS_PER_REPORT: u32 = 50;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// It is not one of the voters.
    Bystander,
    /// These others have recorded its disk.
    Registers(BTreeSet<SiteName>),
    Votes,
    /// Its disk is not the registered one.
    Refused,
}

/// Returns how many others must have recorded a voter's disk before it votes.
pub(super) fn enough(voters: usize) -> usize {
    let (others, minority) = (voters.saturating_sub(1), voters.saturating_sub(1) / 2);
    (others + minority).div_ceil(2)
}

impl VoterRegistration {
    /// Returns the registration state of this site from its disk; `incarnation` is the one that begins.
    pub(super) fn new(site: &SiteName, voters: &[SiteName], disk: &Disk, incarnation: Incarnation) -> Self {
        let first = Registrations { disk: incarnation, may_vote: false, others: BTreeMap::new() };
        let registrations = disk.registrations.clone().unwrap_or(first);
        let phase = if !voters.contains(site) {
            Phase::Bystander
        } else if disk.voter_id.is_some() {
            Phase::Refused
        } else if registrations.may_vote || enough(voters.len()) == 0 {
            Phase::Votes
        } else {
            Phase::Registers(BTreeSet::new())
        };
        let others = voters.iter().filter(|voter| *voter != site).cloned().collect();
        let (writing, replaced) = (BTreeSet::new(), BTreeSet::new());
        VoterRegistration { registrations, writing, others, replaced, phase, asked: 0 }
    }

    /// Returns whether this site votes.
    pub(super) fn may_vote(&self) -> bool {
        self.phase == Phase::Votes
    }

    /// Returns whether this voter, which may be this site, is known not to vote because its disk was replaced.
    pub(super) fn is_replaced(&self, site: &SiteName) -> bool {
        let is_other = self.others.contains(site);
        if is_other { self.replaced.contains(site) } else { self.phase == Phase::Refused }
    }

    /// Gives up becoming the first voter that the founding names: this disk is another voter's.
    pub(super) fn give_up(&mut self) {
        if self.phase != Phase::Bystander {
            self.phase = Phase::Refused;
        }
    }

    /// Returns the disks of other first voters that are recorded here.
    pub(super) fn known(&self) -> &BTreeMap<SiteName, Incarnation> {
        &self.registrations.others
    }

    /// Returns what the first start writes to the disk.
    pub(super) fn registrations(&self) -> Registrations {
        self.registrations.clone()
    }
}

impl Node {
    /// Returns this site's disk, by the first incarnation that wrote to it.
    pub(super) fn disk(&self) -> Incarnation {
        self.registration.registrations.disk
    }

    /// Returns the disk with which the site is known to vote under the id that the founding gives it, if it is known not to vote with
    /// `disk` under that id.
    fn other_disk(&self, site: &SiteName, disk: Incarnation) -> Option<Incarnation> {
        let first = self.founding.of_site(site)?;
        match self.voters.by_id(first.id) {
            Some(voter) => voter.disk.filter(|bound| *bound != disk),
            // It votes under another id, or not at all: then there is no such disk.
            None => Some(self.voters.of_site(site).and_then(|voter| voter.disk).unwrap_or_default()),
        }
    }

    /// Reacts to news of who votes: this site may not act as a first voter if that one has another disk, and need not try if there is no
    /// such voter any more.
    pub(super) fn check_registration(&mut self, out: &mut Vec<NodeOutput>) {
        let disk = self.disk();
        let is_open = matches!(self.registration.phase, Phase::Registers(_) | Phase::Votes);
        let Some(first) = self.founding.of_site(&self.me.site).filter(|_| is_open) else { return };
        let (id, has_dropped) = (first.id, self.voters.has_dropped(first.id));
        let Some(known) = self.other_disk(&self.me.site, disk) else { return };
        if has_dropped && self.registration.phase == Phase::Votes {
            // Its machine goes on for a while, without asking for votes.
            return;
        }
        self.registration.phase = Phase::Refused;
        if has_dropped {
            return out.push(NodeOutput::Note(Note::VotesNoMore { id }));
        }
        self.membership.take_if(|membership| membership.id() == id);
        let by = self.me.site.clone();
        out.push(NodeOutput::Note(Note::DiskReplaced { by, known, disk }));
    }

    /// Asks those others that have not answered yet to record this site's disk, if that is still needed.
    pub(super) fn register(&mut self, out: &mut Vec<NodeOutput>) {
        let Phase::Registers(known) = &self.registration.phase else { return };
        if !self.may_send {
            return;
        }
        let disk = self.registration.registrations.disk;
        let asked: Vec<SiteName> =
            self.registration.others.iter().filter(|site| !known.contains(*site)).cloned().collect();
        self.registration.asked = self.registration.asked.wrapping_add(1);
        if self.registration.asked.is_multiple_of(ATTEMPTS_PER_REPORT) {
            out.push(NodeOutput::Note(Note::FirstStartWaits { silent: asked.clone() }));
        }
        for site in asked {
            self.send(site, Content::Register { disk }, out);
        }
    }

    /// Handles another voter's request to record its disk. It is answered when the record is on disk here.
    pub(super) fn on_register(&mut self, from: SiteName, disk: Incarnation, out: &mut Vec<NodeOutput>) {
        if self.registration.phase == Phase::Bystander || !self.registration.others.contains(&from) {
            return Node::misbehaved(from, "registers a disk, though one of us does not vote", out);
        }
        if !self.may_send {
            return;
        }
        if self.registration.writing.contains(&from) {
            return;
        }
        if let Some(other) = self.other_disk(&from, disk) {
            self.registration.replaced.insert(from.clone());
            return self.send(from, Content::Registered { disk: other }, out);
        }
        if let Some(recorded) = self.registration.registrations.others.get(&from).copied() {
            if recorded == disk {
                self.registration.replaced.remove(&from);
            } else {
                self.registration.replaced.insert(from.clone());
            }
            return self.send(from, Content::Registered { disk: recorded }, out);
        }
        let may_have_floor = self.config.first_epoch.number() > 1 && self.view.epoch > Epoch::default();
        if may_have_floor && !self.knows_floors(&from) {
            // Its program would not read the first view if that has an epoch of its own, and begin with another one.
            let why = "registers its disk with a program that does not know fence floors, in a cluster that has begun: upgrade it";
            return Node::doubt(from, why, out);
        }
        self.registration.writing.insert(from.clone());
        self.registration.registrations.others.insert(from.clone(), disk);
        self.persist(
            vec![DiskWrite::Registrations(self.registration.registrations())],
            Purpose::Registered(from),
            out,
        );
    }

    /// Reacts to the record of the disk of `site` being written.
    pub(super) fn on_written_down(&mut self, site: SiteName, out: &mut Vec<NodeOutput>) {
        self.registration.writing.remove(&site);
        if let Some(disk) = self.registration.registrations.others.get(&site).copied() {
            self.send(site, Content::Registered { disk }, out);
        }
    }

    /// Handles another voter's answer that it has recorded this disk for this site.
    pub(super) fn on_registered(&mut self, from: SiteName, disk: Incarnation, out: &mut Vec<NodeOutput>) {
        if !self.registration.others.contains(&from) {
            return Node::misbehaved(from, "has recorded a disk, though it does not vote", out);
        }
        let needed = enough(self.registration.others.len() + 1);
        let mine = self.registration.registrations.disk == disk || mutant::is_on(Mutant::LostDiskVotes);
        let Phase::Registers(known) = &mut self.registration.phase else { return };
        if !mine {
            self.registration.phase = Phase::Refused;
            let note =
                Note::DiskReplaced { by: from, known: disk, disk: self.registration.registrations.disk };
            return out.push(NodeOutput::Note(note));
        }
        known.insert(from);
        if known.len() >= needed {
            self.registration.phase = Phase::Votes;
            // What a voter promises is written after this, and sent only when it is written.
            self.registration.registrations.may_vote = true;
            self.persist(
                vec![DiskWrite::Registrations(self.registration.registrations())],
                Purpose::Record,
                out,
            );
            self.membership = self.as_voter(Disk::default());
        }
    }

    /// Returns this site's voter with the state of its disk, if it has one.
    pub(super) fn as_voter(&self, disk: Disk) -> Option<Membership> {
        let config = &self.config;
        let first = self.founding.of_site(&self.me.site).filter(|_| self.registration.may_vote());
        let id = self.voter_id.or(first.map(|voter| voter.id))?;
        let (seed, max_log_entries) = (config.seed ^ self.me.incarnation.number(), config.max_log_entries);
        Some(Membership::start(self.founding.clone(), id, disk, config.pace, max_log_entries, seed))
    }
}
