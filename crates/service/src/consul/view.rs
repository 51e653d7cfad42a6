//! Who holds a lock, as Consul's clients see it: entries of a store that is not there.

use std::collections::{BTreeMap, BTreeSet};

use meshlock_cluster::access::{Subject, Verb};
use meshlock_cluster::names::LockName;
use meshlock_cluster::rules::Rules;
use meshlock_host::front::Admitted;
use meshlock_system::now;
use serde::Serialize;
use serde::ser::Serializer;

use super::document::Document;
use super::errors::Fault;
use super::names::{
    Form, LOCK_FLAGS, Place, SEMAPHORE_FLAGS, contender_of, document_of, lock_of_prefix, read_label,
};
use super::{Consul, ids};
use crate::sessions::registry::LeaseId;
use crate::sessions::{Holder, SessionKey, holders_in};

/// One that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Its session; made up for one that has none, and for one whose session is over and whose delay is not.
    pub(super) session: String,
    form: Form,
    flags: u64,
    value: Vec<u8>,
    fence: i64,
}

/// A lock as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    pub(super) permits: u32,
    pub(super) holders: Vec<Held>,
}

impl Observed {
    /// Nobody holds it.
    pub(super) fn free(permits: u32) -> Self {
        Observed { permits, holders: Vec::new() }
    }

    /// The document of the semaphore, if it is one.
    pub(super) fn document(&self) -> Option<Document> {
        let is_semaphore = self.permits > 1 || self.holders.iter().any(|held| held.form == Form::Permit);
        is_semaphore.then(|| {
            let holders = self.holders.iter().map(|held| held.session.clone()).collect::<BTreeSet<_>>();
            Document { limit: self.permits, holders }
        })
    }
}

/// An entry of the store, with Consul's names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Entry {
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
    // Consul has no empty values.
    let text = (!value.is_empty()).then(|| base64::engine::general_purpose::STANDARD.encode(value));
    text.serialize(serializer)
}

impl Consul {
    /// How many may hold a lock at once, as far as this site knows what the cluster has agreed on.
    pub(super) fn permits_of(&self, lock: &LockName) -> Option<u32> {
        self.sessions.front().node().look(|node| {
            if let Some(rules) = node.table().rules() {
                return Some(rules.rule(lock).permits);
            }
            // While views change, those of the next one hold already. Before the first there are none.
            let view = Some(node.view()).filter(|view| view.epoch.number() > 0)?;
            Rules::new(view.rules.clone()).ok().map(|rules| rules.rule(lock).permits)
        })
    }

    /// The lock, if one of this site's clients has all of it: then nobody else need be asked.
    pub(super) fn observe_here(&self, lock: &LockName) -> Option<Observed> {
        let permits = self.permits_of(lock).filter(|&permits| permits == 1)?;
        let mut held = self.keys_of(lock);
        let held = held.pop().filter(|_| held.is_empty())?;
        Some(Observed { permits, holders: vec![self.held_here(&held)] })
    }

    /// The lock, as the whole cluster says now.
    pub(super) async fn observe(&self, lock: &LockName) -> Result<Observed, Fault> {
        if let Some(here) = self.observe_here(lock) {
            return Ok(here);
        }
        let queue = self
            .sessions
            .front()
            .queue_for_checked(lock.clone())
            .await
            .map_err(|error| Fault::unanswered(&error))?;
        let seen = self.as_observed(lock, &holders_in(&queue));
        if seen.holders.is_empty() && !queue.missing.is_empty() {
            return Err(Fault::new(
                axum::http::StatusCode::SERVICE_UNAVAILABLE,
                format!(
                    "meshlock: whether '{lock}' is held is not known: no answer from {:?}; ask again",
                    queue.missing
                ),
            ));
        }
        Ok(seen)
    }

