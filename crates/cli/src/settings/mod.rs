//! The settings of a node: its configuration file, its flags, and the defaults where neither says anything.

pub(crate) mod asker;
mod bootstrap;
pub(crate) mod duration;
pub(crate) mod end_date;
pub(crate) mod example;
pub(crate) mod file;
pub(crate) mod guard;
pub(crate) mod places;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use meshlock::config::{AccessToken, Admission, Lease, Rule, Voters};
use meshlock::{Node, NodeBuilder, StartError, Tls};
use meshlock_cluster::address::Address;
use meshlock_cluster::names::SiteName;

use crate::output::UsageError;
use file::{AdmissionEntry, ConfigSource, File, ListedSite, RuleEntry, SocketMode, TlsEntry, VotersEntry};

/// Default time that clients have to release their locks when a node is told to stop.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Tokens that end within this time are warned about.
const WARN_OF_TOKENS: Duration = Duration::from_hours(30 * 24);

/// What the library's errors call by the names of the builder's methods, and how the file and the flags say it.
const WORDS: [(&str, &str); 2] = [
    ("set `site`", "set `site`, or give --site"),
    ("trust the network with `plaintext`", "tls = \"off\" where the network is trusted"),
];

/// Settings given by flags. Each takes precedence over the file.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    pub(crate) site: Option<SiteName>,
    pub(crate) data: Option<PathBuf>,
    pub(crate) listen: Option<Address>,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) socket_mode: Option<SocketMode>,
    pub(crate) api: Option<Address>,
    pub(crate) clients: Option<Address>,
    /// The sites that the cluster begins with.
    pub(crate) sites: Vec<ListedSite>,
    /// Where to look for sites of a running cluster, which tell the rest.
    pub(crate) join: Vec<String>,
    pub(crate) advertise: Option<Address>,
    pub(crate) bootstrap_expect: Option<u32>,
    /// Whether the settings are only checked: then no cluster is looked for.
    pub(crate) is_check: bool,
    pub(crate) plain: bool,
    /// Which sites may join while the cluster has no access document.
    pub(crate) admission: Option<AdmissionEntry>,
    /// The fence that is to be passed by a cluster that is founded.
    pub(crate) fence_floor: Option<u64>,
}

/// The checked settings with which a node can start.
#[derive(Debug)]
pub(crate) struct NodeSettings {
    pub(crate) node: NodeBuilder,
    pub(crate) data: PathBuf,
    pub(crate) socket: PathBuf,
    pub(crate) shutdown_grace: Duration,
    /// What works now and will soon end: certificates and tokens.
    pub(crate) warnings: Vec<String>,
}

/// Warns about certificates and tokens that end soon or have ended.
fn warnings(tls: Option<&Tls>, tokens: &[AccessToken]) -> Vec<String> {
    let mut warnings = tls.map(Tls::warnings).unwrap_or_default();
    let soon = SystemTime::now() + WARN_OF_TOKENS;
    for token in tokens {
        let Some(ends) = token.expires.filter(|ends| *ends <= soon) else { continue };
        let (name, verb) = (&token.name, if ends <= SystemTime::now() { "has ended" } else { "ends" });
        warnings.push(format!(
            "the token of '{name}' {verb} at {}; make a new one with `meshlock token new {name}`",
            end_date::shown(ends)
        ));
    }
    warnings
}

