//! Says what is wrong, by what the sites have said. It asks nobody and reads no clock.

mod configuration;
mod one_site;

use std::collections::BTreeSet;

use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::Age;

use super::facts::{Asked, Facts, SiteFacts};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// Something will go wrong, or has; locks can be granted.
    Warning,
    /// No locks can be granted, or not for much longer.
    NoLocks,
}

impl Severity {
    /// Returns the word that people and programs are shown.
    pub(super) fn label(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::NoLocks => "no-locks",
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// A name that never changes, for programs and documents.
    pub(super) id: &'static str,
    pub(super) severity: Severity,
    /// The sites that it is about.
    pub(super) sites: Vec<SiteName>,
    /// What is wrong, and the cause as far as it is known.
    pub(super) what: String,
    /// What to do.
    pub(super) next: String,
}

impl Problem {
    fn warning<'a>(
        id: &'static str,
        sites: impl IntoIterator<Item = &'a SiteName>,
        what: String,
        next: impl Into<String>,
    ) -> Self {
        let sites = sites.into_iter().cloned().collect();
        Problem { id, severity: Severity::Warning, sites, what, next: next.into() }
    }

    fn no_locks<'a>(
        id: &'static str,
        sites: impl IntoIterator<Item = &'a SiteName>,
        what: String,
        next: impl Into<String>,
    ) -> Self {
        Problem { severity: Severity::NoLocks, ..Problem::warning(id, sites, what, next) }
    }
}

/// The voters, as far as the sites that have answered know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Quorum {
    pub(super) voters: Vec<SiteName>,
    /// Those that have answered, or that a site which has answered hears.
    pub(super) up: Vec<SiteName>,
    /// Number of those that do not vote, because they have lost their disks.
    pub(super) replaced: usize,
}

impl Quorum {
    /// Returns how many voters must be up.
    pub(super) fn needed(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// Returns how many voters are up and vote.
    pub(super) fn voting(&self) -> usize {
        self.up.len().saturating_sub(self.replaced)
    }

    /// Returns how many more voters may fail; `None` if too few are left already.
    pub(super) fn may_fail(&self) -> Option<usize> {
        self.voting().checked_sub(self.needed())
    }
}

/// What is wrong with a cluster, the worst first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) quorum: Quorum,
    pub(super) findings: Vec<Problem>,
}

