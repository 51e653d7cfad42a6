//! The form of keys and labels: pure.
//!
//! etcd's clients build a lock's key in one of three ways and parse it again, so we must do the same. A holder at
//! another site is known here only by its label, so the label contains everything that is needed to build its key.

use meshlock_cluster::access::Principal;
use meshlock_cluster::names::{ClientLabel, LockName, NameError};

use crate::escape::{ValueTooLong, escaped, unescaped};
use crate::sessions::registry::LeaseId;

/// How a key is built from a lock's name and a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `name/` and the lease in lower-case hexadecimal: etcd itself, Go's `concurrency`, `etcdctl`.
    Hex,
    /// `name/` and the lease in decimal: Node's `Election`.
    Decimal,
    /// The lock's name is the key: python-etcd3's and Node's `Lock`.
    Direct,
}

/// The beginning of a label for each form. The lease, its owner and the value follow.
const LABELS: [(Form, &str); 3] =
    [(Form::Hex, "etcd lease "), (Form::Decimal, "etcd3 lease "), (Form::Direct, "etcd key of ")];

/// Suffix of the virtual key in front of a waiting one.
pub(crate) const BEFORE: &[u8] = b".before";

/// Leases chosen by Meshlock or etcd have at least this many digits, with one exception in thousands.
const DIGITS_OF_A_LEASE: usize = 11;

/// Returns the key of a lock for a lease.
pub(crate) fn key_of(lock: &LockName, lease: LeaseId, form: Form) -> Vec<u8> {
    match form {
        Form::Hex => format!("{}/{lease}", lock.as_str()).into_bytes(),
        Form::Decimal => format!("{}/{}", lock.as_str(), lease.number()).into_bytes(),
        Form::Direct => lock.as_str().as_bytes().to_vec(),
    }
}

/// Returns the lock and the form of a key that a client uses with its lease.
pub(crate) fn place_of(key: &[u8], lease: LeaseId) -> Result<(LockName, Form), NameError> {
    let text = text(key)?;
    let form = match text.rsplit_once('/') {
        Some((_, end)) if end == lease.to_string() => Form::Hex,
        Some((_, end)) if end == lease.number().to_string() => Form::Decimal,
        Some(_) | None => return Ok((text.parse()?, Form::Direct)),
    };
    let name = text.rsplit_once('/').map_or(text, |(name, _)| name);
    Ok((name.parse()?, form))
}

/// Returns the lock that a key of another site is for, as far as the key tells.
pub(crate) fn lock_of(key: &[u8]) -> Result<LockName, NameError> {
    let text = text(key)?;
    match text.rsplit_once('/') {
        Some((name, end))
            if end.len() >= DIGITS_OF_A_LEASE && end.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            name.parse()
        }
        Some(_) | None => text.parse(),
    }
}

/// Returns the leases that the end of a key may name: it may be hexadecimal or decimal.
pub(crate) fn leases_of_key(key: &[u8]) -> Vec<LeaseId> {
    let key = behind(key).unwrap_or(key);
    let end = text(key).ok().and_then(|text| text.rsplit_once('/')).map(|(_, end)| end);
    let Some(end) = end.filter(|end| end.len() >= DIGITS_OF_A_LEASE) else { return Vec::new() };
    let numbers = [i64::from_str_radix(end, 16).ok(), end.parse().ok()];
    numbers.into_iter().flatten().filter_map(LeaseId::new).collect()
}

/// Returns the lock whose keys have this prefix, which must be `name/`.
pub(crate) fn lock_of_prefix(prefix: &[u8]) -> Option<LockName> {
    text(prefix.strip_suffix(b"/")?).ok()?.parse().ok()
}

fn text(key: &[u8]) -> Result<&str, NameError> {
    // A name that is not UTF-8 counts as missing; the caller's error says that names are text.
    std::str::from_utf8(key).or(Err(NameError::Empty { what: "lock" }))
}

/// Returns the virtual key that is shown in front of a waiting one.
pub(crate) fn before(key: &[u8]) -> Vec<u8> {
    [key, BEFORE].concat()
}

/// Returns the waiting key behind a virtual key.
pub(crate) fn behind(key: &[u8]) -> Option<&[u8]> {
    key.strip_suffix(BEFORE)
}

/// Returns the prefix of the keys in `[start, end)`, if these are exactly the keys with that prefix.
pub(crate) fn prefix_of_range<'a>(start: &'a [u8], end: &[u8]) -> Option<&'a [u8]> {
    // Some clients append a zero byte to the prefix. No key lies between.
    let prefix = start.strip_suffix(b"\0").unwrap_or(start);
    // The first key without the prefix: its last byte below 255 is incremented.
    let at = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let raised = [&prefix[..at], &[prefix[at] + 1]].concat();
    (end == raised).then_some(prefix)
}

/// Returns the label by which other sites and operators see a key of a lease that belongs to `owner`.
pub(crate) fn label(
    owner: &Principal,
    lease: LeaseId,
    form: Form,
    value: &[u8],
) -> Result<ClientLabel, ValueTooLong> {
    let start = LABELS.iter().find(|(other, _)| *other == form).map_or("", |(_, start)| start);
    let mut label = format!("{start}{lease} of {owner}");
    if !value.is_empty() {
        label += ": ";
    }
    let max = ClientLabel::MAX_BYTES - label.len();
    label += &escaped(value);
    label.parse().map_err(|_| ValueTooLong { bytes: value.len(), max })
}

