//! `ci` and `fix`: the same tools, checking and rewriting.

use std::path::Path;

use crate::build_cost::children_cpu;
use crate::run::{cargo, cargo_test, has, step};
use crate::{generated, packages, tidy};

/// The test that is left out, and counted as such: ZooKeeper brings a Java runtime. The step `zookeeper` of `soak` runs it.
pub(crate) const LEFT_TO_SOAK: &str = "zookeeper_excludes_and_its_fences_grow";

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
        let run = format!(
            "nextest run --workspace --all-features --locked --test-threads {} -E !test({LEFT_TO_SOAK})",
            cores + 1
        );
        cargo_test(root, &run, &[], &[LEFT_TO_SOAK])?;
        cargo(root, "test --workspace --all-features --doc --locked", &[])?;
    } else {
        // With the examples of documents; not with `--all-targets`, which builds other examples as tests, so that no test can run them.
        let run = format!("test --workspace --all-features --locked -- --skip {LEFT_TO_SOAK}");
        cargo_test(root, &run, &[], &[LEFT_TO_SOAK])?;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_that_is_left_out_exists() {
        let tests = std::fs::read_to_string(crate::root().join("crates/bench/src/peers/tests.rs")).unwrap();
        assert_eq!(tests.matches(&format!("fn {LEFT_TO_SOAK}()")).count(), 1);
    }
}
