//! Waits of tests: none may sleep for a guessed time, spin, or wait without end. They use `crates/testing`, whose waits end with a
//! message.
//!
//! This is a check of the text, line by line: it finds the usual ways to wait, not every one. A loop counts as bounded if its text
//! mentions a deadline.

use std::path::Path;

/// A way to wait that no test may use. It is written in parts so that this file does not contain it.
struct Forbidden {
    word: &'static str,
    /// What makes it bounded if it is in the same line.
    unless: &'static [&'static str],
    /// What a test uses instead.
    instead: &'static str,
}

const fn forbidden(word: &'static str, instead: &'static str) -> Forbidden {
    Forbidden { word, unless: &[], instead }
}

/// What bounds a future.
const IN_TIME: &[&str] = &["in_time(", "timeout(", "eventually_async("];

const FORBIDDEN: &[Forbidden] = &[
    forbidden(concat!("#[tokio::", "test"), "async_test"),
    forbidden(concat!("thread::", "sleep"), "eventually"),
    forbidden(concat!("yield", "_now"), "eventually, or eventually_async"),
    forbidden(concat!("tokio::time::", "sleep("), "eventually_async"),
    forbidden(concat!("spin", "_loop"), "eventually"),
    forbidden(concat!(".out", "put()"), "output_in_time"),
    forbidden(concat!(".wait_with_", "output()"), "output_in_time"),
    forbidden(concat!(".sta", "tus()"), "status_in_time"),
    forbidden(concat!(".wa", "it()"), "wait_in_time"),
    forbidden(concat!(".jo", "in()"), "joined"),
    Forbidden { word: concat!(".re", "cv()"), unless: IN_TIME, instead: "recv_timeout(WITHIN), or in_time" },
    Forbidden { word: concat!("block", "_on("), unless: IN_TIME, instead: "async_test, or in_time" },
];

/// Calls of the library that block until they succeed: only in files whose tests have a limit as a whole.
const BLOCKING: &[&str] = &[concat!("lock", "_blocking("), concat!("wait_until", "_lost(")];

/// What a file with such calls must use.
const WHOLE_TEST: &str = "blocking_test(";

/// How loops begin that may wait. Others go through a collection, or count.
const LOOPS: &[&str] = &[concat!("loop", " {"), concat!("while", " !")];

/// What bounds a loop if it is in its head or body: a `Deadline`, or the end of the test as clients in `cli/tests/faults` are told it.
const BOUNDS: &[&str] = &["deadline", "is_over", "over()", "(over)", "is_so()"];

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
    (
        "crates/protocol/src/information/dynamic.rs",
        concat!(".sta", "tus()"),
        "it is the status set of an algorithm, not the end of a program",
    ),
    (
        "crates/check/tests/validation/second_opinion.rs",
        concat!(".jo", "in()"),
        "it is a search that computes, and ends when it has seen every state",
    ),
    ("crates/cli/tests/faults/runner.rs", concat!(".jo", "in()"), "the thread has ended by then"),
    (
        "crates/cli/tests/faults/runner.rs",
        EMPTY_LOOP,
        "a command lasts as long as the faults do; the thread that waits for it is ended, and joined with a limit",
    ),
    ("crates/testing/src/wait.rs", concat!(".jo", "in()"), "it is the test of the wait that replaces it"),
    (
        "crates/meshlock/tests/client.rs",
        concat!("block", "_on("),
        "it is the library's own, which is tested, in a test that has a limit as a whole",
    ),
    (
        "crates/meshlock/tests/api/blocking.rs",
        concat!("block", "_on("),
        "it is the library's own, which is tested, in a test that has a limit as a whole",
    ),
    (
        "crates/meshlock/tests/api/loss.rs",
        concat!("block", "_on("),
        "it is the library's own, which is tested, in a test that has a limit as a whole",
    ),
    (
        "crates/lab/tests/browser/main.rs",
        concat!("block", "_on("),
        "a thread serves the page for as long as the tests run, and nobody waits for it",
    ),
    (
        "crates/service/tests/access/flood.rs",
        concat!("loop", " {"),
        "lines of a connection that has a limit, whose end is refused; and a stream inside in_time",
    ),
    (
        "crates/service/tests/interop/promql.rs",
        concat!("loop", " {"),
        "a parser, which takes a token each time",
    ),
    ("crates/tls/src/tests.rs", concat!("while", " !"), "bytes that become fewer each time"),
    (
        "crates/host/src/door/tests.rs",
        concat!("loop", " {"),
        "each turn reads more of a message from a connection, within in_time",
    ),
    ("crates/host/tests/yesterday.rs", concat!("loop", " {"), "it reads from a connection that has a limit"),
];

/// A loop without a body, which spins.
const EMPTY_LOOP: &str = "while … {}";

/// Returns the first line of a file's tests, counted from 0: files in a folder `tests` and modules of that name have nothing else, and
/// other source files may end with a module of that name.
fn first_test_line(path: &Path, lines: &[&str]) -> Option<usize> {
    if !path.starts_with("crates") && !path.starts_with("xtask") {
        return None;
    }
    if path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs") {
        return Some(0);
    }
    lines.windows(2).position(|pair| pair[0] == "#[cfg(test)]" && pair[1] == "mod tests {")
}

