//! The side of the mirror: follows the sessions of the member before it, claims what they hold, and answers for them when that member is
//! gone.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use meshlock_cluster::claim::Proof;
use meshlock_cluster::lease::Terms;
use meshlock_cluster::names::{ClientLabel, Member};
use meshlock_cluster::table::ClaimRefusal;
use meshlock_cluster::time::{Span, Time};
use meshlock_host::front::{AcquireState, Ended, NotGranted};
use meshlock_host::gate::{Caller, CallerOrigin, RequestId};
use meshlock_system::now;
use meshlock_wire::sites::calls::{CallAsk, CallReply};
use meshlock_wire::sites::mirror::{MirrorNews, MirroredKey, MirroredSession};
use tokio::time::sleep;

use super::contact::{self, Duty, SourceContact, question_timeout};
use super::mirror_of;
use crate::forward::ForwardError;
use crate::sessions::key::{KeyAcquisition, KeyObserver};
use crate::sessions::registry::{AdoptedKey, AdoptedSession, KeyGrant, KeyId, LeaseId, Vouched};
use crate::sessions::{Inner, Sessions};

/// Maximum number of sessions that are copied, and of their keys. What is beyond ends with its site.
const MAX_SESSIONS: usize = 1 << 16;
const MAX_KEYS: usize = 1 << 17;

/// How often it is looked whether the other member is silent, or gone.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long nobody is asked after a question was refused.
const PAUSE: Duration = Duration::from_millis(200);

/// The copy of the sessions of one member.
struct SiteCopy {
    source: Member,
    /// The version of the news that it is made of; 0 if there is none.
    have: u64,
    contact: SourceContact,
    sessions: BTreeMap<LeaseId, SessionCopy>,
    /// News that takes away what this site has promised a moment ago.
    parked: Option<MirrorNews>,
    /// Something of it was lost here, so that it must be asked for anew.
    is_incomplete: bool,
    /// Since when the member is not in the view any more.
    orphaned: Option<Time>,
}

/// The copy of one session.
struct SessionCopy {
    told: MirroredSession,
    owner: Caller,
    label: Option<ClientLabel>,
    keys: Vec<KeyCopy>,
    /// It is in the registry: this site answers for it.
    is_adopted: bool,
    /// Until when its client may count on what this site has said, although it does not answer for the session any more.
    promised_until: Time,
}

/// The copy of a key, and this site's claim of its lock.
struct KeyCopy {
    told: MirroredKey,
    proof: Proof,
    id: KeyId,
    claim: Arc<KeyAcquisition>,
}

/// What a key's claim has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimState {
    Pending,
    Settled,
    Lost,
}

impl KeyCopy {
    fn state(&self) -> ClaimState {
        match self.claim.state() {
            AcquireState::Held(_) if self.claim.observer().is_settled() => ClaimState::Settled,
            AcquireState::Held(_) | AcquireState::Waiting => ClaimState::Pending,
            AcquireState::Lost { .. } | AcquireState::Ended(_) => ClaimState::Lost,
        }
    }
}

impl KeyCopy {
    /// Returns whether the claim was refused in a way that does not change by itself.
    fn is_hopeless(&self) -> bool {
        match self.claim.state() {
            AcquireState::Ended(Ended::NotGranted(NotGranted::NotClaimed(why))) => {
                !matches!(why, ClaimRefusal::UnknownKey | ClaimRefusal::NoLease | ClaimRefusal::NotMember)
            }
            AcquireState::Ended(_) => true,
            AcquireState::Waiting | AcquireState::Held(_) | AcquireState::Lost { .. } => false,
        }
    }
}

impl SessionCopy {
    fn has(&self, state: ClaimState) -> bool {
        self.keys.iter().any(|key| key.state() == state)
    }

    /// Returns whether its client may count on what this site has said.
    fn is_relied_on(&self, now: Time) -> bool {
        self.is_adopted || now < self.promised_until
    }
}

/// All that this site mirrors: the member before it, and members that are gone and whose sessions are not taken over yet.
#[derive(Default)]
struct Following {
    copies: Vec<SiteCopy>,
    neighbours: Neighbours,
}

/// Who takes part, as of the view with this epoch.
#[derive(Default)]
struct Neighbours {
    epoch: u32,
    /// The others, if this site takes part.
    members: Option<Vec<Member>>,
    /// The member that this site mirrors.
    source: Option<Member>,
}

