//! Who votes, as a node knows it: it learns it from the log or from others, becomes the voter that the log makes of its disk, and passes on
//! what operators ask for.
//!
//! **Voters and disks.** A voter is an id and a disk. The log gives a new id to a site and its disk (`membership/voters.rs`); then the leader sends the
//! log to the site, and names both. The site takes the id only if the disk is its own, and acts under the id when its own disk has it in
//! writing: so it continues after a restart, and a site that has lost its disk has lost its id, too.
//!
//! **Who knows.** Voters know from the log who votes. Other sites are told by whoever answers them, and by the leader now and then. What
//! they know may be old, so a message that only a voter may send is no misbehaviour if it comes from a site that could have become one.

use super::autopilot::{Automatic, Claim, MAX_NAMED, PilotTiming, Situation, VoterRefusal};
use super::clients::ClientAnswer;
use super::config::Voting;
use super::packet::Content;
use super::types::Abilities;
use super::{Node, NodeOutput, Note, Purpose};
use crate::access::AgreedAccess;
use crate::membership::disk::{Disk, DiskWrite};
use crate::membership::message::RaftMessage;
use crate::membership::voters::Voters;
use crate::membership::{MAX_VOTERS, Membership};
use crate::mutant::{self, Mutant};
use crate::names::{Incarnation, SiteName};
use crate::report::VoterRequest;
use crate::table::Request;
use crate::time::{Span, Time};

/// How long a change of voters may take before its client is told that it could not be done: a learner needs the log, and four entries
/// must be agreed on.
const CHANGE_WITHIN: Span = Span::from_millis(15_000);

/// A change of voters that a client here asked for.
#[derive(Clone, Debug)]
pub(super) struct VotersWanted {
    /// Several clients may want the same.
    requests: Vec<Request>,
    change: VoterRequest,
    /// When the clients are told that it could not be done.
    until: Time,
}

/// Maximum number of clients that may wait for the same change of voters.
const MAX_WANTING: usize = 16;

impl VotersWanted {
    pub(super) fn until(&self) -> Time {
        self.until
    }
}

impl Node {
    /// Returns who votes, as far as this site knows.
    pub fn voters(&self) -> &Voters {
        &self.voters
    }

    /// Returns the id of the voter that this site acts as.
    pub fn voter_id(&self) -> Option<u64> {
        self.membership.as_ref().map(Membership::id)
    }

    /// Returns the first incarnation that wrote to this site's disk.
    pub fn disk_identity(&self) -> Incarnation {
        self.disk()
    }

    /// Starts the voter that this site is, if it is one, and learns who votes, from the disk.
    pub(super) fn begin_voting(&mut self, disk: Disk, out: &mut Vec<NodeOutput>) {
        if let Some(known) = disk.known_access.clone().filter(AgreedAccess::is_well_formed) {
            self.learn_access(known, out);
        }
        if let Some(known) = disk.known.clone().filter(Voters::is_well_formed) {
            self.voters = known;
        }
        self.membership = self.as_voter(disk);
        if let Some(membership) = &self.membership
            && membership.voters().changed_at > self.voters.changed_at
        {
            self.voters = membership.voters().clone();
        }
        self.forget_former_voters();
        self.check_registration(out);
        self.retire_if_dropped(out);
        let agreed = self.membership.as_ref().and_then(|membership| membership.access().cloned());
        if let Some(agreed) = agreed {
            self.learn_access(agreed, out);
        }
    }

    /// Notes what the program of another site knows.
    pub(super) fn on_abilities(&mut self, site: &SiteName, abilities: Abilities) {
        if abilities == Abilities::ALL {
            self.old_programs.remove(site);
        } else {
            self.old_programs.insert(site.clone(), abilities);
        }
    }

    /// Reacts to a message that only a voter may send, from a site that does not vote as far as this one knows. It is not believed; but the
    /// site may have become a voter meanwhile, and is not blamed.
    pub(super) fn doubt(site: SiteName, why: &str, out: &mut Vec<NodeOutput>) {
        out.push(NodeOutput::Note(Note::Doubted { site, why: why.to_owned() }));
    }

    fn could_vote(&self, site: &SiteName) -> bool {
        self.view.member(site).is_some() || self.config.sites.contains(site)
    }

    /// Tells another site who votes, if that is not what every site knows from its configuration.
    pub(super) fn tell_voters(&mut self, site: &SiteName, out: &mut Vec<NodeOutput>) {
        if self.voters.changed_at > 0 && *site != self.me.site {
            self.send(site.clone(), Content::Voters(self.voters.clone()), out);
        }
    }

