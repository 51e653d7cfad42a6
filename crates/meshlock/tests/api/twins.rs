//! Every method with async has its twin without.

use std::path::Path;

/// Returns the names of the functions whose declaration begins with `start`.
fn functions<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    let declared = text.lines().filter_map(|line| line.trim_start().strip_prefix(start));
    declared.map(|rest| rest.split(['(', '<']).next().unwrap()).collect()
}

fn read_sources(dir: &Path, sources: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_sources(&path, sources);
        } else {
            sources.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn every_async_method_has_a_blocking_twin() {
    let mut sources = Vec::new();
    read_sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut sources);
    let mut found = 0;
    for (path, text) in &sources {
        let plain = functions(text, "pub fn ");
        for name in functions(text, "pub async fn ") {
            found += 1;
            assert!(plain.contains(&format!("{name}_blocking").as_str()), "{path}: {name} has no twin");
        }
        // A future that is a type of its own.
        for line in
            text.lines().filter(|line| line.trim_start().starts_with("pub fn") && line.contains("-> Lost "))
        {
            found += 1;
            assert!(line.contains("pub fn lost(") && plain.contains(&"wait_until_lost"), "{path}: {line}");
        }
    }
    assert!(found >= 17, "only {found} async methods were found: does this test still read them?");
}
