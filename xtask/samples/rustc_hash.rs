//! A stand-in for the crate of this name, whose types are aliases as these are: the tests of xtask show with it that clippy reports an
//! alias.

/// An alias of a hash map.
pub type FxHashMap<K, V> = std::collections::HashMap<K, V>;
/// An alias of a hash set.
pub type FxHashSet<K> = std::collections::HashSet<K>;
