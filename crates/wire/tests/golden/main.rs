//! The bytes of every kind of message and of every record, written out, and what programs of earlier versions have said.
//!
//! `sites.txt`, `calls.txt`, `clients.txt`, `disk.txt` and `algorithms.txt` have a line for each. A line that is there is never changed: programs of
//! yesterday, and disks that they have written, count on it. Whoever has added a kind adds its line:
//!
//! ```sh
//! MESHLOCK_ADD_GOLDEN=1 cargo test -p meshlock-wire --test golden
//! ```
#![allow(clippy::disallowed_methods, reason = "a test reads its golden files")]

mod algorithms;
mod calls;
mod clients;
mod disk;
mod handover;
mod recorded;
mod samples;
mod sites;

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::fs;
use std::path::{Path, PathBuf};

use meshlock_protocol::Numbered;
use serde::Serialize;

/// With this set, lines are added for what has none; nothing else is written.
const ADD: &str = "MESHLOCK_ADD_GOLDEN";

/// What to do when the bytes of a message have changed, or are not read as before.
const MESSAGE_ADVICE: &str = "Programs of yesterday would misread it. Leave this kind as it was and add a new one with a number of its \
                              own, told only from a new version on: see docs/compatibility.md";

/// The same for a record on disk.
const DISK_ADVICE: &str = "A disk negotiates no version: records that were written once must stay readable. Leave this record as it was \
                           and add a new one beside it: see docs/compatibility.md";

/// Reads bytes and compares what they say with a value.
type Check = dyn Fn(&[u8]) -> Result<(), String>;

/// A value of one kind, and its bytes.
struct Sample {
    /// What the kind is called.
    name: String,
    bytes: Vec<u8>,
    /// Reads bytes and compares what they say with the value; the error says what they say instead.
    check: Box<Check>,
}

impl Sample {
    /// Returns a sample with these bytes, which `decode` reads as `meaning`.
    fn new<T: PartialEq + Debug + 'static, E: Debug>(
        name: impl Into<String>,
        bytes: Vec<u8>,
        meaning: T,
        decode: impl Fn(&[u8]) -> Result<T, E> + 'static,
    ) -> Self {
        let check = move |bytes: &[u8]| match decode(bytes) {
            Ok(read) if read == meaning => Ok(()),
            Ok(read) => Err(format!("read as {read:?}, and meant {meaning:?}")),
            Err(error) => Err(format!("not read ({error:?}), and meant {meaning:?}")),
        };
        Sample { name: name.into(), bytes, check: Box::new(check) }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// Compares samples with the lines of a file.
fn compare(file: &str, advice: &str, samples: &[Sample]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    let text = fs::read_to_string(&path).unwrap_or_default();
    let golden: BTreeMap<&str, &str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(" = ").expect("a name and its bytes"))
        .collect();
    let mut added = String::new();
    for Sample { name, bytes: bytes_now, check } in samples {
        let Some(bytes_then) = golden.get(name.as_str()) else {
            writeln!(added, "{name} = {}", hex(bytes_now)).expect("a string takes all");
            continue;
        };
        assert_eq!(*bytes_then, hex(bytes_now), "{file}: the bytes of {name} have changed. {advice}");
        let read = check(&bytes(bytes_then));
        assert_eq!(read, Ok(()), "{file}: the bytes of {name} mean something else now. {advice}");
    }
    if !added.is_empty() && std::env::var_os(ADD).is_some() {
        fs::write(&path, format!("{text}{added}")).expect("the file can be written");
        return;
    }
    assert_eq!(added, "", "{file}: these kinds have no line; add them with {ADD}=1");
    for name in golden.keys() {
        assert!(
            samples.iter().any(|sample| sample.name == *name),
            "{file}: nothing here makes {name} any more; a kind that was said once is still read. {advice}"
        );
    }
}

/// The name of a value's variant, as its bytes tell it.
fn variant<E: Numbered + Serialize>(value: &E) -> &'static str {
    let bytes = postcard::to_stdvec(value).expect("plain data");
    let (number, _) = postcard::take_from_bytes::<u32>(&bytes).expect("an enum begins with its number");
    E::VARIANTS.iter().find(|(own, _)| *own == number).expect("the number is listed").1
}

/// `NAME::VARIANT` of a value, so that no sample is called what it is not.
fn label<E: Numbered + Serialize>(name: &str, value: &E) -> String {
    format!("{name}::{}", variant(value))
}

/// Whether each variant of an enum is among the samples, as `NAME::VARIANT` or the beginning of a longer name.
fn covers<'a, E: Numbered>(name: &str, samples: impl Iterator<Item = &'a str> + Clone) {
    for (_, variant) in E::VARIANTS {
        let wanted = format!("{name}::{variant}");
        let is_it = |sample: &str| {
            sample.strip_prefix(&wanted).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
        };
        assert!(samples.clone().any(is_it), "no sample of {wanted}");
    }
}

/// All Rust files below a directory.
fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

#[test]
fn every_numbered_enum_is_asked_for_in_these_tests() {
    let wire = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: PathBuf| fs::read_to_string(path).expect("text");
    let tests: String = rust_files(&wire.join("tests/golden")).into_iter().map(read).collect();
    let mut names = Vec::new();
    for source in ["src", "../cluster/src", "../protocol/src"].map(|dir| rust_files(&wire.join(dir))) {
        for line in source.into_iter().map(read).collect::<String>().lines() {
            let rest = line.strip_prefix("crate::").unwrap_or(line).strip_prefix("numbered! { ");
            names.extend(rest.and_then(|rest| rest.split([' ', '<']).next()).map(str::to_owned));
        }
    }
    // The messages of the algorithms have lists of their own, and so does the enum of all of them.
    names.retain(|name| name != "Message");
    assert!(names.len() > 14, "{names:?}");
    for name in names {
        let asks = |end| tests.contains(&format!("covers::<{name}{end}"));
        assert!(
            asks('>') || asks('<'),
            "{name} is written by numbers; add samples of it and `covers::<{name}>`"
        );
    }
}

#[test]
fn docs_compatibility_says_of_each_version_what_it_added() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md"))
        .expect("the page is there");
    let (_, page) = page.split_once("**Between sites.**").expect("the page tells of sites first");
    let (sites, clients) = page.split_once("**Between clients and nodes.**").expect("clients come next");
    let listed = |part: &str| -> Vec<u16> {
        let number = |line: &str| line.strip_prefix("| ")?.split_once(" |")?.0.parse().ok();
        part.lines().filter_map(number).collect()
    };
    for (part, versions) in
        [(sites, meshlock_wire::sites::VERSIONS), (clients, meshlock_wire::clients::VERSIONS)]
    {
        assert_eq!(listed(part), (versions.0..=versions.1).collect::<Vec<_>>());
    }
}
