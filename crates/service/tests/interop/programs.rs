//! Other people's programs: whether they are here, and how they are run.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Whether a program is here. In CI it must be; elsewhere a test that needs it says so and is left out.
pub(crate) fn need(program: &str) -> bool {
    let places = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&places).any(|place| place.join(program).is_file());
    there || missing(&format!("the program {program}"))
}

/// A command that is ended after a minute: a scenario that hangs must say so.
pub(crate) fn limited(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60"]).arg(program);
    forget_settings(&mut command);
    command
}

/// Removes what the user of this machine has set for the clients of etcd and Consul.
pub(crate) fn forget_settings(client: &mut Command) {
    let is_setting = |name: &str| ["ETCDCTL_", "CONSUL_"].iter().any(|start| name.starts_with(start));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_setting) {
            client.env_remove(name);
        }
    }
}

/// Something is not here.
pub(crate) fn missing(what: &str) -> bool {
    let all_must_run = std::env::var_os("MESHLOCK_ALL_TESTS").is_some();
    assert!(!all_must_run, "{what} is missing, and all tests must run");
    eprintln!("left out: {what} is missing");
    false
}

/// A directory that stays from run to run, filled by `fill` the first time.
pub(crate) fn prepared(name: &str, fill: impl FnOnce(&Path) -> bool) -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // Several processes of this test may want it at once.
    std::fs::create_dir_all(&dir).unwrap();
    let gate = std::fs::File::create(dir.join("lock")).unwrap();
    gate.lock().unwrap();
    let done = dir.join("done");
    if !done.exists() {
        if !fill(&dir) {
            missing(&format!("what {name} needs from the network"));
            return None;
        }
        std::fs::write(done, "").unwrap();
    }
    Some(dir)
}

/// Runs a command and gives back whether it went well.
pub(crate) fn run(command: &mut Command) -> bool {
    let output = command.output();
    if let Ok(output) = &output
        && !output.status.success()
    {
        eprintln!("{command:?}: {}", text(&output.stderr));
    }
    output.is_ok_and(|output| output.status.success())
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// What a program said, and how it ended.
pub(crate) fn said(output: &Output) -> String {
    format!("{}|{}|{:?}", text(&output.stdout), text(&output.stderr), output.status.code())
}

/// What a command under a lock waits for: a pipe, that it reads from.
pub(crate) struct Gate {
    dir: tempfile::TempDir,
}

impl Gate {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, dir.path().join("gate"), kind, mode, 0).unwrap();
        Gate { dir }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("gate")
    }

    /// Lets it go on, with these words.
    pub(crate) fn open(&self, words: &str) {
        let mut gate = std::fs::File::options().write(true).open(self.path()).unwrap();
        gate.write_all(words.as_bytes()).unwrap();
    }
}