impl Neighbours {
    /// Looks who takes part, if that may have changed: the node's lock is for locks.
    fn look(&mut self, here: &Sessions) {
        let (front, epoch) = (here.front(), here.front().epoch());
        if epoch == self.epoch {
            return;
        }
        let members = front.is_member().then(|| front.other_members());
        let sites = front.members();
        let is_source = |other: &&Member| mirror_of(&other.site, sites.iter()) == Some(here.site());
        let source = members.iter().flatten().find(is_source).cloned();
        *self = Neighbours { epoch, members, source };
    }
}

/// Follows the member before this one, until the last clone of the sessions is dropped.
pub(in crate::sessions) async fn follow(sessions: Weak<Inner>) {
    let mut following = Following::default();
    loop {
        let Some(inner) = sessions.upgrade() else { return };
        let here = Sessions(inner);
        following.look(&here, now());
        let Some((source, have)) = following.question(&here) else {
            drop(here);
            sleep(LOOK_EVERY).await;
            continue;
        };
        let sent = now();
        let reply = following.ask(&here, &source, have, sent).await;
        let is_answered = match reply {
            Some(Ok(CallReply::Mirror(news))) => following.on_news(&here, &source, news, (sent, now())),
            // It does not know the version: it begins anew.
            Some(Ok(CallReply::NotHere)) => {
                following.restart(&source);
                false
            }
            Some(Ok(_) | Err(_)) => false,
            None => true,
        };
        drop(here);
        if !is_answered {
            sleep(PAUSE).await;
        }
    }
}

impl Following {
    /// Asks a member what has changed of its sessions. Returns `None` if the answer takes too long, or nobody wants it any more.
    async fn ask(
        &mut self,
        here: &Sessions,
        source: &Member,
        have: u64,
        sent: Time,
    ) -> Option<Result<CallReply, ForwardError>> {
        let timeout = question_timeout(here.front().lease_terms(), self.has_sessions());
        let mut question = pin!(here.ask_member(&source.site, CallAsk::Mirror { have }));
        loop {
            tokio::select! {
                reply = &mut question => return Some(reply),
                () = sleep(LOOK_EVERY) => {
                    self.look(here, now());
                    let is_same = self.question(here).is_some_and(|(member, _)| member == *source);
                    if !is_same || now().since(sent) > timeout {
                        return None;
                    }
                }
            }
        }
    }

    fn has_sessions(&self) -> bool {
        self.copies.iter().any(|copy| !copy.sessions.is_empty())
    }

    fn copy_of(&mut self, source: &Member) -> Option<&mut SiteCopy> {
        self.copies.iter_mut().find(|copy| copy.source == *source)
    }

    /// Returns whom to ask, and which news of it this site has.
    fn question(&self, here: &Sessions) -> Option<(Member, u64)> {
        let source = self.source(here)?;
        let copy = self.copies.iter().find(|copy| copy.source == *source && copy.parked.is_none())?;
        Some((copy.source.clone(), copy.have))
    }

    /// Returns the member that this site mirrors; none if this site leaves.
    fn source(&self, here: &Sessions) -> Option<&Member> {
        self.neighbours.source.as_ref().filter(|_| !here.front().is_leaving())
    }

    /// Looks who is there and who is silent, and does what follows from it.
    fn look(&mut self, here: &Sessions, now: Time) {
        self.neighbours.look(here);
        let source = self.source(here).cloned();
        if let Some(source) = source.as_ref().filter(|source| self.copy_of(source).is_none()) {
            self.copies.push(SiteCopy::new(source.clone(), now));
        }
        let terms = here.front().lease_terms();
        let members = &self.neighbours.members;
        self.copies.retain_mut(|copy| {
            let is_member = members.as_ref().is_some_and(|members| members.contains(&copy.source));
            if members.is_none() {
                copy.drop_all(here);
                return false;
            }
            if is_member {
                copy.attend(here, now, terms);
                if source.as_ref() == Some(&copy.source) {
                    return true;
                }
                // Another member is its mirror, or this site leaves.
                copy.drop_unless(here, |session| session.is_relied_on(now));
                return !copy.sessions.is_empty();
            }
            copy.take_over(here, now, terms);
            !copy.sessions.is_empty()
        });
        here.meter().set_mirrored(self.copies.iter().map(|copy| copy.sessions.len()).sum());
    }

    /// Handles an answer to a question that was sent at `sent`. Returns whether it can be asked again at once.
    fn on_news(
        &mut self,
        here: &Sessions,
        source: &Member,
        news: MirrorNews,
        (sent, now): (Time, Time),
    ) -> bool {
        let Some(copy) = self.copy_of(source) else { return true };
        copy.on_news(here, news, (sent, now));
        let is_complete = !copy.is_incomplete;
        if !is_complete {
            copy.restart();
        }
        here.meter().set_mirrored(self.copies.iter().map(|copy| copy.sessions.len()).sum());
        is_complete
    }

