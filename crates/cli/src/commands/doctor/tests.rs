//! What is judged, case by case: facts, and the findings that follow.

use meshlock_cluster::lease::Terms;
use meshlock_cluster::names::SiteName;
use meshlock_cluster::time::Span;
use meshlock_wire::diagnosis::{CertificateEnd, Diagnosis, LeaseReport, PeerReport};

use super::facts::{Asked, Facts, SiteFacts};
use super::judge::{Problem, Severity, judge};

const NOW: u64 = 1_800_000_000;
const DAY: u64 = 24 * 3600;

fn name(site: &str) -> SiteName {
    site.parse().unwrap()
}

fn names(sites: &[&str]) -> Vec<SiteName> {
    sites.iter().copied().map(name).collect()
}

/// The report of a healthy site of a cluster of three.
fn report(site: &str) -> Diagnosis {
    let terms = Terms::default();
    let peer = |other: &&str| PeerReport {
        site: name(other),
        address: Some(format!("{other}.example:7400").parse().unwrap()),
        heard: Some(Span::from_millis(100)),
        version: Some(4),
        error: None,
    };
    Diagnosis {
        site: name(site),
        incarnation: 1,
        cluster: "prod".parse().unwrap(),
        program: "0.1.0".to_owned(),
        site_versions: (1, 4),
        client_versions: (2, 5),
        founders: names(&["a", "b", "c"]),
        voters: names(&["a", "b", "c"]),
        replaced: 0,
        epoch: 4,
        members: names(&["a", "b", "c"]),
        leader: Some(name("a")),
        outage: None,
        leaving: false,
        disk: None,
        lease: LeaseReport {
            terms,
            configured: terms,
            left: Some(Span::from_millis(4000)),
            tightest: Some(Span::from_millis(4000)),
        },
        wall_clock: NOW * 1_000_000,
        certificates: vec![
            CertificateEnd { is_authority: false, at: NOW + 300 * DAY },
            CertificateEnd { is_authority: true, at: NOW + 3000 * DAY },
        ],
        peers: ["a", "b", "c"].iter().filter(|other| **other != site).map(peer).collect(),
        configuration: vec![("access".to_owned(), 1), ("tokens".to_owned(), 0)],
    }
}

fn answered(report: Diagnosis) -> Asked {
    let (site, at) = (Some(report.site.clone()), "somewhere".to_owned());
    Asked { site, at, answer: Ok(SiteFacts::of_report(Box::new(report), (0, 100))) }
}

fn silent(site: &str) -> Asked {
    Asked { site: Some(name(site)), at: format!("{site}.example:7400"), answer: Err("refused".to_owned()) }
}

fn facts(asked: Vec<Asked>) -> Facts {
    Facts { now: NOW, asked }
}

/// Three healthy sites, of which `b` was changed.
fn with_b(change: impl FnOnce(&mut Diagnosis)) -> Facts {
    let mut b = report("b");
    change(&mut b);
    facts(vec![answered(report("a")), answered(b), answered(report("c"))])
}

fn findings(facts: &Facts) -> Vec<Problem> {
    judge(facts).findings
}

/// Returns the ids and the sites of what is found.
fn found(facts: &Facts) -> Vec<(&'static str, Vec<String>)> {
    let brief = |finding: Problem| (finding.id, finding.sites.iter().map(ToString::to_string).collect());
    findings(facts).into_iter().map(brief).collect()
}

fn only(id: &'static str, sites: &[&str]) -> Vec<(&'static str, Vec<String>)> {
    vec![(id, sites.iter().map(|site| (*site).to_owned()).collect())]
}

/// The two survivors' peers do not have a connection to `c` any more, and have not heard of it for a while.
fn without_c(site: &str) -> Diagnosis {
    let mut report = report(site);
    for peer in report.peers.iter_mut().filter(|peer| peer.site == name("c")) {
        (peer.version, peer.heard) = (None, Some(Span::from_millis(60_000)));
        peer.error = Some("c.example:7400: refused".to_owned());
    }
    report
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let facts = with_b(|_| {});
    let verdict = judge(&facts);
    assert_eq!((found(&facts), verdict.worst()), (vec![], None));
    assert_eq!((verdict.quorum.needed(), verdict.quorum.may_fail()), (2, Some(1)));
}

