//! The copy that a mirror has of one member's sessions, and when it answers for them.

use std::collections::BTreeMap;

use meshlock_cluster::mutant::{self, Mutant};
use meshlock_cluster::names::Member;
use meshlock_cluster::time::Time;
use meshlock_wire::sites::mirror::{MirrorNews, MirroredSession};

use crate::contact::{self, Duty, SourceContact};
use crate::session_copy::{Adopted, SessionCopy};
use crate::{ClaimNumber, ClaimState, LeaseId, MirrorEffect, Surroundings, Vouched};

/// Maximum number of sessions that are copied, and of their keys. What is beyond ends with its site.
const MAX_SESSIONS: usize = 1 << 16;
const MAX_KEYS: usize = 1 << 17;

/// The copy of the sessions of one member.
#[derive(Clone, Debug)]
pub struct SiteCopy {
    pub(crate) source: Member,
    /// The version of the news that it is made of; 0 if there is none.
    pub(crate) have: u64,
    contact: SourceContact,
    /// Change them by [`SiteCopy::insert`] and [`SiteCopy::remove`], which count their keys.
    sessions: BTreeMap<LeaseId, SessionCopy>,
    /// Number of keys of all sessions.
    keys: usize,
    /// News that takes away what this site has promised a moment ago.
    parked: Option<MirrorNews>,
    /// Something of it was lost here, so that it must be asked for anew.
    pub(crate) is_incomplete: bool,
    /// Something that it was told of cannot be kept here: its lock cannot be claimed, or the host cannot answer for it.
    is_partial: bool,
    /// Some of the claims are not answered.
    awaits_claims: bool,
    /// Since when the member is not in the view any more.
    orphaned: Option<Time>,
    office: Office,
}

/// Whether this site is the mirror of the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Office {
    Mirror,
    /// Another one is, since then. The member does not tell that one what is known here before this site has confirmed that it is over.
    Replaced {
        since: Time,
    },
    /// Another one is, and the member knows that nothing is known here.
    Dismissed,
}

impl SiteCopy {
    /// Begins to follow a member, of which nothing is known yet.
    pub fn new(source: Member, now: Time) -> Self {
        SiteCopy {
            source,
            have: 0,
            contact: SourceContact::new(now),
            sessions: BTreeMap::new(),
            keys: 0,
            parked: None,
            is_incomplete: false,
            is_partial: false,
            awaits_claims: false,
            orphaned: None,
            office: Office::Mirror,
        }
    }

    /// Returns the version of the news that the other member was told of as known here.
    pub fn have(&self) -> u64 {
        self.have
    }

    /// Returns the sessions that are copied.
    pub fn leases(&self) -> impl ExactSizeIterator<Item = LeaseId> {
        self.sessions.keys().copied()
    }

    /// Returns the version to ask the member with, if it may be asked. A member that leaves forgets what this site confirms. So news is
    /// confirmed only when all of it is kept here.
    pub(crate) fn asks(&self) -> Option<u64> {
        if self.parked.is_some() || self.office == Office::Dismissed {
            None
        } else if !self.contact.leaves() || mutant::is_on(Mutant::PartConfirmed) {
            Some(self.have)
        } else if self.awaits_claims {
            None
        } else {
            Some(if self.is_partial { 0 } else { self.have })
        }
    }

    /// Returns whether the member has said that it leaves: this site answers for its sessions then, whoever the next mirror is.
    pub(crate) fn source_leaves(&self) -> bool {
        self.contact.leaves()
    }

    /// Notes that this site is the mirror of the member.
    pub(crate) fn become_mirror(&mut self) {
        self.office = Office::Mirror;
    }

    /// Notes that this site is not the mirror of the member any more: it drops all but what clients may count on, because of what this
    /// site has said.
    pub(crate) fn become_replaced(&mut self, now: Time, out: &mut Vec<MirrorEffect>) {
        if self.office == Office::Mirror {
            self.office = Office::Replaced { since: now };
            self.ask_anew(now);
        }
        self.drop_unneeded(now, out);
    }