impl NodeSettings {
    /// Combines the file and the flags, and checks the result.
    pub(crate) fn new(mut file: File, source: &ConfigSource, mut flags: Flags) -> anyhow::Result<Self> {
        let wrong = |error: StartError| located(source, error);
        let mut node = with_tuning(Node::builder(), &file).lease(lease(file.lease));
        node = found(node, &mut file, source, &mut flags)?;
        if let Some(admission) = flags.admission.or(file.admission) {
            node = node.admission(match admission {
                AdmissionEntry::Open => Admission::Open,
                AdmissionEntry::Closed => Admission::Closed,
            });
        }
        if let Some(fence) = flags.fence_floor.or(file.fence_floor) {
            node = node.fence_floor(fence);
        }
        node = set(node, file.cluster, NodeBuilder::cluster);
        node = set(node, flags.listen.or(file.listen), NodeBuilder::listen);
        node = set(node, flags.clients.or(file.clients), NodeBuilder::clients);
        node = set(node, flags.api.or(file.api), NodeBuilder::api);
        if let Some(SocketMode(mode)) = flags.socket_mode.or(file.socket_mode) {
            node = node.socket_mode(mode);
        }
        if let Some(rule) = file.default_rule {
            node = node.default_rule(rule_of(rule));
        }
        for named in file.rules {
            node = node.rule(named.pattern, rule_of(named.rule));
        }
        for rule in guard::access(file.access) {
            node = node.access(rule);
        }
        let tokens = guard::tokens(file.tokens);
        for token in &tokens {
            node = node.token(token.clone());
        }
        node = node.audit(guard::audit(file.audit, source)?).limits(guard::limits(file.limits));
        if let Some(bytes) = file.audit_max_bytes {
            node = node.audit_max_bytes(bytes);
        }
        if let Some(files) = file.audit_files {
            node = node.audit_files(files);
        }
        if file.audit_required {
            node = node.audit_required();
        }
        node = node.revoked(file.revoked);
        node = set(node, file.join_token, NodeBuilder::join_token);
        let said = if flags.plain { Some(TlsEntry::Off(file::TlsOff::Off)) } else { file.tls };
        let (is_said, files) = (said.is_some(), said.and_then(|entry| entry.files(source)));
        let tls = files.map(|files| files.read().map_err(|error| source.wrong("tls", error))).transpose()?;
        node = match &tls {
            Some(tls) => node.tls(tls.clone()),
            None if is_said => node.plaintext(),
            None => node,
        };
        let site: SiteName = node.site_name().map_err(wrong)?.parse()?;
        let data = flags.data.or_else(|| file.data.map(|path| source.resolve(path)));
        let data = data.map_or_else(|| places::data_of(&site, "give --data DIR"), Ok)?;
        let socket = flags.socket.or_else(|| file.socket.map(|path| source.resolve(path)));
        let socket = socket.map_or_else(|| places::socket_of(&site), Ok)?;
        let node = node.data(&data).socket(&socket);
        node.check().map_err(wrong)?;
        let shutdown_grace = file.shutdown_grace.map_or(SHUTDOWN_GRACE, |grace| grace.duration());
        let warnings = warnings(tls.as_ref(), &tokens);
        Ok(NodeSettings { node, data, socket, shutdown_grace, warnings })
    }
}

/// Where the state of a site is that does not run.
#[derive(Debug)]
pub(crate) struct StoppedPlace {
    pub(crate) site: SiteName,
    pub(crate) data: PathBuf,
    /// The address of the site in the list of sites.
    pub(crate) address: Option<Address>,
}

impl StoppedPlace {
    /// Finds it by the configuration of the site and by flags, which take precedence.
    pub(crate) fn find(
        read: Option<(File, ConfigSource)>,
        site: Option<SiteName>,
        data: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let (file, source) = read.unwrap_or_default();
        let only =
            if file.sites.len() == 1 { file.sites.first().map(|listed| listed.name.clone()) } else { None };
        let Some(site) = site.or(file.site).or(only) else {
            return Err(UsageError::new("say which site this is: give --config FILE, or --site NAME").into());
        };
        let data = data.or_else(|| file.data.map(|path| source.resolve(path)));
        let data = data.map_or_else(|| places::data_of(&site, "give --data DIR"), Ok)?;
        // What is printed must lead there from every directory.
        let data = std::path::absolute(data)?;
        let listed = file.sites.into_iter().find(|listed| listed.name == site);
        Ok(StoppedPlace { site, data, address: file.advertise.or(listed.map(|listed| listed.address)) })
    }
}

