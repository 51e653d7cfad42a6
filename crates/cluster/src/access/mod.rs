//! Who may do what: pure. One place decides for every door of a node, the wire APIs and the clients' own protocol.
//!
//! A *principal* is who somebody is: a certificate's name, a token's name, `local` for programs of this machine, `anyone` for
//! whoever shows nothing. A rule gives principals *verbs* on locks. Rules only ever give: what none gives is denied, with one
//! exception. Programs of this machine may do everything, until a rule names `local`; from then on only what such rules give.

mod bucket;
mod principal;
#[cfg(test)]
mod tests;
mod token;

use std::fmt;

use serde::Deserialize;

use crate::names::LockName;
use crate::rules::{Pattern, RulesError};
pub use bucket::{Bucket, Pace};
use principal::{ANYONE, LOCAL};
pub use principal::{ClientName, ClientNameError, Principal};
pub use token::{TokenHash, TokenHashError, Tokens, TokensError};

/// How many rules there may be.
pub const MAX_RULES: usize = 1000;

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// To have a lock: ask for it, give it back, keep a session for it.
    Acquire,
    /// To see who holds a lock and who waits for it.
    Watch,
    /// To take a lock away from its holders.
    Break,
    /// To change the cluster: its rules and who takes part. It is about no single lock.
    Admin,
}

impl Verb {
    /// As rules and the audit log have it.
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

/// A rule as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RuleText {
    /// A name, the beginning of names and `*`, or `*` for all that have one; or `local`, or `anyone`.
    pub principal: String,
    /// A lock's name, the beginning of names and `*`, or `*` for all.
    pub locks: String,
    /// What they may do with them.
    pub verbs: Vec<Verb>,
}

/// Why rules are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// A pattern is none.
    #[error("'{given}' {why}; give a name, the beginning of names followed by '*', or '*' for all")]
    Pattern {
        /// As given.
        given: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The whole cluster cannot be changed for some locks only.
    #[error("the verb admin is about the whole cluster; give it in a rule of its own with locks = \"*\"")]
    AdminOfSome,
    /// It gives nothing.
    #[error(
        "a rule without verbs gives nothing; only for 'local' that makes sense, which could do everything otherwise"
    )]
    NoVerbs,
    /// More than anyone can read.
    #[error("{0} rules; at most {MAX_RULES} are allowed: use patterns")]
    TooMany(usize),
}

/// What is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// One lock.
    Lock(&'a LockName),
    /// Whether there is any lock with which it may be done, where the lock itself is not known yet.
    Some,
    /// The cluster.
    Cluster,
}

/// Somebody may not do something. The text says why, and what an operator would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// Who.
    pub principal: Principal,
    /// What.
    pub verb: Verb,
    /// With which lock, if it was one.
    pub lock: Option<LockName>,
    /// Whether there are rules at all.
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
            Principal::Named(_) if !has_rules => f.write_str(
                ": this site has no [[access]] rules, and without them only programs of its own machine may do anything",
            )?,
            Principal::Named(_) | Principal::Local => f.write_str(": no [[access]] rule of this site gives it that")?,
        }
        let locks = lock.as_ref().map_or("*", |lock| lock.as_str());
        write!(
            f,
            "; whoever runs the site can add one to its configuration (principal = \"{principal}\", locks = \"{locks}\", \
             verbs = [\"{verb}\"]) and send it SIGHUP"
        )
    }
}

impl std::error::Error for Denied {}

/// The rules of a site. Without any, only its own machine may do something.
#[derive(Clone, Debug, Default)]
pub struct Access {
    rules: Vec<Rule>,
    /// A rule names programs of this machine: they may do what such rules give, and nothing else.
    binds_local: bool,
}

#[derive(Clone, Debug)]
struct Rule {
    who: Who,
    locks: Names,
    verbs: Vec<Verb>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Who {
    Local,
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
                "is no name"
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

impl Rule {
    fn new(text: &RuleText) -> Result<Self, AccessError> {
        let who = match text.principal.as_str() {
            LOCAL => Who::Local,
            ANYONE => Who::Anyone,
            names => Who::Named(Names::parse(names)?),
        };
        let locks = Names::parse(&text.locks)?;
        if text.verbs.is_empty() && who != Who::Local {
            return Err(AccessError::NoVerbs);
        }
        if text.verbs.contains(&Verb::Admin) && locks != Names::All {
            return Err(AccessError::AdminOfSome);
        }
        Ok(Rule { who, locks, verbs: text.verbs.clone() })
    }

    fn gives(&self, principal: &Principal, verb: Verb, subject: Subject<'_>) -> bool {
        let is_meant = match (&self.who, principal) {
            (Who::Local, Principal::Local) | (Who::Anyone, Principal::Anyone) => true,
            (Who::Named(names), Principal::Named(name)) => {
                !name.is_reserved() && names.matches(name.as_str())
            }
            (Who::Local | Who::Anyone | Who::Named(_), _) => false,
        };
        let is_about = match subject {
            Subject::Lock(lock) => self.locks.matches(lock.as_str()),
            Subject::Some => true,
            Subject::Cluster => self.locks == Names::All,
        };
        is_meant && is_about && self.verbs.contains(&verb)
    }
}

impl Access {
    /// Reads rules; what is wrong is said with the number of the rule, from zero.
    pub fn new(rules: &[RuleText]) -> Result<Self, (usize, AccessError)> {
        if rules.len() > MAX_RULES {
            return Err((MAX_RULES, AccessError::TooMany(rules.len())));
        }
        let rule = |(at, text)| Rule::new(text).map_err(|error| (at, error));
        let rules = rules.iter().enumerate().map(rule).collect::<Result<Vec<_>, _>>()?;
        let binds_local = rules.iter().any(|rule| rule.who == Who::Local);
        Ok(Access { rules, binds_local })
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether somebody may do something.
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
