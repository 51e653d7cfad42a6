//! What the algorithms of sites say to each other. A line has the bytes of a message and, behind `#`, what it says: fields that
//! change places have other values then.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use meshlock_protocol::Numbered;
use meshlock_protocol::registry::AnyMessage;

use super::{ADD, hex};

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/algorithms.txt")
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// Each kind of message of each algorithm: its name, and the numbers of algorithm and message.
fn kinds() -> Vec<(String, u32, u32)> {
    let number = |algorithm: &str| {
        AnyMessage::VARIANTS.iter().find(|(_, name)| *name == algorithm).expect("it is listed").0
    };
    let of_one = |(algorithm, messages): &(&str, &[(u32, &str)])| {
        let named =
            |(message, name): &(u32, &str)| (format!("{algorithm}::{name}"), number(algorithm), *message);
        messages.iter().map(named).collect::<Vec<_>>()
    };
    AnyMessage::VARIANTS_OF_EACH.iter().flat_map(of_one).collect()
}

/// Some message of these numbers whose fields differ as much as can be: of many tries the one with the most different bytes.
fn sample(algorithm: u32, message: u32) -> AnyMessage {
    let mut random = fastrand::Rng::with_seed(1);
    let start =
        [u8::try_from(algorithm).expect("few algorithms"), u8::try_from(message).expect("few messages")];
    let mut attempts = Vec::new();
    for _ in 0..20_000 {
        let mut bytes = start.to_vec();
        bytes.extend((0..40).map(|_| random.u8(..9)));
        if let Ok((message, rest)) = postcard::take_from_bytes::<AnyMessage>(&bytes) {
            let used = &bytes[2..bytes.len() - rest.len()];
            let different: BTreeSet<u8> = used.iter().copied().collect();
            attempts.push((different.len(), used.len() < 24, message));
        }
    }
    attempts
        .into_iter()
        .max_by_key(|(different, is_short, _)| (*is_short, *different))
        .expect("some bytes are one")
        .2
}

#[test]
fn every_message_of_every_algorithm_has_its_bytes() {
    let text = fs::read_to_string(file()).unwrap_or_default();
    let golden: BTreeMap<&str, &str> =
        text.lines().map(|line| line.split_once(" = ").expect("a name and its bytes")).collect();
    let mut added = String::new();
    for (name, algorithm, number) in kinds() {
        let Some(line) = golden.get(name.as_str()) else {
            let message = sample(algorithm, number);
            let bytes = postcard::to_stdvec(&message).expect("plain data");
            writeln!(added, "{name} = {} # {}", hex(&bytes), message.printed()).expect("a string takes all");
            continue;
        };
        let (then, says) = line.split_once(" # ").expect("bytes, and what they say");
        let then = bytes(then);
        let message: AnyMessage = postcard::from_bytes(&then).expect("it is still read");
        let again = postcard::to_stdvec(&message).expect("plain data");
        assert_eq!(
            (message.printed().as_str(), &again),
            (says, &then),
            "the bytes of {name} mean something else now. Sites of yesterday would misread them. Leave this kind as it was and add a \
             new one with a number of its own, told only from a new version on: see docs/compatibility.md"
        );
    }
    if !added.is_empty() && std::env::var_os(ADD).is_some() {
        return fs::write(file(), format!("{text}{added}")).expect("the file can be written");
    }
    assert_eq!(added, "", "these kinds have no line; add them with {ADD}=1");
}
