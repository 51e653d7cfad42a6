//! Session ids: pure. Consul's are UUIDs, so ours are the number of a lease written as a UUID (version 8, "custom").
//!
//! ```text
//!  1b2d71dd-acfd-8a22-8700-6d6573686c6b        the lease 1b2d71ddacfda227
//!  xxxxxxxx-xxxx-8xxx-8x00-"meshlk" in ASCII
//! ```

use crate::sessions::registry::LeaseId;

/// The last group of a session's id.
const SESSION: &str = "6d6573686c6b";

/// The last group of the id that stands for a holder without a Consul session: "others" in ASCII.
const OTHER: &str = "6f7468657273";

/// Returns the id of a session.
pub(super) fn session(lease: LeaseId) -> String {
    as_uuid(lease.number().unsigned_abs(), SESSION)
}

/// Returns the id that is shown for a holder without a Consul session, such as `meshlock run`; it differs for each
/// grant.
pub(super) fn other(fence: i64) -> String {
    as_uuid(fence.unsigned_abs(), OTHER)
}

/// Returns the lease of a session id.
pub(super) fn lease(name: &str) -> Option<LeaseId> {
    let digits: String = name.chars().filter(|&c| c != '-').collect();
    // Version and variant are fixed, so that no two ids stand for the same lease.
    let number = format!("{}{}{}", digits.get(..12)?, digits.get(13..16)?, digits.get(17..18)?);
    let lease = LeaseId::new(i64::from_str_radix(&number, 16).ok()?)?;
    (session(lease) == name).then_some(lease)
}

/// Returns whether a text is a UUID. Consul checks this before it looks a session up.
pub(super) fn is_uuid(name: &str) -> bool {
    let is_at = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    name.len() == 36 && name.bytes().enumerate().all(is_at)
}

fn as_uuid(number: u64, end: &str) -> String {
    let digits = format!("{number:016x}");
    format!("{}-{}-8{}-8{}00-{end}", &digits[..8], &digits[8..12], &digits[12..15], &digits[15..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_s_name_is_a_uuid_and_says_which_lease_it_is() {
        for number in [1, 0x1b2d_71dd_acfd_a227, i64::MAX] {
            let id = LeaseId::new(number).unwrap();
            assert!(is_uuid(&session(id)), "{}", session(id));
            assert_eq!(lease(&session(id)), Some(id));
        }
        let id = LeaseId::new(0x1b2d_71dd_acfd_a227).unwrap();
        assert_eq!(session(id), "1b2d71dd-acfd-8a22-8700-6d6573686c6b");
    }

    #[test]
    fn no_other_text_is_a_session() {
        for text in [
            "",
            "nope",
            "11111111-2222-3333-4444-555555555555",
            "1b2d71dd-acfd-8a22-8700-6f7468657273",
            "1B2D71DD-ACFD-8A22-8700-6D6573686C6B",
            "1b2d71ddacfd8a2287006d6573686c6b",
            "-1b2d71d-acfd-8a22-8700-6d6573686c6b",
            "00000000-0000-8000-8000-6d6573686c6b",
            "ffffffff-ffff-8fff-8f00-6d6573686c6b",
            "日本語日本語日本語日本語",
        ] {
            assert_eq!(lease(text), None, "{text}");
        }
        assert_eq!(lease(&other(7)), None);
    }
}
