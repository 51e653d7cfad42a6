//! What a call under `/v1/kv/` means: pure. All of them pass through [`KvCall`], which says which lock a call is about and what it
//! does to it.

use std::time::Duration;

use axum::http::Method;

use super::duration;
use super::errors::Fault;
use super::names::Place;

/// How long a call waits for a change if it does not say, and at most.
const WAIT: Duration = Duration::from_mins(5);
const LONGEST_WAIT: Duration = Duration::from_mins(10);

/// A call: which lock it is about ([`Place::lock`]), and what it does to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KvCall {
    Read { about: About, shown: Shown, waits: Option<Waits> },
    Write { key: String, place: Place, write: Write },
}

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum About {
    Key {
        key: String,
        place: Place,
    },
    /// All keys that begin so.
    Tree {
        prefix: String,
    },
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Write {
    Acquire {
        session: String,
        flags: u64,
    },
    Release {
        session: String,
    },
    /// Sets the value, if the key's index is this.
    Change {
        index: u64,
    },
    /// Only if the key's index is this, where one is given.
    Delete {
        index: Option<u64>,
    },
}

/// How what is read is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Entries,
    /// Only the value.
    Raw,
    /// Only names, each up to the first separator behind the prefix.
    Names {
        separator: String,
    },
}

/// Until when a read waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waits {
    /// Something is different from what it was when this was its number.
    pub(super) index: u64,
    pub(super) wait: Duration,
}

/// What stands behind the question mark.
pub(super) struct Parameters(pub(super) Vec<(String, String)>);

impl Parameters {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// A number, if it is given.
    fn number(&self, name: &str) -> Result<Option<u64>, Fault> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text
            .parse()
            .map_err(|_| Fault::bad(format!("?{name}={text:.40} is not a number from 0 to {}", u64::MAX)))?;
        Ok(Some(number))
    }

    /// Refuses what says two things at once.
    fn one_of(&self, names: &[&str]) -> Result<(), Fault> {
        let given: Vec<&str> = names.iter().copied().filter(|name| self.has(name)).collect();
        if given.len() > 1 {
            return Err(Fault::bad(format!("Conflicting flags: {}; give one of them", given.join(", "))));
        }
        Ok(())
    }

    /// Until when a read waits, if it does.
    pub(super) fn waits(&self) -> Result<Option<Waits>, Fault> {
        if self.has("stale") && self.has("consistent") {
            return Err(Fault::bad("Cannot specify ?stale with ?consistent, conflicting semantics."));
        }
        let index = match self.get("index") {
            Some(index) => index.parse().map_err(|_| Fault::bad("Invalid index: give a number"))?,
            None => 0,
        };
        let wait = match self.get("wait") {
            Some(wait) => duration::read(wait)
                .ok_or_else(|| Fault::bad("Invalid wait time: give a duration such as 10s"))?,
            None => meshlock_cluster::time::Span::ZERO,
        };
        let wait = match Duration::from_micros(wait.micros()) {
            Duration::ZERO => WAIT,
            wait => wait.min(LONGEST_WAIT),
        };
        Ok((index > 0).then_some(Waits { index, wait }))
    }
}

impl KvCall {
    /// What a request asks for.
    pub(super) fn read(method: &Method, key: &str, given: &Parameters) -> Result<Self, Fault> {
        match method.as_str() {
            "GET" => KvCall::reads(key, given),
            "PUT" => {
                given.one_of(&["cas", "acquire", "release"])?;
                let flags = given.number("flags")?.unwrap_or(0);
                let write = if let Some(session) = given.get("acquire") {
                    Write::Acquire { session: session.to_owned(), flags }
                } else if let Some(session) = given.get("release") {
                    Write::Release { session: session.to_owned() }
                } else if let Some(index) = given.number("cas")? {
                    Write::Change { index }
                } else {
                    return Err(Fault::not_a_lock("a value is put under a key without ?acquire=SESSION"));
                };
                KvCall::write(key, write)
            }
            "DELETE" => {
                given.one_of(&["recurse", "cas"])?;
                if given.has("recurse") {
                    return Err(Fault::not_a_lock("all keys that begin so are deleted"));
                }
                KvCall::write(key, Write::Delete { index: given.number("cas")? })
            }
            other => Err(Fault::new(
                axum::http::StatusCode::METHOD_NOT_ALLOWED,
                format!("method {other} not allowed; use GET, PUT or DELETE"),
            )),
        }
    }

    fn reads(key: &str, given: &Parameters) -> Result<Self, Fault> {
        let waits = given.waits()?;
        let tree = || About::Tree { prefix: key.to_owned() };
        let (about, shown) = if given.has("keys") {
            let separator = given.get("separator").or_else(|| given.get("seperator"));
            (tree(), Shown::Names { separator: separator.unwrap_or_default().to_owned() })
        } else if given.has("recurse") {
            (tree(), Shown::Entries)
        } else {
            let shown = if given.has("raw") { Shown::Raw } else { Shown::Entries };
            (About::Key { key: key.to_owned(), place: place(key)? }, shown)
        };
        Ok(KvCall::Read { about, shown, waits })
    }

    fn write(key: &str, write: Write) -> Result<Self, Fault> {
        Ok(KvCall::Write { key: key.to_owned(), place: place(key)?, write })
    }
}

fn place(key: &str) -> Result<Place, Fault> {
    if key.is_empty() {
        return Err(Fault::bad("Missing key name"));
    }
    let named = Place::of(key);
    named.map_err(|error| {
        Fault::bad(format!("{error}; a key here is the name of a lock, text of 1 to 255 bytes"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, key: &str, given: &[(&str, &str)]) -> Result<KvCall, Fault> {
        let given = given.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        KvCall::read(&Method::from_bytes(method.as_bytes()).unwrap(), key, &Parameters(given))
    }

    fn act(method: &str, given: &[(&str, &str)]) -> Write {
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
            Write::Acquire { session: session(), flags: 7 }
        );
        assert_eq!(act("PUT", &[("release", "S"), ("dc", "dc1")]), Write::Release { session: session() });
        assert_eq!(act("PUT", &[("cas", "0")]), Write::Change { index: 0 });
        assert_eq!(act("DELETE", &[]), Write::Delete { index: None });
        assert_eq!(act("DELETE", &[("cas", "9")]), Write::Delete { index: Some(9) });
        let read = call("GET", "jobs/.lock", &[]);
        let Ok(KvCall::Read { about: About::Key { place, .. }, .. }) = read else { panic!("{read:?}") };
        assert_eq!(place.lock().as_str(), "jobs");
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
            ("DELETE", "a", &[("recurse", "")], 501, "docs/consul.md"),
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
