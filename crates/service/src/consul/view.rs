//! Shows the holders of locks as entries of Consul's key-value store.

use std::collections::{BTreeMap, BTreeSet};

use meshlock_cluster::access::{Subject, Verb};
use meshlock_cluster::names::LockName;
use meshlock_host::front::{Admitted, QueueReader, shown};
use meshlock_system::now;
use serde::Serialize;
use serde::ser::Serializer;

use super::document::Document;
use super::errors::ConsulError;
use super::indexes::of_content;
use super::names::{
    Form, KeyPath, LOCK_FLAGS, SEMAPHORE_FLAGS, contender_of, document_of, lock_of_prefix, read_label,
};
use super::{Consul, ids};
use crate::sessions::registry::LeaseId;
use crate::sessions::{Holder, SessionKey, holders_in};

/// A holder of a lock as Consul's clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConsulHolder {
    /// Its session. It is made up for a holder without a Consul session, and for one whose session is over while its
    /// lock delay is not.
    pub(super) session: String,
    form: Form,
    flags: u64,
    value: Vec<u8>,
    fence: i64,
}

/// The state of a lock at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    pub(super) permits: u32,
    pub(super) holders: Vec<ConsulHolder>,
}

impl Observed {
    /// A lock without holders.
    pub(super) fn free(permits: u32) -> Self {
        Observed { permits, holders: Vec::new() }
    }

    /// Returns the document of the semaphore, if the lock is one.
    pub(super) fn document(&self) -> Option<Document> {
        let is_semaphore = self.permits > 1 || self.holders.iter().any(|held| held.form == Form::Permit);
        is_semaphore.then(|| {
            let holders = self.holders.iter().map(|held| held.session.clone()).collect::<BTreeSet<_>>();
            Document { limit: self.permits, holders }
        })
    }
}

/// An entry of the store in Consul's JSON.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct KvEntry {
    lock_index: i64,
    pub(super) key: String,
    flags: u64,
    #[serde(serialize_with = "as_base64")]
    pub(super) value: Vec<u8>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) session: String,
    create_index: u64,
    pub(super) modify_index: u64,
}

fn as_base64<S: Serializer>(value: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    use base64::Engine;
    // Consul writes `null` for an empty value.
    let text = (!value.is_empty()).then(|| base64::engine::general_purpose::STANDARD.encode(value));
    text.serialize(serializer)
}

impl Consul {
    /// Returns the state of the lock if a client of this site holds all of it, so that no other site need be asked.
    pub(super) fn observe_here(&self, reader: &QueueReader) -> Option<Observed> {
        let permits = reader.permits().filter(|&permits| permits == 1)?;
        let mut held = self.keys_of(reader.lock());
        let held = held.pop().filter(|_| held.is_empty())?;
        Some(Observed { permits, holders: vec![self.held_here(&held)] })
    }

    /// Asks the whole cluster for the state of the lock.
    pub(super) async fn observe(&self, reader: &QueueReader) -> Result<Observed, ConsulError> {
        if let Some(here) = self.observe_here(reader) {
            return Ok(here);
        }
        let lock = reader.lock();
        let queue = reader.read().await.map_err(|error| ConsulError::unanswered(&error))?;
        let seen = self.as_observed(reader, &holders_in(&queue));
        if seen.holders.is_empty() && !queue.missing.is_empty() {
            return Err(ConsulError::new(
                axum::http::StatusCode::SERVICE_UNAVAILABLE,
                format!(
                    "meshlock: cannot determine whether '{lock}' is held: no answer from {:?}; try again",
                    queue.missing
                ),
            ));
        }
        Ok(seen)
    }

    /// Converts holders. For this site's own keys the registry knows more, and earlier.
    pub(super) fn as_observed(&self, reader: &QueueReader, holders: &[Holder]) -> Observed {
        let permits = holders.first().map(|holder| holder.permits).or_else(|| reader.permits()).unwrap_or(1);
        let mut here: BTreeMap<i64, HeldKey> =
            self.keys_of(reader.lock()).into_iter().map(|key| (key.fence, key)).collect();
        let mut seen = Vec::with_capacity(holders.len());
        for holder in holders {
            if holder.site != *self.sessions.site() {
                seen.push(held_elsewhere(holder));
            } else if let Some(key) = here.remove(&holder.fence) {
                seen.push(self.held_here(&key));
            } else if holder.label.as_ref().and_then(read_label).is_none() {
                // A client on this machine that does not use the wire APIs.
                seen.push(held_elsewhere(holder));
            }
        }
        seen.extend(here.values().map(|key| self.held_here(key)));
        seen.sort_by_key(|held| held.fence);
        Observed { permits, holders: seen }
    }