    /// What holders are for Consul's clients. Of this site's own keys the registry knows more, and sooner.
    pub(super) fn as_observed(&self, lock: &LockName, holders: &[Holder]) -> Observed {
        let permits = self.permits_of(lock).unwrap_or(1);
        let mut here: BTreeMap<i64, Key> =
            self.keys_of(lock).into_iter().map(|key| (key.fence, key)).collect();
        let mut seen = Vec::with_capacity(holders.len());
        for holder in holders {
            if holder.site != *self.sessions.site() {
                seen.push(held_elsewhere(holder));
            } else if let Some(key) = here.remove(&holder.fence) {
                seen.push(self.held_here(&key));
            } else if holder.label.as_ref().and_then(read_label).is_none() {
                // A client of this machine that is none of the wire APIs'.
                seen.push(held_elsewhere(holder));
            }
        }
        seen.extend(here.values().map(|key| self.held_here(key)));
        seen.sort_by_key(|held| held.fence);
        Observed { permits, holders: seen }
    }

    /// All that hold the lock through this site's APIs.
    fn keys_of(&self, lock: &LockName) -> Vec<Key> {
        let (registry, now) = (self.sessions.registry(), now());
        let held = |key: &SessionKey| {
            let grant = key.grant().filter(|_| key.lock == *lock)?;
            let is_alive = registry.is_alive(key.lease, now);
            Some(Key {
                lock: lock.clone(),
                lease: key.lease,
                fence: grant.fence,
                value: key.value.clone(),
                is_alive,
            })
        };
        // The key of a lock is its name, or its name and who has it.
        let below = format!("{lock}/");
        let named = registry.key(lock.as_str().as_bytes()).into_iter();
        named.chain(registry.keys_from(below.as_bytes())).filter_map(held).collect()
    }

    fn held_here(&self, key: &Key) -> Held {
        let records = self.records();
        let mark = records.held(key.lease, &key.lock);
        let session =
            if mark.is_some() && key.is_alive { ids::session(key.lease) } else { ids::other(key.fence) };
        match mark {
            Some((form, mark)) => {
                Held { session, form: *form, flags: mark.flags, value: mark.value.clone(), fence: key.fence }
            }
            None => Held {
                session,
                form: Form::Whole,
                flags: LOCK_FLAGS,
                value: key.value.clone(),
                fence: key.fence,
            },
        }
    }

    /// The entry of a key, and the number of what it is, or of that it is not there.
    pub(super) fn entry(&self, key: &str, place: &Place, seen: &Observed) -> (Option<Entry>, u64) {
        let shown = match place {
            Place::Document(lock) => match seen.document() {
                Some(document) => Some(Shown::document(lock, &document)),
                None => seen.holders.first().map(|held| Shown::of(key.to_owned(), held)),
            },
            Place::Lock(_) => {
                let held = seen.holders.first().filter(|_| seen.permits == 1);
                held.map(|held| Shown::of(key.to_owned(), held))
            }
            Place::Contender(lock, lease) => {
                let session = ids::session(*lease);
                let holder = seen.holders.iter().find(|held| held.session == session);
                let holder = holder.map(|held| Shown::of(key.to_owned(), held));
                holder.or_else(|| self.shown_contender(*lease, lock))
            }
        };
        self.numbered(key, shown)
    }

    /// All entries whose keys begin so: those of the semaphore of that name, and those of this site's own sessions.
    pub(super) fn tree(&self, caller: &Admitted, prefix: &str, seen: Option<&Observed>) -> Vec<Entry> {
        let mut shown = BTreeMap::new();
        let mut show = |entry: Option<Shown>| {
            if let Some(entry) = entry.filter(|entry| entry.key.starts_with(prefix)) {
                shown.insert(entry.key.clone(), entry);
            }
        };
        if let (Some(lock), Some(seen)) = (lock_of_prefix(prefix), seen) {
            let document = seen.document();
            if let Some(document) = &document {
                show(Some(Shown::document(&lock, document)));
            } else if let Some(held) = seen.holders.first() {
                // Whichever of its keys it was acquired by, neither can be acquired.
                show(Some(Shown::of(lock.to_string(), held)));
                show(Some(Shown::of(document_of(&lock), held)));
            }
            for held in seen.holders.iter().filter(|_| document.is_some()) {
                show(Some(Shown::of(contender_of(&lock, &held.session), held)));
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
                // Shown with its document, if that is what is asked for.
                Some(Form::Permit) => {}
            }
        }
        shown.into_values().filter_map(|entry| self.numbered(&entry.key.clone(), Some(entry)).0).collect()
    }

