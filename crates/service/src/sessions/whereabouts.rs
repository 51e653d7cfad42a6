//! Where is a session? Calls come to any site, and are executed by the one that has what they are about.
//!
//! 1. This site has it.
//! 2. It was found a moment ago.
//! 3. Its number names the site that has granted it.
//! 4. All members are asked, once.
//!
//! Only the fourth costs messages, and only leases whose number a client chose need it, keys that do not name a lease, and questions for
//! keys by their revision. What a member says here is not believed for long: the site that executes a call looks again whether it has
//! what the call is about, and says so if not. So a site that answers for the sessions of another one, which is gone, needs to be known
//! here and nowhere else.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use meshlock_cluster::access::Principal;
use meshlock_cluster::names::SiteName;
use meshlock_cluster::time::{Span, Time};
use meshlock_host::front::Admitted;
use meshlock_system::now;
use meshlock_wire::sites::calls::{CallAsk, CallReply, CallSubject};
use tokio::time::timeout;

use super::Sessions;
use crate::etcd::leases_of_key;
use crate::sessions::registry::{KeyState, LeaseId};

/// How long a member has to say whether it has something.
const FIND_TIMEOUT: Duration = Duration::from_secs(2);

/// How long is remembered where a lease is, and that it is nowhere.
const REMEMBER: Span = Span::from_millis(10_000);
const REMEMBER_NOTHING: Span = Span::from_millis(1000);

/// Maximum number of leases that are remembered.
const MAX_REMEMBERED: usize = 4096;

/// The place of what a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionPlace {
    Here,
    At(SiteName),
    /// No member has it.
    Nowhere,
    /// Nobody who answers has it, and these do not answer.
    Unknown(Vec<SiteName>),
}

/// Where leases were found.
#[derive(Debug, Default)]
pub(crate) struct Remembered(Mutex<BTreeMap<i64, (Option<SiteName>, Time)>>);

impl Remembered {
    fn get(&self, subject: &CallSubject, now: Time) -> Option<SessionPlace> {
        let CallSubject::Lease(lease) = subject else { return None };
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (site, _) = all.get(lease).filter(|(_, until)| *until > now)?;
        Some(site.clone().map_or(SessionPlace::Nowhere, SessionPlace::At))
    }

    fn put(&self, subject: &CallSubject, site: Option<SiteName>, now: Time) {
        let CallSubject::Lease(lease) = subject else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_REMEMBERED {
            all.retain(|_, (_, until)| *until > now);
            if all.len() >= MAX_REMEMBERED {
                all.clear();
            }
        }
        let until = now + if site.is_some() { REMEMBER } else { REMEMBER_NOTHING };
        all.insert(*lease, (site, until));
    }

    /// Forgets where something is.
    fn forget(&self, subject: &CallSubject) {
        if let CallSubject::Lease(lease) = subject {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(lease);
        }
    }
}

/// Returns how well a site must fit for nobody else to fit better.
fn best(subject: &CallSubject) -> u8 {
    match subject {
        CallSubject::Lease(_) | CallSubject::Site => 1,
        // The name of a key without a lease is the lock's: another site may have one, too.
        CallSubject::Key(key) => {
            if leases_of_key(key).is_empty() {
                3
            } else {
                1
            }
        }
        CallSubject::Created { .. } | CallSubject::Lock(_) => 2,
    }
}

