//! Running a command in the root.
//!
//! It has a mount namespace in which the root is `/` and a mount point, as on a real machine: `ip netns` refuses anything else.
//! It has a process namespace too, so that nothing that it starts outlives it. The network is this machine's.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use super::machine::Machine;
use super::root::{RUST, Root, TREE};

/// Mounts what every machine has, makes the root `/`, lets go of this machine's files, and runs the command. The shell stays as
/// the first process, as an init does, and waits for whatever loses its parent: tests leave processes behind on purpose.
/// Its arguments: the root, the toolchain, its place, the tree's place, the command.
const SCRIPT: &str = r#"
exec 2>&1
set -eu
mount --bind "$1" "$1"
cd "$1"
mount --rbind /dev dev
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount --rbind /sys sys
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs run
mount --bind "$2" "$3"
mount -o remount,bind,ro "$3"
mkdir run/outside
pivot_root . run/outside
exec chroot . sh -euc 'umount -l /run/outside; rmdir /run/outside; cd "/$1"; sh -euc "$2"; exit 0' sh "$4" "$5"
"#;

/// How many lines of a log are shown.
const TAIL: usize = 60;

/// A command that has ended.
pub(super) struct Ran {
    pub(super) succeeded: bool,
    pub(super) output: String,
    /// Where its output is kept.
    pub(super) log: PathBuf,
}

impl Ran {
    /// The last lines of its output.
    pub(super) fn tail(&self) -> String {
        let lines: Vec<&str> = self.output.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }
}

/// Runs a command line in the root, showing what it prints.
pub(super) fn run(
    root: &Root,
    toolchain: &Path,
    machine: &Machine,
    command: &str,
    log: &Path,
) -> anyhow::Result<Ran> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]);
    unshare.args(["--", "sh", "-c", SCRIPT, "sh"]);
    unshare.arg(root.path()).arg(toolchain).args([RUST, TREE, command]);
    unshare.env_clear().envs(machine.variables());
    unshare.env("PATH", format!("/{RUST}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
    unshare.env("HOME", "/root");
    let mut child =
        unshare.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start unshare")?;
    let mut lines = BufReader::new(child.stdout.take().context("its output is a pipe")?);
    let mut file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        file.write_all(&line)?;
        std::io::stderr().write_all(&line)?;
        line.clear();
    }
    let status = child.wait()?;
    let output = String::from_utf8_lossy(&fs::read(log)?).into_owned();
    Ok(Ran { succeeded: status.success(), output, log: log.to_owned() })
}
