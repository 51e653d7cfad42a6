//! The protocol between sites: a greeting that agrees on a version, then frames with packets.

pub mod calls;
mod frame;
#[cfg(feature = "fuzz")]
pub(crate) mod fuzz;
mod introduction;
pub mod mirror;
mod packet;
#[cfg(any(test, feature = "fuzz"))]
mod samples;

pub use frame::{FrameError, Hello, Versions, greeting, put_packet, take_greeting, take_packets};
pub use introduction::{Introduction, IntroductionError, SiteQuestion};
pub use packet::{
    AGREES_ON_ACCESS, CARRIES_CLAIM_KEYS, CARRIES_FOR_OTHERS, CARRIES_MODES, CARRIES_PERMITS, CHANGES_VOTERS,
    COUNTS_VOTERS, FORWARDS_CALLS, KNOWS_FENCE_FLOORS, LISTS_LOCKS, PacketError, REPORTS_RECORDS, VERSIONS,
    append_packet, as_read, decode_packet, encode_packet,
};
#[cfg(feature = "fuzz")]
pub(crate) use samples::{access_packets, call_packets, lock_packet, permit_packets, voter_packets};
