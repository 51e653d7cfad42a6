//! The flags that define and bound an exploration.

use std::str::FromStr;

use clap::Args;
use meshlock_check::{Bounds, Entries, NetworkModel, Properties, Property};
use meshlock_protocol::registry::info::{Order, Tokens};
use meshlock_protocol::registry::{AnyPlan, check_demand};
use meshlock_protocol::world::News;
use meshlock_protocol::{Algorithm, Demand, Mode, Priority, SiteId, Spec};

use crate::output::UsageError;

/// Maximum number of sites that fits into the explorer's packed states.
const MAX_SITES: usize = 16;

/// The same where processes share: each site has a fence line of its own then.
const MAX_SHARING_SITES: usize = 7;

/// Maximum number of entries per site, and of faults of each kind: more would never fit into memory.
const MAX_COUNT: u8 = 100;

/// The flags that limit memory and threads.
#[derive(Clone, Debug, Args)]
pub(super) struct ResourceLimits {
    /// How much memory the states may take, such as 512MiB or 8GiB; when it is used up, states that are no longer needed are
    /// dropped
    #[arg(long, default_value = "8GiB", value_name = "SIZE")]
    memory: String,
    /// How many threads to use [default: one per core]
    #[arg(long, value_name = "T")]
    threads: Option<usize>,
}

impl ResourceLimits {
    /// Returns the memory in bytes.
    pub(super) fn memory(&self) -> Result<usize, UsageError> {
        bytes(&self.memory).ok_or_else(|| {
            UsageError::new(format!("--memory {}: give a size such as 512MiB or 8GiB", self.memory))
        })
    }

    /// Returns the number of threads; 0 means one per core.
    pub(super) fn threads(&self) -> Result<usize, UsageError> {
        match self.threads {
            Some(threads @ (0 | 257..)) => {
                Err(UsageError::new(format!("--threads {threads}: from 1 to 256")))
            }
            threads => Ok(threads.unwrap_or(0)),
        }
    }
}

/// Parses a size with its unit, such as `512MiB`, to bytes.
fn bytes(text: &str) -> Option<usize> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start() {
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(1 << shift).filter(|&bytes| bytes > 0)
}

/// The flags that define what is explored.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct Scope {
    /// How many sites, from 1 to 16
    #[arg(long, default_value_t = 3, value_name = "N")]
    sites: usize,
    /// How often each site enters, from 1 to 100, or `endless`: clocks and counters are made relative, and it finishes unless
    /// something else grows
    #[arg(long, default_value = "2", value_name = "R")]
    entries: String,
    /// With --entries endless: a site does not request while one of its numbers, or of its messages to one site in flight, is above W
    #[arg(long, value_name = "W")]
    window: Option<u8>,
    /// The network: fifo, unordered, or duplicating (unordered, and one message arrives twice) [default: what the algorithm
    /// requires]
    #[arg(long)]
    network: Option<String>,
    /// How many messages may arrive twice
    #[arg(long, value_name = "D")]
    duplicates: Option<u8>,
    /// How many messages may be lost
    #[arg(long, default_value_t = 0, value_name = "L")]
    losses: u8,
    /// How many sites may crash, each at any time
    #[arg(long, default_value_t = 0, value_name = "C")]
    crashes: u8,
    /// Crashed sites recover once all others know of the crash
    #[arg(long)]
    recover: bool,
    /// News of a failure may overtake messages that the failed site had sent
    #[arg(long)]
    news_overtake: bool,
    /// A failed site may recover before all others know of the failure; without --news-overtake, only once no message of it is on its
    /// way to those who do not
    #[arg(long)]
    news_late: bool,
    /// Nothing else happens between a failure and the moment at which all others know of it
    #[arg(long)]
    news_first: bool,
    /// Require that the surviving sites are served even if the algorithm itself handles no failures
    #[arg(long)]
    survivors: bool,
    /// How many sites may be inside the critical section at once
    #[arg(long, default_value_t = 1, value_name = "K")]
    permits: usize,
    /// A site that is inside at the start, exclusive, or SITE:MODE for one in another mode; can be repeated
    #[arg(long, value_name = "SITE")]
    holder: Vec<StartHolder>,
    /// Try each request in this mode: shared, upgradeable, exclusive, or `all` of them; can be repeated [default: exclusive]
    #[arg(long, visible_alias = "modes", value_name = "MODE")]
    mode: Vec<String>,
    /// Try each request with this priority, from 0 to 255; can be repeated [default: 0]
    #[arg(long, value_name = "P")]
    priority: Vec<u8>,
    /// How often a process that is inside may change its mode before it leaves, to any that processes ask for
    #[arg(long, default_value_t = 0, value_name = "C")]
    changes: u8,
    /// Let sites leave and request again in one step
    #[arg(long = "return")]
    returns: bool,
    /// Keep far fewer states: deliveries that nobody but their receiver notices are put off until they matter. Starvation, bypass and
    /// messages are not checked then, invariants that span sites only in the states that are kept, and a counterexample need not be the
    /// shortest
    #[arg(long)]
    reduce: bool,
    /// Keep one of the states that differ only in which site is which, where the algorithm treats sites alike; few do, and it says why not.
    /// For up to 6 sites. Starvation, bypass and messages are not checked then, invariants that span sites only in the states that are
    /// kept
    #[arg(long)]
    symmetry: bool,
    /// Check only this property; can be repeated (exclusion, deadlock, starvation, bypass, order, fences, tokens, invariants, refusals,
    /// quiet, messages) [default: all]
    #[arg(long, value_name = "NAME")]
    property: Vec<String>,
}

