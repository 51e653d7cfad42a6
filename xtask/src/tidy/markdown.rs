//! The documents, which are Markdown: what they say is compared with what is there: commands, links, paths, generated parts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use meshlock_protocol::registry::ALL;

use crate::generated;
use crate::run::tracked_files;

/// The document that describes every command.
const COMMANDS: &str = "docs/commands.md";

/// The document that lists all others.
const INDEX: &str = "docs/README.md";

/// The document that maps the code: also what it names by the end of a path exists.
const MAP: &str = "ARCHITECTURE.md";

/// The document that says what changed: commands and paths in it may have gone since.
const HISTORY: &str = "CHANGELOG.md";

/// Generated documents, and the command that the first line of each must name.
const GENERATED: &[(&str, &str)] = &[
    ("docs/CHECKED.md", "cargo run --release -- check all --record docs/CHECKED.md"),
    ("docs/ERRATA.md", "cargo xtask fix"),
    ("docs/PROVED.md", "cargo run --release -- prove all --record docs/PROVED.md"),
    ("docs/BENCHMARKS.md", "cargo run --release -p meshlock-bench -- --record docs/BENCHMARKS.md"),
];

/// Checks all documents among the tracked files.
pub(crate) fn check(root: &Path, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let tree = TrackedTree::read(root, tracked_files(root)?)?;
    let commands = commands(&fs::read_to_string(root.join("crates/cli/src/cli.rs"))?)?;
    for (document, text) in &tree.documents {
        check_links(document, text, &tree, faults);
        if document != Path::new(HISTORY) {
            check_commands(document, text, &commands, faults);
            check_paths(document, text, &tree, faults);
        }
    }
    check_completeness(tree.text(COMMANDS)?, &commands, faults);
    check_index(&tree, faults)?;
    check_generated(root, &tree, faults)?;
    Ok(())
}

/// The tracked files, with the text of every document.
struct TrackedTree {
    files: BTreeSet<PathBuf>,
    documents: BTreeMap<PathBuf, String>,
}

impl TrackedTree {
    fn read(root: &Path, tracked: Vec<PathBuf>) -> anyhow::Result<Self> {
        let documents = tracked.iter().filter(|path| is_document(path));
        let read = |path: &PathBuf| -> anyhow::Result<(PathBuf, String)> {
            let text = fs::read_to_string(root.join(path));
            Ok((path.clone(), text.with_context(|| format!("cannot read {}", path.display()))?))
        };
        let documents = documents.map(read).collect::<anyhow::Result<_>>()?;
        Ok(TrackedTree { files: tracked.into_iter().collect(), documents })
    }

    fn text(&self, document: &str) -> anyhow::Result<&str> {
        let text = self.documents.get(Path::new(document));
        text.map(String::as_str).with_context(|| format!("there is no {document}"))
    }

    /// Whether a path from the root names a file or a folder.
    fn has(&self, path: &Path) -> bool {
        path == Path::new("") || self.files.iter().any(|file| file.starts_with(path))
    }

    /// Whether a path, as it is or as the last part of a longer one, names a file or a folder.
    fn has_end(&self, path: &str) -> bool {
        let wanted = format!("/{}/", path.trim_end_matches('/'));
        self.files.iter().any(|file| format!("/{}/", file.display()).contains(&wanted))
    }
}

fn is_document(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "md")
}

/// The commands of the binary that its help shows: the variants of `enum Command` in its `cli.rs`, in lower case.
fn commands(cli: &str) -> anyhow::Result<Vec<String>> {
    let (_, variants) = cli.split_once("enum Command {").context("cli.rs has no `enum Command`")?;
    let mut commands = Vec::new();
    let mut is_hidden = false;
    for line in variants.lines().map(str::trim).take_while(|line| *line != "}") {
        if line.starts_with("#[") {
            is_hidden |= line.contains("hide = true");
        } else if let Some((name, _)) = line.split_once('(').filter(|_| !line.starts_with("//"))
            && !std::mem::take(&mut is_hidden)
        {
            commands.push(name.to_lowercase());
        }
    }
    Ok(commands)
}

/// Every `meshlock X` and `cargo run … -- X` in a document names a command that exists.
fn check_commands(document: &Path, text: &str, commands: &[String], faults: &mut Vec<String>) {
    for DocumentLine { text: line, is_code, .. } in lines(text) {
        let starts = ["`meshlock ", "$ meshlock ", "cargo run --release -- "];
        let named = starts.iter().flat_map(|start| line.split(start).skip(1));
        for rest in named.chain(line.strip_prefix("meshlock ").filter(|_| is_code)) {
            let word = command_word(rest);
            if !word.is_empty() && word != "help" && !commands.contains(&word) {
                faults.push(format!("{}: names `meshlock {word}`, which does not exist", document.display()));
            }
        }
    }
}

fn command_word(text: &str) -> String {
    text.chars().take_while(char::is_ascii_lowercase).collect()
}