    /// Returns all keys that hold the lock through this site's APIs.
    fn keys_of(&self, lock: &LockName) -> Vec<HeldKey> {
        let (registry, now) = (self.sessions.registry(), now());
        let held = |key: &SessionKey| {
            let grant = key.grant().filter(|_| key.lock == *lock)?;
            let is_alive = registry.is_alive(key.lease, now);
            Some(HeldKey {
                lock: lock.clone(),
                lease: key.lease,
                fence: grant.fence,
                value: key.value.clone(),
                is_alive,
            })
        };
        // A key in the registry is the name of the lock, or that name and a lease.
        let below = format!("{}/", lock.as_str());
        let named = registry.key(lock.as_str().as_bytes()).into_iter();
        named.chain(registry.keys_from(below.as_bytes())).filter_map(held).collect()
    }

    fn held_here(&self, key: &HeldKey) -> ConsulHolder {
        let records = self.records();
        let mark = records.held(key.lease, &key.lock);
        let session =
            if mark.is_some() && key.is_alive { ids::session(key.lease) } else { ids::other(key.fence) };
        match mark {
            Some((form, mark)) => ConsulHolder {
                session,
                form: *form,
                flags: mark.flags,
                value: mark.value.clone(),
                fence: key.fence,
            },
            None => ConsulHolder {
                session,
                form: Form::Whole,
                flags: LOCK_FLAGS,
                value: key.value.clone(),
                fence: key.fence,
            },
        }
    }

    /// Returns the entry of a key, if it exists, and the index of this state.
    pub(super) fn entry(&self, key: &str, path: &KeyPath, seen: &Observed) -> (Option<KvEntry>, u64) {
        let shown = match path {
            KeyPath::Document(lock) => match seen.document() {
                Some(document) => Some(EntryContent::document(lock, &document)),
                None => seen.holders.first().map(|held| EntryContent::of(key.to_owned(), held)),
            },
            KeyPath::Lock(_) => {
                let held = seen.holders.first().filter(|_| seen.permits == 1);
                held.map(|held| EntryContent::of(key.to_owned(), held))
            }
            KeyPath::Contender(lock, lease) => {
                let session = ids::session(*lease);
                let holder = seen.holders.iter().find(|held| held.session == session);
                let holder = holder.map(|held| EntryContent::of(key.to_owned(), held));
                holder.or_else(|| self.shown_contender(*lease, lock))
            }
        };
        self.numbered(key, shown)
    }

    /// Returns all entries whose keys start with `prefix`: those of the lock of that name, and those of this site's
    /// own sessions.
    pub(super) fn tree(&self, caller: &Admitted, prefix: &str, seen: Option<&Observed>) -> Vec<KvEntry> {
        let mut shown = BTreeMap::new();
        let mut show = |entry: Option<EntryContent>| {
            if let Some(entry) = entry.filter(|entry| entry.key.starts_with(prefix)) {
                shown.insert(entry.key.clone(), entry);
            }
        };
        if let (Some(lock), Some(seen)) = (lock_of_prefix(prefix), seen) {
            let document = seen.document();
            if let Some(document) = &document {
                show(Some(EntryContent::document(&lock, document)));
            } else if let Some(held) = seen.holders.first() {
                // Whichever of the two keys was used to acquire the lock, neither can be acquired now.
                show(Some(EntryContent::of(lock.as_str().to_owned(), held)));
                show(Some(EntryContent::of(document_of(&lock), held)));
            }
            for held in seen.holders.iter().filter(|_| document.is_some()) {
                show(Some(EntryContent::of(contender_of(&lock, &held.session), held)));
            }
        }
        let here = self.records().keys_from(prefix);
        for (lease, lock, form) in here {
            if !self.may_see(caller, lease, &lock) {
                continue;
            }
            match form {
                None => show(self.shown_contender(lease, &lock)),
                Some(Form::Whole) => show(self.shown_whole(lease, &lock)),
                // Listed with its document, if that is requested.
                Some(Form::Permit) => {}
            }
        }
        shown.into_values().filter_map(|entry| self.numbered(&entry.key.clone(), Some(entry)).0).collect()
    }

