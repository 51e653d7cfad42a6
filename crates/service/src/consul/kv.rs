//! Acquiring, releasing, changing and deleting keys.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::http::StatusCode;
use meshlock_cluster::access::Verb;
use meshlock_cluster::names::LockName;
use meshlock_cluster::table::Wait;
use meshlock_host::front::Admitted;
use tokio::time::timeout;

use super::calls::KvWrite;
use super::document::{Document, DocumentChange, DocumentError};
use super::errors::ConsulError;
use super::names::{Form, KeyPath, SEMAPHORE_FLAGS, contender_of, document_of, label, registry_name};
use super::records::KeyContent;
use super::{Consul, ids};
use crate::sessions::registry::{KeyState, LeaseId, NewKey};
use crate::sessions::{AcquireError, AcquireState, IfKnown, KeyRequest};

/// How long a refused acquisition waits for another client of this site that is just being granted the lock: the time
/// that such a request takes at most.
const SETTLE_TIMEOUT: Duration = Duration::from_millis(250);

impl Consul {
    /// Executes a write. Returns whether it was done. `target` is how another site is asked to do the same, if it may be.
    pub(super) async fn write(
        &self,
        caller: &Admitted,
        key: String,
        path: KeyPath,
        write: KvWrite,
        (body, target): (&[u8], Option<&str>),
    ) -> Result<bool, ConsulError> {
        match write {
            KvWrite::Acquire { session, flags } => {
                let lease = self.live_lease(caller, &session)?;
                let mark = KeyContent { key, flags, value: body.to_vec() };
                match path {
                    KeyPath::Contender(lock, whose) if whose == lease => {
                        self.contend(caller, lock, lease, mark)
                    }
                    // The key of another session is a lock like any other.
                    KeyPath::Contender(..) => {
                        self.hold(caller, mark.key.parse().map_err(ConsulError::bad)?, lease, mark).await
                    }
                    KeyPath::Lock(lock) | KeyPath::Document(lock) => {
                        self.hold(caller, lock, lease, mark).await
                    }
                }
            }
            KvWrite::Release { session } => self.give_back(caller, &path, &session),
            KvWrite::Change { index } => match path {
                KeyPath::Document(lock) => self.change(caller, &lock, index, (body, target)).await,
                KeyPath::Lock(_) | KeyPath::Contender(..) => Err(ConsulError::not_a_lock(
                    "a value is put under a key that is no semaphore's PREFIX/.lock",
                )),
            },
            KvWrite::Delete { index } => self.delete(caller, &key, &path, index).await,
        }
    }

    /// Acquires the key of a lock for a session if nobody else holds it. If the session already holds it, its content
    /// is replaced.
    async fn hold(
        &self,
        caller: &Admitted,
        lock: LockName,
        lease: LeaseId,
        mark: KeyContent,
    ) -> Result<bool, ConsulError> {
        let held = self.get(caller, &lock, lease, (Form::Whole, mark.clone()), 1).await?;
        let is_shown = self.records().held(lease, &lock).is_some_and(|(_, shown)| *shown == mark);
        if held && !is_shown {
            let label =
                label(&caller.principal, Form::Whole, lease, mark.flags, &mark.value).map_err(too_long)?;
            let value = mark.value.clone();
            self.records().set_held(lease, lock.clone(), Form::Whole, mark);
            self.sessions.set_value(caller, &registry_name(&lock, lease), value, label);
        }
        Ok(held)
    }

    /// Tries to acquire a lock or one of its permits.
    async fn get(
        &self,
        caller: &Admitted,
        lock: &LockName,
        lease: LeaseId,
        (form, mark): (Form, KeyContent),
        permits: u32,
    ) -> Result<bool, ConsulError> {
        let who = label(&caller.principal, form, lease, mark.flags, &mark.value).map_err(too_long)?;
        let name = registry_name(lock, lease);
        let wanted = NewKey { name: name.clone(), lock: lock.clone(), lease, value: mark.value.clone() };
        let request =
            KeyRequest { wanted, wait: Wait::Try, permits: Some(permits), who, if_known: IfKnown::Join };
        // Record the session first, so that readers see the holder as soon as the lock is granted.
        let is_new = self.records().held(lease, lock).is_none();
        if is_new {
            self.records().set_held(lease, lock.clone(), form, mark);
        }
        let held = self.sessions.acquire(caller, request).await;
        if held.is_err() && is_new && self.sessions.key(caller, &name).is_none() {
            self.records().remove_held(lease, lock);
        }
        match held {
            // The session may have ended meanwhile.
            Ok(_) if !self.is_alive(caller, lease) => Err(Consul::no_session(lease)),
            Ok(_) => {
                self.touch();
                Ok(true)
            }
            Err(AcquireError::Busy | AcquireError::TimedOut) => {
                self.settle(lock).await;
                Ok(false)
            }
            Err(error) => Err(self.not_held(&error)),
        }
    }

