//! Networks by name.

use meshlock_protocol::registry::info::Channels;
use meshlock_protocol::world::Delivery;

use crate::Bounds;

/// The behaviour of the network, as given with `--network`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkModel {
    /// Messages between two sites arrive in the order in which they were sent.
    Fifo,
    /// Messages arrive in any order.
    Unordered,
    /// Messages arrive in any order, and some arrive twice.
    Duplicating,
}

impl NetworkModel {
    /// All networks, the most favourable first.
    pub const ALL: [NetworkModel; 3] =
        [NetworkModel::Fifo, NetworkModel::Unordered, NetworkModel::Duplicating];

    /// Its name, as given with `--network`.
    pub const fn name(self) -> &'static str {
        match self {
            NetworkModel::Fifo => "fifo",
            NetworkModel::Unordered => "unordered",
            NetworkModel::Duplicating => "duplicating",
        }
    }

    /// The network with this name.
    pub fn named(name: &str) -> Option<NetworkModel> {
        NetworkModel::ALL.into_iter().find(|network| network.name() == name)
    }
}

/// The network that an algorithm needs as shipped.
impl From<Channels> for NetworkModel {
    fn from(channels: Channels) -> NetworkModel {
        match channels {
            Channels::Fifo => NetworkModel::Fifo,
            Channels::Unordered => NetworkModel::Unordered,
        }
    }
}

impl Bounds {
    /// Over this network; a duplicating one duplicates at least one message.
    #[must_use]
    pub fn over(self, network: NetworkModel) -> Self {
        let duplicates = match network {
            NetworkModel::Fifo | NetworkModel::Unordered => self.duplicates,
            NetworkModel::Duplicating => self.duplicates.max(1),
        };
        let delivery = match network {
            NetworkModel::Fifo => Delivery::Fifo,
            NetworkModel::Unordered | NetworkModel::Duplicating => Delivery::Unordered,
        };
        Bounds { delivery, duplicates, ..self }
    }

    /// The network that these bounds describe.
    pub fn network(&self) -> NetworkModel {
        match (self.delivery, self.duplicates) {
            (Delivery::Fifo, _) => NetworkModel::Fifo,
            (Delivery::Unordered, 0) => NetworkModel::Unordered,
            (Delivery::Unordered, _) => NetworkModel::Duplicating,
        }
    }
}
