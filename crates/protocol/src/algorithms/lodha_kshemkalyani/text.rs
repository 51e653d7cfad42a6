//! Which text the sites follow: the repaired one, the printed one, or, to show that each part of the repair is needed, the
//! repaired one without a part.

use crate::registry::values::Values;

/// Which text the sites follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LodhaText {
    Repaired,
    /// Figure 2 to the letter, for the checker.
    Printed,
    /// All of the repair but this, for the checker.
    Without(Part),
}

/// One part of the repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// 1: a site's own request raises the highest sequence number seen.
    OwnNumber,
    /// 2: what is known to be finished is remembered.
    Finished,
    /// 3: a FLUSH is not an answer.
    Flush,
    /// 4: a REQUEST tells which request its sender executed last.
    Executed,
    /// With `combined-exit`: a REQUEST says which request of the receiver its sender has answered.
    Answers,
}

impl LodhaText {
    /// The values of the option `text`.
    pub(super) const WORDS: &[&str] =
        &["repaired", "printed", "without-1", "without-2", "without-3", "without-4", "without-answers"];

    /// The text that the option asks for.
    pub(super) fn of(values: &Values) -> Self {
        match values.get("text") {
            "printed" => LodhaText::Printed,
            "without-1" => LodhaText::Without(Part::OwnNumber),
            "without-2" => LodhaText::Without(Part::Finished),
            "without-3" => LodhaText::Without(Part::Flush),
            "without-4" => LodhaText::Without(Part::Executed),
            "without-answers" => LodhaText::Without(Part::Answers),
            _ => LodhaText::Repaired,
        }
    }

    /// Whether this part of the repair is made.
    pub(super) fn has(self, part: Part) -> bool {
        match self {
            LodhaText::Repaired => true,
            LodhaText::Printed => false,
            LodhaText::Without(missing) => missing != part,
        }
    }
}
