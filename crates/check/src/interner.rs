//! Numbers for values: equal values have the same number, and numbers count up from 0 in the order of insertion.
//!
//! Only hashing and comparing depend on the type of the values; the index does not, so that it is compiled once.

use std::hash::{BuildHasher, Hash};

use meshlock_protocol::LookupMap;
use rustc_hash::FxBuildHasher;

/// Values with their numbers.
pub(crate) struct Interner<T> {
    values: Vec<T>,
    index: Index,
}

/// Finds the number of a value by its hash.
#[derive(Default)]
struct Index {
    /// The last value that was inserted with a hash.
    last: LookupMap<u64, u32>,
    /// For each value, the one with the same hash that was inserted before it.
    before: Vec<Option<u32>>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Interner { values: Vec::new(), index: Index::default() }
    }
}

impl<T: Eq + Hash> Interner<T> {
    /// The number of `value`, and whether the value is new.
    pub(crate) fn insert(&mut self, value: T) -> (u32, bool) {
        let hash = FxBuildHasher.hash_one(&value);
        let values = &self.values;
        if let Some(known) = self.index.find(hash, &|number| values[number as usize] == value) {
            return (known, false);
        }
        self.values.push(value);
        (self.index.push(hash), true)
    }

    /// The number of `value`, if it was inserted.
    pub(crate) fn find(&self, value: &T) -> Option<u32> {
        let hash = FxBuildHasher.hash_one(value);
        self.index.find(hash, &|number| self.values[number as usize] == *value)
    }
}

impl<T> Interner<T> {
    /// The value with this number.
    pub(crate) fn get(&self, number: u32) -> &T {
        &self.values[number as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
}

impl Index {
    /// The number of the value with this hash that `is_equal` accepts.
    fn find(&self, hash: u64, is_equal: &dyn Fn(u32) -> bool) -> Option<u32> {
        let mut next = self.last.get(&hash).copied();
        while let Some(number) = next {
            if is_equal(number) {
                return Some(number);
            }
            next = self.before[number as usize];
        }
        None
    }

    /// Numbers a new value with this hash.
    fn push(&mut self, hash: u64) -> u32 {
        let number = u32::try_from(self.before.len()).expect("fewer than 2^32 values");
        self.before.push(self.last.insert(hash, number));
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes like every other value of its kind.
    #[derive(Debug, PartialEq, Eq)]
    struct Colliding(u32);

    impl Hash for Colliding {
        fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
    }

    #[test]
    fn values_with_the_same_hash_have_numbers_of_their_own() {
        let mut interner = Interner::default();
        let numbers = [7, 8, 7, 9, 8].map(|value| interner.insert(Colliding(value)));
        assert_eq!(numbers, [(0, true), (1, true), (0, false), (2, true), (1, false)]);
        assert_eq!((interner.find(&Colliding(9)), interner.find(&Colliding(1))), (Some(2), None));
        assert_eq!((interner.get(1), interner.len()), (&Colliding(8), 3));
    }
}
