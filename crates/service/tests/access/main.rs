//! Authentication, access rights and limits of clients, over real sockets.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included: what fails must stop them")]

mod ending;
mod flood;
mod tls;

use std::sync::Arc;

use meshlock_cluster::access::{Access, RuleText, TokenHash, Tokens, Verb};
use meshlock_host::gate::{Audit, Each, Gate, Policy};

/// Returns a policy with these rules (principal, locks, verbs) and tokens (name, token).
fn policy(rules: &[(&str, &str, &[Verb])], tokens: &[(&str, &str)]) -> Policy {
    let rule = |(principal, locks, verbs): &(&str, &str, &[Verb])| RuleText {
        principal: (*principal).to_owned(),
        locks: (*locks).to_owned(),
        verbs: verbs.to_vec(),
    };
    let token = |(name, token): &(&str, &str)| (name.parse().unwrap(), TokenHash::of(token));
    Policy {
        access: Access::new(&rules.iter().map(rule).collect::<Vec<_>>()).unwrap(),
        tokens: Tokens::new(tokens.iter().map(token).collect()).unwrap(),
    }
}

fn gate(policy: Policy, each: Each) -> Arc<Gate> {
    Arc::new(Gate::new(policy, each, Audit::default()))
}
