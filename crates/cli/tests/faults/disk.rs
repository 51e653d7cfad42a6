//! Full disks.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use meshlock_system::now;
use meshlock_testing::{
    BoundedChild, BoundedCommand, Deadline, WITHIN, eventually, first_some, needs_root, skip,
};
use tempfile::TempDir;

use crate::cluster::{Cluster, TERMS, plain};
use crate::herd::LOCK;
use crate::network::Network;
use crate::session::Session;
use crate::trial::{SITES, Trial};

/// What a site logs when a write fails, and when the write has succeeded at last.
const COMPLAINT: &str = "cannot write what the cluster agreed on; trying again";
const RELIEF: &str = "the disk accepts writes again; all delayed writes are durable";

/// A small file system, which is unmounted when this is dropped.
struct SmallDisk {
    place: TempDir,
}

impl SmallDisk {
    /// Mounts a file system; `None` if that is not possible, and the test is skipped.
    fn mount() -> Option<Self> {
        if !needs_root("mounting a small disk") {
            return None;
        }
        let place = tempfile::tempdir().unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs"]).arg(place.path());
        let mounted = command.output_in_time();
        if mounted.status.success() {
            return Some(SmallDisk { place });
        }
        let why = String::from_utf8_lossy(&mounted.stderr).into_owned();
        skip(&format!("a small disk, which cannot be mounted: {why}"), "run the tests as root");
        None
    }

    /// Makes it the data directory of a site.
    fn lend(&self, data: &Path) {
        let dir = self.place.path().join("data");
        fs::create_dir(&dir).unwrap();
        symlink(dir, data).unwrap();
    }

    /// Fills the disk to the last byte.
    fn fill(&self) {
        let filling = self.place.path().join("filling");
        let mut file = OpenOptions::new().create(true).append(true).open(filling).unwrap();
        for bytes in [1 << 16, 1 << 12, 1] {
            let full = std::iter::repeat_with(|| file.write_all(&vec![1; bytes])).find_map(Result::err);
            assert_eq!(full.map(|error| error.kind()), Some(ErrorKind::StorageFull));
        }
    }

    fn empty(&self) {
        // A disk that was not filled has no such file.
        let _ = fs::remove_file(self.place.path().join("filling"));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // It must not panic: the test may be failing.
        if let Ok(mut umount) = Command::new("umount").arg("-l").arg(self.place.path()).spawn() {
            first_some(WITHIN, || umount.try_wait().ok().flatten());
            umount.end();
        }
    }
}

#[test]
fn a_minority_of_full_disks_delays_nobody_and_with_a_majority_no_site_is_excluded() {
    let Some(disks) = (0..SITES).map(|_| SmallDisk::mount()).collect::<Option<Vec<_>>>() else { return };
    let cluster = Cluster::prepare(Network::loopback(), SITES, plain("raymond"));
    for (site, disk) in disks.iter().enumerate() {
        disk.lend(&cluster.data(site));
    }
    let mut trial = Trial::of("full disks", cluster.begin());
    let leader = trial.cluster.leader();
    let [second, third, killed, healthy] = [1, 2, 3, 4].map(|after| (leader + after) % SITES);
    // The other voters agree on views without these, led by one that can write. The sites with full disks stay members; they only
    // cannot vote.
    for (full, spare) in [(leader, 1), (second, 0)] {
        change_views_until_full(&trial.cluster, healthy, full, &disks[full]);
        let status = trial.cluster.status(full).unwrap();
        assert!(status.disk.is_some_and(|why| why.contains("No space left")), "the site says so itself");
        trial.until_all_served();
        // Whoever is about to stop a site is told that these cannot vote.
        trial.cluster.until(healthy, "counts only voters that can write", |status| {
            status.voters.as_ref().is_some_and(|voters| voters.spare() == Some(spare))
        });
    }
    let end = now() + TERMS.length.times(20);
    let mut holder = Session::connect(&trial.cluster.socket(killed), "holder", &mut || now() > end).unwrap();
    let request = holder.want(LOCK).unwrap();
    holder.granted(request, &mut || now() > end).unwrap();
    change_views_until_full(&trial.cluster, healthy, third, &disks[third]);
    trial.cluster.kill(killed);
    // No majority can record an exclusion, so no site is excluded, however long ago its lease ended, and no leader keeps its lease.
    trial.cluster.until_without_lease(healthy);
    let before = trial.count();
    // Time itself is the subject: a lease ends at a moment of the clock, and nothing may happen then that could be waited for. By this
    // moment the killed site's last lease is over even if the others add the drift of clocks.
    let over = now() + TERMS.length.times(2);
    eventually("the killed site's lease is over", || now() > over);
    assert_eq!(trial.cluster.status(healthy).unwrap().view.members.len(), SITES, "no view is agreed on");
    assert_eq!(trial.count(), before, "nobody has the lock of the one who is gone");
    for disk in &disks {
        disk.empty();
    }
    trial.cluster.until_without(healthy, &[killed]);
    trial.cluster.start_site(killed);
    trial.end();
}

/// Fills a site's disk and adds rules at another site until the disk has no room for them. Rules are part of the view, so each view
/// is longer than the one before. Undoing a failed write may free enough space for it, so the disk is filled again until the same
/// write has failed twice.
fn change_views_until_full(cluster: &Cluster, at: usize, full: usize, disk: &SmallDisk) {
    let failures = || {
        let log = cluster.log(full);
        let since = log.rfind(RELIEF).unwrap_or(0);
        log[since..].matches(COMPLAINT).count()
    };
    let deadline = Deadline::default();
    while failures() < 2 {
        deadline.check("the same write fails twice");
        disk.fill();
        let version = add_rule(cluster, at);
        eventually("there is a new view, or no room for it", || {
            failures() > 0 || cluster.status(at).is_some_and(|status| status.view.rules_version > version)
        });
        disk.fill();
        eventually("there was room, or again none", || failures() != 1);
    }
}

/// Asks a site to add a rule. Returns the version of the rules before.
fn add_rule(cluster: &Cluster, at: usize) -> u64 {
    let view = cluster.until(at, "is there", |_| true).view;
    let mut rules = view.rules;
    let pattern = format!("{}-{}/*", "a-pattern-that-takes-some-room-on-a-disk".repeat(4), rules.rules.len());
    rules.rules.insert(0, (pattern, rules.default.clone()));
    let end = now() + TERMS.length.times(20);
    let mut session = Session::connect(&cluster.socket(at), "operator", &mut || now() > end).unwrap();
    session.set_rules(rules).unwrap();
    view.rules_version
}
