//! What the machine finds when it looks into an erratum.

use crate::{Progress, Property, Report, Step, Verdict};

use super::{Erratum, Evidence, Reckoning, Run};

/// Whether the machine bears the claim out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The text errs as claimed, and what is to replace it holds.
    Confirmed,
    /// The machine finds nothing wrong with the text, or something wrong with the claim.
    Refuted,
    /// The text errs as claimed, but so does what is to replace it.
    NotRepaired,
}

impl Judgement {
    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Judgement::Confirmed => "confirmed",
            Judgement::Refuted => "refuted",
            Judgement::NotRepaired => "confirmed, and not repaired",
        }
    }
}

/// What came of looking into an erratum.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Whether the claim is right.
    pub judgement: Judgement,
    /// The shortest run that goes wrong.
    pub counterexample: Option<Counterexample>,
    /// What was explored and holds, or was meant to.
    pub explored: Vec<Explored>,
    /// What was calculated.
    pub reckoned: Vec<Reckoning>,
}

/// A shortest run that goes wrong.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// Where it was found.
    pub run: Run,
    /// Which property it breaks.
    pub property: Property,
    /// What is wrong at its end.
    pub outcome: String,
    /// What happens, a line a step.
    pub lines: Vec<String>,
    /// The same as steps.
    pub path: Vec<Step>,
    /// Where in the path the round begins that can be gone for ever, if a site starves.
    pub round: Option<usize>,
}

/// One exploration without a counterexample.
#[derive(Clone, Debug)]
pub struct Explored {
    /// What was explored.
    pub run: Run,
    /// Whether nothing was found.
    pub holds: bool,
    /// Whether all was seen.
    pub finished: bool,
    /// What was found.
    pub outcome: String,
    /// How many states.
    pub states: usize,
    /// How many steps lead to the farthest of them; where not all was seen, all runs of fewer steps were.
    pub depth: usize,
}

impl Erratum {
    /// Only the run that goes wrong, if one does; not whether the repair holds.
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

    /// Does all that shows it. `progress` hears which run is explored, and how far it has come.
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
                finding.reckoned = calculate();
                let confirmed = finding.reckoned.iter().all(|row| row.right == row.claimed)
                    && finding.reckoned.iter().any(|row| row.printed != row.claimed);
                if confirmed {
                    finding.judgement = Judgement::Confirmed;
                }
            }
        }
        finding
    }
}

impl Finding {
    /// Before anything was looked into.
    const fn nothing() -> Self {
        Finding {
            judgement: Judgement::Refuted,
            counterexample: None,
            explored: Vec::new(),
            reckoned: Vec::new(),
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
