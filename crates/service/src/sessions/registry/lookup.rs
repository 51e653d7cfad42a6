//! Lookups of keys.

use meshlock_cluster::access::Principal;
use meshlock_cluster::names::LockName;

use super::{KeyState, Registry, RegistryKey};

impl<W> Registry<W> {
    /// Returns the key of this name, regardless of its owner.
    pub(crate) fn key(&self, name: &[u8]) -> Option<&RegistryKey<W>> {
        self.keys.get(name)
    }

    /// Returns the key if it exists and belongs to `owner`.
    pub(crate) fn key_of(&self, name: &[u8], owner: &Principal) -> Option<&RegistryKey<W>> {
        self.keys.get(name).filter(|key| key.owner == *owner)
    }

    /// Returns all keys whose names start with `prefix`.
    pub(crate) fn keys_from<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = &'a RegistryKey<W>> {
        let from = self.keys.range(prefix.to_vec()..);
        from.take_while(move |(name, _)| name.starts_with(prefix)).map(|(_, key)| key)
    }

    /// Returns the key of `owner` at `lock` with this creation revision. A fence may equal the revision of a key that
    /// waits; then the waiting key is returned, because only a waiting client asks which keys were created before its
    /// own.
    pub(crate) fn created_as<'a>(
        &'a self,
        lock: &'a LockName,
        created: i64,
        owner: &Principal,
    ) -> Option<&'a RegistryKey<W>> {
        let is_it = |key: &&RegistryKey<W>| {
            key.lock == *lock && key.revisions.created == created && key.owner == *owner
        };
        let all = self.keys_from(lock.as_str().as_bytes()).filter(is_it);
        all.max_by_key(|key| key.state == KeyState::Waiting)
    }
}
