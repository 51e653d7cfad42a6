//! The files that tidy reads, and what one line of Rust declares.

use std::path::Path;

/// One tracked text file.
pub(super) struct SourceFile {
    /// Relative to the workspace, with `/` between its parts.
    pub(super) path: String,
    pub(super) text: String,
}

/// The folders of files that are not part of a product.
const TEST_FOLDERS: [&str; 4] = ["tests", "benches", "examples", "samples"];

impl SourceFile {
    pub(super) fn is_rust(&self) -> bool {
        self.has_extension("rs")
    }

    pub(super) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|own| own == extension)
    }

    /// Whether the whole file belongs to tests, benchmarks, examples or samples.
    pub(super) fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.split('/').any(|part| TEST_FOLDERS.contains(&part))
    }

    /// The lines outside test modules, each with its number.
    pub(super) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let (mut is_attributed, mut in_tests) = (false, false);
        self.text.lines().zip(1..).filter_map(move |(line, number)| {
            if in_tests {
                in_tests = line != "}";
                return None;
            }
            in_tests = is_attributed && line.contains("mod ") && line.ends_with('{');
            is_attributed = line.starts_with("#[cfg(") && line.contains("test");
            (!in_tests).then_some((number, line))
        })
    }
}

/// From where a declared item can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visibility {
    Private,
    /// `pub(crate)`, `pub(super)` or `pub(in …)`.
    Restricted,
    Public,
}

/// The kind of a declared item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    Struct,
    Enum,
    Trait,
    Alias,
    Function,
}

/// A type, trait or function that a line declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Declaration<'a> {
    pub(super) visibility: Visibility,
    pub(super) kind: ItemKind,
    pub(super) name: &'a str,
}

impl<'a> Declaration<'a> {
    /// Reads the beginning of a line. `None` if it declares nothing of these kinds.
    pub(super) fn of(line: &'a str) -> Option<Self> {
        let (visibility, mut rest) = visibility(line.trim_start());
        for qualifier in ["default ", "const ", "async ", "unsafe ", "extern \"C\" "] {
            rest = rest.strip_prefix(qualifier).unwrap_or(rest);
        }
        let (keyword, rest) = rest.split_once(' ')?;
        let kind = match keyword {
            "struct" => ItemKind::Struct,
            "enum" => ItemKind::Enum,
            "trait" => ItemKind::Trait,
            "type" => ItemKind::Alias,
            "fn" => ItemKind::Function,
            _ => return None,
        };
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        (end > 0).then(|| Declaration { visibility, kind, name: &rest[..end] })
    }
}

fn visibility(line: &str) -> (Visibility, &str) {
    if let Some(rest) = line.strip_prefix("pub ") {
        return (Visibility::Public, rest);
    }
    match line.strip_prefix("pub(").and_then(|rest| rest.split_once(") ")) {
        Some((_, rest)) => (Visibility::Restricted, rest),
        None => (Visibility::Private, line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_line_declares_one_item_at_most() {
        let read = |line| Declaration::of(line).map(|found| (found.visibility, found.kind, found.name));
        assert_eq!(read("pub struct Lock<T> {"), Some((Visibility::Public, ItemKind::Struct, "Lock")));
        assert_eq!(read("pub(in crate::a) enum E {"), Some((Visibility::Restricted, ItemKind::Enum, "E")));
        assert_eq!(read("    unsafe trait Off {}"), Some((Visibility::Private, ItemKind::Trait, "Off")));
        assert_eq!(read("type Key = u8;"), Some((Visibility::Private, ItemKind::Alias, "Key")));
        assert_eq!(read("    pub const fn at("), Some((Visibility::Public, ItemKind::Function, "at")));
        for line in
            ["/// struct Lock", "let type_ = 1;", "pub use lock::Lock;", "pub const MAX: u8 = 1;", "}"]
        {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn test_modules_are_no_part_of_the_product() {
        let text = "struct A;\n#[cfg(test)]\nmod tests {\n    struct B;\n}\nstruct C;\n#[cfg(test)]\nmod tests;\nstruct D;";
        let file = file("crates/a/src/a.rs", text);
        let declared =
            file.product_lines().filter_map(|(number, line)| Some((number, Declaration::of(line)?.name)));
        assert_eq!(declared.collect::<Vec<_>>(), [(1, "A"), (6, "C"), (9, "D")]);
    }

    #[test]
    fn tests_are_known_by_their_folders() {
        assert!(file("crates/a/tests/b.rs", "").is_test() && file("crates/a/src/b/tests.rs", "").is_test());
        assert!(!file("crates/a/src/contests.rs", "").is_test());
    }
}