    /// Returns whether the caller may see what a session has of a lock; its own it may always see. Entries that are
    /// left out are not recorded as denied.
    fn may_see(&self, caller: &Admitted, lease: LeaseId, lock: &LockName) -> bool {
        let may_watch = self.sessions.front().may(caller, Verb::Watch, Subject::Lock(lock));
        may_watch || self.sessions.registry().is_of(lease, &caller.principal)
    }

    /// Returns the entry of a lock that a session of this site holds by its key.
    fn shown_whole(&self, lease: LeaseId, lock: &LockName) -> Option<EntryContent> {
        let held = self.keys_of(lock).into_iter().find(|key| key.lease == lease && key.is_alive)?;
        let key = self.records().held(lease, lock).map(|(_, mark)| mark.key.clone())?;
        Some(EntryContent::of(key, &self.held_here(&held)))
    }

    /// Returns the entry of a session of this site that wants a permit.
    fn shown_contender(&self, lease: LeaseId, lock: &LockName) -> Option<EntryContent> {
        if !self.is_alive_for_anyone(lease) {
            return None;
        }
        let mark = self.records().contender(lease, lock).cloned()?;
        let session = ids::session(lease);
        Some(EntryContent { key: mark.key, session, flags: mark.flags, value: mark.value, fence: None })
    }

    fn numbered(&self, key: &str, shown: Option<EntryContent>) -> (Option<KvEntry>, u64) {
        let holder = shown.as_ref().and_then(|shown| shown.fence);
        let numbers = self.indexes().of(&format!("kv {key}"), &shown, holder);
        let modify_index = match &shown {
            // A document is changed by check-and-set, at whichever site.
            Some(shown) if shown.is_document() => of_content(&shown.value),
            Some(_) | None => numbers.modified,
        };
        let entry = shown.map(|shown| KvEntry {
            // A contender acquires its key exactly once.
            lock_index: shown.fence.unwrap_or(i64::from(!shown.session.is_empty())),
            key: shown.key,
            flags: shown.flags,
            value: shown.value,
            session: shown.session,
            create_index: numbers.created,
            modify_index,
        });
        (entry, numbers.modified)
    }
}

/// A key of this site that holds a lock.
struct HeldKey {
    lock: LockName,
    lease: LeaseId,
    fence: i64,
    value: Vec<u8>,
    is_alive: bool,
}

/// An entry without its indexes.
#[derive(Clone, Debug, Hash)]
struct EntryContent {
    key: String,
    session: String,
    flags: u64,
    value: Vec<u8>,
    fence: Option<i64>,
}

impl EntryContent {
    fn of(key: String, held: &ConsulHolder) -> Self {
        let ConsulHolder { session, flags, value, fence, .. } = held.clone();
        EntryContent { key, session, flags, value, fence: Some(fence) }
    }

    /// Whether it is the document of a semaphore, which no session holds.
    fn is_document(&self) -> bool {
        self.session.is_empty() && self.flags == SEMAPHORE_FLAGS && self.fence.is_none()
    }

    fn document(lock: &LockName, document: &Document) -> Self {
        let (key, value) = (document_of(lock), document.write());
        EntryContent { key, session: String::new(), flags: SEMAPHORE_FLAGS, value, fence: None }
    }
}

/// Converts a holder at another site, or one that does not use this API. Consul's clients wait for it like for any
/// other.
fn held_elsewhere(holder: &Holder) -> ConsulHolder {
    let label = holder.label.as_ref();
    let fence = holder.fence;
    match label.and_then(read_label) {
        Some(said) => ConsulHolder {
            session: ids::session(said.lease),
            form: said.form,
            flags: said.flags,
            value: said.value,
            fence,
        },
        None => ConsulHolder {
            session: ids::other(fence),
            form: Form::Whole,
            flags: LOCK_FLAGS,
            value: label.map_or_else(Vec::new, |label| shown(label).as_str().as_bytes().to_vec()),
            fence,
        },
    }
}
