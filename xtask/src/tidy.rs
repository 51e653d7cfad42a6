//! What prose would let rot, checked: headers, sizes, words, the README's commands, generated tables.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use meshlock_protocol::registry::ALL;

use crate::{generated, purity, waits};

/// A source file longer than this is more than one subject.
const MOST_LINES: usize = 600;

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
            waits::check(&path, &text, &mut faults);
        }
    }
    check_documents(root, &mut faults)?;
    purity::check(root, &mut faults)?;
    if !faults.is_empty() {
        bail!("tidy found {} faults:\n  {}", faults.len(), faults.join("\n  "));
    }
    Ok(())
}

fn tracked_files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let output = git.output().context("tidy asks git which files there are, and git did not start")?;
    if !output.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let listing = String::from_utf8(output.stdout).context("file names are UTF-8")?;
    Ok(listing.lines().map(PathBuf::from).filter(|path| root.join(path).is_file()).collect())
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
    if lines > MOST_LINES {
        faults.push(format!("{}: {lines} lines; split it by subject below {MOST_LINES}", path.display()));
    }
    if !text.starts_with("//!") {
        faults.push(format!("{}: begins without a `//!` header that says what it is about", path.display()));
    }
}

fn check_documents(root: &Path, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let readme = fs::read_to_string(root.join("README.md")).context("cannot read README.md")?;
    if generated::renewed(root)? != readme {
        faults.push("README.md: its generated table is not current; run `cargo xtask fix`".to_owned());
    }
    let subcommands = subcommands(root)?;
    for document in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text =
            fs::read_to_string(root.join(document)).with_context(|| format!("cannot read {document}"))?;
        check_commands(document, &text, &subcommands, faults);
        check_links(root, document, &text, faults);
    }
    for info in ALL {
        let file = info.name.replace('-', "_");
        let folder = root.join("crates/protocol/src/algorithms");
        if !folder.join(format!("{file}.rs")).exists() && !folder.join(&file).join("mod.rs").exists() {
            faults.push(format!("{}: no file algorithms/{file}.rs or algorithms/{file}/mod.rs", info.name));
        }
    }
    Ok(())
}

/// The subcommands of the binary: the variants of `enum Command` in its `cli.rs`, in lower case.
fn subcommands(root: &Path) -> anyhow::Result<Vec<String>> {
    let cli = fs::read_to_string(root.join("crates/cli/src/cli.rs")).context("cannot read cli.rs")?;
    let (_, variants) = cli.split_once("enum Command {").context("cli.rs has no `enum Command`")?;
    let names = variants.lines().map(str::trim).take_while(|line| *line != "}");
    let names = names.filter_map(|line| line.split_once('(').map(|(name, _)| name.to_lowercase()));
    Ok(names.filter(|name| name.chars().all(char::is_alphanumeric)).collect())
}

/// Every `meshlock X` and `cargo run … -- X` in a document names a subcommand that exists.
fn check_commands(document: &str, text: &str, subcommands: &[String], faults: &mut Vec<String>) {
    for line in text.lines() {
        let starts = ["`meshlock ", "$ meshlock ", "cargo run --release -- "];
        for rest in starts.iter().flat_map(|start| line.split(start).skip(1)) {
            let word: String = rest.chars().take_while(|c| c.is_ascii_lowercase()).collect();
            if !word.is_empty() && !subcommands.contains(&word) {
                faults.push(format!("{document}: mentions `meshlock {word}`, which does not exist"));
            }
        }
    }
}

/// Every relative link of a document leads to a file.
fn check_links(root: &Path, document: &str, text: &str, faults: &mut Vec<String>) {
    for target in text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target)) {
        let file = target.split('#').next().unwrap_or_default();
        if !file.is_empty() && !file.contains("://") && !root.join(file).exists() {
            faults.push(format!("{document}: links to {file}, which does not exist"));
        }
    }
}
