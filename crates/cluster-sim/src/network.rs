//! Connections between sites. While one lasts, what it carries comes in order; when it breaks, the rest is lost.
//!
//! Between two connections nothing is in order: what the old one had carried that far may be read long after the new one
//! has been made. A partition either swallows packets, or holds them back until it is over, as TCP does.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use fastrand::Rng;

use super::clock::Moment;
use meshlock_cluster::node::Packet;

/// One direction: from, to.
pub(super) type Way = (usize, usize);

/// All connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Network {
    /// How often the connection between two sites, the smaller first, has been made anew.
    generations: BTreeMap<(usize, usize), u64>,
    down: BTreeSet<(usize, usize)>,
    /// When the last packet in each direction arrives.
    last: BTreeMap<Way, Moment>,
    blocked: BTreeMap<Way, Blocked>,
    /// What partitions hold back.
    held: BTreeMap<Way, Vec<Packet>>,
    /// How long packets take in a direction, until when.
    slow: BTreeMap<Way, (u64, Moment)>,
    /// What becomes of that which broken connections had on its way.
    remains: BTreeMap<(Way, u64), Remains>,
}

/// How many partitions block a direction.
#[derive(Clone, Copy, Debug, Default)]
struct Blocked {
    swallow: usize,
    hold: usize,
}

/// What becomes of that which a broken connection had on its way in one direction.
#[derive(Clone, Copy, Debug)]
struct Remains {
    /// How many of the packets, the first ones, still come.
    come: usize,
    /// How much later.
    later: u64,
}

/// What becomes of a packet that is sent.
#[derive(Debug)]
pub(super) enum Sent {
    /// It arrives then.
    Arrives(Moment, Box<Packet>),
    /// It does not arrive, or not until a partition is over.
    Stays,
}

/// The longest time that the remains of an old connection take, in microseconds.
const LATEST: u64 = 6_000_000;

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

impl Network {
    /// Which connection there is now between the two.
    pub(super) fn generation(&self, a: usize, b: usize) -> u64 {
        self.generations.get(&pair(a, b)).copied().unwrap_or(0)
    }

    /// A packet is sent, with this delay if nothing slows it. Nothing is slowed beyond `calm`.
    pub(super) fn send(&mut self, way: Way, packet: Packet, now: Moment, delay: u64, calm: Moment) -> Sent {
        let blocked = self.blocked.get(&way).copied().unwrap_or_default();
        if self.down.contains(&pair(way.0, way.1)) || blocked.swallow > 0 {
            return Sent::Stays;
        }
        if blocked.hold > 0 {
            self.held.entry(way).or_default().push(packet);
            return Sent::Stays;
        }
        let plain = now.after(delay);
        let slow = self.slow.get(&way).filter(|(_, until)| now < *until);
        let arrival = slow.map_or(plain, |(more, _)| plain.after(*more).min(calm.max(plain)));
        let last = self.last.entry(way).or_default();
        *last = arrival.max(*last);
        Sent::Arrives(*last, Box::new(packet))
    }

    /// The connection breaks. Whether there was one.
    pub(super) fn cut(&mut self, a: usize, b: usize, draw: &mut Rng) -> bool {
        if a == b || !self.down.insert(pair(a, b)) {
            return false;
        }
        let generation = self.generations.entry(pair(a, b)).or_default();
        for way in [(a, b), (b, a)] {
            let come = [0, draw.usize(1..5), usize::MAX][draw.usize(..3)];
            let later = if draw.bool() { draw.u64(..LATEST) } else { 0 };
            self.remains.insert((way, *generation), Remains { come, later });
            self.last.remove(&way);
            self.held.remove(&way);
        }
        *generation += 1;
        true
    }

    /// A packet arrives on a connection that is broken by now: how much later it comes, if it does.
    pub(super) fn remains(&mut self, way: Way, generation: u64) -> Option<u64> {
        let remains = self.remains.get_mut(&(way, generation))?;
        remains.come = remains.come.checked_sub(1)?;
        Some(remains.later)
    }

    /// A new connection is made. Whether that worked: not while packets do not pass both ways.
    pub(super) fn connect(&mut self, a: usize, b: usize) -> bool {
        if self.is_blocked((a, b)) || self.is_blocked((b, a)) {
            return false;
        }
        self.down.remove(&pair(a, b));
        true
    }

    pub(super) fn is_down(&self, a: usize, b: usize) -> bool {
        self.down.contains(&pair(a, b))
    }

    /// Packets in this direction take so much longer until then.
    pub(super) fn slow_down(&mut self, way: Way, more: u64, until: Moment) {
        self.slow.insert(way, (more, until));
    }

    /// A partition begins, which swallows packets or holds them back.
    pub(super) fn block(&mut self, ways: &[Way], holds: bool) {
        for way in ways {
            let blocked = self.blocked.entry(*way).or_default();
            *if holds { &mut blocked.hold } else { &mut blocked.swallow } += 1;
        }
    }

    /// It is over. What it held back is sent now.
    pub(super) fn unblock(&mut self, ways: &[Way], holds: bool) -> Vec<(Way, Vec<Packet>)> {
        for way in ways {
            if let Some(blocked) = self.blocked.get_mut(way) {
                let count = if holds { &mut blocked.hold } else { &mut blocked.swallow };
                *count = count.saturating_sub(1);
            }
        }
        self.released()
    }

    /// All partitions are over, and nothing is slow any more.
    pub(super) fn heal(&mut self) -> Vec<(Way, Vec<Packet>)> {
        self.blocked.clear();
        self.slow.clear();
        self.released()
    }

    fn released(&mut self) -> Vec<(Way, Vec<Packet>)> {
        let open: Vec<Way> = self.held.keys().filter(|way| !self.is_blocked(**way)).copied().collect();
        open.into_iter().filter_map(|way| Some((way, self.held.remove(&way)?))).collect()
    }

    fn is_blocked(&self, way: Way) -> bool {
        self.blocked.get(&way).is_some_and(|blocked| blocked.swallow + blocked.hold > 0)
    }
}
