//! The programs that tests use and nobody here wrote, from the system's packages.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

/// With this set, a test whose program is missing fails; without it, it says what is missing and passes.
pub(crate) const ALL_MUST_RUN: &[(&str, &str)] = &[("MESHLOCK_ALL_TESTS", "1")];

/// What each package is for is known by the program that it brings.
const NEEDED: &[(&str, &str)] = &[
    ("ip", "iproute2"),
    ("curl", "curl"),
    ("etcd", "etcd-server"),
    ("redis-server", "redis-server"),
    ("etcdctl", "etcd-client"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("python3", "python3"),
    // What the `etcd-client` crate is built with.
    ("protoc", "protobuf-compiler"),
    ("chromium", "chromium"),
    ("chromedriver", "chromium-driver"),
];

/// Installs what is missing.
pub(crate) fn install() -> anyhow::Result<()> {
    let mut missing: Vec<&str> =
        NEEDED.iter().filter(|(program, _)| !is_there(program)).map(|&(_, package)| package).collect();
    if !python_makes_environments() {
        missing.push("python3-venv");
    }
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("xtask: installing {}", missing.join(", "));
    // Lists may be older than what the archive still has.
    apt(&["update", "--quiet=2"])?;
    apt(&[&["install", "--quiet=2", "--yes", "--no-install-recommends"], missing.as_slice()].concat())
}

fn is_there(program: &str) -> bool {
    let places = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(|place| Path::new(place).to_owned());
    std::env::split_paths(&places).chain(system).any(|place| place.join(program).is_file())
}

/// Debian keeps what `python3 -m venv` needs in a package of its own, which brings no program.
fn python_makes_environments() -> bool {
    let asked = Command::new("python3").args(["-c", "import ensurepip"]).output();
    asked.is_ok_and(|output| output.status.success())
}

fn apt(arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    // At this run level no service is started.
    command.env("RUNLEVEL", "1");
    let status = command.status().with_context(|| {
        format!("cannot start apt-get; install by hand what brings: {}", programs().join(", "))
    })?;
    if !status.success() {
        bail!(
            "apt-get {} failed; it needs root. Or install by hand what brings: {}",
            arguments[0],
            programs().join(", ")
        );
    }
    Ok(())
}

fn programs() -> Vec<&'static str> {
    NEEDED.iter().map(|&(program, _)| program).collect()
}
