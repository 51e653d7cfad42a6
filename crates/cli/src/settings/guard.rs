//! Who may do what, how much, and where it is written down: as the configuration says it.

use std::path::PathBuf;

use meshlock_cluster::access::{Access, Pace, RuleText, Tokens};
use meshlock_host::gate::{Each, Place, Policy};
use meshlock_service::{EachClient, Limits};

use super::file::{File, LimitsEntry, NamedToken, Source};
use crate::output::Usage;

/// The one word that sends audit lines to the log.
const LOG: &str = "log";

/// The rules and tokens that a file has; the rest of it is not looked at.
pub(crate) fn policy_of(file: File, source: &Source) -> Result<Policy, Usage> {
    policy(&file.access, file.tokens, source)
}

pub(super) fn policy(access: &[RuleText], tokens: Vec<NamedToken>, source: &Source) -> Result<Policy, Usage> {
    let access =
        Access::new(access).map_err(|(at, error)| source.wrong(&format!("access[{}]", at + 1), error))?;
    let tokens = tokens.into_iter().map(|token| (token.name, token.sha256)).collect();
    let tokens =
        Tokens::new(tokens).map_err(|(at, error)| source.wrong(&format!("tokens[{}]", at + 1), error))?;
    Ok(Policy { access, tokens })
}

pub(super) fn audit(said: Option<String>, source: &Source) -> Result<Place, Usage> {
    match said.as_deref() {
        None => Ok(Place::Notable),
        Some(LOG) => Ok(Place::Log),
        Some("") => Err(source.wrong("audit", "say which file, or \"log\"")),
        Some(path) => Ok(Place::File(source.resolve(PathBuf::from(path)))),
    }
}

pub(super) fn limits(said: LimitsEntry, source: &Source) -> Result<(Limits, Each), Usage> {
    let (all, each) = (Limits::default(), Each::default());
    let count = |key: &str, said: Option<usize>, default: usize| match said {
        Some(0) => Err(source.wrong(&format!("limits.{key}"), "give 1 or more")),
        Some(most) => Ok(most),
        None => Ok(default),
    };
    let pace = |key: &str, said: Option<u32>, default: u32| match said {
        Some(0) => Err(source.wrong(&format!("limits.each.{key}"), "give 1 or more")),
        Some(most) => Ok(most),
        None => Ok(default),
    };
    let slow_reader = said.slow_reader.map_or(all.slow_reader, |slow| slow.duration());
    if slow_reader.is_zero() {
        return Err(source.wrong("limits.slow_reader", "give a moment at least, such as '1s'"));
    }
    let one = said.each;
    let limits = Limits {
        connections: count("connections", said.connections, all.connections)?,
        sessions: count("sessions", said.sessions, all.sessions)?,
        keys: count("locks", said.locks, all.keys)?,
        waiters_of_a_lock: count("waiters", said.waiters, all.waiters_of_a_lock)?,
        watched_locks: count("watched_locks", said.watched_locks, all.watched_locks)?,
        request_bytes: count("request_bytes", said.request_bytes, all.request_bytes)?,
        slow_reader,
        each: EachClient {
            sessions: count("each.sessions", one.sessions, all.each.sessions)?,
            keys: count("each.locks", one.locks, all.each.keys)?,
            waiters_of_a_lock: count("each.waiters", one.waiters, all.each.waiters_of_a_lock)?,
            watched_locks: count("each.watched_locks", one.watched_locks, all.each.watched_locks)?,
        },
    };
    let pace = Pace {
        rate: pace("rate", one.rate, each.pace.rate)?,
        burst: pace("burst", one.burst, each.pace.burst)?,
    };
    Ok((limits, Each { connections: count("each.connections", one.connections, each.connections)?, pace }))
}
