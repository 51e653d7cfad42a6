//! The system's packages that tests use: installed with `apt-get` where they are missing.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

/// A package of Debian, and what needs it.
pub(crate) struct Package {
    name: &'static str,
    /// How to tell that it is installed.
    known_by: KnownBy,
    needed_for: &'static str,
}

enum KnownBy {
    Program(&'static str),
    File(&'static str),
    /// A module that `python3` can import. Debian takes some of its standard library apart into packages without a program.
    PythonModule(&'static str),
}

/// One that is known by a program on the path.
pub(crate) const fn program(program: &'static str, name: &'static str, needed_for: &'static str) -> Package {
    Package { name, known_by: KnownBy::Program(program), needed_for }
}

/// One that is known by a file.
pub(crate) const fn file(path: &'static str, name: &'static str, needed_for: &'static str) -> Package {
    Package { name, known_by: KnownBy::File(path), needed_for }
}

/// What `cargo xtask ci` needs. Everything else that its tests call is in every Debian, also in the smallest one:
/// `cargo xtask fresh` shows it.
pub(crate) const CI: &[Package] = &[
    program("git", "git", "tidy asks it which files there are"),
    program("ip", "iproute2", "network namespaces: tests cut the network between sites"),
    program("curl", "curl", "tests of the HTTP APIs"),
    file("/etc/ssl/certs/ca-certificates.crt", "ca-certificates", "npm and pip fetch clients over HTTPS"),
    program("etcd", "etcd-server", "what is compared with, and benchmarked"),
    program("etcdctl", "etcd-client", "a client of etcd's API"),
    program("redis-server", "redis-server", "what is benchmarked"),
    program("node", "nodejs", "clients of etcd's, Consul's and our own API"),
    program("npm", "npm", "fetches them"),
    program("go", "golang-go", "the client for Go"),
    program("sqlite3", "sqlite3", "a database that checks fences, in the clients' examples"),
    program("python3", "python3", "clients of etcd's, Consul's and our own API"),
    Package {
        name: "python3-venv",
        known_by: KnownBy::PythonModule("ensurepip"),
        needed_for: "brings pip, which fetches them",
    },
    file(
        "/usr/lib/python3/dist-packages/setuptools/__init__.py",
        "python3-setuptools",
        "builds the package of the client for Python",
    ),
    file("/usr/lib/python3/dist-packages/wheel/__init__.py", "python3-wheel", "the same"),
    Package {
        name: "python3-yaml",
        known_by: KnownBy::PythonModule("yaml"),
        needed_for: "reads the manifests of Kubernetes",
    },
    program("systemd-analyze", "systemd", "says how many rights the packaged unit leaves"),
    program("z3", "z3", "proves algorithms for every number of sites"),
    program("cvc5", "cvc5", "proves them a second time"),
    program("chromium", "chromium", "tests of the lab's page"),
    program("chromedriver", "chromium-driver", "drives chromium"),
    program("firefox-esr", "firefox-esr", "tests of the lab's page in a second browser; it needs no driver"),
    program(
        "WebKitWebDriver",
        "webkit2gtk-driver",
        "tests of the lab's page in a third browser, which comes with it",
    ),
    program("Xvfb", "xvfb", "a display in memory for that browser, which has no mode without one"),
];

/// Installs what is missing of `packages`.
pub(crate) fn install(packages: &[Package]) -> anyhow::Result<()> {
    let missing: Vec<&Package> = packages.iter().filter(|package| !package.is_installed()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    for package in &missing {
        eprintln!("xtask: installing {} ({})", package.name, package.needed_for);
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    // Lists may be older than what the archive still has.
    apt(&["update", "--quiet=2"], &names)?;
    apt(&[&["install", "--quiet=2", "--yes", "--no-install-recommends"], names.as_slice()].concat(), &names)
}

impl Package {
    fn is_installed(&self) -> bool {
        match self.known_by {
            KnownBy::Program(program) => has_program(program),
            KnownBy::File(path) => Path::new(path).exists(),
            KnownBy::PythonModule(module) => {
                let asked = Command::new("python3").args(["-c", &format!("import {module}")]).output();
                asked.is_ok_and(|output| output.status.success())
            }
        }
    }
}

/// Whether a program is on the path, or where Debian keeps programs for administrators.
pub(crate) fn has_program(program: &str) -> bool {
    let places = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(|place| Path::new(place).to_owned());
    std::env::split_paths(&places).chain(system).any(|place| place.join(program).is_file())
}

fn apt(arguments: &[&str], packages: &[&str]) -> anyhow::Result<()> {
    let by_hand =
        || format!("install by hand Debian's packages, or what brings the same: {}", packages.join(" "));
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    // At this run level no service is started.
    command.env("RUNLEVEL", "1");
    let status = command.status().with_context(|| format!("cannot start apt-get; {}", by_hand()))?;
    if !status.success() {
        bail!("apt-get {} failed; it needs root. Or {}", arguments[0], by_hand());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_lacks_a_program_names_the_package_that_is_installed_here() {
        for package in CI {
            if let KnownBy::Program(program) = package.known_by {
                assert_eq!(meshlock_testing::package_of(program), package.name, "crates/testing/src/skip.rs");
            }
        }
    }
}
