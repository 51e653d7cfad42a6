//! Shared by the tests: a user with separate directories, and commands that run under a lock.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};

use meshlock_cluster::names::LockName;
use meshlock_testing::{
    BoundedChild, BoundedCommand, Deadline, Lines, WITHIN, eventually, read_to_end, until_readable,
};
use meshlock_wire::clients::{ToClient, ToNode, VERSIONS, put_to_node, take_to_client};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tempfile::TempDir;

/// A bash script that closes all descriptors except standard input, output and error.
pub(crate) const CLOSE_ALL: &str =
    r#"for fd in /proc/$$/fd/*; do fd=${fd##*/}; ((fd > 2)) && eval "exec $fd>&-"; done"#;

/// A shell command that prints the number of its open sockets.
pub(crate) const COUNT_SOCKETS: &str = "ls -l /proc/$$/fd | grep -c socket:";

/// The programs as they are built, beside each other. The tests run the launcher, as users of a package do; it starts the program with all
/// commands for whatever it does not do itself.
pub(crate) const MESHLOCK: &str = env!("CARGO_BIN_EXE_meshlock-launcher");
pub(crate) const WHOLE_PROGRAM: &str = env!("CARGO_BIN_EXE_meshlock");
pub(crate) const SMALL_PROGRAM: &str = env!("CARGO_BIN_EXE_meshlock-supervisor");

/// A user, whose embedded node is started by the first command.
pub(crate) struct User {
    dir: TempDir,
    meshlock: PathBuf,
}

impl User {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("runtime")).unwrap();
        User { dir, meshlock: MESHLOCK.into() }
    }

    /// Returns a user whose `meshlock` is the program with all commands, in the directory `bin` and with nothing beside it.
    pub(crate) fn with_one_program() -> Self {
        User::with_programs(&[(WHOLE_PROGRAM, "meshlock")])
    }

    /// Returns a user with the programs that a package installs, in the directory `bin`.
    pub(crate) fn with_package() -> Self {
        let full = (WHOLE_PROGRAM, "meshlock-full");
        User::with_programs(&[(MESHLOCK, "meshlock"), full, (SMALL_PROGRAM, "meshlock-supervisor")])
    }

    /// Returns a user whose `meshlock` is in the directory `bin`, where these programs have these names.
    fn with_programs(programs: &[(&str, &str)]) -> Self {
        let mut user = User::new();
        fs::create_dir(user.file("bin")).unwrap();
        for (program, name) in programs {
            let path = user.file("bin").join(name);
            fs::hard_link(program, &path).or_else(|_| fs::copy(program, &path).map(drop)).unwrap();
        }
        user.meshlock = user.file("bin/meshlock");
        user
    }

    /// Returns a user for each way to have `meshlock run` and its supervisor: the launcher and the small program, and one program for all.
    pub(crate) fn of_each_program() -> [Self; 2] {
        [User::new(), User::with_one_program()]
    }

    /// Returns the path of this user's `meshlock`.
    pub(crate) fn program(&self) -> &str {
        self.meshlock.to_str().unwrap()
    }

    /// Returns the path of a file of the user.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns a command with this user's environment. Signals that whoever runs the tests ignores (`nohup cargo test &`) are not ignored
    /// by it.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP,INT,QUIT", program]);
        command.current_dir(self.dir.path()).env("XDG_RUNTIME_DIR", self.file("runtime"));
        command.env("XDG_STATE_HOME", self.file("state")).env("XDG_CONFIG_HOME", self.file("config"));
        // Whoever runs the tests may use a node of their own.
        for variable in ["MESHLOCK_SOCKET", "MESHLOCK_NODE", "MESHLOCK_CERTIFICATE"] {
            command.env_remove(variable);
        }
        // And their machine may have a node.
        command.env("MESHLOCK_ROOT", self.file("machine"));
        command
    }

    /// Returns `meshlock run` with these arguments, which end before the command to run.
    pub(crate) fn meshlock_run(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(self.program());
        command.arg("run").args(arguments);
        command
    }

    /// Runs a shell script under a lock to its end.
    pub(crate) fn run(&self, arguments: &[&str], script: &str) -> Output {
        self.meshlock_run(arguments).args(["--", "sh", "-c", script]).output_in_time()
    }

    /// Runs a shell script under a lock, and returns its exit code.
    pub(crate) fn code(&self, arguments: &[&str], script: &str) -> Option<i32> {
        self.run(arguments, script).status.code()
    }

    /// Starts a shell script under a lock.
    pub(crate) fn start(&self, arguments: &[&str], script: &str) -> Running {
        let mut command = self.meshlock_run(arguments);
        command.args(["--", "sh", "-c", script]);
        Running::start(command)
    }

    /// Returns the process of the user's embedded node, whose id is in the lock file of its directory.
    pub(crate) fn node(&self) -> i32 {
        let homes = fs::read_dir(self.file("state/meshlock/embedded")).unwrap();
        let home = homes.map(|home| home.unwrap().path()).next().expect("a node has been started");
        fs::read_to_string(home.join("data/lock")).unwrap().trim().parse().unwrap()
    }

    /// Sends the node a message, and returns the first answer after the greeting.
    pub(crate) fn ask(&self, question: &ToNode) -> ToClient {
        let mut stream = UnixStream::connect(self.file("runtime/meshlock/embedded.sock")).unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        let mut bytes = Vec::new();
        put_to_node(&ToNode::Hello { version: VERSIONS.1, who: "test".parse().unwrap() }, &mut bytes);
        put_to_node(question, &mut bytes);
        stream.write_all(&bytes).unwrap();
        let (mut heard, deadline) = (Vec::new(), Deadline::default());
        loop {
            deadline.check("an answer of the node");
            let mut scratch = [0; 4096];
            let count = stream.read(&mut scratch).unwrap();
            assert!(count > 0, "the node has gone");
            heard.extend_from_slice(&scratch[..count]);
            while let Some((message, length)) = take_to_client(&heard).unwrap() {
                heard.drain(..length);
                if !matches!(message, ToClient::Welcome { .. }) {
                    return message;
                }
            }
        }
    }

    /// Waits until this many clients wait for a lock. The node does not report changes, so it is asked repeatedly.
    pub(crate) fn wait_for_waiters(&self, name: &str, many: u64) {
        let lock: LockName = name.parse().unwrap();
        eventually(&format!("{many} wait for {name}"), || {
            let answer = self.ask(&ToNode::Queue { tag: 1, lock: lock.clone() });
            let ToClient::Queue { queue, .. } = answer else { panic!("{answer:?}") };
            queue.sites.iter().map(|site| site.lock.waiters_in_all).sum::<u64>() == many
        });
    }

    /// Breaks a lock, and asserts that somebody held it.
    pub(crate) fn break_lock(&self, name: &str) {
        let broken = self.ask(&ToNode::Break { tag: 1, lock: name.parse().unwrap() });
        assert!(matches!(&broken, ToClient::Broken { cut_off, .. } if !cut_off.is_empty()), "{broken:?}");
    }
}

