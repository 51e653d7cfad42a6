//! The root: a bare Debian with a C compiler, and the committed tree in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::machine::{self, Machine};

/// Where the tree lies in the root, and where Rust does.
pub(super) const TREE: &str = "srv/meshlock";
pub(super) const RUST: &str = "opt/rust";

/// A C compiler. Everything else is what Debian cannot do without.
const PACKAGES: &str = "gcc,libc6-dev";

/// What Debian's installer writes, and what containers have.
const HOSTS: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";

/// A root, which need not exist.
pub(super) struct Root {
    path: PathBuf,
}

impl Root {
    pub(super) fn new(path: PathBuf) -> Self {
        Root { path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Written when nothing is left to do, so that half a root is not reused.
    fn mark(&self) -> PathBuf {
        self.path.with_extension("complete")
    }

    /// Whether an earlier run has made and kept it.
    pub(super) fn is_complete(&self) -> bool {
        self.mark().exists()
    }

    /// Makes it anew, from this machine's package sources.
    pub(super) fn make(&self, machine: &Machine) -> anyhow::Result<()> {
        self.remove()?;
        let settings = self.path.with_extension("apt.conf");
        fs::write(&settings, machine::apt_settings()?)?;
        let mut debootstrap = Command::new("mmdebstrap");
        debootstrap.args(["--variant=minbase", "--include", PACKAGES, "--aptopt"]).arg(&settings);
        debootstrap.arg(release()?).arg(&self.path).args(machine::package_sources()?);
        run(&mut debootstrap)?;
        // Whoever installs a machine says how names are looked up, and what the machine itself is called: chromedriver asks.
        fs::copy("/etc/resolv.conf", self.path.join("etc/resolv.conf"))?;
        fs::write(self.path.join("etc/hosts"), HOSTS)?;
        fs::create_dir_all(self.path.join(RUST))?;
        machine.copy_into(&self.path)?;
        fs::write(self.mark(), "")?;
        Ok(())
    }

    /// Puts the tree of `workspace` into it as it is committed. What was compiled of an earlier one stays.
    pub(super) fn check_out(&self, workspace: &Path) -> anyhow::Result<()> {
        let tree = self.path.join(TREE);
        fs::create_dir_all(&tree)?;
        let git = |dir: &Path, arguments: &[&str]| {
            let mut git = Command::new("git");
            git.current_dir(dir).args(arguments);
            git
        };
        let changed = git(workspace, &["status", "--porcelain"]).output().context("cannot start git")?;
        if !changed.stdout.is_empty() {
            eprintln!("fresh: what is not committed is not tried");
        }
        run(&mut git(&tree, &["init", "--quiet"]))?;
        run(git(&tree, &["fetch", "--quiet", "--depth=1"]).arg(workspace).arg("HEAD"))?;
        run(&mut git(&tree, &["checkout", "--quiet", "--force", "FETCH_HEAD"]))?;
        run(&mut git(&tree, &["clean", "--quiet", "--force", "-d"]))
    }

    /// Gives it this machine's cargo-nextest, or takes it away.
    pub(super) fn set_nextest(&self, wanted: bool) -> anyhow::Result<()> {
        let inside = self.path.join("usr/local/bin/cargo-nextest");
        if wanted {
            let places = std::env::var_os("PATH").unwrap_or_default();
            let mut found = std::env::split_paths(&places).map(|place| place.join("cargo-nextest"));
            let program = found.find(|program| program.is_file());
            fs::copy(program.context("--with-nextest: this machine has no cargo-nextest")?, inside)?;
        } else if inside.exists() {
            fs::remove_file(inside)?;
        }
        Ok(())
    }

    /// Deletes it. What is mounted in it is seen only from inside, but nothing on another file system is touched in any case.
    pub(super) fn remove(&self) -> anyhow::Result<()> {
        if self.mark().exists() {
            fs::remove_file(self.mark())?;
        }
        run(Command::new("rm").args(["-rf", "--one-file-system"]).arg(&self.path))
    }
}

/// The directory of the Rust toolchain that runs here.
pub(super) fn toolchain(workspace: &Path) -> anyhow::Result<PathBuf> {
    let mut rustc = Command::new("rustc");
    let output =
        rustc.current_dir(workspace).args(["--print", "sysroot"]).output().context("cannot start rustc")?;
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let is_alone = path.join("bin/cargo").exists() && path != Path::new("/usr");
    ensure!(
        is_alone,
        "fresh needs a Rust in a directory of its own, as rustup installs it; this one is in {}",
        path.display()
    );
    Ok(path)
}

/// The name of this machine's release of Debian.
fn release() -> anyhow::Result<String> {
    let text = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    Ok(name.context("/etc/os-release names no release")?.trim_matches('"').to_owned())
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("cannot start {program}"))?;
    ensure!(status.success(), "{program} failed: {status}");
    Ok(())
}
