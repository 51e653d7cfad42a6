//! Membership: the voters agree on views, by Raft.
//!
//! The `raft` crate is itself a pure machine; this one drives it. Inputs are time as ticks, messages as
//! [`RaftMessage`], and completed disk writes as `RaftToken`s. The outputs are `MembershipOutput`.
//!
//! **Persist before send.** A vote, or the acknowledgement of entries, must not be sent before the disk has what it
//! promises. Such messages are not returned together with the writes that they depend on: they stay here until
//! `Membership::on_persisted` is called with the token of the writes. There is no other way to get them.
//!
//! **Randomness.** The crate draws its election timeout from the operating system's random numbers. Here its minimum
//! and maximum are one tick apart, so that the draw has only one outcome. The variation comes from elsewhere: every
//! voter has a timeout of its own, and after each election that it saw begin it stops its clock for a number of ticks
//! drawn from the seed that it was given.

pub mod access;
mod change;
pub mod disk;
pub mod message;
mod pump;
pub mod recovery;
mod sense;
#[cfg(test)]
mod tests;
pub mod voters;
mod writing;

use std::collections::{BTreeMap, VecDeque};

use raft::{RawNode, StateRole};

use crate::access::AgreedAccess;
use crate::mutant::{self, Mutant};
use crate::names::SiteName;
use crate::view::View;
use disk::{Disk, DiskWrite, Mirror};
use message::RaftMessage;
pub(crate) use sense::Implausible;
use voters::Voters;
use writing::Writing;

/// Maximum number of voters: with more, agreement only gets slower.
pub const MAX_VOTERS: usize = 7;

/// Maximum number of voters that are remembered because they sent something, though the log has not named them yet.
const MAX_PEERS: usize = 32;

/// Default maximum length of the log: a longer log is cut to half of it.
pub(crate) const MAX_LOG_ENTRIES: usize = 64;

/// Identifies a batch of writes until the disk has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RaftToken(pub(crate) u64);

/// A Raft term, which identifies a leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

/// The number of a confirmation of leadership.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Round(pub(crate) u64);

/// An effect that the membership machine asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MembershipOutput {
    /// Send this now; it depends on nothing that is not on disk.
    Send { to: SiteName, message: RaftMessage },
    /// Write these together, then call [`Membership::on_persisted`].
    Persist {
        /// The argument for that call.
        token: RaftToken,
        writes: Vec<DiskWrite>,
    },
    /// The voters have agreed on this view.
    Agreed(View),
    /// The voters have agreed on who votes from now on.
    VotersChanged(Voters),
    /// The voters have agreed on this access document.
    AccessAgreed(AgreedAccess),
    /// This site led after [`Membership::confirm`] was called for this round, and has applied all that was committed
    /// then.
    Confirmed(Round),
}

/// Intervals in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Interval between a leader's heartbeats.
    pub heartbeat: usize,
    /// A voter that receives nothing from a leader for at least this long asks for votes.
    pub election: usize,
}

/// One voter.
pub(crate) struct Membership {
    raw: RawNode<Mirror>,
    id: u64,
    /// Who votes, by the entries that are applied.
    voters: Voters,
    /// The sites of ids that have sent something to this voter. A learner hears from voters before it has the entries that name them.
    peers: BTreeMap<u64, SiteName>,
    view: View,
    /// The access document by the entries that are applied; `None` before the first one.
    access: Option<AgreedAccess>,
    applied: u64,
    /// The log is cut when it is longer than this.
    max_log_entries: usize,
    writing: Writing,
    /// Writes that nothing depends on; they go with the next batch.
    lazy: Vec<DiskWrite>,
    /// Confirmations that wait until this index is applied.
    confirmed: VecDeque<(u64, Round)>,
    draw: fastrand::Rng,
    pace: Pace,
    /// Whether another voter says that this one is none any more: it asks nobody for votes.
    is_retired: bool,
    /// Number of ticks for which this voter's clock still stands.
    handicap: usize,
    /// The term and role that the handicap was drawn for.
    seen: (u64, StateRole),
}

