//! How messages lie on a connection between a client and a node: a length (u32, little-endian), then the message.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::message::MOST_BYTES;

/// What is wrong with bytes from the other side.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Longer than anything that is said.
    #[error("a message of {bytes} bytes; at most {MOST_BYTES} are allowed")]
    TooLong {
        /// How long.
        bytes: usize,
    },
    /// Not a message.
    #[error("not a message of this protocol: {0}")]
    Malformed(#[from] postcard::Error),
}

/// Appends a message as a frame.
pub fn put<M: Serialize>(message: &M, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.extend([0; 4]);
    *bytes = postcard::to_extend(message, std::mem::take(bytes)).expect("a message is plain data");
    let length = u32::try_from(bytes.len() - start - 4).unwrap_or(u32::MAX);
    bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Takes one message from `bytes`, if all of it is there; says how many bytes it took.
pub fn take<M: DeserializeOwned>(bytes: &[u8]) -> Result<Option<(M, usize)>, ProtocolError> {
    let Some(head) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(u32::from_le_bytes(*head)).unwrap_or(usize::MAX);
    if length > MOST_BYTES {
        return Err(ProtocolError::TooLong { bytes: length });
    }
    let Some(body) = bytes.get(4..4 + length) else { return Ok(None) };
    Ok(Some((postcard::from_bytes(body)?, 4 + length)))
}

#[cfg(test)]
mod tests {
    use super::super::message::ToNode;
    use super::*;

    #[test]
    fn a_message_is_read_once_it_is_whole() {
        let mut bytes = Vec::new();
        put(&ToNode::Cancel(7), &mut bytes);
        put(&ToNode::Release(8), &mut bytes);
        let first = bytes.len() / 2;
        assert_eq!(take::<ToNode>(&bytes[..first - 1]), Ok(None));
        assert_eq!(take(&bytes), Ok(Some((ToNode::Cancel(7), first))));
        assert_eq!(take(&bytes[first..]), Ok(Some((ToNode::Release(8), first))));
    }

    #[test]
    fn what_is_too_long_or_makes_no_sense_is_refused() {
        let long = u32::MAX.to_le_bytes();
        assert!(matches!(take::<ToNode>(&long), Err(ProtocolError::TooLong { .. })));
        assert!(matches!(take::<ToNode>(&[1, 0, 0, 0, 255]), Err(ProtocolError::Malformed(_))));
    }
}
