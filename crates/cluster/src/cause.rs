//! Causes: the number of the acquisition on whose behalf a message is sent. It is passed on with every message that
//! follows from that acquisition.
//!
//! ```text
//!  a client of A asks (cause 7)   A ── REQUEST, 7 ──▶ B ── REQUEST, 7 ──▶ C     C handles it for 7
//!  C's holder (cause 3) leaves    A ◀───── TOKEN, 3 ───────────────────── C     A lets 7 in, by 3
//! ```
//!
//! A message that a machine sends because a client asked carries that client's cause; one that it sends while it
//! handles another message carries that message's cause; one that it sends when a holder leaves carries the holder's
//! cause. If the site requests the lock again in the same moment, the message carries the cause of the client it
//! requests for. No decision depends on a cause: causes are for people who read logs.

use std::fmt;
use std::num::NonZeroU64;

use crate::names::{Member, fnv_1a};
use crate::table::Request;

/// The number of one acquisition, the same at all sites.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cause(NonZeroU64);

impl Cause {
    /// Returns the cause with this number, or `None` if it is zero.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Cause)
    }

    /// Returns the number.
    pub fn number(self) -> u64 {
        self.0.get()
    }

    /// Returns the cause that a text stands for: the number itself if the text is 16 hexadecimal digits, the lower half
    /// if it is 32 of them (as the trace ids of W3C's trace context are), otherwise a hash.
    pub fn named(text: &str) -> Self {
        let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let digits =
            if matches!(text.len(), 16 | 32) && is_hex(text) { &text[text.len() - 16..] } else { "" };
        let number = u64::from_str_radix(digits, 16).ok().and_then(Cause::new);
        number.unwrap_or_else(|| Cause(or_one(fnv_1a(text.bytes()))))
    }
}

fn or_one(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN)
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Source of causes for requests that came without one. Every request of one incarnation of a site gets its own, which
/// is very unlikely to equal one of another site.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CauseOrigin(u64);

impl CauseOrigin {
    pub(crate) fn new(member: &Member) -> Self {
        CauseOrigin(fnv_1a(member.to_string().bytes()))
    }

    /// Returns the cause of a request. (The factor is odd, so that no two requests of a site have the same cause.)
    pub(crate) fn cause(self, request: Request) -> Cause {
        Cause(or_one(self.0.wrapping_add(request.0.wrapping_mul(0x9e37_79b9_7f4a_7c15))))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::names::Incarnation;

    #[test]
    fn a_trace_id_keeps_its_lower_half_and_other_text_is_hashed() {
        let trace = Cause::named("0af7651916cd43dd8448eb211c80319c");
        assert_eq!(trace.to_string(), "8448eb211c80319c");
        assert_eq!(Cause::named("8448eb211c80319c"), trace);
        assert_eq!(Cause::named("order 17"), Cause::named("order 17"));
        assert_ne!(Cause::named("order 17"), Cause::named("order 18"));
        assert_ne!(Cause::named("0000000000000000").number(), 0);
    }

    #[test]
    fn requests_of_a_few_sites_and_incarnations_have_causes_of_their_own() {
        let sites = ["one", "two", "three"].map(|site| site.parse().unwrap());
        let members = sites.iter().flat_map(|site| {
            (1..4).map(|incarnation| Member {
                site: Clone::clone(site),
                incarnation: Incarnation::new(incarnation),
            })
        });
        let all: Vec<Cause> = members
            .flat_map(|member| {
                (0..1000).map(move |request| CauseOrigin::new(&member).cause(Request(request)))
            })
            .collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }
}