    /// Returns whether the member still has to be told that nothing is known here.
    pub(crate) fn is_to_be_dismissed(&self, at: &Surroundings<'_>) -> bool {
        let Office::Replaced { since } = self.office else { return false };
        // After that it expects nothing any more.
        at.now.since(since) <= at.terms.resume_window()
    }

    /// Notes that the member does not know the version that this site has: it begins anew, unless it has only to learn that this site knows
    /// nothing.
    pub(crate) fn on_unknown(&mut self) {
        self.restart();
        if let Office::Replaced { .. } = self.office {
            self.office = Office::Dismissed;
        }
    }

    fn insert(&mut self, lease: LeaseId, session: SessionCopy) {
        self.keys += session.keys.len();
        self.sessions.insert(lease, session);
    }

    fn remove(&mut self, lease: LeaseId) -> Option<SessionCopy> {
        let session = self.sessions.remove(&lease)?;
        self.keys -= session.keys.len();
        Some(session)
    }

    /// Forgets the copies of these sessions, and gives up the claims of what they hold.
    fn drop_copies(&mut self, leases: Vec<LeaseId>, out: &mut Vec<MirrorEffect>) {
        for lease in leases {
            if let Some(session) = self.remove(lease) {
                session.end(lease, out);
            }
        }
    }

    /// Asks for everything anew. What is here stays until the answer says what has become of it.
    pub(crate) fn restart(&mut self) {
        (self.have, self.is_incomplete, self.parked) = (0, false, None);
    }

    pub(crate) fn drop_all(&mut self, out: &mut Vec<MirrorEffect>) {
        self.drop_if(|_| true, out);
    }

    /// Drops all but what clients may count on. What is left is no answer of any version, so that none may be confirmed.
    pub(crate) fn drop_unneeded(&mut self, now: Time, out: &mut Vec<MirrorEffect>) {
        let before = self.sessions.len();
        self.drop_if(|session| !session.is_relied_on(now), out);
        if self.sessions.len() < before && !mutant::is_on(Mutant::DroppedConfirmed) {
            self.ask_anew(now);
        }
    }

    /// Asks for everything anew, also what was not asked because of news that takes something away.
    fn ask_anew(&mut self, now: Time) {
        if self.parked.is_some() {
            self.contact.on_pause_end(now);
        }
        self.restart();
    }

    fn drop_if(&mut self, goes: impl Fn(&SessionCopy) -> bool, out: &mut Vec<MirrorEffect>) {
        let gone = self.sessions.iter().filter(|(_, session)| goes(session)).map(|(lease, _)| *lease);
        let gone = gone.collect();
        self.drop_copies(gone, out);
    }

    /// Handles what the other member says of its sessions in the answer to a question that was sent at `sent`, which shows that it is there.
    pub fn on_news(
        &mut self,
        news: MirrorNews,
        sent: Time,
        at: &Surroundings<'_>,
        last_claim: &mut ClaimNumber,
        out: &mut Vec<MirrorEffect>,
    ) {
        self.contact.on_answer(sent, at.now, news.leaves);
        if !news.leaves {
            self.withdraw_all(at.now + at.terms.length, out);
        }
        // A site that leaves gives nothing to others.
        let is_parked = takes_away(&self.sessions, &news, at.now) && !mutant::is_on(Mutant::PromiseTakenAway);
        if !news.leaves && is_parked {
            // Once this is confirmed, the other member may give to others what clients count on.
            self.parked = Some(news);
        } else {
            self.apply(news, at, last_claim, out);
        }
    }