/// The document of commands has every one of them.
fn check_completeness(text: &str, commands: &[String], faults: &mut Vec<String>) {
    let named: BTreeSet<String> = text.split("| `meshlock ").skip(1).map(command_word).collect();
    for command in commands.iter().filter(|command| !named.contains(*command)) {
        faults.push(format!("{COMMANDS}: has no row for `meshlock {command}`"));
    }
}

/// Every relative link leads to a file or folder, and to a heading where it names one.
fn check_links(document: &Path, text: &str, tree: &TrackedTree, faults: &mut Vec<String>) {
    let folder = document.parent().unwrap_or(Path::new(""));
    let prose = lines(text).filter(|line| !line.is_code).map(|line| line.text);
    for target in prose.flat_map(|line| line.split("](").skip(1)) {
        let target = target.split_once(')').map_or(target, |(target, _)| target);
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() { Some(document.to_owned()) } else { resolved(&folder.join(file)) };
        let Some(path) = path.filter(|path| tree.has(path)) else {
            faults.push(format!("{}: links to {file}, which does not exist", document.display()));
            continue;
        };
        let is_there =
            tree.documents.get(&path).is_none_or(|text| headings(text).any(|slug| slug == heading));
        if !heading.is_empty() && !is_there {
            let (document, path) = (document.display(), path.display());
            faults.push(format!("{document}: links to #{heading}, a heading that {path} does not have"));
        }
    }
}

/// The path without `.` and `..`; nothing if it leaves the root.
fn resolved(path: &Path) -> Option<PathBuf> {
    let mut resolved = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if resolved.pop() => {}
            Component::Normal(name) => resolved.push(name),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(resolved)
}

