//! The solvers, as processes. A question is limited by the solver's own counter of steps, never by a clock, so that an answer does not
//! depend on how fast the machine is. Z3 takes the same steps each time. Cvc5 does not: where it orders by addresses in memory, which the kernel
//! draws, two runs differ. So its limit is far above what any of them was seen to take.

mod process;
mod values;

use std::fmt::Write as _;
use std::process::Command;

/// A solver of Debian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Solver {
    Z3,
    Cvc5,
}

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuestionAbout {
    /// Elements of sorts, with relations and functions.
    Sorts,
    /// Inequalities of real numbers.
    Reals,
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

impl SolverAnswer {
    fn read(line: &str) -> Option<Self> {
        match line {
            "unsat" => Some(SolverAnswer::Impossible),
            "sat" => Some(SolverAnswer::Possible),
            "unknown" | "timeout" => Some(SolverAnswer::Unknown),
            _ => None,
        }
    }
}

/// An answer, and what it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SolverReply {
    pub answer: SolverAnswer,
    /// The solver's own count of its steps. A version that does not tell has none.
    pub steps: Option<u64>,
}

/// A solver that could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum SolverError {
    #[error("cannot start {program}: {error}; install it, for example with `apt-get install {program}`")]
    Missing { program: &'static str, error: std::io::Error },
    #[error("{program} did not answer: {error}")]
    Broken { program: &'static str, error: std::io::Error },
    #[error(
        "{program} answered {answers} of {questions} questions, then {ended}, and said: {said}; is `{program}` on your path the solver?"
    )]
    Failed { program: &'static str, answers: usize, questions: usize, ended: String, said: String },
}

/// Steps that z3 may take for one question: tests hold the models to a quarter of them.
const Z3_LIMIT: u64 = 40_000_000;