    /// Applies news.
    fn apply(
        &mut self,
        news: MirrorNews,
        at: &Surroundings<'_>,
        last_claim: &mut ClaimNumber,
        out: &mut Vec<MirrorEffect>,
    ) {
        let MirrorNews { version, is_first, leaves, ended, changed } = news;
        self.have = version;
        self.is_partial &= !is_first;
        let told = |lease: LeaseId| changed.iter().any(|session| session.lease == lease.number());
        // A member that leaves does not list what it has forgotten because this site answers for it.
        let lists_all = is_first && (!leaves || mutant::is_on(Mutant::MovedDropped));
        let gone: Vec<LeaseId> = if lists_all {
            self.sessions.keys().copied().filter(|lease| !told(*lease)).collect()
        } else {
            ended.into_iter().filter_map(LeaseId::new).collect()
        };
        self.drop_copies(gone, out);
        for session in changed {
            self.on_session(session, at, last_claim, out);
        }
    }

    /// Takes in a session as it is now.
    fn on_session(
        &mut self,
        told: MirroredSession,
        at: &Surroundings<'_>,
        last_claim: &mut ClaimNumber,
        out: &mut Vec<MirrorEffect>,
    ) {
        let Some(lease) = LeaseId::new(told.lease) else { return };
        let mut former = self.remove(lease);
        let promised_until = former.as_ref().map_or(Time::ZERO, |former| former.promised_until);
        if let Some(former) = &mut former {
            former.withdraw(lease, out);
        }
        let mut claims = former.map_or_else(Vec::new, |former| former.keys);
        let has_room = self.sessions.len() < MAX_SESSIONS && self.keys + told.keys.len() <= MAX_KEYS;
        let copy = if has_room {
            SessionCopy::new(&self.source, told, &mut claims, at, last_claim, out)
        } else {
            None
        };
        // What it does not hold any more, or all of it if it cannot be copied.
        out.extend(claims.into_iter().map(|key| MirrorEffect::GiveUp(key.claim)));
        if let Some(mut copy) = copy {
            copy.promised_until = promised_until;
            self.insert(lease, copy);
        } else {
            self.is_partial = true;
        }
    }

    /// Leaves all sessions to the other member. Nothing that this site has said lasts longer than `until`.
    fn withdraw_all(&mut self, until: Time, out: &mut Vec<MirrorEffect>) {
        if mutant::is_on(Mutant::AnswersBesideItsSite) {
            return;
        }
        let adopted = self.sessions.iter_mut().filter(|(_, session)| session.adopted == Adopted::Yes);
        for (lease, session) in adopted {
            session.withdraw(*lease, out);
            session.promised_until = until;
        }
    }

    /// Looks what has become of new claims: a session whose lock cannot be claimed at all is not copied.
    fn drop_refused(&mut self, at: &Surroundings<'_>, out: &mut Vec<MirrorEffect>) {
        let is_refused = |session: &mut SessionCopy| {
            if session.has(at, |state| state == ClaimState::Asked) {
                return false;
            }
            let is_fresh = std::mem::take(&mut session.is_fresh);
            is_fresh && session.has(at, |state| state == ClaimState::Refused)
        };
        let all = self.sessions.iter_mut();
        let refused: Vec<_> =
            all.filter_map(|(lease, session)| is_refused(session).then_some(*lease)).collect();
        self.is_partial |= !refused.is_empty();
        self.drop_copies(refused, out);
        self.awaits_claims =
            self.sessions.values().any(|session| session.has(at, |state| state == ClaimState::Asked));
    }

    /// Answers for the sessions of a member that is in the view, if that is silent or leaves.
    pub fn attend(
        &mut self,
        at: &Surroundings<'_>,
        last_claim: &mut ClaimNumber,
        out: &mut Vec<MirrorEffect>,
    ) {
        self.drop_refused(at, out);
        if let Some(news) = self.parked.take_if(|news| !takes_away(&self.sessions, news, at.now)) {
            self.apply(news, at, last_claim, out);
            self.contact.on_pause_end(at.now);
        }
        let until = match self.contact.duty(at.now, at.terms) {
            Duty::Follow => {
                self.is_incomplete |=
                    self.sessions.values().any(|session| session.has(at, ClaimState::is_lost));
                return;
            }
            Duty::Nothing => {
                self.drop_all(out);
                return self.restart();
            }
            // The other member was there a moment ago, and is asked again when it can be told so.
            Duty::StandIn { until: Some(_) } if self.parked.is_some() => return,
            Duty::StandIn { until } => until,
        };
        let is_lost = |session: &SessionCopy| session.has(at, ClaimState::is_lost);
        if until.is_none() && self.sessions.values().any(is_lost) && !mutant::is_on(Mutant::LostConfirmed) {
            // The member leaves as soon as it is told that this is known here, and nobody would have the lock.
            self.restart();
        }
        self.adopt_all(until, at, out);
    }

