//! Names of types: a reader who meets a name must not have to ask which of several types it is.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Declaration, ItemKind, SourceFile};

/// The number of types that may have the same name: one of a library's interface and one inside, or two sides of one matter.
const MAX_SAME: usize = 2;

/// Names that may stand more often, with the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("Arguments", "the command line of each subcommand, in a module of its own"),
    ("Inner", "what a cheap handle points to, private to its file"),
    ("Message", "the type of that name that the trait `Site` asks of each algorithm"),
    ("Plan", "the type of that name that the trait `Algorithm` asks of each algorithm"),
    (
        "View",
        "the members of a cluster, the same for users of the library, and what a picture of a site shows",
    ),
];

/// Checks that no name of a type stands more than [`MAX_SAME`] times, except for those that are allowed.
pub(super) fn check(files: &[SourceFile], faults: &mut Vec<String>) {
    let mut excused: BTreeSet<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
    for (name, places) in declared(files) {
        if places.len() > MAX_SAME && !excused.remove(name) {
            let (count, places) = (places.len(), places.join(", "));
            faults.push(format!(
                "{count} types are named `{name}`; give all but {MAX_SAME} another name: {places}"
            ));
        }
    }
    let needless =
        |name| format!("`{name}` is excused in xtask/src/tidy, but no longer stands too often; take it out");
    faults.extend(excused.into_iter().map(needless));
}

/// The places outside tests where a type is declared, by name.
fn declared(files: &[SourceFile]) -> BTreeMap<&str, Vec<String>> {
    let mut all: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        for (number, line) in file.product_lines() {
            if let Some(declaration) =
                Declaration::of(line).filter(|declaration| is_counted(line, *declaration))
            {
                all.entry(declaration.name).or_default().push(format!("{}:{number}", file.path));
            }
        }
    }
    all
}

/// An alias inside an `impl` is named by its trait.
fn is_counted(line: &str, declaration: Declaration<'_>) -> bool {
    match declaration.kind {
        ItemKind::Struct | ItemKind::Enum | ItemKind::Trait => true,
        ItemKind::Alias => !line.starts_with(' '),
        ItemKind::Function => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The faults of files that each declare `line`, together with what [`ALLOWED`] excuses.
    fn faults(lines: &[&str]) -> Vec<String> {
        let mut lines = lines.to_vec();
        let allowed: Vec<String> = ALLOWED.iter().map(|(name, _)| format!("struct {name};")).collect();
        lines.extend(allowed.iter().flat_map(|line| [line.as_str(); MAX_SAME + 1]));
        let file = |(at, line): (usize, &&str)| SourceFile {
            path: format!("crates/a/src/{at}.rs"),
            text: format!("//! A file.\n{line}\n"),
        };
        let files: Vec<SourceFile> = lines.iter().enumerate().map(file).collect();
        let mut faults = Vec::new();
        check(&files, &mut faults);
        faults
    }

    #[test]
    fn the_third_type_of_a_name_is_found() {
        let found = faults(&["pub struct Held;", "enum Held {}", "type Held = u8;"]);
        let places = "crates/a/src/0.rs:2, crates/a/src/1.rs:2, crates/a/src/2.rs:2";
        assert_eq!(found, [format!("3 types are named `Held`; give all but 2 another name: {places}")]);
    }

    #[test]
    fn two_of_a_name_and_aliases_of_traits_may_be() {
        assert_eq!(faults(&["struct Held;", "trait Held {}", "    type Held = u8;"]), [""; 0]);
    }

    #[test]
    fn a_name_is_excused_only_as_long_as_it_must_be() {
        let mut found = Vec::new();
        check(&[], &mut found);
        assert!(found.len() == ALLOWED.len() && found[0].contains("no longer stands too often"), "{found:?}");
    }
}