impl Verdict {
    /// Returns how bad the worst finding is.
    pub(super) fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// Judges what the sites have said.
pub(super) fn judge(facts: &Facts) -> Verdict {
    let quorum = quorum(facts);
    let mut findings = Vec::new();
    if facts.answers().next().is_none() {
        findings.push(nobody(facts));
    } else {
        findings.extend(judge_quorum(&quorum));
        findings.extend(judge_serving(facts));
        findings.extend(unreached(facts));
        findings.extend(pairs(facts));
        findings.extend(one_site::judge(facts));
        findings.extend(configuration::judge(facts));
    }
    findings.sort_by(|a, b| (b.severity, a.id, &a.sites).cmp(&(a.severity, b.id, &b.sites)));
    Verdict { quorum, findings }
}

/// Returns who votes, by the site that has the latest view.
fn quorum(facts: &Facts) -> Quorum {
    let latest = facts.answers().max_by_key(|answer| (answer.report.is_ok(), answer.epoch, answer.serves()));
    let Some(latest) = latest else { return Quorum::default() };
    let up = latest.voters.iter().filter(|voter| facts.has_answered(voter) || is_heard(facts, voter));
    let replaced = latest.report.as_ref().map_or(0, |report| report.replaced as usize);
    Quorum { voters: latest.voters.clone(), up: up.cloned().collect(), replaced }
}

/// Returns whether a site that has answered has a connection to `site`, or has heard from it within a lease.
fn is_heard(facts: &Facts, site: &SiteName) -> bool {
    let reports = facts.answers().filter_map(|answer| answer.report.as_ref().ok());
    reports.into_iter().any(|report| {
        let peer = report.peers.iter().find(|peer| peer.site == *site);
        peer.is_some_and(|peer| {
            peer.version.is_some() || peer.heard.is_some_and(|ago| ago < report.lease.terms.length)
        })
    })
}

fn nobody(facts: &Facts) -> Problem {
    let tried: Vec<String> = facts.asked.iter().map(tried).collect();
    Problem::no_locks(
        "no-site-answers",
        facts.asked.iter().filter_map(|asked| asked.site.as_ref()),
        format!("No site answers. Tried: {}", tried.join("; ")),
        "Look whether the nodes run and whether this machine reaches them; give other addresses with --node, or --config.",
    )
}

/// Says where a site was asked in vain.
fn tried(asked: &Asked) -> String {
    let why = asked.answer.as_ref().err().map_or("", String::as_str);
    match &asked.site {
        Some(site) => format!("{site} at {}: {why}", asked.at),
        None => format!("{}: {why}", asked.at),
    }
}

fn judge_quorum(quorum: &Quorum) -> Vec<Problem> {
    let mut findings = Vec::new();
    let (voters, voting, needed) = (quorum.voters.len(), quorum.voting(), quorum.needed());
    let down: Vec<&SiteName> = quorum.voters.iter().filter(|voter| !quorum.up.contains(voter)).collect();
    let missing =
        if down.is_empty() { String::new() } else { format!(" Not up: {}.", names(down.iter().copied())) };
    match quorum.may_fail() {
        None => findings.push(Problem::no_locks(
            "quorum-lost",
            down.iter().copied(),
            format!(
                "{voting} of {voters} voters are up, and {needed} are needed: leases are not renewed, and no locks are granted once they \
                 have ended.{missing}"
            ),
            "Start the voters that are not up, or repair the network between them. Sites that are not voters do not count.",
        )),
        Some(0) if voters > 1 => findings.push(Problem::warning(
            "no-spare-voter",
            down.iter().copied(),
            format!("{voting} of {voters} voters are up, and {needed} are needed: if one more fails, no locks are granted.{missing}"),
            "Start the voters that are not up. A cluster of three sites survives one failure, one of five survives two.",
        )),
        Some(_) => {}
    }
    if quorum.replaced > 0 {
        findings.push(Problem::warning(
            "voter-lost-disk",
            [],
            format!("{} of the voters have started with new disks, and do not vote any more.", quorum.replaced),
            "With voters = \"auto\" they get new votes by themselves; otherwise docs/operating.md says what a lost disk means.",
        ));
    }
    findings
}

/// Judges which sites can grant locks.
fn judge_serving(facts: &Facts) -> Vec<Problem> {
    let causes: Vec<(&SiteName, &str)> =
        facts.answers().filter_map(|answer| Some((&answer.site, answer.outage.as_deref()?))).collect();
    if facts.answers().any(SiteFacts::serves) {
        let next = "Read its log. It comes back by itself when it reaches more than half of the voters.";
        let finding = |(site, why): (&SiteName, &str)| {
            Problem::warning("site-not-serving", [site], format!("{site} cannot grant locks: {why}."), next)
        };
        return causes.into_iter().map(finding).collect();
    }
    let whys: Vec<String> = facts
        .answers()
        .map(|answer| {
            format!("{}: {}", answer.site, answer.outage.as_deref().unwrap_or("it is leaving the cluster"))
        })
        .collect();
    vec![Problem::no_locks(
        "locks-not-granted",
        facts.answers().map(|answer| &answer.site),
        format!("No site that answers can grant locks. {}.", whys.join("; ")),
        "See the other findings; when more than half of the voters are up and reach each other, locks are granted again.",
    )]
}

/// Names the sites that take part or vote and have not answered.
fn unreached(facts: &Facts) -> Vec<Problem> {
    let mut named: BTreeSet<&SiteName> =
        facts.answers().flat_map(|answer| answer.voters.iter().chain(&answer.members)).collect();
    named.extend(facts.asked.iter().filter_map(|asked| asked.site.as_ref()));
    let mut findings = Vec::new();
    for site in named.into_iter().filter(|site| !facts.has_answered(site)) {
        let tries: Vec<String> =
            facts.asked.iter().filter(|asked| asked.site.as_ref() == Some(site)).map(tried).collect();
        let told = heard_of(facts, site);
        let what = match (tries.is_empty(), told.is_empty()) {
            (false, _) => format!("{site} does not answer. Tried: {}.{told}", tries.join("; ")),
            (true, false) => format!("{site} was not asked.{told}"),
            (true, true) => format!("{site} was not asked: no site that answers knows its address."),
        };
        let next = format!(
            "Look whether the node of {site} runs and can be reached; `meshlock site remove {site}` if it is gone for good."
        );
        findings.push(Problem::warning("site-unreachable", [site], what, next));
    }
    let unnamed = facts.asked.iter().filter(|asked| asked.site.is_none() && asked.answer.is_err());
    findings.extend(unnamed.map(|asked| {
        Problem::warning(
            "site-unreachable",
            [],
            format!("No answer. Tried: {}.", tried(asked)),
            "Look whether a node serves clients there, and whether this machine reaches it.",
        )
    }));
    findings
}

/// Says what sites that have answered know of one that has not.
fn heard_of(facts: &Facts, site: &SiteName) -> String {
    let told = facts.answers().filter_map(|answer| {
        let report = answer.report.as_ref().ok()?;
        let peer = report.peers.iter().find(|peer| peer.site == *site)?;
        Some(format!(" {} heard from it {} ago.", answer.site, Age(peer.heard?)))
    });
    told.collect()
}

/// Finds pairs of sites of which one does not reach the other though both answer.
fn pairs(facts: &Facts) -> Vec<Problem> {
    let mut findings = Vec::new();
    for answer in facts.answers() {
        let Ok(report) = &answer.report else { continue };
        for peer in
            report.peers.iter().filter(|peer| peer.version.is_none() && facts.has_answered(&peer.site))
        {
            let Some(error) = &peer.error else { continue };
            let (from, to) = (&answer.site, &peer.site);
            let heard = peer.heard.map_or_else(|| "never".to_owned(), |ago| format!("{} ago", Age(ago)));
            findings.push(Problem::warning(
                "pair-unreachable",
                [from, to],
                format!(
                    "{from} does not reach {to}, though both answer: {error}. It heard from it last: {heard}."
                ),
                format!("Repair the network from {from} to {to}, or the address and the firewall of {to}."),
            ));
        }
    }
    findings
}

/// Joins the names of sites.
fn names<'a>(sites: impl IntoIterator<Item = &'a SiteName>) -> String {
    sites.into_iter().map(SiteName::as_str).collect::<Vec<_>>().join(", ")
}