    /// Whether the caller may see what a session has of a lock: its own it always may. Nobody is noted down for what it only passes over.
    fn may_see(&self, caller: &Admitted, lease: LeaseId, lock: &LockName) -> bool {
        let policy = self.sessions.gate().policy();
        let may_watch = policy.access.check(&caller.principal, Verb::Watch, Subject::Lock(lock));
        may_watch.is_ok() || self.sessions.registry().is_of(lease, &caller.principal)
    }

    /// The lock that a session of this site holds by its key.
    fn shown_whole(&self, lease: LeaseId, lock: &LockName) -> Option<Shown> {
        let held = self.keys_of(lock).into_iter().find(|key| key.lease == lease && key.is_alive)?;
        let key = self.records().held(lease, lock).map(|(_, mark)| mark.key.clone())?;
        Some(Shown::of(key, &self.held_here(&held)))
    }

    /// A session of this site that wants a permit.
    fn shown_contender(&self, lease: LeaseId, lock: &LockName) -> Option<Shown> {
        if !self.is_anyones(lease) {
            return None;
        }
        let mark = self.records().contender(lease, lock).cloned()?;
        let session = ids::session(lease);
        Some(Shown { key: mark.key, session, flags: mark.flags, value: mark.value, fence: None })
    }

    fn numbered(&self, key: &str, shown: Option<Shown>) -> (Option<Entry>, u64) {
        let holder = shown.as_ref().and_then(|shown| shown.fence);
        let numbers = self.indexes().of(&format!("kv {key}"), &shown, holder);
        let entry = shown.map(|shown| Entry {
            // A contender has its key once and for all.
            lock_index: shown.fence.unwrap_or(i64::from(!shown.session.is_empty())),
            key: shown.key,
            flags: shown.flags,
            value: shown.value,
            session: shown.session,
            create_index: numbers.created,
            modify_index: numbers.modified,
        });
        (entry, numbers.modified)
    }
}

/// A key of this site that holds a lock.
struct Key {
    lock: LockName,
    lease: LeaseId,
    fence: i64,
    value: Vec<u8>,
    is_alive: bool,
}

/// An entry without its numbers.
#[derive(Clone, Debug, Hash)]
struct Shown {
    key: String,
    session: String,
    flags: u64,
    value: Vec<u8>,
    fence: Option<i64>,
}

impl Shown {
    fn of(key: String, held: &Held) -> Self {
        let Held { session, flags, value, fence, .. } = held.clone();
        Shown { key, session, flags, value, fence: Some(fence) }
    }

    fn document(lock: &LockName, document: &Document) -> Self {
        let (key, value) = (document_of(lock), document.write());
        Shown { key, session: String::new(), flags: SEMAPHORE_FLAGS, value, fence: None }
    }
}

/// A holder of another site, or of another kind: whoever it is, Consul's clients wait for it.
fn held_elsewhere(holder: &Holder) -> Held {
    let label = holder.label.as_ref();
    let fence = holder.fence;
    match label.and_then(read_label) {
        Some(said) => Held {
            session: ids::session(said.lease),
            form: said.form,
            flags: said.flags,
            value: said.value,
            fence,
        },
        None => Held {
            session: ids::other(fence),
            form: Form::Whole,
            flags: LOCK_FLAGS,
            value: label.map_or_else(Vec::new, |label| label.as_str().as_bytes().to_vec()),
            fence,
        },
    }
}
