//! The slips of the printed text, one by one, so that the checker can show each of them.

use crate::registry::values::Values;

/// Which slips of the printed text are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slips {
    /// None: the repaired text.
    None,
    /// All: the printed text, with what it proposes itself for Figure 1b.
    All,
    /// All: the printed rules without that proposal.
    WithoutRemedy,
    Only(Slip),
}

/// One slip of the printed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slip {
    /// Section 5: an INQUIRE that comes before a FAIL is forgotten.
    ForgottenInquire,
    /// Section 5: a newcomer that precedes the granted request, but not all queued ones, is not sent FAIL.
    UntoldNewcomer,
    /// Section 5: a site answers an INQUIRE of its own like any other, and so may keep its own grant from itself.
    OwnInquire,
    /// Section 7.1: requests do not carry failures, and only who waits for the failed site asks the additions.
    SilentRecovery,
    /// Section 7.1: two sites ask each other only when all that they shared has failed.
    LateMending,
}

impl Slips {
    /// The values of the option `text`.
    pub(super) const WORDS: &[&str] = &[
        "repaired",
        "printed",
        "without-remedy",
        "forgotten-inquire",
        "untold-newcomer",
        "own-inquire",
        "silent-recovery",
        "late-mending",
    ];

    /// What the option asks for.
    pub(super) fn of(values: &Values) -> Self {
        match values.get("text") {
            "printed" => Slips::All,
            "without-remedy" => Slips::WithoutRemedy,
            "forgotten-inquire" => Slips::Only(Slip::ForgottenInquire),
            "untold-newcomer" => Slips::Only(Slip::UntoldNewcomer),
            "own-inquire" => Slips::Only(Slip::OwnInquire),
            "silent-recovery" => Slips::Only(Slip::SilentRecovery),
            "late-mending" => Slips::Only(Slip::LateMending),
            _ => Slips::None,
        }
    }

    /// Whether this one is made.
    pub(super) fn has(self, slip: Slip) -> bool {
        match self {
            Slips::None => false,
            Slips::All => slip != Slip::OwnInquire,
            Slips::WithoutRemedy => true,
            Slips::Only(made) => made == slip,
        }
    }
}
