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

/// What is known or suspected to be wrong and not shown here, and why.
pub(super) const NOT_SHOWN: &[(&str, &str)] = &[
    (
        "Singhal 1989, section VI-B (SN := 0 on recovery, an own SV entry of R, TSV entries of failed sites, the indices of case \
         III)",
        "the repaired recovery begins every number with a count of failures and finds a lost token by asking; the printed one \
         rests on timeouts, so it is no variant of the same rules",
    ),
    (
        "Singhal 1989, section VI-C (method 1 forgets SV_i1[i2..im] := R; waiting sites do not ask their new rows)",
        "the explorer does not split networks; the algorithm's own scenario tests do",
    ),
    (
        "Sanders 1987, section 5, Figure 1b (a site that does not yield to itself)",
        "the text itself offers two remedies, and one of them is always taken",
    ),
    (
        "Kshemkalyani & Singhal ch. 9, section 9.9.5, rules 6 to 8, read so that an INQUIRE is sent for every earlier request",
        "shown is the reading in which a site waits for the answer to one INQUIRE; the other also sends YIELDs that nobody \
         waits for, which name no grant and cannot be told from those that do",
    ),
    (
        "Kshemkalyani & Singhal ch. 9, section 9.11 (a REQUEST is outdated if RN_j[i] > n)",
        "with channels that deliver once no two REQUESTs of a site have the same number, so > and ≥ cannot be told apart",
    ),
    (
        "Kshemkalyani & Singhal ch. 9, section 9.12.7 (a recovering site waits for a while, not for all ADVISE messages)",
        "needs a clock in the algorithm; the repaired one waits for all neighbours",
    ),
    (
        "Bulgannawar & Vaidya 1994, Handle_REQUEST in prose (whether it queues before it sends)",
        "the prose does not say which; only its two readings of pointers are shown",
    ),
];
