//! Networks by name.

use meshlock_protocol::registry::info::Channels;
use meshlock_protocol::world::Delivery;

use crate::Bounds;

/// The behaviour of the network, as given with `--network`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Network {
    /// Messages between two sites arrive in the order in which they were sent.
    Fifo,
    /// Messages arrive in any order.
    Unordered,
    /// Messages arrive in any order, and some arrive twice.
    Duplicating,
}

impl Network {
    /// All networks, the most favourable first.
    pub const ALL: [Network; 3] = [Network::Fifo, Network::Unordered, Network::Duplicating];

    /// Its name, as given with `--network`.
    pub const fn name(self) -> &'static str {
        match self {
            Network::Fifo => "fifo",
            Network::Unordered => "unordered",
            Network::Duplicating => "duplicating",
        }
    }

    /// The network with this name.
    pub fn named(name: &str) -> Option<Network> {
        Network::ALL.into_iter().find(|network| network.name() == name)
    }
}

/// The network that an algorithm needs as shipped.
impl From<Channels> for Network {
    fn from(channels: Channels) -> Network {
        match channels {
            Channels::Fifo => Network::Fifo,
            Channels::Unordered => Network::Unordered,
        }
    }
}

impl Bounds {
    /// Over this network; a duplicating one duplicates at least one message.
    #[must_use]
    pub fn over(self, network: Network) -> Self {
        let duplicates = match network {
            Network::Fifo | Network::Unordered => self.duplicates,
            Network::Duplicating => self.duplicates.max(1),
        };
        let delivery = match network {
            Network::Fifo => Delivery::Fifo,
            Network::Unordered | Network::Duplicating => Delivery::Unordered,
        };
        Bounds { delivery, duplicates, ..self }
    }

    /// The network that these bounds describe.
    pub fn network(&self) -> Network {
        match (self.delivery, self.duplicates) {
            (Delivery::Fifo, _) => Network::Fifo,
            (Delivery::Unordered, 0) => Network::Unordered,
            (Delivery::Unordered, _) => Network::Duplicating,
        }
    }
}
