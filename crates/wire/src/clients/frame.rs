//! Framing of the messages between clients and nodes: a length (u32, little-endian), then the message.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::message::{ToClient, ToNode};
use super::version::{to_newest, to_version};

/// Maximum length of a message in bytes: a queue of a hundred sites with a hundred clients each fits.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Maximum length of a client's message in bytes, unless it replaces the cluster's rules: a request has a name or two.
pub const MAX_REQUEST_BYTES: usize = 4 << 10;

/// The reason why received bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The other side is a web server, such as the API of a node.
    #[error(
        "it speaks HTTP, which is what `api` in a node's configuration is for; commands use the address under `clients`"
    )]
    Http,
    /// The message is longer than any valid one.
    #[error("a message of {bytes} bytes; at most {most} are allowed")]
    TooLong { bytes: usize, most: usize },
    #[error("not a message of this protocol: {0}")]
    Malformed(#[from] postcard::Error),
}

/// Appends a client's message to `bytes`.
pub fn put_to_node(message: &ToNode, bytes: &mut Vec<u8>) {
    put(message, bytes);
}

/// Appends a node's message to `bytes`, in this version.
pub fn put_to_client(message: &ToClient, version: u16, bytes: &mut Vec<u8>) {
    match to_version(version, message) {
        Some(old) => put(&old, bytes),
        None => put(message, bytes),
    }
}

/// Takes one message of a client from `bytes`, if it is complete; returns it and the number of bytes that it took.
pub fn take_to_node(bytes: &[u8]) -> Result<Option<(ToNode, usize)>, ProtocolError> {
    take(bytes, MAX_MESSAGE_BYTES)
}

/// Returns how long the first message of a client is that `bytes` begin with, as far as it says so already. What is longer than any
/// message can be is an error.
pub fn length_of_message(bytes: &[u8]) -> Result<Option<usize>, ProtocolError> {
    length(bytes, MAX_MESSAGE_BYTES)
}

/// Takes one message of a node from `bytes`, if it is complete, converted to the newest version; returns it and the
/// number of bytes that it took.
pub fn take_to_client(bytes: &[u8]) -> Result<Option<(ToClient, usize)>, ProtocolError> {
    Ok(take(bytes, MAX_MESSAGE_BYTES)?.map(|(message, length)| (to_newest(message), length)))
}

fn put<M: Serialize>(message: &M, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.extend([0; 4]);
    *bytes = postcard::to_extend(message, std::mem::take(bytes)).expect("a message is plain data");
    let length = u32::try_from(bytes.len() - start - 4).unwrap_or(u32::MAX);
    bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

fn length(bytes: &[u8], most: usize) -> Result<Option<usize>, ProtocolError> {
    let Some(head) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(u32::from_le_bytes(*head)).unwrap_or(usize::MAX);
    if head == b"HTTP" {
        return Err(ProtocolError::Http);
    }
    if length > most { Err(ProtocolError::TooLong { bytes: length, most }) } else { Ok(Some(length)) }
}

fn take<M: DeserializeOwned>(bytes: &[u8], most: usize) -> Result<Option<(M, usize)>, ProtocolError> {
    let Some(length) = length(bytes, most)? else { return Ok(None) };
    let Some(body) = bytes.get(4..4 + length) else { return Ok(None) };
    Ok(Some((postcard::from_bytes(body)?, 4 + length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_once_it_is_whole() {
        let mut bytes = Vec::new();
        put_to_node(&ToNode::Cancel(7), &mut bytes);
        put_to_node(&ToNode::Release(8), &mut bytes);
        let first = bytes.len() / 2;
        assert_eq!(take_to_node(&bytes[..first - 1]), Ok(None));
        assert_eq!(take_to_node(&bytes), Ok(Some((ToNode::Cancel(7), first))));
        assert_eq!(take_to_node(&bytes[first..]), Ok(Some((ToNode::Release(8), first))));
    }

    #[test]
    fn what_is_too_long_or_makes_no_sense_is_refused() {
        let long = u32::MAX.to_le_bytes();
        assert!(matches!(take_to_node(&long), Err(ProtocolError::TooLong { .. })));
        assert_eq!(take_to_client(b"HTTP/1.1 400 Bad Request"), Err(ProtocolError::Http));
        assert!(matches!(length_of_message(&long), Err(ProtocolError::TooLong { .. })));
        assert_eq!(length_of_message(&[1, 0, 0]), Ok(None));
        assert_eq!(length_of_message(&[1, 2, 0, 0]), Ok(Some(513)));
        assert!(matches!(take_to_node(&[1, 0, 0, 0, 255]), Err(ProtocolError::Malformed(_))));
    }
}
