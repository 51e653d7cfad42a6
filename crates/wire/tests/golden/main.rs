//! The bytes of every kind of message and of every record, written out.
//!
//! `sites.txt`, `clients.txt`, `disk.txt` and `algorithms.txt` have a line for each. A line that is there is never changed: programs of
//! yesterday, and disks that they have written, count on it. Whoever has added a kind adds its line:
//!
//! ```sh
//! MESHLOCK_ADD_GOLDEN=1 cargo test -p meshlock-wire --test golden
//! ```
#![allow(clippy::disallowed_methods, reason = "a test reads its golden files")]

mod algorithms;
mod clients;
mod disk;
mod samples;
mod sites;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use meshlock_protocol::Numbered;

/// With this set, lines are added for what has none; nothing else is written.
const ADD: &str = "MESHLOCK_ADD_GOLDEN";

/// What a kind is called, and its bytes.
type Sample = (String, Vec<u8>);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Compares samples with the lines of a file.
fn compare(file: &str, samples: &[Sample]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    let text = fs::read_to_string(&path).unwrap_or_default();
    let golden: BTreeMap<&str, &str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(" = ").expect("a name and its bytes"))
        .collect();
    let mut added = String::new();
    for (name, bytes) in samples {
        match golden.get(name.as_str()) {
            Some(bytes_then) => assert_eq!(
                *bytes_then,
                hex(bytes),
                "{file}: the bytes of {name} have changed. Programs of yesterday would misread them. Leave this kind as it was and \
                 add a new one with a number of its own, told only from a new version on: see docs/compatibility.md"
            ),
            None => writeln!(added, "{name} = {}", hex(bytes)).expect("a string takes all"),
        }
    }
    if !added.is_empty() && std::env::var_os(ADD).is_some() {
        fs::write(&path, format!("{text}{added}")).expect("the file can be written");
        return;
    }
    assert_eq!(added, "", "{file}: these kinds have no line; add them with {ADD}=1");
    for name in golden.keys() {
        assert!(
            samples.iter().any(|(sample, _)| sample == name),
            "{file}: nothing here makes {name} any more; a kind that was said once is still read"
        );
    }
}

/// Whether each variant of an enum is among the samples, as `NAME::VARIANT` or the beginning of a longer name.
fn covers<E: Numbered>(name: &str, samples: &[Sample]) {
    for (_, variant) in E::VARIANTS {
        let wanted = format!("{name}::{variant}");
        let is_it = |(sample, _): &Sample| {
            sample.strip_prefix(&wanted).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
        };
        assert!(samples.iter().any(is_it), "no sample of {wanted}");
    }
}
