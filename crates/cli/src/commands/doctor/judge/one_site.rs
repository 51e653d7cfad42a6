//! Judges what each site says of itself: its certificates, its disk, its lease, its calendar, and whether it tells everything.

use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::Age;
use meshlock_cluster::time::Span;
use meshlock_wire::diagnosis::{CertificateEnd, LeaseReport};

use super::super::facts::{Facts, SiteFacts};
use super::Problem;

const DAY: u64 = 24 * 3600;

/// Certificates that end within this time are warned about, as in the node's log.
const WARN_OF_CERTIFICATES: u64 = 30 * DAY;

/// Calendars that differ by more than this are warned about, in microseconds: tokens and certificates begin and end by them.
const CLOCKS_APART: u64 = 5_000_000;

pub(super) fn judge(facts: &Facts) -> Vec<Problem> {
    let mut findings = Vec::new();
    for answer in facts.answers() {
        findings.extend(disk(answer));
        findings.extend(leaving(answer));
        match &answer.report {
            Ok(report) => {
                findings.extend(report.certificates.iter().filter_map(|end| certificate(&answer.site, *end, facts.now)));
                findings.extend(lease(&answer.site, report.lease));
            }
            Err(why) => findings.push(Problem::warning(
                "report-missing",
                [&answer.site],
                format!("{} tells only its status: {why}.", answer.site),
                "Upgrade the site, or use a certificate that may watch all locks; until then some problems of this site are not found.",
            )),
        }
    }
    findings.extend(clocks(facts));
    findings
}

fn disk(answer: &SiteFacts) -> Option<Problem> {
    let (site, why) = (&answer.site, answer.disk.as_ref()?);
    Some(Problem::warning(
        "disk-failing",
        [site],
        format!("The disk of {site} cannot be written, so that {site} cannot vote, lead or join: {why}."),
        "Make room, or replace the disk; docs/operating.md says what a lost disk means.",
    ))
}

fn leaving(answer: &SiteFacts) -> Option<Problem> {
    let site = answer.leaving.then_some(&answer.site)?;
    let next = "Wait until it has left. Restart it if it was not meant to leave.";
    Some(Problem::warning("site-leaving", [site], format!("{site} is leaving the cluster."), next))
}

fn certificate(site: &SiteName, end: CertificateEnd, now: u64) -> Option<Problem> {
    let whose =
        if end.is_authority { "The authority that signed the certificate of" } else { "The certificate of" };
    let next = if end.is_authority {
        "Replace the authority: docs/operating.md, \"Replacing the authority\".".to_owned()
    } else {
        format!(
            "`meshlock ca issue {site}`, then put the files in the place of the old ones; the node reads them again by itself."
        )
    };
    let id = match (end.is_authority, end.at <= now) {
        (false, false) => "certificate-ends",
        (false, true) => "certificate-ended",
        (true, false) => "authority-ends",
        (true, true) => "authority-ended",
    };
    if end.at <= now {
        return Some(Problem::warning(
            id,
            [site],
            format!("{whose} {site} has ended: nobody accepts it."),
            next,
        ));
    }
    let left = end.at - now;
    let within =
        if left >= 2 * DAY { format!("{} days", left / DAY) } else { format!("{} hours", left / 3600) };
    (left <= WARN_OF_CERTIFICATES)
        .then(|| Problem::warning(id, [site], format!("{whose} {site} ends in {within}."), next))
}

fn lease(site: &SiteName, lease: LeaseReport) -> Option<Problem> {
    let (terms, tightest) = (lease.terms, lease.tightest?);
    // A lease that ended is another finding, unless the site has a new one.
    let usable = Span::from_micros(terms.length.micros().saturating_sub(terms.margin.micros()));
    (lease.left.is_some() && tightest < usable.part(3)).then(|| {
        Problem::warning(
            "lease-margin",
            [site],
            format!(
                "A recent renewal of the lease of {site} came when {} of {} were left: a little slower, and its clients lose their locks.",
                Age(tightest),
                Age(terms.length)
            ),
            "Look for what delays it: a CPU limit, swapping, a slow disk of the leader, the network. Longer leases help.",
        )
    })
}

/// Finds the site whose calendar is the farthest from the middle one.
fn clocks(facts: &Facts) -> Option<Problem> {
    let mut all: Vec<(&SiteName, i64, u64)> = facts
        .answers()
        .filter_map(|answer| answer.ahead.map(|(ahead, uncertain)| (&answer.site, ahead, uncertain)))
        .collect();
    all.sort_by_key(|(_, ahead, _)| *ahead);
    let (_, middle, _) = *all.get(all.len() / 2)?;
    let apart = |(site, ahead, uncertain): &(&SiteName, i64, u64)| {
        (ahead.abs_diff(middle).saturating_sub(*uncertain), ahead.cmp(&middle), (*site).clone())
    };
    let (by, order, site) = all.iter().map(apart).max_by_key(|(by, ..)| *by)?;
    if by <= CLOCKS_APART {
        return None;
    }
    let others: Vec<&SiteName> =
        all.iter().map(|(other, ..)| *other).filter(|other| **other != site).collect();
    let direction = if order == std::cmp::Ordering::Greater { "ahead of" } else { "behind" };
    Some(Problem::warning(
        "clocks-apart",
        [&site],
        format!(
            "The calendar of {site} is {} {direction} that of {}.",
            Age(Span::from_micros(by)),
            super::names(others)
        ),
        "Set the clocks (NTP): certificates and tokens begin and end by them. Leases do not depend on them.",
    ))
}
