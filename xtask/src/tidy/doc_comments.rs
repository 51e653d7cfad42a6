//! Doc comments in the crates that allow `missing_docs`. They allow it for fields and variants whose name says it all; what
//! remains, the documents of types, traits and functions, is checked here.

use super::source::{Declaration, ItemKind, SourceFile, Visibility};

/// Checks the crates whose root allows `missing_docs`.
pub(super) fn check(files: &[SourceFile], faults: &mut Vec<String>) {
    for folder in files.iter().filter_map(allowing_folder) {
        let of_crate = files.iter().filter(|file| file.path.starts_with(folder));
        faults.extend(of_crate.filter(|file| file.is_rust() && !file.is_test()).flat_map(faults_of));
    }
}

/// The folder of the sources of a crate, if this is its root and allows `missing_docs`.
fn allowing_folder(file: &SourceFile) -> Option<&str> {
    let folder = file.path.strip_suffix("lib.rs").or_else(|| file.path.strip_suffix("main.rs"))?;
    let (_, allowed) = file.text.split_once("#![allow(")?;
    (folder.ends_with("/src/") && allowed.contains("missing_docs")).then_some(folder)
}

fn faults_of(file: &SourceFile) -> Vec<String> {
    let mut faults = Vec::new();
    let (mut is_documented, mut in_attribute) = (false, false);
    for (number, line) in file.product_lines() {
        let text = line.trim();
        if in_attribute || text.starts_with("#[") {
            is_documented |= text.starts_with("#[doc");
            in_attribute = !text.ends_with(']');
        } else if text.starts_with("///") {
            is_documented = true;
        } else {
            if let Some(item) = Declaration::of(line).filter(|item| !is_documented && needs_document(*item)) {
                faults.push(format!("{}:{number}: `{}` has no doc comment", file.path, item.name));
            }
            is_documented = false;
        }
    }
    faults
}

/// Functions that only their crate sees may speak for themselves.
fn needs_document(item: Declaration<'_>) -> bool {
    match item.visibility {
        Visibility::Public => true,
        Visibility::Restricted => item.kind != ItemKind::Function,
        Visibility::Private => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWING: &str = "//! A crate.\n#![allow(\n    missing_docs,\n    reason = \"…\"\n)]\n";

    fn faults(root: &str, text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let mut faults = Vec::new();
        check(&[file("crates/a/src/lib.rs", root), file("crates/a/src/b.rs", text)], &mut faults);
        faults
    }

    #[test]
    fn a_type_a_trait_or_a_function_without_a_document_is_found() {
        let declarations = [
            "pub struct A;",
            "pub(crate) enum A {}",
            "#[derive(Debug)]\npub trait A {}",
            "    pub fn a() {}",
        ];
        for text in declarations {
            assert_eq!(faults(ALLOWING, text).len(), 1, "{text}");
        }
        let found = faults(ALLOWING, "/// One.\nstruct A;\npub type B = A;");
        assert_eq!(found, ["crates/a/src/b.rs:3: `B` has no doc comment"]);
    }

    #[test]
    fn documented_private_and_test_items_pass() {
        let attributed = "/// One.\n#[derive(\n    Debug,\n)]\npub struct A;";
        for text in [
            attributed,
            "struct A;",
            "pub(crate) fn a() {}",
            "pub a: u8,",
            "#[cfg(test)]\nmod tests {\npub struct A;\n}",
        ] {
            assert_eq!(faults(ALLOWING, text), [""; 0]);
        }
        assert_eq!(faults("//! A crate that the compiler checks.", "pub struct A;"), [""; 0]);
    }
}
