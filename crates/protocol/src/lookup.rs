//! A hash map that can only be looked up, for pure code that must be fast: without iteration its order cannot decide anything.
#![expect(clippy::disallowed_types, reason = "the map is not iterated here, and nobody else can reach it")]

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Values by their keys. There is no way to go through them.
#[derive(Clone, Debug)]
pub struct LookupMap<K, V>(FxHashMap<K, V>);

impl<K, V> Default for LookupMap<K, V> {
    fn default() -> Self {
        LookupMap(FxHashMap::default())
    }
}

impl<K: Eq + Hash, V> LookupMap<K, V> {
    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    /// The value of a key, which becomes the default if it had none.
    #[inline]
    pub fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.0.entry(key).or_default()
    }

    /// Whether a key has a value.
    #[inline]
    pub fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// Gives a key a value. Returns the one that it had.
    #[inline]
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// The number of values for which there is memory.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_keys() {
        let mut map = LookupMap::default();
        assert_eq!((map.insert("a", 1), map.insert("a", 2)), (None, Some(1)));
        *map.get_or_default("b") += 3;
        assert_eq!((map.get(&"a"), map.get(&"b"), map.get(&"c")), (Some(&2), Some(&3), None));
        assert!(map.contains(&"a") && !map.contains(&"c") && map.capacity() >= 2);
    }
}
