//! One run of a solver: a script in, lines out.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::process::{Child, Stdio};

use super::{Solver, SolverError};

/// How a run ended.
pub(super) struct Ended {
    /// `exit status: 0`, or that it was stopped because of what it said.
    pub(super) how: String,
    /// What it wrote to its standard error.
    pub(super) complaint: String,
}

/// How much is read of what a solver writes to its standard error, and of one line: more is nonsense.
const MAX_READ: u64 = 1 << 20;

/// Kills the process if it is still there, so that none is left behind.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the solver on a script and calls `each` with every line that it prints, until that returns `false`.
pub(super) fn talk(
    solver: Solver,
    script: String,
    each: &mut dyn FnMut(&str) -> bool,
) -> Result<Ended, SolverError> {
    let program = solver.program();
    let broken = |error| SolverError::Broken { program, error };
    let mut command = solver.command();
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut running = Running(started.map_err(|error| SolverError::Missing { program, error })?);
    let pipes = (running.0.stdin.take(), running.0.stdout.take(), running.0.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = pipes else { unreachable!("all three are pipes") };
    // A solver that reads slowly must not keep us from reading its answers, nor one that complains a lot.
    let feeding = std::thread::spawn(move || stdin.write_all(script.as_bytes()));
    let complaining = std::thread::spawn(move || {
        let (mut stderr, mut complaint) = (stderr, Vec::new());
        let read = stderr.by_ref().take(MAX_READ).read_to_end(&mut complaint);
        let rest = std::io::copy(&mut stderr, &mut std::io::sink());
        read.and(rest).map(|_| String::from_utf8_lossy(&complaint).into_owned())
    });
    let (mut stdout, mut goes_on) = (BufReader::new(stdout), true);
    while goes_on {
        let mut line = Vec::new();
        if stdout.by_ref().take(MAX_READ).read_until(b'\n', &mut line).map_err(broken)? == 0 {
            break;
        }
        goes_on = each(String::from_utf8_lossy(&line).trim());
    }
    let how = if goes_on {
        running.0.wait().map_err(broken)?.to_string()
    } else {
        running.0.kill().map_err(broken)?;
        "was stopped because it made no sense".to_owned()
    };
    drop(stdout);
    let complaint = complaining.join().expect("it reads only").map_err(broken)?;
    match feeding.join().expect("it writes only") {
        // It has ended without reading everything: how it ended says more.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(broken(error)),
        Ok(()) | Err(_) => Ok(Ended { how, complaint }),
    }
}
