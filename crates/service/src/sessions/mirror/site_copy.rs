//! The copy that a mirror has of one member's sessions, and when it answers for them.

use std::collections::BTreeMap;

use meshlock_cluster::lease::Terms;
use meshlock_cluster::names::Member;
use meshlock_cluster::time::Time;
use meshlock_host::front::Ended;
use meshlock_wire::sites::mirror::{MirrorNews, MirroredSession};

use super::contact::{self, Duty, SourceContact};
use super::mutant::{self, MirrorMutant};
use super::session_copy::{ClaimState, SessionCopy};
use crate::sessions::Sessions;
use crate::sessions::registry::{LeaseId, Vouched};

/// Maximum number of sessions that are copied, and of their keys. What is beyond ends with its site.
const MAX_SESSIONS: usize = 1 << 16;
const MAX_KEYS: usize = 1 << 17;

/// The copy of the sessions of one member.
pub(super) struct SiteCopy {
    pub(super) source: Member,
    /// The version of the news that it is made of; 0 if there is none.
    pub(super) have: u64,
    contact: SourceContact,
    /// Change them by [`SiteCopy::insert`] and [`SiteCopy::remove`], which count their keys.
    pub(super) sessions: BTreeMap<LeaseId, SessionCopy>,
    /// Number of keys of all sessions.
    keys: usize,
    /// News that takes away what this site has promised a moment ago.
    pub(super) parked: Option<MirrorNews>,
    /// Something of it was lost here, so that it must be asked for anew.
    pub(super) is_incomplete: bool,
    /// Since when the member is not in the view any more.
    orphaned: Option<Time>,
}

