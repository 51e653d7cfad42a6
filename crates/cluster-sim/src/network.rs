//! Connections between sites. While a connection lasts, it delivers in order; when it breaks, the rest is lost.
//!
//! Between two connections nothing is in order: what the old one had transmitted may be read long after the new one has
//! been made. A partition either drops packets, or holds them back until it is over, as TCP does.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use fastrand::Rng;

use super::clock::Moment;
use meshlock_cluster::node::Packet;

/// One direction: sender, receiver.
pub(super) type Way = (usize, usize);

/// All connections.
#[derive(Clone, Debug, Default)]
pub(super) struct SimNetwork {
    /// How often the connection between two sites, the smaller first, has been made again.
    generations: BTreeMap<(usize, usize), u64>,
    down: BTreeSet<(usize, usize)>,
    /// When the last packet in each direction arrives.
    last: BTreeMap<Way, Moment>,
    blocked: BTreeMap<Way, Blocked>,
    /// Packets that partitions hold back.
    held: BTreeMap<Way, Vec<Packet>>,
    /// The additional delay of packets in a direction, and when it ends.
    slow: BTreeMap<Way, (u64, Moment)>,
    /// Directions in which one of so many packets is lost, and when that ends.
    lossy: BTreeMap<Way, (u32, Moment)>,
    /// What happens to the packets that broken connections had in transit.
    remains: BTreeMap<(Way, u64), Remains>,
}

/// How many partitions block a direction.
#[derive(Clone, Copy, Debug, Default)]
struct Blocked {
    drop: usize,
    hold: usize,
}

/// What happens to the packets that a broken connection had in transit in one direction.
#[derive(Clone, Copy, Debug)]
struct Remains {
    /// Number of packets, the first ones, that still arrive.
    come: usize,
    /// Their additional delay.
    later: u64,
}

/// What happens to a packet that is sent.
#[derive(Debug)]
pub(super) enum Sent {
    Arrives(Moment, Box<Packet>),
    /// It does not arrive, or not until a partition is over.
    Stays,
}

/// Maximum delay of packets of an old connection, in microseconds.
const MAX_LATE: u64 = 6_000_000;

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

impl SimNetwork {
    /// Returns the number of the current connection between the two.
    pub(super) fn generation(&self, a: usize, b: usize) -> u64 {
        self.generations.get(&pair(a, b)).copied().unwrap_or(0)
    }

    /// Sends a packet, with this delay if nothing slows it. Nothing is slowed beyond `calm`.
    pub(super) fn send(&mut self, way: Way, packet: Packet, now: Moment, delay: u64, calm: Moment) -> Sent {
        let blocked = self.blocked.get(&way).copied().unwrap_or_default();
        if self.down.contains(&pair(way.0, way.1)) || blocked.drop > 0 {
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

    /// Breaks the connection. Returns whether there was one.
    pub(super) fn cut(&mut self, a: usize, b: usize, draw: &mut Rng) -> bool {
        if a == b || !self.down.insert(pair(a, b)) {
            return false;
        }
        let generation = self.generations.entry(pair(a, b)).or_default();
        for way in [(a, b), (b, a)] {
            let come = [0, draw.usize(1..5), usize::MAX][draw.usize(..3)];
            let later = if draw.bool() { draw.u64(..MAX_LATE) } else { 0 };
            self.remains.insert((way, *generation), Remains { come, later });
            self.last.remove(&way);
            self.held.remove(&way);
        }
        *generation += 1;
        true
    }

    /// Returns the additional delay of a packet that arrives on a connection that has broken since; `None` if it is
    /// lost.
    pub(super) fn remains(&mut self, way: Way, generation: u64) -> Option<u64> {
        let remains = self.remains.get_mut(&(way, generation))?;
        remains.come = remains.come.checked_sub(1)?;
        Some(remains.later)
    }

    /// Makes a new connection. Returns whether that worked: it does not while packets do not pass both ways.
    pub(super) fn connect(&mut self, a: usize, b: usize) -> bool {
        if self.is_blocked((a, b)) || self.is_blocked((b, a)) {
            return false;
        }
        self.down.remove(&pair(a, b));
        true
    }

    /// Returns whether no answer comes from `to` now.
    pub(super) fn is_silent(&self, from: usize, to: usize) -> bool {
        self.is_down(from, to) || self.is_blocked((from, to)) || self.is_blocked((to, from))
    }

    pub(super) fn is_down(&self, a: usize, b: usize) -> bool {
        self.down.contains(&pair(a, b))
    }

    /// Slows packets in this direction by `more` until then.
    pub(super) fn slow_down(&mut self, way: Way, more: u64, until: Moment) {
        self.slow.insert(way, (more, until));
    }

    /// Loses one of `one_in` packets in this direction until then.
    pub(super) fn lose(&mut self, way: Way, one_in: u32, until: Moment) {
        self.lossy.insert(way, (one_in, until));
    }

    /// Returns whether a packet that is sent now is lost inside its connection.
    pub(super) fn loses(&self, way: Way, now: Moment, draw: &mut Rng) -> bool {
        let lossy = self.lossy.get(&way).filter(|(_, until)| now < *until);
        lossy.is_some_and(|(one_in, _)| draw.u32(..*one_in) == 0)
    }

    /// Begins a partition, which drops packets or holds them back.
    pub(super) fn block(&mut self, ways: &[Way], holds: bool) {
        for way in ways {
            let blocked = self.blocked.entry(*way).or_default();
            *if holds { &mut blocked.hold } else { &mut blocked.drop } += 1;
        }
    }

    /// Ends a partition, and returns the packets that it held back.
    pub(super) fn unblock(&mut self, ways: &[Way], holds: bool) -> Vec<(Way, Vec<Packet>)> {
        for way in ways {
            if let Some(blocked) = self.blocked.get_mut(way) {
                let count = if holds { &mut blocked.hold } else { &mut blocked.drop };
                *count = count.saturating_sub(1);
            }
        }
        self.released()
    }

    /// Ends all partitions and slowdowns, and returns the packets that were held back.
    pub(super) fn heal(&mut self) -> Vec<(Way, Vec<Packet>)> {
        self.blocked.clear();
        self.slow.clear();
        self.lossy.clear();
        self.released()
    }

    fn released(&mut self) -> Vec<(Way, Vec<Packet>)> {
        let open: Vec<Way> = self.held.keys().filter(|way| !self.is_blocked(**way)).copied().collect();
        open.into_iter().filter_map(|way| Some((way, self.held.remove(&way)?))).collect()
    }

    fn is_blocked(&self, way: Way) -> bool {
        self.blocked.get(&way).is_some_and(|blocked| blocked.drop + blocked.hold > 0)
    }
}
