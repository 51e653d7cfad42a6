//! Rules: which algorithm a lock runs, by the lock's name.
//!
//! Rules are a list of patterns, each with an algorithm and its permits, and a default for all other names. No two
//! patterns may match the same name, so that the order of the list never decides anything. Rules are part of the view:
//! all members of a view apply the same ones, and a lock's algorithm changes with a view, even while it is held.

pub mod deadlock;
mod pattern;
#[cfg(test)]
mod tests;

use meshlock_protocol::registry::spec::SpecError;
use meshlock_protocol::registry::{AnyPlan, info::Permits};
use meshlock_protocol::{Cluster, Demand, Mode, PlanError, Spec};
use serde::{Deserialize, Serialize};

use crate::names::LockName;
pub use pattern::Pattern;

/// Number of machines at each member of a lock that clients may share: one for those who share it, one for who may upgrade or is
/// alone, and one that asks meanwhile.
const MODE_LANES: u32 = 3;

/// The reason why rules are rejected. It changes nothing that a running cluster has agreed on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// The algorithm or one of its options does not exist.
    #[error("rule '{pattern}': {error}")]
    Spec { pattern: String, error: SpecError },
    /// The algorithm cannot run with these permits or options.
    #[error("rule '{pattern}': {error}")]
    Plan { pattern: String, error: PlanError },
    /// The option exists only to demonstrate an error in a paper.
    #[error(
        "rule '{pattern}': {spec} is for the checker only: it breaks what a lock promises; remove the option"
    )]
    CheckerOnly { pattern: String, spec: String },
    /// The option `on-deadlock` has a value that does not exist.
    #[error(
        "rule '{pattern}': on-deadlock={given}; give on-deadlock=refuse, or leave the option out to wait"
    )]
    DeadlockOption { pattern: String, given: String },
    /// There are more permits than a view can have.
    #[error("rule '{pattern}': {given} {what}; give 1 to {most}")]
    Range {
        pattern: String,
        /// "permits", or "permits for one site".
        what: &'static str,
        given: u32,
        most: u32,
    },
    /// Two patterns match the same name.
    #[error("the rules '{first}' and '{second}' both match '{name}'; make them disjoint, or use the default")]
    Overlap {
        first: String,
        second: String,
        /// A name that both match.
        name: String,
    },
    /// The pattern is malformed, or no lock could match it.
    #[error("the pattern '{pattern}' {why}")]
    BadPattern { pattern: String, why: &'static str },
    /// There are more rules than a view may carry.
    #[error("{given} rules; at most {most} are allowed")]
    TooMany { given: usize, most: usize },
}

/// The text of one rule, as it is written and as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Clause {
    /// The algorithm with its options.
    pub algorithm: String,
    /// K: the maximum number of concurrent holders.
    pub permits: u32,
    /// Maximum number of permits that one site may hold at once.
    pub per_site: u32,
}

impl Clause {
    /// Returns a clause with one permit.
    pub fn exclusive(algorithm: &str) -> Self {
        Clause::shared(algorithm, 1)
    }

    /// Returns a clause with K permits, all of which one site may hold, if the algorithm allows a site to hold several.
    pub fn shared(algorithm: &str, permits: u32) -> Self {
        let per_site = permits.min(Rules::MAX_PER_SITE);
        Clause { algorithm: algorithm.to_owned(), permits, per_site }
    }
}

/// Rules as they are written and as they travel: not yet checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RulesText {
    /// Patterns with their clauses.
    pub rules: Vec<(String, Clause)>,
    /// The clause for names that no pattern matches.
    pub default: Clause,
}

impl Default for RulesText {
    fn default() -> Self {
        RulesText { rules: Vec::new(), default: Clause::exclusive("naimi-trehel") }
    }
}

/// What one lock runs.
#[derive(Clone, Debug)]
pub struct LockRule {
    /// The algorithm with its options.
    pub spec: Spec,
    /// K: the maximum number of concurrent holders.
    pub permits: u32,
    /// Maximum number of the K permits that one site may hold at once.
    pub per_site: u32,
    /// Whether the youngest request of a [deadlock](crate::report::Deadlock) is refused if it waits for this lock.
    pub refuses_deadlocks: bool,
}