impl SiteCopy {
    pub(super) fn new(source: Member, now: Time) -> Self {
        let (contact, sessions) = (SourceContact::new(now), BTreeMap::new());
        let (parked, is_incomplete, orphaned) = (None, false, None);
        SiteCopy { source, have: 0, contact, sessions, keys: 0, parked, is_incomplete, orphaned }
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
    fn drop_copies(&mut self, here: &Sessions, leases: Vec<LeaseId>) {
        for lease in leases {
            if let Some(session) = self.remove(lease) {
                here.0.drop_copy(lease, session);
            }
        }
    }

    /// Asks for everything anew. What is here stays until the answer says what has become of it.
    pub(super) fn restart(&mut self) {
        (self.have, self.is_incomplete, self.parked) = (0, false, None);
    }

    pub(super) fn drop_all(&mut self, here: &Sessions) {
        self.drop_unless(here, |_| false);
    }

    pub(super) fn drop_unless(&mut self, here: &Sessions, stays: impl Fn(&SessionCopy) -> bool) {
        let gone = self.sessions.iter().filter(|(_, session)| !stays(session)).map(|(lease, _)| *lease);
        let gone = gone.collect();
        self.drop_copies(here, gone);
    }

    /// Handles what the other member says of its sessions, which shows that it is there.
    pub(super) fn on_news(&mut self, here: &Sessions, news: MirrorNews, (sent, now): (Time, Time)) {
        self.contact.on_answer(sent, now, news.leaves);
        if !news.leaves {
            let until = now + here.front().lease_length();
            self.withdraw_all(here, until);
        }
        // A site that leaves gives nothing to others.
        let is_parked =
            takes_away(&self.sessions, &news, now) && !mutant::is_on(MirrorMutant::PromiseTakenAway);
        if !news.leaves && is_parked {
            // Once this is confirmed, the other member may give to others what clients count on.
            self.parked = Some(news);
        } else {
            self.apply(here, news, now);
        }
    }

    /// Applies news.
    fn apply(&mut self, here: &Sessions, news: MirrorNews, now: Time) {
        let MirrorNews { version, is_first, leaves, ended, changed } = news;
        self.have = version;
        let told = |lease: LeaseId| changed.iter().any(|session| session.lease == lease.number());
        let gone: Vec<LeaseId> = if is_first {
            self.sessions.keys().copied().filter(|lease| !told(*lease)).collect()
        } else {
            ended.into_iter().filter_map(LeaseId::new).collect()
        };
        self.drop_copies(here, gone);
        for session in changed {
            self.on_session(here, session);
        }
        if leaves {
            let terms = here.front().lease_terms();
            self.attend(here, now, terms);
        }
    }

    /// Takes in a session as it is now.
    fn on_session(&mut self, here: &Sessions, told: MirroredSession) {
        let Some(lease) = LeaseId::new(told.lease) else { return };
        let mut former = self.remove(lease);
        let promised_until = former.as_ref().map_or(Time::ZERO, |former| former.promised_until);
        if let Some(former) = former.as_mut().filter(|former| former.is_adopted) {
            here.0.withdraw(lease, former);
        }
        let former = former.map_or_else(Vec::new, |former| former.keys);
        let has_room = self.sessions.len() < MAX_SESSIONS && self.keys + told.keys.len() <= MAX_KEYS;
        let mut claims = former;
        let copy = if has_room { here.0.copy(&self.source, told, &mut claims) } else { None };
        // What it does not hold any more, or all of it if it cannot be copied.
        for key in claims {
            key.claim.close(Ended::SessionOver);
        }
        if let Some(copy) = copy {
            self.insert(lease, SessionCopy { promised_until, ..copy });
        }
    }

    /// Leaves all sessions to the other member. Nothing that this site has said lasts longer than `until`.
    fn withdraw_all(&mut self, here: &Sessions, until: Time) {
        if mutant::is_on(MirrorMutant::AnswersBesideItsSite) {
            return;
        }
        for (lease, session) in self.sessions.iter_mut().filter(|(_, session)| session.is_adopted) {
            here.0.withdraw(*lease, session);
            session.promised_until = until;
        }
    }

    /// Answers for the sessions of a member that is in the view, if that is silent or leaves.
    pub(super) fn attend(&mut self, here: &Sessions, now: Time, terms: Terms) {
        if let Some(news) = self.parked.take_if(|news| !takes_away(&self.sessions, news, now)) {
            self.apply(here, news, now);
            self.contact.on_pause_end(now);
        }
        let until = match self.contact.duty(now, terms) {
            Duty::Follow => {
                self.is_incomplete |= self.sessions.values().any(|session| session.has(ClaimState::Lost));
                return;
            }
            Duty::Nothing => {
                self.drop_all(here);
                return self.restart();
            }
            // The other member was there a moment ago, and is asked again when it can be told so.
            Duty::StandIn { until: Some(_) } if self.parked.is_some() => return,
            Duty::StandIn { until } => until,
        };
        self.adopt_all(here, until, terms);
    }

    /// Adopts all sessions whose locks are claimed, and forgets those that have ended here since.
    fn adopt_all(&mut self, here: &Sessions, until: Option<Time>, terms: Terms) {
        let Some(sent) = self.contact.sent() else { return };
        let vouched = Vouched::ForAnother { until };
        let mut over = Vec::new();
        for (lease, session) in &mut self.sessions {
            if session.is_adopted {
                if !here.registry().set_vouched(*lease, vouched) {
                    over.push(*lease);
                }
            } else if !session.has(ClaimState::Lost) {
                here.0.adopt(*lease, session, vouched, (sent, terms.resume_window()));
            }
        }
        self.is_incomplete |= !over.is_empty();
        self.drop_copies(here, over);
    }

    /// Makes the sessions of a member that is not in the view any more this site's own, as soon as their locks are.
    pub(super) fn take_over(&mut self, here: &Sessions, now: Time, terms: Terms) {
        let orphaned = *self.orphaned.get_or_insert(now);
        self.adopt_all(here, None, terms);
        let is_late = now.since(orphaned) > terms.resume_window();
        let decided =
            |session: &SessionCopy| is_late || !session.has(ClaimState::Pending) || !session.is_adopted;
        let done: Vec<LeaseId> =
            self.sessions.iter().filter(|(_, session)| decided(session)).map(|(lease, _)| *lease).collect();
        for lease in done {
            let Some(session) = self.remove(lease) else { continue };
            if session.is_adopted && !session.has(ClaimState::Pending) {
                tracing::info!(%lease, from = %self.source.site, locks = session.keys.len(), "took over a session");
                here.registry().set_vouched(lease, Vouched::Here);
                here.0.note_change();
            } else {
                here.0.drop_copy(lease, session);
            }
        }
    }
}

/// Returns whether news takes away something that a client counts on because of what this site has said.
fn takes_away(sessions: &BTreeMap<LeaseId, SessionCopy>, news: &MirrorNews, now: Time) -> bool {
    let is_taken = |(lease, copy): (&LeaseId, &SessionCopy)| {
        let proofs = copy.keys.iter().map(|key| &key.told.proof[..]);
        contact::takes_away(news, *lease, proofs)
    };
    sessions.iter().filter(|(_, copy)| copy.is_relied_on(now)).any(is_taken)
}
