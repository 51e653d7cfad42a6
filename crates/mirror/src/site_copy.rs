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
    /// Since when the member is not in the view any more.
    orphaned: Option<Time>,
}

impl SiteCopy {
    /// Begins to follow a member, of which nothing is known yet.
    pub fn new(source: Member, now: Time) -> Self {
        let (contact, sessions) = (SourceContact::new(now), BTreeMap::new());
        let (parked, is_incomplete, orphaned) = (None, false, None);
        SiteCopy { source, have: 0, contact, sessions, keys: 0, parked, is_incomplete, orphaned }
    }

    /// Returns the version of the news that the other member was told of as known here.
    pub fn have(&self) -> u64 {
        self.have
    }

    /// Returns the sessions that are copied.
    pub fn leases(&self) -> impl ExactSizeIterator<Item = LeaseId> {
        self.sessions.keys().copied()
    }

    /// Returns whether the member may be asked.
    pub(crate) fn asks(&self) -> bool {
        self.parked.is_none()
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

    /// Drops all but what clients may count on, because of what this site has said.
    pub(crate) fn drop_unneeded(&mut self, now: Time, out: &mut Vec<MirrorEffect>) {
        self.drop_if(|session| !session.is_relied_on(now), out);
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
        let MirrorNews { version, is_first, leaves: _, ended, changed } = news;
        self.have = version;
        let told = |lease: LeaseId| changed.iter().any(|session| session.lease == lease.number());
        let gone: Vec<LeaseId> = if is_first {
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
            let is_fresh = std::mem::take(&mut session.is_fresh);
            is_fresh && session.has(at, |state| state == ClaimState::Refused)
        };
        let all = self.sessions.iter_mut();
        let refused = all.filter_map(|(lease, session)| is_refused(session).then_some(*lease)).collect();
        self.drop_copies(refused, out);
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
            let is_pending = session.has(at, |state| state == ClaimState::Pending);
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
            if session.adopted == Adopted::Yes && !session.has(at, |state| state == ClaimState::Pending) {
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
