//! Rules as JSON: what `meshlock rules show --json` and `meshlock backup` write, and what can be loaded.

use std::fs::File;
use std::path::Path;

use meshlock_cluster::rules::{Clause, Rules, RulesText};
use serde::{Deserialize, Serialize};

use crate::output::{UsageError, read_text};

/// Largest file of rules that is read, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleDocument {
    pattern: String,
    algorithm: String,
    permits: u32,
    per_site: u32,
}

/// What `meshlock rules show --json` writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RulesDocument {
    /// The view whose rules they were. It does not matter where they are loaded.
    #[serde(default)]
    pub(super) epoch: u32,
    pub(super) rules: Vec<RuleDocument>,
}

impl RuleDocument {
    /// Returns all rules, with that for all other locks at the end.
    pub(super) fn all(rules: &RulesText) -> Vec<Self> {
        let named = rules.rules.iter().map(|(pattern, clause)| (pattern.as_str(), clause));
        let document = |(pattern, clause): (&str, &Clause)| {
            let Clause { algorithm, permits, per_site } = clause.clone();
            RuleDocument { pattern: pattern.to_owned(), algorithm, permits, per_site }
        };
        named.chain([("*", &rules.default)]).map(document).collect()
    }
}

/// Returns the rules that a document lists. Exactly one must be for all other locks, and none may be there twice.
pub(super) fn rules(documents: Vec<RuleDocument>) -> Result<RulesText, String> {
    let mut named: Vec<(String, Clause)> = Vec::new();
    let mut default = None;
    for RuleDocument { pattern, algorithm, permits, per_site } in documents {
        let clause = Clause { algorithm, permits, per_site };
        let is_twice = if pattern == "*" {
            default.replace(clause).is_some()
        } else {
            let is_twice = named.iter().any(|(known, _)| *known == pattern);
            named.push((pattern.clone(), clause));
            is_twice
        };
        if is_twice {
            return Err(format!("there are two rules for '{pattern}'; remove one of them"));
        }
    }
    let default = default.ok_or("there is no rule for '*', which stands for all other locks; add one")?;
    let rules = RulesText { rules: named, default };
    Rules::new(rules.clone()).map_err(|error| error.to_string())?;
    Ok(rules)
}

/// Reads a file that `meshlock rules show --json` has written.
pub(super) fn read(path: &Path) -> Result<RulesText, UsageError> {
    let wrong = |why: String| UsageError::new(format!("{}: {why}", path.display()));
    let text = File::open(path).and_then(|file| read_text(file, MAX_BYTES));
    let text = text.map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let document: RulesDocument = serde_json::from_str(&text).map_err(|error| {
        wrong(format!("these are not rules as `meshlock rules show --json` writes them: {error}"))
    })?;
    rules(document.rules).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(pattern: &str, algorithm: &str) -> RuleDocument {
        RuleDocument { pattern: pattern.to_owned(), algorithm: algorithm.to_owned(), permits: 1, per_site: 1 }
    }

    #[test]
    fn rules_read_back_as_they_were() {
        let text = RulesText {
            rules: vec![("jobs/*".to_owned(), Clause::exclusive("raymond"))],
            default: Clause::exclusive("naimi-trehel"),
        };
        assert_eq!(rules(RuleDocument::all(&text)), Ok(text));
    }

    #[test]
    fn rules_that_cannot_be_are_refused_with_the_reason() {
        let refused = |documents: &[RuleDocument]| rules(documents.to_vec()).unwrap_err();
        assert!(refused(&[]).contains("no rule for '*'"));
        let all = document("*", "naimi-trehel");
        assert!(refused(&[all.clone(), all.clone()]).contains("two rules for '*'"));
        let jobs = document("jobs", "raymond");
        assert!(refused(&[jobs.clone(), jobs, all.clone()]).contains("two rules for 'jobs'"));
        assert!(refused(&[document("jobs", "paxos"), all]).contains("paxos"));
    }
}