    /// Waits briefly for a client of this site that is just being granted the lock, so that a client that was refused
    /// finds it when it reads the holder.
    async fn settle(&self, lock: &LockName) {
        let asks = {
            let registry = self.sessions.registry();
            let mut of_lock = registry.keys_from(lock.as_str().as_bytes()).filter(|key| key.lock == *lock);
            of_lock.find(|key| key.state == KeyState::Waiting).map(|key| key.driver.clone())
        };
        if let Some(asks) = asks {
            let _ = timeout(SETTLE_TIMEOUT, asks.until(|state| *state != AcquireState::Waiting)).await;
        }
    }

    /// Records that a session wants a permit, until it ends or withdraws.
    fn contend(
        &self,
        caller: &Admitted,
        lock: LockName,
        lease: LeaseId,
        mark: KeyContent,
    ) -> Result<bool, ConsulError> {
        self.check(caller, Verb::Acquire, &lock)?;
        // The content must fit into the label that other sites see once the session has the permit.
        label(&caller.principal, Form::Permit, lease, mark.flags, &mark.value).map_err(too_long)?;
        let max = self.sessions.limits().keys;
        let mut records = self.records();
        if records.add_contender(lease, lock.clone(), mark.clone(), max).is_err() {
            drop(records);
            self.forget_sessions();
            records = self.records();
            records.add_contender(lease, lock, mark, max).map_err(|_| {
                let message =
                    format!("meshlock: {max} permits are requested through this site, which is its limit; try again later");
                ConsulError::new(StatusCode::TOO_MANY_REQUESTS, message)
            })?;
        }
        drop(records);
        self.touch();
        Ok(true)
    }

    /// Releases what a session has under a key.
    fn give_back(&self, caller: &Admitted, path: &KeyPath, session: &str) -> Result<bool, ConsulError> {
        let lease = Consul::lease(session)?;
        if !self.is_alive(caller, lease) {
            return Ok(false);
        }
        Ok(match path {
            KeyPath::Lock(lock) | KeyPath::Document(lock) => self.let_go(caller, lock, lease),
            KeyPath::Contender(lock, whose) if *whose == lease => self.withdraw(caller, lock, lease),
            KeyPath::Contender(..) => false,
        })
    }

    /// Releases a lock or a permit.
    pub(super) fn let_go(&self, caller: &Admitted, lock: &LockName, lease: LeaseId) -> bool {
        let released = self.sessions.release(caller, &registry_name(lock, lease)).is_some();
        self.records().remove_held(lease, lock);
        self.touch();
        released
    }

    /// Withdraws a session's request for a permit, and releases the permit if it has one.
    pub(super) fn withdraw(&self, caller: &Admitted, lock: &LockName, lease: LeaseId) -> bool {
        let permit = self.records().held(lease, lock).is_some_and(|(form, _)| *form == Form::Permit);
        let released = permit && self.let_go(caller, lock, lease);
        let removed = self.records().remove_contender(lease, lock);
        self.touch();
        released || removed
    }

