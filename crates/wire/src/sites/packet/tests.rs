//! Packets of every version: what is read of what was written.

use meshlock_cluster::founding::Founding;
use meshlock_cluster::node::{Hearing, LinkPayload, PeerReply, QuestionId, SiteQueue, Standing};
use meshlock_cluster::table::{CensusPiece, Holding, LockReport, Machinery, PermitMessage, PermitsOf};
use meshlock_cluster::time::Time;
use meshlock_protocol::Epoch;

use super::super::samples::{access_packets, call_packets, link_packet, lock_packet, voter_packets};
use super::*;

#[test]
fn a_packet_is_read_as_it_was_written_and_nothing_else_is() {
    let cluster = Founding::new("x".parse().unwrap(), &[]).id();
    let packet = Packet::direct(cluster, Incarnation::new(3), Content::Ping);
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

#[test]
fn version_four_says_which_voters_a_message_is_about_and_version_three_cannot() {
    for packet in voter_packets() {
        let mut bytes = encode_packet(&packet, 4);
        assert_eq!(decode_packet(&bytes, 4), Ok(packet.clone()));
        assert!(decode_packet(&bytes, 3).is_err());
        assert_eq!(check_version(&packet, 3), Err(PacketError::NotInVersion { version: 3 }));
        bytes.push(0);
        assert_eq!(decode_packet(&bytes, 4), Err(PacketError::Trailing { bytes: 1 }));
    }
    let [mut first, _] = voter_packets();
    let message = first.content.raft_message_mut().unwrap();
    message.set_beside(None, None);
    // What first voters say to each other has the same bytes in all versions.
    assert_eq!(encode_packet(&first, 4), encode_packet(&first, 3));
    let nothing = [encode_packet(&first, 4), vec![0, 0]].concat();
    assert_eq!(decode_packet(&nothing, 4), Err(PacketError::Voters));
}

fn census(numbers: &[Option<u32>], has_permits: bool) -> Packet {
    let holding = |permits: &Option<u32>| Holding {
        lock: "jobs".parse().unwrap(),
        slots: vec![Some(0)],
        permits: *permits,
        modes: Vec::new(),
    };
    let holdings = numbers.iter().map(holding).collect();
    link_packet(LinkPayload::Census(CensusPiece {
        holdings,
        last: true,
        has_permits,
        has_modes: false,
        key: None,
    }))
}

#[test]
fn version_three_carries_numbers_of_permits_and_version_two_does_not() {
    let (with, without) = (census(&[Some(3), Some(1)], true), census(&[None, None], false));
    assert_eq!(decode_packet(&encode_packet(&with, 3), 3), Ok(with.clone()));
    assert_eq!(decode_packet(&encode_packet(&with, 2), 2), Ok(without.clone()));
    assert_eq!(decode_packet(&encode_packet(&with, 2), 3), Ok(without));
    // That it holds nothing tells an older program apart, too.
    for (empty, version) in [(census(&[], true), 3), (census(&[], false), 2)] {
        assert_eq!(decode_packet(&encode_packet(&census(&[], true), version), version), Ok(empty));
    }
}

#[test]
fn numbers_that_do_not_fit_a_census_and_permits_in_an_old_version_are_refused() {
    let mut bytes = encode_packet(&census(&[Some(3)], true), 3);
    let at = bytes.len() - 2;
    bytes.splice(at.., [2, 3, 3]);
    assert_eq!(decode_packet(&bytes, 3), Err(PacketError::Permits));
    let message = PermitsOf { lock: "jobs".parse().unwrap(), message: PermitMessage::Want { permits: 3 } };
    let want = link_packet(LinkPayload::Permits(message));
    let bytes = encode_packet(&want, 3);
    assert_eq!(decode_packet(&bytes, 3), Ok(want));
    assert_eq!(decode_packet(&bytes, 2), Err(PacketError::NotInVersion { version: 2 }));
}

#[test]
fn version_six_carries_the_key_of_proofs_and_version_five_does_not() {
    let plain = census(&[Some(3)], true);
    let mut with = plain.clone();
    with.content.census_piece_mut().unwrap().key = Some(ClaimKey::new([0xa5; 32]));
    let bytes = encode_packet(&with, 6);
    assert_eq!(decode_packet(&bytes, 6), Ok(with.clone()));
    assert_eq!(decode_packet(&bytes, 5), Err(PacketError::Trailing { bytes: 32 }));
    assert_eq!(encode_packet(&with, 5), encode_packet(&plain, 5));
    assert_eq!(as_read(with.clone(), 5), plain);
    // Without a key the bytes are those of version 5, and part of one is none.
    assert_eq!(encode_packet(&plain, 6), encode_packet(&plain, 5));
    assert!(matches!(decode_packet(&bytes[..bytes.len() - 1], 6), Err(PacketError::Malformed(_))));
    let more = [bytes.as_slice(), &[0]].concat();
    assert_eq!(decode_packet(&more, 6), Err(PacketError::Trailing { bytes: 1 }));
    // Only the last piece has it.
    with.content.census_piece_mut().unwrap().last = false;
    assert_eq!(as_read(with.clone(), 6).content.census_piece().unwrap().key, None);
    let read = decode_packet(&encode_packet(&with, 6), 6).unwrap();
    assert_eq!(read, as_read(with, 6));
}

#[test]
fn version_seven_carries_modes_and_version_six_takes_all_holders_for_exclusive() {
    let plain = census(&[Some(1), Some(1)], true);
    let mut with = plain.clone();
    let piece = with.content.census_piece_mut().unwrap();
    piece.has_modes = true;
    assert!(piece.holdings.set_modes(&[Mode::Exclusive, Mode::Shared]));
    piece.key = Some(ClaimKey::new([0xa5; 32]));
    let bytes = encode_packet(&with, 7);
    assert_eq!(decode_packet(&bytes, 7), Ok(with.clone()));
    assert_eq!(bytes.len(), encode_packet(&with, 6).len() + "12XS".len());
    let older = decode_packet(&encode_packet(&with, 6), 6).unwrap();
    assert_eq!(older, as_read(with.clone(), 6));
    assert_eq!(older.content.census_piece().unwrap().holdings.modes(), []);
    assert!(!older.content.census_piece().unwrap().has_modes);
    // An unknown letter, more modes than slots, and one that says nothing.
    let at = bytes.len() - 32 - 3;
    for (length, letters) in [(2, "XQ"), (3, "SSS"), (1, "X")] {
        let wrong = [&bytes[..at], &[length], letters.as_bytes(), &bytes[at + 3..]].concat();
        assert_eq!(decode_packet(&wrong, 7), Err(PacketError::Modes), "{letters}");
    }
    assert!(decode_packet(&bytes[..at], 7).is_err());
    // A newer program carries what an older one has sent.
    assert_eq!(decode_packet(&encode_packet(&older, 7), 7), Ok(older));
}

#[test]
fn version_six_reports_settled_permits_and_version_five_does_not() {
    let lock = LockReport {
        machines: Machinery::Stopped,
        holders: Vec::new(),
        holders_in_all: 0,
        waiters: Vec::new(),
        waiters_in_all: 0,
    };
    let (site, epoch): (SiteName, _) = ("a".parse().unwrap(), Epoch::default());
    let of = |settled| {
        let (site, lock) = (site.clone(), lock.clone());
        let queue =
            SiteQueue { site, epoch, standing: Standing::Open, leased: true, leaving: false, lock, settled };
        let question = QuestionId { incarnation: Incarnation::new(7), number: 2 };
        let content = Content::Reply { question, reply: PeerReply::Queue(queue) };
        Packet { content, ..lock_packet(None) }
    };
    let (plain, with) = (of(None), of(Some(300)));
    let bytes = encode_packet(&with, 6);
    assert_eq!(decode_packet(&bytes, 6), Ok(with.clone()));
    assert_eq!(decode_packet(&bytes, 5), Err(PacketError::Trailing { bytes: 2 }));
    assert_eq!(encode_packet(&with, 5), encode_packet(&plain, 5));
    assert_eq!(as_read(with, 5), plain);
    assert_eq!(encode_packet(&plain, 6), encode_packet(&plain, 5));
}

#[test]
fn version_five_has_the_access_document_and_version_four_cannot() {
    for packet in access_packets() {
        let mut bytes = encode_packet(&packet, 5);
        assert_eq!(decode_packet(&bytes, 5), Ok(packet.clone()));
        assert_eq!(check_version(&packet, 4), Err(PacketError::NotInVersion { version: 4 }));
        assert!(decode_packet(&bytes, 4).is_err());
        bytes.push(0);
        assert!(decode_packet(&bytes, 5).is_err());
    }
    // Without a document a voter's message has the bytes that it always had.
    let [snapshot, _] = voter_packets();
    assert_eq!(encode_packet(&snapshot, 5), encode_packet(&snapshot, 4));
}

#[test]
fn version_six_has_calls_and_version_five_does_not() {
    for packet in call_packets() {
        let bytes = encode_packet(&packet, 6);
        assert_eq!(decode_packet(&bytes, 6), Ok(packet.clone()));
        assert_eq!(check_version(&packet, 5), Err(PacketError::NotInVersion { version: 5 }));
        assert_eq!(decode_packet(&bytes, 5), Err(PacketError::NotInVersion { version: 5 }));
    }
}

#[test]
fn version_three_carries_packets_for_other_sites_and_version_two_does_not() {
    let site: SiteName = "far".parse().unwrap();
    for route in [Route::To(site.clone()), Route::From(site)] {
        let carried = Packet { route, ..lock_packet(Cause::new(7)) };
        let bytes = encode_packet(&carried, 3);
        assert_eq!(decode_packet(&bytes, 3), Ok(carried));
        assert_eq!(decode_packet(&bytes, 2), Err(PacketError::NotInVersion { version: 2 }));
    }
    let beat = Packet {
        content: Content::Beat { sent: Time::from_micros(300), hearing: Hearing::Nothing },
        ..lock_packet(None)
    };
    assert_eq!(decode_packet(&encode_packet(&beat, 3), 3), Ok(beat.clone()));
    assert_eq!(check_version(&beat, 2), Err(PacketError::NotInVersion { version: 2 }));
}

#[test]
fn a_carried_packet_within_a_carried_packet_and_a_site_without_a_name_are_refused() {
    let carried = Packet { route: Route::To("far".parse().unwrap()), ..lock_packet(None) };
    let bytes = encode_packet(&carried, 3);
    let at = bytes.windows(5).position(|five| five == [CARRIED_TO, 3, b'f', b'a', b'r']).unwrap();
    let twice = [&bytes[..at + 5], &bytes[at..]].concat();
    assert!(matches!(decode_packet(&twice, 3), Err(PacketError::Malformed(_))));
    let nameless = [&bytes[..=at], &[0], &bytes[at + 5..]].concat();
    assert!(matches!(decode_packet(&nameless, 3), Err(PacketError::Malformed(_))));
}
