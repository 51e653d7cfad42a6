//! `meshlock recover`: makes a site the first of a new cluster, when a majority of the voters is gone for good.

use std::io::{self, IsTerminal, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use meshlock_cluster::address::Address;
use meshlock_cluster::fence_floor::{self, FloorError, highest_fence};
use meshlock_cluster::membership::recovery::ClusterRecovery;
use meshlock_cluster::names::{ClusterName, Member, SiteName};
use meshlock_host::StoppedSite;
use meshlock_protocol::Epoch;
use serde_json::{Value, json};

use super::backup::Backup;
use crate::output::{self, CommandOutcome, Printable, UsageError};
use crate::settings::{StoppedPlace, file};

/// Arguments of `meshlock recover`.
#[derive(Debug, Args)]
#[command(after_help = "\
Run it on one surviving site that voted, while its node is stopped. All other sites of the old cluster must be stopped, too, and must not
be started again with what is on their disks: if a majority of them still runs somewhere, cut off from here, both clusters grant the same
locks. Of several survivors take the one that knows most: `--dry-run` says what each knows.

Rules, the terms of leases and past incarnations stay. Every lock that was held is lost, and so is whatever the other voters have agreed on
without this site. Fences go on rising. When the site is started again, it grants nothing before every lease of the old cluster is
over. docs/operating.md has the whole procedure.

Exit codes: 0 done, 1 not confirmed, 64 it cannot be done, and the message says why.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Arguments {
    /// The configuration file of the site
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The name of the site; overrides the configuration file
    #[arg(long, value_name = "NAME")]
    site: Option<SiteName>,
    /// The directory with the durable state of the site
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The name of the new cluster [default: that of the old one]
    #[arg(long, value_name = "NAME")]
    cluster: Option<ClusterName>,
    /// A fence that is to be passed, if a higher one is known to have been given than this site can know
    #[arg(long, value_name = "FENCE")]
    fence_floor: Option<u64>,
    /// The same, with the fence floor of a backup
    #[arg(long, value_name = "FILE", conflicts_with = "fence_floor")]
    fence_floor_from: Option<PathBuf>,
    /// Go on although something accepts connections at the address of another voter
    #[arg(long)]
    although_others_run: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What will be done, and where.
struct Plan {
    place: StoppedPlace,
    recovery: ClusterRecovery,
    /// Other voters at whose addresses something accepts connections.
    running: Vec<(SiteName, Address)>,
}

/// How long something at the address of a voter may take to accept a connection.
const ACCEPTS_WITHIN: Duration = Duration::from_secs(1);

/// Returns the other voters of the old cluster at whose last known addresses something accepts connections. It proves nothing either way, but
/// an operator who has forgotten a site learns it in time.
fn running(recovery: &ClusterRecovery, site: &SiteName) -> Vec<(SiteName, Address)> {
    let others = recovery.voters.sites().into_iter().filter(|other| other != site);
    let addresses = others.filter_map(|other| {
        let address = recovery.last.address(&other)?.clone();
        Some((other, address))
    });
    let accepts = |address: &Address| {
        let found = address.as_str().to_socket_addrs().into_iter().flatten();
        found.take(2).any(|at| TcpStream::connect_timeout(&at, ACCEPTS_WITHIN).is_ok())
    };
    addresses.filter(|(_, address)| accepts(address)).collect()
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let place = place(arguments)?;
    let stopped = StoppedSite::open(&place.data, &place.site).map_err(UsageError::new)?;
    let least = least_epoch(arguments)?;
    let recovery = stopped.disk().recovery(&place.site, arguments.cluster.clone(), least);
    let recovery = recovery.map_err(|error| UsageError::new(format!("{}: {error}", place.data.display())))?;
    let running = running(&recovery, &place.site);
    let plan = Plan { place, recovery, running };
    if arguments.dry_run {
        return plan.tell(arguments.json, None, out);
    }
    if !plan.running.is_empty() && !arguments.although_others_run {
        return Err(UsageError::new(format!(
            "voters of the old cluster seem to run: {}; stop them first, because both clusters would grant the same locks. If something \
             else listens there, say --although-others-run",
            plan.said_running()
        ))
        .into());
    }
    if !arguments.yes {
        if !io::stdin().is_terminal() {
            let why = "there is no terminal to ask on; look at what `--dry-run` says, then say --yes";
            return Err(UsageError::new(why).into());
        }
        plan.print(&mut io::stderr())?;
        if !output::is_confirmed("\nAre all other sites of the old cluster stopped, and shall this be done?")?
        {
            eprintln!("Nothing was done.");
            return Ok(CommandOutcome::Refuted);
        }
    }
    let kept = stopped.replace(&plan.recovery.writes, seconds()).map_err(UsageError::new)?;
    plan.tell(arguments.json, Some(&kept), out)
}

fn place(arguments: &Arguments) -> anyhow::Result<StoppedPlace> {
    let read = arguments.config.as_deref().map(file::read).transpose()?;
    StoppedPlace::find(read, arguments.site.clone(), arguments.data.clone())
}

/// Returns the lowest epoch that the clock and the operator allow.
fn least_epoch(arguments: &Arguments) -> Result<Epoch, UsageError> {
    let said = match &arguments.fence_floor_from {
        Some(path) => Some(Backup::read(path)?.fence_floor),
        None => arguments.fence_floor,
    };
    let said = said.map(fence_floor::above).transpose();
    let said = said.map_err(|error| UsageError::new(format!("--fence-floor: {error}")))?;
    match fence_floor::by_clock(seconds()) {
        Ok(epoch) => Ok(said.map_or(epoch, |said| said.max(epoch))),
        Err(FloorError::ClockTooEarly) if said.is_none() => Err(UsageError::new(
            "the clock of this machine shows a time before 2026, and the fences of the new cluster are taken from it; set the clock, \
             or say --fence-floor",
        )),
        Err(_) => Ok(said.unwrap_or_default()),
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn names<'a>(sites: impl Iterator<Item = &'a SiteName>) -> String {
    sites.map(SiteName::as_str).collect::<Vec<_>>().join(", ")
}

impl Plan {
    /// Returns the lines of the configuration that must change, at this site and at all that join it.
    fn lines(&self) -> String {
        let (old, new) = &self.recovery.clusters;
        let cluster = if old == new { String::new() } else { format!("cluster = \"{new}\"\n") };
        let site = &self.place.site;
        let known = self.recovery.last.address(site).or(self.place.address.as_ref());
        let address = known.map_or_else(|| "HOST:7400".to_owned(), ToString::to_string);
        let address = toml::Value::String(address).to_string();
        format!("{cluster}sites = [\n    {{ name = \"{site}\", address = {address} }},\n]\n")
    }

    fn said_running(&self) -> String {
        let one = |(site, address): &(SiteName, Address)| format!("{site} at {}", Printable(address));
        self.running.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn fences_above(&self) -> u64 {
        highest_fence(self.recovery.first.epoch)
    }

    /// Writes what will be done, and what may be lost by it.
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let ClusterRecovery { clusters: (old, new), voters, last, known: (index, term), .. } = &self.recovery;
        let site = &self.place.site;
        writeln!(
            out,
            "This makes {site} the first site of a new cluster, because most voters of the old one are gone for good.\n"
        )?;
        writeln!(out, "  state of the site: {}", self.place.data.display())?;
        writeln!(out, "  old cluster:       {old}, voters {}", names(voters.sites().iter()))?;
        writeln!(
            out,
            "  known here:        view {} with {}; entry {index} of term {term}",
            last.epoch.number(),
            names(last.members.iter().map(|member| &member.site))
        )?;
        writeln!(
            out,
            "  new cluster:       {new}, voter {site}; every fence above {}\n",
            self.fences_above()
        )?;
        if !voters.votes(site) {
            writeln!(out, "{site} did not vote any more: another site knows more than this one.")?;
        }
        if !self.running.is_empty() {
            writeln!(out, "Something still accepts connections there: {}.", self.said_running())?;
        }
        writeln!(
            out,
            "It keeps the rules (version {}), the terms of leases and the past incarnations of all sites.\n\
             It loses every lock that was held, and whatever the other voters agreed on without this site: rules, members, voters.\n\
             If other voters of the old cluster still run anywhere, or are started again with their disks, both clusters grant the\n\
             same locks. Stop them all first, and empty their data directories before they join the new one.",
            last.rules_version
        )
    }

    /// Writes the result; `kept` is the copy of the old state if it was replaced.
    fn tell(
        &self,
        as_json: bool,
        kept: Option<&PathBuf>,
        out: &mut dyn Write,
    ) -> anyhow::Result<CommandOutcome> {
        if as_json {
            output::json(out, &self.document(kept))?;
            return Ok(CommandOutcome::Done);
        }
        let Some(kept) = kept else {
            self.print(out)?;
            writeln!(
                out,
                "\nNothing was done. These lines of the configuration would have to change:\n\n{}",
                self.lines()
            )?;
            return Ok(CommandOutcome::Done);
        };
        let site = &self.place.site;
        writeln!(
            out,
            "{site} is the first site of a new cluster. The old state is kept in {}; never start a site with it.\n\n\
             1. Put these lines in the place of those in the configuration of {site}, and of every site that is to join it:\n",
            Printable(&kept.display().to_string())
        )?;
        write!(out, "{}", self.lines())?;
        writeln!(
            out,
            "\n2. Start {site}. It serves when every lease of the old cluster is over.\n\
             3. At every other site: empty its data directory, then start it. It joins anew. With voters = \"auto\" the cluster\n   \
             makes voters of them; until then {site} is the only one."
        )?;
        Ok(CommandOutcome::Done)
    }

    fn document(&self, kept: Option<&PathBuf>) -> Value {
        let ClusterRecovery { clusters: (old, new), voters, last, known: (index, term), first, .. } =
            &self.recovery;
        let member = |member: &Member| json!({ "site": member.site, "incarnation": member.incarnation.number().to_string() });
        json!({
            "done": kept.is_some(),
            "site": self.place.site,
            "data": self.place.data,
            "kept": kept,
            "old": {
                "cluster": old,
                "voters": voters.sites(),
                "epoch": last.epoch.number(),
                "members": last.members.iter().map(member).collect::<Vec<_>>(),
                "rules_version": last.rules_version,
                "entry": index,
                "term": term,
            },
            "new": {
                "cluster": new,
                "voters": [&self.place.site],
                "epoch": first.epoch.number(),
                "fence_floor": self.fences_above().to_string(),
            },
            "running": self.running.iter().map(|(site, _)| site).collect::<Vec<_>>(),
            "config": self.lines(),
        })
    }
}