impl Sessions {
    /// Returns whether this site has something, and how well it fits: 0 if it does not have it.
    pub(crate) fn has(&self, principal: &Principal, subject: &CallSubject) -> u8 {
        let (registry, now) = (self.registry(), now());
        let is_alive = |id: LeaseId| registry.is_alive(id, now) || registry.is_of(id, principal);
        match subject {
            CallSubject::Site => 1,
            CallSubject::Lease(number) => u8::from(LeaseId::new(*number).is_some_and(is_alive)),
            CallSubject::Key(name) => {
                let name = name.strip_suffix(crate::etcd::BEFORE).unwrap_or(name);
                match registry.key(name) {
                    Some(key) => {
                        let is_held = key.state != KeyState::Waiting;
                        1 + 2 * u8::from(is_held) + u8::from(key.owner == *principal)
                    }
                    None => u8::from(leases_of_key(name).into_iter().any(is_alive)),
                }
            }
            CallSubject::Created { lock, revision } => {
                let key = registry.created_as(lock, *revision, principal);
                // A client that waits must never be told that nobody is before it.
                key.map_or(0, |key| 1 + u8::from(key.state == KeyState::Waiting))
            }
            CallSubject::Lock(lock) => {
                let of_caller = registry
                    .keys_from(lock.as_str().as_bytes())
                    .filter(|key| key.lock == *lock && key.owner == *principal);
                of_caller.map(|key| 1 + u8::from(key.state != KeyState::Waiting)).max().unwrap_or(0)
            }
        }
    }

    /// Finds what a call is about.
    pub(crate) async fn place_of(&self, caller: &Admitted, subject: &CallSubject) -> SessionPlace {
        if self.has(&caller.principal, subject) >= best(subject) {
            return SessionPlace::Here;
        }
        if let Some(place) = self.0.remembered.get(subject, now()) {
            return place;
        }
        match self.named(subject) {
            Some(site) => SessionPlace::At(site),
            None => self.ask_members(caller, subject).await,
        }
    }

    /// Returns the other site that the number of a lease names.
    fn named(&self, subject: &CallSubject) -> Option<SiteName> {
        match subject {
            CallSubject::Lease(number) => self.granted_by(LeaseId::new(*number)?),
            CallSubject::Key(key) => leases_of_key(key).into_iter().find_map(|lease| self.granted_by(lease)),
            CallSubject::Created { .. } | CallSubject::Lock(_) | CallSubject::Site => None,
        }
    }

    /// Asks all members who has something.
    pub(crate) async fn ask_members(&self, caller: &Admitted, subject: &CallSubject) -> SessionPlace {
        let others = self.front().other_members();
        let ask = |site: SiteName| async move {
            let found = timeout(FIND_TIMEOUT, self.forward(&site, caller, CallAsk::Find(subject.clone())));
            let rank = match found.await {
                Ok(Ok(CallReply::Found(rank))) => Some(rank),
                // It has no port for clients.
                Ok(Ok(CallReply::NotHere)) => Some(0),
                Ok(Ok(_) | Err(_)) | Err(_) => None,
            };
            (site, rank)
        };
        let mut asked: FuturesUnordered<_> = others.into_iter().map(|member| ask(member.site)).collect();
        let mut answers = Vec::new();
        while let Some((site, rank)) = asked.next().await {
            answers.push((site, rank));
            // Nobody has it in a better way, so that it need not be waited for those who do not answer.
            if rank.is_some_and(|rank| rank >= best(subject)) {
                break;
            }
        }
        let here = self.has(&caller.principal, subject);
        let found = answers.iter().filter_map(|(site, rank)| Some((rank.filter(|rank| *rank > 0)?, site)));
        let found = found.max_by_key(|(rank, _)| *rank);
        let missing = || answers.iter().filter(|(_, rank)| rank.is_none()).map(|(site, _)| site.clone());
        let place = match found {
            Some((rank, site)) if rank > here => SessionPlace::At(site.clone()),
            _ if here > 0 => SessionPlace::Here,
            _ if missing().next().is_some() => return SessionPlace::Unknown(missing().collect()),
            _ => SessionPlace::Nowhere,
        };
        match &place {
            SessionPlace::At(site) => self.0.remembered.put(subject, Some(site.clone()), now()),
            SessionPlace::Nowhere => self.0.remembered.put(subject, None, now()),
            SessionPlace::Here | SessionPlace::Unknown(_) => {}
        }
        place
    }

    /// Forgets where something is: it was not there.
    pub(crate) fn forget_place(&self, subject: &CallSubject) {
        self.0.remembered.forget(subject);
    }
}
