//! The recorded results of all errata: docs/ERRATA.md, as it was when this program was built.
//!
//! A test of `crates/check` investigates all errata and compares the result with that page, so what is shown from it was found by
//! this version of the code.

const PAGE: &str = include_str!("../../../../../docs/ERRATA.md");

/// The recorded verdict on one erratum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordedVerdict {
    pub(super) verdict: &'static str,
    /// The length of the shortest counterexample; empty if there is none.
    pub(super) steps: &'static str,
}

/// Returns the recorded verdict on the erratum.
pub(super) fn verdict(id: &str) -> Option<RecordedVerdict> {
    let begin = format!("| [{id}](");
    let row = PAGE.lines().find(|line| line.starts_with(&begin))?;
    let mut cells = row.trim_matches('|').rsplit('|').map(str::trim);
    let (steps, verdict) = (cells.next()?, cells.next()?);
    Some(RecordedVerdict { verdict, steps })
}

/// Returns the recorded section about the erratum.
pub(super) fn section(id: &str) -> Option<&'static str> {
    let begin = format!("\n## {id}\n");
    let (_, from) = PAGE.split_at(PAGE.find(&begin)? + 1);
    let end = from.find("\n\n## ").map_or(from.len(), |end| end + 1);
    Some(&from[..end])
}

#[cfg(test)]
mod tests {
    use meshlock_check::errata;

    use super::*;

    #[test]
    fn every_erratum_has_a_recorded_verdict_and_a_section() {
        for erratum in errata::all() {
            let recorded = verdict(erratum.id).unwrap();
            assert!(["confirmed", "refuted"].contains(&recorded.verdict), "{}: {recorded:?}", erratum.id);
            assert!(recorded.steps.is_empty() || recorded.steps.parse::<u32>().is_ok(), "{recorded:?}");
            let section = section(erratum.id).unwrap();
            assert!(section.contains(erratum.repair), "{section}");
            assert_eq!(section.matches("\n## ").count(), 0, "{section}");
        }
    }
}
