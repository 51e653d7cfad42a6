//! Runs the commands of a runbook as they are written, in a shell. What a runbook leaves to the operator, such as starting a site, is a word of
//! the shell that asks the test to do it.

use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use meshlock_testing::{BoundedChild, Lines};

use super::site::meshlock;

/// Returns the commands of a section of docs/operating.md, one text for each block.
pub(crate) fn commands_of(heading: &str) -> Vec<String> {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating.md");
    super::certificates::commands_of(&fs::read_to_string(document).unwrap(), heading)
}

/// A shell that runs a runbook. Dropping this kills it.
struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// What a runbook is run with.
pub(crate) struct Runbook<'a> {
    /// Where the shell runs, and where the sites have their sockets.
    pub(crate) home: &'a Path,
    /// The site that commands ask, if they do not name one.
    pub(crate) asks: &'a str,
    /// The words that the test carries out, and variables of the shell with their values.
    pub(crate) words: &'a [&'a str],
    pub(crate) variables: &'a [(&'a str, &'a str)],
}

impl Runbook<'_> {
    /// Runs the commands. `act` is given each use of a word with its arguments, and returns what it prints and its exit code. Returns what the
    /// commands print.
    pub(crate) fn run(&self, text: &str, mut act: impl FnMut(&str, &[&str]) -> (String, i32)) -> String {
        let mut prelude = "set -eu\n".to_owned();
        for word in self.words {
            let _ = writeln!(prelude, "{word}() {{ echo \"!{word} $*\"; read -r code; return $code; }}");
        }
        let mut command = Command::new("sh");
        for (variable, value) in meshlock(self.home).get_envs() {
            match value {
                Some(value) => command.env(variable, value),
                None => command.env_remove(variable),
            };
        }
        let bin = Path::new(env!("CARGO_BIN_EXE_meshlock")).parent().unwrap().display().to_string();
        let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
        let errors = self.home.join("runbook.log");
        command.arg("-c").arg(format!("{prelude}{text}")).current_dir(self.home);
        command.env("PATH", path).env("MESHLOCK_SOCKET", self.home.join(format!("{}.sock", self.asks)));
        command.envs(self.variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(fs::File::create(&errors).unwrap());
        let mut shell = Shell(command.spawn().unwrap());
        let mut answers = shell.0.stdin.take().unwrap();
        let (lines, mut said) = (Lines::of(shell.0.stdout.take().unwrap()), String::new());
        while let Some(line) = lines.next("the runbook goes on") {
            let Some(wanted) = line.strip_prefix('!') else {
                said.push_str(&line);
                said.push('\n');
                continue;
            };
            let words: Vec<&str> = wanted.split(' ').filter(|word| !word.is_empty()).collect();
            let (printed, code) = act(words[0], &words[1..]);
            said.push_str(&printed);
            writeln!(answers, "{code}").unwrap();
        }
        let error = fs::read_to_string(errors).unwrap();
        assert!(shell.0.wait_in_time().success(), "{text}: {said}{error}");
        said
    }
}