/// Rules that have been checked.
#[derive(Clone, Debug)]
pub struct Rules {
    text: RulesText,
    /// Sorted by the text of the pattern.
    named: Vec<(Pattern, LockRule)>,
    default: LockRule,
}

impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Rules {}

impl Rules {
    /// Maximum number of permits of a lock.
    pub const MAX_PERMITS: u32 = 1024;
    /// Maximum number of permits of a lock with a rule that one site may hold. A site takes part in the algorithm once
    /// for each, and each asks all others: more would flood the links. Without a rule there is no such limit.
    pub(crate) const MAX_PER_SITE: u32 = 128;
    /// Maximum number of rules of a view.
    pub(crate) const MAX_RULES: usize = 1000;

    /// Checks everything that can be checked without knowing the members.
    pub fn new(text: RulesText) -> Result<Self, RulesError> {
        if text.rules.len() > Self::MAX_RULES {
            return Err(RulesError::TooMany { given: text.rules.len(), most: Self::MAX_RULES });
        }
        let mut named = Vec::with_capacity(text.rules.len());
        for (pattern, clause) in &text.rules {
            named.push((Pattern::parse(pattern)?, checked(pattern, clause)?));
        }
        named.sort_by(|(a, _), (b, _)| a.cmp(b));
        // Sorted by text, a prefix comes right before the names that begin with it.
        for pair in named.windows(2) {
            if let Some(name) = pair[0].0.overlap(&pair[1].0) {
                let (first, second) = (pair[0].0.to_string(), pair[1].0.to_string());
                return Err(RulesError::Overlap { first, second, name });
            }
        }
        let default = checked("(default)", &text.default)?;
        Ok(Rules { text, named, default })
    }

    /// Checks that every rule can run with this many members.
    pub fn fit(&self, members: usize) -> Result<(), RulesError> {
        let named = self.named.iter().map(|(pattern, rule)| (pattern.to_string(), rule));
        for (pattern, rule) in named.chain([("(default)".to_owned(), &self.default)]) {
            let plan = AnyPlan::new(&rule.spec, rule.cluster(members, rule.lanes(&rule.spec, true)));
            plan.map_err(|error| RulesError::Plan { pattern, error })?;
        }
        Ok(())
    }

    /// Returns the rule for the lock `name`.
    pub fn rule(&self, name: &LockName) -> &LockRule {
        self.rule_for(name.as_str())
    }

    /// Returns the rule for the lock whose name is this text.
    pub(crate) fn rule_for(&self, name: &str) -> &LockRule {
        self.named.get(self.number_for(name)).map_or(&self.default, |(_, rule)| rule)
    }

    /// Returns whether a pattern of the rules matches the lock `name`; otherwise it follows the default rule.
    pub fn names(&self, name: &LockName) -> bool {
        self.number(name) < self.named.len()
    }

    /// Returns the number of the rule that the lock `name` follows: its index in the sorted patterns, or the number of
    /// patterns for the default.
    pub(crate) fn number(&self, name: &LockName) -> usize {
        self.number_for(name.as_str())
    }

    fn number_for(&self, name: &str) -> usize {
        // The pattern that matches, if any, is the last one whose text is not greater than the name, because patterns
        // are disjoint.
        let behind = self.named.partition_point(|(pattern, _)| pattern.text() <= name);
        let candidate = behind.checked_sub(1).filter(|&at| self.named[at].0.matches(name));
        candidate.unwrap_or(self.named.len())
    }

    /// Returns the plans of all rules for this many members, indexed by the rules' numbers.
    /// Without modes clients can make only plain demands.
    pub(crate) fn plans(&self, members: usize, with_modes: bool) -> Vec<RulePlan> {
        let all = self.named.iter().map(|(_, rule)| rule).chain([&self.default]);
        all.map(|rule| RulePlan::new(rule, members, with_modes)).collect()
    }

    /// Returns whether some rule says that deadlocks are refused.
    pub(crate) fn refuse_deadlocks(&self) -> bool {
        self.named.iter().map(|(_, rule)| rule).chain([&self.default]).any(|rule| rule.refuses_deadlocks)
    }

    /// Returns the rule for locks that no pattern matches.
    pub fn default_rule(&self) -> &LockRule {
        &self.default
    }

