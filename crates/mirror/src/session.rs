//! What is known of a session everywhere: its number, and who vouches for what it holds.

use std::fmt;

use meshlock_cluster::time::Time;

/// The number of a lease. It is positive, because etcd's clients take zero for "no lease".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(i64);

impl LeaseId {
    /// Returns `None` unless `number` is positive.
    pub fn new(number: i64) -> Option<Self> {
        (number > 0).then_some(LeaseId(number))
    }

    /// Returns the number.
    pub const fn number(self) -> i64 {
        self.0
    }
}

/// Formats it as etcd does in keys: lower-case hexadecimal.
impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Who vouches for the locks of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vouched {
    /// This site holds them.
    Here,
    /// Another site does, which does not answer or leaves. This site answers for it, and nobody else gets the locks before the end of this
    /// site's lease, nor before `until`.
    ForAnother { until: Option<Time> },
}