    /// Changes the document of a semaphore: acquires or releases a permit. The session's site does so, which shows only here:
    /// the document has the sessions of others, too.
    async fn change(
        &self,
        caller: &Admitted,
        lock: &LockName,
        index: u64,
        (body, target): (&[u8], Option<&str>),
    ) -> Result<bool, ConsulError> {
        let reader = self.reader(caller, Verb::Acquire, lock)?;
        let next = Document::read(body).map_err(|error| ConsulError::not_a_lock(&error.to_string()))?;
        let path = KeyPath::Document(lock.clone());
        let seen = self.observe(&reader).await?;
        let (entry, _) = self.entry(&document_of(lock), &path, &seen);
        if entry.map_or(0, |entry| entry.modify_index) != index {
            return Ok(false);
        }
        if seen.document().is_none() && !seen.holders.is_empty() {
            return Err(not_changed(lock, &DocumentError::HeldAsALock));
        }
        let nobody = || Document { limit: next.limit, holders: BTreeSet::new() };
        let before = seen.document().unwrap_or_else(nobody);
        let change = before.change_to(&next).map_err(|error| not_changed(lock, &error))?;
        if let (Some(target), Some(lease)) = (target, change.session().and_then(ids::lease))
            && !self.is_alive(caller, lease)
            && let Some(changed) = self.change_at_its_site(caller, lease, (target, body)).await?
        {
            return Ok(changed);
        }
        match change {
            DocumentChange::Nothing => Ok(true),
            DocumentChange::Add(session) => {
                let lease = self.live_lease(caller, &session)?;
                let contender = self.records().contender(lease, lock).cloned();
                let mark = contender.unwrap_or_else(|| KeyContent {
                    key: contender_of(lock, &session),
                    flags: SEMAPHORE_FLAGS,
                    value: Vec::new(),
                });
                self.get(caller, lock, lease, (Form::Permit, mark), next.limit).await
            }
            DocumentChange::Remove(session) => match ids::lease(&session) {
                Some(lease) if self.is_alive(caller, lease) => Ok(self.let_go(caller, lock, lease)),
                Some(lease) => Err(Consul::no_session(lease)),
                None => Err(ConsulError::new(
                    StatusCode::CONFLICT,
                    format!(
                        "meshlock: {session} is not a session: it stands for a holder that does not use this API and releases the permit itself"
                    ),
                )),
            },
        }
    }

    /// Lets the site of a session change a document. Returns `None` if no other site has the session.
    async fn change_at_its_site(
        &self,
        caller: &Admitted,
        lease: LeaseId,
        (target, body): (&str, &[u8]),
    ) -> Result<Option<bool>, ConsulError> {
        let answer = self.sessions.put_at_lease(caller, lease.number(), target, body).await;
        let unanswered = |status: tonic::Status| {
            ConsulError::new(StatusCode::SERVICE_UNAVAILABLE, status.message().to_owned())
        };
        let Some(answer) = answer.map_err(unanswered)? else { return Ok(None) };
        match (answer.status, answer.body.as_slice()) {
            (200, b"true") => Ok(Some(true)),
            (200, b"false") => Ok(Some(false)),
            (status, said) => {
                let status = StatusCode::from_u16(status).ok().filter(|status| !status.is_success());
                let said = String::from_utf8_lossy(said).into_owned();
                Err(ConsulError::new(status.unwrap_or(StatusCode::SERVICE_UNAVAILABLE), said))
            }
        }
    }

    /// Deletes a key. One that is held can be deleted by its holder only, which releases it.
    async fn delete(
        &self,
        caller: &Admitted,
        key: &str,
        path: &KeyPath,
        index: Option<u64>,
    ) -> Result<bool, ConsulError> {
        if let KeyPath::Contender(lock, lease) = path
            && self.is_alive(caller, *lease)
        {
            let is_meant = match index {
                None => true,
                Some(index) => {
                    let seen = self.observe(&self.reader(caller, Verb::Acquire, lock)?).await?;
                    self.entry(key, path, &seen).0.is_none_or(|entry| entry.modify_index == index)
                }
            };
            if is_meant {
                self.withdraw(caller, lock, *lease);
            }
            return Ok(is_meant);
        }
        let seen = self.observe(&self.reader(caller, Verb::Acquire, path.lock())?).await?;
        // A missing key counts as deleted.
        let (Some(entry), _) = self.entry(key, path, &seen) else { return Ok(true) };
        if index.is_some_and(|index| index != entry.modify_index) {
            return Ok(false);
        }
        match seen.holders.first() {
            None => Ok(true),
            Some(held)
                if let Some(lease) = ids::lease(&held.session)
                    && matches!(path, KeyPath::Lock(_))
                    && self.is_alive(caller, lease) =>
            {
                Ok(self.let_go(caller, path.lock(), lease))
            }
            Some(held) => Err(ConsulError::new(
                StatusCode::CONFLICT,
                format!(
                    "meshlock: '{}' is held by the session {}: only its holder can release it (?release={}, or destroy the \
                     session; operators: meshlock break)",
                    path.lock(),
                    held.session,
                    held.session
                ),
            )),
        }
    }
}

fn too_long(error: crate::escape::ValueTooLong) -> ConsulError {
    ConsulError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("meshlock: {error}"))
}

fn not_changed(lock: &LockName, error: &DocumentError) -> ConsulError {
    let message = format!("meshlock: the document of the semaphore '{lock}' is not changed: {error}");
    ConsulError::new(StatusCode::CONFLICT, message)
}
