//! Places for connections that have not yet identified themselves, at each of a node's ports: so that a peer that opens connections and
//! says nothing cannot keep others out.
//!
//! Places are counted by [`Prefix`], because whoever has one address of a network often has many. A newcomer always gets a place: where
//! none is left, the oldest connection of the prefix that has the most of them makes room. A connection that identifies itself leaves its
//! place, and is counted for its principal from then on. So connections that are silent cost each other their places, and a peer that
//! answers at once is not affected by them.
//!
//! TLS handshakes take most of the time that a newcomer costs, and so each prefix has a pace for them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use meshlock_cluster::time::{Span, Time};
use meshlock_system::{max_descriptors, now};
use tokio::sync::Notify;

/// Number of places of a port, and how many of them one prefix may have. Many clients of one machine may start at once.
pub const PLACES: usize = 1024;
pub(crate) const PLACES_PER_PREFIX: usize = 256;

/// The part of the process's descriptors that the connections of one port may take before they have identified themselves: one in this
/// many.
const DESCRIPTORS_FOR_EACH_PLACE: u64 = 8;

/// Interval between two TLS handshakes of one prefix, and how many it may make at once after a pause.
const HANDSHAKE_EVERY: Span = Span::from_millis(5);
const HANDSHAKE_BURST: u64 = 512;

/// A connection that would have to wait for longer than this for its handshake is refused.
const MAX_HANDSHAKE_DELAY: Span = Span::from_millis(2000);

/// Maximum number of prefixes whose handshakes are counted separately. Prefixes beyond that share one pace.
const MAX_PACES: usize = 4096;

/// A network: the first 24 bits of an IPv4 address, or the first 64 of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix(IpAddr);

impl Prefix {
    /// The prefix that stands for all prefixes that are not counted separately.
    pub(crate) const OTHERS: Prefix = Prefix(IpAddr::V6(Ipv6Addr::UNSPECIFIED));

    /// Returns the prefix of an address.
    pub fn of(address: IpAddr) -> Self {
        Prefix(match address.to_canonical() {
            IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & (u32::MAX << 8)).into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        })
    }
}

/// The ports of a node, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// For other sites (`listen`).
    Sites,
    /// For clients on other machines (`clients`).
    Clients,
    Api,
}

impl Port {
    pub const ALL: [Port; 3] = [Port::Sites, Port::Clients, Port::Api];

    /// Returns its name for programs.
    pub fn label(self) -> &'static str {
        match self {
            Port::Sites => "sites",
            Port::Clients => "clients",
            Port::Api => "api",
        }
    }
}

/// Number of connections that had to make room for others, by port. Clones share their counters.
#[derive(Clone, Debug, Default)]
pub struct Evictions(Arc<[AtomicU64; Port::ALL.len()]>);

impl Evictions {
    /// Returns the number of connections to this port that had to make room.
    pub fn count(&self, port: Port) -> u64 {
        self.0[port as usize].load(Ordering::Relaxed)
    }