impl Membership {
    /// Starts the voter `id` from its disk. `founding` is the same at every site. The log need not name this voter yet: then it takes in what
    /// it is sent, and asks nobody for votes.
    pub(crate) fn start(
        founding: Voters,
        id: u64,
        disk: Disk,
        pace: Pace,
        max_log_entries: usize,
        seed: u64,
    ) -> Self {
        assert!(id != raft::INVALID_ID && founding.is_well_formed(), "one of at most {MAX_VOTERS} voters");
        // Different for the voters of one time, unless many have come and gone.
        let least = pace.election + usize::try_from((id - 1) % MAX_VOTERS as u64).unwrap_or(0);
        let config = raft::Config {
            id,
            election_tick: pace.election,
            heartbeat_tick: pace.heartbeat,
            applied: disk.saved.index,
            max_size_per_msg: 1 << 18,
            max_inflight_msgs: 16,
            check_quorum: true,
            pre_vote: true,
            min_election_tick: least,
            max_election_tick: least + 1,
            ..Default::default()
        };
        let (view, applied) = (disk.saved.view.clone(), disk.saved.index);
        let (voters, access) = (disk.saved.voters(&founding).clone(), disk.saved.access.clone());
        let mirror = Mirror { disk, founding, applied };
        let silent = slog::Logger::root(slog::Discard, slog::o!());
        let raw = RawNode::new(&config, mirror, &silent).expect("the configuration is sound");
        let seen = (raw.raft.term, raw.raft.state);
        Membership {
            raw,
            id,
            voters,
            peers: BTreeMap::new(),
            view,
            access,
            applied,
            max_log_entries,
            writing: Writing::default(),
            lazy: Vec::new(),
            confirmed: VecDeque::new(),
            draw: fastrand::Rng::with_seed(seed),
            pace,
            is_retired: false,
            handicap: 0,
            seen,
        }
    }

    /// Returns the view that the voters have agreed on last, as far as this one knows.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Returns whether this voter decides alone.
    fn is_alone(&self) -> bool {
        self.voters.deciding().all(|voter| voter.id == self.id)
    }

    /// Returns the leader, as far as this voter knows. One that is none any more hears of no other leader.
    pub(crate) fn leader(&self) -> Option<&SiteName> {
        self.site(self.raw.raft.leader_id).filter(|_| !self.is_retired)
    }

    fn site(&self, id: u64) -> Option<&SiteName> {
        self.voters.by_id(id).map(|voter| &voter.site).or_else(|| self.peers.get(&id))
    }

    /// Returns the term in which this voter leads, if it assumes that it does.
    pub(crate) fn leads(&self) -> Option<Term> {
        (self.raw.raft.state == StateRole::Leader).then_some(Term(self.raw.raft.term))
    }

    /// Returns the term that this voter knows.
    pub(crate) fn term(&self) -> Term {
        Term(self.raw.raft.term)
    }

    /// Returns the number of entries in the log.
    #[cfg(test)]
    pub(crate) fn log_length(&self) -> usize {
        self.raw.store().disk.log_length()
    }

    /// Reacts to the start of the site. A voter that is alone need not wait for an election timeout.
    pub(crate) fn on_start(&mut self, out: &mut Vec<MembershipOutput>) {
        if self.is_alone() {
            // This fails only while a campaign is already under way.
            let _ = self.raw.campaign();
            self.pump(out);
        }
    }

    /// Advances time by one tick. The tick does not count for a voter that has writes pending: it could not win an
    /// election before the disk has its vote, and while the disk installs a snapshot that the leader sent, the log that
    /// an election would read is gone.
    pub(crate) fn on_tick(&mut self, out: &mut Vec<MembershipOutput>) {
        let waited = self.writing.on_tick();
        if self.is_retired && self.leads().is_none() && self.raw.raft.promotable() {
            // It does not wait for the leader that it knew, either: whoever asks gets its vote.
            let term = self.raw.raft.term;
            return self.raw.raft.become_follower(term, raft::INVALID_ID);
        }
        if self.leads().is_some() {
            self.make_room(waited);
        } else if waited > 0 {
            return;
        } else if self.handicap > 0 {
            self.handicap -= 1;
            return;
        }
        self.raw.tick();
        self.pump(out);
    }

