//! Addresses of the loopback network that no other test has, for sites that must be known by their address before they start; and
//! connections from any of its addresses.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};

/// The number of addresses of one test.
const SITES: u8 = 8;

/// The addresses of one test: of this process by its number, and of this test by how many were made before.
#[derive(Clone, Copy, Debug)]
pub struct Loopback {
    second: u8,
    third: u8,
    before: u8,
}

impl Loopback {
    /// Returns addresses that no other call in this process has returned, nor any process that runs at the same time.
    #[expect(clippy::new_without_default, reason = "every call returns something else")]
    pub fn new() -> Self {
        static MADE: AtomicU8 = AtomicU8::new(0);
        // Processes that run at the same time differ in their lowest bits, and one has few tests that use this.
        let [.., second, third] = std::process::id().to_be_bytes();
        let before = MADE.fetch_add(1, Ordering::Relaxed).checked_mul(SITES);
        Loopback { second, third, before: before.expect("fewer than 32 networks in one process") }
    }

    /// Returns the address of a site, counted from 0.
    pub fn address(self, site: usize) -> Ipv4Addr {
        let site = u8::try_from(site).ok().filter(|site| *site < SITES - 1).expect("few sites");
        Ipv4Addr::new(127, self.second, self.third, self.before + site + 1)
    }
}

/// Connects to `to` from this address of the loopback network, any of 127.0.0.0/8.
pub fn connect_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
    let connected = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .and_then(|socket| bind(&socket, &SocketAddr::from((from, 0))).map(|()| socket))
        .and_then(|socket| connect(&socket, &to).map(|()| socket));
    TcpStream::from(connected.unwrap_or_else(|error| panic!("cannot connect from {from} to {to}: {error}")))
}

/// Opens connections that say nothing: `each` of them from each of so many networks of 256 addresses.
pub fn silent_connections(to: SocketAddr, networks: u8, each: usize) -> Vec<TcpStream> {
    let from = |network: u8, nth: usize| {
        let last = u8::try_from(nth % 250).unwrap_or_default();
        connect_from(Ipv4Addr::new(127, 200, network, last + 1), to)
    };
    (0..networks).flat_map(|network| (0..each).map(move |nth| from(network, nth))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_networks_of_a_process_share_an_address() {
        let networks = [Loopback::new(), Loopback::new(), Loopback::new()];
        let addresses: BTreeSet<Ipv4Addr> =
            networks.iter().flat_map(|network| (0..7).map(|site| network.address(site))).collect();
        assert_eq!(addresses.len(), 21);
        assert!(addresses.iter().all(Ipv4Addr::is_loopback));
    }
}
