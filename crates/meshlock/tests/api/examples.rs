//! The examples, run as a user runs them: they end by themselves and say what they have done.

use std::path::Path;
use std::process::Command;

use meshlock_testing::BoundedCommand;

/// What each example says at its end, on standard error.
const EXAMPLES: [(&str, &str); 5] = [
    ("client", "wrote this with fence"),
    ("connection_pool", "120 uses by twelve clients of three sites"),
    ("fenced_counter", "600 increments by six clients of three sites, none lost"),
    ("leader_election", "steps down"),
    ("migrate_once", "three copies started, one migrated"),
];

#[test]
fn every_example_ends_by_itself_and_says_what_it_did() {
    // Cargo builds the examples next to the tests.
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap().join("examples");
    for (name, says) in EXAMPLES {
        let path = built.join(name);
        assert!(path.exists(), "{} is not built: cargo build -p meshlock --examples", path.display());
        let output = Command::new(&path).output_in_time();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.contains(says), "{name}: {:?} {said}", output.status);
    }
}

#[test]
fn every_example_is_run_and_says_how() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut found: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        // An example of several files is run by the tests of all clients together (crates/cli/tests/clients).
        if path.is_dir() {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(&format!("//! cargo run -p meshlock --example {name}\n")), "{name}");
        found.push(name);
    }
    found.sort();
    assert_eq!(found, EXAMPLES.map(|(name, _)| name));
}
