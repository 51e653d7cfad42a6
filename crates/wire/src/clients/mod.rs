//! The protocol between clients and nodes.

mod frame;
mod message;
mod reason;
mod version;

pub use frame::{
    MAX_MESSAGE_BYTES, MAX_REQUEST_BYTES, ProtocolError, length_of_message, put_to_client, put_to_node,
    take_to_client, take_to_node,
};
pub use message::{Contact, HeldEntry, MAX_OPEN, Status, Tag, ToClient, ToNode};
pub use reason::{LossKind, RefusalKind};
pub use version::{
    HAS_ACCESS, HAS_CLAIMS, HAS_DIAGNOSES, HAS_LISTINGS, HAS_VOTERS, REFUSAL_BY_V2, VERSIONS, common_version,
};