    fn add(&self, port: Port) {
        self.0[port as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// The connections to one port that have not yet identified themselves.
#[derive(Debug)]
pub struct PendingConnections {
    /// Number of places, in total and for one prefix.
    places: usize,
    share: usize,
    port: Port,
    evictions: Evictions,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    /// Number of the last connection.
    last: u64,
    total: usize,
    /// The connections of each prefix, the oldest first.
    prefixes: BTreeMap<Prefix, BTreeMap<u64, Arc<Notify>>>,
    /// When each prefix will have made up for its handshakes so far, if that is in the future.
    paces: BTreeMap<Prefix, Time>,
}

/// The place of one such connection. It is free again when this is dropped.
#[derive(Debug)]
pub struct PendingSlot {
    pending: Arc<PendingConnections>,
    prefix: Prefix,
    number: u64,
    evicted: Evicted,
}

/// Tells a connection that it has to make room for a newer one.
#[derive(Clone, Debug, Default)]
pub struct Evicted(Arc<Notify>);

impl Evicted {
    /// Waits until the connection has to make room. A connection that has left its place never has to, but may have been told before.
    pub async fn notified(&self) {
        self.0.notified().await;
    }
}

/// A prefix makes too many TLS handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many connections from one network: its next TLS handshakes are due in more than {} ms", MAX_HANDSHAKE_DELAY.micros() / 1000)]
pub struct TooManyHandshakes;

impl PendingConnections {
    /// Creates the places of a port: `places` of them, or fewer if the process may have few descriptors. One prefix may have a quarter of
    /// them.
    pub fn new(port: Port, places: usize, evictions: Evictions) -> Arc<Self> {
        let places = affordable(places, max_descriptors());
        let (places, share) = (places.max(1), places.div_ceil(PLACES / PLACES_PER_PREFIX).max(1));
        Arc::new(PendingConnections { places, share, port, evictions, inside: Mutex::default() })
    }

    /// Takes a place for a connection from this address. If none is left, an older connection makes room.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> PendingSlot {
        let prefix = Prefix::of(address);
        let mut inside = self.inside();
        if inside.prefixes.get(&prefix).is_some_and(|here| here.len() >= self.share) {
            self.evict(&mut inside, prefix);
        } else if inside.total >= self.places
            && let Some(largest) = inside.largest()
        {
            self.evict(&mut inside, largest);
        }
        inside.last += 1;
        inside.total += 1;
        let (number, evicted) = (inside.last, Evicted::default());
        inside.prefixes.entry(prefix).or_default().insert(number, evicted.0.clone());
        drop(inside);
        PendingSlot { pending: self.clone(), prefix, number, evicted }
    }

    /// Makes the oldest connection leave, because the system has no resources for another one.
    pub fn make_room(&self) {
        let mut inside = self.inside();
        if let Some(largest) = inside.largest() {
            self.evict(&mut inside, largest);
        }
    }

    fn evict(&self, inside: &mut Inside, prefix: Prefix) {
        let Some(oldest) = inside.prefixes.get(&prefix).and_then(|here| here.keys().next().copied()) else {
            return;
        };
        if let Some(evicted) = inside.remove(prefix, oldest) {
            evicted.notify_one();
            self.evictions.add(self.port);
        }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns how many of these places a process with so many descriptors can afford.
fn affordable(places: usize, descriptors: Option<u64>) -> usize {
    let most =
        descriptors.and_then(|descriptors| usize::try_from(descriptors / DESCRIPTORS_FOR_EACH_PLACE).ok());
    most.map_or(places, |most| places.min(most))
}

impl Inside {
    /// Returns the prefix with the most connections; of several, the one with the oldest.
    fn largest(&self) -> Option<Prefix> {
        let size =
            |here: &BTreeMap<u64, Arc<Notify>>| (here.len(), std::cmp::Reverse(here.keys().next().copied()));
        self.prefixes.iter().max_by_key(|(_, here)| size(here)).map(|(prefix, _)| *prefix)
    }

    fn remove(&mut self, prefix: Prefix, number: u64) -> Option<Arc<Notify>> {
        let here = self.prefixes.get_mut(&prefix)?;
        let removed = here.remove(&number)?;
        self.total -= 1;
        if here.is_empty() {
            self.prefixes.remove(&prefix);
        }
        Some(removed)
    }

    /// Counts a handshake. Returns how long it has to wait.
    fn delay(&mut self, prefix: Prefix, now: Time) -> Result<Span, TooManyHandshakes> {
        if self.paces.len() >= MAX_PACES && !self.paces.contains_key(&prefix) {
            self.paces.retain(|_, until| *until > now);
        }
        let is_counted = self.paces.len() < MAX_PACES || self.paces.contains_key(&prefix);
        let prefix = if is_counted { prefix } else { Prefix::OTHERS };
        let until = self.paces.get(&prefix).map_or(now, |until| now.max(*until));
        let allowed = now + Span::from_micros(HANDSHAKE_EVERY.micros() * HANDSHAKE_BURST);
        let delay = until.since(allowed);
        if delay > MAX_HANDSHAKE_DELAY {
            return Err(TooManyHandshakes);
        }
        self.paces.insert(prefix, until + HANDSHAKE_EVERY);
        Ok(delay)
    }
}

impl PendingSlot {
    /// Returns what tells the connection that it has to make room.
    pub fn evicted(&self) -> Evicted {
        self.evicted.clone()
    }

    /// Waits until the connection may begin its TLS handshake.
    pub async fn turn(&self) -> Result<(), TooManyHandshakes> {
        let delay = self.pending.inside().delay(self.prefix, now())?;
        if delay > Span::ZERO {
            tokio::time::sleep(Duration::from_micros(delay.micros())).await;
        }
        Ok(())
    }
}

impl Drop for PendingSlot {
    fn drop(&mut self) {
        self.pending.inside().remove(self.prefix, self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn places(places: usize) -> Arc<PendingConnections> {
        PendingConnections::new(Port::Clients, places, Evictions::default())
    }

    fn address(network: u8, last: u8) -> IpAddr {
        [10, 0, network, last].into()
    }

    fn is_evicted(slot: &PendingSlot) -> bool {
        let evicted = slot.evicted();
        let waiting = pin!(evicted.notified());
        waiting.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn addresses_of_one_network_share_their_places() {
        let prefix = |address: &str| Prefix::of(address.parse().unwrap());
        assert_eq!(prefix("10.1.2.3"), prefix("10.1.2.254"));
        assert_ne!(prefix("10.1.2.3"), prefix("10.1.3.3"));
        assert_eq!(prefix("::ffff:10.1.2.3"), prefix("10.1.2.4"), "the same network through an IPv6 socket");
        assert_eq!(prefix("2001:db8:0:1::1"), prefix("2001:db8:0:1:ffff::2"));
        assert_ne!(prefix("2001:db8:0:1::1"), prefix("2001:db8:0:2::1"));
    }

    #[test]
    fn a_network_that_has_its_share_makes_room_for_its_own_newcomers() {
        let pending = places(8);
        let other = pending.enter(address(2, 1));
        let slots: Vec<PendingSlot> = (0..3).map(|last| pending.enter(address(1, last))).collect();
        assert_eq!(
            slots.iter().map(is_evicted).collect::<Vec<_>>(),
            [true, false, false],
            "two are its share"
        );
        assert!(!is_evicted(&other));
        assert_eq!(pending.evictions.count(Port::Clients), 1);
    }

    #[test]
    fn if_all_places_are_taken_the_network_with_the_most_connections_makes_room() {
        let pending = places(8);
        let lone: Vec<PendingSlot> = (0..4).map(|network| pending.enter(address(network, 1))).collect();
        let pairs: Vec<PendingSlot> =
            [10, 10, 11, 11].map(|network| pending.enter(address(network, 1))).into();
        let _newcomer = pending.enter(address(20, 1));
        assert!(!lone.iter().any(is_evicted), "who has one connection keeps it");
        assert_eq!(pairs.iter().map(is_evicted).collect::<Vec<_>>(), [true, false, false, false]);
    }

    #[test]
    fn connections_that_say_nothing_leave_descriptors_for_others() {
        assert_eq!(affordable(PLACES, Some(1024)), 128);
        assert_eq!(affordable(PLACES, Some(65_536)), PLACES);
        assert_eq!(affordable(PLACES, None), PLACES);
    }

    #[test]
    fn whoever_has_identified_itself_has_left_its_place_and_nobody_is_remembered() {
        let pending = places(1);
        let first = pending.enter(address(1, 1));
        let evicted = first.evicted();
        drop(first);
        let second = pending.enter(address(1, 1));
        let waiting = pin!(evicted.notified());
        assert!(waiting.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(second);
        let inside = pending.inside();
        assert!(inside.prefixes.is_empty() && inside.total == 0);
    }

    #[test]
    fn a_network_makes_its_handshakes_at_a_pace_and_others_at_their_own() {
        let mut inside = Inside::default();
        let (now, flood, other) = (Time::from_micros(1_000_000), address(1, 1), address(2, 1));
        let mut delays = std::iter::from_fn(|| inside.delay(Prefix::of(flood), now).ok()).collect::<Vec<_>>();
        let at_once = delays.iter().filter(|delay| **delay == Span::ZERO).count();
        assert_eq!(at_once as u64, HANDSHAKE_BURST + 1);
        assert_eq!(delays.pop(), Some(MAX_HANDSHAKE_DELAY), "then it is refused");
        assert_eq!(inside.delay(Prefix::of(other), now), Ok(Span::ZERO));
        let later = now + Span::from_millis(60_000);
        assert_eq!(inside.delay(Prefix::of(flood), later), Ok(Span::ZERO));
    }

    #[test]
    fn handshakes_of_many_networks_take_bounded_memory() {
        let mut inside = Inside::default();
        let now = Time::from_micros(1_000_000);
        for network in 0..2 * u32::try_from(MAX_PACES).unwrap() {
            let _ = inside.delay(Prefix::of(Ipv4Addr::from_bits(network << 8).into()), now);
        }
        assert!(inside.paces.len() <= MAX_PACES + 1);
    }
}
