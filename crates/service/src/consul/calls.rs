//! Parses calls under `/v1/kv/`: pure. [`KvCall`] says which lock a call is about and what it does to it.

use std::time::Duration;

use axum::http::Method;
use meshlock_cluster::names::LockName;

use super::duration;
use super::errors::ConsulError;
use super::names::{KeyPath, lock_of_prefix};

/// How long a blocking query waits by default, and at most.
const DEFAULT_WAIT: Duration = Duration::from_mins(5);
const MAX_WAIT: Duration = Duration::from_mins(10);

/// A call: the lock that it is about ([`KeyPath::lock`]), and what it does to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KvCall {
    Read {
        target: ReadTarget,
        format: ReadFormat,
        waits: Option<Waits>,
    },
    Write {
        key: String,
        path: KeyPath,
        write: KvWrite,
    },
    /// Deletes all keys with a prefix, which is that of a lock.
    DeleteTree {
        prefix: String,
        lock: LockName,
    },
}

/// What a call reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReadTarget {
    Key {
        key: String,
        path: KeyPath,
    },
    /// All keys with this prefix.
    Tree {
        prefix: String,
    },
}

/// What a call changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KvWrite {
    Acquire {
        session: String,
        flags: u64,
    },
    Release {
        session: String,
    },
    /// Sets the value if the key has this index.
    Change {
        index: u64,
    },
    /// Deletes the key; if an index is given, only if the key has it.
    Delete {
        index: Option<u64>,
    },
}

/// The format of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReadFormat {
    Entries,
    Raw,
    /// Only names, each cut after the first separator that follows the prefix.
    Names {
        separator: String,
    },
}

/// How a blocking query waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waits {
    /// Waits until the state has another index than this.
    pub(super) index: u64,
    pub(super) wait: Duration,
}

/// The query parameters.
pub(super) struct Parameters(pub(super) Vec<(String, String)>);

impl Parameters {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the value of a numeric parameter, if it is given.
    fn number(&self, name: &str) -> Result<Option<u64>, ConsulError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.parse().map_err(|_| {
            ConsulError::bad(format!("?{name}={text:.40} is not a number from 0 to {}", u64::MAX))
        })?;
        Ok(Some(number))
    }

    /// Refuses parameters that contradict each other.
    fn one_of(&self, names: &[&str]) -> Result<(), ConsulError> {
        let given: Vec<&str> = names.iter().copied().filter(|name| self.has(name)).collect();
        if given.len() > 1 {
            return Err(ConsulError::bad(format!(
                "Conflicting flags: {}; give one of them",
                given.join(", ")
            )));
        }
        Ok(())
    }

    /// Returns how long to wait, if the call is a blocking query.
    pub(super) fn waits(&self) -> Result<Option<Waits>, ConsulError> {
        if self.has("stale") && self.has("consistent") {
            return Err(ConsulError::bad("Cannot specify ?stale with ?consistent, conflicting semantics."));
        }
        let index = match self.get("index") {
            Some(index) => index.parse().map_err(|_| ConsulError::bad("Invalid index: give a number"))?,
            None => 0,
        };
        let wait = match self.get("wait") {
            Some(wait) => duration::read(wait)
                .ok_or_else(|| ConsulError::bad("Invalid wait time: give a duration such as 10s"))?,
            None => meshlock_cluster::time::Span::ZERO,
        };
        let wait = match Duration::from_micros(wait.micros()) {
            Duration::ZERO => DEFAULT_WAIT,
            wait => wait.min(MAX_WAIT),
        };
        Ok((index > 0).then_some(Waits { index, wait }))
    }
}

impl KvCall {
    /// Parses a request.
    pub(super) fn read(method: &Method, key: &str, given: &Parameters) -> Result<Self, ConsulError> {
        match method.as_str() {
            "GET" => KvCall::reads(key, given),
            "PUT" => {
                given.one_of(&["cas", "acquire", "release"])?;
                let flags = given.number("flags")?.unwrap_or(0);
                let write = if let Some(session) = given.get("acquire") {
                    KvWrite::Acquire { session: session.to_owned(), flags }
                } else if let Some(session) = given.get("release") {
                    KvWrite::Release { session: session.to_owned() }
                } else if let Some(index) = given.number("cas")? {
                    KvWrite::Change { index }
                } else {
                    return Err(ConsulError::not_a_lock(
                        "a value is put under a key without ?acquire=SESSION",
                    ));
                };
                KvCall::write(key, write)
            }
            "DELETE" => {
                given.one_of(&["recurse", "cas"])?;
                if given.has("recurse") {
                    let prefix = key.to_owned();
                    let lock = lock_of_prefix(key).ok_or_else(|| {
                        ConsulError::not_a_lock("all keys with a prefix that is no lock's name are deleted")
                    })?;
                    return Ok(KvCall::DeleteTree { prefix, lock });
                }
                KvCall::write(key, KvWrite::Delete { index: given.number("cas")? })
            }
            other => Err(ConsulError::new(
                axum::http::StatusCode::METHOD_NOT_ALLOWED,
                format!("method {other} not allowed; use GET, PUT or DELETE"),
            )),
        }
    }

