//! `fresh`: the README's two commands on a machine that has what the README asks for, and nothing else.
//!
//! The machine is a bare Debian root below the target directory, made for this run and deleted after it.
//!
//! | file | subject |
//! |---|---|
//! | `readme.rs` | the two commands, as the README has them, and what it shows of their output |
//! | `root.rs` | making the root: Debian, a C compiler, Rust, the committed tree |
//! | `machine.rs` | what this machine needs to reach its registries: proxies, certificates, mirrors |
//! | `inside.rs` | running a command in the root, in namespaces of its own |
//! | `missing.rs` | what a command that failed did not find |

mod inside;
mod machine;
mod missing;
mod readme;
mod root;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::packages;
use crate::run::step;
use inside::Ran;
use machine::Machine;
use root::Root;

/// What was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Do not delete the root.
    keep: bool,
    /// Take the root that an earlier run has kept, with what it has installed and compiled, and keep it again.
    reuse: bool,
    /// Give the root this machine's cargo-nextest, which the README does not ask for.
    with_nextest: bool,
    dir: Option<PathBuf>,
}

impl Options {
    /// Reads the command line; the error says what is wrong with it.
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut options = Options::default();
        let mut rest = arguments.iter();
        while let Some(&option) = rest.next() {
            match option {
                "--keep" => options.keep = true,
                "--reuse" => options.reuse = true,
                "--with-nextest" => options.with_nextest = true,
                "--dir" => options.dir = Some(rest.next().ok_or("--dir needs a value")?.into()),
                _ => return Err(format!("fresh has no option {option}")),
            }
        }
        Ok(options)
    }
}

/// Runs the README's commands in a fresh root. Fails if one of them does, after saying what was missing.
pub(crate) fn fresh(workspace: &Path, options: &Options) -> anyhow::Result<()> {
    check_needs()?;
    let dir = options.dir.clone().unwrap_or_else(|| crate::target_dir(workspace).join("fresh"));
    let dir = std::path::absolute(dir)?;
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let root = Root::new(dir.join("root"));
    let tried = try_commands(workspace, options, &root, &dir);
    if options.keep || options.reuse {
        eprintln!("fresh: the root is kept in {}", root.path().display());
    } else {
        root.remove()?;
    }
    conclude(&tried?)
}

/// A command, how long it took, and how it ended.
type Tried = (String, Duration, Ran);

fn try_commands(workspace: &Path, options: &Options, root: &Root, dir: &Path) -> anyhow::Result<Vec<Tried>> {
    let commands = readme::commands(&fs::read_to_string(workspace.join("README.md"))?)?;
    let toolchain = root::toolchain(workspace)?;
    let machine = Machine::look();
    if options.reuse && root.is_complete() {
        eprintln!("fresh: reusing {}", root.path().display());
    } else {
        step("a bare Debian", || root.make(&machine))?;
    }
    root.set_nextest(options.with_nextest)?;
    root.check_out(workspace)?;
    let mut tried = Vec::new();
    for (at, readme) in commands.into_iter().enumerate() {
        eprintln!("fresh: {}", readme.command);
        let start = Instant::now();
        let log = dir.join(format!("command-{}.log", at + 1));
        let mut ran = inside::run(root, &toolchain, &machine, &readme.command, &log)?;
        if let Some(line) = readme.first_missing(&ran.output) {
            eprintln!("fresh: the README shows a line that was not printed: {line}");
            ran.succeeded = false;
        }
        tried.push((readme.command, start.elapsed(), ran));
    }
    Ok(tried)
}

/// What makes the root must be there; mmdebstrap is installed if it is not.
fn check_needs() -> anyhow::Result<()> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    ensure!(is_root, "fresh makes a root file system and mounts it: run it as root");
    ensure!(
        packages::has_program("apt-get"),
        "fresh makes a Debian with Debian's tools, and there is no apt-get"
    );
    for program in ["unshare", "pivot_root", "git"] {
        ensure!(packages::has_program(program), "fresh needs the program {program}");
    }
    packages::install(&[packages::program("mmdebstrap", "mmdebstrap", "makes the bare Debian")])
}

fn conclude(tried: &[Tried]) -> anyhow::Result<()> {
    for (command, _, ran) in tried.iter().filter(|(_, _, ran)| !ran.succeeded) {
        eprintln!("\nfresh: {command} failed; the end of {}:\n{}", ran.log.display(), ran.tail());
        let missing = missing::missing(&ran.output);
        if missing.is_empty() {
            eprintln!("fresh: its output does not tell that something was not found");
        } else {
            eprintln!("fresh: not found, as far as its output tells:\n  {}", missing.join("\n  "));
        }
    }
    eprintln!("\nfresh: summary");
    for (command, took, ran) in tried {
        let outcome = if ran.succeeded { "passed" } else { "FAILED" };
        eprintln!("  {outcome}  {:7.1} s  {command}", took.as_secs_f64());
    }
    ensure!(tried.iter().all(|(_, _, ran)| ran.succeeded), "not all of the README's commands work here");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_mistakes_are_named() {
        assert!(!Options::parse(&[]).unwrap().with_nextest, "the README does not ask for it");
        assert!(Options::parse(&["--with-nextest"]).unwrap().with_nextest);
        let options = Options::parse(&["--keep", "--dir", "somewhere"]).unwrap();
        assert_eq!(options, Options { keep: true, dir: Some("somewhere".into()), ..Options::default() });
        assert_eq!(Options::parse(&["--dir"]).unwrap_err(), "--dir needs a value");
        assert_eq!(Options::parse(&["--fast"]).unwrap_err(), "fresh has no option --fast");
    }
}
