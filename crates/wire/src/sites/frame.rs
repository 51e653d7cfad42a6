//! Framing of the packets between sites: a greeting with the sender and its versions, then frames of a length and a
//! packet.
//!
//! ```text
//!  greeting:  "MESHLOCK"  lowest version u16  highest version u16  length u32  Hello
//!  frame:     length u32  packet
//! ```
//!
//! Numbers are little-endian. A greeting can be read by every future version; what follows is of the highest version
//! that both sides speak. The versions are in [`VERSIONS`].

use std::fmt;

use serde::{Deserialize, Serialize};

use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::Packet;

use super::packet::{MAX_PACKET_BYTES, PacketError, VERSIONS, append_packet, check_version, decode_packet};

/// The range of versions that a site speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    lowest: u16,
    highest: u16,
}

impl Default for Versions {
    /// Returns all versions that this program knows.
    fn default() -> Self {
        Versions { lowest: VERSIONS.0, highest: VERSIONS.1 }
    }
}

impl Versions {
    /// Returns the versions up to `highest`, as an older program would speak them.
    pub fn up_to(highest: u16) -> Self {
        Versions { lowest: VERSIONS.0, highest: highest.clamp(VERSIONS.0, VERSIONS.1) }
    }

    /// Returns the lowest and the highest of them.
    pub fn range(self) -> (u16, u16) {
        (self.lowest, self.highest)
    }

    /// Returns the highest version that both speak.
    fn common(self, theirs: Versions) -> Option<u16> {
        let highest = self.highest.min(theirs.highest);
        (highest >= self.lowest.max(theirs.lowest)).then_some(highest)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.lowest, self.highest)
    }
}

const MAGIC: &[u8; 8] = b"MESHLOCK";
const PREAMBLE: usize = MAGIC.len() + 2 + 2 + 4;
const MAX_HELLO_BYTES: usize = 1024;

/// The first message of both sides of a new connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub from: SiteName,
    /// The site that the sender wants to speak to; the sender itself, if it asks who that is.
    pub to: SiteName,
    /// A random number of this start of the program: it tells a peer that older connections belong to a program that is
    /// gone.
    pub incarnation: u64,
}

/// The reason why received bytes are rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The other side is not a Meshlock site.
    #[error("the other side does not speak Meshlock's protocol; is the address right?")]
    Foreign,
    /// There is no common version.
    #[error(
        "the other side speaks versions {theirs} of the protocol, this one {ours}; run versions of meshlock that are at most one apart"
    )]
    Version { theirs: Versions, ours: Versions },
    /// The greeting is too long or malformed.
    #[error("the greeting is malformed")]
    Hello,
    /// The frame is not a packet.
    #[error(transparent)]
    Packet(#[from] PacketError),
}

/// Returns the bytes of a greeting.
pub fn greeting(hello: &Hello, speaks: Versions) -> Vec<u8> {
    let body = postcard::to_stdvec(hello).expect("a greeting is plain data");
    let mut bytes = MAGIC.to_vec();
    bytes.extend(speaks.lowest.to_le_bytes());
    bytes.extend(speaks.highest.to_le_bytes());
    bytes.extend(u32::try_from(body.len()).expect("names are short").to_le_bytes());
    bytes.extend(body);
    bytes
}

/// Takes a greeting from the front of `bytes`, if it is complete; returns it with the version that is spoken from then
/// on.
pub fn take_greeting(bytes: &mut Vec<u8>, ours: Versions) -> Result<Option<(Hello, u16)>, FrameError> {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        return Err(FrameError::Foreign);
    }
    if bytes.len() < PREAMBLE {
        return Ok(None);
    }
    let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let theirs = Versions { lowest: short(8), highest: short(10) };
    let version = ours.common(theirs).ok_or(FrameError::Version { theirs, ours })?;
    let length = length_at(bytes, 12);
    if length > MAX_HELLO_BYTES {
        return Err(FrameError::Hello);
    }
    let Some(body) = bytes.get(PREAMBLE..PREAMBLE + length) else { return Ok(None) };
    let hello = postcard::from_bytes(body).map_err(|_| FrameError::Hello)?;
    bytes.drain(..PREAMBLE + length);
    Ok(Some((hello, version)))
}

/// Appends a packet as a frame. A packet that is too long for any receiver, or that the version does not have, is not
/// appended, and is an error.
pub fn put_packet(packet: &Packet, version: u16, bytes: &mut Vec<u8>) -> Result<(), PacketError> {
    check_version(packet, version)?;
    let start = bytes.len();
    bytes.extend([0; 4]);
    let mut filled = append_packet(packet, version, std::mem::take(bytes));
    let length = filled.len() - start - 4;
    if length > MAX_PACKET_BYTES {
        filled.truncate(start);
        *bytes = filled;
        return Err(PacketError::TooLong { bytes: length });
    }
    let head = u32::try_from(length).expect("checked against the limit").to_le_bytes();
    filled[start..start + 4].copy_from_slice(&head);
    *bytes = filled;
    Ok(())
}