    fn reads(key: &str, given: &Parameters) -> Result<Self, ConsulError> {
        let waits = given.waits()?;
        let tree = || ReadTarget::Tree { prefix: key.to_owned() };
        let (target, format) = if given.has("keys") {
            let separator = given.get("separator").or_else(|| given.get("seperator"));
            (tree(), ReadFormat::Names { separator: separator.unwrap_or_default().to_owned() })
        } else if given.has("recurse") {
            (tree(), ReadFormat::Entries)
        } else {
            let format = if given.has("raw") { ReadFormat::Raw } else { ReadFormat::Entries };
            (ReadTarget::Key { key: key.to_owned(), path: path(key)? }, format)
        };
        Ok(KvCall::Read { target, format, waits })
    }

    fn write(key: &str, write: KvWrite) -> Result<Self, ConsulError> {
        Ok(KvCall::Write { key: key.to_owned(), path: path(key)?, write })
    }
}

fn path(key: &str) -> Result<KeyPath, ConsulError> {
    if key.is_empty() {
        return Err(ConsulError::bad("Missing key name"));
    }
    let named = KeyPath::of(key);
    named.map_err(|error| {
        ConsulError::bad(format!("{error}; a key here is the name of a lock, text of 1 to 255 bytes"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, key: &str, given: &[(&str, &str)]) -> Result<KvCall, ConsulError> {
        let given = given.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        KvCall::read(&Method::from_bytes(method.as_bytes()).unwrap(), key, &Parameters(given))
    }

    fn act(method: &str, given: &[(&str, &str)]) -> KvWrite {
        match call(method, "jobs", given) {
            Ok(KvCall::Write { write, .. }) => write,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_call_says_which_lock_it_is_about_and_what_it_does() {
        let session = || "S".to_owned();
        assert_eq!(
            act("PUT", &[("acquire", "S"), ("flags", "7")]),
            KvWrite::Acquire { session: session(), flags: 7 }
        );
        assert_eq!(act("PUT", &[("release", "S"), ("dc", "dc1")]), KvWrite::Release { session: session() });
        assert_eq!(act("PUT", &[("cas", "0")]), KvWrite::Change { index: 0 });
        assert_eq!(act("DELETE", &[]), KvWrite::Delete { index: None });
        assert_eq!(act("DELETE", &[("cas", "9")]), KvWrite::Delete { index: Some(9) });
        let tree = KvCall::DeleteTree { prefix: "jobs/".to_owned(), lock: "jobs".parse().unwrap() };
        assert_eq!(call("DELETE", "jobs/", &[("recurse", "")]), Ok(tree));
        let read = call("GET", "jobs/.lock", &[]);
        let Ok(KvCall::Read { target: ReadTarget::Key { path, .. }, .. }) = read else { panic!("{read:?}") };
        assert_eq!(path.lock().as_str(), "jobs");
    }

    #[test]
    fn a_read_waits_only_with_an_index_and_not_longer_than_consul_does() {
        let waits = |given: &[(&str, &str)]| match call("GET", "jobs", given) {
            Ok(KvCall::Read { waits, .. }) => waits.map(|Waits { index, wait }| (index, wait.as_secs())),
            other => panic!("{other:?}"),
        };
        assert_eq!(waits(&[]), None);
        assert_eq!(waits(&[("wait", "10s")]), None);
        assert_eq!(waits(&[("index", "0"), ("wait", "10s")]), None);
        assert_eq!(waits(&[("index", "5")]), Some((5, 300)));
        assert_eq!(waits(&[("index", "5"), ("wait", "15000ms")]), Some((5, 15)));
        assert_eq!(waits(&[("index", "5"), ("wait", "48h")]), Some((5, 600)));
    }

    #[test]
    fn what_is_no_lock_s_call_is_refused_with_the_reason() {
        for (method, key, given, status, words) in [
            ("PUT", "a", &[][..], 501, "Meshlock keeps locks, not data"),
            ("DELETE", "", &[("recurse", "")], 501, "docs/consul.md"),
            ("DELETE", "a", &[("recurse", ""), ("cas", "1")], 400, "Conflicting flags"),
            ("PUT", "a", &[("acquire", "1"), ("release", "2")], 400, "Conflicting flags"),
            ("PUT", "a", &[("cas", "x")], 400, "?cas=x is not a number"),
            ("PUT", "a", &[("acquire", "S"), ("flags", "-1")], 400, "?flags=-1 is not a number"),
            ("GET", "a", &[("index", "x")], 400, "Invalid index"),
            ("GET", "a", &[("index", "1"), ("wait", "x")], 400, "Invalid wait time"),
            ("GET", "a", &[("stale", ""), ("consistent", "")], 400, "conflicting semantics"),
            ("GET", "", &[], 400, "Missing key name"),
            ("PATCH", "a", &[], 405, "not allowed"),
        ] {
            let fault = call(method, key, given).unwrap_err();
            assert_eq!(fault.status.as_u16(), status, "{fault:?}");
            assert!(fault.message.contains(words), "{fault:?}");
        }
        assert!(call("GET", &"x".repeat(256), &[]).unwrap_err().message.contains("at most 255"));
    }
}
