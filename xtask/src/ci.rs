//! `ci` and `fix`: the same tools, checking and rewriting.

use std::path::Path;

use crate::build_cost::children_cpu;
use crate::run::{cargo, cargo_test, has, step};
use crate::{generated, packages, tidy};

/// Leaves the test of the benchmark's client of ZooKeeper, where that is not installed, to `soak`: it brings a Java runtime.
const WITHOUT_ZOOKEEPER: (&str, &str) = ("MESHLOCK_WITHOUT_ZOOKEEPER", "1");

/// Runs every check in the order in which a failure is cheapest to learn of, and stops at the first.
pub(crate) fn ci(root: &Path) -> anyhow::Result<()> {
    let done = run_checks(root);
    if let Ok(cpu) = children_cpu() {
        eprintln!("xtask: ci took {:.1} minutes of CPU time", cpu / 60.0);
    }
    done
}

fn run_checks(root: &Path) -> anyhow::Result<()> {
    step("packages", || packages::install(packages::CI))?;
    step("tidy", || tidy::tidy(root))?;
    cargo(root, "fmt --all --check", &[])?;
    cargo(root, "clippy --workspace --all-targets --all-features --locked -- -D warnings", &[])?;
    // What a program gets that does not ask for all features: nothing above has compiled the library without them.
    cargo(root, "check -p meshlock --locked", &[])?;
    cargo(root, "check -p meshlock --no-default-features --locked", &[])?;
    if has(root, "nextest") {
        // Many tests wait for processes and leases: one more at a time than there are cores keeps these busy.
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let run = format!("nextest run --workspace --all-features --locked --test-threads {}", cores + 1);
        cargo_test(root, &run, &[WITHOUT_ZOOKEEPER])?;
    } else {
        cargo_test(root, "test --workspace --all-features --all-targets --locked", &[WITHOUT_ZOOKEEPER])?;
    }
    eprintln!(
        "xtask: left to `cargo xtask soak --only zookeeper` unless it is installed: the client of ZooKeeper"
    );
    cargo(root, "test --workspace --all-features --doc --locked", &[])?;
    cargo(root, "doc --workspace --all-features --no-deps --locked", &[("RUSTDOCFLAGS", "-D warnings")])?;
    // The fuzzers are no part of the workspace, so nothing above has looked at what they are locked to.
    cargo(root, "fetch --locked --manifest-path fuzz/Cargo.toml", &[])?;
    if has(root, "deny") {
        cargo(root, "deny check", &[])?;
    } else {
        eprintln!("xtask: cargo-deny is not installed; licences and advisories were not checked");
    }
    Ok(())
}

/// Rewrites what tools can rewrite.
pub(crate) fn fix(root: &Path) -> anyhow::Result<()> {
    cargo(root, "clippy --workspace --all-targets --all-features --fix --allow-dirty --allow-staged", &[])?;
    cargo(root, "fmt --all", &[])?;
    step("generated tables", || generated::write(root))?;
    step("docs/ERRATA.md", || generated::write_errata(root))
}
