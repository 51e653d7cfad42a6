//! The store compared with the pure [`Disk`], and with directories that are damaged or wrong.

mod damage;
mod directory;
mod platter;
mod power;
mod recorded;
mod voters;

use std::path::Path;

use proptest::prelude::*;

use super::*;
use meshlock_cluster::founding::Founding;
use meshlock_cluster::membership::disk::{Ballot, LogEntry, Registrations, Saved};
use meshlock_cluster::names::{ClusterName, Incarnation};
use meshlock_cluster::view::View;

fn site(name: &str) -> SiteName {
    name.parse().unwrap()
}

/// Opens the directory of the site `a`.
fn open(dir: &Path) -> Result<(Store, Disk), StoreError> {
    Store::open(dir, &site("a"))
}

/// The error that opening the directory gives; a [`Store`] cannot be printed.
fn refusal(dir: &Path) -> StoreError {
    open(dir).map(|_| ()).expect_err("the directory is refused")
}

fn entry(index: u64, bytes: usize) -> LogEntry {
    LogEntry { index, term: index / 3 + 1, data: vec![index.to_le_bytes()[0]; bytes] }
}

fn saved(index: u64) -> Saved {
    Saved {
        index,
        term: index / 3 + 1,
        view: View { rules_version: index, ..View::default() },
        voters: None,
        access: None,
    }
}

fn ballot(term: u64, commit: u64) -> DiskWrite {
    DiskWrite::Ballot(Ballot { term, vote: 1, commit })
}

fn founding(voters: usize) -> DiskWrite {
    let sites: Vec<SiteName> = (0..voters).map(|number| site(&format!("site-{number}"))).collect();
    DiskWrite::Founding(Founding::new(ClusterName::default(), &sites))
}

fn registrations(voters: usize) -> DiskWrite {
    let incarnation = |number: usize| Incarnation::new(number as u64);
    let others = (1..voters).map(|number| (site(&format!("site-{number}")), incarnation(number))).collect();
    DiskWrite::Registrations(Registrations { disk: incarnation(voters), may_vote: voters > 2, others })
}

fn apply(disk: &mut Disk, batch: &[DiskWrite]) {
    for write in batch {
        disk.apply(write);
    }
}

/// Two batches as a voter writes them, one after the other.
fn two_batches() -> [Vec<DiskWrite>; 2] {
    let first = vec![
        founding(3),
        registrations(3),
        DiskWrite::Incarnation(Incarnation::new(1)),
        DiskWrite::Append((2..30).map(|index| entry(index, 200)).collect()),
        ballot(7, 12),
    ];
    let second = vec![
        DiskWrite::Append((20..25).map(|index| entry(index, 900)).collect()),
        DiskWrite::Compact(saved(10)),
        ballot(9, 22),
    ];
    [first, second]
}

/// What a voter may do next, drawn without knowing the content of its log.
#[derive(Clone, Copy, Debug)]
enum Step {
    Found(usize),
    Register(usize),
    Begin(u64),
    /// Entries behind the commit: how far behind, how many, how large.
    Append(u64, u64, usize),
    Commit(u64),
    Compact(u64),
    Install(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..9_usize).prop_map(Step::Found),
        (0..9_usize).prop_map(Step::Register),
        any::<u64>().prop_map(Step::Begin),
        (0..9_u64, 0..9_u64, 0..3000_usize).prop_map(|(at, count, bytes)| Step::Append(at, count, bytes)),
        (0..9_u64).prop_map(Step::Commit),
        (0..9_u64).prop_map(Step::Compact),
        (1..9_u64).prop_map(Step::Install),
    ]
}

/// Where the log of a voter begins and ends, which is all that its writes depend on.
struct Voter {
    saved: u64,
    commit: u64,
    last: u64,
}

impl Voter {
    fn batch(&mut self, steps: &[Step]) -> Vec<DiskWrite> {
        let mut batch: Vec<DiskWrite> = steps.iter().map(|step| self.write(*step)).collect();
        batch.push(ballot(self.last, self.commit));
        batch
    }

    fn write(&mut self, step: Step) -> DiskWrite {
        match step {
            Step::Found(voters) => founding(voters),
            Step::Register(voters) => registrations(voters),
            Step::Begin(incarnation) => DiskWrite::Incarnation(Incarnation::new(incarnation)),
            Step::Append(at, count, bytes) => {
                let first = (self.commit + 1 + at).min(self.last + 1);
                self.last = if count == 0 { self.last } else { first + count - 1 };
                DiskWrite::Append((first..first + count).map(|index| entry(index, bytes)).collect())
            }
            Step::Commit(more) => {
                self.commit = (self.commit + more).min(self.last);
                ballot(self.last, self.commit)
            }
            Step::Compact(keep) => {
                self.saved = self.commit.saturating_sub(keep).max(self.saved);
                DiskWrite::Compact(saved(self.saved))
            }
            Step::Install(ahead) => {
                self.saved = self.last + ahead;
                (self.commit, self.last) = (self.saved, self.saved);
                DiskWrite::Install(saved(self.saved))
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back_as_the_pure_disk_has_it(
        runs in prop::collection::vec(prop::collection::vec(prop::collection::vec(step(), 1..5), 0..5), 1..4)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut pure = Disk::default();
        let mut voter = Voter { saved: 1, commit: 1, last: 1 };
        for batches in runs {
            let (mut store, disk) = open(dir.path()).unwrap();
            prop_assert_eq!(&disk, &pure);
            for steps in batches {
                let batch = voter.batch(&steps);
                store.write(&batch).unwrap();
                apply(&mut pure, &batch);
            }
        }
        prop_assert_eq!(open(dir.path()).unwrap().1, pure);
    }
}

#[test]
fn a_new_directory_has_the_empty_disk_and_an_empty_batch_is_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, disk) = open(dir.path()).unwrap();
    assert_eq!(disk, Disk::default());
    store.write(&[]).unwrap();
    drop(store);
    assert_eq!(open(dir.path()).unwrap().1, Disk::default());
}
