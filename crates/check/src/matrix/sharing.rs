//! The runs of algorithms that know modes, in which processes share.

use meshlock_protocol::Mode;
use meshlock_protocol::registry::info::Info;

use super::{Case, case_of};
use crate::Entries;

const ALL: &[Mode] = &Mode::ALL;
const READERS_AND_WRITERS: &[Mode] = &[Mode::Shared, Mode::Exclusive];

/// The specs that are explored with modes. Another one is added here; `meshlock check all --only SPEC --record` makes its rows.
const SPECS: [&str; 1] = ["ricart-agrawala:modes"];

/// The sites, the requests of each, the modes that it asks for, the changes of mode of a process that is inside.
const RUNS: [(usize, u8, &[Mode], u8); 7] = [
    (2, 2, ALL, 0),
    (2, 1, ALL, 2),
    (2, 2, ALL, 1),
    (3, 1, READERS_AND_WRITERS, 0),
    (3, 1, ALL, 0),
    (3, 1, ALL, 1),
    (3, 2, READERS_AND_WRITERS, 0),
];

/// The runs of a spec with modes.
pub(super) fn cases(info: &Info, spec: &str) -> Vec<Case> {
    if !SPECS.contains(&spec) {
        return Vec::new();
    }
    let case = |(sites, entries, modes, changes): (usize, u8, &[Mode], u8)| Case {
        modes: modes.to_vec(),
        changes,
        ..case_of(info, spec, (sites, entries, 1))
    };
    let mut cases: Vec<Case> = RUNS.into_iter().map(case).collect();
    // Without a window a reader could go on for ever while a message of another one is on its way.
    let endless = case((2, 1, READERS_AND_WRITERS, 0));
    cases.push(Case { entries: Entries::Endless, window: Some(3), ..endless });
    cases
}
