//! What keys and labels mean: pure.
//!
//! Consul's clients put locks and semaphores together from keys in three ways. Lock and document of one name are the same lock
//! here, as `consul lock` has it: there, too, whoever takes both gets a conflict and not both.

use meshlock_cluster::names::{ClientLabel, LockName, NameError};

use super::ids;
use crate::escape::{ValueTooLong, escaped, unescaped};
use crate::sessions::registry::LeaseId;

/// What the Go API puts behind the prefix of a semaphore; and `consul lock` behind that of a lock.
const DOCUMENT: &str = "/.lock";

/// The flags that the Go API gives the keys of its locks, and those of its semaphores, by which it tells them apart.
pub(super) const LOCK_FLAGS: u64 = 0x2ddc_cbc0_58a5_0c18;
pub(super) const SEMAPHORE_FLAGS: u64 = 0xe0f6_9a2b_aa41_4de0;

/// What a key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A lock of this name.
    Lock(LockName),
    /// `X/.lock`: the lock X, or the document that says who has the permits of X.
    Document(LockName),
    /// `X/SESSION`: a session that wants a permit of X.
    Contender(LockName, LeaseId),
}

impl Place {
    pub(super) fn of(key: &str) -> Result<Self, NameError> {
        if let Some(name) = key.strip_suffix(DOCUMENT).filter(|name| !name.is_empty()) {
            return Ok(Place::Document(name.parse()?));
        }
        let contender = key.rsplit_once('/').and_then(|(name, end)| Some((name, ids::lease(end)?)));
        match contender {
            Some((name, lease)) => Ok(Place::Contender(name.parse()?, lease)),
            None => Ok(Place::Lock(key.parse()?)),
        }
    }

    /// The lock that it is about.
    pub(super) fn lock(&self) -> &LockName {
        match self {
            Place::Lock(lock) | Place::Document(lock) | Place::Contender(lock, _) => lock,
        }
    }
}

/// The key of a semaphore's document.
pub(super) fn document_of(lock: &LockName) -> String {
    format!("{lock}{DOCUMENT}")
}

/// The key of a session that wants a permit, or has one.
pub(super) fn contender_of(lock: &LockName, session: &str) -> String {
    format!("{lock}/{session}")
}

/// What a list of all keys that begin so is about, besides what this site's own sessions have: the semaphore of that name.
pub(super) fn lock_of_prefix(prefix: &str) -> Option<LockName> {
    prefix.strip_suffix('/').unwrap_or(prefix).parse().ok()
}

/// Under what name a session's place at a lock is in the registry: the same as for our own API.
pub(super) fn ledger_name(lock: &LockName, lease: LeaseId) -> Vec<u8> {
    format!("{lock}/{lease}").into_bytes()
}

/// How a session holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// By acquiring its key.
    Whole,
    /// As one of those in the document.
    Permit,
}

/// How a label begins, for each form. The lease, the flags and the value follow.
const LABELS: [(Form, &str); 2] = [(Form::Whole, "consul session "), (Form::Permit, "consul permit ")];

/// What other sites and operators see of a session that holds a lock.
pub(super) fn label(
    form: Form,
    lease: LeaseId,
    flags: u64,
    value: &[u8],
) -> Result<ClientLabel, ValueTooLong> {
    let start = LABELS.iter().find(|(other, _)| *other == form).map_or("", |(_, start)| start);
    let mut label = format!("{start}{lease} {flags:x}");
    if !value.is_empty() {
        label += ": ";
    }
    let most = ClientLabel::MAX_BYTES - label.len();
    label += &escaped(value);
    label.parse().map_err(|_| ValueTooLong { bytes: value.len(), most })
}

/// What a label says of a holder, if it is that of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Labelled {
    pub(super) form: Form,
    pub(super) lease: LeaseId,
    pub(super) flags: u64,
    pub(super) value: Vec<u8>,
}

pub(super) fn read_label(label: &ClientLabel) -> Option<Labelled> {
    let (form, rest) =
        LABELS.iter().find_map(|(form, start)| Some((*form, label.as_str().strip_prefix(start)?)))?;
    let (numbers, value) = rest.split_once(": ").unwrap_or((rest, ""));
    let (lease, flags) = numbers.split_once(' ')?;
    let lease = LeaseId::new(i64::from_str_radix(lease, 16).ok()?)?;
    let flags = u64::from_str_radix(flags, 16).ok()?;
    Some(Labelled { form, lease, flags, value: unescaped(value)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(name: &str) -> LockName {
        name.parse().unwrap()
    }

    #[test]
    fn keys_of_locks_and_semaphores_are_told_apart() {
        let lease = LeaseId::new(0x4d).unwrap();
        let contender = contender_of(&lock("a/b"), &ids::session(lease));
        for (key, place) in [
            ("jobs", Place::Lock(lock("jobs"))),
            ("service/web/leader", Place::Lock(lock("service/web/leader"))),
            ("jobs/.lock", Place::Document(lock("jobs"))),
            ("/.lock", Place::Lock(lock("/.lock"))),
            (".lock", Place::Lock(lock(".lock"))),
            (&contender, Place::Contender(lock("a/b"), lease)),
            (&contender[4..], Place::Lock(lock(&contender[4..]))),
        ] {
            assert_eq!(Place::of(key), Ok(place), "{key}");
        }
        assert!(Place::of("").is_err() && Place::of(&"x".repeat(256)).is_err());
        assert_eq!(document_of(&lock("jobs")), "jobs/.lock");
    }

    #[test]
    fn a_prefix_is_that_of_a_semaphore_with_or_without_the_slash() {
        assert_eq!(lock_of_prefix("jobs/"), Some(lock("jobs")));
        assert_eq!(lock_of_prefix("jobs"), Some(lock("jobs")));
        assert_eq!((lock_of_prefix(""), lock_of_prefix("/")), (None, None));
    }

    #[test]
    fn a_label_says_all_that_is_shown_of_a_holder() {
        let lease = LeaseId::new(i64::MAX).unwrap();
        for value in [&b""[..], b"host-3", b": 100%", &[0, 255]] {
            for form in [Form::Whole, Form::Permit] {
                let said = read_label(&label(form, lease, u64::MAX, value).unwrap()).unwrap();
                assert_eq!(said, Labelled { form, lease, flags: u64::MAX, value: value.to_vec() });
            }
        }
        for other in [
            "consul session ",
            "consul session 4d",
            "consul permit -4 0",
            "etcd lease 4d",
            "consul session 4d x",
        ] {
            assert_eq!(read_label(&other.parse().unwrap()), None, "{other}");
        }
        let error = label(Form::Whole, lease, 0, &[b'x'; 300]).unwrap_err();
        assert!(error.to_string().starts_with("a value of 300 bytes is too long"), "{error}");
    }
}
