//! Shows holders and waiters of locks as keys.

use meshlock_cluster::access::Verb;
use meshlock_cluster::names::LockName;
use meshlock_host::front::{Admitted, shown};
use tonic::Status;

use super::Etcd;
use super::errors::{bad_name, denied, no_answer};
use super::names::{self, before, behind};
use crate::proto::mvccpb::KeyValue;
use crate::sessions::registry::KeyState;
use crate::sessions::{AcquireState, Holder, SessionKey, holders_in};

/// Converts a key of this site.
pub(super) fn kv_of_key(key: &SessionKey) -> KeyValue {
    KeyValue {
        key: key.name.clone(),
        create_revision: key.revisions.created,
        mod_revision: key.revisions.modified,
        version: key.revisions.version,
        value: key.value.clone(),
        lease: key.lease.number(),
    }
}

/// Returns the virtual key that `key` sees in front of it while it waits.
pub(super) fn kv_before(key: &SessionKey) -> KeyValue {
    let revision = key.revisions.created - 1;
    KeyValue {
        key: before(&key.name),
        create_revision: revision,
        mod_revision: revision,
        version: 1,
        value: Vec::new(),
        lease: 0,
    }
}

/// Converts a holder at any site. A holder that does not use etcd's API has a key too, with its label as the value.
fn kv_of_holder(lock: &LockName, holder: &Holder) -> KeyValue {
    let known = holder.label.as_ref().and_then(names::read_label);
    let (key, lease, value) = if let Some((lease, form, value)) = known {
        (names::key_of(lock, lease, form), lease.number(), value)
    } else {
        let key = format!("{}/meshlock.{}.{:x}", lock.as_str(), holder.site, holder.fence).into_bytes();
        let label = holder.label.as_ref().map(|label| shown(label).as_str().as_bytes().to_vec());
        (key, 0, label.unwrap_or_default())
    };
    let (create_revision, mod_revision) = (holder.fence, holder.fence);
    KeyValue { key, create_revision, mod_revision, version: 1, value, lease }
}

impl Etcd {
    /// Returns the revision of an answer about a key of this site: its fence, once it has one.
    pub(super) fn revision_of(&self, key: &SessionKey) -> i64 {
        key.grant().map_or_else(|| self.sessions.revision(), |grant| grant.fence)
    }

    /// Converts holders to keys. For this site's own keys the registry knows more, and earlier.
    pub(super) fn as_keys(&self, lock: &LockName, holders: &[Holder]) -> Vec<KeyValue> {
        let as_key = |holder: &Holder| {
            if holder.site != *self.sessions.site() {
                return Some(kv_of_holder(lock, holder));
            }
            let registry = self.sessions.registry();
            let is_it = |key: &&SessionKey| key.grant().is_some_and(|grant| grant.fence == holder.fence);
            let key =
                registry.keys_from(lock.as_str().as_bytes()).filter(|key| key.lock == *lock).find(is_it);
            let is_gone = || holder.label.as_ref().and_then(names::read_label).is_some();
            key.map(kv_of_key).or_else(|| (!is_gone()).then(|| kv_of_holder(lock, holder)))
        };
        holders.iter().filter_map(as_key).collect()
    }

    /// Returns the keys of all holders in the cluster, if the caller has the right `verb` on the lock.
    pub(super) async fn holders(
        &self,
        caller: &Admitted,
        verb: Verb,
        lock: &LockName,
    ) -> Result<Vec<KeyValue>, Status> {
        let reader = self.sessions.front().queue_reader(caller, verb, lock);
        let queue = reader.map_err(|error| denied(&error))?.read().await.map_err(no_answer)?;
        let holders = holders_in(&queue);
        if holders.is_empty() && !queue.missing.is_empty() {
            return Err(Status::unavailable(format!(
                "meshlock: cannot determine whether '{lock}' is held: no answer from {:?}; try again",
                queue.missing
            )));
        }
        Ok(self.as_keys(lock, &holders))
    }

    /// Returns a key that this site knows without asking others.
    pub(super) fn local(&self, name: &[u8]) -> Option<KeyValue> {
        if let Some(key) = self.sessions.anyones_key(name) {
            // A key with the name of its lock exists only once it is held: until then its client is only trying.
            let is_there = key.state != KeyState::Waiting || key.name != key.lock.as_str().as_bytes();
            return is_there.then(|| kv_of_key(&key));
        }
        let waits = self.sessions.anyones_key(behind(name)?)?;
        (waits.driver.state() == AcquireState::Waiting).then(|| kv_before(&waits))
    }

    /// Checks whether the caller may see a key, and returns the right by which it may. It may see its own and the
    /// virtual key in front of it because it may acquire the lock, others if it may watch their lock.
    pub(super) fn check_visible(&self, caller: &Admitted, name: &[u8]) -> Result<Verb, Status> {
        let base = behind(name).unwrap_or(name);
        if self.sessions.key(caller, base).is_some() {
            return Ok(Verb::Acquire);
        }
        let lock = self.lock_of_base(base)?;
        self.sessions.check(caller, Verb::Watch, &lock).map_err(|error| denied(&error))?;
        Ok(Verb::Watch)
    }

    /// Returns the lock that a key is for.
    pub(super) fn lock_of_base(&self, base: &[u8]) -> Result<LockName, Status> {
        match self.sessions.anyones_key(base) {
            Some(key) => Ok(key.lock),
            None => names::lock_of(base).map_err(bad_name),
        }
    }

    /// Finds a key in the whole cluster, for a caller that may see it by the right `verb`.
    pub(super) async fn find(
        &self,
        caller: &Admitted,
        verb: Verb,
        name: &[u8],
    ) -> Result<Option<KeyValue>, Status> {
        if let Some(local) = self.local(name) {
            return Ok(Some(local));
        }
        if behind(name).is_some() {
            return Ok(None);
        }
        let lock = names::lock_of(name).map_err(bad_name)?;
        let holders = self.holders(caller, verb, &lock).await?;
        Ok(pick(&lock, name, &holders))
    }
}

/// Returns the key of this name among those of a lock's holders. If it is the name of the lock itself, any holder's
/// key is returned.
pub(super) fn pick(lock: &LockName, name: &[u8], holders: &[KeyValue]) -> Option<KeyValue> {
    let exact = holders.iter().find(|kv| kv.key == name);
    let any = || holders.first().filter(|_| lock.as_str().as_bytes() == name);
    exact.or_else(any).map(|kv| KeyValue { key: name.to_vec(), ..kv.clone() })
}