/// A site that is inside at the start, and its mode.
#[derive(Clone, Copy, Debug)]
struct StartHolder {
    site: usize,
    mode: Mode,
}

impl FromStr for StartHolder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (site, mode) = text.split_once(':').unwrap_or((text, Mode::Exclusive.name()));
        let site = site.parse().map_err(|error| format!("{error}"))?;
        Ok(StartHolder { site, mode: mode.parse().map_err(|error| format!("{error}"))? })
    }
}

impl Scope {
    /// Returns the bounds that the flags define for `spec`.
    pub(super) fn bounds(&self, spec: &Spec) -> Result<Bounds, UsageError> {
        self.check(spec)?;
        let network = match &self.network {
            None => NetworkModel::from(spec.info.channels),
            Some(name) => NetworkModel::named(name).ok_or_else(|| {
                let names = NetworkModel::ALL.map(NetworkModel::name).join(", ");
                UsageError::new(format!("--network {name}: one of {names}"))
            })?,
        };
        if network == NetworkModel::Duplicating && self.duplicates == Some(0) {
            return Err(UsageError::new(
                "--duplicates 0: the network `duplicating` duplicates at least one message; leave the flag out",
            ));
        }
        let bounds = Bounds::new(self.sites, 1).with_permits(self.permits);
        let bounds = bounds.with_duplicates(self.duplicates.unwrap_or(0)).over(network);
        let bounds = self.shared(spec, bounds)?;
        let bounds = Bounds {
            entries: self.entries()?,
            window: self.window,
            news: News { overtake: self.news_overtake, late: self.news_late },
            news_first: self.news_first,
            losses: self.losses,
            crashes: self.crashes,
            recoveries: self.recover,
            returns: self.returns,
            survivors: self.survivors,
            properties: self.properties()?,
            ..bounds
        };
        self.smaller(bounds)
    }

    /// Returns the bounds with what processes ask for, and with those that are inside at the start.
    fn shared(&self, spec: &Spec, bounds: Bounds) -> Result<Bounds, UsageError> {
        let at_start = |error: &dyn std::fmt::Display| UsageError::new(format!("--holder: {error}"));
        let (modes, priorities) = (self.modes()?, self.priorities());
        let held = self.holder.iter().map(|holder| (holder.site, holder.mode)).collect::<Vec<_>>();
        let is_plain = held.iter().all(|(_, mode)| *mode == Mode::Exclusive);
        let bounds = if is_plain {
            bounds.held_by(&held.iter().map(|(site, _)| *site).collect::<Vec<_>>())
        } else {
            bounds.shared_by(&held)
        };
        let bounds = bounds.map_err(|error| at_start(&error))?.demanding(&modes, &priorities);
        for &demand in &bounds.demands {
            let flag = if demand.mode == Mode::Exclusive { "--priority" } else { "--mode" };
            check_demand(bounds.cluster, &spec.values, demand)
                .map_err(|error| UsageError::new(format!("{flag}: {error}")))?;
        }
        for (_, mode) in &held {
            check_demand(bounds.cluster, &spec.values, Demand::of(*mode))
                .map_err(|error| at_start(&error))?;
        }
        if bounds.has_modes() && self.sites > MAX_SHARING_SITES {
            let why = format!("--sites {}: from 1 to {MAX_SHARING_SITES} with modes", self.sites);
            return Err(UsageError::new(why));
        }
        if self.changes > 0 && modes.len() < 2 {
            return Err(UsageError::new(format!(
                "--changes {}: processes ask for one mode only, and have none to change to; give --mode all too",
                self.changes
            )));
        }
        Ok(Bounds { changes: self.changes, ..bounds })
    }

