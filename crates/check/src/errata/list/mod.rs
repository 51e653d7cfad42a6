//! The list, a file a paper.

mod bulgannawar_vaidya;
mod chapter;
mod lodha;
mod sanders;
mod singhal;

use super::Erratum;

/// Every claim, by paper.
pub(super) const ALL: &[&[Erratum]] =
    &[chapter::ERRATA, lodha::ERRATA, sanders::ERRATA, singhal::ERRATA, bulgannawar_vaidya::ERRATA];

/// Claims that are known or suspected to be wrong and are not verified, with the reason.
pub(super) const NOT_SHOWN: &[(&str, &str)] = &[
    (
        "Singhal 1989, section VI-C (method 1 forgets SV_i1[i2..im] := R; waiting sites do not ask their new rows)",
        "the explorer does not split networks; the algorithm's own scenario tests do",
    ),
    (
        "Kshemkalyani & Singhal ch. 9, section 9.9.5, rules 6 to 8, read so that an INQUIRE is sent for every earlier request",
        "shown is the reading in which a site waits for the answer to one INQUIRE; the other also sends YIELDs that nobody \
         waits for, which name no grant and cannot be told from those that do",
    ),
];
