//! The rows of experiments whose runs are too long for a test, from short runs: their labels, what they are compared with, and their
//! verdicts stay as they are in `verdicts.txt`.
//!
//! The verdicts are those of the short runs, not the ones that `meshlock reproduce` prints. They show that the rows read the right runs
//! and judge as before. With `MESHLOCK_RECORD_VERDICTS=1` the test writes the file instead.

use std::fmt::Write;
use std::path::Path;

use meshlock_protocol::Spec;
use meshlock_sim::experiments::{ALL, Work};
use meshlock_sim::measure;

/// Entries of a run: enough for 20 batches.
const ENTRIES: u64 = 200;

const SHORTENED: [&str; 7] = [
    "bulgannawar-1994-figure-5",
    "bulgannawar-1994-saturation",
    "bulgannawar-1994-inform",
    "bulgannawar-1994-checks",
    "bulgannawar-1994-larger-e",
    "chapter-9-maekawa-deadlocks",
    "cao-singhal-2001",
];

/// One line for each row of the experiment.
fn rows(id: &str) -> String {
    let experiment = ALL.iter().find(|experiment| experiment.id == id).expect("an experiment");
    let Work::Runs { jobs, read } = experiment.work else { panic!("{id} has runs") };
    let reports: Vec<_> = jobs()
        .into_iter()
        .map(|mut job| {
            job.settings.entries = ENTRIES;
            let spec: Spec = job.spec.parse().expect("a registered name");
            measure(&spec, &job.settings).unwrap_or_else(|stopped| panic!("{}: {stopped}", job.spec))
        })
        .collect();
    let mut lines = format!("{id}\n");
    for row in read(&reports).rows {
        let against = [row.published, row.derived].concat();
        let (label, quantity, verdict) = (row.label, row.quantity, row.verdict.name());
        writeln!(lines, "{label} | {quantity} | {against} | {:.2} | {verdict}", row.measured)
            .expect("a string takes all");
    }
    lines
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads and, if asked to, writes its golden file")]
fn the_rows_of_long_experiments_are_what_they_were() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verdicts.txt");
    let found = SHORTENED.map(rows).join("\n");
    if std::env::var_os("MESHLOCK_RECORD_VERDICTS").is_some() {
        return std::fs::write(&file, found).expect("the golden file can be written");
    }
    let golden = std::fs::read_to_string(&file).expect("the golden file can be read");
    for (found, golden) in found.lines().zip(golden.lines()) {
        assert_eq!(found, golden);
    }
    assert_eq!(found.lines().count(), golden.lines().count());
}