/// Returns the text of the loop that begins in line `at`: up to the first line that is not indented further than its head.
fn text_of_loop(lines: &[&str], at: usize) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_inside = |line: &&&str| line.trim().is_empty() || indent(line) > indent(lines[at]);
    let body: Vec<&str> = lines[at + 1..].iter().take_while(is_inside).copied().collect();
    format!("{}\n{}", lines[at], body.join("\n"))
}

/// Returns what is wrong with line `at`: the word, and what to use instead.
fn faults_of_line(lines: &[&str], at: usize) -> Vec<(&'static str, &'static str)> {
    let line = lines[at].trim();
    let is_comment = line.starts_with("//");
    let mut faults = Vec::new();
    for Forbidden { word, unless, instead } in FORBIDDEN {
        if line.contains(word) && !is_comment && !unless.iter().any(|bound| line.contains(bound)) {
            faults.push((*word, *instead));
        }
    }
    if line.starts_with("while ") && line.ends_with("{}") {
        faults.push((EMPTY_LOOP, "eventually, or within_steps"));
    }
    for word in LOOPS {
        let begins = line.starts_with(word) || line.contains(&format!("= {word}"));
        if begins && !BOUNDS.iter().any(|bound| text_of_loop(lines, at).contains(bound)) {
            faults.push((*word, "eventually, within_steps, or a Deadline in the loop"));
        }
    }
    let has_whole_tests = || lines.iter().any(|line| line.contains(WHOLE_TEST));
    for word in BLOCKING {
        if line.contains(word) && !is_comment && !has_whole_tests() {
            faults.push((*word, "blocking_test"));
        }
    }
    faults
}

/// Checks one source file.
pub(super) fn check(path: &Path, text: &str, faults: &mut Vec<String>) {
    let lines: Vec<&str> = text.lines().collect();
    let Some(first) = first_test_line(path, &lines) else { return };
    for at in first..lines.len() {
        for (word, instead) in faults_of_line(&lines, at) {
            let is_allowed =
                ALLOWED.iter().any(|(file, allowed, _)| path == Path::new(file) && *allowed == word);
            if !is_allowed {
                let at = format!("{}:{}", path.display(), at + 1);
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

    fn words(text: &str) -> Vec<&'static str> {
        let lines: Vec<&str> = text.lines().collect();
        (0..lines.len()).flat_map(|at| faults_of_line(&lines, at)).map(|(word, _)| word).collect()
    }

    #[test]
    fn tests_may_not_wait_without_a_limit_and_other_code_may() {
        for Forbidden { word, .. } in FORBIDDEN {
            let text = format!("fn waits() {{\n    a{word};\n}}\n");
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
    fn a_module_of_tests_at_the_end_of_a_file_is_checked_and_what_is_before_it_is_not() {
        let word = FORBIDDEN[0].word;
        let text = format!("{word}\n#[cfg(test)]\nmod tests {{\n    {word}\n}}\n");
        for path in ["crates/host/src/a.rs", "xtask/src/a.rs"] {
            let found = faults(path, &text);
            assert!(found.len() == 1 && found[0].starts_with(&format!("{path}:4: ")), "{found:?}");
        }
        assert_eq!(faults("clients/a.rs", &text), Vec::<String>::new());
    }

    #[test]
    fn what_has_a_limit_in_the_same_line_or_is_a_comment_is_no_fault() {
        for Forbidden { word, unless, .. } in FORBIDDEN {
            assert_eq!(words(&format!("// a{word}")), Vec::<&str>::new());
            for bound in *unless {
                assert_eq!(words(&format!("a{word}{bound}b")), Vec::<&str>::new());
            }
        }
    }

    #[test]
    fn loops_need_a_deadline() {
        let of =
            |head: &str, body: &str| words(&format!("    {head}\n        {body}\n    }}\n    deadline();\n"));
        let [endless, wait] = [LOOPS[0], LOOPS[1]];
        assert_eq!(of(endless, "look();"), [endless]);
        assert_eq!(of(&format!("let found = {endless}"), "look();"), [endless]);
        assert_eq!(of(&format!("{wait}is_there() {{"), "look();"), [wait]);
        assert_eq!(of(endless, "deadline.check(\"it is there\");"), Vec::<&str>::new());
        assert_eq!(of(&format!("{wait}is_over() {{"), "look();"), Vec::<&str>::new());
        assert_eq!(of("while let Some(next) = queue.pop() {", "take(next);"), Vec::<&str>::new());
        assert_eq!(words("while look() {}"), [EMPTY_LOOP]);
    }

    #[test]
    fn calls_that_block_are_made_in_tests_with_a_limit() {
        for word in BLOCKING {
            assert_eq!(words(&format!("node.{word})")), [*word]);
            assert_eq!(words(&format!("{WHOLE_TEST}|| {{\nnode.{word})\n}})")), Vec::<&str>::new());
        }
    }

    #[test]
    fn every_exception_is_still_one() {
        for (file, word, why) in ALLOWED {
            let text = std::fs::read_to_string(crate::root().join(file)).expect("the file exists");
            let lines: Vec<&str> = text.lines().collect();
            let first = first_test_line(Path::new(file), &lines).expect("it has tests");
            let is_used = (first..lines.len())
                .flat_map(|at| faults_of_line(&lines, at))
                .any(|(found, _)| found == *word);
            assert!(is_used, "{file} does not use '{word}' any more, which it may because {why}");
        }
    }
}
