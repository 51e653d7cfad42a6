//! `tidy`: checks what prose would let rot: headers, sizes, words, and what the [documents](crate::markdown) say.

use std::fs;
use std::path::Path;

use anyhow::bail;

use crate::run::tracked_files;
use crate::{documents, markdown, purity};

/// A source file longer than this is more than one subject.
const MAX_LINES: usize = 600;

/// What must not stay behind in a tracked file, written in parts so that this file does not contain it.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "do it, or file it"),
    (concat!("FIX", "ME"), "fix it, or file it"),
    (concat!("to", "do!("), "do it"),
    (concat!("unimple", "mented!("), "implement it"),
    (concat!("db", "g!("), "a debugging aid"),
    (concat!("#[ig", "nore"), "a test that does not run proves nothing"),
    (concat!("thread::sl", "eep("), "no test waits for real time"),
    (concat!("/ho", "me/"), "a path of some machine"),
    (concat!("/ro", "ot/"), "a path of some machine"),
];

/// Checks everything and lists all that is wrong.
pub(crate) fn tidy(root: &Path) -> anyhow::Result<()> {
    let mut faults = Vec::new();
    for path in tracked_files(root)? {
        let Ok(text) = fs::read_to_string(root.join(&path)) else { continue };
        check_words(&path, &text, &mut faults);
        if path.extension().is_some_and(|extension| extension == "rs") {
            check_source(&path, &text, &mut faults);
        }
    }
    documents::check(root, &mut faults)?;
    markdown::check(root, &mut faults)?;
    purity::check(root, &mut faults)?;
    if !faults.is_empty() {
        bail!("tidy found {} faults:\n  {}", faults.len(), faults.join("\n  "));
    }
    Ok(())
}

fn check_words(path: &Path, text: &str, faults: &mut Vec<String>) {
    for (number, line) in text.lines().enumerate() {
        for (word, why) in FORBIDDEN {
            if line.contains(word) {
                faults.push(format!("{}:{}: '{word}': {why}", path.display(), number + 1));
            }
        }
    }
}

fn check_source(path: &Path, text: &str, faults: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > MAX_LINES {
        faults.push(format!("{}: {lines} lines; split it by subject below {MAX_LINES}", path.display()));
    }
    if !text.starts_with("//!") {
        faults.push(format!("{}: begins without a `//!` header that says what it is about", path.display()));
    }
}
