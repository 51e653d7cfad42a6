//! The lines of a node's trace: the steps of its clients and machines, and of its views.
//!
//! Messages are identified by the link that carries them: two incarnations of two sites, and the number on the link. So
//! a reader of both traces can put a receipt after its sending, whatever their clocks show.

use meshlock_protocol::numbered;
use meshlock_protocol::{Epoch, Fence};
use serde::{Deserialize, Serialize};

use crate::names::{ClientLabel, LockName, SiteName};
use crate::time::Time;

/// One line of a node's trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceLine {
    /// The time on the clock that leases are counted on.
    pub time: Time,
    /// The view that is installed.
    pub epoch: Epoch,
    /// The lock it is about, if it is about one.
    pub lock: Option<LockName>,
    /// The number of the machine among the lock's machines, as messages and states use it.
    pub machine: Option<u32>,
    pub event: TraceEvent,
    /// The machine's state after the step, if requested.
    pub state: Option<String>,
}

/// The event of a trace line. A client is identified by a number that no other acquisition at this incarnation of the
/// site has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceEvent {
    /// A client has been waiting since before the watch began.
    Waits { client: u64, who: Option<ClientLabel> },
    /// A client has held the lock since before the watch began.
    Holds { client: u64, who: Option<ClientLabel>, fence: Fence },
    /// A client requests the lock.
    Request { client: u64, who: Option<ClientLabel> },
    /// A client stops waiting.
    Cancel { client: u64 },
    /// A client gets the lock.
    Enter { client: u64, who: Option<ClientLabel>, fence: Fence },
    /// A client no longer has the lock.
    Release { client: u64 },
    /// A message is sent.
    Send {
        to: SiteName,
        /// Its number on the link.
        number: u64,
        /// The message as the algorithm prints it.
        message: String,
    },
    /// A message is received.
    Receive {
        from: SiteName,
        /// Its number on the link.
        number: u64,
        /// The message as the algorithm prints it.
        message: String,
    },
    /// The machines of a view run.
    View { members: Vec<SiteName> },
    /// This incarnation of the site has ended: it was excluded from a view, and has lost everything.
    Fail,
    /// A new incarnation of the site is a member.
    Recover,
}

numbered! { TraceEvent {
    0 => Waits { client, who },
    1 => Holds { client, who, fence },
    2 => Request { client, who },
    3 => Cancel { client },
    4 => Enter { client, who, fence },
    5 => Release { client },
    6 => Send { to, number, message },
    7 => Receive { from, number, message },
    8 => View { members },
    9 => Fail,
    10 => Recover,
} }
