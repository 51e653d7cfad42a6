//! A number that only grows, such as the number of a site's requests or of a token's hand-overs.

/// The number of times that something has happened. It saturates instead of overflowing, as a [`Clock`](crate::Clock) does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Count(u64);

impl Count {
    /// Zero.
    pub const ZERO: Count = Count(0);

    /// The value.
    pub const fn at(value: u64) -> Self {
        Count(value)
    }

    /// Adds one.
    #[must_use]
    pub const fn next(self) -> Count {
        Count(self.0.saturating_add(1))
    }
}
