//! What must come out of each test of others: `interop/others/expected.txt`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use super::Outcome;

/// The list of tests.
pub(super) const EXPECTED: &str = "interop/others/expected.txt";

/// What must come out of a test, and why if it does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expectation {
    Passes,
    /// It passes, or skips itself where the machine is slow.
    PassesOrSkips(String),
    /// It fails because it stores data of its own.
    StoresData(String),
    /// It fails because Meshlock behaves otherwise on purpose.
    Differs(String),
    /// It is skipped, by its authors or because its set-up is not possible here.
    Skips(String),
}

impl Expectation {
    /// Returns whether a run of the test may come to this.
    pub(super) fn allows(&self, outcome: Outcome) -> bool {
        match self {
            Expectation::Passes => outcome == Outcome::Passed,
            Expectation::PassesOrSkips(_) => outcome != Outcome::Failed,
            Expectation::StoresData(_) | Expectation::Differs(_) => outcome == Outcome::Failed,
            Expectation::Skips(_) => outcome == Outcome::Skipped,
        }
    }
}

/// All suites with their tests.
#[derive(Debug, Default)]
pub(super) struct Expected(BTreeMap<String, BTreeMap<String, Expectation>>);

impl Expected {
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let text =
            fs::read_to_string(root.join(EXPECTED)).with_context(|| format!("cannot read {EXPECTED}"))?;
        Expected::parse(&text)
    }

    /// Reads lines `suite test verdict reason`; the reason is the rest of the line. Lines that begin with `#` are comments.
    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut all = Expected::default();
        for (at, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            let (Some(suite), Some(test), Some(verdict)) = (words.next(), words.next(), words.next()) else {
                bail!("{EXPECTED}:{}: a line has a suite, a test and a verdict", at + 1);
            };
            let reason = words.collect::<Vec<_>>().join(" ");
            let verdict = match (verdict, reason.is_empty()) {
                ("passes", true) => Expectation::Passes,
                ("mostly", false) => Expectation::PassesOrSkips(reason),
                ("data", false) => Expectation::StoresData(reason),
                ("differs", false) => Expectation::Differs(reason),
                ("skips", false) => Expectation::Skips(reason),
                _ => bail!(
                    "{EXPECTED}:{}: a verdict is 'passes', or 'mostly', 'data', 'differs' or 'skips' with a reason",
                    at + 1
                ),
            };
            let suite = all.0.entry(suite.to_owned()).or_default();
            if suite.insert(test.to_owned(), verdict).is_some() {
                bail!("{EXPECTED}:{}: {test} is listed twice", at + 1);
            }
        }
        Ok(all)
    }

    /// Returns the suites in the order of their names.
    pub(super) fn suites(&self) -> impl Iterator<Item = (&str, &BTreeMap<String, Expectation>)> {
        self.0.iter().map(|(name, tests)| (name.as_str(), tests))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_mistakes_are_named() {
        let all = Expected::parse("# a comment\n\ns one passes\ns two data puts a key\n").unwrap();
        let [(suite, tests)] = all.suites().collect::<Vec<_>>().try_into().unwrap();
        assert_eq!((suite, tests["two"].clone()), ("s", Expectation::StoresData("puts a key".to_owned())));
        for (text, error) in [
            ("s one", ":1: a line has a suite, a test and a verdict"),
            ("s one fine", ":1: a verdict is 'passes'"),
            ("s one differs", ":1: a verdict is 'passes'"),
            ("s one passes\ns one passes", ":2: one is listed twice"),
        ] {
            let said = Expected::parse(text).unwrap_err().to_string();
            assert!(said.contains(error), "{said}");
        }
    }
}
