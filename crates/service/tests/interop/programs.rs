//! Third-party programs: whether they are installed, and how they are run.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use meshlock_testing::{BoundedCommand, eventually_some, first_some, skip};
use rustix::fs::{Mode, OFlags};

/// Time limit for downloading packages.
const FETCHED_WITHIN: Duration = Duration::from_mins(8);

/// Returns the command for a client of etcd or Consul, without the variables that the user of this machine has set for it.
pub(crate) fn client(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut client = Command::new(program);
    let is_setting = |name: &str| ["ETCDCTL_", "CONSUL_"].iter().any(|start| name.starts_with(start));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_setting) {
            client.env_remove(name);
        }
    }
    client
}

/// Returns a directory that is kept between runs, filled by `fill` the first time; `None` if that fails, and the test is skipped.
pub(crate) fn prepared(name: &str, fill: impl FnOnce(&Path) -> bool) -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // Several processes of this test may need it at once.
    std::fs::create_dir_all(&dir).unwrap();
    let gate = std::fs::File::create(dir.join("lock")).unwrap();
    let locked = first_some(FETCHED_WITHIN, || gate.try_lock().ok());
    assert!(locked.is_some(), "another process fetches {name} for {FETCHED_WITHIN:?}");
    let done = dir.join("done");
    if !done.exists() {
        if !fill(&dir) {
            skip(&format!("what {name} needs from the network"), "give this machine a way to the registries");
            return None;
        }
        std::fs::write(done, "").unwrap();
    }
    Some(dir)
}

/// Runs a command and returns whether it succeeded.
pub(crate) fn run(command: &mut Command) -> bool {
    let output = command.output_within(FETCHED_WITHIN);
    if !output.status.success() {
        eprintln!("{command:?}: {}", text(&output.stderr));
    }
    output.status.success()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// Returns the output of a program and how it ended, for messages.
pub(crate) fn said(output: &Output) -> String {
    format!("{}|{}|{:?}", text(&output.stdout), text(&output.stderr), output.status.code())
}

/// A named pipe from which a command under a lock reads, so that it waits for the test.
pub(crate) struct Gate {
    dir: tempfile::TempDir,
}

impl Gate {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (kind, mode) = (rustix::fs::FileType::Fifo, Mode::from(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, dir.path().join("gate"), kind, mode, 0).unwrap();
        Gate { dir }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("gate")
    }

    /// Lets the command continue with this line.
    pub(crate) fn open(&self, words: &str) {
        // It can be opened without blocking only while somebody reads.
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = || rustix::fs::open(self.path(), flags, Mode::empty()).ok();
        let gate = eventually_some("the command waits at the gate", open);
        std::fs::File::from(gate).write_all(words.as_bytes()).unwrap();
    }
}