    /// Handles what another site says of who votes.
    pub(super) fn on_voters(&mut self, from: &SiteName, voters: Voters, out: &mut Vec<NodeOutput>) {
        // A site that does not know the cluster yet has nobody else to ask.
        let is_new = self.view.members.is_empty();
        if !voters.is_well_formed() {
            return Node::misbehaved(from.clone(), "voters that cannot be", out);
        }
        let is_news = voters.changed_at > self.voters.changed_at;
        if is_news && (self.votes(from) || self.could_vote(from) || is_new) {
            // It is worth knowing also after a restart: the site knows whom to ask, and records no disk of a voter that is none any more.
            self.persist(vec![DiskWrite::Known(voters.clone())], Purpose::Record, out);
            self.learn_voters(voters, out);
        }
    }

    /// Learns who votes, if that is news.
    pub(super) fn learn_voters(&mut self, voters: Voters, out: &mut Vec<NodeOutput>) {
        if voters.changed_at <= self.voters.changed_at {
            return;
        }
        self.voters = voters;
        self.forget_former_voters();
        self.forget_unheard();
        let voters = &self.voters;
        self.leader_hint.take_if(|hint| !voters.votes(hint));
        out.push(NodeOutput::Note(Note::VotersChanged(voters.clone())));
        self.check_registration(out);
        self.retire_if_dropped(out);
    }

    /// Stops asking for votes, if the voter that this site acts as is none any more.
    pub(super) fn retire_if_dropped(&mut self, out: &mut Vec<NodeOutput>) {
        let Some(membership) = &mut self.membership else { return };
        let id = membership.id();
        if self.voters.has_dropped(id) && membership.retire() {
            out.push(NodeOutput::Note(Note::VotesNoMore { id }));
        }
    }

    /// Reacts to the voters having agreed on who votes.
    pub(super) fn on_voters_agreed(&mut self, voters: Voters, out: &mut Vec<NodeOutput>) {
        self.learn_voters(voters, out);
        if let Some(leadership) = &mut self.leadership {
            leadership.pilot.told_at = None;
        }
    }

    /// Becomes the voter that a message names, if the log has given it to this disk. The message itself is lost; the leader sends it again.
    ///
    /// A voter that is still counted keeps its id until this site knows that it is not any more: with the id it would forget what it has
    /// promised.
    pub(super) fn become_voter_if_named(&mut self, message: &RaftMessage, out: &mut Vec<NodeOutput>) {
        let Some(ends) = message.ends.filter(|ends| ends.to >= self.founding.next_id) else { return };
        let is_mine = ends.disk == Some(self.disk()) || mutant::is_on(Mutant::IdOfAnotherDisk);
        let is_counted = self.membership.as_ref().is_some_and(|voter| !self.voters.has_dropped(voter.id()));
        let is_old = self.voter_id.is_some_and(|id| id >= ends.to);
        if !is_mine || is_old || is_counted || !self.may_send {
            return;
        }
        self.registration.give_up();
        self.voter_id = Some(ends.to);
        self.membership = None;
        out.push(NodeOutput::Note(Note::BecomesVoter { id: ends.to, disk: self.disk() }));
        self.persist(vec![DiskWrite::VoterId(ends.to)], Purpose::VoterId(ends.to), out);
    }

    /// Reacts to the id being written.
    pub(super) fn on_voter_id_written(&mut self, id: u64) {
        if self.voter_id == Some(id) && self.membership.is_none() {
            self.membership = self.as_voter(Disk::default());
        }
    }

    /// Tells the leader what it must know of this member before it can vote.
    pub(super) fn send_claim(&mut self, leader: SiteName, out: &mut Vec<NodeOutput>) {
        let claim = Claim { disk: self.disk(), acts_as: self.voter_id() };
        let is_bound = self.voters.voters.iter().all(|voter| voter.disk.is_some());
        let records: Vec<_> =
            self.registration.known().iter().map(|(site, disk)| (site.clone(), *disk)).collect();
        if !is_bound && !records.is_empty() && leader != self.me.site {
            self.send(leader.clone(), Content::Recorded(records), out);
        }
        self.send(leader, Content::Claim(claim), out);
    }

    pub(super) fn pilot_timing(&self) -> PilotTiming {
        let auto = match self.config.voting {
            Voting::Fixed => None,
            Voting::Auto { replace_after, stable_after } => Some(Automatic { replace_after, stable_after }),
        };
        let terms = self.config.terms;
        PilotTiming { auto, learner_timeout: terms.length.times(3), fresh: terms.renew_every.times(3) }
    }

