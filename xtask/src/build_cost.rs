//! `build-cost`: what a cold release build costs here, and what it cost at an earlier commit, side by side.
//!
//! Both trees are committed ones, checked out into a temporary folder and built one after the other with nothing
//! compiled before. CPU time is compared, not elapsed time, so that a second core or a slow disk changes little; what
//! else runs on the machine still does, so leave it alone meanwhile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};

/// The commit before the crates were split by role, whose build everything since is compared with.
const BASE: &str = "0db6328";

/// Time and size of one build.
struct Cost {
    cpu: f64,
    elapsed: f64,
    binary: u64,
}

/// Builds the commit `against`, or [`BASE`], and `HEAD`, and prints what each took.
pub(crate) fn build_cost(root: &Path, against: Option<&str>) -> anyhow::Result<()> {
    let against = against.unwrap_or(BASE);
    let before = cold_build(root, against)?;
    let after = cold_build(root, "HEAD")?;
    eprintln!("cold `cargo build --release`     {against:>10}         HEAD    HEAD in % of {against}");
    row("CPU time, s", before.cpu, after.cpu);
    row("elapsed time, s", before.elapsed, after.elapsed);
    row("binary, MB", before.binary as f64 / 1e6, after.binary as f64 / 1e6);
    Ok(())
}

fn row(what: &str, before: f64, after: f64) {
    eprintln!("{what:<30} {before:>12.1} {after:>12.1} {:>22.0}", after / before * 100.0);
}

/// Checks `commit` out into a folder of its own, builds it there, and deletes the folder.
fn cold_build(root: &Path, commit: &str) -> anyhow::Result<Cost> {
    let folder = std::env::temp_dir().join(format!("meshlock-build-cost-{}", std::process::id()));
    let cost = checkout(root, commit, &folder).and_then(|()| {
        // Downloads are no part of the build.
        run(cargo(&folder).args(["fetch", "--locked"]))?;
        let (start, cpu) = (Instant::now(), children_cpu()?);
        run(cargo(&folder).args(["build", "--release", "--locked"]))?;
        let (elapsed, cpu) = (start.elapsed().as_secs_f64(), children_cpu()? - cpu);
        let binary = fs::metadata(folder.join("target/release/meshlock"))?.len();
        Ok(Cost { cpu, elapsed, binary })
    });
    fs::remove_dir_all(&folder).with_context(|| format!("cannot delete {}", folder.display()))?;
    cost
}

fn checkout(root: &Path, commit: &str, folder: &Path) -> anyhow::Result<()> {
    let (from, to) = (root.as_os_str(), folder.as_os_str());
    run(Command::new("git").args(["clone", "--quiet", "--no-checkout"]).args([from, to]))?;
    run(Command::new("git").arg("-C").arg(to).args(["checkout", "--quiet", commit]))
}

/// A cargo that builds into `folder` as a newcomer's would: without the settings of the cargo that runs this.
fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(folder).env("CARGO_TARGET_DIR", folder.join("target"));
    for set in ["RUSTFLAGS", "CARGO_BUILD_JOBS", "CARGO_INCREMENTAL", "RUSTC_WRAPPER"] {
        command.env_remove(set);
    }
    command
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}

/// The seconds of CPU time that all children that have ended took, in user and in kernel mode.
pub(crate) fn children_cpu() -> anyhow::Result<f64> {
    let path = PathBuf::from("/proc/self/stat");
    let stat =
        fs::read_to_string(&path).context("cannot read /proc/self/stat; CPU time is known on Linux only")?;
    ticks_of_children(&stat)
        .map(|ticks| ticks / TICKS_A_SECOND)
        .context("/proc/self/stat has another form than expected")
}

/// What `/proc` counts in, whatever the kernel's own timer is set to.
const TICKS_A_SECOND: f64 = 100.0;

/// Fields 16 and 17 of `/proc/PID/stat`; the second field is a name in brackets, which may contain spaces.
fn ticks_of_children(stat: &str) -> Option<f64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut times = after_name.split_whitespace().skip(13);
    Some(times.next()?.parse::<f64>().ok()? + times.next()?.parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_a_name_with_spaces_and_brackets() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 1 2 3 4 11 12 130 14 20 0 1 0 99";
        assert_eq!(ticks_of_children(stat), Some(144.0));
        assert_eq!(ticks_of_children("7 (a"), None);
    }

    #[test]
    fn a_child_that_computes_adds_to_the_cpu_time() {
        let before = children_cpu().expect("this is Linux");
        let spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        run(Command::new("sh").args(["-c", spin])).expect("sh runs");
        assert!(children_cpu().expect("this is Linux") > before);
    }
}