    /// Gives up leadership if the disk has taken as long for a write as the others wait for a silent leader. The others
    /// can agree on a view without this disk, but only a leader that has applied the view is confirmed, and so grants
    /// leases.
    fn make_room(&mut self, waited: usize) {
        if mutant::is_on(Mutant::SlowDiskKeepsLeading) {
            return;
        }
        if waited >= self.pace.election && !self.is_alone() {
            let term = self.raw.raft.term;
            self.raw.raft.become_follower(term, raft::INVALID_ID);
        }
    }

    /// Handles `message` from the voter `from`. A message that cannot come from a correct voter is refused with a
    /// reason.
    pub(crate) fn on_message(
        &mut self,
        from: &SiteName,
        message: RaftMessage,
        out: &mut Vec<MembershipOutput>,
    ) -> Result<(), Implausible> {
        let founding = &self.raw.store().founding;
        let (sender, to) = if let Some(ends) = message.ends {
            (ends.from, ends.to)
        } else {
            let sender = founding.of_site(from).ok_or("not another voter")?;
            // Only first voters leave the ids out: this site has been one, if it is none now.
            (sender.id, founding.by_id(self.id).map_or(raft::INVALID_ID, |voter| voter.id))
        };
        if to != self.id {
            // It was sent to another voter that this site was, or comes from a program that does not know that it is another one now.
            return Ok(());
        }
        if sender == self.id || sender == raft::INVALID_ID || sender >= u64::MAX >> 1 {
            return Err("not another voter".into());
        }
        if self.site(sender).is_some_and(|site| site != from) {
            return Err("a message under the number of another voter".into());
        }
        sense::check(&message, &self.raw.raft)?;
        if self.voters.by_id(sender).is_none() {
            self.peers.insert(sender, from.clone());
            if self.peers.len() > MAX_PEERS {
                self.peers.pop_first();
            }
        }
        let raw = message.into_raft(sender, self.id, &self.raw.store().founding);
        // The crate has logged what it refuses; for us a message that changes nothing is as good as a lost one.
        let _ = self.raw.step(raw);
        self.pump(out);
        Ok(())
    }

    /// Proposes the next view, if this voter leads. Returns whether it is in the log now; it may still be lost with the
    /// leadership.
    pub(crate) fn propose(&mut self, view: &View, out: &mut Vec<MembershipOutput>) -> bool {
        let data = disk::encode_after(self.view.epoch, view);
        let proposed = self.leads().is_some() && self.raw.propose(Vec::new(), data).is_ok();
        self.pump(out);
        proposed
    }

    /// Returns whether a majority can be asked to confirm that this voter leads: a leader that has not yet committed anything in its
    /// term gets no answer.
    pub(crate) fn can_confirm(&self) -> bool {
        self.leads().is_some() && self.raw.raft.commit_to_current_term()
    }

    /// Asks a majority to confirm that this voter leads now. The confirmation comes as [`MembershipOutput::Confirmed`],
    /// or not at all: then ask again.
    pub(crate) fn confirm(&mut self, round: Round, out: &mut Vec<MembershipOutput>) {
        if mutant::is_on(Mutant::GrantUnconfirmed) {
            return out.push(MembershipOutput::Confirmed(round));
        }
        if self.leads().is_some() {
            self.raw.read_index(round.0.to_be_bytes().to_vec());
            self.pump(out);
        }
    }

    /// Reacts to the disk having the batch `token` and all before it.
    pub(crate) fn on_persisted(&mut self, token: RaftToken, out: &mut Vec<MembershipOutput>) {
        while let Some(done) = self.writing.take_done(token) {
            self.on_written(done, out);
        }
        self.pump(out);
    }

    /// Reacts to a new term or role: what was confirmed in the last one says nothing about this one. And after an
    /// election has begun, every voter that saw it waits for a time of its own before it begins one itself.
    fn on_new_role(&mut self) {
        let now = (self.raw.raft.term, self.raw.raft.state);
        if now != self.seen {
            self.seen = now;
            self.confirmed.clear();
            self.handicap = self.draw.usize(..self.pace.election);
        }
    }
}
