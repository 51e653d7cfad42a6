//! Errata as a Markdown document.

use std::fmt::{self, Write as _};

use super::{Erratum, Explored, Finding, Judgement, NOT_SHOWN};

const INTRODUCTION: &str = "\
# Errata of the published texts

Shown by machine, and generated: `meshlock errata --markdown` writes this page, `meshlock errata ID` looks into one claim anew.
The printed rules are switchable variants of the algorithms (`text=…`), or, where what ships has no place for them, a small machine
of their own (`singhal-1989-recovery`, which without `text=` has its slips mended). They are explored breadth first, so a
counterexample is a shortest one. The repaired rules are what Meshlock ships, explored to the end, unless it says otherwise, with every property
checked. Sites are numbered from 0.

*Confirmed*: the text errs as claimed, and what replaces it holds. *Refuted*: the machine does not bear the claim out.
";

/// The whole document.
pub fn markdown(findings: &[(&Erratum, Finding)]) -> String {
    let mut page = String::from(INTRODUCTION);
    write_all(&mut page, findings).expect("a string takes all that is written to it");
    page
}

fn write_all(page: &mut String, findings: &[(&Erratum, Finding)]) -> fmt::Result {
    writeln!(page, "\n| id | what | verdict | steps |\n|---|---|---|---|")?;
    for (erratum, finding) in findings {
        let verdict = finding.judgement.name();
        writeln!(
            page,
            "| [{0}](#{0}) | {1} | {verdict} | {2} |",
            erratum.id,
            erratum.title,
            finding.steps()
        )?;
    }
    for (erratum, finding) in findings {
        write!(page, "\n{}", finding.section(erratum))?;
    }
    writeln!(page, "\n## Not shown here\n")?;
    for (claim, why) in NOT_SHOWN {
        writeln!(page, "- {claim}: {why}.")?;
    }
    Ok(())
}

impl Finding {
    /// The length of the shortest counterexample, if there is one.
    pub fn steps(&self) -> String {
        self.counterexample.as_ref().map_or_else(String::new, |found| found.lines.len().to_string())
    }

    /// The section about one claim.
    pub fn section(&self, erratum: &Erratum) -> String {
        let mut section = String::new();
        self.write_section(erratum, &mut section).expect("a string takes all that is written to it");
        section
    }

    fn write_section(&self, erratum: &Erratum, f: &mut String) -> fmt::Result {
        writeln!(f, "## {}\n\n{}: {}.\n", erratum.id, erratum.source, self.judgement.name())?;
        writeln!(f, "**Printed.** {}\n\n**Wrong.** {}\n", erratum.printed, erratum.wrong)?;
        if let Some(found) = &self.counterexample {
            let (steps, property) = (found.lines.len(), found.property.name());
            writeln!(
                f,
                "**Shortest counterexample**: {}; {steps} steps break *{property}*:\n\n```text",
                found.run
            )?;
            for (at, line) in found.lines.iter().enumerate() {
                writeln!(f, "{:>2}  {line}", at + 1)?;
            }
            writeln!(f, "    {}\n```\n", found.outcome)?;
        }
        if !self.reckoned.is_empty() {
            writeln!(f, "| | the text's own result | as printed | repaired |\n|---|---|---|---|")?;
            for row in &self.reckoned {
                writeln!(f, "| {} | {} | {} | {} |", row.what, row.claimed, row.printed, row.right)?;
            }
            writeln!(f)?;
        }
        writeln!(f, "**Repair.** {}", erratum.repair)?;
        if !self.explored.is_empty() {
            let heading = match self.judgement {
                Judgement::Refuted if self.counterexample.is_some() => "Explored.",
                Judgement::NotRepaired => "Explored, and does not hold.",
                _ if self.explored.iter().all(|explored| explored.finished) => "Explored, and holds.",
                Judgement::Confirmed | Judgement::Refuted => {
                    "Explored, not everywhere to the end, and nothing is wrong."
                }
            };
            writeln!(f, "\n**{heading}**\n")?;
        }
        for explored in &self.explored {
            writeln!(f, "- {}: {}", explored.run, outcome(explored))?;
        }
        Ok(())
    }
}

fn outcome(explored: &Explored) -> String {
    let Explored { states, depth, .. } = explored;
    match (explored.holds, explored.finished) {
        (true, true) => format!("{states} states, up to {depth} steps deep"),
        (true, false) => {
            format!("all runs of fewer than {depth} steps, {states} states; larger than is explored here")
        }
        (false, _) => format!("**does not hold**: {}", explored.outcome),
    }
}
