//! Running cargo and other steps, each with a line when it begins and one when it is done.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

/// What is built once needs neither what makes the next build faster nor what a debugger reads.
pub(crate) const BUILT_ONCE: &[(&str, &str)] =
    &[("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0")];

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
        let status = command.status().with_context(|| format!("cannot start cargo {arguments}"))?;
        if !status.success() {
            bail!("cargo {arguments} failed");
        }
        Ok(())
    })
}

/// Runs one step and says how long it took.
pub(crate) fn step(name: &str, run: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    eprintln!("xtask: {name}");
    let start = Instant::now();
    run()?;
    eprintln!("xtask: {name}: ok in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
