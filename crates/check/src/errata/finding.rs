//! The result of investigating an erratum.

use crate::{Progress, Property, Report, Step, Verdict};

use super::{CalculatedValue, Erratum, Evidence, Run};

/// Whether the explorations and calculations confirm the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The text is wrong as claimed, and the repair holds.
    Confirmed,
    /// Nothing is wrong with the text, or the claim is wrong.
    Refuted,
    /// The text is wrong as claimed, but so is the repair.
    NotRepaired,
}

impl Judgement {
    /// Its name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Judgement::Confirmed => "confirmed",
            Judgement::Refuted => "refuted",
            Judgement::NotRepaired => "confirmed, and not repaired",
        }
    }
}

/// The result of investigating an erratum.
#[derive(Clone, Debug)]
pub struct Finding {
    pub judgement: Judgement,
    /// A shortest run with a violation.
    pub counterexample: Option<Counterexample>,
    /// The runs that were explored and hold, or should hold.
    pub explored: Vec<Explored>,
    /// The calculated quantities.
    pub calculated: Vec<CalculatedValue>,
}

/// A shortest run with a violation.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// The run in which it was found.
    pub run: Run,
    /// The property that it violates.
    pub property: Property,
    /// The verdict at its end.
    pub outcome: String,
    /// What happens, one line for each step.
    pub lines: Vec<String>,
    pub path: Vec<Step>,
    /// The position in the path where the cycle begins that can repeat for ever, if a site starves.
    pub round: Option<usize>,
}

/// One exploration without a counterexample.
#[derive(Clone, Debug)]
pub struct Explored {
    pub run: Run,
    /// Whether no violation was found.
    pub holds: bool,
    /// Whether all states were explored.
    pub finished: bool,
    /// The verdict.
    pub(crate) outcome: String,
    pub states: usize,
    /// The number of steps to the farthest state. If not all states were explored, all runs of fewer steps were.
    pub depth: usize,
}

impl Erratum {
    /// Finds a run with a violation, if there is one. Does not explore the repair.
    pub fn counterexample(&self) -> Option<Counterexample> {
        let mut finding = Finding::nothing();
        match &self.evidence {
            Evidence::Exploration { printed, property, .. } => {
                let report = printed.explore(Some(*property), |_| {});
                finding.note(printed, &report, Some(*property));
            }
            Evidence::Assumption { without: runs } | Evidence::Suspicion { printed: runs } => {
                for run in *runs {
                    if finding.counterexample.is_none() {
                        finding.note(run, &run.explore(None, |_| {}), None);
                    }
                }
            }
            Evidence::Calculation(_) => {}
        }
        finding.counterexample
    }

    /// Investigates the claim. Calls `progress` with the run that is explored and its progress.
    pub fn investigate(&self, mut progress: impl FnMut(&Run, &Progress)) -> Finding {
        let mut finding = Finding::nothing();
        match &self.evidence {
            Evidence::Exploration { printed, property, repaired } => {
                let report = explore(printed, Some(*property), &mut progress);
                finding.note(printed, &report, Some(*property));
                if finding.counterexample.is_some() {
                    for run in *repaired {
                        finding.explored.push(explored(run, &explore(run, None, &mut progress)));
                    }
                    finding.judgement = if finding.explored.iter().all(|explored| explored.holds) {
                        Judgement::Confirmed
                    } else {
                        Judgement::NotRepaired
                    };
                }
            }
            Evidence::Assumption { without } => {
                for run in *without {
                    finding.note(run, &explore(run, None, &mut progress), None);
                }
                if finding.counterexample.is_none() {
                    finding.judgement = Judgement::Confirmed;
                }
            }
            Evidence::Suspicion { printed } => {
                for run in *printed {
                    finding.note(run, &explore(run, None, &mut progress), None);
                }
                if finding.counterexample.is_some() {
                    finding.judgement = Judgement::Confirmed;
                }
            }
            Evidence::Calculation(calculate) => {
                finding.calculated = calculate();
                let confirmed = finding.calculated.iter().all(|row| row.right == row.claimed)
                    && finding.calculated.iter().any(|row| row.printed != row.claimed);
                if confirmed {
                    finding.judgement = Judgement::Confirmed;
                }
            }
        }
        finding
    }
}

impl Finding {
    /// The finding before anything was explored.
    const fn nothing() -> Self {
        Finding {
            judgement: Judgement::Refuted,
            counterexample: None,
            explored: Vec::new(),
            calculated: Vec::new(),
        }
    }

    /// Keeps a report as the counterexample, or as an exploration that found none.
    fn note(&mut self, run: &Run, report: &Report, property: Option<Property>) {
        let Some(broken) = report.verdict.property() else {
            return self.explored.push(explored(run, report));
        };
        if self.counterexample.is_none() {
            let story = run.story(property, &report.path);
            self.counterexample = Some(Counterexample {
                run: *run,
                property: broken,
                outcome: report.verdict.to_string(),
                lines: story.lines,
                path: report.path.clone(),
                round: report.round,
            });
        }
    }
}

fn explore(run: &Run, property: Option<Property>, progress: &mut impl FnMut(&Run, &Progress)) -> Report {
    run.explore(property, |so_far| progress(run, so_far))
}

fn explored(run: &Run, report: &Report) -> Explored {
    Explored {
        run: *run,
        holds: report.verdict.property().is_none(),
        finished: report.verdict != Verdict::Unfinished,
        outcome: report.verdict.to_string(),
        states: report.states,
        depth: report.depth,
    }
}