/// Passes every complete packet at the front of `bytes` to `each` and removes it.
pub fn take_packets(
    bytes: &mut Vec<u8>,
    version: u16,
    mut each: impl FnMut(Packet),
) -> Result<(), FrameError> {
    let mut at = 0;
    let taken = loop {
        if bytes.len() - at < 4 {
            break Ok(());
        }
        let length = length_at(bytes, at);
        if length > MAX_PACKET_BYTES {
            break Err(PacketError::TooLong { bytes: length });
        }
        let Some(body) = bytes.get(at + 4..at + 4 + length) else { break Ok(()) };
        match decode_packet(body, version) {
            Ok(packet) => each(packet),
            Err(error) => break Err(error),
        }
        at += 4 + length;
    };
    // Nothing after a malformed frame is read, and nothing before it is read a second time.
    bytes.drain(..if taken.is_ok() { at } else { bytes.len() });
    Ok(taken?)
}

fn length_at(bytes: &[u8], at: usize) -> usize {
    let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    usize::try_from(u32::from_le_bytes(word)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshlock_cluster::founding::{ClusterId, Founding};
    use meshlock_cluster::names::Incarnation;
    use meshlock_cluster::node::Content;

    fn cluster() -> ClusterId {
        Founding::new("c".parse().unwrap(), &["a".parse().unwrap()]).id()
    }

    fn hello() -> Hello {
        Hello { from: "a".parse().unwrap(), to: "b".parse().unwrap(), incarnation: 1 }
    }

    #[test]
    fn a_greeting_is_read_once_it_is_whole_and_leaves_the_rest() {
        let all = Versions::default();
        let whole = greeting(&hello(), all);
        for cut in 0..whole.len() {
            assert_eq!(take_greeting(&mut whole[..cut].to_vec(), all), Ok(None), "{cut} bytes");
        }
        let mut more = whole;
        more.push(7);
        assert_eq!(take_greeting(&mut more, all), Ok(Some((hello(), VERSIONS.1))));
        assert_eq!(more, [7]);
    }

    #[test]
    fn two_sites_speak_the_highest_version_that_both_know() {
        let speak = |theirs: u16, ours: u16| {
            let mut greeting = greeting(&hello(), Versions::up_to(theirs));
            take_greeting(&mut greeting, Versions::up_to(ours)).unwrap().unwrap().1
        };
        assert_eq!((speak(1, 1), speak(1, 2), speak(2, 1), speak(2, 2)), (1, 1, 1, 2));
        assert_eq!((speak(2, 3), speak(3, 2), speak(3, 3)), (2, 2, 3));
    }

    #[test]
    fn whoever_speaks_something_else_is_told_apart_by_the_first_bytes() {
        let ours = Versions::default();
        assert_eq!(take_greeting(&mut b"GET / HTTP/1.1".to_vec(), ours), Err(FrameError::Foreign));
        let mut newer = greeting(&hello(), ours);
        newer[8..12].copy_from_slice(&[9, 0, 9, 0]);
        let theirs = Versions { lowest: 9, highest: 9 };
        assert_eq!(take_greeting(&mut newer, ours), Err(FrameError::Version { theirs, ours }));
        let mut long = greeting(&hello(), ours);
        long[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(take_greeting(&mut long, ours), Err(FrameError::Hello));
    }

    #[test]
    fn packets_come_out_as_they_went_in_however_the_bytes_are_cut() {
        let packets = [Content::Ping, Content::Pong, Content::Leave]
            .map(|content| Packet::direct(cluster(), Incarnation::new(3), content));
        let mut sent = Vec::new();
        for packet in &packets {
            put_packet(packet, 2, &mut sent).unwrap();
        }
        for step in 1..sent.len() {
            let (mut held, mut got) = (Vec::new(), Vec::new());
            for piece in sent.chunks(step) {
                held.extend(piece);
                take_packets(&mut held, 2, |packet| got.push(packet)).unwrap();
            }
            assert_eq!(got, packets);
            assert!(held.is_empty());
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_before_it_is_awaited() {
        let mut bytes = u32::MAX.to_le_bytes().to_vec();
        assert!(matches!(
            take_packets(&mut bytes, 2, |_| {}),
            Err(FrameError::Packet(PacketError::TooLong { .. }))
        ));
    }
}
