//! Compares the sites: programs, protocols, and what is configured alike at all of them.

use std::collections::BTreeMap;

use meshlock_cluster::lease::Terms;
use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::Age;

use super::super::facts::Facts;
use super::{Problem, names};

/// What an operator does about a part of the configuration that differs, by the part's name.
const PARTS: [(&str, &str, &str, &str); 2] = [
    (
        "access",
        "access-rules-differ",
        "the access rules",
        "Give all sites the same [[access]], and send them SIGHUP: what a client may do depends on the site that it asks.",
    ),
    (
        "tokens",
        "tokens-differ",
        "the tokens",
        "Give all sites the same [[tokens]], and send them SIGHUP: a client is known at some sites only.",
    ),
];

pub(super) fn judge(facts: &Facts) -> Vec<Problem> {
    let mut findings = Vec::new();
    let reports = || facts.answers().filter_map(|answer| answer.report.as_ref().ok());
    let clusters = facts.answers().map(|answer| (answer.cluster.to_string(), &answer.site));
    findings.extend(differ(clusters).map(|(sites, groups)| {
        Problem::warning(
            "cluster-name-differs",
            sites,
            format!("The sites are not of one cluster: {groups}."),
            "Ask the sites of one cluster; or compare `cluster` in the configurations.",
        )
    }));
    let founders = facts.answers().map(|answer| (names(&answer.founders), &answer.site));
    findings.extend(differ(founders).map(|(sites, groups)| {
        Problem::warning(
            "founding-list-differs",
            sites,
            format!("The lists of the first sites differ: {groups}."),
            "Give every site the list with which the cluster was founded, in the same order: `sites` in its configuration.",
        )
    }));
    let programs = reports().map(|report| (report.program.clone(), &report.site));
    findings.extend(differ(programs).map(|(sites, groups)| {
        Problem::warning(
            "program-versions-differ",
            sites,
            format!("The sites run different versions of Meshlock: {groups}."),
            "Finish the upgrade: restart the sites with the older program one after the other.",
        )
    }));
    let versions = reports().map(|report| {
        let ((low, high), (from, to)) = (report.site_versions, report.client_versions);
        (format!("{low}-{high} between sites and {from}-{to} with clients"), &report.site)
    });
    findings.extend(differ(versions).map(|(sites, groups)| {
        Problem::warning(
            "wire-versions-differ",
            sites,
            format!("The sites speak different versions of the protocols: {groups}."),
            "Finish the upgrade; versions of Meshlock that follow each other understand each other meanwhile.",
        )
    }));
    for (part, id, called, next) in PARTS {
        let hashes = reports().filter_map(|report| {
            let (_, hash) = report.configuration.iter().find(|(name, _)| name == part)?;
            Some((format!("{hash:016x}"), &report.site))
        });
        findings.extend(differ(hashes).map(|(sites, groups)| {
            Problem::warning(
                id,
                sites,
                format!("The sites differ in {called}, by their hashes: {groups}."),
                next,
            )
        }));
    }
    findings.extend(
        reports().filter_map(|report| terms(&report.site, report.lease.terms, report.lease.configured)),
    );
    findings
}

/// Groups sites by a value. If there is more than one, returns the sites outside the largest group, and all groups as text.
fn differ<'a>(values: impl Iterator<Item = (String, &'a SiteName)>) -> Option<(Vec<&'a SiteName>, String)> {
    let mut groups: BTreeMap<String, Vec<&SiteName>> = BTreeMap::new();
    for (value, site) in values {
        groups.entry(value).or_default().push(site);
    }
    let most = groups.values().map(Vec::len).max()?;
    if groups.len() < 2 {
        return None;
    }
    let text =
        |(value, sites): (&String, &Vec<&SiteName>)| format!("{value} at {}", names(sites.iter().copied()));
    let shown = groups.iter().map(text).collect::<Vec<_>>().join("; ");
    let largest = groups.values().position(|sites| sites.len() == most);
    let odd = groups.into_values().enumerate().filter(|(at, _)| Some(*at) != largest);
    Some((odd.flat_map(|(_, sites)| sites).collect(), shown))
}

fn terms(site: &SiteName, agreed: Terms, configured: Terms) -> Option<Problem> {
    let shown = |terms: Terms| {
        format!(
            "length {}, margin {}, renew_every {}, drift {} ppm",
            Age(terms.length),
            Age(terms.margin),
            Age(terms.renew_every),
            terms.drift.ppm()
        )
    };
    (agreed != configured).then(|| {
        Problem::warning(
            "lease-terms-differ",
            [site],
            format!(
                "The cluster's leases ({}) are not those in the configuration of {site} ({}), which are not used.",
                shown(agreed),
                shown(configured)
            ),
            "Correct [lease] in the configuration: the terms are those of the founding and cannot be changed.",
        )
    })
}
