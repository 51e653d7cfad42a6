//! Waits of tests: none may sleep for a guessed time, spin, or wait without end. They use `crates/testing`, whose waits end with a
//! message.

use std::path::Path;

/// What no test may use, written in parts so that this file does not contain it, and what it uses instead.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("thread::", "sleep"), "eventually"),
    (concat!("yield", "_now"), "eventually, or eventually_async"),
    (concat!("tokio::time::", "sleep("), "eventually_async"),
    (concat!("spin", "_loop"), "eventually"),
    (concat!(".out", "put()"), "output_in_time"),
    (concat!(".wait_with_", "output()"), "output_in_time"),
    (concat!(".wait()", ".unwrap()"), "wait_in_time"),
    (concat!(".wait()", ".expect("), "wait_in_time"),
    (concat!(".recv()", ".unwrap()"), "recv_timeout(WITHIN)"),
];

/// Files that may, each with one of the words and the reason.
const ALLOWED: &[(&str, &str, &str)] = &[
    (
        "crates/meshlock/tests/library.rs",
        concat!("yield", "_now"),
        "it lets others run while a lock is held, and waits for nothing",
    ),
    (
        "crates/service/src/server/tests/hostile.rs",
        concat!("yield", "_now"),
        "it is done a fixed number of times, and waits for nothing",
    ),
];

/// Whether a file has nothing but tests: those of a crate's folder `tests`, and modules of that name.
fn is_test(path: &Path) -> bool {
    path.starts_with("crates")
        && path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

/// Checks one source file.
pub(super) fn check(path: &Path, text: &str, faults: &mut Vec<String>) {
    if !is_test(path) {
        return;
    }
    for (number, line) in text.lines().enumerate() {
        for (word, instead) in FORBIDDEN {
            let is_allowed =
                ALLOWED.iter().any(|(file, allowed, _)| path == Path::new(file) && allowed == word);
            if line.contains(word) && !is_allowed {
                let at = format!("{}:{}", path.display(), number + 1);
                faults.push(format!(
                    "{at}: '{word}': a test's wait has a limit; use `{instead}` of crates/testing"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        check(Path::new(path), text, &mut faults);
        faults
    }

    #[test]
    fn tests_may_not_sleep_and_other_code_may() {
        for (word, _) in FORBIDDEN {
            let text = format!("fn waits() {{\n    a::{word};\n}}\n");
            for path in ["crates/cli/tests/a.rs", "crates/cli/tests/a/b.rs", "crates/host/src/a/tests.rs"] {
                let found = faults(path, &text);
                assert!(
                    found.len() == 1 && found[0].starts_with(&format!("{path}:2: '{word}'")),
                    "{found:?}"
                );
            }
            assert_eq!(faults("crates/host/src/a.rs", &text), Vec::<String>::new());
        }
    }

    #[test]
    fn every_exception_is_still_one() {
        for (file, word, why) in ALLOWED {
            let text = std::fs::read_to_string(crate::root().join(file)).expect("the file exists");
            assert!(text.contains(word), "{file} does not use '{word}' any more, which it may because {why}");
        }
    }
}
