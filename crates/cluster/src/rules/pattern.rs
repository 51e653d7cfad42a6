//! Patterns of lock names: a name as it is, or the beginning of names followed by `*`.

use std::fmt;

use super::RulesError;
use crate::names::LockName;

/// Which lock names a rule is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    text: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// `jobs*`: everything that begins so.
    Prefix,
    /// `jobs`: this name only.
    Name,
}

impl Pattern {
    /// Reads `name` or `beginning*`.
    pub fn parse(given: &str) -> Result<Self, RulesError> {
        let bad = |why| Err(RulesError::BadPattern { pattern: given.to_owned(), why });
        let (text, kind) = match given.strip_suffix('*') {
            Some(start) => (start, Kind::Prefix),
            None => (given, Kind::Name),
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

    /// The name, or what names begin with.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether the rule is for `name`.
    pub fn matches(&self, name: &str) -> bool {
        match self.kind {
            Kind::Prefix => name.starts_with(&self.text),
            Kind::Name => name == self.text,
        }
    }

    /// A name that both match, if there is one; `other` does not come before this one.
    pub(super) fn overlap(&self, other: &Pattern) -> Option<String> {
        self.matches(&other.text).then(|| other.text.clone())
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.kind == Kind::Prefix { "*" } else { "" };
        write!(f, "{}{star}", self.text)
    }
}
