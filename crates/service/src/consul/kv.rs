//! Keys that are acquired, released, changed and deleted.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::http::StatusCode;
use meshlock_cluster::access::Verb;
use meshlock_cluster::names::LockName;
use meshlock_cluster::table::Wait;
use meshlock_host::front::Admitted;
use tokio::time::timeout;

use super::calls::Write;
use super::document::{Change, Document, DocumentError};
use super::errors::Fault;
use super::names::{Form, Place, SEMAPHORE_FLAGS, contender_of, document_of, label, ledger_name};
use super::records::Mark;
use super::{Consul, ids};
use crate::sessions::registry::{LeaseId, NewKey, State};
use crate::sessions::{AcquireState, IfKnown, KeyRequest, NotHeld};

/// How long one that was refused waits for another of this site who is just being given the lock: so long asking takes at most.
const SETTLES_WITHIN: Duration = Duration::from_millis(250);

impl Consul {
    /// Does what a call asks for; gives back whether it was done.
    pub(super) async fn write(
        &self,
        caller: &Admitted,
        key: String,
        place: Place,
        write: Write,
        body: &[u8],
    ) -> Result<bool, Fault> {
        match write {
            Write::Acquire { session, flags } => {
                let lease = self.living(caller, &session)?;
                let mark = Mark { key, flags, value: body.to_vec() };
                match place {
                    Place::Contender(lock, whose) if whose == lease => {
                        self.contend(caller, lock, lease, mark)
                    }
                    // Another's key is a lock like any other.
                    Place::Contender(..) => {
                        self.hold(caller, mark.key.parse().map_err(Fault::bad)?, lease, mark).await
                    }
                    Place::Lock(lock) | Place::Document(lock) => self.hold(caller, lock, lease, mark).await,
                }
            }
            Write::Release { session } => self.give_back(caller, &place, &session),
            Write::Change { index } => match place {
                Place::Document(lock) => self.change(caller, &lock, index, body).await,
                Place::Lock(_) | Place::Contender(..) => {
                    Err(Fault::not_a_lock("a value is put under a key that is no semaphore's PREFIX/.lock"))
                }
            },
            Write::Delete { index } => self.delete(caller, &key, &place, index).await,
        }
    }

    /// A session acquires a lock's key, if nobody else has it. Who has it already changes what it shows.
    async fn hold(
        &self,
        caller: &Admitted,
        lock: LockName,
        lease: LeaseId,
        mark: Mark,
    ) -> Result<bool, Fault> {
        let held = self.get(caller, &lock, lease, (Form::Whole, mark.clone()), 1).await?;
        let is_shown = self.records().held(lease, &lock).is_some_and(|(_, shown)| *shown == mark);
        if held && !is_shown {
            let label = label(Form::Whole, lease, mark.flags, &mark.value).map_err(too_long)?;
            let value = mark.value.clone();
            self.records().set_held(lease, lock.clone(), Form::Whole, mark);
            self.sessions.set_value(caller, &ledger_name(&lock, lease), value, label);
        }
        Ok(held)
    }

    /// Tries to get a lock, or one of its permits.
    async fn get(
        &self,
        caller: &Admitted,
        lock: &LockName,
        lease: LeaseId,
        (form, mark): (Form, Mark),
        permits: u32,
    ) -> Result<bool, Fault> {
        let who = label(form, lease, mark.flags, &mark.value).map_err(too_long)?;
        let name = ledger_name(lock, lease);
        let wanted = NewKey { name: name.clone(), lock: lock.clone(), lease, value: mark.value.clone() };
        let order = KeyRequest { wanted, wait: Wait::Try, who, if_known: IfKnown::Join };
        // Whoever looks as soon as the lock is granted sees whose it is.
        let is_new = self.records().held(lease, lock).is_none();
        if is_new {
            self.records().set_held(lease, lock.clone(), form, mark);
        }
        // The cluster has to agree on the number only where it is another than the rules say.
        let permits = Some(permits).filter(|&permits| self.permits_of(lock) != Some(permits));
        let held = self.sessions.acquire(caller, order, permits).await;
        if held.is_err() && is_new && self.sessions.key(caller, &name).is_none() {
            self.records().remove_held(lease, lock);
        }
        match held {
            // Its time may have come while it asked.
            Ok(_) if !self.is_alive(caller, lease) => Err(self.no_session(lease)),
            Ok(_) => {
                self.touch();
                Ok(true)
            }
            Err(NotHeld::Busy | NotHeld::TimedOut) => {
                self.settle(lock).await;
                Ok(false)
            }
            Err(error) => Err(self.not_held(&error)),
        }
    }

    /// Who is refused looks who has the lock. If that is one of this site's who is just being given it, it is to be seen.
    async fn settle(&self, lock: &LockName) {
        let asks = {
            let registry = self.sessions.registry();
            let mut of_lock = registry.keys_from(lock.as_str().as_bytes()).filter(|key| key.lock == *lock);
            of_lock.find(|key| key.state == State::Waiting).map(|key| key.driver.clone())
        };
        if let Some(asks) = asks {
            let _ = timeout(SETTLES_WITHIN, asks.until(|state| *state != AcquireState::Waiting)).await;
        }
    }

