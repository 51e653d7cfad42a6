//! What the algorithms of sites say to each other. A line has the bytes of a message and, behind `#`, what it says: fields that
//! change places have other values then.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use meshlock_protocol::algorithms::singhal_heuristic::{self, Number, Trail};
use meshlock_protocol::algorithms::{delegated, ricart_agrawala};
use meshlock_protocol::registry::AnyMessage;
use meshlock_protocol::{Clock, Demand, Mode, Numbered, SiteId};

use super::{ADD, MESSAGE_ADVICE, bytes, covers, hex, label};

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/algorithms.txt")
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

/// Messages that contain another enum, one for each of its variants.
fn nested() -> Vec<(String, AnyMessage)> {
    let number = |incarnation, count| Number { incarnation, count };
    let trails = [
        Trail::Unknown,
        Trail::Held { passes: 4 },
        Trail::Sent { passes: 4, to: SiteId::new(2), number: number(5, 8) },
        Trail::Cut { passes: 4 },
    ];
    let answer = |trail| {
        let (round, number) = (number(1, 3), number(7, 6));
        let message = singhal_heuristic::Message::Answer { round, trail, number, waiting: true };
        (
            format!("SinghalHeuristic::Answer with {}", label("Trail", &trail)),
            AnyMessage::SinghalHeuristic(message),
        )
    };
    let mut messages = trails.map(answer).to_vec();
    let modes = [("shared", Mode::Shared), ("upgradeable", Mode::Upgradeable)].map(|(name, mode)| {
        let message = ricart_agrawala::Message::RequestAs { clock: Clock::at(5), mode };
        (format!("RicartAgrawala::RequestAs {name}"), AnyMessage::RicartAgrawala(message))
    });
    messages.extend(modes);
    let trails = messages.iter().filter_map(|(name, _)| name.strip_prefix("SinghalHeuristic::Answer with "));
    covers::<Trail>("Trail", trails);
    let modes = Mode::ALL.map(|mode| {
        let message = delegated::Message::Ask { number: 8, demand: Demand::of(mode).with_priority(3) };
        (format!("Delegated::Ask with Mode::{mode:?}"), AnyMessage::Delegated(message))
    });
    covers::<Mode>("Mode", modes.iter().filter_map(|(name, _)| name.strip_prefix("Delegated::Ask with ")));
    messages.into_iter().chain(modes).collect()
}

/// The line of a message.
fn line(name: &str, message: &AnyMessage) -> String {
    let bytes = postcard::to_stdvec(message).expect("plain data");
    format!("{name} = {} # {}\n", hex(&bytes), message.printed())
}

#[test]
fn every_message_of_every_algorithm_has_its_bytes() {
    let text = fs::read_to_string(file()).unwrap_or_default();
    let golden: BTreeMap<&str, &str> =
        text.lines().map(|line| line.split_once(" = ").expect("a name and its bytes")).collect();
    let mut added = String::new();
    let mut names = BTreeSet::new();
    for (name, algorithm, number) in kinds() {
        match golden.get(name.as_str()) {
            Some(line) => compare(&name, line),
            None => added += &line(&name, &sample(algorithm, number)),
        }
        names.insert(name);
    }
    for (name, message) in nested() {
        match golden.get(name.as_str()) {
            Some(then) => {
                let now = line(&name, &message);
                assert_eq!(format!("{name} = {then}\n"), now, "{name} has changed. {MESSAGE_ADVICE}");
                compare(&name, then);
            }
            None => added += &line(&name, &message),
        }
        names.insert(name);
    }
    if !added.is_empty() && std::env::var_os(ADD).is_some() {
        return fs::write(file(), format!("{text}{added}")).expect("the file can be written");
    }
    assert_eq!(added, "", "these kinds have no line; add them with {ADD}=1");
    for name in golden.keys() {
        assert!(names.contains(*name), "{name} is no kind any more, and is still said. {MESSAGE_ADVICE}");
    }
}

/// Checks that the bytes of a golden line say what they said, and would be written again.
fn compare(name: &str, line: &str) {
    let (then, says) = line.split_once(" # ").expect("bytes, and what they say");
    let read = postcard::from_bytes::<AnyMessage>(&bytes(then));
    let message = read.unwrap_or_else(|error| {
        panic!("the bytes of {name} are not read any more: {error}. {MESSAGE_ADVICE}")
    });
    let again = hex(&postcard::to_stdvec(&message).expect("plain data"));
    assert_eq!(
        (message.printed().as_str(), again.as_str()),
        (says, then),
        "the bytes of {name} mean something else now. {MESSAGE_ADVICE}"
    );
}

/// As a program of yesterday sees a message of an algorithm that was added today.
#[test]
fn a_message_of_an_algorithm_that_is_not_listed_is_refused() {
    let unlisted =
        AnyMessage::VARIANTS.iter().map(|(number, _)| number + 1).max().expect("there are algorithms");
    let start = u8::try_from(unlisted).expect("few algorithms");
    for message in 0..4 {
        let read = postcard::from_bytes::<AnyMessage>(&[start, message, 8, 8, 8, 8, 8, 8]);
        assert!(read.is_err(), "{read:?}");
    }
}
