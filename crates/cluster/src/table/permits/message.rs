//! The messages about semaphores that no rule names.

use meshlock_protocol::fence::Stamp;
use meshlock_protocol::numbered;
use serde::{Deserialize, Serialize};

use crate::names::LockName;

/// A message about the permits of one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PermitsOf {
    pub lock: LockName,
    pub message: PermitMessage,
}

/// A message between a member and the home of a name. A *number* is how many clients may hold the name at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PermitMessage {
    /// To the home: a client of the sender waits, and takes the name for one with this number. The answer is a
    /// [`Permit`](Self::Permit), [`Differs`](Self::Differs), or, for the number of the default rule,
    /// [`Free`](Self::Free).
    Want { permits: u32 },
    /// From the home: one client may enter. The name has this number of permits.
    Permit { permits: u32, slot: u32, stamp: Stamp },
    /// To the home: the permit is not used any more.
    Return { slot: u32, stamp: Stamp },
    /// From the home: the clients that take the name for one with `permits` are refused, because others use it with
    /// another number.
    Differs { permits: u32, has: u32 },
    /// From the home to every member: may the name be used with this number?
    Reserve { permits: u32 },
    /// The answer to [`Reserve`](Self::Reserve). If no number is in use at the sender, it admits nobody to the name
    /// until the home has told it what was decided.
    Reserved {
        /// Another number with which clients of the sender use the name.
        in_use: Option<u32>,
        /// The sender's fence clock of the name.
        stamp: Stamp,
    },
    /// From the home to every member: the name is used with this number.
    Settled { permits: u32 },
    /// From the home: the name follows the default rule again. Fences go on after the stamp.
    Free { stamp: Stamp },
}

numbered! { PermitMessage {
    0 => Want { permits },
    1 => Permit { permits, slot, stamp },
    2 => Return { slot, stamp },
    3 => Differs { permits, has },
    4 => Reserve { permits },
    5 => Reserved { in_use, stamp },
    6 => Settled { permits },
    7 => Free { stamp },
} }
