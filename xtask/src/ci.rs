//! `ci` and `fix`: the same tools, checking and rewriting.

use std::path::Path;

use crate::build_cost::children_cpu;
use crate::run::{cargo, cargo_test, has, step};
use crate::{compiler, generated, others, packages, tidy};

/// Tests that are left out, and counted as such; the steps of `soak` that are named beside them run them.
pub(crate) const LEFT_TO_SOAK: &[&str] = &[
    // `zookeeper`: it brings a Java runtime.
    ZOOKEEPER,
    // `explorations`: larger state spaces than the others, which take longer than all that are left.
    MEDIUM_RUNS,
    ALL_ERRATA,
    NORMAL_FORMS,
    SHORTEST,
    // `promise`: it brings etcd's client for Go, and waits for many leases.
    PROMISE,
    // `promise`, too: the same client.
    KEPT_BY_GO,
    // `proofs`: it asks all questions, also those that take long.
    ALL_PROOFS,
    // `browsers`: it plays again in two more browsers what takes long in one.
    BROWSERS,
];

/// The test of the benchmark's client of ZooKeeper.
pub(crate) const ZOOKEEPER: &str = "zookeeper_excludes_and_its_fences_grow";

/// The test of clients of etcd whose site dies.
pub(crate) const PROMISE: &str =
    "clients_of_others_know_that_their_lock_is_lost_before_the_next_holder_has_it";

/// The test of a session of etcd's client for Go that knows all sites, one of which dies.
pub(crate) const KEPT_BY_GO: &str =
    "a_session_of_etcd_s_client_for_go_keeps_its_lock_when_its_site_is_killed_or_terminated";

/// The test that proves everything and compares the whole of docs/PROVED.md.
pub(crate) const ALL_PROOFS: &str = "the_document_says_what_is_proved_and_everything_is_by_both_solvers";

/// The test of the lab's page in three browsers.
pub(crate) const BROWSERS: &str = "the_page_does_everything_in_every_browser";

/// The test that explores the larger runs of docs/CHECKED.md.
pub(crate) const MEDIUM_RUNS: &str = "every_run_of_medium_size_is_found_again";

/// The test that compares the states of the larger endless runs with their normal forms.
pub(crate) const NORMAL_FORMS: &str =
    "in_all_of_every_larger_recorded_graph_a_state_and_its_normal_form_can_take_the_same_steps";

/// The test that looks for shorter counterexamples in other structures.
pub(crate) const SHORTEST: &str = "no_other_small_structure_leaves_a_newcomer_untold_in_fewer_steps";

/// The test that explores all errata.
pub(crate) const ALL_ERRATA: &str = "the_whole_page_is_what_all_explorations_give";

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
    // The fuzzers are no part of the workspace, so nothing else looks at what they are locked to.
    cargo(root, "fetch --locked --manifest-path fuzz/Cargo.toml", &[])?;
    // Lints, types, documentation and code of every target in one go; the tests below run what this has compiled.
    let environment = compiler::environment(root)?;
    let compiled = &environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    cargo(root, "build --workspace --all-targets --all-features --locked", compiled)?;
    if has(root, "nextest") {
        // Many tests wait for processes and leases: one more at a time than there are cores keeps these busy.
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let filter = LEFT_TO_SOAK.iter().map(|test| format!("!test({test})")).collect::<Vec<_>>().join("&");
        let run = format!(
            "nextest run --workspace --all-features --locked --test-threads {} -E {filter}",
            cores + 1
        );
        cargo_test(root, &run, compiled, LEFT_TO_SOAK)?;
        cargo(root, "test --workspace --all-features --doc --locked", compiled)?;
    } else {
        // With the examples of documents; not with `--all-targets`, which builds other examples as tests, so that no test can run them.
        let skips = LEFT_TO_SOAK.iter().map(|test| format!("--skip {test}")).collect::<Vec<_>>().join(" ");
        let run = format!("test --workspace --all-features --locked -- {skips}");
        cargo_test(root, &run, compiled, LEFT_TO_SOAK)?;
    }
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
    step("tables of the tests of others", || others::write(root))?;
    step("docs/ERRATA.md", || generated::write_errata(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_that_is_left_out_exists() {
        let files = [
            (ZOOKEEPER, "crates/bench/src/peers/tests.rs"),
            (MEDIUM_RUNS, "crates/check/tests/matrix.rs"),
            (ALL_ERRATA, "crates/check/tests/errata.rs"),
            (NORMAL_FORMS, "crates/check/tests/validation/endless.rs"),
            (SHORTEST, "crates/check/tests/golden/shortest.rs"),
            (PROMISE, "crates/cli/tests/node/promise/mod.rs"),
            (KEPT_BY_GO, "crates/cli/tests/node/promise/kept.rs"),
            (ALL_PROOFS, "crates/proof/tests/proved/proofs.rs"),
            (BROWSERS, "crates/lab/tests/browser/main.rs"),
        ];
        assert_eq!(files.map(|(test, _)| test), LEFT_TO_SOAK);
        for (test, file) in files {
            let tests = std::fs::read_to_string(crate::root().join(file)).unwrap();
            assert_eq!(tests.matches(&format!("fn {test}()")).count(), 1, "{test}");
        }
    }
}
