//! Running cargo, git and other steps. Each step prints a line when it begins and one when it is done.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

use crate::build_cost::children_cpu;

/// Settings for one-off builds: no incremental compilation, no debug information, fewer codegen units.
pub(crate) const BUILT_ONCE: &[(&str, &str)] = &[
    ("CARGO_INCREMENTAL", "0"),
    ("CARGO_PROFILE_DEV_DEBUG", "0"),
    ("CARGO_PROFILE_DEV_LTO", "off"),
    ("CARGO_PROFILE_DEV_CODEGEN_UNITS", "4"),
];

/// With this set, a test fails that lacks a program or a right; without it, it is skipped.
const ALL_MUST_RUN: (&str, &str) = ("MESHLOCK_ALL_TESTS", "1");

/// Names the file in which tests write down that they lack something, and what.
const SKIPPED_LOG: &str = "MESHLOCK_SKIPPED_LOG";

/// Hosts for which no client may ask a proxy: the servers of tests are on this machine.
const DIRECT: &str = "127.0.0.1,localhost";

/// Whether cargo has a subcommand.
pub(crate) fn has(root: &Path, subcommand: &str) -> bool {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root).args([subcommand, "--version"]);
    command.output().is_ok_and(|output| output.status.success())
}

/// Runs cargo with arguments that contain no spaces, and `environment` besides what is there.
pub(crate) fn cargo(root: &Path, arguments: &str, environment: &[(&str, &str)]) -> anyhow::Result<()> {
    step(&format!("cargo {arguments}"), || {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(root).args(arguments.split(' '));
        command.envs(BUILT_ONCE.iter().chain(environment).copied());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_of_this_crate)) {
            command.env_remove(name);
        }
        let status = command.status().with_context(|| format!("cannot start cargo {arguments}"))?;
        if !status.success() {
            bail!("cargo {arguments} failed");
        }
        Ok(())
    })
}

/// Whether cargo has set this variable because it runs this program: the build script of `ring` asks for such variables, so that `ring` and
/// all that is above it would be compiled anew whenever a cargo without them was used between two runs.
fn is_of_this_crate(variable: &str) -> bool {
    ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|prefix| variable.starts_with(prefix))
}

/// Runs cargo as above, for tests of which none may be skipped, and prints at the end how many would have been, and the names of the
/// tests that `arguments` leaves out.
pub(crate) fn cargo_test(
    root: &Path,
    arguments: &str,
    environment: &[(&str, &str)],
    left_out: &[&str],
) -> anyhow::Result<()> {
    let names = ["no_proxy", "NO_PROXY"];
    let given = names.iter().find_map(|name| std::env::var(name).ok());
    let direct = given.map_or_else(|| DIRECT.to_owned(), |hosts| format!("{hosts},{DIRECT}"));
    let log = crate::target_dir(root).join("skipped-tests.txt");
    // It is there if this was run before.
    let _ = fs::remove_file(&log);
    let log_name = log.to_str().context("the target directory's name is UTF-8")?;
    let own = [ALL_MUST_RUN, (SKIPPED_LOG, log_name), (names[0], &direct), (names[1], &direct)];
    let outcome = cargo(root, arguments, &[&own, environment].concat());
    eprintln!("xtask: {}", skipped(&fs::read_to_string(&log).unwrap_or_default(), left_out));
    outcome
}

/// Returns how many tests wrote down that they lack something, their names and what they lack, and which tests were left out. A test
/// that lacks several things may have written a line for each.
fn skipped(log: &str, left_out: &[&str]) -> String {
    let mut tests: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (test, why) in log.lines().filter_map(|line| line.split_once('\t')) {
        let whys = tests.entry(test).or_default();
        if !whys.contains(&why) {
            whys.push(why);
        }
    }
    let left = if left_out.is_empty() {
        String::new()
    } else {
        format!("left to `cargo xtask soak`: {} ({}); ", left_out.len(), left_out.join(", "))
    };
    if tests.is_empty() {
        return format!("{left}skipped: none");
    }
    let lines: Vec<String> =
        tests.iter().map(|(test, whys)| format!("\n  {test}: {}", whys.join("; "))).collect();
    format!("{left}skipped: {}, and so failed, because every test must run:{}", tests.len(), lines.concat())
}

/// Runs one step and says how long it took, by the clock and in CPU time where that is known.
pub(crate) fn step(name: &str, run: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    eprintln!("xtask: {name}");
    let (start, cpu) = (Instant::now(), children_cpu());
    run()?;
    let elapsed = start.elapsed().as_secs_f64();
    match (cpu, children_cpu()) {
        (Ok(before), Ok(after)) => {
            eprintln!("xtask: {name}: ok in {elapsed:.1} s ({:.1} s of CPU)", after - before);
        }
        (Err(_), _) | (_, Err(_)) => eprintln!("xtask: {name}: ok in {elapsed:.1} s"),
    }
    Ok(())
}

/// The files that git tracks, and those that it does not ignore, relative to `root`.
pub(crate) fn tracked_files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let output = git.output().context("tidy asks git which files there are, and git did not start")?;
    if !output.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let listing = String::from_utf8(output.stdout).context("file names are UTF-8")?;
    Ok(listing.lines().map(PathBuf::from).filter(|path| root.join(path).is_file()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_tells_this_program_of_its_crate_is_not_told_to_other_crates() {
        assert!(is_of_this_crate("CARGO_MANIFEST_DIR") && is_of_this_crate("CARGO_PKG_NAME"));
        assert!(!is_of_this_crate("CARGO_TARGET_DIR") && !is_of_this_crate("CARGO_HOME"));
    }

    #[test]
    fn skipped_tests_are_counted_and_listed_once() {
        assert_eq!(skipped("", &[]), "skipped: none");
        assert_eq!(skipped("", &["a", "b"]), "left to `cargo xtask soak`: 2 (a, b); skipped: none");
        let log = "b::two\tthe program x; apt-get install x\na::one\troot\nb::two\tthe program x; apt-get install x\n";
        let text = skipped(log, &[]);
        assert!(text.starts_with("skipped: 2, "), "{text}");
        assert!(text.ends_with(":\n  a::one: root\n  b::two: the program x; apt-get install x"), "{text}");
    }
}