/// Sets which cluster it is and where: this site, the sites that found the cluster, or where to look for one that runs.
fn found(
    mut node: NodeBuilder,
    file: &mut File,
    source: &ConfigSource,
    flags: &mut Flags,
) -> Result<NodeBuilder, UsageError> {
    let listed = if flags.sites.is_empty() { &mut file.sites } else { &mut flags.sites };
    let mut sites = std::mem::take(listed);
    let join = std::mem::take(&mut file.join).places();
    let join = if flags.join.is_empty() { join } else { std::mem::take(&mut flags.join) };
    let site = flags.site.take().or(file.site.take());
    let advertise = flags.advertise.take().or(file.advertise.take());
    if let Some(count) = flags.bootstrap_expect.or(file.bootstrap_expect) {
        let wrong = |why: String| source.wrong("bootstrap_expect", why);
        if !sites.is_empty() || !join.is_empty() {
            let why = "it says which sites found the cluster; leave out `sites` and `join`";
            return Err(wrong(why.to_owned()));
        }
        sites = bootstrap::expected(count, site.as_ref(), advertise.as_ref()).map_err(wrong)?;
    }
    if let Some(address) = advertise {
        let address = bootstrap::filled(&address, site.as_ref());
        node = node.advertise(address.map_err(|why| source.wrong("advertise", why))?.to_string());
    }
    node = node.sites(sites.into_iter().map(|listed| (listed.name.to_string(), listed.address.to_string())));
    bootstrap::check_places(&join).map_err(|why| source.wrong("join", why))?;
    // A check connects to no other site.
    if !flags.is_check {
        node = node.join(join);
    }
    Ok(set(node, site, NodeBuilder::site))
}

/// Sets what a site does by itself: how it waits, whom it serves first, and who votes.
fn with_tuning(mut node: NodeBuilder, file: &File) -> NodeBuilder {
    if let Some(polls) = file.busy_poll {
        node = node.busy_poll(polls);
    }
    if let Some(turns) = file.local_turns {
        node = node.local_turns(turns);
    }
    if let Some(limit) = file.try_within {
        node = node.try_within(limit.duration());
    }
    if let Some(voters) = file.voters {
        node = node.voters(match voters {
            VotersEntry::Fixed => Voters::Fixed,
            VotersEntry::Auto => Voters::Auto,
        });
    }
    if let Some(away) = file.replace_voter_after {
        node = node.replace_voter_after(away.duration());
    }
    if let Some(member_for) = file.promote_voter_after {
        node = node.promote_voter_after(member_for.duration());
    }
    if let Some(ttl) = file.session_ttl {
        node = node.session_ttl(ttl.duration());
    }
    node
}

/// Adds the file and line to an error about a wrong setting.
pub(crate) fn located(source: &ConfigSource, error: StartError) -> anyhow::Error {
    if let StartError::Setting { key, why, .. } = &error {
        let why = WORDS.iter().fold(why.clone(), |why, (method, ours)| why.replace(method, ours));
        return source.wrong(key, why).into();
    }
    error.into()
}

/// Applies `setting` if a value was given.
fn set<T: ToString>(
    node: NodeBuilder,
    said: Option<T>,
    setting: impl FnOnce(NodeBuilder, String) -> NodeBuilder,
) -> NodeBuilder {
    match said {
        Some(value) => setting(node, value.to_string()),
        None => node,
    }
}

fn rule_of(entry: RuleEntry) -> Rule {
    let rule = Rule::new(entry.algorithm).permits(entry.permits.unwrap_or(1));
    match entry.per_site {
        Some(per_site) => rule.per_site(per_site),
        None => rule,
    }
}

fn lease(said: file::LeaseEntry) -> Lease {
    let mut lease = Lease::default();
    lease.length = said.length.map(|length| length.duration());
    lease.margin = said.margin.map(|margin| margin.duration());
    lease.renew_every = said.renew_every.map(|every| every.duration());
    lease.drift_ppm = said.drift_ppm;
    lease
}
