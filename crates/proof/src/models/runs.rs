//! The runs of the code that are compared with the models.
//!
//! Small ones are compared by every test. `cargo xtask soak --only proofs` compares the rest of the golden file: every row of
//! `docs/CHECKED.md` with at most 100,000 states, without crashes, in which sites request a number of times. A test says which rows are left
//! out, and why.

use crate::tie::TieRun;

/// A run without anyone inside at the start.
pub(super) const fn run(sites: usize, entries: u8) -> TieRun {
    TieRun { sites, permits: 1, entries, inside: None, returns: false, spec: None, most_states: usize::MAX }
}

/// A run with this site inside at the start.
pub(super) const fn held(sites: usize, entries: u8, inside: usize) -> TieRun {
    TieRun { inside: Some(inside), ..run(sites, entries) }
}

/// A run in which sites may leave and request again in one step.
pub(super) const fn returning(sites: usize, entries: u8) -> TieRun {
    TieRun { returns: true, ..run(sites, entries) }
}

/// The run with this number of permits.
pub(super) const fn permits(permits: usize, run: TieRun) -> TieRun {
    TieRun { permits, ..run }
}

/// The first states of a run that is too large to be compared whole.
pub(super) const fn first(most_states: usize, run: TieRun) -> TieRun {
    TieRun { most_states, ..run }
}

/// A run of another algorithm, or with options.
pub(super) const fn of(spec: &'static str, run: TieRun) -> TieRun {
    TieRun { spec: Some(spec), ..run }
}

/// The golden runs of one algorithm or variant, by its spec.
pub(super) type Golden = (&'static str, &'static [TieRun]);

/// Two sites.
pub(super) const TWO: &[TieRun] = &[run(2, 2)];

/// Two and three sites.
pub(super) const THREE: &[TieRun] = &[run(2, 2), run(3, 2), held(3, 2, 0), held(3, 2, 2), returning(3, 2)];

/// Two to four sites.
pub(super) const FOUR: &[TieRun] =
    &[run(2, 2), run(3, 2), held(3, 2, 0), held(3, 2, 2), returning(3, 2), run(4, 1)];

/// Two to four sites that never leave and request again in one step.
pub(super) const WITHOUT_RETURNS: &[TieRun] =
    &[run(2, 2), run(3, 2), held(3, 2, 0), held(3, 2, 2), run(4, 1)];

/// With one permit and with several.
pub(super) const PERMITS: &[TieRun] = &[
    run(2, 2),
    permits(2, run(2, 2)),
    run(3, 2),
    permits(2, run(3, 2)),
    held(3, 2, 0),
    permits(2, held(3, 2, 0)),
    held(3, 2, 2),
    permits(2, held(3, 2, 2)),
    returning(3, 2),
    permits(2, returning(3, 2)),
    run(4, 1),
    permits(2, run(4, 1)),
    permits(3, run(4, 1)),
];

/// With every choice that the host may take.
pub(super) const OPEN: &[TieRun] = &[run(2, 2), run(3, 1)];

/// The same, with one permit and with two.
pub(super) const OPEN_PERMITS: &[TieRun] =
    &[run(2, 2), permits(2, run(2, 2)), run(3, 1), permits(2, run(3, 1))];
