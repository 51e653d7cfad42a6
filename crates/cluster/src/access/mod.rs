//! Access control: who may do what. It is pure, and the one place that decides for every entry point of a node: the
//! wire APIs and the clients' own protocol.
//!
//! A *principal* says who a caller is: a certificate's name, a token's name, `local` for programs of this machine,
//! `uid:1000` for those of another user who come over the node's socket, or `anyone` for a caller that shows neither
//! certificate nor token. A rule grants principals *verbs* on locks. Rules
//! only grant: whatever no rule grants is denied, with one exception. Programs of this machine may do everything until
//! a rule names `local`; from then on they may do only what such rules grant.

mod bucket;
mod document;
mod principal;
mod restoring;
#[cfg(test)]
mod tests;
mod token;

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names::{LockName, fnv_1a};
use crate::rules::{Pattern, RulesError};
pub use bucket::{Bucket, Pace};
pub use document::{
    AccessDocument, Admission, AdmittedSite, AgreedAccess, AgreedLimits, AgreedToken, DocumentError,
    JoinRefusal, JoinToken, MAX_DOCUMENT_BYTES, ShownToken,
};
use principal::{ANYONE, LOCAL, USER};
pub use principal::{ClientName, ClientNameError, Principal};
pub use token::{KnownToken, TokenHash, TokenHashError, Tokens, TokensError};

/// Maximum number of access rules.
pub(crate) const MAX_RULES: usize = 1000;

/// A kind of action that access rules grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Acquire and release a lock, and keep a session for it.
    Acquire,
    /// See who holds a lock and who waits for it.
    Watch,
    /// Take a lock away from its holders.
    Break,
    /// Change the cluster: its rules and its members. This verb is not about a single lock.
    Admin,
}

impl Verb {
    /// Returns the name that rules and the audit log use.
    pub const fn name(self) -> &'static str {
        match self {
            Verb::Acquire => "acquire",
            Verb::Watch => "watch",
            Verb::Break => "break",
            Verb::Admin => "admin",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An access rule as the configuration has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RuleText {
    /// A name, a prefix of names followed by `*`, or `*` for every named principal; or `local`, `anyone`, `uid:` and the number of a
    /// user, or `uid:*` for every user of this machine.
    pub principal: String,
    /// A lock's name, a prefix of names followed by `*`, or `*` for all locks.
    pub locks: String,
    pub verbs: Vec<Verb>,
}

/// The reason why access rules are rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// A pattern is malformed.
    #[error("'{given}' {why}; give a name, the beginning of names followed by '*', or '*' for all")]
    Pattern { given: String, why: &'static str },
    /// `uid:` is followed by something else than the number of a user.
    #[error(
        "'{given}' is not a user; give uid: and the number that `id -u` prints, or uid:* for all users of this machine"
    )]
    User { given: String },
    /// `admin` was granted for some locks only, but it is about the whole cluster.
    #[error("the verb admin is about the whole cluster; give it in a rule of its own with locks = \"*\"")]
    AdminOfSome,
    /// The rule has no verbs, so it grants nothing.
    #[error(
        "a rule without verbs gives nothing; only for 'local' that makes sense, which could do everything otherwise"
    )]
    NoVerbs,
    #[error("{0} rules; at most {MAX_RULES} are allowed: use patterns")]
    TooMany(usize),
}

/// What a permission is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    Lock(&'a LockName),
    /// Any lock at all: used where the lock itself is not known yet.
    Some,
    Cluster,
}

/// A denied permission. Its text says why, and what an operator can change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    principal: Principal,
    verb: Verb,
    /// The lock it was asked for, if it was about one.
    pub lock: Option<LockName>,
    /// Whether this site has any access rules.
    has_rules: bool,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Denied { principal, verb, lock, has_rules } = self;
        write!(f, "'{principal}' may not {verb}")?;
        if let Some(lock) = lock {
            write!(f, " '{lock}'")?;
        }
        match principal {
            Principal::Named(name) if name.is_reserved() => {
                return f.write_str(": the name means something else in rules; use a certificate or token of another name");
            }
            Principal::Anyone => f.write_str(": it has shown neither a certificate nor a token")?,
            Principal::Named(_) | Principal::User(_) if !has_rules => f.write_str(
                ": this site has no [[access]] rules, and without them only programs of its own machine may do anything",
            )?,
            Principal::Named(_) | Principal::User(_) | Principal::Local => f.write_str(": no [[access]] rule of this site gives it that")?,
        }
        let locks = lock.as_ref().map_or_else(|| "*".to_owned(), LockName::to_string);
        write!(
            f,
            "; whoever runs the site can add a rule to its configuration (principal = \"{principal}\", locks = \"{locks}\", \
             verbs = [\"{verb}\"]) and send it SIGHUP"
        )
    }
}

impl std::error::Error for Denied {}

/// The access rules of a site. Without any, only programs of its own machine may do anything.
#[derive(Clone, Debug, Default)]
pub struct Access {
    rules: Vec<ParsedRule>,
    /// Whether a rule names `local`: then programs of this machine may do only what such rules grant.
    binds_local: bool,
    fingerprint: u64,
}

