//! Connections that have not yet said who they are: so many at once, and only a share of them from one address, so that one
//! who opens connections and says nothing keeps nobody else out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where connections wait until they have said who they are.
#[derive(Debug)]
pub struct Lobby {
    /// How many may be there at once, and how many of them from one address.
    seats: usize,
    share: usize,
    inside: Mutex<BTreeMap<IpAddr, usize>>,
}

/// A place in it, free again when this is dropped.
#[derive(Debug)]
pub struct Seat {
    lobby: Arc<Lobby>,
    address: IpAddr,
}

impl Lobby {
    /// With so many places, and so many of them for one address.
    pub fn new(seats: usize, share: usize) -> Self {
        Lobby { seats, share, inside: Mutex::default() }
    }

    /// A place for a connection from this address, if there is one.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Seat> {
        let mut inside = self.inside();
        let everybody: usize = inside.values().sum();
        let here = inside.entry(address).or_default();
        let admitted = everybody < self.seats && *here < self.share;
        *here += usize::from(admitted);
        if *here == 0 {
            inside.remove(&address);
        }
        admitted.then(|| Seat { lobby: self.clone(), address })
    }

    fn inside(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut inside = self.lobby.inside();
        if let Some(here) = inside.get_mut(&self.address) {
            *here -= 1;
            if *here == 0 {
                inside.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEATS: usize = 8;
    const SHARE: usize = 3;

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn one_address_cannot_take_all_places() {
        let lobby = Arc::new(Lobby::new(SEATS, SHARE));
        let mut seats: Vec<Seat> = std::iter::from_fn(|| lobby.enter(address(1))).collect();
        assert_eq!(seats.len(), SHARE);
        seats.extend(lobby.enter(address(2)));
        assert_eq!(seats.len(), SHARE + 1, "another one comes in");
        seats.clear();
        assert!(lobby.inside().is_empty(), "nobody who has left is remembered");
        assert!(lobby.enter(address(1)).is_some());
    }

    #[test]
    fn there_is_an_end_for_all_of_them_together() {
        let lobby = Arc::new(Lobby::new(SEATS, SHARE));
        let enter = |last: u8| std::iter::from_fn(|| lobby.enter(address(last))).collect::<Vec<_>>();
        let seats: Vec<Seat> = (0..=255).flat_map(enter).collect();
        assert_eq!(seats.len(), SEATS);
    }
}