    /// Returns the rules as they were written.
    pub(crate) fn text(&self) -> &RulesText {
        &self.text
    }
}

impl LockRule {
    /// Returns the size of the algorithm's cluster: every member takes part once for each of its lanes.
    fn cluster(&self, members: usize, lanes: u32) -> Cluster {
        Cluster::of(members.saturating_mul(lanes as usize)).with_permits(self.permits as usize)
    }

    /// Returns how many machines run at each member: one for each permit that a site may hold, or those of a lock that clients may
    /// share.
    fn lanes(&self, spec: &Spec, with_modes: bool) -> u32 {
        let knows_modes = spec.values.know(Demand::of(Mode::Shared));
        if with_modes && self.permits == 1 && knows_modes { MODE_LANES } else { self.per_site }
    }

    /// Returns the plan for this many members. Options that were valid for the members of an earlier view may not fit
    /// those of a later one (a coordinator that is gone, a plane of the wrong order): then the algorithm runs with its
    /// defaults, which fit any cluster, rather than not at all.
    pub fn plan(&self, members: usize) -> AnyPlan {
        RulePlan::new(self, members, true).plan
    }
}

/// What the machines of a rule share in one view.
#[derive(Clone, Debug)]
pub(crate) struct RulePlan {
    plan: AnyPlan,
    /// The algorithm with the options that it runs with.
    spec: Spec,
    cluster: Cluster,
    lanes: u32,
}

impl RulePlan {
    fn new(rule: &LockRule, members: usize, with_modes: bool) -> Self {
        let planned = |spec: Spec| {
            let lanes = rule.lanes(&spec, with_modes);
            let cluster = rule.cluster(members, lanes);
            AnyPlan::new(&spec, cluster).map(|plan| RulePlan { plan, spec, cluster, lanes })
        };
        let plain = |_| planned(Spec::plain(rule.spec.info));
        planned(rule.spec.clone()).or_else(plain).expect("the defaults fit any cluster")
    }

    /// Returns what the machines are started from.
    pub(crate) fn plan(&self) -> &AnyPlan {
        &self.plan
    }

    pub(crate) fn cluster(&self) -> Cluster {
        self.cluster
    }

    /// Returns the number of machines at each member.
    pub(crate) fn lanes(&self) -> u32 {
        self.lanes
    }

    pub(crate) fn algorithm(&self) -> &'static str {
        self.spec.info.name
    }

    /// Returns whether the algorithm, with the options that it runs with, knows this demand.
    pub(crate) fn knows(&self, demand: Demand) -> bool {
        self.spec.values.know(demand)
    }

    /// Returns whether clients may share the lock: every member has lanes for that.
    pub(crate) fn is_shared(&self) -> bool {
        self.cluster.permits == 1 && self.lanes > 1
    }
}

fn checked(pattern: &str, clause: &Clause) -> Result<LockRule, RulesError> {
    let named = || pattern.to_owned();
    let (algorithm, refuses_deadlocks) = deadlock::option_of(&clause.algorithm)
        .map_err(|given| RulesError::DeadlockOption { pattern: named(), given: given.to_owned() })?;
    let spec: Spec = algorithm.parse().map_err(|error| RulesError::Spec { pattern: named(), error })?;
    if spec.is_for_checker_only() {
        return Err(RulesError::CheckerOnly { pattern: named(), spec: spec.to_string() });
    }
    let most = Rules::MAX_PERMITS;
    if clause.permits == 0 || clause.permits > most {
        return Err(RulesError::Range { pattern: named(), what: "permits", given: clause.permits, most });
    }
    if clause.permits > 1 && spec.info.permits == Permits::One {
        let error = AnyPlan::new(&spec, Cluster::of(1).with_permits(clause.permits as usize));
        let error = error.expect_err("one permit is all that it can give");
        return Err(RulesError::Plan { pattern: named(), error });
    }
    let most = clause.permits.min(Rules::MAX_PER_SITE);
    if clause.per_site == 0 || clause.per_site > most {
        let (what, given) = ("permits for one site", clause.per_site);
        return Err(RulesError::Range { pattern: named(), what, given, most });
    }
    Ok(LockRule { spec, permits: clause.permits, per_site: clause.per_site, refuses_deadlocks })
}