    /// Takes the next step of a change of voters, as the leader, and tells the members who votes.
    pub(super) fn steer(&mut self, out: &mut Vec<NodeOutput>) {
        let timing = self.pilot_timing();
        let (now, tick, length) = (self.now, self.config.tick, self.config.terms.length);
        let (Some(leadership), Some(membership)) = (&mut self.leadership, &self.membership) else { return };
        let pilot = &mut leadership.pilot;
        // It is soon enough with the next tick, and a leader of many members is called often.
        if pilot.looked_at.is_some_and(|looked| now.since(looked) < tick) {
            return;
        }
        pilot.looked_at = Some(now);
        let is_told = pilot.told_at.is_some_and(|told| now.since(told) < length);
        if !is_told {
            pilot.told_at = Some(now);
        }
        let (voters, view, registered) = (membership.voters(), membership.view(), self.registration.known());
        let at = Situation { voters, view, registered, now, timing };
        pilot.note_progress(voters, membership.committed(), |id| membership.acknowledged(id), now);
        let step = pilot.next_step(at, |id| membership.has_caught_up(id));
        let absence = pilot.absence_to_tell(at, length);
        if let Some(absence) = absence {
            self.tell_absence(&absence, out);
        }
        if !is_told {
            for site in self.others() {
                self.tell_voters(&site, out);
            }
        }
        if let Some(step) = step {
            self.in_membership(out, |membership, out| {
                membership.propose_change(&step, out);
            });
        }
    }

    /// Handles a client's call to change who votes.
    pub(super) fn on_change_voters(
        &mut self,
        request: Request,
        change: VoterRequest,
        out: &mut Vec<NodeOutput>,
    ) {
        let until = self.now + CHANGE_WITHIN;
        if let Some(wanted) = &mut self.voters_wanted {
            // Whoever asks for the same a second time, perhaps because the first client has gone, waits with it.
            if wanted.change == change && wanted.requests.len() < MAX_WANTING {
                wanted.requests.push(request);
                wanted.until = until;
            } else {
                let why = VoterRefusal::Busy;
                out.push(NodeOutput::Answer(ClientAnswer::VotersRefused { request, why }));
            }
            return;
        }
        self.voters_wanted = Some(VotersWanted { requests: vec![request], change, until });
        // Asked now, and again with every renewal until the leader says that it is done.
        self.reach_out(out);
    }

    /// Sends what a client asked for to the probable leader.
    pub(super) fn send_voters_wanted(&mut self, leader: &SiteName, out: &mut Vec<NodeOutput>) {
        let Some(wanted) = &self.voters_wanted else { return };
        let content = Content::ChangeVoters(wanted.change.clone());
        self.send(leader.clone(), content, out);
    }

    /// Handles a request to change who votes, as the leader.
    pub(super) fn on_voter_request(
        &mut self,
        from: &SiteName,
        request: VoterRequest,
        out: &mut Vec<NodeOutput>,
    ) {
        let (now, timing) = (self.now, self.pilot_timing());
        let (Some(leadership), Some(membership)) = (&mut self.leadership, &self.membership) else { return };
        let (voters, view) = (membership.voters(), membership.view());
        let registered = self.registration.known();
        let at = Situation { voters, view, registered, now, timing };
        let Some(outcome) = leadership.pilot.on_request(request.clone(), at) else { return };
        let answer = Content::VotersChanged { request, refused: outcome.err() };
        self.send(from.clone(), answer, out);
    }

    /// Handles the leader's answer.
    pub(super) fn on_voters_answered(
        &mut self,
        from: &SiteName,
        change: &VoterRequest,
        refused: Option<VoterRefusal>,
        out: &mut Vec<NodeOutput>,
    ) {
        if let Some(VoterRefusal::OlderVersion(sites)) = &refused
            && sites.len() > MAX_NAMED
        {
            return Node::misbehaved(from.clone(), "names more sites than it may", out);
        }
        if !self.votes(from) {
            return Node::doubt(from.clone(), "answers for the leader and does not vote", out);
        }
        let Some(wanted) = self.voters_wanted.take_if(|wanted| wanted.change == *change) else { return };
        for request in wanted.requests {
            out.push(NodeOutput::Answer(match refused.clone() {
                None => ClientAnswer::VotersChanged { request },
                Some(why) => ClientAnswer::VotersRefused { request, why },
            }));
        }
    }

    /// Gives up a change of voters that takes too long. The leader may still do it.
    pub(super) fn give_up_voters_if_due(&mut self, out: &mut Vec<NodeOutput>) {
        let now = self.now;
        let Some(wanted) = self.voters_wanted.take_if(|wanted| wanted.until <= now) else { return };
        let why = self.outage().map_or_else(
            || "the leader has not answered, or the change is not complete yet".to_owned(),
            |outage| outage.to_string(),
        );
        let why = format!("{why}; see `meshlock site list` before you repeat the command");
        let answer = |request| ClientAnswer::Unavailable { request, why: why.clone() };
        out.extend(wanted.requests.into_iter().map(|request| NodeOutput::Answer(answer(request))));
    }
}

/// The number of voters never exceeds what a refusal can name.
const _: () = assert!(MAX_NAMED >= MAX_VOTERS);
