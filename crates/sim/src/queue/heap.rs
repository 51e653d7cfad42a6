//! A heap of keys, the smallest first, four children to a node.

use super::Key;

const ARITY: usize = 4;

/// Keys in a heap. It does not depend on the type of the events and is compiled once.
#[derive(Clone, Debug, Default)]
pub(super) struct Heap(Vec<Key>);

impl Heap {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(super) fn first(&self) -> Option<Key> {
        self.0.first().copied()
    }

    /// Takes out all keys, in no order.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Key> + '_ {
        self.0.drain(..)
    }

    pub(super) fn push(&mut self, key: Key) {
        let mut at = self.0.len();
        self.0.push(key);
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.0[parent] <= key {
                break;
            }
            self.0[at] = self.0[parent];
            at = parent;
        }
        self.0[at] = key;
    }

    pub(super) fn pop(&mut self) -> Option<Key> {
        let first = *self.0.first()?;
        let last = self.0.pop().expect("there is a first");
        if !self.0.is_empty() {
            self.0[0] = last;
            self.sink();
        }
        Some(first)
    }

    fn sink(&mut self) {
        let (key, length) = (self.0[0], self.0.len());
        let mut at = 0;
        loop {
            let first = at * ARITY + 1;
            if first >= length {
                break;
            }
            let children = &self.0[first..length.min(first + ARITY)];
            let (offset, least) = children
                .iter()
                .copied()
                .enumerate()
                .min_by_key(|&(_, child)| child)
                .expect("at least one child");
            if key <= least {
                break;
            }
            self.0[at] = least;
            at = first + offset;
        }
        self.0[at] = key;
    }
}