/// The headings of a document, as links name them: lower case, without punctuation, joined by hyphens.
fn headings(text: &str) -> impl Iterator<Item = String> + '_ {
    let headings = lines(text).filter(|line| !line.is_code && line.text.starts_with('#'));
    headings.map(|heading| {
        let title = heading.text.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

/// The index links to every document beside it.
fn check_index(tree: &TrackedTree, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let text = tree.text(INDEX)?;
    for document in tree.documents.keys().filter(|path| path.parent() == Some(Path::new("docs"))) {
        let name = document.strip_prefix("docs").expect("it lies there").display();
        if document != Path::new(INDEX) && !text.contains(&format!("]({name})")) {
            faults.push(format!("{INDEX}: has no link to {name}"));
        }
    }
    Ok(())
}

/// Every path in backticks exists: one from the root, and in the map of the code also the end of one.
fn check_paths(document: &Path, text: &str, tree: &TrackedTree, faults: &mut Vec<String>) {
    let is_map = document == Path::new(MAP);
    for line in lines(text).filter(|line| !line.is_code) {
        for path in line.text.split('`').skip(1).step_by(2) {
            let is_named = is_path_from_root(path) || is_map && is_end_of_path(path);
            if is_named && !tree.has_end(path) {
                let (document, number) = (document.display(), line.number);
                faults.push(format!("{document}:{number}: names {path}, which does not exist"));
            }
        }
    }
}

/// Whether something in backticks is meant as a path of this repository.
fn is_path_from_root(quoted: &str) -> bool {
    const FOLDERS: [&str; 7] = ["crates/", "docs/", "xtask/", "fuzz/", "interop/", "clients/", "packaging/"];
    is_plain(quoted) && FOLDERS.iter().any(|folder| quoted.starts_with(folder))
}

/// Whether something in backticks is meant as a file or folder somewhere in this repository.
fn is_end_of_path(quoted: &str) -> bool {
    const ENDS: [&str; 7] = ["/", ".rs", ".md", ".toml", ".js", ".json", ".proto"];
    is_plain(quoted) && !quoted.starts_with('/') && ENDS.iter().any(|end| quoted.ends_with(end))
}

fn is_plain(quoted: &str) -> bool {
    quoted.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
}

/// The documents that say how many algorithms there are.
const COUNTING: [&str; 4] = ["README.md", "docs/README.md", "docs/algorithms.md", "docs/comparison.md"];

/// A number from 20 to 99 in words.
fn in_words(number: usize) -> String {
    const TENS: [&str; 8] = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
    const ONES: [&str; 9] = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    let tens = (number / 10).checked_sub(2).and_then(|at| TENS.get(at)).expect("from 20 to 99");
    match (number % 10).checked_sub(1) {
        None => (*tens).to_owned(),
        Some(ones) => format!("{tens}-{}", ONES[ones]),
    }
}

/// Generated documents name their command in the first line, and the table of algorithms is current.
fn check_generated(root: &Path, tree: &TrackedTree, faults: &mut Vec<String>) -> anyhow::Result<()> {
    for (document, command) in GENERATED {
        let first = tree.text(document)?.lines().next().unwrap_or_default();
        if !first.starts_with("<!-- Generated ") || !first.contains(&format!("by `{command}`")) {
            faults.push(format!("{document}: its first line does not say that `{command}` generates it"));
        }
    }
    let document = generated::ALGORITHMS;
    if generated::renewed(root)? != tree.text(document)? {
        faults.push(format!("{document}: its generated table is not current; run `cargo xtask fix`"));
    }
    let count = format!("{} algorithms", in_words(ALL.len()));
    for document in COUNTING {
        if !tree.text(document)?.to_lowercase().contains(&count) {
            faults.push(format!("{document}: does not say that there are {count}; the registry has so many"));
        }
    }
    for info in ALL {
        let file = info.name.replace('-', "_");
        let folder = Path::new("crates/protocol/src/algorithms");
        let places = [folder.join(format!("{file}.rs")), folder.join(&file).join("mod.rs")];
        if !places.iter().any(|place| tree.has(place)) {
            faults.push(format!("{}: no file algorithms/{file}.rs or algorithms/{file}/mod.rs", info.name));
        }
    }
    Ok(())
}

/// One line of a document.
struct DocumentLine<'a> {
    number: usize,
    text: &'a str,
    /// Whether it belongs to a block of code.
    is_code: bool,
}

fn lines(text: &str) -> impl Iterator<Item = DocumentLine<'_>> {
    let mut is_code = false;
    text.lines().zip(1..).map(move |(line, number)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        DocumentLine { number, text: line, is_code: is_code || is_fence }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> TrackedTree {
        let is_document = |(path, _): &&(&str, &str)| is_document(Path::new(path));
        let documents =
            files.iter().filter(is_document).map(|(path, text)| (path.into(), (*text).to_owned()));
        TrackedTree {
            files: files.iter().map(|(path, _)| path.into()).collect(),
            documents: documents.collect(),
        }
    }

    fn faults(check: impl FnOnce(&mut Vec<String>)) -> Vec<String> {
        let mut faults = Vec::new();
        check(&mut faults);
        faults
    }

    #[test]
    fn links_are_followed_from_the_folder_of_their_document_to_a_heading() {
        let tree = tree(&[
            ("a.md", "# A `b`, c\n```sh\n# no heading\n```\n"),
            ("docs/b.md", ""),
            ("docs/x/y.rs", ""),
        ]);
        let links = |text: &str| faults(|faults| check_links(Path::new("docs/b.md"), text, &tree, faults));
        let good =
            "## Here\n[1](../a.md#a-b-c) [2](x) [3](x/y.rs) [4](b.md) [5](https://a.example/x) [6](../a.md)";
        assert_eq!(links(good), Vec::<String>::new());
        assert_eq!(links("```\n[code](nowhere)\n```\n"), Vec::<String>::new());
        assert_eq!(links("[1](a.md)"), ["docs/b.md: links to a.md, which does not exist"]);
        assert_eq!(links("[1](../../a.md)"), ["docs/b.md: links to ../../a.md, which does not exist"]);
        let wrong = "docs/b.md: links to #no-heading, a heading that a.md does not have";
        assert_eq!(links("[1](../a.md#no-heading)"), [wrong]);
    }

    #[test]
    fn paths_in_backticks_exist_from_the_root_or_as_the_end_of_a_path() {
        let tree = tree(&[("crates/host/src/front/mod.rs", ""), ("docs/CHECKED.md", "")]);
        let paths = |text: &str| faults(|faults| check_paths(Path::new(MAP), text, &tree, faults));
        let good = "`crates/host`, `front/`, `front/mod.rs`, `mod.rs`, `docs/CHECKED.md`; no paths: `/metrics`, `Site`, `a.b()`, `x/y`";
        assert_eq!(paths(good), Vec::<String>::new());
        assert_eq!(
            paths("`crates/gone`\n`front/gone.rs` and `ont/`"),
            [
                "ARCHITECTURE.md:1: names crates/gone, which does not exist",
                "ARCHITECTURE.md:2: names front/gone.rs, which does not exist",
                "ARCHITECTURE.md:2: names ont/, which does not exist"
            ]
        );
    }

    #[test]
    fn commands_are_known_and_complete() {
        let cli = "enum Command {\n    /// Run (it)\n    Run(run::Arguments),\n    #[command(name = NAME, hide = true)]\n    Start(start::Arguments),\n    Lab(lab::Arguments),\n}\n";
        let known = commands(cli).unwrap();
        assert_eq!(known, ["run", "lab"]);
        let said = |text: &str| faults(|faults| check_commands(Path::new("a.md"), text, &known, faults));
        assert_eq!(
            said("`meshlock run x`, `meshlock --help`\n```sh\nmeshlock lab\n```\n"),
            Vec::<String>::new()
        );
        let wrong = "a.md: names `meshlock fly`, which does not exist";
        assert_eq!(said("cargo run --release -- fly\n```sh\nmeshlock fly\n```\n"), [wrong, wrong]);
        let complete = |text: &str| faults(|faults| check_completeness(text, &known, faults));
        assert_eq!(
            complete("| `meshlock run NAME` | runs |\n"),
            ["docs/commands.md: has no row for `meshlock lab`"]
        );
    }
}
