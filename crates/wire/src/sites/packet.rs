//! Encoding of a packet between sites.
//!
//! There are two versions. In version 2 the number of the [cause](meshlock_cluster::cause) for which a lock's message was sent may
//! follow that message; in version 1 nothing follows. So a reader of version 2 also reads version 1.

use meshlock_cluster::cause::Cause;
use meshlock_cluster::node::Packet;

/// The lowest and the highest version of the format between sites that this program speaks.
pub const VERSIONS: (u16, u16) = (1, 2);

/// The first version that carries causes.
const CARRIES_CAUSES: u16 = 2;

/// Maximum length of a packet in bytes. The largest are a view of a thousand members and a piece of a census.
pub(super) const MAX_PACKET_BYTES: usize = 4 << 20;

/// The reason why received bytes are not a packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The packet is longer than any that a site sends.
    #[error("a packet of {bytes} bytes; at most {MAX_PACKET_BYTES} are allowed")]
    TooLong { bytes: usize },
    /// The bytes are not in the form of a packet.
    #[error("not a packet: {0}")]
    Malformed(#[from] postcard::Error),
    /// The bytes after a packet are not a cause.
    #[error("the bytes after the packet are not a cause")]
    Cause,
    /// Bytes follow the packet.
    #[error("{bytes} bytes after the end of a packet")]
    Trailing { bytes: usize },
}

/// Appends a packet to `bytes` in this version of the format.
pub fn append_packet(packet: &Packet, version: u16, bytes: Vec<u8>) -> Vec<u8> {
    let bytes = postcard::to_extend(packet, bytes).expect("a packet is plain data");
    match packet.content.lock_message().and_then(|message| message.cause) {
        Some(cause) if version >= CARRIES_CAUSES => {
            postcard::to_extend(&cause.number(), bytes).expect("a number is plain data")
        }
        Some(_) | None => bytes,
    }
}

/// Returns the bytes of a packet in this version of the format.
pub fn encode_packet(packet: &Packet, version: u16) -> Vec<u8> {
    append_packet(packet, version, Vec::new())
}

/// Reads a packet from bytes in this version of the format; all of them must belong to it.
pub fn decode_packet(bytes: &[u8], version: u16) -> Result<Packet, PacketError> {
    if bytes.len() > MAX_PACKET_BYTES {
        return Err(PacketError::TooLong { bytes: bytes.len() });
    }
    let (mut packet, mut rest): (Packet, _) = postcard::take_from_bytes(bytes)?;
    if version >= CARRIES_CAUSES
        && !rest.is_empty()
        && let Some(message) = packet.content.lock_message_mut()
    {
        let (number, behind) = postcard::take_from_bytes(rest)?;
        message.cause = Some(Cause::new(number).ok_or(PacketError::Cause)?);
        rest = behind;
    }
    if !rest.is_empty() {
        return Err(PacketError::Trailing { bytes: rest.len() });
    }
    Ok(packet)
}

/// Returns a packet with a message of a lock's machine, for tests and fuzzers.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn lock_packet(cause: Option<Cause>) -> Packet {
    use meshlock_cluster::founding::Founding;
    use meshlock_cluster::links::Frame;
    use meshlock_cluster::names::Incarnation;
    use meshlock_cluster::node::{Content, LinkPayload};
    use meshlock_cluster::table::LockMessage;
    use meshlock_protocol::algorithms::central;
    use meshlock_protocol::registry::AnyMessage;
    use meshlock_protocol::{Count, Epoch, FenceClock};

    let message = LockMessage {
        lock: "jobs".parse().expect("a name"),
        from_lane: 0,
        to_lane: 0,
        stamp: FenceClock::new(Epoch::default()).stamp(),
        message: AnyMessage::Central(central::Message::Grant { number: Count::default() }),
        cause,
    };
    let body = LinkPayload::Lock(message);
    let frame = Frame::Data { number: 1, ack: 0, epoch: Epoch::default(), body };
    let content = Content::Link { to: Incarnation::new(2), frame };
    let cluster = Founding::new("x".parse().expect("a name"), &[]).id();
    Packet { cluster, incarnation: Incarnation::new(3), content }
}

#[cfg(test)]
mod tests {
    use meshlock_cluster::founding::Founding;
    use meshlock_cluster::names::Incarnation;
    use meshlock_cluster::node::Content;

    use super::*;

    #[test]
    fn a_packet_is_read_as_it_was_written_and_nothing_else_is() {
        let cluster = Founding::new("x".parse().unwrap(), &[]).id();
        let packet = Packet { cluster, incarnation: Incarnation::new(3), content: Content::Ping };
        let mut bytes = encode_packet(&packet, 2);
        assert_eq!(decode_packet(&bytes, 2), Ok(packet));
        bytes.push(0);
        assert_eq!(decode_packet(&bytes, 2), Err(PacketError::Trailing { bytes: 1 }));
        assert!(matches!(decode_packet(&[0, 0, 0, 0, 9, 200], 2), Err(PacketError::Malformed(_))));
        let long = vec![0; MAX_PACKET_BYTES + 1];
        assert!(matches!(decode_packet(&long, 2), Err(PacketError::TooLong { .. })));
    }

    #[test]
    fn version_two_carries_causes_and_version_one_does_not() {
        let (with, without) = (lock_packet(Cause::new(7)), lock_packet(None));
        assert_eq!(decode_packet(&encode_packet(&with, 2), 2), Ok(with.clone()));
        assert_eq!(decode_packet(&encode_packet(&with, 1), 1), Ok(without.clone()));
        assert_eq!(encode_packet(&with, 1), encode_packet(&without, 2));
        // A packet that was encoded before the receiver's version was known.
        assert_eq!(decode_packet(&encode_packet(&with, 1), 2), Ok(without));
    }

    #[test]
    fn what_is_no_cause_is_refused_and_version_one_knows_none() {
        let bytes = encode_packet(&lock_packet(Cause::new(7)), 2);
        assert_eq!(decode_packet(&bytes, 1), Err(PacketError::Trailing { bytes: 1 }));
        let mut zero = bytes.clone();
        *zero.last_mut().unwrap() = 0;
        assert_eq!(decode_packet(&zero, 2), Err(PacketError::Cause));
        let more = [bytes.as_slice(), &[1]].concat();
        assert_eq!(decode_packet(&more, 2), Err(PacketError::Trailing { bytes: 1 }));
        let endless = [&bytes[..bytes.len() - 1], &[0xff; 11]].concat();
        assert!(matches!(decode_packet(&endless, 2), Err(PacketError::Malformed(_))));
    }
}
