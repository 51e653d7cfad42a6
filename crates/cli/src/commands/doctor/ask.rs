//! Asks sites: nodes as a client does, or sites as another site does. Each is asked in parallel, and none for longer than a few seconds.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use meshlock_client::{Connection, ConnectionError};
use meshlock_cluster::address::Address;
use meshlock_cluster::names::{ClientLabel, SiteName};
use meshlock_wire::clients::{HAS_DIAGNOSES, RefusalKind, ToClient, ToNode};
use meshlock_wire::diagnosis::AskedSite;

use super::facts::{Asked, Facts, SiteFacts};
use crate::commands::target;
use crate::location::NodeLocation;
use crate::settings::asker::SiteAsker;

/// How long a node may take for its own report.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How long a node may take when it asks other sites.
const ROUND_WITHIN: Duration = Duration::from_secs(12);

/// How often sites that other sites have named are asked as well.
const ROUNDS: usize = 3;

/// Maximum number of sites that are asked in all.
const MAX_ASKED: usize = 256;

/// Asks nodes as a client. Sites that they name and that have not answered are asked by the first of them that can.
pub(super) fn nodes(locations: &[NodeLocation]) -> Facts {
    let answers: Vec<(Asked, Option<Connection>)> = thread::scope(|scope| {
        let asking: Vec<_> = locations.iter().map(|location| scope.spawn(|| ask_node(location))).collect();
        let gone = || (failed("a node", "asking it has failed"), None);
        asking.into_iter().map(|asked| asked.join().unwrap_or_else(|_| gone())).collect()
    });
    let (mut asked, mut open) = (Vec::new(), Vec::new());
    for (answer, connection) in answers {
        open.extend(
            connection.zip(answer.answer.as_ref().ok().map(|facts| facts.ahead.unwrap_or_default().0)),
        );
        asked.push(answer);
    }
    let mut facts = Facts { now: seconds(), asked };
    if let Some((connection, ahead)) = open.first_mut().filter(|_| has_missing(&facts)) {
        let more = others(connection, *ahead);
        for other in more {
            let known = other.site.clone();
            if !known.is_some_and(|site| facts.has_answered(&site)) {
                facts.asked.push(other);
            }
        }
    }
    facts
}

/// Returns whether a site was named that has not answered.
fn has_missing(facts: &Facts) -> bool {
    let named = facts.answers().flat_map(|answer| answer.voters.iter().chain(&answer.members));
    named.into_iter().any(|site| !facts.has_answered(site))
}

fn failed(at: &str, why: &str) -> Asked {
    Asked { site: None, at: at.to_owned(), answer: Err(why.to_owned()) }
}

/// Asks one node. Also returns the connection, if the node can be asked about others.
fn ask_node(location: &NodeLocation) -> (Asked, Option<Connection>) {
    let at = location.to_string();
    let connected = label().and_then(|label| location.connect(&label));
    let mut connection = match connected {
        Ok(connection) => connection,
        Err(error) => return (failed(&at, &format!("{error:#}")), None),
    };
    let site = Some(connection.site().clone());
    match report(&mut connection) {
        Ok(facts) => {
            let can_ask = facts.report.is_ok();
            (Asked { site, at, answer: Ok(facts) }, can_ask.then_some(connection))
        }
        Err(error) => (Asked { site, at, answer: Err(format!("{error:#}")) }, None),
    }
}

/// Asks a node for its own report, or for its status if it does not tell more.
fn report(connection: &mut Connection) -> anyhow::Result<SiteFacts> {
    let status = |connection: &mut Connection, why: String| {
        let status = target::status(connection)?;
        Ok(SiteFacts::of_status(&status, why))
    };
    if connection.version() < HAS_DIAGNOSES {
        return status(connection, "it runs an older version of Meshlock".to_owned());
    }
    let (before, asked_at) = (micros(), Instant::now());
    let answer = connection.ask(ANSWER_WITHIN, |tag| ToNode::Diagnose { tag, others: false });
    let took = u64::try_from(asked_at.elapsed().as_micros()).unwrap_or(u64::MAX);
    match answer {
        Ok(ToClient::Diagnoses { sites, .. }) => {
            let own =
                sites.into_iter().find_map(|asked| asked.answer.ok().filter(|report| report.is_bounded()));
            let report = own.ok_or_else(|| anyhow::anyhow!("its report is empty or too long"))?;
            let ahead = difference(report.wall_clock, before.saturating_add(took / 2));
            Ok(SiteFacts::of_report(report, (ahead, took / 2)))
        }
        Ok(answer) => Err(target::unexpected(connection, &answer)),
        Err(ConnectionError::Refused { kind: RefusalKind::Denied, why, .. }) => status(connection, why),
        Err(error) => Err(error.into()),
    }
}

