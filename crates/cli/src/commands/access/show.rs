//! Prints the access document.

use std::io::Write;

use meshlock_cluster::access::{AccessDocument, AdmittedSite, AgreedAccess, RuleText, Verb};
use serde_json::json;

use crate::commands::target::Target;
use crate::output::{self, CommandOutcome, Printable};
use crate::settings::end_date::EndDate;

/// Prints the document. The JSON has all of it, so that it can be kept and put back.
pub(super) fn show(
    target: &Target,
    access: &AgreedAccess,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let AgreedAccess { version, document } = access;
    if target.json {
        let document = as_json(document);
        output::json(out, &json!({ "version": version, "access": document }))?;
        return Ok(CommandOutcome::Done);
    }
    writeln!(out, "Access document of the cluster, version {version}:")?;
    let mut rules = output::table(&["principal", "locks", "may"]);
    for RuleText { principal, locks, verbs } in &document.rules {
        let verbs: Vec<&str> = verbs.iter().copied().map(Verb::name).collect();
        rules.add_row([Printable(principal).to_string(), Printable(locks).to_string(), verbs.join(", ")]);
    }
    if document.rules.is_empty() {
        writeln!(out, "No rules: each site goes by its own.")?;
    } else {
        writeln!(out, "{rules}")?;
    }
    if !document.tokens.is_empty() {
        let mut tokens = output::table(&["token of", "sha256", "ends"]);
        for token in &document.tokens {
            let ends = token.expires.map_or("never".to_owned(), |end| EndDate::of_second(end).to_string());
            tokens.add_row([token.name.to_string(), token.sha256.to_string(), ends]);
        }
        writeln!(out, "{tokens}")?;
    }
    for entry in &document.revoked {
        writeln!(out, "Revoked: {}", Printable(entry))?;
    }
    for (name, limit) in document.limits.named() {
        if let Some(limit) = limit {
            writeln!(out, "Limit of one client at each site: {name} = {limit}")?;
        }
    }
    let sites: Vec<String> = document.sites.iter().map(shown_site).collect();
    writeln!(out, "Admission is {}. Admitted sites: {}", document.admission.name(), or_none(&sites))?;
    if !document.removed.is_empty() {
        let removed: Vec<String> = document.removed.iter().map(ToString::to_string).collect();
        writeln!(
            out,
            "Removed sites, which do not come back before they are added again: {}",
            removed.join(", ")
        )?;
    }
    Ok(CommandOutcome::Done)
}

fn shown_site(site: &AdmittedSite) -> String {
    match &site.token {
        None => site.name.to_string(),
        Some(token) => format!("{} (with a token until {})", site.name, EndDate::of_second(token.expires)),
    }
}

fn or_none(list: &[String]) -> String {
    if list.is_empty() { "none".to_owned() } else { list.join(", ") }
}

fn as_json(document: &AccessDocument) -> serde_json::Value {
    let mut value = serde_json::to_value(document).unwrap_or_default();
    value["admission"] = document.admission.name().into();
    value
}
