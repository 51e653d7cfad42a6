//! Which algorithm a lock runs, by its name.
//!
//! Rules are a list of patterns with an algorithm and its permits each, and what holds for all other names. No two
//! patterns may match the same name, so that the order of the list never decides anything. They travel inside the view:
//! all members of a view apply the same ones, and a lock's algorithm changes with a view, also while it is held.

mod pattern;
#[cfg(test)]
mod tests;

use meshlock_protocol::registry::spec::SpecError;
use meshlock_protocol::registry::{AnyPlan, info::Permits};
use meshlock_protocol::{Cluster, PlanError, Spec};
use serde::{Deserialize, Serialize};

use crate::names::LockName;
pub use pattern::Pattern;

/// Why rules are refused. Nothing that a running cluster has agreed on changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// The algorithm or one of its options does not exist.
    #[error("rule '{pattern}': {error}")]
    Spec {
        /// The pattern of the rule.
        pattern: String,
        /// What is wrong with its algorithm.
        error: SpecError,
    },
    /// The algorithm cannot run so.
    #[error("rule '{pattern}': {error}")]
    Plan {
        /// The pattern of the rule.
        pattern: String,
        /// What is wrong with its permits or options.
        error: PlanError,
    },
    /// The option exists to show an error of a paper.
    #[error(
        "rule '{pattern}': {spec} is for the checker only: it breaks what a lock promises; leave the option away"
    )]
    CheckerOnly {
        /// The pattern of the rule.
        pattern: String,
        /// What was given.
        spec: String,
    },
    /// More permits than a view can hand out.
    #[error("rule '{pattern}': {given} {what}; give 1 to {most}")]
    Range {
        /// The pattern of the rule.
        pattern: String,
        /// Permits, or permits of one site.
        what: &'static str,
        /// How many were asked for.
        given: u32,
        /// How many there can be.
        most: u32,
    },
    /// Two rules could both decide.
    #[error("the rules '{first}' and '{second}' both match '{name}'; make them disjoint, or use the default")]
    Overlap {
        /// One pattern.
        first: String,
        /// The other.
        second: String,
        /// A name that both match.
        name: String,
    },
    /// A pattern that no lock could match, or that is not a pattern.
    #[error("the pattern '{pattern}' {why}")]
    BadPattern {
        /// As given.
        pattern: String,
        /// What is wrong.
        why: &'static str,
    },
    /// More rules than a view should carry.
    #[error("{given} rules; at most {most} are allowed")]
    TooMany {
        /// How many were given.
        given: usize,
        /// How many may be.
        most: usize,
    },
}

/// What one rule says, as it is written and as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Clause {
    /// The algorithm with its options.
    pub algorithm: String,
    /// K: how many may hold the lock at once.
    pub permits: u32,
    /// How many of them one site may hold at once.
    pub per_site: u32,
}

impl Clause {
    /// One permit.
    pub fn exclusive(algorithm: &str) -> Self {
        Clause::shared(algorithm, 1)
    }

    /// K permits, all of which one site may hold, as far as one site may hold several.
    pub fn shared(algorithm: &str, permits: u32) -> Self {
        let per_site = permits.min(Rules::MAX_PER_SITE);
        Clause { algorithm: algorithm.to_owned(), permits, per_site }
    }
}

/// Rules as they are written and as they travel: not yet checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RulesText {
    /// Patterns with what they say.
    pub rules: Vec<(String, Clause)>,
    /// What holds for names that no pattern matches.
    pub default: Clause,
}

impl Default for RulesText {
    fn default() -> Self {
        RulesText { rules: Vec::new(), default: Clause::exclusive("naimi-trehel") }
    }
}

/// What one lock runs.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The algorithm with its options.
    pub spec: Spec,
    /// K.
    pub permits: u32,
    /// How many of the K one site may hold at once.
    pub per_site: u32,
}

/// Rules that have been checked.
#[derive(Clone, Debug)]
pub struct Rules {
    text: RulesText,
    /// In the order of the patterns' text.
    named: Vec<(Pattern, Rule)>,
    default: Rule,
}

impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Rules {}

