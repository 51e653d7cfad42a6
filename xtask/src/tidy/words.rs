//! Words of a private vocabulary that the project has given up: code and documents use the usual technical words.

use super::source::SourceFile;

/// A word that must not come back, in all its forms, and what to say instead. Words that also have an innocent meaning (life,
/// stage, hear) are not listed.
const PRIVATE: &[(&str, &str)] = &[
    ("belief", "lease estimate"),
    ("desk", "frontend"),
    ("doom", "what happens: lost, revoked, broken"),
    ("footing", "lease clock"),
    ("habit", "configuration"),
    ("landlord", "lease grants"),
    ("ledger", "registry"),
    ("oath", "voter registration"),
    ("patience", "timeout"),
    ("pledge", "voter registration"),
    ("reckon", "calculate"),
    ("ruin", "what happens: lost, revoked, broken"),
    ("seat", "slot, local state, machine"),
    ("tempo", "timing"),
    ("weather", "fault state"),
    ("wish", "acquisition, request"),
];

/// The endings of a word's other forms.
const ENDINGS: [&str; 6] = ["", "s", "es", "d", "ed", "ing"];

/// An identifier that must not come back, and what to say instead.
const GIVEN_UP: &[(&str, &str)] = &[("life_of", "incarnation_of")];

/// The first word of a constant for a limit, and what it should be.
const LIMITS: &[(&str, &str)] = &[
    ("FARTHEST", "MAX"),
    ("FEWEST", "MIN"),
    ("HIGHEST", "MAX"),
    ("LEAST", "MIN"),
    ("LONGEST", "MAX"),
    ("MOST", "MAX"),
];

/// The kinds of files that are checked.
const EXTENSIONS: [&str; 10] = ["rs", "md", "js", "css", "html", "py", "toml", "yml", "json", "proto"];

/// The files that name the words: this one, the history of changes, and the names on disk, which stay what they were.
const EXEMPT: [&str; 4] = [
    "xtask/src/tidy/words.rs",
    "CHANGELOG.md",
    "crates/host/src/store/tables.rs",
    "crates/host/src/store/tests/recorded.rs",
];

/// Words that may stand in one file, with the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("crates/lab/src/import.rs", "seat", "the test of the name that older traces have"),
    ("crates/protocol/src/algorithms/raymond/mod.rs", "wishes", "quotes Table 9.2"),
    ("crates/sim/src/trace/written.rs", "seat", "the name that older traces have"),
];

/// Checks sources, documents and settings.
pub(super) fn check(files: &[SourceFile], faults: &mut Vec<String>) {
    faults.extend(files.iter().filter(|file| is_checked(file)).flat_map(faults_of));
}

fn is_checked(file: &SourceFile) -> bool {
    EXTENSIONS.iter().any(|extension| file.has_extension(extension)) && !EXEMPT.contains(&file.path.as_str())
}

fn faults_of(file: &SourceFile) -> Vec<String> {
    let mut faults = Vec::new();
    if !may_have_some(file) {
        return faults;
    }
    for (line, number) in std::iter::once(file.path.as_str()).chain(file.text.lines()).zip(0..) {
        for word in words(line) {
            if let Some(instead) = instead_of(word).filter(|_| !is_excepted(file, word)) {
                faults.push(format!("{}:{number}: '{word}' is a private word; say: {instead}", file.path));
            }
        }
        for name in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
            if let Some((_, instead)) = GIVEN_UP.iter().find(|(given_up, _)| name == *given_up) {
                faults.push(format!("{}:{number}: '{name}' is a private word; say: {instead}", file.path));
            }
            if let Some(instead) = limit_for(name) {
                faults.push(format!("{}:{number}: '{name}' is a limit; call it {instead}", file.path));
            }
        }
    }
    faults
}

/// Whether it is worth while to look at each word: most files are done with this quick search.
fn may_have_some(file: &SourceFile) -> bool {
    let text = format!("{} {}", file.path, file.text).to_ascii_lowercase();
    let is_there = |(word, _): &(&str, &str)| text.contains(&word.to_ascii_lowercase());
    PRIVATE.iter().chain(GIVEN_UP).chain(LIMITS).any(is_there)
}

fn is_excepted(file: &SourceFile, word: &str) -> bool {
    EXCEPTIONS.iter().any(|(path, excepted, _)| file.path == *path && word == *excepted)
}

/// The name that a constant for a limit should have, if it has another one.
fn limit_for(name: &str) -> Option<String> {
    let (first, rest) = name.split_once('_').map_or((name, None), |(first, rest)| (first, Some(rest)));
    let (_, instead) = LIMITS.iter().find(|(limit, _)| first == *limit)?;
    Some(format!("{instead}_{}", rest.unwrap_or("…")))
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
    fn a_limit_begins_with_max_or_min() {
        for (name, instead) in [("MOST", "MAX_…"), ("LONGEST_LOG", "MAX_LOG"), ("FEWEST_SLOTS", "MIN_SLOTS")]
        {
            let found = faults("crates/a/assets/a.js", &format!("const {name} = 1;"));
            assert_eq!(found, [format!("crates/a/assets/a.js:1: '{name}' is a limit; call it {instead}")]);
        }
    }

    #[test]
    fn settings_pages_and_the_papers_algorithms_are_checked_too() {
        for path in ["a.toml", "a.yml", "a.json", "a.proto", "a.html", "a.css", "a.py"] {
            assert_eq!(faults(path, "wish").len(), 1, "{path}");
        }
        let algorithm = "crates/protocol/src/algorithms/a.rs";
        assert_eq!(faults(algorithm, "fn life_of(seat: u8) {}").len(), 2);
    }

    #[test]
    fn other_words_and_quoted_ones_are_not() {
        for text in ["desktop", "ALMOST_ALL", "bruin", "let most_states = 1;", "temporary", "the life of"] {
            assert_eq!(faults("crates/a/src/a.rs", text), [""; 0]);
        }
        for (path, word, _) in EXCEPTIONS {
            assert_eq!(faults(path, word), [""; 0]);
            assert_eq!(faults("crates/a/src/a.rs", word).len(), 1, "{word}");
        }
        assert_eq!(faults("CHANGELOG.md", "wish"), [""; 0]);
        assert_eq!(faults("a.svg", "wish"), [""; 0]);
    }
}
