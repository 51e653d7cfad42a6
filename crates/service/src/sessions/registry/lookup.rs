//! Which keys there are.

use meshlock_cluster::access::Principal;
use meshlock_cluster::names::LockName;

use super::{Key, Registry, State};

impl<W> Registry<W> {
    /// A key, whosever it is.
    pub(crate) fn key(&self, name: &[u8]) -> Option<&Key<W>> {
        self.keys.get(name)
    }

    /// Somebody's key. Another's is not there.
    pub(crate) fn key_of(&self, name: &[u8], owner: &Principal) -> Option<&Key<W>> {
        self.keys.get(name).filter(|key| key.owner == *owner)
    }

    /// All keys whose names begin so.
    pub(crate) fn keys_from<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = &'a Key<W>> {
        let from = self.keys.range(prefix.to_vec()..);
        from.take_while(move |(name, _)| name.starts_with(prefix)).map(|(_, key)| key)
    }

    /// Somebody's key at a lock that was created with this number. A fence may be the number of one that waits: then it is that one,
    /// because only whoever waits asks who came before.
    pub(crate) fn created_as<'a>(
        &'a self,
        lock: &'a LockName,
        created: i64,
        owner: &Principal,
    ) -> Option<&'a Key<W>> {
        let is_it =
            |key: &&Key<W>| key.lock == *lock && key.revisions.created == created && key.owner == *owner;
        let all = self.keys_from(lock.as_str().as_bytes()).filter(is_it);
        all.max_by_key(|key| key.state == State::Waiting)
    }
}