impl Rules {
    /// How many permits a lock may have.
    pub const MAX_PERMITS: u32 = 1024;
    /// How many permits of a lock one site may hold. A site takes part in the algorithm once for each, and each asks all
    /// others: more would flood the links.
    pub const MAX_PER_SITE: u32 = 32;
    /// How many rules a view may carry.
    pub const MAX_RULES: usize = 1000;

    /// Checks everything that can be checked without knowing who the members are.
    pub fn new(text: RulesText) -> Result<Self, RulesError> {
        if text.rules.len() > Self::MAX_RULES {
            return Err(RulesError::TooMany { given: text.rules.len(), most: Self::MAX_RULES });
        }
        let mut named = Vec::with_capacity(text.rules.len());
        for (pattern, clause) in &text.rules {
            named.push((Pattern::parse(pattern)?, checked(pattern, clause)?));
        }
        named.sort_by(|(a, _), (b, _)| a.cmp(b));
        // Sorted by text, a prefix comes right before what it is a prefix of.
        for pair in named.windows(2) {
            if let Some(name) = pair[0].0.overlap(&pair[1].0) {
                let (first, second) = (pair[0].0.to_string(), pair[1].0.to_string());
                return Err(RulesError::Overlap { first, second, name });
            }
        }
        let default = checked("(default)", &text.default)?;
        Ok(Rules { text, named, default })
    }

    /// Checks that every rule can run among so many members.
    pub fn fit(&self, members: usize) -> Result<(), RulesError> {
        let named = self.named.iter().map(|(pattern, rule)| (pattern.to_string(), rule));
        for (pattern, rule) in named.chain([("(default)".to_owned(), &self.default)]) {
            let plan = AnyPlan::new(&rule.spec, rule.cluster(members));
            plan.map_err(|error| RulesError::Plan { pattern, error })?;
        }
        Ok(())
    }

    /// What the lock `name` runs.
    pub fn rule(&self, name: &LockName) -> &Rule {
        self.named.get(self.number(name)).map_or(&self.default, |(_, rule)| rule)
    }

    /// Which rule the lock `name` follows: its place in the order of the patterns, behind all of them for the default.
    pub(crate) fn number(&self, name: &LockName) -> usize {
        let name = name.as_str();
        // The pattern that matches, if any, is the last one whose text is not behind the name: patterns are disjoint.
        let behind = self.named.partition_point(|(pattern, _)| pattern.text() <= name);
        let candidate = behind.checked_sub(1).filter(|&at| self.named[at].0.matches(name));
        candidate.unwrap_or(self.named.len())
    }

    /// The plans of all rules for so many members, by the rules' numbers.
    pub(crate) fn plans(&self, members: usize) -> Vec<AnyPlan> {
        let all = self.named.iter().map(|(_, rule)| rule).chain([&self.default]);
        all.map(|rule| rule.plan(members)).collect()
    }

    /// What locks run that no pattern matches.
    pub fn default_rule(&self) -> &Rule {
        &self.default
    }

    /// As they were written.
    pub fn text(&self) -> &RulesText {
        &self.text
    }
}

impl Rule {
    /// The size of the algorithm's cluster: every member takes part once for each permit that one site may hold.
    pub fn cluster(&self, members: usize) -> Cluster {
        Cluster::of(members.saturating_mul(self.per_site as usize)).with_permits(self.permits as usize)
    }

    /// The plan for so many members. Options that were right for the members of an earlier view may not fit those of a
    /// later one (a coordinator that is gone, a plane of the wrong order): then the algorithm runs with its defaults, which fit any
    /// cluster, rather than not at all.
    pub fn plan(&self, members: usize) -> AnyPlan {
        let cluster = self.cluster(members);
        let plain = || AnyPlan::new(&Spec::plain(self.spec.info), cluster);
        AnyPlan::new(&self.spec, cluster).or_else(|_| plain()).expect("the defaults fit any cluster")
    }
}

fn checked(pattern: &str, clause: &Clause) -> Result<Rule, RulesError> {
    let named = || pattern.to_owned();
    let spec: Spec =
        clause.algorithm.parse().map_err(|error| RulesError::Spec { pattern: named(), error })?;
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
    Ok(Rule { spec, permits: clause.permits, per_site: clause.per_site })
}