    /// A session says that it wants a permit: until it is over, or says otherwise.
    fn contend(&self, caller: &Admitted, lock: LockName, lease: LeaseId, mark: Mark) -> Result<bool, Fault> {
        self.check(caller, Verb::Acquire, &lock)?;
        // What it shows it will show at other sites once it has the permit.
        label(Form::Permit, lease, mark.flags, &mark.value).map_err(too_long)?;
        let most = self.sessions.limits().keys;
        let mut records = self.records();
        if records.add_contender(lease, lock.clone(), mark.clone(), most).is_err() {
            drop(records);
            self.forget_sessions();
            records = self.records();
            records.add_contender(lease, lock, mark, most).map_err(|_| {
                let message =
                    format!("meshlock: {most} permits are wanted through this site, and it takes no more");
                Fault::new(StatusCode::TOO_MANY_REQUESTS, message)
            })?;
        }
        drop(records);
        self.touch();
        Ok(true)
    }

    /// A session gives back what it has under a key.
    fn give_back(&self, caller: &Admitted, place: &Place, session: &str) -> Result<bool, Fault> {
        let lease = Consul::lease(session)?;
        if !self.is_alive(caller, lease) {
            // Another site's may have it: that is not known here.
            return self.elsewhere(lease).map_or(Ok(false), |_| Err(self.no_session(lease)));
        }
        Ok(match place {
            Place::Lock(lock) | Place::Document(lock) => self.let_go(caller, lock, lease),
            Place::Contender(lock, whose) if *whose == lease => self.withdraw(caller, lock, lease),
            Place::Contender(..) => false,
        })
    }

    /// Gives a lock or a permit back.
    fn let_go(&self, caller: &Admitted, lock: &LockName, lease: LeaseId) -> bool {
        let released = self.sessions.release(caller, &ledger_name(lock, lease)).is_some();
        self.records().remove_held(lease, lock);
        self.touch();
        released
    }

    /// A session wants no permit any more; if it has one, it gives it back.
    fn withdraw(&self, caller: &Admitted, lock: &LockName, lease: LeaseId) -> bool {
        let permit = self.records().held(lease, lock).is_some_and(|(form, _)| *form == Form::Permit);
        let released = permit && self.let_go(caller, lock, lease);
        let removed = self.records().remove_contender(lease, lock);
        self.touch();
        released || removed
    }

    /// A semaphore's document is changed: somebody wants a permit, or gives one back.
    async fn change(
        &self,
        caller: &Admitted,
        lock: &LockName,
        index: u64,
        body: &[u8],
    ) -> Result<bool, Fault> {
        self.check(caller, Verb::Acquire, lock)?;
        let next = Document::read(body).map_err(|error| Fault::not_a_lock(&error.to_string()))?;
        let place = Place::Document(lock.clone());
        let seen = self.observe(lock).await?;
        let (entry, _) = self.entry(&document_of(lock), &place, &seen);
        if entry.map_or(0, |entry| entry.modify_index) != index {
            return Ok(false);
        }
        if seen.document().is_none() && !seen.holders.is_empty() {
            return Err(not_changed(lock, &DocumentError::HeldAsALock));
        }
        let nobody = || Document { limit: next.limit, holders: BTreeSet::new() };
        let before = seen.document().unwrap_or_else(nobody);
        let change = before.change_to(&next).map_err(|error| not_changed(lock, &error))?;
        match change {
            Change::Nothing => Ok(true),
            Change::Add(session) => {
                let lease = self.living(caller, &session)?;
                let contender = self.records().contender(lease, lock).cloned();
                let mark = contender.unwrap_or_else(|| Mark {
                    key: contender_of(lock, &session),
                    flags: SEMAPHORE_FLAGS,
                    value: Vec::new(),
                });
                self.get(caller, lock, lease, (Form::Permit, mark), next.limit).await
            }
            Change::Remove(session) => match ids::lease(&session) {
                Some(lease) if self.is_alive(caller, lease) => Ok(self.let_go(caller, lock, lease)),
                Some(lease) => Err(self.no_session(lease)),
                None => Err(Fault::new(
                    StatusCode::CONFLICT,
                    format!(
                        "meshlock: {session} is no session: it stands for a holder that does not use this API, and gives back by itself"
                    ),
                )),
            },
        }
    }

    /// A key is deleted. What somebody holds is not: only who has a lock gives it back.
    async fn delete(
        &self,
        caller: &Admitted,
        key: &str,
        place: &Place,
        index: Option<u64>,
    ) -> Result<bool, Fault> {
        if let Place::Contender(lock, lease) = place
            && self.is_alive(caller, *lease)
        {
            let (entry, _) = self.entry(key, place, &self.observe(lock).await?);
            let is_meant = entry.is_none_or(|entry| index.is_none_or(|index| entry.modify_index == index));
            if is_meant {
                self.withdraw(caller, lock, *lease);
            }
            return Ok(is_meant);
        }
        self.check(caller, Verb::Acquire, place.lock())?;
        let seen = self.observe(place.lock()).await?;
        // What is not there is deleted.
        let (Some(entry), _) = self.entry(key, place, &seen) else { return Ok(true) };
        if index.is_some_and(|index| index != entry.modify_index) {
            return Ok(false);
        }
        match seen.holders.first() {
            None => Ok(true),
            Some(held) => Err(Fault::new(
                StatusCode::CONFLICT,
                format!(
                    "meshlock: '{}' is held by the session {}: only who has a lock gives it back (?release={}, or destroy the \
                     session; operators: meshlock break)",
                    place.lock(),
                    held.session,
                    held.session
                ),
            )),
        }
    }
}

fn too_long(error: crate::escape::ValueTooLong) -> Fault {
    Fault::new(StatusCode::PAYLOAD_TOO_LARGE, format!("meshlock: {error}"))
}

fn not_changed(lock: &LockName, error: &DocumentError) -> Fault {
    let message = format!("meshlock: the document of the semaphore '{lock}' is not changed: {error}");
    Fault::new(StatusCode::CONFLICT, message)
}
