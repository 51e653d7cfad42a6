//! Which text the sites follow: the repaired one, or what the report prints, for the checker.

use crate::registry::values::Values;

/// Which text the sites follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum BulgannawarText {
    Repaired,
    /// The pseudo-code, in which every INFORM is obeyed; for the checker.
    Printed,
    /// Repaired, but case 2 of `Handle_TOKEN` as in the prose: the pointer of the token that *came* turns to the tag.
    TokenProse,
    /// Repaired, but case 3 of `Handle_REQUEST` as in the prose: the pointer of the token *asked for* turns.
    HolderProse,
    /// Repaired, but case 3 of `Handle_REQUEST` to the letter of the prose, which does not say that the token is sent.
    HolderSilent,
}

impl BulgannawarText {
    /// The values of the option `text`.
    pub(super) const WORDS: &[&str] =
        &["repaired", "printed", "token-prose", "holder-prose", "holder-silent"];

    /// What the option asks for.
    pub(super) fn of(values: &Values) -> Self {
        match values.get("text") {
            "printed" => BulgannawarText::Printed,
            "token-prose" => BulgannawarText::TokenProse,
            "holder-prose" => BulgannawarText::HolderProse,
            "holder-silent" => BulgannawarText::HolderSilent,
            _ => BulgannawarText::Repaired,
        }
    }
}
