//! Proofs are read as they were written, and only the key, the cluster and the hold that made one confirm it.

use meshlock_protocol::{Epoch, FenceClock, Mode};

use super::*;
use crate::names::Incarnation;

fn hold() -> ProvedHold {
    let epoch = Epoch::new(7).unwrap();
    ProvedHold {
        holder: Member { site: "d".parse().unwrap(), incarnation: Incarnation::new(3) },
        lock: "jobs".parse().unwrap(),
        permits: 3,
        slot: Some(2),
        fence: FenceClock::new(epoch).enter(),
        mode: Mode::Exclusive,
    }
}

fn key(byte: u8) -> ClaimKey {
    ClaimKey::new([byte; 32])
}

#[test]
fn a_proof_is_confirmed_by_its_key_and_its_cluster_only() {
    let proof = Proof::new(&key(1), b"here", hold());
    assert!(proof.is_by(&key(1), b"here"));
    assert!(!proof.is_by(&key(2), b"here") && !proof.is_by(&key(1), b"there"));
}

#[test]
fn a_proof_of_one_hold_is_none_of_any_other() {
    let proof = Proof::new(&key(1), b"here", hold());
    let mut clock = FenceClock::new(Epoch::new(8).unwrap());
    let others = [
        ProvedHold { holder: Member { incarnation: Incarnation::new(4), ..hold().holder }, ..hold() },
        ProvedHold { lock: "job".parse().unwrap(), ..hold() },
        ProvedHold { permits: 4, ..hold() },
        ProvedHold { slot: None, ..hold() },
        ProvedHold { fence: clock.enter(), ..hold() },
    ];
    for hold in others {
        assert!(!Proof { hold, ..proof.clone() }.is_by(&key(1), b"here"));
    }
}

#[test]
fn a_proof_is_read_as_it_was_written_and_nothing_else_is() {
    let proof = Proof::new(&key(1), b"here", hold());
    let bytes = proof.to_bytes();
    assert_eq!(Proof::from_bytes(&bytes), Ok(proof.clone()));
    assert_eq!(proof.to_text().parse(), Ok(proof));
    for cut in 0..bytes.len() {
        assert_eq!(Proof::from_bytes(&bytes[..cut]), Err(ProofError));
    }
    assert_eq!(Proof::from_bytes(&[&bytes[..], &[0]].concat()), Err(ProofError));
    assert_eq!(Proof::from_bytes(&vec![0; Proof::MAX_BYTES + 1]), Err(ProofError));
    assert!("?".parse::<Proof>().is_err() && "A".repeat(100_000).parse::<Proof>().is_err());
}

#[test]
fn the_longest_names_fit() {
    let holder = Member { site: "x".repeat(64).parse().unwrap(), incarnation: Incarnation::new(u64::MAX) };
    let longest = ProvedHold {
        holder,
        lock: "y".repeat(255).parse().unwrap(),
        permits: u32::from(u16::MAX),
        slot: Some(u32::MAX),
        fence: FenceClock::new(Epoch::MAX).enter(),
        mode: Mode::Upgradeable,
    };
    let proof = Proof::new(&key(1), b"here", longest);
    assert!(proof.to_bytes().len() <= Proof::MAX_BYTES);
    assert_eq!(proof.to_text().parse(), Ok(proof));
}

#[test]
fn neither_a_key_nor_what_authenticates_a_proof_is_printed() {
    assert_eq!(format!("{:?}", key(0xab)), "ClaimKey(…)");
    let proof = Proof::new(&key(1), b"here", hold());
    let printed = format!("{proof:?}");
    assert!(printed.contains("jobs") && !printed.contains("mac"), "{printed}");
}