/// A running script under a lock. Dropping this kills it.
pub(crate) struct Running {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let stdin = process.stdin.take();
        let stdout = Lines::of(process.stdout.take().unwrap());
        Running { process, stdin, stdout }
    }

    /// Returns the process id of `meshlock run`.
    pub(crate) fn id(&self) -> i32 {
        i32::try_from(self.process.id()).unwrap()
    }

    /// Waits for the next line of the script and returns it; empty at the end of the output.
    pub(crate) fn line(&mut self) -> String {
        self.next_line().unwrap_or_default().trim_end().to_owned()
    }

    /// The same, but `None` at the end of the output.
    pub(crate) fn next_line(&mut self) -> Option<String> {
        self.stdout.next("the command prints a line or ends")
    }

    /// Returns what `wanted` finds in one of the next lines; none if there are no more. Panics with `what` if neither happens in time.
    pub(crate) fn find_line<T>(&mut self, what: &str, wanted: impl FnMut(&str) -> Option<T>) -> Option<T> {
        self.stdout.find(what, wanted)
    }

    /// Lets the script continue: sends it a line.
    pub(crate) fn go_on(&mut self) {
        self.types("go\n");
    }

    /// Writes to standard input, where a terminal interprets control characters.
    pub(crate) fn types(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Sends a signal to the process of `meshlock run`.
    pub(crate) fn signal(&self, signal: Signal) {
        send(self.id(), signal);
    }

    /// Waits for the end of `meshlock run`.
    pub(crate) fn end_status(&mut self) -> ExitStatus {
        wait_for_end(self.id());
        self.process.wait_in_time()
    }

    /// Waits for the end of `meshlock run` and returns its exit code.
    pub(crate) fn code(&mut self) -> Option<i32> {
        self.end_status().code()
    }

    /// Returns the standard error of `meshlock run` after its end.
    pub(crate) fn complaints(&mut self) -> String {
        read_to_end("the end of what `meshlock run` says", self.process.stderr.take().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stdin = None;
        self.process.end();
    }
}

fn pid(process: i32) -> Pid {
    Pid::from_raw(process).unwrap()
}

pub(crate) fn send(process: i32, signal: Signal) {
    kill_process(pid(process), signal).unwrap();
}

/// Waits until a process has ended, even if it is no child of this one.
pub(crate) fn wait_for_end(process: i32) {
    // One that is gone altogether cannot be opened.
    if let Ok(descriptor) = pidfd_open(pid(process), PidfdFlags::empty()) {
        until_readable(&format!("the end of process {process}"), &descriptor);
    }
}
