//! What a command that failed did not find, as far as its output tells.

use std::collections::BTreeSet;

/// How programs say that something is not there: what it is, the text before its name, the text after it. Without a text
/// before it, its name is the last word.
const SIGNS: &[(&str, &str, &str)] = &[
    ("header", "fatal error: ", ": No such file or directory"),
    ("library", "cannot find -l", ":"),
    ("program", "linker `", "` not found"),
    ("program", "Could not find `", "`"),
    ("program", "this is missing: the program ", ";"),
    ("program", "", ": command not found"),
    ("program", "", ": not found"),
    ("program", "cannot start ", ":"),
    ("file for protoc", "", ": File not found."),
    ("Python module", "No module named '", "'"),
    ("Node module", "Cannot find module '", "'"),
    ("package", "Unable to locate package ", ""),
    ("file", "failed to open `", "`"),
];

/// Lines with this are shown as they are if no sign tells more.
const UNNAMED: [&str; 3] = ["this is missing: ", "No such file or directory", "(os error 2)"];

/// How many such lines are shown.
const MAX_UNNAMED: usize = 10;

/// What was not found, each thing once.
pub(super) fn missing(output: &str) -> Vec<String> {
    let mut named = BTreeSet::new();
    let mut unnamed = Vec::new();
    for line in output.lines() {
        let found = SIGNS
            .iter()
            .find_map(|(what, before, after)| name(line, before, after).map(|name| format!("{what} {name}")));
        if let Some(found) = found {
            named.insert(found);
        } else if UNNAMED.iter().any(|sign| line.contains(sign)) && !unnamed.contains(&line) {
            unnamed.push(line);
        }
    }
    let unnamed = unnamed.into_iter().take(MAX_UNNAMED).map(|line| line.trim().to_owned());
    named.into_iter().chain(unnamed).collect()
}

fn name<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let name = if before.is_empty() {
        line.split_once(after)?.0.rsplit(' ').next()?
    } else {
        let (_, rest) = line.split_once(before)?;
        if after.is_empty() { rest } else { rest.split_once(after)?.0 }
    };
    (!name.is_empty() && !name.contains(' ')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_say_of_missing_things_is_understood() {
        for (line, what) in [
            ("a.c:1:10: fatal error: zlib.h: No such file or directory", "header zlib.h"),
            ("/usr/bin/ld: cannot find -lssl: No such file or directory", "library ssl"),
            ("error: linker `cc` not found", "program cc"),
            ("  Could not find `protoc`. If `protoc` is installed, …", "program protoc"),
            ("sh: 1: script: not found", "program script"),
            ("bash: line 1: ps: command not found", "program ps"),
            ("google/protobuf/empty.proto: File not found.", "file for protoc google/protobuf/empty.proto"),
            ("ModuleNotFoundError: No module named 'ensurepip'", "Python module ensurepip"),
            ("E: Unable to locate package chromium", "package chromium"),
        ] {
            assert_eq!(missing(line), [what], "{line}");
        }
    }

    #[test]
    fn what_a_test_says_that_must_run_and_cannot_is_understood() {
        let (program, remedy) = meshlock_testing::missing_program("etcd");
        let said = meshlock_testing::demand("interop::etcd", &program, &remedy);
        assert_eq!(
            missing(&format!("panicked at a.rs:1:1:\n{said}\nnote: more\n")),
            ["program etcd"],
            "{said}"
        );
        let said =
            meshlock_testing::demand("faults::cut", "root, for network namespaces", "run the tests as root");
        assert_eq!(missing(&said), [said]);
    }

    #[test]
    fn a_line_that_names_nothing_is_shown_and_others_are_not() {
        let line = "Error: git did not start: No such file or directory (os error 2)";
        assert_eq!(missing(&format!("ok\n{line}\n{line}\n404: page not found\n")), [line]);
    }
}
