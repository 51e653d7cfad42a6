//! Access rules, tokens, limits and the audit log, converted from the configuration file.

use std::path::PathBuf;

use meshlock::config::{AccessRule, AccessToken, Audit, Limits, Verb};
use meshlock::{Tls, TlsError};
use meshlock_cluster::access::{RuleText, Verb as FileVerb};
use meshlock_tls::Files;

use super::file::{ConfigSource, File, LimitsEntry, NamedToken, TlsEntry};
use crate::output::UsageError;

/// The value of `audit` that sends audit lines to the log.
const LOG: &str = "log";

/// What a running node reads again from its file.
pub(crate) struct Replaceable {
    pub(crate) access: Vec<AccessRule>,
    pub(crate) tokens: Vec<AccessToken>,
    pub(crate) revoked: Vec<String>,
    /// `None` without TLS.
    pub(crate) tls: Option<TlsFiles>,
}

/// Returns what a running node reads again, and ignores the rest.
pub(crate) fn replaceable(file: File, source: &ConfigSource) -> Replaceable {
    Replaceable {
        access: access(file.access),
        tokens: tokens(file.tokens),
        revoked: file.revoked,
        tls: file.tls.and_then(|entry| entry.files(source)),
    }
}

/// The three files of `[tls]`.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
}

impl TlsFiles {
    /// Returns the paths of the files.
    pub(super) fn paths(&self) -> Files {
        Files { authority: self.ca.clone(), certificate: self.cert.clone(), key: self.key.clone() }
    }

    /// Reads the files.
    pub(crate) fn read(&self) -> Result<Tls, TlsError> {
        Tls::from_files(&self.ca, &self.cert, &self.key)
    }
}

impl TlsEntry {
    /// Returns the files; `None` if connections are not protected.
    pub(super) fn files(self, source: &ConfigSource) -> Option<TlsFiles> {
        match self {
            TlsEntry::Off(_) => None,
            TlsEntry::Files { ca, cert, key } => Some(TlsFiles {
                ca: source.resolve(ca),
                cert: source.resolve(cert),
                key: source.resolve(key),
            }),
        }
    }
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
    let token = |token: NamedToken| {
        let known = AccessToken::new(token.name.to_string(), token.sha256.to_string());
        match token.expires {
            Some(end) => known.expires(end.0),
            None => known,
        }
    };
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
