//! Fuzz targets for the format between sites: see [`crate::fuzz`].

use meshlock_cluster::node::Packet;

use super::frame::{Hello, Versions, greeting as written, put_packet, take_greeting, take_packets};
use super::introduction::Introduction;
use crate::diagnosis::{Diagnosis, sample};

use super::packet::{VERSIONS, decode_packet, encode_packet};

/// Checks that the same greeting is read however the bytes are split, or none.
pub(crate) fn greeting(bytes: &[u8]) {
    let (cut, bytes) = cut(bytes);
    let (mut whole, ours) = (bytes.to_vec(), Versions::default());
    let at_once = take_greeting(&mut whole, ours);
    let mut held = bytes[..cut].to_vec();
    let early = take_greeting(&mut held, ours);
    if let Ok(None) = early {
        held.extend(&bytes[cut..]);
        assert_eq!(take_greeting(&mut held, ours), at_once);
        assert_eq!(held, whole);
    } else {
        assert_eq!(early, at_once);
    }
    if let Ok(Some((hello, version))) = at_once {
        let mut again = written(&hello, Versions::up_to(version));
        assert_eq!(take_greeting(&mut again, ours), Ok(Some((hello, version))));
    }
}

pub(crate) fn greetings() -> Vec<Vec<u8>> {
    let hello =
        Hello { from: "a".parse().expect("a name"), to: "b".parse().expect("a name"), incarnation: 1 };
    vec![[vec![9], written(&hello, Versions::default())].concat()]
}

/// Checks that an introduction is read as it was written, or refused.
pub(crate) fn introduction(bytes: &[u8]) {
    if let Ok(Some(introduction)) = Introduction::take(bytes) {
        assert_eq!(Introduction::take(&introduction.frame()).ok().flatten(), Some(introduction));
    }
}

pub(crate) fn introductions() -> Vec<Vec<u8>> {
    let sites = vec![
        ("a".parse().expect("a name"), Some("a:1".parse().expect("an address"))),
        ("b".parse().expect("a name"), None),
    ];
    vec![Introduction { cluster: "c".parse().expect("a name"), sites }.frame()]
}

/// Checks that a site's report is read as it was written, or refused, and that what is read is bounded.
pub(crate) fn diagnosis(bytes: &[u8]) {
    if let Ok(Some(report)) = Diagnosis::take(bytes) {
        assert!(report.is_bounded());
        assert_eq!(Diagnosis::take(&report.frame()), Ok(Some(report)));
    }
}

pub(crate) fn diagnoses() -> Vec<Vec<u8>> {
    vec![sample().frame()]
}

/// Checks that the same packets are read however the bytes are split, and that they are encoded so that they can be
/// read again.
pub(crate) fn packets(bytes: &[u8]) {
    for version in VERSIONS.0..=VERSIONS.1 {
        packets_of(version, bytes);
    }
}

fn packets_of(version: u16, bytes: &[u8]) {
    let (cut, bytes) = cut(bytes);
    let (mut whole, mut at_once) = (bytes.to_vec(), Vec::new());
    let ended = take_packets(&mut whole, version, |packet| at_once.push(packet));
    let (mut held, mut in_parts) = (bytes[..cut].to_vec(), Vec::new());
    let early = take_packets(&mut held, version, |packet| in_parts.push(packet));
    if early.is_ok() {
        held.extend(&bytes[cut..]);
        assert_eq!(take_packets(&mut held, version, |packet| in_parts.push(packet)), ended);
    } else {
        assert_eq!(early, ended);
    }
    assert_eq!(in_parts, at_once);
    for packet in &at_once {
        assert_eq!(decode_packet(&encode_packet(packet, version), version).as_ref(), Ok(packet));
    }
}

/// Returns packets as one side sends them, for [`packets`].
pub(crate) fn frames(packets: &[Packet]) -> Vec<u8> {
    let mut bytes = vec![9];
    for packet in packets {
        put_packet(packet, VERSIONS.1, &mut bytes).expect("models are short");
    }
    bytes
}

/// Splits off the first byte, which says where the rest is split.
fn cut(bytes: &[u8]) -> (usize, &[u8]) {
    let (first, rest) = bytes.split_first().unwrap_or((&0, &[]));
    (usize::from(*first).min(rest.len()), rest)
}
