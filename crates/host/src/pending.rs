//! Limits the connections that have not yet identified themselves, in total and for each address, so that a peer that opens
//! connections and sends nothing cannot keep others out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts the connections that have not yet identified themselves.
#[derive(Debug)]
pub struct PendingConnections {
    /// Maximum number of slots, in total and for one address.
    slots: usize,
    share: usize,
    inside: Mutex<BTreeMap<IpAddr, usize>>,
}

/// A slot for one such connection. It is free again when this is dropped.
#[derive(Debug)]
pub struct PendingSlot {
    pending: Arc<PendingConnections>,
    address: IpAddr,
}

impl PendingConnections {
    /// Allows `slots` connections at once, of which `share` may come from one address.
    pub fn new(slots: usize, share: usize) -> Self {
        PendingConnections { slots, share, inside: Mutex::default() }
    }

    /// Takes a slot for a connection from this address, if one is free.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> Option<PendingSlot> {
        let mut inside = self.inside();
        let everybody: usize = inside.values().sum();
        let here = inside.entry(address).or_default();
        let admitted = everybody < self.slots && *here < self.share;
        *here += usize::from(admitted);
        if *here == 0 {
            inside.remove(&address);
        }
        admitted.then(|| PendingSlot { pending: self.clone(), address })
    }

    fn inside(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PendingSlot {
    fn drop(&mut self) {
        let mut inside = self.pending.inside();
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

    const MAX_PENDING: usize = 8;
    const MAX_PENDING_PER_ADDRESS: usize = 3;

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn one_address_cannot_take_all_places() {
        let pending = Arc::new(PendingConnections::new(MAX_PENDING, MAX_PENDING_PER_ADDRESS));
        let mut slots: Vec<PendingSlot> = std::iter::from_fn(|| pending.enter(address(1))).collect();
        assert_eq!(slots.len(), MAX_PENDING_PER_ADDRESS);
        slots.extend(pending.enter(address(2)));
        assert_eq!(slots.len(), MAX_PENDING_PER_ADDRESS + 1, "another one comes in");
        slots.clear();
        assert!(pending.inside().is_empty(), "nobody who has left is remembered");
        assert!(pending.enter(address(1)).is_some());
    }

    #[test]
    fn there_is_an_end_for_all_of_them_together() {
        let pending = Arc::new(PendingConnections::new(MAX_PENDING, MAX_PENDING_PER_ADDRESS));
        let enter = |last: u8| std::iter::from_fn(|| pending.enter(address(last))).collect::<Vec<_>>();
        let slots: Vec<PendingSlot> = (0..=255).flat_map(enter).collect();
        assert_eq!(slots.len(), MAX_PENDING);
    }
}
