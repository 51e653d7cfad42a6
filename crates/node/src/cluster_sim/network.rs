//! Connections between sites: in order while they last, and lost with what was on its way.

use std::collections::{BTreeMap, BTreeSet};

use super::clock::Moment;

/// All connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Network {
    /// How often the connection between two sites, the smaller first, has been made anew.
    generations: BTreeMap<(usize, usize), u64>,
    down: BTreeSet<(usize, usize)>,
    /// When the last packet in each direction arrives.
    last: BTreeMap<(usize, usize), Moment>,
    /// How many partitions block each direction.
    blocked: BTreeMap<(usize, usize), usize>,
}

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

impl Network {
    /// Which connection there is now between the two.
    pub(super) fn generation(&self, a: usize, b: usize) -> u64 {
        self.generations.get(&pair(a, b)).copied().unwrap_or(0)
    }

    /// A packet is sent with this delay: when it arrives, unless it is lost at once.
    pub(super) fn send(&mut self, from: usize, to: usize, now: Moment, delay: u64) -> Option<Moment> {
        if self.down.contains(&pair(from, to)) || self.is_blocked(from, to) {
            return None;
        }
        let last = self.last.entry((from, to)).or_default();
        *last = now.after(delay).max(*last);
        Some(*last)
    }

    /// The connection breaks. Whether there was one.
    pub(super) fn cut(&mut self, a: usize, b: usize) -> bool {
        if a == b || !self.down.insert(pair(a, b)) {
            return false;
        }
        *self.generations.entry(pair(a, b)).or_default() += 1;
        self.last.remove(&(a, b));
        self.last.remove(&(b, a));
        true
    }

    /// A new connection is made. Whether that worked: not while packets do not pass both ways.
    pub(super) fn connect(&mut self, a: usize, b: usize) -> bool {
        if self.is_blocked(a, b) || self.is_blocked(b, a) {
            return false;
        }
        self.down.remove(&pair(a, b));
        true
    }

    pub(super) fn is_down(&self, a: usize, b: usize) -> bool {
        self.down.contains(&pair(a, b))
    }

    pub(super) fn block(&mut self, directions: &[(usize, usize)]) {
        for direction in directions {
            *self.blocked.entry(*direction).or_default() += 1;
        }
    }

    pub(super) fn unblock(&mut self, directions: &[(usize, usize)]) {
        for direction in directions {
            if let Some(count) = self.blocked.get_mut(direction) {
                *count = count.saturating_sub(1);
            }
        }
    }

    pub(super) fn heal(&mut self) {
        self.blocked.clear();
    }

    fn is_blocked(&self, from: usize, to: usize) -> bool {
        self.blocked.get(&(from, to)).is_some_and(|count| *count > 0)
    }
}
