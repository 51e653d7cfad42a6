//! Ranges of keys that are watched or deleted.

use std::collections::BTreeSet;

use meshlock_cluster::access::Verb;
use meshlock_cluster::names::LockName;
use meshlock_host::front::Admitted;
use tonic::Status;

use super::Etcd;
use super::errors::not_a_lock;
use super::names::{lock_of_prefix, prefix_of_range};
use super::view::kv_of_key;
use crate::proto::mvccpb::KeyValue;
use crate::sessions::SessionKey;

/// Returns the prefix of a range and the lock that it is about: the one of that name, with or without a slash at its end.
pub(super) fn prefix_and_lock<'a>(key: &'a [u8], range_end: &[u8]) -> Result<(&'a [u8], LockName), Status> {
    let found = prefix_of_range(key, range_end).and_then(|prefix| {
        let lock = lock_of_prefix(prefix).or_else(|| std::str::from_utf8(prefix).ok()?.parse().ok());
        Some((prefix, lock?))
    });
    found.ok_or_else(|| not_a_lock("a range other than all keys that begin with a lock's name"))
}

impl Etcd {
    /// Removes the caller's keys with a prefix. Fails if another client has one: then nothing is removed.
    pub(super) async fn remove_range(
        &self,
        caller: &Admitted,
        key: &[u8],
        range_end: &[u8],
    ) -> Result<Vec<KeyValue>, Status> {
        let (prefix, lock) = prefix_and_lock(key, range_end)?;
        let here: Vec<SessionKey> = self.sessions.registry().keys_from(prefix).cloned().collect();
        let (its, others): (Vec<_>, Vec<_>) = here.into_iter().partition(|key| key.owner == caller.principal);
        let its_names: BTreeSet<&[u8]> = its.iter().map(|key| key.name.as_slice()).collect();
        let held = self.holders(caller, Verb::Acquire, &lock).await?;
        let elsewhere = held.iter().map(|kv| &kv.key).find(|name| !its_names.contains(name.as_slice()));
        if let Some(name) = others.first().map(|key| &key.name).or(elsewhere) {
            return Err(Status::failed_precondition(format!(
                "meshlock: the key '{}' belongs to another client or site: only its holder can release it \
                 (operators: meshlock break)",
                String::from_utf8_lossy(name)
            )));
        }
        let released = its.iter().filter_map(|key| self.sessions.release(caller, &key.name));
        Ok(released.map(|key| kv_of_key(&key)).collect())
    }
}
