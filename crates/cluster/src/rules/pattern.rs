//! Patterns of lock names: a whole name, or a prefix of names followed by `*`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::RulesError;
use crate::names::LockName;

/// A pattern of lock names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Pattern {
    text: String,
    kind: PatternKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum PatternKind {
    /// `jobs*`: all names with this prefix.
    Prefix,
    /// `jobs`: this name only.
    Name,
}

impl Pattern {
    /// Parses `name` or `prefix*`.
    pub fn parse(given: &str) -> Result<Self, RulesError> {
        let bad = |why| Err(RulesError::BadPattern { pattern: given.to_owned(), why });
        let (text, kind) = match given.strip_suffix('*') {
            Some(start) => (start, PatternKind::Prefix),
            None => (given, PatternKind::Name),
        };
        if text.is_empty() {
            return bad("matches every name or none; say it as the default");
        }
        if text.contains('*') {
            return bad("has a '*' that is not at its end");
        }
        if text.len() > LockName::MAX_BYTES {
            return bad("is longer than any lock name: at most 255 bytes");
        }
        Ok(Pattern { text: text.to_owned(), kind })
    }

    /// Returns the name or the prefix, without `*`.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether `name` matches.
    pub(crate) fn matches(&self, name: &str) -> bool {
        match self.kind {
            PatternKind::Prefix => name.starts_with(&self.text),
            PatternKind::Name => name == self.text,
        }
    }

    /// Returns a name that both match, if there is one; `other` must not sort before this pattern.
    pub(super) fn overlap(&self, other: &Pattern) -> Option<String> {
        self.matches(&other.text).then(|| other.text.clone())
    }
}

impl TryFrom<String> for Pattern {
    type Error = RulesError;

    fn try_from(given: String) -> Result<Self, RulesError> {
        Pattern::parse(&given)
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> String {
        pattern.to_string()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.kind == PatternKind::Prefix { "*" } else { "" };
        write!(f, "{}{star}", self.text)
    }
}