    /// Asks for all sessions to be adopted whose locks are claimed, and says until when this site vouches for those that are.
    fn adopt_all(&mut self, until: Option<Time>, at: &Surroundings<'_>, out: &mut Vec<MirrorEffect>) {
        let Some(sent) = self.contact.sent() else { return };
        let (vouched, window) = (Vouched::ForAnother { until }, at.terms.resume_window());
        let is_orphaned = self.orphaned.is_some();
        for (lease, session) in &mut self.sessions {
            match session.adopted {
                Adopted::Yes => out.push(MirrorEffect::Vouch { lease: *lease, vouched }),
                Adopted::Asked => {}
                Adopted::Refused if is_orphaned => {}
                Adopted::No | Adopted::Refused if session.has(at, ClaimState::is_lost) => {}
                Adopted::No | Adopted::Refused => out.push(session.adopt(*lease, vouched, (sent, window))),
            }
        }
    }

    /// Notes whether the host answers for a session, as it was asked to.
    pub fn on_adopted(&mut self, lease: LeaseId, is_adopted: bool) {
        if let Some(session) =
            self.sessions.get_mut(&lease).filter(|session| session.adopted == Adopted::Asked)
        {
            session.adopted = if is_adopted { Adopted::Yes } else { Adopted::Refused };
            self.is_partial |= !is_adopted;
        }
    }

    /// Notes that a session which this site answers for has ended here.
    pub fn on_over(&mut self, lease: LeaseId, out: &mut Vec<MirrorEffect>) {
        if self.sessions.contains_key(&lease) {
            self.is_incomplete = true;
            self.drop_copies(vec![lease], out);
        }
    }

    /// Makes the sessions of a member that is not in the view any more this site's own, as soon as their locks are.
    pub fn take_over(&mut self, at: &Surroundings<'_>, out: &mut Vec<MirrorEffect>) {
        self.drop_refused(at, out);
        let orphaned = *self.orphaned.get_or_insert_with(|| {
            let refused = self.sessions.values_mut().filter(|session| session.adopted == Adopted::Refused);
            refused.for_each(|session| session.adopted = Adopted::No);
            at.now
        });
        self.adopt_all(None, at, out);
        let is_late = at.now.since(orphaned) > at.terms.resume_window();
        let decided = |session: &SessionCopy| {
            let is_pending = session.has(at, ClaimState::is_open);
            let is_asked = match session.adopted {
                Adopted::No | Adopted::Refused => return true,
                Adopted::Asked => true,
                Adopted::Yes => false,
            };
            is_late || !is_pending && !is_asked
        };
        let done: Vec<LeaseId> =
            self.sessions.iter().filter(|(_, session)| decided(session)).map(|(lease, _)| *lease).collect();
        for lease in done {
            let Some(session) = self.remove(lease) else { continue };
            if session.adopted == Adopted::Yes && !session.has(at, ClaimState::is_open) {
                let (from, claims) = (self.source.site.clone(), session.keys.iter().map(|key| key.claim));
                out.push(MirrorEffect::TakeOver { lease, from, claims: claims.collect() });
            } else {
                session.end(lease, out);
            }
        }
    }
}

/// Returns whether news takes away something that a client counts on because of what this site has said.
fn takes_away(sessions: &BTreeMap<LeaseId, SessionCopy>, news: &MirrorNews, now: Time) -> bool {
    let is_taken = |(lease, copy): (&LeaseId, &SessionCopy)| contact::takes_away(news, *lease, copy.proofs());
    sessions.iter().filter(|(_, copy)| copy.is_relied_on(now)).any(is_taken)
}
