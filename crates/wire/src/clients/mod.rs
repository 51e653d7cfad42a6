//! What clients and nodes say to each other.

mod frame;
mod message;

pub use frame::{ProtocolError, put, take};
pub use message::{
    Contact, Held, MOST_BYTES, MOST_OPEN, Patience, Queue, Status, Tag, ToClient, ToNode, VERSION,
};
