//! The flags that define and bound an exploration.

use clap::Args;
use meshlock_check::{Bounds, Entries, NetworkModel, Properties, Property};
use meshlock_protocol::registry::AnyPlan;
use meshlock_protocol::registry::info::{Order, Tokens};
use meshlock_protocol::world::News;
use meshlock_protocol::{Algorithm, SiteId, Spec};

use crate::output::UsageError;

/// Maximum number of sites that fits into the explorer's packed states.
const MAX_SITES: usize = 16;

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
    /// A site that is inside at the start; can be repeated
    #[arg(long, value_name = "SITE")]
    holder: Vec<usize>,
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
        let bounds =
            bounds.held_by(&self.holder).map_err(|error| UsageError::new(format!("--holder: {error}")))?;
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
                    "--{flag}: not with failures, losses, duplicates or --entries endless{more}; leave the flag out"
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
        for (flag, count) in
            [("duplicates", self.duplicates.unwrap_or(0)), ("losses", self.losses), ("crashes", self.crashes)]
        {
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
    use super::bytes;

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
