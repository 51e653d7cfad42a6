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

/// Findings of others about algorithms that are here, with what is known here of them. Each citation was looked up.
pub(super) const FOUND_BY_OTHERS: &[&str] = &[
    "Suzuki and Kasami's algorithm, freedom from lockout: K. Ogata and K. Futatsugi, \"Formal analysis of Suzuki & Kasami distributed \
     mutual exclusion algorithm\", FMOODS 2002, pages 181–195, doi 10.1007/978-0-387-35496-5_13. They verified exclusion and \
     freedom from lockout, the latter with an assumption that the original paper does not state. We know the abstract only, \
     and have not repeated it.",
    "The same: K. Ogata and K. Futatsugi, \"Analysis of the Suzuki–Kasami algorithm with the Maude model checker\", APSEC 2005, doi \
     10.1109/APSEC.2005.40. Their model checker found a run of the original algorithm in which a process is locked out, and they give \
     a modification. We know the abstract only. Algorithm 9.7 of the chapter, from which ours is made, is not the original's text; \
     what was looked for in ours is in CHECKED.md.",
    "Raymond's, Suzuki and Kasami's, and Ricart and Agrawala's algorithms without failures: models and proofs in Lean, repository \
     solanaqubits/leanbook, folder knowledge/09_distributed_systems and notes of releases v0.5.13, v0.5.16 and v0.5.19. Exclusion is proved, and that \
     every request is served; no bound on the wait, and no error of a paper is reported. We know the summaries only, and have not checked \
     the proofs.",
    "Lamport's algorithm: a proof of exclusion with TLAPS, and a model for TLC, in tlaplus/Examples, specifications/lamport_mutex. A test has the \
     same numbers of states as TLC counts (crates/check/tests/validation/lamport_mutex.rs).",
    "Maekawa's algorithm: that its rules of 1985 can deadlock is Sanders' finding (1987, section 5); here it is maekawa-1985-rules.",
    "Looked for and not found: published errata of Maekawa's, Singhal's, Naimi and Trehel's and Raymond's algorithms, and machine checks that found an \
     error in them. Searched were public repositories, documentation and web pages, for the algorithms' and the authors' names with the words for \
     errors, comments and verification; not the publishers' libraries and citation indexes, so that there may well be some.",
];

/// Claims that are known or suspected to be wrong and are not verified, with the reason.
pub(super) const NOT_SHOWN: &[(&str, &str)] = &[(
    "Singhal 1989, section VI-C (method 1 forgets SV_i1[i2..im] := R; waiting sites do not ask their new rows)",
    "the explorer does not split networks; the algorithm's own scenario tests do",
)];