    fn restart(&mut self, source: &Member) {
        if let Some(copy) = self.copy_of(source) {
            copy.restart();
        }
    }
}

impl SiteCopy {
    fn new(source: Member, now: Time) -> Self {
        let (contact, sessions) = (SourceContact::new(now), BTreeMap::new());
        let (parked, is_incomplete, orphaned) = (None, false, None);
        SiteCopy { source, have: 0, contact, sessions, parked, is_incomplete, orphaned }
    }

    /// Asks for everything anew. What is here stays until the answer says what has become of it.
    fn restart(&mut self) {
        (self.have, self.is_incomplete, self.parked) = (0, false, None);
    }

    fn drop_all(&mut self, here: &Sessions) {
        self.drop_unless(here, |_| false);
    }

    fn drop_unless(&mut self, here: &Sessions, stays: impl Fn(&SessionCopy) -> bool) {
        let gone = self.sessions.iter().filter(|(_, session)| !stays(session)).map(|(lease, _)| *lease);
        for lease in gone.collect::<Vec<_>>() {
            if let Some(session) = self.sessions.remove(&lease) {
                here.0.drop_copy(lease, session);
            }
        }
    }

    /// Handles what the other member says of its sessions, which shows that it is there.
    fn on_news(&mut self, here: &Sessions, news: MirrorNews, (sent, now): (Time, Time)) {
        self.contact.on_answer(sent, now, news.leaves);
        if !news.leaves {
            let until = now + here.front().lease_length();
            self.withdraw_all(here, until);
        }
        // A site that leaves gives nothing to others.
        if !news.leaves && takes_away(&self.sessions, &news, now) {
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
        for lease in gone {
            if let Some(session) = self.sessions.remove(&lease) {
                here.0.drop_copy(lease, session);
            }
        }
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
        let mut former = self.sessions.remove(&lease);
        let promised_until = former.as_ref().map_or(Time::ZERO, |former| former.promised_until);
        if let Some(former) = former.as_mut().filter(|former| former.is_adopted) {
            here.0.withdraw(lease, former);
        }
        let former = former.map_or_else(Vec::new, |former| former.keys);
        let keys = self.sessions.values().map(|session| session.keys.len()).sum::<usize>();
        let has_room = self.sessions.len() < MAX_SESSIONS && keys + told.keys.len() <= MAX_KEYS;
        let mut claims = former;
        let copy = if has_room { here.0.copy(&self.source, told, &mut claims) } else { None };
        // What it does not hold any more, or all of it if it cannot be copied.
        for key in claims {
            key.claim.close(Ended::SessionOver);
        }
        if let Some(copy) = copy {
            self.sessions.insert(lease, SessionCopy { promised_until, ..copy });
        }
    }

    /// Leaves all sessions to the other member. Nothing that this site has said lasts longer than `until`.
    fn withdraw_all(&mut self, here: &Sessions, until: Time) {
        for (lease, session) in self.sessions.iter_mut().filter(|(_, session)| session.is_adopted) {
            here.0.withdraw(*lease, session);
            session.promised_until = until;
        }
    }

    /// Answers for the sessions of a member that is in the view, if that is silent or leaves.
    fn attend(&mut self, here: &Sessions, now: Time, terms: Terms) {
        if let Some(news) = self.parked.take_if(|news| !takes_away(&self.sessions, news, now)) {
            self.apply(here, news, now);
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
        for lease in over {
            self.is_incomplete = true;
            if let Some(session) = self.sessions.remove(&lease) {
                here.0.drop_copy(lease, session);
            }
        }
    }

    /// Makes the sessions of a member that is not in the view any more this site's own, as soon as their locks are.
    fn take_over(&mut self, here: &Sessions, now: Time, terms: Terms) {
        let orphaned = *self.orphaned.get_or_insert(now);
        self.adopt_all(here, None, terms);
        let is_late = now.since(orphaned) > terms.resume_window();
        let decided =
            |session: &SessionCopy| is_late || !session.has(ClaimState::Pending) || !session.is_adopted;
        let done: Vec<LeaseId> =
            self.sessions.iter().filter(|(_, session)| decided(session)).map(|(lease, _)| *lease).collect();
        for lease in done {
            let Some(session) = self.sessions.remove(&lease) else { continue };
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

impl Inner {
    /// Copies a session, with those of the claims that are of its keys; the others stay in `claims`. `None` if it cannot be taken over.
    fn copy(
        self: &Arc<Self>,
        source: &Member,
        told: MirroredSession,
        claims: &mut Vec<KeyCopy>,
    ) -> Option<SessionCopy> {
        let principal = told.owner.principal().filter(|principal| !self.front().is_revoked(principal))?;
        let (origin, request) =
            (CallerOrigin::Network(told.owner.address), RequestId::of(told.owner.request));
        let owner = Caller { principal, origin, request, certificate: None };
        let label = told.label.as_deref().and_then(|label| label.parse().ok());
        // A claim that was lost is in the way of a new one.
        for lost in claims.extract_if(.., |claim| claim.state() == ClaimState::Lost) {
            lost.claim.close(Ended::SessionOver);
        }
        let mut keys = Vec::new();
        for key in &told.keys {
            let known = claims.iter().position(|known| known.told.proof == key.proof);
            let copy = match known {
                Some(at) => Some(KeyCopy { told: key.clone(), ..claims.swap_remove(at) }),
                None => self.claim_key(source, &owner, Span::from_micros(told.lasts), key),
            };
            keys.extend(copy);
        }
        if keys.len() < told.keys.len() || keys.iter().any(KeyCopy::is_hopeless) {
            claims.append(&mut keys);
            return None;
        }
        Some(SessionCopy { told, owner, label, keys, is_adopted: false, promised_until: Time::ZERO })
    }

    /// Claims the lock of a key.
    fn claim_key(
        self: &Arc<Self>,
        source: &Member,
        owner: &Caller,
        lasts: Span,
        told: &MirroredKey,
    ) -> Option<KeyCopy> {
        let proof = Proof::from_bytes(&told.proof).ok().filter(|proof| proof.hold().holder == *source)?;
        let label: ClientLabel = told.label.parse().ok()?;
        let observer = KeyObserver::new(Arc::downgrade(self), label.clone());
        let id = self.registry().new_key_id();
        let _ = observer.key.set(id);
        let owner = self.front().on_behalf_of(owner.clone());
        let claim = self.front().prepare(&owner, &proof.hold().lock, observer);
        claim.stand_in(label, Some(lasts), proof.clone());
        Some(KeyCopy { told: told.clone(), proof, id, claim })
    }

    /// Puts a session into the registry, so that this site answers for it. It ends within `window` after `sent` unless its client comes.
    fn adopt(
        &self,
        lease: LeaseId,
        session: &mut SessionCopy,
        vouched: Vouched,
        (sent, window): (Time, Span),
    ) {
        let keys = session.keys.iter().map(|key| {
            let hold = key.proof.hold();
            AdoptedKey {
                id: key.id,
                name: key.told.name.clone(),
                lock: hold.lock.clone(),
                value: key.told.value.clone(),
                grant: KeyGrant { fence: hold.fence.value(), slot: hold.slot },
                revisions: [key.told.created, key.told.modified, key.told.version],
                driver: key.claim.clone(),
            }
        });
        let lasts = Span::from_micros(session.told.lasts);
        let adopted = AdoptedSession {
            lease,
            owner: session.owner.clone(),
            who: session.label.clone(),
            lasts,
            delay: Span::from_micros(session.told.delay),
            vouched,
        };
        let keys = keys.collect();
        let done = self.registry().adopt(adopted, keys, sent + lasts.min(window));
        if let Err(why) = done {
            tracing::debug!(%lease, %why, "a session of another site is not adopted");
            return;
        }
        session.is_adopted = true;
        self.set_elsewhere(lease, false);
        if let (Some(companion), Some(told)) = (self.companion.get(), &session.told.consul) {
            companion.adopt(lease, lasts, told);
        }
        self.alarm.notify_one();
        self.note_change();
    }

    /// Removes a session from the registry, because the site that has it answers again.
    fn withdraw(&self, lease: LeaseId, session: &mut SessionCopy) {
        session.is_adopted = false;
        self.set_elsewhere(lease, true);
        self.registry().withdraw(lease);
        self.note_change();
    }

    /// Forgets the copy of a session, and gives up the claims of what it holds.
    fn drop_copy(&self, lease: LeaseId, mut session: SessionCopy) {
        if session.is_adopted {
            self.withdraw(lease, &mut session);
            self.stopping.note_loss();
        }
        for key in session.keys {
            key.claim.close(Ended::SessionOver);
        }
    }
}
