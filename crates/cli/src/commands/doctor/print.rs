//! Prints a verdict: a page for people, one document for programs.

use std::io::Write;

use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::Age;
use serde_json::{Value, json};

use super::facts::{Facts, SiteFacts};
use super::judge::{Problem, Severity, Verdict};
use crate::output::{self, Printable, counted};

/// Returns the verdict as a JSON document.
pub(super) fn document(facts: &Facts, verdict: &Verdict) -> Value {
    let finding = |finding: &Problem| {
        json!({
            "id": finding.id,
            "severity": finding.severity.label(),
            "sites": finding.sites,
            "what": finding.what,
            "next": finding.next,
        })
    };
    let site = |asked: &super::facts::Asked| {
        let said = asked.answer.as_ref().ok();
        json!({
            "site": said.map(|said| &said.site).or(asked.site.as_ref()),
            "asked_at": asked.at,
            "answers": said.is_some(),
            "why_not": asked.answer.as_ref().err(),
            "serves": said.is_some_and(SiteFacts::serves),
            "epoch": said.map(|said| said.epoch),
            "leader": said.and_then(|said| said.leader.as_ref()),
            "program": said.and_then(|said| said.report.as_ref().ok()).map(|report| &report.program),
            "ahead_ms": said.and_then(|said| said.ahead).map(|(ahead, _)| ahead / 1000),
        })
    };
    json!({
        "verdict": verdict.worst().map_or("fine", Severity::label),
        "voters": verdict.quorum.voters,
        "voters_up": verdict.quorum.up,
        "voters_needed": verdict.quorum.needed(),
        "may_fail": verdict.quorum.may_fail(),
        "sites": facts.asked.iter().map(site).collect::<Vec<_>>(),
        "findings": verdict.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

/// Prints the verdict as a page.
pub(super) fn page(facts: &Facts, verdict: &Verdict, out: &mut dyn Write) -> anyhow::Result<()> {
    let says = match verdict.worst() {
        None => "Nothing is wrong.",
        Some(Severity::Warning) => "Locks can be granted, but something is wrong.",
        Some(Severity::NoLocks) => "Locks cannot be granted, or not for much longer.",
    };
    writeln!(out, "{says}")?;
    let quorum = &verdict.quorum;
    if !quorum.voters.is_empty() {
        let (voting, voters) = (quorum.voting(), quorum.voters.len());
        let spare = match quorum.may_fail() {
            Some(more) => format!("{more} more may fail"),
            None => format!("{} are needed", quorum.needed()),
        };
        writeln!(out, "{voting} of {} are up; {spare}.", counted(voters as u64, "voter"))?;
    }
    writeln!(out)?;
    let mut table = output::table(&["site", "asked at", "program", "view", "lease left", ""]);
    for asked in &facts.asked {
        let name = |site: &SiteName| site.to_string();
        let at = Printable(&asked.at).to_string();
        if let Ok(said) = &asked.answer {
            table.add_row(row(said, at));
            continue;
        }
        let site = asked.site.as_ref().map_or_else(|| "?".to_owned(), name);
        let nothing = String::new;
        table.add_row([site, at, nothing(), nothing(), nothing(), "does not answer".to_owned()]);
    }
    writeln!(out, "{table}")?;
    for finding in &verdict.findings {
        let about = finding.sites.iter().map(SiteName::as_str).collect::<Vec<_>>().join(", ");
        let about = if about.is_empty() { about } else { format!(" ({about})") };
        writeln!(out, "\n{}: {}{about}", finding.severity.label(), finding.id)?;
        writeln!(out, "  {}", Printable(&finding.what))?;
        writeln!(out, "  Next: {}", Printable(&finding.next))?;
    }
    Ok(())
}

fn row(said: &SiteFacts, at: String) -> [String; 6] {
    let report = said.report.as_ref().ok();
    let program = report.map(|report| Printable(&report.program).to_string()).unwrap_or_default();
    let left = report.and_then(|report| report.lease.left).map(|left| Age(left).to_string());
    let state = match (said.serves(), said.leader.as_ref() == Some(&said.site)) {
        (true, true) => "grants locks, leads",
        (true, false) => "grants locks",
        (false, _) if said.leaving => "leaves",
        (false, _) => "grants no locks",
    };
    [said.site.to_string(), at, program, said.epoch.to_string(), left.unwrap_or_default(), state.to_owned()]
}
