//! What programs of earlier versions have said is read as they meant it, and would be written as they wrote it.
//!
//! The files in `recorded/` are bytes of such programs: a rolling upgrade is tested against them and not against today's code. They are
//! never changed; a new version gets a file of its own.

use std::collections::BTreeSet;

use meshlock_wire::clients::{put_to_client, put_to_node, take_to_client, take_to_node};
use meshlock_wire::sites::{Versions, decode_packet, encode_packet, take_greeting};

use super::{MESSAGE_ADVICE, bytes, hex};

pub(crate) const SITES: [(u16, &str); 2] =
    [(1, include_str!("../recorded/sites-v1.txt")), (2, include_str!("../recorded/sites-v2.txt"))];

const CLIENTS: &str = include_str!("../recorded/clients-v2.txt");

/// The lines of a file that are not comments: who said something, and its bytes.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (&str, Vec<u8>)> {
    let said = text.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '=']));
    said.map(|line| {
        let (who, hex) = line.split_once(' ').expect("who said it, and what");
        (who, bytes(hex))
    })
}

/// What was read of a recorded line; panics with what to do if nothing was.
pub(crate) fn read<T, E: std::fmt::Debug>(line: &[u8], decoded: Result<T, E>) -> T {
    decoded.unwrap_or_else(|error| panic!("{} is not read any more: {error:?}. {MESSAGE_ADVICE}", hex(line)))
}

/// The same where nothing may be missing.
fn read_whole<T, E: std::fmt::Debug>(line: &[u8], decoded: Result<Option<T>, E>) -> T {
    let whole = read(line, decoded);
    whole.unwrap_or_else(|| panic!("{} is no longer whole. {MESSAGE_ADVICE}", hex(line)))
}

#[test]
fn what_sites_of_each_version_have_said_is_read_and_written_as_it_was() {
    for (version, text) in SITES {
        let (mut greeted, mut kinds) = (BTreeSet::new(), BTreeSet::new());
        for (who, said) in lines(text) {
            if greeted.insert(who) {
                let mut greeting = said.clone();
                let (hello, common) = read_whole(&said, take_greeting(&mut greeting, Versions::default()));
                assert_eq!(
                    (hello.from.as_str(), common, greeting.len()),
                    (who, version, 0),
                    "a greeting of version {version} means something else now. {MESSAGE_ADVICE}"
                );
                continue;
            }
            let packet = read(&said, decode_packet(&said[4..], version));
            let again = hex(&encode_packet(&packet, version));
            assert_eq!(again, hex(&said[4..]), "{packet:?} is written otherwise now. {MESSAGE_ADVICE}");
            kinds.insert(packet.content.kind());
        }
        for kind in ["raft", "renew", "lease granted", "census", "lock message", "view", "ask", "reply"] {
            assert!(kinds.contains(kind), "version {version} has no {kind}: {kinds:?}. {MESSAGE_ADVICE}");
        }
    }
}

#[test]
fn what_clients_and_nodes_of_version_2_have_said_is_read_and_written_as_it_was() {
    let mut said = 0;
    for (who, frame) in lines(CLIENTS) {
        let mut again = Vec::new();
        let length = if who == ">" {
            let (message, length) = read_whole(&frame, take_to_node(&frame));
            put_to_node(&message, &mut again);
            length
        } else {
            let (message, length) = read_whole(&frame, take_to_client(&frame));
            put_to_client(&message, 2, &mut again);
            length
        };
        let now = (length, hex(&again));
        assert_eq!(now, (frame.len(), hex(&frame)), "it is written otherwise now. {MESSAGE_ADVICE}");
        said += 1;
    }
    assert!(said > 40, "{said}");
}