    fn modes(&self) -> Result<Vec<Mode>, UsageError> {
        let mut modes = Vec::new();
        for name in &self.mode {
            let named = match name.as_str() {
                "all" => Mode::ALL.to_vec(),
                name => vec![
                    name.parse()
                        .map_err(|error| UsageError::new(format!("--mode: {error}, or all of them")))?,
                ],
            };
            modes.extend(named);
        }
        if modes.is_empty() {
            modes.push(Mode::Exclusive);
        }
        modes.sort_unstable();
        modes.dedup();
        Ok(modes)
    }

    fn priorities(&self) -> Vec<Priority> {
        let mut priorities: Vec<Priority> = self.priority.iter().copied().map(Priority).collect();
        if priorities.is_empty() {
            priorities.push(Priority::default());
        }
        priorities.sort_unstable();
        priorities.dedup();
        priorities
    }

    /// Returns the bounds of a search that keeps fewer states, if a flag asks for one.
    fn smaller(&self, bounds: Bounds) -> Result<Bounds, UsageError> {
        let mut smaller = bounds.clone();
        let reduces = (self.reduce, bounds.can_be_reduced(), "", Bounds::reduced as fn(Bounds) -> Bounds);
        let is_alike = bounds.can_be_explored_alike();
        let exchanges =
            (self.symmetry, is_alike, ", nor with more than 6 sites", Bounds::up_to_symmetry as _);
        for (flag, (given, is_possible, more, apply)) in [("reduce", reduces), ("symmetry", exchanges)] {
            if !given {
                continue;
            }
            if !is_possible {
                return Err(UsageError::new(format!(
                    "--{flag}: not with failures, losses, duplicates, modes, priorities or --entries endless{more}; leave the flag out"
                )));
            }
            smaller = apply(smaller);
            let dropped = bounds.properties.iter().find(|&property| !smaller.properties.contains(property));
            if let Some(property) = dropped.filter(|_| !self.property.is_empty()) {
                return Err(UsageError::new(format!(
                    "--property {}: a search with --{flag} does not decide it; leave --{flag} out",
                    property.name()
                )));
            }
        }
        Ok(smaller)
    }

    fn check(&self, spec: &Spec) -> Result<(), UsageError> {
        let Scope { sites, permits, .. } = self;
        let fail = |why: String| Err(UsageError::new(why));
        if !(1..=MAX_SITES).contains(sites) {
            return fail(format!("--sites {sites}: from 1 to {MAX_SITES}"));
        }
        if *permits == 0 || permits.saturating_mul(*sites) > 64 {
            return fail(format!("--permits {permits}: at least 1, and --permits times --sites at most 64"));
        }
        for (flag, count) in [
            ("duplicates", self.duplicates.unwrap_or(0)),
            ("losses", self.losses),
            ("crashes", self.crashes),
            ("changes", self.changes),
        ] {
            if count > MAX_COUNT {
                return fail(format!("--{flag} {count}: from 0 to {MAX_COUNT}"));
            }
        }
        if self.window.is_some() && self.entries != "endless" {
            return fail("--window: only a run with --entries endless has one".to_owned());
        }
        if self.news_late && !self.recover {
            return fail("--news-late: no failed site recovers; give --recover too".to_owned());
        }
        let failing = [
            ("recover", self.recover),
            ("survivors", self.survivors),
            ("news-overtake", self.news_overtake),
            ("news-first", self.news_first),
        ];
        for (flag, given) in failing {
            if given && self.crashes == 0 {
                return fail(format!("--{flag}: nothing fails; give --crashes 1 too"));
            }
        }
        if self.recover && !spec.info.failures.recovery {
            return fail(format!(
                "--recover: {} leaves the return of a failed site to its host; leave the flag out",
                spec.info.name
            ));
        }
        Ok(())
    }

