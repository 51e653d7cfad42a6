//! Which text the sites follow, for the checker.

use crate::registry::values::Values;

/// Which text a site follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SuzukiKasamiText {
    Repaired,
    /// Step (b) with the holder's own number.
    Printed,
    /// Repaired, but a REQUEST is outdated only if its number is smaller than the largest known.
    Outdated,
}

impl SuzukiKasamiText {
    /// The values of the option `text`.
    pub(super) const WORDS: &[&str] = &["repaired", "printed", "outdated"];

    /// What the option asks for.
    pub(super) fn of(values: &Values) -> Self {
        match values.get("text") {
            "printed" => SuzukiKasamiText::Printed,
            "outdated" => SuzukiKasamiText::Outdated,
            _ => SuzukiKasamiText::Repaired,
        }
    }
}