/// Lets a node ask all other sites that it knows. Its own calendar is `ahead` of the one here.
fn others(connection: &mut Connection, ahead: i64) -> Vec<Asked> {
    let by = connection.site().clone();
    let answer = connection.ask(ROUND_WITHIN, |tag| ToNode::Diagnose { tag, others: true });
    let sites = match answer {
        Ok(ToClient::Diagnoses { sites, .. }) => sites,
        Ok(_) => return Vec::new(),
        Err(error) => return vec![failed("the other sites", &format!("asked by {by}: {error:#}"))],
    };
    let asked = sites.into_iter().filter(|asked| asked.site != by).take(MAX_ASKED);
    asked.map(|asked| from_node(asked, &by, ahead)).collect()
}

fn from_node(asked: AskedSite, by: &SiteName, asker_ahead: i64) -> Asked {
    let AskedSite { site, address, took, ahead, answer } = asked;
    let at = address.map_or_else(|| "no known address".to_owned(), |address| address.to_string());
    let answer = match answer {
        Ok(report) if report.is_bounded() => {
            let ahead = (ahead.saturating_add(asker_ahead), took.micros() / 2);
            Ok(SiteFacts::of_report(report, ahead))
        }
        Ok(_) => Err("its report is too long".to_owned()),
        Err(why) => Err(why),
    };
    Asked { site: Some(site), at: format!("{at}, by {by}"), answer }
}

/// Asks the sites of a configuration as its site, then those that they name.
pub(super) fn sites(asker: &SiteAsker) -> anyhow::Result<Facts> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut places: BTreeMap<SiteName, Address> = asker.sites.iter().cloned().collect();
    let mut facts = Facts { now: seconds(), asked: Vec::new() };
    let mut done: Vec<(SiteName, Address)> = Vec::new();
    for _ in 0..ROUNDS {
        let next: Vec<(SiteName, Address)> = places
            .iter()
            .map(|(site, address)| (site.clone(), address.clone()))
            .filter(|(site, address)| {
                !facts.has_answered(site) && !done.contains(&(site.clone(), address.clone()))
            })
            .take(MAX_ASKED)
            .collect();
        if next.is_empty() {
            break;
        }
        done.extend(next.iter().cloned());
        let answers = runtime.block_on(ask_at(asker, next));
        for answer in answers {
            // A later address of the same site takes the place of one that did not answer.
            facts.asked.retain(|before| before.answer.is_ok() || before.site != answer.site);
            facts.asked.push(answer);
        }
        let reports: Vec<_> = facts.answers().filter_map(|answer| answer.report.as_ref().ok()).collect();
        for peer in reports.iter().flat_map(|report| &report.peers) {
            if let Some(address) = peer.address.clone().filter(|_| !facts.has_answered(&peer.site)) {
                places.insert(peer.site.clone(), address);
            }
        }
    }
    Ok(facts)
}

async fn ask_at(asker: &SiteAsker, places: Vec<(SiteName, Address)>) -> Vec<Asked> {
    let mut asking = tokio::task::JoinSet::new();
    for (site, address) in places {
        let (me, security) = (asker.me.clone(), asker.security.clone());
        asking.spawn(async move {
            let (before, asked_at) = (micros(), Instant::now());
            let answer = meshlock_host::ask_diagnosis(&address, &me, &security).await;
            let took = u64::try_from(asked_at.elapsed().as_micros()).unwrap_or(u64::MAX);
            let answer = match answer {
                Ok(report) if report.site == site => {
                    let ahead = difference(report.wall_clock, before.saturating_add(took / 2));
                    Ok(SiteFacts::of_report(Box::new(report), (ahead, took / 2)))
                }
                Ok(report) => Err(format!("the site '{}' answers there", report.site)),
                Err(error) => Err(error.why),
            };
            Asked { site: Some(site), at: address.to_string(), answer }
        });
    }
    let mut all = asking.join_all().await;
    all.sort_by(|a, b| a.site.cmp(&b.site));
    all
}

fn label() -> anyhow::Result<ClientLabel> {
    Ok(format!("meshlock doctor, process {}", std::process::id()).parse()?)
}

fn difference(there: u64, here: u64) -> i64 {
    i64::try_from(i128::from(there) - i128::from(here)).unwrap_or(i64::MAX)
}

/// Returns the calendar time here, in microseconds since 1970.
fn micros() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn seconds() -> u64 {
    micros() / 1_000_000
}
