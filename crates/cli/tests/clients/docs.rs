//! That `docs/clients.md` and `docs/fences.md` show what is in the files: a code block after `<!-- FILE -->` is a part of that file.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns lines without the indentation that all of them share, and without spaces at their ends.
fn dedent(lines: &[&str]) -> Vec<String> {
    let indents =
        lines.iter().filter(|line| !line.trim().is_empty()).map(|line| line.len() - line.trim_start().len());
    let shared = indents.min().unwrap_or(0);
    // Tabs are what gofmt writes; documents may have them as they are.
    lines.iter().map(|line| line.get(shared..).unwrap_or("").trim_end().to_owned()).collect()
}

/// Whether the lines of a block follow each other in a text, at any indentation.
fn is_in(block: &[&str], text: &str) -> bool {
    let (wanted, lines) = (dedent(block), text.lines().collect::<Vec<_>>());
    !wanted.is_empty() && lines.windows(wanted.len()).any(|window| dedent(window) == wanted)
}

/// Returns the code blocks of a document that say which file they are from.
fn snippets(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let file = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
        let Some(file) = file.filter(|file| file.contains('/') && !file.contains(' ')) else { continue };
        let opening = lines.next().unwrap_or_default();
        assert!(opening.starts_with("```"), "after <!-- {file} --> comes a code block");
        found.push((file, lines.by_ref().take_while(|line| !line.starts_with("```")).collect()));
    }
    found
}

#[track_caller]
fn shows_what_is_in_the_files(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    let all = snippets(&text);
    for (file, block) in &all {
        let source =
            std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(is_in(block, &source), "{document} shows what {file} does not have:\n{}", block.join("\n"));
    }
    all.into_iter().map(|(file, _)| file.to_owned()).collect()
}

#[test]
fn the_page_of_clients_shows_five_examples_in_four_languages() {
    let shown = shows_what_is_in_the_files("docs/clients.md");
    for example in ["counter", "leader", "pool", "once", "database"] {
        for file in [
            format!("crates/meshlock/examples/side_by_side/{example}.rs"),
            format!("clients/python/examples/{example}.py"),
            format!("clients/go/examples/{example}.go"),
            format!("clients/typescript/examples/{example}.ts"),
        ] {
            assert!(shown.contains(&file), "docs/clients.md does not show {file}");
        }
    }
}

#[test]
fn the_page_of_fences_shows_what_is_tested() {
    assert!(shows_what_is_in_the_files("docs/fences.md").len() >= 3);
}

#[test]
fn a_block_that_differs_from_its_file_is_found() {
    let file = "a\n    if b:\n        c\n\n    d\n";
    assert!(is_in(&["if b:", "    c", "", "d"], file));
    assert!(!is_in(&["if b:", "c"], file));
    assert!(!is_in(&["if b:", "    c", "d"], file));
    assert!(!is_in(&[], file));
    assert_eq!(
        snippets("x\n<!-- a/b.c -->\n```c\n1\n2\n```\n<!-- a note -->\n"),
        [("a/b.c", vec!["1", "2"])]
    );
}
