//! Checks what review would overlook: headers, sizes, words, names of types, numbers of variants, doc comments, what documents say, generated tables.

mod doc_comments;
mod markdown;
mod numbers;
mod reference;
mod source;
mod types;
mod waits;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;

use crate::purity;
use crate::run::tracked_files;
use source::SourceFile;

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
    let files = text_files(root)?;
    for file in &files {
        check_forbidden(file, &mut faults);
        if file.is_rust() {
            check_source(file, &mut faults);
            waits::check(Path::new(&file.path), &file.text, &mut faults);
        }
    }
    types::check(&files, &mut faults);
    numbers::check(&files, &mut faults);
    words::check(&files, &mut faults);
    doc_comments::check(&files, &mut faults);
    reference::check(root, &mut faults)?;
    markdown::check(root, &mut faults)?;
    purity::check(root, &mut faults)?;
    if !faults.is_empty() {
        bail!("tidy found {} faults:\n  {}", faults.len(), faults.join("\n  "));
    }
    Ok(())
}

/// The tracked files that are text.
fn text_files(root: &Path) -> anyhow::Result<Vec<SourceFile>> {
    let read = |path: PathBuf| {
        let text = fs::read_to_string(root.join(&path)).ok()?;
        Some(SourceFile { path: path.to_str()?.to_owned(), text })
    };
    Ok(tracked_files(root)?.into_iter().filter_map(read).collect())
}

fn check_forbidden(file: &SourceFile, faults: &mut Vec<String>) {
    for (number, line) in file.text.lines().enumerate() {
        for (word, why) in FORBIDDEN {
            if line.contains(word) {
                faults.push(format!("{}:{}: '{word}': {why}", file.path, number + 1));
            }
        }
    }
}

fn check_source(file: &SourceFile, faults: &mut Vec<String>) {
    let (path, lines) = (&file.path, file.text.lines().count());
    if lines > MAX_LINES {
        faults.push(format!("{path}: {lines} lines; split it by subject below {MAX_LINES}"));
    }
    if !file.text.starts_with("//!") {
        faults.push(format!("{path}: begins without a `//!` header that says what it is about"));
    }
}