#[test]
fn each_thing_that_is_wrong_with_one_site_is_one_finding_that_names_it() {
    type Change = fn(&mut Diagnosis);
    let cases: [(&str, Change); 13] = [
        ("disk-failing", |b| b.disk = Some("no space left".to_owned())),
        ("site-leaving", |b| b.leaving = true),
        ("site-not-serving", |b| b.outage = Some("b has no lease".to_owned())),
        ("certificate-ends", |b| b.certificates[0].at = NOW + 29 * DAY),
        ("certificate-ended", |b| b.certificates[0].at = NOW),
        ("authority-ends", |b| b.certificates[1].at = NOW + DAY),
        ("authority-ended", |b| b.certificates[1].at = NOW - DAY),
        ("lease-margin", |b| b.lease.tightest = Some(Span::from_millis(1000))),
        ("lease-terms-differ", |b| b.lease.configured.margin = Span::from_millis(700)),
        ("program-versions-differ", |b| b.program = "0.0.9".to_owned()),
        ("wire-versions-differ", |b| b.site_versions = (1, 3)),
        ("access-rules-differ", |b| b.configuration[0].1 = 2),
        ("tokens-differ", |b| b.configuration[1].1 = 2),
    ];
    for (id, change) in cases {
        let facts = with_b(change);
        assert_eq!(found(&facts), only(id, &["b"]), "{id}");
        let finding = &findings(&facts)[0];
        assert_eq!(finding.severity, Severity::Warning, "{id}");
        assert!(finding.what.contains('b') && finding.next.len() > 20, "{finding:?}");
    }
}

#[test]
fn what_is_only_close_to_a_limit_is_not_found() {
    type Change = fn(&mut Diagnosis);
    let cases: [Change; 4] = [
        |b| b.certificates[0].at = NOW + 30 * DAY + 1,
        |b| b.lease.tightest = Some(Span::from_millis(1500)),
        |b| (b.lease.tightest, b.lease.left) = (Some(Span::ZERO), None),
        // A part of the configuration that an older program does not know.
        |b| b.configuration.clear(),
    ];
    for (at, change) in cases.into_iter().enumerate() {
        assert_eq!(found(&with_b(change)), vec![], "case {at}");
    }
}

#[test]
fn a_voter_that_is_down_is_named_and_leaves_no_spare() {
    let facts = facts(vec![answered(without_c("a")), answered(without_c("b")), silent("c")]);
    let ids: Vec<_> = found(&facts);
    assert_eq!(ids, [only("no-spare-voter", &["c"]), only("site-unreachable", &["c"])].concat());
    assert_eq!(judge(&facts).worst(), Some(Severity::Warning));
    assert!(findings(&facts)[1].what.contains("c.example:7400: refused"), "{:?}", findings(&facts));
}

#[test]
fn without_a_majority_no_locks_are_granted_also_while_a_lease_lasts() {
    let mut alone = without_c("a");
    for peer in &mut alone.peers {
        (peer.version, peer.heard) = (None, None);
    }
    let still_leased = facts(vec![answered(alone.clone()), silent("b"), silent("c")]);
    assert_eq!(found(&still_leased)[0], only("quorum-lost", &["b", "c"])[0]);
    assert_eq!(judge(&still_leased).worst(), Some(Severity::NoLocks));
    alone.outage = Some("a has no lease: 1 of 3 voters is reachable".to_owned());
    let ids: Vec<_> = found(&facts(vec![answered(alone), silent("b"), silent("c")]))
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    assert_eq!(ids, ["locks-not-granted", "quorum-lost", "site-unreachable", "site-unreachable"]);
}

#[test]
fn a_voter_that_did_not_answer_here_but_is_heard_by_others_counts() {
    let facts = facts(vec![answered(report("a")), answered(report("b")), silent("c")]);
    assert_eq!(found(&facts), only("site-unreachable", &["c"]));
    assert_eq!(judge(&facts).quorum.may_fail(), Some(1));
}