/// The same for cvc5, which counts in other units. Of one question of raymond-k it takes 268 thousand steps in some runs and 1.26 million in
/// others.
const CVC5_LIMIT: u64 = 8_000_000;

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

    /// The number of steps after which it gives a question up.
    pub const fn limit(self) -> u64 {
        match self {
            Solver::Z3 => Z3_LIMIT,
            Solver::Cvc5 => CVC5_LIMIT,
        }
    }

    fn command(self) -> Command {
        let mut command = Command::new(self.program());
        match self {
            Solver::Z3 => command.arg("-in"),
            Solver::Cvc5 => command.args([
                "--lang=smt2",
                "--incremental",
                "--full-saturate-quant",
                &format!("--rlimit-per={}", self.limit()),
            ]),
        };
        command
    }

    /// Makes sure that it can be started, before another one is asked for a long time.
    pub(crate) fn is_there(self) -> Result<(), SolverError> {
        process::talk(self, String::new(), &mut |_| true).map(|_| ())
    }

    /// Sets what a question begins with.
    fn prologue(self) -> String {
        match self {
            Solver::Z3 => format!("(set-option :rlimit {})\n", self.limit()),
            Solver::Cvc5 => "(set-logic ALL)\n".to_owned(),
        }
    }

    /// Asks for an answer. Left to itself z3 gives up its first way to solve inequalities of reals after five seconds on a clock; so the
    /// way is named.
    const fn check(self, about: QuestionAbout) -> &'static str {
        match (self, about) {
            (Solver::Z3, QuestionAbout::Reals) => "(check-sat-using qfnra-nlsat)",
            (Solver::Z3 | Solver::Cvc5, _) => "(check-sat)",
        }
    }

    /// Asks for the number of steps so far.
    const fn ask_steps(self) -> &'static str {
        match self {
            Solver::Z3 => "(get-info :rlimit)",
            Solver::Cvc5 => "(get-info :all-statistics)",
        }
    }

    /// Whether `line` is what it says to that. A version that does not tell says *unsupported*.
    fn is_about_steps(self, line: &str) -> bool {
        let head = match self {
            Solver::Z3 => "(:rlimit ",
            Solver::Cvc5 => "(:all-statistics ",
        };
        line == "unsupported" || line.starts_with(head)
    }

    /// The number of steps that is said there.
    fn steps_in(self, line: &str) -> Option<u64> {
        let key = match self {
            Solver::Z3 => "(:rlimit",
            Solver::Cvc5 => "resource::resourceUnitsUsed",
        };
        let (_, after) = line.split_once(key)?;
        let digits = after.trim_start_matches(['"', '|', ' ']);
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().ok()
    }

    /// Asks one question after the other, each from the beginning, and calls `each` with the replies as they come.
    pub(crate) fn ask(
        self,
        about: QuestionAbout,
        questions: &[String],
        each: &mut dyn FnMut(usize, SolverReply),
    ) -> Result<(), SolverError> {
        let (mut script, check) = (String::new(), self.check(about));
        let (prologue, ask_steps) = (self.prologue(), self.ask_steps());
        for question in questions {
            write!(script, "{prologue}{question}{check}\n{ask_steps}\n(reset)\n")
                .expect("a string takes all that is written to it");
        }
        let (mut answers, mut answered, mut said) = (0, None, String::new());
        let ended = process::talk(self, script, &mut |line| match (answered, SolverAnswer::read(line)) {
            (None, Some(answer)) => {
                answered = Some(answer);
                true
            }
            (Some(answer), None) if answers < questions.len() && self.is_about_steps(line) => {
                each(answers, SolverReply { answer, steps: self.steps_in(line) });
                (answers, answered) = (answers + 1, None);
                true
            }
            _ => {
                line.clone_into(&mut said);
                false
            }
        })?;
        if answers == questions.len() && said.is_empty() && ended.complaint.is_empty() {
            return Ok(());
        }
        Err(self.failed(answers, questions.len(), &said, &ended))
    }

    /// What z3 finds for these terms in a state that fulfils `script`, each as text; nothing if there is none, or if it does not know.
    pub(crate) fn find_values(
        about: QuestionAbout,
        script: &str,
        terms: &[String],
    ) -> Result<Option<Vec<String>>, SolverError> {
        let solver = Solver::Z3;
        let (prologue, check, terms_asked) = (solver.prologue(), solver.check(about), terms.join(" "));
        let script = format!("{prologue}{script}{check}\n(get-value ({terms_asked}))\n");
        let (mut answer, mut said) = (None, String::new());
        let ended = process::talk(solver, script, &mut |line| {
            if answer.is_some() {
                said.push_str(line);
                said.push(' ');
                return true;
            }
            answer = SolverAnswer::read(line);
            if answer.is_none() {
                line.clone_into(&mut said);
            }
            answer.is_some()
        })?;
        let failed = |answers| solver.failed(answers, 1, &said, &ended);
        match answer.ok_or_else(|| failed(0))? {
            // It has no values then, and says that this is an error.
            SolverAnswer::Impossible | SolverAnswer::Unknown => Ok(None),
            SolverAnswer::Possible => values::read(&said, terms).ok_or_else(|| failed(1)).map(Some),
        }
    }

    fn failed(self, answers: usize, questions: usize, said: &str, ended: &process::Ended) -> SolverError {
        let said = [said.trim(), ended.complaint.trim()].into_iter().find(|said| !said.is_empty());
        let mut said: String = said.unwrap_or("nothing").chars().take(MAX_SAID).collect();
        if said.len() >= MAX_SAID {
            said.push('…');
        }
        let ended = ended.how.clone();
        SolverError::Failed { program: self.program(), answers, questions, ended, said }
    }
}

/// How much of a solver's complaint is shown, in characters.
const MAX_SAID: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_from_what_each_solver_says() {
        let (z3, cvc5) = (Solver::Z3, Solver::Cvc5);
        assert_eq!(z3.steps_in("(:rlimit 496)"), Some(496));
        assert!(z3.is_about_steps("(:rlimit 496)") && z3.is_about_steps("unsupported"));
        assert!(!z3.is_about_steps("(error \"no\")") && !z3.is_about_steps("sat"));
        let said = r#"(:all-statistics (("nl::checkRuns" 0) ("resource::resourceUnitsUsed" 142) ("x" 1)))"#;
        assert!(cvc5.is_about_steps(said) && !cvc5.is_about_steps("unsat"));
        assert_eq!(cvc5.steps_in(said), Some(142));
        assert_eq!(cvc5.steps_in("(:all-statistics ())"), None);
    }
}