    fn entries(&self) -> Result<Entries, UsageError> {
        if self.entries == "endless" {
            return Ok(Entries::Endless);
        }
        let count = self.entries.parse().ok().filter(|count| (1..=MAX_COUNT).contains(count));
        count.map(Entries::Each).ok_or_else(|| {
            UsageError::new(format!("--entries {}: from 1 to {MAX_COUNT}, or endless", self.entries))
        })
    }

    fn properties(&self) -> Result<Properties, UsageError> {
        if self.property.is_empty() {
            return Ok(Properties::all());
        }
        let named = self.property.iter().map(|name| {
            Property::named(name).ok_or_else(|| {
                let names = Property::ALL.map(Property::name).join(", ");
                UsageError::new(format!("--property {name}: one of {names}"))
            })
        });
        named.collect()
    }
}

/// Returns the names of the checked properties that apply to this algorithm.
pub(super) fn checked(spec: &Spec, bounds: &Bounds) -> Vec<&'static str> {
    let info = spec.info;
    let bypass = AnyPlan::new(spec, bounds.cluster)
        .is_ok_and(|plan| plan.start(SiteId::first::<1>()[0], &bounds.holders).bypass_claim().is_some());
    let applies = |property: &Property| match property {
        Property::Tokens => info.tokens != Tokens::None,
        Property::Order => info.order == Order::Timestamp,
        Property::Bypass => bypass,
        Property::Fences => bounds.cluster.permits == 1 || info.tokens == Tokens::PerPermit,
        Property::Exclusion
        | Property::Deadlock
        | Property::Starvation
        | Property::Invariants
        | Property::Refusals
        | Property::Quiet
        | Property::Messages => true,
    };
    bounds.properties.iter().filter(applies).map(Property::name).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use meshlock_check::{Bounds, NetworkModel, command};
    use meshlock_protocol::{Mode, Spec};

    use super::{Scope, bytes};

    #[derive(Parser)]
    struct Line {
        algorithm: String,
        #[command(flatten)]
        scope: Scope,
    }

    /// The bounds that the flags of a command describe.
    fn read(line: &str) -> Result<Bounds, String> {
        let words = line.strip_prefix("meshlock ").expect("a command").split(' ');
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        let spec: Spec = line.algorithm.parse().expect("a registered name");
        line.scope.bounds(&spec).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_of_a_run_with_modes_describes_the_same_run() {
        let spec: Spec = "ricart-agrawala:modes".parse().unwrap();
        let run = Bounds::new(3, 1).over(NetworkModel::Unordered);
        let shared = run.clone().with_modes(&[Mode::Shared, Mode::Exclusive]).with_changes(2);
        let held = shared.clone().shared_by(&[(0, Mode::Upgradeable), (2, Mode::Shared)]).unwrap();
        for bounds in [run.clone(), run.with_modes(&Mode::ALL), shared, held] {
            let again = read(&command(&spec, &bounds)).unwrap();
            assert_eq!(format!("{again:?}"), format!("{bounds:?}"));
        }
        let all = read("meshlock check ricart-agrawala:modes --modes all").unwrap();
        assert_eq!(all.demands.len(), 3);
    }

    #[test]
    fn what_an_algorithm_does_not_know_is_refused_with_those_that_do() {
        let refusal = |flags: &str| read(&format!("meshlock check {flags}")).unwrap_err();
        let error = refusal("raymond --mode shared");
        assert!(
            error.starts_with("--mode: raymond knows no mode but exclusive; for shared take one of: "),
            "{error}"
        );
        assert!(error.contains("ricart-agrawala:modes"), "{error}");
        assert!(refusal("raymond --priority 3").contains("knows no priorities"));
        assert!(refusal("raymond --holder 1:shared").contains("--holder: raymond knows no mode"));
        assert!(refusal("raymond --mode write").contains("'write' is no mode"));
        assert!(refusal("ricart-agrawala:modes --changes 1").contains("give --mode all too"));
        assert!(refusal("ricart-agrawala:modes --mode all --reduce").contains("--reduce: not with"));
        assert!(refusal("ricart-agrawala:modes --mode all --sites 8").contains("from 1 to 7 with modes"));
    }

    #[test]
    fn sizes_have_a_unit() {
        assert_eq!(bytes("512MiB"), Some(512 << 20));
        assert_eq!(bytes("8 GiB"), Some(8 << 30));
        for wrong in
            ["8", "8GB", "GiB", "-1GiB", "0GiB", "99999999999999999999GiB", "18446744073709551615KiB"]
        {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
