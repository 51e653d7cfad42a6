//! What programs of earlier versions have said is read as they meant it, and would be written as they wrote it.
//!
//! The files in `recorded/` are bytes of such programs: a rolling upgrade is tested against them and not against today's code. They are
//! never changed; a new version gets a file of its own.

use std::collections::BTreeSet;

use meshlock_wire::clients::{put_to_client, put_to_node, take_to_client, take_to_node};
use meshlock_wire::sites::{Versions, decode_packet, encode_packet, take_greeting};

const SITES: [(u16, &str); 2] =
    [(1, include_str!("recorded/sites-v1.txt")), (2, include_str!("recorded/sites-v2.txt"))];

const CLIENTS: &str = include_str!("recorded/clients-v2.txt");

/// The lines of a file that are not comments: who said something, and its bytes.
fn lines(text: &str) -> impl Iterator<Item = (&str, Vec<u8>)> {
    let said = text.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '=']));
    said.map(|line| {
        let (who, hex) = line.split_once(' ').expect("who said it, and what");
        (who, bytes(hex))
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[test]
fn what_sites_of_each_version_have_said_is_read_and_written_as_it_was() {
    for (version, text) in SITES {
        let (mut greeted, mut kinds) = (BTreeSet::new(), BTreeSet::new());
        for (who, said) in lines(text) {
            if greeted.insert(who) {
                let mut greeting = said.clone();
                let (hello, common) = take_greeting(&mut greeting, Versions::default()).unwrap().unwrap();
                assert_eq!((hello.from.as_str(), common, greeting.len()), (who, version, 0));
                continue;
            }
            let packet = decode_packet(&said[4..], version).unwrap();
            assert_eq!(encode_packet(&packet, version), said[4..], "{packet:?}");
            kinds.insert(packet.content.kind());
        }
        for kind in ["raft", "renew", "lease granted", "census", "lock message", "view", "ask", "reply"] {
            assert!(kinds.contains(kind), "version {version} has no {kind}: {kinds:?}");
        }
    }
}

#[test]
fn what_clients_and_nodes_of_version_2_have_said_is_read_and_written_as_it_was() {
    let mut said = 0;
    for (who, frame) in lines(CLIENTS) {
        let mut again = Vec::new();
        if who == ">" {
            let (message, length) = take_to_node(&frame).unwrap().unwrap();
            assert_eq!(length, frame.len());
            put_to_node(&message, &mut again);
        } else {
            let (message, length) = take_to_client(&frame).unwrap().unwrap();
            assert_eq!(length, frame.len());
            put_to_client(&message, 2, &mut again);
        }
        assert_eq!(again, frame);
        said += 1;
    }
    assert!(said > 40, "{said}");
}
