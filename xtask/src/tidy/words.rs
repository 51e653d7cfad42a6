//! Words of a private vocabulary that the project has given up: code and documents use the usual technical words.

use super::source::SourceFile;

/// A word that must not come back, in all its forms, and what to say instead. Words that also have an innocent meaning (life,
/// seat, stage, hear) are not listed.
const PRIVATE: &[(&str, &str)] = &[
    ("belief", "lease estimate"),
    ("desk", "frontend"),
    ("doom", "what happens: lost, revoked, broken"),
    ("footing", "lease clock"),
    ("habit", "configuration"),
    ("landlord", "lease grants"),
    ("ledger", "registry"),
    ("oath", "voter registration"),
    ("pledge", "voter registration"),
    ("ruin", "what happens: lost, revoked, broken"),
    ("weather", "fault state"),
    ("wish", "acquisition, request"),
];

/// The endings of a word's other forms.
const ENDINGS: [&str; 6] = ["", "s", "es", "d", "ed", "ing"];

/// The beginning of a constant that should begin with `MAX_`.
const MOST: &str = "MOST_";

/// The files that name the words: this one, the history of changes, and the names on disk, which stay what they were.
const EXEMPT: [&str; 4] = [
    "xtask/src/tidy/words.rs",
    "CHANGELOG.md",
    "crates/host/src/store/tables.rs",
    "crates/host/src/store/tests/recorded.rs",
];

/// Checks Rust files and documents, except for the papers' algorithms.
pub(super) fn check(files: &[SourceFile], faults: &mut Vec<String>) {
    faults.extend(files.iter().filter(|file| is_checked(file)).flat_map(faults_of));
}

fn is_checked(file: &SourceFile) -> bool {
    (file.is_rust() || file.is_document()) && !file.is_paper() && !EXEMPT.contains(&file.path.as_str())
}

fn faults_of(file: &SourceFile) -> Vec<String> {
    let mut faults = Vec::new();
    if !may_have_some(file) {
        return faults;
    }
    for (line, number) in std::iter::once(file.path.as_str()).chain(file.text.lines()).zip(0..) {
        for word in words(line) {
            if let Some(instead) = instead_of(word) {
                faults.push(format!("{}:{number}: '{word}' is a private word; say: {instead}", file.path));
            }
        }
        for name in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
            if let Some(rest) = name.strip_prefix(MOST) {
                faults.push(format!("{}:{number}: '{name}' is a limit; call it MAX_{rest}", file.path));
            }
        }
    }
    faults
}

/// Whether it is worth while to look at each word: most files are done with this quick search.
fn may_have_some(file: &SourceFile) -> bool {
    let text = format!("{} {}", file.path, file.text).to_ascii_lowercase();
    text.contains(&MOST.to_ascii_lowercase()) || PRIVATE.iter().any(|(private, _)| text.contains(private))
}

/// What to say instead of `word`, if it is a private one.
fn instead_of(word: &str) -> Option<&'static str> {
    let is_form = |private: &str| {
        let (start, ending) = word.split_at_checked(private.len())?;
        (start.eq_ignore_ascii_case(private)
            && ENDINGS.iter().any(|other| ending.eq_ignore_ascii_case(other)))
        .then_some(())
    };
    PRIVATE.iter().find(|(private, _)| is_form(private).is_some()).map(|(_, instead)| *instead)
}

/// The words of a line, and the words that its identifiers are made of.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphabetic()).flat_map(|mut rest| {
        std::iter::from_fn(move || {
            let humps = rest.bytes().zip(rest.bytes().skip(1));
            let hump = humps.map(|(before, c)| before.is_ascii_lowercase() && c.is_ascii_uppercase());
            let end = hump.zip(1..).find_map(|(is_one, at)| is_one.then_some(at)).unwrap_or(rest.len());
            let word;
            (word, rest) = rest.split_at(end);
            (!word.is_empty()).then_some(word)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        check(&[SourceFile { path: path.to_owned(), text: text.to_owned() }], &mut faults);
        faults
    }

    #[test]
    fn identifiers_are_split_into_words() {
        let found: Vec<&str> = words("let wish_of = LeaseLedger::new(a2b); // It's one.").collect();
        assert_eq!(found, ["let", "wish", "of", "Lease", "Ledger", "new", "a", "b", "It", "s", "one"]);
    }

    #[test]
    fn a_private_word_is_found_in_identifiers_prose_and_names_of_files() {
        for text in ["struct WishId;", "let open_wishes = 1;", "// It was Doomed.", "const THE_OATH: u8 = 1;"]
        {
            assert_eq!(faults("crates/a/src/a.rs", text).len(), 1, "{text}");
        }
        assert_eq!(faults("docs/a.md", "The desk has a ledger.").len(), 2);
        assert_eq!(faults("crates/a/src/desk.rs", "").len(), 1);
        let limit = faults("crates/a/src/a.rs", "//! A.\nconst MOST_LINES: u8 = 1;");
        assert_eq!(limit, ["crates/a/src/a.rs:2: 'MOST_LINES' is a limit; call it MAX_LINES"]);
    }

    #[test]
    fn other_words_and_the_papers_words_are_not() {
        for text in ["desktop", "ALMOST_ALL", "bruin", "let most_states = 1;"] {
            assert_eq!(faults("crates/a/src/a.rs", text), [""; 0]);
        }
        assert_eq!(faults("crates/protocol/src/algorithms/a.rs", "a node wishes to enter"), [""; 0]);
        assert_eq!(faults("CHANGELOG.md", "wish"), [""; 0]);
        assert_eq!(faults("crates/a/a.toml", "wish"), [""; 0]);
    }
}
