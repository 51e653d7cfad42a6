//! The solvers, as processes. A question is limited by the solver's own counter of steps, never by a clock, so that an answer does
//! not depend on the machine.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

/// A solver of Debian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Solver {
    Z3,
    Cvc5,
}

/// What a solver says to one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SolverAnswer {
    /// It cannot go wrong.
    Impossible,
    /// It can.
    Possible,
    /// The solver gave up, or its limit was reached.
    Unknown,
}

/// A solver that could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum SolverError {
    #[error("cannot start {program}: {error}; install it, for example with `apt-get install {program}`")]
    Missing { program: &'static str, error: std::io::Error },
    #[error("{program} did not answer: {error}")]
    Broken { program: &'static str, error: std::io::Error },
    #[error("{program} answered {answers} of {questions} questions, and said: {said}")]
    Failed { program: &'static str, answers: usize, questions: usize, said: String },
}

/// Steps that z3 may take for one question: about a hundred times what the hardest one of the models needs.
const Z3_LIMIT: u64 = 20_000_000;

/// The same for cvc5, which counts in other units.
const CVC5_LIMIT: u64 = 1_000_000;

impl Solver {
    /// Both solvers.
    pub const ALL: [Solver; 2] = [Solver::Z3, Solver::Cvc5];

    /// The name of the program and of Debian's package.
    pub const fn program(self) -> &'static str {
        match self {
            Solver::Z3 => "z3",
            Solver::Cvc5 => "cvc5",
        }
    }

    fn start(self) -> Result<Child, SolverError> {
        let mut command = Command::new(self.program());
        match self {
            Solver::Z3 => command.arg("-in"),
            Solver::Cvc5 => command.args([
                "--lang=smt2",
                "--incremental",
                "--full-saturate-quant",
                &format!("--rlimit-per={CVC5_LIMIT}"),
            ]),
        };
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        started.map_err(|error| SolverError::Missing { program: self.program(), error })
    }

    /// Sets what a question begins with.
    pub(crate) fn prologue(self) -> String {
        match self {
            Solver::Z3 => format!("(set-option :rlimit {Z3_LIMIT})\n"),
            Solver::Cvc5 => "(set-logic ALL)\n".to_owned(),
        }
    }

    /// Asks one question after the other, each from the beginning, and calls `each` with the answers as they come.
    pub fn ask(
        self,
        questions: &[String],
        each: &mut dyn FnMut(usize, SolverAnswer),
    ) -> Result<(), SolverError> {
        let mut script = String::new();
        for question in questions {
            write!(script, "{}{question}(check-sat)\n(reset)\n", self.prologue())
                .expect("a string takes all that is written to it");
        }
        let (mut answers, mut said) = (0, String::new());
        self.talk(script, &mut |line| match line {
            "unsat" | "sat" | "unknown" | "timeout" => {
                let answer = match line {
                    "unsat" => SolverAnswer::Impossible,
                    "sat" => SolverAnswer::Possible,
                    _ => SolverAnswer::Unknown,
                };
                each(answers, answer);
                answers += 1;
            }
            other => said.push_str(other),
        })?;
        if answers == questions.len() && said.is_empty() {
            return Ok(());
        }
        Err(SolverError::Failed { program: self.program(), answers, questions: questions.len(), said })
    }

    /// Runs the solver on a script and calls `each` with every line that it prints.
    pub(crate) fn talk(self, script: String, each: &mut dyn FnMut(&str)) -> Result<(), SolverError> {
        let broken = |error| SolverError::Broken { program: self.program(), error };
        let mut child = self.start()?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (mut stdin, stdout) = (stdin.expect("a pipe"), stdout.expect("a pipe"));
        let mut stderr = stderr.expect("a pipe");
        // A solver that reads slowly must not keep us from reading its answers.
        let feeding = std::thread::spawn(move || stdin.write_all(script.as_bytes()));
        for line in BufReader::new(stdout).lines() {
            each(line.map_err(broken)?.trim());
        }
        let mut complaint = String::new();
        stderr.read_to_string(&mut complaint).map_err(broken)?;
        child.wait().map_err(broken)?;
        if !complaint.trim().is_empty() {
            each(complaint.trim());
        }
        feeding.join().expect("it writes only").map_err(broken)
    }
}
