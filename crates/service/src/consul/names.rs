//! The meaning of keys and labels: pure.
//!
//! Consul's clients use keys for locks and semaphores in three ways. A lock and a document of the same name are the
//! same lock here. `consul lock` keeps them apart in the same way: a client that uses both gets a conflict.

use meshlock_cluster::access::Principal;
use meshlock_cluster::names::{ClientLabel, LockName, NameError};

use super::ids;
use crate::escape::{ValueTooLong, escaped, unescaped};
use crate::sessions::registry::LeaseId;

/// The suffix that the Go API adds to the prefix of a semaphore, and `consul lock` to that of a lock.
const DOCUMENT: &str = "/.lock";

/// The flags by which the Go API distinguishes keys of locks from keys of semaphores.
pub(super) const LOCK_FLAGS: u64 = 0x2ddc_cbc0_58a5_0c18;
pub(super) const SEMAPHORE_FLAGS: u64 = 0xe0f6_9a2b_aa41_4de0;

/// What a key stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyPath {
    /// The lock of this name.
    Lock(LockName),
    /// `X/.lock`: the lock X, or the document with the holders of its permits.
    Document(LockName),
    /// `X/SESSION`: a session that wants a permit of X.
    Contender(LockName, LeaseId),
}

impl KeyPath {
    pub(super) fn of(key: &str) -> Result<Self, NameError> {
        if let Some(name) = key.strip_suffix(DOCUMENT).filter(|name| !name.is_empty()) {
            return Ok(KeyPath::Document(name.parse()?));
        }
        let contender = key.rsplit_once('/').and_then(|(name, end)| Some((name, ids::lease(end)?)));
        match contender {
            Some((name, lease)) => Ok(KeyPath::Contender(name.parse()?, lease)),
            None => Ok(KeyPath::Lock(key.parse()?)),
        }
    }

    /// Returns the lock that the key is about.
    pub(super) fn lock(&self) -> &LockName {
        match self {
            KeyPath::Lock(lock) | KeyPath::Document(lock) | KeyPath::Contender(lock, _) => lock,
        }
    }
}

/// Returns the key of a semaphore's document.
pub(super) fn document_of(lock: &LockName) -> String {
    format!("{}{DOCUMENT}", lock.as_str())
}

/// Returns the key of a session that wants or has a permit.
pub(super) fn contender_of(lock: &LockName, session: &str) -> String {
    format!("{}/{session}", lock.as_str())
}

/// Returns the lock or semaphore that a listing of this prefix is about, besides the keys of this site's own
/// sessions.
pub(super) fn lock_of_prefix(prefix: &str) -> Option<LockName> {
    prefix.strip_suffix('/').unwrap_or(prefix).parse().ok()
}

/// Returns the name of a session's key in the registry, which is the same as for our own API.
pub(super) fn registry_name(lock: &LockName, lease: LeaseId) -> Vec<u8> {
    format!("{}/{lease}", lock.as_str()).into_bytes()
}

/// How a session holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// By acquiring its key.
    Whole,
    /// By being listed in the document.
    Permit,
}

/// The beginning of a label for each form. The lease, the flags, the owner and the value follow.
const LABELS: [(Form, &str); 2] = [(Form::Whole, "consul session "), (Form::Permit, "consul permit ")];

/// Returns the label by which other sites and operators see a session of `owner` that holds a lock.
pub(super) fn label(
    owner: &Principal,
    form: Form,
    lease: LeaseId,
    flags: u64,
    value: &[u8],
) -> Result<ClientLabel, ValueTooLong> {
    let start = LABELS.iter().find(|(other, _)| *other == form).map_or("", |(_, start)| start);
    let mut label = format!("{start}{lease} {flags:x} of {owner}");
    if !value.is_empty() {
        label += ": ";
    }
    let max = ClientLabel::MAX_BYTES - label.len();
    label += &escaped(value);
    label.parse().map_err(|_| ValueTooLong { bytes: value.len(), max })
}

/// What the label of a session says about a holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabelInfo {
    pub(super) form: Form,
    pub(super) lease: LeaseId,
    pub(super) flags: u64,
    pub(super) value: Vec<u8>,
}

pub(super) fn read_label(label: &ClientLabel) -> Option<LabelInfo> {
    let (form, rest) =
        LABELS.iter().find_map(|(form, start)| Some((*form, label.as_str().strip_prefix(start)?)))?;
    let (owned, value) = rest.split_once(": ").unwrap_or((rest, ""));
    // A site of an earlier version does not say whose session it is.
    let (numbers, _) = owned.split_once(" of ").unwrap_or((owned, ""));
    let (lease, flags) = numbers.split_once(' ')?;
    let lease = LeaseId::new(i64::from_str_radix(lease, 16).ok()?)?;
    let flags = u64::from_str_radix(flags, 16).ok()?;
    Some(LabelInfo { form, lease, flags, value: unescaped(value)? })
}

#[cfg(test)]
mod tests {
    use meshlock_host::front::shown;

    use super::*;

    fn lock(name: &str) -> LockName {
        name.parse().unwrap()
    }

    #[test]
    fn keys_of_locks_and_semaphores_are_told_apart() {
        let lease = LeaseId::new(0x4d).unwrap();
        let contender = contender_of(&lock("a/b"), &ids::session(lease));
        for (key, path) in [
            ("jobs", KeyPath::Lock(lock("jobs"))),
            ("service/web/leader", KeyPath::Lock(lock("service/web/leader"))),
            ("jobs/.lock", KeyPath::Document(lock("jobs"))),
            ("/.lock", KeyPath::Lock(lock("/.lock"))),
            (".lock", KeyPath::Lock(lock(".lock"))),
            (&contender, KeyPath::Contender(lock("a/b"), lease)),
            (&contender[4..], KeyPath::Lock(lock(&contender[4..]))),
        ] {
            assert_eq!(KeyPath::of(key), Ok(path), "{key}");
        }
        assert!(KeyPath::of("").is_err() && KeyPath::of(&"x".repeat(256)).is_err());
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
                let said =
                    read_label(&label(&Principal::Local, form, lease, u64::MAX, value).unwrap()).unwrap();
                assert_eq!(said, LabelInfo { form, lease, flags: u64::MAX, value: value.to_vec() });
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
        let error = label(&Principal::Local, Form::Whole, lease, 0, &[b'x'; 300]).unwrap_err();
        assert!(error.to_string().starts_with("a value of 300 bytes is too long"), "{error}");
    }

    #[test]
    fn people_see_the_owner_and_the_value_and_not_the_session() {
        let (owner, lease) = (Principal::User(1000), LeaseId::new(0x51_494_022_549_506).unwrap());
        for form in [Form::Whole, Form::Permit] {
            let label = label(&owner, form, lease, 7, b"deploy.sh, client oncall of s1").unwrap();
            assert_eq!(shown(&label).as_str(), "uid:1000 (label \"deploy.sh, client oncall of s1\")");
            let silent = super::label(&owner, form, lease, 7, b"").unwrap();
            assert_eq!(shown(&silent).as_str(), "uid:1000 (Consul session)");
        }
    }
}
