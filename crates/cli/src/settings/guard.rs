//! Access rules, tokens, limits and the audit log, converted from the configuration file.

use std::path::PathBuf;

use meshlock::config::{AccessRule, AccessToken, Audit, Limits, Verb};
use meshlock_cluster::access::{RuleText, Verb as FileVerb};

use super::file::{ConfigSource, File, LimitsEntry, NamedToken};
use crate::output::UsageError;

/// The value of `audit` that sends audit lines to the log.
const LOG: &str = "log";

/// Returns the access rules and tokens of a file, and ignores the rest.
pub(crate) fn access_of(file: File) -> (Vec<AccessRule>, Vec<AccessToken>) {
    (access(file.access), tokens(file.tokens))
}

pub(super) fn access(rules: Vec<RuleText>) -> Vec<AccessRule> {
    let verb = |verb: &FileVerb| match verb {
        FileVerb::Acquire => Verb::Acquire,
        FileVerb::Watch => Verb::Watch,
        FileVerb::Break => Verb::Break,
        FileVerb::Admin => Verb::Admin,
    };
    let rule = |rule: RuleText| AccessRule::new(rule.principal, rule.locks, rule.verbs.iter().map(verb));
    rules.into_iter().map(rule).collect()
}

pub(super) fn tokens(tokens: Vec<NamedToken>) -> Vec<AccessToken> {
    let token = |token: NamedToken| AccessToken::new(token.name.to_string(), token.sha256.to_string());
    tokens.into_iter().map(token).collect()
}

pub(super) fn audit(said: Option<String>, source: &ConfigSource) -> Result<Audit, UsageError> {
    match said.as_deref() {
        None => Ok(Audit::Notable),
        Some(LOG) => Ok(Audit::Log),
        Some("") => Err(source.wrong("audit", "say which file, or \"log\" for the node's log")),
        Some(path) => Ok(Audit::File(source.resolve(PathBuf::from(path)))),
    }
}

pub(super) fn limits(said: LimitsEntry) -> Limits {
    fn set<T>(limit: &mut T, said: Option<T>) {
        if let Some(said) = said {
            *limit = said;
        }
    }
    let mut limits = Limits::default();
    set(&mut limits.connections, said.connections);
    set(&mut limits.sessions, said.sessions);
    set(&mut limits.locks, said.locks);
    set(&mut limits.waiters, said.waiters);
    set(&mut limits.watched_locks, said.watched_locks);
    set(&mut limits.request_bytes, said.request_bytes);
    set(&mut limits.slow_reader, said.slow_reader.map(|slow| slow.duration()));
    set(&mut limits.buffered_bytes, said.buffered_bytes);
    let each = said.each;
    set(&mut limits.each.connections, each.connections);
    set(&mut limits.each.sessions, each.sessions);
    set(&mut limits.each.locks, each.locks);
    set(&mut limits.each.waiters, each.waiters);
    set(&mut limits.each.watched_locks, each.watched_locks);
    set(&mut limits.each.watches, each.watches);
    set(&mut limits.each.buffered_bytes, each.buffered_bytes);
    set(&mut limits.each.rate, each.rate);
    set(&mut limits.each.burst, each.burst);
    limits
}
