//! Enums that become bytes: derived code numbers their variants by their order, so that sorting a list would change a format without a
//! word. In the crates whose types are written down, the numbers stand beside the variants (`numbered!` in `crates/protocol`).

use super::source::{Declaration, ItemKind, SourceFile};

/// The crates whose types are sent or kept.
const CRATES: [&str; 3] = ["crates/protocol/src/", "crates/cluster/src/", "crates/wire/src/"];

/// Enums that may derive it, each with its file and the reason.
const ALLOWED: &[(&str, &str, &str)] = &[(
    "crates/cluster/src/access/mod.rs",
    "Verb",
    "it is read from configuration files, by the names of its variants, and never written",
)];

/// Checks that no enum of these crates derives how it is written or read.
pub(super) fn check(files: &[SourceFile], faults: &mut Vec<String>) {
    let concerned = |file: &&SourceFile| {
        file.is_rust() && !file.is_test() && CRATES.iter().any(|folder| file.path.starts_with(folder))
    };
    let mut excused = ALLOWED.to_vec();
    for file in files.iter().filter(concerned) {
        for (number, name) in derived(file) {
            let before = excused.len();
            excused.retain(|(path, allowed, _)| (*path, *allowed) != (file.path.as_str(), name));
            if excused.len() == before {
                faults.push(format!(
                    "{}:{number}: the enum `{name}` is written by the order of its variants; write their numbers out with `numbered!`",
                    file.path
                ));
            }
        }
    }
    let needless = |(path, name, _): (&str, &str, &str)| {
        format!("{path}: `{name}` is excused in xtask/src/tidy, but derives nothing any more; take it out")
    };
    faults.extend(excused.into_iter().map(needless));
}

/// The enums of a file that derive `Serialize` or `Deserialize`, also under a condition, each with its line.
fn derived(file: &SourceFile) -> Vec<(usize, &str)> {
    let (mut found, mut attribute, mut derives) = (Vec::new(), None::<String>, false);
    for (number, line) in file.product_lines() {
        let code = line.trim();
        if attribute.is_none() && code.starts_with("#[") {
            attribute = Some(String::new());
        } else if attribute.is_none() && !code.is_empty() && !code.starts_with("//") {
            let declaration = Declaration::of(line).filter(|found| found.kind == ItemKind::Enum);
            found.extend(declaration.filter(|_| derives).map(|found| (number, found.name)));
            derives = false;
        }
        // An attribute may take several lines.
        if let Some(text) = &mut attribute {
            text.push_str(code);
            if code.ends_with(']') {
                derives |=
                    text.contains("derive(") && (text.contains("Serialize") || text.contains("Deserialize"));
                attribute = None;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The faults of a file, together with what [`ALLOWED`] excuses.
    fn faults(path: &str, text: &str) -> Vec<String> {
        let allowed = ALLOWED.iter().map(|(path, name, _)| SourceFile {
            path: (*path).to_owned(),
            text: format!("#[derive(Deserialize)]\nenum {name} {{}}\n"),
        });
        let mut files: Vec<SourceFile> = allowed.collect();
        files.push(SourceFile { path: path.to_owned(), text: text.to_owned() });
        let mut faults = Vec::new();
        check(&files, &mut faults);
        faults
    }

    #[test]
    fn an_enum_is_excused_only_as_long_as_it_must_be() {
        let mut found = Vec::new();
        check(&[], &mut found);
        assert!(found.len() == ALLOWED.len() && found[0].contains("derives nothing any more"), "{found:?}");
    }

    #[test]
    fn an_enum_that_derives_its_bytes_is_found() {
        for attributes in [
            "#[derive(Clone, Serialize, Deserialize)]",
            "#[derive(serde::Deserialize)]\n#[non_exhaustive]",
            "#[cfg_attr(feature = \"serde\", derive(serde::Serialize))]\n/// Its documentation.",
            "#[derive(\n    Clone,\n    Serialize,\n)]",
        ] {
            let text = format!("//! A file.\n{attributes}\npub enum Shape {{\n    Point,\n}}\n");
            let found = faults("crates/wire/src/a.rs", &text);
            assert!(found.len() == 1 && found[0].contains("the enum `Shape`"), "{attributes}: {found:?}");
            assert_eq!(faults("crates/host/src/a.rs", &text), [""; 0], "{attributes}");
            assert_eq!(faults("crates/wire/src/a/tests.rs", &text), [""; 0], "{attributes}");
        }
    }

    #[test]
    fn other_enums_and_structs_may_be() {
        let text =
            "#[derive(Clone)]\nenum A {}\n#[derive(Serialize)]\nstruct B;\nenum C {}\nnumbered! { A {\n} }\n";
        assert_eq!(faults("crates/cluster/src/a.rs", text), [""; 0]);
        let tests = "#[cfg(test)]\nmod tests {\n    #[derive(Serialize)]\n    enum Derived {}\n}\n";
        assert_eq!(faults("crates/protocol/src/a.rs", tests), [""; 0]);
    }
}