/// Parses the label of a key.
pub(crate) fn read_label(label: &ClientLabel) -> Option<(LeaseId, Form, Vec<u8>)> {
    let (form, rest) =
        LABELS.iter().find_map(|(form, start)| Some((*form, label.as_str().strip_prefix(start)?)))?;
    let (owned, value) = rest.split_once(": ").unwrap_or((rest, ""));
    // A site of an earlier version does not say whose lease it is.
    let (lease, _) = owned.split_once(" of ").unwrap_or((owned, ""));
    let lease = LeaseId::new(i64::from_str_radix(lease, 16).ok()?)?;
    Some((lease, form, unescaped(value)?))
}

#[cfg(test)]
mod tests {
    use meshlock_host::front::shown;

    use super::*;

    fn lease(number: i64) -> LeaseId {
        LeaseId::new(number).unwrap()
    }

    fn lock(name: &str) -> LockName {
        name.parse().unwrap()
    }

    #[test]
    fn a_key_is_taken_apart_as_it_was_put_together() {
        for form in [Form::Hex, Form::Decimal, Form::Direct] {
            for name in ["jobs", "/locks/a", "a/b/", "/"] {
                let key = key_of(&lock(name), lease(0x4d_0000), form);
                assert_eq!(place_of(&key, lease(0x4d_0000)), Ok((lock(name), form)), "{form:?} {name}");
            }
        }
        assert_eq!(key_of(&lock("jobs"), lease(0xabc), Form::Hex), b"jobs/abc");
        assert!(place_of(b"/4d", lease(0x4d)).is_err(), "a lock has a name");
        assert!(place_of(b"\xff\xfe", lease(1)).is_err());
    }

    #[test]
    fn a_key_of_another_site_is_told_from_a_lock_of_such_a_name() {
        assert_eq!(lock_of(b"jobs/1b2d71ddacfda227"), Ok(lock("jobs")));
        assert_eq!(lock_of(b"election/x/7587898933261684741"), Ok(lock("election/x")));
        assert_eq!(lock_of(b"/locks/abc"), Ok(lock("/locks/abc")));
        assert_eq!(leases_of_key(b"jobs/1b2d71ddacfda227"), [lease(0x1b2d_71dd_acfd_a227)]);
        assert_eq!(leases_of_key(b"jobs/1b2d71ddacfda227.before"), [lease(0x1b2d_71dd_acfd_a227)]);
        let decimal = leases_of_key(b"jobs/7587898933261684");
        assert_eq!(decimal, [lease(0x7587_8989_3326_1684), lease(7_587_898_933_261_684)]);
        assert_eq!((leases_of_key(b"/locks/abc"), leases_of_key(b"jobs")), (vec![], vec![]));
    }

    #[test]
    fn a_label_says_all_that_makes_a_key() {
        for value in [&b""[..], b"host-3", b"100%", b": ", &[0, 255, 10, 37], "höst".as_bytes()] {
            let label = label(&Principal::Local, lease(i64::MAX), Form::Decimal, value).unwrap();
            assert_eq!(read_label(&label), Some((lease(i64::MAX), Form::Decimal, value.to_vec())), "{label}");
        }
        let oncall = Principal::Named("oncall".parse().unwrap());
        let shown = label(&oncall, lease(0x4d), Form::Hex, b"h").unwrap();
        assert_eq!(shown.as_str(), "etcd lease 4d of oncall: h");
        let earlier = read_label(&"etcd lease 4d: h".parse().unwrap());
        assert_eq!(earlier, Some((lease(0x4d), Form::Hex, b"h".to_vec())));
        for other in [
            "backup.sh, process 812",
            "etcd lease ",
            "etcd lease -4",
            "etcd lease 4: %f",
            "etcd lease 4: %zz",
        ] {
            assert_eq!(read_label(&other.parse().unwrap()), None, "{other}");
        }
        let error = label(&Principal::Local, lease(1), Form::Hex, &[b'x'; 200]).unwrap_err().to_string();
        assert!(error.starts_with("a value of 200 bytes is too long"), "{error}");
    }

    #[test]
    fn a_prefix_ends_where_its_last_byte_is_raised() {
        assert_eq!(prefix_of_range(b"a/", b"a0"), Some(&b"a/"[..]));
        assert_eq!(prefix_of_range(b"a/\0", b"a0"), Some(&b"a/"[..]), "as Node's etcd3 has it");
        assert_eq!(prefix_of_range(b"a\xff", b"b"), Some(&b"a\xff"[..]));
        for end in [&b"a/"[..], b"a1", b"a0x", b"b", b"", b"\0"] {
            assert_eq!(prefix_of_range(b"a/", end), None, "{end:?}");
        }
        assert!(prefix_of_range(b"", b"\0").is_none() && prefix_of_range(b"\xff", b"\0").is_none());
    }

    #[test]
    fn only_a_name_and_a_slash_is_the_prefix_of_a_lock() {
        assert_eq!(lock_of_prefix(b"jobs/"), Some(lock("jobs")));
        assert_eq!(lock_of_prefix(b"jobs"), None);
        assert_eq!(lock_of_prefix(b"/"), None);
        assert_eq!(behind(&before(b"jobs/4d")), Some(&b"jobs/4d"[..]));
    }

    #[test]
    fn people_see_the_owner_and_the_value_and_not_the_lease() {
        for form in [Form::Hex, Form::Decimal, Form::Direct] {
            let given = label(&Principal::User(1000), lease(0x4d_1234), form, b"host of root: 3").unwrap();
            assert_eq!(shown(&given).as_str(), "uid:1000 (label \"host of root: 3\")", "{given}");
            let silent = label(&Principal::User(1000), lease(0x4d_1234), form, b"").unwrap();
            assert_eq!(shown(&silent).as_str(), "uid:1000 (etcd lease)", "{silent}");
        }
    }
}