#[test]
fn voters_with_new_disks_do_not_count() {
    let mut facts = with_b(|_| {});
    for asked in &mut facts.asked {
        asked.answer.as_mut().unwrap().report.as_mut().unwrap().replaced = 1;
    }
    assert_eq!(found(&facts), [only("no-spare-voter", &[]), only("voter-lost-disk", &[])].concat());
}

#[test]
fn two_sites_that_answer_and_do_not_reach_each_other_are_a_finding() {
    let facts = with_b(|b| {
        let peer = b.peers.iter_mut().find(|peer| peer.site == name("c")).unwrap();
        (peer.version, peer.error) = (None, Some("c.example:7400: timed out".to_owned()));
    });
    assert_eq!(found(&facts), only("pair-unreachable", &["b", "c"]));
}

#[test]
fn calendars_that_are_apart_name_the_one_that_is_odd() {
    for (ahead, uncertain, finds) in
        [(6_000_000, 0, true), (-6_000_000, 0, true), (4_000_000, 0, false), (6_000_000, 2_000_000, false)]
    {
        let mut facts = with_b(|_| {});
        facts.asked[1].answer.as_mut().unwrap().ahead = Some((ahead, uncertain));
        let expected = if finds { only("clocks-apart", &["b"]) } else { vec![] };
        assert_eq!(found(&facts), expected, "{ahead}");
    }
}

#[test]
fn sites_of_two_clusters_and_of_two_foundings_are_told_apart() {
    let other = with_b(|b| b.cluster = "staging".parse().unwrap());
    assert_eq!(found(&other), only("cluster-name-differs", &["b"]));
    let other = with_b(|b| b.founders = names(&["b", "a", "c"]));
    assert_eq!(found(&other), only("founding-list-differs", &["b"]));
}

#[test]
fn a_site_that_tells_only_its_status_is_judged_by_that_and_named() {
    let status = || meshlock_wire::clients::Status {
        site: name("a"),
        incarnation: 1,
        cluster: "prod".parse().unwrap(),
        sites: names(&["a"]),
        view: meshlock_cluster::view::View::default(),
        standing: meshlock_cluster::node::Standing::Open,
        leader: None,
        lease_left: Some(Span::from_millis(4000)),
        leaving: false,
        locks: 0,
        holders: 0,
        waiters: 0,
        sessions: 0,
        held: Vec::new(),
        disk: None,
        voters: None,
    };
    let asked = |status: &meshlock_wire::clients::Status| Asked {
        site: Some(name("a")),
        at: "a.sock".to_owned(),
        answer: Ok(SiteFacts::of_status(status, "older".to_owned())),
    };
    assert_eq!(found(&facts(vec![asked(&status())])), only("report-missing", &["a"]));
    let mut outside = status();
    (outside.standing, outside.lease_left) = (meshlock_cluster::node::Standing::Outside, None);
    let ids: Vec<_> = found(&facts(vec![asked(&outside)])).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["locks-not-granted", "report-missing"]);
}

#[test]
fn if_nobody_answers_what_was_tried_is_said() {
    let facts = facts(vec![silent("a"), silent("b")]);
    assert_eq!(found(&facts), only("no-site-answers", &["a", "b"]));
    assert_eq!(judge(&facts).worst(), Some(Severity::NoLocks));
    assert!(findings(&facts)[0].what.contains("b at b.example:7400: refused"));
}

#[test]
fn a_page_shows_every_finding_with_its_next_step_and_nothing_that_moves_a_terminal() {
    let facts = with_b(|b| b.disk = Some("\u{1b}[2Jfull".to_owned()));
    let verdict = judge(&facts);
    let mut page = Vec::new();
    super::print::page(&facts, &verdict, &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("warning: disk-failing (b)") && page.contains("  Next: Make room"), "{page}");
    assert!(!page.contains('\u{1b}'));
    let document = super::print::document(&facts, &verdict);
    assert_eq!((&document["verdict"], &document["may_fail"]), (&"warning".into(), &1.into()));
    assert_eq!(document["findings"][0]["id"], "disk-failing");
}
