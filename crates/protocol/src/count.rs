//! A number that only grows: of a site's requests, of a token's hand-overs.

/// How often something has happened. It saturates instead of overflowing, as a [`Clock`](crate::Clock) does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Count(u64);

impl Count {
    /// Not once.
    pub const ZERO: Count = Count(0);

    /// So many times.
    pub const fn at(value: u64) -> Self {
        Count(value)
    }

    /// Once more.
    #[must_use]
    pub const fn next(self) -> Count {
        Count(self.0.saturating_add(1))
    }
}