#[derive(Clone, Debug)]
struct ParsedRule {
    who: Who,
    locks: Names,
    verbs: Vec<Verb>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Who {
    Local,
    /// This user of the machine, or all of them.
    User(Option<u32>),
    Anyone,
    Named(Names),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    All,
    Like(Pattern),
}

impl Names {
    fn parse(given: &str) -> Result<Self, AccessError> {
        if given == "*" {
            return Ok(Names::All);
        }
        Pattern::parse(given).map(Names::Like).map_err(|error| {
            let why = if let RulesError::BadPattern { why, .. } = error
                && !given.is_empty()
            {
                why
            } else {
                "is not a name"
            };
            AccessError::Pattern { given: given.chars().take(80).collect(), why }
        })
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Names::All => true,
            Names::Like(pattern) => pattern.matches(name),
        }
    }
}

/// Parses what follows `uid:`: the number of a user, or `*` for all.
fn user_in(given: &str) -> Result<Option<u32>, AccessError> {
    if given == "*" {
        return Ok(None);
    }
    // Digits only: `u32` would accept a sign.
    let number = given.parse().ok().filter(|_| given.bytes().all(|digit| digit.is_ascii_digit()));
    number.map(Some).ok_or_else(|| AccessError::User { given: given.chars().take(80).collect() })
}

impl ParsedRule {
    fn new(text: &RuleText) -> Result<Self, AccessError> {
        let who = match text.principal.as_str() {
            LOCAL => Who::Local,
            ANYONE => Who::Anyone,
            other => match other.strip_prefix(USER) {
                Some(user) => Who::User(user_in(user)?),
                None => Who::Named(Names::parse(other)?),
            },
        };
        let locks = Names::parse(&text.locks)?;
        if text.verbs.is_empty() && who != Who::Local {
            return Err(AccessError::NoVerbs);
        }
        if text.verbs.contains(&Verb::Admin) && locks != Names::All {
            return Err(AccessError::AdminOfSome);
        }
        Ok(ParsedRule { who, locks, verbs: text.verbs.clone() })
    }

    fn gives(&self, principal: &Principal, verb: Verb, subject: Subject<'_>) -> bool {
        let is_meant = match (&self.who, principal) {
            (Who::Local, Principal::Local) | (Who::Anyone, Principal::Anyone) => true,
            (Who::User(meant), Principal::User(user)) => meant.is_none_or(|meant| meant == *user),
            (Who::Named(names), Principal::Named(name)) => {
                !name.is_reserved() && names.matches(name.as_str())
            }
            (Who::Local | Who::User(_) | Who::Anyone | Who::Named(_), _) => false,
        };
        let is_about = match subject {
            Subject::Lock(lock) => self.locks.matches(lock.as_str()),
            Subject::Some => true,
            Subject::Cluster => self.locks == Names::All,
        };
        is_meant && is_about && self.verbs.contains(&verb)
    }
}

/// Returns a hash of entries that does not depend on their order.
fn hash_of(entries: impl Iterator<Item = String>) -> u64 {
    let entries: BTreeSet<String> = entries.collect();
    if entries.is_empty() {
        return 0;
    }
    fnv_1a(entries.iter().flat_map(|entry| entry.bytes().chain([0])))
}

impl Access {
    /// Parses the rules. An error comes with the index of the rule it is about.
    pub fn new(rules: &[RuleText]) -> Result<Self, (usize, AccessError)> {
        if rules.len() > MAX_RULES {
            return Err((MAX_RULES, AccessError::TooMany(rules.len())));
        }
        let fingerprint = hash_of(rules.iter().map(|RuleText { principal, locks, verbs }| {
            let mut verbs: Vec<&str> = verbs.iter().map(|verb| verb.name()).collect();
            verbs.sort_unstable();
            format!("{principal}\n{locks}\n{}", verbs.join(" "))
        }));
        let rule = |(at, text)| ParsedRule::new(text).map_err(|error| (at, error));
        let rules = rules.iter().enumerate().map(rule).collect::<Result<Vec<_>, _>>()?;
        let binds_local = rules.iter().any(|rule| rule.who == Who::Local);
        Ok(Access { rules, binds_local, fingerprint })
    }

    /// Returns a hash of the rules, whatever their order, by which sites with different rules can be told apart. It protects against
    /// mistakes, not against attackers.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the rules of both. Rules only grant, so that their order does not matter.
    #[must_use]
    pub fn joined(mut self, other: Access) -> Self {
        self.rules.extend(other.rules);
        self.binds_local |= other.binds_local;
        self
    }

    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the patterns of the locks with which `principal` may do `verb`; `None` if it may with all.
    pub fn patterns(&self, principal: &Principal, verb: Verb) -> Option<Vec<Pattern>> {
        if *principal == Principal::Local && !self.binds_local {
            return None;
        }
        let mut patterns = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.gives(principal, verb, Subject::Some)) {
            match &rule.locks {
                Names::All => return None,
                Names::Like(pattern) => patterns.push(pattern.clone()),
            }
        }
        patterns.sort();
        patterns.dedup();
        Some(patterns)
    }

    /// Checks whether `principal` may do `verb` with `subject`.
    pub fn check(&self, principal: &Principal, verb: Verb, subject: Subject<'_>) -> Result<(), Denied> {
        let is_free = *principal == Principal::Local && !self.binds_local;
        if is_free || self.rules.iter().any(|rule| rule.gives(principal, verb, subject)) {
            return Ok(());
        }
        let lock = match subject {
            Subject::Lock(lock) => Some(lock.clone()),
            Subject::Some | Subject::Cluster => None,
        };
        Err(Denied { principal: principal.clone(), verb, lock, has_rules: !self.rules.is_empty() })
    }
}
